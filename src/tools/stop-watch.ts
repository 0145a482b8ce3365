// An orderly stop waits as long as it gets on, and says how far it is. It is given up when nothing has moved for some time: then a disk or a
// peer does not answer, and the next start recovers.

import type { Logger } from '../common/index.ts';

/** How far a stop is. */
export interface StopState {
  /** Another number each time something has got on. */
  readonly moved: number;
  /** Files that are still to be made durable. */
  readonly filesLeft: number;
}

/** How often to look, and for how long nothing may move. */
export const STOP_TICK_MS = 250;
const STILL_TICKS = 40;
const TICKS_SHOWN = 8;

export class StopWatch {
  readonly #state: () => StopState;
  readonly #logger: Logger;
  #moved: number;
  #ticks = 0;
  #stillTicks = 0;

  constructor(state: () => StopState, logger: Logger) {
    this.#state = state;
    this.#logger = logger;
    this.#moved = state().moved;
  }

  /** To be called each STOP_TICK_MS; a loop that was at work all the time calls later, and that counts as one tick. False: it is given up. */
  tick(): boolean {
    const { moved, filesLeft } = this.#state();
    this.#stillTicks = moved === this.#moved ? this.#stillTicks + 1 : 0;
    this.#moved = moved;
    const files = filesLeft === 0 ? '' : `${filesLeft.toLocaleString('en-US')} files are still to be made durable`;
    if (this.#stillTicks >= STILL_TICKS) {
      const seconds = (STILL_TICKS * STOP_TICK_MS) / 1000;
      this.#logger.error(
        `not stopped: nothing has moved for ${seconds} s${files === '' ? '' : `, ${files}`}; the next start will recover`,
      );
      return false;
    }
    if (++this.#ticks % TICKS_SHOWN === 0) this.#logger.info(`stopping${files === '' ? '' : `: ${files}`}`);
    return true;
  }
}
