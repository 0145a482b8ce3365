import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { RequestCode, ResponseCode } from '../remoting/index.ts';
import { FakeCluster, record } from './fake-cluster.test.support.ts';
import { PushConsumer, type PushConsumerOptions } from './push-consumer.ts';

interface Rig {
  cluster: FakeCluster;
  consumer: PushConsumer;
  /** What the broker answers to QUERY_ASSIGNMENT for a topic; undefined: a null set. */
  assigned: Map<string, { mode: string; queueIds: number[] } | undefined>;
}

/** A consumer whose broker shares out; the topic T is popped from whichever queue. */
async function rig(t: TestContext, options: Partial<PushConsumerOptions>, topic = 'T'): Promise<Rig> {
  const cluster = await FakeCluster.open({ T: 2 });
  const assigned: Rig['assigned'] = new Map([['T', { mode: 'POP', queueIds: [-1] }]]);
  const { broker } = cluster;
  broker.answer = ({ code, body }) => {
    if (code !== RequestCode.QUERY_ASSIGNMENT) return undefined;
    const asked = JSON.parse(body.toString());
    assert.deepEqual(
      { ...asked, topic: '' },
      { clientId: '127.0.0.1@test', consumerGroup: 'G', messageModel: 'CLUSTERING', strategyName: 'AVG', topic: '' },
    );
    const answer = assigned.get(asked.topic);
    const messageQueueAssignments = answer?.queueIds.map((queueId) => ({
      attachments: null,
      messageQueue: { brokerName: broker.name, queueId, topic: asked.topic },
      mode: answer.mode,
    }));
    return { code: 0, body: Buffer.from(JSON.stringify({ messageQueueAssignments })) };
  };
  const consumer = new PushConsumer({
    ...cluster.options(),
    group: 'G',
    clientRebalance: false,
    listener: async () => 'CONSUME_SUCCESS',
    ...options,
  });
  consumer.subscribe(topic, 'A || B');
  await consumer.start();
  t.after(async () => {
    await consumer.close();
    await cluster.close();
  });
  return { cluster, consumer, assigned };
}

test('what the broker assigns for pops is popped, and acknowledged once the listener has ended', async (t) => {
  const got: string[] = [];
  const { cluster, consumer } = await rig(t, {
    consumeFromWhere: 'CONSUME_FROM_FIRST_OFFSET',
    listener: async ([message], { queue }) => {
      assert.equal(queue.queueId, -1);
      got.push(`${message!.topic} ${message!.queue.queueId} ${message!.text()}`);
      return 'CONSUME_SUCCESS';
    },
  });
  const { broker } = cluster;
  for (const queueId of [0, 1]) for (const body of ['a', 'b']) broker.append('T', queueId, body, { tags: 'A' });
  await cluster.until('all are acknowledged', () => broker.pops.acked.length === 4);
  assert.deepEqual(got.sort(), ['T 0 a', 'T 0 b', 'T 1 a', 'T 1 b']);
  assert.deepEqual([...broker.pops.inFlight], []);
  assert.equal(broker.of(RequestCode.PULL_MESSAGE).length, 0);
  assert.equal(broker.of(RequestCode.UPDATE_CONSUMER_OFFSET).length, 0);
  const { ext } = broker.of(RequestCode.POP_MESSAGE)[0]!;
  assert.equal(ext['pollTime'], '15000');
  assert.equal(ext['invisibleTime'], '60000');
  assert.equal(ext['maxMsgNums'], '32');
  assert.equal(ext['initMode'], '0');
  assert.equal(ext['exp'], 'A || B');
  assert.deepEqual(consumer.assignment, [{ topic: 'T', brokerName: 'a', queueId: -1 }]);
});

test('messages that are done in one turn are acknowledged with one request', async (t) => {
  const { cluster } = await rig(t, {});
  const { broker } = cluster;
  await cluster.until('a pop waits', () => broker.pops.waiting === 1);
  for (let i = 0; i < 20; i++)
    broker.queues.set('T@0', [...(broker.queues.get('T@0') ?? []), record('T', 0, i, 'm', { tags: 'A' })]);
  broker.pops.wake();
  await cluster.until('all are acknowledged', () => broker.pops.acked.length === 20);
  assert.equal(broker.of(RequestCode.ACK_MESSAGE).length + broker.of(RequestCode.BATCH_ACK_MESSAGE).length, 1);
});

