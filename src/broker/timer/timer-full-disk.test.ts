// A full disk is a status: a start on one goes on, and says so.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { numbered } from '../clock-world.test.support.ts';
import { TimerWorld } from './timer-world.test.support.ts';

test('a start on a full disk after a kill, with the wheel gone, goes on in memory and is saved when there is space', async () => {
  for (const gone of [['timerwheel'], ['timerlog'], ['timerwheel', 'timerlog']]) {
    const w = await new TimerWorld({}, { flushDiskType: 'SYNC_FLUSH' }).start();
    const now = w.clock.now();
    for (let i = 0; i < 30; i++) await w.at(now + 20_000 + 1000 * (i % 7), `m${i}`);
    await w.pass(3000);
    w.die((fs) => fs.kill(w.random));
    for (const name of gone) {
      if (name === 'timerlog') w.fs.removeTree(`/store/${name}`);
      else w.fs.remove(`/store/${name}`);
    }
    w.fs.fillAfter(0);
    await w.start();
    await w.pass(5000);
    w.fs.freeSpace();
    await w.pass(40_000);
    assert.deepEqual((await w.bodies()).sort(), numbered(30).sort(), gone.join());
    await w.stop();
    await w.start();
    await w.pass(3000);
    assert.equal((await w.bodies()).length, 30, 'none comes again');
    await w.stop();
  }
});

test('a kill on the full disk, before there is space again, loses nothing', async () => {
  const w = await new TimerWorld({}, { flushDiskType: 'SYNC_FLUSH' }).start();
  const now = w.clock.now();
  // Each in a page of the wheel of its own.
  for (let i = 0; i < 30; i++) await w.at(now + 30_000 + 200_000 * i, `m${i}`);
  await w.pass(3000);
  w.die((fs) => fs.kill(w.random));
  w.fs.remove('/store/timerwheel');
  // The log is whole up to its 20th unit.
  w.fs.open('/store/timerlog/00000000000000000000', 'write').writeSync(new Uint8Array(52), 0, 52, 19 * 52);
  w.fs.fillAfter(0);
  await w.start();
  assert.ok(w.broker.logger.texts('warn').some((text) => text.includes('is saved when there is space')));
  await w.pass(3000);
  w.die((fs) => fs.kill(w.random));
  w.fs.fillAfter(0);
  await w.start();
  await w.pass(3000);
  w.fs.freeSpace();
  await w.pass(6_000_000, 10_000);
  assert.deepEqual((await w.bodies()).sort(), numbered(30).sort());
  await w.stop();
});
