import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readWhole, writeWhole } from '../../io/index.ts';
import { createOffsetMessageId } from '../../message/index.ts';
import { RequestCode, ResponseCode } from '../../remoting/index.ts';
import { messageWith } from '../broker-fixture.test.support.ts';
import { TRANS_CHECK_MAX_TIME_TOPIC, TRANS_HALF_TOPIC, TRANS_OP_HALF_TOPIC } from '../topic/topic-names.ts';
import { COMMIT, type Half, ROLLBACK, ROUNDS, World } from './transaction.test.support.ts';

test('ends are gathered: one record for all of 3 s, or when a record is full', async () => {
  const w = await new World({ transactionOpMsgMaxSize: 1024 }).start();
  const halves: Half[] = [];
  for (let i = 0; i < 700; i++) halves.push(await w.half(`u${i}`));
  for (const half of halves.slice(0, 100)) await w.end(half, COMMIT);
  assert.deepEqual(await w.ops(), []);
  await w.pass(3000);
  assert.deepEqual(await w.ops(), [`${Array.from({ length: 100 }, (_, i) => i).join(',')},`]);
  for (const half of halves.slice(100)) await w.end(half, ROLLBACK);
  assert.deepEqual(
    (await w.ops()).slice(1).map((body) => body.length),
    [1024, 1024],
  );
  await w.pass(3000);
  assert.deepEqual((await w.ops()).at(-1), `${Array.from({ length: 88 }, (_, i) => 612 + i).join(',')},`);
});

test('B46: a half message whose check fails, or that nobody can end, stops nobody', async () => {
  const w = await new World({ transactionCheckMax: 3, transactionOpMsgMaxSize: 1 }).start();
  const halves: Half[] = [];
  for (let i = 1; i <= 10; i++) {
    halves.push(await w.half(`u${i}`));
    // Its record does not tell whose it is.
    if (i === 6)
      await w.broker.put(messageWith({ topic: TRANS_HALF_TOPIC, properties: new Map([['UNIQ_KEY', 'bad']]) }));
  }
  const sendOneway = w.producer.sendOneway.bind(w.producer);
  w.producer.sendOneway = (code, ext) => {
    if (ext?.['msgId'] === 'u4') throw new Error('broken pipe');
    sendOneway(code, ext);
  };
  for (let i = 0; i < 5000; i++) w.broker.context.transactions.ops.add(0, 1_000_000 + i);
  await w.pass(7000);
  let last = -1;
  for (let round = 0; round < 3; round++) {
    await w.round();
    assert.ok(w.positions[0] > last, `round ${round}: ${w.positions}`);
    last = w.positions[0];
  }
  assert.deepEqual([...new Set(w.asked)], ['u1', 'u2', 'u3', 'u5', 'u6', 'u7', 'u8', 'u9', 'u10']);
  await w.round();
  const parked = (await w.all(TRANS_CHECK_MAX_TIME_TOPIC)).map((message) => message.messageId);
  assert.deepEqual(parked, ['bad', 'u1', 'u2', 'u3', 'u4', 'u5', 'u6', 'u7', 'u8', 'u9', 'u10']);
  assert.equal(w.broker.context.transactions.counts.setAside, 1);
  assert.equal(w.broker.logger.texts('error').filter((text) => /half message u4 .* is given up/.test(text)).length, 1);
});

test('B46: a half message whose record is damaged is named, counted and passed over', async () => {
  const w = await new World().start();
  const halves: Half[] = [];
  for (let i = 1; i <= 10; i++) halves.push(await w.half(`u${i}`));
  await w.stop();
  const file = '/store/commitlog/00000000000000000000';
  await w.start();
  const bytes = readWhole(w.fs, file)!;
  bytes.fill(0, halves[3]!.offset + 88, halves[3]!.offset + 120);
  writeWhole(w.fs, file, bytes, true);
  await w.pass(7000);
  await w.round();
  assert.deepEqual(
    w.asked,
    [1, 2, 3, 5, 6, 7, 8, 9, 10].map((i) => `u${i}`),
  );
  assert.equal(w.broker.context.transactions.counts.setAside, 1);
  assert.match(w.broker.logger.texts('error').join('\n'), /half message 3 of queue 0 cannot be read/);
  assert.equal(w.positions[0], 10);
});

test('B47: no check and no count before a message may be asked about, then 15 checks, then it is parked', async () => {
  const w = await new World(ROUNDS).start();
  await w.half('u1', { CHECK_IMMUNITY_TIME_IN_SECONDS: '600' });
  await w.pass(600_000, 10_000);
  assert.deepEqual(w.asked, []);
  assert.equal((await w.all(TRANS_HALF_TOPIC)).length, 1, 'nothing was written meanwhile');
  for (let i = 0; i < 20; i++) {
    await w.pass(30_000, 10_000);
    w.connect();
  }
  const parked = await w.all(TRANS_CHECK_MAX_TIME_TOPIC);
  assert.deepEqual(
    parked.map((message) => [message.messageId, message.properties.get('TRANSACTION_CHECK_TIMES')]),
    [['u1', '15']],
  );
  assert.equal(w.broker.context.transactions.counts.checks, 15);
  assert.equal(w.broker.context.transactions.metrics.count('T'), 0);
});

