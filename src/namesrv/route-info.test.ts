import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { QueueMappingInfo, RegisteredTopic } from './route-data.ts';
import { DEFAULT_BROKER_TIMEOUT_MS, type Registration, RouteInfo } from './route-info.ts';

const NOW = 1_700_000_000_000;

function topic(topicName: string, change: Partial<RegisteredTopic> = {}): RegisteredTopic {
  return { topicName, readQueueNums: 4, writeQueueNums: 4, perm: 6, topicSysFlag: 0, ...change };
}

interface Change extends Partial<Omit<Registration, 'tables'>> {
  topics?: RegisteredTopic[];
  counter?: number;
  stateVersion?: number;
  queueMappings?: QueueMappingInfo[];
  filterServers?: string[];
}

function registration(change: Change = {}): Registration {
  const { topics, counter, stateVersion, queueMappings, filterServers, ...identity } = change;
  return {
    clusterName: 'C',
    brokerName: 'a',
    brokerAddr: '10.0.0.1:10911',
    brokerId: 0,
    haServerAddr: '10.0.0.1:10912',
    zoneName: undefined,
    enableActingMaster: false,
    heartbeatTimeoutMs: undefined,
    channelId: 1,
    tables: {
      dataVersion: { counter: counter ?? 1, stateVersion: stateVersion ?? 0, timestamp: 7 },
      topics: topics ?? [topic('T'), topic('U')],
      queueMappings: queueMappings ?? [],
      filterServers: filterServers ?? [],
    },
    ...identity,
  };
}

function tables(change: { acting?: boolean; deleteUnlisted?: boolean } = {}): RouteInfo {
  return new RouteInfo({
    supportActingMaster: change.acting ?? false,
    deleteTopicWithBrokerRegistration: change.deleteUnlisted ?? false,
  });
}

const slave = { brokerId: 1, brokerAddr: '10.0.0.2:10911', haServerAddr: '10.0.0.2:10912', channelId: 2 };

test('a registration makes its topics known, with the addresses of the broker', () => {
  const routes = tables();
  const result = routes.registerBroker(registration({ zoneName: 'z1' }), NOW);
  assert.equal(result.outcome, 'registered');
  assert.equal(result.fresh, true);
  assert.deepEqual(routes.pickupTopicRoute('T'), {
    brokerDatas: [
      {
        brokerAddrs: { '0': '10.0.0.1:10911' },
        brokerName: 'a',
        cluster: 'C',
        enableActingMaster: false,
        zoneName: 'z1',
      },
    ],
    filterServerTable: {},
    queueDatas: [{ brokerName: 'a', perm: 6, readQueueNums: 4, topicSysFlag: 0, writeQueueNums: 4 }],
  });
  assert.equal(routes.registerBroker(registration(), NOW).fresh, false);
});

test('a first registration with exactly one topic is refused and leaves nothing behind', () => {
  const routes = tables();
  const result = routes.registerBroker(registration({ topics: [topic('T')] }), NOW);
  assert.equal(result.outcome, 'refused');
  assert.deepEqual(routes.clusterInfo(), { brokerAddrTable: {}, clusterAddrTable: {} });
  assert.equal(routes.dataVersionOf('C', '10.0.0.1:10911'), undefined);
  assert.equal(routes.pickupTopicRoute('T'), undefined);
});

test('a first registration with no topic at all is taken', () => {
  const routes = tables();
  assert.equal(routes.registerBroker(registration({ topics: [] }), NOW).outcome, 'registered');
  assert.deepEqual(routes.clusterInfo().clusterAddrTable, { C: ['a'] });
  assert.deepEqual(routes.allTopics(), { topicList: [] });
});

test('the refusal of single topics is per broker id: a slave that is new to a known group is refused too', () => {
  const routes = tables();
  routes.registerBroker(registration(), NOW);
  assert.equal(routes.registerBroker(registration({ ...slave, topics: [topic('T')] }), NOW).outcome, 'refused');
  assert.deepEqual(routes.brokerMemberGroup('C', 'a').brokerAddrs, { '0': '10.0.0.1:10911' });
});

test('later increments of one topic are taken, and topics that a registration leaves out are kept', () => {
  const routes = tables();
  routes.registerBroker(registration(), NOW);
  const result = routes.registerBroker(registration({ topics: [topic('New')], counter: 2 }), NOW);
  assert.equal(result.outcome, 'registered');
  assert.deepEqual(routes.allTopics().topicList.sort(), ['New', 'T', 'U']);
});

