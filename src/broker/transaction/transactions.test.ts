import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SeededRandom, viewOf } from '../../common/index.ts';
import { readWhole, writeWhole } from '../../io/index.ts';
import {
  createOffsetMessageId,
  propertiesTextInJavaOrder,
  RecordView,
  readRecord,
  Verify,
} from '../../message/index.ts';
import { RequestCode, ResponseCode } from '../../remoting/index.ts';
import { messageWith } from '../broker-fixture.test.support.ts';
import { TRANS_CHECK_MAX_TIME_TOPIC, TRANS_HALF_TOPIC, TRANS_OP_HALF_TOPIC } from '../topic/topic-names.ts';
import { makeHalf, TRANS_GROUP } from './half-message.ts';
import { COMMIT, endFields, type Half, ROLLBACK, ROUNDS, UNKNOWN, World } from './transaction.test.support.ts';

const METRICS = '/store/config/transactionMetrics';

test('a half message waits aside with its origin, and a commit stores what RocketMQ stores', async () => {
  const w = await new World().start();
  const answer = await w.send('u1');
  assert.deepEqual(
    [answer.code, answer.ext['queueId'], answer.ext['queueOffset'], answer.ext['transactionId']],
    [0, '1', '0', 'u1'],
  );
  const [half] = await w.all(TRANS_HALF_TOPIC);
  const common = {
    CLUSTER: 'DefaultCluster',
    MSG_REGION: 'DefaultRegion',
    PGROUP: 'PG',
    TAGS: 'A',
    TRACE_ON: 'true',
    TRAN_MSG: 'true',
    UNIQ_KEY: 'u1',
    WAIT: 'true',
    __transactionId__: 'u1',
  };
  assert.deepEqual(Object.fromEntries(half!.properties), { ...common, REAL_TOPIC: 'T', REAL_QID: '1' });
  assert.equal(half!.sysFlag, 0);
  assert.deepEqual(await w.delivered(), []);
  assert.equal(w.broker.context.transactions.metrics.count('T'), 1);

  w.clock.advance(100);
  const place = { offset: half!.physicalOffset, queueOffset: 0 };
  const ended = await w.end(place, COMMIT);
  assert.deepEqual([ended.code, ended.remark], [0, null]);
  const [message] = await w.all('T', 1);
  assert.deepEqual(Object.fromEntries(message!.properties), common);
  assert.deepEqual(
    [message!.sysFlag, message!.flag, message!.preparedTransactionOffset, message!.bornTimestamp, message!.bornHost],
    [COMMIT, 7, half!.physicalOffset, half!.bornTimestamp, half!.bornHost],
  );
  assert.equal(message!.storeTimestamp, half!.storeTimestamp + 100);
  assert.equal(Buffer.from(message!.body).toString(), 'body of u1');
  assert.equal(w.broker.context.transactions.metrics.count('T'), 0);
});

test('the bytes of the fast way are those of the slow way, whatever the properties', async () => {
  const w = await new World().start();
  const random = new SeededRandom(5);
  const { context } = w.broker;
  const propertiesAt = async (offset: number): Promise<string> => {
    const record = (await context.store.recordAt(offset))!;
    const view = new RecordView();
    readRecord(record, viewOf(record), 0, record.length, Verify.BODY_CRC, view);
    return Buffer.from(record.subarray(view.propertiesStart, view.propertiesEnd)).toString();
  };
  const names = [
    'KEYS',
    'REAL_TOPIC',
    'REAL_QID',
    '__transactionId__',
    'MSG_REGION',
    'CLUSTER',
    'TRANSACTION_CHECK',
    'Aa',
    'BB',
  ];
  for (let i = 0; i < 200; i++) {
    const sent = new Map<string, string>();
    for (const name of names) if (random.int(3) === 0) sent.set(name, `v${random.int(100)}`);
    const many = i % 20 === 0 ? 40 + random.int(70) : random.int(8);
    for (let k = 0; k < many; k++) sent.set(`${random.int(2) === 0 ? 'p' : 'Größe'}${random.int(1000)}`, `é${k}`);
    const half = await w.half(`u${i}`, Object.fromEntries(sent));
    const message = messageWith({ topic: 'T', queueId: 1, properties: new Map() });
    message.properties = new Map([
      ['UNIQ_KEY', `u${i}`],
      ['TRAN_MSG', 'true'],
      ['PGROUP', 'PG'],
      ['WAIT', 'true'],
      ['TAGS', 'A'],
      ...sent,
    ]);
    const { properties } = message;
    properties.set('MSG_REGION', 'DefaultRegion').set('TRACE_ON', 'true').set('CLUSTER', 'DefaultCluster');
    makeHalf(message);
    assert.equal(await propertiesAt(half.offset), propertiesTextInJavaOrder(properties));
    const at = context.store.watermarks.wrote;
    await w.end(half, COMMIT);
    properties.delete('REAL_TOPIC');
    properties.delete('REAL_QID');
    assert.equal(await propertiesAt(at), propertiesTextInJavaOrder(properties));
  }
});

