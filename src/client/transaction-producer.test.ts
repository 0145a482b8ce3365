import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { parseProperties, SysFlag } from '../message/index.ts';
import { RequestCode, ResponseCode } from '../remoting/index.ts';
import { FakeCluster, record } from './fake-cluster.test.support.ts';
import {
  type LocalTransactionState,
  TransactionProducer,
  type TransactionProducerOptions,
} from './transaction-producer.ts';

/** The offset message id of 127.0.0.1:10911 and log offset 0x1234. */
const OFFSET_ID = '7F00000100002A9F0000000000001234';

async function rig(
  t: TestContext,
  options: Partial<TransactionProducerOptions> = {},
  halfCode: number = ResponseCode.SUCCESS,
): Promise<{ cluster: FakeCluster; producer: TransactionProducer }> {
  const cluster = await FakeCluster.open({ T: 1 });
  cluster.broker.answer = ({ code }) =>
    code === RequestCode.SEND_MESSAGE_V2
      ? { code: halfCode, ext: { msgId: OFFSET_ID, queueId: 0, queueOffset: 7, transactionId: 'TX' } }
      : undefined;
  const check = async (): Promise<LocalTransactionState> => 'UNKNOW';
  const producer = new TransactionProducer({ ...cluster.options(), group: 'PID', check, ...options });
  await producer.start();
  t.after(async () => {
    await producer.close();
    await cluster.close();
  });
  return { cluster, producer };
}

const verdicts = (cluster: FakeCluster) => cluster.broker.of(RequestCode.END_TRANSACTION);

/** A broker's question after a half message. */
function ask(cluster: FakeCluster, body = 'half', group = 'PID'): void {
  const ext = {
    topic: 'RMQ_SYS_TRANS_HALF_TOPIC',
    commitLogOffset: 4660,
    tranStateTableOffset: 7,
    msgId: 'MSG',
    transactionId: 'TX',
    offsetMsgId: OFFSET_ID,
    bname: 'a',
  };
  const properties = { PGROUP: group, UNIQ_KEY: 'UNIQ', TRAN_MSG: 'true' };
  cluster.broker.tell(RequestCode.CHECK_TRANSACTION_STATE, ext, record('T', 0, 0, body, { properties }));
}

for (const [state, code] of [
  ['COMMIT_MESSAGE', 8],
  ['ROLLBACK_MESSAGE', 12],
  ['UNKNOW', 0],
] as const) {
  test(`a half message is sent, the transaction runs, and ${state} goes to the broker`, async (t) => {
    const { cluster, producer } = await rig(t);
    const result = await producer.sendInTransaction({ topic: 'T', body: 'x', keys: 'k' }, async (half) => {
      assert.equal(half.transactionId, 'TX');
      assert.equal(half.keys, 'k');
      assert.equal(verdicts(cluster).length, 0);
      return state;
    });
    assert.deepEqual(
      [result.state, result.transactionId, result.status, result.error],
      [state, 'TX', 'SEND_OK', undefined],
    );
    const [half] = cluster.broker.of(RequestCode.SEND_MESSAGE_V2);
    const properties = parseProperties(half!.ext['i']!);
    assert.deepEqual([properties.get('TRAN_MSG'), properties.get('PGROUP')], ['true', 'PID']);
    assert.equal(Number(half!.ext['f']) & SysFlag.TRANSACTION_MASK, SysFlag.TRANSACTION_PREPARED);
    await cluster.until('the verdict', () => verdicts(cluster).length === 1);
    assert.deepEqual(verdicts(cluster)[0]!.ext, {
      producerGroup: 'PID',
      commitOrRollback: String(code),
      topic: 'T',
      tranStateTableOffset: '7',
      commitLogOffset: '4660',
      msgId: result.msgId,
      transactionId: 'TX',
      fromTransactionCheck: 'false',
      bname: 'a',
    });
  });
}

test('a transaction that throws is left open, and the error is told', async (t) => {
  const { cluster, producer } = await rig(t);
  const result = await producer.sendInTransaction({ topic: 'T', body: 'x' }, async () => {
    throw new Error('no money');
  });
  assert.equal(result.state, 'UNKNOW');
  assert.equal((result.error as Error).message, 'no money');
  await cluster.until('the verdict', () => verdicts(cluster)[0]?.ext['commitOrRollback'] === '0');
});

test('a half message that is not safe enough is rolled back, and its transaction is not run', async (t) => {
  const { cluster, producer } = await rig(t, {}, ResponseCode.FLUSH_DISK_TIMEOUT);
  const result = await producer.sendInTransaction({ topic: 'T', body: 'x' }, () => assert.fail('it ran'));
  assert.deepEqual([result.state, result.status], ['ROLLBACK_MESSAGE', 'FLUSH_DISK_TIMEOUT']);
  await cluster.until('the verdict', () => verdicts(cluster)[0]?.ext['commitOrRollback'] === '12');
});

