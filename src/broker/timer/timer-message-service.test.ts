import assert from 'node:assert/strict';
import { test } from 'node:test';
import { PutMessageStatus } from '../../store/index.ts';
import { messageWith } from '../broker-fixture.test.support.ts';
import { numbered } from '../clock-world.test.support.ts';
import { TIMER_TOPIC } from '../topic/topic-names.ts';
import { TimerWorld } from './timer-world.test.support.ts';

test('a timer message arrives in its topic when its time has come, with the properties that RocketMQ leaves', async () => {
  const w = await new TimerWorld().start();
  const now = w.clock.now();
  await w.send({ TIMER_DELAY_SEC: '5', KEYS: 'k' }, 'five seconds');
  await w.send({ TIMER_DELAY_MS: '2500' }, 'between');
  await w.pass(2450);
  assert.deepEqual(await w.bodies(), []);
  await w.pass(600);
  assert.deepEqual(await w.bodies(), ['between']);
  await w.pass(2100);
  const [, message] = await w.drain();
  assert.deepEqual(Object.fromEntries(message!.properties), {
    KEYS: 'k',
    REAL_QID: '0',
    REAL_TOPIC: 'T',
    TIMER_DELAY_SEC: '5',
    TIMER_DEQUEUE_MS: String(message!.storeTimestamp),
    TIMER_ENQUEUE_MS: String(now),
    TIMER_OUT_MS: String(now + 4000),
    UNIQ_KEY: 'five seconds',
  });
  assert.deepEqual([message!.queueId, message!.flag, message!.bornTimestamp], [0, 7, 1]);
  await w.stop();
});

test('what is due already goes to its topic at once; what makes no sense is refused', async () => {
  const w = await new TimerWorld().start();
  const now = w.clock.now();
  assert.equal(await w.send({ TIMER_DELIVER_MS: String(now) }, 'now'), undefined);
  assert.deepEqual(await w.bodies(), ['now']);
  const refused = async (properties: Record<string, string>): Promise<unknown> =>
    (await w.send(properties, 'x'))?.status;
  const { WHEEL_TIMER_MSG_ILLEGAL, WHEEL_TIMER_NOT_ENABLE } = PutMessageStatus;
  assert.equal(await refused({ TIMER_DELAY_SEC: 'soon' }), WHEEL_TIMER_MSG_ILLEGAL);
  assert.equal(await refused({ TIMER_DELAY_SEC: '259201' }), WHEEL_TIMER_MSG_ILLEGAL);
  assert.equal(await refused({ TIMER_DELAY_MS: '9223372036854775807' }), WHEEL_TIMER_MSG_ILLEGAL);
  assert.equal(await refused({ TIMER_DELIVER_MS: String(now - 1), TIMER_DEL_UNIQKEY: 'k' }), WHEEL_TIMER_MSG_ILLEGAL);
  assert.equal(await refused({ TIMER_DELAY_SEC: '259200' }), undefined);
  w.broker.context.config.timerWheelEnable = false;
  assert.equal(await refused({ TIMER_DELAY_SEC: '1' }), WHEEL_TIMER_NOT_ENABLE);
  await w.stop();
});

test('B40: delivered early on exact seconds, or lost between two flushes: never before the target, at most one step after', async () => {
  for (const precision of [1000, 100]) {
    const w = await new TimerWorld({ timerPrecisionMs: precision }).start();
    const start = w.clock.now();
    const targets = [5000, 5400, 6000, 6001, 6999, 7000].map((ms) => start + ms);
    for (const target of targets) await w.at(target, String(target));
    await w.pass(10_000, 10);
    const messages = await w.drain();
    assert.equal(messages.length, targets.length);
    for (const message of messages) {
      const late = message.storeTimestamp - Number(Buffer.from(message.body).toString());
      assert.ok(late >= 0 && late < precision + 20, `${Buffer.from(message.body)}: ${late} ms`);
    }
    await w.stop();
  }
});

test('a delay beyond the window goes round, and arrives once', async () => {
  const w = await new TimerWorld({ timerRollWindowSlot: 10 }).start();
  await w.send({ TIMER_DELAY_SEC: '27' }, 'far');
  await w.send({ TIMER_DELAY_SEC: '12' }, 'near the window');
  await w.pass(13_100);
  assert.deepEqual(await w.bodies(), ['near the window']);
  await w.pass(13_500);
  assert.deepEqual(await w.bodies(), ['near the window']);
  await w.pass(1500);
  const [, message] = await w.drain();
  assert.equal(Buffer.from(message!.body).toString(), 'far');
  assert.equal(message!.properties.get('TIMER_ROLL_TIMES'), '2');
  assert.equal(w.broker.context.timer.figures.rolled, 3);
  await w.stop();
});

test('an order to delete takes a message out of its slot', async () => {
  const w = await new TimerWorld().start();
  const due = String(w.clock.now() + 5500);
  for (const body of ['a', 'b', 'c']) await w.send({ TIMER_DELIVER_MS: due }, body);
  await w.send({ TIMER_DELIVER_MS: due, TIMER_DEL_UNIQKEY: 'b' }, 'order');
  await w.pass(100);
  assert.equal(w.broker.context.timer.metrics.count('T'), 2);
  await w.pass(7000);
  assert.deepEqual(await w.bodies(), ['a', 'c']);
  assert.equal(w.broker.context.timer.metrics.count('T'), 0);
  await w.stop();
});

