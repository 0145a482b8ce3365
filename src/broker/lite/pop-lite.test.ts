import assert from 'node:assert/strict';
import { test } from 'node:test';
import { GantryError } from '../../common/index.ts';
import { RequestCode } from '../../remoting/index.ts';
import { FakeChannel } from '../broker-fixture.test.support.ts';
import { LiteWorld } from './lite-world.test.support.ts';

test('what is sent to a lite topic comes to the client that subscribes to it, in order, until it is acknowledged', async () => {
  const world = await LiteWorld.open();
  await world.subscribe('c1', ['a', 'b']);
  assert.equal((await world.pop('c1')).code, 210);
  await world.sends('a', 'a0', 'a1');
  await world.sends('b', 'b0');
  await world.sends('other', 'x0');
  const first = await world.pop('c1');
  assert.deepEqual([first.code, first.answer.remark], [0, 'FOUND']);
  assert.deepEqual(first.bodies, ['a0', 'a1', 'b0']);
  assert.deepEqual(first.answer.ext, {
    invisibleTime: '10000',
    orderCountInfo: '0;0;0',
    popTime: String(world.broker.clock.now()),
    reviveQid: '999',
  });
  await world.sends('a', 'a2');
  assert.equal((await world.pop('c1')).code, 210, 'what comes first is still out');
  for (const got of first.got) assert.equal((await world.ack(got)).code, 0);
  assert.equal(world.offsetOf('a'), 2);
  assert.deepEqual((await world.pop('c1')).bodies, ['a2']);
  assert.equal((await world.pop('c1')).code, 210, 'nothing that was acknowledged comes again');
});

test('what was not acknowledged in time comes again, counted; a pop that waits is woken by it, and by a message', async () => {
  const world = await LiteWorld.open();
  await world.subscribe('c1', ['a']);
  await world.sends('a', 'a0', 'a1');
  const first = await world.pop('c1', { invisibleTime: 5000 });
  assert.equal((await world.ack(first.got[0]!)).code, 0);
  const waiting = world.pop('c1', { pollTime: 15_000 });
  await world.pass(4900);
  await world.pass(200);
  const second = await waiting;
  assert.deepEqual(
    second.got.map(({ body, count }) => [body, count]),
    [['a1', 1]],
  );
  assert.equal((await world.ack(first.got[1]!)).code, 0, 'the handle of before is nobody’s any more');
  assert.equal(world.offsetOf('a'), 1);
  assert.equal((await world.ack(second.got[0]!)).code, 0);
  assert.equal(world.offsetOf('a'), 2);
  const third = world.pop('c1', { pollTime: 15_000 });
  await world.pass(100);
  await world.sends('a', 'a2');
  await world.pass(0);
  assert.deepEqual((await third).bodies, ['a2']);
});

test('a pop that waits is answered when its time is over, and one whose client has gone is let go', async () => {
  const world = await LiteWorld.open();
  const { hold } = world.broker.context.lite;
  await world.subscribe('c1', ['a']);
  const waiting = world.pop('c1', { pollTime: 15_000 });
  await world.pass(14_900);
  assert.equal(hold.size, 1);
  await world.pass(100);
  const { answer, code } = await waiting;
  assert.deepEqual([code, answer.remark, answer.ext['reviveQid']], [210, 'NO_MESSAGE_IN_QUEUE', '999']);
  const channel = new FakeChannel();
  void world.pop('c1', { pollTime: 15_000 }, channel);
  await world.pass(0);
  channel.close('gone');
  await world.sends('a', 'a0');
  await world.pass(0);
  assert.equal(hold.size, 0);
  assert.deepEqual((await world.pop('c1')).bodies, ['a0'], 'what woke it is for the next pop');
});

test('a pop that waits on a connection that closes gives up its place at once', async () => {
  const world = await LiteWorld.open({ broker: { maxPopPollingSize: 2 } });
  const { hold } = world.broker.context.lite;
  await world.subscribe('c1', ['a']);
  const gone = new FakeChannel();
  void world.pop('c1', { pollTime: 60_000 }, gone);
  void world.pop('c1', { pollTime: 60_000 }, gone);
  await world.pass(0);
  assert.equal((await world.pop('c1', { pollTime: 60_000 })).code, 209, 'POLLING_FULL');
  gone.close('gone');
  assert.equal(hold.size, 0);
  const waiting = world.pop('c1', { pollTime: 60_000 });
  await world.pass(0);
  assert.equal(hold.size, 1);
  await world.sends('a', 'a0');
  await world.pass(0);
  assert.deepEqual((await waiting).bodies, ['a0']);
});

