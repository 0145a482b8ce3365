// The queues of topics whose records may hold many messages each (attribute queue.type = BatchCQ): for each record, where it lies and which
// queue offsets its messages have. docs/formats/consume-queue.md is its page. RocketMQ: BatchConsumeQueue.
//
//   <root>/batchconsumequeue/<topic>/<queueId>/<20 digits>
//   unit: physicalOffset i64 | size i32 | tagsCode i64 | store time i64 | base i64 | count i16 | compacted i32 = -1 | 0 i32       46 bytes
//
// Units lie one behind the other, so that a queue offset is found by a binary search for the last unit whose base is not above it.
// Bases, store times and physical offsets all rise.

import { type Logger, peekI64, viewOf, writeI64 } from '../../common/index.ts';
import type { Ready } from '../segment/index.ts';
import { UnitPut } from './consume-queue.ts';
import { type Stream, StreamStore, type StreamStoreOptions } from './stream-store.ts';

/** Bytes of a unit. */
export const BATCH_UNIT_BYTES = 46;
const STEP_UNITS = 1424;

export class BatchQueue {
  readonly topic: string;
  readonly queueId: number;
  readonly stream: Stream;
  /** First readable queue offset. */
  minOffset = 0;
  /** Queue offset behind the last dispatched message. */
  maxOffset = 0;
  /** Queue offset that the next put gets. */
  nextOffset = 0;
  /** End of the newest unit's record in the log, -1 if there is none. */
  maxPhysicalEnd = -1;
  /** Queue offsets below are durable. */
  synced = 0;
  /** Whether someone wants to be told of arrivals. */
  watched = false;
  /** Recovery: whether its records are being put again. */
  rebuilt = false;

  constructor(stream: Stream) {
    this.topic = stream.topic;
    this.queueId = stream.queueId;
    this.stream = stream;
  }

  /** Index of the first unit. */
  get firstUnit(): number {
    return this.stream.start / BATCH_UNIT_BYTES;
  }

  /** Index behind the last unit. */
  get endUnit(): number {
    return this.stream.end / BATCH_UNIT_BYTES;
  }
}

/** A unit that was read; one object per reader, filled anew. */
export class BatchUnit {
  physicalOffset = 0;
  size = 0;
  /** The low 32 bits of the tagsCode. */
  tag = 0;
  storeTimestamp = 0;
  base = 0;
  count = 0;
  /** Whether what was read last is a unit. */
  isSound = false;
  readonly bytes: Uint8Array = new Uint8Array(BATCH_UNIT_BYTES);
  readonly #view = viewOf(this.bytes);

  /** Takes the fields out of `bytes`; false if they are no unit. */
  parse(): boolean {
    const view = this.#view;
    this.physicalOffset = peekI64(view, 0);
    this.size = view.getInt32(8);
    this.tag = view.getInt32(16);
    this.storeTimestamp = peekI64(view, 20);
    this.base = peekI64(view, 28);
    this.count = view.getInt16(36);
    return this.physicalOffset >= 0 && this.size > 0 && this.base >= 0 && this.count > 0;
  }
}

export class BatchQueueStore {
  readonly #streams: StreamStore;
  readonly #logger: Logger;
  readonly unitsPerFile: number;
  readonly #topics = new Map<string, BatchQueue[]>();
  readonly #unit = new BatchUnit();

  /** @throws never; `fileSize` is a multiple of BATCH_UNIT_BYTES. */
  constructor(options: StreamStoreOptions) {
    this.#streams = new StreamStore({ ...options, unitBytes: BATCH_UNIT_BYTES });
    this.#logger = options.logger;
    this.unitsPerFile = options.fileSize / BATCH_UNIT_BYTES;
  }

  has(topic: string): boolean {
    return this.#topics.has(topic);
  }

  /** Whether there is any queue. */
  get isEmpty(): boolean {
    return this.#topics.size === 0;
  }

  find(topic: string, queueId: number): BatchQueue | undefined {
    return this.#topics.get(topic)?.[queueId];
  }

