// The Java admin client: topics, routes, and queries of single messages by id, unique key and key.

import assert from 'node:assert/strict';
import type { Options } from '../clients.ts';
import { storedMessages } from '../probe.ts';
import { propertiesOf, sent } from '../rows.ts';
import type { Env, Suite } from '../runner.ts';
import { until } from '../wait.ts';

async function steps(
  env: Env,
  topic: string,
  names: readonly string[],
  more: Options = {},
): Promise<(name: string) => unknown> {
  const rows = await env.java.run('admin', {
    namesrv: env.broker.namesrvAddr,
    broker: env.broker.brokerAddr,
    topic,
    steps: names.join(','),
    ...more,
  });
  return (name) => {
    const row = rows.find((candidate) => candidate['step'] === name);
    assert.equal(row?.['failure'], undefined, `${name}: ${row?.['failure']}`);
    return row?.['value'];
  };
}

export const javaAdmin: Suite = {
  name: 'java-admin',
  needs: ['java'],
  shared: 'small files',
  scenarios: [
    {
      name: 'a created topic has its queues, its route and its configuration',
      async run(env) {
        const topic = 'AdminTopic';
        const value = await steps(env, topic, ['createTopic', 'topicConfig', 'cluster', 'topics'], { queues: 3 });
        assert.deepEqual(value('topicConfig'), { read: 3, write: 3, perm: 6 });
        assert.deepEqual(value('cluster'), {
          clusters: { [env.broker.clusterName]: [env.broker.brokerName] },
          addresses: { [env.broker.brokerName]: env.broker.brokerAddr },
        });
        await until('the route is there', async () => {
          const later = await steps(env, topic, ['route', 'topics']);
          assert.ok((later('topics') as string[]).includes(topic));
          assert.deepEqual(later('route'), {
            queues: { [env.broker.brokerName]: { read: 3, write: 3, perm: 6 } },
            addresses: { [env.broker.brokerName]: env.broker.brokerAddr },
          });
          return true;
        });
      },
    },
    {
      name: 'single messages by id, unique key and key; offsets of the topic',
      async run(env) {
        const topic = 'AdminQuery';
        const rows = await env.java.run('produce', {
          namesrv: env.broker.namesrvAddr,
          topic,
          count: 20,
          keys: true,
          tags: 'TagA',
        });
        await until('the topic is dispatched', async () => (await storedMessages(env.broker.brokerAddr, topic)) === 20);
        const send = sent(rows)[7]!;
        const value = await steps(env, topic, ['byId', 'byUniqKey', 'byKey', 'topicStats'], {
          id: String(send['offsetMsgId']),
          'uniq-key': String(send['msgId']),
          key: 'm-all',
        });
        for (const name of ['byId', 'byUniqKey']) {
          const message = value(name) as Record<string, unknown>;
          assert.equal(message['uniqKey'], send['msgId'], name);
          assert.equal(message['queueOffset'], send['queueOffset'], name);
          assert.equal(propertiesOf(message)['index'], '7', name);
        }
        assert.equal(Object.keys(value('byKey') as object).length, 20);
        const table = value('topicStats') as Record<string, string>;
        const total = Object.values(table).reduce((sum, text) => sum + Number(text.split('-')[1]), 0);
        assert.equal(total, 20);
      },
    },
    {
      name: 'a running consumer is known with its group; broker figures and configuration',
      async run(env) {
        const topic = 'AdminGroup';
        await env.java.run('produce', { namesrv: env.broker.namesrvAddr, topic, count: 4 });
        const consumer = env.java.start('consume', { namesrv: env.broker.namesrvAddr, topic, group: 'G-AdminGroup' });
        await consumer.until('4 messages', (rows) => rows.filter((row) => row['received']).length >= 4);
        const value = await steps(env, topic, ['connection', 'groupTopics', 'runtime', 'brokerConfig'], {
          group: 'G-AdminGroup',
        });
        assert.equal(value('connection'), 1);
        assert.deepEqual(value('groupTopics'), ['G-AdminGroup']);
        const runtime = value('runtime') as Record<string, string>;
        for (const key of [
          'bootTimestamp',
          'brokerVersionDesc',
          'putTps',
          'commitLogMaxOffset',
          'dispatchBehindBytes',
        ]) {
          assert.notEqual(runtime[key], undefined, key);
        }
        const config = value('brokerConfig') as Record<string, string>;
        assert.equal(config['brokerName'], env.broker.brokerName);
        assert.equal(config['mappedFileSizeCommitLog'], '65536');
        await consumer.close();
      },
    },
  ],
};
