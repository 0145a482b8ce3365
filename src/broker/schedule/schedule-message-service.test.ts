import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { SeededRandom } from '../../common/index.ts';
import { readWhole, writeWhole } from '../../io/index.ts';
import { parseJson } from '../../remoting/index.ts';
import { type MessageStoreConfig, parseDelayLevels } from '../../store/index.ts';
import type { BrokerConfig } from '../broker-config.ts';
import { messageWith } from '../broker-fixture.test.support.ts';
import { ClockWorld, numbered } from '../clock-world.test.support.ts';
import { applyDelayLevel } from '../internal-put.ts';
import { SCHEDULE_TOPIC, TRANS_HALF_TOPIC } from '../topic/topic-names.ts';

const FILE = '/store/config/delayOffset.json';
/** Longer than the store takes to see that the disk is full. */
const LEVEL_30S = 4;

/** A broker whose time is moved by hand, with delayed messages in it. */
class World extends ClockWorld {
  constructor(store: Partial<MessageStoreConfig> = {}, config: Partial<BrokerConfig> = {}, seed?: number) {
    super(config, store, seed);
  }

  /** Settings that are given count from now on. */
  async start(store: Partial<MessageStoreConfig> = {}): Promise<this> {
    Object.assign(this.store, store);
    await this.open();
    this.broker.context.schedule.offsets.load();
    this.broker.context.schedule.start();
    await this.pass(0);
    return this;
  }

  /** Orderly stop. */
  async stop(): Promise<void> {
    const { schedule, store } = this.broker.context;
    schedule.stop();
    await this.settle(store.close());
    schedule.close();
  }

  async send(level: number, body: string, properties: Record<string, string> = {}): Promise<void> {
    const message = messageWith({
      flag: 7,
      reconsumeTimes: 2,
      body: Buffer.from(body),
      properties: new Map(Object.entries({ DELAY: String(level), UNIQ_KEY: body, ...properties })),
    });
    applyDelayLevel(message, this.broker.context.schedule.maxDelayLevel);
    await this.broker.put(message);
  }

  saved(): Record<string, number> {
    return (parseJson(readWhole(this.fs, FILE)!) as { offsetTable: Record<string, number> }).offsetTable;
  }

  setSaved(offsetTable: string): void {
    writeWhole(
      this.fs,
      FILE,
      `{"dataVersion":{"counter":1,"stateVersion":0,"timestamp":1},"offsetTable":${offsetTable}}`,
      true,
    );
  }
}

test('a message with a level arrives in its topic when its time has come, not before', async () => {
  const w = await new World().start();
  await w.send(3, 'ten seconds', { KEYS: 'k' });
  await w.send(1, 'one second');
  await w.pass(900);
  assert.deepEqual(await w.bodies(), []);
  await w.pass(150);
  assert.deepEqual(await w.bodies(), ['one second']);
  await w.pass(8900);
  assert.deepEqual(await w.bodies(), ['one second']);
  await w.pass(100);
  const [, message] = await w.drain();
  assert.equal(Buffer.from(message!.body).toString(), 'ten seconds');
  assert.deepEqual(
    [message!.queueId, message!.flag, message!.bornTimestamp, message!.reconsumeTimes],
    [0, 7, 1, 2],
    'all but place and store time stay',
  );
  assert.deepEqual(Object.fromEntries(message!.properties), {
    DELAY: '3',
    KEYS: 'k',
    REAL_QID: '0',
    REAL_TOPIC: 'T',
    UNIQ_KEY: 'ten seconds',
  });
  await w.stop();
  assert.deepEqual(w.saved(), { 1: 1, 3: 1 });
});

test('a level above the last one is taken as the last one', async () => {
  const w = await new World({ messageDelayLevel: '1s 5s' }).start();
  await w.send(30, 'x');
  assert.equal(w.broker.context.store.maxOffsetInQueue(SCHEDULE_TOPIC, 1, false), 1);
  await w.pass(5100);
  assert.deepEqual(await w.bodies(), ['x']);
  await w.stop();
});

test('a level whose first message waits is in the file with offset 0, as a Java broker writes it', async () => {
  const w = await new World().start();
  await w.send(18, 'two hours');
  await w.pass(1000);
  await w.stop();
  assert.deepEqual(w.saved(), { 18: 0 });
});

