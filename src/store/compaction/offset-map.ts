// Which message is the newest of each key: MD5 of the KEYS text to queue offset, 24 bytes an entry, as large as `maxOffsetMapSize` allows.
// RocketMQ: CompactionLog.OffsetMap. It gives the whole compaction up when the map is full, for ever, since the next one has more keys; here the
// messages behind that place wait for the next compaction.

import { createHash } from 'node:crypto';
import { peekI64, viewOf, writeI64 } from '../../common/index.ts';

/** MD5, then the queue offset + 1; 0 there: the entry is free. */
const ENTRY_BYTES = 24;
const HASH_BYTES = 16;
/** RocketMQ: the least number of entries. */
const LEAST_ENTRIES = 100;
/** Keys that a map of so many bytes may hold. */
export function mapEntries(bytes: number): number {
  return Math.max(Math.floor(bytes / ENTRY_BYTES), LEAST_ENTRIES);
}

export class OffsetMap {
  /** Queue offset of the message that was put last; 0 before. */
  lastOffset = 0;
  /** Number of keys. */
  count = 0;
  readonly #most: number;
  /** A quarter of them stays free. */
  readonly #slots: number;
  readonly #bytes: Uint8Array;
  readonly #view: DataView;

  /** `most`: keys at most. `messages`: so many are put at most. */
  constructor(most: number, messages: number) {
    this.#most = Math.min(most, Math.max(1, messages));
    this.#slots = Math.ceil((this.#most * 4) / 3) + 1;
    this.#bytes = new Uint8Array(this.#slots * ENTRY_BYTES);
    this.#view = viewOf(this.#bytes);
  }

  /** Puts a message, which is newer than all before; false if the map has no room for its key. */
  put(bytes: Uint8Array, keyStart: number, keyEnd: number, queueOffset: number): boolean {
    const hash = md5(bytes, keyStart, keyEnd);
    const at = this.#find(hash);
    if (peekI64(this.#view, at + HASH_BYTES) === 0) {
      if (this.count >= this.#most) return false;
      this.#bytes.set(hash, at);
      this.count++;
    }
    writeI64(this.#view, at + HASH_BYTES, queueOffset + 1);
    this.lastOffset = queueOffset;
    return true;
  }

  /** Queue offset of the newest message with that key; -1 if there is none. */
  get(bytes: Uint8Array, keyStart: number, keyEnd: number): number {
    return peekI64(this.#view, this.#find(md5(bytes, keyStart, keyEnd)) + HASH_BYTES) - 1;
  }

  /** Where a hash is, or the free place for it. */
  #find(hash: Uint8Array): number {
    let slot = viewOf(hash).getUint32(0) % this.#slots;
    for (;;) {
      const at = slot * ENTRY_BYTES;
      if (peekI64(this.#view, at + HASH_BYTES) === 0 || this.#isAt(hash, at)) return at;
      slot = slot + 1 === this.#slots ? 0 : slot + 1;
    }
  }

  #isAt(hash: Uint8Array, at: number): boolean {
    for (let i = 0; i < HASH_BYTES; i++) if (this.#bytes[at + i] !== hash[i]) return false;
    return true;
  }
}

function md5(bytes: Uint8Array, start: number, end: number): Uint8Array {
  return createHash('md5').update(bytes.subarray(start, end)).digest();
}
