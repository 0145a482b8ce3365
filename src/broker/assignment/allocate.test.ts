// Who gets which queues.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { MessageQueue } from '../client/rebalance-lock-manager.ts';
import { type AllocateStrategy, allocateForPop, averagely, averagelyByCircle, compareQueues } from './allocate.ts';

function queues(count: number, brokers = ['a']): MessageQueue[] {
  return brokers.flatMap((brokerName) =>
    Array.from({ length: count }, (_, queueId) => ({ brokerName, queueId, topic: 'T' })),
  );
}

function clients(count: number): string[] {
  return Array.from({ length: count }, (_, i) => `c${i}`);
}

function ids(list: readonly MessageQueue[]): number[] {
  return list.map(({ queueId }) => queueId);
}

const shares = (strategy: AllocateStrategy, queueCount: number, clientCount: number): number[][] =>
  clients(clientCount).map((client) => ids(strategy(client, queues(queueCount), clients(clientCount))));

test('AVG gives runs, AVG_BY_CIRCLE deals out', () => {
  assert.deepEqual(shares(averagely, 8, 3), [
    [0, 1, 2],
    [3, 4, 5],
    [6, 7],
  ]);
  assert.deepEqual(shares(averagely, 2, 4), [[0], [1], [], []]);
  assert.deepEqual(shares(averagelyByCircle, 8, 3), [
    [0, 3, 6],
    [1, 4, 7],
    [2, 5],
  ]);
  for (const strategy of [averagely, averagelyByCircle]) {
    assert.deepEqual(strategy('stranger', queues(8), clients(3)), []);
    for (let queueCount = 1; queueCount < 20; queueCount++) {
      for (let clientCount = 1; clientCount < 20; clientCount++) {
        const all = shares(strategy, queueCount, clientCount).flat();
        assert.deepEqual(
          all.toSorted((a, b) => a - b),
          ids(queues(queueCount)),
        );
      }
    }
  }
});

test('in POP all clients share all queues of each broker, unless fewer are to share', () => {
  const two = queues(4, ['a', 'b']);
  for (const share of [-1, 0, 2, 100, 2 ** 31 - 1]) {
    assert.deepEqual(allocateForPop(averagely, 'c1', two, clients(3), share), [
      { brokerName: 'a', queueId: -1, topic: 'T' },
      { brokerName: 'b', queueId: -1, topic: 'T' },
    ]);
  }
  const of = (client: string, share: number): number[] =>
    ids(allocateForPop(averagely, client, queues(8), clients(4), share));
  assert.deepEqual(of('c0', 1), [0, 1, 2, 3]);
  assert.deepEqual(of('c3', 1), [6, 7, 0, 1]);
  assert.deepEqual(of('c3', 2), [6, 7, 0, 1, 2, 3]);
  assert.deepEqual(of('stranger', 1), []);
});

test('in POP each client has a queue even where there are more clients', () => {
  const all = clients(5).map((client) => ids(allocateForPop(averagely, client, queues(2), clients(5), 1)));
  assert.deepEqual(all, [[0], [1], [0], [1], [0]]);
});

test('queues are sorted as Java sorts them', () => {
  const mixed = [
    { topic: 'b', brokerName: 'a', queueId: 0 },
    { topic: 'a', brokerName: 'b', queueId: 1 },
    { topic: 'a', brokerName: 'a', queueId: 10 },
    { topic: 'a', brokerName: 'a', queueId: 9 },
  ];
  assert.deepEqual(mixed.toSorted(compareQueues), [mixed[3], mixed[2], mixed[1], mixed[0]]);
});
