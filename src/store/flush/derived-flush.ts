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
import type { ConsumeQueueStore } from '../consume-queue/index.ts';
import type { Dispatcher } from '../dispatch/dispatcher.ts';
import type { IndexService } from '../index-file/index.ts';
import { saveQueueBounds } from '../recovery/queue-bounds.ts';

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
  queues: ConsumeQueueStore;
  index: IndexService | undefined;
  checkpoint: StoreCheckpoint;
  dispatcher: Dispatcher;
}

export class DerivedFlush {
  readonly #options: DerivedFlushOptions;
  readonly #seldom: SeldomWarning;
  #timers: Array<{ cancel(): void }> = [];
  #lastFlush: number;
  #flushing = false;
  #closed = false;
  /** The values that were written last, as text. */
  #written = '';

  constructor(options: DerivedFlushOptions) {
    this.#options = options;
    this.#seldom = new SeldomWarning(options.clock, options.logger);
    this.#lastFlush = options.clock.monotonic();
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
    queues.flush((error) => {
      const finish = (): void => {
        this.#flushing = false;
        if (this.#closed) return done(error);
        if (error !== undefined) {
          this.#seldom.warn('queues', `ConsumeQueues cannot be made durable (${error.message}); tried again`);
        } else if (log.flushed >= dispatched) {
          this.#publish(lastStoreTimestamp, lastPhysicalOffset);
          this.#saveBounds();
          this.#writeCheckpoint();
        } else {
          // Units of records that may not survive themselves are not vouched for.
          log.flush();
        }
        done(error);
      };
      if (index === undefined) finish();
      else index.flush(finish);
    });
  }

  /** The last flush of a stop: `physicMsgTimestamp` is the newest durable record's. @throws GantryError IO, DISK_FULL. */
  async close(physicMsgTimestamp: number): Promise<void> {
    const { queues, index, checkpoint, fs, root, dispatcher } = this.#options;
    this.stop();
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

  #writeCheckpoint(): void {
    const { checkpoint } = this.#options;
    const values = `${checkpoint.physicMsgTimestamp} ${checkpoint.indexMsgTimestamp} ${checkpoint.logicsPhysicalOffset}`;
    if (values === this.#written) return;
    this.#written = values;
    checkpoint.flushAsync((error) => {
      if (error === undefined || this.#closed) return;
      this.#written = '';
      this.#seldom.warn('checkpoint', `the checkpoint cannot be written (${error.message})`);
    });
  }
}
