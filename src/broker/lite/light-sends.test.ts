import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LiteWorld } from './lite-world.test.support.ts';

for (const [enableLmq, enableMultiDispatch] of [
  [false, false],
  [true, false],
  [false, true],
] as const) {
  test(`with enableLmq ${enableLmq} and enableMultiDispatch ${enableMultiDispatch} a send to a light queue is refused with the reason`, async () => {
    const world = await LiteWorld.open({ store: { enableLmq, enableMultiDispatch } });
    const { store } = world.broker.context;
    const light = await world.send('', 'x', { INNER_MULTI_DISPATCH: '%LMQ%a,%LMQ%b' });
    const lite = await world.send('a', 'x');
    const flags = `enableLmq is ${enableLmq} and enableMultiDispatch is ${enableMultiDispatch}, both must be true`;
    const broker = 'the broker[127.0.0.1] does not deliver messages to';
    assert.deepEqual([light.code, light.remark], [16, `${broker} the light queues %LMQ%a,%LMQ%b: ${flags}`]);
    assert.deepEqual([lite.code, lite.remark], [16, `${broker} the lite topic a: ${flags}`]);
    assert.equal(store.watermarks.wrote, 0);
    assert.equal((await world.send('', 'x', { INNER_MULTI_DISPATCH: 'Elsewhere' })).code, 0, 'which is no light queue');
    assert.equal((await world.send('', 'x')).code, 0);
  });
}

test('a lite topic that can have no queue is refused with the reason', async () => {
  const world = await LiteWorld.open();
  for (const lite of ['a/b', 'a,b', 'a$b', 'x'.repeat(250)]) {
    const { code, remark } = await world.send(lite, 'x');
    assert.equal(code, 13);
    assert.match(remark!, /^the lite topic .* (may not contain|is too long)/);
  }
});

test('B75 one multi-dispatch message with odd names: its own queue and the valid light queues have it, and all behind it', async () => {
  const world = await LiteWorld.open();
  const { store } = world.broker.context;
  const long = `%LMQ%${'x'.repeat(300)}`;
  const names = `%LMQ%a,Other,%LMQ%no/folder,${long},%LMQ%b`;
  assert.equal((await world.send('', 'm0', { INNER_MULTI_DISPATCH: names })).code, 0);
  assert.equal((await world.send('', 'm1', { INNER_MULTI_DISPATCH: '%LMQ%b' })).code, 0);
  assert.equal((await world.send('', 'm2')).code, 0);
  const ends = ['%LMQ%a', '%LMQ%b', long, 'Other'].map((queue) => Number(store.maxOffsetInQueue(queue, 0)));
  assert.deepEqual(ends, [1, 2, 0, 0]);
  assert.equal(store.maxOffsetInQueue('P', 0), 3);
  assert.equal(store.oddities, 3);
  await store.close();
  const { fs } = world.broker;
  assert.equal(fs.stat('/store/abort'), undefined, 'all of it is on disk');
  const again = await LiteWorld.open({ fs });
  assert.equal(again.broker.context.store.maxOffsetInQueue('%LMQ%b', 0), 2);
});

test('with enableLmqQuota a send that would make one light queue too many is refused with code 2017', async () => {
  const world = await LiteWorld.open({ store: { enableLmqQuota: true, maxLmqConsumeQueueNum: 2 } });
  await world.sends('a', 'a0');
  await world.sends('b', 'b0');
  const third = await world.send('c', 'c0');
  assert.equal(third.code, 2017);
  assert.match(third.remark!, /^\[LMQ_CONSUME_QUEUE_NUM_EXCEEDED\]lmq consume queue num exceeded\./);
  await world.sends('a', 'a1');
  const { context } = world.broker;
  await context.store.deleteTopics(['%LMQ%$P$a']);
  assert.equal((await world.send('c', 'c0')).code, 0, 'one that is deleted makes room');
  const many = await world.send('', 'm', { INNER_MULTI_DISPATCH: '%LMQ%x,%LMQ%y' });
  assert.equal(many.code, 2017);
});

test('with enableLmqQuota one message does not make more light queues than are left', async () => {
  const world = await LiteWorld.open({ store: { enableLmqQuota: true, maxLmqConsumeQueueNum: 2 } });
  const names = Array.from({ length: 50 }, (_, i) => `%LMQ%q${i}`);
  assert.equal((await world.send('', 'm', { INNER_MULTI_DISPATCH: names.join(',') })).code, 2017);
  assert.equal((await world.send('', 'm', { INNER_MULTI_DISPATCH: '%LMQ%a,%LMQ%b,%LMQ%a' })).code, 0);
  assert.equal(world.broker.context.lite.lifecycle.lightQueues, 2);
});

test('a delayed message comes to its lite topic when it is due', async () => {
  const world = await LiteWorld.open({ store: { messageDelayLevel: '1s 5s' } });
  const { schedule, store } = world.broker.context;
  schedule.start();
  assert.equal((await world.send('a', 'a0', { DELAY: '1' })).code, 0);
  assert.equal(store.maxOffsetInQueue('%LMQ%$P$a', 0), 0);
  for (let i = 0; i < 20; i++) await world.pass(200);
  await world.broker.dispatched();
  assert.equal(store.maxOffsetInQueue('%LMQ%$P$a', 0), 1);
  await schedule.stop();
});
