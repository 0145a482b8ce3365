import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { MemoryFileSystem } from '../io/index.ts';
import { parseProperties } from '../message/index.ts';
import { parseJson, RequestCode, ResponseCode, toJsonBytes } from '../remoting/index.ts';
import type { ConsumeStatus, MessageListener } from './consume-service.ts';
import { FakeCluster, record } from './fake-cluster.test.support.ts';
import type { ReceivedMessage } from './message-types.ts';
import { PushConsumer, type PushConsumerOptions } from './push-consumer.ts';
import { queueMap } from './queue-json.ts';

interface Rig {
  cluster: FakeCluster;
  consumer: PushConsumer;
  got: ReceivedMessage[];
}

const ok: MessageListener = async () => 'CONSUME_SUCCESS';

async function rig(
  t: TestContext,
  options: Partial<PushConsumerOptions> & { before?: (cluster: FakeCluster) => void; tags?: string } = {},
): Promise<Rig> {
  const cluster = await FakeCluster.open({ T: 2 });
  options.before?.(cluster);
  const got: ReceivedMessage[] = [];
  const listener = options.listener ?? ok;
  const consumer = new PushConsumer({
    ...cluster.options(),
    group: 'G',
    consumeFromWhere: 'CONSUME_FROM_FIRST_OFFSET',
    ...options,
    listener: (messages, context) => {
      got.push(...messages);
      return listener(messages, context);
    },
  });
  consumer.subscribe('T', options.tags ?? '*');
  t.after(async () => {
    await consumer.close();
    await cluster.close();
  });
  await consumer.start();
  return { cluster, consumer, got };
}

const texts = (messages: readonly ReceivedMessage[]): string[] => messages.map((message) => message.text());

/** A listener whose calls end when the test says so; after `release` all do at once. */
function gated(): { listener: MessageListener; open: Map<string, (status: ConsumeStatus) => void>; release(): void } {
  const open = new Map<string, (status: ConsumeStatus) => void>();
  let free = false;
  return {
    open,
    listener: ([message]) =>
      new Promise((resolve) => {
        if (free) resolve('CONSUME_SUCCESS');
        else open.set(message!.text(), resolve);
      }),
    release: () => {
      free = true;
      for (const resolve of open.values()) resolve('CONSUME_SUCCESS');
    },
  };
}

test('messages of all queues arrive, with what the producer gave them', async (t) => {
  const { cluster, got } = await rig(t, {
    before: ({ broker }) => {
      broker.append('T', 0, 'first', { tags: 'A', properties: { KEYS: 'k1 k2', own: 'value' } });
      broker.append('T', 1, 'second');
    },
  });
  await cluster.until('both', () => got.length === 2);
  const first = got.find((message) => message.text() === 'first')!;
  assert.equal(first.tags, 'A');
  assert.deepEqual(first.keys, ['k1', 'k2']);
  assert.equal(first.properties.get('own'), 'value');
  assert.equal(first.msgId, 'ID-T-0-0');
  assert.deepEqual(first.queue, { topic: 'T', brokerName: 'a', queueId: 0 });
  cluster.broker.append('T', 1, 'third');
  await cluster.until('a waiting pull is answered', () => got.length === 3);
});

test('the heartbeat of a consumer comes before its pulls, and names topic and retry topic', async (t) => {
  const { cluster } = await rig(t, { tags: 'A || B' });
  await cluster.until('a pull', () => cluster.broker.of(RequestCode.PULL_MESSAGE).length > 0);
  const codes = cluster.broker.requests.map((request) => request.code);
  assert.ok(codes.indexOf(RequestCode.HEART_BEAT) < codes.indexOf(RequestCode.PULL_MESSAGE));
  const data = JSON.parse(cluster.broker.of(RequestCode.HEART_BEAT).at(-1)!.body.toString());
  const [group] = data.consumerDataSet;
  assert.equal(group.groupName, 'G');
  assert.equal(group.consumeType, 'CONSUME_PASSIVELY');
  assert.equal(group.messageModel, 'CLUSTERING');
  const byTopic = Object.fromEntries(group.subscriptionDataSet.map((s: { topic: string }) => [s.topic, s]));
  assert.deepEqual(Object.keys(byTopic).sort(), ['%RETRY%G', 'T']);
  assert.equal(byTopic.T.subString, 'A || B');
  // A pull names a version that a heartbeat has announced.
  const version = Number(cluster.broker.of(RequestCode.PULL_MESSAGE)[0]!.ext['subVersion']);
  assert.ok(version > 0 && version <= byTopic.T.subVersion);
});

