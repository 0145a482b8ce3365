import assert from 'node:assert/strict';
import { test } from 'node:test';
import { RequestCode } from '../../remoting/index.ts';
import type { Fields } from './lite-world.test.support.ts';
import { LiteWorld } from './lite-world.test.support.ts';

test('administrators see lite topics as RocketMQ shows them', async () => {
  const world = await LiteWorld.open({ broker: { liteLagLatencyCollectEnable: true } });
  const { clock } = world.broker;
  world.makeGroup('W', { '+lite.sub.wildcard': 'true' });
  await world.subscribe('c1', ['a', 'b']);
  await world.ctl('COMPLETE_ADD', 'w1', [], { group: 'W' });
  await world.sends('a', 'a0', 'a1', 'a2');
  const stored = clock.now();
  const { got } = await world.pop('c1', { maxMsgNum: 2 });
  await world.ack(got[0]!);
  const ask = async (code: number, fields: Fields = {}): Promise<string> => {
    const { body, code: answered, remark } = await world.broker.ask(code, fields);
    return answered === 0 ? Buffer.from(body).toString() : `${answered} ${remark}`;
  };
  assert.equal(
    await ask(RequestCode.GET_BROKER_LITE_INFO),
    '{"cqTableSize":2,"currentLmqNum":1,"eventMapSize":2,"groupMeta":{"P":["G","W"]},"liteSubscriptionCount":3,"maxLmqNum":20000,' +
      '"offsetTableSize":1,"orderInfoCount":1,"storeType":"default","topicMeta":{"P":-1}}',
  );
  assert.equal(
    await ask(RequestCode.GET_PARENT_TOPIC_INFO, { topic: 'P' }),
    '{"groups":["G","W"],"liteTopicCount":1,"lmqNum":1,"topic":"P","ttl":-1}',
  );
  assert.equal(
    await ask(RequestCode.GET_LITE_TOPIC_INFO, { parentTopic: 'P', liteTopic: 'a' }),
    '{"liteTopic":"a","parentTopic":"P","shardingToBroker":true,"subscriber":[{"clientId":"c1","group":"G"},{"clientId":"*","group":"W"}],' +
      `"topicOffset":{"lastUpdateTimestamp":${stored},"maxOffset":3,"minOffset":0}}`,
  );
  assert.equal(
    await ask(RequestCode.GET_LITE_CLIENT_INFO, { parentTopic: 'P', group: 'G', clientId: 'c1' }),
    `{"clientId":"c1","group":"G","lastAccessTime":${stored},"lastConsumeTime":0,"liteTopicCount":2,` +
      '"liteTopicSet":["%LMQ%$P$a","%LMQ%$P$b"],"parentTopic":"P"}',
  );
  assert.equal(
    await ask(RequestCode.GET_LITE_CLIENT_INFO, { parentTopic: 'P', group: 'G', clientId: 'none', maxCount: 1 }),
    '{"clientId":"none","group":"G","lastAccessTime":-1,"lastConsumeTime":0,"liteTopicCount":-1,"parentTopic":"P"}',
  );
  const lag = `{"earliestUnconsumedTimestamp":${stored},"lagCount":2,"liteTopic":"a"}`;
  assert.equal(
    await ask(RequestCode.GET_LITE_GROUP_INFO, { group: 'G', topK: 5 }),
    `{"earliestUnconsumedTimestamp":${stored},"group":"G","lagCountTopK":[${lag}],"lagTimestampTopK":[${lag}],"parentTopic":"P","totalLagCount":2}`,
  );
  assert.equal(
    await ask(RequestCode.GET_LITE_GROUP_INFO, { group: 'G', liteTopic: 'a', topK: 0 }),
    `{"earliestUnconsumedTimestamp":${stored},"group":"G","liteTopic":"a","liteTopicOffsetWrapper":{"brokerOffset":3,"consumerOffset":1,` +
      `"lastTimestamp":${stored},"pullOffset":0},"parentTopic":"P","totalLagCount":2}`,
  );
  assert.equal(
    await ask(RequestCode.GET_LITE_GROUP_INFO, { group: 'G', liteTopic: 'none', topK: 0 }),
    '{"earliestUnconsumedTimestamp":-1,"group":"G","liteTopic":"none","parentTopic":"P","totalLagCount":-1}',
  );
  assert.equal(await ask(RequestCode.TRIGGER_LITE_DISPATCH, { group: 'W' }), '');
  assert.deepEqual((await world.pop('w1', { consumerGroup: 'W' })).bodies, ['a0', 'a1', 'a2']);
});

test('what administrators ask of the wrong topics and groups is refused', async () => {
  const world = await LiteWorld.open();
  world.makeTopic('N', {});
  world.makeGroup('E', {}, 'Elsewhere');
  const { groups } = world.broker.context;
  groups.findOrCreate('Plain');
  const ask = async (code: number, fields: Fields): Promise<string> => {
    const answer = await world.broker.ask(code, fields);
    return `${answer.code} ${answer.remark}`;
  };
  assert.equal(await ask(RequestCode.GET_PARENT_TOPIC_INFO, { topic: 'None' }), '17 Topic [None] not exist.');
  assert.equal(await ask(RequestCode.GET_PARENT_TOPIC_INFO, { topic: 'N' }), '29 Topic [N] type not match.');
  assert.equal(
    await ask(RequestCode.GET_LITE_TOPIC_INFO, { parentTopic: 'N', liteTopic: 'a' }),
    '29 Topic [N] type not match.',
  );
  const client = { parentTopic: 'P', clientId: 'c1' };
  assert.equal(await ask(RequestCode.GET_LITE_CLIENT_INFO, { ...client, group: 'None' }), '26 Group [None] not exist.');
  assert.equal(
    await ask(RequestCode.GET_LITE_CLIENT_INFO, { ...client, group: 'E' }),
    '29 Subscription [E]-[P] not match.',
  );
  assert.equal(await ask(RequestCode.GET_LITE_GROUP_INFO, { group: 'None', topK: 1 }), '26 Group [None] not exist.');
  assert.equal(
    await ask(RequestCode.GET_LITE_GROUP_INFO, { group: 'Plain', topK: 1 }),
    '29 Group [Plain] is not a LITE group.',
  );
  assert.equal(
    await ask(RequestCode.TRIGGER_LITE_DISPATCH, { group: 'Plain' }),
    '29 Group [Plain] is not a LITE group.',
  );
});
