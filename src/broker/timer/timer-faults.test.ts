import assert from 'node:assert/strict';
import { test } from 'node:test';
import { RequestCode, ResponseCode } from '../../remoting/index.ts';
import { messageWith } from '../broker-fixture.test.support.ts';
import { numbered } from '../clock-world.test.support.ts';
import { applyDelayLevel } from '../internal-put.ts';
import { registerProcessors } from '../processor/register.ts';
import { TIMER_TOPIC, TRANS_HALF_TOPIC } from '../topic/topic-names.ts';
import { TimerWorld } from './timer-world.test.support.ts';

test('deliveries that the log could not write are made again, none twice', async () => {
  for (const code of ['DISK_FULL', 'IO'] as const) {
    const w = await new TimerWorld({ mappedFileSizeTimerLog: 1 << 16 }).start();
    const due = w.clock.now() + 3000;
    for (let i = 0; i < 300; i++) await w.at(due, `m${i}`);
    await w.pass(1000);
    const fault = w.fs.fail({ operation: 'write', path: 'commitlog', skip: 1, code });
    await w.pass(20_000);
    assert.equal(fault.hits, 1);
    assert.deepEqual((await w.bodies()).sort(), numbered(300).sort(), code);
    assert.equal(w.broker.context.timer.metrics.count('T'), 0);
    await w.stop();
  }
});

test('what comes too late for its slot and could not be written is delivered again', async () => {
  const w = await new TimerWorld({ timerStopEnqueue: true }).start();
  for (let i = 0; i < 5; i++) await w.at(w.clock.now() + 1500, `m${i}`);
  await w.pass(5000);
  assert.deepEqual(await w.bodies(), []);
  w.fs.fail({ operation: 'write', path: 'commitlog' });
  w.broker.context.config.timerStopEnqueue = false;
  await w.pass(10_000);
  assert.deepEqual(await w.bodies(), numbered(5));
  await w.stop();
});

test('a stop whose last sync fails saves no position of what is not on disk', async () => {
  const w = await new TimerWorld(
    {},
    { flushIntervalCommitLog: 100_000, flushCommitLogThoroughInterval: 100_000 },
  ).start();
  const due = w.clock.now() + 3000;
  for (let i = 0; i < 5; i++) await w.at(due, `m${i}`);
  await w.stop();
  await w.start();
  await w.pass(due + 500 - w.clock.now());
  assert.equal((await w.bodies()).length, 5);
  w.fs.fail({ operation: 'sync', path: 'commitlog', times: Number.POSITIVE_INFINITY });
  await w.stop();
  w.die((fs) => fs.powerCut(w.random));
  await w.start();
  await w.pass(3000);
  assert.equal(new Set(await w.bodies()).size, 5);
  await w.stop();
});

test('a stop while the queue is read after a loss forgets none of those that go round', async () => {
  const w = await new TimerWorld({ timerRollWindowSlot: 20, mappedFileSizeTimerLog: 1 << 16 }).start();
  const now = w.clock.now();
  for (let i = 0; i < 600; i++) await w.at(now + (i % 2 === 0 ? 50_000 : 15_000), `m${i}`);
  await w.stop();
  w.fs.removeTree('/store/timerlog');
  w.fs.remove('/store/timerwheel');
  w.fs.remove('/store/config/timercheck');
  await w.start();
  for (let i = 0; i < 8 && w.broker.context.timer.figures.enqueued < 100; i++) await w.turns(1);
  await w.stop();
  await w.start();
  await w.pass(60_000);
  assert.equal(new Set(await w.bodies()).size, 600);
  await w.stop();
});

test('a clock that jumps ahead makes nothing wait for the old time', async () => {
  const w = await new TimerWorld().start();
  await w.at(w.clock.now() + 3_600_000, 'm');
  await w.pass(2000);
  w.clock.jump(3_600_000);
  await w.pass(3000);
  assert.deepEqual(await w.bodies(), ['m']);
  await w.stop();
});

