import assert from 'node:assert/strict';
import { test } from 'node:test';
import { RequestCode } from '../../remoting/index.ts';
import { FakeChannel } from '../broker-fixture.test.support.ts';
import { LiteWorld } from './lite-world.test.support.ts';

test('a body that says nothing, an unknown group and a quota are refused; an entry without client, group or topic is passed over', async () => {
  const world = await LiteWorld.open({ broker: { maxLiteSubscriptionCount: 3 } });
  const { subscriptions } = world.broker.context.lite;
  const raw = (body: string) => world.broker.ask(RequestCode.LITE_SUBSCRIPTION_CTL, {}, body);
  assert.deepEqual([(await raw('')).code, (await raw('')).remark], [604, 'Request body is null.']);
  assert.equal((await raw('{}')).code, 604);
  assert.equal((await raw('{"subscriptionSet":[]}')).code, 604);
  assert.equal((await raw('{"subscriptionSet":[{"action":"WHAT","clientId":"c","group":"G","topic":"P"}]}')).code, 1);
  const unknown = await world.ctl('PARTIAL_ADD', 'c1', ['a'], { group: 'None' });
  assert.deepEqual(
    [unknown.code, unknown.remark],
    [604, 'java.lang.IllegalStateException: Consumer group is not allowed to consume.'],
  );
  assert.equal(world.broker.context.groups.has('None'), false, 'a question creates nothing');
  assert.equal((await world.ctl('PARTIAL_ADD', ' ', ['a'])).code, 0);
  assert.equal(subscriptions.count, 0);
  await world.subscribe('c1', ['a', 'b', 'c']);
  const fourth = await world.ctl('PARTIAL_ADD', 'c1', ['d']);
  assert.equal(fourth.code, 2018);
  assert.match(fourth.remark!, /lite subscription quota exceeded 3/);
  assert.equal((await world.ctl('PARTIAL_ADD', 'c1', ['a'])).code, 0, 'what it has it may ask for again');
  assert.equal(subscriptions.count, 3);
});

test('a client of a group may subscribe to as many lite topics as its group says', async () => {
  const world = await LiteWorld.open();
  world.makeGroup('G', { '+lite.sub.client.quota': '2' });
  await world.subscribe('c1', ['a', 'b']);
  await world.subscribe('c2', ['a', 'b']);
  const third = await world.ctl('PARTIAL_ADD', 'c1', ['c']);
  assert.equal(third.code, 2018);
  assert.match(third.remark!, /lite\.sub\.client\.quota of the group G/);
});

test('subscriptions are added and taken in parts, set as a whole, and end together', async () => {
  const world = await LiteWorld.open();
  const { subscriptions } = world.broker.context.lite;
  const has = (): string[] => [...(subscriptions.of('c1')?.queues ?? [])].sort();
  await world.subscribe('c1', ['a', 'b']);
  assert.equal((await world.ctl('PARTIAL_REMOVE', 'c1', ['a'])).code, 0);
  assert.deepEqual(has(), ['%LMQ%$P$b']);
  assert.equal((await world.ctl('COMPLETE_ADD', 'c1', ['c', 'd'])).code, 0);
  assert.deepEqual(has(), ['%LMQ%$P$c', '%LMQ%$P$d']);
  assert.deepEqual([subscriptions.count, subscriptions.subscribers('G', '%LMQ%$P$b').length], [2, 0]);
  assert.equal((await world.ctl('COMPLETE_REMOVE', 'c1', [])).code, 0);
  assert.deepEqual([has(), subscriptions.count, subscriptions.isEmpty], [[], 0, true]);
});

test('names that can have no queue are left out', async () => {
  const world = await LiteWorld.open();
  await world.subscribe('c1', ['a', 'a/b', 'a$b', 'a,b', '', 'x'.repeat(300)]);
  assert.equal(world.broker.context.lite.subscriptions.count, 1);
});

test('a lite topic for one client alone goes to the newest, and the former one is told', async () => {
  const world = await LiteWorld.open();
  world.makeGroup('G', { '+lite.sub.model': 'Exclusive', '+lite.sub.reset.offset.exclusive': 'true' });
  const channel = new FakeChannel();
  assert.equal((await world.ctl('PARTIAL_ADD', 'c1', ['a', 'b'], {}, channel)).code, 0);
  await world.sends('a', 'a0', 'a1');
  for (const got of (await world.pop('c1')).got) await world.ack(got);
  // RocketMQ: tells c1, too, which then drops what it has just asked for.
  assert.equal((await world.ctl('PARTIAL_ADD', 'c1', ['a'], {}, channel)).code, 0);
  assert.deepEqual(channel.sent, []);
  await world.subscribe('c2', ['a']);
  assert.deepEqual(channel.sent, [{ code: 200073, ext: { clientId: 'c1', consumerGroup: 'G', liteTopic: 'a' } }]);
  const { subscriptions } = world.broker.context.lite;
  assert.deepEqual([...subscriptions.of('c1')!.queues], ['%LMQ%$P$b']);
  assert.equal((await world.pop('c1')).code, 210);
  assert.deepEqual((await world.pop('c2')).bodies, ['a0', 'a1'], 'from the beginning, as the group says');
});

