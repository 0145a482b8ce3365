// How far each delay level is: config/delayOffset.json. What is written is never ahead of what is synced, so a power cut repeats deliveries of
// the last seconds and loses none.

import type { JsonObject } from '../../remoting/index.ts';
import type { MessageStore } from '../../store/index.ts';
import type { BrokerConfig } from '../broker-config.ts';
import { type ConfigEnvironment, ConfigManager } from '../config-manager.ts';
import { DataVersion } from '../data-version.ts';
import { readDataVersion, readIntegerMap } from '../json-fields.ts';
import { prettyJson } from '../pretty-json.ts';
import { SCHEDULE_TOPIC } from '../topic/topic-names.ts';

export class DelayOffsets extends ConfigManager {
  readonly dataVersion: DataVersion;
  readonly #config: BrokerConfig;
  readonly #store: MessageStore;
  /** Level, next offset. */
  readonly #offsets = new Map<number, number>();
  /** What the file may say: offsets whose deliveries are synced. */
  #safe = new Map<number, number>();
  /** Offsets that become safe when the log is flushed to `end`. */
  #pending: { offsets: Map<number, number>; end: number } | undefined;
  #updates = 0;

  constructor(environment: ConfigEnvironment, { config, store }: { config: BrokerConfig; store: MessageStore }) {
    super(environment, 'delayOffset.json');
    this.#config = config;
    this.#store = store;
    this.dataVersion = new DataVersion(environment.clock.now());
  }

  /** Next offset of a level. */
  of(level: number): number {
    return this.#offsets.get(level) ?? 0;
  }

  /** As `of`, of what is synced. */
  safeOf(level: number): number {
    return this.#safe.get(level) ?? 0;
  }

  /** Levels that have delivered something, and their next offsets. */
  entries(): Iterable<[number, number]> {
    return this.#offsets;
  }

  protected override *encode(): Iterable<string> {
    const ordered = new Map([...this.#safe].sort((a, b) => a[0] - b[0]));
    yield prettyJson({ dataVersion: this.dataVersion.fields(), offsetTable: ordered });
  }

  protected override decode(json: JsonObject): void {
    const offsets = readIntegerMap(json, 'offsetTable');
    const version = readDataVersion(json);
    for (const [level, offset] of offsets) this.#offsets.set(level, offset);
    this.#safe = new Map(this.#offsets);
    if (version !== undefined) this.dataVersion.assign(version);
  }

  /** Positions outside their queue, from a copied store or a cut log, would never deliver. */
  correct(): void {
    const store = this.#store;
    for (const [level, offset] of this.#offsets) {
      const min = store.minOffsetInQueue(SCHEDULE_TOPIC, level - 1);
      const max = store.maxOffsetInQueue(SCHEDULE_TOPIC, level - 1);
      const corrected = Math.min(Math.max(offset, min), Math.max(min, max));
      if (corrected === offset) continue;
      this.environment.logger.warn(
        `delay level ${level}: position ${offset} is outside its queue, ${min} to ${max}; it continues at ${corrected}`,
      );
      this.set(level, corrected);
    }
    this.#safe = new Map(this.#offsets);
  }

  /** What is delivered of a level up to here is in the log. */
  set(level: number, offset: number): void {
    if (this.#offsets.get(level) === offset) return;
    this.#offsets.set(level, offset);
    this.markChanged();
    if (++this.#updates >= this.#config.delayOffsetUpdateVersionStep) {
      this.#updates = 0;
      this.dataVersion.next(this.environment.clock.now());
    }
  }

  /** Lets the file say what has been synced since the last time, and takes note of what is delivered now. */
  save(): void {
    const { watermarks } = this.#store;
    this.#settlePending();
    if (this.#pending === undefined) {
      if (watermarks.flushed >= watermarks.wrote) this.#safe = new Map(this.#offsets);
      else this.#pending = { offsets: new Map(this.#offsets), end: watermarks.wrote };
    }
    this.persistInSlices();
    if (!sameOffsets(this.#safe, this.#offsets)) this.markChanged();
  }

  /** For the end, when all that is set is in the closed store. */
  async close(): Promise<void> {
    const { flushed, wrote } = this.#store.watermarks;
    // Where the last sync has failed, what was safe before is all that the file may say.
    this.#settlePending();
    if (flushed >= wrote) this.#safe = new Map(this.#offsets);
    this.#pending = undefined;
    this.markChanged();
    await this.persistLast();
  }

  #settlePending(): void {
    if (this.#pending === undefined || this.#store.watermarks.flushed < this.#pending.end) return;
    this.#safe = this.#pending.offsets;
    this.#pending = undefined;
  }
}

function sameOffsets(a: ReadonlyMap<number, number>, b: ReadonlyMap<number, number>): boolean {
  if (a.size !== b.size) return false;
  for (const [level, offset] of a) if (b.get(level) !== offset) return false;
  return true;
}
