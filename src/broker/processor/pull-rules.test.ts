import assert from 'node:assert/strict';
import { test } from 'node:test';
import { RequestCode } from '../../remoting/index.ts';
import type { BrokerConfig } from '../broker-config.ts';
import { type Answer, BrokerFixture, FakeChannel, messageWith } from '../broker-fixture.test.support.ts';
import { PullRequestHold } from '../longpolling/pull-request-hold.ts';
import { BROADCAST_SCAN_MS } from '../offset/broadcast-offset-manager.ts';
import { PROTECT_MS } from '../offset/slow-consumers.ts';
import type { SubscriptionGroupConfig } from '../subscription/subscription-group-config.ts';
import { Perm } from '../topic/topic-config.ts';
import { PullMessageProcessor } from './pull-message.ts';
import { registerProcessors } from './register.ts';

type Fields = Record<string, string | number | boolean>;

/** sysFlag: bits of PullSysFlag. */
const SUSPEND = 2;
const SUBSCRIPTION = 4;

interface Setup {
  broker: BrokerFixture;
  hold: PullRequestHold;
  channel: FakeChannel;
}

/** A broker with `count` messages in queue 0 of T, which group G subscribes to. */
async function open(
  count: number,
  config: Partial<BrokerConfig> = {},
  messageModel: 'CLUSTERING' | 'BROADCASTING' = 'CLUSTERING',
): Promise<Setup> {
  const broker = await BrokerFixture.open({ broker: config });
  const { context } = broker;
  registerProcessors(broker, context);
  const hold = new PullRequestHold(context.clock, context.store);
  hold.start();
  new PullMessageProcessor(context, hold).register(broker);
  context.topics.createInSend('T', 'TBW102', 'test', 4, 0);
  context.topics.persistIfChanged();
  await put(broker, count);
  const channel = new FakeChannel();
  await heartbeat(broker, channel, 'c1', messageModel);
  return { broker, hold, channel };
}

async function put(broker: BrokerFixture, count: number, tag?: string): Promise<void> {
  const properties = tag === undefined ? new Map<string, string>() : new Map([['TAGS', tag]]);
  const bodies = Array.from({ length: count }, (_, i) => Buffer.from(`m${i}`));
  await Promise.all(bodies.map((body) => broker.put(messageWith({ body, properties }))));
  await broker.dispatched();
}

function heartbeat(
  broker: BrokerFixture,
  channel: FakeChannel,
  clientID: string,
  messageModel: string,
  subString = '*',
): Promise<Answer> {
  const tagsSet = subString === '*' ? [] : [subString];
  const codeSet = tagsSet.map((tag) => [...tag].reduce((hash, c) => (Math.imul(31, hash) + c.charCodeAt(0)) | 0, 0));
  const subscription = { topic: 'T', subString, subVersion: 5, expressionType: 'TAG', tagsSet, codeSet };
  const consumer = {
    groupName: 'G',
    consumeType: 'CONSUME_PASSIVELY',
    messageModel,
    consumeFromWhere: 'CONSUME_FROM_LAST_OFFSET',
    subscriptionDataSet: [subscription],
  };
  const body = JSON.stringify({ clientID, consumerDataSet: [consumer], producerDataSet: [] });
  return broker.ask(RequestCode.HEART_BEAT, {}, body, channel);
}

function pull(
  { broker, channel }: Setup,
  fields: Fields = {},
  code: number = RequestCode.PULL_MESSAGE,
): Promise<Answer> {
  const header = {
    consumerGroup: 'G',
    topic: 'T',
    queueId: 0,
    queueOffset: 0,
    maxMsgNums: 32,
    sysFlag: 0,
    commitOffset: 0,
    suspendTimeoutMillis: 15_000,
    subVersion: 5,
    ...fields,
  };
  return broker.ask(code, header, '', channel);
}

/** As an administrator changes them. */
function setGroup({ context }: BrokerFixture, change: Partial<SubscriptionGroupConfig>): void {
  context.groups.update([{ ...context.groups.findOrCreate('G')!, ...change }]);
}

function setTopicPerm({ context }: BrokerFixture, perm: number): void {
  context.topics.update([{ topic: context.topics.select('T')!.with({ perm }), attributes: new Map() }]);
}

const outcome = ({ code, ext }: Answer): [number, string | undefined] => [code, ext['forbiddenType']];

