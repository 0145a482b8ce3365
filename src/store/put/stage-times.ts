// How long the stages of a put take, one value a batch and none a message. A batch is what a loop turn has appended, what a sync has
// covered, or what a dispatch has caught up with.
//
//   first append ──append──► written      sync starts ──flush──► ends      visible ──dispatch──► in the queues ──wake──► pulls answered

import { type Clock, Histogram } from '../../common/index.ts';

export class StageTimes {
  /** From a turn's first append until all of it is in the file. */
  readonly append: Histogram = new Histogram();
  /** A sync of the log. */
  readonly flush: Histogram = new Histogram();
  /** From when messages may be dispatched until all of them are. */
  readonly dispatch: Histogram = new Histogram();
  /** From the first arrival that somebody waits for until those pulls have run. */
  readonly wake: Histogram = new Histogram();
  readonly #clock: Clock;
  /** When more became visible that is not dispatched yet; 0: all is. */
  #visibleAt = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Before a dispatch of what is visible. */
  beginDispatch(): void {
    if (this.#visibleAt === 0) this.#visibleAt = this.#clock.monotonic();
  }

  /** After it; `more` is left. */
  endDispatch(more: boolean): void {
    if (more || this.#visibleAt === 0) return;
    this.dispatch.add(this.#clock.monotonic() - this.#visibleAt);
    this.#visibleAt = 0;
  }
}
