import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { parseProperties } from '../message/index.ts';
import { RequestCode, ResponseCode } from '../remoting/index.ts';
import { BrokerError } from './client-errors.ts';
import { FakeCluster } from './fake-cluster.test.support.ts';
import { Producer, type ProducerOptions, selectByShardingKey } from './producer.ts';

async function start(
  t: TestContext,
  topics: Record<string, number>,
  names: string[] = ['a'],
  options: Partial<ProducerOptions> = {},
): Promise<{ cluster: FakeCluster; producer: Producer }> {
  const cluster = await FakeCluster.open(topics, ...names);
  const producer = new Producer({ ...cluster.options(), group: 'PID', ...options });
  await producer.start();
  t.after(async () => {
    await producer.close();
    await cluster.close();
  });
  return { cluster, producer };
}

test('a send tells where the message went, and says hello to the broker', async (t) => {
  const { cluster, producer } = await start(t, { T: 2 });
  const result = await producer.send({ topic: 'T', body: 'hello', tags: 'A' });
  assert.equal(result.status, 'SEND_OK');
  assert.equal(result.offsetMsgId, 'OFFSET-ID');
  assert.equal(result.queueOffset, 0);
  assert.equal(result.queue.brokerName, 'a');
  const [sent] = cluster.broker.of(RequestCode.SEND_MESSAGE_V2);
  assert.equal(parseProperties(sent!.ext['i']!).get('UNIQ_KEY'), result.msgId);
  const [beat] = cluster.broker.of(RequestCode.HEART_BEAT);
  assert.deepEqual(JSON.parse(beat!.body.toString()), {
    clientID: '127.0.0.1@test',
    consumerDataSet: [],
    heartbeatFingerprint: 0,
    producerDataSet: [{ groupName: 'PID' }],
    withoutSub: false,
  });
});

test('queues take turns', async (t) => {
  const { producer } = await start(t, { T: 3 });
  const ids: number[] = [];
  for (let i = 0; i < 6; i++) ids.push((await producer.send({ topic: 'T', body: 'x' })).queue.queueId);
  assert.deepEqual(ids.slice(0, 3).sort(), [0, 1, 2]);
  assert.deepEqual(ids.slice(3), ids.slice(0, 3));
});

test('a topic that does not exist goes where the default topic is, with at most four queues', async (t) => {
  const { cluster, producer } = await start(t, { TBW102: 8 });
  const used = new Set<number>();
  for (let i = 0; i < 8; i++) used.add((await producer.send({ topic: 'new', body: 'x' })).queue.queueId);
  assert.deepEqual([...used].sort(), [0, 1, 2, 3]);
  assert.deepEqual(cluster.routeRequests, ['new', 'TBW102']);
  assert.equal(cluster.broker.of(RequestCode.SEND_MESSAGE_V2)[0]!.ext['c'], 'TBW102');
});

test('without a default topic the error names the switch', async (t) => {
  const { producer } = await start(t, {});
  await assert.rejects(producer.send({ topic: 'new', body: 'x' }), (error: Error & { code?: string }) => {
    assert.equal(error.code, 'NO_ROUTE');
    assert.match(error.message, /autoCreateTopicEnable/);
    return true;
  });
});

for (const code of [1, 2, 14, 16, 17, 204, 205]) {
  test(`answer ${code} is tried again on the other broker`, async (t) => {
    const { cluster, producer } = await start(t, { T: 1 }, ['a', 'b']);
    let refused = 0;
    for (const broker of cluster.brokers) {
      broker.answer = (request) => {
        if (request.code !== RequestCode.SEND_MESSAGE_V2 || refused > 0) return undefined;
        refused++;
        return { code, remark: 'not now' };
      };
    }
    assert.equal((await producer.send({ topic: 'T', body: 'x' })).status, 'SEND_OK');
    const sends = cluster.brokers.map((broker) => broker.of(RequestCode.SEND_MESSAGE_V2).length);
    assert.deepEqual(sends, [1, 1]);
  });
}

test('answer 13 is final and carries the words of the broker', async (t) => {
  const { cluster, producer } = await start(t, { T: 1 }, ['a', 'b']);
  for (const broker of cluster.brokers) {
    broker.answer = ({ code }) => (code === RequestCode.SEND_MESSAGE_V2 ? { code: 13, remark: 'too long' } : undefined);
  }
  await assert.rejects(producer.send({ topic: 'T', body: 'x' }), (error) => {
    assert.ok(error instanceof BrokerError);
    assert.equal(error.code, 'RESPONSE');
    assert.equal(error.responseCode, ResponseCode.MESSAGE_ILLEGAL);
    assert.equal(error.remark, 'too long');
    assert.match(error.message, /MESSAGE_ILLEGAL: too long/);
    return true;
  });
  const sends = cluster.brokers.flatMap((broker) => broker.of(RequestCode.SEND_MESSAGE_V2));
  assert.equal(sends.length, 1);
});

