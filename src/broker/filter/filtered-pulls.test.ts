// SQL92 through the broker: the check at a consumer's start, what a heartbeat registers, pulls, long polls, and the filter bits of ext units.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { FakeClock, silentLogger } from '../../common/index.ts';
import { MemoryFileSystem, readWhole } from '../../io/index.ts';
import { decodeMessages } from '../../message/index.ts';
import { RequestCode, ResponseCode } from '../../remoting/index.ts';
import { GetResult, type RecordFilter } from '../../store/index.ts';
import { type Answer, BrokerFixture, FakeChannel, messageWith } from '../broker-fixture.test.support.ts';
import { PullRequestHold } from '../longpolling/pull-request-hold.ts';
import { registerClientManage } from '../processor/client-manage.ts';
import { PullMessageProcessor } from '../processor/pull-message.ts';
import { ConsumerFilterManager } from './consumer-filter-manager.ts';

const HELD = { sysFlag: 2, suspendTimeoutMillis: 60_000 };

class Broker {
  readonly fixture: BrokerFixture;

  constructor(fixture: BrokerFixture) {
    this.fixture = fixture;
    const { clock, store, topics } = fixture.context;
    const hold = new PullRequestHold(clock, store);
    hold.start();
    new PullMessageProcessor(fixture.context, hold).register(fixture);
    registerClientManage(fixture, fixture.context);
    topics.createInSend('T', 'TBW102', '127.0.0.1', 1, 0);
    topics.persistIfChanged();
  }

  static async open(options: Parameters<typeof BrokerFixture.open>[0] = {}): Promise<Broker> {
    return new Broker(
      await BrokerFixture.open({ ...options, broker: { enablePropertyFilter: true, ...options?.broker } }),
    );
  }

  /** Stores a message and lets those who wait for it be told. */
  async put(properties: Record<string, string>, topic = 'T'): Promise<void> {
    await this.fixture.put(messageWith({ topic, properties: new Map(Object.entries(properties)) }));
    await this.fixture.dispatched();
    await setImmediate();
    this.fixture.clock.advance(1);
  }

  pull(fields: Record<string, string | number>): Promise<Answer> {
    return this.fixture.ask(RequestCode.PULL_MESSAGE, {
      consumerGroup: 'G',
      topic: 'T',
      queueId: 0,
      queueOffset: 0,
      maxMsgNums: 32,
      sysFlag: 4,
      commitOffset: 0,
      suspendTimeoutMillis: 0,
      subVersion: 0,
      ...fields,
    });
  }

  sql(expression: string, fields: Record<string, string | number> = {}): Promise<Answer> {
    return this.pull({ subscription: expression, expressionType: 'SQL92', ...fields });
  }

  heartbeat(expression: string, subVersion: number, topic = 'T', channel = new FakeChannel()): Promise<Answer> {
    const subscription = {
      topic,
      subString: expression,
      expressionType: 'SQL92',
      subVersion,
      tagsSet: [],
      codeSet: [],
    };
    const consumer = {
      groupName: 'G',
      consumeType: 'CONSUME_PASSIVELY',
      messageModel: 'CLUSTERING',
      consumeFromWhere: 'CONSUME_FROM_FIRST_OFFSET',
      subscriptionDataSet: [subscription],
    };
    const body = JSON.stringify({ clientID: 'c', consumerDataSet: [consumer], producerDataSet: [] });
    return this.fixture.ask(RequestCode.HEART_BEAT, {}, body, channel);
  }

  check(expression: string, type = 'SQL92'): Promise<Answer> {
    const subscriptionData = { topic: 'T', subString: expression, expressionType: type };
    const body = JSON.stringify({ clientId: 'c', group: 'G', subscriptionData });
    return this.fixture.ask(RequestCode.CHECK_CLIENT_CONFIG, {}, body);
  }

  close(): Promise<void> {
    return this.fixture.context.store.close();
  }
}

function numbers(answer: Answer): string[] {
  return decodeMessages(answer.body).map((message) => message.properties.get('n') ?? '');
}

test('CHECK_CLIENT_CONFIG says of an expression what RocketMQ says, and refuses all with the switch off', async () => {
  const broker = await Broker.open();
  assert.equal((await broker.check("a > 5 AND b CONTAINS 'x'")).code, ResponseCode.SUCCESS);
  assert.equal((await broker.check('*', 'TAG')).code, ResponseCode.SUCCESS);
  const bad = await broker.check("a > 'x'");
  assert.equal(bad.code, ResponseCode.SUBSCRIPTION_PARSE_FAILED);
  assert.equal(bad.remark, "java.lang.RuntimeException: Value ''x'' cannot be compared.");
  const cut = await broker.check('a AND');
  assert.match(
    cut.remark!,
    /^org\.apache\.rocketmq\.filter\.parser\.ParseException: Encountered "<EOF>" at line 1, column 5\./,
  );
  assert.equal((await broker.check('a', 'GROOVY')).code, ResponseCode.SUBSCRIPTION_PARSE_FAILED);
  broker.fixture.context.config.enablePropertyFilter = false;
  const off = await broker.check('a > 5');
  assert.deepEqual(
    [off.code, off.remark],
    [ResponseCode.SYSTEM_ERROR, 'The broker does not support consumer to filter message by SQL92'],
  );
  await broker.close();
});

