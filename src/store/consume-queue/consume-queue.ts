// One ConsumeQueue: for topic and queueId, where the message of each ordinal lies. docs/formats/consume-queue.md is its page.
//
//   unit N at byte N * 20 of the queue's space:  physicalOffset i64 | size i32 | tagsCode i64
//
//   minOffset            synced      written                        maxOffset        nextOffset
//   |---- files ---------|-----------|===== tail in memory =========|   (puts that are not dispatched yet)
//                              tailStart ^ (older units are kept there for readers at the tail)
//
// An idle queue costs this object and nothing else: no handle, no mapping, no timer. Its tail is written when 4 KiB are
// waiting, when the tails of all queues use up their budget, at the thorough flush, and at the stop (consume-queue-store.ts).
//
// Invariants: synced <= written <= maxOffset <= nextOffset; tailStart <= written; I2: unit N lies at N * 20.

import { peekI64, type QueueOffset, writeI64 } from '../../common/index.ts';
import type { SegmentFile } from '../segment/index.ts';
import type { Stream } from './stream-store.ts';

/** Bytes of a unit. */
export const CQ_UNIT_BYTES = 20;
/** Size field of a unit that only fills a queue's beginning or a gap: there is no message at that ordinal. */
export const FILLER_SIZE = 0x7fffffff;

const EMPTY = new Uint8Array(0);
const EMPTY_VIEW = new DataView(EMPTY.buffer);
const FIRST_TAIL_UNITS = 8;
/** A tail of this many units grows no more if half of them are in the files. */
const KEEP_UNITS = 64;
/** A tail of this many waiting units is worth a write. */
export const WRITE_UNITS: number = Math.floor(4096 / CQ_UNIT_BYTES);

/** What a put of a unit did. */
export const UnitPut = {
  APPENDED: 0,
  /** The unit was there already: skipped. */
  REPEATED: 1,
  /** Ordinals are missing before it: they were filled, and the unit went to its own place. */
  AFTER_GAP: 2,
  /** Another unit has its place: nothing was changed. */
  CONFLICT: 3,
} as const;
export type UnitPut = (typeof UnitPut)[keyof typeof UnitPut];

export class ConsumeQueue {
  // What each put touches comes first: with thousands of queues in turn, every further cache line of the object is a miss.
  /** Ordinal that the next put gets. */
  nextOffset = 0;
  /** Ordinal behind the last dispatched unit. */
  maxOffset = 0;
  /** Ordinals below are in the files. */
  written = 0;
  /** Ordinal of the tail's first unit. */
  tailStart = 0;
  /** Bytes of `tail`. */
  tailBytes = 0;
  tailView: DataView = EMPTY_VIEW;
  /** End of the newest unit's record in the log, -1 if there is none. */
  maxPhysicalEnd = -1;
  /** Whether it stands in the store's list of queues with something to write. */
  listed = false;
  /** Whether someone wants to be told of arrivals (a held pull). */
  watched = false;

  tail: Uint8Array = EMPTY;
  readonly topic: string;
  readonly queueId: number;
  readonly folder: string;
  /** Units of one file. */
  readonly unitsPerFile: number;
  files: SegmentFile[] = [];
  /** First readable ordinal. */
  minOffset = 0;
  /** Its ext units, if it has or had any. */
  ext: Stream | undefined = undefined;
  /** Place in the log of the record at `minOffset`; -1 if that is not known. */
  minPhysicalOffset = -1;
  /** Ordinals below are durable. */
  synced = 0;
  /** Recovery: whether its records are being put again, so that nothing old is trusted any more. */
  rebuilt = false;
  /** The end that its files showed at the start, where its units were put again since: old ones may lie there up to it. */
  foundEnd = 0;
  /** Whether the names of its files and folders may not be durable: they were there after an unclean stop. */
  namesInDoubt = false;
  /** Recovery: taken as it was saved, without a look at its files' content. */
  unseen = false;

  constructor(topic: string, queueId: number, folder: string, unitsPerFile: number) {
    this.topic = topic;
    this.queueId = queueId;
    this.folder = folder;
    this.unitsPerFile = unitsPerFile;
  }

  /** Starts out at `offset` with nothing in memory: after a load, or for a fresh queue whose first message has that ordinal. */
  resetTo(offset: number, maxPhysicalEnd: number): void {
    this.maxOffset = offset;
    this.nextOffset = offset;
    this.written = offset;
    this.synced = offset;
    this.tailStart = offset;
    this.maxPhysicalEnd = maxPhysicalEnd;
  }

  /** True if no unit was ever put and no file exists. */
  get isFresh(): boolean {
    return this.maxPhysicalEnd === -1 && this.files.length === 0 && this.maxOffset === this.tailStart;
  }

