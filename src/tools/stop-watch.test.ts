import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CollectingLogger } from '../common/index.ts';
import { type StopState, StopWatch } from './stop-watch.ts';

/** Ticks until it gives up, `most` at most. */
function ticks(watch: StopWatch, most: number, before: (tick: number) => void = () => {}): number {
  for (let tick = 1; tick <= most; tick++) {
    before(tick);
    if (!watch.tick()) return tick;
  }
  return -1;
}

test('a stop that gets on is waited for however long it takes, and is shown every 2 s', () => {
  const logger = new CollectingLogger();
  const state = { moved: 0, filesLeft: 20_000 };
  const watch = new StopWatch(() => state, logger);
  const ended = ticks(watch, 400, (tick) => {
    if (tick % 39 === 0) state.moved++;
    state.filesLeft -= 25;
  });
  assert.equal(ended, -1);
  const lines = logger.texts('info');
  assert.equal(lines.length, 50);
  assert.equal(lines[0], 'stopping: 19,800 files are still to be made durable');
  assert.deepEqual(logger.texts('error'), []);
});

test('a stop in which nothing has moved for 10 s is given up, with what is left', () => {
  const logger = new CollectingLogger();
  const state: StopState = { moved: 7, filesLeft: 3 };
  const watch = new StopWatch(() => state, logger);
  assert.equal(ticks(watch, 100), 40);
  assert.deepEqual(logger.texts('error'), [
    'not stopped: nothing has moved for 10 s, 3 files are still to be made durable; the next start will recover',
  ]);
});
