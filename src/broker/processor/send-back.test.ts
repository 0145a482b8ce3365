import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type StoredMessage, UniqueIds } from '../../message/index.ts';
import { RequestCode } from '../../remoting/index.ts';
import { type Answer, BrokerFixture, FakeChannel, messageWith } from '../broker-fixture.test.support.ts';
import type { InternalMessage } from '../internal-put.ts';
import { messagesOf, selectLater } from '../store-reads.ts';
import { defaultGroupConfig } from '../subscription/subscription-group-config.ts';
import { SCHEDULE_TOPIC } from '../topic/topic-names.ts';
import { registerProcessors } from './register.ts';
import { SendMessageProcessor } from './send-message.ts';

class World {
  readonly broker: BrokerFixture;
  /** Physical offset of a message in T. */
  offset = -1;

  private constructor(broker: BrokerFixture) {
    this.broker = broker;
  }

  static async open(message: Partial<InternalMessage> = {}): Promise<World> {
    const world = new World(await BrokerFixture.open());
    const { context } = world.broker;
    registerProcessors(world.broker, context);
    new SendMessageProcessor(context, new UniqueIds({ ip: new Uint8Array(4), pid: 1, salt: 1 })).register(world.broker);
    context.groups.update([{ ...defaultGroupConfig('G'), retryMaxTimes: 2 }]);
    const stored = await world.broker.put(
      messageWith({
        queueId: 3,
        flag: 5,
        sysFlag: 1,
        bornTimestamp: 77,
        bornHost: new FakeChannel(4711).remoteHost,
        body: Buffer.from('body'),
        properties: new Map([
          ['TAGS', 'A'],
          ['UNIQ_KEY', 'U1'],
        ]),
        ...message,
      }),
    );
    world.offset = stored.wroteOffset;
    return world;
  }

  giveBack(fields: Record<string, string | number> = {}): Promise<Answer> {
    return this.broker.ask(RequestCode.CONSUMER_SEND_MSG_BACK, {
      group: 'G',
      offset: this.offset,
      delayLevel: 0,
      originTopic: 'T',
      ...fields,
    });
  }

  async only(topic: string, queueId = 0): Promise<StoredMessage> {
    await this.broker.dispatched();
    const { store } = this.broker.context;
    assert.equal(store.maxOffsetInQueue(topic, queueId), 1, `${topic} ${queueId} holds one message`);
    return (await messagesOf(store, await selectLater(store, topic, queueId, 0, 1, 1)))[0]!;
  }
}

test('a message given back waits in the schedule topic for the retry topic, with its origin noted', async () => {
  const w = await World.open();
  const answer = await w.giveBack();
  assert.deepEqual([answer.code, answer.remark], [0, null]);
  const copy = await w.only(SCHEDULE_TOPIC, 2);
  assert.deepEqual(
    [
      copy.flag,
      copy.sysFlag,
      copy.bornTimestamp,
      copy.bornHost,
      copy.reconsumeTimes,
      Buffer.from(copy.body).toString(),
    ],
    [5, 1, 77, '127.0.0.1:4711', 1, 'body'],
  );
  assert.deepEqual(Object.fromEntries(copy.properties), {
    DELAY: '3',
    ORIGIN_MESSAGE_ID: `7F00000100002A9F${w.offset.toString(16).toUpperCase().padStart(16, '0')}`,
    REAL_QID: '0',
    REAL_TOPIC: '%RETRY%G',
    RETRY_TOPIC: 'T',
    TAGS: 'A',
    UNIQ_KEY: 'U1',
    WAIT: 'false',
  });
  assert.equal(w.broker.context.topics.select('%RETRY%G')!.writeQueueNums, 1);
});

test('the delay grows with the failures, or is what the client asks for', async () => {
  const failed = await World.open({ reconsumeTimes: 1 });
  await failed.giveBack();
  assert.equal((await failed.only(SCHEDULE_TOPIC, 3)).properties.get('DELAY'), '4');
  const asked = await World.open();
  await asked.giveBack({ delayLevel: 18 });
  assert.equal((await asked.only(SCHEDULE_TOPIC, 17)).properties.get('DELAY'), '18');
});

test('a message that came from the retry topic keeps its first topic and id', async () => {
  const properties = new Map([
    ['RETRY_TOPIC', 'First'],
    ['ORIGIN_MESSAGE_ID', 'ID'],
  ]);
  const w = await World.open({ properties });
  await w.giveBack();
  const copy = await w.only(SCHEDULE_TOPIC, 2);
  assert.equal(copy.properties.get('RETRY_TOPIC'), 'First');
  assert.equal(copy.properties.get('ORIGIN_MESSAGE_ID'), 'ID');
});

