// Where a group begins, what it has come to, and what of it is safe.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { numbered } from '../clock-world.test.support.ts';
import { PopWorld } from './pop-world.test.support.ts';

const bodies = (popped: ReadonlyArray<{ body: string }>): string[] => popped.map(({ body }) => body);

test('a new group begins at the first message, or at the last one, which is popped so that it has an offset', async () => {
  const w = await PopWorld.open({ broker: { initPopOffsetByCheckMsgInMem: false } });
  await w.send(numbered(5));
  assert.deepEqual(bodies((await w.pop({ consumerGroup: 'first', initMode: 0 })).popped), numbered(5));
  assert.deepEqual(bodies((await w.pop({ consumerGroup: 'last', initMode: 1 })).popped), ['m4']);
  assert.equal(w.context.offsets.query('last', 'T', 0), 5);
  const empty = await w.pop({ topic: 'T', consumerGroup: 'G', queueId: 0, initMode: 1, maxMsgNums: 1 });
  assert.deepEqual(bodies(empty.popped), ['m4']);
});

test('a young queue is popped from its start, whatever the mode, where the setting says so', async () => {
  const w = await PopWorld.open();
  await w.send(numbered(3));
  assert.deepEqual(bodies((await w.pop({ initMode: 1 })).popped), numbered(3));
});

test('an administrator’s reset is where the next pop begins', async () => {
  const w = await PopWorld.open();
  await w.send(numbered(5));
  await w.pop();
  w.context.offsets.assignReset('G', 'T', 0, 3);
  const again = await w.pop();
  assert.deepEqual(bodies(again.popped), ['m3', 'm4']);
  assert.equal(w.context.offsets.query('G', 'T', 0), 5);
});

test('a reset to where the last pop began, in the same millisecond, hands nothing out twice under one name', async () => {
  const w = await PopWorld.open();
  await w.send(numbered(2));
  await w.pop();
  w.context.offsets.assignReset('G', 'T', 0, 0);
  assert.equal((await w.pop()).code, 210);
  w.clock.advance(1);
  assert.deepEqual(bodies((await w.pop()).popped), numbered(2));
});

test('a queue with too much under way is left out, and its rest is told', async () => {
  const w = await PopWorld.open({ broker: { enablePopMessageThreshold: true, popInflightMessageThreshold: 3 } });
  await w.send(numbered(10));
  const { popped } = await w.pop({ maxMsgNums: 4 });
  assert.equal(popped.length, 4);
  const none = await w.pop();
  assert.deepEqual([none.code, none.ext['restNum']], [210, '6']);
  await w.ack(popped[0]!);
  assert.equal((await w.pop({ maxMsgNums: 1 })).popped.length, 1);
});

test('a reset frees a queue that has too much under way', async () => {
  const w = await PopWorld.open({ broker: { enablePopMessageThreshold: true, popInflightMessageThreshold: 3 } });
  await w.send(numbered(10));
  await w.pop({ maxMsgNums: 5 });
  assert.equal((await w.pop()).code, 210);
  w.context.offsets.assignReset('G', 'T', 0, 8);
  assert.deepEqual(bodies((await w.pop()).popped), ['m8', 'm9']);
  assert.equal(w.context.pop.queues.inFlight('T', 'G', 0), 2);
});

test('pops from before the start do not count in what is in flight', async () => {
  const w = await PopWorld.open();
  await w.send(numbered(3));
  const { popped } = await w.pop({ maxMsgNums: 2 });
  w.clock.advance(10);
  await w.kill();
  const after = await w.pop();
  assert.equal(w.context.pop.queues.inFlight('T', 'G', 0), after.popped.length);
  await w.ack(popped[0]!);
  assert.equal(w.context.pop.queues.inFlight('T', 'G', 0), after.popped.length);
});

test('B65: the offset that is saved waits until the check points of what was popped are synced', async () => {
  const w = await PopWorld.open();
  await w.send(numbered(10));
  await w.pop({ maxMsgNums: 4 });
  // All others see it at once.
  assert.equal(w.context.offsets.query('G', 'T', 0), 4);
  assert.ok(w.context.store.watermarks.flushed < w.context.store.watermarks.committed);
  assert.equal(w.savedOffset(), 0);
  await w.pass(11_000);
  await w.pop({ maxMsgNums: 3 });
  assert.equal(w.context.offsets.query('G', 'T', 0), 7);
  assert.equal(w.savedOffset(), 4);
  await w.pass(11_000);
  assert.equal(w.savedOffset(), 7);
  // And it is written then, although nobody has committed anything since.
  assert.ok(!w.context.offsets.text().includes('unsaved'));
});