test('deleteTopicWithBrokerRegistration drops what a registration leaves out, of this broker only', () => {
  const routes = tables({ deleteUnlisted: true });
  routes.registerBroker(registration(), NOW);
  routes.registerBroker(registration({ brokerName: 'b', brokerAddr: '10.0.0.9:1', channelId: 9 }), NOW);
  routes.registerBroker(registration({ topics: [topic('U'), topic('V')], counter: 2 }), NOW);
  assert.deepEqual(
    routes.pickupTopicRoute('T')?.queueDatas.map((queue) => queue.brokerName),
    ['b'],
  );
  routes.registerBroker(registration({ topics: [topic('U')], brokerName: 'b', brokerAddr: '10.0.0.9:1' }), NOW);
  assert.equal(routes.pickupTopicRoute('T'), undefined);
  assert.deepEqual(routes.allTopics().topicList.sort(), ['U', 'V']);
});

test('deleteTopicWithBrokerRegistration leaves brokers with static topics alone', () => {
  const routes = tables({ deleteUnlisted: true });
  routes.registerBroker(registration(), NOW);
  routes.registerBroker(registration({ topics: [topic('U')], counter: 2, queueMappings: [mapping('U', 'a')] }), NOW);
  assert.notEqual(routes.pickupTopicRoute('T'), undefined);
});

for (const [name, change] of [
  ['counter', { counter: 2 }],
  ['state version', { stateVersion: 1 }],
] as const) {
  test(`a changed ${name} of the data version updates the queues`, () => {
    const routes = tables();
    routes.registerBroker(registration(), NOW);
    const topics = [topic('T', { writeQueueNums: 16, perm: 4 }), topic('U')];
    routes.registerBroker(registration({ topics, ...change }), NOW);
    const queue = routes.pickupTopicRoute('T')?.queueDatas[0];
    assert.equal(queue?.writeQueueNums, 16);
    assert.equal(queue?.perm, 4);
  });
}

test('an unchanged data version changes no known queue, but brings back a topic that had been deleted', () => {
  const routes = tables();
  routes.registerBroker(registration(), NOW);
  routes.deleteTopic('T');
  assert.equal(routes.pickupTopicRoute('T'), undefined);
  const topics = [topic('T', { writeQueueNums: 8 }), topic('U', { writeQueueNums: 8 })];
  routes.registerBroker(registration({ topics }), NOW);
  assert.equal(routes.pickupTopicRoute('T')?.queueDatas[0]?.writeQueueNums, 8);
  assert.equal(routes.pickupTopicRoute('U')?.queueDatas[0]?.writeQueueNums, 4);
});

test('a slave does not touch the topics, and learns its master while that is live', () => {
  const routes = tables();
  routes.registerBroker(registration(), NOW);
  const topics = [topic('T', { writeQueueNums: 16 }), topic('OnlyThere')];
  const result = routes.registerBroker(registration({ ...slave, topics, counter: 5 }), NOW);
  assert.equal(result.masterAddr, '10.0.0.1:10911');
  assert.equal(result.haServerAddr, '10.0.0.1:10912');
  assert.equal(routes.pickupTopicRoute('OnlyThere'), undefined);
  assert.equal(routes.pickupTopicRoute('T')?.queueDatas[0]?.writeQueueNums, 4);
  assert.deepEqual(routes.pickupTopicRoute('T')?.brokerDatas[0]?.brokerAddrs, {
    '0': '10.0.0.1:10911',
    '1': '10.0.0.2:10911',
  });
});

test('a slave without a master gets no master address, and its topics count only if it is of the new kind', () => {
  for (const [enableActingMaster, found] of [
    [undefined, false],
    [false, true],
    [true, true],
  ] as const) {
    const routes = tables();
    const result = routes.registerBroker(registration({ ...slave, enableActingMaster }), NOW);
    assert.equal(result.masterAddr, undefined);
    assert.equal(routes.pickupTopicRoute('T') !== undefined, found);
  }
});

test('the prime slave of a group with acting masters registers without the write permission', () => {
  const routes = tables();
  routes.registerBroker(registration({ ...slave, enableActingMaster: true }), NOW);
  assert.equal(routes.pickupTopicRoute('T')?.queueDatas[0]?.perm, 4);
  const second = { ...slave, brokerId: 2, brokerAddr: '10.0.0.3:10911', channelId: 3 };
  const topics = [topic('T', { writeQueueNums: 16 }), topic('U')];
  routes.registerBroker(registration({ ...second, enableActingMaster: true, counter: 9, topics }), NOW);
  assert.equal(routes.pickupTopicRoute('T')?.queueDatas[0]?.writeQueueNums, 4, 'the second slave is not the prime one');
});

