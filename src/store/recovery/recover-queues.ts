// Finds, at the start, where each ConsumeQueue really ends and begins, from its own units and the log's bounds.
// RocketMQ: ConsumeQueue#recover, #truncateDirtyLogicFiles, #correctMinOffset.

import type { Logger } from '../../common/index.ts';
import type { RecordView } from '../../message/index.ts';
import {
  type ConsumeQueue,
  type ConsumeQueueStore,
  CQ_UNIT_BYTES,
  canBeFolder,
  FILLER_SIZE,
  isUnit,
  type QueueKinds,
  unitOffset,
  unitSize,
} from '../consume-queue/index.ts';
import type { QueueBound, QueueBounds } from './queue-bounds.ts';
import { UnitSum, unitsLookedAt } from './queue-sums.ts';

const STEP_UNITS = 3200;
/** Units read at first, where a queue is known to end within them: a page and a little. */
const FEW_UNITS = 204;
const ZEROS = Buffer.alloc(STEP_UNITS * CQ_UNIT_BYTES);

export interface QueueEndsOptions {
  clean: boolean;
  bounds: QueueBounds;
  /** Queues that the store has. */
  count: number;
  /** With more queues than this, those whose bounds can be believed are taken as they were saved. */
  mostLookedAt: number;
  /** Whether what the last process wrote is all there: it stopped in order, or only the process was killed and not the machine. */
  nothingLost: boolean;
  logger: Logger;
}

/** Finds the queues' ends, one after the other, with one buffer for all. */
export class QueueEnds {
  readonly #store: ConsumeQueueStore;
  readonly #logger: Logger;
  readonly #clean: boolean;
  readonly #bounds: QueueBounds;
  readonly #lazily: boolean;
  /** Units below a known end that are looked at. */
  readonly #look: number;
  readonly #step = Buffer.alloc(STEP_UNITS * CQ_UNIT_BYTES);
  readonly #view = new DataView(this.#step.buffer, this.#step.byteOffset);
  /** Queues with bytes behind their ends, for `cut`. */
  readonly #dirty: ConsumeQueue[] = [];

  constructor(store: ConsumeQueueStore, options: QueueEndsOptions) {
    const { clean, bounds, count, mostLookedAt, nothingLost, logger } = options;
    this.#store = store;
    this.#logger = logger;
    this.#clean = clean;
    this.#bounds = bounds;
    this.#lazily = nothingLost && count > mostLookedAt;
    this.#look = unitsLookedAt(count);
  }

