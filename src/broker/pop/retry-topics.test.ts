// Messages that come back lie in a retry topic of (topic, group), in one of two kinds, and are popped with the topic's own.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseReceiptHandle } from '../../message/index.ts';
import type { BrokerConfig } from '../broker-config.ts';
import { messageWith } from '../broker-fixture.test.support.ts';
import { PopWorld } from './pop-world.test.support.ts';

const V1 = '%RETRY%G_T';
const V2 = '%RETRY%G+T';

async function open(broker: Partial<BrokerConfig>, ...retries: string[]): Promise<PopWorld> {
  const w = await PopWorld.open({ broker });
  const { topics } = w.context;
  for (const topic of retries) {
    topics.createInSendBack(topic, 1, 6, false, 0);
    topics.persistIfChanged();
    const properties = new Map([
      ['TAGS', 'A'],
      ['1ST_POP_TIME', '5'],
    ]);
    await w.broker.put(messageWith({ topic, body: Buffer.from(`in ${topic}`), properties, reconsumeTimes: 2 }));
  }
  await w.broker.dispatched();
  return w;
}

test('a retried message bears the topic that was asked for, and its whole handle', async () => {
  const w = await open({}, V1);
  await w.send(['own']);
  const answer = await w.pop();
  const { popTime, reviveQid, startOffsetInfo } = answer.ext;
  assert.deepEqual(startOffsetInfo?.split(';').sort(), ['0 0 0', '1 0 0']);
  const retried = answer.popped.find(({ topic }) => topic === V1)!;
  const { message, handle, body } = retried;
  assert.deepEqual([message.topic, message.queueId, message.queueOffset, body], ['T', 0, 0, `in ${V1}`]);
  assert.deepEqual([message.reconsumeTimes, message.properties.get('1ST_POP_TIME')], [2, '5']);
  assert.equal(handle, `0 ${popTime} 60000 ${reviveQid} 1 broker-a 0 0`);
  assert.equal(message.properties.get('POP_CK'), handle);
  // It is acknowledged where it lies.
  assert.equal((await w.ack(retried)).code, 0);
  const records = (await w.waiting()).map((text) => JSON.parse(text));
  assert.deepEqual(records.map(({ t }) => t).sort(), ['%RETRY%G_T', '%RETRY%G_T', 'T']);
  assert.equal(w.context.offsets.query('G', V1, 0), 1);
});

test('a retried message whose properties leave no room for a handle comes as it is stored, and its neighbours as ever', async () => {
  for (const room of [-1, 0]) {
    const w = await open({}, V1);
    // POP_CK, its two separators and the handle, whose times have 13 digits and whose offset is 1.
    const handle = `0 ${w.clock.now()} 60000 0 1 broker-a 0 1`;
    const long = 32_767 - 'long'.length - 2 - ('POP_CK'.length + 2 + handle.length) - room;
    const properties = new Map([['long', 'x'.repeat(long)]]);
    await w.broker.put(messageWith({ topic: V1, body: Buffer.from('full'), properties, reconsumeTimes: 1 }));
    await w.broker.put(messageWith({ topic: V1, body: Buffer.from('next'), reconsumeTimes: 1 }));
    await w.broker.dispatched();
    const { popped } = await w.pop();
    assert.deepEqual(
      popped.map(({ body }) => body),
      [`in ${V1}`, 'full', 'next'],
    );
    const { message } = popped[1]!;
    assert.deepEqual([message.topic, message.properties.has('POP_CK')], room < 0 ? [V1, false] : ['T', true]);
    assert.equal(popped[1]!.handle, handle);
    for (const one of popped) assert.equal((await w.ack(one)).code, 0);
    assert.equal((await w.waiting()).length, 4);
  }
});

test('popResponseReturnActualRetryTopic leaves it as it is stored', async () => {
  const w = await open({ popResponseReturnActualRetryTopic: true }, V1);
  const { popped } = await w.pop();
  assert.deepEqual([popped[0]!.message.topic, popped[0]!.message.properties.has('POP_CK')], [V1, false]);
});

