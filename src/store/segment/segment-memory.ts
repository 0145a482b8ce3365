// Where the bytes of an append lie until they are committed: the one interface of the two kinds of segments.
//
//   buffered   memory of the process; a commit writes it to the file                            (the default)
//   mapped     pages of the file itself, reserved and present before they are needed; a commit has nothing to write
//
// A chunk of either kind is bytes [start, start + used) of the log. Which kind it is decides only what a commit does with it, so that
// readers, recovery and dispatch know nothing of it. docs/decisions/2026-11-30-mapped-segments.md has the comparison.

import type { GantryError } from '../../common/index.ts';
import type { SegmentFile } from './segment-directory.ts';

/** A piece of the log in memory. */
export interface Chunk {
  readonly start: number;
  used: number;
  readonly bytes: Uint8Array;
  /** Over the same bytes. */
  readonly view: DataView;
  readonly file: SegmentFile;
  /** The bytes are the file's own pages: they are in the file as soon as they are here. */
  readonly mapped: boolean;
}

/** Hands out the memory that the log grows in. */
export interface SegmentMemory {
  /**
   * Memory for at least `size` bytes at `offset`, which lies in `file`. `mayMap`: all before it is in the files, so that nothing would
   * stand behind a hole if the process were killed now.
   */
  chunkFor(file: SegmentFile, offset: number, size: number, mayMap: boolean): Chunk;
  /** Whether a chunk at `offset` would be mapped, so that one of the process's memory need not be filled first. */
  canMap(file: SegmentFile, offset: number): boolean;
  /** Takes a chunk back that nothing reads any more. */
  release(chunk: Chunk): void;
  /** Memory of the process for at least `size` bytes, with old bytes in it; to become a chunk, or to be given back. */
  takeBuffer(size: number): Uint8Array;
  giveBuffer(bytes: Uint8Array): void;
  /** Called as the log moves on: `next` is the file behind the one that `offset` lies in. */
  advance(file: SegmentFile, offset: number, next: SegmentFile | undefined): void;
  /** A file is about to be cut or removed, or the log is closed (no file): lets go of what is kept of it, chunks apart. */
  forget(file?: SegmentFile): void;
  /** Told when a file was found to be shorter than it must be. */
  onCut: (error: GantryError) => void;
}

/** Bytes of an ordinary chunk; a larger record or batch gets a chunk of its own, a multiple of that. */
const CHUNK_BYTES = 1024 * 1024;
/** Ordinary chunks, and bytes of longer ones, kept for reuse: fresh memory costs the loop a page fault each 4 KiB. */
const FREE_CHUNKS = 2;
const FREE_LONG_BYTES = 24 * CHUNK_BYTES;

/** Memory of the process. */
export class BufferedMemory implements SegmentMemory {
  /** Never called: a read of a file that was cut says so itself. */
  onCut: (error: GantryError) => void = () => {};
  readonly #free: Uint8Array[] = [];
  readonly #freeLong: Uint8Array[] = [];

  chunkFor(file: SegmentFile, offset: number, size: number): Chunk {
    const bytes = this.takeBuffer(size);
    return { start: offset, used: 0, bytes, view: new DataView(bytes.buffer), file, mapped: false };
  }

  canMap(): boolean {
    return false;
  }

  release(chunk: Chunk): void {
    this.giveBuffer(chunk.bytes);
  }

  takeBuffer(size: number): Uint8Array {
    return size <= CHUNK_BYTES ? (this.#free.pop() ?? new Uint8Array(CHUNK_BYTES)) : this.#longBytes(size);
  }

  giveBuffer(bytes: Uint8Array): void {
    if (bytes.length === CHUNK_BYTES) {
      if (this.#free.length < FREE_CHUNKS) this.#free.push(bytes);
      return;
    }
    const kept = this.#freeLong.reduce((sum, other) => sum + other.length, 0);
    if (kept + bytes.length <= FREE_LONG_BYTES) this.#freeLong.push(bytes);
  }

  advance(): void {}

  forget(): void {}

  #longBytes(size: number): Uint8Array {
    const at = this.#freeLong.findIndex((bytes) => bytes.length >= size);
    if (at >= 0) return this.#freeLong.splice(at, 1)[0]!;
    return new Uint8Array(Math.ceil(size / CHUNK_BYTES) * CHUNK_BYTES);
  }
}
