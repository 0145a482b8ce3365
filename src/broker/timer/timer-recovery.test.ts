import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SeededRandom, viewOf, writeI64 } from '../../common/index.ts';
import { readWhole, writeWhole } from '../../io/index.ts';
import { numbered } from '../clock-world.test.support.ts';
import { TIMER_TOPIC } from '../topic/topic-names.ts';
import { TimerWorld } from './timer-world.test.support.ts';

const CHECK = '/store/config/timercheck';

function setCheckpoint(w: TimerWorld, at: number, value: number): void {
  const page = Uint8Array.from(readWhole(w.fs, CHECK)!);
  writeI64(viewOf(page), at, value);
  writeWhole(w.fs, CHECK, page, true);
}

const counts = (bodies: readonly string[]): Map<string, number> => {
  const map = new Map<string, number>();
  for (const body of bodies) map.set(body, (map.get(body) ?? 0) + 1);
  return map;
};

test('B37: timer position ahead of its queue', async () => {
  const w = await new TimerWorld().start();
  const due = w.clock.now() + 20_000;
  for (let i = 0; i < 50; i++) await w.at(due, `m${i}`);
  await w.pass(3000);
  const [, ...all] = await w.drain(TIMER_TOPIC);
  const cut = all[29]!.physicalOffset;
  const { timer, store } = w.broker.context;
  await w.settle(timer.stop());
  assert.equal(await w.settle(store.truncateTo(cut)), true);
  await w.settle(store.close());
  await w.settle(timer.close());
  setCheckpoint(w, 16, 1000);
  await w.start();
  assert.equal(w.broker.context.store.maxOffsetInQueue(TIMER_TOPIC, 0), 30);
  const lowered = w.broker.logger.texts('warn').filter((line) => line.includes('1000 is beyond its queue'));
  assert.equal(lowered.length, 1);
  for (let i = 0; i < 5; i++) await w.at(w.clock.now() + 3000, `new${i}`);
  await w.pass(4100);
  assert.deepEqual(await w.bodies(), ['new0', 'new1', 'new2', 'new3', 'new4']);
  await w.pass(20_000);
  const seen = counts(await w.bodies());
  assert.equal(seen.size, 35);
  for (const [body, count] of seen) assert.equal(count, 1, body);
  await w.stop();
});

test('B38: filler at the end of a timer log file: recovery and the count of figures know it', async () => {
  for (const rest of [20, 16, 0]) {
    const w = await new TimerWorld({ mappedFileSizeTimerLog: 3 * 52 + rest }).start();
    for (let i = 0; i < 4; i++) await w.at(w.clock.now() + 5000, `m${i}`);
    await w.pass(2000);
    assert.equal(w.broker.context.timer.metrics.count('T'), 4);
    await w.broker.context.timer.reviseMetrics();
    assert.equal(w.broker.context.timer.metrics.count('T'), 4, `rest ${rest}`);
    w.die((fs) => fs.kill(w.random));
    await w.start();
    await w.broker.context.timer.reviseMetrics();
    assert.equal(w.broker.context.timer.metrics.count('T'), 4, `rest ${rest}, after the start`);
    await w.pass(5000);
    assert.deepEqual(await w.bodies(), ['m0', 'm1', 'm2', 'm3']);
    assert.deepEqual(w.broker.logger.texts('error'), []);
    await w.stop();
  }
});

test('wheel and log are rebuilt from the queue: nothing is lost, and nothing that was delivered comes again', async () => {
  for (const gone of [['timerwheel'], ['timerlog'], ['timerwheel', 'timerlog']]) {
    const w = await new TimerWorld({ timerRollWindowSlot: 20 }).start();
    const now = w.clock.now();
    for (let i = 0; i < 40; i++) await w.at(now + 1000 * (i + 1), `m${i}`);
    await w.send({ TIMER_DELIVER_MS: String(now + 30_000), TIMER_DEL_UNIQKEY: 'm29' }, 'order');
    await w.pass(15_500);
    await w.stop();
    for (const name of gone) w.fs.removeTree(`/store/${name}`);
    if (gone.includes('timerwheel') && w.fs.stat('/store/timerwheel') !== undefined) w.fs.remove('/store/timerwheel');
    await w.start();
    await w.pass(40_000);
    const bodies = await w.bodies();
    const seen = counts(bodies);
    for (const [body, count] of seen) assert.equal(count, 1, `${gone}: ${body}`);
    assert.equal(seen.size, 39, `${gone}`);
    assert.ok(!seen.has('m29'));
    await w.stop();
  }
});

test('a wheel of a wrong length and a log with a damaged unit are mended', async () => {
  const w = await new TimerWorld({ mappedFileSizeTimerLog: 52 * 10 + 20 }).start();
  const now = w.clock.now();
  for (let i = 0; i < 35; i++) await w.at(now + 5000 + 1000 * (i % 5), `m${i}`);
  await w.pass(2000);
  await w.stop();
  const path = '/store/timerlog/00000000000000001080';
  const bytes = Uint8Array.from(readWhole(w.fs, path)!);
  bytes.fill(0x55, 52 * 3, 52 * 3 + 20);
  writeWhole(w.fs, path, bytes, true);
  writeWhole(w.fs, '/store/timerwheel', new Uint8Array(100), true);
  await w.start();
  await w.pass(12_000);
  const seen = counts(await w.bodies());
  assert.equal(seen.size, 35);
  for (const [body, count] of seen) assert.equal(count, 1, body);
  await w.stop();
});