test('each check of a pull has its code, and a type where the client wants one', async () => {
  const setup = await open(3);
  const { context } = setup.broker;
  const { config, topics } = context;
  assert.equal((await pull(setup)).code, 0);

  config.brokerPermission = Perm.WRITE;
  assert.deepEqual(outcome(await pull(setup)), [16, '1']);
  config.brokerPermission = Perm.READ | Perm.WRITE;
  config.litePullMessageEnable = false;
  assert.deepEqual(outcome(await pull(setup, {}, RequestCode.LITE_PULL_MESSAGE)), [16, '1']);
  assert.equal((await pull(setup)).code, 0, 'a plain pull is no lite pull');
  config.litePullMessageEnable = true;
  assert.equal((await pull(setup, {}, RequestCode.LITE_PULL_MESSAGE)).code, 0);
  config.autoCreateSubscriptionGroup = false;
  const unknown = await pull(setup, { consumerGroup: 'Other' });
  assert.equal(unknown.code, 26);
  assert.match(unknown.remark!, /autoCreateSubscriptionGroup/);
  config.autoCreateSubscriptionGroup = true;

  setGroup(setup.broker, { consumeEnable: false });
  assert.deepEqual(outcome(await pull(setup)), [16, '2']);
  setGroup(setup.broker, { consumeEnable: true });
  assert.equal((await pull(setup)).code, 0, 'a group that is resumed goes on');
  assert.equal((await pull(setup, { topic: 'None' })).code, 17);
  setTopicPerm(setup.broker, Perm.WRITE);
  assert.deepEqual(outcome(await pull(setup)), [16, '3']);
  setTopicPerm(setup.broker, Perm.READ);
  assert.equal((await pull(setup)).code, 0);
  for (const queueId of [-1, 4]) {
    const bad = await pull(setup, { queueId });
    assert.equal(bad.code, 29);
    assert.match(bad.remark!, new RegExp(`queueId\\[${queueId}\\] is illegal.*readQueueNums:\\[4\\]`));
  }

  const strange = await pull(setup, { consumerGroup: 'NoHeartbeat' });
  assert.deepEqual(outcome(strange), [24, undefined]);
  assert.match(strange.remark!, /the consumer's group info not exist/);
  topics.createInSend('Other', 'TBW102', 'test', 4, 0);
  topics.persistIfChanged();
  const notOurs = await pull(setup, { topic: 'Other' });
  assert.equal(notOurs.code, 24);
  assert.match(notOurs.remark!, /the consumer's subscription not exist/);
  assert.deepEqual(
    [(await pull(setup, { subVersion: 6 })).code, (await pull(setup, { subVersion: 4 })).code],
    [25, 0],
    'only an older subscription than the one asked by is not the latest',
  );
  assert.equal((await pull(setup, { sysFlag: SUBSCRIPTION, subscription: '||' })).code, 23);
  assert.equal((await pull(setup, { sysFlag: SUBSCRIPTION, consumerGroup: 'NoHeartbeat', subscription: '*' })).code, 0);
  await setup.broker.ask(RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN, { group: 'G', topic: 'T', readable: false });
  assert.deepEqual(outcome(await pull(setup)), [16, '5']);
});

test('a reset that is left from before useServerSideResetOffset was turned off moves nobody', async () => {
  const setup = await open(3);
  const { config, offsets } = setup.broker.context;
  offsets.assignReset('G', 'T', 0, 3);
  config.useServerSideResetOffset = false;
  const answer = await pull(setup);
  assert.deepEqual([answer.code, answer.ext['nextBeginOffset']], [0, '3']);
  config.useServerSideResetOffset = true;
  assert.equal((await pull(setup)).code, 0, 'it is gone');
});

test('a pull that is told of a reset does not undo it by the offset that it commits', async () => {
  const setup = await open(10);
  const { offsets } = setup.broker.context;
  const committing = { sysFlag: 1, commitOffset: 8, queueOffset: 8 };
  await pull(setup, committing);
  assert.equal(offsets.query('G', 'T', 0), 8);
  offsets.assignReset('G', 'T', 0, 3);
  const told = await pull(setup, committing);
  assert.deepEqual([told.code, told.remark, told.ext['nextBeginOffset']], [21, 'OFFSET_RESET', '3']);
  assert.equal(offsets.query('G', 'T', 0), 3);
  assert.equal((await pull(setup, { queueOffset: 3 })).ext['nextBeginOffset'], '10');
});

test('a group that may not broadcast is refused as soon as its clients do', async () => {
  const setup = await open(1, {}, 'BROADCASTING');
  assert.equal((await pull(setup)).code, 0);
  setGroup(setup.broker, { consumeBroadcastEnable: false });
  assert.deepEqual(outcome(await pull(setup)), [16, '4']);
});

test('a pull that waits is refused when what it needs was taken away meanwhile, and not before something comes', async () => {
  const takings: Array<[string, (setup: Setup) => unknown, string]> = [
    ['the group', ({ broker }) => setGroup(broker, { consumeEnable: false }), '2'],
    ['the topic', ({ broker }) => setTopicPerm(broker, Perm.WRITE), '3'],
    ['the broker', ({ broker: { context } }) => (context.config.brokerPermission = Perm.WRITE), '1'],
    [
      'the pair',
      ({ broker }) =>
        broker.ask(RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN, { group: 'G', topic: 'T', readable: false }),
      '5',
    ],
  ];
  for (const [what, take, type] of takings) {
    const setup = await open(0);
    const waiting = pull(setup, { sysFlag: SUSPEND });
    assert.equal(setup.hold.size, 1, what);
    await take(setup);
    await put(setup.broker, 1);
    assert.deepEqual(outcome(await waiting), [16, type], what);
    setup.hold.stop();
  }
});

test('a pull that waits is refused when the clients of its group have begun to broadcast and may not', async () => {
  const setup = await open(0);
  setGroup(setup.broker, { consumeBroadcastEnable: false });
  const waiting = pull(setup, { sysFlag: SUSPEND });
  await heartbeat(setup.broker, setup.channel, 'c1', 'BROADCASTING');
  await put(setup.broker, 1);
  assert.deepEqual(outcome(await waiting), [16, '4']);
  setup.hold.stop();
});

test('a pull that waits goes on when tables change that do not concern it', async () => {
  const setup = await open(0);
  const waiting = pull(setup, { sysFlag: SUSPEND });
  setup.broker.context.topics.createInSend('Another', 'TBW102', 'test', 4, 0);
  setup.broker.context.topics.persistIfChanged();
  setup.broker.context.groups.findOrCreate('Another');
  await put(setup.broker, 1);
  assert.equal((await waiting).code, 0);
  setup.hold.stop();
});

test('many arrivals of one turn wake each waiting pull once, and those of another tag nobody', async () => {
  const setup = await open(0);
  await heartbeat(setup.broker, setup.channel, 'c1', 'CLUSTERING', 'A');
  const tagged = pull(setup, { sysFlag: SUSPEND | SUBSCRIPTION, subscription: 'A' });
  await put(setup.broker, 3, 'B');
  assert.equal(setup.hold.size, 1, 'B is not what it waits for');
  const other = { ...setup, channel: new FakeChannel(50_001) };
  const any = pull(other, { sysFlag: SUSPEND | SUBSCRIPTION, subscription: '*', queueOffset: 3 });
  await put(setup.broker, 5, 'A');
  const [first, second] = [await tagged, await any];
  assert.deepEqual([first.code, first.ext['nextBeginOffset']], [0, '8']);
  assert.deepEqual([second.code, second.ext['nextBeginOffset']], [0, '8']);
  assert.equal(setup.hold.size, 0);
  setup.hold.stop();
});

test('a pull waits as long as its sender says, or shortPollingTimeMills without long polling', async () => {
  for (const [config, ms] of [
    [{}, 15_000],
    [{ longPollingEnable: false }, 1000],
  ] as const) {
    const setup = await open(0, config);
    const waiting = pull(setup, { sysFlag: SUSPEND });
    setup.broker.clock.advance(ms - 250);
    assert.equal(setup.hold.size, 1);
    setup.broker.clock.advance(250);
    const answer = await waiting;
    assert.deepEqual([answer.code, answer.ext['nextBeginOffset']], [19, '0']);
    setup.hold.stop();
  }
});

test('with slaveReadEnable a pull names the broker that the group is to ask next', async () => {
  const setup = await open(3);
  const { config } = setup.broker.context;
  const suggested = async (): Promise<string | undefined> => (await pull(setup)).ext['suggestWhichBrokerId'];
  setGroup(setup.broker, { brokerId: 3, whichBrokerWhenConsumeSlowly: 2 });
  assert.equal(await suggested(), '0', 'slaveReadEnable is off');
  config.slaveReadEnable = true;
  assert.equal(await suggested(), '3');
  const old = await BrokerFixture.open({
    broker: { slaveReadEnable: true },
    store: { accessMessageInMemoryMaxRatio: 0 },
  });
  registerProcessors(old, old.context);
  new PullMessageProcessor(old.context, new PullRequestHold(old.clock, old.context.store)).register(old);
  old.context.topics.createInSend('T', 'TBW102', 'test', 4, 0);
  old.context.topics.persistIfChanged();
  await put(old, 3);
  setGroup(old, { whichBrokerWhenConsumeSlowly: 2 });
  const behind = await pull({ ...setup, broker: old }, { sysFlag: SUBSCRIPTION, subscription: '*' });
  assert.equal(behind.ext['suggestWhichBrokerId'], '2', 'nothing counts as in memory');
  const missed = await pull({ ...setup, broker: old }, { sysFlag: SUBSCRIPTION, queueId: 1 });
  assert.equal(missed.ext['suggestWhichBrokerId'], '0');
});

test('disableConsumeIfConsumerReadSlowly suspends a group that reads too far behind, until it is let go on', async () => {
  const setup = await open(100);
  const { config, groups, slowConsumers, store } = setup.broker.context;
  slowConsumers.start();
  await pull(setup, { maxMsgNums: 1 });
  setup.broker.clock.advance(PROTECT_MS);
  assert.equal(groups.find('G')!.consumeEnable, true, 'it is off');
  config.disableConsumeIfConsumerReadSlowly = true;
  config.consumerFallbehindThreshold = store.watermarks.wrote / 2;
  await pull(setup, { queueOffset: 90 });
  setup.broker.clock.advance(PROTECT_MS);
  assert.equal(groups.find('G')!.consumeEnable, true, 'it is near the end');
  await pull(setup, { maxMsgNums: 1 });
  setup.broker.clock.advance(PROTECT_MS);
  assert.equal(groups.find('G')!.consumeEnable, false);
  assert.match(setup.broker.logger.texts('warn').at(-1)!, /group G is suspended: on T@0 it reads \d+ bytes behind/);
  assert.deepEqual(outcome(await pull(setup)), [16, '2']);
  setGroup(setup.broker, { consumeEnable: true });
  setup.broker.clock.advance(PROTECT_MS);
  assert.equal((await pull(setup, { queueOffset: 90 })).code, 0);
  slowConsumers.stop();
});

test('broadcast: the lowest offset of the live clients is committed under a name that is no group', async () => {
  const setup = await open(10, {}, 'BROADCASTING');
  const { broker } = setup;
  const { context, clock } = broker;
  const other = { ...setup, channel: new FakeChannel(50_001) };
  await heartbeat(broker, other.channel, 'c2', 'BROADCASTING');
  context.broadcasts.start();
  const committed = (): number => context.offsets.query('G@broadcast', 'T', 0);

  await pull(setup, { queueOffset: 7 });
  await pull(other, { queueOffset: 4 });
  clock.advance(BROADCAST_SCAN_MS);
  assert.equal(committed(), 4);
  await pull(other, { queueOffset: 9 });
  await pull(other, { queueOffset: 2 });
  clock.advance(BROADCAST_SCAN_MS);
  assert.equal(committed(), 7, 'c2 has come to 9, whatever it asks for again');
  assert.deepEqual(context.offsets.groupsOf('T'), [], 'no tool lists it as a group');
  assert.equal((await pull(other, { queueOffset: 30 })).code, 21);
  clock.advance(BROADCAST_SCAN_MS);
  assert.equal(committed(), 7);
  setup.channel.close('gone');
  await pull(other, { queueOffset: 10 });
  clock.advance(broker.context.config.broadcastOffsetExpireSecond * 1000);
  assert.equal(committed(), 10, 'c1 is gone for too long to count');
  context.broadcasts.stop();
});

test('broadcast: a client behind a proxy begins where its group is, one that moves goes on where it was', async () => {
  const setup = await open(10);
  const { broker } = setup;
  const proxied = (client: string, queueOffset: number): Promise<Answer> =>
    pull(setup, {
      sysFlag: SUBSCRIPTION,
      subscription: '*',
      requestSource: 1,
      proxyFrowardClientId: client,
      queueOffset,
    });
  const start = await proxied('p1', -1);
  assert.deepEqual(
    [start.code, start.remark, start.ext['nextBeginOffset']],
    [21, 'OFFSET_RESET', '0'],
    'a young queue',
  );
  assert.deepEqual((await proxied('p1', 0)).code, 0);
  await proxied('p1', 6);
  broker.context.broadcasts.scan();
  assert.equal(broker.context.offsets.query('G@broadcast', 'T', 0), 6);
  assert.equal((await proxied('p2', -1)).ext['nextBeginOffset'], '6', 'where the slowest is');
  assert.equal((await proxied('p1', -1)).ext['nextBeginOffset'], '6');

  // The same client, now without the proxy.
  const direct = { ...setup, channel: new FakeChannel(50_002) };
  await heartbeat(broker, direct.channel, 'p1', 'BROADCASTING');
  const moved = await pull(direct, { queueOffset: 2 });
  assert.deepEqual([moved.code, moved.ext['nextBeginOffset']], [21, '6']);
  assert.equal((await pull(direct, { queueOffset: 6 })).code, 0, 'once it has come there nothing is moved');
});

test('broadcast: enableBroadcastOffsetStore=false keeps nothing', async () => {
  const setup = await open(3, { enableBroadcastOffsetStore: false }, 'BROADCASTING');
  await pull(setup, { queueOffset: 2 });
  setup.broker.context.broadcasts.scan();
  assert.equal(setup.broker.context.offsets.query('G@broadcast', 'T', 0), -1);
});