test('an address stands for one id only: a slave that registers as master gives up its id', () => {
  const routes = tables();
  routes.registerBroker(registration({ ...slave }), NOW);
  routes.registerBroker(registration({ ...slave, brokerId: 0, counter: 2 }), NOW);
  assert.deepEqual(routes.brokerMemberGroup('C', 'a').brokerAddrs, { '0': '10.0.0.2:10911' });
});

test('an id that is held by a live broker of a larger state version is not taken over', () => {
  const routes = tables();
  routes.registerBroker(registration({ stateVersion: 2 }), NOW);
  const rival = { brokerAddr: '10.0.0.7:10911', channelId: 7 };
  assert.equal(routes.registerBroker(registration({ ...rival, stateVersion: 1 }), NOW).outcome, 'ignored');
  assert.deepEqual(routes.brokerMemberGroup('C', 'a').brokerAddrs, { '0': '10.0.0.1:10911' });
  assert.equal(routes.dataVersionOf('C', '10.0.0.7:10911'), undefined);
  assert.equal(routes.registerBroker(registration({ ...rival, stateVersion: 2 }), NOW).outcome, 'registered');
  assert.deepEqual(routes.brokerMemberGroup('C', 'a').brokerAddrs, { '0': '10.0.0.7:10911' });
});

test('an ignored broker that was a slave of the group is taken out of it', () => {
  const routes = tables();
  routes.registerBroker(registration({ stateVersion: 2 }), NOW);
  routes.registerBroker(registration({ ...slave }), NOW);
  assert.equal(routes.registerBroker(registration({ ...slave, brokerId: 0 }), NOW).outcome, 'ignored');
  assert.deepEqual(routes.brokerMemberGroup('C', 'a').brokerAddrs, { '0': '10.0.0.1:10911' });
  assert.equal(routes.dataVersionOf('C', slave.brokerAddr), undefined);
});

test('the last broker of a name takes its queues, its name and its cluster along', () => {
  const routes = tables();
  routes.registerBroker(registration(), NOW);
  routes.registerBroker(
    registration({ brokerName: 'b', brokerAddr: '10.0.0.9:1', topics: [topic('T'), topic('B')] }),
    NOW,
  );
  routes.unregisterBroker({ clusterName: 'C', brokerName: 'a', brokerAddr: '10.0.0.1:10911', brokerId: 0 });
  assert.deepEqual(routes.clusterInfo().clusterAddrTable, { C: ['b'] });
  assert.deepEqual(
    routes.pickupTopicRoute('T')?.queueDatas.map((queue) => queue.brokerName),
    ['b'],
  );
  assert.equal(routes.pickupTopicRoute('U'), undefined);
  routes.unregisterBroker({ clusterName: 'C', brokerName: 'b', brokerAddr: '10.0.0.9:1', brokerId: 0 });
  assert.deepEqual(routes.clusterInfo(), { brokerAddrTable: {}, clusterAddrTable: {} });
  assert.deepEqual(routes.allTopics(), { topicList: [] });
});

test('a farewell of an address that is not in the group changes nothing', () => {
  const routes = tables();
  routes.registerBroker(registration(), NOW);
  routes.unregisterBroker({ clusterName: 'C', brokerName: 'a', brokerAddr: '10.9.9.9:1', brokerId: 0 });
  routes.unregisterBroker({ clusterName: 'C', brokerName: 'unknown', brokerAddr: '10.0.0.1:10911', brokerId: 0 });
  assert.deepEqual(routes.brokerMemberGroup('C', 'a').brokerAddrs, { '0': '10.0.0.1:10911' });
});

test('without its master a group keeps its topics; with acting masters they lose the write permission', () => {
  for (const [enableActingMaster, perm] of [
    [false, 6],
    [true, 4],
  ] as const) {
    const routes = tables();
    routes.registerBroker(registration({ enableActingMaster }), NOW);
    routes.registerBroker(registration({ ...slave, enableActingMaster }), NOW);
    routes.unregisterBroker({ clusterName: 'C', brokerName: 'a', brokerAddr: '10.0.0.1:10911', brokerId: 0 });
    assert.equal(routes.pickupTopicRoute('T')?.queueDatas[0]?.perm, perm);
  }
});

