// Turns a put into bytes of the log: limits, queue offset, store time, and the one encoder. Nothing here waits, and nothing is appended
// unless all of it fits. RocketMQ: CommitLog#asyncPutMessage(s) between its locks, MessageExtEncoder, DefaultAppendMessageCallback.

import { type Clock, viewOf } from '../../common/index.ts';
import {
  isCounted,
  MAX_PROPERTIES_BYTES,
  MAX_V1_TOPIC_CHARS,
  parsePropertyBytes,
  propertiesBytes,
  RecordOutcome,
  RecordView,
  readRecord,
  recordBytes,
  recordVersion,
  SysFlag,
  sysFlagWithHosts,
  Verify,
  writeRecord,
} from '../../message/index.ts';
import type { CommitLog } from '../commit-log/commit-log.ts';
import {
  type AnyQueue,
  type ConsumeQueueStore,
  canBeFolder,
  isLightQueue,
  type QueueKinds,
} from '../consume-queue/index.ts';
import { furtherPlaces } from '../dispatch/multi-dispatch.ts';
import type { MessageStoreConfig } from '../store-config.ts';
import { BatchEncoder } from './batch-encoder.ts';
import type { LongBatch } from './long-batch.ts';
import { PutMessageStatus, type PutRequest, type PutResult } from './put.ts';
import { SpecialPuts } from './special-put.ts';

/** The store's clock may be set back so far; store times in the log never fall for that (searches by time rely on their order). */
const CLOCK_STEP_MS = 60_000;

export class MessageAppender {
  /** Store time of the newest record. */
  lastStoreTimestamp: number;
  readonly #log: CommitLog;
  readonly #kinds: QueueKinds;
  readonly #queues: ConsumeQueueStore;
  readonly #special: SpecialPuts;
  readonly #config: MessageStoreConfig;
  readonly #clock: Clock;
  readonly #encoder: BatchEncoder;

  constructor(log: CommitLog, kinds: QueueKinds, config: MessageStoreConfig, clock: Clock, lastStoreTimestamp: number) {
    this.#log = log;
    this.#kinds = kinds;
    this.#queues = kinds.plain;
    this.#special = new SpecialPuts(kinds, config);
    this.#config = config;
    this.#clock = clock;
    this.#encoder = new BatchEncoder(config);
    this.lastStoreTimestamp = lastStoreTimestamp;
  }

  /** Appends a message or a whole batch in memory; any status but PUT_OK means that nothing was appended. */
  append(request: PutRequest, result: PutResult): PutMessageStatus {
    if (request.batch) return this.#batch(request, result);
    return request.plain ? this.#one(request, result) : this.#specially(request, result);
  }

