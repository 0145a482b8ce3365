import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { MemoryFileSystem } from '../io/index.ts';
import { parseProperties } from '../message/index.ts';
import { parseJson, RequestCode, toJsonBytes } from '../remoting/index.ts';
import { FakeCluster, record } from './fake-cluster.test.support.ts';
import type { OrderlyListener, OrderlyStatus } from './orderly-service.ts';
import { PushConsumer, type PushConsumerOptions } from './push-consumer.ts';
import { queueMap } from './queue-json.ts';

interface Rig {
  cluster: FakeCluster;
  consumer: PushConsumer;
  /** Bodies in the order of the calls, with the number of tries before. */
  calls: string[];
}

const ok: OrderlyListener = async () => 'SUCCESS';

async function rig(
  t: TestContext,
  options: Partial<PushConsumerOptions> & { before?: (cluster: FakeCluster) => void } = {},
): Promise<Rig> {
  const cluster = await FakeCluster.open({ T: 2 });
  options.before?.(cluster);
  const calls: string[] = [];
  const listener = options.orderlyListener ?? ok;
  const consumer = new PushConsumer({
    ...cluster.options(),
    group: 'G',
    consumeFromWhere: 'CONSUME_FROM_FIRST_OFFSET',
    ...options,
    orderlyListener: (messages, context) => {
      for (const message of messages) calls.push(`${message.text()}/${message.reconsumeTimes}`);
      return listener(messages, context);
    },
  });
  consumer.subscribe('T');
  t.after(async () => {
    await consumer.close();
    await cluster.close();
  });
  await consumer.start();
  return { cluster, consumer, calls };
}

const fill =
  (count: number, queueId = 0) =>
  (cluster: FakeCluster) => {
    for (let i = 0; i < count; i++) cluster.broker.append('T', queueId, `${queueId}:${i}`);
  };

/** A listener whose calls end when the test says so. */
function gated(): { listener: OrderlyListener; open: Map<string, (status: OrderlyStatus) => void> } {
  const open = new Map<string, (status: OrderlyStatus) => void>();
  return { open, listener: ([message]) => new Promise((resolve) => open.set(message!.text(), resolve)) };
}

const locksOf = (cluster: FakeCluster): number => cluster.broker.of(RequestCode.LOCK_BATCH_MQ).length;

test('a queue is locked before its offset is asked for, and unlocked at close, after its offset is saved', async (t) => {
  const { cluster, consumer, calls } = await rig(t, { before: fill(3) });
  await cluster.until('all', () => calls.length === 3);
  assert.deepEqual(calls, ['0:0/0', '0:1/0', '0:2/0']);
  const codes = cluster.broker.requests.map((request) => request.code);
  assert.ok(codes.indexOf(RequestCode.LOCK_BATCH_MQ) < codes.indexOf(RequestCode.QUERY_CONSUMER_OFFSET));
  const [lock] = cluster.broker.of(RequestCode.LOCK_BATCH_MQ);
  assert.deepEqual(JSON.parse(lock!.body.toString()), {
    clientId: '127.0.0.1@test',
    consumerGroup: 'G',
    mqSet: [{ brokerName: 'a', queueId: 0, topic: 'T' }],
    onlyThisBroker: false,
  });
  assert.equal(cluster.broker.locks.size, 2);
  await consumer.close();
  assert.equal(cluster.broker.locks.size, 0);
  assert.equal(cluster.broker.offsets.get('G@T@0'), 3);
  const last = cluster.broker.requests.map((request) => request.code);
  assert.ok(last.lastIndexOf(RequestCode.UPDATE_CONSUMER_OFFSET) < last.indexOf(RequestCode.UNLOCK_BATCH_MQ));
});

test('one call at a time for a queue, queues side by side', async (t) => {
  const { listener, open } = gated();
  const { cluster, calls } = await rig(t, {
    orderlyListener: listener,
    before: (cluster) => {
      fill(2, 0)(cluster);
      fill(2, 1)(cluster);
    },
  });
  await cluster.until('one of each queue', () => calls.length === 2);
  assert.deepEqual([...calls].sort(), ['0:0/0', '1:0/0']);
  open.get('1:0')!('SUCCESS');
  await cluster.until('the next of that queue', () => calls.length === 3);
  assert.equal(calls[2], '1:1/0');
  for (const body of ['0:0', '1:1']) open.get(body)!('SUCCESS');
  await cluster.until('the last', () => open.has('0:1'));
  open.get('0:1')!('SUCCESS');
});

