// What retention must keep: messages that wait in the wheel, or are not taken from the queue yet. They wait while the timer is switched
// off, too, for the start that switches it on again.

import { type Clock, errorText, type SeldomWarning } from '../../common/index.ts';
import { type Removal, type TimerLog, TimerUnit } from '../../store/index.ts';
import { TIMER_TOPIC } from '../topic/topic-names.ts';

/** Ms between two counts of the same file. */
const COUNT_MS = 60_000;

/** How far a timer is, running or not. */
export interface TimerProgress {
  readonly log: TimerLog;
  /** Messages of the queue before this one are in the log. */
  readonly queueOffset: number;
  /** Ms: slots before this one are done, and their deliveries are on disk: others may have to be made again. */
  readonly doneMs: number;
}

export class TimerRetention {
  readonly #progress: TimerProgress;
  readonly #clock: Clock;
  readonly #seldom: SeldomWarning;
  #last: { start: number; atMs: number; count: number } | undefined;

  constructor(progress: TimerProgress, clock: Clock, seldom: SeldomWarning) {
    this.#progress = progress;
    this.#clock = clock;
    this.#seldom = seldom;
  }

  /** Messages of a removal that are needed. */
  needed(removal: Removal): number {
    if (removal.soon !== undefined) return 0;
    let count = 0;
    for (const { topic, from, to } of removal.moves) {
      if (topic === TIMER_TOPIC) count += Math.max(0, to - Math.max(from, this.#progress.queueOffset));
    }
    const now = this.#clock.now();
    let last = this.#last;
    if (last?.start !== removal.start || now - last.atMs > COUNT_MS || removal.forced) {
      last = { start: removal.start, atMs: now, count: this.#waitingIn(removal) };
      this.#last = last;
    }
    return count + last.count;
  }

  #waitingIn({ start, end }: Removal): number {
    const { log, doneMs } = this.#progress;
    let count = 0;
    try {
      log.scan(
        this.#fileBefore(start),
        (_position, unit) => {
          if (unit.offset >= start && unit.offset < end && unit.slotTime >= doneMs) count++;
          return unit.offset < end;
        },
        new TimerUnit(),
      );
    } catch (error) {
      this.#seldom.warn('floor', `the timer log cannot be read (${errorText(error)}); nothing that it names may go`);
      return Math.max(1, count);
    } finally {
      log.close();
    }
    return count;
  }

  /** Start of the file of the timer log in which the units begin that name records from `offset` on. */
  #fileBefore(offset: number): number {
    const { log } = this.#progress;
    const unit = new TimerUnit();
    let base = log.first;
    while (base + log.fileSize < log.end && log.read(base + log.fileSize, unit) && unit.offset <= offset)
      base += log.fileSize;
    return base;
  }
}
