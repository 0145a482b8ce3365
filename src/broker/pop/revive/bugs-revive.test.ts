// RocketMQ's known faults in bringing pops back.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ackUniqueId, encodeAckMsg } from '../../../message/index.ts';
import { ReviveWorld, ROUNDS_MS } from './revive-world.test.support.ts';

test('B61 acknowledgements without a pop, and the same ones again, let the position move on', async () => {
  const w = await new ReviveWorld().start();
  w.make(['T']);
  await w.send(20);
  let reads = 0;
  const { store } = w.broker.context;
  const select = store.select.bind(store);
  store.select = (request, result, ready) => {
    if (request.topic === w.topic) reads++;
    return select(request, result, ready);
  };
  for (let offset = 0; offset < 20; offset++) {
    const ck = await w.pop([offset]);
    for (let again = 0; again < 3; again++) await w.ack(ck, [offset]);
  }
  await w.pass(5000 + ROUNDS_MS, 100);
  assert.deepEqual(w.position(), [79, 80]);
  // For handles that have expired.
  for (let offset = 0; offset < 10; offset++) {
    const ack = { ...w.popOf([offset], { popTime: w.clock.now() - 60_000 }), ackOffset: offset };
    await w.put('ack', encodeAckMsg(ack), ack.popTime + 5000, ackUniqueId(ack));
  }
  // Two periods of RocketMQ's longest look.
  await w.pass(20_000, 250);
  assert.deepEqual(w.position(), [89, 90]);
  reads = 0;
  await w.pass(30_000, 500);
  assert.equal(reads, 0, 'nothing is read again');
  assert.deepEqual(await w.revivedBodies(), []);
  assert.equal(w.counts.strays, 30);
});

/** Ten and more messages in two files of the log, the first with m0 to m7; 5 to 12 are popped, and 8 to 12 acknowledged. */
async function popOverFiles(remove: boolean): Promise<ReviveWorld> {
  const files = {
    mappedFileSizeCommitLog: 65_536,
    fileReservedTime: 0,
    deleteWhen: '',
    deleteCommitLogFilesInterval: 0,
  };
  const w = await new ReviveWorld({}, files).start();
  w.make(['T']);
  await w.send(13, 'T', { body: Buffer.alloc(7900, 'x') });
  const ck = await w.pop([5, 6, 7, 8, 9, 10, 11, 12]);
  await w.ack(ck, [8, 9, 10, 11, 12]);
  if (remove) w.broker.context.store.retention.request();
  await w.pass(1000, 100);
  assert.equal(w.broker.context.store.minOffsetInQueue('T', 0), remove ? 8 : 0);
  await w.pass(5000 + ROUNDS_MS, 100);
  return w;
}

test('B62 what retention has removed does not come back as what follows it', async () => {
  const w = await popOverFiles(true);
  assert.deepEqual(await w.revived(), []);
  assert.deepEqual(w.lines('come back no more'), [
    'revive: 3 messages of T queue 0 (5,6,7) popped by G come back no more: they are gone',
  ]);
});

test('B62 exactly those that are not acknowledged come back, once', async () => {
  const w = await popOverFiles(false);
  await w.pass(60_000, 500);
  assert.deepEqual(
    (await w.revived()).map(({ properties }) => properties.get('UNIQ_KEY')),
    ['T-5', 'T-6', 'T-7'],
  );
});

test('B62 a number that does not exist: a reader that goes on behind it hands out what follows', async () => {
  const w = await new ReviveWorld().start();
  w.make(['T']);
  await w.send(13);
  // As in a compacted topic.
  const { store } = w.broker.context;
  const select = store.select.bind(store);
  store.select = (request, result, ready) => {
    const offset = request.topic === 'T' && request.offset === 6 ? 7 : request.offset;
    return select({ ...request, offset }, result, ready);
  };
  const ck = await w.pop([5, 6, 7, 8]);
  await w.ack(ck, [7, 8]);
  await w.pass(5000 + ROUNDS_MS, 100);
  assert.deepEqual(await w.revivedBodies(), ['m5']);
  assert.equal(w.counts.gone, 1);
});

test('B64 check points of a topic that was deleted and made again are dropped; other topics come back on time', async () => {
  for (const sendAtOnce of [false, true]) {
    const w = await new ReviveWorld().start();
    w.make(['T', 'U']);
    await w.send(100);
    await w.send(4, 'U');
    const { store, topics } = w.broker.context;
    const offsets = [90, 91, 92, 93, 94, 95, 96, 97, 98, 99];
    await w.pop(offsets);
    await w.pop([2], { topic: 'U' });
    await w.settle(store.deleteTopics(['T']));
    topics.delete('T');
    w.make(['T']);
    await w.send(sendAtOnce ? 96 : 10);
    // Of the new life, not acknowledged.
    await w.pop([3], { invisibleTimeMs: 4500 });
    await w.pass(5000 + ROUNDS_MS, 100);
    assert.deepEqual(await w.revivedBodies(), ['m3']);
    assert.deepEqual(await w.revivedBodies('U'), ['m2']);
    assert.deepEqual(w.position(), [2, 3], 'dropped, and not tried again');
    assert.equal(w.lines('come back no more').length, 1);
    if (!sendAtOnce) await w.send(86);
    await w.pass(30_000, 500);
    assert.deepEqual(await w.revivedBodies(), ['m3']);
    assert.equal(w.counts.rePut, 0);
  }
});