test('an end that does not fit its half message is refused in RocketMQ words', async () => {
  const w = await new World().start();
  const half = await w.half('u1');
  const refused = async (fields: Record<string, string | number>, code: number, remark: string | null) => {
    const answer = await w.end(half, COMMIT, fields);
    assert.deepEqual([answer.code, answer.remark], [code, remark]);
  };
  await refused({ producerGroup: 'other' }, ResponseCode.SYSTEM_ERROR, 'The producer group wrong');
  await refused({ tranStateTableOffset: 4 }, ResponseCode.SYSTEM_ERROR, 'The transaction state table offset wrong');
  await refused({ commitLogOffset: 4 }, ResponseCode.SYSTEM_ERROR, 'Find prepared transaction message failed');
  const other = await w.broker.put(messageWith({ properties: new Map([['PGROUP', 'PG']]) }));
  await refused(
    { commitLogOffset: other.wroteOffset },
    ResponseCode.SYSTEM_ERROR,
    'Find prepared transaction message failed',
  );
  const missing = await w.broker.ask(RequestCode.END_TRANSACTION, { producerGroup: 'PG', commitOrRollback: 8 });
  assert.equal(missing.code, ResponseCode.SYSTEM_ERROR);
  assert.deepEqual(await w.delivered(), []);

  // Only its own time counts, and only for the producer that was not asked.
  const late = await w.half('u2', { CHECK_IMMUNITY_TIME_IN_SECONDS: '10' });
  w.clock.advance(10_001);
  assert.equal((await w.end(late, COMMIT)).code, ResponseCode.ILLEGAL_OPERATION);
  assert.equal((await w.end(late, COMMIT, { fromTransactionCheck: true })).code, 0);
  assert.deepEqual(await w.delivered(), ['u2']);
});

test('unknown is not answered and leaves the transaction open', async () => {
  const w = await new World().start();
  const half = await w.half('u1');
  let answered = false;
  void w.end(half, UNKNOWN).then(() => {
    answered = true;
  });
  await w.pass(1000);
  assert.equal(answered, false);
  assert.equal(w.producer.takenOver.length, 1);
  assert.deepEqual(await w.delivered(), []);
});

test('refused are transactions that the broker does not take', async () => {
  const w = await new World({ rejectTransactionMessage: true }).start();
  const answer = await w.send('u1');
  assert.deepEqual(
    [answer.code, answer.remark],
    [ResponseCode.NO_PERMISSION, 'the broker[127.0.0.1] sending transaction message is forbidden'],
  );
  // A committed message that a client sends once more since it could not be consumed is no transaction.
  const again = await w.send('u2', { DELAY: '3' }, { reconsumeTimes: '1' });
  assert.equal(again.code, 0);
});

test('B50: a transactional message with a delay is refused with a clear text; it goes round nowhere', async () => {
  const w = await new World().start();
  for (const [name, value] of [
    ['DELAY', '1'],
    ['TIMER_DELAY_SEC', '5'],
    ['TIMER_DELIVER_MS', '1'],
  ]) {
    const answer = await w.send('u1', { [name!]: value! });
    assert.equal(answer.code, ResponseCode.MESSAGE_ILLEGAL);
    assert.match(answer.remark!, new RegExp(`cannot be delayed: send it without the property ${name}`));
  }
  await w.pass(180_000, 5000);
  assert.equal((await w.all(TRANS_HALF_TOPIC)).length, 0);
  assert.equal((await w.send('u2', { DELAY: '0' })).code, 0);
});

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