test('pops that may not be are refused in RocketMQ’s words', async () => {
  const world = await LiteWorld.open();
  const { context } = world.broker;
  world.makeTopic('N', {});
  world.makeGroup('Q', {}, 'Elsewhere');
  const answers: Array<[number, string]> = [];
  for (const fields of [
    { topic: 'None' },
    { topic: 'N' },
    { consumerGroup: 'None' },
    { consumerGroup: 'Q' },
    { maxMsgNum: 33 },
    { bornTime: world.broker.clock.now() - 501 },
  ]) {
    const { answer } = await world.pop('c1', fields);
    answers.push([answer.code, answer.remark!]);
  }
  context.groups.disableConsume('G');
  const { answer } = await world.pop('c1');
  answers.push([answer.code, answer.remark!]);
  assert.deepEqual(answers, [
    [17, 'topic [None] not exist, apply first please!'],
    [29, 'the topic [N] message type not match'],
    [26, 'subscription group [None] not exist'],
    [29, 'subscription bind topic not match, Q'],
    [29, "the broker[127.0.0.1] pop message's num is greater than 32"],
    [210, 'the broker[127.0.0.1] pop message is timeout too much'],
    [16, 'subscription group no permission, G'],
  ]);
});

test('forged, foreign, late and repeated acknowledgements move no offset that they should not', async () => {
  const world = await LiteWorld.open();
  await world.subscribe('c1', ['a']);
  await world.sends('a', 'a0', 'a1', 'a2');
  const { got } = await world.pop('c1', { maxMsgNum: 2 });
  const [a0, a1] = got;
  const handle = (text: string): { handle: string } => ({ handle: text });
  const code = async (change: object, fields = {}): Promise<number> =>
    (await world.ack({ ...a1!, ...change }, fields)).code;
  assert.equal(await code({}, { consumerGroup: 'Other' }), 29);
  assert.equal(await code({}, { queueId: 1 }), 29);
  assert.equal(await code({}, { topic: 'None' }), 17);
  assert.equal(await code(handle('0 1 1 3 0 broker-a 0 1')), 29, 'not of a pop in order');
  assert.equal(await code(handle('what')), 1);
  assert.equal(await code({ offset: 4 }), 208);
  assert.equal(await code({ offset: 2 }), 13, 'in the queue, but not popped');
  assert.equal(await code({ lite: 'none', offset: 0 }), 13, 'of a lite topic without messages');
  assert.equal(await code(handle(`0 ${world.broker.clock.now() - 1} 10000 999 0 broker-a 0 1`)), 0, 'of another pop');
  assert.equal(world.offsetOf('a'), 0);
  for (let i = 0; i < 2; i++) assert.equal((await world.ack(a0!)).code, 0);
  assert.equal(world.offsetOf('a'), 1);
  assert.equal(await code({}), 0);
  assert.equal(world.offsetOf('a'), 2);
  assert.deepEqual((await world.pop('c1')).bodies, ['a2']);
});

test('the invisible time of a message can be changed, and a whole lite topic be put off without counting', async () => {
  const world = await LiteWorld.open();
  await world.subscribe('c1', ['a']);
  await world.sends('a', 'a0');
  const first = await world.pop('c1');
  const popTime = world.broker.clock.now();
  await world.pass(1000);
  const changed = await world.change(first.got[0]!, 1000);
  assert.deepEqual(changed.ext, { invisibleTime: '2000', popTime: String(popTime), reviveQid: '999' });
  await world.pass(1000);
  const second = await world.pop('c1');
  assert.deepEqual(
    second.got.map(({ count }) => count),
    [1],
  );
  assert.equal((await world.change(second.got[0]!, 30_000, { suspend: true })).code, 0);
  await world.pass(29_999);
  assert.equal((await world.pop('c1')).code, 210);
  await world.pass(1);
  assert.deepEqual(
    (await world.pop('c1')).got.map(({ count }) => count),
    [1],
    'one count for the first time alone',
  );
  assert.equal((await world.change({ ...first.got[0]!, offset: 9 }, 1000)).code, 208);
  assert.equal((await world.change({ ...first.got[0]!, handle: 'x' }, 1000)).code, 1);
});

