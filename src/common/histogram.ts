// Times in logarithmic buckets of about 9 %, from 1 µs to over an hour, so that any number of them costs 2 KiB.

const STEPS = 8;
const SMALLEST_MS = 0.001;
const BUCKETS = STEPS * 32;

/** A histogram of milliseconds. */
export class Histogram {
  readonly #counts = new Float64Array(BUCKETS);
  count = 0;
  sumMs = 0;
  maxMs = 0;

  add(ms: number): void {
    const bucket = ms <= SMALLEST_MS ? 0 : Math.floor(Math.log2(ms / SMALLEST_MS) * STEPS);
    this.#counts[Math.min(bucket, BUCKETS - 1)]! += 1;
    this.count++;
    this.sumMs += ms;
    if (ms > this.maxMs) this.maxMs = ms;
  }

  /** The time that `fraction` of all are not above, rounded up to its bucket's end, in ms; 0 if there are none. */
  quantile(fraction: number): number {
    let left = Math.ceil(this.count * fraction);
    for (let i = 0; i < BUCKETS && this.count > 0; i++) {
      left -= this.#counts[i]!;
      if (left <= 0) return Math.min(SMALLEST_MS * 2 ** ((i + 1) / STEPS), this.maxMs);
    }
    return this.maxMs;
  }
}
