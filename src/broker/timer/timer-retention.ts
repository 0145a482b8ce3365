// What retention must keep: messages that wait in the wheel, or are not taken from the queue yet.

import { errorText } from '../../common/index.ts';
import { type Removal, TimerUnit } from '../../store/index.ts';
import { TIMER_TOPIC } from '../topic/topic-names.ts';
import type { TimerSaving } from './timer-saving.ts';
import type { TimerState } from './timer-state.ts';

/** Ms between two counts of the same file. */
const COUNT_MS = 60_000;

export class TimerRetention {
  readonly #state: TimerState;
  readonly #saving: TimerSaving;
  #last: { start: number; atMs: number; count: number } | undefined;

  constructor(state: TimerState, saving: TimerSaving) {
    this.#state = state;
    this.#saving = saving;
  }

  /** Messages of a removal that are needed. */
  needed(removal: Removal): number {
    if (removal.soon !== undefined) return 0;
    let count = 0;
    for (const { topic, from, to } of removal.moves) {
      if (topic === TIMER_TOPIC) count += Math.max(0, to - Math.max(from, this.#state.queueOffset));
    }
    const now = this.#state.clock.now();
    let last = this.#last;
    if (last?.start !== removal.start || now - last.atMs > COUNT_MS || removal.forced) {
      last = { start: removal.start, atMs: now, count: this.#waitingIn(removal) };
      this.#last = last;
    }
    return count + last.count;
  }

  #waitingIn({ start, end }: Removal): number {
    const { log, readMs, seldom } = this.#state;
    let count = 0;
    // A delivery that is not on disk may have to be made again.
    const from = Math.min(this.#saving.safeReadMs, readMs);
    try {
      log.scan(
        this.#fileBefore(start),
        (_position, unit) => {
          if (unit.offset >= start && unit.offset < end && unit.slotTime >= from) count++;
          return unit.offset < end;
        },
        new TimerUnit(),
      );
    } catch (error) {
      seldom.warn('floor', `the timer log cannot be read (${errorText(error)}); nothing that it names may go`);
      return Math.max(1, count);
    }
    return count;
  }

  /** Start of the file of the timer log in which the units begin that name records from `offset` on. */
  #fileBefore(offset: number): number {
    const { log } = this.#state;
    const unit = new TimerUnit();
    let base = log.first;
    while (base + log.fileSize < log.end && log.read(base + log.fileSize, unit) && unit.offset <= offset)
      base += log.fileSize;
    return base;
  }
}
