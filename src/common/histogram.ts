// Times in logarithmic buckets, from 1 µs to over an hour, so that any number of them costs 256 bytes a step.

const SMALLEST_MS = 0.001;
const DOUBLINGS = 32;

/** A histogram of milliseconds. */
export class Histogram {
  readonly #steps: number;
  readonly #counts: Float64Array;
  count = 0;
  maxMs = 0;

  /** Each doubling has so many steps: with 8 a bucket is 9 % wide, with 64 1.1 %. */
  constructor(steps = 8) {
    this.#steps = steps;
    this.#counts = new Float64Array(steps * DOUBLINGS);
  }

  add(ms: number): void {
    const bucket = ms <= SMALLEST_MS ? 0 : Math.floor(Math.log2(ms / SMALLEST_MS) * this.#steps);
    this.#counts[Math.min(bucket, this.#counts.length - 1)]! += 1;
    this.count++;
    if (ms > this.maxMs) this.maxMs = ms;
  }

  /** The time that `fraction` of all are not above, rounded up to its bucket's end, in ms; 0 if there are none. */
  quantile(fraction: number): number {
    let left = Math.ceil(this.count * fraction);
    for (let i = 0; i < this.#counts.length && this.count > 0; i++) {
      left -= this.#counts[i]!;
      if (left <= 0) return Math.min(SMALLEST_MS * 2 ** ((i + 1) / this.#steps), this.maxMs);
    }
    return this.maxMs;
  }
}
