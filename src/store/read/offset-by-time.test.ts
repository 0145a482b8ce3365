// Searches by time in every kind of queue.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Bench } from '../consume-queue/queue-kinds.test.support.ts';

const TIMES = [500, 1000, 5500, 10_000, 11_000];
const ROW: Record<string, [lower: number[], upper: number[]]> = {
  ten: [
    [0, 0, 5, 9, 10],
    [0, 0, 4, 9, 9],
  ],
  fromFour: [
    [4, 4, 5, 9, 10],
    [4, 4, 4, 9, 9],
  ],
};

interface Kind {
  name: string;
  topic: string;
  ext?: boolean;
  put: (b: Bench, topic: string, bodyBytes: number) => Promise<unknown>;
}

const KINDS: Kind[] = [
  { name: 'a plain queue', topic: 'T', put: (b, topic, bytes) => b.put(topic, {}, bytes) },
  {
    name: 'a queue with ext units',
    topic: 'T',
    ext: true,
    put: (b, topic, bytes) => b.put(topic, { TAGS: 'a' }, bytes),
  },
  {
    name: 'a light queue',
    topic: '%LMQ%q',
    put: (b, topic, bytes) => b.put('T', { INNER_MULTI_DISPATCH: topic }, bytes),
  },
  { name: 'a batch queue', topic: 'B', put: (b, topic, bytes) => b.putInner(topic, 1, bytes) },
];

async function search(b: Bench, topic: string): Promise<number[][]> {
  const rows: number[][] = [];
  for (const boundary of ['LOWER', 'UPPER'] as const) {
    const row: number[] = [];
    for (const time of TIMES) row.push(await b.store.offsetInQueueByTime(topic, 0, time, boundary));
    rows.push(row);
  }
  return rows;
}

for (const { name, topic, ext, put } of KINDS) {
  test(`B56: time search past the last message is one short: ${name}`, async () => {
    const b = new Bench(1000, ext ? { enableConsumeQueueExt: true } : {});
    await b.open();
    assert.deepEqual(
      await search(b, topic),
      [
        [0, 0, 0, 0, 0],
        [0, 0, 0, 0, 0],
      ],
      'no queue',
    );
    for (let i = 0; i < 10; i++) {
      await put(b, topic, 3700);
      b.clock.advance(1000);
    }
    assert.deepEqual(await search(b, topic), ROW['ten']);
    // Four records fill a file of the log.
    await b.store.close();
    b.dropLogFiles(1);
    await b.open();
    assert.equal(b.store.minOffsetInQueue(topic, 0), 4);
    assert.deepEqual(await search(b, topic), ROW['fromFour']);
    // "Reset to now" leaves nothing behind.
    const now = await b.store.offsetInQueueByTime(topic, 0, b.clock.now(), 'LOWER');
    assert.equal(b.store.maxOffsetInQueue(topic, 0) - now, 0);
    await b.store.close();
    // The log is gone but for the last file: one message is left.
    b.dropLogFiles(1);
    await b.open();
    assert.equal(b.store.minOffsetInQueue(topic, 0), 8);
    assert.deepEqual(await search(b, topic), [
      [8, 8, 8, 9, 10],
      [8, 8, 8, 9, 9],
    ]);
    await b.store.close();
  });

  test(`B56: a queue of one message: ${name}`, async () => {
    const b = new Bench(5000, ext ? { enableConsumeQueueExt: true } : {});
    await b.open();
    await put(b, topic, 10);
    assert.deepEqual(await search(b, topic), [
      [0, 0, 1, 1, 1],
      [0, 0, 0, 0, 0],
    ]);
    await b.store.close();
  });
}

test('B56: the messages of one record of a batch queue have its time', async () => {
  const b = new Bench(1000);
  await b.open();
  for (let i = 0; i < 3; i++) {
    await b.putInner('B', 4);
    b.clock.advance(1000);
  }
  const at = (time: number, boundary: 'LOWER' | 'UPPER'): Promise<number> =>
    b.store.offsetInQueueByTime('B', 0, time, boundary);
  assert.deepEqual([await at(1500, 'LOWER'), await at(2000, 'LOWER'), await at(3001, 'LOWER')], [4, 4, 12]);
  assert.deepEqual([await at(999, 'UPPER'), await at(2500, 'UPPER'), await at(9000, 'UPPER')], [0, 4, 8]);
  await b.store.close();
});