test('what is committed is the lowest offset that is not consumed; close waits for listeners and saves it', async (t) => {
  const { listener, open } = gated();
  const { cluster, consumer } = await rig(t, {
    listener,
    before: ({ broker }) => {
      for (const body of ['m0', 'm1', 'm2']) broker.append('T', 0, body);
    },
  });
  await cluster.until('three listeners run', () => open.size === 3);
  open.get('m2')!('CONSUME_SUCCESS');
  open.get('m0')!('CONSUME_SUCCESS');
  await cluster.until('the timer saves 1', () => cluster.broker.offsets.get('G@T@0') === 1, 500);
  const closing = consumer.close();
  open.get('m1')!('CONSUME_SUCCESS');
  await closing;
  assert.equal(cluster.broker.offsets.get('G@T@0'), 3);
  assert.deepEqual(
    cluster.broker.of(RequestCode.UNREGISTER_CLIENT).map((r) => r.ext['consumerGroup']),
    ['G'],
  );
});

test('tags are told apart by their text, and what is left out does not hold the offset back', async (t) => {
  const { cluster, consumer, got } = await rig(t, {
    tags: 'Aa',
    before: ({ broker }) => {
      broker.append('T', 0, 'wanted', { tags: 'Aa' });
      broker.append('T', 0, 'same hash', { tags: 'BB' });
      broker.append('T', 0, 'no tag');
    },
  });
  await cluster.until('the wanted one', () => got.length === 1);
  await consumer.close();
  assert.deepEqual(texts(got), ['wanted']);
  assert.equal(cluster.broker.offsets.get('G@T@0'), 3);
});

for (const [how, listener] of [
  ['RECONSUME_LATER', async () => 'RECONSUME_LATER'],
  [
    'a rejection',
    async () => {
      throw new Error('boom');
    },
  ],
  ['no answer at all', async () => undefined],
] as Array<[string, MessageListener]>) {
  test(`${how} sends the message back`, async (t) => {
    const { cluster, consumer } = await rig(t, {
      listener,
      before: ({ broker }) => void broker.append('T', 1, 'bad', { physicalOffset: 777 }),
    });
    await cluster.until('sent back', () => cluster.broker.of(RequestCode.CONSUMER_SEND_MSG_BACK).length === 1);
    assert.deepEqual(cluster.broker.of(RequestCode.CONSUMER_SEND_MSG_BACK)[0]!.ext, {
      offset: '777',
      group: 'G',
      delayLevel: '0',
      originMsgId: 'ID-T-1-0',
      originTopic: 'T',
      unitMode: 'false',
      maxReconsumeTimes: '16',
      bname: 'a',
    });
    await consumer.close();
    assert.equal(cluster.broker.offsets.get('G@T@1'), 1);
  });
}

test('ackIndex and the delay level of the context count', async (t) => {
  const { cluster } = await rig(t, {
    consumeMessageBatchMaxSize: 3,
    listener: async (_messages, context) => {
      context.ackIndex = 0;
      context.delayLevelWhenNextConsume = 5;
      return 'CONSUME_SUCCESS';
    },
    before: ({ broker }) => {
      for (const body of ['m0', 'm1', 'm2']) broker.append('T', 0, body);
    },
  });
  await cluster.until('two go back', () => cluster.broker.of(RequestCode.CONSUMER_SEND_MSG_BACK).length === 2);
  const back = cluster.broker
    .of(RequestCode.CONSUMER_SEND_MSG_BACK)
    .map((r) => [r.ext['originMsgId'], r.ext['delayLevel']]);
  assert.deepEqual(back.sort(), [
    ['ID-T-0-1', '5'],
    ['ID-T-0-2', '5'],
  ]);
});

