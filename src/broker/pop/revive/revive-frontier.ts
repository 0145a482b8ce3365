// Up to which time all acknowledgements are known. Those that are in time go through the timer and are due when the pop's time ends; so a pop may
// be judged once everything that had been put into the timer's topic at that moment and was due by then stands in the revive topic.
//
//   mark at t:  end of the timer's queue ──► the timer has taken all before it ──► its slots to t are done ──► `storedMs` = t
//
// RocketMQ: PopReviveService guesses it by the due times of what it reads and a margin of 2 s, or by a queue that stays empty for 3 s while the
// timer does not lag; a broker that comes back after a while revives what had been acknowledged.

import type { TimerPosition } from '../../timer/timer-message-service.ts';

export interface FrontierParts {
  readonly clock: { now(): number };
  readonly timer: { readonly position: TimerPosition | undefined };
  /** Next offset of the timer's topic, also of what is not dispatched. */
  timerEnd(): number;
}

export class ReviveFrontier {
  readonly #parts: FrontierParts;
  /** What is due by this time (ms since 1970), and was put before it, is in the revive topic. */
  storedMs = 0;
  #mark: { readonly timeMs: number; readonly timerEnd: number; neededMs: number } | undefined;

  constructor(parts: FrontierParts) {
    this.#parts = parts;
  }

  /** Sees how far the timer has come, and marks the present moment if no mark waits. */
  look(): void {
    const { clock, timer } = this.#parts;
    const { position } = timer;
    if (position === undefined) return;
    const mark = this.#mark;
    if (mark !== undefined) {
      const { precisionMs, queueOffset, readMs, slotMs } = position;
      if (mark.neededMs < 0 && queueOffset >= mark.timerEnd) {
        // What came for a slot that was being delivered follows in the next one.
        const last = Math.max(
          Math.floor(mark.timeMs / precisionMs) * precisionMs,
          slotMs < 0 ? 0 : slotMs + precisionMs,
        );
        mark.neededMs = last + precisionMs;
      }
      if (mark.neededMs < 0 || readMs < mark.neededMs) return;
      this.storedMs = Math.max(this.storedMs, mark.timeMs);
    }
    // The timer's time never goes back, the clock may.
    this.#mark = { timeMs: Math.max(clock.now(), position.readMs), timerEnd: this.#parts.timerEnd(), neededMs: -1 };
  }
}
