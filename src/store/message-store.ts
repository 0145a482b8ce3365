// The door of the store: puts, reads, positions, start and stop. The work is done in the folders beside this file; here it is
// put together, once per loop turn:
//
//   put ... put ... put            append into the log's chunk in memory; nothing waits
//        └─ clock.soon ─► turn     commit (one write) ─► release answers ─► start a sync ─► dispatch ─► wake ─► trim
//                                  a sync ends ─────────► release answers ─► dispatch what became visible
//
// Watermarks (I4): flushed <= committed <= wrote; dispatched <= confirmed, which is flushed under SYNC_FLUSH, else committed.

import { totalmem } from 'node:os';
import {
  type Clock,
  errorText,
  type GantryError,
  type Logger,
  type QueueOffset,
  queueOffset,
  silentLogger,
  systemClock,
  viewOf,
} from '../common/index.ts';
import { type FileSystem, makeDirectoryDurably, nodeFileSystem, writeWhole } from '../io/index.ts';
import {
  BatchMember,
  MAX_PROPERTIES_BYTES,
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
import { StoreCheckpoint } from './checkpoint/index.ts';
import { CommitLog } from './commit-log/commit-log.ts';
import { ConsumeQueueStore, CQ_UNIT_BYTES } from './consume-queue/index.ts';
import { parseDelayLevels } from './dispatch/delay-levels.ts';
import { Dispatcher } from './dispatch/dispatcher.ts';
import { AckQueue, type AckTarget } from './flush/ack-queue.ts';
import type { GetResult, TagFilter } from './get.ts';
import { IndexLayout, IndexService } from './index-file/index.ts';
import { PutMessageStatus, type PutRequest, type PutResult } from './put.ts';
import { MessageReader, type QueryResult } from './read/message-reader.ts';
import { saveQueueBounds } from './recovery/queue-bounds.ts';
import { type RecoveryReport, recover } from './recovery/recover.ts';
import { cutQueueToLog, recoverQueueEnd } from './recovery/recover-queues.ts';
import { loadSegments, ReadCache, type Ready, type SegmentFile } from './segment/index.ts';
import { defaultStoreConfig, type MessageStoreConfig } from './store-config.ts';

/** Positions that say how far the log has come, all physical offsets. */
export interface Watermarks {
  /** Start of the oldest file. */
  minimum: number;
  wrote: number;
  committed: number;
  flushed: number;
  /** What dispatch and consumers may see. */
  confirmed: number;
  dispatched: number;
  indexed: number;
}

/** Called in log order, once per dispatched record of a watched queue; must not throw. `maxOffset` is the queue's new exclusive maximum. */
export type ArrivalListener = (topic: string, queueId: number, maxOffset: QueueOffset, tagsCode: number) => void;

/** What the store is handed (contract 1). Everything has a real default. */
export interface StoreDependencies {
  fs?: FileSystem;
  clock?: Clock;
  logger?: Logger;
  /** Bytes of memory that decide what counts as "in memory" for a pull's limits. */
  memoryBytes?: number;
  /** Written into `abort`. */
  processId?: number;
}

/** Bytes dispatched at least before the loop gets a turn. */
const DISPATCH_SLICE_BYTES = 2 * 1024 * 1024;
const LOG_BLOCK_BYTES = 256 * 1024;
/** A multiple of the unit, so that no unit lies in two blocks. */
const QUEUE_BLOCK_BYTES = 1638 * CQ_UNIT_BYTES;
/** RocketMQ: the store's clock may be set back a little; store times in the log never fall for that. */
const CLOCK_STEP_MS = 60_000;
const DISK_PROBE_MS = 10_000;
const RETRY_WRITE_MS = 1000;
const ACK_SWEEP_MS = 50;
const CHECKPOINT_MS = 1000;

export class MessageStore {
  readonly config: MessageStoreConfig;
  /** What the start found. */
  readonly recovery: RecoveryReport;

  readonly #fs: FileSystem;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #root: string;
  readonly #syncFlush: boolean;
  readonly #log: CommitLog;
  readonly #queues: ConsumeQueueStore;
  readonly #index: IndexService | undefined;
  readonly #checkpoint: StoreCheckpoint;
  readonly #dispatcher: Dispatcher;
  readonly #acks: AckQueue;
  readonly #reader: MessageReader;
  readonly #timers: Array<{ cancel(): void }> = [];
  readonly #member = new BatchMember();
  readonly #source = new RecordSource();

  #arrival: ArrivalListener = () => {};
  #turnAsked = false;
  #closing = false;
  #diskFullReason: string | undefined;
  #lastStoreTimestamp: number;
  /** Store time of the newest record at the last commit. */
  #committedTimestamp = 0;
  #lastThoroughFlush = 0;
  #lastQueueFlush = 0;
  #queueFlushing = false;
  #checkpointWritten = '';
  #warnedAt = new Map<string, number>();

  private constructor(parts: StoreParts) {
    this.config = parts.config;
    this.recovery = parts.report;
    this.#fs = parts.fs;
    this.#clock = parts.clock;
    this.#logger = parts.logger;
    this.#root = parts.config.storePathRootDir;
    this.#syncFlush = parts.config.flushDiskType === 'SYNC_FLUSH';
    this.#queues = parts.queues;
    this.#index = parts.index;
    this.#checkpoint = parts.checkpoint;
    this.#dispatcher = parts.dispatcher;
    this.#lastStoreTimestamp = parts.dispatcher.lastStoreTimestamp;
    this.#committedTimestamp = parts.dispatcher.lastStoreTimestamp;
    this.#acks = new AckQueue(this.#clock, this.config.syncFlushTimeout);
    this.#log = new CommitLog({
      fs: this.#fs,
      clock: this.#clock,
      logger: this.#logger,
      folder: parts.logFolder,
      fileSize: this.config.mappedFileSizeCommitLog,
      files: parts.files,
      end: parts.report.end,
      cache: parts.logCache,
      onCommitted: () => this.#committedLater(),
      onFlushed: () => this.#flushEnded(),
      onWriteFailed: (error) => this.#writeFailed(error),
      onSyncFailed: (error) => this.#syncFailed(error),
    });
    this.#dispatcher.startAt(parts.report.end);
    this.#reader = new MessageReader({
      log: this.#log,
      queues: this.#queues,
      index: this.#index,
      config: this.config,
      memoryBytes: parts.memoryBytes,
    });
  }

  /**
   * Opens a store directory, of ours or of a Java broker, recovers it and starts its timers. On return puts are taken.
   * `config` is completed with RocketMQ's defaults.
   * @throws GantryError STORE_FILE_SIZE, STORE_DAMAGED, STORE_UNWRITABLE, IO, CONFIG_VALUE; nothing was changed in the first two.
   * @example const store = await MessageStore.open({ storePathRootDir: '/var/rocketmq/store' });
   */
  static async open(
    config: Partial<MessageStoreConfig> & Pick<MessageStoreConfig, 'storePathRootDir'>,
    dependencies: StoreDependencies = {},
  ): Promise<MessageStore> {
    const parts = await loadStore({ ...defaultStoreConfig(config.storePathRootDir), ...config }, dependencies);
    const store = new MessageStore(parts);
    parts.connect(store);
    store.#start(dependencies.processId ?? process.pid);
    return store;
  }

  get watermarks(): Readonly<Watermarks> {
    return {
      minimum: this.#log.minimum,
      wrote: this.#log.wrote,
      committed: this.#log.committed,
      flushed: this.#log.flushed,
      confirmed: this.#confirmed,
      dispatched: this.#dispatcher.dispatched,
      indexed: this.#dispatcher.indexed,
    };
  }

  /** Why puts are refused now, in words; undefined while they are taken. */
  get unwritableReason(): string | undefined {
    if (this.#closing) return 'the store is being closed';
    if (this.#log.syncFailure !== undefined) return `a sync of the CommitLog failed: ${this.#log.syncFailure.message}`;
    if (this.#diskFullReason !== undefined) return this.#diskFullReason;
    const behind = this.#log.committed - this.#dispatcher.doneOffset;
    if (behind > this.config.gantryMaxDispatchBehindBytes) {
      return `dispatch is ${behind} bytes behind, the limit gantryMaxDispatchBehindBytes is ${this.config.gantryMaxDispatchBehindBytes}`;
    }
    return undefined;
  }

  /**
   * Appends one message, or the members of one batch, in memory, and answers at once in `result`: PUT_OK means appended at its final
   * place, and an answer to a client waits for `park` or `whenDurable`. Any other status means that nothing was appended.
   * RocketMQ: DefaultMessageStore#asyncPutMessage with the hook checkBeforePutMessage in front, in its order.
   */
  put(request: PutRequest, result: PutResult): void {
    const refusal = this.#guard(request, result);
    if (refusal !== PutMessageStatus.PUT_OK) {
      result.status = refusal;
      return;
    }
    result.status = request.batch ? this.#putBatch(request, result) : this.#putOne(request, result);
  }

  /** Lets `target` wait for everything below `offset`: committed, and with sync flush and `flush` synced. Offsets must not fall. */
  park(offset: number, flush: boolean, target: AckTarget): void {
    this.#acks.park(offset, flush && this.#syncFlush, target);
  }

  /** As `park` with a function; for callers without a hot path. */
  whenDurable(offset: number, flush: boolean, done: (status: PutMessageStatus, reason: string) => void): void {
    this.park(offset, flush, { settle: done });
    this.#askTurn();
  }

  /** Tells of arrivals in watched queues; one listener a store. */
  onArrival(listener: ArrivalListener): void {
    this.#arrival = listener;
  }

  /** Turns telling of one queue's arrivals on or off. */
  watch(topic: string, queueId: number, on: boolean): void {
    const queue = on ? this.#queues.findOrCreate(topic, queueId) : this.#queues.find(topic, queueId);
    if (queue !== undefined) queue.watched = on;
  }

  minOffsetInQueue(topic: string, queueId: number): QueueOffset {
    return queueOffset(this.#queues.find(topic, queueId)?.minOffset ?? 0);
  }

  /** `committed`: what is dispatched (the default); otherwise the next offset that a put would get. */
  maxOffsetInQueue(topic: string, queueId: number, committed = true): QueueOffset {
    const queue = this.#queues.find(topic, queueId);
    if (queue === undefined) return queueOffset(0);
    return queueOffset(committed ? queue.maxOffset : queue.nextOffset);
  }

  /** RocketMQ: getOffsetInQueueByTime: LOWER is the first message not older than `timestamp`, UPPER the last one not younger. */
  offsetInQueueByTime(
    topic: string,
    queueId: number,
    timestamp: number,
    boundary: 'LOWER' | 'UPPER',
  ): Promise<QueueOffset> {
    return this.#reader.offsetByTime(topic, queueId, timestamp, boundary);
  }

  /** Store time of the message at a queue offset; -1 if there is none. */
  messageStoreTimestamp(topic: string, queueId: number, offset: number): Promise<number> {
    return this.#reader.storeTimestamp(topic, queueId, offset);
  }

  /** Store time of the queue's first message; -1 if there is none. */
  earliestMessageTime(topic: string, queueId: number): Promise<number> {
    return this.#reader.storeTimestamp(topic, queueId, this.minOffsetInQueue(topic, queueId));
  }

  /**
   * Chooses the records of one pull. False if bytes had to be fetched from disk first: then nothing in `result` counts, and `ready`
   * runs once, when the call can be repeated or with the error that prevents it.
   */
  select(
    topic: string,
    queueId: number,
    offset: number,
    maxMessages: number,
    maxBytes: number,
    filter: TagFilter,
    result: GetResult,
    ready: Ready,
  ): boolean {
    return this.#reader.select(topic, queueId, offset, maxMessages, maxBytes, filter, result, ready);
  }

  /**
   * Copies the chosen records, one behind the other, to `target[at...]`. False and `ready` as in `select`; the repeated call, with the
   * same result and target, goes on where this one stopped.
   */
  copyRecords(result: GetResult, target: Uint8Array, at: number, ready: Ready): boolean {
    return this.#reader.copyRecords(result, target, at, ready);
  }

  /** The whole record that starts at a physical offset; undefined if none does. */
  recordAt(offset: number): Promise<Uint8Array | undefined> {
    return this.#reader.recordAt(offset);
  }

  /** RocketMQ: queryMessage. `indexType` K, U or T. The real key is compared (RocketMQ compares its hash only). */
  queryMessage(
    topic: string,
    key: string,
    maxMessages: number,
    begin: number,
    end: number,
    indexType: string,
  ): Promise<QueryResult> {
    return this.#reader.query(topic, key, maxMessages, begin, end, indexType);
  }

  /** Every (topic, queueId) that has a ConsumeQueue. */
  *queues(): IterableIterator<{ topic: string; queueId: number }> {
    for (const { topic, queueId } of this.#queues.all()) yield { topic, queueId };
  }

  /** Removes a topic's ConsumeQueues; its messages stay in the log until retention. */
  deleteTopic(topic: string): void {
    this.#queues.remove(topic);
    this.#dispatcher.forgetTopic(topic);
  }

  /**
   * Cuts the log and everything derived at a record boundary, durably. False, with nothing changed, if `offset` is no boundary.
   * RocketMQ: truncateFiles. No put may come while this is awaited.
   */
  async truncateTo(offset: number): Promise<boolean> {
    if (offset >= this.#log.wrote) return true;
    await this.#quiet();
    if (offset < this.#log.minimum || (await this.recordAt(offset)) === undefined) return false;
    for (const queue of this.#queues.all()) cutQueueToLog(this.#queues, queue, offset, this.#logger);
    await this.#index?.truncateTo(offset);
    this.#log.truncateTo(offset);
    this.#dispatcher.startAt(offset);
    return true;
  }

  /** Stops: refuses puts, commits, syncs, dispatches all, makes the derived stores and the checkpoint durable, removes `abort`. */
  async close(): Promise<void> {
    if (this.#closing) return;
    this.#closing = true;
    for (const timer of this.#timers) timer.cancel();
    await this.#quiet();
    const failure = await new Promise<GantryError | undefined>((resolve) => this.#log.close(resolve));
    this.#progress();
    this.#acks.abandon(-1, 'the store was closed');
    const derivedFailure = await new Promise<GantryError | undefined>((resolve) => this.#queues.flush(resolve));
    await this.#index?.close();
    if (failure === undefined && derivedFailure === undefined) {
      this.#checkpoint.physicMsgTimestamp = this.#committedTimestamp;
      this.#publishLogics(this.#dispatcher.lastStoreTimestamp, this.#dispatcher.lastPhysicalOffset);
      saveQueueBounds(this.#fs, this.#root, this.#checkpoint, this.#queues.all());
      this.#checkpoint.flush(true);
      this.#fs.remove(`${this.#root}/abort`);
      this.#fs.syncDirectory(this.#root);
    } else {
      this.#logger.error(
        `the store is closed, but not everything is on disk (${(failure ?? derivedFailure)!.message}); the next start recovers`,
      );
    }
    this.#queues.close();
    this.#checkpoint.close();
  }

  // --- Putting

  #guard(request: PutRequest, result: PutResult): PutMessageStatus {
    const unwritable = this.unwritableReason;
    if (unwritable !== undefined) {
      result.reason = unwritable;
      return PutMessageStatus.SERVICE_NOT_AVAILABLE;
    }
    const topicBytes = request.topicBytes.length;
    const limit = request.topic.startsWith('%RETRY%') ? 255 : 127;
    if (topicBytes > limit || topicBytes === 0) {
      result.reason = `the topic has ${topicBytes} bytes, the limit is ${limit}`;
      return PutMessageStatus.MESSAGE_ILLEGAL;
    }
    if (this.#log.uncommittedSince !== 0) {
      const age = this.#clock.monotonic() - this.#log.uncommittedSince;
      if (age > this.config.osPageCacheBusyTimeOutMills) {
        result.reason = `the disk stalls: the oldest append has waited ${Math.round(age)} ms to be written, the limit is ${this.config.osPageCacheBusyTimeOutMills} ms`;
        return PutMessageStatus.OS_PAGE_CACHE_BUSY;
      }
    }
    return PutMessageStatus.PUT_OK;
  }

  #putOne(request: PutRequest, result: PutResult): PutMessageStatus {
    const config = this.config;
    const crc = config.enabledAppendPropCRC;
    const version = recordVersion(request.topic, config.autoMessageVersionOnTopicLen);
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
    const queue = this.#queues.findOrCreate(request.topic, request.queueId);
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
    this.#askTurn();
    return PutMessageStatus.PUT_OK;
  }

  #putBatch(request: PutRequest, result: PutResult): PutMessageStatus {
    const config = this.config;
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

    const queue = this.#queues.findOrCreate(request.topic, request.queueId);
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
    this.#askTurn();
    return PutMessageStatus.PUT_OK;
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
    const last = this.#lastStoreTimestamp;
    this.#lastStoreTimestamp = now < last && now > last - CLOCK_STEP_MS ? last : now;
    return this.#lastStoreTimestamp;
  }

  // --- The turn

  #askTurn(): void {
    if (this.#turnAsked) return;
    this.#turnAsked = true;
    this.#clock.soon(() => this.#turn());
  }

  /**
   * Commits what this loop turn has appended and releases the answers that waited for that. A server calls it at the end of a turn,
   * before it writes its output; without that it happens by itself a little later, together with the dispatch.
   */
  endTurn(): void {
    if (!this.#turnAsked) return;
    this.#log.commit();
    this.#afterCommit();
    this.#acks.progress(this.#log.committed, this.#log.flushed);
  }

  #afterCommit(): void {
    if (this.#log.committed === this.#log.wrote) this.#committedTimestamp = this.#lastStoreTimestamp;
    if (this.#syncFlush) this.#log.flush();
  }

  /** A commit that went off the loop has ended. */
  #committedLater(): void {
    this.#afterCommit();
    this.#progress();
  }

  #turn(): void {
    this.endTurn();
    this.#turnAsked = false;
    this.#progress();
  }

  #flushEnded(): void {
    if (this.#log.flushed === this.#log.committed) this.#checkpoint.physicMsgTimestamp = this.#committedTimestamp;
    if (this.#syncFlush) {
      this.#log.flush();
      this.#progress();
    }
  }

  #progress(): void {
    this.#acks.progress(this.#log.committed, this.#log.flushed);
    // A share of what waits, so that dispatch keeps up with any rate of puts.
    const behind = this.#confirmed - this.#dispatcher.dispatched;
    const more = this.#dispatcher.run(this.#log, this.#confirmed, Math.max(DISPATCH_SLICE_BYTES, behind / 2));
    this.#sweepQueues();
    this.#log.dispatched = this.#dispatcher.doneOffset;
    this.#log.trim();
    if (more) this.#askTurn();
  }

  get #confirmed(): number {
    return this.#syncFlush && !this.config.readUnCommitted ? this.#log.flushed : this.#log.committed;
  }

  #sweepQueues(): void {
    try {
      this.#queues.sweep();
    } catch (error) {
      this.#warnSometimes('sweep', `ConsumeQueues cannot be written (${errorText(error)}); their units wait in memory`);
    }
  }

  // --- Failures

  /** Nothing above `committed` is in the files: it was never acknowledged, and the queues take their offsets back. */
  #writeFailed(error: GantryError): void {
    const reason = `the CommitLog cannot be written: ${error.message}`;
    this.#takeBackOffsets();
    this.#diskFullReason = reason;
    this.#warnSometimes('write', `${reason}; sends are refused until it can be again`);
    this.#acks.abandon(this.#log.committed, reason);
    this.#clock.after(RETRY_WRITE_MS, () => this.#retryWrite());
  }

  #takeBackOffsets(): void {
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
        const queue = this.#queues.find(topic, record.queueId);
        const transaction = record.sysFlag & SysFlag.TRANSACTION_MASK;
        const counted = transaction === 0 || transaction === SysFlag.TRANSACTION_COMMIT;
        if (queue !== undefined && counted) queue.nextOffset = Math.min(queue.nextOffset, record.queueOffset);
      }
      at += record.totalSize;
    }
  }

  /** Tries whether the disk takes bytes again. */
  #retryWrite(): void {
    if (this.#closing) return;
    const path = `${this.#root}/gantry/probe`;
    try {
      writeWhole(this.#fs, path, new Uint8Array(64 * 1024), true);
      this.#fs.remove(path);
    } catch {
      this.#clock.after(RETRY_WRITE_MS, () => this.#retryWrite());
      return;
    }
    this.#diskFullReason = undefined;
    this.#logger.info('the disk takes writes again; sends are accepted');
    this.#probeDisk();
  }

  #syncFailed(error: GantryError): void {
    const reason = `a sync of the CommitLog failed: ${error.message}`;
    this.#logger.error(`${reason}; no more sends are taken, reads go on. Restart the broker when the disk is sound`);
    this.#acks.syncFailed(reason);
  }

  #warnSometimes(key: string, text: string): void {
    const now = this.#clock.monotonic();
    const last = this.#warnedAt.get(key);
    if (last !== undefined && now - last < 60_000) return;
    this.#warnedAt.set(key, now);
    this.#logger.warn(text);
  }

  // --- Timers

  #start(processId: number): void {
    writeWhole(this.#fs, `${this.#root}/abort`, String(processId), true);
    this.#fs.syncDirectory(this.#root);
    const { config } = this;
    if (!this.#syncFlush)
      this.#timers.push(this.#clock.every(config.flushIntervalCommitLog, () => this.#flushByTime()));
    else this.#timers.push(this.#clock.every(ACK_SWEEP_MS, () => this.#acks.expire()));
    this.#timers.push(this.#clock.every(config.flushIntervalConsumeQueue, () => this.#flushQueuesByTime()));
    this.#timers.push(this.#clock.every(CHECKPOINT_MS, () => this.#writeCheckpoint()));
    this.#timers.push(this.#clock.every(DISK_PROBE_MS, () => this.#probeDisk()));
    this.#lastQueueFlush = this.#clock.monotonic();
    this.#lastThoroughFlush = this.#clock.monotonic();
    this.#probeDisk();
  }

  /** RocketMQ: FlushRealTimeService: enough dirty pages, or the thorough interval is over. */
  #flushByTime(): void {
    const { flushCommitLogLeastPages, flushCommitLogThoroughInterval } = this.config;
    const thorough = this.#clock.monotonic() - this.#lastThoroughFlush >= flushCommitLogThoroughInterval;
    if (thorough || this.#log.unflushed >= flushCommitLogLeastPages * 4096) {
      if (thorough) this.#lastThoroughFlush = this.#clock.monotonic();
      this.#log.flush();
    }
  }

  #flushQueuesByTime(): void {
    if (this.#clock.monotonic() - this.#lastQueueFlush < this.config.flushConsumeQueueThoroughInterval) return;
    this.flushDerived();
  }

  /** Makes queues and index durable and then, and only then, publishes how far (rule 2). */
  flushDerived(done: (error: GantryError | undefined) => void = () => {}): void {
    if (this.#queueFlushing) return done(undefined);
    this.#queueFlushing = true;
    this.#lastQueueFlush = this.#clock.monotonic();
    // Sampled before the flush: what is put meanwhile is not covered. A position that is not durable in the log itself must wait, too.
    const time = this.#dispatcher.lastStoreTimestamp;
    const offset = this.#dispatcher.lastPhysicalOffset;
    const end = this.#dispatcher.dispatched;
    this.#queues.flush((error) => {
      const index = this.#index;
      const finish = (): void => {
        this.#queueFlushing = false;
        if (error !== undefined) {
          this.#warnSometimes('queue-flush', `ConsumeQueues cannot be made durable (${error.message}); tried again`);
        } else if (this.#log.flushed >= end) {
          this.#publishLogics(time, offset);
          try {
            saveQueueBounds(this.#fs, this.#root, this.#checkpoint, this.#queues.all());
          } catch (saveError) {
            this.#warnSometimes('bounds', errorText(saveError));
          }
          this.#writeCheckpoint();
        } else {
          this.#log.flush();
        }
        done(error);
      };
      if (index === undefined) finish();
      else index.flush(finish);
    });
  }

  #publishLogics(time: number, offset: number): void {
    if (time <= 0) return;
    this.#checkpoint.logicsMsgTimestamp = time;
    this.#checkpoint.logicsPhysicalOffset = offset;
  }

  #writeCheckpoint(): void {
    const values = `${this.#checkpoint.physicMsgTimestamp} ${this.#checkpoint.indexMsgTimestamp} ${this.#checkpoint.logicsPhysicalOffset}`;
    if (values === this.#checkpointWritten) return;
    this.#checkpointWritten = values;
    this.#checkpoint.flushAsync((error) => {
      if (error === undefined) return;
      this.#checkpointWritten = '';
      this.#warnSometimes('checkpoint', `the checkpoint cannot be written (${error.message})`);
    });
  }

  #probeDisk(): void {
    const used = this.#fs.usedFraction(this.#root);
    const limit = this.config.gantryDiskFullRatio;
    if (used < 0) return;
    if (used > limit) {
      this.#diskFullReason = `the disk is full: ${(used * 100).toFixed(1)} % of the partition is used, the limit is ${(limit * 100).toFixed(0)} %`;
      this.#warnSometimes('disk-full', `${this.#diskFullReason}; sends are refused until there is space`);
    } else if (this.#diskFullReason?.startsWith('the disk is full')) {
      this.#diskFullReason = undefined;
      this.#logger.info(`the disk has space again (${(used * 100).toFixed(1)} % used); sends are accepted`);
    }
  }

  // --- Helpers of close and truncate

  /** Resolves when everything put is committed, synced and dispatched, or can't be. */
  #quiet(): Promise<void> {
    return new Promise((resolve) => {
      const step = (): void => {
        this.#turnAsked = true;
        this.#turn();
        this.#log.flush();
        const settled = this.#log.committed === this.#log.wrote && this.#log.flushed === this.#log.committed;
        const dispatched = this.#dispatcher.dispatched >= this.#confirmed;
        if ((settled && dispatched) || this.#log.syncFailure !== undefined) resolve();
        else this.#clock.soon(step);
      };
      step();
    });
  }

  /** Called by the dispatcher for watched queues. */
  arrived(topic: string, queueId: number, maxOffset: QueueOffset, tagsCode: number): void {
    this.#arrival(topic, queueId, maxOffset, tagsCode);
  }

  /** Called by the index when a full file has become durable. */
  indexSealed(endTimestamp: number): void {
    this.#checkpoint.indexMsgTimestamp = Math.max(this.#checkpoint.indexMsgTimestamp, endTimestamp);
  }
}

