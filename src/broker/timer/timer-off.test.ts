import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Removal } from '../../store/index.ts';
import { numbered } from '../clock-world.test.support.ts';
import { TIMER_TOPIC } from '../topic/topic-names.ts';
import { TimerWorld } from './timer-world.test.support.ts';

/** The removal of the whole log. */
function everything(w: TimerWorld): Removal {
  const { store } = w.broker.context;
  const to = store.maxOffsetInQueue(TIMER_TOPIC, 0);
  const moves = [{ topic: TIMER_TOPIC, queueId: 0, from: 0, to }];
  return { start: 0, end: store.watermarks.wrote, forced: true, moves };
}

test('timerWheelEnable=false: what waits is kept from removal until the timer is switched on again', async () => {
  const w = await new TimerWorld().start();
  const now = w.clock.now();
  for (let i = 0; i < 5; i++) await w.at(now + 3000 + 20_000 * i, `m${i}`);
  await w.pass(5000);
  await w.stop();
  w.config.timerWheelEnable = false;
  await w.start();
  const { timer } = w.broker.context;
  assert.equal(timer.enabled, false);
  assert.equal(timer.needed(everything(w)), 4, 'one was delivered');
  assert.equal(timer.needed({ ...everything(w), soon: 'in an hour' }), 0);
  await w.pass(120_000);
  assert.equal(timer.needed(everything(w)), 4, 'what is overdue still waits');
  await w.stop();
  w.config.timerWheelEnable = true;
  await w.start();
  await w.pass(15_000);
  assert.deepEqual((await w.bodies()).sort(), numbered(5));
  assert.equal(w.broker.context.timer.needed(everything(w)), 0);
  await w.stop();
});

test('timerWheelEnable=false: messages that the timer has not taken from its queue are kept, too', async () => {
  const w = await new TimerWorld({ timerStopEnqueue: true }).start();
  for (let i = 0; i < 3; i++) await w.at(w.clock.now() + 60_000, `m${i}`);
  await w.pass(3000);
  w.die((fs) => fs.kill(w.random));
  w.config.timerWheelEnable = false;
  await w.start();
  assert.equal(w.broker.context.timer.needed(everything(w)), 3);
  await w.stop();
});

test('a timer log that does not fit the settings does not keep a broker without the timer from starting', async () => {
  const w = await new TimerWorld().start();
  await w.at(w.clock.now() + 60_000, 'm');
  await w.pass(2000);
  await w.stop();
  w.config.timerWheelEnable = false;
  w.config.mappedFileSizeTimerLog = 4096;
  await w.start();
  const told = w.broker.logger.texts('warn').filter((text) => text.includes('mappedFileSizeTimerLog is 4096'));
  assert.equal(told.length, 1);
  await w.stop();
});
