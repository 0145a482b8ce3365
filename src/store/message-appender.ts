// Turns a put into bytes of the log: limits, queue offset, store time, and the one encoder. Nothing here waits, and nothing is appended
// unless all of it fits. RocketMQ: CommitLog#asyncPutMessage(s) between its locks, MessageExtEncoder, DefaultAppendMessageCallback.

import { type Clock, viewOf } from '../common/index.ts';
import {
  BatchMember,
  MAX_PROPERTIES_BYTES,
  MAX_V1_TOPIC_CHARS,
  parsePropertyBytes,
  propertiesBytes,
  RecordOutcome,
  RecordSource,
  RecordView,
  readBatchMember,
  readRecord,
  recordBytes,
  recordVersion,
  SysFlag,
  sysFlagWithHosts,
  Verify,
  writeRecord,
} from '../message/index.ts';
import type { CommitLog } from './commit-log/commit-log.ts';
import {
  type AnyQueue,
  type ConsumeQueueStore,
  canBeFolder,
  isLightQueue,
  type QueueKinds,
} from './consume-queue/index.ts';
import { furtherPlaces } from './dispatch/multi-dispatch.ts';
import { PutMessageStatus, type PutRequest, type PutResult } from './put.ts';
import { SpecialPuts } from './special-put.ts';
import type { MessageStoreConfig } from './store-config.ts';

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
  readonly #member = new BatchMember();
  readonly #source = new RecordSource();

  constructor(log: CommitLog, kinds: QueueKinds, config: MessageStoreConfig, clock: Clock, lastStoreTimestamp: number) {
    this.#log = log;
    this.#kinds = kinds;
    this.#queues = kinds.plain;
    this.#special = new SpecialPuts(kinds, config);
    this.#config = config;
    this.#clock = clock;
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
        const transaction = record.sysFlag & SysFlag.TRANSACTION_MASK;
        const counted = transaction === 0 || transaction === SysFlag.TRANSACTION_COMMIT;
        if (queue !== undefined && counted) queue.nextOffset = Math.min(queue.nextOffset, record.queueOffset);
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
    const transaction = request.sysFlag & SysFlag.TRANSACTION_MASK;
    const counted = transaction === 0 || transaction === SysFlag.TRANSACTION_COMMIT;
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
    const config = this.#config;
    const wireBytes = request.bodyEnd - request.bodyStart;
    if (wireBytes > config.maxMessageSize) {
      result.reason = `the batch has ${wireBytes} bytes, the limit maxMessageSize is ${config.maxMessageSize}`;
      return PutMessageStatus.MESSAGE_ILLEGAL;
    }
    if ((request.sysFlag & SysFlag.TRANSACTION_MASK) !== 0) {
      result.reason = 'a batch cannot be transactional';
      return PutMessageStatus.MESSAGE_ILLEGAL;
    }
    // First pass: every member is checked and the sum taken, so that a batch is stored whole or not at all.
    const body = viewOf(request.body);
    const crc = config.enabledAppendPropCRC;
    const version = recordVersion(request.topic, config.autoMessageVersionOnTopicLen);
    const member = this.#member;
    const source = this.#source;
    this.#memberSource(request);
    let total = 0;
    let count = 0;
    for (let at = request.bodyStart; at < request.bodyEnd; at = member.end) {
      const fault = readBatchMember(body, at, request.bodyEnd, member);
      if (fault !== undefined) {
        result.reason = `batch member ${count}: ${fault}`;
        return PutMessageStatus.MESSAGE_ILLEGAL;
      }
      this.#takeMember(member);
      const propertyBytes = propertiesBytes(source, crc, false);
      if (propertyBytes > MAX_PROPERTIES_BYTES) {
        result.reason = `batch member ${count}: properties of ${propertyBytes} bytes are beyond the limit of ${MAX_PROPERTIES_BYTES}`;
        return PutMessageStatus.MESSAGE_ILLEGAL;
      }
      total += recordBytes(source, version, propertyBytes);
      count++;
    }
    if (count === 0) {
      result.reason = 'the batch has no member';
      return PutMessageStatus.MESSAGE_ILLEGAL;
    }
    if (!this.#log.fits(total)) {
      result.reason = `the batch's records have ${total} bytes and do not fit into a file of ${config.mappedFileSizeCommitLog}`;
      return PutMessageStatus.MESSAGE_ILLEGAL;
    }

    const queue = this.#queueOf(request);
    if (queue === undefined) return this.#illegalTopic(request, result);
    const storeTimestamp = this.#storeTime();
    const sysFlag = sysFlagWithHosts(request);
    const first = queue.nextOffset;
    const chunk = this.#log.reserve(total);
    result.wroteOffset = this.#log.wrote;
    result.batchOffsets.length = 0;
    for (let at = request.bodyStart; at < request.bodyEnd; at = member.end) {
      readBatchMember(body, at, request.bodyEnd, member);
      this.#takeMember(member);
      const propertyBytes = propertiesBytes(source, crc, false);
      const size = recordBytes(source, version, propertyBytes);
      const offset = this.#log.wrote;
      result.batchOffsets.push(offset);
      writeRecord(
        chunk.bytes,
        chunk.view,
        chunk.used,
        source,
        sysFlag,
        version,
        size,
        propertyBytes,
        crc,
        queue.nextOffset,
        offset,
        storeTimestamp,
      );
      this.#log.appended(chunk, size);
      queue.nextOffset++;
    }
    result.wroteBytes = total;
    result.queueOffset = first;
    result.storeTimestamp = storeTimestamp;
    result.messageCount = count;
    return PutMessageStatus.PUT_OK;
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

  /** Takes over from the batch what all members share. */
  #memberSource(request: PutRequest): void {
    const source = this.#source;
    source.topic = request.topic;
    source.topicBytes = request.topicBytes;
    source.queueId = request.queueId;
    source.sysFlag = request.sysFlag;
    source.bornTimestamp = request.bornTimestamp;
    source.bornHost = request.bornHost;
    source.storeHost = request.storeHost;
    source.reconsumeTimes = request.reconsumeTimes;
    source.preparedTransactionOffset = 0;
    source.body = request.body;
    source.properties = request.body;
  }

  #takeMember(member: BatchMember): void {
    const source = this.#source;
    source.flag = member.flag;
    source.bodyStart = member.bodyStart;
    source.bodyEnd = member.bodyEnd;
    source.propertiesStart = member.propertiesStart;
    source.propertiesEnd = member.propertiesEnd;
  }

  /** The clock, but never behind the last record for a small step back: searches by time rely on the order. */
  #storeTime(): number {
    const now = this.#clock.now();
    const last = this.lastStoreTimestamp;
    this.lastStoreTimestamp = now < last && now > last - CLOCK_STEP_MS ? last : now;
    return this.lastStoreTimestamp;
  }
}
