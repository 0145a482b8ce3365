import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ackUniqueId, encodeAckMsg, encodeCheckPoint, REVIVE_GROUP } from '../../../message/index.ts';
import { numbered } from '../../clock-world.test.support.ts';
import { EarlierCopies } from './earlier-copies.ts';
import type { ReviveParts } from './revive-parts.ts';
import { ReviveWorld, ROUNDS_MS } from './revive-world.test.support.ts';

/** Messages m0 to m9 of T. */
async function tenMessages(world: ReviveWorld): Promise<ReviveWorld> {
  await world.start();
  world.make(['T', 'U']);
  await world.send(10);
  return world;
}

test('what is not acknowledged in time comes back once, with one more try counted', async () => {
  const w = await tenMessages(new ReviveWorld());
  const ck = await w.pop([0, 1, 2, 3, 4]);
  await w.ack(ck, [0, 3]);
  await w.pass(4900, 100);
  assert.deepEqual(await w.revivedBodies(), [], 'not before its time');
  await w.pass(ROUNDS_MS, 100);
  const revived = await w.revived();
  assert.deepEqual(
    revived.map(({ body }) => Buffer.from(body).toString()),
    ['m1', 'm2', 'm4'],
  );
  const [first] = revived;
  assert.equal(first!.topic, '%RETRY%G_T');
  assert.equal(first!.reconsumeTimes, 1);
  assert.equal(first!.bornTimestamp, 1);
  assert.equal(first!.bornHost, w.broker.context.brokerAddress);
  assert.deepEqual(Object.fromEntries(first!.properties), {
    UNIQ_KEY: 'T-1',
    TAGS: 'A',
    '1ST_POP_TIME': String(ck.popTime),
    ORIGIN_GROUP: 'G',
  });
  assert.equal(w.broker.context.topics.select('%RETRY%G_T')?.writeQueueNums, 1);
  assert.equal(w.broker.context.offsets.query('G', '%RETRY%G_T', 0), 0);
  const [saved, end] = w.position();
  assert.deepEqual([saved, end], [2, 3], 'as RocketMQ saves it: the last record that is done');
  await w.pass(60_000, 500);
  assert.equal((await w.revived()).length, 3);
  assert.deepEqual({ ...w.counts }, { ...w.counts, checkPoints: 1, acks: 2, revived: 3, strays: 0, dropped: 0 });
});

test('an acknowledgement that comes with the very last moment counts', async () => {
  const w = await tenMessages(new ReviveWorld());
  const ck = await w.pop([0, 1, 2]);
  await w.pass(4990, 10);
  await w.ackTogether(ck, [0, 1]);
  await w.pass(ROUNDS_MS, 100);
  assert.deepEqual(await w.revivedBodies(), ['m2']);
});

test('enableRetryTopicV2: the retry topic is that of the new kind; useSeparateRetryQueue: one queue for each of the topic', async () => {
  const w = await new ReviveWorld({ enableRetryTopicV2: true, useSeparateRetryQueue: true }).start();
  w.make(['T'], 3);
  await w.send(4, 'T', { queueId: 2 });
  await w.pop([1], { queueId: 2 });
  await w.pass(5000 + ROUNDS_MS, 100);
  assert.equal(w.broker.context.topics.select('%RETRY%G+T')?.writeQueueNums, 3);
  const [message] = await w.drain('%RETRY%G+T', 2);
  assert.equal(message?.properties.get('UNIQ_KEY'), 'T-1');
  assert.equal(w.broker.context.offsets.query('G', '%RETRY%G+T', 2), 0);
});

test('a message of a retry topic goes back into it; one that is suspended is not counted as tried', async () => {
  const w = await tenMessages(new ReviveWorld());
  w.broker.context.topics.createInSendBack('%RETRY%G_T', 1, 6, false, 0);
  w.broker.context.topics.persistIfChanged();
  const properties = new Map([['1ST_POP_TIME', '7']]);
  await w.send(2, '%RETRY%G_T', { reconsumeTimes: 3, properties });
  await w.pop([0], { topic: '%RETRY%G_T', suspend: true });
  await w.pop([1], { topic: '%RETRY%G_T' });
  await w.pass(5000 + ROUNDS_MS, 100);
  const [, , suspended, tried] = await w.revived();
  assert.deepEqual([suspended?.reconsumeTimes, tried?.reconsumeTimes], [3, 4]);
  assert.equal(suspended?.properties.get('1ST_POP_TIME'), '7');
});

