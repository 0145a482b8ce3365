// Buffers for output, used again once the socket has taken their bytes, and for long frames that arrive in pieces: a broker answers
// thousands of times a second, and fresh buffers of that size would be most of what the garbage collector sees.

const SMALLEST = 4096;
const LARGEST = 1024 * 1024;

/** Buffers in powers of two from 4 KiB to 1 MiB or what `largest` says; larger ones are made for each use. */
export class SlabPool {
  readonly #free: Buffer[][];
  readonly #limit: number;
  readonly #largest: number;
  #kept = 0;

  /** Keeps at most `limit` bytes for later; `largest` is a power of two. */
  constructor(limit: number, largest: number = LARGEST) {
    this.#limit = limit;
    this.#largest = largest;
    this.#free = Array.from({ length: classOf(largest) + 1 }, () => []);
  }

  /** A buffer of at least `size` bytes, with old bytes in it. */
  take(size: number): Buffer {
    if (size > this.#largest) return Buffer.allocUnsafeSlow(size);
    const index = classOf(size);
    const slab = this.#free[index]!.pop();
    if (slab === undefined) return Buffer.allocUnsafeSlow(SMALLEST << index);
    this.#kept -= slab.length;
    return slab;
  }

  /** Gives back a whole buffer that came from `take` and that nobody reads any more. */
  give(slab: Buffer): void {
    const { length } = slab;
    if (length < SMALLEST || length > this.#largest || this.#kept + length > this.#limit) return;
    this.#kept += length;
    this.#free[classOf(length)]!.push(slab);
  }
}

function classOf(size: number): number {
  return size <= SMALLEST ? 0 : 32 - Math.clz32(size - 1) - 12;
}
