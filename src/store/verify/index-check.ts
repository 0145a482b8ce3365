// Holds the index files against the CommitLog: the units of all files, one behind the other, are the keys of the records in the order of the log
// (docs/formats/index-file.md). Within a file each unit names its slot's unit before it, and the slots name the newest ones.

import type { FileHandle, FileSystem } from '../../io/index.ts';
import { IndexLayout } from '../index-file/index.ts';
import { IndexHeader, timeDiffSeconds } from '../index-file/index-format.ts';
import { compareSlots, headerFault, readHeader, scanUnits, UnitBlocks } from '../index-file/index-scan.ts';
import type { Fault } from './fault.ts';

/** Faults of the index that are named. */
const MOST_FAULTS = 1000;

export class IndexCheck {
  readonly faults: Fault[] = [];
  units = 0;
  /** Bytes of the log behind the last record and before here are damaged. */
  damagedTo = 0;
  readonly files: readonly string[];
  readonly #fs: FileSystem;
  readonly #layout: IndexLayout;
  #isClean = true;
  /** Behind the last sound unit of the newest file, if a kill may have left others behind it. */
  #newestEnd = Number.POSITIVE_INFINITY;
  #at = -1;
  #handle: FileHandle | undefined;
  #blocks: UnitBlocks | undefined;
  #unit = 1;
  #header = new IndexHeader();
  /** Behind the last unit of the file. */
  #end = 1;
  /** The log from here on has its keys in the files. */
  #from = -1;
  /** Place of the last record. */
  #last = -1;

  constructor(fs: FileSystem, folder: string, slots: number, units: number) {
    this.#fs = fs;
    this.#layout = new IndexLayout(slots, units);
    this.files = fs
      .list(folder)
      .filter((name) => /^\d{17}$/.test(name))
      .sort()
      .map((name) => `${folder}/${name}`);
  }

