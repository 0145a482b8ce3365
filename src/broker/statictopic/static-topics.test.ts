// Static topics on two brokers: the logic queue 0 begins on broker-a and moves on to broker-b; both reach each other by their requests.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { decodeMessages } from '../../message/index.ts';
import { type ExtFields, parseJson, RequestCode, ResponseCode } from '../../remoting/index.ts';
import type { BrokerConfig } from '../broker-config.ts';
import { type Answer, BrokerFixture, FakeChannel } from '../broker-fixture.test.support.ts';
import { SendDeduplication } from '../dedup/send-deduplication.ts';
import { PullRequestHold } from '../longpolling/pull-request-hold.ts';
import { PullMessageProcessor } from '../processor/pull-message.ts';
import { registerProcessors } from '../processor/register.ts';
import { Sender, sendHeader } from '../processor/sender.test.support.ts';

type Fields = Record<string, string | number | boolean>;

const { NOT_LEADER_FOR_QUEUE, PULL_NOT_FOUND, PULL_OFFSET_MOVED, PULL_RETRY_IMMEDIATELY } = ResponseCode;

class Brokers {
  readonly names = new Map<string, BrokerFixture>();
  readonly asked: number[] = [];
  /** Answers the route of a topic, for name servers. */
  route: object = {};
  readonly #turns = new Map<BrokerFixture, () => void>();

  static async open(config: Partial<BrokerConfig> = {}): Promise<Brokers> {
    const brokers = new Brokers();
    for (const name of ['broker-a', 'broker-b', 'broker-c']) await brokers.#add(name, config);
    return brokers;
  }

  async #add(name: string, config: Partial<BrokerConfig>): Promise<void> {
    const broker = await BrokerFixture.open({
      broker: { ...config, brokerName: name },
      reach: {
        invoke: (address, code, ext, body) => this.#invoke(address, code, ext, body),
        nameServers: () => ['ns'],
      },
    });
    const { context } = broker;
    registerProcessors(broker, context);
    const sender = new Sender(broker, await SendDeduplication.open(context));
    new PullMessageProcessor(context, new PullRequestHold(context.clock, context.store)).register(broker);
    this.names.set(name, broker);
    this.#turns.set(broker, () => sender.endTurn());
  }

  async #invoke(address: string, code: number, ext: ExtFields, body: Uint8Array | null) {
    if (address === 'ns') {
      const brokerAddrTable = Object.fromEntries(
        [...this.names.keys()].map((name) => [name, { brokerAddrs: { 0: name } }]),
      );
      const answer = code === RequestCode.GET_BROKER_CLUSTER_INFO ? { brokerAddrTable } : this.route;
      return { code: 0, remark: undefined, ext: {}, body: Buffer.from(JSON.stringify(answer)), version: 513 };
    }
    this.asked.push(code);
    const answer = await this.ask(address, code, ext as Fields, body ?? '');
    return { ...answer, remark: answer.remark ?? undefined, version: 513 };
  }

  ask(name: string, code: number, fields: Fields, body: string | Uint8Array = ''): Promise<Answer> {
    const answer = this.names.get(name)!.ask(code, fields, body, new FakeChannel());
    this.#turns.get(this.names.get(name)!)!();
    return answer;
  }

  async map(name: string, epoch: number, hosted: Record<number, object[]>, fields: Fields = {}): Promise<Answer> {
    const header = { defaultTopic: 'TBW102', perm: 6, topicFilterType: 'SINGLE_TAG', order: false, force: false };
    const detail = { topic: 'T', bname: name, epoch, totalQueues: 2, scope: '__global__', hostedQueues: hosted };
    return await this.ask(
      name,
      RequestCode.UPDATE_AND_CREATE_STATIC_TOPIC,
      { topic: 'T', readQueueNums: 2, writeQueueNums: 2, ...header, ...fields },
      JSON.stringify(detail),
    );
  }

  async send(name: string, queueId: number, fields: Fields = {}, body: string | Uint8Array = 'x'): Promise<Answer> {
    const answer = await this.ask(name, RequestCode.SEND_MESSAGE_V2, sendHeader({ e: queueId, ...fields }), body);
    await this.names.get(name)!.dispatched();
    return answer;
  }

  pull(name: string, queueId: number, offset: number, fields: Fields = {}): Promise<Answer> {
    return this.ask(name, RequestCode.PULL_MESSAGE, {
      consumerGroup: 'G',
      topic: 'T',
      queueId,
      queueOffset: offset,
      maxMsgNums: 32,
      sysFlag: 4,
      commitOffset: 0,
      suspendTimeoutMillis: 0,
      subscription: '*',
      subVersion: 1,
      expressionType: 'TAG',
      ...fields,
    });
  }

  async offset(name: string, code: number, fields: Fields = {}): Promise<number | string> {
    const answer = await this.ask(name, code, { topic: 'T', queueId: 0, ...fields });
    return answer.code === 0 ? Number(answer.ext['offset']) : `${answer.code} ${answer.remark}`;
  }
}