  /**
   * Sets a queue's end from its files: the first unit that is none ends it. Where a bound says how far the units were durable, looks
   * at the newest ones below it and at all behind it; otherwise, or if they are not there, at the last file, and after an unclean
   * stop at the last three, since pages reach a disk out of order. Changes nothing on disk; `cut` does.
   *
   * With very many queues nothing is read where a bound can be believed. Units behind the bound belong to records that are
   * dispatched again.
   */
  find(queue: ConsumeQueue): void {
    const files = queue.files;
    queue.namesInDoubt = !this.#clean;
    if (files.length === 0) return;
    const first = files[0]!.base / CQ_UNIT_BYTES;
    const limit = files.at(-1)!.end / CQ_UNIT_BYTES;
    const saved = this.#bounds.queues.get(queue.topic)?.get(queue.queueId);
    const bound = saved?.bound ?? 0;
    // Names that came or went after the bounds were saved: the process that ended had not made them durable.
    if (!this.#clean && bound * CQ_UNIT_BYTES <= files.at(-1)!.base) this.#store.doubtNames(queue);
    if (this.#lazily && saved !== undefined && saved.physicalEnd >= 0) {
      const fits = saved.minOffset >= first && bound > files.at(-1)!.base / CQ_UNIT_BYTES && bound <= limit;
      if (fits) {
        queue.resetTo(bound, saved.physicalEnd);
        queue.minOffset = saved.minOffset;
        queue.minPhysicalOffset = saved.minPhysicalOffset;
        queue.unseen = true;
        return;
      }
    }
    const doubtful = files[Math.max(0, files.length - (this.#clean ? 1 : 3))]!.base / CQ_UNIT_BYTES;
    // For the reads below, everything in the files counts as written.
    queue.resetTo(limit, -1);
    queue.minOffset = first;
    // As long as the record of a stop stands, no unit below its bounds has changed: what cuts them takes the record back first.
    const sum = saved?.sum;
    const fits = sum !== undefined && sum.from >= doubtful && bound > sum.from && bound <= limit;
    if (fits && this.#isRotten(queue, sum, bound)) {
      this.#logger.warn(
        `${queue.topic} queue ${queue.queueId}: its units from ${sum.from} on are not what they were when the store was closed; they are ` +
          'built again from the log',
      );
      // What lies before is looked at as ever.
      queue.resetTo(sum.from, -1);
      this.#scan(queue, first, doubtful, 0);
      if (sum.from === first) queue.minPhysicalOffset = -1;
      this.#dirty.push(queue);
      return;
    }
    const from = Math.max(doubtful, first, bound - this.#look);
    if (bound <= from || bound > limit || !this.#scan(queue, first, from, bound)) this.#scan(queue, first, doubtful, 0);
  }

  /** Cuts what was found behind the ends, so that it cannot come back. */
  cut(): void {
    for (const queue of this.#dirty.splice(0)) this.#store.cut(queue, queue.maxOffset, queue.maxPhysicalEnd, true);
  }

  /** Whether the newest units below `bound` have changed since the stop. */
  #isRotten(queue: ConsumeQueue, saved: NonNullable<QueueBound['sum']>, bound: number): boolean {
    const sum = new UnitSum();
    for (let at = saved.from; at < bound; ) {
      const got = this.#store.readUnitsSync(queue, at, Math.min(STEP_UNITS, bound - at), this.#step);
      // A file that is shorter is found short.
      if (got === 0) return false;
      sum.add(this.#step.subarray(0, got * CQ_UNIT_BYTES));
      at += got;
    }
    return sum.value !== saved.crc;
  }

  /** Scans from `from` on; false, with nothing done, if the queue turns out to end below `bound`. */
  #scan(queue: ConsumeQueue, first: number, from: number, bound: number): boolean {
    const store = this.#store;
    const limit = queue.maxOffset;
    const step = this.#step;
    const view = this.#view;
    let end = from;
    let dirty = false;
    let physicalEnd = -1;
    let count = bound > 0 && this.#clean ? Math.min(STEP_UNITS, bound - from + FEW_UNITS) : STEP_UNITS;
    scan: while (end < limit) {
      const got = store.readUnitsSync(queue, end, count, step);
      if (got === 0) break;
      if (end === first) queue.minPhysicalOffset = placeOf(view);
      for (let at = 0; at < got * CQ_UNIT_BYTES; at += CQ_UNIT_BYTES) {
        if (!isUnit(view, at)) {
          dirty = holdsBytes(step, at, got * CQ_UNIT_BYTES);
          break scan;
        }
        if (unitSize(view, at) !== FILLER_SIZE) physicalEnd = unitOffset(view, at) + unitSize(view, at);
        end++;
      }
      count = STEP_UNITS;
    }
    if (end < bound) return false;
    // What was not looked at ends where its last unit is: of older pages a power cut may have left zeros.
    if (end === from) while (end > first && !this.#isUnitAt(queue, end - 1)) end--;
    if (!dirty && !this.#clean && end < limit && end % store.unitsPerFile !== 0) {
      const got = store.readUnitsSync(queue, end, STEP_UNITS, step);
      dirty = holdsBytes(step, 0, got * CQ_UNIT_BYTES);
    }
    if (physicalEnd < 0) physicalEnd = lastPhysicalEnd(store, queue, end);
    if (end > first && from > first && store.readUnitsSync(queue, first, 1, step) === 1)
      queue.minPhysicalOffset = placeOf(view);
    if (dirty || queue.files.length > Math.floor((end - first) / store.unitsPerFile) + 1) this.#dirty.push(queue);
    queue.resetTo(end, physicalEnd);
    return true;
  }

  #isUnitAt(queue: ConsumeQueue, ordinal: number): boolean {
    return this.#store.readUnitsSync(queue, ordinal, 1, this.#step) === 1 && isUnit(this.#view, 0);
  }
}

/**
 * Queues whose first files are gone although the log still has what they spoke of. Retention takes files from the head, too, but never one
 * with a message that is still there.
 */
export function headlessQueues(store: ConsumeQueueStore, bounds: QueueBounds, logMinimum: number): ConsumeQueue[] {
  const headless: ConsumeQueue[] = [];
  for (const queue of store.all()) {
    const first = (queue.files[0]?.base ?? 0) / CQ_UNIT_BYTES;
    if (first === 0) continue;
    const saved = bounds.queues.get(queue.topic)?.get(queue.queueId);
    // Of a queue that nothing was saved of: where no file of the log was ever removed, none of a queue was. Where what was saved is lost, every
    // queue that has messages is built again, for nothing says where it began.
    const isHeadless =
      saved === undefined
        ? logMinimum === 0 || (bounds.lost && queue.maxPhysicalEnd > logMinimum)
        : saved.minOffset < first &&
          saved.minOffset < saved.bound &&
          (bounds.logMinimum === logMinimum || saved.minPhysicalOffset >= logMinimum);
    if (isHeadless) headless.push(queue);
  }
  return headless;
}

/** Where the record of the unit at the view's start lies; -1 for one without a record. */
function placeOf(view: DataView): number {
  return isUnit(view, 0) && unitSize(view, 0) !== FILLER_SIZE ? unitOffset(view, 0) : -1;
}

/**
 * Recovery has come to a queue's first record in the scanned part of the log: from its ordinal on nothing in the files is trusted (a
 * torn unit can look like one), nor units before it of records from `unproven` on, and the units are put again. The old bytes are
 * overwritten; what is left of them behind the queue's new end is cut by `cutQueueToLog`. Units before it that lie behind the record in
 * the log are of a later life of the topic, which the scan will come to.
 */
export function rebuildFrom(
  store: ConsumeQueueStore,
  queue: ConsumeQueue,
  ordinal: number,
  physicalOffset: number,
  unproven: number = physicalOffset,
): void {
  queue.rebuilt = true;
  queue.foundEnd = Math.max(queue.foundEnd, queue.maxOffset);
  let end = Math.min(ordinal, queue.maxOffset);
  let before = end < queue.maxOffset ? lastPhysicalEnd(store, queue, end) : queue.maxPhysicalEnd;
  const file = queue.files[0];
  // Without a file all its units are in memory: of an earlier pass, which began later.
  const first = file === undefined ? queue.tailStart : file.base / CQ_UNIT_BYTES;
  if (before > physicalOffset || ordinal < first) return store.clear(queue);
  if (before > unproven) {
    end = provenEnd(store, queue, end, Number.POSITIVE_INFINITY, unproven);
    before = lastPhysicalEnd(store, queue, end);
  }
  if (end < queue.maxOffset) store.dropTail(queue, end, before);
}

/** A record's topic is torn: the unit that it had before the power went is found by its place, and its queue is put again from there on. */
export function dropUnitOf(store: ConsumeQueueStore, record: RecordView): void {
  const { queueId, queueOffset, physicalOffset } = record;
  const unit = new Uint8Array(CQ_UNIT_BYTES);
  const view = new DataView(unit.buffer);
  for (const queue of store.all()) {
    if (queue.queueId !== queueId || store.readUnitsSync(queue, queueOffset, 1, unit) === 0) continue;
    if (unitOffset(view, 0) === physicalOffset) rebuildFrom(store, queue, queueOffset, physicalOffset);
  }
}

/**
 * Whether a queue's files are of the life that its topic had before `livesFrom`: their removal had not become durable. Its newest unit alone
 * does not say so: after a cut of the log `livesFrom` is where the log was cut, and old units beyond point to other records.
 */
export function isOfEarlierLife(store: ConsumeQueueStore, queue: ConsumeQueue, livesFrom: number): boolean {
  // Without a record it only says where it goes on: it was emptied by a cut when its older messages were gone.
  if (livesFrom === 0 || queue.maxPhysicalEnd < 0) return false;
  if (queue.maxPhysicalEnd <= livesFrom) return true;
  const unit = new Uint8Array(CQ_UNIT_BYTES);
  const view = new DataView(unit.buffer);
  const first = (queue.files[0]?.base ?? 0) / CQ_UNIT_BYTES;
  if (store.readUnitsSync(queue, first, 1, unit) === 0 || unitSize(view, 0) === FILLER_SIZE) return false;
  return unitOffset(view, 0) < livesFrom;
}

/**
 * Drops units whose record does not end at or below `logEnd` (a unit whose record is cut in half must go, too), and those whose record begins at
 * or behind `unproven`: the scan has come by and no record there has named the queue, for a power cut has torn its properties.
 */
export function cutQueueToLog(
  store: ConsumeQueueStore,
  queue: ConsumeQueue,
  logEnd: number,
  logger: Logger,
  unproven: number = Number.POSITIVE_INFINITY,
): void {
  const before = queue.maxOffset;
  const isKept = queue.maxPhysicalEnd <= Math.min(logEnd, unproven);
  const end = isKept ? before : provenEnd(store, queue, before, logEnd, unproven);
  if (end === before) {
    if (queue.foundEnd > before) store.cut(queue, before, queue.maxPhysicalEnd, true);
    return;
  }
  store.cut(queue, end, lastPhysicalEnd(store, queue, end));
  logger.warn(
    `${queue.topic} queue ${queue.queueId}: ${before - end} units point beyond the log's end ${logEnd}, or to records that do not name it any ` +
      `more; the queue ends at ${end} now`,
  );
}

/** Where a queue ends, at or below the ordinal `limit`, with a record that ends at or below `logEnd` and begins before `unproven`. */
function provenEnd(
  store: ConsumeQueueStore,
  queue: ConsumeQueue,
  limit: number,
  logEnd: number,
  unproven: number,
): number {
  const unit = new Uint8Array(CQ_UNIT_BYTES);
  const view = new DataView(unit.buffer);
  const first = (queue.files[0]?.base ?? 0) / CQ_UNIT_BYTES;
  let end = limit;
  let at = end;
  while (at > first && store.readUnitsSync(queue, at - 1, 1, unit) > 0) {
    const isFiller = unitSize(view, 0) === FILLER_SIZE;
    const offset = unitOffset(view, 0);
    if (!isFiller && isUnit(view, 0) && offset < unproven && offset + unitSize(view, 0) <= logEnd) return at;
    at--;
    // Fillers that are all that is left stand for messages that are gone: their ordinals are not given again.
    if (!isFiller) end = at;
  }
  return end;
}

/** Sets a queue's minimum: its first unit with a record at or above the log's minimum; its end if there is none. */
export function recoverQueueStart(store: ConsumeQueueStore, queue: ConsumeQueue, logMinimum: number): void {
  let units = new Uint8Array(CQ_UNIT_BYTES);
  let view = new DataView(units.buffer);
  /** The first ordinal from `ordinal` on with a unit that is no filler, if its record is in the log; -1 if it is not, or there is none. */
  const readableFrom = (ordinal: number): number => {
    for (let at = ordinal; at < queue.maxOffset; ) {
      const got = store.readUnitsSync(queue, at, units.length / CQ_UNIT_BYTES, units);
      if (got === 0) return -1;
      for (let i = 0; i < got; i++) {
        const unit = i * CQ_UNIT_BYTES;
        if (unitSize(view, unit) === FILLER_SIZE) continue;
        return isUnit(view, unit) && unitOffset(view, unit) >= logMinimum ? at + i : -1;
      }
      at += got;
      // Fillers come in runs.
      units = new Uint8Array(STEP_UNITS * CQ_UNIT_BYTES);
      view = new DataView(units.buffer);
    }
    return -1;
  };
  let low = (queue.files[0]?.base ?? queue.tailStart * CQ_UNIT_BYTES) / CQ_UNIT_BYTES;
  let high = queue.maxOffset;
  const placeIsKnown = queue.minPhysicalOffset >= logMinimum || (queue.unseen && logMinimum === 0);
  if (placeIsKnown && high > queue.minOffset && queue.minOffset >= low) return;
  if (high > low && readableFrom(low) >= 0) high = low;
  // Physical offsets rise with the ordinal, and a filler counts as the unit behind it: a binary search.
  while (low < high) {
    const middle = Math.floor((low + high) / 2);
    if (readableFrom(middle) >= 0) high = middle;
    else low = middle + 1;
  }
  const first = readableFrom(low);
  queue.minOffset = first < 0 ? queue.maxOffset : first;
  queue.minPhysicalOffset = -1;
}

/**
 * Gives queues that were lost, or whose newest units were, the end that they had, when the messages of what is lost are gone from the log by
 * retention: their ordinals must not be given twice. RocketMQ: lets them begin at 0 again.
 */
export function continueExpiredQueues(
  kinds: QueueKinds,
  bounds: QueueBounds,
  logMinimum: number,
  logger: Logger,
): void {
  const store = kinds.plain;
  for (const [topic, ofTopic] of bounds.queues) {
    if (!canBeFolder(topic) || kinds.isBatch(topic) === true) continue;
    for (const [queueId, { bound, physicalEnd }] of ofTopic) {
      const queue = store.findOrCreate(topic, queueId);
      if (queue.nextOffset >= bound) continue;
      // What is left lies before what is lost.
      const isExpired = physicalEnd >= 0 && physicalEnd <= logMinimum && queue.maxPhysicalEnd <= logMinimum;
      if (!queue.isFresh && !isExpired) continue;
      store.clear(queue);
      store.beginAt(queue, bound);
      logger.warn(`${topic} queue ${queueId} was lost; its messages are gone from the log, and it goes on at ${bound}`);
    }
  }
}

/** End of the record of the last unit before `end` that is no filler; -1 if there is none. */
function lastPhysicalEnd(store: ConsumeQueueStore, queue: ConsumeQueue, end: number): number {
  const unit = new Uint8Array(CQ_UNIT_BYTES);
  const view = new DataView(unit.buffer);
  const first = (queue.files[0]?.base ?? 0) / CQ_UNIT_BYTES;
  for (let ordinal = end - 1; ordinal >= first; ordinal--) {
    if (store.readUnitsSync(queue, ordinal, 1, unit) === 0) return -1;
    if (isUnit(view, 0) && unitSize(view, 0) !== FILLER_SIZE) return unitOffset(view, 0) + unitSize(view, 0);
  }
  return -1;
}

function holdsBytes(bytes: Uint8Array, start: number, end: number): boolean {
  return !ZEROS.subarray(0, end - start).equals(bytes.subarray(start, end));
}
