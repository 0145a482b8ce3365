// Holds the compaction log of one queue against the CommitLog (docs/formats/compaction.md): what both have is the same, and behind what is compacted
// no message with a key is missing. Whether the files are whole in themselves is `verifyCompaction`'s look.

import { viewOf } from '../../common/index.ts';
import type { FileSystem } from '../../io/index.ts';
import { BLANK_BYTES, PHYSICAL_OFFSET_AT, type RecordView } from '../../message/index.ts';
import { CompactionUnit, UNIT_BYTES } from '../compaction/compaction-format.ts';
import { basesIn, logFolderOf, queueFolderOf } from '../compaction/load-pairs.ts';
import { KeyLook } from '../compaction/record-copy.ts';
import { segmentName } from '../segment/index.ts';
import type { Fault } from './fault.ts';

const BLOCK_UNITS = 256;
const BLOCK_BYTES = 64 * 1024;
/** Faults of one queue that are named. */
const MOST_FAULTS = 100;

export class CompactionCheck {
  readonly faults: Fault[] = [];
  readonly #fs: FileSystem;
  readonly #logFolder: string;
  readonly #queueFolder: string;
  readonly #bases: readonly number[];
  readonly #logBytes: number;
  /** Queue offset up to which it is compacted. */
  readonly #compactedTo: number;
  readonly #key = new KeyLook();
  /** The next unit, of the file `#bases[#file]`; past the last one `#file` is the number of files. */
  readonly #unit = new CompactionUnit();
  #file = -1;
  #index = 0;
  readonly #units = new Uint8Array(BLOCK_UNITS * UNIT_BYTES);
  readonly #unitsView = viewOf(this.#units);
  #unitsAt = 0;
  #unitsCount = 0;
  #copies = new Uint8Array(BLOCK_BYTES);
  #copiesAt = 0;
  #copiesCount = 0;

  constructor(fs: FileSystem, root: string, topic: string, queueId: number, compactedTo: number) {
    this.#fs = fs;
    this.#logFolder = logFolderOf(root, topic, queueId);
    this.#queueFolder = queueFolderOf(root, topic, queueId);
    this.#bases = basesIn(fs, this.#queueFolder);
    this.#logBytes = this.#bases.length === 0 ? 0 : (fs.stat(this.#pathOf(this.#logFolder, 0))?.size ?? 0);
    this.#nextFile();
    // Without a position: what it does not begin with, it may never have had.
    this.#compactedTo = Math.max(compactedTo, this.#unit.queueOffset - 1);
  }

  /** The CommitLog has this record for the queue. */
  record(bytes: Uint8Array, record: RecordView): void {
    const { queueOffset, totalSize, physicalOffset } = record;
    while (this.#file < this.#bases.length && this.#unit.queueOffset < queueOffset) this.#next();
    // It lags.
    if (this.#file >= this.#bases.length) return;
    const start = this.#startOf(record);
    if (this.#unit.queueOffset === queueOffset) {
      this.#compare(bytes, start, totalSize);
      this.#next();
    } else if (queueOffset > this.#compactedTo && totalSize + BLANK_BYTES <= this.#logBytes) {
      if (this.#key.look(bytes, record)) this.#missing(queueOffset, physicalOffset);
    }
  }

  /** The unit at hand is of a later message; one fault says that of all that are missing before it. */
  #missing(queueOffset: number, physicalOffset: number): void {
    const path = this.#pathOf(this.#queueFolder, this.#file);
    const byte = this.#index * UNIT_BYTES;
    const last = this.faults.at(-1);
    if (last?.file === path && last.byte === byte) return;
    const missing = `that of message ${queueOffset}, at ${physicalOffset} of the log, is missing before it`;
    this.#fault(path, byte, `it is the unit of message ${this.#unit.queueOffset}; ${missing}`);
  }

  #startOf({ propertiesEnd, totalSize }: RecordView): number {
    return propertiesEnd - totalSize;
  }

  /** Whether the copy is the record, but for its place. */
  #compare(bytes: Uint8Array, start: number, size: number): void {
    const { position, size: copySize, queueOffset } = this.#unit;
    const base = this.#bases[this.#file]!;
    const path = this.#pathOf(this.#logFolder, this.#file);
    const at = position - base;
    if (copySize !== size) {
      const reason = `it says that message ${queueOffset} has ${copySize} bytes; its record in the log has ${size}`;
      return this.#fault(this.#pathOf(this.#queueFolder, this.#file), this.#index * UNIT_BYTES, reason);
    }
    const from = this.#copyAt(path, at, size);
    if (from < 0) return this.#fault(path, at, `the copy of message ${queueOffset}, ${size} bytes, is not all there`);
    const copies = this.#copies;
    for (let i = 0; i < size; i++) {
      if (copies[from + i] === bytes[start + i]) continue;
      if (i >= PHYSICAL_OFFSET_AT && i < PHYSICAL_OFFSET_AT + 8) continue;
      const [found, wanted] = [copies[from + i]!, bytes[start + i]!];
      return this.#fault(
        path,
        at + i,
        `it is ${found}, byte ${i} of message ${queueOffset}; in the log that is ${wanted}`,
      );
    }
  }

  /** Index in `#copies` of bytes of a log file; -1: it has them not. */
  #copyAt(path: string, at: number, size: number): number {
    if (at < this.#copiesAt || at + size > this.#copiesAt + this.#copiesCount) {
      if (at < 0 || this.#fs.stat(path) === undefined) return -1;
      if (size > this.#copies.length) this.#copies = new Uint8Array(size);
      const file = this.#fs.open(path, 'read');
      try {
        this.#copiesCount = file.readSync(this.#copies, 0, this.#copies.length, at);
        this.#copiesAt = at;
      } finally {
        file.close();
      }
    }
    return at + size > this.#copiesAt + this.#copiesCount ? -1 : at - this.#copiesAt;
  }

  /** Moves on to the next unit. What is none ends its file: `verifyCompaction` has named it. */
  #next(): void {
    this.#index++;
    if (!this.#read()) this.#nextFile();
  }

  #nextFile(): void {
    do {
      this.#file++;
      this.#index = 0;
      this.#unitsCount = 0;
      this.#copiesCount = 0;
    } while (this.#file < this.#bases.length && !this.#read());
  }

  /** Reads the unit at `#index`; false if there is none. */
  #read(): boolean {
    if (this.#index < this.#unitsAt || this.#index >= this.#unitsAt + this.#unitsCount) {
      const file = this.#fs.open(this.#pathOf(this.#queueFolder, this.#file), 'read');
      try {
        const got = file.readSync(this.#units, 0, this.#units.length, this.#index * UNIT_BYTES);
        this.#unitsAt = this.#index;
        this.#unitsCount = Math.floor(got / UNIT_BYTES);
      } finally {
        file.close();
      }
      if (this.#unitsCount === 0) return false;
    }
    return this.#unit.read(this.#unitsView, (this.#index - this.#unitsAt) * UNIT_BYTES);
  }

  #pathOf(folder: string, file: number): string {
    return `${folder}/${segmentName(this.#bases[file]!)}`;
  }

  #fault(file: string, byte: number, reason: string): void {
    if (this.faults.length < MOST_FAULTS) this.faults.push({ of: 'compaction', file, byte, reason });
  }
}
