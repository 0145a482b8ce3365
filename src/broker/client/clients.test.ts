import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CollectingLogger, FakeClock } from '../../common/index.ts';
import { buildSubscription, type SubscriptionData } from '../../filter/index.ts';
import { RequestCode } from '../../remoting/index.ts';
import { type BrokerConfig, defaultBrokerConfig } from '../broker-config.ts';
import { FakeChannel } from '../broker-fixture.test.support.ts';
import type { ClientChannelInfo, ConsumeBehaviour } from './consumer-group-info.ts';
import { ConsumerManager } from './consumer-manager.ts';
import { readHeartbeat } from './heartbeat-data.ts';
import { ProducerManager } from './producer-manager.ts';
import { type MessageQueue, RebalanceLockManager } from './rebalance-lock-manager.ts';

const CLUSTERING: ConsumeBehaviour = {
  consumeType: 'CONSUME_PASSIVELY',
  messageModel: 'CLUSTERING',
  consumeFromWhere: 'CONSUME_FROM_LAST_OFFSET',
};
const BROADCASTING: ConsumeBehaviour = { ...CLUSTERING, messageModel: 'BROADCASTING' };

class World {
  readonly clock = new FakeClock();
  readonly logger = new CollectingLogger();
  readonly consumers: ConsumerManager;
  readonly producers: ProducerManager;

  constructor(config: Partial<BrokerConfig> = {}) {
    const whole = { ...defaultBrokerConfig(), ...config };
    this.consumers = new ConsumerManager(whole, this.clock, this.logger);
    this.producers = new ProducerManager(whole, this.clock, this.logger);
  }

  client(id: string, channel: FakeChannel = new FakeChannel()): ClientChannelInfo & { channel: FakeChannel } {
    return { channel, clientId: id, language: 'JAVA', version: 513, lastUpdateMs: this.clock.now() };
  }
}

const subscription = (topic: string, expression = '*', version = 1): SubscriptionData =>
  buildSubscription(topic, expression, 'TAG', version);

const messageQueueOf = (topic: string, queueId: number): MessageQueue => ({ brokerName: 'broker-a', queueId, topic });

const notified = (channel: FakeChannel): number =>
  channel.sent.filter((one) => one.code === RequestCode.NOTIFY_CONSUMER_IDS_CHANGED).length;

test('a new member is told to all members of the group, itself included', () => {
  const w = new World();
  const first = w.client('a');
  const second = w.client('b');
  w.consumers.register('G', first, CLUSTERING, [subscription('T')], true);
  assert.deepEqual(first.channel.sent, [{ code: 40, ext: { consumerGroup: 'G' } }]);
  w.consumers.register('G', second, CLUSTERING, [subscription('T')], true);
  assert.deepEqual([notified(first.channel), notified(second.channel)], [2, 1]);
  assert.equal(w.consumers.register('G', w.client('b', second.channel), CLUSTERING, [subscription('T')], true), false);
  assert.deepEqual([notified(first.channel), notified(second.channel)], [2, 1]);
  assert.deepEqual(w.consumers.find('G')!.clientIds(), ['a', 'b']);
});

test('a topic more or less is told, a newer version of a subscription is only taken over', () => {
  const w = new World();
  const client = w.client('a');
  w.consumers.register('G', client, CLUSTERING, [subscription('T', 'A', 5)], true);
  assert.equal(w.consumers.register('G', client, CLUSTERING, [subscription('T', 'B', 4)], true), false);
  assert.equal(w.consumers.subscription('G', 'T')!.data.subString, 'A', 'an older version is not taken over');
  assert.equal(w.consumers.register('G', client, CLUSTERING, [subscription('T', 'B', 6)], true), false);
  assert.equal(w.consumers.subscription('G', 'T')!.data.subString, 'B');
  assert.ok(w.consumers.register('G', client, CLUSTERING, [subscription('T', 'B', 6), subscription('U')], true));
  assert.deepEqual(w.consumers.groupsOfTopic('U'), ['G']);
  assert.ok(w.consumers.register('G', client, CLUSTERING, [subscription('U')], true));
  assert.equal(w.consumers.subscription('G', 'T'), undefined);
  assert.deepEqual(w.consumers.groupsOfTopic('T'), []);
  assert.equal(notified(client.channel), 3);
});

