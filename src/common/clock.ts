// Time is passed in, so that a test or a seed decides when things happen. Only `systemClock` touches the real one.

/** A timer that was started; `cancel` after it fired does nothing. */
export interface Timer {
  cancel(): void;
}

/** Wall clock, monotonic clock and the event loop's own turns. All times are milliseconds. */
export interface Clock {
  /** Milliseconds since the Unix epoch. */
  now(): number;
  /** A monotonic time with a fraction; only differences mean something. */
  monotonic(): number;
  /** Runs `fn` once after `delayMs`. */
  after(delayMs: number, fn: () => void): Timer;
  /** Runs `fn` every `intervalMs` until cancelled. Neither this nor `after` keeps the process alive. */
  every(intervalMs: number, fn: () => void): Timer;
  /** Runs `fn` after the input of this loop turn has been handled. */
  soon(fn: () => void): void;
}

/** What Node is to run later than this it runs at once, and again and again. */
const LONGEST_MS = 2 ** 31 - 1;

export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  after(delayMs, fn) {
    if (delayMs > LONGEST_MS) return afterLong(delayMs, fn);
    const handle = setTimeout(fn, delayMs);
    handle.unref();
    return { cancel: () => clearTimeout(handle) };
  },
  every(intervalMs, fn) {
    if (intervalMs > LONGEST_MS) return everyLong(intervalMs, fn);
    const handle = setInterval(fn, intervalMs);
    handle.unref();
    return { cancel: () => clearInterval(handle) };
  },
  soon: (fn) => {
    setImmediate(fn);
  },
};

function afterLong(delayMs: number, fn: () => void): Timer {
  let timer = systemClock.after(LONGEST_MS, () => {
    timer = systemClock.after(delayMs - LONGEST_MS, fn);
  });
  return { cancel: () => timer.cancel() };
}

function everyLong(intervalMs: number, fn: () => void): Timer {
  const again = (): Timer =>
    systemClock.after(intervalMs, () => {
      timer = again();
      fn();
    });
  let timer = again();
  return { cancel: () => timer.cancel() };
}

interface Pending {
  at: number;
  order: number;
  interval: number;
  fn: () => void;
}

/**
 * A clock that stands still until it is told to move. `soon` runs at the next real loop turn unless `manual` is set,
 * in which case `runSoon` runs what waits (the simulation orders everything itself).
 */
export class FakeClock implements Clock {
  #now: number;
  /** Ms that the wall clock is ahead of the time that passes. */
  #ahead = 0;
  #order = 0;
  #pending: Pending[] = [];
  #soon: Array<() => void> = [];
  readonly #manual: boolean;

  constructor(startMs = 1_700_000_000_000, options: { manual?: boolean } = {}) {
    this.#now = startMs;
    this.#manual = options.manual ?? false;
  }

  now(): number {
    return this.#now + this.#ahead;
  }

  /** Sets the wall clock ahead, or back: no time passes, and no timer knows. */
  jump(ms: number): void {
    this.#ahead += ms;
  }

  monotonic(): number {
    return this.#now;
  }

  after(delayMs: number, fn: () => void): Timer {
    return this.#add(delayMs, 0, fn);
  }

  every(intervalMs: number, fn: () => void): Timer {
    return this.#add(intervalMs, Math.max(1, intervalMs), fn);
  }

  soon(fn: () => void): void {
    if (this.#manual) this.#soon.push(fn);
    else setImmediate(fn);
  }

  /** Runs what `soon` collected (manual mode); true if there was anything. */
  runSoon(): boolean {
    if (this.#soon.length === 0) return false;
    const due = this.#soon;
    this.#soon = [];
    for (const fn of due) fn();
    return true;
  }

  /** Moves time forward by `ms` and fires, in order, every timer that falls due on the way. */
  advance(ms: number): void {
    const target = this.#now + ms;
    for (;;) {
      let next: Pending | undefined;
      for (const p of this.#pending) {
        if (p.at <= target && (next === undefined || p.at < next.at || (p.at === next.at && p.order < next.order))) {
          next = p;
        }
      }
      if (next === undefined) break;
      this.#now = Math.max(this.#now, next.at);
      if (next.interval > 0) next.at += next.interval;
      else this.#pending.splice(this.#pending.indexOf(next), 1);
      next.fn();
    }
    this.#now = target;
  }

  #add(delayMs: number, interval: number, fn: () => void): Timer {
    const pending: Pending = { at: this.#now + Math.max(0, delayMs), order: this.#order++, interval, fn };
    this.#pending.push(pending);
    return {
      cancel: () => {
        const index = this.#pending.indexOf(pending);
        if (index >= 0) this.#pending.splice(index, 1);
      },
    };
  }
}
