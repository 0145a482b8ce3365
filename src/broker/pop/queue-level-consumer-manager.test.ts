// What is popped in order: when a queue is free, what an acknowledgement commits, and the file that says so.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { CollectingLogger, FakeClock } from '../../common/index.ts';
import { MemoryFileSystem } from '../../io/index.ts';
import { Acknowledged } from './order-info.ts';
import { QueueLevelConsumerManager } from './queue-level-consumer-manager.ts';

const root = import.meta.dirname.replace(/\/(dist|\.build\/[^/]+)\/src\/.*$/, '');
const JAVA_FILE = `${root}/test/fixtures/broker-config/550-plain-clean/consumerOrderInfo.json`;

function world(fs?: MemoryFileSystem, startMs?: number) {
  const clock = new FakeClock(startMs);
  const disk = fs ?? new MemoryFileSystem({ clock, directories: ['/store/config'] });
  const freed: string[] = [];
  const topics = new Map([
    ['T', 4],
    ['FifoTopic', 8],
    ['T2', 2],
    ['%RETRY%GID_fifo+FifoTopic', 1],
  ]);
  const groups = new Set(['G', 'GID_fifo', 'G2']);
  const settings = { notifies: true };
  const orders = new QueueLevelConsumerManager(
    { fs: disk, clock, logger: new CollectingLogger(), folder: '/store/config' },
    {
      enableNotifyAfterPopOrderLockRelease: () => settings.notifies,
      queuesOf: (topic) => topics.get(topic),
      hasGroup: (group) => groups.has(group),
    },
  );
  orders.whenFree((topic, group, queueId) => freed.push(`${topic}/${group}/${queueId}`));
  const pop = (attemptId: string | undefined, offsets: number[], invisibleTime = 1000): string =>
    orders.popped(attemptId, false, 'T', 'G', 1, clock.now(), invisibleTime, offsets);
  const blocked = (attemptId?: string): boolean => orders.isBlocked(attemptId, 'T', 'G', 1, 1000);
  return { clock, disk, orders, freed, topics, groups, settings, pop, blocked };
}

test('a queue is closed until all that was handed out is acknowledged or its time is over', () => {
  const { clock, orders, pop, blocked } = world();
  assert.equal(blocked(), false);
  const popTime = clock.now();
  assert.equal(pop('a', [5, 6, 8]), '0 1 0');
  assert.equal(blocked(), true);
  assert.equal(blocked('a'), false, 'the same attempt, whose answer was lost');
  assert.equal(orders.commitAndNext('T', 'G', 1, 6, popTime), 5);
  assert.equal(orders.commitAndNext('T', 'G', 1, 5, popTime), 8);
  assert.equal(orders.commitAndNext('T', 'G', 1, 5, popTime), 8, 'twice');
  assert.equal(orders.commitAndNext('T', 'G', 1, 7, popTime), Acknowledged.ILLEGAL);
  assert.equal(orders.commitAndNext('T', 'G', 1, 8, popTime - 1), Acknowledged.STALE);
  assert.equal(blocked(), true);
  assert.equal(orders.commitAndNext('T', 'G', 1, 8, popTime), 9);
  assert.equal(blocked(), false);
  pop('b', [9], 1000);
  clock.advance(999);
  assert.equal(blocked(), true);
  clock.advance(1);
  assert.equal(blocked(), false);
});

test('an answer says how often each message was handed out, the same attempt counting once', () => {
  const { pop } = world();
  pop('a', [5, 6, 8]);
  assert.equal(pop('b', [5, 6, 8, 9]), '0 qo1%5 1;0 qo1%6 1;0 qo1%8 1;0 1 0');
  assert.equal(pop('b', [5, 6]), '0 qo1%5 1;0 qo1%6 1;0 qo1%8 1;0 1 0', 'as RocketMQ counts what it hands out again');
  assert.equal(pop('c', [6]), '0 qo1%6 2;0 1 2');
});