test('retries come first in some pops and last in the others, and not at all once there is enough', async () => {
  const always = await open({ popFromRetryProbability: 100 }, V1);
  await always.send(['own']);
  assert.deepEqual(
    (await always.pop()).popped.map(({ topic }) => topic),
    [V1, 'T'],
  );
  const never = await open({ popFromRetryProbability: 0 }, V1);
  await never.send(['own']);
  const one = await never.pop({ maxMsgNums: 1 });
  assert.deepEqual([one.popped[0]!.topic, one.ext['restNum']], ['T', '0']);
  assert.deepEqual(
    (await never.pop()).popped.map(({ topic }) => topic),
    [V1],
  );
});

test('retries are filtered as the topic is, and popped with any of its queues', async () => {
  const w = await open({}, V1);
  assert.equal((await w.pop({ exp: 'B' })).code, 210);
  const v = await open({}, V1);
  assert.equal((await v.pop({ exp: 'A', queueId: 0 })).popped[0]!.topic, V1);
});

test('with enableRetryTopicV2 topics of the new kind are read, and of the old kind now and then, for as long as that is wanted', async () => {
  const w = await open({ enableRetryTopicV2: true, popFromRetryProbability: 100 }, V1, V2);
  const seen = new Set<string>();
  for (let i = 0; i < 40 && seen.size < 2; i++) {
    const { popped } = await w.pop();
    for (const { topic, handle } of popped) {
      seen.add(topic);
      const parsed = parseReceiptHandle(handle);
      assert.ok(typeof parsed !== 'string');
      assert.equal(parsed.retryFlag, topic === V1 ? '1' : '2');
    }
  }
  assert.deepEqual([...seen].sort(), [V2, V1].sort());
  const v = await open({ enableRetryTopicV2: true, retrieveMessageFromPopRetryTopicV1: false }, V1, V2);
  for (let i = 0; i < 10; i++) for (const { topic } of (await v.pop()).popped) assert.equal(topic, V2);
  assert.equal(v.context.offsets.query('G', V1, 0), -1);
});

test('a retry topic with a name that only a record V2 holds is popped as any other', async () => {
  const w = await PopWorld.open();
  const [topic, consumerGroup] = ['T'.repeat(100), 'G'.repeat(100)];
  const { topics } = w.context;
  topics.createInSend(topic, 'TBW102', 'test', 1, 0);
  topics.persistIfChanged();
  const retry = `%RETRY%${consumerGroup}_${topic}`;
  topics.createInSendBack(retry, 1, 6, false, 0);
  topics.persistIfChanged();
  const put = await w.broker.put(messageWith({ topic: retry, body: Buffer.from('long') }));
  const record = await w.context.store.recordAt(put.wroteOffset);
  assert.equal(Buffer.from(record!).readInt32BE(4), 0xdaa320ab | 0);
  await w.broker.dispatched();
  const { popped } = await w.pop({ topic, consumerGroup });
  assert.deepEqual([popped[0]!.message.topic, popped[0]!.body, popped[0]!.topic], [topic, 'long', retry]);
  assert.equal((await w.ack(popped[0]!, { consumerGroup })).code, 0);
});

test('a pop in order takes no retries', async () => {
  const w = await open({}, V1);
  await w.send(['own']);
  const { popped } = await w.pop({ order: true });
  assert.deepEqual(
    popped.map(({ topic }) => topic),
    ['T'],
  );
});

test('topics with priorities: the highest queue first, always, and retries last', async () => {
  const w = await PopWorld.open({ queues: 4 });
  const { topics, groups } = w.context;
  topics.update([{ topic: topics.select('T')!, attributes: new Map([['+message.type', 'PRIORITY']]) }]);
  for (let i = 0; i < 10; i++) {
    for (let queueId = 0; queueId < 4; queueId++) await w.send([`${queueId}`], { queueId });
    const answer = await w.pop();
    assert.deepEqual(
      answer.popped.map(({ body }) => body),
      ['3', '2', '1', '0'],
    );
  }
  // A group that does not go by priorities.
  const group = groups.findOrCreate('G2')!;
  groups.update([{ ...group, attributes: new Map([['+priority.factor', '0']]) }]);
  const orders = new Set<string>();
  for (let i = 0; i < 40; i++) {
    const { popped } = await w.pop({ consumerGroup: 'G2', maxMsgNums: 1 });
    for (const { body } of popped) orders.add(body);
  }
  assert.ok(orders.size > 1);
});
