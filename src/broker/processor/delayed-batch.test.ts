import assert from 'node:assert/strict';
import { test } from 'node:test';
import { encodeBatch, UniqueIds } from '../../message/index.ts';
import { RequestCode } from '../../remoting/index.ts';
import { type Answer, BrokerFixture } from '../broker-fixture.test.support.ts';
import { SCHEDULE_TOPIC } from '../topic/topic-names.ts';
import { SendMessageProcessor } from './send-message.ts';

const MEMBER = { flag: 0, body: Buffer.from('x'), properties: Buffer.from('DELAY\u00013\u0002') };

async function sendBatch(properties: string): Promise<{ broker: BrokerFixture; answer: Promise<Answer> }> {
  const broker = await BrokerFixture.open();
  broker.context.topics.createInSend('T', 'TBW102', 'test', 4, 0);
  broker.context.topics.persistIfChanged();
  const send = new SendMessageProcessor(broker.context, new UniqueIds({ ip: new Uint8Array(4), pid: 1, salt: 1 }));
  send.register(broker);
  const fields = { a: 'P', b: 'T', c: 'TBW102', d: 4, e: 0, f: 0, g: 1, h: 0, i: properties, j: 0, k: false, m: true };
  const answer = broker.ask(RequestCode.SEND_BATCH_MESSAGE, fields, encodeBatch([MEMBER, MEMBER]));
  send.endTurn();
  broker.context.store.endTurn();
  return { broker, answer };
}

test('a batch with a delay level is refused whole, as RocketMQ refuses it', async () => {
  const { broker, answer } = await sendBatch('DELAY\u00013\u0002');
  const { code, remark } = await answer;
  assert.equal(code, 13);
  assert.match(remark ?? '', /a batch cannot be delayed/);
  for (const topic of ['T', SCHEDULE_TOPIC]) assert.equal(broker.context.store.maxOffsetInQueue(topic, 0, false), 0);
});

test('a batch whose delay level is no number is refused', async () => {
  const { answer } = await sendBatch('DELAY\u0001soon\u0002');
  assert.equal((await answer).code, 1);
});

test('level 0 is none, and what stands in a member is its own', async () => {
  const { broker, answer } = await sendBatch('DELAY\u00010\u0002');
  assert.equal((await answer).code, 0);
  assert.equal(broker.context.store.maxOffsetInQueue('T', 0, false), 2);
});
