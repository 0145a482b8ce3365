import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { readBrokerSettings } from '../../common/config/index.ts';
import { GantryError } from '../../common/index.ts';
import { readWhole, writeWhole } from '../../io/index.ts';
import { parseJson, RequestCode } from '../../remoting/index.ts';
import type { BrokerConfig } from '../broker-config.ts';
import { type Answer, BrokerFixture, FakeChannel, messageWith } from '../broker-fixture.test.support.ts';
import { RuntimeConfig } from '../runtime-config.ts';
import { registerProcessors } from './register.ts';

async function open(broker: Partial<BrokerConfig> = {}): Promise<BrokerFixture> {
  const fixture = await BrokerFixture.open({ broker });
  registerProcessors(fixture, fixture.context);
  return fixture;
}

const jsonOf = (answer: Answer): Record<string, unknown> => parseJson(answer.body) as Record<string, unknown>;

/** Puts `count` messages into a queue and waits until they can be pulled. */
async function fill(broker: BrokerFixture, topic: string, count: number, queueId = 0): Promise<void> {
  const { context } = broker;
  context.topics.createInSend(topic, 'TBW102', 'test', 4, 0);
  context.topics.persistIfChanged();
  for (let i = 0; i < count; i++) {
    const [body, properties] = [Buffer.from(`m${i}`), new Map([['TAGS', `t${i}`]])];
    await broker.put(messageWith({ topic, queueId, body, properties }));
    broker.clock.advance(1000);
  }
  await broker.dispatched();
}

function heartbeat(group: string, topic: string, clientID = 'c'): string {
  const subscription = { topic, subString: '*', subVersion: 1, expressionType: 'TAG', tagsSet: [], codeSet: [] };
  const consumer = {
    groupName: group,
    consumeType: 'CONSUME_PASSIVELY',
    messageModel: 'CLUSTERING',
    consumeFromWhere: 'CONSUME_FROM_LAST_OFFSET',
    subscriptionDataSet: [subscription],
  };
  return JSON.stringify({ clientID, consumerDataSet: [consumer], producerDataSet: [{ groupName: 'P' }] });
}

test('a heartbeat creates the retry topic and tells the name servers of it when it is saved', async () => {
  const broker = await open();
  const channel = new FakeChannel();
  const answer = await broker.ask(RequestCode.HEART_BEAT, {}, heartbeat('G', 'T'), channel);
  assert.deepEqual(answer.ext, { IS_SUPPORT_HEART_BEAT_V2: 'true', IS_SUB_CHANGE: 'true' });
  await broker.context.topics.durable('%RETRY%G');
  assert.deepEqual(broker.registered, ['%RETRY%G']);
  assert.equal(broker.context.topics.select('%RETRY%G')!.perm, 6);
  assert.deepEqual(channel.sent, [{ code: 40, ext: { consumerGroup: 'G' } }]);
  const list = await broker.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, { consumerGroup: 'G' });
  assert.deepEqual(jsonOf(list), { consumerIdList: ['c'] });
  assert.equal(broker.context.producers.findChannel('c'), channel);
  await broker.ask(
    RequestCode.UNREGISTER_CLIENT,
    { clientID: 'c', consumerGroup: 'G', producerGroup: 'P' },
    '',
    channel,
  );
  const none = await broker.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, { consumerGroup: 'G' });
  assert.deepEqual([none.code, none.remark], [1, 'no consumer for this group, G']);
});

test('a body that would hold up the loop while it is parsed is refused with its size and the limit', async () => {
  const broker = await open();
  const mib = 1024 * 1024;
  const limits: Array<[number, number]> = [
    [RequestCode.HEART_BEAT, mib],
    [RequestCode.CHECK_CLIENT_CONFIG, mib],
    [RequestCode.LOCK_BATCH_MQ, mib],
    [RequestCode.UNLOCK_BATCH_MQ, mib],
    [RequestCode.UPDATE_BROKER_CONFIG, mib],
    [RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, mib],
    [RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, 4 * mib],
    [RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, 4 * mib],
  ];
  for (const [code, limit] of limits) {
    const answer = await broker.ask(code, {}, ' '.repeat(limit + 1));
    assert.equal(answer.code, 1);
    assert.equal(answer.remark, `the body of request ${code} has ${limit + 1} bytes, the limit is ${limit}`);
    const within = await broker.ask(code, {}, ' '.repeat(limit));
    assert.doesNotMatch(within.remark ?? '', /the limit is/);
  }
});

