// Dispatch ("reput"): reads the log in order, up to the confirm offset, and feeds what is derived from it: ConsumeQueue, then index,
// then the long polls that wait. It always parses the stored bytes, never what a put still remembers: the log alone is the truth,
// and recovery, a replica and the running broker take this same path.
//
//   |------ dispatched ------|·· to do ··| confirmed        indexed <= dispatched (it may fall behind by itself)
//
// A fault of the surroundings (disk full, I/O error) retries the same record with back-off, and an index that fails
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
  SeldomWarning,
} from '../../common/index.ts';
import {
  isCounted,
  parsePropertyBytes,
  RecordOutcome,
  RecordView,
  readRecord,
  SysFlag,
  Verify,
} from '../../message/index.ts';
import type { CommitLog } from '../commit-log/commit-log.ts';
import {
  type AnyQueue,
  type BatchQueue,
  type ConsumeQueue,
  type ConsumeQueueExt,
  type ConsumeQueueStore,
  canBeFolder,
  isLightQueue,
  isOneLightName,
  type QueueKinds,
  UnitPut,
} from '../consume-queue/index.ts';
import { keyHash, topicSeeds } from '../index-file/index.ts';
import { delayLevel, deliveryTime, SCHEDULE_TOPIC } from './delay-levels.ts';
import { furtherPlaces, innerRange, mayGoFurther } from './multi-dispatch.ts';
import { RecordProperties } from './record-properties.ts';

/**
 * Called in log order, once per dispatched record of a watched queue; must not throw. `maxOffset` is the queue's new exclusive maximum;
 * the record's property text lies at `bytes[propertiesStart, propertiesEnd)` until the call returns.
 */
export type ArrivalListener = (
  topic: string,
  queueId: number,
  maxOffset: QueueOffset,
  tagsCode: number,
  bytes: Uint8Array,
  propertiesStart: number,
  propertiesEnd: number,
) => void;

/** Filter bits of a topic's record with the property text `bytes[start, end)`, read before the next call; undefined for none. */
export type FilterBits = (topic: string, bytes: Uint8Array, start: number, end: number) => Uint8Array | undefined;

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
  readonly isSchedule: boolean;
  /** Whether its records may go to further queues. */
  readonly mayGoFurther: boolean;
  /** Unfinished Java hashes of `topic#` and `topic#T#`. */
  readonly keySeed: number;
  readonly tagSeed: number;
  /** Records below are of an earlier life of the topic: they have no place in its queues. Infinity: none has, the name is no topic's. */
  livesFrom: number;
  /** Whether its queues are batch queues; undefined before its first record. */
  isBatch: boolean | undefined;
  /** By queueId; sparse. */
  readonly queues: ConsumeQueue[];
}

export interface DispatcherOptions {
  clock: Clock;
  logger: Logger;
  kinds: QueueKinds;
  /** RocketMQ: enableMultiDispatch: whether records also go to the queues that they name. */
  multiDispatch: boolean;
  /** undefined: no index is kept. */
  index: KeyIndex | undefined;
  /** Physical offset below which a topic's records are of an earlier life (DeletedTopics). */
  livesFrom: (topic: string) => number;
  /** Milliseconds of each delay level. */
  delayLevels: readonly number[];
  onArrival: ArrivalListener;
  /** What ext units get as filter bits. */
  filterBits?: FilterBits | undefined;
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
  /** Names and numbers in INNER_ properties that made no sense. */
  oddities = 0;

  /** Told of each record that has reached a light queue, by the queue's name. */
  onLightArrival: ((queue: string) => void) | undefined;
  /** During recovery: told of a queue before its first record is put again, with that record's place. */
  onRecovered: ((queue: AnyQueue, ordinal: number, physicalOffset: number) => void) | undefined;
  /** During recovery: told of a record that is in no queue since its topic is torn. */
  onSetAside: ((record: RecordView) => void) | undefined;

  readonly #options: DispatcherOptions;
  readonly #queues: ConsumeQueueStore;
  readonly #ext: ConsumeQueueExt | undefined;
  readonly #seldom: SeldomWarning;
  #topics = new ByteTable<DispatchTopic>();
  /** Changes of where topics begin, so far. */
  #looks = 0;
  readonly #record = new RecordView();
  readonly #properties = new RecordProperties();
  #indexRetryAt = 0;

