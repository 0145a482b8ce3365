import assert from 'node:assert/strict';
import { test } from 'node:test';
import { RequestCode } from '../../remoting/index.ts';
import { type Answer, BrokerFixture, messageWith } from '../broker-fixture.test.support.ts';
import { PullRequestHold } from '../longpolling/pull-request-hold.ts';
import { PullMessageProcessor } from './pull-message.ts';

const FILE = '/store/commitlog/00000000000000000000';
const COUNT = 20;

/** A broker with messages of T that have left its memory, and their places. */
async function open(): Promise<{ broker: BrokerFixture; at: number[] }> {
  const before = await BrokerFixture.open();
  const at: number[] = [];
  for (let i = 0; i < COUNT; i++) at.push((await before.put(messageWith({ body: Buffer.from(`m${i}`) }))).wroteOffset);
  await before.dispatched();
  await before.context.store.close();
  const broker = await BrokerFixture.open({ fs: before.fs });
  const { context } = broker;
  context.topics.createInSend('T', 'TBW102', 'test', 4, 0);
  context.topics.persistIfChanged();
  context.groups.findOrCreate('G');
  new PullMessageProcessor(context, new PullRequestHold(context.clock, context.store)).register(broker);
  return { broker, at };
}

function pull(broker: BrokerFixture, queueOffset: number): Promise<Answer> {
  return broker.ask(RequestCode.PULL_MESSAGE, {
    consumerGroup: 'G',
    topic: 'T',
    queueId: 0,
    queueOffset,
    maxMsgNums: 32,
    sysFlag: 4,
    subscription: '*',
    expressionType: 'TAG',
    commitOffset: 0,
    suspendTimeoutMillis: 0,
    subVersion: 1,
  });
}

test('a pull that is answered in part, since the rest cannot be read, counts once and with what it hands out', async () => {
  const { broker, at } = await open();
  broker.fs.open(FILE, 'write').truncateSync(at[3]! + 50);
  const answer = await pull(broker, 0);
  assert.equal(answer.ext['nextBeginOffset'], '3');
  const { stats, offsets } = broker.context;
  assert.deepEqual([stats.getFound, stats.getMessages, stats.getMissed], [1, 3, 0]);
  const got = offsets.find('G', 'T')?.got;
  assert.deepEqual([got?.requests, got?.messages, got?.bytes], [1, 3, answer.body.length]);
});

test('a pull that ends in an error counts as none that found something', async () => {
  const { broker, at } = await open();
  broker.fs.open(FILE, 'write').truncateSync(at[3]! + 50);
  assert.equal((await pull(broker, 3)).code, 1);
  const { stats, offsets } = broker.context;
  assert.deepEqual([stats.getFound, stats.getMessages], [0, 0]);
  assert.equal(offsets.find('G', 'T')?.got, undefined);
});
