// The timer's files held against the log offline, as gantry store verify and repair do.

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';
import { SeededRandom } from '../../common/index.ts';
import { readWhole, writeWhole } from '../../io/index.ts';
import { defaultStoreConfig, repairStore, type StoreReport, verifyStore } from '../../store/index.ts';
import { TimerWorld } from './timer-world.test.support.ts';

const ROOT = '/store';
const LOG_BYTES = 52 * 20 + 20;
const DAY_MS = 86_400_000;

function look(w: TimerWorld): Promise<StoreReport> {
  return verifyStore(w.fs, ROOT, {
    maxHashSlotNum: 100,
    maxIndexNum: 400,
    messageDelayLevel: defaultStoreConfig(ROOT).messageDelayLevel,
    timerPrecisionMs: 1000,
  });
}

/** A timer that has delivered some, and has others waiting: in slots of one and of many, on the way, and orders to delete. */
async function waiting(config: ConstructorParameters<typeof TimerWorld>[0] = {}): Promise<TimerWorld> {
  const w = await new TimerWorld(config).start();
  const now = w.clock.now();
  for (let i = 0; i < 10; i++) await w.at(now + 2000, `done${i}`);
  await w.pass(5000);
  for (let i = 0; i < 70; i++) await w.at(now + 600_000 + 1000 * (i % 9), `m${i}`);
  for (let i = 0; i < 4; i++) await w.at(now + 2.5 * DAY_MS, `far${i}`);
  await w.send({ TIMER_DELIVER_MS: String(now + 600_000), TIMER_DEL_UNIQKEY: 'm0' }, 'order');
  await w.pass(2000);
  return w;
}

function contents(w: TimerWorld): string {
  const hash = createHash('sha256');
  const wheels = w.fs.list(ROOT).filter((name) => name.startsWith('timerwheel'));
  for (const path of [...timerFiles(w), ...wheels.map((name) => `${ROOT}/${name}`), `${ROOT}/config/timercheck`])
    hash.update(path).update(readWhole(w.fs, path) ?? '');
  return hash.digest('hex');
}

function timerFiles(w: TimerWorld): string[] {
  return [
    ...w.fs
      .list(`${ROOT}/timerlog`)
      .sort()
      .map((name) => `${ROOT}/timerlog/${name}`),
    `${ROOT}/timerwheel`,
  ];
}

function flip(w: TimerWorld, path: string, at: number, mask: number): void {
  const file = w.fs.open(path, 'write');
  const byte = new Uint8Array(1);
  file.readSync(byte, 0, 1, at);
  byte[0]! ^= mask;
  file.writeSync(byte, 0, 1, at);
  file.close();
}

test('after a stop, and after a kill, timer log, wheel and checkpoint agree with the log, and nothing is changed', async () => {
  for (const ends of ['stop', 'kill', 'power cut'] as const) {
    for (const timerWheelSnapshotFlush of [false, true]) {
      const w = await waiting({ timerWheelSnapshotFlush, timerWheelSnapshotIntervalMs: 1000 });
      if (ends === 'stop') await w.stop();
      else w.die((fs) => (ends === 'kill' ? fs.kill(w.random) : fs.powerCut(w.random)));
      const before = contents(w);
      const report = await look(w);
      assert.deepEqual([report.faults, report.notes], [[], []], `${ends} ${timerWheelSnapshotFlush}`);
      assert.ok(report.timerUnits >= 85, `${report.timerUnits}`);
      if (ends === 'stop') assert.equal(report.timerSlots, 10);
      assert.equal(contents(w), before);
      assert.equal(w.fs.openHandles, 0);
    }
  }
});

test('a stop within a slot, and deliveries behind it, leave nothing that looks damaged', async () => {
  const w = await waiting();
  await w.pass(601_000, 500);
  await w.stop();
  assert.deepEqual((await look(w)).faults, []);
  await w.start();
  for (let i = 0; i < 5; i++) await w.at(w.clock.now() + 60_000, `new${i}`);
  await w.pass(3000);
  await w.stop();
  assert.deepEqual((await look(w)).faults, []);
});

