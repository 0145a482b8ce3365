// Bytes of store files that are no longer in memory, read in blocks off the loop and kept for a while. A cold read never waits
// for a disk on the loop: it finds its block here, or asks for it and is called again. Consumers of old messages march through the
// log together, so one block serves many pulls. What keeps them together is that whoever is first at a block waits for it, and those
// behind do not: the next block is fetched while the current one is being read only from a disk so slow that all would wait for long.
//
//   block key = file number * 2^24 + block index        least recently used blocks go first
//
// Invariant: a block's bytes below `valid` are what the file held when it was read, and nothing at or below the caller's committed
// mark changes afterwards (`forget` is called where a file is cut).

import { assert, type GantryError } from '../../common/index.ts';
import type { ReadLane } from './read-lane.ts';
import { type SegmentFile, shortRead } from './segment-directory.ts';

interface Block {
  bytes: Uint8Array;
  /** Bytes that may be used; below the block's length at the end of what was committed when it was read. */
  valid: number;
  loading: boolean;
  waiters: Waiter[];
}

/** A read that needs the bytes of a block below `needed`. */
interface Waiter {
  needed: number;
  ready: Ready;
}

/** Runs when a read can be repeated; with the error if the bytes cannot be had. */
export type Ready = (error?: GantryError) => void;

const KEY_BLOCKS = 2 ** 24;

export class ReadCache {
  /** Bytes of a block. */
  readonly blockBytes: number;
  readonly #maxBlocks: number;
  readonly #lane: ReadLane;
  readonly #blocks = new Map<number, Block>();
  readonly #numbers = new Map<SegmentFile, number>();
  #nextNumber = 1;
  /** The block used last, so that neighbours cost no look-up. */
  #lastKey = -1;
  #lastBlock: Block | undefined;
  /** Of the last block: its file, and where it starts there. */
  #lastFile: SegmentFile | undefined;
  #lastStart = 0;
  readonly #free: Uint8Array[] = [];
  readonly #readsAhead: () => boolean;

  /** `readsAhead`: whether the block behind the one that is being read is fetched too when reads are slow. */
  constructor(lane: ReadLane, blockBytes: number, budgetBytes: number, readsAhead: () => boolean = () => true) {
    this.#readsAhead = readsAhead;
    this.#lane = lane;
    this.blockBytes = blockBytes;
    this.#maxBlocks = Math.max(4, Math.floor(budgetBytes / blockBytes));
  }

  /**
   * Copies `length` bytes at `position` of a file to `target[at...]`. `limit` is the file position below which bytes are final.
   * Answers how many were copied: fewer than `length` if a block was missing. It has been asked for, and `ready` runs once when the
   * call can go on from there, or with an error. The block is then still here, so each call gets on by a block at least.
   */
  copy(
    file: SegmentFile,
    position: number,
    length: number,
    limit: number,
    target: Uint8Array,
    at: number,
    ready: Ready,
  ): number {
    assert(position + length <= limit, 'a read goes beyond what is committed');
    const last = this.#lastBlock;
    if (last !== undefined && file === this.#lastFile) {
      const from = position - this.#lastStart;
      if (from >= 0 && from + length <= last.valid) {
        target.set(last.bytes.subarray(from, from + length), at);
        return length;
      }
    }
    let copied = 0;
    while (copied < length) {
      const from = position + copied;
      const index = Math.floor(from / this.blockBytes);
      const inBlock = from - index * this.blockBytes;
      const take = Math.min(length - copied, this.blockBytes - inBlock);
      const block = this.#block(file, index, inBlock + take, limit, ready);
      if (block === undefined) break;
      target.set(block.bytes.subarray(inBlock, inBlock + take), at + copied);
      copied += take;
    }
    return copied;
  }

  /** Drops all blocks of a file; call it before a file is cut or removed. */
  forget(file: SegmentFile): void {
    const number = this.#numbers.get(file);
    if (number === undefined) return;
    for (const key of this.#blocks.keys()) {
      if (Math.floor(key / KEY_BLOCKS) === number) this.#blocks.delete(key);
    }
    this.#numbers.delete(file);
    this.#lastKey = -1;
    this.#lastBlock = undefined;
  }

  #block(file: SegmentFile, index: number, needed: number, limit: number, ready: Ready): Block | undefined {
    let number = this.#numbers.get(file);
    if (number === undefined) {
      number = this.#nextNumber++;
      this.#numbers.set(file, number);
    }
    const key = number * KEY_BLOCKS + index;
    const block = key === this.#lastKey ? this.#lastBlock : this.#blocks.get(key);
    if (block !== undefined && !block.loading) {
      if (block.valid >= needed) {
        if (key !== this.#lastKey) {
          this.#blocks.delete(key);
          this.#blocks.set(key, block);
          this.#lastKey = key;
          this.#lastBlock = block;
          this.#lastFile = file;
          this.#lastStart = index * this.blockBytes;
          this.#fetchNext(file, number, index + 1, limit);
        }
        return block;
      }
      // Read when less was committed: read it again.
      this.#blocks.delete(key);
      this.#lastKey = -1;
      this.#lastBlock = undefined;
    }
    const loading = block?.loading ? block : this.#load(file, key, index, limit);
    loading.waiters.push({ needed, ready });
    return undefined;
  }

  #fetchNext(file: SegmentFile, number: number, index: number, limit: number): void {
    if (!this.#lane.isSlow || !this.#lane.isIdle || !this.#readsAhead()) return;
    const key = number * KEY_BLOCKS + index;
    if (index * this.blockBytes + this.blockBytes <= limit && !this.#blocks.has(key))
      this.#load(file, key, index, limit);
  }

  #load(file: SegmentFile, key: number, index: number, limit: number): Block {
    this.#evict();
    const start = index * this.blockBytes;
    const valid = Math.min(this.blockBytes, limit - start);
    const bytes = this.#free.pop() ?? new Uint8Array(this.blockBytes);
    const block: Block = { bytes, valid, loading: true, waiters: [] };
    this.#blocks.set(key, block);
    this.#lane.read(file, bytes, valid, start, (error, got) => {
      block.loading = false;
      // What was read before a fault is as good as ever: only who needs more is told of it.
      block.valid = got;
      const failure = error ?? (got < valid ? shortRead(file, start, valid, got) : undefined);
      if (got === 0 && this.#blocks.get(key) === block) this.#blocks.delete(key);
      const waiters = block.waiters;
      block.waiters = [];
      for (const { needed, ready } of waiters) ready(needed <= got ? undefined : failure);
    });
    return block;
  }

  #evict(): void {
    if (this.#blocks.size < this.#maxBlocks) return;
    for (const [key, block] of this.#blocks) {
      if (block.loading) continue;
      this.#blocks.delete(key);
      if (key === this.#lastKey) {
        this.#lastKey = -1;
        this.#lastBlock = undefined;
      }
      if (this.#free.length < 4) this.#free.push(block.bytes);
      return;
    }
  }
}