test('if sending back fails a copy goes to the retry topic', async (t) => {
  const { cluster } = await rig(t, {
    listener: async () => 'RECONSUME_LATER',
    before: (c) => {
      c.topics.set('%RETRY%G', 1);
      c.broker.answer = ({ code }) =>
        code === RequestCode.CONSUMER_SEND_MSG_BACK ? { code: 1, remark: 'no' } : undefined;
      c.broker.append('T', 0, 'bad', { tags: 'A', reconsumeTimes: 2, properties: { own: 'value' } });
    },
  });
  await cluster.until('a copy', () => cluster.broker.of(RequestCode.SEND_MESSAGE_V2).length === 1);
  const { ext, body } = cluster.broker.of(RequestCode.SEND_MESSAGE_V2)[0]!;
  assert.equal(ext['a'], 'CLIENT_INNER_PRODUCER');
  assert.equal(ext['b'], '%RETRY%G');
  assert.equal(ext['j'], '3');
  assert.equal(ext['l'], '16');
  assert.equal(body.toString(), 'bad');
  assert.deepEqual(Object.fromEntries(parseProperties(ext['i']!)), {
    UNIQ_KEY: 'ID-T-0-0',
    TAGS: 'A',
    own: 'value',
    ORIGIN_MESSAGE_ID: 'ID-T-0-0',
    RETRY_TOPIC: 'T',
    DELAY: '5',
  });
});

test('if nothing works the message stays and is tried again here', async (t) => {
  let tries = 0;
  const { cluster, consumer, got } = await rig(t, {
    listener: async () => (++tries < 3 ? 'RECONSUME_LATER' : 'CONSUME_SUCCESS'),
    before: ({ broker }) => {
      broker.answer = ({ code }) =>
        code === RequestCode.CONSUMER_SEND_MSG_BACK || code === RequestCode.SEND_MESSAGE_V2 ? { code: 13 } : undefined;
      broker.append('T', 0, 'bad');
    },
  });
  await cluster.until('third try', () => tries === 3, 20);
  assert.deepEqual(
    got.map((message) => message.reconsumeTimes),
    [2, 2, 2],
  );
  await consumer.close();
  assert.equal(cluster.broker.offsets.get('G@T@0'), 1);
});

test('a message of the retry topic shows the topic that it was sent to', async (t) => {
  const { cluster, got } = await rig(t, {
    before: (c) => {
      c.topics.set('%RETRY%G', 1);
      c.broker.append('%RETRY%G', 0, 'again', { properties: { RETRY_TOPIC: 'T' }, reconsumeTimes: 1 });
    },
  });
  await cluster.until('it comes', () => got.length === 1);
  assert.equal(got[0]!.topic, 'T');
  assert.equal(got[0]!.queue.topic, '%RETRY%G');
  assert.equal(got[0]!.reconsumeTimes, 1);
});

test('an offset beyond the queue is corrected, saved, and pulled from', async (t) => {
  const { cluster, got } = await rig(t, {
    before: ({ broker }) => {
      broker.append('T', 0, 'm0');
      broker.offsets.set('G@T@0', 50);
    },
  });
  await cluster.until('the corrected offset is saved', () => cluster.broker.offsets.get('G@T@0') === 1);
  cluster.broker.append('T', 0, 'm1');
  await cluster.until('goes on', () => got.length === 1, 20);
  assert.deepEqual(texts(got), ['m1']);
});