  /**
   * Puts the unit of a dispatched record at its own ordinal. RocketMQ: ConsumeQueue#putMessagePositionInfo; it appends after a gap
   * at the current end, which shifts all later units, where we fill the gap (I2).
   */
  put(physicalOffset: number, size: number, tagsCode: number, ordinal: number): UnitPut {
    if (physicalOffset + size <= this.maxPhysicalEnd) return UnitPut.REPEATED;
    let outcome: UnitPut = UnitPut.APPENDED;
    if (ordinal !== this.maxOffset) {
      if (ordinal < this.maxOffset) return UnitPut.CONFLICT;
      if (this.isFresh) this.#startAt(ordinal);
      else {
        outcome = UnitPut.AFTER_GAP;
        while (this.maxOffset < ordinal) this.#append(0, FILLER_SIZE, 0);
      }
    }
    this.#append(physicalOffset, size, tagsCode);
    this.maxPhysicalEnd = physicalOffset + size;
    if (this.nextOffset < this.maxOffset) this.nextOffset = this.maxOffset;
    return outcome;
  }

  /** Whether an ordinal is in the tail; else it is in the files. */
  inTail(ordinal: number): boolean {
    return ordinal >= this.tailStart;
  }

  /** Index in `tail` of an ordinal's unit. */
  tailAt(ordinal: number): number {
    return (ordinal - this.tailStart) * CQ_UNIT_BYTES;
  }

  /** Units that wait to be written. */
  get waiting(): number {
    return this.maxOffset - this.written;
  }

  /** Forgets units from `ordinal` on that are only in memory or whose files the caller has cut. */
  cutTo(ordinal: number, maxPhysicalEnd: number): void {
    if (ordinal <= this.minOffset) {
      this.minOffset = ordinal;
      this.minPhysicalOffset = -1;
    }
    this.maxOffset = ordinal;
    this.nextOffset = ordinal;
    this.written = Math.min(this.written, ordinal);
    this.synced = Math.min(this.synced, ordinal);
    this.tailStart = Math.min(this.tailStart, ordinal);
    this.maxPhysicalEnd = maxPhysicalEnd;
  }

  /** RocketMQ: a fresh queue whose first ordinal is not 0 gets filler units up to it in its first file (docs/formats/consume-queue.md). */
  #startAt(ordinal: number): void {
    const unitsPerFile = this.unitsPerFile;
    const first = ordinal - (ordinal % unitsPerFile);
    this.maxOffset = first;
    this.tailStart = first;
    this.written = first;
    this.synced = first;
    while (this.maxOffset < ordinal) this.#append(0, FILLER_SIZE, 0);
    this.minOffset = ordinal;
    this.minPhysicalOffset = -1;
  }

  #append(physicalOffset: number, size: number, tagsCode: number): void {
    let at = (this.maxOffset - this.tailStart) * CQ_UNIT_BYTES;
    if (at === this.tailBytes) at = this.#makeRoom();
    const view = this.tailView;
    writeI64(view, at, physicalOffset);
    view.setInt32(at + 8, size);
    writeI64(view, at + 12, tagsCode);
    this.maxOffset++;
  }

  /** Drops units that are in the files, keeping the newer half for readers; grows the tail if too many wait. */
  #makeRoom(): number {
    const units = this.maxOffset - this.tailStart;
    const drop = Math.min(this.written - this.tailStart, units >> 1);
    if ((units >= WRITE_UNITS && drop >= units >> 2) || (units >= KEEP_UNITS && drop === units >> 1)) {
      this.tail.copyWithin(0, drop * CQ_UNIT_BYTES);
      this.tailStart += drop;
    } else {
      const grown = new Uint8Array(Math.max(FIRST_TAIL_UNITS, units * 2) * CQ_UNIT_BYTES);
      grown.set(this.tail);
      this.tail = grown;
      this.tailBytes = grown.length;
      this.tailView = new DataView(grown.buffer);
    }
    return (this.maxOffset - this.tailStart) * CQ_UNIT_BYTES;
  }
}

/** Whether a unit's fields can be one: RocketMQ ends a queue's data at the first unit that is not. */
export function isUnit(view: DataView, at: number): boolean {
  return view.getInt32(at + 8) > 0 && view.getInt32(at) >= 0;
}

export function unitOffset(view: DataView, at: number): number {
  return peekI64(view, at);
}

export function unitSize(view: DataView, at: number): number {
  return view.getInt32(at + 8);
}

/** The low 32 bits of the tagsCode, all that a tag filter looks at. */
export function unitTag(view: DataView, at: number): number {
  return view.getInt32(at + 16);
}

/** A unit's ordinal as the brand that callers want. */
export function ordinal(value: number): QueueOffset {
  return value as QueueOffset;
}