test('B47: an end that stands far behind in the records is read before anything is given up', async () => {
  const w = await new World({ transactionCheckMax: 1, transactionOpMsgMaxSize: 4 }).start();
  const half = await w.half('u1');
  await w.pass(7000);
  await w.round();
  assert.deepEqual(w.asked, ['u1']);
  for (let i = 0; i < 40; i++) w.broker.context.transactions.ops.add(0, 5000 + i);
  await w.end(half, COMMIT);
  // So that only the records tell of it.
  await w.stop();
  await w.start();
  await w.round();
  assert.deepEqual(await w.delivered(), ['u1']);
  assert.equal((await w.all(TRANS_CHECK_MAX_TIME_TOPIC)).length, 0);
});

test("B49: cleaning unused topics leaves the broker's own queues; nobody is asked about ended transactions", async () => {
  const w = await new World().start();
  const ends: Array<[Half, number]> = [];
  for (let i = 0; i < 25; i++) ends.push([await w.half(`u${i}`), i < 20 ? COMMIT : ROLLBACK]);
  for (const [half, outcome] of ends) await w.end(half, outcome);
  await w.pass(4000);
  // The other queues of the broker's own are in use, too.
  const { offset } = (await w.all('T', 1)).map((message) => ({ offset: message.physicalOffset }))[0]!;
  w.broker.context.groups.findOrCreate('G');
  const sendBack = { group: 'G', offset, delayLevel: 2, originTopic: 'T' };
  assert.equal((await w.settled(w.broker.ask(RequestCode.CONSUMER_SEND_MSG_BACK, sendBack))).code, 0);
  await w.broker.put(messageWith({ topic: '%RETRY%G' }));
  const own = ['rmq_sys_wheel_timer', 'rmq_sys_REVIVE_LOG_DefaultCluster'];
  for (const topic of own) await w.broker.put(messageWith({ topic }));
  await w.pass(100);
  const queues = (): string[] => {
    const { store } = w.broker.context;
    return [...store.queues()]
      .filter(({ topic }) => topic !== 'Unrelated')
      .map(({ topic, queueId }) => {
        return `${topic}/${queueId} ${store.minOffsetInQueue(topic, queueId)} ${store.maxOffsetInQueue(topic, queueId)}`;
      })
      .sort();
  };
  const before = queues();
  assert.deepEqual(before, [
    '%RETRY%G/0 0 1',
    'RMQ_SYS_TRANS_HALF_TOPIC/0 0 25',
    'RMQ_SYS_TRANS_OP_HALF_TOPIC/0 0 1',
    'SCHEDULE_TOPIC_XXXX/1 0 1',
    'T/1 0 20',
    'rmq_sys_REVIVE_LOG_DefaultCluster/0 0 1',
    'rmq_sys_wheel_timer/0 0 1',
  ]);
  const clean = async (): Promise<void> => {
    const { context } = w.broker;
    context.topics.createInSend('Unrelated', 'TBW102', 'test', 4, 0);
    context.topics.persistIfChanged();
    await w.broker.put(messageWith({ topic: 'Unrelated' }));
    await w.settled(w.broker.ask(RequestCode.DELETE_TOPIC_IN_BROKER, { topic: 'Unrelated' }));
    await w.settled(w.broker.ask(RequestCode.DELETE_SUBSCRIPTIONGROUP, { groupName: 'unrelated' }));
    await w.settled(w.broker.ask(RequestCode.CLEAN_UNUSED_TOPIC));
    await w.settled(w.broker.ask(RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE));
    assert.deepEqual(queues(), before);
  };
  await clean();
  await w.pass(7000);
  await w.round();
  await w.round();
  assert.deepEqual(w.asked, []);
  await w.stop();
  await w.start();
  await w.pass(100);
  assert.deepEqual(queues(), before);
  await clean();
  await w.round();
  assert.deepEqual(w.asked, []);
});

test('B71: with nothing open there is no timer and no loop', async () => {
  // One that has no transactions at all.
  const none = await new World(ROUNDS).start();
  await none.broker.context.transactions.stop();
  await none.pass(60_000, 5000);
  const w = await new World(ROUNDS).start();
  for (let i = 0; i < 100; i++) await w.end(await w.half(`u${i}`), COMMIT);
  await w.pass(120_000, 5000);
  assert.equal(w.broker.context.transactions.open, false);
  const idle = async (world: World): Promise<number> => {
    const before = world.clock.started;
    await world.pass(3_600_000, 60_000);
    return world.clock.started - before;
  };
  assert.equal(await idle(w), await idle(none));
});