test('a half message that is refused has no transaction and no verdict; a delayed one is not sent', async (t) => {
  const { cluster, producer } = await rig(t, {}, ResponseCode.MESSAGE_ILLEGAL);
  const execute = () => assert.fail('it ran');
  await assert.rejects(producer.sendInTransaction({ topic: 'T', body: 'x' }, execute), { code: 'RESPONSE' });
  const sent = cluster.broker.of(RequestCode.SEND_MESSAGE_V2).length;
  for (const delay of [{ delayLevel: 1 }, { delayMs: 5 }, { delaySeconds: 5 }, { deliverAt: 5 }]) {
    await assert.rejects(producer.sendInTransaction({ topic: 'T', body: 'x', ...delay }, execute), { code: 'MESSAGE' });
  }
  assert.equal(cluster.broker.of(RequestCode.SEND_MESSAGE_V2).length, sent);
  assert.equal(verdicts(cluster).length, 0);
});

test('a broker that asks is answered over its connection, by the group that the message names', async (t) => {
  const asked: string[] = [];
  const { cluster, producer } = await rig(t, {
    check: async (message) => {
      asked.push(`${message.topic} ${message.text()} ${message.msgId}`);
      if (message.text() === 'broken') throw new Error('no database');
      return message.text() === 'paid' ? 'COMMIT_MESSAGE' : 'ROLLBACK_MESSAGE';
    },
  });
  await producer.send({ topic: 'T', body: 'connects' });
  ask(cluster, 'paid');
  await cluster.until('the answer', () => verdicts(cluster).length === 1);
  assert.deepEqual(verdicts(cluster)[0]!.ext, {
    producerGroup: 'PID',
    commitOrRollback: '8',
    topic: 'RMQ_SYS_TRANS_HALF_TOPIC',
    tranStateTableOffset: '7',
    commitLogOffset: '4660',
    msgId: 'UNIQ',
    transactionId: 'TX',
    fromTransactionCheck: 'true',
    bname: 'a',
  });
  ask(cluster, 'cancelled');
  await cluster.until('the second', () => verdicts(cluster).length === 2);
  ask(cluster, 'broken');
  await cluster.until('the third', () => verdicts(cluster).length === 3);
  ask(cluster, 'strange', 'OTHER');
  ask(cluster, 'paid');
  await cluster.until('the last', () => verdicts(cluster).length === 4);
  assert.deepEqual(
    verdicts(cluster).map(({ ext }) => ext['commitOrRollback']),
    ['8', '12', '0', '8'],
  );
  assert.deepEqual(asked, ['T paid UNIQ', 'T cancelled UNIQ', 'T broken UNIQ', 'T paid UNIQ']);
});

test('checks beyond the limit are left to the next time that the broker asks', async (t) => {
  const open: Array<() => void> = [];
  const { cluster, producer } = await rig(t, {
    checkRequestHoldMax: 1,
    check: () => new Promise((resolve) => open.push(() => resolve('COMMIT_MESSAGE'))),
  });
  await producer.send({ topic: 'T', body: 'connects' });
  ask(cluster);
  ask(cluster);
  await cluster.until('the first runs, the second is refused', () =>
    cluster.logger.texts().some((text) => text.includes('more than 1 transaction checks run')),
  );
  assert.equal(open.length, 1);
  open[0]!();
  await cluster.until('one answer', () => verdicts(cluster).length === 1);
  ask(cluster);
  await cluster.until('asked again', () => open.length === 2);
  open[1]!();
});

test('with topics named, brokers hear of the group at the start', async (t) => {
  const { cluster } = await rig(t, { topics: ['T'] });
  const [beat] = cluster.broker.of(RequestCode.HEART_BEAT);
  assert.deepEqual(JSON.parse(beat!.body.toString()).producerDataSet, [{ groupName: 'PID' }]);
});

test('an instance has one transaction producer of a group, and another after its end', async (t) => {
  const { producer, cluster } = await rig(t);
  const options = { ...cluster.options(), group: 'PID', client: producer.client, check: async () => 'UNKNOW' as const };
  await assert.rejects(new TransactionProducer(options).start(), { code: 'CLIENT_STATE' });
  await producer.close();
  const next = new TransactionProducer(options);
  await next.start();
  await next.close();
  assert.throws(() => new TransactionProducer({ ...options, checkRequestHoldMax: 0 }), { code: 'CONFIG_VALUE' });
});
