import assert from 'node:assert/strict';
import { test } from 'node:test';
import { GantryError } from '../../common/index.ts';
import { decodeMessages } from '../../message/index.ts';
import { RequestCode } from '../../remoting/index.ts';
import { type Answer, BrokerFixture, messageWith } from '../broker-fixture.test.support.ts';
import { registerProcessors } from './register.ts';

async function open(): Promise<BrokerFixture> {
  const broker = await BrokerFixture.open({ store: { maxHashSlotNum: 1000, maxIndexNum: 4000 } });
  registerProcessors(broker, broker.context);
  broker.context.topics.createInSend('T', 'TBW102', 'test', 1, 0);
  broker.context.topics.persistIfChanged();
  return broker;
}

async function put(broker: BrokerFixture, ...messages: Array<Record<string, string>>): Promise<string[]> {
  const results = await Promise.all(
    messages.map((properties) => broker.put(messageWith({ properties: new Map(Object.entries(properties)) }))),
  );
  await broker.dispatched();
  return results.map((result) => String(result.wroteOffset));
}

function query(broker: BrokerFixture, key: string, fields: Record<string, string | number> = {}): Promise<Answer> {
  const header = { topic: 'T', key, maxNum: 32, beginTimestamp: 0, endTimestamp: '9223372036854775807' };
  return broker.ask(RequestCode.QUERY_MESSAGE, { ...header, ...fields });
}

function keysOf(answer: Answer): Array<string | undefined> {
  return decodeMessages(answer.body).map((message) => message.properties.get('KEYS'));
}

test('B23: different keys with one hash: exactly the message that was asked for, whatever number of strangers', async () => {
  const broker = await open();
  const strangers = Array.from({ length: 40 }, () => ({ KEYS: 'BB' }));
  await put(broker, ...strangers, { KEYS: 'Aa' }, ...strangers);
  const one = await query(broker, 'Aa');
  assert.deepEqual([one.code, keysOf(one)], [0, ['Aa']]);
  assert.equal(keysOf(await query(broker, 'BB')).length, 32, 'the limit counts for those that match');
});

test('nothing found has a code of its own, and what cannot be read is an error: 22 is never said of what may be there', async () => {
  const broker = await open();
  await put(broker, { KEYS: 'k1 k2', TAGS: 'tag', UNIQ_KEY: 'U1' });
  for (const [key, fields] of [
    ['none', {}],
    ['k1', { topic: 'Other' }],
    ['k1', { beginTimestamp: broker.clock.now() + 10_000 }],
    ['U2', { _UNIQUE_KEY_QUERY: 'true' }],
  ] as const) {
    const answer = await query(broker, key, fields);
    assert.deepEqual([answer.code, answer.remark], [22, 'can not find message, maybe time range not correct']);
    assert.equal(answer.ext['indexLastUpdateTimestamp'], '0');
  }
  broker.context.store.queryMessage = () => Promise.reject(new GantryError('IO', 'index/1 cannot be read'));
  const broken = await query(broker, 'k1');
  assert.deepEqual([broken.code, broken.remark], [1, 'index/1 cannot be read']);
});

test('a message is found by each of its keys, its unique id, its tag, and its place', async () => {
  const broker = await open();
  const [place] = await put(broker, { KEYS: 'k1 k2', TAGS: 'tag', UNIQ_KEY: 'U1' });
  await put(broker, { KEYS: 'k3', UNIQ_KEY: 'U2' });
  for (const [key, fields] of [
    ['k1', {}],
    ['k2', { indexType: 'K' }],
    ['U1', { _UNIQUE_KEY_QUERY: 'true' }],
    ['U1', { indexType: 'U' }],
    ['tag', { indexType: 'T' }],
  ] as const) {
    const answer = await query(broker, key, fields);
    assert.deepEqual([answer.code, keysOf(answer)], [0, ['k1 k2']], key);
  }
  assert.equal((await query(broker, 'tag')).code, 22, 'a tag is no key');
  const byPlace = await broker.ask(RequestCode.VIEW_MESSAGE_BY_ID, { offset: place! });
  assert.deepEqual([byPlace.code, keysOf(byPlace)], [0, ['k1 k2']]);
  for (const offset of ['7', '-1', '9223372036854775807']) {
    const none = await broker.ask(RequestCode.VIEW_MESSAGE_BY_ID, { offset });
    assert.equal(none.code, 1, offset);
    assert.match(none.remark!, /can not find message by the offset/);
  }
});