test('a group that may not be created is passed over, its producers are not', async () => {
  const broker = await open({ autoCreateSubscriptionGroup: false });
  const answer = await broker.ask(RequestCode.HEART_BEAT, {}, heartbeat('G', 'T'));
  assert.equal(answer.code, 0);
  assert.equal(broker.context.consumers.find('G'), undefined);
  assert.ok(broker.context.producers.find('P'));
});

test('a heartbeat of the second version says whether the subscriptions have changed', async () => {
  const broker = await open();
  const channel = new FakeChannel();
  const beat = (fingerprint: number, withoutSub: boolean): Promise<Answer> => {
    const json = { ...JSON.parse(heartbeat('G', 'T')), heartbeatFingerprint: fingerprint, withoutSub };
    if (withoutSub) json.consumerDataSet[0].subscriptionDataSet = [];
    return broker.ask(RequestCode.HEART_BEAT, {}, JSON.stringify(json), channel);
  };
  assert.equal((await beat(5, false)).ext['IS_SUB_CHANGE'], 'false');
  assert.equal((await beat(5, true)).ext['IS_SUB_CHANGE'], 'false');
  assert.ok(broker.context.consumers.subscription('G', 'T'), 'a heartbeat without subscriptions keeps them');
  assert.equal((await beat(6, true)).ext['IS_SUB_CHANGE'], 'true');
});

test('the check of a subscription takes tags and refuses SQL92 with the reason', async () => {
  const broker = await open();
  const check = (expressionType: string | undefined): Promise<Answer> =>
    broker.ask(RequestCode.CHECK_CLIENT_CONFIG, {}, JSON.stringify({ subscriptionData: { expressionType } }));
  assert.equal((await check('TAG')).code, 0);
  assert.equal((await check(undefined)).code, 0);
  const refused = await check('SQL92');
  assert.deepEqual(
    [refused.code, refused.remark],
    [1, 'The broker does not support consumer to filter message by SQL92'],
  );
});

test('B59: where a new group begins: a young queue answers 0, unless the asker or a setting wants to know better', async () => {
  const ask = (broker: BrokerFixture, fields: Record<string, string> = {}): Promise<Answer> =>
    broker.ask(RequestCode.QUERY_CONSUMER_OFFSET, { consumerGroup: 'new', topic: 'T', queueId: 0, ...fields });
  const broker = await open();
  const empty = await ask(broker);
  assert.deepEqual(
    [empty.code, empty.remark],
    [22, 'Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first'],
    'an empty queue has no first message that could be recent',
  );
  await fill(broker, 'T', 10);
  assert.deepEqual((await ask(broker)).ext, { offset: '0' });
  assert.deepEqual((await ask(broker, { setZeroIfNotFound: 'true' })).ext, { offset: '0' });
  const asked = await ask(broker, { setZeroIfNotFound: 'false' });
  assert.deepEqual([asked.code, asked.remark], [22, 'Not found, do not set to zero, maybe this group boot first']);
  broker.context.config.gantryYoungQueueFromZero = false;
  assert.equal((await ask(broker)).code, 22);
});

