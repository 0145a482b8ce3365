// Proxies that ask whether there is something to pop, and wait for it.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as setImmediateLater } from 'node:timers';
import { setImmediate } from 'node:timers/promises';
import { RequestCode } from '../../remoting/index.ts';
import type { BrokerConfig } from '../broker-config.ts';
import { type Answer, BrokerFixture, FakeChannel, messageWith } from '../broker-fixture.test.support.ts';
import { Arrivals } from '../longpolling/arrivals.ts';
import { PopWaits } from '../longpolling/pop-waits.ts';
import { NotificationProcessor } from './notification.ts';

async function world(config: Partial<BrokerConfig> = {}) {
  const broker = await BrokerFixture.open({ broker: config });
  const { context } = broker;
  const waits = new PopWaits(context, new Arrivals(context.store));
  waits.start();
  new NotificationProcessor(context, waits).register(broker);
  context.topics.createInSend('T', 'TBW102', 'test', 4, 0);
  context.topics.persistIfChanged();
  const ask = async (fields: Record<string, string | number | boolean> = {}): Promise<Answer> =>
    broker.ask(
      RequestCode.NOTIFICATION,
      { consumerGroup: 'G', topic: 'T', queueId: -1, pollTime: 0, bornTime: 0, ...fields },
      '',
      new FakeChannel(),
    );
  const has = async (fields: Record<string, string | number | boolean> = {}): Promise<string> => {
    const { code, remark, ext } = await ask(fields);
    assert.deepEqual([code, remark], [0, 'not set any response code']);
    return `${ext['hasMsg']} ${ext['pollingFull']}`;
  };
  const put = async (tag: string, queueId = 0, topic = 'T'): Promise<void> => {
    await broker.put(messageWith({ topic, queueId, properties: new Map([['TAGS', tag]]) }));
    await broker.dispatched();
    await setImmediate();
  };
  const commit = (offset: number, queueId = 0, topic = 'T'): void =>
    context.offsets.commit('test', 'G', topic, queueId, offset);
  /** Asks and waits; the answer once it is there. */
  const wait = (fields: Record<string, string | number | boolean> = {}): { answer: string | undefined } => {
    const state: { answer: string | undefined } = { answer: undefined };
    void has({ pollTime: 10_000, ...fields }).then((answer) => {
      state.answer = answer;
    });
    return state;
  };
  return { broker, context, waits, ask, has, put, commit, wait };
}

test('there is a message in a queue, or behind what pops have taken, or in the retry topic', async () => {
  const { context, has, put, commit } = await world();
  assert.equal(await has(), 'false false');
  await put('a', 2);
  assert.equal(await has(), 'true false');
  assert.equal(await has({ queueId: 2 }), 'true false');
  assert.equal(await has({ queueId: 1 }), 'false false');
  const { queues } = context.pop;
  const queue = queues.of('T', 'G', 2);
  queues.add(queue, 0, 1, -1);
  assert.equal(await has(), 'false false');
  queue.clear();
  commit(1, 2);
  assert.equal(await has(), 'false false');
  context.topics.createInSend('%RETRY%G_T', 'TBW102', 'test', 1, 0);
  context.topics.persistIfChanged();
  await put('b', 0, '%RETRY%G_T');
  assert.equal(await has({ queueId: 1, expType: 'TAG', exp: 'a' }), 'true false');
  context.config.enableRetryTopicV2 = true;
  context.config.retrieveMessageFromPopRetryTopicV1 = false;
  assert.equal(await has(), 'false false');
});

test('only messages that match count, up to so many, wherever they lie', async () => {
  const { context, has, put } = await world();
  for (let i = 0; i < 40; i++) await put('a');
  assert.equal(await has({ expType: 'TAG', exp: 'b' }), 'false false');
  // RocketMQ looks at 32.
  await put('b');
  assert.equal(await has({ expType: 'TAG', exp: 'b' }), 'true false');
  assert.equal(await has({ expType: 'SQL92', exp: 'a = 1' }), 'false false');
  context.config.maxMessageFilterNumForNotification = 41;
  assert.equal(await has({ expType: 'TAG', exp: 'c' }), 'true false');
  context.config.maxMessageFilterNumForNotification = 64;
  context.config.useMessageFilterForNotification = false;
  assert.equal(await has({ expType: 'TAG', exp: 'c' }), 'true false');
});

