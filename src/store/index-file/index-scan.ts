// Reading an index file at start: is its header believable, how many of its units are sound, and cutting what is not. Everything here
// is synchronous and runs before the store serves anybody.
//
// Units prove themselves: unit n must name as its predecessor the unit that its slot held after units 1..n-1, and offsets never fall. So
// the file's end needs no trust in the header, and the slot table comes out of the scan as a by-product.

import { peekI64, viewOf } from '../../common/index.ts';
import type { FileHandle, FileSystem } from '../../io/index.ts';
import { HEADER_BYTES, IndexHeader, type IndexLayout, SLOT_BYTES, UNIT_BYTES } from './index-format.ts';

/** Units read at once, about 1 MiB. */
const BLOCK_UNITS = 52_428;
const SLOT_BLOCK = 65_536;

/** Store time (ms) of the record at a physical offset; undefined if it cannot be told. */
export type StoreTimeOf = (physicalOffset: number) => number | undefined;

/** Fills `target` from `position`; what the file does not have reads as zeros. */
export function readOrZeros(file: FileHandle, target: Uint8Array, position: number, length: number): void {
  const got = file.readSync(target, 0, length, position);
  if (got < length) target.fill(0, got, length);
}

/** The header of a file; missing bytes count as zeros. */
export function readHeader(file: FileHandle): IndexHeader {
  const bytes = new Uint8Array(HEADER_BYTES);
  readOrZeros(file, bytes, 0, HEADER_BYTES);
  return IndexHeader.decode(bytes);
}

/** Gives single units out of blocks; for walks along the file in either direction. */
export class UnitBlocks {
  readonly view: DataView;
  readonly #file: FileHandle;
  readonly #layout: IndexLayout;
  readonly #bytes: Uint8Array;
  #first = 1;
  #count = 0;

