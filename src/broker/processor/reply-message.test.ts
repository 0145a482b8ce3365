import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type ExtFields, type RemotingResponse, RequestCode } from '../../remoting/index.ts';
import type { BrokerConfig } from '../broker-config.ts';
import { type Answer, BrokerFixture, FakeChannel } from '../broker-fixture.test.support.ts';
import { registerProcessors } from './register.ts';
import { ReplyMessageProcessor } from './reply-message.ts';
import { SendMessageProcessor } from './send-message.ts';
import { testIds } from './sender.test.support.ts';

const TOPIC = 'DefaultCluster_REPLY_TOPIC';

interface Asker {
  broker: BrokerFixture;
  channel: FakeChannel;
  pushed: Array<{ code: number; ext: ExtFields; body: string }>;
}

/** A broker that client `asker` has sent a heartbeat to. */
async function open(config: Partial<BrokerConfig> = {}, answer: Partial<RemotingResponse> = {}): Promise<Asker> {
  const broker = await BrokerFixture.open({ broker: config });
  broker.context.topics.load();
  registerProcessors(broker, broker.context);
  new ReplyMessageProcessor(broker.context, new SendMessageProcessor(broker.context, testIds())).register(broker);
  const channel = new FakeChannel();
  const pushed: Asker['pushed'] = [];
  channel.answer = (code, ext, body) => {
    pushed.push({ code, ext, body: Buffer.from(body ?? '').toString() });
    return Promise.resolve({ code: 0, remark: null, ext: {}, body: null, ...answer } as unknown as RemotingResponse);
  };
  const beat = { clientID: 'asker', consumerDataSet: [], producerDataSet: [{ groupName: 'P' }] };
  await broker.ask(RequestCode.HEART_BEAT, {}, JSON.stringify(beat), channel);
  return { broker, channel, pushed };
}

function reply(
  broker: BrokerFixture,
  properties: string,
  fields: Record<string, string | number> = {},
): Promise<Answer> {
  const header = {
    a: 'R',
    b: TOPIC,
    c: 'TBW102',
    d: 4,
    e: 0,
    f: 1,
    g: 7,
    h: 3,
    i: properties,
    j: 0,
    k: false,
    m: false,
    ...fields,
  };
  return broker.ask(RequestCode.SEND_REPLY_MESSAGE_V2, header, 'pong', new FakeChannel(50_001));
}

const PROPERTIES = 'CORRELATION_ID\u00011\u0002REPLY_TO_CLIENT\u0001asker\u0002MSG_TYPE\u0001reply\u0002TTL\u00013000';

test('a reply is handed to the client that waits for it, and stored without what is for the client alone', async () => {
  const { broker, pushed } = await open();
  const answer = await reply(broker, PROPERTIES);
  assert.deepEqual([answer.code, answer.remark], [0, null]);
  assert.deepEqual(Object.keys(answer.ext).sort(), ['MSG_REGION', 'TRACE_ON', 'msgId', 'queueId', 'queueOffset']);
  assert.equal(answer.ext['msgId']!.length, 32);
  assert.deepEqual([answer.ext['queueId'], answer.ext['queueOffset']], ['0', '0']);
  assert.equal(pushed.length, 1);
  const { code, ext, body } = pushed[0]!;
  assert.deepEqual([code, body], [RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, 'pong']);
  assert.ok(String(ext['properties']).includes(`PUSH_REPLY_TIME\u0001${broker.clock.now()}`));
  const { properties: _, storeTimestamp, ...fields } = ext;
  assert.equal(storeTimestamp, broker.clock.now());
  assert.deepEqual(fields, {
    bornHost: '127.0.0.1:50001',
    bornTimestamp: 7,
    defaultTopic: 'TBW102',
    defaultTopicQueueNums: 4,
    flag: 3,
    producerGroup: 'R',
    queueId: 0,
    reconsumeTimes: 0,
    storeHost: '127.0.0.1:10911',
    sysFlag: 1,
    topic: TOPIC,
    unitMode: false,
  });
  const record = Buffer.from((await broker.context.store.recordAt(0))!);
  assert.ok(record.includes('REPLY_TO_CLIENT'));
  assert.ok(!record.includes('PUSH_REPLY_TIME'));
});

test('replies that reach nobody are answered with code 1 and the reason, and are stored all the same', async () => {
  const { broker, channel } = await open();
  const strange = await reply(broker, PROPERTIES.replace('asker', 'nobody'));
  assert.deepEqual([strange.code, strange.remark], [1, 'push reply message fail, channel of <nobody> not found.']);
  assert.equal(strange.ext['queueOffset'], '0');
  const unnamed = await reply(broker, 'CORRELATION_ID\u00011');
  assert.deepEqual([unnamed.code, unnamed.remark], [1, 'reply message properties[REPLY_TO_CLIENT] is null']);
  channel.answer = () => Promise.reject(new Error('no answer in time'));
  const late = await reply(broker, PROPERTIES);
  assert.deepEqual([late.code, late.remark], [1, 'push reply message to asker fail. (no answer in time)']);
  assert.equal(broker.context.store.maxOffsetInQueue(TOPIC, 0, false), 3);
  channel.close('gone');
  assert.match((await reply(broker, PROPERTIES)).remark!, /channel of <asker> not found/);
});

test('a client that leaves much unread gets no further replies, which would fill the memory', async () => {
  const { broker, channel, pushed } = await open();
  channel.unsentBytes = 8 * 1024 * 1024 + 1;
  const answer = await reply(broker, PROPERTIES);
  assert.deepEqual(
    [answer.code, answer.remark, pushed.length],
    [1, 'push reply message to asker fail. (it has left 8388609 bytes unread)', 0],
  );
});

test('a client that refuses its reply is named with its words', async () => {
  const { broker } = await open({}, { code: 1, remark: 'no such request' });
  const answer = await reply(broker, PROPERTIES);
  assert.equal(answer.code, 1);
  assert.match(answer.remark!, /push reply message to asker fail.*no such request/);
});

test('storeReplyMessageEnable=false: handed over and not stored, answered with zeros', async () => {
  const { broker, pushed } = await open({ storeReplyMessageEnable: false });
  const answer = await reply(broker, PROPERTIES);
  assert.equal(pushed.length, 1);
  assert.deepEqual(
    [answer.code, answer.ext['msgId'], answer.ext['queueId'], answer.ext['queueOffset']],
    [0, '0', '0', '0'],
  );
  assert.equal(broker.context.store.maxOffsetInQueue(TOPIC, 0, false), 0);
});

test('a reply passes the checks of a send first: nothing is handed over that may not be sent', async () => {
  const { broker, pushed } = await open();
  assert.equal((await reply(broker, PROPERTIES, { b: 'SCHEDULE_TOPIC_XXXX' })).code, 16);
  assert.equal((await reply(broker, PROPERTIES, { b: 'no/topic' })).code, 29);
  assert.equal((await reply(broker, PROPERTIES, { e: 9 })).code, 29);
  assert.equal((await reply(broker, PROPERTIES, { c: 'None', b: 'Unknown' })).code, 17);
  assert.equal(pushed.length, 0);
});
