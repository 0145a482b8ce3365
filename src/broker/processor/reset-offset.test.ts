import assert from 'node:assert/strict';
import { test } from 'node:test';
import { GantryError, SeededRandom } from '../../common/index.ts';
import { type ExtFields, parseJson, type RemotingResponse, RequestCode } from '../../remoting/index.ts';
import type { BrokerConfig } from '../broker-config.ts';
import { type Answer, BrokerFixture, FakeChannel, messageWith } from '../broker-fixture.test.support.ts';
import { registerProcessors } from './register.ts';

/** A client that keeps the bodies of what it is told, too. */
class Client extends FakeChannel {
  readonly told: Array<{ code: number; ext: ExtFields; body: string }> = [];
  readonly clientId: string;

  constructor(clientId: string, port: number) {
    super(port);
    this.clientId = clientId;
  }

  override sendOneway(code: number, ext?: ExtFields | null, body?: Uint8Array): void {
    if (code === RequestCode.RESET_CONSUMER_CLIENT_OFFSET) {
      this.told.push({ code, ext: ext ?? {}, body: Buffer.from(body ?? '').toString() });
    }
  }

  answers(body: string, code = 0): void {
    const answer = {
      code,
      remark: undefined,
      ext: {},
      body: Buffer.from(body),
      version: 513,
    } satisfies RemotingResponse;
    this.answer = () => Promise.resolve(answer);
  }
}

async function open(config: Partial<BrokerConfig> = {}): Promise<BrokerFixture> {
  const broker = await BrokerFixture.open({ broker: config });
  registerProcessors(broker, broker.context);
  broker.context.topics.createInSend('T', 'TBW102', 'test', 2, 0);
  broker.context.topics.persistIfChanged();
  return broker;
}

/** Ten messages in queue 0, one a second. */
async function fill(broker: BrokerFixture): Promise<void> {
  for (let i = 0; i < 10; i++) {
    await broker.put(messageWith({}));
    broker.clock.advance(1000);
  }
  await broker.dispatched();
}

async function join(broker: BrokerFixture, ...clients: Client[]): Promise<void> {
  for (const client of clients) {
    const consumer = {
      groupName: 'G',
      consumeType: 'CONSUME_PASSIVELY',
      messageModel: 'CLUSTERING',
      consumeFromWhere: 'CONSUME_FROM_LAST_OFFSET',
      subscriptionDataSet: [],
    };
    const body = JSON.stringify({ clientID: client.clientId, consumerDataSet: [consumer], producerDataSet: [] });
    await broker.ask(RequestCode.HEART_BEAT, {}, body, client);
  }
}

function reset(broker: BrokerFixture, fields: Record<string, string | number | boolean> = {}): Promise<Answer> {
  const wish = { topic: 'T', group: 'G', timestamp: -1, isForce: true, queueId: -1, ...fields };
  return broker.ask(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, wish);
}

function offsetsOf(answer: Answer): Array<[number, number]> {
  const { offsetTable } = parseJson(answer.body) as { offsetTable: Map<{ queueId: number }, number> };
  return [...offsetTable].map(([queue, offset]) => [queue.queueId, offset]);
}

test('a reset says for each queue where the group was and where it goes', async () => {
  const broker = await open();
  await fill(broker);
  broker.context.groups.findOrCreate('G');
  broker.context.offsets.commit('test', 'G', 'T', 0, 4);
  const answer = await reset(broker, { gantryDryRun: false });
  assert.deepEqual([answer.code, answer.remark], [0, 'queues 0: 4 -> 10, 1: none -> 0']);
  const logged = broker.logger.lines.findLast((line) => line.text.endsWith('are reset'));
  assert.deepEqual(logged?.fields, { queues: '0: 4 -> 10, 1: none -> 0' });
  assert.equal((await reset(broker)).remark, null, 'as RocketMQ answers');
  assert.deepEqual(offsetsOf(answer), [
    [0, 10],
    [1, 0],
  ]);
});

test('B56: after a reset to now the lag is 0 on every queue', async () => {
  const broker = await open();
  await fill(broker);
  broker.context.groups.findOrCreate('G');
  for (const timestamp of [-1, broker.clock.now() + 1]) {
    broker.context.offsets.commit('test', 'G', 'T', 0, 4);
    await reset(broker, { timestamp });
    const stats = await broker.ask(RequestCode.GET_CONSUME_STATS, { consumerGroup: 'G', topic: 'T' });
    const table = parseJson(stats.body) as {
      offsetTable: Map<object, { brokerOffset: number; consumerOffset: number }>;
    };
    const lags = [...table.offsetTable.values()].map((queue) => queue.brokerOffset - queue.consumerOffset);
    assert.deepEqual(lags, [0, 0]);
  }
});