test('a subscription may say where it begins, and leaving may begin anew', async () => {
  const world = await LiteWorld.open();
  world.makeGroup('G', { '+lite.sub.reset.offset.unsubscribe': 'true' });
  await world.sends('a', 'a0', 'a1', 'a2');
  const from = (type: string, value: number) => ({ offsetOption: { type, value } });
  await world.subscribe('c1', ['a'], from('POLICY', 2));
  assert.equal((await world.pop('c1')).code, 210, 'from the end on');
  await world.subscribe('c1', ['a'], from('TAIL_N', 1));
  await world.pass(0);
  world.broker.context.lite.events.fullForClient('c1', 'G');
  const tail = await world.pop('c1');
  assert.deepEqual(tail.bodies, ['a2']);
  await world.ctl('PARTIAL_REMOVE', 'c1', ['a']);
  await world.subscribe('c1', ['a']);
  assert.deepEqual((await world.pop('c1')).bodies, ['a0', 'a1', 'a2'], 'what was out is forgotten by a reset');
  await world.subscribe('c2', ['a'], from('OFFSET', 1));
  await world.ctl('COMPLETE_REMOVE', 'c1', []);
  world.broker.context.lite.events.fullForClient('c2', 'G');
  assert.deepEqual((await world.pop('c2')).bodies, ['a1', 'a2']);
  await world.subscribe('c3', ['a'], from('TIMESTAMP', 1));
  assert.equal(world.offsetOf('a'), 1);
});

test('a group with a wildcard takes all lite topics of its parent, also new ones, and those that were there before', async () => {
  const world = await LiteWorld.open();
  world.makeTopic('P2', { '+message.type': 'LITE' });
  world.makeGroup('W', { '+lite.sub.wildcard': 'true' });
  const wild = { group: 'W' };
  await world.sends('old', 'o0');
  await world.send('other', 'x0', {}, 'P2');
  const part = await world.ctl('PARTIAL_ADD', 'w1', ['a'], wild);
  assert.deepEqual(
    [part.code, part.remark],
    [604, 'java.lang.IllegalStateException: subscribe lite operation is not supported for this group'],
  );
  assert.equal((await world.ctl('COMPLETE_ADD', 'w1', [], wild)).code, 0);
  assert.equal(world.broker.context.lite.subscriptions.count, 1);
  await world.sends('new', 'n0');
  assert.deepEqual((await world.pop('w1', { consumerGroup: 'W' })).bodies, ['n0']);
  const waiting = world.pop('w1', { consumerGroup: 'W', pollTime: 15_000 });
  await world.pass(5000);
  await world.pass(0);
  assert.deepEqual((await waiting).bodies, ['o0']);
  assert.equal((await world.ctl('COMPLETE_REMOVE', 'w1', [], wild)).code, 0);
  await world.sends('new', 'n1');
  assert.equal((await world.pop('w1', { consumerGroup: 'W' })).code, 210);
});

test('several clients share a lite topic; each group gets all of it', async () => {
  const world = await LiteWorld.open();
  world.makeGroup('H');
  for (const client of ['c1', 'c2']) await world.subscribe(client, ['a']);
  await world.subscribe('h1', ['a'], { group: 'H' });
  const seen: string[] = [];
  for (let i = 0; i < 20; i++) {
    await world.sends('a', `m${i}`);
    for (const client of ['c1', 'c2']) {
      for (const got of (await world.pop(client)).got) {
        seen.push(got.body);
        await world.ack(got);
      }
    }
  }
  assert.deepEqual(
    seen,
    Array.from({ length: 20 }, (_, i) => `m${i}`),
  );
  assert.equal((await world.pop('h1', { consumerGroup: 'H' })).bodies.length, 20);
});