test('a check counts only when somebody was asked', async () => {
  const w = await new World(ROUNDS).start();
  await w.half('u1');
  w.producer.close('gone');
  for (let i = 0; i < 20; i++) await w.pass(30_000, 10_000);
  assert.equal((await w.all(TRANS_HALF_TOPIC)).length, 1, 'nothing was written meanwhile');
  w.connect();
  await w.pass(30_000, 10_000);
  assert.deepEqual(w.asked, ['u1']);
  const copies = await w.all(TRANS_HALF_TOPIC);
  assert.equal(copies[1]!.properties.get('TRANSACTION_CHECK_TIMES'), '1');
  assert.deepEqual(w.checks[0], {
    bname: 'broker-a',
    commitLogOffset: copies[1]!.physicalOffset,
    msgId: 'u1',
    offsetMsgId: copies[1]!.offsetMessageId,
    topic: TRANS_HALF_TOPIC,
    tranStateTableOffset: 1,
    transactionId: 'u1',
  });
  await w.answer(0, ROLLBACK);
  await w.pass(120_000, 10_000);
  assert.deepEqual(await w.delivered(), []);
  assert.deepEqual(w.positions, [2, 1]);
  assert.equal(w.broker.context.transactions.open, false);
});

test('half messages are parked when they are older than the files are kept', async () => {
  const w = await new World(ROUNDS, { fileReservedTime: 1 }).start();
  await w.half('u1');
  w.producer.close('gone');
  await w.pass(3_700_000, 30_000);
  assert.deepEqual(
    (await w.all(TRANS_CHECK_MAX_TIME_TOPIC)).map((message) => message.messageId),
    ['u1'],
  );
  assert.equal(w.broker.context.transactions.open, false);
});

test('an operator has a parked message asked about anew', async () => {
  const w = await new World({ transactionCheckMax: 1 }).start();
  await w.half('u1');
  await w.pass(7000);
  await w.round();
  await w.round();
  const [parked] = await w.all(TRANS_CHECK_MAX_TIME_TOPIC);
  const resume = (msgId: string) => w.broker.ask(RequestCode.RESUME_CHECK_HALF_MESSAGE, { topic: 'T', msgId });
  assert.equal((await resume(parked!.offsetMessageId)).code, 0);
  assert.equal(w.broker.context.transactions.metrics.count('T'), 1);
  await w.pass(7000);
  await w.round();
  assert.deepEqual(w.asked, ['u1', 'u1']);
  await w.answer(1, COMMIT);
  assert.deepEqual(await w.delivered(), ['u1']);
  const host = w.broker.context.storeHost;
  for (const id of ['nonsense', createOffsetMessageId(host, 5)]) {
    const answer = await resume(id);
    assert.equal(answer.code, ResponseCode.SYSTEM_ERROR);
    assert.equal(answer.remark, 'Exception was thrown when putting message back to RMQ_SYS_TRANS_HALF_TOPIC.');
  }
});

test('open half messages hold their file, ended ones do not', async () => {
  const w = await new World().start();
  await w.half('u0');
  const ended = await w.half('u1');
  await w.half('u2');
  await w.end(ended, COMMIT);
  const { transactions } = w.broker.context;
  const needed = (from: number, to: number): number =>
    transactions.needed({
      start: 0,
      end: 1,
      forced: false,
      moves: [{ topic: TRANS_HALF_TOPIC, queueId: 0, from, to }],
    });
  assert.deepEqual([needed(0, 3), needed(1, 2), needed(2, 3)], [2, 0, 1]);
});

test('10,000 transactions, one in 100 unknown: two rounds end all, nobody is asked about a committed one', async () => {
  const w = await new World(
    {},
    { mappedFileSizeCommitLog: 16 * 1024 * 1024, mappedFileSizeConsumeQueue: 600_000 },
  ).start();
  const unknown = new Set<string>();
  for (let i = 0; i < 10_000; i++) {
    const half = await w.half(`u${i}`);
    if (i % 100 === 99) unknown.add(`u${i}`);
    else void w.end(half, COMMIT);
  }
  await w.pass(7000);
  await w.round();
  assert.deepEqual(new Set(w.asked), unknown);
  assert.equal(w.asked.length, 100);
  for (let i = 0; i < 100; i++) await w.answer(i, COMMIT);
  await w.round();
  assert.equal(w.asked.length, 100);
  const { store, transactions } = w.broker.context;
  assert.equal(w.positions[0], store.maxOffsetInQueue(TRANS_HALF_TOPIC, 0));
  assert.equal(transactions.open, false);
  assert.equal(store.maxOffsetInQueue('T', 1), 10_000);
  assert.ok(store.maxOffsetInQueue(TRANS_OP_HALF_TOPIC, 0) <= 100);
});