for (const code of [ResponseCode.SUBSCRIPTION_NOT_EXIST, ResponseCode.SUBSCRIPTION_NOT_LATEST]) {
  test(`answer ${code} to a pull causes a heartbeat and another pull a second later`, async (t) => {
    let refused = 0;
    const { cluster, got } = await rig(t, {
      before: ({ broker }) => {
        broker.append('T', 0, 'm0');
        broker.answer = (r) =>
          r.code === RequestCode.PULL_MESSAGE && r.ext['queueId'] === '0' && refused++ === 0 ? { code } : undefined;
      },
    });
    await cluster.until('refused', () => refused === 1);
    const beats = cluster.broker.of(RequestCode.HEART_BEAT).length;
    await cluster.until('a heartbeat', () => cluster.broker.of(RequestCode.HEART_BEAT).length > beats);
    await cluster.until('pulled again', () => got.length === 1, 20);
  });
}

test('a broken connection is mended and nothing is lost or repeated', async (t) => {
  const { cluster, got } = await rig(t, { before: ({ broker }) => void broker.append('T', 0, 'before') });
  await cluster.until('first', () => got.length === 1);
  cluster.broker.dropConnections();
  cluster.broker.append('T', 0, 'after');
  await cluster.until('second', () => got.length === 2, 20);
  assert.deepEqual(texts(got), ['before', 'after']);
});

test('pulling pauses while too much is in hand', async (t) => {
  const { listener, open, release } = gated();
  const { cluster } = await rig(t, {
    listener,
    pullThresholdForQueue: 10,
    concurrency: 1,
    before: ({ broker }) => {
      for (let i = 0; i < 100; i++) broker.append('T', 0, `m${i}`);
    },
  });
  await cluster.until('one listener runs', () => open.size === 1);
  const pulls = (): number =>
    cluster.broker.of(RequestCode.PULL_MESSAGE).filter((r) => r.ext['queueId'] === '0').length;
  assert.equal(pulls(), 1);
  cluster.clock.advance(1000);
  await new Promise(setImmediate);
  assert.equal(pulls(), 1);
  for (let i = 0; i < 25; i++) {
    await cluster.until(`m${i}`, () => open.has(`m${i}`));
    open.get(`m${i}`)!('CONSUME_SUCCESS');
  }
  await cluster.until('pulls go on', () => pulls() === 2, 50);
  release();
});

test('two members share the queues, and the one that stays takes over at once', async (t) => {
  const { cluster, consumer } = await rig(t);
  const other = new PushConsumer({ ...cluster.options('other'), group: 'G', listener: ok });
  other.subscribe('T');
  await other.start();
  cluster.broker.tell(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, { consumerGroup: 'G' });
  const mine = (c: PushConsumer): number => c.assignment.filter((queue) => queue.topic === 'T').length;
  await cluster.until('one each', () => mine(consumer) === 1 && mine(other) === 1);
  assert.notEqual(consumer.assignment[0]!.queueId, other.assignment[0]!.queueId);
  await other.close();
  cluster.broker.tell(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, { consumerGroup: 'G' });
  await cluster.until('both', () => mine(consumer) === 2);
});

test('a queue that goes to another member leaves with its progress saved, not with the timer of 5 s', async (t) => {
  const { cluster, consumer, got } = await rig(t);
  const began = cluster.clock.monotonic();
  for (const queueId of [0, 1]) cluster.broker.append('T', queueId, `m${queueId}`);
  await cluster.until('both', () => got.length === 2);
  const other = new PushConsumer({ ...cluster.options('other'), group: 'G', listener: ok });
  other.subscribe('T');
  await other.start();
  cluster.broker.tell(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, { consumerGroup: 'G' });
  const kept = (): number[] => consumer.assignment.filter((queue) => queue.topic === 'T').map((queue) => queue.queueId);
  await cluster.until('one is gone', () => kept().length === 1);
  await cluster.until('saved', () => cluster.broker.offsets.get(`G@T@${1 - kept()[0]!}`) === 1);
  assert.ok(cluster.clock.monotonic() - began < 5000);
  await other.close();
});