test('poisoned delayed messages are set aside, each named and counted, and stop nothing', async () => {
  const w = await new World().start();
  const poisoned: Array<Record<string, string>> = [
    {},
    { REAL_TOPIC: '../../x', REAL_QID: '0' },
    { REAL_TOPIC: '', REAL_QID: '0' },
    { REAL_TOPIC: 'T', REAL_QID: '-1' },
    { REAL_TOPIC: 'T', REAL_QID: '1e1' },
    { REAL_TOPIC: 'T', REAL_QID: '99999999999' },
    { REAL_TOPIC: 'T' },
    { REAL_TOPIC: TRANS_HALF_TOPIC, REAL_QID: '0' },
  ];
  for (const fields of poisoned) {
    const properties = new Map(Object.entries({ DELAY: '1', UNIQ_KEY: 'U', ...fields }));
    await w.broker.put(messageWith({ topic: SCHEDULE_TOPIC, properties }));
    await w.send(1, 'behind');
  }
  await w.pass(1500);
  assert.equal((await w.bodies()).length, poisoned.length);
  assert.equal(w.broker.context.schedule.setAside, poisoned.length);
  assert.equal(w.broker.logger.texts('error').filter((line) => line.includes('is set aside')).length, poisoned.length);
  await w.stop();
  assert.deepEqual(w.saved(), { 1: 2 * poisoned.length });
});

test('while the store takes nothing, due messages wait and are delivered afterwards, once', async () => {
  const w = await new World().start();
  for (const body of numbered(5)) await w.send(LEVEL_30S, body);
  w.fs.reportedUsedFraction = 0.99;
  await w.pass(31_000);
  assert.match(w.broker.context.store.unwritableReason ?? '', /disk is full/);
  assert.deepEqual(await w.bodies(), []);
  await w.send(1, 'refused');
  w.fs.reportedUsedFraction = 0.1;
  await w.pass(11_000);
  assert.deepEqual(await w.bodies(), numbered(5));
  await w.stop();
});

test('B41: saved delay offset outside its queue: above its maximum', async () => {
  const w = await new World().start();
  for (let i = 0; i < 5; i++) await w.send(3, `old${i}`);
  await w.send(2, 'other level');
  await w.pass(11_000);
  await w.stop();
  w.setSaved('{2:1,3:600000}');
  await w.start();
  assert.deepEqual(w.saved(), { 2: 1, 3: 5 });
  const lines = w.broker.logger.texts('warn').filter((line) => line.includes('delay level'));
  assert.equal(lines.length, 1);
  assert.match(lines[0]!, /delay level 3: position 600000 is outside its queue, 0 to 5; it continues at 5/);
  await w.send(3, 'new0');
  await w.send(3, 'new1');
  await w.pass(15_000);
  assert.deepEqual((await w.bodies()).slice(-2), ['new0', 'new1']);
  assert.equal((await w.bodies()).length, 8);
  await w.stop();
});

test('B41: saved delay offset outside its queue: below its minimum', async () => {
  const w = await new World({ mappedFileSizeCommitLog: 2000, fileReservedTime: 0, deleteWhen: '' }).start();
  for (let i = 0; i < 5; i++) await w.send(3, `old${i} ${'x'.repeat(600)}`);
  await w.pass(25_000);
  w.broker.context.store.retention.request();
  await w.pass(3000);
  const min = w.broker.context.store.minOffsetInQueue(SCHEDULE_TOPIC, 2);
  assert.ok(min > 0 && min <= 5, `minimum ${min}`);
  await w.stop();
  w.setSaved('{3:0}');
  await w.start();
  assert.deepEqual(w.saved(), { 3: min });
  const lines = w.broker.logger.texts('warn').filter((line) => line.includes('is outside its queue'));
  assert.equal(lines.length, 1);
  await w.send(3, 'new0');
  await w.send(3, 'new1');
  await w.pass(15_000);
  assert.deepEqual((await w.bodies()).slice(-2), ['new0', 'new1']);
  await w.stop();
});

