// The same trouble every second is one line a minute: pull loops retry for as long as a broker is away.

import type { Clock, Logger } from '../common/index.ts';

const INTERVAL_MS = 60_000;

/** More subjects than this are not kept: texts may hold numbers, and then each is a new one. */
const MAX_SUBJECTS = 1000;

interface Said {
  text: string;
  at: number;
  skipped: number;
}

/** Logs a warning unless the same subject said the same within the last minute. */
export class RepeatedLog {
  readonly #logger: Logger;
  readonly #clock: Clock;
  readonly #said = new Map<string, Said>();

  constructor(logger: Logger, clock: Clock) {
    this.#logger = logger;
    this.#clock = clock;
  }

  /** True: nothing is logged. What fails while a client closes is no news. */
  muted = false;

  /** `subject` is what the line is about (a topic, an address); `text` is the whole line. */
  warn(subject: string, text: string): void {
    if (this.muted) return;
    const now = this.#clock.monotonic();
    const last = this.#said.get(subject);
    const same = last !== undefined && last.text === text;
    if (same && now - last.at < INTERVAL_MS) {
      last.skipped++;
      return;
    }
    const more = same && last.skipped > 0 ? ` (and ${last.skipped} times since)` : '';
    if (last === undefined && this.#said.size >= MAX_SUBJECTS) this.#said.clear();
    this.#said.set(subject, { text, at: now, skipped: 0 });
    this.#logger.warn(`${text}${more}`);
  }

  /** Forgets a subject: it is well again. */
  clear(subject: string): void {
    this.#said.delete(subject);
  }
}
