// Dispatch ("reput"): reads the log in order, up to the confirm offset, and feeds what is derived from it: ConsumeQueue, then index,
// then the long polls that wait. It always parses the stored bytes, never what a put still remembers: the log alone is the truth,
// and recovery, a replica and the running broker take this same path.
//
//   |------ dispatched ------|·· to do ··| confirmed        indexed <= dispatched (it may fall behind by itself)
//
// Contract 8: a fault of the surroundings (disk full, I/O error) retries the same record with back-off, and an index that fails
// does not hold up the queues. The bytes up to min(dispatched, indexed) stay in memory until then; the lag limit refuses sends.

import {
  assert,
  ByteTable,
  type Clock,
  copyBytes,
  errorText,
  javaHashUtf8,
  type Logger,
  type QueueOffset,
  queueOffset,
} from '../../common/index.ts';
import { RecordOutcome, RecordView, readRecord, SysFlag, Verify } from '../../message/index.ts';
import type { CommitLog } from '../commit-log/commit-log.ts';
import { type ConsumeQueue, type ConsumeQueueStore, canBeFolder, UnitPut } from '../consume-queue/index.ts';
import { deliveryTime, SCHEDULE_TOPIC } from './delay-levels.ts';
import { RecordProperties } from './record-properties.ts';

/** Called in log order, once per dispatched record of a watched queue; must not throw. `maxOffset` is the queue's new exclusive maximum. */
export type ArrivalListener = (topic: string, queueId: number, maxOffset: QueueOffset, tagsCode: number) => void;

/** What dispatch needs of the index; hashes are complete (`topic#key`, absolute value). */
export interface KeyIndex {
  /** False if the message's keys are in the index already. */
  beginMessage(physicalOffset: number): boolean;
  putKey(hash: number, physicalOffset: number, storeTimestamp: number): void;
}

/** Milliseconds until an index that failed is tried again. */
const INDEX_RETRY_MS = 500;

interface DispatchTopic {
  readonly name: string;
  readonly bytes: Uint8Array;
  readonly isSchedule: boolean;
  /** Unfinished Java hashes of `topic#` and `topic#T#`. */
  readonly keySeed: number;
  readonly tagSeed: number;
  /** Records below are of an earlier life of the topic: they have no place in its queues. Infinity: none has, the name is no topic's. */
  livesFrom: number;
  /** By queueId; sparse. */
  readonly queues: ConsumeQueue[];
}

export interface DispatcherOptions {
  clock: Clock;
  logger: Logger;
  queues: ConsumeQueueStore;
  /** undefined: no index is kept. */
  index: KeyIndex | undefined;
  /** Physical offset below which a topic's records are of an earlier life (DeletedTopics). */
  livesFrom: (topic: string) => number;
  /** Milliseconds of each delay level. */
  delayLevels: readonly number[];
  onArrival: ArrivalListener;
}

export class Dispatcher {
  /** Everything below is in the ConsumeQueues. */
  dispatched = 0;
  /** Everything below is in the index. */
  indexed = 0;
  /** Store time of the newest dispatched record, and where it starts. */
  lastStoreTimestamp = 0;
  lastPhysicalOffset = 0;
  /** Units that did not follow their queue's end: gaps that were filled, places that were taken. */
  disorders = 0;

  /** During recovery: told of a queue before its first record is put again, with that record's place. */
  onRecovered: ((queue: ConsumeQueue, ordinal: number, physicalOffset: number) => void) | undefined;
  /** During recovery: told of a record that is in no queue since its topic is torn. */
  onSetAside: ((record: RecordView) => void) | undefined;

  readonly #options: DispatcherOptions;
  readonly #topics = new ByteTable<DispatchTopic>();
  readonly #record = new RecordView();
  readonly #properties = new RecordProperties();
  #indexRetryAt = 0;

  constructor(options: DispatcherOptions) {
    this.#options = options;
  }

  /** Starts behind recovery: everything below `offset` is dispatched. */
  startAt(offset: number): void {
    this.dispatched = offset;
    this.indexed = offset;
    this.lastPhysicalOffset = Math.min(this.lastPhysicalOffset, offset);
  }

  /** Position below which nothing needs the log's bytes in memory. */
  get doneOffset(): number {
    return Math.min(this.dispatched, this.indexed);
  }

