// What the newest units of each queue were at an orderly stop: a checksum, saved with the queues' bounds, by which the next start notices
// units that have rotted since. It covers what a start reads of a queue anyway: units of its last file, 64 MiB over all queues.
//
//   files      |---------------|-----------|
//   covered             from ^=============^ bound
//
// With more queues than a start looks at (gantryQueuesLookedAt) there is none, neither here nor there.

import { crc32 } from 'node:zlib';
import { type ConsumeQueue, type ConsumeQueueStore, CQ_UNIT_BYTES } from '../consume-queue/index.ts';

const STEP_UNITS = 3200;
/** Bytes of units below the queues' known ends that a start looks at, over all queues: their newest ones. */
const LOOK_BYTES = 64 * 1024 * 1024;

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

/** The sums of all plain queues, whose units are all written; undefined if there are too many. @throws GantryError IO. */
export function queueSums(
  store: ConsumeQueueStore,
  mostLookedAt: number,
): Record<string, Record<string, [from: number, crc: number]>> | undefined {
  const queues = [...store.all()];
  if (queues.length > mostLookedAt) return undefined;
  const look = unitsLookedAt(queues.length);
  // A topic may be called toString or __proto__.
  const sums: Record<string, Record<string, [number, number]>> = Object.create(null);
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
  return sums;
}

function coveredFrom(queue: ConsumeQueue, look: number): number | undefined {
  const { files, maxOffset } = queue;
  const last = files.at(-1);
  if (last === undefined || queue.synced !== maxOffset || last.base / CQ_UNIT_BYTES >= maxOffset) return undefined;
  return Math.max(last.base / CQ_UNIT_BYTES, maxOffset - look);
}