test('what failed comes later by a change of its invisible time, the later the more often it failed', async (t) => {
  const { cluster } = await rig(t, {
    listener: async ([message], context) => {
      if (message!.text() === 'in five minutes') context.delayLevelWhenNextConsume = 5;
      if (message!.text() === 'thrown') throw new Error('no');
      return 'RECONSUME_LATER';
    },
  });
  const { broker } = cluster;
  const bodies = ['first time', 'in five minutes', 'thrown'];
  for (const body of bodies) broker.append('T', 0, body, { tags: 'A' });
  broker.append('T', 1, 'third time', { tags: 'A', reconsumeTimes: 2 });
  await cluster.until('all have a new time', () => broker.pops.changed.length === 4);
  assert.deepEqual(broker.pops.changed.sort(), [
    'G T 0 0: 10000',
    'G T 0 1: 240000',
    'G T 0 2: 10000',
    'G T 1 0: 60000',
  ]);
  assert.deepEqual(broker.pops.acked, []);
});

test('after maxReconsumeTimes a message goes to the dead letter topic and is acknowledged', async (t) => {
  const { cluster } = await rig(t, { maxReconsumeTimes: 3, listener: async () => 'RECONSUME_LATER' });
  const { broker } = cluster;
  broker.append('T', 0, 'last try', { tags: 'A', reconsumeTimes: 3 });
  broker.append('T', 0, 'not even tried', { tags: 'A', reconsumeTimes: 4 });
  broker.append('T', 0, 'fails', { tags: 'A', reconsumeTimes: 2 });
  await cluster.until('two are done', () => broker.pops.acked.length === 2 && broker.pops.changed.length === 1);
  const back = broker.of(RequestCode.CONSUMER_SEND_MSG_BACK);
  assert.deepEqual(back.map(({ ext }) => [ext['offset'], ext['delayLevel'], ext['originTopic']]).sort(), [
    ['0', '-1', 'T'],
    ['1000', '-1', 'T'],
  ]);
  assert.deepEqual(broker.pops.acked.sort(), ['G T 0 0', 'G T 0 1']);
});

test('ackIndex divides a batch', async (t) => {
  const { cluster } = await rig(t, {
    consumeMessageBatchMaxSize: 4,
    listener: async (_messages, context) => {
      context.ackIndex = 1;
      return 'CONSUME_SUCCESS';
    },
  });
  const { broker } = cluster;
  await cluster.until('a pop waits', () => broker.pops.waiting === 1);
  broker.queues.set(
    'T@0',
    [0, 1, 2].map((offset) => record('T', 0, offset, 'm', { tags: 'A' })),
  );
  broker.pops.wake();
  await cluster.until('both ends', () => broker.pops.acked.length === 2 && broker.pops.changed.length === 1);
  assert.deepEqual(broker.pops.acked.sort(), ['G T 0 0', 'G T 0 1']);
});

test('a listener that ends after the invisible time acknowledges nothing', async (t) => {
  let end: (() => void) | undefined;
  const { cluster } = await rig(t, {
    popInvisibleTime: 5000,
    listener: async () => {
      await new Promise<void>((resolve) => (end = resolve));
      return 'CONSUME_SUCCESS';
    },
  });
  const { broker } = cluster;
  broker.append('T', 0, 'slow', { tags: 'A' });
  await cluster.until('the listener runs', () => end !== undefined);
  cluster.clock.advance(5000);
  end!();
  await cluster.until('it is said', () =>
    cluster.logger.texts().some((text) => text.includes('was not done within 5000 ms')),
  );
  assert.deepEqual(broker.pops.acked, []);
});