test('bits that have flipped in units of the timer log, slots and the checkpoint are named by file and byte', async () => {
  const w = await waiting();
  await w.stop();
  const random = new SeededRandom(9);
  const readMs = Buffer.from(readWhole(w.fs, `${ROOT}/config/timercheck`)!).readBigInt64BE(0);
  const spots: Array<{ path: string; unit: number; bytes: number }> = [];
  for (const path of timerFiles(w)) {
    const content = Buffer.from(readWhole(w.fs, path)!);
    if (path.endsWith('timerwheel')) {
      for (let at = 0; at < content.length; at += 32)
        if (content.readBigInt64BE(at) * 1000n >= readMs) spots.push({ path, unit: at, bytes: 24 });
    } else
      for (let at = 0; at + 52 <= LOG_BYTES && content.readInt32BE(at) === 52; at += 52)
        spots.push({ path, unit: at, bytes: 44 });
  }
  const check = { path: `${ROOT}/config/timercheck`, bytes: 8 };
  const whole = w.fs;
  for (let n = 0; n < 90; n++) {
    w.fs = whole.clone();
    const field = 8 * (n % 3);
    const spot = n < 12 ? { ...check, unit: field } : spots[random.int(spots.length)]!;
    const [at, mask] = [spot.unit + random.int(spot.bytes), 1 << random.int(8)];
    flip(w, spot.path, at, mask);
    const { faults } = await look(w);
    assert.ok(
      faults.some(({ file, byte }) => file === spot.path && byte >= spot.unit && byte <= at),
      `${spot.path} ${spot.unit} + ${at - spot.unit}, ${mask}: ${JSON.stringify(faults)}`,
    );
    assert.ok(faults.length <= 2, `${spot.path} ${at}: ${JSON.stringify(faults)}`);
  }
  w.fs = whole;
});

for (const name of ['timerlog', 'timerwheel']) {
  test(`a damaged ${name} is moved away, and after the next start each message that waits is delivered once`, async () => {
    const w = await waiting();
    await w.stop();
    flip(
      w,
      name === 'timerlog' ? timerFiles(w)[2]! : `${ROOT}/timerwheel`,
      name === 'timerlog' ? 52 * 3 + 9 : slotAt(w) + 22,
      1,
    );
    const { moved, left } = repairStore(w.fs, ROOT, await look(w));
    assert.equal(left.length, 0);
    assert.deepEqual(
      moved.map(({ from }) => from),
      name === 'timerlog' ? [`${ROOT}/timerwheel`, `${ROOT}/timerlog`] : [`${ROOT}/timerwheel`],
    );
    await w.start();
    await w.pass(3000);
    await w.stop();
    assert.deepEqual((await look(w)).faults, []);
    await w.start();
    await w.pass(620_000, 1000);
    const bodies = await w.bodies();
    const wanted = [...Array(10).keys()]
      .map((i) => `done${i}`)
      .concat([...Array(70).keys()].map((i) => `m${i}`).slice(1));
    assert.deepEqual([...bodies].sort(), wanted.sort());
    await w.stop();
  });
}

/** Place of a slot that waits. */
function slotAt(w: TimerWorld): number {
  const wheel = Buffer.from(readWhole(w.fs, `${ROOT}/timerwheel`)!);
  const readMs = Buffer.from(readWhole(w.fs, `${ROOT}/config/timercheck`)!).readBigInt64BE(0);
  for (let at = 0; at < wheel.length; at += 32) if (wheel.readBigInt64BE(at) * 1000n >= readMs) return at;
  throw new Error('no slot waits');
}

test('a message that waits and that no unit names is named, and a checkpoint that is wrong stays to be looked at', async () => {
  const w = await waiting();
  await w.stop();
  const check = Buffer.from(readWhole(w.fs, `${ROOT}/config/timercheck`)!);
  const flushPos = Number(check.readBigInt64BE(8));
  // As if the newest unit had never been written.
  const path = timerFiles(w).at(-2)!;
  const bytes = Uint8Array.from(readWhole(w.fs, path)!);
  bytes.fill(0, (flushPos % LOG_BYTES) - 52);
  writeWhole(w.fs, path, bytes, true);
  w.fs.remove(`${ROOT}/timerwheel`);
  check.writeBigInt64BE(BigInt(flushPos - 52), 8);
  writeWhole(w.fs, `${ROOT}/config/timercheck`, check, true);
  const { faults } = await look(w);
  assert.equal(faults.length, 1, JSON.stringify(faults));
  assert.match(faults[0]!.reason, /^no unit names message 84 of rmq_sys_wheel_timer, at \d+, which is due at /);
  check.writeBigInt64BE(BigInt(flushPos + 10 * LOG_BYTES), 8);
  writeWhole(w.fs, `${ROOT}/config/timercheck`, check, true);
  const repair = repairStore(w.fs, ROOT, await look(w));
  assert.deepEqual(
    repair.left.map(({ file, byte }) => [file, byte]),
    [[`${ROOT}/config/timercheck`, 8]],
  );
});
