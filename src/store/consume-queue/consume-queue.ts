// One ConsumeQueue: for topic and queueId, where the message of each ordinal lies. docs/formats/consume-queue.md is its page.
//
//   minOffset            synced      written                        maxOffset        nextOffset
//   |---- files ---------|-----------|===== tail in memory =========|   (puts that are not dispatched yet)
//                              tailStart ^ (older units are kept there for readers at the tail)
//
// An idle queue costs this object and nothing else: no handle, no mapping, no timer. Its tail, blocks of the store's (tail-blocks.ts), is
// written when 4 KiB are waiting (16 if its file must be opened for it), when the tails of all queues use up their budget, at the thorough flush, and at the stop
// (consume-queue-store.ts).
//
// Invariants: synced <= written <= maxOffset <= nextOffset; tailStart <= written; I2: unit N lies at N * 20.

import { assert, writeI64 } from '../../common/index.ts';
import type { SegmentFile } from '../segment/index.ts';
import type { Stream } from './stream-store.ts';
import { BLOCK_UNITS, NO_BLOCK, type TailBlocks } from './tail-blocks.ts';
import { CQ_UNIT_BYTES, FILLER_SIZE, unitOffset, unitSize } from './unit.ts';

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

/** What all queues of a store have in common. */
export interface SharedByQueues {
  /** `<root>/consumequeue`. */
  readonly root: string;
  readonly unitsPerFile: number;
  readonly blocks: TailBlocks;
}

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
  /** Block of the tail's newest units; the oldest lie in `#first`. */
  #last = NO_BLOCK;
  /** End of the newest unit's record in the log, -1 if there is none. */
  maxPhysicalEnd = -1;
  /** Whether it stands in the store's list of queues with something to write. */
  listed = false;
  /** Whether someone wants to be told of arrivals (a held pull). */
  watched = false;
  readonly #shared: SharedByQueues;
  /** Of a light queue: where its life begins in the log, as dispatch found out at its `livesAt`th look at deletions. */
  livesFrom = 0;
  livesAt = -1;

  #first = NO_BLOCK;
  readonly topic: string;
  readonly queueId: number;
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

  constructor(topic: string, queueId: number, shared: SharedByQueues) {
    this.#shared = shared;
    this.topic = topic;
    this.queueId = queueId;
  }

  /** Units of one file. */
  get unitsPerFile(): number {
    return this.#shared.unitsPerFile;
  }

  get folder(): string {
    return `${this.#shared.root}/${this.topic}/${this.queueId}`;
  }

  /** Starts out at `offset` with nothing in memory: after a load, or for a fresh queue whose first message has that ordinal. */
  resetTo(offset: number, maxPhysicalEnd: number): void {
    this.#freeAll();
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

  /** Copies the units [ordinal, end), which are in the tail, to `target`; answers their bytes. */
  copyTail(ordinal: number, end: number, target: Uint8Array): number {
    const blocks = this.#shared.blocks;
    let block = this.#blockOf(ordinal);
    let at = 0;
    for (let next = ordinal; next < end; block = blocks.after(block)) {
      const place = (next - this.tailStart) & (BLOCK_UNITS - 1);
      const units = Math.min(BLOCK_UNITS - place, end - next);
      const from = blocks.startOf(block) + place * CQ_UNIT_BYTES;
      target.set(blocks.bytesOf(block).subarray(from, from + units * CQ_UNIT_BYTES), at);
      at += units * CQ_UNIT_BYTES;
      next += units;
    }
    return at;
  }

  /** Of a unit in the tail: where its record lies, or -1 for a filler. */
  physicalOffsetAt(ordinal: number): number {
    const block = this.#blockOf(ordinal);
    const view = this.#shared.blocks.viewOf(block);
    const at = this.#unitIn(block, ordinal);
    return unitSize(view, at) === FILLER_SIZE ? -1 : unitOffset(view, at);
  }

  /** Of a unit in the tail: where its record ends, or -1 for a filler. */
  physicalEndAt(ordinal: number): number {
    const start = this.physicalOffsetAt(ordinal);
    const block = this.#blockOf(ordinal);
    return start < 0 ? -1 : start + unitSize(this.#shared.blocks.viewOf(block), this.#unitIn(block, ordinal));
  }

  /** Gives the newest unit, which is in the tail, another tagsCode. */
  retag(high: number, low: number): void {
    const view = this.#shared.blocks.viewOf(this.#last);
    const at = this.#unitIn(this.#last, this.maxOffset - 1);
    view.setInt32(at + 12, high);
    view.setInt32(at + 16, low);
  }

  /** Lets go of units in the files, but for the newest `keep` and what shares a block with units that are to be kept. */
  trimTail(keep: number): void {
    const blocks = this.#shared.blocks;
    const until = Math.min(this.written, this.maxOffset - keep);
    while (this.#first !== this.#last && this.tailStart + BLOCK_UNITS <= until) {
      this.#first = blocks.giveBack(this.#first);
      this.tailStart += BLOCK_UNITS;
    }
  }

  /** Lets go of the whole tail, which is in the files. */
  freeTail(): void {
    this.#freeAll();
    this.tailStart = this.maxOffset;
  }

  /** Units that wait to be written. */
  get waiting(): number {
    return this.maxOffset - this.written;
  }

  /** Forgets units from `ordinal` on that are only in memory or whose files the caller has cut. */
  cutTo(ordinal: number, maxPhysicalEnd: number): void {
    assert(ordinal <= this.maxOffset, 'a queue is cut behind its end');
    if (ordinal <= this.minOffset) {
      this.minOffset = ordinal;
      this.minPhysicalOffset = -1;
    }
    this.#cutTail(ordinal);
    this.maxOffset = ordinal;
    this.nextOffset = ordinal;
    this.written = Math.min(this.written, ordinal);
    this.synced = Math.min(this.synced, ordinal);
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
    const blocks = this.#shared.blocks;
    const place = (this.maxOffset - this.tailStart) & (BLOCK_UNITS - 1);
    if (place === 0) {
      this.#last = blocks.take(this.#last);
      if (this.#first === NO_BLOCK) this.#first = this.#last;
    }
    const view = blocks.viewOf(this.#last);
    const at = blocks.startOf(this.#last) + place * CQ_UNIT_BYTES;
    writeI64(view, at, physicalOffset);
    view.setInt32(at + 8, size);
    writeI64(view, at + 12, tagsCode);
    this.maxOffset++;
  }

  /** The block of a unit in the tail. */
  #blockOf(ordinal: number): number {
    if (this.maxOffset - ordinal <= ((this.maxOffset - this.tailStart - 1) & (BLOCK_UNITS - 1)) + 1) return this.#last;
    let block = this.#first;
    for (let at = this.tailStart + BLOCK_UNITS; at <= ordinal; at += BLOCK_UNITS)
      block = this.#shared.blocks.after(block);
    return block;
  }

  #unitIn(block: number, ordinal: number): number {
    return this.#shared.blocks.startOf(block) + ((ordinal - this.tailStart) & (BLOCK_UNITS - 1)) * CQ_UNIT_BYTES;
  }

  /** Takes the units from `ordinal` on out of the tail. */
  #cutTail(ordinal: number): void {
    if (ordinal <= this.tailStart) {
      this.#freeAll();
      this.tailStart = ordinal;
      return;
    }
    if (ordinal >= this.maxOffset) return;
    const last = this.#blockOf(ordinal - 1);
    for (let block = this.#shared.blocks.after(last); block !== NO_BLOCK; ) block = this.#shared.blocks.giveBack(block);
    this.#shared.blocks.endAt(last);
    this.#last = last;
  }

  #freeAll(): void {
    for (let block = this.#first; block !== NO_BLOCK; ) block = this.#shared.blocks.giveBack(block);
    this.#first = NO_BLOCK;
    this.#last = NO_BLOCK;
  }
}