test('a failed message holds its queue up for the time asked for, and counts its tries', async (t) => {
  const answers: OrderlyStatus[] = ['SUSPEND_CURRENT_QUEUE_A_MOMENT', 'SUSPEND_CURRENT_QUEUE_A_MOMENT'];
  const { cluster, calls } = await rig(t, {
    orderlyListener: async (_messages, context) => {
      if (calls.length === 2) context.suspendCurrentQueueTimeMillis = 5000;
      return answers.shift() ?? 'SUCCESS';
    },
    before: fill(2),
  });
  await cluster.until('the first try', () => calls.length === 1 && answers.length === 1);
  cluster.clock.advance(999);
  await new Promise(setImmediate);
  assert.equal(calls.length, 1);
  cluster.clock.advance(1);
  await cluster.until('the second try', () => calls.length === 2 && answers.length === 0);
  await new Promise(setImmediate);
  cluster.clock.advance(4999);
  await new Promise(setImmediate);
  assert.equal(calls.length, 2);
  cluster.clock.advance(1);
  await cluster.until('both done', () => calls.length === 4);
  assert.deepEqual(calls, ['0:0/0', '0:0/1', '0:0/2', '0:1/0']);
});

test('a listener that throws counts as a failure', async (t) => {
  const { cluster, calls } = await rig(t, {
    orderlyListener: async () => {
      if (calls.length === 1) throw new Error('not today');
      return 'SUCCESS';
    },
    before: fill(1),
  });
  await cluster.until('again', () => calls.length === 2, 100);
  assert.deepEqual(calls, ['0:0/0', '0:0/1']);
});

test('after its tries a message is sent to the retry topic, with the counts that send it on, and the queue goes on', async (t) => {
  const { cluster, calls } = await rig(t, {
    maxReconsumeTimes: 2,
    orderlyListener: async ([message]) => (message!.text() === '0:0' ? 'SUSPEND_CURRENT_QUEUE_A_MOMENT' : 'SUCCESS'),
    before: (cluster) => {
      cluster.topics.set('%RETRY%G', 1);
      // As a broker does that puts it into the dead letter topic.
      cluster.broker.answer = ({ code }) =>
        code === RequestCode.SEND_MESSAGE_V2 ? { code: 0, ext: { msgId: 'm', queueId: 0, queueOffset: 0 } } : undefined;
      fill(2)(cluster);
    },
  });
  await cluster.until('the second', () => calls.includes('0:1/0'), 200);
  assert.deepEqual(calls, ['0:0/0', '0:0/1', '0:0/2', '0:1/0']);
  const [sent] = cluster.broker.of(RequestCode.SEND_MESSAGE_V2);
  assert.equal(sent!.ext['b'], '%RETRY%G');
  assert.deepEqual([sent!.ext['j'], sent!.ext['l']], ['3', '2']);
  assert.equal(parseProperties(sent!.ext['i']!).get('RETRY_TOPIC'), 'T');
  assert.equal(cluster.broker.of(RequestCode.CONSUMER_SEND_MSG_BACK).length, 0);
});

test('a message that cannot be sent back stays where it is', async (t) => {
  const { cluster, calls } = await rig(t, {
    maxReconsumeTimes: 0,
    orderlyListener: async () => (calls.length < 3 ? 'SUSPEND_CURRENT_QUEUE_A_MOMENT' : 'SUCCESS'),
    before: fill(1),
  });
  await cluster.until('three tries', () => calls.length === 3, 200);
  assert.deepEqual(calls, ['0:0/0', '0:0/1', '0:0/2']);
});

test('locks are renewed after 1 s and then every 20 s, all queues of a broker with one request', async (t) => {
  const { cluster, consumer } = await rig(t);
  await cluster.until('both queues', () => consumer.assignment.filter((queue) => queue.topic === 'T').length === 2);
  const taken = locksOf(cluster);
  cluster.clock.advance(999);
  await new Promise(setImmediate);
  assert.equal(locksOf(cluster), taken);
  cluster.clock.advance(1);
  await cluster.until('the first renewal', () => locksOf(cluster) === taken + 1);
  cluster.clock.advance(19_999);
  await new Promise(setImmediate);
  assert.equal(locksOf(cluster), taken + 1);
  cluster.clock.advance(1);
  await cluster.until('the next', () => locksOf(cluster) > taken + 1);
  const body = JSON.parse(cluster.broker.of(RequestCode.LOCK_BATCH_MQ).at(-1)!.body.toString());
  assert.equal(body.mqSet.length, 2);
});

test('30 s without a renewal stop the calls, and a renewal brings them back', async (t) => {
  const { cluster, calls } = await rig(t, { before: fill(1) });
  await cluster.until('the first', () => calls.length === 1);
  let refused = 0;
  cluster.broker.answer = ({ code }) => {
    if (code !== RequestCode.LOCK_BATCH_MQ) return undefined;
    refused++;
    return { code: 1, remark: 'not now' };
  };
  cluster.clock.advance(30_001);
  await cluster.until('renewals fail', () => refused > 0);
  const before = refused;
  cluster.broker.append('T', 0, 'late');
  await cluster.until('it is in hand, and the lock is asked for', () => refused > before, 5);
  assert.equal(calls.length, 1);
  cluster.broker.answer = () => undefined;
  await cluster.until('the lock is back', () => calls.length === 2, 50);
  assert.equal(calls[1], 'late/0');
  assert.equal(cluster.broker.of(RequestCode.QUERY_CONSUMER_OFFSET).length, 2);
});