  constructor(options: DispatcherOptions) {
    this.#options = options;
    this.#queues = options.kinds.plain;
    this.#ext = options.kinds.ext;
    this.#seldom = new SeldomWarning(options.clock, options.logger);
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
    if (isCounted(record.sysFlag)) {
      if (topic.isBatch !== false || properties.hasInner) this.#putSpecially(bytes, record, topic);
      else if (record.physicalOffset >= topic.livesFrom) {
        const tagsCode = this.#tagsCode(bytes, record, topic);
        const queue = this.#queue(topic, record.queueId);
        this.#put(bytes, topic.name, record, queue, record.queueOffset, tagsCode, this.#ext);
      }
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

  /** Puts the unit of a record into one queue of `topic`, with an ext unit where `ext` is given, and tells who waits for it. */
  #put(
    bytes: Uint8Array,
    topic: string,
    record: RecordView,
    queue: ConsumeQueue,
    ordinal: number,
    tagsCode: number,
    ext: ConsumeQueueExt | undefined,
  ): void {
    const { physicalOffset, totalSize } = record;
    if (this.onRecovered !== undefined && !queue.rebuilt) this.onRecovered(queue, ordinal, physicalOffset);
    let outcome = this.#queues.put(queue, physicalOffset, totalSize, tagsCode, ordinal);
    if (outcome === UnitPut.CONFLICT && ordinal === 0) {
      this.#beginsAgain(queue, physicalOffset);
      this.#queues.clear(queue);
      outcome = this.#queues.put(queue, physicalOffset, totalSize, tagsCode, ordinal);
    }
    if (outcome !== UnitPut.APPENDED && outcome !== UnitPut.REPEATED) this.#disorder(record, queue, ordinal, outcome);
    if (ext !== undefined && (outcome === UnitPut.APPENDED || outcome === UnitPut.AFTER_GAP)) {
      const bits = this.#options.filterBits?.(topic, bytes, record.propertiesStart, record.propertiesEnd);
      ext.put(queue, tagsCode, record.storeTimestamp, bits);
    }
    if (queue.watched) this.#arrived(bytes, topic, record, queue.queueId, queue.maxOffset, tagsCode);
  }

  #arrived(
    bytes: Uint8Array,
    topic: string,
    record: RecordView,
    queueId: number,
    maxOffset: number,
    tagsCode: number,
  ): void {
    const { propertiesStart, propertiesEnd } = record;
    this.#options.onArrival(topic, queueId, queueOffset(maxOffset), tagsCode, bytes, propertiesStart, propertiesEnd);
  }