test('bodies that are no check point and no acknowledgement are set aside by name and stop nothing behind them', async () => {
  const w = await tenMessages(new ReviveWorld());
  const at = w.clock.now() + 4000;
  const bodies = [
    ['ck', '{"so":'],
    ['ck', '[]'],
    ['ck', 'null'],
    ['ck', '{"so":1,"n":1}'],
    ['ck', `${'['.repeat(20_000)}`],
    ['ck', encodeCheckPoint(w.popOf([0], { num: 2_000_000_000, offsetDiffs: [] }))],
    ['ck', encodeCheckPoint(w.popOf([0], { offsetDiffs: [-7] }))],
    ['ck', encodeCheckPoint(w.popOf([0], { startOffset: -1, offsetDiffs: [] }))],
    ['ck', '{"so":99999999999999999999,"n":1,"t":"T","c":"G"}'],
    ['ck', `{"t":"${'x'.repeat(70_000)}"}`],
    ['ack', 'ack'],
    ['bAck', '{"t":"T","c":"G","aol":"none"}'],
    ['nack', '{}'],
  ] as const;
  for (const [i, [tag, body]] of bodies.entries()) await w.put(tag, body, at, `k${i}`);
  await w.pop([7]);
  await w.pass(5000 + ROUNDS_MS, 100);
  assert.deepEqual(await w.revivedBodies(), ['m7']);
  assert.equal(w.counts.setAside, bodies.length);
  assert.equal(w.lines('is set aside').length, bodies.length);
  assert.deepEqual(w.position(), [bodies.length, bodies.length + 1]);
});

test('a check point that claims more messages than it lists, or lists the same, brings back what is there', async () => {
  const w = await tenMessages(new ReviveWorld());
  await w.pop([1], { num: 9 });
  await w.pop([2, 4], { bitMap: 1, popTime: w.clock.now() + 1 });
  await w.pass(5000 + ROUNDS_MS, 100);
  assert.deepEqual(await w.revivedBodies(), ['m1', 'm4']);
});

test('offsets that never were, below and beyond the queue, in queues that are not there: dropped with one line for a pop', async () => {
  const w = await tenMessages(new ReviveWorld());
  await w.pop([8, 9, 10, 11]);
  await w.pop([100]);
  await w.pop([0], { queueId: 5 });
  await w.pop([Number.MAX_SAFE_INTEGER - 1]);
  await w.pass(5000 + ROUNDS_MS, 100);
  assert.deepEqual(await w.revivedBodies(), ['m8', 'm9']);
  assert.equal(w.counts.gone, 5);
  assert.equal(w.lines('come back no more: they are gone').length, 4);
  assert.deepEqual(w.position(), [3, 4]);
});

test('pops of a deleted topic or group are dropped; popReviveSkipIfGroupAbsent=false brings those of a group back', async () => {
  for (const popReviveSkipIfGroupAbsent of [true, false]) {
    const w = await tenMessages(new ReviveWorld({ popReviveSkipIfGroupAbsent }));
    let landed = 0;
    w.broker.context.revive.onLanded = () => landed++;
    await w.pop([0], { topic: 'V' });
    await w.pop([1], { group: 'H' });
    await w.pop([2]);
    await w.pass(5000 + ROUNDS_MS, 100);
    assert.equal(landed, 3, 'none of them is in flight');
    assert.deepEqual(await w.revivedBodies(), ['m2']);
    assert.deepEqual(await w.revivedBodies('T', 'H'), popReviveSkipIfGroupAbsent ? [] : ['m1']);
    assert.equal(w.counts.dropped, popReviveSkipIfGroupAbsent ? 2 : 1);
    assert.equal(w.lines('come back no more').length, w.counts.dropped);
  }
});