const A0 = { gen: 0, bname: 'broker-a', queueId: 1, logicOffset: 0 };
const C2 = { gen: 2, bname: 'broker-c', queueId: 0, logicOffset: 20_000 };
const B1 = { gen: 1, bname: 'broker-b', queueId: 0, logicOffset: 10_000 };

/** Five messages on broker-a; then queue 0 moves to broker-b, and three more come there. */
async function moved(): Promise<Brokers> {
  const brokers = await Brokers.open();
  await brokers.map('broker-a', 1, { 0: [A0] });
  await brokers.map('broker-b', 1, {});
  for (let i = 0; i < 5; i++) await brokers.send('broker-a', 0, {}, `a${i}`);
  const places = { 0: [{ ...A0, endOffset: 5 }, B1] };
  for (const name of ['broker-a', 'broker-b']) {
    const answer = await brokers.map(name, 2, places);
    assert.equal(answer.code, 0, answer.remark ?? '');
  }
  for (let i = 0; i < 3; i++) await brokers.send('broker-b', 0, {}, `b${i}`);
  return brokers;
}

test('a send to a logic queue is stored in its physical one and answered with the logic place', async () => {
  const brokers = await Brokers.open();
  const made = await brokers.map('broker-a', 1, {
    0: [A0],
    3: [{ gen: 0, bname: 'broker-a', queueId: 0, logicOffset: -1 }],
  });
  assert.deepEqual([made.code, made.remark], [0, 'not set any response code']);
  const { context, registered } = brokers.names.get('broker-a')!;
  assert.deepEqual(registered, ['T']);
  for (const offset of ['0', '1']) {
    const { ext } = await brokers.send('broker-a', 0);
    assert.deepEqual([ext['queueId'], ext['queueOffset']], ['0', offset]);
  }
  // Without a beginning there is no logic offset yet.
  assert.equal((await brokers.send('broker-a', 3)).ext['queueOffset'], '-1');
  const any = await brokers.send('broker-a', -1);
  assert.deepEqual([any.ext['queueId'], any.ext['queueOffset']], ['0', '2']);
  const unknown = await brokers.send('broker-a', 1);
  assert.deepEqual(
    [unknown.code, unknown.remark],
    [NOT_LEADER_FOR_QUEUE, 'T-1 does not exit in request process of current broker broker-a'],
  );
  // A request that says so means the physical queue.
  assert.equal((await brokers.send('broker-a', 1, { lo: false })).ext['queueOffset'], '3');
  assert.equal(context.store.maxOffsetInQueue('T', 1), 4);
  assert.equal(context.store.maxOffsetInQueue('T', 0), 1);
  const late = await brokers.send('broker-a', 0, { i: 'TIMER_DELAY_SEC\u0001x' });
  assert.equal(late.code, 13, late.remark ?? '');
});

