import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Coalesced } from './coalesced.ts';

test('requests during a run cause exactly one more', async () => {
  let runs = 0;
  const gates: Array<() => void> = [];
  const work = new Coalesced(async () => {
    runs++;
    await new Promise<void>((resolve) => gates.push(resolve));
  });
  const first = work.run();
  const others = [work.run(), work.run(), work.run()];
  gates.shift()!();
  await new Promise(setImmediate);
  assert.equal(runs, 2);
  gates.shift()!();
  await Promise.all([first, ...others]);
  assert.equal(runs, 2);
});

test('a request in any later step of the microtask queue is never lost', async () => {
  for (let delay = 0; delay < 12; delay++) {
    let runs = 0;
    const work = new Coalesced(async () => {
      await undefined;
      runs++;
    });
    void work.run();
    for (let i = 0; i < delay; i++) await undefined;
    const before = runs;
    const started = work.run();
    await started;
    assert.ok(runs > before, `after ${delay} steps`);
  }
});