for (const [name, levels, afterMs] of [
  ['longer', '1s 20s', 5000],
  ['shorter', '1s 2s', 500],
] as const) {
  test(`a level that is ${name} since the restart: what waits is due at its old time, or at once if that is too far`, async () => {
    const w = await new World({ messageDelayLevel: '1s 5s' }).start();
    await w.send(2, 'waits');
    await w.stop();
    await w.start({ messageDelayLevel: levels });
    const stored = (await w.drain(SCHEDULE_TOPIC, 1))[0]!.storeTimestamp;
    while ((await w.bodies()).length === 0) await w.pass(100);
    const [message] = await w.drain();
    const waited = message!.storeTimestamp - stored;
    assert.ok(waited >= (name === 'longer' ? 5000 : 0) && waited <= afterMs + 700, `after ${waited} ms`);
    await w.stop();
  });
}

test('a level that is gone keeps its messages, each start says so, and it delivers when it is back', async () => {
  const w = await new World({ messageDelayLevel: '1s 2s 3s' }).start();
  await w.send(3, 'a');
  await w.send(3, 'b');
  await w.stop();
  await w.start({ messageDelayLevel: '1s 2s' });
  assert.match(
    w.broker.logger.texts('warn').join('\n'),
    /messageDelayLevel has 2 levels: 2 messages wait in level 3 until it is back/,
  );
  await w.send(3, 'the last level that there is');
  await w.pass(10_000);
  assert.deepEqual(await w.bodies(), ['the last level that there is']);
  await w.stop();
  await w.start({ messageDelayLevel: `1s 2s 3s ${'4s '.repeat(20).trim()}` });
  await w.send(23, 'an added level');
  await w.pass(5000);
  assert.deepEqual((await w.bodies()).sort(), ['a', 'an added level', 'b', 'the last level that there is']);
  assert.equal(w.broker.context.schedule.setAside, 0);
  await w.stop();
});

for (const [name, asynchronous, least, most] of [
  ['a thousand', false, 1024, 1056],
  ['as many as the limit', true, 400, 432],
] as const) {
  test(`while a sync lasts, a level delivers ${name}, in order, and its position stays`, async () => {
    const config = { enableScheduleAsyncDeliver: asynchronous, scheduleAsyncDeliverMaxPendingLimit: 400 };
    const w = await new World({ flushDiskType: 'SYNC_FLUSH' }, config).start();
    const sent: Array<Promise<void>> = [];
    for (let i = 0; i < 1400; i++) sent.push(w.send(1, `m${i}`));
    await w.pass(50);
    await Promise.all(sent);
    const hold = w.fs.hold('sync', 'commitlog');
    await w.pass(1500);
    const { store } = w.broker.context;
    const delivered = store.maxOffsetInQueue('T', 0, false);
    assert.ok(delivered > least && delivered <= most, `${delivered} are delivered`);
    assert.deepEqual(
      [...w.broker.context.schedule.progress()].map(({ offset }) => offset),
      [0],
    );
    hold.end();
    await w.pass(1500);
    assert.deepEqual(await w.bodies(), numbered(1400));
    assert.deepEqual(
      [...w.broker.context.schedule.progress()].map(({ offset }) => offset),
      [1400],
    );
    await w.stop();
    await w.start();
    await w.pass(2000);
    assert.equal((await w.bodies()).length, 1400, 'an orderly stop repeats none');
    await w.stop();
  });
}

test('with asynchronous delivery, the waits between tries grow after the set number of them', async () => {
  const tries: number[] = [];
  for (const enableScheduleAsyncDeliver of [false, true]) {
    const w = await new World({}, { enableScheduleAsyncDeliver }).start();
    await w.send(LEVEL_30S, 'm');
    w.fs.reportedUsedFraction = 0.99;
    await w.pass(25_000);
    const { store } = w.broker.context;
    const put = store.put.bind(store);
    let count = 0;
    store.put = (request, result) => {
      count++;
      put(request, result);
    };
    await w.pass(15_000);
    tries.push(count);
    w.fs.reportedUsedFraction = 0.1;
    await w.pass(70_000);
    assert.deepEqual(await w.bodies(), ['m']);
    await w.stop();
  }
  const [even, growing] = tries;
  assert.ok(growing! > 5 && growing! * 4 < even!, tries.join());
});

