import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { RequestCode } from '../remoting/index.ts';
import { FakeCluster } from './fake-cluster.test.support.ts';
import { PullConsumer, type PullConsumerOptions } from './pull-consumer.ts';

const q0 = { topic: 'T', brokerName: 'a', queueId: 0 };
const q1 = { topic: 'T', brokerName: 'a', queueId: 1 };

async function rig(
  t: TestContext,
  options: Partial<PullConsumerOptions> = {},
): Promise<{ cluster: FakeCluster; consumer: PullConsumer }> {
  const cluster = await FakeCluster.open({ T: 2 });
  const consumer = new PullConsumer({
    ...cluster.options(),
    group: 'G',
    consumeFromWhere: 'CONSUME_FROM_FIRST_OFFSET',
    ...options,
  });
  await consumer.start();
  t.after(async () => {
    await consumer.close();
    await cluster.close();
  });
  return { cluster, consumer };
}

test('poll hands out the messages of one queue at a time, in order, and the queues take turns', async (t) => {
  const { cluster, consumer } = await rig(t);
  for (const body of ['a0', 'a1', 'a2']) cluster.broker.append('T', 0, body);
  for (const body of ['b0', 'b1']) cluster.broker.append('T', 1, body);
  await consumer.subscribe('T');
  await cluster.until('both queues are fetched', () => cluster.broker.of(RequestCode.PULL_MESSAGE).length >= 4);
  const polls: string[] = [];
  for (let i = 0; i < 4; i++) polls.push((await consumer.poll(0, 2)).map((message) => message.text()).join(' '));
  assert.deepEqual(polls, ['a0 a1', 'b0 b1', 'a2', '']);
});

test('a pull carries its subscription, so that it needs no heartbeat', async (t) => {
  const { cluster, consumer } = await rig(t);
  await consumer.subscribe('T', 'A || B');
  await cluster.until('a pull', () => cluster.broker.of(RequestCode.PULL_MESSAGE).length > 0);
  const { ext } = cluster.broker.of(RequestCode.PULL_MESSAGE)[0]!;
  assert.equal(ext['sysFlag'], '6');
  assert.equal(ext['subscription'], 'A || B');
  assert.equal(ext['expressionType'], 'TAG');
});

test('poll waits for a message, and ends empty at its time limit', async (t) => {
  const { cluster, consumer } = await rig(t);
  await consumer.subscribe('T');
  const waiting = consumer.poll(5000);
  await cluster.until('pulls wait', () => cluster.broker.of(RequestCode.PULL_MESSAGE).length === 2);
  cluster.broker.append('T', 1, 'late');
  assert.deepEqual(
    (await waiting).map((message) => message.text()),
    ['late'],
  );
  const empty = consumer.poll(500);
  cluster.clock.advance(501);
  assert.deepEqual(await empty, []);
});

test('what was handed out is committed by the next poll, not before', async (t) => {
  const { cluster, consumer } = await rig(t);
  for (const body of ['m0', 'm1', 'm2']) cluster.broker.append('T', 0, body);
  await consumer.assign([q0]);
  assert.equal((await consumer.poll(5000, 2)).length, 2);
  cluster.clock.advance(5000);
  assert.equal(cluster.broker.offsets.get('G@T@0'), undefined);
  assert.equal((await consumer.poll(5000, 2)).length, 1);
  await consumer.close();
  assert.equal(cluster.broker.offsets.get('G@T@0'), 2);
});

test('without autoCommit only commit saves, up to what was handed out', async (t) => {
  const { cluster, consumer } = await rig(t, { autoCommit: false });
  for (const body of ['m0', 'm1', 'm2']) cluster.broker.append('T', 0, body);
  await consumer.assign([q0]);
  await consumer.poll(5000, 1);
  await consumer.poll(5000, 1);
  assert.equal(cluster.broker.offsets.get('G@T@0'), undefined);
  await consumer.commit();
  assert.equal(cluster.broker.offsets.get('G@T@0'), 2);
  assert.equal(await consumer.committed(q0), 2);
  assert.equal(consumer.position(q0), 2);
  await consumer.poll(5000, 1);
  await consumer.close();
  assert.equal(cluster.broker.offsets.get('G@T@0'), 2);
});

