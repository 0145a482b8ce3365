import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { allocateAveragely } from './allocate-averagely.ts';
import { compareQueues, type MessageQueue, queueKey } from './queues.ts';

function queues(count: number, brokerName = 'a', topic = 'T'): MessageQueue[] {
  return Array.from({ length: count }, (_, queueId) => ({ topic, brokerName, queueId }));
}

function ids(list: readonly MessageQueue[]): string {
  return list.map((queue) => `${queue.brokerName}${queue.queueId}`).join(' ');
}

// Java's formula, kept as it is computed there, as the oracle.
function javaRange(queueCount: number, clientCount: number, index: number): [number, number] {
  const mod = queueCount % clientCount;
  const extra = mod > 0 && index < mod;
  const average =
    queueCount <= clientCount
      ? 1
      : extra
        ? Math.floor(queueCount / clientCount) + 1
        : Math.floor(queueCount / clientCount);
  const start = extra ? index * average : index * average + mod;
  return [start, Math.max(0, Math.min(average, queueCount - start))];
}

test('shares differ by at most one, and the first members get more', () => {
  const clients = ['c2', 'c1', 'c3'];
  assert.equal(ids(allocateAveragely('c1', queues(8), clients)), 'a0 a1 a2');
  assert.equal(ids(allocateAveragely('c2', queues(8), clients)), 'a3 a4 a5');
  assert.equal(ids(allocateAveragely('c3', queues(8), clients)), 'a6 a7');
});

test('more members than queues: the last ones get none', () => {
  assert.equal(ids(allocateAveragely('c1', queues(1), ['c1', 'c2'])), 'a0');
  assert.equal(ids(allocateAveragely('c2', queues(1), ['c1', 'c2'])), '');
});

test('a member that the broker does not list yet gets none', () => {
  assert.deepEqual(allocateAveragely('c9', queues(4), ['c1']), []);
});

test('queues are sorted by broker before their id, ids as numbers, clients by UTF-16 units', () => {
  const all = [...queues(11, 'b'), ...queues(2, 'a')].reverse();
  assert.equal(ids(allocateAveragely('B', all, ['a', 'B'])), 'a0 a1 b0 b1 b2 b3 b4');
  assert.equal(ids(allocateAveragely('a', all, ['a', 'B'])), 'b5 b6 b7 b8 b9 b10');
});

test('equals the ranges that the Java formula gives, and covers each queue exactly once', () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 70 }), fc.integer({ min: 1, max: 20 }), (queueCount, clientCount) => {
      const clients = Array.from({ length: clientCount }, (_, i) => `client-${String(i).padStart(3, '0')}`);
      const all = queues(queueCount);
      const sorted = [...all].sort(compareQueues);
      const seen = new Set<string>();
      clients.forEach((client, index) => {
        const mine = allocateAveragely(client, all, clients);
        const [start, length] = javaRange(queueCount, clientCount, index);
        assert.deepEqual(mine, sorted.slice(start, start + length));
        for (const queue of mine) seen.add(queueKey(queue));
      });
      assert.equal(seen.size, queueCount);
    }),
  );
});