test('the late end of the producer and its answer to a check deliver once', async () => {
  const w = await new World().start();
  const half = await w.half('u1');
  await w.pass(7000);
  await w.round();
  assert.deepEqual(w.asked, ['u1']);
  assert.equal((await w.end(half, COMMIT)).code, 0);
  assert.equal((await w.answer(0, COMMIT)).code, 0);
  await w.pass(7000);
  await w.round();
  await w.round();
  assert.equal((await w.end(half, COMMIT)).code, 0);
  assert.deepEqual(await w.delivered(), ['u1']);
  assert.deepEqual(w.asked, ['u1']);
  assert.deepEqual(w.positions, [2, 2]);
});

test('a transaction that ended before a kill ends once, though no record tells of it', async () => {
  const w = await new World().start();
  await w.end(await w.half('u1'), COMMIT);
  const late = await w.half('u2');
  assert.deepEqual(await w.delivered(), ['u1']);
  assert.deepEqual(await w.ops(), []);
  w.die();
  await w.start();
  assert.deepEqual(await w.delivered(), ['u1']);
  await w.pass(7000);
  await w.round();
  assert.deepEqual(w.asked, ['u1', 'u2']);
  assert.equal((await w.answer(0, COMMIT)).code, 0);
  // The answer to a check and the producer's own end, late, one behind the other.
  await w.answer(1, COMMIT);
  await w.end(late, COMMIT);
  await w.pass(7000);
  assert.deepEqual(await w.delivered(), ['u1', 'u2']);
  w.die();
  await w.start();
  await w.end(late, COMMIT);
  await w.round();
  assert.deepEqual(await w.delivered(), ['u1', 'u2']);
  await w.round();
  assert.equal(w.broker.context.transactions.open, false);
  assert.deepEqual(w.asked, []);
});

test('a start between a check and the two ends of its transaction delivers once, in either order', async () => {
  const w = await new World().start();
  const halves = [await w.half('u1'), await w.half('u2')];
  await w.pass(7000);
  await w.round();
  assert.deepEqual(w.asked, ['u1', 'u2']);
  const asked = w.checks.map((ext) => {
    return { offset: Number(ext['commitLogOffset']), queueOffset: Number(ext['tranStateTableOffset']) };
  });
  await w.stop();
  await w.start();
  await w.end(halves[0]!, COMMIT);
  await w.end(asked[0]!, COMMIT, { fromTransactionCheck: true });
  // In one turn.
  const both = [w.end(asked[1]!, COMMIT, { fromTransactionCheck: true }), w.end(halves[1]!, COMMIT)];
  for (const answer of await Promise.all(both)) assert.equal(answer.code, 0);
  assert.deepEqual((await w.delivered()).sort(), ['u1', 'u2']);
  await w.pass(7000);
  await w.round();
  await w.round();
  assert.deepEqual(w.asked, []);
});

test('a commit whose message cannot be written is open again, and is delivered when it is said once more', async () => {
  const w = await new World({ transactionOpBatchInterval: 100 }).start();
  const halves = [await w.half('u1'), await w.half('u2'), await w.half('u3', { CHECK_IMMUNITY_TIME_IN_SECONDS: '6' })];
  await w.pass(100);
  const fault = w.fs.fail({ operation: 'write', path: 'commitlog', code: 'DISK_FULL' });
  const answers = await Promise.all(halves.map((half) => w.end(half, COMMIT)));
  assert.equal(fault.hits, 1);
  for (const { code, remark } of answers) {
    assert.deepEqual([code, remark], [ResponseCode.SERVICE_NOT_AVAILABLE, 'Service not available now.']);
  }
  fault.clear();
  await w.pass(20_000);
  assert.deepEqual([await w.delivered(), await w.ops()], [[], []]);
  assert.equal(w.broker.context.transactions.metrics.count('T'), 3);
  // One says it again, the others are asked.
  assert.equal((await w.end(halves[0]!, COMMIT)).code, 0);
  await w.round();
  assert.deepEqual(w.asked, ['u2', 'u3']);
  for (const i of [0, 1]) assert.equal((await w.answer(i, COMMIT)).code, 0);
  assert.deepEqual(await w.delivered(), ['u1', 'u2', 'u3']);
  await w.pass(2000);
  await w.round();
  assert.deepEqual(w.asked, ['u2', 'u3']);
  assert.equal(w.broker.context.transactions.open, false);
  assert.equal(w.broker.context.transactions.metrics.count('T'), 0);
});

