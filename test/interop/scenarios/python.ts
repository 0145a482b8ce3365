// The Python client, and with it the C++ client: producer, push consumer and pull consumer, against what the Java client sees.

import assert from 'node:assert/strict';
import { join } from 'node:path';
import type { Child, Row } from '../child.ts';
import { drain, ofTopic } from '../drained.ts';
import { storedMessages } from '../probe.ts';
import { indexOf, propertiesOf, range, received, sent } from '../rows.ts';
import type { Env, Suite } from '../runner.ts';
import { until } from '../wait.ts';

async function consumed(child: Child, count: number): Promise<Row[]> {
  const ids = (rows: readonly Row[]) => new Set(received(rows).map((row) => row['uniqKey'] ?? row['msgId']));
  await child.until(`${count} messages`, (rows) => ids(rows).size >= count);
  return received(await child.close());
}

function indexes(rows: readonly Row[]): number[] {
  return [...new Set(rows.map((row) => Number(row['index'])))].sort((a, b) => a - b);
}

/** What the Java client finds in a topic, by key, each once. */
async function byKey(env: Env, topic: string): Promise<Map<string, Row>> {
  const rows = ofTopic(await drain(env.java, env.broker, [topic]), topic);
  const found = new Map(rows.map((row) => [propertiesOf(row)['KEYS']!.trim(), row]));
  assert.equal(found.size, rows.length, 'a key is there twice');
  return found;
}

