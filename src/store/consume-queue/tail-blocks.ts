// The memory of all queues' tails: chained blocks of eight units. With very many queues an array for each, which doubles when it is full,
// costs several times what waits in it, and each is a handful of objects.
//
//   slab   | block 0 | block 1 | ...            a queue's tail    first ─► block ─► block ─► last
//            8 units                                                units of `tailStart` on, eight each
//
// A block's number is slab * 2048 + its place there. Slabs are made when needed; one that is empty goes when another is, too.

import { CQ_UNIT_BYTES } from './unit.ts';

/** Units of a block; a power of two. */
export const BLOCK_UNITS = 8;
const BLOCK_BYTES = BLOCK_UNITS * CQ_UNIT_BYTES;
const SLAB_SHIFT = 11;
const SLAB_BLOCKS = 1 << SLAB_SHIFT;
const SLAB_MASK = SLAB_BLOCKS - 1;
/** No block: the end of a chain. */
export const NO_BLOCK = -1;
const NO_SLAB = -1;

interface Slab {
  readonly bytes: Uint8Array;
  readonly view: DataView;
  /** Of each block: the one behind it in its chain, or among those that are free. */
  readonly next: Int32Array;
  /** The first that is free again; those from `fresh` on were never used, and their memory is not the process's yet. */
  free: number;
  fresh: number;
  used: number;
}

export class TailBlocks {
  /** Bytes of the blocks that are in use. */
  usedBytes = 0;
  /** By number; null where one has gone. */
  readonly #slabs: Array<Slab | null> = [];
  /** The slab that blocks are taken from. */
  #current = NO_SLAB;
  /** Others that may have free ones. */
  readonly #open: number[] = [];
  #empty = 0;

  /** A block behind `last` in its chain, or the first of a new chain. */
  take(last: number): number {
    let slab = this.#current === NO_SLAB ? null : this.#slabs[this.#current]!;
    if (slab === null || slab.used === SLAB_BLOCKS) slab = this.#choose();
    if (slab.used === 0) this.#empty--;
    slab.used++;
    this.usedBytes += BLOCK_BYTES;
    let place = slab.free;
    if (place === NO_BLOCK) place = slab.fresh++;
    else slab.free = slab.next[place]!;
    slab.next[place] = NO_BLOCK;
    const block = this.#current * SLAB_BLOCKS + place;
    if (last !== NO_BLOCK) this.#slabs[last >> SLAB_SHIFT]!.next[last & SLAB_MASK] = block;
    return block;
  }

  /** Gives the block at the beginning of a chain back; answers the one behind it. */
  giveBack(block: number): number {
    const number = block >> SLAB_SHIFT;
    const slab = this.#slabs[number]!;
    const place = block & SLAB_MASK;
    const next = slab.next[place]!;
    slab.next[place] = slab.free;
    slab.free = place;
    if (slab.used-- === SLAB_BLOCKS && number !== this.#current) this.#open.push(number);
    this.usedBytes -= BLOCK_BYTES;
    if (slab.used === 0 && ++this.#empty > 1) this.#drop(number);
    return next;
  }

  /** The block behind one in its chain. */
  after(block: number): number {
    return this.#slabs[block >> SLAB_SHIFT]!.next[block & SLAB_MASK]!;
  }

  /** Makes a block the end of its chain; those behind it are the caller's to give back. */
  endAt(block: number): void {
    this.#slabs[block >> SLAB_SHIFT]!.next[block & SLAB_MASK] = NO_BLOCK;
  }

  /** Where a block's units lie: at `startOf` in `viewOf`, and in `bytesOf`. */
  viewOf(block: number): DataView {
    return this.#slabs[block >> SLAB_SHIFT]!.view;
  }
  bytesOf(block: number): Uint8Array {
    return this.#slabs[block >> SLAB_SHIFT]!.bytes;
  }
  startOf(block: number): number {
    return (block & SLAB_MASK) * BLOCK_BYTES;
  }

  /** The next slab that blocks are taken from. */
  #choose(): Slab {
    for (let number = this.#open.pop(); number !== undefined; number = this.#open.pop()) {
      const open = this.#slabs[number]!;
      if (open === null || open.used === SLAB_BLOCKS) continue;
      this.#current = number;
      return open;
    }
    const bytes = new Uint8Array(SLAB_BLOCKS * BLOCK_BYTES);
    const slab: Slab = {
      bytes,
      view: new DataView(bytes.buffer),
      next: new Int32Array(SLAB_BLOCKS),
      free: NO_BLOCK,
      fresh: 0,
      used: 0,
    };
    const vacant = this.#slabs.indexOf(null);
    this.#current = vacant < 0 ? this.#slabs.length : vacant;
    this.#slabs[this.#current] = slab;
    this.#empty++;
    return slab;
  }

  #drop(number: number): void {
    this.#slabs[number] = null;
    this.#empty--;
    if (this.#current === number) this.#current = NO_SLAB;
  }
}
