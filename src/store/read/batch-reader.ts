// Reading from batch queues: by queue offset, and by time. RocketMQ: DefaultMessageStore#getMessage with a BatchConsumeQueue.
//
// A record is handed out whole, with all its messages, also when the offset that was asked for lies inside it: clients split it, and the
// next offset is the one behind it.

import type { CommitLog } from '../commit-log/commit-log.ts';
import { BATCH_UNIT_BYTES, type BatchQueue, type BatchQueueStore, BatchUnit, vote } from '../consume-queue/index.ts';
import type { Ready } from '../segment/index.ts';
import type { MessageStoreConfig } from '../store-config.ts';
import { GetMessageStatus, type GetRequest, type GetResult } from './get.ts';
import { Look, type RecordLook } from './record-look.ts';
import { answer, isFull, LARGEST_SLACK, NOBODY_WAITS, settled } from './select-rules.ts';

/** Units before the one that was found, where it is doubted. */
const DOUBTED_UNITS = 3;

/** Told of a unit that leads to no record, or to another one. */
export type TellUnit = (queue: BatchQueue, ordinal: number, position: number) => void;

export class BatchReader {
  readonly #log: CommitLog;
  readonly #queues: BatchQueueStore;
  readonly #config: MessageStoreConfig;
  readonly #inMemoryBytes: number;
  readonly #unit = new BatchUnit();
  readonly #recordLook: RecordLook;
  readonly #tellUnit: TellUnit;

  constructor(
    log: CommitLog,
    queues: BatchQueueStore,
    config: MessageStoreConfig,
    inMemoryBytes: number,
    recordLook: RecordLook,
    tellUnit: TellUnit,
  ) {
    this.#tellUnit = tellUnit;
    this.#recordLook = recordLook;
    this.#log = log;
    this.#queues = queues;
    this.#config = config;
    this.#inMemoryBytes = inMemoryBytes;
  }

