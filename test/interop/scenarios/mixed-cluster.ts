// Gantry and RocketMQ in one cluster: brokers of both at either name server, one topic across both brokers, and clients that
// take them for what they are, two brokers.

import assert from 'node:assert/strict';
import { brokersOf, call } from '../probe.ts';
import { received, sent } from '../rows.ts';
import type { Env, Suite } from '../runner.ts';
import type { RunningNamesrv, SystemKind } from '../system.ts';
import { until } from '../wait.ts';

const SEND_MESSAGE = 10;
const GET_ROUTEINFO_BY_TOPIC = 105;

async function together(env: Env, namesrvKind: SystemKind): Promise<void> {
  const namesrv = await env.startNamesrv(namesrvKind);
  const java = await env.startBroker('java', {
    namesrvAddr: namesrv.addr,
    brokerName: 'java-broker',
    smallFiles: true,
  });
  const other = await env.startBroker(env.sutKind, {
    namesrvAddr: namesrv.addr,
    brokerName: 'other-broker',
    smallFiles: true,
  });
  const topic = 'AcrossBoth';
  for (const broker of [java, other]) {
    await env.java.run('admin', {
      namesrv: namesrv.addr,
      broker: broker.brokerAddr,
      topic,
      queues: 2,
      steps: 'createTopic',
    });
  }
  await until('the route names both brokers', async () => {
    const rows = await env.java.run('admin', { namesrv: namesrv.addr, broker: java.brokerAddr, topic, steps: 'route' });
    const route = rows[0]?.['value'] as
      | { queues?: Record<string, unknown>; addresses?: Record<string, string> }
      | undefined;
    if (Object.keys(route?.queues ?? {}).length < 2) return false;
    assert.deepEqual(route?.addresses, { 'java-broker': java.brokerAddr, 'other-broker': other.brokerAddr });
    return true;
  });

  const rows = sent(
    await env.java.run('produce', { namesrv: namesrv.addr, topic, count: 80, keys: true, tags: 'TagA' }),
  );
  assert.equal(rows.length, 80);
  assert.deepEqual(new Set(rows.map((row) => row['brokerName'])), new Set(['java-broker', 'other-broker']));
  const consumer = env.java.start('consume', { namesrv: namesrv.addr, topic, group: 'G-AcrossBoth' });
  await consumer.until('80 messages', (all) => received(all).length >= 80);
  const came = received(await consumer.close());
  assert.deepEqual(new Set(came.map((row) => row['uniqKey'])), new Set(rows.map((row) => row['msgId'])));

  // One of the two goes, and says so: the route follows, and sends go on.
  await other.stop();
  await until(
    'the name server forgets the broker that left',
    async () => !(await brokersOf(namesrv.addr)).has('other-broker'),
  );
  const later = sent(await env.java.run('produce', { namesrv: namesrv.addr, topic, count: 8, start: 80 }));
  assert.deepEqual(new Set(later.map((row) => row['brokerName'])), new Set(['java-broker']));
  await java.stop();
  await until('the name server forgets the other one', async () => (await brokersOf(namesrv.addr)).size === 0);
}

/** Queues of a topic for writing, by broker. */
async function routeOf(namesrv: RunningNamesrv, topic: string): Promise<Record<string, number>> {
  const answer = await call(namesrv.addr, GET_ROUTEINFO_BY_TOPIC, { topic, acceptStandardJsonOnly: 'true' });
  if (answer.code !== 0) return {};
  const { queueDatas } = JSON.parse(answer.body.toString('utf8')) as {
    queueDatas: Array<{ brokerName: string; writeQueueNums: number }>;
  };
  return Object.fromEntries(queueDatas.map((queue) => [queue.brokerName, queue.writeQueueNums]));
}

/** What RocketMQ does not do: a topic that a send has created here is on the Java broker, too. */
async function spread(env: Env, namesrvKind: SystemKind): Promise<void> {
  const namesrv = await env.startNamesrv(namesrvKind);
  const smallFiles = true;
  const java = await env.startBroker('java', { namesrvAddr: namesrv.addr, brokerName: 'java-broker', smallFiles });
  const gantry = await env.startBroker('gantry', {
    namesrvAddr: namesrv.addr,
    brokerName: 'gantry-broker',
    smallFiles,
  });
  const send = async (topic: string): Promise<void> => {
    const queue = { queueId: '0', defaultTopic: 'TBW102', defaultTopicQueueNums: '3' };
    const rest = { producerGroup: 'P', sysFlag: '0', bornTimestamp: '1700000000000', flag: '0', reconsumeTimes: '0' };
    const answer = await call(gantry.brokerAddr, SEND_MESSAGE, { topic, ...queue, ...rest }, Buffer.from('x'));
    assert.equal(answer.code, 0, answer.remark);
  };
  const admin = async (steps: string, topic: string): Promise<void> => {
    await env.java.run('admin', { namesrv: namesrv.addr, broker: java.brokerAddr, topic, queues: 2, steps });
  };
  await admin('createTopic', 'Mine');
  await send('Mine');
  await send('New');
  await until('the new topic is on both', async () => Object.keys(await routeOf(namesrv, 'New')).length === 2);
  assert.deepEqual(await routeOf(namesrv, 'New'), { 'gantry-broker': 3, 'java-broker': 3 });
  // It was before the other one in turn.
  assert.deepEqual(await routeOf(namesrv, 'Mine'), { 'gantry-broker': 3, 'java-broker': 2 });
  const rows = sent(await env.java.run('produce', { namesrv: namesrv.addr, topic: 'New', count: 12 }));
  assert.deepEqual(new Set(rows.map((row) => row['brokerName'])), new Set(['java-broker', 'gantry-broker']));
}

export const mixedCluster: Suite = {
  name: 'mixed-cluster',
  needs: ['java'],
  shared: 'none',
  scenarios: [
    { name: "both brokers at Gantry's name server", run: async (env) => await together(env, env.sutKind) },
    { name: "both brokers at Java's name server", run: async (env) => await together(env, 'java') },
    {
      name: "a new topic spreads to a Java broker at Gantry's name server",
      run: async (env) => await spread(env, 'gantry'),
    },
    {
      name: "a new topic spreads to a Java broker at Java's name server",
      run: async (env) => await spread(env, 'java'),
    },
  ],
};