test('a lock that somebody else has is lost: nothing more is consumed or saved, and later the queue is taken anew', async (t) => {
  const { cluster, consumer, calls } = await rig(t, { before: fill(2) });
  await cluster.until('both', () => calls.length === 2);
  cluster.broker.locks.set('G@T@0', 'thief');
  const queues = (): number => consumer.assignment.filter((queue) => queue.topic === 'T').length;
  await cluster.until('the queue is gone', () => queues() === 1, 100);
  // As the thief has saved it.
  cluster.broker.offsets.set('G@T@0', 1);
  cluster.broker.append('T', 0, '0:2');
  const asked = locksOf(cluster);
  await cluster.until('locks are asked for', () => locksOf(cluster) > asked + 6, 100);
  assert.equal(calls.length, 2);
  assert.equal(cluster.broker.offsets.get('G@T@0'), 1);
  cluster.broker.locks.delete('G@T@0');
  await cluster.until('from the saved offset on', () => calls.length === 4, 100);
  assert.deepEqual(calls.slice(2), ['0:1/0', '0:2/0']);
});

test('a queue that is given away keeps its lock until its listener has ended, and the result counts', async (t) => {
  const { listener, open } = gated();
  const { cluster, consumer } = await rig(t, { orderlyListener: listener, before: fill(2, 1) });
  await cluster.until('a call runs', () => open.has('1:0'));
  const other = new PushConsumer({
    ...cluster.options('zother'),
    group: 'G',
    consumeFromWhere: 'CONSUME_FROM_FIRST_OFFSET',
    orderlyListener: ok,
  });
  other.subscribe('T');
  t.after(() => other.close());
  await other.start();
  cluster.broker.tell(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, { consumerGroup: 'G' });
  const mine = (some: PushConsumer): number => some.assignment.filter((queue) => queue.topic === 'T').length;
  await cluster.until('it is given away', () => mine(consumer) === 1, 10);
  await cluster.until('and waited for', () => locksOf(cluster) > 8, 100);
  assert.equal(mine(other), 0);
  assert.equal(cluster.broker.locks.get('G@T@1'), '127.0.0.1@test');
  open.get('1:0')!('SUCCESS');
  await cluster.until('the other one has it', () => mine(other) === 1, 100);
  assert.equal(cluster.broker.locks.get('G@T@1'), '127.0.0.1@zother');
  await cluster.until('and has consumed the rest only', () => cluster.broker.offsets.get('G@T@1') === 2, 500);
  assert.equal(open.size, 1);
});

test('an ordered consumer may be reset, says that it is ordered, and consumes directly', async (t) => {
  const { cluster, calls } = await rig(t, { before: fill(2) });
  await cluster.until('two', () => calls.length === 2);
  const queue = { topic: 'T', brokerName: 'a', queueId: 0 };
  cluster.broker.tell(
    RequestCode.RESET_CONSUMER_CLIENT_OFFSET,
    { topic: 'T', group: 'G', timestamp: 0, isForce: true },
    toJsonBytes({ offsetTable: queueMap([[queue, 1]]) }),
  );
  await cluster.until('the second again', () => calls.length === 3, 20);
  assert.equal(calls[2], '0:1/0');
  const [info] = await cluster.broker.ask(RequestCode.GET_CONSUMER_RUNNING_INFO, { consumerGroup: 'G', clientId: 'x' });
  const { properties, mqTable } = parseJson(info!.body) as {
    properties: Record<string, string>;
    mqTable: Map<object, { locked: boolean; lastLockTimestamp: number }>;
  };
  assert.equal(properties['PROP_CONSUMEORDERLY'], 'true');
  const [row] = [...mqTable].filter(([key]) => (key as { topic: string }).topic === 'T').map(([, value]) => value);
  assert.equal(row!.locked, true);
  assert.ok(row!.lastLockTimestamp >= 1_700_000_000_000);
  const header = { consumerGroup: 'G', clientId: 'x', msgId: 'm', brokerName: 'a' };
  const [direct] = await cluster.broker.ask(RequestCode.CONSUME_MESSAGE_DIRECTLY, header, record('T', 0, 9, 'direct'));
  const result = parseJson(direct!.body) as { consumeResult: string; order: boolean };
  assert.deepEqual([result.consumeResult, result.order], ['CR_SUCCESS', true]);
});

test('in broadcast mode there are no locks', async (t) => {
  const { cluster, calls } = await rig(t, {
    messageModel: 'BROADCASTING',
    fs: new MemoryFileSystem(),
    before: fill(2),
  });
  await cluster.until('both', () => calls.length === 2);
  cluster.clock.advance(60_000);
  await new Promise(setImmediate);
  assert.equal(locksOf(cluster), 0);
});

test('either a listener or an ordered one is needed', () => {
  const options = { namesrvAddr: 'h:1', group: 'G' };
  for (const listeners of [{}, { listener: async () => 'CONSUME_SUCCESS' as const, orderlyListener: ok }]) {
    assert.throws(() => new PushConsumer({ ...options, ...listeners }), { code: 'CONFIG_VALUE' });
  }
});
