import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { parseProperties } from '../message/index.ts';
import { RequestCode } from '../remoting/index.ts';
import { storedMessage } from './client.test.support.ts';
import { FakeCluster, type Noted } from './fake-cluster.test.support.ts';
import { ReceivedMessage } from './message-types.ts';
import { Producer } from './producer.ts';
import { parseRecallHandle } from './recall-handle.ts';

async function rig(t: TestContext): Promise<{ cluster: FakeCluster; producer: Producer }> {
  const cluster = await FakeCluster.open({ T: 1, C_REPLY_TOPIC: 1 });
  const producer = new Producer({ ...cluster.options(), group: 'PID' });
  await producer.start();
  t.after(async () => {
    await producer.close();
    await cluster.close();
  });
  return { cluster, producer };
}

const sends = ({ broker }: FakeCluster): Noted[] => broker.of(RequestCode.SEND_MESSAGE_V2);
const propertiesOf = (noted: Noted): Map<string, string> => parseProperties(noted.ext['i'] ?? '');

/** What a broker does with a reply: it pushes it to who asked. */
async function push(cluster: FakeCluster, correlationId: string, body: string): Promise<number> {
  const ext = {
    producerGroup: 'PID-other',
    topic: 'C_REPLY_TOPIC',
    defaultTopic: 'TBW102',
    defaultTopicQueueNums: 4,
    queueId: 0,
    sysFlag: 0,
    bornTimestamp: 1000,
    flag: 0,
    properties: `CORRELATION_ID\u0001${correlationId}\u0002UNIQ_KEY\u0001REPLY-ID\u0002mood\u0001good\u0002`,
    bornHost: '127.0.0.1:5',
    storeHost: '127.0.0.1:6',
    storeTimestamp: 2000,
  };
  const [answer] = await cluster.broker.ask(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, ext, Buffer.from(body));
  return answer!.code;
}

test('a request carries who asks and for how long, after the brokers have heard of the asker; the reply ends the wait', async (t) => {
  const { cluster, producer } = await rig(t);
  const asked = producer.request({ topic: 'T', body: 'hello' }, { timeoutMs: 5000 });
  await cluster.until('the request', () => sends(cluster).length === 1);
  const codes = cluster.broker.requests.map((request) => request.code);
  assert.ok(codes.indexOf(RequestCode.HEART_BEAT) < codes.indexOf(RequestCode.SEND_MESSAGE_V2));
  assert.ok(cluster.routeRequests.includes('C_REPLY_TOPIC'));
  const properties = propertiesOf(sends(cluster)[0]!);
  assert.equal(properties.get('REPLY_TO_CLIENT'), '127.0.0.1@test');
  assert.equal(properties.get('TTL'), '5000');
  assert.equal(await push(cluster, properties.get('CORRELATION_ID')!, 'hello yourself'), 0);
  const reply = await asked;
  assert.equal(reply.text(), 'hello yourself');
  assert.equal(reply.msgId, 'REPLY-ID');
  assert.equal(reply.properties.get('mood'), 'good');
  assert.equal(reply.properties.get('ARRIVE_TIME'), String(cluster.clock.now()));
  assert.equal(producer.client.replies.size, 0);
});

test('replies find their requests, whatever their order', async (t) => {
  const { cluster, producer } = await rig(t);
  const asked = ['a', 'b', 'c'].map((body) => producer.request({ topic: 'T', body }));
  await cluster.until('three requests', () => sends(cluster).length === 3);
  const ids = new Map(
    sends(cluster).map((noted) => [noted.body.toString(), propertiesOf(noted).get('CORRELATION_ID')!]),
  );
  for (const body of ['c', 'a', 'b']) await push(cluster, ids.get(body)!, `re: ${body}`);
  assert.deepEqual(
    (await Promise.all(asked)).map((reply) => reply.text()),
    ['re: a', 're: b', 're: c'],
  );
});

test('a request without a reply ends at its time, and a reply that comes later changes nothing', async (t) => {
  const { cluster, producer } = await rig(t);
  const asked = producer.request({ topic: 'T', body: 'x' }, { timeoutMs: 700 });
  const failed = assert.rejects(asked, { code: 'REMOTING_TIMEOUT' });
  await cluster.until('the request', () => sends(cluster).length === 1);
  cluster.clock.advance(700);
  await failed;
  assert.equal(await push(cluster, propertiesOf(sends(cluster)[0]!).get('CORRELATION_ID')!, 'late'), 0);
  assert.ok(cluster.logger.texts().some((text) => text.includes('nobody waits for')));
});

