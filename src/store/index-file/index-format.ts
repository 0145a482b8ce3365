// The bytes of an index file: where header, slots and units lie (docs/formats/index-file.md). Everything is big-endian and signed.
//
//   header   0 beginTimestamp i64 | 8 endTimestamp i64 | 16 beginPhyOffset i64 | 24 endPhyOffset i64
//           32 hashSlotCount i32 (slots in use) | 36 indexCount i32 (number of the next free unit, starts at 1)
//   slot s  40 + 4 s             i32: number of the slot's newest unit, 0 = none
//   unit n  40 + 4 S + 20 n      0 keyHash i32 | 4 phyOffset i64 | 12 timeDiff i32 (seconds) | 16 previous unit of the slot i32
//
// S and N (units that there is space for; unit 0 is never used) are settings and not in the file.

import { assert, peekI64, viewOf, writeI64 } from '../../common/index.ts';

export const HEADER_BYTES = 40;
export const SLOT_BYTES = 4;
export const UNIT_BYTES = 20;
/** Largest timeDiff that a unit holds. */
export const MAX_TIME_DIFF = 0x7fffffff;

/** The two settings that shape a file. RocketMQ: maxHashSlotNum, maxIndexNum. */
export class IndexLayout {
  /** Slots (S). */
  readonly slots: number;
  /** Unit places (N), of which unit 0 stays unused. */
  readonly units: number;
  /** Length of a file. */
  readonly fileBytes: number;

  constructor(slots: number, units: number) {
    assert(slots > 0 && units > 1, 'an index file needs at least one slot and two unit places');
    this.slots = slots;
    this.units = units;
    this.fileBytes = HEADER_BYTES + SLOT_BYTES * slots + UNIT_BYTES * units;
  }

  slotPosition(slot: number): number {
    return HEADER_BYTES + SLOT_BYTES * slot;
  }

  unitPosition(unit: number): number {
    return HEADER_BYTES + SLOT_BYTES * this.slots + UNIT_BYTES * unit;
  }
}

/** The header's fields in memory. Times are store times in ms, offsets are physical. */
export class IndexHeader {
  /** Of unit 1; in a file that has no unit yet, the end of the file before it. */
  beginTimestamp = 0;
  endTimestamp = 0;
  beginPhyOffset = 0;
  endPhyOffset = 0;
  /** Slots that are not empty. */
  hashSlotCount = 0;
  /** Number of the next free unit, at least 1. */
  indexCount = 1;

  /** Units in use. */
  get unitCount(): number {
    return this.indexCount - 1;
  }

  /**
   * The header of the file that follows one with `previous`: begin and end are preset with the previous end, where that is positive.
   * RocketMQ: so the first unit's timeDiff counts from the previous file's end, and begin is replaced right after it; readers
   * add it to the new begin and see that unit too late. Kept, since the bytes are RocketMQ's.
   */
  static following(previous: IndexHeader): IndexHeader {
    const header = new IndexHeader();
    if (previous.endPhyOffset > 0) header.beginPhyOffset = header.endPhyOffset = previous.endPhyOffset;
    if (previous.endTimestamp > 0) header.beginTimestamp = header.endTimestamp = previous.endTimestamp;
    return header;
  }

  /** Reads 40 bytes as they are; an indexCount of 0 or less counts as 1. Nothing is judged here. */
  static decode(bytes: Uint8Array): IndexHeader {
    const view = viewOf(bytes);
    const header = new IndexHeader();
    header.beginTimestamp = peekI64(view, 0);
    header.endTimestamp = peekI64(view, 8);
    header.beginPhyOffset = peekI64(view, 16);
    header.endPhyOffset = peekI64(view, 24);
    header.hashSlotCount = view.getInt32(32);
    header.indexCount = Math.max(1, view.getInt32(36));
    return header;
  }

  encode(): Uint8Array {
    const bytes = new Uint8Array(HEADER_BYTES);
    const view = viewOf(bytes);
    writeI64(view, 0, this.beginTimestamp);
    writeI64(view, 8, this.endTimestamp);
    writeI64(view, 16, this.beginPhyOffset);
    writeI64(view, 24, this.endPhyOffset);
    view.setInt32(32, this.hashSlotCount);
    view.setInt32(36, this.indexCount);
    return bytes;
  }

  clone(): IndexHeader {
    return Object.assign(new IndexHeader(), this);
  }
}

/** Seconds that a unit stores for a message: whole seconds after `beginTimestamp`, 0 while there is none, never negative. */
export function timeDiffSeconds(storeTimestamp: number, beginTimestamp: number): number {
  if (beginTimestamp <= 0) return 0;
  const diff = storeTimestamp - beginTimestamp;
  return diff < 1000 ? 0 : Math.min(Math.floor(diff / 1000), MAX_TIME_DIFF);
}

/**
 * The name of a file made at `timeMs`: yyyyMMddHHmmssSSS in the local time zone, but always after `previous`, for names order
 * the files. RocketMQ: takes the clock as it is, so two files of one millisecond are one, and a clock set back disorders them.
 */
export function indexFileName(timeMs: number, previous: string | undefined): string {
  const time = new Date(timeMs);
  const pad = (value: number, digits: number): string => String(value).padStart(digits, '0');
  const name =
    pad(time.getFullYear(), 4) +
    pad(time.getMonth() + 1, 2) +
    pad(time.getDate(), 2) +
    pad(time.getHours(), 2) +
    pad(time.getMinutes(), 2) +
    pad(time.getSeconds(), 2) +
    pad(time.getMilliseconds(), 3);
  if (previous === undefined || name > previous) return name;
  return String(BigInt(previous) + 1n).padStart(previous.length, '0');
}