for (const [name, message, fields] of [
  ['reconsumeTimes = 2 and delay level 18', { reconsumeTimes: 2 }, { delayLevel: 18 }],
  ['level 0 with the retries used up', { reconsumeTimes: 16 }, { delayLevel: 0 }],
  ['a negative level', {}, { delayLevel: -1 }],
  ["the client's own limit", { reconsumeTimes: 1 }, { delayLevel: 3, maxReconsumeTimes: 1 }],
] as const) {
  test(`B44: dead letter arrives hours late: ${name}: it is in the dead-letter topic at once`, async () => {
    const w = await World.open(message);
    assert.equal((await w.giveBack(fields)).code, 0);
    const dead = await w.only('%DLQ%G');
    assert.equal(dead.properties.get('RETRY_TOPIC'), 'T');
    assert.equal(dead.properties.get('UNIQ_KEY'), 'U1');
    assert.ok(dead.properties.has('ORIGIN_MESSAGE_ID'));
    assert.equal(dead.properties.get('DELAY'), '0');
    for (let level = 0; level < 18; level++) {
      assert.equal(w.broker.context.store.maxOffsetInQueue(SCHEDULE_TOPIC, level, false), 0);
    }
    const { perm, writeQueueNums } = w.broker.context.topics.select('%DLQ%G')!;
    assert.deepEqual([perm, writeQueueNums], [6, 1]);
  });
}

/** What a Java client sends when its message was not taken back. */
function sendAgain(w: World, fields: Record<string, string | number>, version = 513): Promise<Answer> {
  const channel = new FakeChannel();
  channel.version = version;
  const properties = 'DELAY\u00014\u0002RETRY_TOPIC\u0001T\u0002ORIGIN_MESSAGE_ID\u0001O\u0002UNIQ_KEY\u0001U1\u0002';
  const all = {
    producerGroup: 'CLIENT_INNER_PRODUCER',
    topic: '%RETRY%G',
    defaultTopic: 'TBW102',
    defaultTopicQueueNums: 4,
    queueId: 0,
    sysFlag: 0,
    bornTimestamp: 77,
    flag: 5,
    properties,
    unitMode: false,
    ...fields,
  };
  return w.broker.ask(RequestCode.SEND_MESSAGE, all, 'body', channel);
}

test("a client's own send to the retry topic waits for its level, and keeps count and origin", async () => {
  const w = await World.open();
  const answer = await sendAgain(w, { reconsumeTimes: 2, maxReconsumeTimes: 2 });
  assert.deepEqual([answer.code, answer.ext['queueId']], [0, '0']);
  const copy = await w.only(SCHEDULE_TOPIC, 3);
  assert.equal(copy.reconsumeTimes, 2);
  const wanted = { DELAY: '4', REAL_TOPIC: '%RETRY%G', RETRY_TOPIC: 'T', ORIGIN_MESSAGE_ID: 'O', UNIQ_KEY: 'U1' };
  for (const [name, value] of Object.entries(wanted)) assert.equal(copy.properties.get(name), value, name);
});

for (const [name, fields, version] of [
  ["more often than the client's limit", { reconsumeTimes: 2, maxReconsumeTimes: 1 }, 513],
  ["more often than the group's limit", { reconsumeTimes: 3 }, 513],
  ['an old client, whose limit does not count', { reconsumeTimes: 3, maxReconsumeTimes: 9 }, 120],
] as const) {
  test(`B44: dead letter arrives hours late: a client's own send: ${name}`, async () => {
    const w = await World.open();
    assert.equal((await sendAgain(w, fields, version)).code, 0);
    const dead = await w.only('%DLQ%G');
    // As RocketMQ writes it: -1 where the message was sent by its client, 0 where it was given back.
    assert.equal(dead.properties.get('DELAY'), '-1');
    assert.deepEqual([dead.properties.get('RETRY_TOPIC'), dead.properties.get('ORIGIN_MESSAGE_ID')], ['T', 'O']);
    assert.equal(dead.reconsumeTimes, fields.reconsumeTimes);
    assert.equal(w.broker.context.store.maxOffsetInQueue(SCHEDULE_TOPIC, 3, false), 0);
  });
}

test('a message that a group in order gives up goes to the dead letters while a lock of the group lives', async () => {
  const w = await World.open();
  const { context, clock } = w.broker;
  context.locks.tryLockBatch('G', [{ topic: 'T', brokerName: 'broker-a', queueId: 0 }], 'c');
  assert.equal((await sendAgain(w, { reconsumeTimes: 1, maxReconsumeTimes: 5 })).code, 0);
  await w.only('%DLQ%G');
  clock.advance(60_001);
  assert.equal((await sendAgain(w, { reconsumeTimes: 1, maxReconsumeTimes: 5 })).code, 0);
  await w.only(SCHEDULE_TOPIC, 3);
});

