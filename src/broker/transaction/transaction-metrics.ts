// How many half messages of each topic are open (config/transactionMetrics), for monitors. Counted, not derived: a crash may leave it a few
// off, and a file that cannot be read is begun anew with one line. RocketMQ: TransactionMetrics, TransactionMetricsFlushService.

import { errorText, type Timer } from '../../common/index.ts';
import type { JsonObject } from '../../remoting/index.ts';
import { toJson } from '../../remoting/index.ts';
import type { BrokerConfig } from '../broker-config.ts';
import { type ConfigEnvironment, ConfigManager, type ConfigSource } from '../config-manager.ts';
import { DataVersion } from '../data-version.ts';
import { readDataVersion, readInteger, readObject } from '../json-fields.ts';

interface Count {
  count: number;
  /** Ms since the epoch of the last change. */
  timeStamp: number;
}

export class TransactionMetrics extends ConfigManager {
  readonly dataVersion: DataVersion;
  readonly #config: BrokerConfig;
  readonly #counts = new Map<string, Count>();
  #timer: Timer | undefined;
  #stopped = false;

  constructor(environment: ConfigEnvironment, config: BrokerConfig) {
    super(environment, 'transactionMetrics');
    this.#config = config;
    this.dataVersion = new DataVersion(environment.clock.now());
  }

  override load(): ConfigSource {
    try {
      return super.load();
    } catch (error) {
      this.environment.logger.warn(`the counts of open transactions begin anew: ${errorText(error)}`);
      return 'defaults';
    }
  }

  /** Open half messages of a topic. */
  count(topic: string): number {
    return this.#counts.get(topic)?.count ?? 0;
  }

  topics(): IterableIterator<string> {
    return this.#counts.keys();
  }

  add(topic: string, change: number): void {
    const now = this.environment.clock.now();
    const entry = this.#counts.get(topic);
    if (entry === undefined) this.#counts.set(topic, { count: change, timeStamp: now });
    else {
      entry.count += change;
      entry.timeStamp = now;
    }
    this.dataVersion.next(now);
    this.markChanged();
    this.#saveLater();
  }

  /** From now on it is saved by `persistLast` alone. */
  stop(): void {
    this.#stopped = true;
    this.#timer?.cancel();
    this.#timer = undefined;
  }

  /** One timer after a change; none without. */
  #saveLater(): void {
    if (this.#stopped) return;
    this.#timer ??= this.environment.clock.after(this.#config.transactionMetricFlushInterval, () => {
      this.#timer = undefined;
      this.persistInSlices(() => {
        if (this.changed) this.#saveLater();
      });
    });
  }

  protected override *encode(): Iterable<string> {
    yield toJson({ dataVersion: this.dataVersion.fields(), transactionCount: Object.fromEntries(this.#counts) });
  }

  protected override decode(json: JsonObject): void {
    const table = readObject(json, 'transactionCount') ?? {};
    const version = readDataVersion(json);
    for (const topic of Object.keys(table)) {
      const entry = readObject(table, topic);
      if (entry === undefined) continue;
      this.#counts.set(topic, {
        count: readInteger(entry, 'count') ?? 0,
        timeStamp: readInteger(entry, 'timeStamp') ?? 0,
      });
    }
    if (version !== undefined) this.dataVersion.assign(version);
  }
}