  /** A record of a batch topic, or one that names further queues. RocketMQ: the light queues' units come after the topic's own, without ext. */
  #putSpecially(bytes: Uint8Array, record: RecordView, topic: DispatchTopic): void {
    // A record of an earlier life of its topic is still in the light queues.
    const lives = record.physicalOffset >= topic.livesFrom;
    const isInnerBatch = (record.sysFlag & SysFlag.INNER_BATCH) !== 0;
    if (lives) topic.isBatch ??= this.#options.kinds.isBatch(topic.name) ?? isInnerBatch;
    if (!lives && (isInnerBatch || !this.#properties.hasInner)) return;
    const tagsCode = this.#tagsCode(bytes, record, topic);
    if (lives && !topic.isBatch) {
      const queue = this.#queue(topic, record.queueId);
      this.#put(bytes, topic.name, record, queue, record.queueOffset, tagsCode, this.#ext);
    }
    const goesFurther = this.#options.multiDispatch && !(lives && topic.isBatch) && topic.mayGoFurther;
    if (goesFurther && this.#properties.hasInner && this.#putInOneLight(bytes, record, topic, tagsCode)) return;
    const properties = parsePropertyBytes(bytes, record.propertiesStart, record.propertiesEnd);
    if (lives && topic.isBatch) this.#putBatch(bytes, record, topic, tagsCode, properties);
    if (!goesFurther) return;
    const further = furtherPlaces(properties, record.queueId);
    if (further === undefined) return;
    if (further.fault !== undefined) this.#odd(record, topic, further.fault);
    for (const { name, queueId, ordinal } of further.places) {
      this.#putFurther(bytes, record, topic, name, queueId, ordinal, tagsCode);
    }
  }

  /** What nearly all records with light queues are: one name, one ordinal, and the queue is there. False: nothing was done. */
  #putInOneLight(bytes: Uint8Array, record: RecordView, topic: DispatchTopic, tagsCode: number): boolean {
    const { multiDispatchStart: start, multiDispatchEnd: end, multiOffsetStart, multiOffsetEnd } = this.#properties;
    const digits = multiOffsetEnd - multiOffsetStart;
    if (digits === 0 || digits > 15 || !isOneLightName(bytes, start, end)) return false;
    let ordinal = 0;
    for (let i = multiOffsetStart; i < multiOffsetEnd; i++) {
      const digit = bytes[i]! - 0x30;
      if (digit < 0 || digit > 9) return false;
      ordinal = ordinal * 10 + digit;
    }
    const queue = this.#queues.light(bytes, start, end);
    if (queue === undefined) return false;
    if (queue.livesAt !== this.#looks) {
      queue.livesAt = this.#looks;
      queue.livesFrom = this.#livesFrom(queue.topic);
    }
    if (record.physicalOffset >= queue.livesFrom) this.#putInto(bytes, record, topic, queue, true, ordinal, tagsCode);
    return true;
  }

  /** Puts a record's unit into one of the further queues that it names, which may be there or not. */
  #putFurther(
    bytes: Uint8Array,
    record: RecordView,
    topic: DispatchTopic,
    name: string,
    queueId: number,
    ordinal: number,
    tagsCode: number,
  ): void {
    const livesFrom = this.#livesFrom(name);
    if (livesFrom === Number.POSITIVE_INFINITY || this.#options.kinds.isBatch(name) === true || ordinal < 0) {
      this.#odd(record, topic, `it cannot go to ${JSON.stringify(name)}, which has no place for it`);
      return;
    }
    if (record.physicalOffset < livesFrom) return;
    const queue = this.#queues.findOrCreate(name, queueId);
    this.#putInto(bytes, record, topic, queue, isLightQueue(name), ordinal, tagsCode);
  }

