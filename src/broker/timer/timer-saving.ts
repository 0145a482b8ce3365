// Saves how far the timer is: log, wheel, checkpoint, each durable before the next one speaks of it, and never ahead of the CommitLog.

import { errorText } from '../../common/index.ts';
import { type RecoveredTimer, TimerUnit } from '../../store/index.ts';
import type { TimerQueue } from './timer-queue.ts';
import type { TimerState } from './timer-state.ts';

/** Positions that describe the same moment; safe when the CommitLog is flushed to `end`. */
interface Mark {
  readonly readMs: number;
  readonly queueOffset: number;
  readonly end: number;
  /** End of the timer log. */
  readonly logEnd: number;
}

export class TimerSaving {
  readonly #state: TimerState;
  readonly #queue: TimerQueue;
  readonly #saved: () => void;
  readonly #unit = new TimerUnit();
  #flushing: Promise<void> | undefined;
  #safe: Mark;
  #pending: Mark | undefined;

  /** `saved` is called after each save. */
  constructor(state: TimerState, queue: TimerQueue, recovered: RecoveredTimer, saved: () => void) {
    this.#state = state;
    this.#queue = queue;
    this.#saved = saved;
    const { readMs, queueOffset, knownOffset, log } = recovered;
    this.#safe = { readMs, queueOffset: Math.max(queueOffset, knownOffset), end: 0, logEnd: log.end };
  }

  /** Slots before this one are done, and that is safe. */
  get safeReadMs(): number {
    return this.#safe.readMs;
  }

  /** Saves what changed, unless a save is under way. */
  begin(): void {
    const state = this.#state;
    if (!state.changed || this.#flushing !== undefined) return;
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
      await this.#write();
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

  async #write(): Promise<void> {
    const { wheel, log, checkpoint, clock } = this.#state;
    const safe = this.#safe;
    const pages = wheel.takeDirty();
    try {
      await log.flush();
      await wheel.flush(pages);
    } catch (error) {
      wheel.giveBack(pages);
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
}
