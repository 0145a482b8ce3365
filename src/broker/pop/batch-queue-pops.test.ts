// Pops from a topic of batch queues: a record that holds a batch is handed out whole, and is acknowledged as one message.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SysFlag } from '../../message/index.ts';
import { messageWith } from '../broker-fixture.test.support.ts';
import { TopicConfig } from '../topic/topic-config.ts';
import { PopWorld } from './pop-world.test.support.ts';
import { ReviveWorld, ROUNDS_MS } from './revive/revive-world.test.support.ts';

function batchOf(count: number): Uint8Array {
  const member = Buffer.alloc(23);
  member.writeInt32BE(23, 0);
  member.writeInt32BE(1, 16);
  member.write('x', 20);
  return Buffer.concat(Array.from({ length: count }, () => member));
}

test('a popped batch comes whole, and its acknowledgement moves the group behind all of it', async () => {
  const world = await PopWorld.open();
  const { context } = world;
  const topic = new TopicConfig('B', { readQueueNums: 1, writeQueueNums: 1 });
  context.topics.update([{ topic, attributes: new Map([['+queue.type', 'BatchCQ']]) }]);
  for (const count of [3, 2]) {
    const properties = new Map([['INNER_NUM', String(count)]]);
    const sysFlag = SysFlag.NEED_UNWRAP | SysFlag.INNER_BATCH;
    await world.broker.put(messageWith({ topic: 'B', sysFlag, properties, body: batchOf(count) }));
  }
  await world.broker.dispatched();
  const first = await world.pop({ topic: 'B', maxMsgNums: 1 });
  assert.deepEqual(
    first.popped.map(({ message }) => [message.queueOffset, message.properties.get('INNER_NUM')]),
    [[0, '3']],
  );
  const second = await world.pop({ topic: 'B' });
  assert.deepEqual(
    second.popped.map(({ message }) => [message.queueOffset, message.properties.get('INNER_NUM')]),
    [[3, '2']],
  );
  assert.equal(context.pop.queues.inFlight('B', world.group, 0), 2, 'records, as they are acknowledged');
  for (const { popped } of [first, second]) for (const one of popped) assert.equal((await world.ack(one)).code, 0);
  assert.equal((await world.pop({ topic: 'B' })).popped.length, 0);
  assert.equal(context.offsets.query(world.group, 'B', 0), 5);
});

test('a batch that nobody acknowledged comes back message by message; RocketMQ tries in vain for ever', async () => {
  const w = await new ReviveWorld().start();
  w.make(['B']);
  const { topics } = w.broker.context;
  topics.delete('B');
  const topic = new TopicConfig('B', { readQueueNums: 1, writeQueueNums: 1 });
  topics.update([{ topic, attributes: new Map([['+queue.type', 'BatchCQ']]) }]);
  const sysFlag = SysFlag.NEED_UNWRAP | SysFlag.INNER_BATCH;
  for (const body of [batchOf(3), Buffer.from('no batch at all, but long enough')]) {
    await w.settle(w.broker.put(messageWith({ topic: 'B', sysFlag, properties: new Map([['INNER_NUM', '3']]), body })));
  }
  await w.broker.dispatched();
  await w.pop([0], { topic: 'B' });
  await w.pop([3], { topic: 'B' });
  await w.pass(5000 + ROUNDS_MS, 100);
  const revived = await w.revived('B');
  assert.deepEqual(
    revived.map(({ body, sysFlag, reconsumeTimes }) => [Buffer.from(body).toString(), sysFlag, reconsumeTimes]),
    Array.from({ length: 3 }, () => ['x', 0, 1]),
  );
  await w.stop();
});
