// Makes what is derived durable and then, and only then, says so in the checkpoint (rule 2): ConsumeQueues and index are flushed, the
// bounds of the queues saved, and the pair (store time, position) that was sampled before all that is published.
//
//   sample ─► write and sync every queue ─► sync the index ─► save the queues' bounds ─► checkpoint
//
// RocketMQ: FlushConsumeQueueService, StoreCheckpoint. Its least-pages flush each second is left to the kernel here; the thorough one
// is what the checkpoint speaks of.

import { type Clock, errorText, type GantryError, type Logger, SeldomWarning } from '../../common/index.ts';
import type { FileSystem } from '../../io/index.ts';
import type { StoreCheckpoint } from '../checkpoint/index.ts';
import type { CommitLog } from '../commit-log/commit-log.ts';
import type { QueueKinds } from '../consume-queue/index.ts';
import type { Dispatcher } from '../dispatch/dispatcher.ts';
import type { IndexService } from '../index-file/index.ts';
import { saveQueueBounds } from '../recovery/queue-bounds.ts';

/** So many files beyond what the checkpoint vouches for start a flush, and more than so many hold the log back until it has ended. */
const FLUSH_AHEAD_FILES = 3;
const MAX_AHEAD_FILES = 7;
/** RocketMQ: the checkpoint is written once a second. */
const CHECKPOINT_MS = 1000;

export interface DerivedFlushOptions {
  fs: FileSystem;
  clock: Clock;
  logger: Logger;
  root: string;
  /** How often to look whether the thorough flush is due, and how long it may be put off. */
  lookMs: number;
  thoroughMs: number;
  log: CommitLog;
  queues: QueueKinds;
  index: IndexService | undefined;
  checkpoint: StoreCheckpoint;
  dispatcher: Dispatcher;
  /** What the checkpoint vouches for at the start. */
  vouched: number;
  /** Told when the checkpoint vouches for more. */
  onVouched: () => void;
}

export class DerivedFlush {
  readonly #options: DerivedFlushOptions;
  readonly #seldom: SeldomWarning;
  #timers: Array<{ cancel(): void }> = [];
  #lastFlush: number;
  #flushing = false;
  readonly #whenIdle: Array<() => void> = [];
  #closed = false;
  /** The values that were written last, as text. */
  #written = '';
  /** logicsPhysicalOffset as it stands on disk: all units up to that record are durable. */
  #vouched: number;

  constructor(options: DerivedFlushOptions) {
    this.#options = options;
    this.#seldom = new SeldomWarning(options.clock, options.logger);
    this.#lastFlush = options.clock.monotonic();
    this.#vouched = options.vouched;
  }

  start(): void {
    const { clock, lookMs, thoroughMs } = this.#options;
    this.#timers = [
      clock.every(lookMs, () => {
        if (clock.monotonic() - this.#lastFlush >= thoroughMs) this.flush();
      }),
      clock.every(CHECKPOINT_MS, () => this.#writeCheckpoint()),
    ];
  }

  stop(): void {
    this.#closed = true;
    for (const timer of this.#timers) timer.cancel();
  }

  /** The thorough flush. What is put meanwhile is not covered; a failure is warned of and tried again next time. */
  flush(done: (error: GantryError | undefined) => void = () => {}): void {
    if (this.#flushing) return done(undefined);
    const { clock, queues, index, log, dispatcher } = this.#options;
    this.#flushing = true;
    this.#lastFlush = clock.monotonic();
    const { lastStoreTimestamp, lastPhysicalOffset, dispatched } = dispatcher;
    const finish = (error: GantryError | undefined): void => {
      this.#flushing = false;
      for (const fn of this.#whenIdle.splice(0)) fn();
      if (this.#closed) return done(error);
      if (error !== undefined) {
        this.#seldom.warn('queues', `the derived files cannot be made durable (${error.message}); tried again`);
        return done(error);
      }
      this.#publish(lastStoreTimestamp, lastPhysicalOffset);
      this.#saveBounds();
      this.#writeCheckpoint(lastPhysicalOffset);
      done(undefined);
    };
    queues.flush((error) => {
      if (error !== undefined) return finish(error);
      const syncLog = (): void => log.syncTo(dispatched, finish);
      // Units of records that may not survive themselves are not vouched for. An index that fails is not what the checkpoint speaks of.
      if (index === undefined) syncLog();
      else index.flush(syncLog);
    });
  }

  /**
   * Called when the log has grown: keeps what the checkpoint vouches for within a few CommitLog files of the log's end. RocketMQ scans
   * at most ten files at a start (`commitLogRecoverMaxNum`); a Java broker must find all messages after a kill of this one, too.
   */
  logGrew(): void {
    if (this.#filesAhead(this.#options.log.wrote) >= FLUSH_AHEAD_FILES) this.flush();
  }

  /** Whether the log may go on into the file that begins at `base` (see `logGrew`). */
  mayCommitInto(base: number): boolean {
    return this.#filesAhead(base) <= MAX_AHEAD_FILES;
  }

  #filesAhead(offset: number): number {
    const { fileSize, minimum } = this.#options.log;
    return Math.floor(offset / fileSize) - Math.floor(Math.max(this.#vouched, minimum) / fileSize);
  }

  /** The last flush of a stop: `physicMsgTimestamp` is the newest durable record's. @throws GantryError IO, DISK_FULL. */
  async close(physicMsgTimestamp: number): Promise<void> {
    const { queues, index, checkpoint, fs, root, dispatcher } = this.#options;
    this.stop();
    // Two flushes at once would each take the other's files for synced.
    if (this.#flushing) await new Promise<void>((resolve) => this.#whenIdle.push(resolve));
    const failure = await new Promise<GantryError | undefined>((resolve) => queues.flush(resolve));
    await index?.close();
    if (failure !== undefined) throw failure;
    checkpoint.physicMsgTimestamp = physicMsgTimestamp;
    this.#publish(dispatcher.lastStoreTimestamp, dispatcher.lastPhysicalOffset);
    saveQueueBounds(fs, root, checkpoint, queues.all());
    checkpoint.flush(true);
  }

  #publish(time: number, offset: number): void {
    if (time <= 0) return;
    this.#options.checkpoint.logicsMsgTimestamp = time;
    this.#options.checkpoint.logicsPhysicalOffset = offset;
  }

  #saveBounds(): void {
    const { fs, root, checkpoint, queues } = this.#options;
    try {
      saveQueueBounds(fs, root, checkpoint, queues.all());
    } catch (error) {
      this.#seldom.warn('bounds', `the queues' bounds cannot be saved (${errorText(error)})`);
    }
  }

  /** Writes the checkpoint if it has changed. `vouched` is its logicsPhysicalOffset, once it is written. */
  #writeCheckpoint(vouched: number = this.#vouched): void {
    const { checkpoint, log } = this.#options;
    const values = `${checkpoint.physicMsgTimestamp} ${checkpoint.indexMsgTimestamp} ${checkpoint.logicsPhysicalOffset}`;
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
