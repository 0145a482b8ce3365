// The same trouble every second is one line a minute: pull loops retry for as long as a broker is away.

import type { Clock, Logger } from '../common/index.ts';

const INTERVAL_MS = 60_000;

/** Logs a warning unless the same subject said the same within the last minute. */
export class RepeatedLog {
  readonly #logger: Logger;
  readonly #clock: Clock;
  readonly #last = new Map<string, { text: string; at: number; skipped: number }>();

  constructor(logger: Logger, clock: Clock) {
    this.#logger = logger;
    this.#clock = clock;
  }

  /** `subject` is what the line is about (a queue, an address); `text` is the whole line. */
  warn(subject: string, text: string): void {
    const now = this.#clock.monotonic();
    const last = this.#last.get(subject);
    if (last !== undefined && last.text === text && now - last.at < INTERVAL_MS) {
      last.skipped++;
      return;
    }
    const more = last !== undefined && last.text === text && last.skipped > 0 ? ` (${last.skipped} more)` : '';
    this.#last.set(subject, { text, at: now, skipped: 0 });
    this.#logger.warn(`${text}${more}`);
  }

  /** Forgets a subject: it is well again. */
  clear(subject: string): void {
    this.#last.delete(subject);
  }
}