test('a pull that brings its expression gets what matches, and goes on behind what does not', async () => {
  const broker = await Broker.open();
  for (let n = 0; n < 20; n++) await broker.put({ n: String(n), color: n % 2 === 0 ? 'red' : 'blue' });
  const found = await broker.sql("n BETWEEN 3 AND 9 AND color = 'red'");
  assert.deepEqual(numbers(found), ['4', '6', '8']);
  assert.equal(found.ext['nextBeginOffset'], '20');
  const none = await broker.sql("color = 'green'", { queueOffset: 5 });
  assert.deepEqual([none.code, none.ext['nextBeginOffset']], [ResponseCode.PULL_RETRY_IMMEDIATELY, '20']);
  // An exception in the middle is no match, and no harm to the others.
  assert.deepEqual(numbers(await broker.sql('n >= 18 OR color > 5')), ['18', '19']);
  await broker.close();
});

test('a pull with an expression that cannot be read is refused, RocketMQ hands out everything', async () => {
  const broker = await Broker.open();
  await broker.put({ n: '1' });
  assert.equal((await broker.sql('n >')).code, ResponseCode.SUBSCRIPTION_PARSE_FAILED);
  assert.equal((await broker.sql('')).code, ResponseCode.SUBSCRIPTION_PARSE_FAILED);
  broker.fixture.context.config.enablePropertyFilter = false;
  assert.equal((await broker.sql('n = 1')).code, ResponseCode.SYSTEM_ERROR);
  await broker.close();
});

test("a group's pulls are filtered by what its heartbeat registered, and told when that is missing or old", async () => {
  const broker = await Broker.open();
  for (let n = 0; n < 6; n++) await broker.put({ n: String(n) });
  await broker.heartbeat('n > 3', 7);
  const group = (subVersion: number): Promise<Answer> => broker.pull({ sysFlag: 0, subVersion });
  assert.deepEqual(numbers(await group(7)), ['4', '5']);
  assert.equal((await group(8)).code, ResponseCode.SUBSCRIPTION_NOT_LATEST);
  // A newer expression that cannot be read takes the old one away.
  await broker.heartbeat('n >', 9);
  const missing = await group(9);
  assert.deepEqual(
    [missing.code, missing.remark],
    [
      ResponseCode.FILTER_DATA_NOT_EXIST,
      "The broker's consumer filter data is not exist!Your expression may be wrong!",
    ],
  );
  await broker.heartbeat('n < 2', 10);
  assert.deepEqual(numbers(await group(10)), ['0', '1']);
  broker.fixture.context.config.enablePropertyFilter = false;
  assert.equal((await group(10)).code, ResponseCode.SYSTEM_ERROR);
  await broker.close();
});

test('filter data that is older than the subscription is said to be so', async () => {
  const broker = await Broker.open();
  const { consumers, filters } = broker.fixture.context;
  await broker.heartbeat('n > 3', 7);
  const live = consumers.subscription('G', 'T')!;
  consumers.find('G')!.subscriptions.set('T', { ...live, data: { ...live.data, subVersion: 9 } });
  assert.equal(filters.find('T', 'G')!.clientVersion, 7);
  const old = await broker.pull({ sysFlag: 0, subVersion: 9 });
  assert.deepEqual(
    [old.code, old.remark],
    [ResponseCode.FILTER_DATA_NOT_LATEST, "the consumer's consumer filter data not latest"],
  );
  await broker.close();
});

test('a long poll is woken by the message that matches, and by no other', async () => {
  const broker = await Broker.open();
  await broker.heartbeat('n > 3', 1);
  let answer: Answer | undefined;
  void broker.pull({ ...HELD, subVersion: 1 }).then((got) => {
    answer = got;
  });
  await broker.put({ n: '1' });
  await broker.put({ n: 'x' });
  await broker.put({});
  assert.equal(answer, undefined);
  await broker.put({ n: '4' });
  assert.deepEqual(numbers(answer!), ['4']);
  assert.equal(answer!.ext['nextBeginOffset'], '4');
  await broker.close();
});

