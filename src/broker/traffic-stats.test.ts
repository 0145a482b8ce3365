import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeClock } from '../common/index.ts';
import { TrafficStats } from './traffic-stats.ts';

const config = {
  enableDetailStat: true,
  autoDeleteUnusedStats: true,
  maxStatsIdleTimeInMinutes: -1,
  enableLmqStats: false,
};

test('what goes in and out is counted over a minute, an hour and a day, in RocketMQ’s shape', () => {
  const clock = new FakeClock();
  const totals = { putMessages: 0, getMessages: 0 };
  const there = new Set(['T', 'T@G']);
  const stats = new TrafficStats(clock, {
    clusterName: 'C',
    config,
    total: () => totals,
    hasTopic: (topic) => there.has(topic),
    isSystemTopic: (topic) => topic === 'SYS',
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

function open(changes: Partial<typeof config> = {}): {
  clock: FakeClock;
  stats: TrafficStats;
  totals: { putMessages: number; getMessages: number };
} {
  const clock = new FakeClock();
  const totals = { putMessages: 0, getMessages: 0 };
  const stats = new TrafficStats(clock, {
    clusterName: 'C',
    config: { ...config, ...changes },
    total: () => totals,
    hasTopic: (topic) => topic !== 'gone',
    isSystemTopic: (topic) => topic === 'SYS',
    hasOffsets: (key) => key === 'T@G',
  });
  stats.start();
  return { clock, stats, totals };
}

const sum = (stats: TrafficStats, name: string, key: string): number | undefined =>
  stats.view(name, key)?.statsMinute.sum;

test('the broker’s numbers without system topics leave those out', () => {
  const { clock, stats, totals } = open();
  totals.putMessages = 10;
  totals.getMessages = 7;
  stats.puts.of('SYS').messages = 4;
  stats.gets.of('SYS@G').messages = 5;
  clock.advance(10_000);
  assert.equal(sum(stats, 'BROKER_PUT_NUMS', 'C'), 10);
  assert.equal(sum(stats, 'BROKER_PUT_NUMS_WITHOUT_SYSTEM_TOPIC', 'C'), 6);
  assert.equal(sum(stats, 'BROKER_GET_NUMS_WITHOUT_SYSTEM_TOPIC', 'C'), 2);
  stats.stop();
});

test('delay levels, pops, dead letters, registrations and connections have RocketMQ’s names and keys', () => {
  const { clock, stats } = open();
  stats.delayed(2, 100);
  stats.delivered('T', 2, 90);
  stats.checkPointed('T', 'G', 3);
  stats.acknowledged('T', 'G', 2);
  stats.deadLettered(null, 'T', 'G');
  stats.consumerRegistrations.add('C', 4);
  stats.channels.add('CONNECT');
  clock.advance(10_000);
  const expected = [
    ['QUEUE_PUT_NUMS', 'SCHEDULE_TOPIC_XXXX@2', 1],
    ['QUEUE_PUT_SIZE', 'SCHEDULE_TOPIC_XXXX@2', 100],
    ['QUEUE_GET_NUMS', 'SCHEDULE_TOPIC_XXXX@2@SCHEDULE_CONSUMER', 1],
    ['QUEUE_GET_SIZE', 'SCHEDULE_TOPIC_XXXX@2@SCHEDULE_CONSUMER', 90],
    ['GROUP_GET_NUMS', 'SCHEDULE_TOPIC_XXXX@SCHEDULE_CONSUMER', 1],
    ['TOPIC_PUT_NUMS', 'T', 1],
    ['GROUP_CK_NUMS', 'T@G', 3],
    ['GROUP_ACK_NUMS', 'T@G', 2],
    ['BROKER_CK_NUMS', 'C', 3],
    ['BROKER_ACK_NUMS', 'C', 2],
    ['SNDBCK2DLQ_TIMES', 'null@T@G@SEND_BACK_TO_DLQ', 1],
    ['CONSUMER_REGISTER_TIME', 'C', 4],
    ['CHANNEL_ACTIVITY', 'CONNECT', 1],
  ] as const;
  for (const [name, key, value] of expected) assert.equal(sum(stats, name, key), value, `${name} ${key}`);
  clock.advance(600_000);
  assert.ok(stats.view('GROUP_GET_NUMS', 'SCHEDULE_TOPIC_XXXX@SCHEDULE_CONSUMER') !== undefined);
  stats.stop();
});

test('enableDetailStat=false keeps no figures of queues', () => {
  const { clock, stats } = open({ enableDetailStat: false });
  stats.delayed(2, 100);
  stats.delivered('T', 2, 90);
  clock.advance(10_000);
  assert.equal(stats.view('QUEUE_PUT_NUMS', 'SCHEDULE_TOPIC_XXXX@2'), undefined);
  assert.equal(stats.view('QUEUE_GET_NUMS', 'SCHEDULE_TOPIC_XXXX@2@SCHEDULE_CONSUMER'), undefined);
  assert.equal(sum(stats, 'GROUP_GET_NUMS', 'SCHEDULE_TOPIC_XXXX@SCHEDULE_CONSUMER'), 1);
  stats.stop();
});

test('autoDeleteUnusedStats=false keeps the figures of what is gone', () => {
  const { clock, stats } = open({ autoDeleteUnusedStats: false });
  stats.puts.of('gone').messages = 1;
  clock.advance(600_000);
  assert.ok(stats.view('TOPIC_PUT_NUMS', 'gone') !== undefined);
  stats.stop();
});

test('a figure that stands still for maxStatsIdleTimeInMinutes is shown no more, and comes again with the next message', () => {
  const { clock, stats } = open({ maxStatsIdleTimeInMinutes: 40 });
  const puts = stats.puts.of('T');
  puts.messages = 5;
  clock.advance(30 * 60_000);
  assert.ok(stats.view('TOPIC_PUT_NUMS', 'T') !== undefined);
  clock.advance(30 * 60_000);
  assert.equal(stats.view('TOPIC_PUT_NUMS', 'T'), undefined);
  assert.equal(stats.puts.tps('T'), 0);
  puts.messages += 3;
  puts.requests += 1;
  clock.advance(10_000);
  assert.equal(sum(stats, 'TOPIC_PUT_NUMS', 'T'), 3, 'what was counted before belongs to no span');
  stats.stop();
});

test('light queues have figures together, with enableLmqStats each its own', () => {
  const together = open().stats;
  assert.equal(together.groupKey('%LMQ%a', 'G'), '%LMQ%@G');
  assert.equal(together.groupKey('%LMQ%a', '%LMQ%g'), '%LMQ%@%LMQ%');
  assert.equal(together.groupKey('T', 'G'), 'T@G');
  together.stop();
  const apart = open({ enableLmqStats: true }).stats;
  assert.equal(apart.groupKey('%LMQ%a', 'G'), '%LMQ%a@G');
  apart.stop();
});

test('dead letters of owners and topics that clients make up fill no memory', () => {
  const { clock, stats } = open();
  stats.deadLettered(null, 'T', 'G');
  for (let i = 0; i < 10_000; i++) stats.deadLettered(`owner${i}`, 'T', 'G');
  stats.deadLettered('x'.repeat(2000), 'T', 'G');
  stats.deadLettered(null, 'T', 'G');
  clock.advance(10_000);
  assert.equal(sum(stats, 'SNDBCK2DLQ_TIMES', 'null@T@G@SEND_BACK_TO_DLQ'), 2);
  assert.ok(stats.view('SNDBCK2DLQ_TIMES', 'owner9998@T@G@SEND_BACK_TO_DLQ') !== undefined);
  assert.equal(stats.view('SNDBCK2DLQ_TIMES', 'owner9999@T@G@SEND_BACK_TO_DLQ'), undefined);
  stats.stop();
});
