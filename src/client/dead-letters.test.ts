// Row of user asks: "replay of 1,000 dead letters keeps ids and keys". Over sockets, against a broker in this process.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { silentLogger } from '../common/index.ts';
import { startBroker } from '../testing/index.ts';
import { type MessageQueue, PullConsumer, PushConsumer, type ReceivedMessage, replayDeadLetters } from './index.ts';
import { Producer } from './producer.ts';

const GROUP = 'GID_dead';
const COUNT = 1000;

/** Reads `count` messages of a topic. */
async function read(namesrvAddr: string, group: string, topic: string, count: number): Promise<ReceivedMessage[]> {
  const consumer = new PullConsumer({
    namesrvAddr,
    group,
    consumeFromWhere: 'CONSUME_FROM_FIRST_OFFSET',
    logger: silentLogger,
  });
  await consumer.start();
  const messages: ReceivedMessage[] = [];
  let queues: readonly MessageQueue[] = [];
  // The topic comes with the first dead letter.
  while (queues.length === 0) queues = await consumer.fetchMessageQueues(topic).catch(() => []);
  await consumer.assign(queues);
  while (messages.length < count) messages.push(...(await consumer.poll()));
  await consumer.close();
  return messages;
}

test('the replay of 1,000 dead letters keeps ids and keys, and a second one sends none of them', async () => {
  const server = await startBroker();
  const namesrvAddr = server.namesrvAddress;
  const client = { namesrvAddr, group: GROUP, logger: silentLogger };
  const producer = new Producer({ ...client, group: 'PID' });
  await producer.start();
  const sent = new Map<string, string>();
  for (let i = 0; i < COUNT; i++) {
    const body = i % 100 === 0 ? 'x'.repeat(10_000) : `body ${i}`;
    const properties = { index: String(i) };
    const { msgId } = await producer.send({
      topic: 'Orders',
      body,
      tags: 'paid',
      keys: [`order-${i}`, 'all'],
      properties,
    });
    sent.set(msgId, `order-${i}`);
  }
  await producer.close();
  const consumer = new PushConsumer({
    ...client,
    consumeFromWhere: 'CONSUME_FROM_FIRST_OFFSET',
    listener: async (_messages, context) => {
      context.delayLevelWhenNextConsume = -1;
      return 'RECONSUME_LATER';
    },
  });
  consumer.subscribe('Orders');
  await consumer.start();
  const dead = await read(namesrvAddr, 'GID_look', `%DLQ%${GROUP}`, COUNT);
  await consumer.close();
  assert.equal(await replayDeadLetters({ ...client, count: 10 }), 10);
  assert.equal(await replayDeadLetters(client), COUNT - 10);
  assert.equal(await replayDeadLetters(client), 0);
  const again = await read(namesrvAddr, 'GID_again', `%RETRY%${GROUP}`, COUNT);
  assert.deepEqual(new Map(again.map((message) => [message.msgId, message.keys[0]])), sent);
  const byId = new Map(dead.map((message) => [message.msgId, message]));
  for (const message of again) {
    const before = byId.get(message.msgId)!;
    assert.deepEqual(message.keys, [sent.get(message.msgId), 'all']);
    assert.deepEqual([message.tags, message.reconsumeTimes, message.flag], ['paid', 0, before.flag]);
    assert.deepEqual(message.body, before.body);
    for (const name of ['index', 'ORIGIN_MESSAGE_ID', 'RETRY_TOPIC'])
      assert.equal(message.properties.get(name), before.properties.get(name), name);
    assert.equal(message.properties.get('DELAY'), undefined);
  }
  assert.equal(await replayDeadLetters({ ...client, group: 'GID_dead', topic: 'Orders' }), 0);
  assert.equal(await replayDeadLetters({ ...client, group: 'GID_without' }), 0);
  await server.stop();
});
