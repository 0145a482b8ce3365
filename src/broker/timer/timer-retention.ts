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

/** Units of a file of the CommitLog that wait. */
interface Count {
  readonly start: number;
  readonly end: number;
  readonly atMs: number;
  waiting: number;
  /** Units of the timer log before this position are counted; -1: it could not be read. */
  position: number;
}

export class TimerRetention {
  readonly #progress: TimerProgress;
  readonly #clock: Clock;
  readonly #seldom: SeldomWarning;
  #last: Count | undefined;

  constructor(progress: TimerProgress, clock: Clock, seldom: SeldomWarning) {
    this.#progress = progress;
    this.#clock = clock;
    this.#seldom = seldom;
  }

  /** Counts in turns what `needed` would count in one. */
  async prepare({ start, end, forced }: Pick<Removal, 'start' | 'end' | 'forced'>): Promise<void> {
    if (this.#isFresh(start) && !forced) return;
    const count = this.#begin(start, end);
    const pause = (): Promise<boolean> => new Promise((resolve) => this.#clock.soon(() => resolve(true)));
    try {
      const { log } = this.#progress;
      count.position = await log.scanInTurns(this.#fileBefore(start), this.#visit(count), pause);
    } catch (error) {
      this.#failed(count, error);
    } finally {
      this.#progress.log.close();
    }
    this.#last = count;
  }

  /** Messages of a removal that are needed. */
  needed(removal: Removal): number {
    if (removal.soon !== undefined) return 0;
    let queued = 0;
    for (const { topic, from, to } of removal.moves) {
      if (topic === TIMER_TOPIC) queued += Math.max(0, to - Math.max(from, this.#progress.queueOffset));
    }
    const fresh = this.#isFresh(removal.start) ? this.#last : undefined;
    const count = fresh ?? this.#begin(removal.start, removal.end);
    this.#last = count;
    if (count.position >= 0) this.#countOn(count);
    return queued + count.waiting;
  }

  #isFresh(start: number): boolean {
    return this.#last?.start === start && this.#clock.now() - this.#last.atMs <= COUNT_MS;
  }

  #begin(start: number, end: number): Count {
    return { start, end, atMs: this.#clock.now(), waiting: 0, position: 0 };
  }

  #visit(count: Count): (position: number, unit: TimerUnit) => boolean {
    return (_position, { offset, slotTime }) => {
      if (offset >= count.start && offset < count.end && slotTime >= this.#progress.doneMs) count.waiting++;
      return offset < count.end;
    };
  }

  /** Counts what has come to the log since. */
  #countOn(count: Count): void {
    const { log } = this.#progress;
    const unit = new TimerUnit();
    try {
      const from = count.position === 0 ? this.#fileBefore(count.start) : count.position;
      count.position = log.scanOn(from, this.#visit(count), unit);
    } catch (error) {
      this.#failed(count, error);
    } finally {
      log.close();
    }
  }

  #failed(count: Count, error: unknown): void {
    this.#seldom.warn('floor', `the timer log cannot be read (${errorText(error)}); nothing that it names may go`);
    count.waiting = Math.max(1, count.waiting);
    count.position = -1;
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