test('a batch to a static topic is answered with the logic place of its first message', async () => {
  const brokers = await Brokers.open();
  await brokers.map('broker-b', 1, { 0: [B1] });
  const member = Buffer.alloc(23);
  member.writeInt32BE(23, 0);
  member.writeInt32BE(1, 16);
  member.write('x', 20);
  const batch = Buffer.concat([member, member]);
  const header = { m: true, i: 'UNIQ_KEY\u0001K' };
  for (const offset of ['10000', '10002']) {
    const { code, remark, ext } = await brokers.send('broker-b', 0, header, batch);
    assert.equal(code, 0, remark ?? '');
    assert.deepEqual([ext['queueId'], ext['queueOffset'], ext['transactionId']], ['0', offset, 'K']);
  }
});

test('a message that is sent twice to a static topic has the logic place of the first one', async () => {
  const brokers = await Brokers.open({ gantrySendDeduplicationEnable: true });
  await brokers.map('broker-b', 1, { 0: [B1] });
  for (let tried = 0; tried < 2; tried++) {
    for (const [key, offset] of [
      ['K', '10000'],
      ['L', '10001'],
    ]) {
      const { ext } = await brokers.send('broker-b', 0, { i: `UNIQ_KEY\u0001${key}` });
      assert.deepEqual([ext['queueId'], ext['queueOffset']], ['0', offset]);
    }
  }
});

test('only the leader of a logic queue takes sends and answers, in the words of Java', async () => {
  const brokers = await moved();
  const text = 'T-0 does not exit in request process of current broker broker-a';
  const sent = await brokers.send('broker-a', 0);
  assert.deepEqual([sent.code, sent.remark], [NOT_LEADER_FOR_QUEUE, text]);
  const pulled = await brokers.pull('broker-a', 0, 0);
  const pullText = 'T-0 cannot find mapping item in request process of current broker broker-a';
  assert.deepEqual([pulled.code, pulled.remark], [NOT_LEADER_FOR_QUEUE, pullText]);
  const { GET_MAX_OFFSET, GET_MIN_OFFSET, SEARCH_OFFSET_BY_TIMESTAMP, GET_EARLIEST_MSG_STORETIME } = RequestCode;
  const { QUERY_CONSUMER_OFFSET, UPDATE_CONSUMER_OFFSET } = RequestCode;
  const fields = { consumerGroup: 'G', timestamp: 0, commitOffset: 1 };
  for (const code of [GET_MAX_OFFSET, GET_MIN_OFFSET, SEARCH_OFFSET_BY_TIMESTAMP, GET_EARLIEST_MSG_STORETIME]) {
    assert.equal(await brokers.offset('broker-a', code, fields), `${NOT_LEADER_FOR_QUEUE} ${text}`);
  }
  for (const code of [QUERY_CONSUMER_OFFSET, UPDATE_CONSUMER_OFFSET]) {
    assert.equal(await brokers.offset('broker-a', code, fields), `${NOT_LEADER_FOR_QUEUE} ${text}`);
  }
});

