// Clients that ask the broker for their queues, and administrators who say how they fetch: as Java answered, and with bad input.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readWhole } from '../../io/index.ts';
import { type RemotingResponse, RequestCode } from '../../remoting/index.ts';
import { TopicRoutes } from '../assignment/topic-routes.ts';
import type { BrokerConfig } from '../broker-config.ts';
import { type Answer, BrokerFixture, FakeChannel } from '../broker-fixture.test.support.ts';
import { registerQueryAssignment } from './query-assignment.ts';

type Route = Record<string, number>;

async function world(config: Partial<BrokerConfig> = {}) {
  const broker = await BrokerFixture.open({ broker: { brokerName: 'golden-a', ...config } });
  const { context } = broker;
  /** Readable queues by topic and broker. */
  const routes = new Map<string, Route>();
  const asked: string[] = [];
  let down = false;
  const answer = (topic: string): RemotingResponse => {
    asked.push(topic);
    if (down) throw new Error('the name server is down');
    const route = routes.get(topic);
    const queueDatas = Object.entries(route ?? {}).map(([brokerName, readQueueNums]) => ({
      brokerName,
      perm: readQueueNums > 0 ? 6 : 2,
      readQueueNums: readQueueNums || 4,
      writeQueueNums: 4,
    }));
    const body = Buffer.from(JSON.stringify({ brokerDatas: [], queueDatas }));
    return { code: route === undefined ? 17 : 0, remark: null, ext: {}, body } as unknown as RemotingResponse;
  };
  const topicRoutes = new TopicRoutes(
    {
      clock: broker.clock,
      logger: broker.logger,
      nameServers: () => ['ns:1'],
      invoke: async (_address, _code, ext) => answer(String(ext['topic'])),
    },
    30_000,
  );
  registerQueryAssignment(broker, context, topicRoutes);
  const join = (group: string, ...clientIds: string[]): void => {
    for (const clientId of clientIds) {
      const client = { channel: new FakeChannel(), clientId, language: 'JAVA', version: 513, lastUpdateMs: 0 };
      const behaviour = { consumeType: 'CONSUME_PASSIVELY', messageModel: 'CLUSTERING' } as const;
      context.consumers.register(group, client, { ...behaviour, consumeFromWhere: undefined }, [], true);
    }
  };
  const query = (fields: Record<string, string>): Promise<Answer> => {
    const body = { clientId: 'c1', consumerGroup: 'G', messageModel: 'CLUSTERING', strategyName: 'AVG', topic: 'T' };
    return broker.ask(RequestCode.QUERY_ASSIGNMENT, {}, JSON.stringify({ ...body, ...fields }));
  };
  const text = async (fields: Record<string, string> = {}): Promise<string> => {
    const { code, remark, body } = await query(fields);
    assert.deepEqual([code, remark], [0, null]);
    return Buffer.from(body).toString();
  };
  /** `broker/queue mode` of each. */
  const shares = async (fields: Record<string, string> = {}): Promise<string[] | undefined> => {
    const list = JSON.parse(await text(fields)).messageQueueAssignments as
      | Array<{ messageQueue: { brokerName: string; queueId: number }; mode: string }>
      | undefined;
    return list?.map(({ messageQueue, mode }) => `${messageQueue.brokerName}/${messageQueue.queueId} ${mode}`);
  };
  const setMode = (body: Record<string, unknown>): Promise<Answer> =>
    broker.ask(RequestCode.SET_MESSAGE_REQUEST_MODE, {}, JSON.stringify(body));
  const setDown = (value: boolean): void => {
    down = value;
  };
  return { broker, context, routes, asked, join, query, text, shares, setMode, setDown };
}

test('a group that is to pop is told to, as the recorded Java broker told its client', async () => {
  const { broker, context, routes, join, text, setMode } = await world();
  context.topics.createInSend('FramePop', 'TBW102', 'test', 2, 0);
  context.topics.persistIfChanged();
  const mode = { consumerGroup: 'GID_fpop', mode: 'POP', popShareQueueNum: 8, topic: 'FramePop' };
  const set = await setMode(mode);
  assert.deepEqual([set.code, set.remark, set.body.length], [0, null, 0]);
  routes.set('FramePop', { 'golden-a': 2 });
  routes.set('%RETRY%GID_fpop', { 'golden-a': 1 });
  join('GID_fpop', '127.0.0.1@frames-c8');
  const who = { clientId: '127.0.0.1@frames-c8', consumerGroup: 'GID_fpop' };
  assert.equal(
    await text({ ...who, topic: '%RETRY%GID_fpop' }),
    '{"messageQueueAssignments":[{"messageQueue":{"brokerName":"golden-a","queueId":0,"topic":"%RETRY%GID_fpop"},"mode":"PULL"}]}',
  );
  assert.equal(
    await text({ ...who, topic: 'FramePop' }),
    '{"messageQueueAssignments":[{"messageQueue":{"brokerName":"golden-a","queueId":-1,"topic":"FramePop"},"mode":"POP"}]}',
  );
  // As it stands in Java's file of the golden store, but for the names.
  const file = '/store/config/messageRequestMode.json';
  const bytes = readWhole(broker.fs, file)!;
  assert.equal(
    Buffer.from(bytes).toString(),
    '{\n\t"messageRequestModeMap":{\n\t\t"FramePop":{\n\t\t\t"GID_fpop":{\n\t\t\t\t"consumerGroup":"GID_fpop",\n\t\t\t\t"mode":"POP",\n\t\t\t\t"popShareQueueNum":8,\n\t\t\t\t"topic":"FramePop"\n\t\t\t}\n\t\t}\n\t}\n}',
  );
  const again = await BrokerFixture.open({ fs: broker.fs.clone() });
  again.context.requestModes.load();
  assert.deepEqual(again.context.requestModes.find('FramePop', 'GID_fpop'), mode);
  const all = await broker.ask(RequestCode.GET_ALL_MESSAGE_REQUEST_MODE);
  assert.deepEqual(JSON.parse(Buffer.from(all.body).toString()), {
    messageRequestModeMap: { FramePop: { GID_fpop: mode } },
  });
});

