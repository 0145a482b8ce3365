// Entries found by bytes inside a larger array: what stands for a topic's name on the hot path, where no string is made.
//
// Thousands of topics in turn mean that nothing of the last one's is in the processor's nearest cache. So a search stays in a few small
// arrays until it has found its entry:
//
//     #slots   entry number + 1, 0 where free, and beside it the entry's hash; open addressing, at most half full
//        └─► #names [#starts[n], #starts[n + 1])   the bytes of entry n
//        └─► #entries

import { sameBytes } from './bytes.ts';
import { javaHashUtf8 } from './java-hash.ts';

const FIRST_SLOTS = 16;

/** A table of entries by bytes. The entry that was found or added last is looked at first: traffic comes in runs. */
export class ByteTable<T> {
  readonly #entries: T[] = [];
  #slots = new Int32Array(2 * FIRST_SLOTS);
  #starts = new Int32Array(FIRST_SLOTS + 1);
  #names = new Uint8Array(FIRST_SLOTS * 16);
  /** The last entry, and where its bytes lie. */
  #last: T | undefined;
  #lastBytes: Uint8Array = this.#names;
  #lastStart = 0;
  #lastLength = 0;

  /** The entry whose bytes equal `bytes[start, end)`. */
  find(bytes: Uint8Array, start: number, end: number): T | undefined {
    const length = end - start;
    // Names that differ mostly do so at their end.
    if (this.#last !== undefined && length > 0 && this.#lastLength === length) {
      const name = this.#lastBytes;
      const from = this.#lastStart;
      if (name[from + length - 1] === bytes[end - 1] && sameBytes(name, from, bytes, start, length)) return this.#last;
    }
    const hash = hashOf(bytes, start, end);
    const slots = this.#slots;
    const mask = slots.length - 1;
    for (let slot = (2 * hash) & mask; slots[slot] !== 0; slot = (slot + 2) & mask) {
      if (slots[slot + 1] !== hash) continue;
      const n = slots[slot]! - 1;
      const from = this.#starts[n]!;
      if (this.#starts[n + 1]! - from !== length || !sameBytes(this.#names, from, bytes, start, length)) continue;
      const found = this.#entries[n]!;
      this.#look(found, this.#names, from, length);
      return found;
    }
    return undefined;
  }

  /** Adds an entry that `find` did not know; its bytes are copied. */
  add(entry: T, bytes: Uint8Array): void {
    const n = this.#entries.push(entry) - 1;
    const from = this.#starts[n]!;
    const end = from + bytes.length;
    if (4 * (n + 1) > this.#slots.length) this.#grow();
    if (end > this.#names.length) this.#names = grown(this.#names, Math.max(end, 2 * this.#names.length));
    this.#names.set(bytes, from);
    this.#starts[n + 1] = end;
    place(this.#slots, n + 1, hashOf(bytes, 0, bytes.length));
    this.#look(entry, this.#names, from, bytes.length);
  }

  /** Has the next `find` look at this entry first, without keeping it for longer; its bytes stay as they are until then. */
  lookFirstAt(entry: T, bytes: Uint8Array): void {
    this.#look(entry, bytes, 0, bytes.length);
  }

  #look(entry: T, bytes: Uint8Array, start: number, length: number): void {
    this.#last = entry;
    this.#lastBytes = bytes;
    this.#lastStart = start;
    this.#lastLength = length;
  }

  /** All entries that were added. */
  values(): Iterable<T> {
    return this.#entries;
  }

  #grow(): void {
    const old = this.#slots;
    const slots = new Int32Array(2 * old.length);
    for (let slot = 0; slot < old.length; slot += 2) if (old[slot] !== 0) place(slots, old[slot]!, old[slot + 1]!);
    this.#slots = slots;
    this.#starts = grown(this.#starts, slots.length / 2 + 1);
  }
}

function place(slots: Int32Array, value: number, hash: number): void {
  const mask = slots.length - 1;
  let slot = (2 * hash) & mask;
  while (slots[slot] !== 0) slot = (slot + 2) & mask;
  slots[slot] = value;
  slots[slot + 1] = hash;
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