test('no more is popped from a queue than popThresholdForQueue, and more when some are done', async (t) => {
  const ends: Array<() => void> = [];
  const { cluster } = await rig(t, {
    popThresholdForQueue: 3,
    popBatchNums: 2,
    listener: async () => {
      await new Promise<void>((resolve) => ends.push(resolve));
      return 'CONSUME_SUCCESS';
    },
  });
  const { broker } = cluster;
  for (let i = 0; i < 10; i++) broker.append('T', 0, 'm', { tags: 'A' });
  await cluster.until('four are in hand', () => ends.length === 4);
  const pops = broker.of(RequestCode.POP_MESSAGE).length;
  await cluster.until('it is waited', () => cluster.clock.monotonic() > 0, 60);
  assert.equal(broker.of(RequestCode.POP_MESSAGE).length, pops);
  for (const end of ends.splice(0)) end();
  await cluster.until('more are popped', () => ends.length > 0, 60);
  for (;;) {
    for (const end of ends.splice(0)) end();
    if (broker.pops.acked.length === 10) break;
    await cluster.until('more', () => ends.length > 0 || broker.pops.acked.length === 10, 60);
  }
});

test('what the broker assigns for pulls is pulled, and the pop retry topic with it', async (t) => {
  const got: string[] = [];
  const { cluster, assigned, consumer } = await rig(t, {
    listener: async ([message]) => {
      got.push(`${message!.topic} ${message!.text()}`);
      return 'CONSUME_SUCCESS';
    },
  });
  const { broker } = cluster;
  await cluster.until('a pop waits', () => broker.pops.waiting === 1);
  broker.pops.drop();
  cluster.topics.set('%RETRY%G_T', 1);
  assigned.set('T', { mode: 'PULL', queueIds: [1] });
  assigned.set('%RETRY%G_T', { mode: 'PULL', queueIds: [0] });
  broker.append('%RETRY%G_T', 0, 'popped before');
  broker.offsets.set('G@%RETRY%G_T@0', 0);
  broker.offsets.set('G@T@1', 0);
  broker.append('T', 1, 'pulled', { tags: 'A' });
  await consumer.client.rebalanceNow();
  await cluster.until('both came', () => got.length === 2);
  assert.deepEqual(got.sort(), ['T popped before', 'T pulled']);
  assert.deepEqual(consumer.assignment.map(({ topic, queueId }) => `${topic} ${queueId}`).sort(), [
    '%RETRY%G_T 0',
    'T 1',
  ]);
  assigned.set('T', { mode: 'POP', queueIds: [0, 1] });
  await consumer.client.rebalanceNow();
  await consumer.client.rebalanceNow();
  assert.deepEqual(consumer.assignment.map(({ topic, queueId }) => `${topic} ${queueId}`).sort(), ['T 0', 'T 1']);
  await cluster.until(
    'both are popped',
    () => new Set(broker.of(RequestCode.POP_MESSAGE).map(({ ext }) => ext['queueId'])).size === 3,
  );
});

test('an assignment that no broker knows yet changes nothing', async (t) => {
  const { cluster, assigned, consumer } = await rig(t, {});
  assert.equal(consumer.assignment.length, 1);
  assigned.set('T', undefined);
  await consumer.client.rebalanceNow();
  assert.equal(consumer.assignment.length, 1);
  assigned.set('T', { mode: 'POP', queueIds: [] });
  await consumer.client.rebalanceNow();
  assert.equal(consumer.assignment.length, 0);
  assert.match(cluster.logger.texts().join('\n'), /no broker says yet what G has of T/);
});

test('a topic that is unsubscribed is popped no more', async (t) => {
  const { cluster, consumer } = await rig(t, {});
  consumer.unsubscribe('T');
  await cluster.until('gone', () => consumer.assignment.length === 0);
});

test('close waits for the listeners that run, and for their acknowledgements', async (t) => {
  let end: (() => void) | undefined;
  const { cluster, consumer } = await rig(t, {
    listener: async () => {
      await new Promise<void>((resolve) => (end = resolve));
      return 'CONSUME_SUCCESS';
    },
  });
  cluster.broker.append('T', 0, 'm', { tags: 'A' });
  await cluster.until('the listener runs', () => end !== undefined);
  const closing = consumer.close();
  end!();
  await closing;
  assert.deepEqual(cluster.broker.pops.acked, ['G T 0 0']);
});

