import assert from 'node:assert/strict';
import { test } from 'node:test';
import { RequestCode } from '../../remoting/index.ts';
import { type Answer, BrokerFixture, messageWith } from '../broker-fixture.test.support.ts';
import { PullRequestHold } from '../longpolling/pull-request-hold.ts';
import { PullMessageProcessor } from './pull-message.ts';
import { registerProcessors } from './register.ts';

const BUSY = 2;

/** A broker with ten messages of T, all of them old; group G is of the type. */
async function open(consumeType: 'CONSUME_ACTIVELY' | 'CONSUME_PASSIVELY', on = true): Promise<BrokerFixture> {
  const broker = await BrokerFixture.open({
    broker: { cgColdReadThreshold: 100 },
    store: { coldDataFlowControlEnable: on, accessMessageInMemoryHotRatio: 0 },
  });
  const { context } = broker;
  registerProcessors(broker, context);
  new PullMessageProcessor(context, new PullRequestHold(context.clock, context.store)).register(broker);
  context.topics.createInSend('T', 'TBW102', 'test', 4, 0);
  context.topics.persistIfChanged();
  for (let i = 0; i < 10; i++) {
    await broker.put(messageWith({ body: Buffer.from(`m${i}`) }));
  }
  await broker.dispatched();
  const subscription = { topic: 'T', subString: '*', subVersion: 1, expressionType: 'TAG', tagsSet: [], codeSet: [] };
  const consumer = {
    groupName: 'G',
    consumeType,
    messageModel: 'CLUSTERING',
    consumeFromWhere: 'CONSUME_FROM_LAST_OFFSET',
    subscriptionDataSet: [subscription],
  };
  const heartbeat = JSON.stringify({ clientID: 'c', consumerDataSet: [consumer], producerDataSet: [] });
  await broker.ask(RequestCode.HEART_BEAT, {}, heartbeat);
  context.coldData.start();
  return broker;
}

function pull(broker: BrokerFixture, queueOffset = 0): Promise<Answer> {
  return broker.ask(RequestCode.PULL_MESSAGE, {
    consumerGroup: 'G',
    topic: 'T',
    queueId: 0,
    queueOffset,
    maxMsgNums: 32,
    sysFlag: 0,
    commitOffset: 0,
    suspendTimeoutMillis: 0,
    subVersion: 1,
  });
}

test('a push consumer that reads too much old data is told that the broker is busy, until the window ends', async () => {
  const broker = await open('CONSUME_PASSIVELY');
  assert.equal((await pull(broker)).code, 0);
  const refused = await pull(broker);
  assert.equal(refused.code, BUSY);
  assert.equal(refused.remark, 'This consumer group is reading cold data. It has been flow control');
  broker.clock.advance(5000);
  assert.equal((await pull(broker)).code, 0);
  broker.context.coldData.stop();
});

test('a pull consumer waits instead, and then gets one message at a time while the limit is passed', async () => {
  const broker = await open('CONSUME_ACTIVELY');
  const { coldData } = broker.context;
  assert.equal((await pull(broker)).ext['nextBeginOffset'], '10');
  const waiting = pull(broker);
  assert.equal(coldData.held, 1);
  // The group's limit is passed in the next window, too.
  broker.context.coldData.setThreshold('G', 0);
  broker.clock.advance(5000);
  assert.equal((await waiting).ext['nextBeginOffset'], '1');
  coldData.stop();
});

test('what is not old is not held up, nor is anything while the control is off', async () => {
  const off = await open('CONSUME_PASSIVELY', false);
  for (let i = 0; i < 3; i++) assert.equal((await pull(off)).code, 0);
  const hot = await open('CONSUME_PASSIVELY');
  hot.context.store.config.accessMessageInMemoryHotRatio = 26;
  for (let i = 0; i < 3; i++) assert.equal((await pull(hot)).code, 0);
  for (const broker of [off, hot]) broker.context.coldData.stop();
});

test('operators set, remove and see limits of cold reads, and turn read-ahead off and on', async () => {
  const broker = await open('CONSUME_PASSIVELY');
  const info = async (): Promise<Record<string, unknown>> => {
    const answer = await broker.ask(RequestCode.GET_COLD_DATA_FLOW_CTR_INFO);
    return JSON.parse(Buffer.from(answer.body).toString()) as Record<string, unknown>;
  };
  assert.equal((await broker.ask(RequestCode.UPDATE_COLD_DATA_FLOW_CTR_CONFIG, {}, 'G=5000\nH=many')).code, 0);
  assert.deepEqual(await info(), {
    runtimeTable: {},
    configTable: { G: 5000 },
    cgColdReadThreshold: 100,
    globalColdReadThreshold: 104_857_600,
    globalAcc: 0,
  });
  assert.equal((await broker.ask(RequestCode.REMOVE_COLD_DATA_FLOW_CTR_CONFIG, {}, 'G')).code, 0);
  assert.deepEqual((await info())['configTable'], {});
  const mode = (value: string): Promise<Answer> =>
    broker.ask(RequestCode.SET_COMMITLOG_READ_MODE, { READ_AHEAD_MODE: value });
  assert.equal((await mode('1')).remark, 'set commitlog readahead mode success, mode: 1');
  assert.equal(broker.context.store.config.dataReadAheadEnable, false);
  assert.equal((await mode('7')).code, 29);
  assert.equal((await mode('x')).code, 1);
  assert.equal((await mode('0')).code, 0);
  assert.equal(broker.context.store.config.dataReadAheadEnable, true);
  broker.context.coldData.stop();
});