test('a broker may reset offsets, and ask for offsets, state and a direct consumption', async (t) => {
  const { cluster, got } = await rig(t, {
    before: ({ broker }) => {
      broker.append('T', 0, 'm0');
      broker.append('T', 0, 'm1');
    },
  });
  await cluster.until('two', () => got.length === 2);
  const queue = { topic: 'T', brokerName: 'a', queueId: 0 };
  cluster.broker.tell(
    RequestCode.RESET_CONSUMER_CLIENT_OFFSET,
    { topic: 'T', group: 'G', timestamp: 0, isForce: true },
    toJsonBytes({ offsetTable: queueMap([[queue, 1]]) }),
  );
  await cluster.until('the second comes again', () => got.length === 3, 20);
  assert.equal(got[2]!.text(), 'm1');

  const [status] = await cluster.broker.ask(RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, { topic: 'T', group: 'G' });
  const table = (parseJson(status!.body) as { messageQueueTable: Map<object, number> }).messageQueueTable;
  assert.equal([...table].find(([key]) => (key as { queueId: number }).queueId === 0)![1], 2);

  const [info] = await cluster.broker.ask(RequestCode.GET_CONSUMER_RUNNING_INFO, { consumerGroup: 'G', clientId: 'x' });
  assert.equal(
    (parseJson(info!.body) as { properties: Record<string, string> }).properties['PROP_CONSUME_TYPE'],
    'CONSUME_PASSIVELY',
  );
  const [unknown] = await cluster.broker.ask(RequestCode.GET_CONSUMER_RUNNING_INFO, {
    consumerGroup: 'H',
    clientId: 'x',
  });
  assert.equal(unknown!.code, ResponseCode.SYSTEM_ERROR);

  const header = { consumerGroup: 'G', clientId: 'x', msgId: 'm', brokerName: 'a' };
  const body = record('T', 0, 9, 'direct');
  const [direct] = await cluster.broker.ask(RequestCode.CONSUME_MESSAGE_DIRECTLY, header, body);
  assert.equal((parseJson(direct!.body) as { consumeResult: string }).consumeResult, 'CR_SUCCESS');
  assert.equal(got.at(-1)!.text(), 'direct');

  const [other] = await cluster.broker.ask(RequestCode.PULL_MESSAGE, {});
  assert.equal(other!.code, ResponseCode.REQUEST_CODE_NOT_SUPPORTED);
});

test('a reset that comes with a pull is done, also if that pull was left over from an earlier reset', async (t) => {
  const { cluster, got } = await rig(t, {
    before: ({ broker }) => {
      for (const body of ['m0', 'm1', 'm2']) broker.append('T', 0, body);
    },
  });
  const pulls = (offset: number): number =>
    cluster.broker.of(RequestCode.PULL_MESSAGE).filter(({ ext }) => ext['queueOffset'] === String(offset)).length;
  await cluster.until('three, and a pull waits', () => got.length === 3 && pulls(3) === 1);
  cluster.broker.resetByPull('T', 0, 2);
  await cluster.until('the last again, and a pull waits', () => got.length === 4 && pulls(3) === 2, 20);
  const queue = { topic: 'T', brokerName: 'a', queueId: 0 };
  const body = toJsonBytes({ offsetTable: queueMap([[queue, 1]]) });
  const header = { topic: 'T', group: 'G', timestamp: 0, isForce: true };
  cluster.broker.tell(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, header, body);
  await cluster.until('two again, and two pulls wait', () => got.length === 6 && pulls(3) === 3, 20);
  cluster.broker.resetByPull('T', 0, 0);
  await cluster.until('all again', () => got.length === 9, 20);
  assert.deepEqual(texts(got), ['m0', 'm1', 'm2', 'm2', 'm1', 'm2', 'm0', 'm1', 'm2']);
});

