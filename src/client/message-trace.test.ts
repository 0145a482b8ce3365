import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { parseProperties } from '../message/index.ts';
import { RequestCode } from '../remoting/index.ts';
import { FakeCluster, type Noted } from './fake-cluster.test.support.ts';
import { Producer } from './producer.ts';
import { PushConsumer, type PushConsumerOptions } from './push-consumer.ts';

const TRACE = 'RMQ_SYS_TRACE_TOPIC';

/** Notes that reached the broker, as fields. */
function notes(cluster: FakeCluster, topic = TRACE): string[][] {
  return traceSends(cluster, topic).flatMap((noted) =>
    noted.body
      .toString('utf8')
      .split('\u0002')
      .slice(0, -1)
      .map((text) => text.split('\u0001')),
  );
}

function traceSends({ broker }: FakeCluster, topic = TRACE): Noted[] {
  return broker.of(RequestCode.SEND_MESSAGE_V2).filter((noted) => noted.ext['b'] === topic);
}

async function producing(t: TestContext, options = {}): Promise<{ cluster: FakeCluster; producer: Producer }> {
  const cluster = await FakeCluster.open({ T: 1, U: 1, [TRACE]: 1, OWN: 1 });
  const producer = new Producer({ ...cluster.options(), group: 'PID', enableMsgTrace: true, ...options });
  await producer.start();
  t.after(async () => {
    await producer.close();
    await cluster.close();
  });
  return { cluster, producer };
}

test('a send is noted after 5 s at the latest, and found by its id and keys', async (t) => {
  const { cluster, producer } = await producing(t);
  const { msgId } = await producer.send({ topic: 'T', body: 'hello', tags: 'A', keys: ['k1', 'k2'] });
  await producer.send({ topic: 'T', body: 'later', delaySeconds: 5 });
  cluster.clock.advance(4999);
  await new Promise(setImmediate);
  assert.equal(traceSends(cluster).length, 0);
  const since = String(cluster.clock.now() - 4999);
  cluster.clock.advance(1);
  await cluster.until('the notes', () => traceSends(cluster).length === 1);
  const [first, second] = notes(cluster);
  const { address } = cluster.broker;
  const told = [
    'Pub',
    since,
    'DefaultRegion',
    'PID',
    'T',
    msgId,
    'A',
    'k1 k2',
    address,
    '5',
    '0',
    '0',
    'OFFSET-ID',
    'true',
  ];
  assert.deepEqual(first, told);
  assert.deepEqual([second![6], second![7], second![11]], ['null', 'null', '3']);
  const keys = parseProperties(traceSends(cluster)[0]!.ext['i']!).get('KEYS')!.split(' ');
  assert.deepEqual(keys, [msgId, 'k1', 'k2', second![5]]);
});

test('ten notes go at once, one message for each topic, and what is left at close', async (t) => {
  const { cluster, producer } = await producing(t, { customizedTraceTopic: 'OWN' });
  for (let i = 0; i < 11; i++) await producer.send({ topic: i % 2 === 0 ? 'T' : 'U', body: 'x' });
  await cluster.until('two messages', () => traceSends(cluster, 'OWN').length === 2);
  assert.equal(notes(cluster, 'OWN').length, 10);
  await producer.close();
  assert.equal(notes(cluster, 'OWN').length, 11);
  assert.equal(notes(cluster).length, 0);
});

test('a broker that forbids it is not traced, and neither is a send that fails', async (t) => {
  const { cluster, producer } = await producing(t);
  const ext = { msgId: 'm', queueId: 0, queueOffset: 0, TRACE_ON: 'false' };
  cluster.broker.answer = ({ code }) => (code === RequestCode.SEND_MESSAGE_V2 ? { code: 0, ext } : undefined);
  await producer.send({ topic: 'T', body: 'x' });
  cluster.broker.answer = ({ code }) => (code === RequestCode.SEND_MESSAGE_V2 ? { code: 13 } : undefined);
  await assert.rejects(producer.send({ topic: 'T', body: 'x' }));
  cluster.broker.answer = () => undefined;
  await producer.close();
  assert.equal(notes(cluster).length, 0);
});

for (const ordered of [false, true]) {
  test(`${ordered ? 'an ordered' : 'a'} consumer notes what it is given and how that ended`, async (t) => {
    const cluster = await FakeCluster.open({ T: 1, [TRACE]: 1 });
    const region = { MSG_REGION: 'R', KEYS: 'k' };
    cluster.broker.append('T', 0, 'good', { properties: region });
    cluster.broker.append('T', 0, 'no region');
    cluster.broker.append('T', 0, 'off', { properties: { ...region, TRACE_ON: 'false' } });
    cluster.broker.append('T', 0, 'bad', { properties: region });
    let calls = 0;
    const failing = (text: string): void => {
      calls++;
      cluster.clock.advance(7);
      if (text === 'bad' && calls < 5) throw new Error('bad');
    };
    const listeners: Partial<PushConsumerOptions> = ordered
      ? {
          orderlyListener: async ([message]) => {
            failing(message!.text());
            return 'SUCCESS';
          },
        }
      : {
          listener: async ([message]) => {
            failing(message!.text());
            return 'CONSUME_SUCCESS';
          },
        };
    const consumer = new PushConsumer({
      ...cluster.options(),
      group: 'G',
      consumeFromWhere: 'CONSUME_FROM_FIRST_OFFSET',
      concurrency: 1,
      enableMsgTrace: true,
      ...listeners,
    });
    consumer.subscribe('T');
    t.after(() => cluster.close());
    await consumer.start();
    const start = cluster.clock.now();
    await cluster.until('all', () => calls >= 4);
    await consumer.close();
    const [before, after, badBefore, badAfter] = notes(cluster);
    assert.deepEqual(before!.slice(0, 4), ['SubBefore', String(start), 'R', 'G']);
    assert.deepEqual(before!.slice(5), ['ID-T-0-0', '0', 'k']);
    const requestId = before![4]!;
    assert.deepEqual(after, ['SubAfter', requestId, 'ID-T-0-0', '7', 'true', 'k', '0', String(start + 7), 'G']);
    assert.equal(badBefore![5], 'ID-T-0-3');
    assert.deepEqual(badAfter!.slice(2, 7), ['ID-T-0-3', '7', 'false', 'k', '2']);
    assert.equal(parseProperties(traceSends(cluster)[0]!.ext['i']!).get('KEYS'), 'ID-T-0-0 k ID-T-0-3');
  });
}
