import assert from 'node:assert/strict';
import { test } from 'node:test';
import { TRANS_HALF_TOPIC } from '../topic/topic-names.ts';
import { TRANS_GROUP } from './half-message.ts';
import { COMMIT, World } from './transaction.test.support.ts';

test('the late end of the producer and its answer to a check deliver once', async () => {
  const w = await new World().start();
  const half = await w.half('u1');
  await w.pass(7000);
  await w.round();
  assert.deepEqual(w.asked, ['u1']);
  assert.equal((await w.end(half, COMMIT)).code, 0);
  assert.equal((await w.answer(0, COMMIT)).code, 0);
  await w.pass(7000);
  await w.round();
  await w.round();
  assert.equal((await w.end(half, COMMIT)).code, 0);
  assert.deepEqual(await w.delivered(), ['u1']);
  assert.deepEqual(w.asked, ['u1']);
  assert.deepEqual(w.positions, [2, 2]);
});

test('a transaction that ended before a kill ends once, though no record tells of it', async () => {
  const w = await new World().start();
  await w.end(await w.half('u1'), COMMIT);
  const late = await w.half('u2');
  assert.deepEqual(await w.delivered(), ['u1']);
  assert.deepEqual(await w.ops(), []);
  w.die();
  await w.start();
  assert.deepEqual(await w.delivered(), ['u1']);
  await w.pass(7000);
  await w.round();
  assert.deepEqual(w.asked, ['u1', 'u2']);
  assert.equal((await w.answer(0, COMMIT)).code, 0);
  // The answer to a check and the producer's own end, late, one behind the other.
  await w.answer(1, COMMIT);
  await w.end(late, COMMIT);
  await w.pass(7000);
  assert.deepEqual(await w.delivered(), ['u1', 'u2']);
  w.die();
  await w.start();
  await w.end(late, COMMIT);
  await w.round();
  assert.deepEqual(await w.delivered(), ['u1', 'u2']);
  await w.round();
  assert.equal(w.broker.context.transactions.open, false);
  assert.deepEqual(w.asked, []);
});

test('a start between a check and the two ends of its transaction delivers once, in either order', async () => {
  const w = await new World().start();
  const halves = [await w.half('u1'), await w.half('u2')];
  await w.pass(7000);
  await w.round();
  assert.deepEqual(w.asked, ['u1', 'u2']);
  const asked = w.checks.map((ext) => {
    return { offset: Number(ext['commitLogOffset']), queueOffset: Number(ext['tranStateTableOffset']) };
  });
  await w.stop();
  await w.start();
  await w.end(halves[0]!, COMMIT);
  await w.end(asked[0]!, COMMIT, { fromTransactionCheck: true });
  // In one turn.
  const both = [w.end(asked[1]!, COMMIT, { fromTransactionCheck: true }), w.end(halves[1]!, COMMIT)];
  for (const answer of await Promise.all(both)) assert.equal(answer.code, 0);
  assert.deepEqual((await w.delivered()).sort(), ['u1', 'u2']);
  await w.pass(7000);
  await w.round();
  await w.round();
  assert.deepEqual(w.asked, []);
});

test('a start goes on where the last one was, after a stop and after a kill', async () => {
  const w = await new World().start();
  for (let i = 0; i < 40; i++) {
    const half = await w.half(`u${i}`);
    if (i % 10 !== 0) await w.end(half, COMMIT);
  }
  await w.stop();
  await w.start();
  await w.pass(7000);
  await w.round();
  assert.deepEqual(w.asked, ['u0', 'u10', 'u20', 'u30']);
  await w.answer(0, COMMIT);
  await w.pass(4000);
  assert.equal(w.positions[0], 40);
  w.broker.context.offsets.persistIfChanged();
  w.die();
  await w.start();
  await w.pass(7000);
  await w.round();
  assert.deepEqual(w.asked, ['u10', 'u20', 'u30']);
  assert.equal((await w.delivered()).length, 37);
});

test('what is left for later is renewed when much has been scanned behind it', async () => {
  const w = await new World({ transactionOpBatchInterval: 100 }).start();
  const kept = await w.half('wait', { CHECK_IMMUNITY_TIME_IN_SECONDS: '36000' });
  for (let i = 0; i < 10_050; i++) {
    const half = await w.half(`u${i}`);
    void w.end(half, COMMIT);
  }
  await w.pass(7000);
  await w.round();
  assert.ok(w.positions[0] <= 0);
  await w.round();
  const last = (await w.all(TRANS_HALF_TOPIC)).at(-1)!;
  assert.equal(last.properties.get('TRAN_PREPARED_QUEUE_OFFSET'), '0');
  assert.equal(w.positions[0], 10_051);
  // The producer knows it by its first place; after a start, too.
  await w.stop();
  await w.start();
  assert.equal((await w.end(kept, COMMIT)).code, 0);
  await w.round();
  await w.round();
  assert.deepEqual(w.asked, []);
  assert.equal((await w.delivered()).filter((name) => name === 'wait').length, 1);
  assert.equal(w.broker.context.transactions.open, false);
});

test('a stop whose last sync fails saves no position of ends that are not on disk', async () => {
  const w = await new World({}, { flushIntervalCommitLog: 100_000, flushCommitLogThoroughInterval: 100_000 }).start();
  const { offsets, transactions } = w.broker.context;
  await w.end(await w.half('u1'), COMMIT);
  await w.pass(4000);
  await w.settled(transactions.check());
  w.fs.fail({ operation: 'sync', path: 'commitlog', times: Number.POSITIVE_INFINITY });
  await w.stop();
  assert.ok(offsets.query(TRANS_GROUP, TRANS_HALF_TOPIC, 0) <= 0);
});
