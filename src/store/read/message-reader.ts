// Reading: by queue offset (the pull), by physical offset, by time, by key. RocketMQ: DefaultMessageStore#getMessage and its siblings.
//
// A pull has two steps, so that the bytes are copied once, straight into the response: `select` walks ConsumeQueue units and notes
// positions and sizes; `copyRecords` gathers the bytes, neighbours in one piece. Nothing that is handed out refers to the store's
// buffers, so nothing needs to be pinned while a socket is slow. Whatever is not in memory is fetched off the loop: both steps then
// answer false, and the caller comes again.

import { type Logger, peekI64, type QueueOffset, queueOffset, viewOf } from '../../common/index.ts';
import {
  PropertyName,
  parsePropertyBytes,
  RecordOutcome,
  RecordView,
  readRecord,
  Verify,
} from '../../message/index.ts';
import type { CommitLog } from '../commit-log/commit-log.ts';
import {
  type AnyQueue,
  ConsumeQueue,
  type ConsumeQueueExt,
  type ConsumeQueueStore,
  CQ_UNIT_BYTES,
  ExtRead,
  extPosition,
  FILLER_SIZE,
  isExtAddress,
  type QueueKinds,
  unitOffset,
  unitSize,
  unitTag,
} from '../consume-queue/index.ts';
import type { IndexService, IndexType } from '../index-file/index.ts';
import type { Chunk, Ready } from '../segment/index.ts';
import type { MessageStoreConfig } from '../store-config.ts';
import { BatchReader } from './batch-reader.ts';
import { GetMessageStatus, type GetRequest, type GetResult, type RecordFilter } from './get.ts';
import type { QueueUnits } from './queue-units.ts';
import { Look, RecordLook } from './record-look.ts';
import { emptyResult, removed, removeRecord } from './result-records.ts';
import { answer, isFull, LARGEST_SLACK, NOBODY_WAITS, settled } from './select-rules.ts';

/** Units looked at in one step. */
const STEP_UNITS = 256;
/** Bytes of a record that surely hold its store time. */
const HEAD_BYTES = 68;

export interface QueryResult {
  /** Whole records as they lie in the log, oldest first. */
  records: Uint8Array[];
  indexLastUpdateTimestamp: number;
  indexLastUpdatePhyoffset: number;
}

const NOT_NAMED = 'what lies there is not the record that its queue names';

/** So many damaged records are told of one by one. */
const MAX_WARNED = 1000;

export interface MessageReaderOptions {
  logger: Logger;
  log: CommitLog;
  kinds: QueueKinds;
  index: IndexService | undefined;
  config: MessageStoreConfig;
  memoryBytes: number;
}

export class MessageReader {
  readonly #log: CommitLog;
  readonly #kinds: QueueKinds;
  readonly #queues: ConsumeQueueStore;
  readonly #ext: ConsumeQueueExt | undefined;
  readonly #batch: BatchReader;
  readonly #recordLook: RecordLook;
  readonly #index: IndexService | undefined;
  readonly #config: MessageStoreConfig;
  /** Distance from the log's end within which a record counts as "in memory". */
  readonly #inMemoryBytes: number;
  readonly #memoryBytes: number;
  readonly #units = new Uint8Array(STEP_UNITS * CQ_UNIT_BYTES);
  readonly #unitView = viewOf(this.#units);
  readonly #logger: Logger;
  readonly #record = new RecordView();
  /** Physical offsets of damaged records that were told of. */
  readonly #damaged = new Set<number>();