test('an acting master is shown as id 0, only where the name server and the group allow it and the queues are read only', () => {
  const shown = (acting: boolean, group: boolean, name = 'T'): Record<string, string> | undefined => {
    const routes = tables({ acting });
    const topics = [topic('T'), topic('rmq_sys_SYNC_BROKER_MEMBER_a')];
    routes.registerBroker(registration({ enableActingMaster: group, topics }), NOW);
    routes.registerBroker(registration({ ...slave, enableActingMaster: group, topics }), NOW);
    routes.unregisterBroker({ clusterName: 'C', brokerName: 'a', brokerAddr: '10.0.0.1:10911', brokerId: 0 });
    return routes.pickupTopicRoute(name)?.brokerDatas[0]?.brokerAddrs;
  };
  assert.deepEqual(shown(true, true), { '0': '10.0.0.2:10911' });
  assert.deepEqual(shown(false, true), { '1': '10.0.0.2:10911' });
  assert.deepEqual(shown(true, false), { '1': '10.0.0.2:10911' });
  assert.deepEqual(shown(true, true, 'rmq_sys_SYNC_BROKER_MEMBER_a'), { '1': '10.0.0.2:10911' });
});

test('an acting master does not change the tables: the group still shows the real ids', () => {
  const routes = tables({ acting: true });
  routes.registerBroker(registration({ ...slave, enableActingMaster: true }), NOW);
  assert.deepEqual(routes.pickupTopicRoute('T')?.brokerDatas[0]?.brokerAddrs, { '0': '10.0.0.2:10911' });
  assert.deepEqual(routes.brokerMemberGroup('C', 'a').brokerAddrs, { '1': '10.0.0.2:10911' });
});

test('a broker is gone once its time is over, and not a millisecond before', () => {
  const routes = tables();
  routes.registerBroker(registration(), NOW);
  assert.deepEqual(routes.scanNotActiveBrokers(NOW + DEFAULT_BROKER_TIMEOUT_MS), []);
  const gone = routes.scanNotActiveBrokers(NOW + DEFAULT_BROKER_TIMEOUT_MS + 1);
  assert.equal(gone.length, 1);
  assert.equal(gone[0]?.channelId, 1);
  assert.equal(gone[0]?.brokerAddr, '10.0.0.1:10911');
  assert.equal(routes.pickupTopicRoute('T'), undefined);
});

test('a heartbeat and a registration both push the end back; each broker has its own time', () => {
  const routes = tables();
  routes.registerBroker(registration({ heartbeatTimeoutMs: 1000 }), NOW);
  routes.registerBroker(registration({ brokerName: 'b', brokerAddr: '10.0.0.9:1', channelId: 9 }), NOW);
  routes.touch('C', '10.0.0.1:10911', NOW + 900);
  assert.deepEqual(routes.scanNotActiveBrokers(NOW + 1900), []);
  routes.touch('C', 'unknown', NOW);
  assert.deepEqual(
    routes.scanNotActiveBrokers(NOW + 1901).map((broker) => broker.brokerAddr),
    ['10.0.0.1:10911'],
  );
});

test('the end of a connection removes every broker that registered over it, and no other', () => {
  const routes = tables();
  routes.registerBroker(registration({ channelId: 5 }), NOW);
  routes.registerBroker(registration({ brokerName: 'b', brokerAddr: '10.0.0.9:1', channelId: 5 }), NOW);
  routes.registerBroker(registration({ brokerName: 'c', brokerAddr: '10.0.0.9:2', channelId: 6 }), NOW);
  routes.registerBroker(registration({ brokerName: 'c', brokerAddr: '10.0.0.9:2', channelId: 7 }), NOW);
  assert.equal(routes.channelClosed(5).length, 2);
  assert.equal(routes.channelClosed(6).length, 0, 'the broker has a newer connection');
  assert.deepEqual(Object.keys(routes.clusterInfo().brokerAddrTable), ['c']);
});

test('a broker that registered its name from another cluster ends with its connection', () => {
  const routes = tables();
  const before = routes.clusterInfo();
  routes.registerBroker(registration({ channelId: 5 }), NOW);
  routes.registerBroker(registration({ clusterName: 'D', brokerAddr: '10.0.0.9:10911', channelId: 6 }), NOW);
  routes.channelClosed(5);
  assert.deepEqual(Object.keys(routes.clusterInfo().brokerAddrTable), ['a']);
  routes.channelClosed(6);
  assert.deepEqual(routes.clusterInfo(), before);
});

