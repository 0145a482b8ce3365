// Makes what is derived durable and then, and only then, says so in the checkpoint (I5): ConsumeQueues and index are flushed, the
// bounds of the queues saved, and the pair (store time, position) that was sampled before all that is published.
//
//   sample ─► write and sync every queue ─► sync the index ─► save the queues' bounds ─► checkpoint
//
// That is the thorough flush: after flushConsumeQueueThoroughInterval, and sooner if the log has grown so far that a kill now would make
// the next start long. In between, each flushIntervalConsumeQueue, files with flushConsumeQueueLeastPages to sync are synced. While
// nothing comes, nothing is written. RocketMQ: FlushConsumeQueueService, StoreCheckpoint.

import { type Clock, type GantryError, type Logger, SeldomWarning } from '../../common/index.ts';
import type { FileSystem } from '../../io/index.ts';
import type { StoreCheckpoint } from '../checkpoint/index.ts';
import type { CommitLog } from '../commit-log/commit-log.ts';
import type { QueueKinds } from '../consume-queue/index.ts';
import type { Dispatcher } from '../dispatch/dispatcher.ts';
import type { IndexService } from '../index-file/index.ts';
import type { DeletedTopics } from '../recovery/deleted-topics.ts';
import { dropQueueBounds, saveQueueBounds, saveQueueBoundsLater } from '../recovery/queue-bounds.ts';
import { queueSums } from '../recovery/queue-sums.ts';

/** So many files beyond what the checkpoint vouches for start a flush, and more than so many hold the log back until it has ended. */
const FLUSH_AHEAD_FILES = 2;
const MAX_AHEAD_FILES = 7;
/**
 * So do so many bytes, and for each queue that is to be flushed so many more: to open, write and sync its file costs about what a start
 * needs for these. Nor may flushes take more than a part of the time.
 */
const FLUSH_AHEAD_BYTES = 256 * 1024 * 1024;
const FLUSH_AHEAD_BYTES_PER_QUEUE = 64 * 1024;
const REST_FACTOR = 10;
const RETRY_MS = 1000;
/** When the checkpoint is so many files behind, it is written whatever else lags. */
const LAG_FILES = 4;
/** Syncs at once when nothing else is to be done any more. */
const CLOSE_LANES = 16;
/** RocketMQ: the checkpoint is written once a second. */
const CHECKPOINT_MS = 1000;

export interface DerivedFlushOptions {
  fs: FileSystem;
  clock: Clock;
  logger: Logger;
  root: string;
  /** How often to look what is to be flushed, what makes a file worth it (0: anything), and how long the thorough flush may be put off. */
  lookMs: number;
  leastPages: number;
  thoroughMs: number;
  log: CommitLog;
  queues: QueueKinds;
  index: IndexService | undefined;
  checkpoint: StoreCheckpoint;
  deleted: DeletedTopics;
  dispatcher: Dispatcher;
  /** With more queues than this no start looks into their files. */
  mostLookedAt: number;
  /** What the checkpoint vouches for at the start. */
  vouched: number;
  /** Told when the checkpoint vouches for more. */
  onVouched: () => void;
  /** What else is derived. */
  further: () => FurtherStore | undefined;
}

/**
 * A derived store that follows the queues at its own pace. While it lags, the checkpoint does not vouch for more: a Java broker would dispatch
 * nothing to it again. What it lags by for long does not hold the log back.
 */
export interface FurtherStore {
  readonly isEmpty: boolean;
  /** Makes what is dispatched now durable; false if it could not. */
  flush(): Promise<boolean>;
}

export class DerivedFlush {
  readonly #options: DerivedFlushOptions;
  readonly #seldom: SeldomWarning;
  #timers: Array<{ cancel(): void }> = [];
  #lastFlush: number;
  /** When the last thorough flush ended, and how long it took. */
  #ended: number;
  #tookMs = 0;
  /** Before this a flush that failed is not tried again because the log has grown. */
  #retryAt = 0;
  /** What dispatch and index had when the last one began. */
  #covered = -1;
  #coveredIndex = -1;
  #flushing = false;
  readonly #whenIdle: Array<() => void> = [];
  #closed = false;
  /** Cuts of the log so far: what a flush has sampled before one is not true any more. */
  #cuts = 0;
  /** Everything below is durable in the log and in the queues; counted from this start on, whatever the checkpoint of another life said. */
  durableTo = 0;
  /** The values that were written last, as text. */
  #written = '';
  /** logicsPhysicalOffset as it stands on disk: all units up to that record are durable. */
  #vouched: number;

  constructor(options: DerivedFlushOptions) {
    this.#options = options;
    this.#seldom = new SeldomWarning(options.clock, options.logger);
    this.#lastFlush = options.clock.monotonic();
    this.#ended = this.#lastFlush;
    this.#vouched = options.vouched;
  }

  start(): void {
    const { clock, lookMs } = this.#options;
    this.#timers = [clock.every(lookMs, () => this.#look()), clock.every(CHECKPOINT_MS, () => this.#writeCheckpoint())];
  }

