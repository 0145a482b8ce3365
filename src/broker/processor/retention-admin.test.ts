// What a broker's groups, delay levels and administrators have to do with old files.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { parseJson, RequestCode, ResponseCode } from '../../remoting/index.ts';
import type { MessageStoreConfig } from '../../store/index.ts';
import { BrokerFixture, messageWith } from '../broker-fixture.test.support.ts';
import { registerProcessors } from './register.ts';

const HOUR = 3_600_000;

async function open(store: Partial<MessageStoreConfig> = {}): Promise<BrokerFixture> {
  const broker = await BrokerFixture.open({
    store: {
      mappedFileSizeCommitLog: 16_384,
      fileReservedTime: 0,
      deleteWhen: '',
      deleteCommitLogFilesInterval: 0,
      ...store,
    },
  });
  registerProcessors(broker, broker.context);
  return broker;
}

async function turns(count = 200): Promise<void> {
  for (let turn = 0; turn < count; turn++) await setImmediate();
}

/** Puts messages of 5,000 bytes, three to a file. */
async function fill(broker: BrokerFixture, topic: string, count: number, queueId = 0, known = true): Promise<void> {
  if (known) broker.context.topics.createInSend(topic, 'TBW102', 'test', 4, 0);
  broker.context.topics.persistIfChanged();
  for (let i = 0; i < count; i++) {
    await broker.put(messageWith({ topic, queueId, body: Buffer.alloc(5000, 'x') }));
  }
  await turns();
}

test('DELETE_EXPIRED_COMMITLOG removes expired files; what groups have not read is told first and counted for each', async () => {
  const broker = await open();
  const { context } = broker;
  await fill(broker, 'T', 10);
  context.offsets.commit('c', 'slow', 'T', 0, 2);
  context.offsets.commit('c', 'slower', 'T', 0, 0);
  context.offsets.commit('c', 'done', 'T', 0, 10);
  context.offsets.commit('c', 'elsewhere', 'U', 0, 0);
  let logged: string[] = [];
  broker.fs.onOperation = (operation, path) => {
    if (operation === 'remove' && path.includes('commitlog') && logged.length === 0)
      logged = broker.logger.texts('warn');
  };
  const answer = await broker.ask(RequestCode.DELETE_EXPIRED_COMMITLOG);
  assert.equal(answer.code, ResponseCode.SUCCESS);
  await turns();
  assert.equal(context.store.minOffsetInQueue('T', 0), 9);
  assert.deepEqual(
    [...context.unread.byGroup],
    [
      ['slow', 7],
      ['slower', 9],
    ],
  );
  assert.equal(context.unread.total, 16);
  assert.deepEqual(
    logged,
    ['of the CommitLog from 0 to 16384, 4 unread messages are removed now; groups: slower (3), slow (1)'],
    'before the first file goes',
  );
  assert.equal(broker.logger.texts('warn').length, 1, 'once a minute');
  const info = await broker.ask(RequestCode.GET_BROKER_RUNTIME_INFO);
  const { table } = parseJson(info.body) as { table: Record<string, string> };
  assert.equal(table['gantryUnreadMessagesRemoved_slow'], '7');
  assert.equal(table['gantryRemovedCommitLogFiles'], '3');
  assert.equal(table['commitLogMinOffset'], String(3 * 16_384));
  await context.store.close();
});

test('unread messages that are due to go are told of hours before', async () => {
  const broker = await open({ fileReservedTime: 72 });
  const { context, clock } = broker;
  await fill(broker, 'T', 4);
  context.offsets.commit('c', 'G', 'T', 0, 1);
  const warned = (): string[] => broker.logger.texts('warn');
  for (let hour = 0; hour < 65; hour++) {
    clock.advance(HOUR);
    await turns(10);
  }
  assert.deepEqual(warned(), []);
  for (let hour = 65; hour < 71; hour++) {
    clock.advance(HOUR);
    await turns(10);
  }
  assert.ok(warned().length >= 4 && warned().length <= 6, warned().join('\n'));
  assert.match(
    warned()[0]!,
    /^of the CommitLog from 0 to 16384, 2 unread messages will be removed in 6\.0 h or later; groups: G \(2\)$/,
  );
  assert.equal(context.unread.total, 0);
  await context.store.close();
});

test('messages that wait in a delay level hold their file until the disk forces it out', async () => {
  const broker = await open();
  const { context, clock, fs } = broker;
  await fill(broker, 'SCHEDULE_TOPIC_XXXX', 4, 17);
  await fill(broker, 'T', 6);
  await broker.ask(RequestCode.DELETE_EXPIRED_COMMITLOG);
  await turns();
  assert.equal(context.store.watermarks.minimum, 0);
  assert.match(broker.logger.texts('warn').join(), /is expired and stays: 3 are still needed by the delay levels/);
  fs.reportedUsedFraction = 0.87;
  for (let second = 0; second < 70; second += 10) {
    clock.advance(10_000);
    await turns(50);
  }
  assert.equal(context.store.watermarks.minimum, 3 * 16_384);
  assert.deepEqual([...context.store.retention.counts.lost], [['the delay levels', 4]]);
  await context.store.close();
});

test('CLEAN_EXPIRED_CONSUMEQUEUE removes queues whose messages are gone and to which nobody sends', async () => {
  const broker = await open();
  const { context } = broker;
  await fill(broker, 'Known', 1);
  await fill(broker, 'Known', 1, 9);
  await fill(broker, 'Forgotten', 1, 0, false);
  await fill(broker, 'T', 6);
  await fill(broker, 'Living', 1, 0, false);
  const ask = async (): Promise<string[]> => {
    assert.equal((await broker.ask(RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE)).code, ResponseCode.SUCCESS);
    return [...context.store.queues()].map(({ topic, queueId }) => `${topic}/${queueId}`).sort();
  };
  const all = ['Forgotten/0', 'Known/0', 'Known/9', 'Living/0', 'T/0'];
  assert.deepEqual(await ask(), all, 'all are in the log');
  await broker.ask(RequestCode.DELETE_EXPIRED_COMMITLOG);
  await turns();
  assert.deepEqual(await ask(), ['Known/0', 'Living/0', 'T/0']);
  assert.equal(context.store.maxOffsetInQueue('Known', 0), 1, 'its offsets go on');
  assert.equal(broker.fs.stat('/store/consumequeue/Forgotten'), undefined);
  await fill(broker, 'Forgotten', 1, 0);
  assert.equal(context.store.maxOffsetInQueue('Forgotten', 0), 1, 'it can come again');
  await context.store.close();
  const again = await BrokerFixture.open({
    fs: broker.fs,
    clock: broker.clock,
    store: { mappedFileSizeCommitLog: 16_384 },
  });
  assert.equal(again.context.store.maxOffsetInQueue('Forgotten', 0), 1);
  assert.equal(again.context.store.maxOffsetInQueue('Known', 9), 0);
  await again.context.store.close();
});