  findOrCreate(topic: string, queueId: number): BatchQueue {
    let queues = this.#topics.get(topic);
    if (queues === undefined) {
      queues = [];
      this.#topics.set(topic, queues);
    }
    queues[queueId] ??= new BatchQueue(this.#streams.findOrCreate(topic, queueId));
    return queues[queueId];
  }

  *all(): IterableIterator<BatchQueue> {
    for (const queues of this.#topics.values()) for (const queue of queues) if (queue !== undefined) yield queue;
  }

  /** The queues of a topic. */
  of(topic: string): readonly BatchQueue[] {
    return this.#topics.get(topic)?.filter((queue) => queue !== undefined) ?? [];
  }

  /**
   * Puts the unit of a record whose messages have the queue offsets [base, base + count). RocketMQ: putBatchMessagePositionInfo, which looks
   * at the physical offset only, and appends whatever the base is.
   */
  put(
    queue: BatchQueue,
    physicalOffset: number,
    size: number,
    tagsCode: number,
    storeTimestamp: number,
    base: number,
    count: number,
  ): UnitPut {
    if (physicalOffset + size <= queue.maxPhysicalEnd) return UnitPut.REPEATED;
    if (base < queue.maxOffset) return UnitPut.CONFLICT;
    const { stream } = queue;
    const isFirst = stream.end === stream.start && queue.maxPhysicalEnd === -1;
    const at = stream.extend(BATCH_UNIT_BYTES);
    const view = stream.tailView;
    writeI64(view, at, physicalOffset);
    view.setInt32(at + 8, size);
    writeI64(view, at + 12, tagsCode);
    writeI64(view, at + 20, storeTimestamp);
    writeI64(view, at + 28, base);
    view.setInt16(at + 36, count);
    view.setInt32(at + 38, -1);
    view.setInt32(at + 42, 0);
    this.#streams.appended(stream, BATCH_UNIT_BYTES);
    const outcome = base === queue.maxOffset || isFirst ? UnitPut.APPENDED : UnitPut.AFTER_GAP;
    if (isFirst) queue.minOffset = base;
    queue.maxOffset = base + count;
    queue.maxPhysicalEnd = physicalOffset + size;
    if (queue.nextOffset < queue.maxOffset) queue.nextOffset = queue.maxOffset;
    return outcome;
  }

  /** Reads the unit with an index into `unit`. False, and `ready` as in ReadCache.copy, if its bytes must be fetched first. */
  read(queue: BatchQueue, index: number, unit: BatchUnit, ready: Ready): boolean {
    if (!this.#streams.read(queue.stream, index * BATCH_UNIT_BYTES, BATCH_UNIT_BYTES, unit.bytes, ready)) return false;
    unit.isSound = unit.parse();
    return true;
  }

  /** Reads whole units from `index` on into `target`, at once; answers how many there are. */
  readUnitsSync(queue: BatchQueue, index: number, count: number, target: Uint8Array): number {
    const got = this.#streams.readSync(queue.stream, index * BATCH_UNIT_BYTES, count * BATCH_UNIT_BYTES, target);
    return Math.floor(got / BATCH_UNIT_BYTES);
  }

  /** As `read`, at once; for the start. False if there is no such unit. */
  readSync(queue: BatchQueue, index: number, unit: BatchUnit): boolean {
    const got = this.#streams.readSync(queue.stream, index * BATCH_UNIT_BYTES, BATCH_UNIT_BYTES, unit.bytes);
    return got === BATCH_UNIT_BYTES && unit.parse();
  }

  sweep(): boolean {
    return this.#streams.sweep();
  }

  flush(done: Parameters<StreamStore['flush']>[0]): void {
    const ends = [...this.all()].map((queue) => ({ queue, end: queue.maxOffset }));
    this.#streams.flush((error) => {
      if (error === undefined) {
        for (const { queue, end } of ends) queue.synced = Math.max(queue.synced, Math.min(end, queue.maxOffset));
      }
      done(error);
    });
  }

  /** Removes a queue's files; it begins afresh. */
  clear(queue: BatchQueue): void {
    this.#streams.clear(queue.stream);
    queue.minOffset = 0;
    queue.maxOffset = 0;
    queue.nextOffset = 0;
    queue.synced = 0;
    queue.maxPhysicalEnd = -1;
  }

  removeQueue(queue: BatchQueue): void {
    this.#streams.removeStream(queue.stream);
    const queues = this.#topics.get(queue.topic);
    if (queues === undefined) return;
    delete queues[queue.queueId];
    if (queues.every((other) => other === undefined)) this.#topics.delete(queue.topic);
  }

  remove(topic: string): void {
    this.#topics.delete(topic);
    this.#streams.remove(topic);
  }

  removeAll(): void {
    this.#topics.clear();
    this.#streams.removeAll();
  }

  /** Nothing waits to be written or synced. */
  get isDurable(): boolean {
    return this.#streams.isDurable;
  }

  close(): void {
    this.#streams.close();
  }

  // --- Start and retention

  /** Finds every queue on disk, without opening a file. @throws GantryError STORE_FILE_SIZE. */
  load(): void {
    for (const { topic, queueId } of this.#streams.load()) this.findOrCreate(topic, queueId);
  }

  /** As recoverQueueEnd of plain queues: the first unit that is none ends the queue, and what lies behind is cut. */
  recoverEnd(queue: BatchQueue, clean: boolean): void {
    const { stream } = queue;
    const { files } = stream;
    if (files.length === 0) return;
    const limit = stream.end / BATCH_UNIT_BYTES;
    const unit = this.#unit;
    const step = new Uint8Array(STEP_UNITS * BATCH_UNIT_BYTES);
    let end = files[Math.max(0, files.length - (clean ? 1 : 3))]!.base / BATCH_UNIT_BYTES;
    scan: while (end < limit) {
      const got = this.#streams.readSync(stream, end * BATCH_UNIT_BYTES, step.length, step) / BATCH_UNIT_BYTES;
      if (got < 1) break;
      for (let i = 0; i < got; i++) {
        unit.bytes.set(step.subarray(i * BATCH_UNIT_BYTES, (i + 1) * BATCH_UNIT_BYTES));
        if (!unit.parse()) break scan;
        end++;
      }
    }
    this.endAt(queue, end);
  }

  /** Lets a queue end at a unit's index; what the files hold behind it is made dead. */
  endAt(queue: BatchQueue, end: number): void {
    this.#streams.cut(queue.stream, end * BATCH_UNIT_BYTES);
    queue.stream.resetTo(end * BATCH_UNIT_BYTES);
    const unit = this.#unit;
    const found = end > queue.firstUnit && this.readSync(queue, end - 1, unit);
    queue.maxOffset = found ? unit.base + unit.count : 0;
    queue.nextOffset = queue.maxOffset;
    queue.synced = queue.maxOffset;
    queue.maxPhysicalEnd = found ? unit.physicalOffset + unit.size : -1;
    queue.minOffset = Math.min(queue.minOffset, queue.maxOffset);
  }

  /** Recovery has come to a queue's first record in the scanned part of the log: from there on its units are put again. */
  rebuildFrom(queue: BatchQueue, physicalOffset: number): void {
    queue.rebuilt = true;
    this.#cutUnits(queue, (unit) => unit.physicalOffset < physicalOffset);
  }

  /** Drops units whose record does not end at or below `logEnd`. */
  cutToLog(queue: BatchQueue, logEnd: number): void {
    if (queue.maxPhysicalEnd <= logEnd) return;
    const before = queue.endUnit;
    this.#cutUnits(queue, (unit) => unit.physicalOffset + unit.size <= logEnd);
    this.#logger.warn(
      `${queue.topic} queue ${queue.queueId}: ${before - queue.endUnit} units point beyond the log's end ${logEnd}; the queue ends at ${queue.maxOffset} now`,
    );
  }

  #cutUnits(queue: BatchQueue, keeps: (unit: BatchUnit) => boolean): void {
    const unit = this.#unit;
    let end = queue.endUnit;
    while (end > queue.firstUnit && !(this.readSync(queue, end - 1, unit) && keeps(unit))) end--;
    if (end === queue.endUnit) return;
    // What is only in memory so far must not be lost with the tail.
    this.#streams.writeNow(queue.stream);
    this.endAt(queue, end);
  }