test('a live entry whose address has been replaced runs out by itself and takes nothing along', () => {
  const routes = tables();
  routes.registerBroker(registration(), NOW);
  routes.registerBroker(registration({ brokerAddr: '10.0.0.8:10911', channelId: 8 }), NOW + 60_000);
  assert.equal(routes.scanNotActiveBrokers(NOW + DEFAULT_BROKER_TIMEOUT_MS + 1).length, 1);
  assert.notEqual(routes.pickupTopicRoute('T'), undefined);
  assert.deepEqual(routes.scanNotActiveBrokers(NOW + DEFAULT_BROKER_TIMEOUT_MS + 1), []);
});

test('write permission is wiped and given back for one broker, until it registers with another version', () => {
  const routes = tables();
  routes.registerBroker(registration({ topics: [topic('T', { perm: 7 }), topic('U')] }), NOW);
  routes.registerBroker(registration({ brokerName: 'b', brokerAddr: '10.0.0.9:1' }), NOW);
  const perms = (): number[] | undefined => routes.pickupTopicRoute('T')?.queueDatas.map((queue) => queue.perm);
  assert.equal(routes.wipeWritePerm('a'), 2);
  assert.deepEqual(perms(), [5, 6]);
  routes.registerBroker(registration({ topics: [topic('T', { perm: 7 }), topic('U')] }), NOW);
  assert.deepEqual(perms(), [5, 6], 'the same version brings nothing back');
  assert.equal(routes.addWritePerm('a'), 2);
  assert.deepEqual(perms(), [6, 6], 'read and write, whatever it was before');
  routes.registerBroker(registration({ topics: [topic('T', { perm: 7 }), topic('U')], counter: 2 }), NOW);
  assert.deepEqual(perms(), [7, 6]);
  assert.equal(routes.wipeWritePerm('unknown'), 0);
});

test('a topic is deleted everywhere, or on the brokers of one cluster', () => {
  const routes = tables();
  routes.registerBroker(registration(), NOW);
  routes.registerBroker(registration({ clusterName: 'D', brokerName: 'b', brokerAddr: '10.0.0.9:1' }), NOW);
  routes.deleteTopic('T', 'unknown');
  assert.equal(routes.pickupTopicRoute('T')?.queueDatas.length, 2);
  routes.deleteTopic('T', 'D');
  assert.deepEqual(
    routes.pickupTopicRoute('T')?.queueDatas.map((queue) => queue.brokerName),
    ['a'],
  );
  routes.deleteTopic('U');
  assert.equal(routes.pickupTopicRoute('U'), undefined);
});

test('queues put by REGISTER_TOPIC_IN_NAMESRV count for known brokers only', () => {
  const routes = tables();
  routes.registerBroker(registration(), NOW);
  const queue = { perm: 6, readQueueNums: 2, topicSysFlag: 0, writeQueueNums: 3 };
  const unknown = routes.registerTopic('X', [
    { brokerName: 'nobody', ...queue },
    { brokerName: 'a', ...queue },
  ]);
  assert.deepEqual(unknown, ['nobody']);
  assert.deepEqual(routes.pickupTopicRoute('X')?.queueDatas, [{ brokerName: 'a', ...queue }]);
  routes.registerTopic('Y', [{ brokerName: 'nobody', ...queue }]);
  assert.equal(routes.pickupTopicRoute('Y'), undefined);
  assert.equal(routes.allTopics().topicList.includes('Y'), false);
});

function mapping(name: string, bname: string): QueueMappingInfo {
  return { bname, currIdMap: { '0': 0 }, dirty: false, epoch: 1, scope: '__global__', topic: name, totalQueues: 2 };
}

test('the mappings of a static topic are shown by broker, and go with the topic', () => {
  const routes = tables();
  routes.registerBroker(registration({ queueMappings: [mapping('T', 'a')] }), NOW);
  routes.registerBroker(
    registration({ brokerName: 'b', brokerAddr: '10.0.0.9:1', queueMappings: [mapping('T', 'b')] }),
    NOW,
  );
  assert.deepEqual(routes.pickupTopicRoute('T')?.topicQueueMappingByBroker, {
    a: mapping('T', 'a'),
    b: mapping('T', 'b'),
  });
  const newer = { ...mapping('T', 'a'), epoch: 2 };
  routes.registerBroker(registration({ queueMappings: [newer] }), NOW);
  assert.equal(routes.pickupTopicRoute('T')?.topicQueueMappingByBroker?.['a']?.epoch, 1, 'the version has not changed');
  routes.registerBroker(registration({ queueMappings: [newer], counter: 2 }), NOW);
  assert.equal(routes.pickupTopicRoute('T')?.topicQueueMappingByBroker?.['a']?.epoch, 2);
  routes.deleteTopic('T');
  routes.registerBroker(registration({ counter: 3 }), NOW);
  assert.equal(routes.pickupTopicRoute('T')?.topicQueueMappingByBroker, undefined);
});

