// The door of the store: puts, reads, positions, start and stop. The work is done in the folders beside this file; engine.ts puts it together.

import { type Clock, type GantryError, type Logger, type QueueOffset, queueOffset } from '../common/index.ts';
import type { RecordView } from '../message/index.ts';
import type { CommitLog } from './commit-log/commit-log.ts';
import type { CompactionStore } from './compaction/index.ts';
import { type ConsumeQueue, canBeFolder, type QueueKinds } from './consume-queue/index.ts';
import type { ArrivalListener, Dispatcher } from './dispatch/dispatcher.ts';
import { Engine, type LogWatcher } from './engine.ts';
import type { AckQueue, AckTarget } from './flush/ack-queue.ts';
import { loadStore, type StoreDependencies, type StoreParts } from './load-store.ts';
import {
  BatchEncoder,
  LongBatch,
  type MessageAppender,
  type PutGuard,
  PutMessageStatus,
  type PutRequest,
  PutResult,
  type StageTimes,
} from './put/index.ts';
import type { GetRequest, GetResult } from './read/get.ts';
import type { MessageReader, QueryResult } from './read/message-reader.ts';
import type { QueueUnits } from './read/queue-units.ts';
import type { DeletedTopics } from './recovery/deleted-topics.ts';
import type { RecoveryReport } from './recovery/report.ts';
import { scanSince } from './recovery/scan-since.ts';
import { truncate } from './recovery/truncation.ts';
import type { Retention } from './retention/index.ts';
import type { Ready } from './segment/index.ts';
import { defaultStoreConfig, type MessageStoreConfig } from './store-config.ts';
import type { Turns } from './turns.ts';

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

export class MessageStore {
  readonly config: MessageStoreConfig;
  /** What the start found. */
  readonly recovery: RecoveryReport;
  /** Removes old files; its floors and its listener are set here. */
  readonly retention: Retention;
  /** How long appends, syncs, dispatch and waking take. */
  readonly times: StageTimes;

  /** The logs of topics that are compacted by key; undefined: enableCompaction is off. */
  readonly compaction: CompactionStore | undefined;

  readonly #engine: Engine;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #syncFlush: boolean;
  readonly #log: CommitLog;
  readonly #kinds: QueueKinds;
  readonly #dispatcher: Dispatcher;
  readonly #acks: AckQueue;
  readonly #appender: MessageAppender;
  readonly #reader: MessageReader;
  readonly #guard: PutGuard;
  readonly #turns: Turns;
  readonly #deleted: DeletedTopics;

  #arrival: ArrivalListener = () => {};

  private constructor(parts: StoreParts, engine: Engine) {
    this.config = parts.config;
    this.recovery = parts.report;
    this.retention = engine.retention;
    this.times = engine.times;
    this.compaction = engine.compaction;
    this.#engine = engine;
    this.#clock = parts.clock;
    this.#logger = parts.logger;
    this.#syncFlush = parts.config.flushDiskType === 'SYNC_FLUSH';
    this.#log = engine.log;
    this.#kinds = parts.kinds;
    this.#dispatcher = parts.dispatcher;
    this.#acks = engine.acks;
    this.#appender = engine.appender;
    this.#reader = engine.reader;
    this.#guard = engine.guard;
    this.#turns = engine.turns;
    this.#deleted = parts.deleted;
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
    const engine = new Engine(parts);
    const store = new MessageStore(parts, engine);
    parts.connect((topic, queueId, maxOffset, tagsCode, bytes, start, end) =>
      store.#arrival(topic, queueId, maxOffset, tagsCode, bytes, start, end),
    );
    try {
      await engine.start();
    } catch (error) {
      await engine.release();
      throw error;
    }
    return store;
  }

  get watermarks(): Readonly<Watermarks> {
    return {
      minimum: this.#log.minimum,
      wrote: this.#log.wrote,
      committed: this.#log.committed,
      flushed: this.#log.flushed,
      confirmed: this.#turns.confirmed,
      dispatched: this.#dispatcher.dispatched,
      indexed: this.#dispatcher.indexed,
    };
  }

