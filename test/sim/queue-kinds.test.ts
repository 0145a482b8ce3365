import assert from 'node:assert/strict';
import { test } from 'node:test';
import { runKindsHistory } from './kinds-history.ts';

const SEEDS = 40;

test(`${SEEDS} histories with all kinds of queues: they are always what the log says`, async () => {
  let puts = 0;
  for (let seed = 1; seed <= SEEDS; seed++) {
    try {
      puts += (await runKindsHistory(seed)).puts;
    } catch (error) {
      throw new Error(`seed ${seed}; replay: npm run sim -- --kinds --seed ${seed}`, { cause: error });
    }
  }
  assert.ok(puts > 5000, `${puts} puts`);
});

test('a torn address in the newest unit does not cut the ext units of those before it', async () => {
  await runKindsHistory(2027);
});

test('a queue file without any unit, of a power cut that cost the whole log, is as good as none', async () => {
  await runKindsHistory(71041);
});

test('a light queue loses the unit of a record whose properties a power cut has torn, for nothing else says that it was there', async () => {
  await runKindsHistory(4000233);
});