  /**
   * Where a queue begins when the log does at `logMinimum`: the first unit whose record is not gone (RocketMQ: correctMinOffset), and its
   * first message; the queue's end if there is none.
   */
  minimumAt(queue: BatchQueue, logMinimum: number): { unit: number; ordinal: number } {
    const unit = this.#unit;
    const isGone = (index: number): boolean | undefined =>
      this.readSync(queue, index, unit) ? unit.physicalOffset < logMinimum : undefined;
    const { firstUnit, endUnit } = queue;
    const first = firstUnit < endUnit && isGone(firstUnit) === false ? firstUnit : vote(firstUnit, endUnit, isGone);
    for (let index = first; index < endUnit; index++) {
      if (isGone(index) !== false) continue;
      const { base } = unit;
      // A base is at most the next one's.
      const most = this.readSync(queue, index + 1, unit) ? Math.min(unit.base, queue.maxOffset) : queue.maxOffset;
      return { unit: index, ordinal: Math.min(base, most) };
    }
    return { unit: endUnit, ordinal: queue.maxOffset };
  }

  /** Sets a queue's minimum by the log's. Files that hold nothing else are removed, but for the newest. */
  correctMinimum(queue: BatchQueue, logMinimum: number): void {
    if (queue.firstUnit === queue.endUnit) return;
    const { unit, ordinal } = this.minimumAt(queue, logMinimum);
    queue.minOffset = ordinal;
    this.#streams.removeFilesBelow(queue.stream, unit * BATCH_UNIT_BYTES);
  }
}

/**
 * The first index in [first, end) of which `isBefore` does not hold, where it holds of all before and of none behind. Of each place its
 * neighbours are asked, too, and most of the three decide (of two, the place itself), so that one unit whose bits have flipped (undefined: it is none) does not lead
 * astray. That unit, and the one behind it, may be what is found.
 */
export function vote(first: number, end: number, isBefore: (index: number) => boolean | undefined): number {
  let low = first;
  let high = end;
  while (low < high) {
    const middle = Math.floor((low + high) / 2);
    const own = isBefore(middle);
    let votes = own === true ? 1.5 : own === false ? -1.5 : 0;
    for (const index of [middle - 1, middle + 1]) {
      const before = index < first || index >= end ? undefined : isBefore(index);
      if (before !== undefined) votes += before ? 1 : -1;
    }
    if (votes > 0) low = middle + 1;
    else high = middle;
  }
  return low;
}