test('offsets are committed for groups and topics that exist, and a pending reset wins', async () => {
  const broker = await open();
  await fill(broker, 'T', 10);
  const commit = (fields: Record<string, string | number>): Promise<Answer> =>
    broker.ask(RequestCode.UPDATE_CONSUMER_OFFSET, {
      consumerGroup: 'G',
      topic: 'T',
      queueId: 0,
      commitOffset: 4,
      ...fields,
    });
  assert.deepEqual((await commit({})).remark, 'Group G not exist!');
  broker.context.groups.findOrCreate('G');
  assert.equal((await commit({ topic: 'None' })).code, 17);
  assert.equal((await commit({})).code, 0);
  assert.equal(broker.context.offsets.query('G', 'T', 0), 4);

  const reset = await broker.ask(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, {
    topic: 'T',
    group: 'G',
    timestamp: -1,
    isForce: true,
    queueId: -1,
    offset: -1,
  });
  assert.equal(reset.code, 0);
  const table = parseJson(reset.body) as { offsetTable: Map<{ queueId: number }, number> };
  assert.deepEqual(
    [...table.offsetTable].map(([queue, offset]) => [queue.queueId, offset]),
    [
      [0, 10],
      [1, 0],
      [2, 0],
      [3, 0],
    ],
  );
  assert.deepEqual([(await commit({})).code, (await commit({})).remark], [0, 'Offset has been previously reset']);
  const query = { consumerGroup: 'G', topic: 'T', queueId: 0 };
  assert.equal((await broker.ask(RequestCode.QUERY_CONSUMER_OFFSET, query)).ext['offset'], '10');
});

test('a reset of one queue takes a number inside it, a time, or nothing else', async () => {
  const broker = await open();
  await fill(broker, 'T', 10);
  broker.context.groups.findOrCreate('G');
  const start = broker.clock.now() - 10_000;
  const reset = async (fields: Record<string, string | number>): Promise<[number, string | null, number]> => {
    const base = { topic: 'T', group: 'G', timestamp: 0, isForce: true, queueId: 0 };
    const answer = await broker.ask(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, { ...base, ...fields });
    return [answer.code, answer.remark, broker.context.offsets.query('G', 'T', 0)];
  };
  assert.deepEqual(await reset({ offset: 7 }), [0, null, 7]);
  assert.deepEqual(await reset({ timestamp: start + 3000 }), [0, null, 3]);
  assert.deepEqual(await reset({ offset: 12 }), [1, 'Target offset 12 not in consume queue range [0-10]', 3]);
  assert.equal((await reset({ topic: 'None' }))[0], 17);
  assert.equal((await reset({ group: 'None' }))[0], 26);
});

test('B78: delete a group, get it back: deleted stays deleted, and a question creates nothing', async () => {
  const broker = await open();
  broker.context.groups.findOrCreate('G');
  broker.context.offsets.commit('c', 'G', 'T', 0, 1);
  await broker.ask(RequestCode.DELETE_SUBSCRIPTIONGROUP, { groupName: 'G', cleanOffset: false });
  assert.equal(broker.context.groups.has('G'), false);
  assert.equal(broker.context.offsets.query('G', 'T', 0), 1);
  await broker.ask(RequestCode.DELETE_SUBSCRIPTIONGROUP, { groupName: 'G', cleanOffset: true });
  assert.equal(broker.context.offsets.query('G', 'T', 0), -1);
  const asked = await broker.ask(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, { group: 'G' });
  assert.deepEqual([asked.code, asked.remark], [26, 'No group in this broker']);
  for (const code of [RequestCode.GET_CONSUME_STATS, RequestCode.GET_CONSUMER_CONNECTION_LIST]) {
    await broker.ask(code, { consumerGroup: 'G' });
  }
  assert.equal(broker.context.groups.has('G'), false);
});

