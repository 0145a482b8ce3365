// Light queues and batch queues from end to end: a real producer, real pulls, a broker that is killed between them.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { PullConsumer } from '../client/index.ts';
import { silentLogger, systemClock } from '../common/index.ts';
import { readWhole } from '../io/index.ts';
import { decodeMessages } from '../message/index.ts';
import { RemotingClient, type RemotingResponse, RequestCode, ResponseCode } from '../remoting/index.ts';
import { startBroker, type TestBroker } from './index.ts';
import { withProducer } from './with-producer.test.support.ts';

const LIGHT = { enableLmq: true, enableMultiDispatch: true };

/** Asks the broker itself. */
async function ask<T>(
  server: TestBroker,
  run: (
    invoke: (code: number, ext: Record<string, string | number>, body?: Uint8Array) => Promise<RemotingResponse>,
  ) => Promise<T>,
): Promise<T> {
  const client = new RemotingClient({ clock: systemClock, logger: silentLogger });
  try {
    return await run((code, ext, body) => client.invoke(server.address, code, ext, body ?? null, 5000));
  } finally {
    await client.close();
  }
}

function pull(topic: string, queueId: number, offset: number, subscription = '*'): Record<string, string | number> {
  return {
    consumerGroup: 'CG',
    topic,
    queueId,
    queueOffset: offset,
    maxMsgNums: 32,
    sysFlag: 4,
    commitOffset: 0,
    suspendTimeoutMillis: 0,
    subscription,
    subVersion: 1,
    expressionType: 'TAG',
  };
}

function newTopic(topic: string, attributes: string): Record<string, string | number> {
  return {
    topic,
    defaultTopic: 'TBW102',
    readQueueNums: 1,
    writeQueueNums: 1,
    perm: 6,
    topicFilterType: 'SINGLE_TAG',
    topicSysFlag: 0,
    order: 'false',
    attributes,
  };
}

function lightMessage(lines: number, queues: string): Record<string, string | number> {
  return {
    producerGroup: 'PG',
    topic: 'Devices',
    defaultTopic: 'TBW102',
    defaultTopicQueueNums: 1,
    queueId: 0,
    sysFlag: 0,
    bornTimestamp: 1,
    flag: 0,
    properties: `TAGS\u0001t${lines % 2}\u0002INNER_MULTI_DISPATCH\u0001${queues}\u0002UNIQ_KEY\u0001K${lines}\u0002`,
    reconsumeTimes: 0,
    unitMode: 'false',
    batch: 'false',
    maxReconsumeTimes: 0,
  };
}

test('messages are pulled from the light queues that they name, also after a kill; a group of a light name keeps its offset', async () => {
  let server = await startBroker({ storeConfig: LIGHT });
  await ask(server, async (invoke) => {
    for (let i = 0; i < 6; i++) {
      const queues = i % 2 === 0 ? '%LMQ%a' : '%LMQ%b,odd,%LMQ%a';
      const sent = await invoke(RequestCode.SEND_MESSAGE, lightMessage(i, queues), Buffer.from(`m${i}`));
      assert.equal(sent.code, ResponseCode.SUCCESS, sent.remark ?? '');
    }
    const commit = { consumerGroup: '%LMQ%g', topic: '%LMQ%a', queueId: 0, commitOffset: 3 };
    assert.equal((await invoke(RequestCode.UPDATE_CONSUMER_OFFSET, commit)).code, ResponseCode.SUCCESS);
  });
  for (const last of [false, true]) {
    await ask(server, async (invoke) => {
      const all = await invoke(RequestCode.PULL_MESSAGE, pull('%LMQ%a', 0, 0));
      assert.equal(all.code, ResponseCode.SUCCESS, all.remark ?? '');
      assert.equal(all.ext['nextBeginOffset'], '6');
      const messages = decodeMessages(all.body!);
      assert.deepEqual(
        messages.map(({ body }) => Buffer.from(body).toString()),
        ['m0', 'm1', 'm2', 'm3', 'm4', 'm5'],
      );
      assert.equal(messages[3]!.properties.get('INNER_MULTI_QUEUE_OFFSET'), '1,,3');
      const tagged = await invoke(RequestCode.PULL_MESSAGE, pull('%LMQ%b', 0, 1, 't1'));
      assert.equal(decodeMessages(tagged.body!).length, 2);
      const none = await invoke(RequestCode.PULL_MESSAGE, pull('%LMQ%c', 0, 0));
      assert.equal(none.code, ResponseCode.PULL_NOT_FOUND);
      const offset = await invoke(RequestCode.QUERY_CONSUMER_OFFSET, {
        consumerGroup: '%LMQ%g',
        topic: '%LMQ%a',
        queueId: 0,
      });
      assert.equal(offset.ext['offset'], '3');
    });
    if (last) break;
    server.broker.context.offsets.persist();
    const text = Buffer.from(readWhole(server.disk!, '/gantry/store/config/lmqConsumerOffset.json')!).toString();
    assert.match(text, /"lmqOffsetTable":\{\n\t\t"%LMQ%a@%LMQ%g":3\n\t\}/);
    server = await startBroker({ disk: await server.crash('kill', 1), storeConfig: LIGHT });
  }
  await server.stop();
});

