// The bytes of a folder whose files are of one length and named by their first byte: read through one block, and never written.

import { viewOf } from '../../common/index.ts';
import type { FileSystem } from '../../io/index.ts';
import { segmentName } from '../segment/index.ts';

export class FileBytes {
  readonly folder: string;
  /** Length of a file. */
  readonly fileBytes: number;
  /** Position of the first byte; Infinity without a file. */
  readonly first: number;
  /** Files whose length is not that of the first one, or not a whole number of units. */
  readonly odd: ReadonlyArray<{ file: string; reason: string }>;
  block: Uint8Array;
  view: DataView;
  readonly #fs: FileSystem;
  readonly #names: ReadonlySet<string>;
  #blockAt = 0;
  #blockBytes = 0;

  /** `blockBytes` are read at once. */
  constructor(fs: FileSystem, folder: string, unitBytes: number, blockBytes: number) {
    this.#fs = fs;
    this.folder = folder;
    const names = fs
      .list(folder)
      .filter((name) => /^\d{20}$/.test(name))
      .sort();
    const sizeOf = (name: string): number => fs.stat(`${folder}/${name}`)!.size;
    // The newest one was just being made.
    if (names.length > 0 && sizeOf(names.at(-1)!) === 0) names.pop();
    this.#names = new Set(names);
    this.first = names.length === 0 ? Number.POSITIVE_INFINITY : Number(names[0]);
    const size = names.length === 0 ? 0 : sizeOf(names[0]!);
    this.fileBytes = Math.max(unitBytes, size);
    const odd: Array<{ file: string; reason: string }> = [];
    for (const [i, name] of names.entries()) {
      const bytes = sizeOf(name);
      if (bytes % unitBytes !== 0)
        odd.push({ file: `${folder}/${name}`, reason: `it has ${bytes} bytes, no multiple of ${unitBytes}` });
      else if (i > 0 && bytes !== size)
        odd.push({ file: `${folder}/${name}`, reason: `it has ${bytes} bytes, the first one ${size}` });
    }
    this.odd = odd;
    this.block = new Uint8Array(blockBytes);
    this.view = viewOf(this.block);
  }

  /** Index in the block of the bytes at a position; -1: no file has them, or not all. @throws GantryError IO. */
  at(position: number, length: number): number {
    if (position < this.#blockAt || position + length > this.#blockAt + this.#blockBytes) {
      if (!this.#read(position, length)) return -1;
    }
    return position - this.#blockAt;
  }

  #read(position: number, length: number): boolean {
    const inFile = position % this.fileBytes;
    const name = segmentName(position - inFile);
    if (inFile + length > this.fileBytes || !this.#names.has(name)) return false;
    if (length > this.block.length) {
      this.block = new Uint8Array(length);
      this.view = viewOf(this.block);
    }
    const handle = this.#fs.open(`${this.folder}/${name}`, 'read');
    try {
      const wanted = Math.min(this.block.length, this.fileBytes - inFile);
      this.#blockBytes = handle.readSync(this.block, 0, wanted, inFile);
      this.#blockAt = position;
    } finally {
      handle.close();
    }
    return this.#blockBytes >= length;
  }

  /** Whether all of `length` bytes at an index of the block are zeros. */
  isZero(at: number, length: number): boolean {
    for (let i = at; i < at + length; i++) if (this.block[i] !== 0) return false;
    return true;
  }

  /** The file and the byte of a position. */
  place(position: number): { file: string; byte: number } {
    const byte = position % this.fileBytes;
    return { file: `${this.folder}/${segmentName(position - byte)}`, byte };
  }
}
