// What the store does once per loop turn, for all that the turn has put, and again when a sync ends:
//
//   put ... put ... put            append into the log's chunk in memory; nothing waits
//        └─ clock.soon ─► turn     commit (one write) ─► release answers ─► start a sync ─► dispatch ─► wake ─► trim
//                                  a sync ends ─────────► release answers ─► dispatch what became visible
//
// Watermarks (I4): flushed <= committed <= wrote; dispatched <= confirmed, which is flushed under SYNC_FLUSH, else committed.

import { type Clock, errorText, type Logger, SeldomWarning } from '../common/index.ts';
import type { StoreCheckpoint } from './checkpoint/index.ts';
import type { CommitLog } from './commit-log/commit-log.ts';
import type { QueueKinds } from './consume-queue/index.ts';
import type { Dispatcher } from './dispatch/dispatcher.ts';
import type { AckQueue } from './flush/ack-queue.ts';
import type { DerivedFlush } from './flush/derived-flush.ts';
import type { GroupCommit } from './flush/group-commit.ts';
import type { PoolCommit } from './flush/pool-commit.ts';
import type { MessageAppender, StageTimes } from './put/index.ts';
import type { MessageStoreConfig } from './store-config.ts';

/** Unsynced bytes that are not left to the interval: a sync of very many holds up the writes beside it. */
const FLUSH_AT_BYTES = 32 * 1024 * 1024;
const PAGE_BYTES = 4096;
/** Bytes dispatched at least before the loop gets a turn. */
const DISPATCH_SLICE_BYTES = 2 * 1024 * 1024;
const ACK_SWEEP_MS = 50;

export interface TurnsOptions {
  clock: Clock;
  logger: Logger;
  config: MessageStoreConfig;
  times: StageTimes;
  log: CommitLog;
  appender: MessageAppender;
  acks: AckQueue;
  pool: PoolCommit | undefined;
  /** With SYNC_FLUSH. */
  group: GroupCommit | undefined;
  dispatcher: Dispatcher;
  kinds: QueueKinds;
  derived: DerivedFlush;
  checkpoint: StoreCheckpoint;
}