test('a damaged delayed message is set aside, named and counted, and those behind it are delivered', async () => {
  const w = await new World().start();
  const offsets: number[] = [];
  for (let i = 0; i < 6; i++) {
    offsets.push(w.broker.context.store.watermarks.wrote);
    await w.send(2, `m${i} ${'x'.repeat(100)}`);
  }
  await w.stop();
  const log = '/store/commitlog/00000000000000000000';
  const bytes = readWhole(w.fs, log)!;
  bytes[offsets[2]! + 100]! ^= 0x10;
  writeWhole(w.fs, log, bytes, true);
  await w.start({ gantryDamagedRecord: 'skip' });
  await w.pass(8000);
  assert.deepEqual(
    (await w.bodies()).map((body) => body.slice(0, 2)),
    ['m0', 'm1', 'm3', 'm4', 'm5'],
  );
  assert.equal(w.broker.context.schedule.setAside, 1);
  assert.match(w.broker.logger.texts('error').join('\n'), /delay level 2: message .* at 2 is set aside/);
  await w.stop();
  assert.deepEqual(w.saved(), { 2: 6 });
});

for (const [name, store, config] of [
  ['', {}, {}],
  [' with SYNC_FLUSH', { flushDiskType: 'SYNC_FLUSH' }, {}],
  [' with asynchronous delivery', { flushDiskType: 'SYNC_FLUSH' }, { enableScheduleAsyncDeliver: true }],
] as ReadonlyArray<[string, Partial<MessageStoreConfig>, Partial<BrokerConfig>]>) {
  test(`B43: delayed messages delivered again after restart: an orderly stop${name} repeats none`, async () => {
    const w = await new World(store, config).start();
    const sent: Array<Promise<void>> = [];
    for (let i = 0; i < 2000; i++) sent.push(w.send(1, `m${i}`));
    await w.pass(50);
    await Promise.all(sent);
    w.clock.advance(950);
    while (w.broker.context.store.maxOffsetInQueue('T', 0) < 1000) {
      await setImmediate();
      w.clock.advance(1);
    }
    await w.stop();
    await w.start();
    await w.pass(3000);
    const bodies = await w.bodies();
    assert.deepEqual(bodies, numbered(2000), 'each once, in order');
    await w.stop();
  });
}

test('a disk that fails in the middle of deliveries loses none of them, and the position stays before them', async () => {
  const w = await new World({ flushDiskType: 'SYNC_FLUSH' }, { enableScheduleAsyncDeliver: true }).start();
  const sent = numbered(100).map((body) => w.send(1, body));
  await w.pass(50);
  await Promise.all(sent);
  w.fs.fail({ operation: 'sync', path: 'commitlog', times: Number.POSITIVE_INFINITY });
  await w.pass(3000);
  assert.deepEqual(
    [...w.broker.context.schedule.progress()].map(({ offset }) => offset),
    [0],
  );
  w.die((fs) => fs.powerCut(w.random));
  await w.start();
  await w.pass(3000);
  const bodies = await w.bodies();
  assert.equal(new Set(bodies).size, 100);
  assert.ok(bodies.length <= 200);
  await w.stop();
});

test('with extended queue units the time of a message is store time and level', async () => {
  const w = await new World({ enableConsumeQueueExt: true }).start();
  await w.send(2, 'ext');
  await w.pass(4900);
  assert.deepEqual(await w.bodies(), []);
  await w.pass(1000);
  assert.deepEqual(await w.bodies(), ['ext']);
  await w.stop();
});

test('B43: delayed messages delivered again after restart: a kill repeats no more than the last save interval', async () => {
  const w = await new World().start();
  // 100 a second, so that some 1,000 fall due between two saves.
  for (let i = 0; i < 20; i++) {
    for (let n = 0; n < 100; n++) await w.send(1, `m${i}-${n}`);
    await w.pass(1000);
  }
  const delivered = await w.bodies();
  w.die((fs) => fs.kill(w.random));
  await w.start();
  await w.pass(5000);
  const bodies = await w.bodies();
  assert.equal(new Set(bodies).size, 2000, 'none is missing');
  assert.ok(bodies.length - 2000 <= 1100, `${bodies.length - 2000} repeated of ${delivered.length}`);
  await w.stop();
});