test('a long poll whose time ends goes on behind the messages that did not match', async () => {
  const broker = await Broker.open();
  let answer: Answer | undefined;
  void broker.sql('n > 3', { sysFlag: 6, suspendTimeoutMillis: 5000 }).then((got) => {
    answer = got;
  });
  await broker.put({ n: '1' });
  assert.equal(answer, undefined);
  broker.fixture.clock.advance(6000);
  await setImmediate();
  assert.deepEqual([answer!.code, answer!.ext['nextBeginOffset']], [ResponseCode.PULL_RETRY_IMMEDIATELY, '1']);
  await broker.close();
});

test('a long poll goes on within 5 s behind messages that did not match, long before its time ends', async () => {
  const broker = await Broker.open();
  const waiting = broker.sql('n > 3', { ...HELD, sysFlag: 6 });
  await broker.put({ n: '1' });
  broker.fixture.clock.advance(5000);
  const answer = await Promise.race([waiting, setImmediate(undefined)]);
  assert.deepEqual([answer?.code, answer?.ext['nextBeginOffset']], [ResponseCode.PULL_RETRY_IMMEDIATELY, '1']);
  await broker.close();
});

test('messages that have left the memory are filtered too, their bodies unread', async () => {
  const clock = new FakeClock();
  const fs = new MemoryFileSystem({ clock, directories: ['/store/config'] });
  const first = await Broker.open({ fs, clock });
  for (let n = 0; n < 30; n++) await first.put({ n: String(n), pad: 'p'.repeat(3000) });
  first.fixture.context.topics.persist();
  await first.close();
  const broker = await Broker.open({ fs, clock });
  const answer = broker.sql('n >= 28');
  clock.advance(1000);
  let got = await answer;
  // Some pulls end where bytes had to be fetched.
  while (got.code === ResponseCode.PULL_RETRY_IMMEDIATELY) {
    const next = broker.sql('n >= 28', { queueOffset: Number(got.ext['nextBeginOffset']) });
    clock.advance(1000);
    got = await next;
  }
  assert.deepEqual(numbers(got), ['28', '29']);
  await broker.close();
});

test('a retry topic that is read by an expression is judged by that of the topic behind it, with filterSupportRetry', async () => {
  const broker = await Broker.open({ broker: { filterSupportRetry: true } });
  const { topics } = broker.fixture.context;
  topics.createInSendBack('%RETRY%G', 1, 6, false, 0);
  topics.persistIfChanged();
  const { filters, consumers } = broker.fixture.context;
  const subscription = (topic: string, subString: string) => ({
    topic,
    subString,
    expressionType: 'SQL92',
    subVersion: 1,
    tagsSet: [],
    codeSet: [],
    classFilterMode: false,
  });
  const subscriptions = [subscription('T', "color = 'red'"), subscription('%RETRY%G', 'n > 100')];
  const channel = new FakeChannel();
  const client = { channel, clientId: 'c', language: 'JAVA', version: 513, lastUpdateMs: 0 };
  const behaviour = { consumeType: undefined, messageModel: undefined, consumeFromWhere: undefined };
  consumers.register('G', client, behaviour, subscriptions, false);
  await broker.put({ n: '1', color: 'red', RETRY_TOPIC: 'T' }, '%RETRY%G');
  await broker.put({ n: '2', color: 'blue', RETRY_TOPIC: 'T' }, '%RETRY%G');
  await broker.put({ n: '3', color: 'blue', RETRY_TOPIC: 'Other' }, '%RETRY%G');
  const pull = (): Promise<Answer> => broker.pull({ topic: '%RETRY%G', sysFlag: 0, subVersion: 1 });
  assert.deepEqual(numbers(await pull()), ['1', '3']);
  broker.fixture.context.config.filterSupportRetry = false;
  assert.deepEqual(numbers(await pull()), []);
  assert.ok(filters.find('T', 'G') !== undefined);
  await broker.close();
});

test('with filterSupportRetry a retry topic that is subscribed to whole, as clients do, is judged by the topic behind it', async () => {
  const broker = await Broker.open({ broker: { filterSupportRetry: true } });
  const { consumers, topics } = broker.fixture.context;
  topics.createInSendBack('%RETRY%G', 1, 6, false, 0);
  topics.persistIfChanged();
  const plain = { subVersion: 1, tagsSet: [], codeSet: [], classFilterMode: false };
  const subscriptions = [
    { ...plain, topic: 'T', subString: "color = 'red'", expressionType: 'SQL92' },
    { ...plain, topic: '%RETRY%G', subString: '*', expressionType: 'TAG' },
  ];
  const client = { channel: new FakeChannel(), clientId: 'c', language: 'JAVA', version: 513, lastUpdateMs: 0 };
  const behaviour = { consumeType: undefined, messageModel: undefined, consumeFromWhere: undefined };
  consumers.register('G', client, behaviour, subscriptions, false);
  await broker.put({ n: '1', color: 'red', RETRY_TOPIC: 'T' }, '%RETRY%G');
  await broker.put({ n: '2', color: 'blue', RETRY_TOPIC: 'T' }, '%RETRY%G');
  const retries = { topic: '%RETRY%G', subVersion: 1 };
  assert.deepEqual(numbers(await broker.pull({ ...retries, sysFlag: 0 })), ['1']);
  assert.deepEqual(numbers(await broker.pull({ ...retries, subscription: '*', expressionType: 'TAG' })), ['1']);
  broker.fixture.context.config.filterSupportRetry = false;
  assert.deepEqual(numbers(await broker.pull({ ...retries, sysFlag: 0 })), ['1', '2']);
  await broker.close();
});

