// A request's body that is read after its handler has returned.

import type { SlabPool } from './slab-pool.ts';

export class KeptBody {
  readonly bytes: Uint8Array;
  #slab: Buffer | undefined;
  readonly #slabs: SlabPool | undefined;

  /** `slab` is the buffer that holds the bytes, if it is one of the pool's. */
  constructor(bytes: Uint8Array, slab?: Buffer, slabs?: SlabPool) {
    this.bytes = bytes;
    this.#slab = slab;
    this.#slabs = slabs;
  }

  /** Nobody reads the bytes any more: their memory may be used for others. Forgetting to say so costs a garbage collection, no more. */
  release(): void {
    if (this.#slab !== undefined) this.#slabs?.give(this.#slab);
    this.#slab = undefined;
  }
}
