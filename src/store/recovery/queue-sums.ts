// What the newest units of each queue were at an orderly stop: a checksum, saved with the queues' bounds, by which the next start notices
// units that have rotted since. It covers what a start reads of a queue anyway: units of its last file, 64 MiB over all queues.
//
//   files      |---------------|-----------|
//   covered             from ^=============^ bound
//
// With more queues than a start looks at (gantryQueuesLookedAt) there is none, neither here nor there.

import { crc32 } from 'node:zlib';
import {
  BATCH_UNIT_BYTES,
  type BatchQueue,
  type BatchQueueStore,
  type ConsumeQueue,
  CQ_UNIT_BYTES,
  type QueueKinds,
} from '../consume-queue/index.ts';

const STEP_UNITS = 3200;
/** Bytes of units below the queues' known ends that a start looks at, over all queues: their newest ones. */
const LOOK_BYTES = 64 * 1024 * 1024;

/** First ordinal that it covers, crc32 of the units from there to the queue's end; of a batch queue index of the first unit, crc32, and index behind the last. */
export type SavedSum = [from: number, crc: number, end?: number];

/** Units of a queue that a start looks at below its known end, in a store of so many queues. */
export function unitsLookedAt(count: number): number {
  return Math.max(1, Math.floor(LOOK_BYTES / CQ_UNIT_BYTES / Math.max(1, count)));
}

/** A checksum of units that come in pieces. */
export class UnitSum {
  #value = 0;

  add(units: Uint8Array): void {
    this.#value = crc32(units, this.#value);
  }

  get value(): number {
    return this.#value;
  }
}

/**
 * The sums of all queues, whose units are all written; undefined if there are too many.
 * @throws GantryError IO.
 */
export function queueSums(
  kinds: QueueKinds,
  mostLookedAt: number,
): Record<string, Record<string, SavedSum>> | undefined {
  const store = kinds.plain;
  const queues = [...store.all()];
  if (queues.length > mostLookedAt) return undefined;
  const look = unitsLookedAt(queues.length);
  // A topic may be called toString or __proto__.
  const sums: Record<string, Record<string, SavedSum>> = Object.create(null);
  const step = new Uint8Array(STEP_UNITS * CQ_UNIT_BYTES);
  for (const queue of queues) {
    const from = coveredFrom(queue, look);
    if (from === undefined) continue;
    const sum = new UnitSum();
    for (let at = from; at < queue.maxOffset; ) {
      const got = store.readUnitsSync(queue, at, STEP_UNITS, step);
      if (got === 0) break;
      sum.add(step.subarray(0, got * CQ_UNIT_BYTES));
      at += got;
    }
    sums[queue.topic] ??= {};
    sums[queue.topic]![queue.queueId] = [from, sum.value];
  }
  for (const queue of kinds.batch.all()) {
    if (queue.stream.files.length === 0 || queue.synced !== queue.maxOffset) continue;
    const from = Math.max(lastFileOf(queue), queue.endUnit - look);
    sums[queue.topic] ??= {};
    sums[queue.topic]![queue.queueId] = [from, batchSum(kinds.batch, queue, from, queue.endUnit), queue.endUnit];
  }
  return sums;
}

/** Index of the first unit of a batch queue's last file. */
export function lastFileOf(queue: BatchQueue): number {
  return queue.stream.files.at(-1)!.base / BATCH_UNIT_BYTES;
}

/** The sum of a batch queue's units with indexes [from, end). @throws GantryError IO. */
export function batchSum(store: BatchQueueStore, queue: BatchQueue, from: number, end: number): number {
  const sum = new UnitSum();
  const step = new Uint8Array(STEP_UNITS * BATCH_UNIT_BYTES);
  for (let at = from; at < end; ) {
    const got = store.readUnitsSync(queue, at, Math.min(STEP_UNITS, end - at), step);
    if (got === 0) break;
    sum.add(step.subarray(0, got * BATCH_UNIT_BYTES));
    at += got;
  }
  return sum.value;
}

function coveredFrom(queue: ConsumeQueue, look: number): number | undefined {
  const { files, maxOffset } = queue;
  const last = files.at(-1);
  if (last === undefined || queue.synced !== maxOffset || last.base / CQ_UNIT_BYTES >= maxOffset) return undefined;
  return Math.max(last.base / CQ_UNIT_BYTES, maxOffset - look);
}
