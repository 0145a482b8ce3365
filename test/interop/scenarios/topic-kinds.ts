// Kinds of topics that RocketMQ 5 brought, with its client and admin tool: static topics whose queues move from one broker to the other,
// topics of batch queues, priorities, and what mqadmin is told of attributes that may not be.

import assert from 'node:assert/strict';
import { join } from 'node:path';
import type { Row } from '../child.ts';
import { call, splitAddress } from '../probe.ts';
import { indexesOf, indexOf, range, received, sent } from '../rows.ts';
import type { Env, Suite } from '../runner.ts';
import { CLUSTER_NAME } from '../system.ts';

const UPDATE_AND_CREATE_TOPIC = 17;

/** What a row says of where its message lies in the topic. */
function places(rows: readonly Row[], indexesBy: (row: Row) => number): string[] {
  return rows.map((row) => `${row['queueId']}:${row['queueOffset']}:${indexesBy(row)}`).sort();
}

/** Everything of a topic, as a group that begins with the first message gets it. */
async function consumeAll(env: Env, namesrv: string, topic: string, count: number): Promise<Row[]> {
  const group = `G-${topic}-${count}-${performance.now().toFixed(0)}`;
  const consumer = env.java.start('consume', { namesrv, topic, group });
  await consumer.until(`${count} messages`, (rows) => received(rows).length >= count);
  return received(await consumer.close());
}

/**
 * A static topic on a Java broker and one of the system under test: all is sent and consumed while its queues move there and back, also
 * from places that only the other broker has, through a kill and in the hands of Java.
 */
async function staticTopic(env: Env): Promise<void> {
  const topic = 'Static';
  const namesrv = await env.startNamesrv(env.sutKind);
  const smallFiles = true;
  const storeDir = join(env.dir, 'other');
  await env.startBroker('java', { namesrvAddr: namesrv.addr, brokerName: 'java-broker', smallFiles });
  const options = { namesrvAddr: namesrv.addr, brokerName: 'other-broker', smallFiles, storeDir };
  const other = await env.startBroker(env.sutKind, options);
  const restarted = { ...options, port: splitAddress(other.brokerAddr)[1] };
  const admin = async (command: string, ...args: string[]): Promise<string> =>
    await env.java.mqadmin([command, '-n', namesrv.addr, '-t', topic, ...args]);
  await admin('updateStaticTopic', '-qn', '4', '-b', 'java-broker,other-broker');

  const sends: Row[] = [];
  const produce = async (): Promise<void> => {
    const options = { namesrv: namesrv.addr, topic, count: 24, start: sends.length };
    const rows = sent(await env.java.run('produce', options));
    assert.equal(rows.length, 24);
    assert.deepEqual(new Set(rows.map((row) => row['queueId'])), new Set([0, 1, 2, 3]));
    sends.push(...rows);
  };
  const check = async (): Promise<void> => {
    const rows = await consumeAll(env, namesrv.addr, topic, sends.length);
    assert.deepEqual(
      places(rows, indexOf),
      places(sends, (row) => Number(row['sent'])),
    );
  };
  await produce();
  await other.kill();
  const again = await env.startBroker(env.sutKind, restarted);
  await admin('remappingStaticTopic', '-b', 'other-broker');
  await produce();
  await check();
  await again.stop();
  const java = await env.startBroker('java', restarted);
  await admin('remappingStaticTopic', '-b', 'java-broker');
  await java.stop();
  await env.startBroker(env.sutKind, restarted);
  await produce();
  await check();
}

/** Topics of batch queues and of priorities, and attributes. */
async function attributes(env: Env): Promise<void> {
  const { namesrvAddr: namesrv, brokerAddr, brokerName } = env.broker;
  const target = ['-n', namesrv, '-c', CLUSTER_NAME, '-r', '1', '-w', '1'];
  await env.java.mqadmin(['updateTopic', ...target, '-t', 'Batches', '-a', '+queue.type=BatchCQ,+message.type=NORMAL']);
  // As mqadmin asks.
  const update = async (topic: string, queues: string, changes: string): Promise<string> => {
    const fixed = {
      defaultTopic: 'TBW102',
      perm: '6',
      topicFilterType: 'SINGLE_TAG',
      topicSysFlag: '0',
      order: 'false',
    };
    const nums = { readQueueNums: queues, writeQueueNums: queues };
    const ext = { topic, ...nums, ...fixed, attributes: changes };
    const { code, remark } = await call(brokerAddr, UPDATE_AND_CREATE_TOPIC, ext);
    return code === 0 ? '' : `${code} ${remark}`;
  };
  const fixedType = '1 attempt to update an unchangeable attribute. key: queue.type';
  assert.equal(await update('Batches', '1', '+queue.type=SimpleCQ'), fixedType);
  assert.equal(await update('Batches', '1', '+no.such=1'), '1 unsupported key: no.such');
  assert.match(await update('Batches', '1', '+message.type=ODD'), /^1 value is not in set: \[/);
  assert.equal(await update('Batches', '1', 'queue.type'), '1 delete attribute format is wrong: queue.type');
  const common = { namesrv, topic: 'Batches', keys: true };
  const auto = sent(await env.java.run('produce', { ...common, count: 200, mode: 'async', 'auto-batch': true }));
  assert.equal(auto.length, 200);
  const drained = received(await env.java.run('drain', { namesrv, topics: 'Batches' }));
  assert.deepEqual(indexesOf(drained), range(0, 200));
  // One offset a message, whatever the batches were.
  assert.equal(new Set(drained.map((row) => `${row['queueId']}:${row['queueOffset']}`)).size, 200);
  // Each message is sent back once, alone.
  const refusing = env.java.start('consume', { namesrv, topic: 'Batches', group: 'G-Batches', 'fail-first': 1 });
  await refusing.until('200 second deliveries', (rows) => {
    return new Set(received(rows).flatMap((row) => (row['delivery'] === 2 ? [indexOf(row)] : []))).size === 200;
  });
  await refusing.close();

  assert.equal(await update('Urgent', '4', '+message.type=PRIORITY'), '');
  const urgent = sent(await env.java.run('produce', { namesrv, topic: 'Urgent', count: 12, priorities: 6 }));
  assert.deepEqual(
    urgent.map((row) => row['queueId']),
    range(0, 12).map((i) => Math.min(i % 6, 3)),
  );
  const pops = env.java.start('pop', { addr: brokerAddr, 'broker-name': brokerName, namesrv });
  pops.write('pop Urgent GID_urgent 1 60000 20000 12');
  const rows = await pops.until('12 messages', (all) => all.some((row) => row['step'] === 'pop') && all);
  await pops.close();
  // The highest first.
  assert.deepEqual(
    received(rows).map((row) => row['queueId']),
    [3, 3, 3, 3, 3, 3, 2, 2, 1, 1, 0, 0],
  );
}

export const topicKinds: Suite = {
  name: 'topic-kinds',
  needs: ['java'],
  shared: 'small files',
  scenarios: [
    { name: 'batch queues, priorities and attributes, as mqadmin sets them', run: attributes },
    { name: 'a static topic moves between Java and the other broker, with a kill and a hand-over', run: staticTopic },
  ],
};
