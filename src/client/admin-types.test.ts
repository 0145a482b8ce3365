import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseJson } from '../remoting/index.ts';
import { parseClusterInfo, parseConsumerConnection, parseConsumerProgress, parseTopicStats } from './admin-types.ts';

// Bodies as a Java 5.5.0 broker and name server write them: bare numeric keys, objects as keys.

test('cluster info', () => {
  const text =
    '{"brokerAddrTable":{"golden-a":{"brokerAddrs":{0:"127.0.0.2:30911"},"brokerName":"golden-a","cluster":"GoldenCluster",' +
    '"enableActingMaster":false}},"clusterAddrTable":{"GoldenCluster":["golden-a"]}}';
  assert.deepEqual(parseClusterInfo(parseJson(text)), {
    brokers: {
      'golden-a': { cluster: 'GoldenCluster', brokerName: 'golden-a', brokerAddrs: { '0': '127.0.0.2:30911' } },
    },
    clusters: { GoldenCluster: ['golden-a'] },
  });
});

test('topic stats, sorted by queue', () => {
  const queue = (id: number): string => `{"brokerName":"b","queueId":${id},"topic":"T"}`;
  const text = `{"offsetTable":{${queue(1)}:{"lastUpdateTimestamp":5,"maxOffset":9,"minOffset":2},${queue(0)}:{"lastUpdateTimestamp":0,"maxOffset":0,"minOffset":0}},"topicPutTps":0.0}`;
  assert.deepEqual(parseTopicStats(parseJson(text)), [
    { queue: { topic: 'T', brokerName: 'b', queueId: 0 }, minOffset: 0, maxOffset: 0, lastUpdateTimestamp: 0 },
    { queue: { topic: 'T', brokerName: 'b', queueId: 1 }, minOffset: 2, maxOffset: 9, lastUpdateTimestamp: 5 },
  ]);
});

test('consumer progress adds up what is not consumed', () => {
  const text =
    '{"consumeTps":1.5,"offsetTable":{{"brokerName":"b","queueId":0,"topic":"T"}:{"brokerOffset":10,"consumerOffset":4,"lastTimestamp":7,"pullOffset":6},' +
    '{"brokerName":"b","queueId":1,"topic":"T"}:{"brokerOffset":3,"consumerOffset":3,"lastTimestamp":8,"pullOffset":3}}}';
  const progress = parseConsumerProgress(parseJson(text));
  assert.equal(progress.diffTotal, 6);
  assert.equal(progress.consumeTps, 1.5);
  assert.deepEqual(
    progress.queues.map((queue) => [queue.queue.queueId, queue.diff, queue.pullOffset, queue.lastTimestamp]),
    [
      [0, 6, 6, 7],
      [1, 0, 3, 8],
    ],
  );
});

test('consumer connections', () => {
  const text =
    '{"connectionSet":[{"clientAddr":"1.2.3.4:5","clientId":"c","language":"JAVA","version":513}],"consumeFromWhere":"CONSUME_FROM_LAST_OFFSET",' +
    '"consumeType":"CONSUME_PASSIVELY","messageModel":"CLUSTERING","subscriptionTable":{"T":{"classFilterMode":false,"subString":"A||B","topic":"T"}}}';
  assert.deepEqual(parseConsumerConnection(parseJson(text)), {
    connections: [{ clientId: 'c', clientAddr: '1.2.3.4:5', language: 'JAVA', version: 513 }],
    consumeType: 'CONSUME_PASSIVELY',
    messageModel: 'CLUSTERING',
    consumeFromWhere: 'CONSUME_FROM_LAST_OFFSET',
    subscriptions: { T: 'A||B' },
  });
});

test('missing tables are empty, not errors', () => {
  assert.deepEqual(parseTopicStats({}), []);
  assert.deepEqual(parseClusterInfo({}), { brokers: {}, clusters: {} });
  assert.equal(parseConsumerProgress({}).diffTotal, 0);
});