test('filter servers are shown with the address they registered with, until a registration without them', () => {
  const routes = tables();
  routes.registerBroker(registration({ filterServers: ['10.0.0.1:4444'] }), NOW);
  assert.deepEqual(routes.pickupTopicRoute('T')?.filterServerTable, { '10.0.0.1:10911': ['10.0.0.1:4444'] });
  routes.registerBroker(registration(), NOW);
  assert.deepEqual(routes.pickupTopicRoute('T')?.filterServerTable, {});
});

test('lists: topics of a cluster, system topics, unit topics', () => {
  const routes = tables();
  const topics = [
    topic('Plain'),
    topic('Unit', { topicSysFlag: 1 }),
    topic('Sub', { topicSysFlag: 2 }),
    topic('Both', { topicSysFlag: 3 }),
  ];
  routes.registerBroker(registration({ topics }), NOW);
  routes.registerBroker(registration({ clusterName: 'D', brokerName: 'b', brokerAddr: '10.0.0.9:1' }), NOW);
  assert.deepEqual(routes.topicsByCluster('D').topicList.sort(), ['T', 'U']);
  assert.deepEqual(routes.topicsByCluster('unknown'), { topicList: [] });
  assert.deepEqual(routes.systemTopics(), { brokerAddr: '10.0.0.1:10911', topicList: ['C', 'a', 'D', 'b'] });
  assert.deepEqual(routes.unitTopics('unit').topicList, ['Unit', 'Both']);
  assert.deepEqual(routes.unitTopics('unitSub').topicList, ['Sub', 'Both']);
  assert.deepEqual(routes.unitTopics('unitSubOnly').topicList, ['Sub']);
  assert.deepEqual(tables().systemTopics(), { topicList: [] });
});

test('a change of the smallest id says whom to tell', () => {
  const routes = tables();
  const acting = { enableActingMaster: true };
  const second = { ...slave, ...acting, brokerId: 2, brokerAddr: '10.0.0.3:10911', haServerAddr: '10.0.0.3:10912' };
  assert.equal(routes.registerBroker(registration(second), NOW).minBrokerChange, undefined, 'nobody to tell');
  const joined = routes.registerBroker(registration({ ...slave, ...acting }), NOW).minBrokerChange;
  assert.deepEqual(joined, {
    minBrokerId: 1,
    minBrokerAddr: '10.0.0.2:10911',
    offlineBrokerAddr: undefined,
    haBrokerAddr: '10.0.0.2:10912',
    notify: ['10.0.0.3:10911'],
  });
  const left = routes.unregisterBroker({
    clusterName: 'C',
    brokerName: 'a',
    brokerAddr: '10.0.0.2:10911',
    brokerId: 1,
  });
  assert.deepEqual(left, {
    minBrokerId: 2,
    minBrokerAddr: '10.0.0.3:10911',
    offlineBrokerAddr: '10.0.0.2:10911',
    haBrokerAddr: undefined,
    notify: ['10.0.0.3:10911'],
  });
});

test('what is handed out does not change with the tables, nor the tables with it', () => {
  const routes = tables();
  routes.registerBroker(registration(), NOW);
  const before = routes.pickupTopicRoute('T')!;
  routes.wipeWritePerm('a');
  assert.equal(before.queueDatas[0]?.perm, 6);
  before.brokerDatas[0]!.brokerAddrs['0'] = 'x';
  assert.deepEqual(routes.brokerMemberGroup('C', 'a').brokerAddrs, { '0': '10.0.0.1:10911' });
});

test('names that mean something in JavaScript are names like any other', () => {
  const routes = tables();
  const topics = [topic('__proto__'), topic('constructor')];
  routes.registerBroker(registration({ clusterName: '__proto__', brokerName: '__proto__', topics }), NOW);
  assert.equal(routes.pickupTopicRoute('__proto__')?.queueDatas.length, 1);
  assert.equal(routes.pickupTopicRoute('toString'), undefined);
  const info = JSON.stringify(routes.clusterInfo());
  assert.match(info, /"clusterAddrTable":\{"__proto__":\["__proto__"\]\}/);
});