  stop(): void {
    this.#closed = true;
    for (const timer of this.#timers) timer.cancel();
  }

  #look(): void {
    const { clock, log, queues, leastPages, thoroughMs } = this.#options;
    if (this.#flushing || this.#isCovered()) return;
    const isDue = clock.monotonic() - this.#lastFlush >= thoroughMs;
    // The log may stand still until the checkpoint has followed, and nothing else may come to ask.
    const isFarAhead = this.#filesAhead(log.wrote) >= FLUSH_AHEAD_FILES;
    if (leastPages === 0 || isDue || isFarAhead) return this.flush();
    this.#flushing = true;
    queues.syncPages(leastPages, (error) => {
      this.#notFlushing();
      if (error !== undefined && !this.#closed) this.#warnOf(error);
    });
  }

  /** Nothing has come since the last thorough flush. */
  #isCovered(): boolean {
    const { dispatcher, queues } = this.#options;
    return dispatcher.dispatched === this.#covered && dispatcher.indexed === this.#coveredIndex && queues.isDurable;
  }

  #notFlushing(): void {
    this.#flushing = false;
    for (const fn of this.#whenIdle.splice(0)) fn();
  }

  #warnOf(error: GantryError): void {
    this.#seldom.warn('queues', `the derived files cannot be made durable (${error.message}); tried again`);
  }

