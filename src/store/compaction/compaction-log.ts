// One queue of a compaction topic: takes records in from the CommitLog, in the order of its ConsumeQueue, and answers pulls from what it has.
//
//   ConsumeQueue unit ─► record of the CommitLog ─► has it a key? ─► log file and queue file        `taken`: ordinals below are looked at
//                                                                        └─ sync, behind a sync of the CommitLog    `durable`: and are safe
//
// Nothing is done for it at a send or at dispatch. A pull takes in what has come since, as far as it is in memory; the rest is done in the
// background. RocketMQ: CompactionLog, fed by CommitLogDispatcherCompaction.

import { type Clock, errorText, GantryError, type Logger, SeldomWarning, viewOf } from '../../common/index.ts';
import { RecordView, readRecord, Verify } from '../../message/index.ts';
import type { GetRequest, GetResult } from '../read/get.ts';
import { QueueUnits } from '../read/queue-units.ts';
import { NOBODY_WAITS, settled } from '../read/select-rules.ts';
import type { ReadCache, ReadLane, Ready } from '../segment/index.ts';
import type { MessageStoreConfig } from '../store-config.ts';
import type { CompactionPositions } from './compaction-positions.ts';
import { CompactionReads } from './compaction-reads.ts';
import type { FilePair, PairList } from './pair-list.ts';
import { KeyLook } from './record-copy.ts';
import { nextTurn } from './waits.ts';

/** Units that one look takes. */
const STEP_UNITS = 128;
/** So long a flush waits for what is to be taken in. */
const FLUSH_WAIT_MS = 1000;
/** Bytes that a pull takes in before it lets others run. */
const SLICE_BYTES = 256 * 1024;

/** The queue and the CommitLog, as the compaction log sees them. */
export interface CompactionSource {
  /** undefined: there is no such queue. */
  bounds(topic: string, queueId: number): { readonly minOffset: number; readonly maxOffset: number } | undefined;
  units(topic: string, queueId: number, offset: number, count: number, units: QueueUnits, ready: Ready): boolean;
  recordInMemory(offset: number, out: RecordView): Uint8Array | undefined;
  recordAt(offset: number): Promise<Uint8Array | undefined>;
  /** Start of the CommitLog. */
  readonly logMinimum: number;
  /** Whether a topic was deleted so lately that what is found of it may be of its earlier life. */
  mayBeOfDeleted(topic: string): boolean;
  /** Makes the CommitLog durable below `offset`. @throws GantryError IO, DISK_FULL. */
  syncLog(offset: number): Promise<void>;
  /** Lets the ordinals of a queue that is gone go on at `offset`. */
  continueAt(topic: string, queueId: number, offset: number): void;
}

/** What all compaction logs of a store share. */
export interface CompactionHost {
  readonly clock: Clock;
  readonly logger: Logger;
  readonly root: string;
  readonly config: MessageStoreConfig;
  readonly cache: ReadCache;
  readonly reads: ReadLane;
  readonly source: CompactionSource;
  readonly positions: CompactionPositions;
  readonly inMemoryBytes: number;
}

export class CompactionLog {
  readonly topic: string;
  readonly queueId: number;
  /** As `position-checkpoint` names it. */
  readonly name: string;
  readonly list: PairList;
  readonly reads: CompactionReads;
  /** Ordinals below were looked at. */
  taken: number;
  /** Ordinals below were looked at, and what came of it is on disk. */
  durable: number;
  /** End of the newest record in the CommitLog that was taken. */
  takenEnd = 0;
  /** Grows when something is cut: what was read before does not count. */
  cuts = 0;
  /** Records that have no key, are damaged in the CommitLog, or too long; since the start. */
  readonly left = { noKey: 0, damaged: 0, tooLong: 0 };
  readonly host: CompactionHost;
  readonly #seldom: SeldomWarning;
  readonly #units = new QueueUnits();
  readonly #record = new RecordView();
  readonly #key = new KeyLook();
  readonly #topicBytes: Uint8Array;
  #behind: Promise<void> | undefined;
  /** Taking in has failed, and is tried again later. */
  #stalled = false;
  #closed = false;
  #flushing: Promise<boolean> = Promise.resolve(true);
  readonly #waiters: Ready[] = [];
  /** Places of damaged records that were told of. */
  readonly #told = new Set<number>();
  /** Asked to try again. */
  onPendingCut: () => void = () => {};
  /** Nobody knows what the disk holds of what was not durable: it must be written again. */
  onSyncFailed: () => void = () => {};
  /** Ordinals from here on are to be cut, which has failed, and nothing is taken in before. */
  pendingCut: number | undefined;
  /** Told of damage, which may be mended. */
  onDamage: (pair: FilePair, position: number) => void = () => {};

