import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { BrokerData, QueueData, TopicRouteData } from './route-data.ts';
import { filterByZone } from './zone-route.ts';

function broker(brokerName: string, zoneName: string | undefined, master = true): BrokerData {
  const data: BrokerData = {
    brokerAddrs: { [master ? '0' : '1']: `${brokerName}:10911` },
    brokerName,
    cluster: 'C',
    enableActingMaster: false,
  };
  if (zoneName !== undefined) data.zoneName = zoneName;
  return data;
}

function queue(brokerName: string): QueueData {
  return { brokerName, perm: 6, readQueueNums: 4, topicSysFlag: 0, writeQueueNums: 4 };
}

test('brokers of other zones go with their queues and filter servers; those without a master stay', () => {
  const route: TopicRouteData = {
    brokerDatas: [
      broker('near', 'Z1'),
      broker('far', 'z2'),
      broker('orphan', 'z2', false),
      broker('unzoned', undefined),
    ],
    filterServerTable: { 'near:10911': ['x'], 'far:10911': ['y'] },
    orderTopicConf: 'near:4',
    queueDatas: [queue('near'), queue('far'), queue('orphan'), queue('unzoned')],
  };
  const filtered = filterByZone(route, 'z1');
  const names = (list: Array<{ brokerName: string }>): string[] => list.map((item) => item.brokerName);
  assert.deepEqual(names(filtered.brokerDatas), ['near', 'orphan']);
  assert.deepEqual(names(filtered.queueDatas), ['near', 'orphan']);
  assert.deepEqual(filtered.filterServerTable, { 'near:10911': ['x'] });
  assert.equal(filtered.orderTopicConf, 'near:4');
  assert.equal(route.brokerDatas.length, 4);
});