test('close waits until a message that went to the dead letter topic is acknowledged', async (t) => {
  let end: (() => void) | undefined;
  const { cluster, consumer } = await rig(t, {
    maxReconsumeTimes: 0,
    listener: async () => {
      await new Promise<void>((resolve) => (end = resolve));
      return 'RECONSUME_LATER';
    },
  });
  cluster.broker.append('T', 0, 'm', { tags: 'A' });
  await cluster.until('the listener runs', () => end !== undefined);
  const closing = consumer.close();
  end!();
  await closing;
  assert.equal(cluster.broker.of(RequestCode.CONSUMER_SEND_MSG_BACK).length, 1);
  assert.deepEqual(cluster.broker.pops.acked, ['G T 0 0']);
});

test('a listener that throws what has no text, or answers it, fails like any other', async (t) => {
  const { cluster } = await rig(t, {
    listener: async ([message]) => {
      if (message!.text() === 'thrown') throw Object.create(null);
      return Object.create(null);
    },
  });
  for (const body of ['thrown', 'answered']) cluster.broker.append('T', 0, body, { tags: 'A' });
  await cluster.until('both have a new time', () => cluster.broker.pops.changed.length === 2);
});

test('the state that a broker asks for names the queues that are popped', async (t) => {
  const { cluster } = await rig(t, {});
  await cluster.until('a pop waits', () => cluster.broker.pops.waiting === 1);
  const [info] = await cluster.broker.ask(RequestCode.GET_CONSUMER_RUNNING_INFO, { consumerGroup: 'G', clientId: 'x' });
  assert.match(
    info!.body.toString(),
    /"mqPopTable":\{\{"brokerName":"a","queueId":-1,"topic":"T"\}:\{"droped":false,"lastPopTimestamp":\d+,"waitAckCount":0\}\}/,
  );
});

test('a broker that is full or fails is asked again a little later', async (t) => {
  const { cluster } = await rig(t, {});
  const { broker } = cluster;
  const usual = broker.answer;
  const answers = [ResponseCode.POLLING_FULL, ResponseCode.SYSTEM_ERROR, ResponseCode.FLOW_CONTROL];
  await cluster.until('a pop waits', () => broker.pops.waiting === 1);
  broker.answer = (request) => {
    const code = request.code === RequestCode.POP_MESSAGE ? answers.shift() : undefined;
    return code === undefined ? usual(request) : { code };
  };
  broker.pops.expire();
  await cluster.until('all was answered', () => answers.length === 0, 100);
  broker.append('T', 0, 'm', { tags: 'A' });
  await cluster.until('it is consumed', () => broker.pops.acked.length === 1, 100);
});

test('clientRebalance=false is refused where it cannot be, and so are limits that brokers do not take', () => {
  const base = { namesrvAddr: '127.0.0.1:1', group: 'G' };
  const listener = async () => 'CONSUME_SUCCESS' as const;
  const bad: PushConsumerOptions[] = [
    { ...base, listener, clientRebalance: false, messageModel: 'BROADCASTING' },
    { ...base, orderlyListener: async () => 'SUCCESS', clientRebalance: false },
    { ...base, listener, popBatchNums: 33 },
    { ...base, listener, popInvisibleTime: 4999 },
    { ...base, listener, popThresholdForQueue: 0 },
  ];
  for (const options of bad) assert.throws(() => new PushConsumer(options), { code: 'CONFIG_VALUE' });
});

test('pops that a broker takes for over at once, since its clock is far ahead, do not follow each other without a pause', async (t) => {
  const { cluster } = await rig(t, {});
  const { broker } = cluster;
  await cluster.until('a pop waits', () => broker.pops.waiting === 1);
  const { answer } = broker;
  broker.answer = (asked) =>
    asked.code === RequestCode.POP_MESSAGE ? { code: ResponseCode.POLLING_TIMEOUT } : answer(asked);
  broker.pops.expire();
  let steps = 0;
  await cluster.until('a second has passed', () => steps++ === 1000, 1);
  const count = broker.of(RequestCode.POP_MESSAGE).length;
  assert.ok(count > 2 && count < 30, `${count} pops`);
});