export class Turns {
  /** Told when memory may have become free. */
  onProgress: () => void = () => {};
  readonly #clock: Clock;
  readonly #config: MessageStoreConfig;
  readonly #times: StageTimes;
  /** Unsynced bytes at which a put starts an asynchronous flush. */
  readonly #flushAtBytes: number;
  readonly #syncFlush: boolean;
  readonly #log: CommitLog;
  readonly #appender: MessageAppender;
  readonly #acks: AckQueue;
  readonly #pool: PoolCommit | undefined;
  readonly #group: GroupCommit | undefined;
  readonly #dispatcher: Dispatcher;
  readonly #kinds: QueueKinds;
  readonly #derived: DerivedFlush;
  readonly #checkpoint: StoreCheckpoint;
  readonly #seldom: SeldomWarning;
  readonly #turn = (): void => {
    this.endTurn();
    this.#asked = false;
    this.progress();
  };
  #asked = false;
  #committedTimestamp: number;
  #lastThoroughFlush = 0;
  #timer: { cancel(): void } | undefined;

  constructor(options: TurnsOptions) {
    this.#clock = options.clock;
    this.#config = options.config;
    this.#times = options.times;
    const { flushCommitLogTimed, wakeFlushWhenPutMessage, flushCommitLogLeastPages } = options.config;
    const wakes = wakeFlushWhenPutMessage && !flushCommitLogTimed;
    this.#flushAtBytes = wakes ? Math.min(FLUSH_AT_BYTES, flushCommitLogLeastPages * PAGE_BYTES) : FLUSH_AT_BYTES;
    this.#log = options.log;
    this.#appender = options.appender;
    this.#acks = options.acks;
    this.#pool = options.pool;
    this.#group = options.group;
    this.#syncFlush = options.group !== undefined;
    this.#dispatcher = options.dispatcher;
    this.#kinds = options.kinds;
    this.#derived = options.derived;
    this.#checkpoint = options.checkpoint;
    this.#seldom = new SeldomWarning(options.clock, options.logger);
    this.#committedTimestamp = options.dispatcher.lastStoreTimestamp;
  }

  start(): void {
    this.#lastThoroughFlush = this.#clock.monotonic();
    this.#timer = this.#syncFlush
      ? this.#clock.every(ACK_SWEEP_MS, () => this.#acks.expire())
      : this.#clock.every(this.#config.flushIntervalCommitLog, () => this.#flushByTime());
  }

  stop(): void {
    this.#timer?.cancel();
  }

  ask(): void {
    if (this.#asked) return;
    this.#asked = true;
    this.#clock.soon(this.#turn);
  }

  /** Whether this loop turn has appended something already. */
  get asked(): boolean {
    return this.#asked;
  }

  /** Store time of the newest record at the last commit. */
  get committedTimestamp(): number {
    return this.#committedTimestamp;
  }

  /** As `MessageStore.endTurn`. */
  endTurn(): void {
    if (!this.#asked) return;
    if (this.#pool === undefined) this.#log.commit();
    else this.#pool.endTurn();
    this.#afterCommit();
    this.#acks.progress(this.#answered, this.#log.flushed);
  }

  #afterCommit(): void {
    if (this.#log.committed === this.#log.wrote) this.#committedTimestamp = this.#appender.lastStoreTimestamp;
    if (this.#log.appendMs >= 0) {
      this.#times.append.add(this.#log.appendMs);
      this.#log.appendMs = -1;
    }
    if (this.#group !== undefined) this.#group.committed();
    else if (this.#log.unflushed >= this.#flushAtBytes) this.#log.flush();
  }

  /** A commit that went off the loop has ended. */
  committedLater(): void {
    this.#afterCommit();
    this.progress();
  }

  /** A sync of the log has ended well. */
  flushEnded(): void {
    if (this.#log.flushed === this.#log.committed) this.#checkpoint.physicMsgTimestamp = this.#committedTimestamp;
    this.#times.flush.add(this.#log.lastSyncMs);
    if (this.#group === undefined) return;
    this.#group.ended();
    this.progress();
  }

  /** Up to where sends are answered that wait for no flush. */
  get #answered(): number {
    return this.#pool === undefined || this.#syncFlush ? this.#log.committed : this.#pool.answered;
  }

  /** Releases answers, dispatches a share of what waits, and lets go of what nobody needs. */
  progress(): void {
    this.#acks.progress(this.#answered, this.#log.flushed);
    // A share of what waits, so that dispatch keeps up with any rate of puts.
    const behind = this.confirmed - this.#dispatcher.dispatched;
    if (behind > 0) this.#times.beginDispatch();
    const budget = Math.max(DISPATCH_SLICE_BYTES, behind / 2);
    const more = !this.#log.isCut && this.#dispatcher.run(this.#log, this.confirmed, budget);
    this.#sweepQueues();
    this.#derived.logGrew();
    this.#log.dispatched = this.#dispatcher.doneOffset;
    this.#log.trim();
    this.#times.endDispatch(more);
    if (more) this.ask();
    this.onProgress();
  }

  /** What dispatch and consumers may see. */
  get confirmed(): number {
    return this.#syncFlush && !this.#config.readUnCommitted ? this.#log.flushed : this.#log.committed;
  }

  #sweepQueues(): void {
    try {
      this.#kinds.sweep();
    } catch (error) {
      this.#seldom.warn('sweep', `ConsumeQueues cannot be written (${errorText(error)}); their units wait in memory`);
    }
  }

  /** RocketMQ: FlushRealTimeService: enough dirty pages, or the thorough interval is over. */
  #flushByTime(): void {
    const { flushCommitLogLeastPages, flushCommitLogThoroughInterval } = this.#config;
    const thorough = this.#clock.monotonic() - this.#lastThoroughFlush >= flushCommitLogThoroughInterval;
    if (thorough || this.#log.unflushed >= flushCommitLogLeastPages * 4096) {
      if (thorough) this.#lastThoroughFlush = this.#clock.monotonic();
      this.#log.flush();
    }
  }

  /** Resolves when everything put is committed, synced and dispatched, or can't be. `isLast`: the store is being closed. */
  quiet(isLast: boolean): Promise<void> {
    // A disk that was full before may have space by now: what counts is a write that fails from here on.
    const before = isLast ? undefined : this.#log.writeDelayed;
    return new Promise((resolve) => {
      const step = (): void => {
        this.#asked = true;
        this.#turn();
        this.#log.commit();
        this.#log.flush();
        const settled = this.#log.committed === this.#log.wrote && this.#log.flushed === this.#log.committed;
        const dispatched = this.#dispatcher.dispatched >= this.confirmed;
        const { writeDelayed } = this.#log;
        const stuck = this.#log.syncFailure ?? (writeDelayed === before ? undefined : writeDelayed);
        if ((settled && dispatched) || stuck !== undefined) resolve();
        else this.#clock.soon(step);
      };
      step();
    });
  }
}
