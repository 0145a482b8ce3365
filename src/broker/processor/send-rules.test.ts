import assert from 'node:assert/strict';
import { test } from 'node:test';
import { RequestCode } from '../../remoting/index.ts';
import type { BrokerConfig } from '../broker-config.ts';
import { type Answer, BrokerFixture } from '../broker-fixture.test.support.ts';
import { Perm } from '../topic/topic-config.ts';
import { registerProcessors } from './register.ts';
import { Sender } from './sender.test.support.ts';

type Fields = Record<string, string | number | boolean>;

interface Setup {
  broker: BrokerFixture;
  send(topic: string, fields?: Fields): Promise<Answer>;
}

async function open(config: Partial<BrokerConfig> = {}): Promise<Setup> {
  const broker = await BrokerFixture.open({ broker: config });
  const { context } = broker;
  context.topics.load();
  registerProcessors(broker, context);
  const sender = new Sender(broker);
  return { broker, send: (topic, fields = {}) => sender.send({ b: topic, ...fields }) };
}

/** As `mqadmin updateTopic` changes it. */
async function updateTopic({ broker }: Setup, topic: string, fields: Fields): Promise<void> {
  const answer = await broker.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, {
    topic,
    defaultTopic: 'TBW102',
    readQueueNums: 4,
    writeQueueNums: 4,
    perm: 6,
    topicFilterType: 'SINGLE_TAG',
    topicSysFlag: 0,
    order: false,
    ...fields,
  });
  assert.equal(answer.code, 0, answer.remark ?? '');
}

test('a topic whose write queues shrink takes sends to the old ones while they can be read, and then refuses them', async () => {
  const setup = await open();
  await updateTopic(setup, 'T', {});
  assert.equal((await setup.send('T', { e: 3 })).code, 0);
  await updateTopic(setup, 'T', { writeQueueNums: 2 });
  // RocketMQ: a producer with the route of a moment ago is not refused.
  assert.equal((await setup.send('T', { e: 3 })).code, 0);
  for (let i = 0; i < 20; i++) assert.ok(Number((await setup.send('T', { e: -1 })).ext['queueId']) < 2);
  await updateTopic(setup, 'T', { writeQueueNums: 2, readQueueNums: 2 });
  const late = await setup.send('T', { e: 3 });
  assert.equal(late.code, 29);
  assert.match(late.remark!, /request queueId\[3\] is illegal/);
  await updateTopic(setup, 'T', { writeQueueNums: 8, readQueueNums: 8 });
  assert.equal((await setup.send('T', { e: 7 })).code, 0, 'they are there again at once');
});

test('a send creates a topic by its default topic: queues, permission and what it may inherit', async () => {
  const setup = await open();
  const { topics } = setup.broker.context;
  assert.equal((await setup.send('New', { d: 3 })).code, 0);
  const created = topics.select('New')!;
  assert.deepEqual([created.readQueueNums, created.writeQueueNums, created.perm], [3, 3, Perm.READ | Perm.WRITE]);
  await updateTopic(setup, 'Example', { writeQueueNums: 2, readQueueNums: 2, perm: Perm.READ | Perm.INHERIT });
  assert.equal((await setup.send('Like', { c: 'Example', d: 16 })).code, 0);
  const like = topics.select('Like')!;
  assert.deepEqual([like.readQueueNums, like.writeQueueNums, like.perm], [2, 2, Perm.READ], 'not the inherit bit');
  await updateTopic(setup, 'Plain', {});
  for (const example of ['Plain', 'None']) {
    const refused = await setup.send('Other', { c: example });
    assert.equal(refused.code, 17);
    assert.match(
      refused.remark!,
      new RegExp(`default topic ${example} does not exist here or may not be inherited from`),
    );
  }
  const off = await open({ autoCreateTopicEnable: false });
  assert.match(
    (await off.send('New')).remark!,
    /autoCreateTopicEnable is false; create it with mqadmin updateTopic -t New/,
  );
});

test('nobody sends to the topics that are the broker’s own, whatever their state', async () => {
  const { send, broker } = await open();
  for (const topic of [
    'SCHEDULE_TOPIC_XXXX',
    'RMQ_SYS_TRANS_HALF_TOPIC',
    'RMQ_SYS_TRANS_OP_HALF_TOPIC',
    'TRANS_CHECK_MAX_TIME_TOPIC',
    'SELF_TEST_TOPIC',
    'OFFSET_MOVED_EVENT',
  ]) {
    const refused = await send(topic);
    assert.deepEqual([refused.code, refused.remark], [16, `Sending message to topic[${topic}] is forbidden.`]);
  }
  for (const topic of ['BenchmarkTest', 'DefaultCluster', 'DefaultCluster_REPLY_TOPIC']) {
    assert.equal((await send(topic)).code, 0, topic);
  }
  assert.equal(broker.context.topics.has('TRANS_CHECK_MAX_TIME_TOPIC'), false, 'a refused send creates nothing');
});

