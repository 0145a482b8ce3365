// Reading from batch queues: by queue offset, and by time. RocketMQ: DefaultMessageStore#getMessage with a BatchConsumeQueue.
//
// A record is handed out whole, with all its messages, also when the offset that was asked for lies inside it: clients split it, and the
// next offset is the one behind it.

import type { CommitLog } from '../commit-log/commit-log.ts';
import { BATCH_UNIT_BYTES, type BatchQueue, type BatchQueueStore, BatchUnit } from '../consume-queue/index.ts';
import type { Ready } from '../segment/index.ts';
import type { MessageStoreConfig } from '../store-config.ts';
import { GetMessageStatus, type GetRequest, type GetResult } from './get.ts';
import { Look, type RecordLook } from './record-look.ts';
import { answer, isFull, NOBODY_WAITS, settled } from './select-rules.ts';

export class BatchReader {
  readonly #log: CommitLog;
  readonly #queues: BatchQueueStore;
  readonly #config: MessageStoreConfig;
  readonly #inMemoryBytes: number;
  readonly #unit = new BatchUnit();
  readonly #recordLook: RecordLook;

  constructor(
    log: CommitLog,
    queues: BatchQueueStore,
    config: MessageStoreConfig,
    inMemoryBytes: number,
    recordLook: RecordLook,
  ) {
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
    const end = Math.min(queue.endUnit, (Math.floor(first / perFile) + 1) * perFile);
    const maxScannedBytes = Math.max(this.#config.maxFilterMessageSize, maxMessages * BATCH_UNIT_BYTES);
    const { committed: logEnd, minimum: logMinimum } = this.#log;
    let status: GetMessageStatus = GetMessageStatus.NO_MATCHED_MESSAGE;
    let next = offset;
    let skipBelow = 0;
    let newest = 0;
    for (let index = first; index < end && result.count < result.positions.length; index++) {
      const begun = next > offset;
      if (!this.#queues.read(queue, index, unit, begun ? NOBODY_WAITS : ready)) {
        if (!begun) return false;
        break;
      }
      const { physicalOffset, size, base, count } = unit;
      // Behind a gap: what lies before the offset was read already.
      if (base + count <= offset) continue;
      if ((base - offset) * BATCH_UNIT_BYTES >= maxScannedBytes) break;
      const inMemory = logEnd - physicalOffset <= this.#inMemoryBytes;
      if (isFull(this.#config, result, size, count, maxMessages, maxBytes, inMemory)) break;
      let passes = filter.all || filter.codes.has(unit.tag);
      if (passes && filter.record !== undefined && physicalOffset >= skipBelow) {
        const look = this.#recordLook.at(filter.record, physicalOffset, size, begun ? NOBODY_WAITS : ready);
        if (look === Look.WAIT) {
          if (!begun) return false;
          break;
        }
        passes = look === Look.PASSES;
      }
      next = base + count;
      newest = physicalOffset;
      if (physicalOffset < skipBelow) continue;
      if (!passes) continue;
      if (physicalOffset < logMinimum || physicalOffset + size > logEnd) {
        if (result.count === 0) status = GetMessageStatus.MESSAGE_WAS_REMOVING;
        skipBelow = Math.floor(physicalOffset / this.#log.fileSize + 1) * this.#log.fileSize;
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
    result.suggestPullingFromSlave = logEnd - newest > this.#inMemoryBytes;
    return answer(result, status, next);
  }

  /** Index of the last unit whose base is not above `offset`, at least the first one; -1 if it must be read first. */
  #find(queue: BatchQueue, offset: number, ready: Ready): number {
    const unit = this.#unit;
    let low = queue.firstUnit;
    let high = queue.endUnit - 1;
    while (low < high) {
      const middle = Math.ceil((low + high) / 2);
      if (!this.#queues.read(queue, middle, unit, ready)) return -1;
      if (unit.base <= offset) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  /** Store time of the message at a queue offset within [minimum, maximum). */
  async storeTimestamp(queue: BatchQueue, offset: number): Promise<number> {
    const unit = this.#unit;
    let time = -1;
    const look = (ready: Ready): boolean => {
      const index = this.#find(queue, offset, ready);
      if (index < 0 || !this.#queues.read(queue, index, unit, ready)) return false;
      time = offset < unit.base + unit.count ? unit.storeTimestamp : -1;
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
    const unit = new BatchUnit();
    const read = async (index: number): Promise<void> => {
      while (!(await settled((ready) => this.#queues.read(queue, index, unit, ready))));
    };
    let low = queue.firstUnit;
    let high = queue.endUnit;
    const end = high;
    while (low < high) {
      const middle = Math.floor((low + high) / 2);
      await read(middle);
      const before = boundary === 'LOWER' ? unit.storeTimestamp < timestamp : unit.storeTimestamp <= timestamp;
      if (before) low = middle + 1;
      else high = middle;
    }
    let found = boundary === 'LOWER' ? maxOffset : minOffset;
    const index = boundary === 'LOWER' ? low : low - 1;
    if (index >= queue.firstUnit && index < end) {
      await read(index);
      found = unit.base;
    }
    return Math.min(maxOffset, Math.max(minOffset, found));
  }
}