test('a queue that moved is read from its first message to its last, place by place', async () => {
  const brokers = await moved();
  const bodies: string[] = [];
  const codes: number[] = [];
  let offset = 0;
  while (codes.at(-1) !== PULL_NOT_FOUND && codes.length < 9) {
    const answer = await brokers.pull('broker-b', 0, offset, { maxMsgNums: 3 });
    codes.push(answer.code);
    for (const message of decodeMessages(answer.body)) {
      assert.equal(
        message.queueOffset + Number(answer.ext['offsetDelta']),
        bodies.length < 5 ? bodies.length : 9995 + bodies.length,
      );
      bodies.push(Buffer.from(message.body).toString());
    }
    offset = Number(answer.ext['nextBeginOffset']);
  }
  assert.deepEqual(bodies, ['a0', 'a1', 'a2', 'a3', 'a4', 'b0', 'b1', 'b2']);
  // Two pulls from broker-a, the end of that place, one from broker-b, the end.
  assert.deepEqual(codes, [0, 0, PULL_RETRY_IMMEDIATELY, 0, PULL_NOT_FOUND]);
  assert.equal(offset, 10_003);
  assert.deepEqual(brokers.asked, [RequestCode.PULL_MESSAGE, RequestCode.PULL_MESSAGE, RequestCode.PULL_MESSAGE]);
  const beyond = await brokers.pull('broker-b', 0, 20_000);
  assert.deepEqual([beyond.code, beyond.ext['nextBeginOffset']], [PULL_OFFSET_MOVED, '10003']);
  const first = await brokers.pull('broker-b', 0, 0);
  assert.deepEqual([first.ext['minOffset'], first.ext['maxOffset']], ['0', '10000']);
});

test('messages that came into a place while its end was decided are handed out once, and then those of the next place', async () => {
  const brokers = await moved();
  for (let i = 0; i < 2; i++) await brokers.send('broker-a', 1, { lo: false }, `late${i}`);
  for (const maxMsgNums of [32, 3]) {
    const bodies: string[] = [];
    let offset = 0;
    for (let i = 0; i < 12 && offset < 10_003; i++) {
      const answer = await brokers.pull('broker-b', 0, offset, { maxMsgNums });
      for (const message of decodeMessages(answer.body)) bodies.push(Buffer.from(message.body).toString());
      offset = Number(answer.ext['nextBeginOffset']);
    }
    assert.deepEqual(bodies, ['a0', 'a1', 'a2', 'a3', 'a4', 'late0', 'late1', 'b0', 'b1', 'b2']);
  }
});

test('a pull at the end of a place whose next one is not decided is answered after a moment, and sent on when it is', async () => {
  const brokers = await moved();
  await brokers.map('broker-b', 3, {
    0: [
      { ...A0, endOffset: 5 },
      { ...B1, endOffset: 3 },
      { ...C2, logicOffset: -1 },
    ],
  });
  await brokers.map('broker-c', 3, {
    0: [
      { ...A0, endOffset: 5 },
      { ...B1, endOffset: 3 },
      { ...C2, logicOffset: -1 },
    ],
  });
  const { clock } = brokers.names.get('broker-c')!;
  let answered: Answer | undefined;
  const pulled = brokers.pull('broker-c', 0, 10_003, { sysFlag: 6, suspendTimeoutMillis: 15_000 }).then((answer) => {
    answered = answer;
  });
  for (let turn = 0; turn < 20; turn++) await setImmediate();
  assert.equal(answered, undefined);
  clock.advance(1_000);
  await pulled;
  assert.equal(answered!.code, PULL_NOT_FOUND);
  // Until then its end is what is known, and a group may be there.
  assert.equal(await brokers.offset('broker-c', RequestCode.GET_MAX_OFFSET), 10_003);
  await brokers.map('broker-c', 3, { 0: [{ ...A0, endOffset: 5 }, { ...B1, endOffset: 3 }, C2] });
  const onward = await brokers.pull('broker-c', 0, 10_003);
  assert.deepEqual([onward.code, onward.ext['nextBeginOffset']], [PULL_RETRY_IMMEDIATELY, '20000']);
});

