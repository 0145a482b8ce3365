import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CollectingLogger, FakeClock, GantryError } from '../../common/index.ts';
import { MemoryFileSystem, readWhole } from '../../io/index.ts';
import { type BrokerConfig, defaultBrokerConfig } from '../broker-config.ts';
import { Perm, TopicConfig } from './topic-config.ts';
import { TopicConfigManager } from './topic-config-manager.ts';
import { groupNameFault, topicNameFault } from './topic-names.ts';

interface World {
  fs: MemoryFileSystem;
  clock: FakeClock;
  logger: CollectingLogger;
  topics: TopicConfigManager;
  told: string[][];
  saves: () => number;
}

function world(config: Partial<BrokerConfig> = {}, fs = new MemoryFileSystem({ directories: ['/config'] })): World {
  const clock = new FakeClock();
  const logger = new CollectingLogger();
  const told: string[][] = [];
  let saves = 0;
  fs.onOperation = (operation) => {
    if (operation === 'syncDirectory') saves++;
  };
  const topics = new TopicConfigManager(
    { fs, clock, logger, folder: '/config' },
    { ...defaultBrokerConfig(), ...config },
    (changed) => told.push(changed.map((topic) => topic.topicName)),
  );
  return { fs, clock, logger, topics, told, saves: () => saves };
}

test("the broker's own topics are there from the start, with RocketMQ's queues and permissions", () => {
  const { topics } = world({ brokerClusterName: 'C', brokerName: 'b' });
  const shown = [...topics.all()].map((topic) => `${topic.topicName} ${topic.writeQueueNums} ${topic.perm}`).sort();
  assert.deepEqual(shown, [
    'BenchmarkTest 1024 6',
    'C 16 7',
    'C_REPLY_TOPIC 1 6',
    'OFFSET_MOVED_EVENT 1 6',
    'RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC 1 6',
    'RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC 1 6',
    'RMQ_SYS_TRANS_HALF_TOPIC 1 6',
    'RMQ_SYS_TRANS_OP_HALF_TOPIC 1 6',
    'SCHEDULE_TOPIC_XXXX 18 6',
    'SELF_TEST_TOPIC 1 6',
    'TBW102 8 7',
    'b 1 7',
    'rmq_sys_REVIVE_LOG_C 8 6',
    'rmq_sys_SYNC_BROKER_MEMBER_b 1 1',
    'rmq_sys_wheel_timer 1 6',
  ]);
  assert.ok(topics.systemTopics.isSystem('C_REPLY_TOPIC'));
  assert.ok(topics.systemTopics.isSystem('rmq_sys_anything'));
  assert.ok(!topics.systemTopics.isSystem('Mine'));
});

test('a send creates its topic after the default topic, with the smaller number of queues', () => {
  const { topics } = world();
  const created = topics.createInSend('T', 'TBW102', 'p', 4, 1)!;
  assert.deepEqual(
    [created.readQueueNums, created.writeQueueNums, created.perm, created.topicSysFlag],
    [4, 4, Perm.READ | Perm.WRITE, 1],
  );
  assert.equal(topics.select('T'), created);
  assert.equal(topics.createInSend('T', 'TBW102', 'p', 2, 0), created, 'an existing topic stays as it is');
  assert.equal(topics.createInSend('U', 'TBW102', 'p', 100, 0)!.writeQueueNums, 8);
  assert.equal(topics.createInSend('V', 'TBW102', 'p', -3, 0)!.writeQueueNums, 0);
});

test('a send creates nothing after a default topic that is missing or may not be inherited from', () => {
  const { topics } = world();
  assert.equal(topics.createInSend('T', 'NoSuchTopic', 'p', 4, 0), undefined);
  assert.equal(topics.createInSend('T', 'BenchmarkTest', 'p', 4, 0), undefined);
  assert.ok(!topics.has('T'));
});

test('with autoCreateTopicEnable off not even a TBW102 of an earlier run lets a send create a topic', () => {
  const before = world();
  before.topics.persist();
  const { topics } = world({ autoCreateTopicEnable: false }, before.fs);
  topics.load();
  assert.ok(topics.has('TBW102'));
  assert.equal(topics.createInSend('T', 'TBW102', 'p', 4, 0), undefined);
});