test('a dry run changes nothing, and says what a reset would do', async () => {
  const broker = await open({ useServerSideResetOffset: false });
  await fill(broker);
  broker.context.groups.findOrCreate('G');
  broker.context.offsets.commit('test', 'G', 'T', 0, 4);
  const answer = await reset(broker, { gantryDryRun: true });
  assert.deepEqual([answer.code, answer.remark], [0, 'dry run, queues 0: 4 -> 10, 1: none -> 0']);
  assert.deepEqual(offsetsOf(answer)[0], [0, 10]);
  assert.equal(broker.context.offsets.query('G', 'T', 0), 4);
  assert.equal(broker.context.offsets.hasReset('G', 'T', 0), false);
});

test('a reset to a time goes to the first message that is not older, whatever the times', async () => {
  const broker = await open();
  const random = new SeededRandom(7);
  const times: number[] = [];
  for (let i = 0; i < 200; i++) {
    broker.clock.advance(random.int(4) * random.int(1000));
    times.push(broker.clock.now());
    await broker.put(messageWith({}));
  }
  await broker.dispatched();
  broker.context.groups.findOrCreate('G');
  const [first, last] = [times[0]!, times.at(-1)!];
  for (let i = 0; i < 1000; i++) {
    const near = times[random.int(times.length)]! + random.int(3) - 1;
    const timestamp = i % 2 === 0 ? near : first - 5 + random.int(last - first + 10);
    const found = times.findIndex((time) => time >= timestamp);
    const [queue] = offsetsOf(await reset(broker, { timestamp }));
    assert.deepEqual(queue, [0, found < 0 ? times.length : found], `time ${timestamp}`);
  }
});

test('useServerSideResetOffset=false: every client of the group is told, and nothing is changed here', async () => {
  const broker = await open({ useServerSideResetOffset: false });
  await fill(broker);
  const clients = [new Client('c1', 50_001), new Client('c2', 50_002)];
  await join(broker, ...clients);
  const missing = await reset(broker);
  assert.deepEqual([missing.code, missing.remark], [1, 'THe consumer group <G> not exist'], 'it has no offset yet');
  for (const queueId of [0, 1]) broker.context.offsets.commit('test', 'G', 'T', queueId, queueId === 0 ? 4 : 0);
  const answer = await reset(broker);
  assert.deepEqual(offsetsOf(answer), [
    [0, 10],
    [1, 0],
  ]);
  for (const { told } of clients) {
    assert.equal(told.length, 1);
    assert.deepEqual(told[0]!.ext, { topic: 'T', group: 'G', timestamp: -1, isForce: false, queueId: -1 });
    assert.equal(
      told[0]!.body,
      '{"offsetTable":{{"brokerName":"broker-a","queueId":0,"topic":"T"}:10,{"brokerName":"broker-a","queueId":1,"topic":"T"}:0}}',
    );
  }
  assert.equal(broker.context.offsets.query('G', 'T', 0), 4);

  await reset(broker, { isForce: false });
  assert.match(clients[0]!.told[1]!.body, /"queueId":0,"topic":"T"\}:4/, 'without force it goes back only');
  await reset(broker, { isForce: false, timestamp: broker.clock.now() - 8000 });
  assert.match(clients[0]!.told[2]!.body, /"queueId":0,"topic":"T"\}:2/);

  assert.equal((await reset(broker, { topic: 'None' })).code, 17);
  const old = new Client('old', 50_003);
  old.version = 27;
  await join(broker, old);
  const refused = await reset(broker);
  assert.equal(refused.code, 1);
  assert.match(refused.remark!, /does not support this feature. version=27/);
  for (const client of [...clients, old]) client.close('gone');
  const offline = await reset(broker);
  assert.equal(offline.code, 206);
  assert.match(offline.remark!, /Consumer not online, so can not reset offset, Group: G Topic: T/);
});

test('the clients of a group say where they are, one by one or all', async () => {
  const broker = await open();
  const ask = (clientAddr?: string): Promise<Answer> =>
    broker.ask(RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, {
      topic: 'T',
      group: 'G',
      ...(clientAddr === undefined ? {} : { clientAddr }),
    });
  const nobody = await ask();
  assert.deepEqual([nobody.code, nobody.remark], [1, 'No Any Consumer online in the consumer group: [G]']);
  const [one, two, mute] = [new Client('c1', 50_001), new Client('c2', 50_002), new Client('c3', 50_003)];
  await join(broker, one, two, mute);
  one.answers('{"messageQueueTable":{{"brokerName":"b","queueId":0,"topic":"T"}:7}}');
  two.answers('', 1);
  mute.answer = () => Promise.reject(new GantryError('REMOTING_TIMEOUT', 'no answer'));
  const all = await ask();
  assert.equal(
    Buffer.from(all.body).toString(),
    '{"consumerTable":{"c1":{{"brokerName":"b","queueId":0,"topic":"T"}:7}},"messageQueueTable":{}}',
  );
  const only = await ask('c2');
  assert.equal(Buffer.from(only.body).toString(), '{"consumerTable":{},"messageQueueTable":{}}');
});