  #specially(request: PutRequest, result: PutResult): PutMessageStatus {
    const special = this.#special;
    const refusal = special.prepare(request, result);
    if (refusal !== PutMessageStatus.PUT_OK) return refusal;
    const own = special.request;
    if (special.isLight) {
      const { enabledAppendPropCRC, autoMessageVersionOnTopicLen, maxMessageSize } = this.#config;
      const propertyBytes = propertiesBytes(own, enabledAppendPropCRC, true);
      const size = recordBytes(own, recordVersion(own.topic, autoMessageVersionOnTopicLen), propertyBytes);
      // RocketMQ: no slack beyond maxMessageSize for these, and too long properties have the same answer.
      if (propertyBytes > MAX_PROPERTIES_BYTES || size > maxMessageSize) {
        result.reason = `the record has ${size} bytes, ${propertyBytes} of them properties; the limits are ${maxMessageSize} and ${MAX_PROPERTIES_BYTES}`;
        return PutMessageStatus.MESSAGE_ILLEGAL;
      }
    }
    // Nothing but an inner batch makes batch queues of a topic that nobody knows.
    if ((own.sysFlag & SysFlag.INNER_BATCH) !== 0 && canBeFolder(own.topic)) {
      this.#kinds.batch.findOrCreate(own.topic, own.queueId);
    }
    const status = this.#one(own, result);
    if (status !== PutMessageStatus.PUT_OK) return status;
    special.appended();
    if (special.count > 1) {
      this.#queueOf(own)!.nextOffset = result.queueOffset + special.count;
      result.messageCount = special.count;
    }
    return status;
  }

  /** Topics whose deletion is under way, as the guard has them. */
  refuseLight(deleting: ReadonlySet<string>): void {
    this.#special.deleting = deleting;
  }

  /** Queues were removed. */
  queuesRemoved(): void {
    this.#special.forget();
  }

  /** Gives the queue offsets of what lies above `committed` back: those records are about to be dropped. */
  takeBackOffsets(): void {
    const record = new RecordView();
    let at = this.#log.committed;
    while (at < this.#log.wrote) {
      const chunk = this.#log.chunkAt(at);
      if (chunk === undefined) {
        at = Math.floor(at / this.#log.fileSize + 1) * this.#log.fileSize;
        continue;
      }
      const from = at - chunk.start;
      const outcome = readRecord(chunk.bytes, chunk.view, from, chunk.used, Verify.STRUCTURE, record);
      if (outcome === RecordOutcome.RECORD) {
        const topic = Buffer.from(chunk.bytes.subarray(record.topicStart, record.topicEnd)).toString('utf8');
        const queue = this.#kinds.find(topic, record.queueId);
        this.#takeBackFurther(chunk.bytes, record);
        if (queue !== undefined && isCounted(record.sysFlag))
          queue.nextOffset = Math.min(queue.nextOffset, record.queueOffset);
      }
      at += record.totalSize;
    }
  }

  #takeBackFurther(bytes: Uint8Array, record: RecordView): void {
    if (!this.#config.enableLmq) return;
    const properties = parsePropertyBytes(bytes, record.propertiesStart, record.propertiesEnd);
    for (const { name, queueId, ordinal } of furtherPlaces(properties, record.queueId)?.places ?? []) {
      const queue = isLightQueue(name) && ordinal >= 0 ? this.#queues.find(name, queueId) : undefined;
      if (queue !== undefined) queue.nextOffset = Math.min(queue.nextOffset, ordinal);
    }
  }

  #one(request: PutRequest, result: PutResult): PutMessageStatus {
    const config = this.#config;
    const crc = config.enabledAppendPropCRC;
    // A name has no more characters than bytes.
    const version =
      request.topicBytes.length <= MAX_V1_TOPIC_CHARS
        ? 1
        : recordVersion(request.topic, config.autoMessageVersionOnTopicLen);
    const propertyBytes = propertiesBytes(request, crc, true);
    if (propertyBytes > MAX_PROPERTIES_BYTES) {
      result.reason = `the properties have ${propertyBytes} bytes, the limit is ${MAX_PROPERTIES_BYTES}`;
      return PutMessageStatus.PROPERTIES_SIZE_EXCEEDED;
    }
    const bodyBytes = request.bodyEnd - request.bodyStart;
    if (bodyBytes > config.maxMessageSize) {
      result.reason = `the body has ${bodyBytes} bytes, the limit maxMessageSize is ${config.maxMessageSize}`;
      return PutMessageStatus.MESSAGE_ILLEGAL;
    }
    const size = recordBytes(request, version, propertyBytes);
    if (!this.#log.fits(size)) {
      result.reason = `the record has ${size} bytes and does not fit into a file of ${config.mappedFileSizeCommitLog}`;
      return PutMessageStatus.MESSAGE_ILLEGAL;
    }
    const queue = this.#queueOf(request);
    if (queue === undefined) return this.#illegalTopic(request, result);
    const counted = isCounted(request.sysFlag);
    const ordinal = counted ? queue.nextOffset : 0;
    const storeTimestamp = this.#storeTime();
    const chunk = this.#log.reserve(size);
    const offset = this.#log.wrote;
    writeRecord(
      chunk.bytes,
      chunk.view,
      chunk.used,
      request,
      sysFlagWithHosts(request),
      version,
      size,
      propertyBytes,
      crc,
      ordinal,
      offset,
      storeTimestamp,
    );
    this.#log.appended(chunk, size);
    if (counted) queue.nextOffset = ordinal + 1;
    result.wroteOffset = offset;
    result.wroteBytes = size;
    result.queueOffset = ordinal;
    result.storeTimestamp = storeTimestamp;
    result.messageCount = 1;
    return PutMessageStatus.PUT_OK;
  }

  #batch(request: PutRequest, result: PutResult): PutMessageStatus {
    const encoder = this.#encoder;
    let status = encoder.begin(request);
    if (status === PutMessageStatus.PUT_OK) status = encoder.check(Number.POSITIVE_INFINITY);
    if (status !== PutMessageStatus.PUT_OK) {
      result.reason = encoder.reason;
      return status;
    }
    if (!this.#log.fits(encoder.total)) {
      result.reason = encoder.doesNotFit;
      return PutMessageStatus.MESSAGE_ILLEGAL;
    }
    const queue = this.#queueOf(request);
    if (queue === undefined) return this.#illegalTopic(request, result);
    encoder.rewind();
    const chunk = this.#log.reserve(encoder.total);
    const offset = this.#log.wrote;
    const time = this.#storeTime();
    encoder.write(chunk.bytes, chunk.view, chunk.used, queue.nextOffset, offset, time, Number.POSITIVE_INFINITY);
    this.#log.appended(chunk, encoder.total);
    this.#batchAppended(encoder, queue, offset, time, result);
    return PutMessageStatus.PUT_OK;
  }

  /** Appends a batch whose records are encoded: all but their places and time. */
  appendEncoded(batch: LongBatch, result: PutResult): PutMessageStatus {
    const { encoder, request } = batch;
    const queue = this.#queueOf(request);
    if (queue === undefined) return this.#illegalTopic(request, result);
    const bytes = batch.take();
    const offset = this.#log.makeRoom(encoder.total);
    const time = this.#storeTime();
    encoder.place(bytes, viewOf(bytes), queue.nextOffset, offset, time);
    this.#log.adopt(bytes, encoder.total);
    this.#batchAppended(encoder, queue, offset, time, result);
    return PutMessageStatus.PUT_OK;
  }

  #batchAppended(
    encoder: BatchEncoder,
    queue: AnyQueue,
    offset: number,
    storeTimestamp: number,
    result: PutResult,
  ): void {
    result.wroteOffset = offset;
    result.wroteBytes = encoder.total;
    result.queueOffset = queue.nextOffset;
    result.storeTimestamp = storeTimestamp;
    result.messageCount = encoder.count;
    result.batchOffsets.length = 0;
    for (let i = 0; i < encoder.count; i++) result.batchOffsets.push(offset + encoder.starts[i]!);
    queue.nextOffset += encoder.count;
  }

  /** undefined: the topic's name cannot be that of a folder. */
  #queueOf(request: PutRequest): AnyQueue | undefined {
    const { topic, queueId } = request;
    const queue = request.queues?.[queueId] ?? this.#queues.find(topic, queueId);
    if (queue !== undefined || !canBeFolder(topic)) return queue;
    return this.#kinds.findOrCreate(topic, queueId);
  }

  #illegalTopic({ topic }: PutRequest, result: PutResult): PutMessageStatus {
    result.reason = `the topic ${JSON.stringify(topic)} cannot be the name of a folder`;
    return PutMessageStatus.MESSAGE_ILLEGAL;
  }

  /** The clock, but never behind the last record for a small step back: searches by time rely on the order. */
  #storeTime(): number {
    const now = this.#clock.now();
    const last = this.lastStoreTimestamp;
    this.lastStoreTimestamp = now < last && now > last - CLOCK_STEP_MS ? last : now;
    return this.lastStoreTimestamp;
  }
}
