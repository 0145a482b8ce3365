// Entries found by bytes inside a larger array: what stands for a topic's name on the hot path, where no string is made.
//
// Thousands of topics in turn mean that nothing of the last one's is in the processor's nearest cache. So a search stays in a few small
// arrays until it has found its entry:
//
//     #slots   entry number + 1, 0 where free; open addressing, at most half full
//        └─► #hashes   of each entry         └─► #names [#starts[n], #starts[n + 1])   the bytes of entry n
//                                            └─► #entries

import { sameBytes } from './bytes.ts';
import { javaHashUtf8 } from './java-hash.ts';

const FIRST_SLOTS = 16;

/** A table of entries by their `bytes`. The entry that was found or added last is looked at first: traffic comes in runs. */
export class ByteTable<T extends { readonly bytes: Uint8Array }> {
  readonly #entries: T[] = [];
  #slots = new Int32Array(FIRST_SLOTS);
  #hashes = new Int32Array(FIRST_SLOTS);
  #starts = new Int32Array(FIRST_SLOTS + 1);
  #names = new Uint8Array(FIRST_SLOTS * 16);
  #last: T | undefined;

  /** The entry whose bytes equal `bytes[start, end)`. */
  find(bytes: Uint8Array, start: number, end: number): T | undefined {
    const length = end - start;
    const last = this.#last;
    // Names that differ mostly do so at their end.
    if (last !== undefined && length > 0 && last.bytes.length === length) {
      const { bytes: name } = last;
      if (name[length - 1] === bytes[end - 1] && sameBytes(name, 0, bytes, start, length)) return last;
    }
    const hash = hashOf(bytes, start, end);
    const slots = this.#slots;
    const mask = slots.length - 1;
    for (let slot = hash & mask; slots[slot] !== 0; slot = (slot + 1) & mask) {
      const n = slots[slot]! - 1;
      if (this.#hashes[n] !== hash) continue;
      const from = this.#starts[n]!;
      if (this.#starts[n + 1]! - from !== length || !sameBytes(this.#names, from, bytes, start, length)) continue;
      this.#last = this.#entries[n];
      return this.#last;
    }
    return undefined;
  }

  /** Adds an entry that `find` did not know. */
  add(entry: T): void {
    const n = this.#entries.push(entry) - 1;
    const end = this.#starts[n]! + entry.bytes.length;
    if (2 * (n + 1) > this.#slots.length) this.#grow();
    if (end > this.#names.length) this.#names = grown(this.#names, Math.max(end, 2 * this.#names.length));
    this.#names.set(entry.bytes, this.#starts[n]!);
    this.#starts[n + 1] = end;
    this.#hashes[n] = hashOf(entry.bytes, 0, entry.bytes.length);
    this.#place(n);
    this.lookFirstAt(entry);
  }

  /** Has the next `find` look at this entry first, without keeping it for longer. */
  lookFirstAt(entry: T): void {
    this.#last = entry;
  }

  /** All entries that were added. */
  values(): Iterable<T> {
    return this.#entries;
  }

  #place(n: number): void {
    const mask = this.#slots.length - 1;
    let slot = this.#hashes[n]! & mask;
    while (this.#slots[slot] !== 0) slot = (slot + 1) & mask;
    this.#slots[slot] = n + 1;
  }

  #grow(): void {
    const size = 2 * this.#slots.length;
    this.#hashes = grown(this.#hashes, size);
    this.#starts = grown(this.#starts, size + 1);
    this.#slots = new Int32Array(size);
    for (let n = 0; n < this.#entries.length - 1; n++) this.#place(n);
  }
}

function grown<A extends Int32Array | Uint8Array>(old: A, length: number): A {
  const fresh = new (old.constructor as new (length: number) => A)(length);
  fresh.set(old);
  return fresh;
}

/** The name's Java hash, mixed so that its low bits depend on all of it. */
function hashOf(bytes: Uint8Array, start: number, end: number): number {
  const hash = Math.imul(javaHashUtf8(bytes, start, end), 0x9e3779b1 | 0);
  return hash ^ (hash >>> 15);
}
