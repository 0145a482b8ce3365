import assert from 'node:assert/strict';
import { test } from 'node:test';
import { systemClock } from './clock.ts';

/** Node's timers while `work` runs: the delay of each that was started, and how to let the last one fire. */
function withTimers(work: (delays: number[], fire: () => void) => void): void {
  const { clearInterval, clearTimeout, setInterval, setTimeout } = globalThis;
  const delays: number[] = [];
  let last: (() => void) | undefined;
  const start = (fn: () => void, delay: number): unknown => {
    delays.push(delay);
    last = fn;
    return { unref: () => {} };
  };
  const stop = (): void => {
    last = undefined;
  };
  Object.assign(globalThis, { setTimeout: start, setInterval: start, clearTimeout: stop, clearInterval: stop });
  try {
    work(delays, () => last?.());
  } finally {
    Object.assign(globalThis, { clearInterval, clearTimeout, setInterval, setTimeout });
  }
}

const MONTH_MS = 30 * 24 * 3600 * 1000;
const MOST = 2 ** 31 - 1;

test('what is due in a month does not run at once: Node counts 24.8 days', () => {
  withTimers((delays, fire) => {
    let runs = 0;
    systemClock.after(MONTH_MS, () => {
      runs++;
    });
    fire();
    assert.equal(runs, 0);
    fire();
    assert.equal(runs, 1);
    assert.deepEqual(delays, [MOST, MONTH_MS - MOST]);
    const timer = systemClock.after(MONTH_MS, () => {
      runs++;
    });
    fire();
    timer.cancel();
    fire();
    assert.equal(runs, 1);
  });
});

test('what runs once a month does not run all the time', () => {
  withTimers((delays, fire) => {
    let runs = 0;
    const timer = systemClock.every(MONTH_MS, () => {
      runs++;
    });
    for (let i = 0; i < 5; i++) fire();
    assert.equal(runs, 2);
    assert.ok(delays.every((delay) => delay <= MOST));
    timer.cancel();
    fire();
    assert.equal(runs, 2);
  });
});