test('seek forgets what was fetched and goes on elsewhere, forwards and back', async (t) => {
  const { cluster, consumer } = await rig(t);
  for (let i = 0; i < 5; i++) cluster.broker.append('T', 0, `m${i}`);
  await consumer.assign([q0]);
  assert.equal((await consumer.poll(5000, 1))[0]!.text(), 'm0');
  consumer.seek(q0, 4);
  assert.equal((await consumer.poll(5000, 1))[0]!.text(), 'm4');
  consumer.seek(q0, 1);
  assert.equal(consumer.position(q0), 1);
  assert.equal((await consumer.poll(5000, 1))[0]!.text(), 'm1');
  assert.throws(() => consumer.seek(q1, 0), { code: 'CLIENT_STATE' });
  assert.throws(() => consumer.seek(q0, -1), { code: 'CONFIG_VALUE' });
});

test('the iterator gives messages one by one; one that was left in hand is not committed', async (t) => {
  const { cluster, consumer } = await rig(t);
  for (let i = 0; i < 5; i++) cluster.broker.append('T', 0, `m${i}`);
  await consumer.assign([q0]);
  const seen: string[] = [];
  for await (const message of consumer) {
    seen.push(message.text());
    if (seen.length === 3) break;
  }
  assert.deepEqual(seen, ['m0', 'm1', 'm2']);
  await consumer.close();
  assert.equal(cluster.broker.offsets.get('G@T@0'), 2);
});

test('closing ends a loop that waits', async (t) => {
  const { cluster, consumer } = await rig(t);
  await consumer.assign([q0]);
  const loop = (async () => {
    for await (const message of consumer) assert.fail(message.text());
  })();
  await cluster.until('it waits', () => cluster.broker.of(RequestCode.PULL_MESSAGE).length === 1);
  await consumer.close();
  await loop;
  await assert.rejects(consumer.poll(0), { code: 'CLIENT_STATE' });
});

test('an offset that the queue does not have is corrected', async (t) => {
  const { cluster, consumer } = await rig(t);
  cluster.broker.append('T', 0, 'm0');
  await consumer.assign([q0]);
  assert.equal((await consumer.poll(5000)).length, 1);
  consumer.seek(q0, 99);
  await cluster.until('corrected', () => consumer.position(q0) === 1);
  cluster.broker.append('T', 0, 'm1');
  assert.deepEqual(
    (await consumer.poll(5000)).map((message) => message.text()),
    ['m1'],
  );
});

test('what the tag filter left out is committed with the messages before it', async (t) => {
  const { cluster, consumer } = await rig(t);
  cluster.broker.append('T', 0, 'yes', { tags: 'A' });
  cluster.broker.append('T', 0, 'no', { tags: 'B' });
  await consumer.assign([q0], 'A');
  assert.equal((await consumer.poll(5000)).length, 1);
  await consumer.commit();
  assert.equal(cluster.broker.offsets.get('G@T@0'), 2);
});

test('assign and subscribe do not mix; assigning anew replaces', async (t) => {
  const { consumer } = await rig(t);
  await consumer.assign([q0]);
  await assert.rejects(consumer.subscribe('T'), { code: 'CLIENT_STATE' });
  await consumer.assign([q1]);
  assert.deepEqual(
    consumer.assignment.map((queue) => queue.queueId),
    [1],
  );
  assert.deepEqual(
    (await consumer.fetchMessageQueues('T')).map((queue) => queue.queueId),
    [0, 1],
  );
  assert.equal(await consumer.maxOffset(q1), 0);
});

test('a paused queue hands out nothing and pulls nothing, and goes on where it stopped', async (t) => {
  const { cluster, consumer } = await rig(t);
  const pulls = (): number => cluster.broker.of(RequestCode.PULL_MESSAGE).length;
  const take = async (limit = 32): Promise<string[]> => {
    const taking = consumer.poll(1500, limit);
    let messages: string[] | undefined;
    void taking.then((list) => {
      messages = list.map((message) => message.text());
    });
    await cluster.until('the poll ends', () => messages !== undefined, 100);
    return messages!;
  };
  for (const body of ['m0', 'm1']) cluster.broker.append('T', 0, body);
  await consumer.assign([q0]);
  assert.deepEqual(await take(1), ['m0']);
  consumer.pause([q0]);
  assert.deepEqual(consumer.paused, [q0]);
  assert.deepEqual(await take(), []);
  // The pull that was open ends with this; there is no other.
  cluster.broker.append('T', 0, 'm2');
  const before = pulls();
  assert.deepEqual(await take(), []);
  assert.ok(pulls() <= before + 1);
  consumer.resume([q0]);
  assert.deepEqual(consumer.paused, []);
  const rest: string[] = [];
  while (rest.length < 2) rest.push(...(await take()));
  assert.deepEqual(rest, ['m1', 'm2']);
  await consumer.seekToEnd(q0);
  assert.equal(consumer.position(q0), 3);
  consumer.seek(q0, 0);
  assert.deepEqual(await take(1), ['m0']);
});
