// Latencies in logarithmic buckets of about 1.6 %, so that millions cost no memory.

const STEPS = 64;
const SMALLEST_MS = 0.001;

/** A histogram of milliseconds. */
export class Histogram {
  readonly #counts = new Float64Array(STEPS * 40);
  #total = 0;
  #max = 0;

  add(ms: number): void {
    const bucket = ms <= SMALLEST_MS ? 0 : Math.floor(Math.log2(ms / SMALLEST_MS) * STEPS);
    this.#counts[Math.min(bucket, this.#counts.length - 1)]! += 1;
    this.#total++;
    if (ms > this.#max) this.#max = ms;
  }

  get max(): number {
    return this.#max;
  }

  /** The value that `fraction` of all are not above, in ms; 0 if there are none. */
  quantile(fraction: number): number {
    let left = Math.ceil(this.#total * fraction);
    for (let i = 0; i < this.#counts.length; i++) {
      left -= this.#counts[i]!;
      if (left <= 0 && this.#total > 0) return Math.min(SMALLEST_MS * 2 ** ((i + 1) / STEPS), this.#max);
    }
    return 0;
  }
}