  /** Puts a record's unit into a queue that is not its topic's. */
  #putInto(
    bytes: Uint8Array,
    record: RecordView,
    topic: DispatchTopic,
    queue: ConsumeQueue,
    isLight: boolean,
    ordinal: number,
    tagsCode: number,
  ): void {
    if (this.onRecovered !== undefined && !queue.rebuilt) this.onRecovered(queue, ordinal, record.physicalOffset);
    const isRepeat = record.physicalOffset + record.totalSize <= queue.maxPhysicalEnd;
    if (!isRepeat && ordinal - queue.maxOffset > queue.unitsPerFile && !queue.isFresh) {
      // Nobody but a client that makes numbers up leaves such a gap.
      this.#odd(record, topic, `it claims ordinal ${ordinal} in ${queue.topic}, which ends at ${queue.maxOffset}`);
      return;
    }
    this.#put(bytes, queue.topic, record, queue, ordinal, tagsCode, undefined);
    if (!isRepeat && isLight) this.onLightArrival?.(queue.topic);
  }

  #putBatch(
    bytes: Uint8Array,
    record: RecordView,
    topic: DispatchTopic,
    tagsCode: number,
    properties: ReadonlyMap<string, string>,
  ): void {
    const { batch } = this.#options.kinds;
    const queue = batch.findOrCreate(topic.name, record.queueId);
    const { base, count, fault } = innerRange(properties, record.queueOffset);
    if (fault !== undefined) this.#odd(record, topic, `${fault}: it counts as one message`);
    const { physicalOffset, totalSize, storeTimestamp } = record;
    if (this.onRecovered !== undefined && !queue.rebuilt) this.onRecovered(queue, base, physicalOffset);
    let outcome = batch.put(queue, physicalOffset, totalSize, tagsCode, storeTimestamp, base, count);
    if (outcome === UnitPut.CONFLICT && base === 0) {
      this.#beginsAgain(queue, physicalOffset);
      batch.clear(queue);
      outcome = batch.put(queue, physicalOffset, totalSize, tagsCode, storeTimestamp, base, count);
    }
    if (outcome !== UnitPut.APPENDED && outcome !== UnitPut.REPEATED) this.#disorder(record, queue, base, outcome);
    if (queue.watched) this.#arrived(bytes, topic.name, record, record.queueId, queue.maxOffset, tagsCode);
  }

  /** Something in a record's properties makes no sense: it is counted and named, and stops nothing. */
  #odd(record: RecordView, topic: DispatchTopic, what: string): void {
    this.oddities++;
    this.#seldom.warn(
      `odd ${topic.name}`,
      `the record at ${record.physicalOffset} of ${topic.name} (queue ${record.queueId}, offset ${record.queueOffset}): ${what}; ${this.oddities} such places were set aside`,
    );
  }

  /** The first ordinal comes again in a log of RocketMQ's, which does not say that the topic was deleted and made anew. */
  #beginsAgain(queue: AnyQueue, physicalOffset: number): void {
    this.disorders++;
    this.#options.logger.warn(
      `${queue.topic} queue ${queue.queueId} begins again at ${physicalOffset}: its topic was deleted and made anew; ` +
        `the ${queue.maxOffset} messages before are not in the queue`,
    );
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
        index.putKey(keyHash(topic.keySeed, bytes, p.uniqKeyStart, p.uniqKeyEnd), offset, time);
      let start = p.keysStart;
      while (start < p.keysEnd) {
        let end = start;
        while (end < p.keysEnd && bytes[end] !== 0x20) end++;
        if (end > start) index.putKey(keyHash(topic.keySeed, bytes, start, end), offset, time);
        start = end + 1;
      }
      if (p.tagsEnd > p.tagsStart) index.putKey(keyHash(topic.tagSeed, bytes, p.tagsStart, p.tagsEnd), offset, time);
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
      const level = delayLevel(bytes, p.delayStart, p.delayEnd);
      const time = deliveryTime(this.#options.delayLevels, level, record.storeTimestamp);
      if (time !== undefined) return time;
    }
    return p.tagsEnd > p.tagsStart ? javaHashUtf8(bytes, p.tagsStart, p.tagsEnd) : 0;
  }

  #disorder(record: RecordView, queue: ConsumeQueue | BatchQueue, ordinal: number, outcome: UnitPut): void {
    this.disorders++;
    const place = `${queue.topic} queue ${queue.queueId}: the record at ${record.physicalOffset} has queue offset ${ordinal}`;
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
    const seeds = topicSeeds(name);
    const topic: DispatchTopic = {
      name,
      isSchedule: name === SCHEDULE_TOPIC,
      mayGoFurther: mayGoFurther(name),
      keySeed: seeds.key,
      tagSeed: seeds.tag,
      livesFrom: this.#livesFrom(name),
      isBatch: undefined,
      queues: [],
    };
    this.#topics.add(topic, own);
    return topic;
  }

  #queue(topic: DispatchTopic, queueId: number): ConsumeQueue {
    return topic.queues[queueId] ?? this.#newQueue(topic, queueId);
  }

  #newQueue(topic: DispatchTopic, queueId: number): ConsumeQueue {
    const queue = this.#queues.findOrCreate(topic.name, queueId);
    topic.queues[queueId] = queue;
    return queue;
  }

  /** Deletions, or a cut of the log, have changed where topics begin. What a deleted topic gets from now on finds fresh queues. */
  livesChanged(): void {
    // Also where one begins as before: after a cut of the log a topic may be deleted at the very place at which it was last time.
    this.#topics = new ByteTable();
    this.#looks++;
  }

  /** Queues have been removed: records that come find the ones that there are then. */
  forgetQueues(): void {
    for (const topic of this.#topics.values()) topic.queues.length = 0;
  }

  #livesFrom(topic: string): number {
    return canBeFolder(topic) ? this.#options.livesFrom(topic) : Number.POSITIVE_INFINITY;
  }
}