interface StoreParts {
  config: MessageStoreConfig;
  fs: FileSystem;
  clock: Clock;
  logger: Logger;
  memoryBytes: number;
  logFolder: string;
  files: SegmentFile[];
  queues: ConsumeQueueStore;
  logCache: ReadCache;
  index: IndexService | undefined;
  checkpoint: StoreCheckpoint;
  dispatcher: Dispatcher;
  report: RecoveryReport;
  /** Gives the callbacks of dispatch and index their store. */
  connect: (store: MessageStore) => void;
}

/** Loads and recovers everything that a store is made of. */
async function loadStore(config: MessageStoreConfig, dependencies: StoreDependencies): Promise<StoreParts> {
  const fs = dependencies.fs ?? nodeFileSystem;
  const clock = dependencies.clock ?? systemClock;
  const logger = dependencies.logger ?? silentLogger;
  const root = config.storePathRootDir;
  const logFolder = config.storePathCommitLog ?? `${root}/commitlog`;
  const delayLevels = parseDelayLevels(config.messageDelayLevel);
  // Everything that can refuse the start comes before the first change.
  const clean = fs.stat(`${root}/abort`) === undefined;
  const files = loadSegments({
    fs,
    path: logFolder,
    size: config.mappedFileSizeCommitLog,
    setting: 'mappedFileSizeCommitLog',
    derived: false,
    logger,
  });
  const logCache = new ReadCache(LOG_BLOCK_BYTES, config.gantryReadCacheBytes * 0.75);
  const queues = new ConsumeQueueStore({
    fs,
    clock,
    logger,
    root: `${root}/consumequeue`,
    fileSize: config.mappedFileSizeConsumeQueue,
    cache: new ReadCache(QUEUE_BLOCK_BYTES, config.gantryReadCacheBytes * 0.25),
  });
  queues.load();
  const checkpoint = StoreCheckpoint.load(fs, `${root}/checkpoint`);
  let store: MessageStore | undefined;
  const index =
    config.messageIndexEnable && config.indexFileWriteEnable
      ? IndexService.open({
          fs,
          clock,
          logger,
          path: `${root}/index`,
          layout: new IndexLayout(config.maxHashSlotNum, config.maxIndexNum),
          lastExitClean: clean,
          indexMsgTimestamp: checkpoint.indexMsgTimestamp,
          maxPhysicalOffset: files.at(-1)?.end ?? 0,
          onSealed: (endTimestamp) => store?.indexSealed(endTimestamp),
        })
      : undefined;
  for (const folder of [logFolder, `${root}/consumequeue`, `${root}/index`, `${root}/gantry`]) {
    makeDirectoryDurably(fs, folder);
  }
  for (const queue of queues.all()) recoverQueueEnd(queues, queue, clean);
  const dispatcher = new Dispatcher({
    clock,
    logger,
    queues,
    index,
    delayLevels,
    onArrival: (topic, queueId, maxOffset, tagsCode) => store?.arrived(topic, queueId, maxOffset, tagsCode),
  });
  const report = await recover({
    fs,
    clock,
    logger,
    config,
    root,
    logFolder,
    files,
    queues,
    checkpoint,
    index,
    dispatcher,
    clean,
  });
  if (report.lastRecord >= 0) checkpoint.confirmPhyOffset = report.lastRecord;
  return {
    config,
    fs,
    clock,
    logger,
    memoryBytes: dependencies.memoryBytes ?? totalmem(),
    logFolder,
    files,
    queues,
    logCache,
    index,
    checkpoint,
    dispatcher,
    report,
    connect: (opened) => {
      store = opened;
    },
  };
}