  constructor(options: MessageReaderOptions) {
    this.#logger = options.logger;
    this.#log = options.log;
    this.#kinds = options.kinds;
    this.#queues = options.kinds.plain;
    this.#ext = options.kinds.ext;
    this.#index = options.index;
    this.#config = options.config;
    this.#memoryBytes = options.memoryBytes;
    this.#inMemoryBytes = (options.memoryBytes * options.config.accessMessageInMemoryMaxRatio) / 100;
    this.#recordLook = new RecordLook(options.log);
    this.#batch = new BatchReader(
      options.log,
      options.kinds.batch,
      options.config,
      this.#inMemoryBytes,
      this.#recordLook,
      (queue, ordinal, position) => this.#tellUnit(queue, queue.stream.folder, ordinal, position),
    );
  }

  select(request: GetRequest, result: GetResult, ready: Ready): boolean {
    const { topic, queueId, offset } = request;
    emptyResult(result);
    const queue = this.#kinds.find(topic, queueId);
    const min = queue?.minOffset ?? 0;
    const max = queue?.maxOffset ?? 0;
    result.minOffset = queueOffset(min);
    result.maxOffset = queueOffset(max);
    if (queue === undefined || max === 0) return answer(result, GetMessageStatus.NO_MESSAGE_IN_QUEUE, 0);
    if (offset < min) return answer(result, GetMessageStatus.OFFSET_TOO_SMALL, min);
    if (offset === max) return answer(result, GetMessageStatus.OFFSET_OVERFLOW_ONE, offset);
    if (offset > max) return answer(result, GetMessageStatus.OFFSET_OVERFLOW_BADLY, max);
    const isPlain = queue instanceof ConsumeQueue;
    result.topic = isPlain ? topic : undefined;
    result.queueId = queueId;
    return isPlain ? this.#scan(queue, request, result, ready) : this.#batch.scan(queue, request, result, ready);
  }

  /** As RocketMQ, reads within one ConsumeQueue file a pull, or in a few until something matches, and looks at so many units at most. */
  #scan(queue: ConsumeQueue, request: GetRequest, result: GetResult, ready: Ready): boolean {
    const { offset, maxMessages, maxBytes, filter } = request;
    const config = this.#config;
    const perFile = queue.unitsPerFile;
    let fileEnd = (Math.floor(offset / perFile) + 1) * perFile;
    let files = 1;
    const maxScanned = Math.ceil(Math.max(config.maxFilterMessageSize, maxMessages * CQ_UNIT_BYTES) / CQ_UNIT_BYTES);
    let end = Math.min(queue.maxOffset, fileEnd, offset + maxScanned);
    const most = Math.min(maxMessages, result.positions.length);
    const view = this.#unitView;
    const logEnd = this.#log.committed;
    const logMinimum = this.#log.minimum;
    const largest = config.maxMessageSize + LARGEST_SLACK;
    let status: GetMessageStatus = GetMessageStatus.NO_MATCHED_MESSAGE;
    let next = offset;
    let skipBelow = 0;
    let newest = 0;
    const coldBelow = config.coldDataFlowControlEnable ? this.#coldBelow : -1;
    scan: for (;;) {
      if (next >= end) {
        const isAtFileEnd = next === fileEnd && next < queue.maxOffset;
        if (result.count > 0 || !isAtFileEnd || files >= config.travelCqFileNumWhenGetMessage) break;
        files++;
        fileEnd += perFile;
        end = Math.min(queue.maxOffset, fileEnd, offset + maxScanned);
        if (next >= end) break;
      }
      // What was found so far is an answer; only a scan that has not begun must wait.
      const begun = next > offset;
      const wanted = Math.min(STEP_UNITS, end - next);
      const got = this.#queues.readUnits(queue, next, wanted, this.#units, begun ? NOBODY_WAITS : ready);
      if (got < 0) {
        if (!begun) return false;
        break;
      }
      if (got === 0) {
        if (result.count === 0) {
          return answer(result, GetMessageStatus.OFFSET_FOUND_NULL, Math.min(fileEnd, queue.maxOffset));
        }
        break;
      }
      for (let i = 0; i < got; i++) {
        const at = i * CQ_UNIT_BYTES;
        const position = unitOffset(view, at);
        const size = unitSize(view, at);
        const inMemory = logEnd - position <= this.#inMemoryBytes;
        if (isFull(config, result, size, 1, most, maxBytes, inMemory)) break scan;
        let passes = true;
        if (!filter.all && position >= skipBelow) {
          if (isExtAddress(view, at)) {
            const outcome = this.#ext?.read(queue, extPosition(view, at), next > offset ? NOBODY_WAITS : ready);
            if (outcome === ExtRead.WAIT) {
              if (next === offset) return false;
              break scan;
            }
            // A tag that cannot be read lets the message pass; the client compares the real one.
            passes = outcome !== ExtRead.FOUND || filter.codes.has(this.#ext!.tag);
          } else {
            passes = filter.codes.has(unitTag(view, at));
          }
        }
        if (passes && filter.record !== undefined && position >= skipBelow) {
          const mayWait = next > offset ? NOBODY_WAITS : ready;
          const ext = isExtAddress(view, at) ? extPosition(view, at) : -1;
          const look = this.#look(filter.record, queue, ext, position, size, mayWait);
          if (look === Look.WAIT) {
            if (next === offset) return false;
            break scan;
          }
          passes = look === Look.PASSES;
        }
        let isOdd = size <= 0 || position < logMinimum || position + size > logEnd;
        if (size > largest && passes && !isOdd && size !== FILLER_SIZE) {
          const look = this.#recordLook.sizeAt(position, size, next > offset ? NOBODY_WAITS : ready);
          if (look === Look.WAIT) {
            if (next === offset) return false;
            break scan;
          }
          isOdd = look === Look.FAILS;
        }
        if (next === offset) result.firstPosition = position;
        next++;
        newest = position;
        if (!passes || (position < skipBelow && position >= 0)) continue;
        if (isOdd || size === FILLER_SIZE) {
          if (result.count === 0) status = GetMessageStatus.MESSAGE_WAS_REMOVING;
          // Below the log's beginning a whole file is gone; any other place is no record's, which concerns this unit alone.
          const isGone = size > 0 && size !== FILLER_SIZE && position >= 0 && position < logMinimum;
          skipBelow = isGone ? Math.floor(position / this.#log.fileSize + 1) * this.#log.fileSize : 0;
          if (!isGone && size !== FILLER_SIZE) this.#tellUnit(queue, queue.folder, next - 1, position);
          continue;
        }
        result.positions[result.count] = position;
        result.ordinals[result.count] = next - 1;
        result.sizes[result.count] = size;
        result.count++;
        result.totalBytes += size;
        if (position < coldBelow) result.coldBytes += size;
        status = GetMessageStatus.FOUND;
        skipBelow = 0;
      }
    }
    result.suggestPullingFromSlave = logEnd - newest > this.#inMemoryBytes;
    return answer(result, status, next);
  }

  /** Whether a record passes a filter that asks for more than its tag: by the bits of its ext unit (-1: it has none), then by its properties. */
  #look(filter: RecordFilter, queue: ConsumeQueue, ext: number, position: number, size: number, ready: Ready): Look {
    if (ext >= 0 && this.#ext !== undefined) {
      const outcome = this.#ext.readBits(queue, ext, ready);
      if (outcome === ExtRead.WAIT) return Look.WAIT;
      const { storeTimestamp, bits, bitBytes } = this.#ext;
      if (outcome === ExtRead.FOUND && bitBytes > 0 && !filter.mayMatch(storeTimestamp, bits, 0, bitBytes)) {
        return Look.FAILS;
      }
    }
    return this.#recordLook.at(filter, position, size, ready);
  }

  units(topic: string, queueId: number, offset: number, count: number, units: QueueUnits, ready: Ready): boolean {
    units.count = 0;
    const queue = this.#kinds.find(topic, queueId);
    if (!(queue instanceof ConsumeQueue) || offset < queue.minOffset) return true;
    const end = Math.min(queue.maxOffset, offset + Math.min(count, units.positions.length));
    const view = this.#unitView;
    while (offset + units.count < end) {
      const next = offset + units.count;
      const got = this.#queues.readUnits(queue, next, Math.min(STEP_UNITS, end - next), this.#units, ready);
      if (got < 0) return false;
      if (got === 0) return true;
      for (let at = 0; at < got * CQ_UNIT_BYTES; at += CQ_UNIT_BYTES) {
        units.positions[units.count] = unitOffset(view, at);
        units.tags[units.count++] = isExtAddress(view, at) ? Number.NaN : peekI64(view, at + 12);
      }
    }
    return true;
  }

  /** Whether a position is so far from the log's end that it counts as old. RocketMQ: checkInColdAreaByCommitOffset. */
  isCold(position: number): boolean {
    return position < this.#coldBelow;
  }

  get #coldBelow(): number {
    return this.#log.committed - (this.#memoryBytes * this.#config.accessMessageInMemoryHotRatio) / 100;
  }

  copyRecords(result: GetResult, target: Uint8Array, at: number, ready: Ready): boolean {
    const { positions, sizes } = result;
    const hotFrom = this.#hotFrom;
    let to = at;
    for (let i = 0; i < result.copied; i++) to += sizes[i]!;
    let i = result.copied;
    let view: DataView | undefined;
    while (i < result.count) {
      const position = positions[i]!;
      let length = sizes[i]!;
      const chunk = this.#log.chunkAt(position);
      if (chunk === undefined) {
        if (position < this.#log.minimum) return removed(position, ready);
        if (!this.#log.isInOneFile(position, length)) {
          this.#tellDamage(position, NOT_NAMED);
          removeRecord(result, i);
          continue;
        }
        const part = result.copiedPart;
        const got = this.#log.copyStored(position + part, length - part, target, to + part, ready);
        if (part + got < length) {
          result.copied = i;
          result.copiedPart = part + got;
          return false;
        }
        result.copiedPart = 0;
        view ??= viewOf(target);
        const verify = position >= hotFrom ? Verify.STRUCTURE : Verify.BODY_CRC;
        if (!this.#isWhole(target, view, to, length, position, verify) || !this.#isOfQueue(result, i, target)) {
          removeRecord(result, i);
          continue;
        }
        i++;
      } else {
        const from = position - chunk.start;
        if (!isRecordIn(chunk, from, length)) {
          this.#tellDamage(position, NOT_NAMED);
          removeRecord(result, i);
          continue;
        }
        // Neighbours in the log leave in one copy.
        let j = i + 1;
        while (j < result.count && positions[j] === position + length && isRecordIn(chunk, from + length, sizes[j]!)) {
          length += sizes[j++]!;
        }
        target.set(chunk.bytes.subarray(from, from + length), to);
        result.copiedPart = 0;
        i = j;
      }
      to += length;
    }
    if (result.count === 0) result.status = GetMessageStatus.MESSAGE_WAS_REMOVING;
    return true;
  }

  /**
   * From here on a pull does not sum up a body again that came from a file: this process summed it up and appended it in this life, and so
   * little was written since that its pages are in the system's memory by RocketMQ's own measure (accessMessageInMemoryMaxRatio), as safe
   * there as in the log's tail. What is older, or lay in the files before this life, comes from a medium: its CRC is taken at each read.
   */
  get #hotFrom(): number {
    return Math.max(this.#log.ownFrom, this.#log.committed - this.#inMemoryBytes);
  }

  /**
   * Whether the bytes that came from disk are the record that a unit names: a damaged one concerns itself alone, and is not handed out
   * with others, which a client would drop behind it. RocketMQ: hands out what lies there.
   */
  #isWhole(bytes: Uint8Array, view: DataView, at: number, size: number, offset: number, verify: Verify): boolean {
    const record = this.#record;
    const outcome = readRecord(bytes, view, at, at + size, verify, record);
    if (outcome === RecordOutcome.RECORD && record.totalSize === size && record.physicalOffset === offset) return true;
    this.#tellDamage(offset, outcome === RecordOutcome.BAD ? record.reason : NOT_NAMED);
    return false;
  }

  /**
   * Whether the record that was just read (it is in `#record`) is of the queue that named it: a unit whose bits have flipped may lead to a
   * whole record of another queue. Its ordinal decides nothing: RocketMQ shifts units behind a gap. RocketMQ: hands out what lies there.
   */
  #isOfQueue({ topic, queueId, positions }: GetResult, index: number, bytes: Uint8Array): boolean {
    const record = this.#record;
    if (topic === undefined) return true;
    if (isTopic(topic, bytes, record) ? record.queueId === queueId : isInLightQueues(bytes, record)) return true;
    this.#tellDamage(
      positions[index]!,
      `${topic} queue ${queueId} names it, whose message it is not: remove the queue's folder and restart, which builds it again`,
    );
    return false;
  }

  #tellUnit({ topic, queueId }: AnyQueue, folder: string, ordinal: number, position: number): void {
    if (this.#damaged.size >= MAX_WARNED || this.#damaged.has(position)) return;
    this.#damaged.add(position);
    this.#logger.warn(
      `${topic} queue ${queueId}: the unit of offset ${ordinal} points to ${position}, where the log has no record, and is left out; ` +
        `remove ${folder} and restart, which builds it again`,
    );
  }

  #tellDamage(offset: number, reason: string): void {
    if (this.#damaged.size >= MAX_WARNED || this.#damaged.has(offset)) return;
    this.#damaged.add(offset);
    this.#logger.warn(
      `the record at offset ${offset} of the log is damaged (${reason}) and cannot be read; those around it are served`,
    );
  }

  async recordAt(offset: number): Promise<Uint8Array | undefined> {
    const head = await this.#bytes(offset, HEAD_BYTES);
    if (head === undefined) return undefined;
    // Any offset may be asked for: what lies there is read whole only if it says that it is a record, and this one.
    const view = viewOf(head);
    const size = view.getInt32(0);
    if (size < HEAD_BYTES || size > this.#log.fileSize || peekI64(view, 28) !== offset) return undefined;
    const bytes = await this.#bytes(offset, size);
    if (bytes === undefined) return undefined;
    const record = new RecordView();
    const outcome = readRecord(bytes, viewOf(bytes), 0, bytes.length, Verify.BODY_CRC, record);
    if (outcome === RecordOutcome.RECORD && record.physicalOffset === offset) return bytes;
    this.#tellDamage(offset, record.reason);
    return undefined;
  }

  /** As `MessageStore.recordInMemory`. */
  recordInMemory(offset: number, out: RecordView): Uint8Array | undefined {
    if (!(offset < this.#log.committed)) return undefined;
    const chunk = this.#log.chunkAt(offset);
    if (chunk === undefined) return undefined;
    const end = Math.min(chunk.used, this.#log.committed - chunk.start);
    const outcome = readRecord(chunk.bytes, chunk.view, offset - chunk.start, end, Verify.STRUCTURE, out);
    return outcome === RecordOutcome.RECORD && out.physicalOffset === offset ? chunk.bytes : undefined;
  }

  /** Bytes of the log; undefined if the range is not whole in what is committed and in one file. */
  #bytes(offset: number, length: number): Promise<Uint8Array | undefined> {
    const { fileSize, minimum, committed } = this.#log;
    const inOneFile = Math.floor(offset / fileSize) === Math.floor((offset + length - 1) / fileSize);
    if (!Number.isSafeInteger(offset) || offset < minimum || offset + length > committed || !inOneFile) {
      return Promise.resolve(undefined);
    }
    const target = new Uint8Array(length);
    return new Promise((resolve, reject) => {
      this.#log.read(offset, length, target, (error) => (error === undefined ? resolve(target) : reject(error)));
    });
  }

  async storeTimestamp(topic: string, queueId: number, ordinal: number): Promise<number> {
    const queue = this.#kinds.find(topic, queueId);
    if (queue === undefined || ordinal < queue.minOffset || ordinal >= queue.maxOffset) return -1;
    return queue instanceof ConsumeQueue ? this.#unitTime(queue, ordinal) : this.#batch.storeTimestamp(queue, ordinal);
  }

  async #unitTime(queue: ConsumeQueue, ordinal: number): Promise<number> {
    const unit = new Uint8Array(CQ_UNIT_BYTES);
    const read = (ready: Ready): boolean => this.#queues.readUnits(queue, ordinal, 1, unit, ready) >= 0;
    while (!(await settled(read)));
    const view = viewOf(unit);
    if (unitSize(view, 0) <= 0 || unitSize(view, 0) === FILLER_SIZE) return -1;
    const head = await this.#bytes(unitOffset(view, 0), Math.min(HEAD_BYTES + 8, unitSize(view, 0)));
    if (head === undefined) return -1;
    const record = viewOf(head);
    return peekI64(record, record.getInt32(36) & 0x10 ? 68 : 56);
  }

  /** The first ordinal whose message is not older (LOWER), or the last one whose message is not younger (UPPER). */
  async offsetByTime(
    topic: string,
    queueId: number,
    timestamp: number,
    boundary: 'LOWER' | 'UPPER',
  ): Promise<QueueOffset> {
    const queue = this.#kinds.find(topic, queueId);
    if (queue === undefined) return queueOffset(0);
    if (!(queue instanceof ConsumeQueue)) {
      return queueOffset(await this.#batch.offsetByTime(queue, timestamp, boundary));
    }
    const min = queue.minOffset;
    let low = min;
    let high = queue.maxOffset;
    if (low === high) return queueOffset(high);
    // Invariant: all before `low` are before the boundary, all from `high` on are not.
    while (low < high) {
      const middle = Math.floor((low + high) / 2);
      // A place without a message counts as the message behind it.
      let time = -1;
      for (let ordinal = middle; time < 0 && ordinal < high; ordinal++) time = await this.#unitTime(queue, ordinal);
      const before = time >= 0 && (boundary === 'LOWER' ? time < timestamp : time <= timestamp);
      if (before) low = middle + 1;
      else high = middle;
    }
    return queueOffset(boundary === 'LOWER' ? low : Math.max(min, low - 1));
  }

  async query(
    topic: string,
    key: string,
    maxMessages: number,
    begin: number,
    end: number,
    indexType: string,
  ): Promise<QueryResult> {
    const index = this.#config.indexFileReadEnable ? this.#index : undefined;
    const result: QueryResult = {
      records: [],
      indexLastUpdateTimestamp: index?.lastUpdateTimestamp ?? 0,
      indexLastUpdatePhyoffset: index?.lastUpdatePhysicalOffset ?? 0,
    };
    if (index === undefined) return result;
    const most = Math.min(maxMessages, this.#config.maxMsgsNumBatch);
    const type: IndexType = indexType === 'T' ? 'T' : indexType === 'U' ? 'U' : 'K';
    for await (const { physicalOffset } of index.candidates(topic, key, begin, end, type)) {
      if (result.records.length >= most) break;
      const record = await this.recordAt(physicalOffset);
      if (record !== undefined && hasKey(record, topic, key, type)) result.records.push(record);
    }
    result.records.reverse();
    return result;
  }
}

/** RocketMQ returns what has the same hash; here the record itself must have the key. */
function hasKey(bytes: Uint8Array, topic: string, key: string, type: IndexType): boolean {
  const record = new RecordView();
  readRecord(bytes, viewOf(bytes), 0, bytes.length, Verify.STRUCTURE, record);
  if (Buffer.from(bytes.subarray(record.topicStart, record.topicEnd)).toString('utf8') !== topic) return false;
  const properties = parsePropertyBytes(bytes, record.propertiesStart, record.propertiesEnd);
  if (type === 'T') return properties.get('TAGS') === key;
  return properties.get('UNIQ_KEY') === key || (properties.get('KEYS')?.split(' ').includes(key) ?? false);
}

/** Whether a chunk has a record of `size` bytes at `at`, as far as its first field says. */
function isRecordIn({ used, view }: Chunk, at: number, size: number): boolean {
  return at + size <= used && size >= HEAD_BYTES && view.getInt32(at) === size;
}

/** Whether a record's topic is this one. */
function isTopic(topic: string, bytes: Uint8Array, { topicStart, topicEnd }: RecordView): boolean {
  if (topicEnd - topicStart !== topic.length)
    return Buffer.from(topic, 'utf8').equals(bytes.subarray(topicStart, topicEnd));
  for (let i = 0; i < topic.length; i++) {
    if (bytes[topicStart + i] !== topic.charCodeAt(i)) {
      return Buffer.from(topic, 'utf8').equals(bytes.subarray(topicStart, topicEnd));
    }
  }
  return true;
}

/** Whether a record names further queues that it is in: they have other topics than it has. */
function isInLightQueues(bytes: Uint8Array, { propertiesStart, propertiesEnd }: RecordView): boolean {
  return parsePropertyBytes(bytes, propertiesStart, propertiesEnd).has(PropertyName.INNER_MULTI_DISPATCH);
}
