// Where a queue begins when the log does at a given offset. RocketMQ: ConsumeQueue#correctMinOffset, which looks in the first file only.

import { viewOf } from '../../common/index.ts';
import {
  type ConsumeQueue,
  type ConsumeQueueStore,
  CQ_UNIT_BYTES,
  FILLER_SIZE,
  unitOffset,
  unitSize,
} from '../consume-queue/index.ts';

const FILLER_STEP_UNITS = 1024;

/** A queue's first message at or above an offset of the log. */
export interface QueueStart {
  /** Its ordinal; the queue's maximum if there is none. */
  ordinal: number;
  /** Its place in the log; -1 if there is none. */
  physicalOffset: number;
}

/** Whether a queue may have to begin later when the log begins at `logMinimum`, as far as is known without reading. */
export function beginsBelow(queue: ConsumeQueue, logMinimum: number): boolean {
  return queue.minOffset < queue.maxOffset && queue.minPhysicalOffset < logMinimum;
}

/**
 * Finds the first message of a queue whose record starts at or above `logMinimum`; undefined if that is the present one. Reads off the
 * loop, a unit at a time. @throws GantryError IO.
 */
export async function findQueueStart(
  store: ConsumeQueueStore,
  queue: ConsumeQueue,
  logMinimum: number,
): Promise<QueueStart | undefined> {
  const { minOffset, maxOffset, maxPhysicalEnd } = queue;
  if (!beginsBelow(queue, logMinimum)) return undefined;
  if (maxPhysicalEnd <= logMinimum) return { ordinal: maxOffset, physicalOffset: -1 };
  const first = await messageFrom(store, queue, minOffset, maxOffset);
  if (first.physicalOffset >= logMinimum) {
    queue.minPhysicalOffset = first.physicalOffset;
    return undefined;
  }
  // Offsets rise with the ordinal, and a filler counts as the message behind it. All below `low` are below the log; from `high` on none is.
  let low = minOffset + 1;
  let high = maxOffset;
  let found: QueueStart = { ordinal: maxOffset, physicalOffset: -1 };
  while (low < high) {
    const middle = Math.floor((low + high) / 2);
    const message = await messageFrom(store, queue, middle, maxOffset);
    if (message.physicalOffset >= 0 && message.physicalOffset < logMinimum) low = message.ordinal + 1;
    else {
      high = middle;
      found = message;
    }
  }
  return found;
}

/** The first unit from `ordinal` on that is no filler; -1 as its place, and `end` as its ordinal, if there is none before `end`. */
async function messageFrom(
  store: ConsumeQueueStore,
  queue: ConsumeQueue,
  ordinal: number,
  end: number,
): Promise<QueueStart> {
  let units = new Uint8Array(CQ_UNIT_BYTES);
  for (let at = ordinal; at < end; ) {
    const got = await store.readUnitsOnce(queue, at, Math.min(units.length / CQ_UNIT_BYTES, end - at), units);
    // Bytes that are missing there count as expired: they can only be of a file that is about to go.
    if (got === 0) break;
    const view = viewOf(units);
    for (let i = 0; i < got; i++) {
      if (unitSize(view, i * CQ_UNIT_BYTES) === FILLER_SIZE) continue;
      return { ordinal: at + i, physicalOffset: unitOffset(view, i * CQ_UNIT_BYTES) };
    }
    at += got;
    // Fillers come in runs.
    units = new Uint8Array(FILLER_STEP_UNITS * CQ_UNIT_BYTES);
  }
  return { ordinal: end, physicalOffset: -1 };
}