test('a listener that never ends does not hold its queue for ever', async (t) => {
  const { listener, open } = gated();
  const { cluster, consumer } = await rig(t, {
    listener,
    consumeTimeoutMinutes: 1,
    closeTimeoutMs: 1000,
    before: ({ broker }) => void broker.append('T', 0, 'stuck'),
  });
  await cluster.until('it runs', () => open.size === 1);
  await cluster.until('sent back', () => cluster.broker.of(RequestCode.CONSUMER_SEND_MSG_BACK).length === 1, 500);
  assert.equal(cluster.broker.of(RequestCode.CONSUMER_SEND_MSG_BACK)[0]!.ext['delayLevel'], '3');
  await cluster.until('saved', () => cluster.broker.offsets.get('G@T@0') === 1, 100);
  // Its late answer changes nothing: the message is not sent back twice.
  open.get('stuck')!('RECONSUME_LATER');
  await consumer.close();
  assert.equal(cluster.broker.of(RequestCode.CONSUMER_SEND_MSG_BACK).length, 1);
});

test('broadcast: all queues, offsets in a file, no retry', async (t) => {
  const fs = new MemoryFileSystem();
  const options: Partial<PushConsumerOptions> = {
    fs,
    messageModel: 'BROADCASTING',
    localOffsetStoreDir: '/offsets',
    listener: async () => 'RECONSUME_LATER',
  };
  const { cluster, consumer, got } = await rig(t, {
    ...options,
    before: ({ broker }) => {
      broker.append('T', 0, 'm0');
      broker.append('T', 1, 'm1');
    },
  });
  await cluster.until('both', () => got.length === 2);
  await consumer.close();
  assert.equal(cluster.broker.of(RequestCode.CONSUMER_SEND_MSG_BACK).length, 0);
  assert.equal(cluster.broker.of(RequestCode.GET_CONSUMER_LIST_BY_GROUP).length, 0);
  assert.deepEqual(cluster.broker.offsets.size, 0);
  assert.deepEqual(fs.list('/offsets/127.0.0.1@test/G'), ['offsets.json']);

  cluster.broker.append('T', 1, 'm2');
  const again: string[] = [];
  const next = new PushConsumer({
    ...cluster.options(),
    ...options,
    group: 'G',
    listener: async (messages) => {
      again.push(...texts(messages));
      return 'CONSUME_SUCCESS';
    },
  });
  next.subscribe('T');
  await next.start();
  await cluster.until('only what is new', () => again.length > 0);
  await next.close();
  assert.deepEqual(again, ['m2']);
});

test('from the last offset a new group sees only what comes', async (t) => {
  const { cluster, got } = await rig(t, {
    consumeFromWhere: 'CONSUME_FROM_LAST_OFFSET',
    before: ({ broker }) => void broker.append('T', 0, 'old'),
  });
  cluster.broker.append('T', 0, 'new');
  await cluster.until('it', () => got.length === 1);
  assert.deepEqual(texts(got), ['new']);
});

test('a topic that appears later is found, and one that is unsubscribed is given away', async (t) => {
  const { cluster, consumer, got } = await rig(t);
  consumer.subscribe('Later');
  cluster.broker.append('Later', 0, 'hello');
  cluster.topics.set('Later', 1);
  await cluster.until('it', () => got.length === 1, 100);
  consumer.unsubscribe('Later');
  await cluster.until('gone', () => consumer.assignment.every((queue) => queue.topic !== 'Later'));
  assert.equal(cluster.broker.offsets.get('G@Later@0'), 1);
});

test('one instance cannot hold two consumers of one group', async (t) => {
  const { cluster, consumer } = await rig(t);
  const second = new PushConsumer({ ...cluster.options(), client: consumer.client, group: 'G', listener: ok });
  await assert.rejects(second.start(), { code: 'CLIENT_STATE' });
});

test('settings that make no sense are refused', () => {
  const base = { namesrvAddr: 'h:1', group: 'G', listener: ok };
  for (const bad of [
    { concurrency: 0 },
    { pullBatchSize: 1.5 },
    { consumeTimeoutMinutes: -1 },
    { requestTimeoutMs: 0 },
  ]) {
    assert.throws(() => new PushConsumer({ ...base, ...bad }), { code: 'CONFIG_VALUE' });
  }
});