test('topics: create, refuse, show, delete with what depends on them', async () => {
  const broker = await open();
  const create = (fields: Record<string, string | number>): Promise<Answer> =>
    broker.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, {
      topic: 'T',
      defaultTopic: 'TBW102',
      readQueueNums: 2,
      writeQueueNums: 2,
      perm: 6,
      topicFilterType: 'SINGLE_TAG',
      order: 'false',
      ...fields,
    });
  assert.equal((await create({ attributes: '+message.type=FIFO' })).code, 0);
  assert.deepEqual(broker.registered, ['T']);
  await create({ topic: 'U' });
  await create({ topic: 'U' });
  assert.deepEqual(broker.registered, ['T', 'U'], 'the same again is no change');
  assert.equal((await create({ topic: 'TBW102' })).code, 29);
  assert.deepEqual(
    [(await create({ attributes: '+message.type=MIXED' })).code, (await create({ attributes: '+a.b=1' })).remark],
    [29, 'unsupported key: a.b'],
  );
  assert.equal((await create({ topicFilterType: 'NONE' })).code, 1);
  assert.equal((await create({ readQueueNums: 'many' })).code, 1);

  await fill(broker, 'T', 3);
  broker.context.topics.createInSendBack('%RETRY%G_T', 1, 6, false, 0);
  broker.context.topics.persistIfChanged();
  broker.context.offsets.commit('c', 'G', 'T', 0, 3);
  const stats = await broker.ask(RequestCode.GET_TOPIC_STATS_INFO, { topic: 'T' });
  assert.match(
    Buffer.from(stats.body).toString(),
    /\{\{"brokerName":"broker-a","queueId":0,"topic":"T"\}:\{"lastUpdateTimestamp":\d+,"maxOffset":3,"minOffset":0\}/,
  );
  assert.equal((await broker.ask(RequestCode.DELETE_TOPIC_IN_BROKER, { topic: 'T' })).code, 0);
  for (const topic of ['T', '%RETRY%G_T']) assert.equal(broker.context.topics.has(topic), false);
  assert.equal(broker.context.offsets.query('G', 'T', 0), -1);
  assert.equal(broker.context.store.maxOffsetInQueue('T', 0), 0);
  assert.equal(
    (await broker.ask(RequestCode.DELETE_TOPIC_IN_BROKER, { topic: 'T' })).code,
    0,
    'a missing topic is fine',
  );
  assert.equal((await broker.ask(RequestCode.DELETE_TOPIC_IN_BROKER, { topic: 'BenchmarkTest' })).code, 29);
});

test('pages of topics begin anew when the table has changed', async () => {
  const broker = await open();
  const page = async (fields: Record<string, string | number>): Promise<string[]> => {
    const answer = await broker.ask(RequestCode.GET_ALL_TOPIC_CONFIG, fields);
    assert.equal(answer.ext['totalTopicNum'], String(broker.context.topics.size));
    return Object.keys((jsonOf(answer) as { topicConfigTable: object }).topicConfigTable);
  };
  const version = JSON.stringify(broker.context.topics.dataVersion.fields());
  const first = await page({ topicSeq: 0, maxTopicNum: 3, dataVersion: '' });
  const second = await page({ topicSeq: 3, maxTopicNum: 3, dataVersion: version });
  assert.equal(new Set([...first, ...second]).size, 6);
  assert.deepEqual(await page({ topicSeq: 3, maxTopicNum: 3, dataVersion: '' }), first);
  assert.equal((await page({})).length, broker.context.topics.size);
});