test('a heartbeat without subscriptions keeps those that are known', () => {
  const w = new World();
  const client = w.client('a');
  w.consumers.register('G', client, CLUSTERING, [subscription('T')], true);
  w.consumers.register('G', client, CLUSTERING, undefined, true);
  assert.ok(w.consumers.subscription('G', 'T'));
});

test('nobody is told in broadcast mode, or when the group or the broker does not want it', () => {
  for (const [config, behaviour, wanted] of [
    [{}, BROADCASTING, true],
    [{}, CLUSTERING, false],
    [{ notifyConsumerIdsChangedEnable: false }, CLUSTERING, true],
  ] as const) {
    const w = new World(config);
    const client = w.client('a');
    w.consumers.register('G', client, behaviour, [subscription('T')], wanted);
    assert.equal(notified(client.channel), 0);
  }
});

test('without realTimeNotifyConsumerChange the telling waits for the next round', () => {
  const w = new World({ realTimeNotifyConsumerChange: false });
  w.consumers.start();
  const client = w.client('a');
  w.consumers.register('G', client, CLUSTERING, [subscription('T')], true);
  w.consumers.register('G', client, CLUSTERING, [subscription('U')], true);
  assert.equal(notified(client.channel), 0);
  w.clock.advance(15_000);
  assert.equal(notified(client.channel), 1);
});

test('leaving: by farewell, by a closed connection, by silence', () => {
  const w = new World();
  w.consumers.start();
  const stays = w.client('a');
  const farewell = w.client('b');
  const closed = w.client('c');
  const silent = w.client('d');
  for (const one of [stays, farewell, closed, silent]) {
    w.consumers.register('G', one, CLUSTERING, [subscription('T')], true);
  }
  const before = notified(stays.channel);
  w.consumers.unregister('G', farewell.channel, true);
  closed.channel.close('test');
  assert.deepEqual(w.consumers.find('G')!.clientIds(), ['a', 'd']);
  assert.equal(notified(stays.channel), before + 2);
  w.clock.advance(119_000);
  w.consumers.register('G', w.client('a', stays.channel), CLUSTERING, [subscription('T')], true);
  assert.deepEqual(w.consumers.find('G')!.clientIds(), ['a', 'd']);
  w.clock.advance(11_000);
  assert.deepEqual(w.consumers.find('G')!.clientIds(), ['a']);
  assert.match(silent.channel.closedFor!, /no heartbeat of consumer d/);
  assert.equal(notified(stays.channel), before + 3);
  stays.channel.close('test');
  assert.equal(w.consumers.find('G'), undefined);
});

test('producers are found by group and by client id, until they leave', () => {
  const w = new World();
  w.producers.start();
  const one = w.client('a');
  const other = w.client('b');
  w.producers.register('P', one);
  w.producers.register('Q', { ...one });
  w.producers.register('P', other);
  assert.equal(w.producers.findChannel('a'), one.channel);
  const seen = new Set([w.producers.availableChannel('P'), w.producers.availableChannel('P')]);
  assert.deepEqual(seen, new Set([one.channel, other.channel]));
  w.producers.unregister('P', one.channel);
  assert.equal(w.producers.findChannel('a'), one.channel, 'it still serves the other group');
  w.producers.unregister('Q', one.channel);
  assert.equal(w.producers.findChannel('a'), undefined);
  assert.equal(w.producers.find('Q'), undefined);
  w.clock.advance(131_000);
  assert.equal(w.producers.find('P'), undefined);
  assert.match(other.channel.closedFor!, /no heartbeat of producer b/);
  assert.equal(w.producers.availableChannel('P'), undefined);
});

test('locks of queues: kept by renewal, free after a minute, given back only by their holder', () => {
  const clock = new FakeClock();
  const config = { gantryRebalanceLockMaxLiveTime: 60_000 };
  const locks = new RebalanceLockManager(clock, new CollectingLogger(), config);
  const [q0, q1] = [messageQueueOf('T', 0), messageQueueOf('T', 1)];
  assert.deepEqual(locks.tryLockBatch('G', [q0, q1], 'a'), [q0, q1]);
  assert.deepEqual(locks.tryLockBatch('G', [q0, q1], 'b'), []);
  assert.deepEqual(locks.tryLockBatch('H', [q0], 'b'), [q0], 'groups have locks of their own');
  clock.advance(40_000);
  assert.deepEqual(locks.tryLockBatch('G', [q0], 'a'), [q0]);
  clock.advance(40_000);
  assert.deepEqual(locks.tryLockBatch('G', [q0, q1], 'b'), [q1]);
  assert.ok(locks.hasLiveLock('G'));
  locks.unlockBatch('G', [q0, q1], 'b');
  assert.deepEqual(locks.tryLockBatch('G', [q0, q1], 'c'), [q1]);
  clock.advance(60_001);
  assert.ok(!locks.hasLiveLock('G'));
  assert.deepEqual(locks.tryLockBatch('G', [q0], 'c'), [q0]);
});

