// The end of the log in memory: its chunks in the order of the log. What is not committed or not dispatched yet lies here; the rest stays as
// the cache of the tail until its budget is used up.
//
//   [ chunk ][ chunk ][ chunk, filling ]      a hole between two chunks is the rest of a file behind its filler
//   └ released first            current ┘

import type { Chunk, SegmentFile, SegmentMemory } from '../segment/index.ts';

/** Bytes of chunks kept as the cache of the tail. */
const TAIL_BYTES = 8 * 1024 * 1024;

export class Tail {
  /** The chunk that takes what comes next; undefined if that needs a new one. */
  current: Chunk | undefined;
  readonly #memory: SegmentMemory;
  readonly #chunks: Chunk[] = [];
  #bytes = 0;
  #lastFound: Chunk | undefined;

  constructor(memory: SegmentMemory) {
    this.#memory = memory;
  }

  /** Adds a chunk behind the others; it is the current one from now on. */
  add(chunk: Chunk): Chunk {
    this.#chunks.push(chunk);
    this.#bytes += chunk.bytes.length;
    this.current = chunk;
    return chunk;
  }

  /** The chunk that holds a byte of the log; undefined if that is not in memory. */
  at(offset: number): Chunk | undefined {
    const found = this.#lastFound;
    if (found !== undefined && offset >= found.start && offset < found.start + found.used) return found;
    const chunks = this.#chunks;
    let low = 0;
    let high = chunks.length - 1;
    // A backlog lies before all of them.
    if (high < 0 || offset < chunks[0]!.start) return undefined;
    while (low <= high) {
      const middle = (low + high) >> 1;
      const chunk = chunks[middle]!;
      if (offset < chunk.start) high = middle - 1;
      else if (offset >= chunk.start + chunk.used) low = middle + 1;
      else {
        this.#lastFound = chunk;
        return chunk;
      }
    }
    return undefined;
  }

  /** The first chunk that begins behind `offset`. */
  behind(offset: number): Chunk | undefined {
    return this.#chunks.find((chunk) => chunk.start > offset);
  }

  /** Whether all that was appended is in the files: what lies above `committed` lies in their own pages. */
  isInFiles(committed: number): boolean {
    for (let i = this.#chunks.length - 1; i >= 0; i--) {
      const chunk = this.#chunks[i]!;
      if (chunk.start + chunk.used <= committed) return true;
      // So that of what is not committed all that is mapped lies before all that is not.
      if (!chunk.mapped) return false;
    }
    return true;
  }

  /** Frees chunks that end at or below `keepFrom`, as far as they are beyond the budget. */
  trim(keepFrom: number): void {
    while (this.#bytes > TAIL_BYTES && this.#chunks.length > 1) {
      const chunk = this.#chunks[0]!;
      if (chunk.start + chunk.used > keepFrom) return;
      this.#dropFirst();
    }
  }

  /** Drops what is at hand of the log's oldest file. */
  dropFile(file: SegmentFile): void {
    while (this.#chunks[0]?.file === file) this.#dropFirst();
  }

  #dropFirst(): void {
    const chunk = this.#chunks.shift()!;
    if (this.#lastFound === chunk) this.#lastFound = undefined;
    if (this.current === chunk) this.current = undefined;
    this.#release(chunk);
  }

  /** Drops all from `offset` on. */
  cutTo(offset: number): void {
    let last = this.#chunks.at(-1);
    while (last !== undefined && last.start >= offset) {
      this.#chunks.pop();
      this.#release(last);
      last = this.#chunks.at(-1);
    }
    if (last !== undefined) last.used = Math.min(last.used, offset - last.start);
    // A chunk that ends where its file does takes nothing more.
    const goesOn = last !== undefined && last.start + last.used === offset && last.file.end > offset;
    this.current = goesOn ? last : undefined;
    this.#lastFound = undefined;
  }

  #release(chunk: Chunk): void {
    this.#bytes -= chunk.bytes.length;
    this.#memory.release(chunk);
  }
}