export const python: Suite = {
  name: 'python',
  needs: ['python', 'java'],
  shared: 'small files',
  scenarios: [
    {
      name: 'producer sync, async, one-way and orderly; a Java pull finds all',
      async run(env) {
        const topic = 'PythonProducer';
        const options = { namesrv: env.broker.namesrvAddr, topic, tags: 'TagA,TagB', keys: true, count: 24, queue: 2 };
        const sends = new Map<string, Row>();
        for (const mode of ['sync', 'async', 'oneway', 'orderly']) {
          const rows = await env.python.run('produce', { ...options, mode, prefix: mode });
          assert.equal(rows.filter((row) => row['failed'] !== undefined).length, 0);
          for (const row of sent(rows)) sends.set(`${mode}-key-${row['sent']}`, row);
        }
        assert.equal(sends.size, 3 * 24);
        await until('all are stored', async () => (await storedMessages(env.broker.brokerAddr, topic)) >= 4 * 24);
        const found = await byKey(env, topic);
        assert.equal(found.size, 4 * 24);
        for (const [key, row] of found) {
          assert.equal(propertiesOf(row)['TAGS'], indexOf(row) % 2 === 0 ? 'TagA' : 'TagB');
          const send = sends.get(key);
          if (send === undefined) continue;
          assert.equal(send['status'], 'SEND_OK');
          assert.equal(send['msgId'], row['uniqKey']);
          assert.equal(send['queueOffset'], row['queueOffset']);
        }
        const ofQueue = [...found].filter(([key]) => key.startsWith('orderly')).map(([, row]) => row);
        ofQueue.sort((a, b) => Number(a['queueOffset']) - Number(b['queueOffset']));
        assert.deepEqual(new Set(ofQueue.map((row) => row['queueId'])), new Set([2]));
        assert.deepEqual(ofQueue.map(indexOf), range(0, 24));
      },
    },
    {
      name: 'kill -9 between the Python producer and a pull by Python: all that was acknowledged is there',
      async run(env) {
        const options = { storeDir: join(env.dir, 'python-store'), smallFiles: true, brokerName: 'python-kill' };
        const one = await env.startBroker(env.sutKind, options);
        const topic = 'PythonKilled';
        const rows = await env.python.run('produce', { namesrv: one.namesrvAddr, topic, mode: 'sync', count: 40 });
        assert.equal(sent(rows).length, 40);
        await one.kill();
        const two = await env.startBroker(env.sutKind, options);
        const pulled = await env.python.run('pull', { namesrv: two.namesrvAddr, topic, group: 'G-PythonKilled' });
        assert.deepEqual(indexes(received(pulled)), range(0, 40));
      },
    },
    {
      name: 'push and pull consumers of what Java sent, with a tag filter',
      async run(env) {
        const topic = 'PythonConsumer';
        const options = { namesrv: env.broker.namesrvAddr, topic };
        await env.java.run('produce', { ...options, count: 30, tags: 'TagA,TagB,TagC', keys: true, unicode: true });
        const bodies = new Map(
          [...(await drain(env.java, env.broker, [topic])).values()].map((row) => [row['uniqKey'], row['bodySha256']]),
        );
        const all = received(await env.python.run('pull', { ...options, group: 'G-PythonPull' }));
        assert.equal(all.length, 30);
        assert.deepEqual(indexes(all), range(0, 30));
        for (const row of all) assert.equal(row['bodySha256'], bodies.get(row['msgId']), 'another body');
        const expression = 'TagA || TagB';
        const wanted = range(0, 30).filter((i) => i % 3 !== 2);
        const pulled = await env.python.run('pull', { ...options, group: 'G-PythonPull', expression });
        assert.deepEqual(indexes(received(pulled)), wanted);
        const push = env.python.start('consume', { ...options, group: 'G-PythonPush', expression });
        await push.until('what is there', (rows) => received(rows).length >= 20);
        // From here on it waits for what comes.
        await env.java.run('produce', { ...options, start: 30, count: 30, tags: 'TagA,TagB,TagC', keys: true });
        assert.deepEqual(indexes(await consumed(push, 40)), [...wanted, ...wanted.map((i) => i + 30)]);
      },
    },
    {
      name: 'delay level: delivered late, with its own topic, to a Python consumer',
      async run(env) {
        const topic = 'PythonDelay';
        const options = { namesrv: env.broker.namesrvAddr, topic };
        await env.python.run('produce', { ...options, keys: true, count: 4, prefix: 'now' });
        const rows = await env.python.run('produce', { ...options, keys: true, count: 8, 'delay-level': 3 });
        for (const row of sent(rows)) assert.equal(row['status'], 'SEND_OK');
        const push = env.python.start('consume', { ...options, group: 'G-PythonDelay' });
        assert.equal((await consumed(push, 12)).length, 12);
        const found = await byKey(env, topic);
        for (const i of range(0, 8)) {
          const row = found.get(`m-key-${i}`)!;
          assert.ok(Number(row['storeTimestamp']) - Number(row['bornTimestamp']) >= 1000, 'stored before its time');
        }
      },
    },
    {
      name: 'refused messages come again, in any order and in order',
      async run(env) {
        for (const orderly of [false, true]) {
          const topic = orderly ? 'PythonOrder' : 'PythonRetry';
          const options = { namesrv: env.broker.namesrvAddr, topic };
          await env.python.run('produce', { ...options, mode: 'orderly', queue: 1, count: 5 });
          const push = env.python.start('consume', { ...options, group: `G-${topic}`, orderly, 'fail-first': 1 });
          await push.until('each twice', (rows) => received(rows).filter((row) => row['delivery'] === 2).length >= 5);
          const rows = received(await push.close());
          assert.deepEqual(indexes(rows), range(0, 5));
          if (!orderly) continue;
          const accepted = rows.filter((row) => row['delivery'] === 2).map((row) => Number(row['index']));
          assert.deepEqual(accepted, range(0, 5));
        }
      },
    },
    {
      name: 'a Python consumer goes on where a Java consumer stopped, and a Java consumer where it stopped',
      async run(env) {
        const topic = 'PythonGoesOn';
        const options = { namesrv: env.broker.namesrvAddr, topic, group: 'G-PythonGoesOn' };
        for (const [turn, client] of [env.java, env.python, env.java].entries()) {
          await env.python.run('produce', { ...options, start: 10 * turn, count: 10 });
          const consumer = client.start('consume', options);
          const rows = await consumed(consumer, 10);
          const got = rows.map((row) => Number(row['index'] ?? propertiesOf(row)['index'])).sort((a, b) => a - b);
          assert.deepEqual(got, range(10 * turn, 10 * turn + 10));
        }
      },
    },
  ],
};