test('a damaged unit far behind the end: what it held is taken from the queue again', async () => {
  for (const wheelGone of [true, false]) {
    const w = await new TimerWorld({ mappedFileSizeTimerLog: 52 * 5 + 20 }).start();
    const now = w.clock.now();
    for (let i = 0; i < 60; i++) await w.at(now + 5000 + 1000 * (i % 5), `m${i}`);
    await w.pass(2000);
    await w.stop();
    const path = '/store/timerlog/00000000000000000280';
    const bytes = Uint8Array.from(readWhole(w.fs, path)!);
    bytes.fill(0x55, 52, 72);
    writeWhole(w.fs, path, bytes, true);
    if (wheelGone) w.fs.remove('/store/timerwheel');
    await w.start();
    await w.pass(12_000);
    const seen = counts(await w.bodies());
    // A wheel that fits is not doubted: the chain is then found broken, and all but the damaged unit's message arrive.
    assert.equal(seen.size, wheelGone ? 60 : 59);
    for (const [body, count] of seen) assert.equal(count, 1, body);
    await w.stop();
  }
});

test('B20: file size setting differs from the files on disk: the start refuses a timer log of another length', async () => {
  const w = await new TimerWorld().start();
  await w.at(w.clock.now() + 5000, 'm');
  await w.pass(2000);
  await w.stop();
  w.config.mappedFileSizeTimerLog = 4096;
  await assert.rejects(w.start(), (error: Error) =>
    /mappedFileSizeTimerLog is 4096; set it to 1060/.test(error.message),
  );
  w.config.mappedFileSizeTimerLog = 1060;
  await w.start();
  await w.pass(5000);
  assert.deepEqual(await w.bodies(), ['m']);
  await w.stop();
});

test('B40: lost between two flushes: after 60 kills and power cuts all that was synced arrives, none early', async () => {
  for (let seed = 1; seed <= 60; seed++) {
    const random = new SeededRandom(seed);
    const w = new TimerWorld(
      { timerFlushIntervalMs: 200, mappedFileSizeTimerLog: 52 * 5 + 20, timerRollWindowSlot: 8 },
      { flushCommitLogThoroughInterval: 1500, flushIntervalCommitLog: 100 },
      seed,
    );
    await w.start();
    const sends = 10 + random.int(30);
    for (let i = 0; i < sends; i++) {
      await w.at(w.clock.now() + 500 + random.int(9000), `m${i}`);
      await w.pass(random.int(250));
    }
    const { flushed } = w.broker.context.store.watermarks;
    const power = seed % 2 === 0;
    w.die((fs) => (power ? fs.powerCut(random) : fs.kill(random)));
    await w.start();
    const waiting = (await w.drain(TIMER_TOPIC)).filter(
      (one) => !power || one.physicalOffset + one.storeSize <= flushed,
    );
    await w.pass(14_000);
    const messages = await w.drain();
    const seen = counts(messages.map((message) => Buffer.from(message.body).toString()));
    for (const message of waiting) {
      const body = Buffer.from(message.body).toString();
      assert.ok(seen.has(body), `seed ${seed}: ${body} is lost`);
    }
    for (const [body, count] of seen) assert.ok(count <= 2, `seed ${seed}: ${body} came ${count} times`);
    for (const message of messages) {
      const target = Number(message.properties.get('TIMER_DELIVER_MS'));
      assert.ok(message.storeTimestamp >= target, `seed ${seed}: early`);
    }
    const again = messages.length;
    await w.stop();
    await w.start();
    await w.pass(2000);
    assert.equal((await w.drain()).length, again, `seed ${seed}: an orderly stop repeats none`);
    await w.stop();
  }
});

test('the first file of the log, cut short by a power cut before any of it counted, does not refuse the start', async () => {
  const w = await new TimerWorld().start();
  const due = w.clock.now() + 3000;
  for (let i = 0; i < 6; i++) await w.at(due, `m${i}`);
  w.die((fs) => {
    fs.kill(w.random);
    fs.makeDirectory('/store/timerlog');
    writeWhole(fs, '/store/timerlog/00000000000000000000', new Uint8Array(208).fill(7), true);
  });
  await w.start();
  await w.pass(2000);
  w.die((fs) => fs.kill(w.random));
  await w.start();
  await w.pass(6000);
  assert.deepEqual(await w.bodies(), numbered(6));
  await w.stop();
});

test('after a stop longer than the wheel has time for, everything that waited arrives', async () => {
  const w = await new TimerWorld().start();
  const now = w.clock.now();
  for (let i = 0; i < 20; i++) await w.at(now + 3_600_000 * (i + 1), `m${i}`);
  await w.pass(1000);
  await w.stop();
  w.clock.advance(30 * 86_400_000);
  await w.start();
  await w.at(w.clock.now() + 2000, 'new');
  await w.turns(500);
  await w.pass(4000);
  assert.deepEqual(await w.bodies(), [...numbered(20), 'new']);
  await w.stop();
});
