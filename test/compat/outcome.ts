// Comparing what this store arrived at with what Java's did.

import assert from 'node:assert/strict';
import type { GoldenOutcome, GoldenQueue, GoldenRead } from './golden.ts';
import { batchUnitsInFiles, type Opened, read, unitsInFiles } from './open-store.ts';

type AfterStart = NonNullable<GoldenOutcome['javaAfterStart']>;

export interface Comparison {
  /** Queues that arrive elsewhere than Java's, for a reason that the test states; left out here. */
  except?: (queue: Pick<GoldenQueue, 'topic' | 'queueId'>) => boolean;
  /** 4.9 answered reads beyond a queue's ends, and searches between two messages, by other rules than 5.x. */
  rules49?: boolean;
}

/** Offsets of log and queues, reads, searches by time. The store is open. */
export async function assertArrivedAt(opened: Opened, java: AfterStart, comparison: Comparison = {}): Promise<void> {
  const { store } = opened;
  const except = comparison.except ?? (() => false);
  assert.equal(store.watermarks.wrote, java.maxPhyOffset);
  assert.equal(store.watermarks.confirmed, java.maxPhyOffset);
  assert.equal(store.watermarks.dispatched, java.maxPhyOffset);
  assert.equal(store.watermarks.minimum, java.minPhyOffset);
  for (const queue of java.queues) {
    if (except(queue)) continue;
    const { topic, queueId } = queue;
    assert.equal(store.minOffsetInQueue(topic, queueId), queue.minOffset, `minimum of ${topic}/${queueId}`);
    assert.equal(store.maxOffsetInQueue(topic, queueId), queue.maxOffset, `maximum of ${topic}/${queueId}`);
    assert.equal(store.maxOffsetInQueue(topic, queueId, false), queue.maxOffset, `next of ${topic}/${queueId}`);
    if (comparison.rules49) continue;
    const rows = queue.offsetByTime ?? [];
    for (const [i, [time, javaOffset]] of rows.entries()) {
      // B56: a time beyond every message's has the maximum; Java's batch queues have the last record's base.
      const offset = queue.cqType === 'BatchCQ' && i === rows.length - 1 ? queue.maxOffset : javaOffset;
      assert.equal(
        await store.offsetInQueueByTime(topic, queueId, time, 'LOWER'),
        offset,
        `${topic}/${queueId} at ${time}`,
      );
    }
  }
  for (const golden of java.reads) {
    if (except(golden)) continue;
    const actual = await read(store, golden);
    const expected: GoldenRead = { ...golden };
    if (comparison.rules49 && golden.messages === 0) actual.nextBeginOffset = expected.nextBeginOffset;
    assert.deepEqual(actual, expected);
  }
}

/** The units of each queue, out of the files. The store is closed. */
export function assertUnits(opened: Opened, queues: readonly GoldenQueue[], comparison: Comparison = {}): void {
  for (const queue of queues) {
    if (queue.units === undefined || comparison.except?.(queue)) continue;
    const units =
      queue.cqType === 'BatchCQ'
        ? batchUnitsInFiles(opened.fs, queue)
        : unitsInFiles(opened.fs, queue, queue.minOffset, queue.maxOffset);
    assert.deepEqual(units, queue.units, `units of ${queue.topic}/${queue.queueId}`);
  }
}