test('what the file says is never ahead of what is synced: no synced message is lost by 60 power cuts', async () => {
  for (let seed = 1; seed <= 60; seed++) {
    const w = new World({ flushCommitLogThoroughInterval: 3000 }, { flushDelayOffsetInterval: 300 }, seed);
    await w.start();
    const sends = 5 + w.random.int(30);
    for (let i = 0; i < sends; i++) {
      await w.send(1, `m${i}`);
      await w.pass(50 + w.random.int(300));
    }
    const { flushed } = w.broker.context.store.watermarks;
    const random = new SeededRandom(seed);
    w.die((fs) => fs.powerCut(random));
    await w.start();
    const waiting = (await w.drain(SCHEDULE_TOPIC)).filter((one) => one.physicalOffset + one.storeSize <= flushed);
    await w.pass(3000);
    const bodies = new Set(await w.bodies());
    for (const message of waiting) {
      const body = Buffer.from(message.body).toString();
      assert.ok(bodies.has(body), `seed ${seed}: ${body} was waiting and is lost`);
    }
    await w.stop();
  }
});

test('delay levels are numbers with s, m, h or d', () => {
  assert.deepEqual(parseDelayLevels(' 1s 5m  2h 1d '), [1000, 300_000, 7_200_000, 86_400_000]);
  for (const text of ['', '1', 's', '1s,5s', '1 s'])
    assert.throws(() => parseDelayLevels(text), { code: 'CONFIG_VALUE' });
});

test('a stop whose last sync fails saves no position of deliveries that are not on disk', async () => {
  const w = await new World({ flushIntervalCommitLog: 100_000, flushCommitLogThoroughInterval: 100_000 }).start();
  for (let i = 0; i < 5; i++) await w.send(2, `m${i}`);
  await w.stop();
  await w.start();
  await w.pass(6000);
  assert.equal((await w.bodies()).length, 5);
  w.fs.fail({ operation: 'sync', path: 'commitlog', times: Number.POSITIVE_INFINITY });
  await w.stop();
  assert.equal(w.saved()[2] ?? 0, 0);
});

test('a clock that is set ahead makes no level wait for the old time', async () => {
  const w = await new World().start();
  await w.send(18, 'two hours');
  await w.pass(2000);
  w.clock.jump(7_200_000);
  await w.pass(1000);
  assert.deepEqual(await w.bodies(), ['two hours']);
  await w.stop();
});

test('retention keeps a delayed message until its delivery is on disk', async () => {
  const w = await new World({ flushIntervalCommitLog: 100_000, flushCommitLogThoroughInterval: 100_000 }).start();
  await w.send(1, 'm');
  await w.pass(2000);
  assert.deepEqual(await w.bodies(), ['m']);
  const removal = { moves: [{ topic: SCHEDULE_TOPIC, queueId: 0, from: 0, to: 1 }], start: 0, end: 1, forced: false };
  assert.equal(w.broker.context.schedule.needed(removal as never), 1);
  await w.stop();
});

test('a level of more days than a timer of the runtime has bits sleeps', async () => {
  const w = await new World({ messageDelayLevel: '30d' }).start();
  let longest = 0;
  const after = w.clock.after.bind(w.clock);
  w.clock.after = (ms, fn) => {
    longest = Math.max(longest, ms);
    return after(ms, fn);
  };
  await w.send(1, 'a month');
  await w.pass(2000);
  assert.ok(longest > 3_600_000 && longest < 2 ** 31, `${longest}`);
  await w.stop();
});

test('enableScheduleMessageStats: what is delivered is counted, in its topic and in the schedule topic’s queue', async () => {
  for (const enableScheduleMessageStats of [true, false]) {
    const w = await new World({}, { enableScheduleMessageStats }).start();
    for (let i = 0; i < 3; i++) await w.send(1, `m${i}`);
    await w.pass(2000);
    assert.equal((await w.drain()).length, 3);
    const { stats, traffic } = w.broker.context;
    const expected = enableScheduleMessageStats ? 3 : 0;
    assert.equal(stats.putMessages, expected);
    assert.equal(traffic.puts.of('T').messages, expected);
    assert.equal(traffic.gets.of(`${SCHEDULE_TOPIC}@SCHEDULE_CONSUMER`).messages, expected);
    await w.stop();
  }
});