test('after an orderly stop what is late is delivered at once, in order, and once', async () => {
  const w = await new TimerWorld().start();
  const start = w.clock.now();
  for (let i = 0; i < 60; i++) await w.at(start + 1000 * (60 - i), `m${60 - i}`);
  await w.pass(20_500);
  const before = await w.bodies();
  assert.equal(before.length, 20);
  await w.stop();
  w.clock.advance(30_000);
  await w.start();
  await w.turns(500);
  const late = Math.floor((w.clock.now() - start) / 1000);
  const expected = Array.from({ length: Math.min(60, late) }, (_, i) => `m${i + 1}`);
  assert.deepEqual(await w.bodies(), expected);
  await w.pass(60_000);
  assert.equal((await w.bodies()).length, 60);
  await w.stop();
  await w.start();
  await w.pass(2000);
  assert.equal((await w.bodies()).length, 60, 'none comes twice');
  await w.stop();
});

test('a stop within a slot: the next start goes on with the message behind', async () => {
  const w = await new TimerWorld({ mappedFileSizeTimerLog: 1 << 20 }).start();
  const due = String(w.clock.now() + 3000);
  for (let i = 0; i < 2000; i++) await w.send({ TIMER_DELIVER_MS: due }, `m${i}`);
  await w.pass(100);
  w.clock.advance(3000);
  const { store } = w.broker.context;
  while (store.maxOffsetInQueue('T', 0, false) < 700) await new Promise(setImmediate);
  await w.stop();
  assert.ok(store.maxOffsetInQueue('T', 0) < 2000);
  await w.start();
  await w.pass(2000);
  assert.deepEqual(await w.bodies(), numbered(2000));
  await w.stop();
});

test('a timer message that makes no sense is set aside, named and counted; those behind it arrive', async () => {
  const w = await new TimerWorld().start();
  const due = String(w.clock.now() + 2000);
  const bad: Array<Record<string, string>> = [
    { UNIQ_KEY: 'no time' },
    { TIMER_OUT_MS: 'x', REAL_TOPIC: 'T', REAL_QID: '0' },
    { TIMER_OUT_MS: due, REAL_TOPIC: 'T', REAL_QID: 'zero' },
    { TIMER_OUT_MS: due, REAL_TOPIC: TIMER_TOPIC, REAL_QID: '0' },
  ];
  for (const fields of bad) {
    const properties = new Map(Object.entries(fields));
    await w.broker.put(messageWith({ topic: TIMER_TOPIC, properties }));
  }
  await w.at(Number(due), 'good');
  await w.pass(4000);
  assert.deepEqual(await w.bodies(), ['good']);
  assert.equal(w.broker.context.timer.figures.setAside, 4);
  assert.equal(w.broker.logger.texts('error').filter((line) => line.includes('set aside')).length, 4);
  await w.stop();
});

test('while the store takes nothing, due messages wait and are delivered afterwards, once', async () => {
  const w = await new TimerWorld().start();
  for (const body of numbered(5)) await w.at(w.clock.now() + 15_000, body);
  w.fs.reportedUsedFraction = 0.99;
  await w.pass(20_000);
  assert.deepEqual(await w.bodies(), []);
  w.fs.reportedUsedFraction = 0.1;
  await w.pass(20_000);
  assert.deepEqual(await w.bodies(), numbered(5));
  await w.stop();
});

test('messages for one tick beyond the limit are refused', async () => {
  const w = await new TimerWorld({ timerCongestNumEachSlot: 5 }).start();
  const due = w.clock.now() + 10_000;
  let refused = 0;
  for (let i = 0; i < 60; i++) {
    const refusal = await w.send({ TIMER_DELIVER_MS: String(due) }, `m${i}`);
    await w.pass(10);
    if (refusal?.status === PutMessageStatus.WHEEL_TIMER_FLOW_CONTROL) refused++;
  }
  assert.ok(refused > 0 && refused >= 60 - 10, `${refused}`);
  await w.stop();
});

test('an idle timer wakes once a second at most', async () => {
  const w = await new TimerWorld().start();
  await w.at(w.clock.now() + 3_600_000, 'in an hour');
  await w.pass(10_000);
  let timers = 0;
  const after = w.clock.after.bind(w.clock);
  w.clock.after = (ms, fn) => {
    timers++;
    return after(ms, fn);
  };
  await w.pass(60_000);
  assert.equal(timers, 0, 'it sleeps until something is due');
  await w.stop();
});

test('disappearTimeAfterStart: what falls due meanwhile is delivered when that time is over', async () => {
  const w = await new TimerWorld({ disappearTimeAfterStart: 10_000 }).start();
  for (let i = 0; i < 3; i++) await w.at(w.clock.now() + 2000 + 1000 * i, `m${i}`);
  await w.pass(9_900);
  assert.deepEqual(await w.bodies(), []);
  await w.pass(200);
  assert.deepEqual(await w.bodies(), numbered(3));
  await w.stop();
});
