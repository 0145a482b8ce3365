import assert from 'node:assert/strict';
import { test } from 'node:test';
import { RequestCode } from '../../remoting/index.ts';
import { LiteWorld } from './lite-world.test.support.ts';

const MINUTE = 60_000;

async function later(world: LiteWorld, minutes: number): Promise<void> {
  for (let i = 0; i < minutes; i += 2) {
    await world.pass(2 * MINUTE);
    for (const client of world.broker.context.lite.subscriptions.clientsOf('G')) {
      const { queues } = world.broker.context.lite.subscriptions.of(client)!;
      await world.ctl(
        'COMPLETE_ADD',
        client,
        [...queues].map((queue) => queue.slice('%LMQ%$P$'.length)),
      );
    }
    await world.broker.context.lite.lifecycle.clean();
  }
}

test('a lite topic without a message for so long as its parent says is deleted, with all that is known of it', async () => {
  const world = await LiteWorld.open();
  const { context } = world.broker;
  world.makeTopic('P', { '+lite.topic.expiration': '20' });
  world.makeTopic('Q', { '+message.type': 'LITE' });
  await world.subscribe('c1', ['a', 'b']);
  await world.sends('a', 'a0');
  await world.sends('b', 'b0');
  await world.send('a', 'q0', {}, 'Q');
  for (const got of (await world.pop('c1')).got) await world.ack(got);
  await later(world, 16);
  await world.sends('b', 'b1');
  assert.equal(context.lite.lifecycle.lightQueues, 3);
  await later(world, 6);
  assert.deepEqual(context.lite.lifecycle.queuesOf('P'), ['%LMQ%$P$b']);
  assert.deepEqual([world.offsetOf('a'), world.offsetOf('b')], [-1, 1]);
  assert.equal(context.lite.lifecycle.queuesOf('Q').length, 1, 'its parent lets them live for ever');
  assert.deepEqual([...(context.lite.subscriptions.of('c1')?.queues ?? [])], ['%LMQ%$P$b']);
  await world.subscribe('c1', ['a']);
  await world.sends('a', 'again');
  assert.deepEqual((await world.pop('c1')).bodies, ['b1', 'again'], 'a new one of that name begins at 0');
  assert.equal(context.store.maxOffsetInQueue('%LMQ%$P$a', 0), 1);
});

test('nothing is deleted in the first minutes of a broker, which may have been down for long', async () => {
  const before = await LiteWorld.open();
  before.makeTopic('P', { '+lite.topic.expiration': '1' });
  await before.sends('a', 'a0');
  const { context, clock, fs } = before.broker;
  await context.lite.stop();
  await context.store.close();
  clock.advance(120 * MINUTE);
  const world = await LiteWorld.open({ fs, clock });
  await later(world, 12);
  assert.equal(world.broker.context.lite.lifecycle.lightQueues, 1);
  await later(world, 4);
  assert.equal(world.broker.context.lite.lifecycle.lightQueues, 0);
});

test('a message that comes while its lite topic expires is kept, or refused', async () => {
  const world = await LiteWorld.open();
  const { lite, store } = world.broker.context;
  world.makeTopic('P', { '+lite.topic.expiration': '20' });
  await world.subscribe('c1', ['a']);
  await world.sends('a', 'a0');
  await world.pass(30 * MINUTE);
  const cleaned = lite.lifecycle.clean();
  const answers = [];
  for (let i = 0; i < 5; i++) answers.push(await world.send('a', `late${i}`));
  await cleaned;
  await world.broker.dispatched();
  const kept = answers.filter(({ code }) => code === 0).length;
  for (const { code, remark } of answers) {
    if (code !== 0) assert.match(remark!, /the light queue %LMQ%\$P\$a is being deleted/);
  }
  const left = store.maxOffsetInQueue('%LMQ%$P$a', 0);
  assert.ok(left === kept || left === kept + 1, `${kept} kept, ${left} there`);
});