test('an acknowledgement that stands before its check point counts, also over a kill', async () => {
  for (const kill of [false, true]) {
    const w = await tenMessages(new ReviveWorld());
    const ck = w.popOf([0, 1], { invisibleTimeMs: 8000 });
    const ack = { ...ck, ackOffset: 0 };
    // As a timer that lags does it: what it takes from its queue too late is delivered before what waits in its wheel.
    await w.put('ack', encodeAckMsg(ack), ck.popTime + 8000, ackUniqueId(ack), 0, true);
    await w.pass(4000, 100);
    assert.deepEqual(w.position(), [-1, 1], 'it is needed until its check point comes, or cannot come any more');
    if (kill) {
      w.die((fs) => fs.kill(w.random));
      await w.start();
    }
    await w.pop([0, 1], { popTime: ck.popTime, invisibleTimeMs: 8000 });
    await w.pass(8000 + ROUNDS_MS, 100);
    assert.deepEqual(await w.revivedBodies(), ['m1']);
    assert.deepEqual(w.position(), [1, 2]);
    assert.equal(w.counts.strays, 0);
  }
});

test('a broker that was away for an hour knows what was acknowledged before', async () => {
  const w = await tenMessages(new ReviveWorld());
  for (let offset = 0; offset < 10; offset++) {
    const ck = await w.pop([offset], { invisibleTimeMs: 3000 + offset * 700 });
    if (offset % 2 === 0) await w.ack(ck, [offset]);
    else await w.ackTogether(ck, []);
  }
  await w.pass(300, 100);
  w.die((fs) => fs.kill(w.random));
  w.clock.advance(3_600_000);
  await w.start();
  await w.pass(ROUNDS_MS, 100);
  assert.deepEqual((await w.revivedBodies()).sort(), ['m1', 'm3', 'm5', 'm7', 'm9']);
});

test('stops, kills and power cuts at any time: all that is not acknowledged comes back, and nothing else', async () => {
  for (let seed = 0; seed < 12; seed++) {
    const w = await tenMessages(new ReviveWorld({}, { flushDiskType: 'SYNC_FLUSH' }, seed));
    const ck = await w.pop([0, 1, 2, 3, 4, 5]);
    await w.ack(ck, [1, 4]);
    await w.pass(3500 + seed * 450, 50);
    if (seed % 3 === 0) await w.stop();
    w.die((fs) => (seed % 3 === 1 ? fs.kill(w.random) : fs.powerCut(w.random)));
    await w.start();
    await w.pass(5000 + ROUNDS_MS, 100);
    const bodies = await w.revivedBodies();
    assert.deepEqual([...new Set(bodies)], ['m0', 'm2', 'm3', 'm5'], `seed ${seed}`);
    assert.equal(bodies.length, 4, `nothing comes twice, seed ${seed}`);
    const [saved, end] = w.position();
    assert.equal(saved, end - 1, `seed ${seed}`);
    await w.stop();
  }
});

test('what an earlier life has revived is remembered of so many messages alone', async () => {
  const w = await new ReviveWorld().start();
  w.make(['R1', 'R2']);
  for (const topic of ['R1', 'R2']) await w.send(3, topic);
  const { clock, store } = w.broker.context;
  const copies = new EarlierCopies({ clock, store } as ReviveParts, 3);
  for (const [topic, isKnown] of [
    ['R1', true],
    ['R2', false],
    ['R1', true],
  ] as const) {
    const [message] = await w.drain(topic);
    assert.equal(await copies.has(topic, 0, message!, 0, message!.storeTimestamp), isKnown, topic);
  }
  await w.stop();
});

test('a kill before the position is saved: what was revived is not stored once more, whatever became of the copy', async () => {
  const w = await tenMessages(new ReviveWorld());
  await w.pop([0, 1, 2]);
  while ((await w.revivedBodies()).length < 3) await w.pass(50, 50);
  assert.equal(w.position()[0], -1);
  w.die((fs) => fs.kill(w.random));
  await w.start();
  await w.pop([3]);
  await w.pass(5000 + ROUNDS_MS, 100);
  assert.deepEqual(await w.revivedBodies(), ['m0', 'm1', 'm2', 'm3']);
  assert.ok(w.counts.done >= 3);
});