  /** Dispatches what lies below `confirmed`, at most about `budget` bytes; true if more is left. */
  run(log: CommitLog, confirmed: number, budget: number): boolean {
    const stopAt = Math.min(confirmed, this.dispatched + budget);
    if (this.indexed < this.dispatched) this.#catchUpIndex(log);
    while (this.dispatched < stopAt) {
      const chunk = log.chunkAt(this.dispatched);
      if (chunk === undefined) {
        // Behind a filler lies a hole up to the end of the file.
        const next = Math.floor(this.dispatched / log.fileSize + 1) * log.fileSize;
        assert(next <= confirmed, 'bytes that are not dispatched left the memory');
        this.#advance(next);
        continue;
      }
      let at = this.dispatched - chunk.start;
      const end = Math.min(chunk.used, stopAt - chunk.start);
      while (at < end) {
        const outcome = readRecord(chunk.bytes, chunk.view, at, chunk.used, Verify.STRUCTURE, this.#record);
        if (outcome === RecordOutcome.BLANK) {
          at += this.#record.totalSize;
          break;
        }
        assert(outcome === RecordOutcome.RECORD, 'a record that this process wrote cannot be read');
        if (chunk.start + at + this.#record.totalSize > confirmed) return false;
        this.dispatchRecord(chunk.bytes, this.#record, chunk.start + at === this.indexed);
        at += this.#record.totalSize;
        this.#advance(chunk.start + at);
      }
      this.#advance(chunk.start + at);
    }
    return this.dispatched < confirmed;
  }

  /** Feeds one record to everything derived. `toIndex` is false for the queues alone. */
  dispatchRecord(bytes: Uint8Array, record: RecordView, toIndex: boolean): void {
    const topic = this.#topic(bytes, record.topicStart, record.topicEnd);
    if (topic.livesFrom === Number.POSITIVE_INFINITY) return this.#setAside(topic, record);
    const properties = this.#properties;
    properties.scan(bytes, record.propertiesStart, record.propertiesEnd);
    const transaction = record.sysFlag & SysFlag.TRANSACTION_MASK;
    const isCounted = transaction === 0 || transaction === SysFlag.TRANSACTION_COMMIT;
    if (isCounted && record.physicalOffset >= topic.livesFrom) {
      const tagsCode = this.#tagsCode(bytes, record, topic);
      const queue = topic.queues[record.queueId] ?? this.#queue(topic, record.queueId);
      if (this.onRecovered !== undefined && !queue.rebuilt)
        this.onRecovered(queue, record.queueOffset, record.physicalOffset);
      let outcome = this.#put(queue, record, tagsCode);
      if (outcome === UnitPut.CONFLICT && record.queueOffset === 0) {
        this.#beginAgain(topic, record, queue);
        outcome = this.#put(queue, record, tagsCode);
      }
      if (outcome !== UnitPut.APPENDED && outcome !== UnitPut.REPEATED) this.#disorder(topic, record, queue, outcome);
      if (queue.watched) this.#options.onArrival(topic.name, record.queueId, queueOffset(queue.maxOffset), tagsCode);
    }
    this.lastStoreTimestamp = record.storeTimestamp;
    this.lastPhysicalOffset = record.physicalOffset;
    if (toIndex && this.#options.index !== undefined) this.#index(bytes, record, topic);
  }

  /** During recovery: a record that queues and index have already. */
  skipRecord(record: RecordView): void {
    this.lastStoreTimestamp = record.storeTimestamp;
    this.lastPhysicalOffset = record.physicalOffset;
  }

  /** A record whose topic was torn by a power cut (no CRC covers it) has no queue, and stops nothing that stands behind it. */
  #setAside({ name }: DispatchTopic, record: RecordView): void {
    this.disorders++;
    this.#options.logger.warn(
      `the record at ${record.physicalOffset} (${record.totalSize} bytes) names the topic ${JSON.stringify(name)}, which no topic can be called: ` +
        'it is in no queue and can be read by its offset only',
    );
    this.onSetAside?.(record);
  }

  #put(queue: ConsumeQueue, record: RecordView, tagsCode: number): UnitPut {
    return this.#options.queues.put(queue, record.physicalOffset, record.totalSize, tagsCode, record.queueOffset);
  }

  /** The first ordinal comes again in a log of RocketMQ's, which does not say that the topic was deleted and made anew. */
  #beginAgain(topic: DispatchTopic, record: RecordView, queue: ConsumeQueue): void {
    this.disorders++;
    this.#options.logger.warn(
      `${topic.name} queue ${record.queueId} begins again at ${record.physicalOffset}: its topic was deleted and made anew; ` +
        `the ${queue.maxOffset} messages before are not in the queue`,
    );
    this.#options.queues.clear(queue);
  }

  #advance(position: number): void {
    if (this.indexed === this.dispatched && this.#indexRetryAt === 0) this.indexed = position;
    this.dispatched = position;
  }

  #index(bytes: Uint8Array, record: RecordView, topic: DispatchTopic): void {
    const index = this.#options.index!;
    if ((record.sysFlag & SysFlag.TRANSACTION_MASK) === SysFlag.TRANSACTION_ROLLBACK) return;
    const p = this.#properties;
    const offset = record.physicalOffset;
    const time = record.storeTimestamp;
    try {
      if (!index.beginMessage(offset)) return;
      if (p.uniqKeyEnd > p.uniqKeyStart)
        index.putKey(hash(topic.keySeed, bytes, p.uniqKeyStart, p.uniqKeyEnd), offset, time);
      let start = p.keysStart;
      while (start < p.keysEnd) {
        let end = start;
        while (end < p.keysEnd && bytes[end] !== 0x20) end++;
        if (end > start) index.putKey(hash(topic.keySeed, bytes, start, end), offset, time);
        start = end + 1;
      }
      if (p.tagsEnd > p.tagsStart) index.putKey(hash(topic.tagSeed, bytes, p.tagsStart, p.tagsEnd), offset, time);
    } catch (error) {
      if (this.#indexRetryAt === 0) {
        this.#options.logger.error(
          `the index cannot take keys (${errorText(error)}); queues go on, the index is tried again`,
        );
      }
      this.#indexRetryAt = this.#options.clock.monotonic() + INDEX_RETRY_MS;
    }
  }

  /** Brings an index that failed up to the queues, from the bytes that were kept for it. */
  #catchUpIndex(log: CommitLog): void {
    if (this.#options.clock.monotonic() < this.#indexRetryAt) return;
    this.#indexRetryAt = 0;
    while (this.indexed < this.dispatched) {
      const chunk = log.chunkAt(this.indexed);
      if (chunk === undefined) {
        this.indexed = Math.floor(this.indexed / log.fileSize + 1) * log.fileSize;
        continue;
      }
      const at = this.indexed - chunk.start;
      const outcome = readRecord(chunk.bytes, chunk.view, at, chunk.used, Verify.STRUCTURE, this.#record);
      if (outcome === RecordOutcome.RECORD) {
        const topic = this.#topic(chunk.bytes, this.#record.topicStart, this.#record.topicEnd);
        this.#properties.scan(chunk.bytes, this.#record.propertiesStart, this.#record.propertiesEnd);
        this.#index(chunk.bytes, this.#record, topic);
        if (this.#indexRetryAt !== 0) return;
      }
      this.indexed += this.#record.totalSize;
    }
  }

  #tagsCode(bytes: Uint8Array, record: RecordView, topic: DispatchTopic): number {
    const p = this.#properties;
    if (topic.isSchedule && p.delayEnd > p.delayStart) {
      let level = 0;
      for (let i = p.delayStart; i < p.delayEnd; i++) level = level * 10 + (bytes[i]! - 0x30);
      const time = deliveryTime(this.#options.delayLevels, level, record.storeTimestamp);
      if (time !== undefined) return time;
    }
    return p.tagsEnd > p.tagsStart ? javaHashUtf8(bytes, p.tagsStart, p.tagsEnd) : 0;
  }

  #disorder(topic: DispatchTopic, record: RecordView, queue: ConsumeQueue, outcome: UnitPut): void {
    this.disorders++;
    const place = `${topic.name} queue ${record.queueId}: the record at ${record.physicalOffset} has queue offset ${record.queueOffset}`;
    if (outcome === UnitPut.AFTER_GAP) {
      this.#options.logger.warn(`${place}, beyond the queue's end; the ordinals between have no message`);
    } else {
      this.#options.logger.warn(
        `${place}, but that ordinal is taken (the queue ends at ${queue.maxOffset}); it cannot be read there`,
      );
    }
  }

  #topic(bytes: Uint8Array, start: number, end: number): DispatchTopic {
    const known = this.#topics.find(bytes, start, end);
    if (known !== undefined) return known;
    const own = copyBytes(bytes, start, end);
    const name = Buffer.from(own).toString('utf8');
    const topic: DispatchTopic = {
      name,
      bytes: own,
      isSchedule: name === SCHEDULE_TOPIC,
      keySeed: javaHashUtf8(Buffer.from(`${name}#`), 0, own.length + 1),
      tagSeed: javaHashUtf8(Buffer.from(`${name}#T#`), 0, own.length + 3),
      livesFrom: this.#livesFrom(name),
      queues: [],
    };
    this.#topics.add(topic);
    return topic;
  }

  #queue(topic: DispatchTopic, queueId: number): ConsumeQueue {
    const queue = this.#options.queues.findOrCreate(topic.name, queueId);
    topic.queues[queueId] = queue;
    return queue;
  }

  /** Deletions, or a cut of the log, have changed where topics begin. What a deleted topic gets from now on finds fresh queues. */
  livesChanged(): void {
    for (const topic of this.#topics.values()) {
      // Also where it begins as before: after a cut of the log a topic may be deleted at the very place at which it was last time.
      topic.queues.length = 0;
      topic.livesFrom = this.#livesFrom(topic.name);
    }
  }

  #livesFrom(topic: string): number {
    return canBeFolder(topic) ? this.#options.livesFrom(topic) : Number.POSITIVE_INFINITY;
  }
}

/** RocketMQ: IndexFile#indexKeyHashMethod: the absolute Java hash, 0 for the one that has none. */
function hash(seed: number, bytes: Uint8Array, start: number, end: number): number {
  const value = javaHashUtf8(bytes, start, end, seed);
  if (value >= 0) return value;
  return value === -2147483648 ? 0 : -value;
}
