import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeClock } from '../common/index.ts';
import { bytesInTurns, forEachInTurns, InTurns, mapPieces } from './in-turns.ts';

function* steps(count: number, done: number[], label = 0): Generator<undefined, void> {
  for (let i = 0; i < count; i++) {
    done.push(label);
    yield;
  }
}

test('what is short is done at once, what is long in turns, one behind the other', () => {
  const clock = new FakeClock(0, { manual: true });
  const works = new InTurns(clock);
  const done: number[] = [];
  works.run(steps(1000, done));
  assert.deepEqual([done.length, works.isBusy], [1000, false]);
  works.run(steps(5000, done, 1));
  works.run(steps(10, done, 2));
  const counts = [done.length];
  while (clock.runSoon()) counts.push(done.length);
  const turns = counts.map((count, i) => count - (counts[i - 1] ?? 1000));
  assert.ok(turns.length >= 3 && Math.max(...turns) <= 2000, turns.join());
  assert.deepEqual([done.length, done[5999], done[6000]], [6010, 1, 2]);
  assert.equal(works.isBusy, false);
});

test('a stop leaves what is not done, and what comes behind it begins at once', () => {
  const clock = new FakeClock(0, { manual: true });
  const works = new InTurns(clock);
  const done: number[] = [];
  works.run(steps(5000, done, 1));
  works.stop();
  works.run(steps(10, done, 2));
  while (clock.runSoon());
  assert.deepEqual([done.filter((label) => label === 1).length < 5000, done.at(-1)], [true, 2]);
  assert.equal(done.filter((label) => label === 2).length, 10);
});

test('each item is looked at, with a turn for others after so many', async () => {
  const clock = new FakeClock(0, { manual: true });
  let count = 0;
  let isOver = false;
  const work = forEachInTurns(clock, Array(7000).keys(), () => count++).then(() => {
    isOver = true;
  });
  const turns: number[] = [];
  for (let before = 0; !isOver && turns.length < 10; before = count) {
    turns.push(count - before);
    clock.runSoon();
    await Promise.resolve();
    await Promise.resolve();
  }
  await work;
  assert.deepEqual([count, Math.max(...turns)], [7000, 2000]);
});

test('a long text is the same in pieces, and its longest piece is short', async () => {
  const clock = new FakeClock(0, { manual: true });
  let isOver = false;
  const map = new Map(Array.from({ length: 50_000 }, (_, i) => [`key-${i}`, { ä: i }]));
  function* entries(): Generator<readonly [string, unknown] | undefined> {
    for (const entry of map) {
      yield undefined;
      yield entry;
    }
  }
  const work = bytesInTurns(clock, mapPieces(entries())).finally(() => {
    isOver = true;
  });
  let turns = 0;
  while (!isOver) {
    if (clock.runSoon()) turns++;
    await Promise.resolve();
  }
  assert.deepEqual(JSON.parse((await work).toString()), Object.fromEntries(map));
  assert.ok(turns >= 3, 'a piece has 256 KiB at most');
  assert.equal((await bytesInTurns(clock, mapPieces([]))).toString(), '{}');
});