test('an orderly stop at any moment repeats nothing, whatever the order of the times', async () => {
  for (let ms = 5000; ms < 9000; ms += 200) {
    const w = await tenMessages(new ReviveWorld());
    // Due within one second of the timer, the later one first.
    const first = w.clock.now() % 1000;
    await w.pop([0, 1], { invisibleTimeMs: 6900 - first });
    await w.pop([2, 3], { invisibleTimeMs: 6100 - first });
    await w.pass(ms, 50);
    await w.stop();
    w.die(() => {});
    await w.start();
    await w.pass(ROUNDS_MS, 100);
    assert.deepEqual(await w.revivedBodies(), ['m0', 'm1', 'm2', 'm3'], `stopped after ${ms} ms`);
    await w.stop();
  }
});

test('a power cut before the log is flushed: the saved position is behind what was revived, which comes again', async () => {
  let lost = 0;
  for (let seed = 0; seed < 10; seed++) {
    const w = await tenMessages(new ReviveWorld({}, { flushCommitLogThoroughInterval: 600_000 }, seed));
    await w.pop([0, 1]);
    while (w.position()[1] === 0) await w.pass(50, 50);
    // All but the copies is on disk.
    w.fs.settle();
    while ((await w.revivedBodies()).length === 0) await w.pass(50, 50);
    await w.pass(100, 50);
    assert.equal(w.position()[0], -1);
    w.broker.context.offsets.persist();
    w.die((fs) => fs.powerCut(w.random));
    await w.start();
    if ((await w.revivedBodies()).length === 0) lost++;
    await w.pass(ROUNDS_MS, 100);
    assert.deepEqual([...new Set(await w.revivedBodies())], ['m0', 'm1'], `seed ${seed}`);
  }
  assert.ok(lost > 0, 'copies were lost');
});

test('a position beyond the end of the queue skips nothing that is put in its place', async () => {
  const w = await tenMessages(new ReviveWorld());
  w.broker.context.offsets.commit('test', REVIVE_GROUP, w.topic, 0, 17);
  await w.stop();
  w.die((fs) => fs.kill(w.random));
  await w.start();
  await w.pop([3]);
  await w.pass(5000 + ROUNDS_MS, 100);
  assert.deepEqual(await w.revivedBodies(), ['m3']);
});

test('a store that takes nothing for a while: pops wait, and come back when it does', async () => {
  const w = await tenMessages(new ReviveWorld());
  await w.pop([0, 1]);
  await w.pass(4500, 100);
  const full = w.fs.fail({
    operation: 'write',
    path: '/commitlog/',
    code: 'DISK_FULL',
    times: Number.POSITIVE_INFINITY,
  });
  await w.pass(60_000, 500);
  full.clear();
  await w.pass(90_000, 500);
  assert.deepEqual([...new Set(await w.revivedBodies())], ['m0', 'm1']);
  const [saved, end] = w.position();
  assert.equal(saved, end - 1);
});

test('messages that no retry topic takes are tried again after longer and longer; skipWhenCKRePutReachMaxTimes ends that', async () => {
  for (const skip of [false, true]) {
    const w = await tenMessages(new ReviveWorld({ skipWhenCKRePutReachMaxTimes: skip }));
    await w.send(1, 'T', { body: Buffer.alloc(5000) });
    // Longer than the store takes from now on.
    Object.assign(w.broker.context.store.config, { maxMessageSize: 4000 });
    await w.pop([10]);
    await w.pop([1]);
    await w.pass(5000 + ROUNDS_MS, 100);
    assert.deepEqual(await w.revivedBodies(), ['m1']);
    assert.equal(w.counts.rePut, 2);
    await w.pass(130_000, 500);
    assert.equal(w.counts.rePut, 5, 'after 10, 20, 30 and 60 s');
    const [saved, end] = w.position();
    assert.equal(saved, end - 1, 'the position does not wait for it');
    let landed = 0;
    w.broker.context.revive.onLanded = () => landed++;
    await w.pop([10], { rePutTimes: '17' });
    await w.pass(5000 + ROUNDS_MS, 100);
    assert.deepEqual([w.counts.rePut, w.counts.dropped], skip ? [5, 1] : [6, 0]);
    assert.equal(landed, skip ? 1 : 0, 'what is given up is in flight no longer');
  }
});