test("an old client's limit is not taken: its group's counts", async () => {
  const w = await World.open({ reconsumeTimes: 1 });
  const channel = new FakeChannel();
  channel.version = 120;
  const fields = { group: 'G', offset: w.offset, delayLevel: 3, maxReconsumeTimes: 1 };
  await w.broker.ask(RequestCode.CONSUMER_SEND_MSG_BACK, fields, '', channel);
  await w.only(SCHEDULE_TOPIC, 2);
});

test('a level above the last one is the last one; more retry queues are all used', async () => {
  const high = await World.open();
  await high.giveBack({ delayLevel: 99 });
  assert.equal((await high.only(SCHEDULE_TOPIC, 17)).properties.get('DELAY'), '18');
  const w = await World.open();
  const { context } = w.broker;
  context.groups.update([{ ...defaultGroupConfig('G'), retryQueueNums: 3 }]);
  for (let i = 0; i < 40; i++) assert.equal((await w.giveBack()).code, 0);
  const copies = await messagesOf(context.store, await selectLater(context.store, SCHEDULE_TOPIC, 2, 0, 64, 1 << 20));
  assert.deepEqual([...new Set(copies.map((one) => one.properties.get('REAL_QID')))].sort(), ['0', '1', '2']);
  assert.equal(context.topics.select('%RETRY%G')!.writeQueueNums, 3);
  // A retry topic that is older than the number has one queue, and what stood in another would never be read.
  const older = await World.open();
  await older.giveBack();
  older.broker.context.groups.update([{ ...defaultGroupConfig('G'), retryQueueNums: 3 }]);
  for (let i = 0; i < 20; i++) assert.equal((await older.giveBack()).code, 0);
  const { store } = older.broker.context;
  const all = await messagesOf(store, await selectLater(store, SCHEDULE_TOPIC, 2, 0, 64, 1 << 20));
  assert.deepEqual(new Set(all.map((one) => one.properties.get('REAL_QID'))), new Set(['0']));
});

test('a request without offset or level, or with other than numbers, answers 1, whatever its group', async () => {
  const w = await World.open();
  w.broker.context.groups.update([{ ...defaultGroupConfig('None'), retryQueueNums: 0 }]);
  for (const group of ['G', 'None', 'bad group!']) {
    for (const fields of [
      { offset: 0 },
      { delayLevel: 0 },
      { offset: 'x', delayLevel: 0 },
      { offset: 0, delayLevel: '99999999999' },
      { offset: 0, delayLevel: 0, maxReconsumeTimes: 'many' },
    ] as ReadonlyArray<Record<string, string | number>>) {
      const answer = await w.broker.ask(RequestCode.CONSUMER_SEND_MSG_BACK, { group, ...fields });
      assert.equal(answer.code, 1, JSON.stringify([group, fields, answer.remark]));
    }
  }
});

test('a delay level is read as a Java int: above the last one is the last one, and what is none is refused', async () => {
  const send = async (delay: string): Promise<[World, Answer]> => {
    const w = await World.open();
    const answer = await sendAgain(w, { topic: 'U', properties: `DELAY\u0001${delay}\u0002`, queueId: 0 });
    return [w, answer];
  };
  for (const text of ['2147483647', '+18', '99']) {
    const [w, answer] = await send(text);
    assert.equal(answer.code, 0, text);
    await w.only(SCHEDULE_TOPIC, 17);
  }
  for (const text of ['-3', '0', '-2147483648']) {
    const [w, answer] = await send(text);
    assert.equal(answer.code, 0, text);
    await w.only('U');
  }
  for (const text of ['3x', '2147483648', '1.5', ' 3']) {
    const [w, answer] = await send(text);
    assert.deepEqual([answer.code, answer.remark], [1, `the delay level (property DELAY) is no number: "${text}"`]);
    assert.equal(w.broker.context.store.maxOffsetInQueue('U', 0, false), 0);
  }
});

test('refusals: unknown group, no message there, a broker that takes nothing, a group without retries', async () => {
  const w = await World.open();
  const { context } = w.broker;
  const nowhere = await w.giveBack({ offset: w.offset + 1 });
  assert.deepEqual([nowhere.code, nowhere.remark], [1, `look message by offset failed, ${w.offset + 1}`]);
  assert.equal((await w.giveBack({ group: 'bad group!' })).code, 26);
  context.groups.update([{ ...defaultGroupConfig('None'), retryQueueNums: 0 }]);
  assert.equal((await w.giveBack({ group: 'None' })).code, 0);
  assert.equal(context.topics.has('%RETRY%None'), false);
  context.config.brokerPermission = 4;
  const closed = await w.giveBack();
  assert.deepEqual([closed.code, closed.remark], [16, 'the broker[127.0.0.1] sending message is forbidden']);
  context.config.brokerPermission = 6;
  w.broker.fs.reportedUsedFraction = 0.99;
  w.broker.clock.advance(10_000);
  const full = await w.giveBack();
  assert.deepEqual([full.code, full.remark], [1, 'SERVICE_NOT_AVAILABLE']);
});