test('subscriptions that are not renewed end', async () => {
  const world = await LiteWorld.open();
  const { subscriptions } = world.broker.context.lite;
  await world.subscribe('c1', ['a']);
  await world.subscribe('c2', ['a']);
  await world.pass(120_000);
  assert.equal((await world.ctl('COMPLETE_ADD', 'c2', ['a'])).code, 0);
  await world.pass(120_000);
  assert.deepEqual([subscriptions.of('c1'), subscriptions.count], [undefined, 1]);
});

test('what a client was given and does not fetch goes to another one', async () => {
  const world = await LiteWorld.open();
  const { events } = world.broker.context.lite;
  await world.subscribe('c1', ['a']);
  await world.subscribe('c2', ['a']);
  await world.sends('a', 'a0');
  const other = events.hasNext('c1') ? 'c2' : 'c1';
  assert.equal((await world.pop(other)).code, 210, 'it is given to one alone');
  await world.pass(10_000);
  await world.pass(10_000);
  assert.deepEqual((await world.pop(other)).bodies, ['a0']);
});

test('a client that subscribes to more than it can be given gets all of it in time', async () => {
  const world = await LiteWorld.open({ broker: { maxClientEventCount: 5 } });
  const names = Array.from({ length: 30 }, (_, i) => `l${i}`);
  await world.subscribe('c1', names);
  for (const name of names) await world.sends(name, name);
  const seen = new Set<string>();
  for (let round = 0; round < 20 && seen.size < names.length; round++) {
    for (const got of (await world.pop('c1')).got) {
      seen.add(got.body);
      await world.ack(got);
    }
    await world.pass(10_000);
  }
  assert.equal(seen.size, names.length);
});

test('setting all that a client subscribes to is no way around the quotas, and keeps what it has', async () => {
  const world = await LiteWorld.open({ broker: { maxLiteSubscriptionCount: 5 } });
  const { subscriptions } = world.broker.context.lite;
  world.makeGroup('G', { '+lite.sub.client.quota': '3' });
  assert.equal((await world.ctl('COMPLETE_ADD', 'c1', ['a', 'b', 'c'])).code, 0);
  const more = await world.ctl('COMPLETE_ADD', 'c1', ['a', 'b', 'c', 'd']);
  assert.deepEqual([more.code, /lite\.sub\.client\.quota/.test(more.remark ?? '')], [2018, true]);
  assert.equal(
    (await world.ctl('COMPLETE_ADD', 'c2', ['a', 'b', 'c'])).code,
    2018,
    'six would be too many for the broker',
  );
  assert.equal((await world.ctl('PARTIAL_ADD', 'c2', ['a', 'b', 'c'])).code, 2018);
  assert.equal((await world.ctl('COMPLETE_ADD', 'c2', ['a', 'b'])).code, 0);
  assert.equal(
    (await world.ctl('COMPLETE_ADD', 'c1', ['c', 'd', 'e'])).code,
    0,
    'two of them in the place of two others',
  );
  assert.equal(subscriptions.count, 5);
  await world.pass(150_000);
  assert.equal((await world.ctl('COMPLETE_ADD', 'c1', ['c', 'd', 'e', 'f'])).code, 2018);
  await world.pass(100_000);
  assert.deepEqual([subscriptions.of('c1')?.queues.size, subscriptions.of('c2')], [3, undefined]);
});

test('clients that were refused, that left or lost what they had are not remembered', async () => {
  const world = await LiteWorld.open({ broker: { maxLiteSubscriptionCount: 1 } });
  const { subscriptions } = world.broker.context.lite;
  world.makeGroup('G', { '+lite.sub.model': 'Exclusive' });
  await world.subscribe('c1', ['a']);
  for (let i = 0; i < 20; i++) {
    await world.ctl('PARTIAL_ADD', `refused${i}`, ['x']);
    await world.ctl('PARTIAL_REMOVE', `unknown${i}`, ['x']);
  }
  assert.deepEqual([subscriptions.of('refused0'), subscriptions.of('unknown0')], [undefined, undefined]);
  subscriptions.clean();
  assert.equal(subscriptions.connections, 1);
});

test('a wildcard subscription to a topic whose name holds an "@" leaves nothing behind', async () => {
  const world = await LiteWorld.open();
  const { subscriptions } = world.broker.context.lite;
  world.makeGroup('W', { '+lite.sub.wildcard': 'true' });
  for (const topic of ['P', 'a@b', 'a@W@c']) {
    assert.equal((await world.ctl('COMPLETE_ADD', 'c1', [], { group: 'W', topic })).code, 0);
  }
  assert.equal((await world.ctl('COMPLETE_REMOVE', 'c1', [])).code, 0);
  assert.equal(subscriptions.isEmpty, true);
});