test('messages are popped from the light queues that they name, by the offsets that they have there', async () => {
  const server = await startBroker({ storeConfig: LIGHT });
  await ask(server, async (invoke) => {
    for (const queues of ['%LMQ%b', '%LMQ%a', '%LMQ%b,%LMQ%a']) {
      const sent = await invoke(RequestCode.SEND_MESSAGE, lightMessage(0, queues), Buffer.from(queues));
      assert.equal(sent.code, ResponseCode.SUCCESS, sent.remark ?? '');
    }
    const pop = async (): Promise<RemotingResponse> =>
      await invoke(RequestCode.POP_MESSAGE, {
        consumerGroup: 'PG',
        topic: '%LMQ%a',
        queueId: 0,
        maxMsgNums: 8,
        invisibleTime: 60_000,
        pollTime: 0,
        bornTime: 0,
        initMode: 0,
      });
    const popped = await pop();
    assert.equal(popped.code, ResponseCode.SUCCESS, popped.remark ?? '');
    assert.deepEqual([popped.ext['startOffsetInfo'], popped.ext['msgOffsetInfo']], ['0 0 0', '0 0 0,1']);
    assert.deepEqual(
      decodeMessages(popped.body!).map(({ body }) => Buffer.from(body).toString()),
      ['%LMQ%a', '%LMQ%b,%LMQ%a'],
    );
    const { invisibleTime, popTime, reviveQid } = popped.ext;
    for (const offset of [0, 1]) {
      const extraInfo = `0 ${popTime} ${invisibleTime} ${reviveQid} 0 broker-a 0 ${offset}`;
      const ack = { consumerGroup: 'PG', topic: '%LMQ%a', queueId: 0, extraInfo, offset };
      assert.equal((await invoke(RequestCode.ACK_MESSAGE, ack)).code, ResponseCode.SUCCESS);
    }
    assert.equal((await pop()).code, ResponseCode.POLLING_TIMEOUT);
  });
  await server.stop();
});

test('more light queues than the quota allows are refused as RocketMQ refuses them', async () => {
  const server = await startBroker({ storeConfig: { ...LIGHT, enableLmqQuota: true, maxLmqConsumeQueueNum: 1 } });
  await ask(server, async (invoke) => {
    const send = (queues: string): Promise<RemotingResponse> =>
      invoke(RequestCode.SEND_MESSAGE, lightMessage(0, queues), Buffer.from('x'));
    assert.equal((await send('%LMQ%a')).code, ResponseCode.SUCCESS);
    const refused = await send('%LMQ%a,%LMQ%b');
    assert.equal(refused.code, 2017);
    assert.match(refused.remark!, /^\[LMQ_CONSUME_QUEUE_NUM_EXCEEDED\]lmq consume queue num exceeded\. \(there are 1 /);
    assert.equal((await send('%LMQ%a')).code, ResponseCode.SUCCESS);
  });
  await server.stop();
});

test('batches to a topic of batch queues are one record each, which consumers split; after a kill it goes on where it was', async () => {
  let server = await startBroker();
  await ask(server, async (invoke) => {
    const made = await invoke(RequestCode.UPDATE_AND_CREATE_TOPIC, newTopic('Batches', '+queue.type=BatchCQ'));
    assert.equal(made.code, ResponseCode.SUCCESS, made.remark ?? '');
  });
  const batches = (round: number): Promise<void> =>
    withProducer(server, async (producer) => {
      for (const size of [3, 1, 2]) {
        const bodies = Array.from({ length: size }, (_, i) => ({ topic: 'Batches', body: `${round}-${size}-${i}` }));
        assert.equal((await producer.sendBatch(bodies)).status, 'SEND_OK');
      }
      const single = await producer.send({ topic: 'Batches', body: `${round}-single` });
      assert.equal(single.queueOffset, round * 7 + 6);
    });
  await batches(0);
  server = await startBroker({ disk: await server.crash('kill', 1) });
  await batches(1);
  const { store } = server.broker.context;
  assert.equal(store.minOffsetInQueue('Batches', 0), 0);
  assert.equal(store.maxOffsetInQueue('Batches', 0), 14);

  await ask(server, async (invoke) => {
    const inside = await invoke(RequestCode.PULL_MESSAGE, pull('Batches', 0, 8));
    assert.equal(inside.ext['nextBeginOffset'], '14');
    assert.deepEqual(
      decodeMessages(inside.body!).map(({ queueOffset, properties }) => [queueOffset, properties.get('INNER_NUM')]),
      [
        [7, '3'],
        [10, '1'],
        [11, '2'],
        [13, undefined],
      ],
    );
  });
  const consumer = new PullConsumer({
    namesrvAddr: server.namesrvAddress,
    group: 'CG',
    consumeFromWhere: 'CONSUME_FROM_FIRST_OFFSET',
    logger: silentLogger,
  });
  await consumer.start();
  await consumer.subscribe('Batches');
  const bodies: string[] = [];
  while (bodies.length < 14) bodies.push(...(await consumer.poll()).map((message) => message.text()));
  await consumer.close();
  const expected = [0, 1].flatMap((r) => [
    `${r}-3-0`,
    `${r}-3-1`,
    `${r}-3-2`,
    `${r}-1-0`,
    `${r}-2-0`,
    `${r}-2-1`,
    `${r}-single`,
  ]);
  assert.deepEqual(bodies, expected);
  await server.stop();
});
