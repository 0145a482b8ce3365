// A condition that lasts is told once a minute, not each time that someone runs into it.

import type { Clock } from './clock.ts';
import type { Logger } from './logger.ts';

const QUIET_MS = 60_000;

/** Warns about each condition at most once a minute. */
export class SeldomWarning {
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #toldAt = new Map<string, number>();

  constructor(clock: Clock, logger: Logger) {
    this.#clock = clock;
    this.#logger = logger;
  }

  /** `condition` names what lasts; the text may differ each time. */
  warn(condition: string, text: string): void {
    const now = this.#clock.monotonic();
    const last = this.#toldAt.get(condition);
    if (last !== undefined && now - last < QUIET_MS) return;
    this.#toldAt.set(condition, now);
    this.#logger.warn(text);
  }
}
