// Entries found by bytes inside a larger array: what stands for a topic's name on the hot path, where no string is made.

import { sameBytes } from './bytes.ts';

/** A table of entries by their `bytes`. The entry that was found or added last is looked at first: traffic comes in runs. */
export class ByteTable<T extends { readonly bytes: Uint8Array }> {
  readonly #byHash = new Map<number, T[]>();
  #last: T | undefined;

  /** The entry whose bytes equal `bytes[start, end)`. */
  find(bytes: Uint8Array, start: number, end: number): T | undefined {
    const length = end - start;
    const last = this.#last;
    if (last !== undefined && last.bytes.length === length && sameBytes(last.bytes, 0, bytes, start, length))
      return last;
    const entries = this.#byHash.get(hash(bytes, start, end));
    if (entries === undefined) return undefined;
    for (const entry of entries) {
      if (entry.bytes.length === length && sameBytes(entry.bytes, 0, bytes, start, length)) {
        this.#last = entry;
        return entry;
      }
    }
    return undefined;
  }

  /** Adds an entry that `find` did not know. */
  add(entry: T): void {
    const key = hash(entry.bytes, 0, entry.bytes.length);
    const entries = this.#byHash.get(key);
    if (entries === undefined) this.#byHash.set(key, [entry]);
    else entries.push(entry);
    this.#last = entry;
  }

  /** Has the next `find` look at this entry first, without keeping it for longer. */
  lookFirstAt(entry: T): void {
    this.#last = entry;
  }

  /** All entries that were added. */
  *values(): Iterable<T> {
    for (const entries of this.#byHash.values()) yield* entries;
  }
}

function hash(bytes: Uint8Array, start: number, end: number): number {
  let value = 0;
  for (let i = start; i < end; i++) value = (Math.imul(value, 31) + bytes[i]!) | 0;
  return value;
}