  constructor(topic: string, queueId: number, list: PairList, host: CompactionHost) {
    this.topic = topic;
    this.queueId = queueId;
    this.name = `${topic}_${queueId}`;
    this.list = list;
    this.host = host;
    this.#topicBytes = Buffer.from(topic, 'utf8');
    this.#seldom = new SeldomWarning(host.clock, host.logger);
    const { cache, config, inMemoryBytes } = host;
    this.reads = new CompactionReads({
      list,
      cache,
      config,
      inMemoryBytes,
      onDamage: (pair, position, reason) => this.tellDamage(pair, position, reason),
    });
    this.reads.maxOffset = list.maxOffset;
    this.taken = list.maxOffset;
    this.durable = this.taken;
  }

  /** Ordinals that are dispatched and not taken in. */
  get behind(): number {
    const bounds = this.host.source.bounds(this.topic, this.queueId);
    return bounds === undefined ? 0 : Math.max(0, bounds.maxOffset - this.taken);
  }

  /** As `MessageStore.select`; `result` is empty. */
  select(request: GetRequest, result: GetResult, ready: Ready): boolean {
    const upToDate = this.takeFromMemory();
    if (!upToDate && request.offset >= this.reads.maxOffset) {
      if (this.#stalled) return this.reads.nothingYet(request, result);
      this.#waiters.push(ready);
      this.takeLater();
      return false;
    }
    return this.reads.select(request, result, ready);
  }

  // --- Taking in

  /** Takes in what is dispatched, as far as it is in memory and fits into a slice; whether nothing is left. */
  takeFromMemory(): boolean {
    const { source } = this.host;
    const bounds = source.bounds(this.topic, this.queueId);
    if (this.#closed || bounds === undefined || bounds.maxOffset <= this.taken) return true;
    if (this.pendingCut !== undefined) {
      this.#stalled = true;
      return false;
    }
    this.#skipRemoved(bounds.minOffset);
    let bytes = 0;
    try {
      while (this.taken < bounds.maxOffset && bytes < SLICE_BYTES) {
        const units = this.#units;
        const known = source.units(this.topic, this.queueId, this.taken, STEP_UNITS, units, NOBODY_WAITS);
        if (!known || units.count === 0) break;
        let i = 0;
        for (; i < units.count && bytes < SLICE_BYTES; i++) {
          const record = source.recordInMemory(units.positions[i]!, this.#record);
          if (record === undefined) break;
          this.#take(record);
          this.#stalled = false;
          bytes += this.#record.totalSize;
        }
        if (i === 0) break;
      }
      this.#writeOut();
    } catch (error) {
      this.#failed(error);
    }
    return this.taken >= bounds.maxOffset;
  }

  /** Takes in what is left, in the background; answers when nothing is left, or it cannot go on for now. */
  takeLater(): Promise<void> {
    this.#behind ??= this.#takeRest().finally(() => {
      this.#behind = undefined;
      for (const waiter of this.#waiters.splice(0)) waiter();
    });
    return this.#behind;
  }

  /** As `takeLater`, but others do not wait for a log that is built anew. */
  async #takeSoon(): Promise<void> {
    let timer: { cancel(): void } | undefined;
    const over = new Promise<void>((resolve) => {
      timer = this.host.clock.after(FLUSH_WAIT_MS, resolve);
    });
    await Promise.race([this.takeLater(), over]);
    timer?.cancel();
  }

  async #takeRest(): Promise<void> {
    const { clock } = this.host;
    this.#stalled = false;
    while (!this.#closed && !this.#stalled && !this.takeFromMemory()) {
      if (this.#stalled || this.pendingCut !== undefined) return;
      try {
        await this.#takeFromDisk();
      } catch (error) {
        this.#failed(error);
      }
      await nextTurn(clock);
    }
  }

  /** Takes in a few records, whatever must be read for it. */
  async #takeFromDisk(): Promise<void> {
    const { source } = this.host;
    const units = new QueueUnits();
    const { cuts } = this;
    const from = this.taken;
    while (!(await settled((ready) => source.units(this.topic, this.queueId, from, STEP_UNITS, units, ready))));
    if (units.count === 0) {
      // A unit that cannot be read leads nowhere.
      this.#leave('damaged', from, 'its unit in the ConsumeQueue cannot be read');
      if (this.taken === from) this.taken++;
      return;
    }
    for (let i = 0; i < units.count; i++) {
      const position = units.positions[i]!;
      const bytes = await source.recordAt(position);
      // A pull may have been quicker.
      if (this.#closed || cuts !== this.cuts) return;
      if (this.taken !== from + i) continue;
      if (bytes === undefined) {
        this.#leave('damaged', this.taken, `its record at ${position} of the CommitLog cannot be read`);
        this.taken++;
        continue;
      }
      readRecord(bytes, viewOf(bytes), 0, bytes.length, Verify.STRUCTURE, this.#record);
      this.#take(bytes);
    }
    this.#writeOut();
  }

  /** Takes in the record in `#record`, which is that of the ordinal `taken`. @throws GantryError IO, DISK_FULL; then nothing has changed. */
  #take(bytes: Uint8Array): void {
    const record = this.#record;
    const { queueOffset, totalSize, storeTimestamp, propertiesEnd } = record;
    if (record.queueId !== this.queueId || queueOffset !== this.taken || !this.#isTopic(bytes)) {
      this.#leave('damaged', this.taken, 'its unit in the ConsumeQueue names another record');
    } else if (!this.#key.look(bytes, record)) {
      this.left.noKey++;
    } else if (queueOffset >= this.list.maxOffset) {
      const start = propertiesEnd - totalSize;
      if (!this.list.append(bytes, start, totalSize, this.#key.tagsCode, storeTimestamp, queueOffset)) {
        this.#leave(
          'tooLong',
          this.taken,
          `it has ${totalSize} bytes, a file of the compaction log ${this.list.sizes.log}`,
        );
      }
    }
    this.taken++;
    this.takenEnd = Math.max(this.takenEnd, record.physicalOffset + totalSize);
  }

  #isTopic(bytes: Uint8Array): boolean {
    const { topicStart, topicEnd } = this.#record;
    return Buffer.compare(this.#topicBytes, bytes.subarray(topicStart, topicEnd)) === 0;
  }

  /** What retention has removed before it was taken in is lost. */
  #skipRemoved(minOffset: number): void {
    if (this.taken >= minOffset) return;
    const lost = minOffset - this.taken;
    if (this.list.maxOffset > 0 || lost > 0)
      this.host.logger.warn(
        `${this.topic} queue ${this.queueId}: the messages from ${this.taken} to ${minOffset - 1} had left the CommitLog before they were in the compaction log`,
      );
    this.taken = minOffset;
  }