test('a heartbeat of Java, with names', () => {
  const heartbeat = readHeartbeat(
    Buffer.from(
      '{"clientID":"c","consumerDataSet":[{"consumeFromWhere":"CONSUME_FROM_FIRST_OFFSET","consumeType":"CONSUME_PASSIVELY","groupName":"G","messageModel":"CLUSTERING","subscriptionDataSet":[{"classFilterMode":false,"codeSet":[65,66],"expressionType":"TAG","subString":"A || B","subVersion":1795994123786,"tagsSet":["A","B"],"topic":"T"}],"unitMode":false}],"heartbeatFingerprint":0,"producerDataSet":[{"groupName":"P"}],"withoutSub":false}',
    ),
  );
  assert.deepEqual(heartbeat, {
    clientId: 'c',
    heartbeatFingerprint: 0,
    withoutSub: false,
    producerGroups: ['P'],
    consumers: [
      {
        groupName: 'G',
        behaviour: {
          consumeType: 'CONSUME_PASSIVELY',
          messageModel: 'CLUSTERING',
          consumeFromWhere: 'CONSUME_FROM_FIRST_OFFSET',
        },
        unitMode: false,
        subscriptions: [
          {
            topic: 'T',
            subString: 'A || B',
            tagsSet: ['A', 'B'],
            codeSet: [65, 66],
            subVersion: 1795994123786,
            expressionType: 'TAG',
            classFilterMode: false,
          },
        ],
      },
    ],
  });
});

test('a heartbeat of C++: numbers for names, numbers as text, no empty sets, a newline at the end', () => {
  const heartbeat = readHeartbeat(
    Buffer.from(
      '{"clientID":"c","consumerDataSet":[{"consumeFromWhere":5,"consumeType":1,"groupName":"G","messageModel":0,"subscriptionDataSet":[{"subString":"*","subVersion":"17","topic":"T"}]}]}\n',
    ),
  );
  const [consumer] = heartbeat.consumers;
  assert.deepEqual(consumer!.behaviour, {
    consumeType: 'CONSUME_PASSIVELY',
    messageModel: 'BROADCASTING',
    consumeFromWhere: 'CONSUME_FROM_TIMESTAMP',
  });
  assert.equal(consumer!.subscriptions[0]!.subVersion, 17);
  assert.deepEqual(heartbeat.producerGroups, []);
});

test('what is no heartbeat is an error that names the cause, and unknown names mean nothing', () => {
  for (const text of ['', 'not json', '[]', 'null', '{"consumerDataSet":3}']) {
    assert.throws(() => readHeartbeat(Buffer.from(text)), { responseCode: 1 }, text);
  }
  const odd = readHeartbeat(Buffer.from('{"consumerDataSet":[{"groupName":"G","messageModel":"NEW_ONE"}]}'));
  assert.equal(odd.consumers[0]!.behaviour.messageModel, undefined);
});

test('the closing of a connection with many groups is told where printChannelGroups asks for it', () => {
  const many = ['A', 'B', 'C', 'D', 'E', 'F'];
  for (const [config, told] of [
    [{}, []],
    [{ printChannelGroups: true, printChannelGroupsMinNum: 7 }, []],
    [
      { printChannelGroups: true, printChannelGroupsMinNum: 1 },
      ['a connection of 6 producer groups', 'a connection of 6 consumer groups'],
    ],
  ] as const) {
    const w = new World(config);
    const client = w.client('a');
    for (const group of many) w.producers.register(group, client);
    for (const group of many) w.consumers.register(group, client, CLUSTERING, [subscription('T')], true);
    const few = w.client('b');
    for (const group of many.slice(0, 4)) w.producers.register(group, few);
    client.channel.close('gone');
    few.channel.close('gone');
    const warnings = w.logger.texts('warn').filter((text) => text.startsWith('a connection of'));
    assert.deepEqual(
      warnings.map((text) => text.slice(0, text.indexOf(' is'))),
      told,
    );
  }
});