test('each client gets its share of what name servers know, in the mode that the broker has for those that nobody has set', async () => {
  const { context, routes, join, shares } = await world({ defaultMessageRequestMode: 'POP' });
  routes.set('T', { 'golden-a': 4, other: 2, unreadable: 0 });
  join('G', 'c2', 'c1');
  assert.deepEqual(await shares(), ['golden-a/-1 POP', 'other/-1 POP']);
  context.config.defaultMessageRequestMode = 'PULL';
  assert.deepEqual(await shares(), ['golden-a/0 PULL', 'golden-a/1 PULL', 'golden-a/2 PULL']);
  const circle = { clientId: 'c2', strategyName: 'AVG_BY_CIRCLE' };
  assert.deepEqual(await shares(circle), ['golden-a/1 PULL', 'golden-a/3 PULL', 'other/1 PULL']);
  assert.equal((await shares({ messageModel: 'BROADCASTING' }))?.length, 6);
  assert.deepEqual(await shares({ clientId: 'stranger' }), [], 'has no queue, and is told so');
  context.config.serverLoadBalancerEnable = false;
  assert.equal((await shares())?.length, 6);
  assert.deepEqual(await shares({ topic: '%LMQ%x' }), ['golden-a/0 PULL']);
});

test('where nothing can be said the client keeps what it has', async () => {
  const { routes, join, text } = await world();
  routes.set('T', { a: 4 });
  assert.equal(await text(), '{}', 'nobody of the group is known');
  join('G', 'c1');
  for (const fields of [{ topic: 'none' }, { strategyName: 'NONE' }, { messageModel: 'X' }, { clientId: '' }]) {
    assert.equal(await text(fields), '{}');
  }
  assert.notEqual(await text(), '{}');
});

test('routes are kept while clients ask, looked up anew now and then, and forgotten', async () => {
  const { broker, routes, asked, join, shares, setDown } = await world();
  const pass = async (ms: number): Promise<void> => {
    broker.clock.advance(ms);
    for (let i = 0; i < 10; i++) await Promise.resolve();
  };
  routes.set('T', { a: 1 });
  join('G', 'c1');
  await shares();
  await shares();
  assert.deepEqual(asked, ['T']);
  routes.set('T', { a: 2 });
  await pass(30_000);
  assert.equal((await shares())?.length, 2);
  setDown(true);
  await pass(30_000);
  assert.equal((await shares())?.length, 2, 'the name server is down');
  setDown(false);
  routes.delete('T');
  await pass(30_000);
  assert.equal(await shares(), undefined, 'the topic is gone');
  routes.set('T', { a: 1 });
  await shares();
  for (let i = 0; i < 10; i++) await pass(30_000);
  const rounds = asked.length;
  await pass(300_000);
  assert.equal(asked.length, rounds, 'nobody asks any more');
});

test('a mode that cannot be is refused, as are bodies that say nothing', async () => {
  const { broker, context, setMode, query } = await world({ autoCreateSubscriptionGroup: false });
  context.topics.createInSend('T', 'TBW102', 'test', 2, 0);
  context.topics.persistIfChanged();
  const codes = async (body: Record<string, unknown>): Promise<unknown[]> => {
    const { code, remark } = await setMode(body);
    return [code, remark];
  };
  const mode = { consumerGroup: 'G', mode: 'POP', popShareQueueNum: 0 };
  assert.deepEqual(await codes({ ...mode, topic: '%RETRY%G' }), [16, 'retry topic is not allowed to set mode']);
  assert.deepEqual(await codes({ ...mode, topic: 'none' }), [17, 'topic[none] not exist']);
  assert.deepEqual(await codes({ ...mode, topic: 'T' }), [26, 'subscription group does not exist']);
  // A Java broker could not load the file.
  assert.equal((await setMode({ ...mode, topic: 'T', popShareQueueNum: 2 ** 31 })).code, 1);
  assert.equal((await query({ topic: '' })).code, 0);
  for (const body of ['', '[]', 'x', '{"topic":"T"}']) {
    assert.equal((await broker.ask(RequestCode.QUERY_ASSIGNMENT, {}, body)).code, 1);
  }
  assert.equal((await broker.ask(RequestCode.SET_MESSAGE_REQUEST_MODE, {}, '')).code, 1);
});