  constructor(file: FileHandle, layout: IndexLayout, blockUnits: number = BLOCK_UNITS) {
    this.#file = file;
    this.#layout = layout;
    this.#bytes = new Uint8Array(Math.min(blockUnits, layout.units) * UNIT_BYTES);
    this.view = viewOf(this.#bytes);
  }

  /** Position in `view` of a unit; reads forward from it, or backward to it, when it is not at hand. */
  at(unit: number, forward: boolean): number {
    if (unit < this.#first || unit >= this.#first + this.#count) {
      const most = this.#bytes.length / UNIT_BYTES;
      this.#first = forward ? unit : Math.max(1, unit - most + 1);
      this.#count = Math.min(most, this.#layout.units - this.#first);
      readOrZeros(this.#file, this.#bytes, this.#layout.unitPosition(this.#first), this.#count * UNIT_BYTES);
    }
    return (unit - this.#first) * UNIT_BYTES;
  }

  phyOffset(unit: number, forward = true): number {
    return peekI64(this.view, this.at(unit, forward) + 4);
  }

  isZero(unit: number): boolean {
    const at = this.at(unit, true);
    for (let i = 0; i < UNIT_BYTES; i += 4) if (this.view.getInt32(at + i) !== 0) return false;
    return true;
  }
}

/** What is wrong with a header, judged by the units at its two ends; undefined if it is believable. */
export function headerFault(file: FileHandle, layout: IndexLayout, header: IndexHeader): string | undefined {
  const { indexCount, hashSlotCount } = header;
  if (indexCount > layout.units) return `indexCount ${indexCount} is above ${layout.units}`;
  for (const value of [header.beginTimestamp, header.endTimestamp, header.beginPhyOffset, header.endPhyOffset]) {
    if (!Number.isSafeInteger(value) || value < 0) return 'a header field is out of range';
  }
  const units = new UnitBlocks(file, layout, 1);
  if (indexCount < layout.units && !units.isZero(indexCount)) return `there are units from number ${indexCount} on`;
  if (indexCount === 1) return hashSlotCount === 0 ? undefined : 'slots are in use without a unit';
  if (hashSlotCount < 1 || hashSlotCount > Math.min(layout.slots, indexCount - 1)) {
    return `hashSlotCount ${hashSlotCount} does not fit ${indexCount - 1} units`;
  }
  if (units.phyOffset(1) !== header.beginPhyOffset) return 'beginPhyOffset is not that of the first unit';
  if (units.phyOffset(indexCount - 1) !== header.endPhyOffset) return 'endPhyOffset is not that of the last unit';
  return undefined;
}

/** The sound units at the beginning of a file, and the slot table that they make. */
export interface UnitScan {
  /** Sound units: 1..units. */
  units: number;
  usedSlots: number;
  /** Physical offset of unit 1 and of the last sound unit; -1 without units. */
  firstOffset: number;
  lastOffset: number;
  /** timeDiff of the last sound unit. */
  lastTimeDiff: number;
  slots: Int32Array;
  /** Why the scan ended before the file did; empty if the units simply end. */
  reason: string;
}

/** Walks the units from 1 on as far as they prove themselves. Offsets must lie in [minOffset, maxOffset). */
export function scanUnits(file: FileHandle, layout: IndexLayout, minOffset: number, maxOffset: number): UnitScan {
  const { slots: slotCount, units: end } = layout;
  const slots = new Int32Array(slotCount);
  const bytes = new Uint8Array(Math.min(BLOCK_UNITS, end) * UNIT_BYTES);
  const view = viewOf(bytes);
  let usedSlots = 0;
  let firstOffset = -1;
  let lastOffset = minOffset;
  let lastTimeDiff = 0;
  let reason = '';
  let unit = 1;
  scan: while (unit < end) {
    const length = Math.min(BLOCK_UNITS, end - unit) * UNIT_BYTES;
    readOrZeros(file, bytes, layout.unitPosition(unit), length);
    for (let at = 0; at < length; at += UNIT_BYTES, unit++) {
      const hash = view.getInt32(at);
      const offset = peekI64(view, at + 4);
      const timeDiff = view.getInt32(at + 12);
      const previous = view.getInt32(at + 16);
      if ((hash | timeDiff | previous) === 0 && offset === 0) break scan;
      if ((hash | timeDiff) < 0) {
        reason = `unit ${unit} has a negative field`;
        break scan;
      }
      if (offset < lastOffset || offset >= maxOffset) {
        reason = `unit ${unit} points to ${offset}`;
        break scan;
      }
      const slot = hash % slotCount;
      const expected = slots[slot]!;
      if (previous !== expected) {
        reason = `unit ${unit} follows ${previous} and should follow ${expected}`;
        break scan;
      }
      // 1 for 0, without a branch: which slots are new is chance, and a wrong guess of the processor would wait for the slot each time.
      usedSlots += (expected - 1) >>> 31;
      slots[slot] = unit;
      if (unit === 1) firstOffset = offset;
      lastOffset = offset;
      lastTimeDiff = timeDiff;
    }
  }
  if (unit === 1) lastOffset = -1;
  return { units: unit - 1, usedSlots, firstOffset, lastOffset, lastTimeDiff, slots, reason };
}

/** The slot table as the file has it. A value that cannot be a unit in use counts as empty, as RocketMQ takes it. */
export function loadSlots(file: FileHandle, layout: IndexLayout, indexCount: number): Int32Array {
  const slots = new Int32Array(layout.slots);
  eachDiskSlot(file, layout, (slot, value) => {
    if (value > 0 && value < indexCount) slots[slot] = value;
  });
  return slots;
}

/** Calls `changed` for each slot whose value on disk is not that of `slots`. */
export function compareSlots(
  file: FileHandle,
  layout: IndexLayout,
  slots: Int32Array,
  changed: (slot: number) => void,
): void {
  let next = 0;
  const nonZeroOnlyHere = (to: number): void => {
    for (; next < to; next++) if (slots[next] !== 0) changed(next);
  };
  eachDiskSlot(file, layout, (slot, value) => {
    nonZeroOnlyHere(slot);
    if (slots[slot] !== value) changed(slot);
    next = slot + 1;
  });
  nonZeroOnlyHere(layout.slots);
}

/** Visits the slots that are not 0, in order. Runs of zeros (holes of a sparse file) are passed over quickly. */
function eachDiskSlot(file: FileHandle, layout: IndexLayout, visit: (slot: number, value: number) => void): void {
  const block = Math.min(SLOT_BLOCK, layout.slots);
  const bytes = Buffer.alloc(block * SLOT_BYTES);
  const zeros = Buffer.alloc(block * SLOT_BYTES);
  const view = viewOf(bytes);
  for (let first = 0; first < layout.slots; first += block) {
    const count = Math.min(block, layout.slots - first);
    readOrZeros(file, bytes, layout.slotPosition(first), count * SLOT_BYTES);
    if (bytes.compare(zeros, 0, count * SLOT_BYTES, 0, count * SLOT_BYTES) === 0) continue;
    for (let i = 0; i < count; i++) {
      const value = view.getInt32(i * SLOT_BYTES);
      if (value !== 0) visit(first + i, value);
    }
  }
}

/**
 * Takes units off the end while `drop` says so of their physical offsets, in `slots` and `header`. Exact, and as cheap as what is
 * dropped: each unit names the slot value that it replaced. The header's end time is asked of `storeTimeOf`; without an answer it
 * is taken from the last unit, at most a second too late.
 */
export function popUnits(
  file: FileHandle,
  layout: IndexLayout,
  slots: Int32Array,
  header: IndexHeader,
  drop: (physicalOffset: number) => boolean,
  storeTimeOf: StoreTimeOf | undefined,
): void {
  const blocks = new UnitBlocks(file, layout, 4096);
  const view = blocks.view;
  const before = header.unitCount;
  let unit = before;
  for (; unit >= 1; unit--) {
    const at = blocks.at(unit, false);
    if (!drop(peekI64(view, at + 4))) break;
    const previous = Math.max(0, view.getInt32(at + 16));
    slots[Math.max(0, view.getInt32(at)) % layout.slots] = previous < unit ? previous : 0;
    if (previous === 0) header.hashSlotCount--;
  }
  if (unit === before) return;
  header.indexCount = unit + 1;
  if (unit === 0) return;
  const at = blocks.at(unit, false);
  const offset = peekI64(view, at + 4);
  header.endPhyOffset = offset;
  header.endTimestamp = unitTime(header, unit, offset, view.getInt32(at + 12), storeTimeOf);
}

function unitTime(
  header: IndexHeader,
  unit: number,
  offset: number,
  timeDiff: number,
  storeTimeOf: StoreTimeOf | undefined,
): number {
  if (unit === 1 || offset === header.beginPhyOffset) return header.beginTimestamp;
  const told = storeTimeOf?.(offset);
  if (told !== undefined) return told;
  return Math.max(header.beginTimestamp, Math.min(header.endTimestamp, header.beginTimestamp + timeDiff * 1000 + 999));
}

/**
 * Makes a file end, durably, with the units of `header`: what lies behind becomes zeros, so that it can never be taken for units
 * again. The slots on disk stay as they are; they are written when the file is sealed.
 * @throws GantryError IO, DISK_FULL.
 */
export function cutFile(fs: FileSystem, path: string, layout: IndexLayout, header: IndexHeader): void {
  const file = fs.open(path, 'write');
  try {
    file.truncateSync(layout.unitPosition(header.indexCount));
    file.truncateSync(layout.fileBytes);
    file.writeSync(header.encode(), 0, HEADER_BYTES, 0);
    file.syncSync();
  } finally {
    file.close();
  }
}

/**
 * Removes files, durably, each before the one in front of it: a file behind a gap would be taken for the next one, and what was in the
 * gap for indexed. @throws GantryError IO.
 */
export function removeNewestFirst(
  fs: FileSystem,
  folder: string,
  files: ReadonlyArray<{ readonly path: string }>,
): void {
  for (const { path } of [...files].reverse()) {
    fs.remove(path);
    fs.syncDirectory(folder);
  }
}

/**
 * Makes a full file whole, durably: header and slots as the scan found them. A process that was killed while it sealed the file may
 * have left either out of date.
 * @throws GantryError IO, DISK_FULL.
 */
export function mendFile(
  fs: FileSystem,
  path: string,
  layout: IndexLayout,
  header: IndexHeader,
  slots: Int32Array,
): void {
  const file = fs.open(path, 'write');
  try {
    const stale = new Set<number>();
    compareSlots(file, layout, slots, (slot) => stale.add(Math.floor(slot / SLOT_BLOCK)));
    const bytes = new Uint8Array(Math.min(SLOT_BLOCK, layout.slots) * SLOT_BYTES);
    const view = viewOf(bytes);
    for (const block of stale) {
      const first = block * SLOT_BLOCK;
      const count = Math.min(SLOT_BLOCK, layout.slots - first);
      for (let i = 0; i < count; i++) view.setInt32(i * SLOT_BYTES, slots[first + i]!);
      file.writeSync(bytes, 0, count * SLOT_BYTES, layout.slotPosition(first));
    }
    file.writeSync(header.encode(), 0, HEADER_BYTES, 0);
    file.syncSync();
  } finally {
    file.close();
  }
}
