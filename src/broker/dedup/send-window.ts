// What was sent within the last minutes, by topic and key, and where it was stored: the memory of send de-duplication. Entries lie in the
// order of the log, so that those whose time is over leave at the front, and those whose bytes were given up leave at the end.
//
//   chunk       chunk       chunk                     heads: bucket of the key's hash ─► its newest entry
//   |oooooooo|  |oooooooo|  |ooo     |                each entry ─► the one before it in its bucket
//   ^ forgotten as a whole      newest ^
//
// Keys are kept and compared whole, very long ones by their SHA-256: a message that merely has the same hash is never taken for a duplicate. Invariant: physical offsets
// rise from entry to entry. No file: the log is the truth, and the window is read from its tail (send-deduplication.ts).

import { createHash } from 'node:crypto';
import { copyBytes, sameBytes } from '../../common/index.ts';

const CHUNK_ENTRIES = 1024;
/** Bytes of one entry without its key. */
const ENTRY_BYTES = 44;
const HEAD_BYTES = 4;
/** A topic's number stands in front of the key. */
const TOPIC_BYTES = 4;
const LEAST_HEADS = 4096;
/** Of a longer key its SHA-256 is kept. */
const LONG_KEY_BYTES = 256;

/** Where the first message with a key was stored. */
export interface FirstSend {
  physicalOffset: number;
  /** Bytes of its record: it is safe when the log is up to its end. */
  bytes: number;
  queueOffset: number;
  queueId: number;
}

interface Chunk {
  /** Number of its first entry; entries are numbered from 0 on, by all that were ever kept. */
  first: number;
  count: number;
  physicalOffsets: Float64Array;
  queueOffsets: Float64Array;
  times: Float64Array;
  sizes: Int32Array;
  queueIds: Int32Array;
  hashes: Int32Array;
  /** Low 32 bits of the number of the entry before it in its bucket. */
  before: Int32Array;
  keyEnds: Int32Array;
  keys: Uint8Array;
}

export interface SendWindowOptions {
  /** Ms that a key is remembered. */
  windowMs: number;
  /** Bytes that may be remembered at most; the oldest leave first. */
  maxBytes: number;
  /** Makes the places of keys unguessable. */
  seed: number;
}

export class SendWindow {
  readonly #windowMs: number;
  readonly #maxBytes: number;
  readonly #seed: number;
  readonly #chunks: Chunk[] = [];
  #heads = new Int32Array(LEAST_HEADS).fill(-1);
  /** Number that the next entry gets, and that of the oldest one that is kept. */
  #next = 0;
  #oldest = 0;
  #bytes = 0;
  /** Numbers of topics; a topic that is deleted and made anew gets another, so that nothing of its earlier life is found. */
  readonly #topics = new Map<string, number>();
  #topicNumbers = 0;
  /** The key that was looked for last: topic number, then the key. */
  #key = new Uint8Array(TOPIC_BYTES + LONG_KEY_BYTES);
  #keyEnd = 0;
  #hash = 0;

  constructor(options: SendWindowOptions) {
    this.#windowMs = options.windowMs;
    this.#maxBytes = options.maxBytes;
    this.#seed = options.seed;
  }

  /** Entries that are remembered. */
  get size(): number {
    return this.#next - this.#oldest;
  }

  /** Bytes that they take. */
  get bytes(): number {
    return this.#bytes + this.#heads.length * HEAD_BYTES;
  }

  /** Where the message with this key was stored, if that was not longer ago than the window; `keep` keeps the key looked for last. */
  find(topic: string, key: Uint8Array, start: number, end: number, nowMs: number): FirstSend | undefined {
    this.#setKey(topic, key, start, end);
    const since = nowMs - this.#windowMs;
    const hash = this.#hash;
    for (let at = this.#numberOf(this.#heads[hash & (this.#heads.length - 1)]!); at >= this.#oldest; ) {
      const chunk = this.#chunkOf(at);
      const i = at - chunk.first;
      if (chunk.hashes[i] === hash && this.#isKey(chunk, i)) {
        if (chunk.times[i]! <= since) return undefined;
        return {
          physicalOffset: chunk.physicalOffsets[i]!,
          bytes: chunk.sizes[i]!,
          queueOffset: chunk.queueOffsets[i]!,
          queueId: chunk.queueIds[i]!,
        };
      }
      const before = this.#numberOf(chunk.before[i]!);
      if (before >= at) return undefined;
      at = before;
    }
    return undefined;
  }

