import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeClock } from '../common/index.ts';
import { TrafficStats } from './traffic-stats.ts';

test('what goes in and out is counted over a minute, an hour and a day, in RocketMQ’s shape', () => {
  const clock = new FakeClock();
  const totals = { putMessages: 0, getMessages: 0 };
  const there = new Set(['T', 'T@G']);
  const stats = new TrafficStats(clock, {
    clusterName: 'C',
    total: () => totals,
    hasTopic: (topic) => there.has(topic),
    hasOffsets: (key) => there.has(key),
  });
  stats.start();
  assert.equal(stats.view('TOPIC_PUT_NUMS', 'T'), undefined, 'nobody has sent yet');
  const puts = stats.puts.of('T');
  const send = (): void => {
    puts.messages += 20;
    puts.bytes += 2000;
    puts.requests += 10;
    totals.putMessages += 20;
  };
  const none = { sum: 0, tps: 0, avgpt: 0 };
  send();
  assert.deepEqual(stats.view('TOPIC_PUT_NUMS', 'T'), { statsDay: none, statsHour: none, statsMinute: none });
  clock.advance(10_000);
  assert.deepEqual(stats.view('TOPIC_PUT_NUMS', 'T')!.statsMinute, { sum: 20, tps: 2, avgpt: 2 });
  for (let i = 0; i < 60; i++) {
    send();
    clock.advance(10_000);
  }
  const view = stats.view('TOPIC_PUT_NUMS', 'T')!;
  assert.deepEqual(view.statsMinute, { sum: 120, tps: 2, avgpt: 2 });
  assert.deepEqual(view.statsHour, { sum: 1200, tps: 2, avgpt: 2 });
  assert.deepEqual(view.statsDay, none, 'no hour has passed');
  assert.deepEqual(stats.view('TOPIC_PUT_SIZE', 'T')!.statsMinute, { sum: 12_000, tps: 200, avgpt: 200 });
  assert.equal(stats.puts.tps('T'), 2);
  assert.equal(stats.view('BROKER_PUT_NUMS', 'C')!.statsMinute.sum, 120);
  assert.equal(stats.view('BROKER_GET_NUMS', 'C')!.statsMinute.sum, 0);
  assert.equal(stats.view('GROUP_GET_NUMS', 'T@G'), undefined);
  stats.gets.of('T@G').messages = 5;
  stats.sendBacks.of('T@G').messages = 3;
  clock.advance(10_000);
  assert.equal(stats.view('GROUP_GET_NUMS', 'T@G')!.statsMinute.sum, 5);
  assert.equal(stats.view('SNDBCK_PUT_NUMS', 'T@G')!.statsMinute.sum, 3);
  assert.equal(stats.view('COMMERCIAL_SEND_TIMES', 'T'), undefined);
  there.clear();
  clock.advance(600_000);
  assert.equal(stats.view('TOPIC_PUT_NUMS', 'T'), undefined, 'the topic is gone');
  assert.equal(stats.view('GROUP_GET_NUMS', 'T@G'), undefined);
  stats.stop();
});