test('offsets of a queue that moved: beginning, end, time, and where a group stands', async () => {
  const brokers = await moved();
  const { GET_MAX_OFFSET, GET_MIN_OFFSET, SEARCH_OFFSET_BY_TIMESTAMP, GET_EARLIEST_MSG_STORETIME } = RequestCode;
  const { QUERY_CONSUMER_OFFSET, UPDATE_CONSUMER_OFFSET } = RequestCode;
  assert.equal(await brokers.offset('broker-b', GET_MIN_OFFSET), 0);
  assert.equal(await brokers.offset('broker-b', GET_MAX_OFFSET), 10_003);
  assert.equal(await brokers.offset('broker-b', SEARCH_OFFSET_BY_TIMESTAMP, { timestamp: 0 }), 0);
  assert.equal(await brokers.offset('broker-b', SEARCH_OFFSET_BY_TIMESTAMP, { timestamp: 9e15 }), 10_003);
  const earliest = await brokers.ask('broker-b', GET_EARLIEST_MSG_STORETIME, { topic: 'T', queueId: 0 });
  assert.equal(earliest.ext['timestamp'], String(brokers.names.get('broker-a')!.clock.now()));

  for (const name of ['broker-a', 'broker-b']) brokers.names.get(name)!.context.groups.findOrCreate('G');
  const where = (): Promise<number | string> =>
    brokers.offset('broker-b', QUERY_CONSUMER_OFFSET, { consumerGroup: 'G' });
  assert.equal(await where(), `${ResponseCode.QUERY_NOT_FOUND} Not found, maybe this group consumer boot first`);
  for (const commitOffset of [4, 10_002]) {
    const fields = { topic: 'T', queueId: 0, consumerGroup: 'G', commitOffset };
    const done = await brokers.ask('broker-b', UPDATE_CONSUMER_OFFSET, fields);
    assert.equal(done.code, 0, done.remark ?? '');
    assert.equal(await where(), commitOffset);
  }
  const ofA = brokers.names.get('broker-a')!.context.offsets;
  const ofB = brokers.names.get('broker-b')!.context.offsets;
  assert.deepEqual([ofA.query('G', 'T', 1), ofB.query('G', 'T', 0)], [4, 2]);
  // An offset that a pull brings along is one of the logic queue, too.
  await brokers.pull('broker-b', 0, 10_003, { sysFlag: 5, commitOffset: 10_003 });
  assert.equal(ofB.query('G', 'T', 0), 3);
  const stats = Buffer.from(
    (await brokers.ask('broker-b', RequestCode.GET_CONSUME_STATS, { consumerGroup: 'G' })).body,
  );
  assert.match(stats.toString(), /"queueId":1,"topic":"T"\}:\{"brokerOffset":0,"consumerOffset":-1/);
});

test('a broker that does not answer is an error of the request and of no other', async () => {
  const brokers = await moved();
  brokers.names.delete('broker-a');
  const old = await brokers.pull('broker-b', 0, 0);
  assert.equal(old.code, ResponseCode.SYSTEM_ERROR);
  assert.match(old.remark ?? '', /broker-a/);
  assert.equal((await brokers.pull('broker-b', 0, 10_000)).code, 0);
  assert.match(String(await brokers.offset('broker-b', RequestCode.GET_MIN_OFFSET)), /^1 /);
  assert.equal(await brokers.offset('broker-b', RequestCode.GET_MAX_OFFSET), 10_003);
});