test('offsets are saved, and after a restart all that was not acknowledged comes again', async () => {
  const before = await LiteWorld.open();
  await before.subscribe('c1', ['a@b.org']);
  await before.sends('a@b.org', 'a0', 'a1', 'a2');
  const { got } = await before.pop('c1');
  assert.equal((await before.ack(got[0]!)).code, 0);
  const { context, clock, fs } = before.broker;
  context.offsets.persist();
  await context.lite.stop();
  await context.store.close();
  clock.advance(1000);
  const world = await LiteWorld.open({ fs, clock });
  assert.equal(world.offsetOf('a@b.org'), 1);
  // RocketMQ: the last message's handle would move the offset past the one before.
  assert.equal((await world.ack(got[2]!)).code, 13);
  assert.equal((await world.ack(got[1]!)).code, 0);
  await world.subscribe('c2', ['a@b.org']);
  const again = await world.pop('c2');
  assert.deepEqual(
    again.got.map(({ body, count }) => [body, count]),
    [['a2', 0]],
  );
});

test('a lite topic can be read by pulls, and searched by time', async () => {
  const world = await LiteWorld.open();
  await world.sends('a', 'a0', 'a1');
  const search = { topic: 'P', queueId: 0, timestamp: 0, liteTopic: 'a' };
  const found = await world.broker.ask(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, search);
  assert.deepEqual([found.code, found.ext['offset']], [0, '0']);
  const none = await world.broker.ask(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, { ...search, liteTopic: 'none' });
  assert.deepEqual([none.code, none.ext['offset']], [0, '0']);
});

test('without events every pop looks at all that its client subscribes to', async () => {
  const world = await LiteWorld.open({ broker: { enableLiteEventMode: false } });
  await world.subscribe('c1', ['a', 'b', 'c']);
  await world.sends('a', 'a0');
  await world.sends('c', 'c0');
  assert.deepEqual((await world.pop('c1')).bodies, ['a0', 'c0']);
});

for (const kind of ['single lite topics', 'a wildcard'] as const) {
  test(`a message that cannot be read when a client of a group with ${kind} pops comes to it later`, async () => {
    const world = await LiteWorld.open();
    const { lite, store } = world.broker.context;
    if (kind === 'a wildcard') {
      world.makeGroup('G', { '+lite.sub.wildcard': 'true' });
      assert.equal((await world.ctl('COMPLETE_ADD', 'c1', [])).code, 0);
    } else await world.subscribe('c1', ['a']);
    await world.sends('a', 'a0');
    const { select } = store;
    store.select = () => {
      throw new GantryError('IO', 'the disk does not answer');
    };
    assert.equal((await world.pop('c1')).code, 210);
    store.select = select;
    assert.equal(lite.events.hasNext('c1'), false);
    const waiting = world.pop('c1', { pollTime: 15_000 });
    await world.pass(10_100);
    assert.deepEqual((await waiting).bodies, ['a0']);
  });
}

test('messages of lite topics that are popped and acknowledged are counted for their parent, and the figures stay', async () => {
  const world = await LiteWorld.open();
  const { traffic } = world.broker.context;
  traffic.start();
  await world.subscribe('c1', ['a', 'b']);
  await world.sends('a', 'a0', 'a1');
  await world.sends('b', 'b0');
  for (const got of (await world.pop('c1')).got) assert.equal((await world.ack(got)).code, 0);
  for (const ms of [10_000, 3_600_000]) {
    await world.pass(ms);
    for (const name of ['GROUP_GET_NUMS', 'GROUP_ACK_NUMS']) {
      assert.equal(traffic.view(name, 'P@G')?.statsDay.sum, ms === 10_000 ? 0 : 3, `${name} after ${ms} ms`);
    }
  }
  traffic.stop();
});