  /** As MessageReader's scan of a plain queue: the offset lies within [minimum, maximum). */
  scan(queue: BatchQueue, request: GetRequest, result: GetResult, ready: Ready): boolean {
    const { offset, maxMessages, maxBytes, filter } = request;
    const first = this.#find(queue, offset, ready);
    if (first < 0) return false;
    const unit = this.#unit;
    const perFile = this.#queues.unitsPerFile;
    // That of the file with the first unit that counts.
    let end = queue.endUnit;
    const maxScannedBytes = Math.max(this.#config.maxFilterMessageSize, maxMessages * BATCH_UNIT_BYTES);
    const { committed: logEnd, minimum: logMinimum } = this.#log;
    const largest = this.#config.maxMessageSize + LARGEST_SLACK;
    let status: GetMessageStatus = GetMessageStatus.NO_MATCHED_MESSAGE;
    let next = offset;
    let lastTaken = -1;
    let skipBelow = 0;
    let newest = 0;
    let index = first;
    for (; index < end && result.count < result.positions.length; index++) {
      const begun = next > offset;
      const mayWait = begun ? NOBODY_WAITS : ready;
      if (!this.#queues.read(queue, index, unit, mayWait)) {
        if (!begun) return false;
        break;
      }
      const { physicalOffset, size, base, count } = unit;
      // What lies before the offset was read already.
      if (unit.isSound && base + count <= offset) continue;
      // Behind a gap, and where bits have flipped, a unit does not begin where the one before ended: then the record decides.
      const isInOrder = base === next || (!begun && base < offset);
      let isOdd = !unit.isSound;
      if (!isOdd && physicalOffset >= logMinimum && (!isInOrder || size > largest)) {
        const look = isInOrder
          ? this.#recordLook.sizeAt(physicalOffset, size, mayWait)
          : this.#recordLook.ordinalAt(physicalOffset, size, base, mayWait);
        if (look === Look.WAIT) {
          if (!begun) return false;
          break;
        }
        isOdd = look === Look.FAILS;
      }
      if (isOdd && !(unit.isSound && isInOrder)) {
        this.#tellUnit(queue, next, physicalOffset);
        status = result.count === 0 ? GetMessageStatus.MESSAGE_WAS_REMOVING : status;
        continue;
      }
      if (begun && (base - offset) * BATCH_UNIT_BYTES >= maxScannedBytes) break;
      const inMemory = logEnd - physicalOffset <= this.#inMemoryBytes;
      if (isFull(this.#config, result, size, count, maxMessages, maxBytes, inMemory)) break;
      let passes = filter.all || filter.codes.has(unit.tag);
      if (passes && !isOdd && filter.record !== undefined && physicalOffset >= skipBelow) {
        const look = this.#recordLook.at(filter.record, physicalOffset, size, mayWait);
        if (look === Look.WAIT) {
          if (!begun) return false;
          break;
        }
        passes = look === Look.PASSES;
      }
      if (!begun) end = Math.min(end, (Math.floor(index / perFile) + 1) * perFile);
      next = base + count;
      lastTaken = index;
      newest = physicalOffset;
      if (physicalOffset < skipBelow) continue;
      if (!passes) continue;
      const isGone = physicalOffset < logMinimum;
      if (isOdd || isGone || physicalOffset + size > logEnd) {
        if (result.count === 0) status = GetMessageStatus.MESSAGE_WAS_REMOVING;
        if (isGone) skipBelow = Math.floor(physicalOffset / this.#log.fileSize + 1) * this.#log.fileSize;
        else this.#tellUnit(queue, base, physicalOffset);
        continue;
      }
      result.positions[result.count] = physicalOffset;
      result.ordinals[result.count] = base;
      result.sizes[result.count] = size;
      result.count++;
      result.batched += count - 1;
      result.totalBytes += size;
      status = GetMessageStatus.FOUND;
      skipBelow = 0;
    }
    if (next > offset) {
      next = this.#endOfUnit(queue, lastTaken, next, ready);
      if (next < 0) return false;
    }
    // Nothing from the offset on can be read.
    else if (index >= end) next = queue.maxOffset;
    result.suggestPullingFromSlave = logEnd - newest > this.#inMemoryBytes;
    return answer(result, status, next);
  }

  /** Where the messages of the unit at `index` end, which says `end`: where the next one begins, if its record says so, too; -1 if that must be read first. */
  #endOfUnit(queue: BatchQueue, index: number, end: number, ready: Ready): number {
    const unit = this.#unit;
    if (index + 1 >= queue.endUnit || !this.#queues.read(queue, index + 1, unit, NOBODY_WAITS)) {
      return Math.min(end, queue.maxOffset);
    }
    const { isSound, base, physicalOffset, size } = unit;
    if (!isSound || base >= end) return end;
    const look = this.#recordLook.ordinalAt(physicalOffset, size, base, ready);
    if (look === Look.WAIT) return -1;
    return look === Look.PASSES ? base : end;
  }

  /**
   * Index of the last unit whose base is not above `offset`, at least the first one, or of one a little before it; -1 if it must be read
   * first. A unit that does not hold the offset, or whose end is not where the next one begins, is doubted: there may be a gap, or a bit has
   * flipped that led here.
   */
  #find(queue: BatchQueue, offset: number, ready: Ready): number {
    const unit = this.#unit;
    const { firstUnit, endUnit } = queue;
    let low = firstUnit;
    let high = endUnit - 1;
    while (low < high) {
      const middle = Math.ceil((low + high) / 2);
      if (!this.#queues.read(queue, middle, unit, ready)) return -1;
      if (unit.base <= offset) low = middle;
      else high = middle - 1;
    }
    if (!this.#queues.read(queue, low, unit, ready)) return -1;
    const end = unit.base + unit.count;
    if (unit.isSound && unit.base <= offset && offset < end) {
      if (low + 1 === endUnit) return low;
      if (!this.#queues.read(queue, low + 1, unit, ready)) return -1;
      if (unit.base === end) return low;
    }
    const found = this.#vote(queue, ({ base }) => base <= offset, ready);
    return found < 0 ? -1 : Math.max(firstUnit, found - DOUBTED_UNITS);
  }

  /** As `vote`, over the units of a queue; -1 if one must be read first. */
  #vote(queue: BatchQueue, isBefore: (unit: BatchUnit) => boolean, ready: Ready): number {
    const unit = this.#unit;
    let waits = false;
    const found = vote(queue.firstUnit, queue.endUnit, (index) => {
      waits ||= !this.#queues.read(queue, index, unit, ready);
      return waits || !unit.isSound ? undefined : isBefore(unit);
    });
    return waits ? -1 : found;
  }

  /** Store time of the message at a queue offset within [minimum, maximum). */
  async storeTimestamp(queue: BatchQueue, offset: number): Promise<number> {
    const unit = this.#unit;
    let time = -1;
    const look = (ready: Ready): boolean => {
      const first = this.#find(queue, offset, ready);
      if (first < 0) return false;
      const end = Math.min(queue.endUnit, first + 2 * DOUBTED_UNITS);
      for (let index = first; index < end; index++) {
        if (!this.#queues.read(queue, index, unit, ready)) return false;
        if (!unit.isSound || unit.base > offset || offset >= unit.base + unit.count) continue;
        time = unit.storeTimestamp;
        break;
      }
      return true;
    };
    while (!(await settled(look)));
    return time;
  }

  /**
   * The base of the first unit that is not older (LOWER; the maximum if all are), or of the last one that is not younger (UPPER; the minimum
   * if all are). RocketMQ: one short of the maximum for LOWER, -1 for an UPPER that no unit's time equals.
   */
  async offsetByTime(queue: BatchQueue, timestamp: number, boundary: 'LOWER' | 'UPPER'): Promise<number> {
    const { minOffset, maxOffset } = queue;
    const unit = this.#unit;
    let found = boundary === 'LOWER' ? maxOffset : minOffset;
    const look = (ready: Ready): boolean => {
      const at = this.#vote(
        queue,
        ({ storeTimestamp }) => (boundary === 'LOWER' ? storeTimestamp < timestamp : storeTimestamp <= timestamp),
        ready,
      );
      if (at < 0) return false;
      const index = boundary === 'LOWER' ? at : at - 1;
      if (index < queue.firstUnit || index >= queue.endUnit) return true;
      if (!this.#queues.read(queue, index, unit, ready)) return false;
      found = unit.base;
      return true;
    };
    while (!(await settled(look)));
    return Math.min(maxOffset, Math.max(minOffset, found));
  }
}