test('B65: after a power cut at any time everything that was popped is there again, or comes back by its check point', async () => {
  for (let point = 0; point < 30; point++) {
    const w = await PopWorld.open();
    await w.send(numbered(10));
    await w.pass(11_000);
    await w.pop({ maxMsgNums: 6 });
    await w.pass(30 * point);
    await w.pop({ maxMsgNums: 4 });
    const { offsets } = w.context;
    // As the broker does every five seconds, at any time.
    offsets.persistIfChanged();
    await w.pass(70 * point);
    if (point % 2 === 0) offsets.persistIfChanged();
    await w.powerCut();
    const covered = new Set<number>();
    for (const body of await w.waiting()) {
      const { so, d } = JSON.parse(body) as { so: number; d: number[] };
      for (const diff of d) covered.add(so + diff);
    }
    const from = w.context.offsets.query('G', 'T', 0);
    for (let offset = 0; offset < from; offset++)
      assert.ok(covered.has(offset), `point ${point}: ${offset} of ${from}`);
  }
});

test('B65: a check point that cannot be put: no messages, nothing moves, and they are there afterwards', async () => {
  const w = await PopWorld.open();
  await w.send(numbered(3));
  await w.pass(100);
  // Longer than the timer can wait for.
  const refused = await w.pop({ invisibleTime: 400_000_000 });
  assert.equal(refused.code, 1);
  assert.match(refused.remark!, /check point of this pop cannot be stored: the delay is 399999000 ms/);
  assert.deepEqual(refused.popped, []);
  assert.equal(w.context.offsets.query('G', 'T', 0), 0);
  assert.equal(w.context.pop.queues.inFlight('T', 'G', 0), 0);
  assert.deepEqual(bodies((await w.pop()).popped), numbered(3));
});

test('B65: a check point whose write fails: no messages, and the offset is taken back', async () => {
  const w = await PopWorld.open();
  await w.send(numbered(3));
  assert.deepEqual(bodies((await w.pop({ maxMsgNums: 1 })).popped), ['m0']);
  const fault = w.fs.fail({ operation: 'write', path: /commitlog/, code: 'DISK_FULL' });
  const refused = await w.pop();
  assert.equal(refused.code, 1);
  assert.match(refused.remark!, /check point of this pop cannot be stored/);
  assert.equal(w.context.offsets.query('G', 'T', 0), 1);
  fault.clear();
  await w.pass(11_000);
  assert.deepEqual(bodies((await w.pop()).popped), ['m1', 'm2']);
});

test('B65: a sync that fails: no messages, and nothing moves in what is saved', async () => {
  const w = await PopWorld.open({ store: { flushDiskType: 'SYNC_FLUSH' } });
  await w.send(numbered(3));
  w.fs.fail({ operation: 'sync', path: /commitlog/ });
  const refused = await w.pop();
  assert.equal(refused.code, 1);
  assert.deepEqual(refused.popped, []);
  assert.equal(w.savedOffset(), 0);
});

test('offsets beyond the queue’s end and below its beginning are put right', async () => {
  const w = await PopWorld.open();
  await w.send(numbered(3));
  w.context.offsets.commit('test', 'G', 'T', 0, 100);
  assert.equal((await w.pop()).code, 210);
  assert.equal(w.context.offsets.query('G', 'T', 0), 3);
  await w.send(['m3']);
  assert.deepEqual(bodies((await w.pop()).popped), ['m3']);
});

test('a deleted topic that is created again begins anew, and old pops move nothing', async () => {
  const w = await PopWorld.open();
  await w.send(numbered(3));
  const { popped } = await w.pop();
  const { offsets, store, topics } = w.context;
  await w.settle(store.deleteTopics(['T']));
  offsets.removeTopic('T');
  topics.delete('T');
  const gone = await w.ack(popped[0]!);
  assert.equal(gone.code, 17);
  topics.createInSend('T', 'TBW102', 'test', 1, 0);
  topics.persistIfChanged();
  await w.send(['new']);
  assert.deepEqual(bodies((await w.pop()).popped), ['new']);
  assert.equal(offsets.query('G', 'T', 0), 1);
  await w.pass(11_000);
  assert.equal(w.savedOffset(), 1);
});
