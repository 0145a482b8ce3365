import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SeededRandom, viewOf } from '../../common/index.ts';
import { propertiesTextInJavaOrder, RecordView, readRecord, Verify } from '../../message/index.ts';
import { RequestCode, ResponseCode } from '../../remoting/index.ts';
import { messageWith } from '../broker-fixture.test.support.ts';
import { TRANS_HALF_TOPIC } from '../topic/topic-names.ts';
import { makeHalf } from './half-message.ts';
import { COMMIT, endFields, UNKNOWN, World } from './transaction.test.support.ts';

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
