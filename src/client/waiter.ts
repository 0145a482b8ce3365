// Waiting that can be cut short: loops that pause between two tries must end at once when their consumer is closed.

import type { Clock, Timer } from '../common/index.ts';

/** Sleeps of one owner. */
export class Waiter {
  readonly #clock: Clock;
  readonly #wakers = new Set<() => void>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Resolves after `ms`, or as soon as `wakeAll` is called. */
  sleep(ms: number): Promise<void> {
    return new Promise((resolve) => {
      let timer: Timer | undefined;
      const wake = (): void => {
        timer?.cancel();
        this.#wakers.delete(wake);
        resolve();
      };
      this.#wakers.add(wake);
      timer = this.#clock.after(ms, wake);
    });
  }

  /** Ends all sleeps that run. */
  wakeAll(): void {
    for (const wake of [...this.#wakers]) wake();
  }

  /** What `work` comes to; undefined if `wakeAll` is called before that. */
  orWoken<T>(work: Promise<T>): Promise<T | undefined> {
    return new Promise((resolve, reject) => {
      const wake = (): void => {
        this.#wakers.delete(wake);
        resolve(undefined);
      };
      this.#wakers.add(wake);
      work.then(resolve, reject).finally(() => this.#wakers.delete(wake));
    });
  }

  /** Whether `work` ends within `ms`. Its failure is its owner's affair. */
  race(work: Promise<unknown>, ms: number): Promise<boolean> {
    return new Promise((resolve) => {
      const timer = this.#clock.after(ms, () => resolve(false));
      const ended = (): void => {
        timer.cancel();
        resolve(true);
      };
      work.then(ended, ended);
    });
  }
}