test('after three tries the error tells of all of them', async (t) => {
  const { cluster, producer } = await start(t, { T: 1 });
  let n = 0;
  cluster.broker.answer = ({ code }) =>
    code === RequestCode.SEND_MESSAGE_V2 ? { code: 2, remark: `busy ${++n}` } : undefined;
  await assert.rejects(producer.send({ topic: 'T', body: 'x' }), /busy 3.*try 3; before: .*busy 1.*busy 2/);
});

test('a broker that is away is passed by', async (t) => {
  const { cluster, producer } = await start(t, { T: 1 }, ['a', 'b']);
  await producer.send({ topic: 'T', body: 'x' });
  await cluster.brokers[0]!.close();
  for (let i = 0; i < 4; i++) {
    assert.equal((await producer.send({ topic: 'T', body: 'x' })).queue.brokerName, 'b');
  }
});

test('a chosen queue is not exchanged for another', async (t) => {
  const { cluster, producer } = await start(t, { T: 1 }, ['a', 'b']);
  cluster.brokers[0]!.answer = ({ code }) => (code === RequestCode.SEND_MESSAGE_V2 ? { code: 2 } : undefined);
  const queue = { topic: 'T', brokerName: 'a', queueId: 0 };
  await assert.rejects(producer.send({ topic: 'T', body: 'x' }, { queue }), { code: 'RESPONSE' });
  assert.equal(cluster.brokers[1]!.of(RequestCode.SEND_MESSAGE_V2).length, 0);
});

test('a sharding key chooses by the Java hash', () => {
  const queues = [0, 1, 2, 3, 4].map((queueId) => ({ topic: 'T', brokerName: 'a', queueId }));
  // "polygenelubricants" has the hash -2147483648, whose absolute value is no int.
  assert.equal(selectByShardingKey(queues, 'polygenelubricants').queueId, 3);
  assert.equal(selectByShardingKey(queues, 'order-17').queueId, Math.abs(javaHash('order-17') % 5));
});

function javaHash(text: string): number {
  let hash = 0;
  for (const char of text) hash = (hash * 31 + char.charCodeAt(0)) | 0;
  return hash;
}

test('statuses that mean "stored, but" are results', async (t) => {
  const { cluster, producer } = await start(t, { T: 1 });
  const seen: string[] = [];
  for (const code of [10, 11, 12]) {
    cluster.broker.answer = (request) =>
      request.code === RequestCode.SEND_MESSAGE_V2
        ? { code, ext: { msgId: 'X', queueId: 0, queueOffset: 5 } }
        : undefined;
    seen.push((await producer.send({ topic: 'T', body: 'x' })).status);
  }
  assert.deepEqual(seen, ['FLUSH_DISK_TIMEOUT', 'SLAVE_NOT_AVAILABLE', 'FLUSH_SLAVE_TIMEOUT']);
});

test('GO_AWAY is followed by one send on a new connection', async (t) => {
  const { cluster, producer } = await start(t, { T: 1 });
  let gone = 0;
  cluster.broker.answer = ({ code }) =>
    code === RequestCode.SEND_MESSAGE_V2 && gone++ === 0 ? { code: ResponseCode.GO_AWAY } : undefined;
  assert.equal((await producer.send({ topic: 'T', body: 'x' })).status, 'SEND_OK');
  assert.equal(cluster.broker.of(RequestCode.HEART_BEAT).length, 2);
});

test('all tries together end at the time limit when the broker says nothing', async (t) => {
  const { cluster, producer } = await start(t, { T: 1 });
  await producer.send({ topic: 'T', body: 'x' });
  cluster.broker.answer = ({ code }) => (code === RequestCode.SEND_MESSAGE_V2 ? 'silence' : undefined);
  const sending = assert.rejects(producer.send({ topic: 'T', body: 'x' }, { timeoutMs: 700 }), {
    code: 'REMOTING_TIMEOUT',
  });
  await cluster.until('the send arrives', () => cluster.broker.of(RequestCode.SEND_MESSAGE_V2).length === 2);
  cluster.clock.advance(701);
  await sending;
  assert.equal(cluster.broker.of(RequestCode.SEND_MESSAGE_V2).length, 2);
});

test('close unregisters and ends the producer', async (t) => {
  const { cluster, producer } = await start(t, { T: 1 });
  await producer.send({ topic: 'T', body: 'x' });
  await producer.close();
  const [left] = cluster.broker.of(RequestCode.UNREGISTER_CLIENT);
  assert.deepEqual(left!.ext, { clientID: '127.0.0.1@test', producerGroup: 'PID' });
  await assert.rejects(producer.send({ topic: 'T', body: 'x' }), { code: 'CLIENT_STATE' });
  await assert.rejects(producer.start(), { code: 'CLIENT_STATE' });
});

test('a bad name server list or group is refused at once', () => {
  for (const namesrvAddr of ['', 'host', 'host:0', 'host:x', ';']) {
    assert.throws(() => new Producer({ namesrvAddr, group: 'G' }), { code: 'CONFIG_VALUE' });
  }
  for (const group of ['', 'a b', 'g'.repeat(121)]) {
    assert.throws(() => new Producer({ namesrvAddr: 'h:1', group }), { code: 'CONFIG_VALUE' });
  }
});
