// B75 (one multi-dispatch message stops every topic), on the store in which it happened: every third message names a queue that is no light queue.
// Java's dispatch never gets past the first of them, its shutdown leaves `abort`, and its next load fails.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { MessageStore } from '../../src/store/index.ts';
import { goldenManifest } from './golden.ts';
import { append, durable, goldenDisk, openStore, read } from './open-store.ts';

const manifest = goldenManifest('550-lmq-poison');

/** Each record is in its own queue and in the light queues that it names. Answers how many names were no light queue's. */
async function assertDispatched(store: MessageStore): Promise<number> {
  let odd = 0;
  const ends = new Map<string, number>();
  for (const { topic, queueId, queueOffset, storeSize, properties } of manifest.messages) {
    const own = await read(store, { topic, queueId, offset: queueOffset, maxMsgs: 1 });
    assert.equal(own.status, 'FOUND', `${topic}/${queueId} at ${queueOffset}`);
    assert.equal(own.bytes, storeSize);
    ends.set(`${topic}/${queueId}`, queueOffset + Number(properties['INNER_NUM'] ?? 1));
    const offsets = properties['INNER_MULTI_QUEUE_OFFSET']?.split(',') ?? [];
    for (const [i, name] of (properties['INNER_MULTI_DISPATCH']?.split(',') ?? []).entries()) {
      if (!name.startsWith('%LMQ%')) {
        odd++;
        continue;
      }
      const found = await read(store, { topic: name, queueId: 0, offset: Number(offsets[i]), maxMsgs: 1 });
      assert.equal(found.bytes, storeSize, `${name} at ${offsets[i]}`);
      ends.set(`${name}/0`, Number(offsets[i]) + 1);
    }
  }
  for (const [queue, end] of ends) {
    const slash = queue.lastIndexOf('/');
    assert.equal(store.maxOffsetInQueue(queue.slice(0, slash), Number(queue.slice(slash + 1))), end, queue);
  }
  return odd;
}

test('B75: one multi-dispatch message stops every topic', async () => {
  assert.equal(manifest.javaAfterLoad.ok, false);
  const fs = goldenDisk('550-lmq-poison');
  const first = await openStore(fs, manifest.brokerConf);
  assert.equal(first.store.watermarks.dispatched, manifest.endOfData);
  const odd = await assertDispatched(first.store);
  assert.ok(odd > 10);
  assert.equal(first.store.oddities, odd);
  assert.equal(first.store.maxOffsetInQueue('notlmq', 0), 0);
  const [warning, ...more] = first.logger.texts('warn').filter((text) => text.includes('notlmq'));
  assert.match(
    warning!,
    /^the record at \d+ of GoldenLmq \(queue \d, offset \d+\): it cannot go to "notlmq", which has no place for it; 1 such/,
  );
  assert.deepEqual(more, [], 'one line, not one each');

  const { wroteOffset, wroteBytes } = append(first.store, 'GoldenLmq', 0, 'after');
  await durable(first.store, wroteOffset + wroteBytes);
  await first.store.close();
  assert.deepEqual(first.logger.texts('error'), []);

  const second = await openStore(fs, manifest.brokerConf);
  assert.equal(second.store.recovery.clean, true, 'the stop left no abort');
  assert.equal(second.store.watermarks.dispatched, wroteOffset + wroteBytes);
  assert.equal(
    (await read(second.store, { topic: 'GoldenLmq', queueId: 0, offset: 20, maxMsgs: 1 })).bytes,
    wroteBytes,
  );
  await second.store.close();
});