  #leave(why: 'damaged' | 'tooLong', offset: number, reason: string): void {
    this.left[why]++;
    this.#seldom.warn(
      why,
      `${this.topic} queue ${this.queueId}: the message ${offset} is left out of the compaction log: ${reason}`,
    );
  }

  #writeOut(): void {
    this.list.writeOut();
    this.reads.maxOffset = Math.min(this.list.maxOffset, this.pendingCut ?? Number.POSITIVE_INFINITY);
  }

  #failed(error: unknown): void {
    this.#tell(error);
    this.#stalled = true;
  }

  #tell(error: unknown): void {
    if (!(error instanceof GantryError)) throw error;
    this.#seldom.warn('write', `${this.list.logFolder} cannot be written (${errorText(error)}); it is tried again`);
  }

  // --- Durability

  /** Makes everything durable that is dispatched now; false if it could not. One after the other: two would take each other's files for synced. */
  flush(): Promise<boolean> {
    this.#flushing = this.#flushing.then(() => this.#flush());
    return this.#flushing;
  }

  async #flush(): Promise<boolean> {
    if (this.pendingCut !== undefined) this.onPendingCut();
    const target = this.taken + this.behind;
    if (!this.takeFromMemory()) await this.#takeSoon();
    if (this.durable >= target && this.list.isDurable) return true;
    const { cuts, taken } = this;
    try {
      this.#writeOut();
      // A record must not outlive its original.
      await this.host.source.syncLog(this.takenEnd);
    } catch (error) {
      this.#tell(error);
      return false;
    }
    try {
      await this.list.sync();
    } catch (error) {
      this.#tell(error);
      this.onSyncFailed();
      return false;
    }
    if (cuts === this.cuts) this.durable = Math.max(this.durable, taken);
    return taken >= target;
  }

  /** Tells of a damaged record, once, and lets it be mended. */
  tellDamage(pair: FilePair, position: number, reason: string): void {
    if (this.#told.has(position) || this.#told.size >= 1000) return;
    this.#told.add(position);
    const byte = position - pair.base;
    this.host.logger.warn(
      `${pair.log.path}: byte ${byte} (${this.topic} queue ${this.queueId}): ${reason}; it is left out, those around it are served`,
    );
    this.onDamage(pair, position);
  }

  /** What was damaged there is mended. */
  mended(position: number): void {
    this.#told.delete(position);
  }

  /** Gives up what takes too long: a stop waits for it. */
  interrupt(): void {
    this.#closed = true;
  }

  /** Nothing is taken in any more. */
  async stop(): Promise<void> {
    this.#closed = true;
    await this.#behind;
  }
}