test('a mapping that is refused leaves topic and mapping as they were; topics and mappings are shown together', async () => {
  const brokers = await moved();
  const { context } = brokers.names.get('broker-b')!;
  const refused = async (answer: Promise<Answer>, code: number, text: RegExp): Promise<void> => {
    const { code: got, remark } = await answer;
    assert.equal(got, code, remark ?? '');
    assert.match(remark ?? '', text);
    assert.equal(context.topics.select('T')!.writeQueueNums, 2);
  };
  const more = { writeQueueNums: 9, readQueueNums: 9 };
  await refused(brokers.map('broker-b', 1, {}, more), 1, /small epoch 1 < 2/);
  await refused(brokers.map('broker-b', 3, { 0: [{ ...B1, queueId: -1 }] }, more), 1, /should not be negative/);
  await refused(brokers.map('broker-b', 3, {}, { ...more, topic: 'U' }), 1, /is of the topic T, not of U/);
  await refused(brokers.map('broker-b', 3, {}, { ...more, topic: 'TBW102' }), 29, /is conflict with system topic/);
  await refused(brokers.map('broker-b', 3, {}, { writeQueueNums: -1 }), 29, /writeQueueNums is -1/);
  const raw = (body: string): Promise<Answer> => {
    const header = { topic: 'T', defaultTopic: 'TBW102', perm: 6, topicFilterType: 'SINGLE_TAG', ...more };
    return brokers.ask('broker-b', RequestCode.UPDATE_AND_CREATE_STATIC_TOPIC, header, body);
  };
  for (const body of ['{', '[1]', '"x"', '{"topic":"T","hostedQueues":[]}', '{"topic":"T","hostedQueues":{"a":[]}}']) {
    await refused(raw(body), 1, /./);
  }

  const shown = await brokers.ask('broker-b', RequestCode.GET_TOPIC_CONFIG, { topic: 'T', lo: true });
  const config = parseJson(shown.body) as { mappingDetail: { hostedQueues: Record<number, object[]> } };
  assert.equal(config.mappingDetail.hostedQueues[0]!.length, 2);
  const plain = await brokers.ask('broker-b', RequestCode.GET_TOPIC_CONFIG, { topic: 'T' });
  assert.ok(!Buffer.from(plain.body).toString().includes('mappingDetail'));
  const all = parseJson((await brokers.ask('broker-b', RequestCode.GET_ALL_TOPIC_CONFIG, {})).body) as {
    topicQueueMappingDetailMap: Record<string, { epoch: number }>;
  };
  assert.equal(all.topicQueueMappingDetailMap['T']!.epoch, 2);
  assert.equal((await brokers.ask('broker-b', RequestCode.DELETE_TOPIC_IN_BROKER, { topic: 'T' })).code, 0);
  assert.equal(context.mappings.size, 0);
});

test('places without messages go, and so does what has moved on twice; without an answer all stays', async () => {
  const brokers = await moved();
  const { context } = brokers.names.get('broker-b')!;
  await context.mappingCleaner.clean();
  assert.equal(context.mappings.find('T')!.hostedQueues.get(0)!.length, 2);
  const places = [
    { ...A0, endOffset: 5 },
    { ...B1, endOffset: 3 },
    { gen: 2, bname: 'broker-c', queueId: 0, logicOffset: 20_000 },
  ];
  for (const name of ['broker-b', 'broker-c']) assert.equal((await brokers.map(name, 3, { 0: places })).code, 0);
  // broker-a has not heard of broker-c, but of the epoch.
  assert.equal((await brokers.map('broker-a', 3, {})).code, 0);
  const ofA = brokers.names.get('broker-a')!.context;
  const ofC = brokers.names.get('broker-c')!.context;
  const info = (bname: string, epoch: number, currIdMap: object) => ({ bname, epoch, currIdMap, totalQueues: 2 });
  brokers.route = { topicQueueMappingByBroker: { 'broker-b': info('broker-b', 2, { 0: 0 }) } };
  await ofA.mappingCleaner.clean();
  assert.ok(ofA.mappings.find('T')!.hostedQueues.has(0), 'the route names the same broker');
  brokers.route = {
    topicQueueMappingByBroker: {
      'broker-b': info('broker-b', 2, { 0: 0 }),
      'broker-c': info('broker-c', 3, { 0: 0 }),
    },
  };
  await ofA.mappingCleaner.clean();
  assert.ok(!ofA.mappings.find('T')!.hostedQueues.has(0));
  assert.equal(ofC.mappings.find('T')!.hostedQueues.get(0)!.length, 3);
  // The messages of the first place are gone with their queue.
  await ofA.store.deleteTopics(['T']);
  await ofC.mappingCleaner.clean();
  assert.deepEqual(
    ofC.mappings
      .find('T')!
      .hostedQueues.get(0)!
      .map((item) => item.bname),
    ['broker-b', 'broker-c'],
  );
});