test('who waits is told of a message, of one that came back, and that its time is up', async () => {
  const { broker, wait, put, waits } = await world({ popLongPollingForceNotifyInterval: 0 });
  const [first, filtered] = [wait(), wait({ expType: 'TAG', exp: 'b' })];
  const own = wait({ queueId: 3, pollTime: 1000 });
  await setImmediate();
  assert.equal(waits.notifications.size, 3);
  await put('a');
  await setImmediate();
  assert.deepEqual([first.answer, filtered.answer, own.answer], ['true false', undefined, undefined]);
  broker.clock.advance(1000);
  await setImmediate();
  assert.equal(own.answer, 'false false');
  broker.context.topics.createInSend('%RETRY%G_T', 'TBW102', 'test', 1, 0);
  broker.context.topics.persistIfChanged();
  await put('any', 0, '%RETRY%G_T');
  broker.clock.advance(1000);
  await setImmediate();
  await setImmediate();
  assert.equal(filtered.answer, 'true false');
});

test('of an ordered queue that is closed nothing is told until it is free', async () => {
  const { broker, context, has, wait, put } = await world();
  await put('a');
  context.orders.popped('x', false, 'T', 'G', 0, broker.clock.now(), 5000, [0]);
  assert.equal(await has({ order: true }), 'false false');
  assert.equal(await has({ order: true, attemptId: 'x' }), 'true false');
  const waiting = wait({ order: true });
  await setImmediate();
  assert.equal(waiting.answer, undefined);
  broker.clock.advance(5000);
  await setImmediate();
  await setImmediate();
  assert.equal(waiting.answer, 'true false');
});

test('who may not wait is told so, and POLLING_INFO counts the pops that do', async () => {
  const { broker, wait, has, waits } = await world({ maxPopPollingSize: 1 });
  wait();
  await setImmediate();
  assert.equal(await has({ pollTime: 1000 }), 'false true');
  const pop = { topic: 'T', group: 'G', queueId: 1, filter: { all: true, codes: new Set<number>() } };
  const held = { ...pop, deadline: broker.clock.now() + 5000, isWanted: true, resume: () => {}, forget: () => {} };
  waits.pops.polling(held, 5000);
  const count = async (queueId: number): Promise<unknown> => {
    const fields = { consumerGroup: 'G', topic: 'T', queueId };
    return (await broker.ask(RequestCode.POLLING_INFO, fields)).ext['pollingNum'];
  };
  assert.deepEqual([await count(1), await count(0)], ['1', '0']);
});

test('what may not be popped is not told of', async () => {
  const { context, ask } = await world({ autoCreateSubscriptionGroup: false });
  const code = async (fields: Record<string, string | number>): Promise<number> => (await ask(fields)).code;
  assert.equal(await code({}), 26);
  context.config.autoCreateSubscriptionGroup = true;
  assert.equal(await code({}), 0);
  assert.equal(await code({ topic: 'none' }), 17);
  assert.equal(await code({ queueId: 4 }), 29);
  assert.equal(await code({ expType: 'SQL92', exp: 'a =' }), 23);
  context.groups.disableConsume('G');
  assert.equal(await code({}), 16);
  context.config.brokerPermission = 2;
  assert.equal(await code({}), 16);
});

test('a notification whose bytes must be fetched each time it looks waits in the end, and stops when its client has gone', async () => {
  const { broker, context, waits, put } = await world();
  await put('a');
  const { store } = context;
  const select = store.select.bind(store);
  let looks = 0;
  store.select = (request, result, ready) => {
    if (looks++ % 2 === 1) return select(request, result, ready);
    setImmediateLater(() => ready());
    return false;
  };
  const wants = { consumerGroup: 'G', topic: 'T', queueId: -1, bornTime: 0, expType: 'TAG', exp: 'b' };
  void broker.ask(RequestCode.NOTIFICATION, { ...wants, pollTime: 10_000 }, '', new FakeChannel());
  for (let turn = 0; turn < 50; turn++) await setImmediate();
  assert.equal(waits.notifications.size, 1);
  const before = looks;
  const gone = new FakeChannel();
  void broker.ask(RequestCode.NOTIFICATION, { ...wants, pollTime: 10_000 }, '', gone);
  gone.close('test');
  for (let turn = 0; turn < 50; turn++) await setImmediate();
  assert.equal(looks, before + 1);
  assert.equal(waits.notifications.size, 1);
});

test('a notification for any queue below 0 is woken by a message', async () => {
  const { put, wait } = await world();
  const waiting = wait({ queueId: -7 });
  await setImmediate();
  await put('a', 3);
  await setImmediate();
  assert.equal(waiting.answer, 'true false');
});

test('a group that was moved back has messages, also while pops wait for their check points', async () => {
  const { context, has, put, commit } = await world();
  await put('a', 2);
  commit(0, 2);
  const { queues } = context.pop;
  queues.add(queues.of('T', 'G', 2), 0, 1, -1);
  assert.equal(await has(), 'false false');
  context.offsets.assignReset('G', 'T', 2, 0);
  assert.equal(await has(), 'true false');
});