test('a send to a light queue whose deletion is under way is refused, and not lost with the queue', async () => {
  const world = await LiteWorld.open();
  const { store } = world.broker.context;
  await world.sends('a', 'a0');
  const hold = world.broker.fs.hold('sync', 'commitlog');
  const gone = store.deleteTopics(['%LMQ%$P$a']);
  for (let turn = 0; turn < 4; turn++) await Promise.resolve();
  const { code, remark } = await world.send('a', 'late');
  hold.end();
  await gone;
  assert.deepEqual([code, /\((.*)\)$/.exec(remark ?? '')?.[1]], [14, 'the light queue %LMQ%$P$a is being deleted']);
  await world.sends('a', 'again');
  assert.equal(store.maxOffsetInQueue('%LMQ%$P$a', 0), 1);
});

test('the lite topics of a parent go with it, and the offsets of a lite group with the group', async () => {
  const world = await LiteWorld.open();
  const { context } = world.broker;
  await world.subscribe('c1', ['a', 'b']);
  await world.sends('a', 'a0');
  await world.sends('b', 'b0');
  for (const got of (await world.pop('c1')).got) await world.ack(got);
  assert.equal(world.offsetOf('a'), 1);
  assert.equal((await world.broker.ask(RequestCode.DELETE_SUBSCRIPTIONGROUP, { groupName: 'G' })).code, 0);
  assert.equal(world.offsetOf('a'), -1);
  assert.equal((await world.broker.ask(RequestCode.DELETE_TOPIC_IN_BROKER, { topic: 'P' })).code, 0);
  assert.equal(context.lite.lifecycle.lightQueues, 0);
  assert.equal(context.lite.subscriptions.count, 0);
});

test('a lite topic that a send makes while its parent is being deleted goes with it', async () => {
  const world = await LiteWorld.open();
  const { lite } = world.broker.context;
  await world.sends('a', 'a0');
  const hold = world.broker.fs.hold('sync', 'commitlog');
  const gone = world.broker.ask(RequestCode.DELETE_TOPIC_IN_BROKER, { topic: 'P' });
  for (let turn = 0; turn < 4; turn++) await Promise.resolve();
  const sent = await world.send('b', 'b0');
  hold.end();
  assert.deepEqual([sent.code, (await gone).code], [0, 0]);
  assert.equal(lite.lifecycle.lightQueues, 0);
});

test('a lite topic that is deleted leaves nothing behind for a client that was to look at it', async () => {
  const world = await LiteWorld.open({ broker: { liteLagLatencyCollectEnable: true } });
  const { lite } = world.broker.context;
  world.makeGroup('W', { '+lite.sub.wildcard': 'true' });
  await world.ctl('COMPLETE_ADD', 'w1', [], { group: 'W' });
  await world.subscribe('c1', ['a', 'b']);
  await world.sends('a', 'a0');
  await world.sends('b', 'b0', 'b1');
  const first = await world.pop('c1', { maxMsgNum: 2 });
  assert.deepEqual(first.bodies, ['a0', 'b0']);
  assert.equal(lite.lags.byTime('G', 'P', 9).lags.length, 1);
  for (const got of first.got) await world.ack(got);
  await lite.lifecycle.deleteAll('P');
  assert.deepEqual([lite.events.hasNext('c1'), lite.lags.byTime('G', 'P', 9).lags.length], [false, 0]);
  assert.equal((await world.pop('c1')).code, 210);
  assert.equal((await world.pop('w1', { consumerGroup: 'W' })).code, 210);
  for (const group of ['G', 'W']) for (const name of ['a', 'b']) assert.equal(world.offsetOf(name, group), -1);
});

test('a lite topic that is deleted while a pop reads it: the pop has nothing of it, and a new one of that name loses nothing', async () => {
  const world = await LiteWorld.open();
  const { context } = world.broker;
  const { lite, store } = context;
  await world.subscribe('c1', ['a']);
  await world.sends('a', 'a0');
  const copy = store.copyRecords.bind(store);
  let gone: Promise<void> | undefined;
  store.copyRecords = (result, target, at, later) => {
    if (gone !== undefined) return copy(result, target, at, later);
    gone = lite.lifecycle.deleteAll('P');
    gone.then(() => later(undefined), later);
    return false;
  };
  const popped = await world.pop('c1');
  for (const got of popped.got) await world.ack(got);
  assert.deepEqual([popped.code, lite.order.size, world.offsetOf('a')], [210, 0, -1]);
  await world.subscribe('c1', ['a']);
  await world.sends('a', 'again');
  assert.deepEqual((await world.pop('c1')).bodies, ['again']);
});
