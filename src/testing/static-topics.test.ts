// A static topic on two brokers with our own client: its queue moves while a producer and a consumer are at work, and its messages are
// consumed in order, also those that only the former broker has.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Producer, PullConsumer } from '../client/index.ts';
import { silentLogger, systemClock } from '../common/index.ts';
import { RemotingClient, RequestCode, ResponseCode } from '../remoting/index.ts';
import { startBroker } from './index.ts';

test('a queue of a static topic moves from broker to broker under a producer and a consumer', async () => {
  const a = await startBroker({ config: { brokerName: 'broker-a' } });
  const namesrvAddress = a.namesrvAddress;
  let b = await startBroker({ namesrvAddress, config: { brokerName: 'broker-b' } });
  const client = new RemotingClient({ clock: systemClock, logger: silentLogger });
  const map = async (bname: string, epoch: number, hosted: Record<number, object[]>): Promise<void> => {
    const queues = { readQueueNums: 2, writeQueueNums: 2, perm: 6 };
    const ext = {
      topic: 'T',
      defaultTopic: 'TBW102',
      topicFilterType: 'SINGLE_TAG',
      topicSysFlag: 0,
      order: false,
      ...queues,
    };
    const detail = { topic: 'T', bname, epoch, totalQueues: 1, scope: '__global__', hostedQueues: hosted };
    const address = (bname === 'broker-a' ? a : b).address;
    const body = Buffer.from(JSON.stringify(detail));
    const answer = await client.invoke(address, RequestCode.UPDATE_AND_CREATE_STATIC_TOPIC, ext, body, 5000);
    assert.equal(answer.code, ResponseCode.SUCCESS, answer.remark ?? '');
    await (bname === 'broker-a' ? a : b).broker.registration.registerAll();
  };
  const a0 = { gen: 0, bname: 'broker-a', queueId: 1, logicOffset: 0 };
  const b1 = { gen: 1, bname: 'broker-b', queueId: 0 };
  await map('broker-a', 1, { 0: [a0] });
  await map('broker-b', 1, {});
  const options = { namesrvAddr: namesrvAddress, logger: silentLogger };
  const producer = new Producer({ ...options, group: 'PG' });
  await producer.start();
  const places: string[] = [];
  const send = async (body: string): Promise<void> => {
    const { queue, queueOffset } = await producer.send({ topic: 'T', body });
    places.push(`${queue.brokerName} ${queue.queueId} ${queueOffset}`);
  };
  for (let i = 0; i < 3; i++) await send(`${i}`);
  // As mqadmin's remappingStaticTopic: the new leader without an offset first, then the old one gives up, then both learn the offset.
  await map('broker-b', 2000, {
    0: [
      { ...a0, endOffset: -1 },
      { ...b1, logicOffset: -1 },
    ],
  });
  await map('broker-a', 2000, {
    0: [
      { ...a0, endOffset: -1 },
      { ...b1, logicOffset: -1 },
    ],
  });
  for (const name of ['broker-b', 'broker-a']) {
    await map(name, 2000, {
      0: [
        { ...a0, endOffset: 3 },
        { ...b1, logicOffset: 10_000 },
      ],
    });
  }
  // The producer still has the route of before: the former leader says so, and the new one is asked for.
  for (let i = 3; i < 5; i++) await send(`${i}`);
  assert.deepEqual(
    places,
    [0, 1, 2, 10_000, 10_001].map((offset) => `__syslo__global__ 0 ${offset}`),
  );
  const { port } = b.broker;
  b = await startBroker({ namesrvAddress, port, disk: await b.crash('kill', 1), config: { brokerName: 'broker-b' } });
  await send('5');
  assert.equal(places.at(-1), '__syslo__global__ 0 10002');

  const consume = async (count: number): Promise<string[]> => {
    const consumer = new PullConsumer({ ...options, group: 'CG', consumeFromWhere: 'CONSUME_FROM_FIRST_OFFSET' });
    await consumer.start();
    await consumer.subscribe('T');
    const got: string[] = [];
    while (got.length < count) {
      for (const message of await consumer.poll()) got.push(`${message.text()} ${message.queueOffset}`);
    }
    await consumer.commit();
    await consumer.close();
    return got;
  };
  assert.deepEqual(await consume(6), ['0 0', '1 1', '2 2', '3 10000', '4 10001', '5 10002']);
  await send('6');
  assert.deepEqual(await consume(1), ['6 10003'], 'the group goes on where it was');
  await producer.close();
  await client.close();
  await b.stop();
  await a.stop();
});