test('the topics that one loop turn creates are saved and told of together', async () => {
  const { topics, told, saves, fs } = world();
  for (let i = 0; i < 100; i++) topics.createInSend(`T${i}`, 'TBW102', 'p', 4, 0);
  topics.createInSendBack('%RETRY%G', 1, 6, false, 0);
  assert.equal(saves(), 0);
  assert.equal(told.length, 0);
  await topics.durable('T99');
  assert.equal(saves(), 1);
  assert.equal(told.length, 1);
  assert.equal(told[0]!.length, 101);
  assert.match(Buffer.from(readWhole(fs, '/config/topics.json')!).toString(), /"T99":\{/);
});

test('an administrator’s topic is saved before the call resolves, and a restart knows it', async () => {
  const { topics, told, fs } = world();
  const version = topics.dataVersion.counter;
  const topic = new TopicConfig('T', { readQueueNums: 2, writeQueueNums: 3, order: true });
  await topics.update([{ topic, attributes: new Map([['+message.type', 'FIFO']]) }]);
  assert.equal(topics.dataVersion.counter, version + 1);
  assert.deepEqual(told, [['T']]);
  const again = world({}, fs).topics;
  again.load();
  assert.ok(again.select('T')!.equals(topics.select('T')!));
  assert.deepEqual([...again.select('T')!.attributes], [['message.type', 'FIFO']]);
  assert.ok(again.dataVersion.equals(topics.dataVersion));
});

test('attributes change by + and -, and what is not allowed changes nothing', () => {
  const { topics } = world();
  const topic = new TopicConfig('T');
  const update = (attributes: Array<[string, string]>): void => {
    void topics.update([{ topic, attributes: new Map(attributes) }]);
  };
  const refused = (attributes: Array<[string, string]>, text: RegExp): void =>
    assert.throws(
      () => update(attributes),
      (error) => error instanceof GantryError && error.responseCode === 1 && text.test(error.message),
    );
  refused([['-message.type', '']], /only add attribute is supported/);
  update([['+queue.type', 'SimpleCQ']]);
  refused([['+no.such', '1']], /^unsupported key: no\.such$/);
  refused([['+message.type', 'ODD']], /^value is not in set: \[/);
  refused([['+queue.type', 'BatchCQ']], /unchangeable/);
  refused([['-message.type', '']], /nonexistent/);
  refused([['+lite.topic.expiration', '43201']], /not in range\(-1, 43200\)/);
  update([['+message.type', 'FIFO']]);
  update([['-message.type', '']]);
  assert.deepEqual([...topics.select('T')!.attributes], [['queue.type', 'SimpleCQ']]);
});

test('a save that fails is told to the administrator and tried again', async () => {
  const { topics, fs } = world();
  const fault = fs.fail({ operation: 'sync', times: Number.POSITIVE_INFINITY, code: 'DISK_FULL' });
  const wish = { topic: new TopicConfig('T'), attributes: new Map<string, string>() };
  await assert.rejects(topics.update([wish]), { code: 'DISK_FULL' });
  assert.ok(topics.changed);
  fault.clear();
  topics.persistIfChanged();
  assert.ok(!topics.changed);
});

test('a deleted topic stays deleted, and the order topics of the name servers are marked', () => {
  const { topics, fs } = world();
  topics.createInSend('T', 'TBW102', 'p', 4, 0);
  assert.equal(topics.delete('T'), true);
  assert.equal(topics.delete('T'), false);
  topics.createInSend('O', 'TBW102', 'p', 4, 0);
  topics.updateOrderTopics(['O', 'T', 'NoSuchTopic']);
  assert.ok(topics.isOrderTopic('O'));
  topics.persist();
  const again = world({}, fs).topics;
  again.load();
  assert.ok(!again.has('T'));
  assert.ok(again.isOrderTopic('O'));
});

test('what a send creates after TBW102 is told of once; another example, retry and system topics are not', () => {
  const { fs, clock, logger } = world();
  const created: string[] = [];
  const config = { ...defaultBrokerConfig(), brokerName: 'b' };
  const topics = new TopicConfigManager(
    { fs, clock, logger, folder: '/config' },
    config,
    () => {},
    (topic) => created.push(topic.topicName),
  );
  for (const name of ['T', 'T', '%RETRY%G', '%DLQ%G', 'rmq_sys_x']) topics.createInSend(name, 'TBW102', 'p', 4, 0);
  assert.ok(topics.createInSend('ByExample', 'b', 'p', 4, 0));
  topics.createInSendBack('%RETRY%H', 1, 6, false, 0);
  topics.update([{ topic: new TopicConfig('Wished'), attributes: new Map() }]);
  assert.deepEqual(created, ['T']);
});

test('a retry topic takes over whether its group consumes in order', () => {
  const { topics } = world();
  assert.equal(topics.createInSendBack('%RETRY%G', 1, 6, false, 0).order, false);
  assert.equal(topics.createInSendBack('%RETRY%G', 1, 6, true, 0).order, true);
});

test('pages are in name order', () => {
  const { topics } = world();
  const all = [...topics.all()].map((topic) => topic.topicName).sort();
  const paged = [0, 4, 8, 12, 16].flatMap((first) => topics.page(first, 4).map((topic) => topic.topicName));
  assert.deepEqual(paged, all);
});

test('names: characters and lengths as RocketMQ allows them', () => {
  assert.equal(topicNameFault('%RETRY%a|b-c_1'), undefined);
  assert.match(topicNameFault('bad topic!')!, /contains illegal characters/);
  assert.match(topicNameFault(' ')!, /blank/);
  assert.equal(topicNameFault('t'.repeat(127)), undefined);
  assert.match(topicNameFault('t'.repeat(128))!, /longer than topic max length: 127/);
  assert.equal(topicNameFault(`%DLQ%${'t'.repeat(250)}`), undefined);
  assert.match(topicNameFault(`%DLQ%${'t'.repeat(251)}`)!, /longer than topic max length: 255/);
  assert.equal(groupNameFault('g'.repeat(120)), undefined);
  assert.match(groupNameFault('g'.repeat(121))!, /longer than group max length: 120/);
});