test('32 messages are told apart', () => {
  const { clock, orders, pop, blocked } = world();
  const offsets = Array.from({ length: 32 }, (_, i) => 100 + i);
  pop(undefined, offsets);
  for (const offset of offsets.toReversed()) {
    assert.equal(blocked(), true);
    const next = orders.commitAndNext('T', 'G', 1, offset, clock.now());
    assert.equal(next, offset === 100 ? 132 : 100);
  }
  assert.equal(blocked(), false);
});

test('who waits is told when the queue is free, by time or by a changed time', () => {
  const { clock, orders, freed, settings, pop } = world();
  orders.start();
  pop('a', [1, 2]);
  clock.advance(999);
  assert.deepEqual(freed, []);
  clock.advance(1);
  assert.deepEqual(freed.splice(0), ['T/G/1']);
  const popTime = clock.now();
  pop('b', [1, 2]);
  orders.updateNextVisibleTime('T', 'G', 1, 1, popTime, popTime + 5000);
  orders.updateNextVisibleTime('T', 'G', 1, 7, popTime, popTime + 9000);
  clock.advance(4000);
  assert.deepEqual(freed, [], 'one of the two is still under way');
  clock.advance(1000);
  assert.deepEqual(freed.splice(0), ['T/G/1']);
  const again = clock.now();
  pop('c', [1]);
  orders.commitAndNext('T', 'G', 1, 1, again);
  clock.advance(10_000);
  assert.deepEqual(freed, [], 'who acknowledged the last knows');
  const third = clock.now();
  pop('d', [2]);
  orders.updateNextVisibleTime('T', 'G', 1, 2, third, third);
  clock.advance(1);
  assert.deepEqual(freed.splice(0), ['T/G/1']);
  settings.notifies = false;
  pop('e', [1]);
  clock.advance(10_000);
  assert.deepEqual(freed, []);
});

test('what was under way before a restart is still under way', () => {
  const before = world();
  before.pop('a', [3, 4], 5000);
  before.orders.commitAndNext('T', 'G', 1, 3, before.clock.now());
  before.orders.persist();
  const { clock, orders, freed, blocked } = world(before.disk, before.clock.now() + 1000);
  assert.equal(orders.load(), 'file');
  orders.start();
  assert.equal(blocked('b'), true);
  clock.advance(3999);
  assert.deepEqual([freed.length, blocked('b')], [0, true]);
  clock.advance(1);
  assert.deepEqual([freed, blocked('b')], [['T/G/1'], false]);
  assert.equal(orders.commitAndNext('T', 'G', 1, 4, before.clock.now()), 5);
});

test('the file is as Java writes it', () => {
  const { orders, disk } = world(undefined, 1_800_000_000_000);
  const java = readFileSync(JAVA_FILE);
  const file = disk.open('/store/config/consumerOrderInfo.json', 'create');
  file.writeSync(java, 0, java.length, 0);
  file.close();
  assert.equal(orders.load(), 'file');
  assert.equal(orders.text(), java.toString());
  assert.equal(orders.isBlocked('att-9', 'FifoTopic', 'GID_fifo', 0, 1), false, 'its time is long over');
});

test('what was popped of a topic or group that was deleted does not close their successors', () => {
  for (const remove of ['removeTopic', 'removeGroup'] as const) {
    const { orders, pop, blocked } = world();
    pop('a', [1], 60_000);
    orders[remove](remove === 'removeTopic' ? 'T' : 'G');
    assert.equal(blocked(), false);
  }
  const { orders, pop, blocked } = world();
  pop('a', [1], 60_000);
  orders.clearBlock('T', 'G', 1);
  assert.equal(blocked(), false);
});

test('what nobody needs any more is forgotten', () => {
  for (const gone of ['topic', 'group', 'queue', 'day'] as const) {
    const { clock, orders, topics, groups, pop } = world();
    pop('a', [1], 60_000);
    orders.clean();
    assert.match(orders.text(), /"T@G"/);
    if (gone === 'topic') topics.delete('T');
    if (gone === 'group') groups.delete('G');
    if (gone === 'queue') topics.set('T', 1);
    if (gone === 'day') clock.advance(24 * 3600 * 1000 + 1);
    orders.clean();
    assert.equal(orders.text(), '{\n\t"orderInfoCount":0,\n\t"orderedConsumptionLevel":"QUEUE",\n\t"table":{}\n}');
  }
});