test('a client that writes its own timer properties gets nothing into topics that are none of its business', async () => {
  const w = await new TimerWorld().start();
  const topics = [TRANS_HALF_TOPIC, 'SCHEDULE_TOPIC_XXXX', '../x', 'a/b', '', 'x'.repeat(200), '.', '..'];
  for (const topic of topics) {
    const properties = new Map([
      ['TIMER_OUT_MS', String(w.clock.now() + 1000)],
      ['REAL_TOPIC', topic],
      ['REAL_QID', '0'],
    ]);
    await w.broker.put(messageWith({ topic: TIMER_TOPIC, properties }));
  }
  await w.at(w.clock.now() + 1500, 'good');
  await w.pass(5000);
  assert.deepEqual(await w.bodies(), ['good']);
  assert.deepEqual([...w.broker.context.store.queues()].map(({ topic }) => topic).sort(), ['T', TIMER_TOPIC].sort());
  assert.equal(w.broker.context.timer.figures.setAside, topics.length);
  await w.stop();
});

test('a message that waits for a slot of an earlier round does not keep that one from being delivered', async () => {
  const w = await new TimerWorld({ timerStopDequeue: true }).start();
  const due = w.clock.now() + 10_000;
  await w.at(due, 'old');
  await w.pass(2000);
  await w.stop();
  const round = 14 * 86_400_000;
  w.clock.advance(round - 60_000);
  await w.start();
  await w.at(due + round, 'new');
  await w.pass(2000);
  w.broker.context.config.timerStopDequeue = false;
  await w.pass(5000);
  assert.deepEqual(await w.bodies(), ['old']);
  await w.pass(70_000);
  assert.deepEqual(await w.bodies(), ['old', 'new']);
  await w.stop();
});

test('deleting a topic forgets its figure; a message with a delay level has no time of its own', async () => {
  const w = await new TimerWorld().start();
  const { context } = w.broker;
  await w.at(w.clock.now() + 60_000, 'm');
  await w.pass(500);
  assert.equal(context.timer.metrics.count('T'), 1);
  context.topics.load();
  registerProcessors(w.broker, context);
  const answer = await w.settle(w.broker.ask(RequestCode.DELETE_TOPIC_IN_BROKER, { topic: 'T' }));
  assert.equal(answer.code, ResponseCode.SUCCESS);
  assert.equal(context.timer.metrics.count('T'), 0);
  const message = messageWith({
    properties: new Map([
      ['DELAY', '1'],
      ['TIMER_DELIVER_MS', '1'],
      ['TIMER_DELAY_MS', '1'],
      ['TIMER_DELAY_SEC', '1'],
      ['TIMER_OUT_MS', '1'],
    ]),
  });
  applyDelayLevel(message, 18);
  assert.deepEqual([...message.properties.keys()], ['DELAY', 'TIMER_OUT_MS', 'REAL_TOPIC', 'REAL_QID']);
  await w.stop();
});

test('retention keeps a timer message until its delivery is on disk', async () => {
  const w = await new TimerWorld(
    {},
    { flushIntervalCommitLog: 100_000, flushCommitLogThoroughInterval: 100_000 },
  ).start();
  await w.at(w.clock.now() + 2000, 'm');
  await w.pass(5000);
  assert.deepEqual(await w.bodies(), ['m']);
  const { timer, store } = w.broker.context;
  const moves = [{ topic: TIMER_TOPIC, queueId: 0, from: 0, to: 1 }];
  const file = { start: 0, end: store.watermarks.wrote, forced: false };
  assert.equal(timer.needed({ ...file, moves }), 1);
  await w.stop();
});

test('what retention asks of the timer is counted in turns before, and what comes in between is counted, too', async () => {
  const w = await new TimerWorld().start();
  const { timer, store } = w.broker.context;
  for (let i = 0; i < 3; i++) await w.at(w.clock.now() + 60_000, `m${i}`);
  await w.pass(2000);
  const file = { start: 0, end: store.watermarks.wrote + 100_000, forced: false };
  await timer.prepare(file);
  for (let i = 0; i < 2; i++) await w.at(w.clock.now() + 60_000, `n${i}`);
  await w.pass(2000);
  assert.equal(timer.needed({ ...file, moves: [] }), 5);
  assert.equal(timer.needed({ ...file, moves: [] }), 5, 'none twice');
  await w.stop();
});

test('figures that are counted anew while messages come and go are right at the end', async () => {
  const w = await new TimerWorld().start();
  const { timer } = w.broker.context;
  for (let i = 0; i < 5000; i++) await w.at(w.clock.now() + 60_000, `m${i}`);
  await w.pass(2000);
  timer.metrics.set('T', 17);
  const revised = timer.reviseMetrics();
  timer.metrics.add('T', 1);
  await revised;
  assert.equal(timer.metrics.count('T'), 5001);
  await w.stop();
});
