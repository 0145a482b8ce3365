// What the timer has done since the start, and how fast.

import { Histogram } from '../../common/index.ts';

export class TimerFigures {
  enqueued = 0;
  delivered = 0;
  deleted = 0;
  rolled = 0;
  /** Timer messages that made no sense and were left out. */
  setAside = 0;
  /** How long after the end of their slot messages were delivered. */
  readonly lateness: Histogram = new Histogram();
  #at = { ms: 0, enqueued: 0, delivered: 0 };
  #enqueueTps = 0;
  #dequeueTps = 0;

  /** Takes the rates since the last call. */
  sample(nowMs: number): void {
    const { ms, enqueued, delivered } = this.#at;
    const seconds = Math.max(1, nowMs - ms) / 1000;
    this.#enqueueTps = (this.enqueued - enqueued) / seconds;
    this.#dequeueTps = (this.delivered - delivered) / seconds;
    this.#at = { ms: nowMs, enqueued: this.enqueued, delivered: this.delivered };
  }

  /** RocketMQ's rates for the runtime information. */
  rates(): Record<string, string> {
    return { timerEnqueueTps: this.#enqueueTps.toFixed(1), timerDequeueTps: this.#dequeueTps.toFixed(1) };
  }

  /** Gantry's own figures for the runtime information. */
  own(): Record<string, string> {
    const { lateness } = this;
    return {
      gantryTimerSetAside: String(this.setAside),
      gantryTimerDelivered: String(this.delivered),
      gantryTimerDeleted: String(this.deleted),
      gantryTimerLateMs: `${lateness.count} messages, median ${lateness.quantile(0.5).toFixed(0)} ms, 99 % ${lateness.quantile(0.99).toFixed(0)} ms, longest ${lateness.maxMs.toFixed(0)} ms`,
    };
  }
}
