import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SeededRandom } from '../../common/index.ts';
import { numbered } from '../clock-world.test.support.ts';
import { TimerWorld } from './timer-world.test.support.ts';

const ON = { timerWheelSnapshotFlush: true, timerWheelSnapshotIntervalMs: 3000 };

const snapshots = (w: TimerWorld): string[] => w.fs.list('/store').filter((name) => /^timerwheel\./.test(name));

/** Each of m0 to m(count - 1) has come, and none twice. */
async function assertAll(w: TimerWorld, count: number): Promise<void> {
  const bodies = await w.bodies();
  assert.deepEqual([...bodies].sort(), numbered(count).sort());
}

test('with timerWheelSnapshotFlush the wheel is saved whole by a name of its own, and the two newest are kept', async () => {
  const w = await new TimerWorld(ON).start();
  for (let i = 0; i < 10; i++) {
    await w.at(w.clock.now() + 60_000, `m${i}`);
    await w.pass(2000);
  }
  const names = snapshots(w);
  assert.equal(names.length, 2, names.join());
  assert.equal(w.fs.stat('/store/timerwheel'), undefined, 'nothing is written in place');
  const size = w.fs.stat(`/store/${names[0]}`)?.size;
  assert.equal(size, 38_707_200);
  w.die((fs) => fs.kill(w.random));
  await w.start();
  assert.deepEqual(w.broker.logger.texts('warn'), []);
  await w.pass(70_000);
  await assertAll(w, 10);
  await w.stop();
});

test('what came after the last snapshot is added from the timer log, and each switch of the setting finds all', async () => {
  const w = await new TimerWorld(ON, { flushDiskType: 'SYNC_FLUSH' }).start();
  const due = w.clock.now() + 90_000;
  for (let i = 0; i < 8; i++) await w.at(due + 1000 * (i % 3), `m${i}`);
  await w.pass(4200);
  assert.equal(snapshots(w).length, 1);
  for (let i = 8; i < 12; i++) await w.at(due + 1000 * (i % 3), `m${i}`);
  await w.pass(1500);
  assert.equal(snapshots(w).length, 1, 'the next one is not due yet');
  w.die((fs) => fs.powerCut(new SeededRandom(3)));
  w.config.timerWheelSnapshotFlush = false;
  await w.start();
  assert.equal(w.broker.context.timer.pendingAt(Math.floor((due - 1) / 1000) * 1000), 4);
  await w.at(due, 'm12');
  await w.pass(3000);
  assert.deepEqual(snapshots(w), [], 'the wheel itself is newer now');
  w.die((fs) => fs.kill(w.random));
  w.config.timerWheelSnapshotFlush = true;
  await w.start();
  await w.at(due, 'm13');
  await w.pass(5000);
  await w.stop();
  assert.ok(w.fs.stat('/store/timerwheel') !== undefined, 'a stop writes it for a start without the setting');
  w.config.timerWheelSnapshotFlush = false;
  await w.start();
  await w.pass(95_000);
  await assertAll(w, 14);
  await w.stop();
});

test('after 40 kills and power cuts with snapshots all that was synced arrives', async () => {
  for (let seed = 1; seed <= 40; seed++) {
    const random = new SeededRandom(seed);
    const w = new TimerWorld(
      { ...ON, timerWheelSnapshotIntervalMs: 700, timerFlushIntervalMs: 200, mappedFileSizeTimerLog: 52 * 5 + 20 },
      { flushDiskType: 'SYNC_FLUSH' },
      seed,
    );
    await w.start();
    const sends = 10 + random.int(25);
    for (let i = 0; i < sends; i++) {
      await w.at(w.clock.now() + 500 + random.int(9000), `m${i}`);
      await w.pass(random.int(250));
    }
    w.die((fs) => (seed % 2 === 0 ? fs.powerCut(random) : fs.kill(random)));
    await w.start();
    await w.pass(14_000);
    const seen = new Set(await w.bodies());
    for (let i = 0; i < sends; i++) assert.ok(seen.has(`m${i}`), `seed ${seed}: m${i} is lost`);
    await w.stop();
  }
});