test('a message whose properties leave no room for the marks of a pop comes back without them', async () => {
  const w = await tenMessages(new ReviveWorld());
  const properties = new Map([
    ['UNIQ_KEY', 'full'],
    ['long', 'x'.repeat(32_740)],
  ]);
  await w.send(1, 'T', { properties, body: Buffer.from('full') });
  await w.pop([9, 10]);
  await w.pass(5000 + ROUNDS_MS, 100);
  const [marked, full] = await w.revived();
  assert.deepEqual([marked!.properties.get('ORIGIN_GROUP'), Buffer.from(full!.body).toString()], ['G', 'full']);
  assert.deepEqual([full!.reconsumeTimes, full!.properties.get('long')?.length], [1, 32_740]);
  assert.deepEqual([...full!.properties.keys()].sort(), ['UNIQ_KEY', 'long']);
  assert.equal(w.counts.rePut, 0);
});

test('a check point that is far ahead holds nobody up, and still comes back', async () => {
  const w = await tenMessages(new ReviveWorld());
  const ck = w.popOf([0], { invisibleTimeMs: 200_000 });
  // Put past the timer, as somebody who has set its clock may.
  await w.put('ck', encodeCheckPoint(ck), w.clock.now() - 1, 'far');
  await w.pop([1]);
  await w.pass(9000, 100);
  assert.deepEqual(await w.revivedBodies(), ['m1']);
  await w.pass(ROUNDS_MS, 500);
  assert.deepEqual(w.position(), [1, 2], 'it has gone into the timer');
  await w.pass(190_000, 500);
  assert.deepEqual(await w.revivedBodies(), ['m1', 'm0']);
});

test('more pops than may be open at once: none is lost, and acknowledgements far behind them count', async () => {
  const w = new ReviveWorld();
  w.mostOpen = 4;
  await w.start();
  w.make(['T']);
  await w.send(40);
  const cks = [];
  for (let i = 0; i < 40; i++) cks.push(await w.pop([i], { invisibleTimeMs: 8000 }));
  for (const [i, ck] of cks.entries()) if (i % 3 > 0) await w.ack(ck, [i]);
  await w.pass(60_000, 250);
  const expected = numbered(40).filter((_, i) => i % 3 === 0);
  assert.deepEqual(await w.revivedBodies(), expected);
  const [saved, end] = w.position();
  assert.equal(saved, end - 1);
});

test('retention leaves the records of pops under way', async () => {
  const w = await tenMessages(
    new ReviveWorld({}, { mappedFileSizeCommitLog: 16_384, fileReservedTime: 0, deleteWhen: '' }),
  );
  await w.pop([0], { invisibleTimeMs: 600_000 });
  await w.put('ck', encodeCheckPoint(w.popOf([1], { invisibleTimeMs: 4000 })), w.clock.now() - 1, 'k');
  const { revive } = w.broker.context;
  assert.equal(revive.needed({ moves: [{ topic: w.topic, queueId: 0, from: 0, to: 5 }] } as never), 5);
  await w.pass(2000, 100);
  assert.equal(revive.needed({ moves: [{ topic: w.topic, queueId: 0, from: 0, to: 1 }] } as never), 1);
});

test('idle: no reads at all; while pops are open, at most one a second for each queue', async () => {
  const w = await tenMessages(new ReviveWorld({ reviveQueueNum: 8 }));
  const { store } = w.broker.context;
  let reads = 0;
  const select = store.select.bind(store);
  store.select = (request, result, ready) => {
    if (request.topic === w.topic) reads++;
    return select(request, result, ready);
  };
  await w.pass(60_000, 500);
  assert.equal(reads, 0);
  await w.pop([0], { invisibleTimeMs: 30_000 });
  await w.pass(60_000, 500);
  assert.ok(reads <= 2, `${reads} reads`);
});

test('disappearTimeAfterStart: nothing comes back until that time is over', async () => {
  const w = await tenMessages(new ReviveWorld({ disappearTimeAfterStart: 60_000 }));
  await w.pop([0]);
  await w.pass(55_000, 500);
  assert.deepEqual(await w.revivedBodies(), []);
  await w.pass(15_000, 500);
  assert.deepEqual(await w.revivedBodies(), ['m0']);
});