test('a broker without the permission to write refuses sends to order topics, as a name server keeps others away', async () => {
  const setup = await open();
  await updateTopic(setup, 'T', {});
  await updateTopic(setup, 'Ordered', { order: true });
  setup.broker.context.config.brokerPermission = Perm.READ;
  const refused = await setup.send('Ordered');
  assert.deepEqual([refused.code, refused.remark], [16, 'the broker[127.0.0.1] sending message is forbidden']);
  assert.equal((await setup.send('T')).code, 0);
  setup.broker.context.config.brokerPermission = Perm.READ | Perm.WRITE;
  assert.equal((await setup.send('Ordered')).code, 0);
});

test('a message without a key is refused by a topic that is compacted by key', async () => {
  const setup = await open();
  await updateTopic(setup, 'T', { attributes: '+cleanup.policy=COMPACTION' });
  for (const properties of ['', 'TAGS\u0001a\u0002', 'KEYS\u0001 \t\u0002']) {
    const answer = await setup.send('T', { i: properties });
    assert.deepEqual([answer.code, answer.remark], [13, 'Required message key is missing']);
  }
  assert.equal((await setup.send('T', { i: 'KEYS\u0001k\u0002' })).code, 0);
});

test('every kind of send is counted, and so is one that is refused', async () => {
  const { send, broker } = await open();
  const { stats, traffic } = broker.context;
  const kinds = ['', 'DELAY\u00011\u0002', 'TRAN_MSG\u0001true\u0002', 'TRAN_MSG\u0001true\u0002POP_CK\u0001x\u0002'];
  for (const i of kinds) assert.equal((await send('T', { i })).code, 0);
  assert.equal(stats.putMessages, kinds.length);
  assert.equal(stats.putBytes, broker.context.store.watermarks.wrote);
  const of = (topic: string): number => traffic.puts.of(topic).messages;
  assert.deepEqual([of('T'), of('SCHEDULE_TOPIC_XXXX'), of('RMQ_SYS_TRANS_HALF_TOPIC')], [1, 1, 2]);
  assert.equal(stats.putFailed, 0);
  assert.notEqual((await send('T', { i: `k\u0001${'x'.repeat(32_700)}\u0002DELAY\u00011\u0002` })).code, 0);
  assert.equal(stats.putFailed, 1);
});

test('sends are counted by topic, and shown in messages a second', async () => {
  const setup = await open();
  const { context, clock } = setup.broker;
  context.traffic.start();
  const view = (): Promise<Answer> =>
    setup.broker.ask(RequestCode.VIEW_BROKER_STATS_DATA, { statsName: 'TOPIC_PUT_NUMS', statsKey: 'T' });
  assert.deepEqual([(await view()).code, (await view()).remark], [1, 'The stats <TOPIC_PUT_NUMS> <T> not exist']);
  for (let i = 0; i < 10; i++) await setup.send('T');
  clock.advance(10_000);
  const rate = '{"avgpt":1,"sum":10,"tps":1}';
  const none = '{"avgpt":0,"sum":0,"tps":0}';
  assert.equal(
    Buffer.from((await view()).body).toString(),
    `{"statsDay":${none},"statsHour":${none},"statsMinute":${rate}}`,
  );
  const stats = await setup.broker.ask(RequestCode.GET_TOPIC_STATS_INFO, { topic: 'T' });
  assert.match(Buffer.from(stats.body).toString(), /"topicPutTps":1/);
  context.traffic.stop();
});

test('traceTopicEnable makes the topic of message traces, under the name that msgTraceTopicName gives it', async () => {
  const off = await open();
  assert.equal(off.broker.context.topics.has('RMQ_SYS_TRACE_TOPIC'), false);
  const named = await open({ traceTopicEnable: true, msgTraceTopicName: 'Traces' });
  const topic = named.broker.context.topics.select('Traces')!;
  assert.deepEqual([topic.readQueueNums, topic.writeQueueNums, topic.perm], [1, 1, Perm.READ | Perm.WRITE]);
  assert.equal((await named.send('Traces')).code, 0);
  const { ext } = await named.send('Traces');
  assert.deepEqual([ext['MSG_REGION'], ext['TRACE_ON']], ['DefaultRegion', 'true']);
});
