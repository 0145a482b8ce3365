import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseJson } from '../remoting/index.ts';
import { cappedRoute, parseTopicRoute, publishQueues, subscribeQueues } from './route.ts';

const ROUTE =
  '{"brokerDatas":[{"brokerAddrs":{0:"1.1.1.1:1",1:"1.1.1.2:1"},"brokerName":"b","cluster":"C"},' +
  '{"brokerAddrs":{"1":"2.2.2.2:1"},"brokerName":"a","cluster":"C"}],"filterServerTable":{},' +
  '"queueDatas":[{"brokerName":"b","perm":6,"readQueueNums":3,"topicSysFlag":0,"writeQueueNums":2},' +
  '{"brokerName":"a","perm":6,"readQueueNums":1,"topicSysFlag":0,"writeQueueNums":1}]}';

const route = parseTopicRoute(parseJson(ROUTE));
const ids = (queues: Array<{ brokerName: string; queueId: number }>): string =>
  queues.map((queue) => `${queue.brokerName}${queue.queueId}`).join(' ');

test('bare and quoted broker ids are read alike', () => {
  assert.deepEqual(route.brokerDatas[0]!.brokerAddrs, { '0': '1.1.1.1:1', '1': '1.1.1.2:1' });
});

test('producers use writable queues of names with a master, consumers all readable ones', () => {
  assert.equal(ids(publishQueues('T', route)), 'b0 b1');
  assert.equal(ids(subscribeQueues('T', route)), 'b0 b1 b2 a0');
});

test('permissions close a topic for one side', () => {
  const data = route.queueDatas[0]!;
  assert.equal(ids(publishQueues('T', { ...route, queueDatas: [{ ...data, perm: 4 }] })), '');
  assert.equal(ids(subscribeQueues('T', { ...route, queueDatas: [{ ...data, perm: 2 }] })), '');
});

test('queues are numbered through broker names in order, whatever order the route has', () => {
  const both = parseTopicRoute(parseJson(ROUTE.replace('"1":"2.2.2.2:1"', '"0":"2.2.2.2:1"')));
  assert.equal(ids(publishQueues('T', both)), 'a0 b0 b1');
});

test('an order configuration says exactly which queues there are', () => {
  assert.equal(ids(publishQueues('T', { ...route, orderTopicConf: 'b:1;a:2' })), 'b0 a0 a1');
});

test('a new topic gets at most as many queues as the producer asks for', () => {
  const capped = cappedRoute(route, 2);
  assert.deepEqual(
    capped.queueDatas.map((data) => [data.readQueueNums, data.writeQueueNums]),
    [
      [2, 2],
      [1, 1],
    ],
  );
});

test('what is no route is a FRAME error', () => {
  assert.throws(() => parseTopicRoute(null), { code: 'FRAME' });
  assert.throws(() => parseTopicRoute({ brokerDatas: [7] }), { code: 'FRAME' });
});

test('a static topic has its logic queues and no others; the newest mapping says where one lies', () => {
  const info = (bname: string, epoch: number, currIdMap: object, totalQueues = 3): object => ({
    bname,
    epoch,
    currIdMap,
    totalQueues,
    scope: '__global__',
  });
  const mappings = { b: info('b', 2, { 0: 1, 1: 0 }), a: info('a', 1, { 0: 0, 7: 0 }) };
  const fixed = parseTopicRoute({ ...(parseJson(ROUTE) as object), topicQueueMappingByBroker: mappings });
  assert.deepEqual(
    fixed.logicQueues.map(({ queueId, at }) => [queueId, at]),
    [
      [0, 'b'],
      [1, 'b'],
      [2, undefined],
    ],
  );
  const all = '__syslo__global__0 __syslo__global__1 __syslo__global__2';
  assert.equal(ids(publishQueues('T', fixed)), all);
  assert.equal(ids(subscribeQueues('T', fixed)), all);
  for (const odd of [7, { a: null }, { a: { currIdMap: 3 } }]) {
    assert.throws(() => parseTopicRoute({ topicQueueMappingByBroker: odd }), { code: 'FRAME' });
  }
  assert.equal(parseTopicRoute({ topicQueueMappingByBroker: { a: { totalQueues: 2e9 } } }).logicQueues.length, 65_536);
});