test('consume stats: where a group stands, with queues as raw object keys', async () => {
  const broker = await open();
  await fill(broker, 'T', 10);
  broker.context.groups.findOrCreate('G');
  broker.context.offsets.commit('c', 'G', 'T', 0, 4);
  broker.context.offsets.commitPull('G', 'T', 0, 6);
  const text = Buffer.from((await broker.ask(RequestCode.GET_CONSUME_STATS, { consumerGroup: 'G' })).body).toString();
  assert.match(
    text,
    /\{\{"brokerName":"broker-a","queueId":0,"topic":"T"\}:\{"brokerOffset":10,"consumerOffset":4,"lastTimestamp":\d{13},"pullOffset":6\}/,
  );
  const unknown = await broker.ask(RequestCode.GET_CONSUME_STATS, { consumerGroup: 'None' });
  assert.deepEqual([unknown.code, Buffer.from(unknown.body).toString()], [0, '{"consumeTps":0,"offsetTable":{}}']);
  const all = jsonOf(await broker.ask(RequestCode.GET_BROKER_CONSUME_STATS, { isOrder: false }));
  assert.deepEqual([all['totalDiff'], all['totalInflightDiff']], [6, 2]);
});

test('time span, clone and correction of offsets', async () => {
  const broker = await open();
  await fill(broker, 'T', 10);
  const { offsets, topics } = broker.context;
  offsets.commit('c', 'G', 'T', 0, 4);
  const span = jsonOf(await broker.ask(RequestCode.QUERY_CONSUME_TIME_SPAN, { topic: 'T', group: 'G' })) as {
    consumeTimeSpanSet: Array<Record<string, number>>;
  };
  const [first] = span.consumeTimeSpanSet;
  assert.equal(first!['consumeTimeStamp']! - first!['minTimeStamp']!, 3000);
  assert.equal(first!['maxTimeStamp']! - first!['minTimeStamp']!, 9000);
  assert.equal(first!['delayTime'], 6000);
  await broker.ask(RequestCode.CLONE_GROUP_OFFSET, { srcGroup: 'G', destGroup: 'H', topic: 'T', offline: true });
  assert.equal(offsets.query('H', 'T', 0), 4);
  offsets.commit('c', 'H', 'T', 0, 2);
  const correction = await broker.ask(RequestCode.QUERY_CORRECTION_OFFSET, { compareGroup: 'G', topic: 'T' });
  assert.equal(Buffer.from(correction.body).toString(), '{"correctionOffsets":{"0":2}}');
  assert.ok(topics.has('T'));
});

test('questions to a client are passed on, with answers, silence and absence', async () => {
  const broker = await open();
  const channel = new FakeChannel();
  await broker.ask(RequestCode.HEART_BEAT, {}, heartbeat('G', 'T'), channel);
  const ask = (clientId: string): Promise<Answer> =>
    broker.ask(RequestCode.GET_CONSUMER_RUNNING_INFO, { consumerGroup: 'G', clientId, jstackEnable: false });
  channel.answer = (code, ext) =>
    Promise.resolve({
      code: 0,
      remark: `${code} ${ext['clientId']}`,
      ext: {},
      body: Buffer.from('raw {{}:1}'),
      version: 1,
    });
  const told = await ask('c');
  assert.deepEqual([told.code, told.remark, Buffer.from(told.body).toString()], [0, '307 c', 'raw {{}:1}']);
  const absent = await ask('d');
  assert.deepEqual([absent.code, absent.remark], [1, 'The Consumer <G> <d> not online']);
  channel.answer = () => Promise.reject(new GantryError('REMOTING_TIMEOUT', 'no answer within 10000 ms'));
  assert.equal((await ask('c')).code, 207);
  channel.answer = () => Promise.reject(new GantryError('REMOTING_CLOSED', 'the connection was closed'));
  assert.equal((await ask('c')).code, 1);
});

test('one message is handed to a client to consume it', async () => {
  const broker = await open();
  await fill(broker, 'T', 1);
  const channel = new FakeChannel();
  await broker.ask(RequestCode.HEART_BEAT, {}, heartbeat('G', 'T'), channel);
  let asked: { ext: object; bytes: number } | undefined;
  channel.answer = (_code, ext, body) => {
    asked = { ext, bytes: body!.length };
    return Promise.resolve({ code: 0, remark: undefined, ext: {}, body: Buffer.from('{}'), version: 1 });
  };
  const msgId = `7F00000100002A9F${'0'.repeat(16)}`;
  const fields = { consumerGroup: 'G', clientId: 'c', msgId, topic: 'T' };
  assert.equal((await broker.ask(RequestCode.CONSUME_MESSAGE_DIRECTLY, fields)).code, 0);
  assert.deepEqual(asked!.ext, { ...fields, brokerName: 'broker-a', topicSysFlag: 0, groupSysFlag: 0 });
  assert.ok(asked!.bytes > 91);
});

test('a message is handed over by either kind of id, and one that is not there is no error of another kind', async () => {
  const broker = await open();
  await fill(broker, 'T', 1);
  const uniqKey = 'AC1100010001755A8FB46AA31A340000';
  await broker.put(messageWith({ body: Buffer.from('wanted'), properties: new Map([['UNIQ_KEY', uniqKey]]) }));
  await setImmediate();
  const channel = new FakeChannel();
  await broker.ask(RequestCode.HEART_BEAT, {}, heartbeat('G', 'T'), channel);
  let handed = '';
  channel.answer = (_code, _ext, body) => {
    handed = Buffer.from(body!).toString('latin1');
    return Promise.resolve({ code: 0, remark: undefined, ext: {}, body: Buffer.from('{}'), version: 1 });
  };
  const direct = (msgId: string): Promise<Answer> =>
    broker.ask(RequestCode.CONSUME_MESSAGE_DIRECTLY, { consumerGroup: 'G', clientId: 'c', msgId, topic: 'T' });
  assert.equal((await direct(uniqKey)).code, 0);
  assert.ok(handed.includes('wanted'));
  for (const msgId of ['x', `7F00000100002A9F${'0'.repeat(12)}FFFF`, `7F00000100002A9F${'F'.repeat(16)}`]) {
    const none = await direct(msgId);
    assert.deepEqual([none.code, none.remark], [1, `can not find message by the id, ${msgId}`]);
  }
});

test('the units of a queue', async () => {
  const broker = await open();
  await fill(broker, 'T', 3);
  const query = (fields: Record<string, string | number>): Promise<Answer> =>
    broker.ask(RequestCode.QUERY_CONSUME_QUEUE, { topic: 'T', queueId: 0, index: 1, count: 5, ...fields });
  const body = jsonOf(await query({})) as { queueData: Array<Record<string, number>>; maxQueueIndex: number };
  assert.equal(body.maxQueueIndex, 3);
  assert.deepEqual(
    body.queueData.map((unit) => unit['tagsCode']),
    [3645, 3646],
  );
  assert.equal((await query({ queueId: 9 })).remark, '9@T is not exist!');
  assert.deepEqual((jsonOf(await query({ index: 7 })) as { queueData: object[] }).queueData, []);
});

test('unused topics are cleaned, those of the broker are not', async () => {
  const broker = await open();
  await fill(broker, 'T', 2);
  await fill(broker, 'SCHEDULE_TOPIC_XXXX', 1);
  broker.context.topics.delete('T');
  await broker.ask(RequestCode.CLEAN_UNUSED_TOPIC);
  assert.equal(broker.context.store.maxOffsetInQueue('T', 0), 0);
  assert.equal(broker.context.store.maxOffsetInQueue('SCHEDULE_TOPIC_XXXX', 0), 1);
});

test('settings: shown, changed in memory and in their file, refused', async () => {
  const broker = await open();
  const { fs, clock, logger, context } = broker;
  const file = '# mine\nbrokerName = broker-a\n\ntraceOn=true\n';
  writeWhole(fs, '/store/broker.conf', file, true);
  const settings = readBrokerSettings({ file: { path: '/store/broker.conf', text: file } });
  const runtime = new RuntimeConfig({
    fs,
    logger,
    nowMs: clock.now(),
    settings,
    tables: [context.config],
    blackList: 'configBlackList',
  });
  const read = (): string => Buffer.from(readWhole(fs, '/store/broker.conf')!).toString();
  assert.match(runtime.text(), /^brokerName=broker-a$/m);
  const update = (text: string): string[] => runtime.update(Buffer.from(text), 'test', clock.now());
  assert.deepEqual(update('autoCreateTopicEnable=false'), ['autoCreateTopicEnable']);
  assert.equal(context.config.autoCreateTopicEnable, false);
  assert.equal(read(), `${file}autoCreateTopicEnable=false\n`);
  const before = read();
  for (const [text, responseCode] of [
    ['configBlackList=x', 16],
    ['brokerName=other', 16],
    ['noSuchSetting=1', 1],
    ['autoCreateTopicEnable=maybe', 1],
    ['autoCreateTopicEnable=true\nnoSuchSetting=1', 1],
  ] as const) {
    assert.throws(() => update(text), { responseCode }, text);
  }
  assert.equal(read(), before);
  assert.equal(context.config.autoCreateTopicEnable, false, 'all or none');
  assert.equal(runtime.dataVersion.counter, 1);
  const shown = await broker.ask(RequestCode.GET_BROKER_CONFIG);
  assert.match(Buffer.from(shown.body).toString(), /^flushDiskType=ASYNC_FLUSH$/m);
  assert.match(shown.ext['version']!, /^\{"counter":0,/);
});
