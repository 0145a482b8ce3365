// Saves how far the timer is: log, wheel, checkpoint, each durable before the next one speaks of it, and never ahead of the CommitLog.

import { errorText } from '../../common/index.ts';
import { type RecoveredTimer, type TimerLog, TimerUnit } from '../../store/index.ts';
import type { TimerQueue } from './timer-queue.ts';
import type { TimerProgress } from './timer-retention.ts';
import type { TimerState } from './timer-state.ts';

/** Positions that describe the same moment; safe when the CommitLog is flushed to `end`. */
interface Mark {
  readonly readMs: number;
  readonly queueOffset: number;
  readonly end: number;
  /** End of the timer log. */
  readonly logEnd: number;
}

export class TimerSaving implements TimerProgress {
  readonly #state: TimerState;
  readonly #queue: TimerQueue;
  readonly #saved: () => void;
  readonly #unit = new TimerUnit();
  #flushing: Promise<void> | undefined;
  /** Time of the last snapshot of the wheel, and the end of the timer log then. */
  #snapshotMs: number;
  #snapshotEnd: number;
  /** The start could not write the checkpoint. */
  #checkpointWaits: boolean;
  /** Nothing was written in place yet. */
  #isFirst = true;
  #safe: Mark;
  #pending: Mark | undefined;

  /** `saved` is called after each save. */
  constructor(state: TimerState, queue: TimerQueue, recovered: RecoveredTimer, saved: () => void) {
    this.#state = state;
    this.#queue = queue;
    this.#saved = saved;
    this.#snapshotMs = state.clock.now();
    this.#checkpointWaits = recovered.checkpointWaits;
    const { readMs, queueOffset, knownOffset, log } = recovered;
    this.#snapshotEnd = log.end;
    this.#safe = { readMs, queueOffset: Math.max(queueOffset, knownOffset), end: 0, logEnd: log.end };
  }

  /** Slots before this one are done, and that is safe. */
  get doneMs(): number {
    return Math.min(this.#safe.readMs, this.#state.readMs);
  }

  get log(): TimerLog {
    return this.#state.log;
  }

  get queueOffset(): number {
    return this.#state.queueOffset;
  }

  /** Saves what changed, unless a save is under way. */
  begin(): void {
    const state = this.#state;
    if (this.#flushing !== undefined || !(state.changed || this.#isSnapshotDue)) return;
    this.#flushing = this.#save()
      .catch((error: unknown) =>
        state.seldom.warn('save', `the timer cannot be saved (${errorText(error)}); it is tried again`),
      )
      .finally(() => {
        this.#flushing = undefined;
      });
  }

  /** For the end, when all deliveries are on disk: saves exactly how far it came. `leave` mends what a stop has left. */
  async close(leave: () => void): Promise<void> {
    const state = this.#state;
    await this.#flushing;
    this.#settlePending();
    this.#pending = undefined;
    const { flushed, wrote } = state.store.watermarks;
    // While the queue is read after a loss, and when the last sync has failed, the last safe mark counts.
    if (flushed >= wrote && !this.#queue.isHolding) {
      leave();
      state.advance();
      this.#safe = this.#mark(0);
    }
    try {
      await this.#write(true);
    } catch (error) {
      state.logger.error(`the timer is not saved (${errorText(error)}); the next start looks further back`);
    }
  }

  async #save(): Promise<void> {
    const state = this.#state;
    const { flushed, wrote } = state.store.watermarks;
    this.#settlePending();
    if (this.#pending === undefined) {
      state.advance();
      const mark = this.#queue.isHolding ? { ...this.#safe, end: wrote } : this.#mark(wrote);
      if (flushed >= wrote) {
        this.#safe = mark;
        state.changed = false;
      } else this.#pending = mark;
    }
    await this.#write();
    state.log.removeBelow(state.store.watermarks.minimum, this.#unit);
    this.#saved();
  }

  #settlePending(): void {
    if (this.#pending === undefined || this.#state.store.watermarks.flushed < this.#pending.end) return;
    this.#safe = this.#pending;
    this.#pending = undefined;
  }

  /** How far it is now. */
  #mark(end: number): Mark {
    const { slotMs, readMs, queueOffset, log } = this.#state;
    return { readMs: slotMs >= 0 ? slotMs : readMs, queueOffset, end, logEnd: log.end };
  }

  async #write(isLast = false): Promise<void> {
    const { checkpoint, clock, config } = this.#state;
    const safe = this.#safe;
    try {
      if (this.#checkpointWaits) await checkpoint.flush();
      this.#checkpointWaits = false;
      if (config.timerWheelSnapshotFlush) await this.#writeSnapshot(isLast);
      else await this.#writeInPlace();
    } catch (error) {
      this.#state.changed = true;
      throw error;
    }
    if (
      checkpoint.lastReadTimeMs !== safe.readMs ||
      checkpoint.lastTimerQueueOffset !== safe.queueOffset ||
      checkpoint.lastTimerLogFlushPos !== safe.logEnd
    ) {
      checkpoint.counter++;
      checkpoint.timestamp = clock.now();
    }
    checkpoint.lastReadTimeMs = safe.readMs;
    checkpoint.lastTimerLogFlushPos = safe.logEnd;
    checkpoint.lastTimerQueueOffset = safe.queueOffset;
    checkpoint.masterTimerQueueOffset = safe.queueOffset;
    await checkpoint.flush();
  }

  async #writeInPlace(): Promise<void> {
    const { wheel, log } = this.#state;
    const pages = wheel.takeDirty();
    try {
      await log.flush();
      await wheel.flush(pages);
    } catch (error) {
      wheel.giveBack(pages);
      throw error;
    }
    if (this.#isFirst) wheel.removeSnapshots();
    this.#isFirst = false;
  }

  /** RocketMQ: TimerFlushService#flush. At the end the wheel itself is written, too, for a start without the setting. */
  async #writeSnapshot(isLast: boolean): Promise<void> {
    const { wheel, log, clock } = this.#state;
    if (isLast) await this.#writeInPlace();
    const position = log.end;
    const pages = isLast || this.#isSnapshotDue ? wheel.takeAll() : undefined;
    await log.flush();
    if (pages === undefined) return;
    await wheel.snapshot(pages, position);
    this.#snapshotMs = clock.now();
    this.#snapshotEnd = position;
  }

  /** Whether there is something new to take a snapshot of, and the last one is old. A clock that was set back keeps none waiting. */
  get #isSnapshotDue(): boolean {
    const { log, clock, config } = this.#state;
    if (!config.timerWheelSnapshotFlush || log.end === this.#snapshotEnd) return false;
    return Math.abs(clock.now() - this.#snapshotMs) >= config.timerWheelSnapshotIntervalMs;
  }
}