  /** The thorough flush. What is put meanwhile is not covered; a failure is warned of and tried again next time. */
  flush(done: (error: GantryError | undefined) => void = () => {}): void {
    if (this.#flushing) return done(undefined);
    const { fs, root, clock, queues, index, log, deleted, dispatcher } = this.#options;
    this.#flushing = true;
    const started = clock.monotonic();
    this.#lastFlush = started;
    const cuts = this.#cuts;
    const { lastStoreTimestamp, lastPhysicalOffset, dispatched, indexed } = dispatcher;
    const further = this.#options.further();
    const furtherFlush = further === undefined || further.isEmpty ? undefined : further.flush();
    let lags = false;
    const finish = (error: GantryError | undefined): void => {
      this.#ended = clock.monotonic();
      this.#tookMs = this.#ended - started;
      this.#notFlushing();
      if (this.#closed || cuts !== this.#cuts) return done(error);
      if (error !== undefined) {
        this.#retryAt = this.#ended + RETRY_MS;
        this.#warnOf(error);
        return done(error);
      }
      this.#covered = dispatched;
      this.#coveredIndex = indexed;
      this.durableTo = Math.max(this.durableTo, dispatched);
      if (lags) {
        this.#covered = -1;
        return done(undefined);
      }
      this.#publish(lastStoreTimestamp, lastPhysicalOffset);
      this.#writeCheckpoint(lastPhysicalOffset);
      done(undefined);
    };
    const saveBounds = (error: GantryError | undefined): void => {
      if (error !== undefined || this.#closed || cuts !== this.#cuts) return finish(error);
      const source = {
        logicsPhysicalOffset: lastPhysicalOffset,
        queues: queues.all(),
        index: index?.progress,
        deleted,
        logMinimum: log.minimum,
      };
      saveQueueBoundsLater(fs, clock, root, source, (boundsError) => {
        if (boundsError !== undefined && !this.#closed) this.#warnOfBounds(boundsError);
        if (furtherFlush === undefined) finish(undefined);
        else {
          void furtherFlush.then((whole) => {
            lags = !whole && this.#filesAhead(log.wrote) < LAG_FILES;
            finish(undefined);
          });
        }
      });
    };
    queues.flush((error) => {
      if (error !== undefined) return finish(error);
      const syncLog = (): void => log.syncTo(dispatched, saveBounds);
      // Units of records that may not survive themselves are not vouched for. An index that fails is not what the checkpoint speaks of.
      if (index === undefined) syncLog();
      else index.flush(syncLog);
    });
  }

  /** Flushes if it must be for everything below `offset` to be durable; whether it is. */
  async makeDurable(offset: number): Promise<boolean> {
    if (this.durableTo < offset && this.#flushing) await new Promise<void>((resolve) => this.#whenIdle.push(resolve));
    if (this.durableTo < offset) await new Promise<void>((resolve) => this.flush(() => resolve()));
    return this.durableTo >= offset;
  }

  /**
   * Called when the log has grown: keeps what the checkpoint vouches for close behind the log's end, so that a start after a kill has
   * little to catch up. RocketMQ scans at most ten files at a start (`commitLogRecoverMaxNum`); a Java broker must find all messages
   * after a kill of this one, too.
   */
  logGrew(): void {
    const { clock, log, queues, dispatcher } = this.#options;
    if (this.#flushing || (this.#retryAt > 0 && clock.monotonic() < this.#retryAt)) return;
    if (this.#filesAhead(log.wrote) >= FLUSH_AHEAD_FILES) return this.flush();
    const ahead = dispatcher.dispatched - Math.max(this.#vouched, log.minimum);
    if (ahead < FLUSH_AHEAD_BYTES + queues.toFlush * FLUSH_AHEAD_BYTES_PER_QUEUE) return;
    if (clock.monotonic() - this.#ended >= REST_FACTOR * this.#tookMs) this.flush();
  }

  /** Whether the log may go on into the file that begins at `base` (see `logGrew`). */
  mayCommitInto(base: number): boolean {
    return this.#filesAhead(base) <= MAX_AHEAD_FILES;
  }

  #filesAhead(offset: number): number {
    const { fileSize, minimum } = this.#options.log;
    return Math.floor(offset / fileSize) - Math.floor(Math.max(this.#vouched, minimum) / fileSize);
  }

  /** Waits until no flush is under way, and lets none begin until the answer is called. */
  async pause(): Promise<() => void> {
    while (this.#flushing) await new Promise<void>((resolve) => this.#whenIdle.push(resolve));
    this.#flushing = true;
    return () => this.#notFlushing();
  }

  /**
   * The log will end at `end`: what is appended from there on is not durable because the bytes before were. To be called while flushes pause,
   * before anything is cut. @throws GantryError IO, DISK_FULL.
   */
  async logCutTo(end: number): Promise<void> {
    const { fs, root, checkpoint } = this.#options;
    this.#cuts++;
    this.#covered = -1;
    this.#vouched = Math.min(this.#vouched, end);
    dropQueueBounds(fs, root);
    this.durableTo = Math.min(this.durableTo, end);
    if (checkpoint.logicsPhysicalOffset <= end) return;
    checkpoint.logicsPhysicalOffset = end;
    await new Promise<void>((resolve, reject) => {
      checkpoint.takeBack((error) => (error === undefined ? resolve() : reject(error)));
    });
  }

  /**
   * The cut is done: what is left of the queues goes on record again, without waiting for a flush. A queue whose files are lost before that
   * would be noticed by nobody.
   */
  saveBounds(): void {
    try {
      this.#saveBounds();
    } catch (error) {
      this.#warnOfBounds(error as GantryError);
    }
  }

  /** `closed`: nothing comes any more, and what the queues' files hold is what the next start must find there. */
  #saveBounds(closed = false): void {
    const { fs, root, queues, mostLookedAt, index, checkpoint, deleted, log } = this.#options;
    const sums = closed ? queueSums(queues, mostLookedAt) : undefined;
    saveQueueBounds(fs, root, {
      logicsPhysicalOffset: checkpoint.logicsPhysicalOffset,
      queues: queues.all(),
      index: index?.progress,
      deleted,
      logMinimum: log.minimum,
      ...(sums === undefined ? {} : { sums }),
    });
  }

  #warnOfBounds(error: GantryError): void {
    this.#seldom.warn('bounds', `the queues' bounds cannot be saved (${error.message})`);
  }

  /** The last flush of a stop: `physicMsgTimestamp` is the newest durable record's; `lags`: as FurtherStore says. @throws GantryError IO, DISK_FULL. */
  async close(physicMsgTimestamp: number, lags = false): Promise<void> {
    const { queues, index, checkpoint, dispatcher } = this.#options;
    this.stop();
    queues.syncLanes = CLOSE_LANES;
    // Two flushes at once would each take the other's files for synced.
    if (this.#flushing) await new Promise<void>((resolve) => this.#whenIdle.push(resolve));
    const failure = await new Promise<GantryError | undefined>((resolve) => queues.flush(resolve));
    await index?.close();
    if (failure !== undefined) throw failure;
    checkpoint.physicMsgTimestamp = physicMsgTimestamp;
    if (!lags) this.#publish(dispatcher.lastStoreTimestamp, dispatcher.lastPhysicalOffset);
    this.#saveBounds(true);
    // Behind a write that is under way.
    await this.writeCheckpoint();
  }

  /** Makes the checkpoint durable as it is now, behind any write that is under way. @throws GantryError IO, DISK_FULL. */
  async writeCheckpoint(): Promise<void> {
    const { checkpoint } = this.#options;
    await new Promise<void>((resolve, reject) =>
      checkpoint.flushAsync((error) => (error === undefined ? resolve() : reject(error))),
    );
  }

  #publish(time: number, offset: number): void {
    if (time <= 0) return;
    this.#options.checkpoint.logicsMsgTimestamp = time;
    this.#options.checkpoint.logicsPhysicalOffset = offset;
  }

  /** Writes the checkpoint if it has changed. `vouched` is its logicsPhysicalOffset, once it is written. */
  #writeCheckpoint(vouched: number = this.#vouched): void {
    const { checkpoint, log } = this.#options;
    const values = `${checkpoint.physicMsgTimestamp} ${checkpoint.indexMsgTimestamp} ${checkpoint.logicsPhysicalOffset} ${log.flushed}`;
    if (values === this.#written) return;
    this.#written = values;
    checkpoint.flushAsync((error) => {
      if (this.#closed) return;
      if (error !== undefined) {
        this.#written = '';
        this.#seldom.warn('checkpoint', `the checkpoint cannot be written (${error.message})`);
        return;
      }
      if (vouched <= this.#vouched) return;
      this.#vouched = vouched;
      log.commit();
      this.#options.onVouched();
    });
  }
}