  /** Looks at each file for itself. `isClean`: the last stop was orderly, so that the newest one is whole, too. */
  checkFiles(isClean: boolean): void {
    const layout = this.#layout;
    this.#isClean = isClean;
    for (const [i, path] of this.files.entries()) {
      const file = this.#fs.open(path, 'read');
      try {
        const size = file.size();
        if (size !== layout.fileBytes) {
          this.#fault(
            path,
            0,
            `it has ${size} bytes, the settings maxHashSlotNum and maxIndexNum make ${layout.fileBytes}`,
          );
          continue;
        }
        const isNewest = i === this.files.length - 1;
        const header = readHeader(file);
        const fault = headerFault(file, layout, header);
        const scan = scanUnits(file, layout, 0, Number.MAX_SAFE_INTEGER);
        if (isNewest && !isClean) {
          this.#newestEnd = scan.units + 1;
          continue;
        }
        if (fault !== undefined) this.#fault(path, 0, fault);
        if (scan.units < header.unitCount) {
          const reason = scan.reason === '' ? `unit ${scan.units + 1} is empty` : scan.reason;
          this.#fault(path, layout.unitPosition(scan.units + 1), reason);
          continue;
        }
        compareSlots(file, layout, scan.slots, (slot) =>
          this.#fault(path, layout.slotPosition(slot), `it is not the newest unit of slot ${slot}`),
        );
      } finally {
        file.close();
      }
    }
  }

  /** The log has a record with these keys. `hasTag`: the last one is its tag. `logStart`: where the log begins. */
  record(offset: number, storeTimestamp: number, hashes: readonly number[], hasTag: boolean, logStart: number): void {
    if (hashes.length === 0) return;
    if (this.#from < 0) {
      if (!this.#toUnit()) return;
      while (this.#peek() < logStart && this.#next());
      this.#from = this.#handle === undefined ? Number.POSITIVE_INFINITY : this.#peek();
    }
    // An index that was turned on later.
    if (offset < this.#from) return;
    while (this.#handle !== undefined && this.#peek() < offset) {
      const place = this.#peek();
      // A Java broker adds the last message's keys once more after a crash; of damaged records the log says nothing.
      if (place !== this.#last && (place < this.#last || place >= this.damagedTo))
        this.#unitFault(`it names ${place}, where no record with such a key lies`);
      this.#next();
    }
    this.#last = offset;
    for (let i = 0; i < hashes.length; i++) {
      // The index lags, and goes on from here at the next start.
      if (this.#handle === undefined) return;
      if (this.#peek() === offset) {
        this.units++;
        const found = this.#hash();
        // A Java broker begins the next file with all keys of the message whose keys a crash has cut in two.
        if (this.#unit === 1 && found !== hashes[i] && found === hashes[0]) i = 0;
        if (found !== hashes[i]) this.#unitFault(`its hash is ${found}, that of the key ${hashes[i]}`);
        else this.#checkTimes(storeTimestamp);
        this.#next();
      } else if (this.#isStray(offset, i === hashes.length - 1)) {
        this.#unitFault(`it names ${this.#peek()}, and stands where ${offset} must be named`);
        this.#next();
      } else {
        // RocketMQ before 5.4 puts no tags into the index.
        if (!hasTag || i < hashes.length - 1) this.#unitFault(`a key of the message at ${offset} is missing before it`);
        return;
      }
    }
  }

  /** The header has the times of the first record and of the newest one (or a later one, that a cut has taken); a unit, the seconds since the first. */
  #checkTimes(storeTimestamp: number): void {
    const path = this.files[this.#at]!;
    const header = this.#header;
    if (this.#unit === 1) {
      const { beginTimestamp } = header;
      header.beginTimestamp = storeTimestamp;
      if (beginTimestamp !== storeTimestamp)
        this.#fault(path, 0, `beginTimestamp is ${beginTimestamp}; its first record has ${storeTimestamp}`);
    } else {
      const blocks = this.#blocks!;
      const found = blocks.view.getInt32(blocks.at(this.#unit, true) + 12);
      const wanted = timeDiffSeconds(storeTimestamp, header.beginTimestamp);
      if (found !== wanted)
        this.#unitFault(`it is of ${found} seconds after beginTimestamp; its record was stored ${wanted} after it`);
    }
    const { endTimestamp } = header;
    const isWhole = this.#isClean || this.#at < this.files.length - 1;
    if (isWhole && this.#unit === this.#end - 1 && endTimestamp < storeTimestamp)
      this.#fault(path, 8, `endTimestamp is ${endTimestamp}; its newest record has ${storeTimestamp}`);
  }

  close(): void {
    this.#handle?.close();
    this.#handle = undefined;
  }

  /** Whether the unit at hand names something out of order: the one behind it goes on as it must. */
  #isStray(offset: number, isLastKey: boolean): boolean {
    if (this.#unit + 1 >= this.#end) return true;
    const behind = this.#blocks!.phyOffset(this.#unit + 1);
    this.#blocks!.phyOffset(this.#unit);
    return behind === offset || (isLastKey && behind > offset && behind < this.#peek());
  }

  #peek(): number {
    return this.#blocks!.phyOffset(this.#unit);
  }

  #hash(): number {
    const blocks = this.#blocks!;
    return blocks.view.getInt32(blocks.at(this.#unit, true));
  }

  #next(): boolean {
    this.#unit++;
    return this.#toUnit();
  }

  /** Makes sure that there is a unit at hand, in a later file if need be. */
  #toUnit(): boolean {
    while (this.#handle === undefined || this.#unit >= this.#end) {
      this.close();
      const path = this.files[++this.#at];
      if (path === undefined) return false;
      this.#handle = this.#fs.open(path, 'read');
      this.#blocks = new UnitBlocks(this.#handle, this.#layout, 4096);
      this.#unit = 1;
      this.#header = readHeader(this.#handle);
      this.#end = Math.min(this.#layout.units, this.#header.indexCount);
      if (this.#at === this.files.length - 1) this.#end = Math.min(this.#end, this.#newestEnd);
    }
    return true;
  }

  #unitFault(reason: string): void {
    this.#fault(this.files[this.#at]!, this.#layout.unitPosition(this.#unit), reason);
  }

  #fault(file: string, byte: number, reason: string): void {
    const isKnown = this.faults.some((fault) => fault.byte === byte && fault.file === file);
    if (!isKnown && this.faults.length < MOST_FAULTS) this.faults.push({ of: 'index', file, byte, reason });
  }
}
