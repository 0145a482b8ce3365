// Output buffers, used again once the socket has taken their bytes: a broker answers thousands of times a second, and fresh
// buffers of that size would be most of what the garbage collector sees.

const SMALLEST = 4096;
const LARGEST = 1024 * 1024;
const CLASSES = Math.log2(LARGEST / SMALLEST) + 1;

/** Buffers in powers of two from 4 KiB to 1 MiB; larger ones are made for each use. */
export class SlabPool {
  readonly #free: Buffer[][] = Array.from({ length: CLASSES }, () => []);
  readonly #limit: number;
  #kept = 0;

  /** Keeps at most `limit` bytes for later. */
  constructor(limit: number) {
    this.#limit = limit;
  }

  /** A buffer of at least `size` bytes, with old bytes in it. */
  take(size: number): Buffer {
    if (size > LARGEST) return Buffer.allocUnsafeSlow(size);
    const index = classOf(size);
    const slab = this.#free[index]!.pop();
    if (slab === undefined) return Buffer.allocUnsafeSlow(SMALLEST << index);
    this.#kept -= slab.length;
    return slab;
  }

  /** Gives back a whole buffer that came from `take` and that nobody reads any more. */
  give(slab: Buffer): void {
    const { length } = slab;
    if (length < SMALLEST || length > LARGEST || this.#kept + length > this.#limit) return;
    this.#kept += length;
    this.#free[classOf(length)]!.push(slab);
  }
}

function classOf(size: number): number {
  return size <= SMALLEST ? 0 : 32 - Math.clz32(size - 1) - 12;
}