  /** Places that dispatch has left out since the start: queues and numbers in properties of messages that made no sense. */
  get oddities(): number {
    return this.#dispatcher.oddities;
  }

  /**
   * How far the queues and the index are behind what was put: bytes, and milliseconds between the newest record and the last one that
   * is dispatched. RocketMQ: dispatchBehindBytes, dispatchBehindMilliseconds.
   */
  get dispatchBehind(): { bytes: number; ms: number } {
    const bytes = this.#log.wrote - this.#dispatcher.doneOffset;
    if (bytes <= 0) return { bytes: 0, ms: 0 };
    return { bytes, ms: Math.max(0, this.#appender.lastStoreTimestamp - this.#dispatcher.lastStoreTimestamp) };
  }

  /** Why puts are refused now, in words; undefined while they are taken. */
  get unwritableReason(): string | undefined {
    return this.#guard.unwritableReason;
  }

  /** Puts that were refused since the start, and answers that did not end well, by cause; without those that were illegal. */
  get refusals(): ReadonlyMap<string, number> {
    const { timedOut, unsynced, abandoned } = this.#acks;
    const counts = new Map<string, number>(this.#guard.refusals);
    for (const [cause, count] of Object.entries({ timedOut, unsynced, abandoned }))
      if (count > 0) counts.set(cause, count);
    return counts;
  }

  /** Whether appends wait in the transient store pool. */
  get hasPool(): boolean {
    return this.#engine.pool !== undefined;
  }

  /** Buffers of the transient store pool that are left; as many as an int holds without a pool, as RocketMQ says it. */
  get remainTransientStoreBufferNumbs(): number {
    return this.#engine.pool?.free ?? 2_147_483_647;
  }

  /**
   * Whether the disk or dispatch lags behind what is put: who has much more to put should wait until `onProgress` tells of news, or
   * memory fills with what waits, and everybody's messages wait behind it. False if puts are refused: those need not wait.
   */
  get pressed(): boolean {
    return this.#guard.pressed;
  }

  /** What presses it, measured, in words for whoever is refused for it. */
  get pressedBy(): string {
    return this.#guard.pressedBy;
  }

  /** Calls `fn` whenever the store may have ceased to be pressed; one listener a store. */
  onProgress(fn: () => void): void {
    this.#turns.onProgress = fn;
  }

  /**
   * Appends one message, or the members of one batch, in memory, and answers at once in `result`: PUT_OK means appended at its final
   * place, and an answer to a client waits for `park` or `whenDurable`. Any other status means that nothing was appended.
   * RocketMQ: DefaultMessageStore#asyncPutMessage with the hook checkBeforePutMessage in front, in its order.
   */
  put(request: PutRequest, result: PutResult): void {
    const refusal = this.#guard.check(request, result, this.#turns.asked);
    if (refusal !== PutMessageStatus.PUT_OK) {
      result.status = refusal;
      return;
    }
    result.status = this.#appender.append(request, result);
    if (result.status !== PutMessageStatus.PUT_OK) return;
    if (!request.isOwn) this.#log.hasSends = true;
    this.#turns.ask();
  }

  /**
   * Begins a batch that is too long to be put in one piece: `step` works on it, then `putBatch` puts it. The request, which is the
   * caller's own, and its bytes must stay as they are until then.
   */
  beginBatch(request: PutRequest): LongBatch {
    const batch = new LongBatch(request, new BatchEncoder(this.config), this.#log);
    const result = new PutResult();
    const refusal = this.#guard.check(request, result, this.#turns.asked);
    if (refusal !== PutMessageStatus.PUT_OK) batch.refuse(refusal, result.reason);
    return batch;
  }

  /** As `put`, for a batch that has had its last step; it is used up then. Stored whole or not at all. */
  putBatch(batch: LongBatch, result: PutResult): void {
    result.status = batch.status;
    result.reason = batch.reason;
    if (result.status === PutMessageStatus.PUT_OK)
      result.status = this.#guard.check(batch.request, result, this.#turns.asked);
    if (result.status === PutMessageStatus.PUT_OK) result.status = this.#appender.appendEncoded(batch, result);
    batch.release();
    if (result.status !== PutMessageStatus.PUT_OK) return;
    this.#log.hasSends = true;
    this.#turns.ask();
  }

  /** A topic's queues by queueId, as they come and go, for puts to it. Good until the topic is deleted; then it stays empty. */
  queuesOf(topic: string): readonly ConsumeQueue[] {
    return this.#kinds.plain.topic(topic).queues;
  }

  /** Lets `target` wait for everything below `offset`: committed, and with sync flush and `flush` synced. Offsets must not fall. */
  park(offset: number, flush: boolean, target: AckTarget): void {
    this.#acks.park(offset, flush && this.#syncFlush, target);
  }

  /** As `park` with a function; for callers without a hot path. */
  whenDurable(offset: number, flush: boolean, done: (status: PutMessageStatus, reason: string) => void): void {
    this.park(offset, flush, { settle: done });
    this.#turns.ask();
  }

  /** Tells of arrivals in watched queues; one listener a store. */
  onArrival(listener: ArrivalListener): void {
    this.#arrival = listener;
  }

  /** Tells of arrivals in light queues, by name, whether they are watched or not; one listener a store. */
  onLightArrival(listener: (queue: string) => void): void {
    this.#dispatcher.onLightArrival = listener;
  }

  /** Tells of what is taken out of the log again. */
  watchLog(watcher: LogWatcher): void {
    this.#engine.watchers.push(watcher);
  }

  /**
   * Shows `visit` every record that was stored at `since` or later and still counts, in the order of the log; bytes and view are used
   * again. The log is read from the newest file on whose first record is older. For a start: nothing may be put meanwhile.
   */
  async scanSince(since: number, visit: (bytes: Uint8Array, record: RecordView) => void): Promise<void> {
    await scanSince({
      files: this.#log.files,
      end: this.#log.committed,
      since,
      visit,
      deleted: this.#deleted,
      clock: this.#clock,
      logger: this.#logger,
    });
  }

  /** Turns telling of one queue's arrivals on or off. */
  watch(topic: string, queueId: number, on: boolean): void {
    const queue =
      on && canBeFolder(topic) ? this.#kinds.findOrCreate(topic, queueId) : this.#kinds.find(topic, queueId);
    if (queue !== undefined) queue.watched = on;
  }

  minOffsetInQueue(topic: string, queueId: number): QueueOffset {
    return queueOffset(this.#kinds.find(topic, queueId)?.minOffset ?? 0);
  }

  /** `committed`: what is dispatched (the default); otherwise the next offset that a put would get. */
  maxOffsetInQueue(topic: string, queueId: number, committed = true): QueueOffset {
    const queue = this.#kinds.find(topic, queueId);
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
  select(request: GetRequest, result: GetResult, ready: Ready): boolean {
    const { compaction } = this;
    if (compaction?.has(request.topic)) return compaction.select(request, result, ready);
    return this.#reader.select(request, result, ready);
  }

  /**
   * Copies the chosen records, one behind the other, to `target[at...]`. False and `ready` as in `select`; the repeated call, with the
   * same result and target, goes on where this one stopped. A record that turns out damaged is taken out of the result, whose `count` and
   * `totalBytes` shrink; if none is left its status becomes MESSAGE_WAS_REMOVING, and the reader goes on at `nextBeginOffset`.
   */
  copyRecords(result: GetResult, target: Uint8Array, at: number, ready: Ready): boolean {
    if (result.elsewhere !== undefined) return result.elsewhere.copyRecords(result, target, at, ready);
    return this.#reader.copyRecords(result, target, at, ready);
  }

  /** The units of a plain queue from `offset` on, `count` at most. False and `ready` as in `select`. */
  unitsOf(topic: string, queueId: number, offset: number, count: number, units: QueueUnits, ready: Ready): boolean {
    return this.#reader.units(topic, queueId, offset, count, units, ready);
  }

  /** Whether what lies at a physical offset counts as old (`accessMessageInMemoryHotRatio`). */
  isCold(offset: number): boolean {
    return this.#reader.isCold(offset);
  }

  /** The whole record that starts at a physical offset; undefined if none does. */
  recordAt(offset: number): Promise<Uint8Array | undefined> {
    return this.#reader.recordAt(offset);
  }

  /**
   * The record that starts at a physical offset, where it lies in the log's memory: `out` says which of the bytes it is. They are the log's
   * own, not to be changed and not to be kept beyond the call. undefined: it is not there, and `recordAt` may have it.
   */
  recordInMemory(offset: number, out: RecordView): Uint8Array | undefined {
    return this.#reader.recordInMemory(offset, out);
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

  hasQueue(topic: string, queueId: number): boolean {
    return this.#kinds.find(topic, queueId) !== undefined;
  }

  /** Every (topic, queueId) that has a ConsumeQueue. */
  *queues(): IterableIterator<{ topic: string; queueId: number }> {
    for (const { topic, queueId } of this.#kinds.all()) yield { topic, queueId };
  }

  /**
   * Removes the ConsumeQueues of topics, for good: their messages stay in the log until retention, but no start brings them back, and a
   * topic of the same name begins at ordinal 0. Puts to these topics are refused meanwhile. RocketMQ: deleteTopics, which keeps no
   * record of it. `isDoomed` is asked for each in the turn that fixes its end. @throws GantryError IO, DISK_FULL: the topics are as before,
   * but after a failed sync the next start may find them deleted.
   */
  deleteTopics(topics: readonly string[], isDoomed?: (topic: string) => boolean): Promise<void> {
    return this.#engine.deletion.delete(topics, isDoomed);
  }

  /** Physical offset below which records of a topic are of a life of it that was deleted; 0 if none is known of. */
  deletedBelow(topic: string): number {
    return this.#deleted.endOf(topic);
  }

  /**
   * Cuts the log and everything derived at a record boundary, durably. False, with nothing changed, if `offset` is no boundary.
   * RocketMQ: truncateFiles. No put may come while this is awaited. @throws GantryError IO, DISK_FULL: some of the end may be gone.
   */
  async truncateTo(offset: number): Promise<boolean> {
    if (offset >= this.#log.wrote) return true;
    await this.#turns.quiet(this.#guard.closing);
    // Nobody knows what the disk holds: nothing that is done to it now would be durable for certain.
    const failure = this.#log.syncFailure ?? this.#log.writeDelayed;
    if (failure !== undefined) throw failure;
    if (offset < this.#log.minimum || (await this.recordAt(offset)) === undefined) return false;
    await truncate(this.#engine.truncation, offset);
    return true;
  }

  /** How far a `close` is: `moved` is another number each time something has got on, `filesLeft` are queue files and folders to make durable. */
  get closeState(): { moved: number; filesLeft: number } {
    const { committed, flushed, dispatched, indexed } = this.watermarks;
    const { moved, left } = this.#kinds.plain.flushState;
    return { moved: committed + flushed + dispatched + indexed + moved, filesLeft: left };
  }

  /** Stops: refuses puts, commits, syncs, dispatches all, makes the derived stores and the checkpoint durable, removes `abort`. */
  close(): Promise<void> {
    return this.#engine.close();
  }

  /**
   * Commits what this loop turn has appended and releases the answers that waited for that. A server calls it at the end of a turn,
   * before it writes its output; without that it happens by itself a little later, together with the dispatch.
   */
  endTurn(): void {
    this.#turns.endTurn();
  }

  /** Makes queues and index durable now instead of at the next interval. */
  flushDerived(done?: (error: GantryError | undefined) => void): void {
    this.#engine.derived.flush(done);
  }
}