  /** Remembers where the message whose key was looked for last has been stored. */
  keep(physicalOffset: number, bytes: number, queueOffset: number, queueId: number, timeMs: number): void {
    this.#makeRoom(timeMs);
    const chunk = this.#chunkFor(this.#keyEnd);
    const i = chunk.count++;
    const keyStart = i === 0 ? 0 : chunk.keyEnds[i - 1]!;
    chunk.keys.set(this.#key.subarray(0, this.#keyEnd), keyStart);
    chunk.keyEnds[i] = keyStart + this.#keyEnd;
    chunk.physicalOffsets[i] = physicalOffset;
    chunk.sizes[i] = bytes;
    chunk.queueOffsets[i] = queueOffset;
    chunk.queueIds[i] = queueId;
    chunk.times[i] = timeMs;
    chunk.hashes[i] = this.#hash;
    this.#link(chunk, i, this.#next++);
    if (this.size > this.#heads.length) this.#spread();
  }

  /** Forgets what was stored at `offset` or behind it: that part of the log was given up. */
  forgetFrom(offset: number): void {
    for (let chunk = this.#chunks.at(-1); chunk !== undefined; chunk = this.#chunks.at(-1)) {
      while (chunk.count > 0 && chunk.physicalOffsets[chunk.count - 1]! >= offset) {
        const i = --chunk.count;
        this.#heads[chunk.hashes[i]! & (this.#heads.length - 1)] = chunk.before[i]!;
        this.#next--;
      }
      if (chunk.count > 0) return;
      this.#chunks.pop();
      this.#bytes -= bytesOf(chunk);
    }
  }

  /** Forgets a topic that is deleted. */
  forgetTopic(topic: string): void {
    this.#topics.delete(topic);
  }

  #setKey(topic: string, key: Uint8Array, start: number, end: number): void {
    let number = this.#topics.get(topic);
    if (number === undefined) {
      number = ++this.#topicNumbers;
      this.#topics.set(topic, number);
    }
    if (end - start > LONG_KEY_BYTES) {
      const digest = createHash('sha256').update(key.subarray(start, end)).digest();
      return this.#setKey(topic, digest, 0, digest.length);
    }
    const length = TOPIC_BYTES + end - start;
    const own = this.#key;
    own[0] = number;
    own[1] = number >>> 8;
    own[2] = number >>> 16;
    own[3] = number >>> 24;
    for (let from = start, to = TOPIC_BYTES; from < end; from++, to++) own[to] = key[from]!;
    this.#keyEnd = length;
    let hash = this.#seed | 0;
    for (let i = 0; i < length; i++) {
      hash = Math.imul(hash ^ own[i]!, 0x5bd1e995);
      hash ^= hash >>> 15;
    }
    this.#hash = hash;
  }

  #isKey(chunk: Chunk, i: number): boolean {
    const start = i === 0 ? 0 : chunk.keyEnds[i - 1]!;
    const end = chunk.keyEnds[i]!;
    return end - start === this.#keyEnd && sameBytes(chunk.keys, start, this.#key, 0, this.#keyEnd);
  }

  /** The whole number of an entry from its low 32 bits: the newest that has them. */
  #numberOf(low: number): number {
    return this.#next - 1 - ((this.#next - 1 - low) >>> 0);
  }

  #chunkOf(number: number): Chunk {
    // All chunks but the last are full, unless their end was given up; then those behind them are gone.
    return this.#chunks[Math.floor((number - this.#chunks[0]!.first) / CHUNK_ENTRIES)]!;
  }

  #link(chunk: Chunk, i: number, number: number): void {
    const bucket = chunk.hashes[i]! & (this.#heads.length - 1);
    chunk.before[i] = this.#heads[bucket]!;
    this.#heads[bucket] = number | 0;
  }

  /** Drops chunks whose time is over, and the oldest where there are too many bytes. */
  #makeRoom(nowMs: number): void {
    const since = nowMs - this.#windowMs;
    for (let oldest = this.#chunks[0]; oldest !== undefined; oldest = this.#chunks[0]) {
      const isOver = oldest.count === CHUNK_ENTRIES && oldest.times[CHUNK_ENTRIES - 1]! <= since;
      if (!isOver && (this.bytes <= this.#maxBytes || this.#chunks.length === 1)) return;
      this.#chunks.shift();
      this.#oldest = oldest.first + oldest.count;
      this.#bytes -= bytesOf(oldest);
    }
  }

  /** The chunk that takes the next entry, with room for a key. */
  #chunkFor(keyBytes: number): Chunk {
    let chunk = this.#chunks.at(-1);
    if (chunk === undefined || chunk.count === CHUNK_ENTRIES) {
      const used = chunk?.keyEnds[CHUNK_ENTRIES - 1] ?? 0;
      if (chunk !== undefined && chunk.keys.length > used) {
        this.#bytes -= chunk.keys.length - used;
        chunk.keys = copyBytes(chunk.keys, 0, used);
      }
      chunk = newChunk(this.#next, Math.max(CHUNK_ENTRIES * 16, used));
      this.#chunks.push(chunk);
      this.#bytes += bytesOf(chunk);
    }
    const used = chunk.count === 0 ? 0 : chunk.keyEnds[chunk.count - 1]!;
    if (used + keyBytes > chunk.keys.length) {
      const keys = new Uint8Array(Math.max(used + keyBytes, Math.floor(chunk.keys.length * 1.5)));
      keys.set(chunk.keys.subarray(0, used));
      this.#bytes += keys.length - chunk.keys.length;
      chunk.keys = keys;
    }
    return chunk;
  }

  /** Twice as many buckets. */
  #spread(): void {
    this.#heads = new Int32Array(2 * this.#heads.length).fill((this.#oldest - 1) | 0);
    for (const chunk of this.#chunks) {
      for (let i = 0; i < chunk.count; i++) this.#link(chunk, i, chunk.first + i);
    }
  }
}

function newChunk(first: number, keyBytes: number): Chunk {
  return {
    first,
    count: 0,
    physicalOffsets: new Float64Array(CHUNK_ENTRIES),
    queueOffsets: new Float64Array(CHUNK_ENTRIES),
    times: new Float64Array(CHUNK_ENTRIES),
    sizes: new Int32Array(CHUNK_ENTRIES),
    queueIds: new Int32Array(CHUNK_ENTRIES),
    hashes: new Int32Array(CHUNK_ENTRIES),
    before: new Int32Array(CHUNK_ENTRIES),
    keyEnds: new Int32Array(CHUNK_ENTRIES),
    keys: new Uint8Array(keyBytes),
  };
}

function bytesOf(chunk: Chunk): number {
  return CHUNK_ENTRIES * ENTRY_BYTES + chunk.keys.length;
}