test('a pull that waits goes by what its group subscribes to when it is woken', async () => {
  const broker = await Broker.open();
  await broker.heartbeat('n > 3', 1);
  let answer: Answer | undefined;
  const hold = (): void => {
    answer = undefined;
    void broker
      .pull({ ...HELD, subVersion: 1, queueOffset: broker.fixture.context.store.maxOffsetInQueue('T', 0) })
      .then((got) => {
        answer = got;
      });
  };
  hold();
  await broker.heartbeat('n > 5', 2);
  await broker.put({ n: '4' });
  assert.deepEqual([answer!.code, answer!.ext['nextBeginOffset']], [ResponseCode.PULL_RETRY_IMMEDIATELY, '1']);
  hold();
  // It subscribes to another topic instead.
  await broker.heartbeat('n > 5', 3, 'Other');
  await broker.put({ n: '9' });
  assert.equal(answer!.code, ResponseCode.SUBSCRIPTION_NOT_EXIST);
  await broker.close();
});

test('an expression too long to be made ready between messages is refused with its length and the limit', async () => {
  const broker = await Broker.open();
  await broker.put({ n: '1' });
  const long = `n = 1${' OR n = 1'.repeat(4000)}`;
  const remark = `the SQL92 expression has ${long.length} characters, the limit is 32768`;
  const checked = await broker.check(long);
  assert.deepEqual([checked.code, checked.remark], [ResponseCode.SUBSCRIPTION_PARSE_FAILED, remark]);
  const pulled = await broker.sql(long);
  assert.deepEqual(
    [pulled.code, pulled.remark],
    [ResponseCode.SUBSCRIPTION_PARSE_FAILED, `parse the consumer's subscription failed: ${remark}`],
  );
  await broker.heartbeat(long, 1);
  assert.equal((await broker.pull({ sysFlag: 0, subVersion: 1 })).code, ResponseCode.FILTER_DATA_NOT_EXIST);
  await broker.close();
});

test('with filter bits a message that matched nobody is passed over by its ext unit, one from before the group is not', async () => {
  const clock = new FakeClock();
  const fs = new MemoryFileSystem({ clock, directories: ['/store/config'] });
  const config = { enableCalcFilterBitMap: true };
  const environment = { fs, clock, logger: silentLogger, folder: '/store/config' };
  const filters = new ConsumerFilterManager(environment, {
    ...config,
    expectConsumerNumUseFilter: 32,
    maxErrorRateOfBloomFilter: 20,
    filterDataCleanTimeSpan: 1,
  });
  const broker = await Broker.open({
    fs,
    clock,
    filters,
    broker: config,
    store: { enableConsumeQueueExt: true },
  });
  await broker.put({ n: '9' });
  await broker.heartbeat('n > 3', 1);
  clock.advance(10);
  await broker.put({ n: '1' });
  await broker.put({ n: '5' });
  const data = filters.find('T', 'G')!;
  let asked = 0;
  const counting = {
    all: true,
    codes: new Set<number>(),
    record: {
      mayMatch: data.filter!.mayMatch.bind(data.filter),
      matches: (...record: Parameters<RecordFilter['matches']>) => {
        asked++;
        return data.filter!.matches(...record);
      },
    },
  };
  const result = new GetResult();
  const request = { topic: 'T', queueId: 0, offset: 0, maxMessages: 32, maxBytes: 1e6, filter: counting };
  assert.ok(broker.fixture.context.store.select(request, result, () => {}));
  assert.deepEqual([result.count, asked], [2, 2]);
  // m = 112 bits: units of 20 and of 34 bytes.
  await broker.close();
  const ext = Buffer.from(readWhole(fs, '/store/consumequeue_ext/T/0/00000000000000000000')!);
  assert.deepEqual([ext.readInt16BE(0), ext.readInt16BE(20), ext.readInt16BE(54)], [20, 34, 34]);
  assert.equal(ext.subarray(40, 54).toString('hex'), '0'.repeat(28));
  const set = data.bloomFilterData!.bitPos.every(
    (position) => (ext[74 + (position >> 3)]! & (1 << (position & 7))) !== 0,
  );
  assert.ok(set);
});
