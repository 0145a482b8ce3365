// Pops over many lives of a broker: seeded histories, and the cases that RocketMQ's users ask for.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type PopReport, runPopHistory } from './pop-history.ts';
import { PopSimWorld } from './pop-world.ts';

const SEEDS = 100;
const CHUNK = 25;
const total: Partial<Record<keyof PopReport, number>> = {};

for (let from = 0; from < SEEDS; from += CHUNK) {
  test(`pops, seeds ${from} to ${from + CHUNK - 1}: all comes until it is acknowledged, and nothing after`, async () => {
    for (let seed = from; seed < from + CHUNK; seed++) {
      try {
        for (const [name, n] of Object.entries(await runPopHistory(seed))) {
          const key = name as keyof PopReport;
          total[key] = (total[key] ?? 0) + n;
        }
      } catch (error) {
        throw new Error(`seed ${seed}; replay: npm run sim -- --pop --seed ${seed}`, { cause: error });
      }
    }
  });
}

test('the histories of pops were hard enough', () => {
  const least = {
    acked: 50,
    revived: 15,
    changed: 1,
    again: 3,
    kills: 0.5,
    powerCuts: 0.7,
    cutStarts: 0.05,
    deletions: 0.4,
  };
  for (const [name, perSeed] of Object.entries(least)) {
    const n = total[name as keyof PopReport] ?? 0;
    assert.ok(n > perSeed * SEEDS, `${name}: ${n}`);
  }
});

test('one seed is one history of pops', async () => {
  const trace = async (): Promise<string[]> => {
    const lines: string[] = [];
    await runPopHistory(8, { trace: (line) => lines.push(line) });
    return lines;
  };
  assert.deepEqual(await trace(), await trace());
});

async function opened(seed: number, queues = 1): Promise<PopSimWorld> {
  const w = new PopSimWorld(seed, { reviveQueueNum: 2 }, { flushDiskType: 'SYNC_FLUSH' });
  await w.settle(w.start());
  w.context.topics.createInSend('T', 'TBW102', 'sim', queues, 0);
  w.context.topics.persistIfChanged();
  w.context.groups.findOrCreate('G');
  return w;
}

test('B65 a power cut at each of 30 points in the two seconds after a pop: all ten come again', async () => {
  const invisibleMs = 5000;
  for (let point = 0; point < 30; point++) {
    const w = await opened(point);
    const sent = Array.from({ length: 10 }, (_, i) => `m${i}`);
    for (const body of sent) assert.ok(await w.trySend(body, 'T', 0));
    // Some points lie within the pop itself.
    if (point < 8) w.fs.powerOffAfter(1 + point);
    const popped = await w.tryPop('G', 'T', 32, invisibleMs);
    if (popped !== undefined) assert.equal(popped.length, 10, `point ${point}`);
    if (!w.fs.isDown) await w.pass(Math.round((point * 2000) / 30), 10);
    w.die((fs) => fs.powerCut(w.random));
    await w.settle(w.start());
    const again = new Set<string>();
    for (let quietMs = 0; quietMs < 3 * invisibleMs; quietMs += 500) {
      const got = (await w.tryPop('G', 'T', 32, invisibleMs)) ?? [];
      for (const one of got) {
        again.add(one.body);
        const answer = await w.tryAck('G', one);
        assert.equal(answer?.code, 0, `point ${point}: ${answer?.remark}`);
      }
      if (got.length > 0) quietMs = 0;
      await w.pass(500, 100);
    }
    assert.deepEqual([...again].sort(), sent, `point ${point}`);
  }
});

test('B65 a check point that cannot be written: nobody gets the messages, and they come when it can', async () => {
  const w = await opened(1);
  for (let i = 0; i < 10; i++) await w.trySend(`m${i}`, 'T', 0);
  const fault = w.fs.fail({
    operation: 'write',
    path: '/commitlog/',
    times: Number.POSITIVE_INFINITY,
    code: 'DISK_FULL',
  });
  const refused = await w.tryPop('G', 'T', 32, 5000);
  assert.deepEqual(refused ?? [], []);
  await w.pass(3000, 100);
  fault.clear();
  const got = new Set<string>();
  for (let i = 0; i < 60; i++) {
    await w.pass(1000, 250);
    for (const one of (await w.tryPop('G', 'T', 32, 60_000)) ?? []) got.add(one.body);
  }
  assert.equal(got.size, 10);
});

test('a slow consumer, 10 messages a second in batches of 32 with 60 s each: none of 10,000 comes again', async () => {
  const w = await opened(3, 4);
  const seen = new Map<string, number>();
  let sent = 0;
  const send = async (count: number): Promise<void> => {
    for (let i = 0; i < count; i++) assert.ok(await w.trySend(`m${sent}`, 'T', sent++ % 4));
  };
  const many = 10_000;
  await send(64);
  while (seen.size < many) {
    const batch = (await w.tryPop('G', 'T', 32, 60_000)) ?? [];
    // A start now and then, in the middle of a batch.
    const stopAt =
      seen.size > 0 && Math.floor(seen.size / 3200) > Math.floor((seen.size - batch.length) / 3200) ? 16 : -1;
    for (const [i, one] of batch.entries()) {
      seen.set(one.body, (seen.get(one.body) ?? 0) + 1);
      await w.pass(100, 100);
      assert.equal((await w.tryAck('G', one))?.code, 0);
      if (i !== stopAt) continue;
      assert.ok(await w.stop());
      w.die(() => {});
      await w.settle(w.start());
    }
    if (sent < many) await send(Math.min(32, many - sent));
  }
  await w.pass(180_000, 1000);
  assert.deepEqual((await w.tryPop('G', 'T', 32, 60_000)) ?? [], []);
  for (const [body, count] of seen) assert.equal(count, 1, body);
  assert.equal(w.context.revive.counts.revived, 0);
});