test('a request that cannot be sent fails at once; one that waits fails when the producer is closed', async (t) => {
  const { cluster, producer } = await rig(t);
  cluster.broker.answer = ({ code }) => (code === RequestCode.SEND_MESSAGE_V2 ? { code: 13, remark: 'no' } : undefined);
  await assert.rejects(producer.request({ topic: 'T', body: 'x' }), { code: 'RESPONSE' });
  cluster.broker.answer = () => undefined;
  const asked = assert.rejects(producer.request({ topic: 'T', body: 'x' }), { code: 'CLIENT_STATE' });
  await cluster.until('the request', () => producer.client.replies.size === 1);
  await producer.close();
  await asked;
});

test('a reply goes to the reply topic of the cluster that the request came through', async (t) => {
  const { cluster, producer } = await rig(t);
  cluster.broker.answer = ({ code }) =>
    code === RequestCode.SEND_REPLY_MESSAGE_V2
      ? { code: 0, ext: { msgId: 'm', queueId: 0, queueOffset: 0 } }
      : undefined;
  const properties = new Map([
    ['CLUSTER', 'C'],
    ['CORRELATION_ID', 'id'],
    ['REPLY_TO_CLIENT', 'who'],
    ['TTL', '3000'],
  ]);
  const from = { queue: { topic: 'T', brokerName: 'a', queueId: 0 } };
  const request = new ReceivedMessage(storedMessage({ properties }), from);
  await producer.reply(request, { body: 'answer', properties: { own: 'value' } });
  const [sent] = cluster.broker.of(RequestCode.SEND_REPLY_MESSAGE_V2);
  assert.equal(sent!.ext['b'], 'C_REPLY_TOPIC');
  const all = Object.fromEntries(propertiesOf(sent!));
  const { UNIQ_KEY, ...rest } = all;
  assert.ok(UNIQ_KEY);
  assert.deepEqual(rest, {
    MSG_TYPE: 'reply',
    CORRELATION_ID: 'id',
    REPLY_TO_CLIENT: 'who',
    TTL: '3000',
    own: 'value',
    WAIT: 'true',
  });
  for (const name of ['CLUSTER', 'REPLY_TO_CLIENT']) {
    const less = new Map(properties);
    less.delete(name);
    const none = new ReceivedMessage(storedMessage({ properties: less }), from);
    await assert.rejects(producer.reply(none, 'x'), { code: 'MESSAGE' });
  }
});

const handle = (text: string): string => Buffer.from(text).toString('base64url');

test('a recall handle names topic, broker, time and message; the recall goes to that broker', async (t) => {
  const { cluster, producer } = await rig(t);
  cluster.broker.answer = ({ code }) =>
    code === RequestCode.RECALL_MESSAGE ? { code: 0, ext: { msgId: 'ID' } } : undefined;
  const good = handle('v1 T a 1700000005001 ID');
  assert.deepEqual(parseRecallHandle(good), { topic: 'T', brokerName: 'a', timestamp: 1_700_000_005_001, msgId: 'ID' });
  const spaces = parseRecallHandle(handle('v1 T broker a 1 1700000005001 ID'));
  assert.equal(spaces.brokerName, 'broker a 1', "a broker's name may hold spaces");
  assert.equal(await producer.recall('T', good), 'ID');
  assert.deepEqual(cluster.broker.of(RequestCode.RECALL_MESSAGE)[0]!.ext, {
    producerGroup: 'PID',
    topic: 'T',
    recallHandle: good,
    bname: 'a',
  });
  const bad = [
    '',
    'nonsense',
    ...['v2 T a 1 ID', 'v1 T a x ID', 'v1 T a 1', 'v1 T a 1 ID more', 'v1 U a 1 ID'].map(handle),
  ];
  for (const text of bad) await assert.rejects(producer.recall('T', text), { code: 'MESSAGE' });
  cluster.broker.answer = ({ code }) => (code === RequestCode.RECALL_MESSAGE ? { code: 16, remark: 'no' } : undefined);
  await assert.rejects(producer.recall('T', good), { code: 'RESPONSE', responseCode: 16 });
});

test('each kind of delay is a property of its own', async (t) => {
  const { cluster, producer } = await rig(t);
  const kinds = [{ delayLevel: 3 }, { delayMs: 1500 }, { delaySeconds: 20 }, { deliverAt: 1_700_000_100_000 }];
  for (const kind of kinds) await producer.send({ topic: 'T', body: 'x', ...kind });
  const names = ['DELAY', 'TIMER_DELAY_MS', 'TIMER_DELAY_SEC', 'TIMER_DELIVER_MS'];
  const values = sends(cluster).map((noted, i) => propertiesOf(noted).get(names[i]!));
  assert.deepEqual(values, ['3', '1500', '20', '1700000100000']);
  await assert.rejects(producer.send({ topic: 'T', body: 'x', delayMs: 1, delaySeconds: 1 }), { code: 'MESSAGE' });
});