test('a commit whose write fails before its turn is over is refused and open again', async () => {
  const w = await new World().start();
  const half = await w.half('u1');
  await w.pass(100);
  const fault = w.fs.fail({ operation: 'write', path: 'commitlog', code: 'DISK_FULL' });
  const answer = w.broker.ask(RequestCode.END_TRANSACTION, endFields(half), '', w.producer);
  w.broker.context.store.endTurn();
  assert.equal(fault.hits, 1);
  fault.clear();
  await w.pass(20_000);
  assert.equal((await w.end(half, COMMIT)).code, 0);
  assert.equal((await answer).code, ResponseCode.SERVICE_NOT_AVAILABLE);
  assert.deepEqual(await w.delivered(), ['u1']);
});

test('a start goes on where the last one was, after a stop and after a kill', async () => {
  const w = await new World().start();
  for (let i = 0; i < 40; i++) {
    const half = await w.half(`u${i}`);
    if (i % 10 !== 0) await w.end(half, COMMIT);
  }
  await w.stop();
  await w.start();
  await w.pass(7000);
  await w.round();
  assert.deepEqual(w.asked, ['u0', 'u10', 'u20', 'u30']);
  await w.answer(0, COMMIT);
  await w.pass(4000);
  assert.equal(w.positions[0], 40);
  w.broker.context.offsets.persistIfChanged();
  w.die();
  await w.start();
  await w.pass(7000);
  await w.round();
  assert.deepEqual(w.asked, ['u10', 'u20', 'u30']);
  assert.equal((await w.delivered()).length, 37);
});

test('what is left for later is renewed when much has been scanned behind it', async () => {
  const w = await new World({ transactionOpBatchInterval: 100 }).start();
  const kept = await w.half('wait', { CHECK_IMMUNITY_TIME_IN_SECONDS: '36000' });
  for (let i = 0; i < 10_050; i++) {
    const half = await w.half(`u${i}`);
    void w.end(half, COMMIT);
  }
  await w.pass(7000);
  await w.round();
  assert.ok(w.positions[0] <= 0);
  await w.round();
  const last = (await w.all(TRANS_HALF_TOPIC)).at(-1)!;
  assert.equal(last.properties.get('TRAN_PREPARED_QUEUE_OFFSET'), '0');
  assert.equal(w.positions[0], 10_051);
  // The producer knows it by its first place; after a start, too.
  await w.stop();
  await w.start();
  assert.equal((await w.end(kept, COMMIT)).code, 0);
  await w.round();
  await w.round();
  assert.deepEqual(w.asked, []);
  assert.equal((await w.delivered()).filter((name) => name === 'wait').length, 1);
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

test('the counts of open transactions are saved as RocketMQ writes them, and a damaged file refuses no start', async () => {
  const w = await new World().start();
  await w.half('u1');
  await w.half('u2');
  await w.pass(11_000, 100);
  const text = Buffer.from(readWhole(w.fs, METRICS)!).toString();
  assert.match(
    text,
    /^\{"dataVersion":\{"counter":2,"stateVersion":0,"timestamp":\d+\},"transactionCount":\{"T":\{"count":2,"timeStamp":\d+\}\}\}$/,
  );
  await w.stop();
  await w.start();
  assert.equal(w.broker.context.transactions.metrics.count('T'), 2);
  await w.stop();
  for (const file of [METRICS, `${METRICS}.bak`]) writeWhole(w.fs, file, '{"transactionCount":', true);
  await w.start();
  assert.equal(w.broker.context.transactions.metrics.count('T'), 0);
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

test('a stop whose last sync fails saves no position of ends that are not on disk', async () => {
  const w = await new World({}, { flushIntervalCommitLog: 100_000, flushCommitLogThoroughInterval: 100_000 }).start();
  const { offsets, transactions } = w.broker.context;
  await w.end(await w.half('u1'), COMMIT);
  await w.pass(4000);
  await w.settled(transactions.check());
  w.fs.fail({ operation: 'sync', path: 'commitlog', times: Number.POSITIVE_INFINITY });
  await w.stop();
  assert.ok(offsets.query(TRANS_GROUP, TRANS_HALF_TOPIC, 0) <= 0);
});
