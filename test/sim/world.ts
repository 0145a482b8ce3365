// The world that a simulated store lives in: one disk that survives, and for each life of the process a fresh clock and a
// fresh queue of completions. One seed decides everything; nothing real (time, disk, timers) takes part.

import { setImmediate as turn } from 'node:timers/promises';
import { type Clock, FakeClock, type Random, SeededRandom } from '../../src/common/index.ts';
import { MemoryFileSystem, type Operation } from '../../src/io/index.ts';

/** Thrown to unwind whatever was going on when the power went. */
export class PowerLost extends Error {}

/** Steps after which something that should have happened is said never to happen. */
/** Turns of the loop in which nothing ends on the disk, one after the other. */
const MOST_TURNS = 500;
const MAX_STEPS = 20_000;

export class World {
  readonly random: Random;
  readonly fs: MemoryFileSystem;
  /** What the simulation moves. */
  #time: FakeClock = new FakeClock(1_700_000_000_000, { manual: true });
  /** What the store sees: the same, plus what synchronous calls have taken. */
  readonly clock: Clock;
  #stalled = 0;
  #tasks: Array<() => void> = [];
  #stall: ((operation: Operation, path: string) => void) | undefined;
  /** Sees every operation on the disk, also of lives to come. */
  watch: ((operation: Operation, path: string) => void) | undefined;

  constructor(seed: number) {
    this.random = new SeededRandom(seed);
    const disk = this.random.int(0x7fffffff);
    this.clock = {
      now: () => this.#time.now() + this.#stalled,
      monotonic: () => this.#time.monotonic() + this.#stalled,
      after: (ms, fn) => this.#time.after(ms, fn),
      every: (ms, fn) => this.#time.every(ms, fn),
      soon: (fn) => this.#time.soon(fn),
    };
    this.fs = new MemoryFileSystem({
      clock: this.clock,
      random: new SeededRandom(disk),
      schedule: (task) => this.#tasks.push(task),
      directories: ['/store'],
    });
    this.fs.onOperation = (operation, path) => {
      this.#stall?.(operation, path);
      this.watch?.(operation, path);
    };
  }

  /** A new process: what the old one waited for never comes, and some time has passed. */
  newLife(): void {
    this.#time = new FakeClock(this.clock.now() + 1 + this.random.int(5000), { manual: true });
    this.#stalled = 0;
    this.#tasks = [];
    this.#stall = undefined;
  }

  /** Makes the next synchronous operation on a path take so many milliseconds, in which nothing else happens. */
  stall(operation: Operation, path: string, ms: number): void {
    this.#stall = (attempted, where) => {
      if (attempted !== operation || !where.includes(path)) return;
      this.#stalled += ms;
      this.#stall = undefined;
    };
  }

  /** A copy of the disk as programs see it, in the same world. */
  copyDisk(): MemoryFileSystem {
    return this.fs.clone({ schedule: (task) => this.#tasks.push(task) });
  }

  /** Completions that wait. */
  get waiting(): number {
    return this.#tasks.length;
  }

  /** Lets one waiting completion happen, any of them; false if there is none. */
  async complete(): Promise<boolean> {
    if (this.#tasks.length === 0) return false;
    const index = this.random.int(this.#tasks.length);
    const task = this.#tasks[index]!;
    this.#tasks[index] = this.#tasks[this.#tasks.length - 1]!;
    this.#tasks.pop();
    await this.#run(task);
    return true;
  }

  /** Ends the current turn of the loop; false if nothing was to be done. */
  async soon(): Promise<boolean> {
    let ran = false;
    await this.#run(() => {
      ran = this.#time.runSoon();
    });
    return ran;
  }

  async advance(ms: number): Promise<void> {
    await this.#run(() => this.#time.advance(ms));
  }

  /** Does `fn`, lets promises settle, and notices a power cut, whatever came of it. */
  async #run(fn: () => void): Promise<void> {
    try {
      fn();
    } catch (error) {
      if (!this.fs.isDown) throw error;
    }
    await turn();
    this.checkPower();
  }

  /** @throws PowerLost */
  checkPower(): void {
    if (this.fs.isDown) throw new PowerLost('the power is off');
  }

  /** Moves the world on until `condition`; time passes when nothing else is left to do, or when what is done is only turning round. */
  async until(condition: () => boolean, what: string): Promise<void> {
    let turns = 0;
    await turn();
    for (let step = 0; step < MAX_STEPS; step++) {
      this.checkPower();
      if (condition()) return;
      if (await this.complete()) {
        turns = 0;
        continue;
      }
      if (++turns < MOST_TURNS && (await this.soon())) continue;
      turns = 0;
      await this.advance(1 + this.random.int(100));
    }
    throw new Error(`this never happens: ${what}`);
  }

  /** As `until`, for a promise; a rejection caused by a power cut becomes PowerLost. */
  async settle<T>(promise: Promise<T>, what: string): Promise<T> {
    let outcome: { value: T } | { error: unknown } | undefined;
    promise.then(
      (value) => {
        outcome = { value };
      },
      (error: unknown) => {
        outcome = { error };
      },
    );
    await this.until(() => outcome !== undefined, what);
    if ('error' in outcome!) throw outcome.error;
    return outcome!.value;
  }
}
