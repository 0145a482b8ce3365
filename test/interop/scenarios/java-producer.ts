// The Java producer, in each of its ways to send, and what a pull of everything then brings back.

import assert from 'node:assert/strict';
import { received, sent } from '../clients.ts';
import { assertAcknowledged, assertUnique, drain, ofTopic } from '../drained.ts';
import { maxOffset } from '../probe.ts';
import type { Env, Suite } from '../runner.ts';
import { until } from '../wait.ts';

const QUEUES = 4;

/** Messages behind the maximum offsets of a topic's queues. */
export async function stored(env: Env, topic: string, queues: number = QUEUES): Promise<number> {
  let total = 0;
  for (let queueId = 0; queueId < queues; queueId++) total += await maxOffset(env.broker.brokerAddr, topic, queueId);
  return total;
}

function indexes(rows: readonly Record<string, unknown>[]): number[] {
  return rows.map((row) => Number((row['properties'] as Record<string, string>)['index'])).sort((a, b) => a - b);
}

function upTo(count: number): number[] {
  return Array.from({ length: count }, (_, i) => i);
}

export const javaProducer: Suite = {
  name: 'java-producer',
  needs: ['java'],
  shared: 'small files',
  scenarios: [
    {
      name: 'sync with tags, keys and unicode, to a topic that did not exist',
      async run(env) {
        const topic = 'ProducerSync';
        const rows = await env.java.run('produce', {
          namesrv: env.broker.namesrvAddr,
          topic,
          count: 40,
          tags: 'TagA,TagB,Größe',
          keys: true,
          unicode: true,
        });
        assert.equal(sent(rows).length, 40);
        for (const row of sent(rows)) assert.equal(row['status'], 'SEND_OK');
        const found = await drain(env.java, env.broker, [topic]);
        assert.deepEqual(indexes([...found.values()]), upTo(40));
        assertAcknowledged(found, sent(rows));
        assertUnique(found);
        const tags = new Set([...found.values()].map((row) => (row['properties'] as Record<string, string>)['TAGS']));
        assert.deepEqual([...tags].sort(), ['Größe', 'TagA', 'TagB'].sort());
        const first = [...found.values()].find((row) => (row['properties'] as Record<string, string>)['index'] === '3');
        assert.equal((first!['properties'] as Record<string, string>)['name'], 'Ünïcödé 名前 3');
        assert.equal((first!['properties'] as Record<string, string>)['KEYS'], 'm-key-3 m-all');
        assert.equal(first!['flag'], 3);
      },
    },
    {
      name: 'async, 64 in flight',
      async run(env) {
        const topic = 'ProducerAsync';
        const rows = await env.java.run('produce', {
          namesrv: env.broker.namesrvAddr,
          topic,
          mode: 'async',
          count: 600,
          keys: true,
        });
        assert.deepEqual(
          rows.filter((row) => row['failed'] !== undefined),
          [],
        );
        assert.equal(sent(rows).length, 600);
        const found = await drain(env.java, env.broker, [topic]);
        assert.deepEqual(indexes([...found.values()]), upTo(600));
        assertAcknowledged(found, sent(rows));
      },
    },
    {
      name: 'one-way',
      async run(env) {
        const topic = 'ProducerOneway';
        await env.java.run('produce', { namesrv: env.broker.namesrvAddr, topic, count: 1, prefix: 'first' });
        await env.java.run('produce', {
          namesrv: env.broker.namesrvAddr,
          topic,
          mode: 'oneway',
          count: 50,
          barrier: true,
        });
        await until('all one-way messages are stored', async () => (await stored(env, topic)) === 52);
        const found = await drain(env.java, env.broker, [topic]);
        assert.deepEqual(indexes([...found.values()]), [0, ...upTo(51)]);
      },
    },
    {
      name: 'batch',
      async run(env) {
        const topic = 'ProducerBatch';
        const rows = await env.java.run('produce', {
          namesrv: env.broker.namesrvAddr,
          topic,
          mode: 'batch',
          count: 30,
          batch: 8,
          tags: 'TagA,TagB',
          keys: true,
          unicode: true,
        });
        const found = await drain(env.java, env.broker, [topic]);
        assert.deepEqual(indexes([...found.values()]), upTo(30));
        assert.equal(sent(rows).length, 4);
        for (const row of sent(rows)) {
          assert.equal(row['status'], 'SEND_OK');
          const ids = String(row['msgId']).split(',');
          const offsetIds = String(row['offsetMsgId']).split(',');
          assert.equal(ids.length, row['sent'] === 24 ? 6 : 8);
          assert.equal(offsetIds.length, ids.length);
          for (const [i, id] of ids.entries()) {
            const member = found.get(`${topic}:${row['queueId']}:${Number(row['queueOffset']) + i}`);
            assert.equal(member?.['uniqKey'], id);
            assert.equal(member?.['offsetMsgId'], offsetIds[i]);
          }
        }
      },
    },
    {
      name: 'a compressed body comes back as it was',
      async run(env) {
        const topic = 'ProducerCompressed';
        const rows = await env.java.run('produce', {
          namesrv: env.broker.namesrvAddr,
          topic,
          count: 3,
          size: 30_000,
          'compress-over': 4096,
        });
        assert.equal(sent(rows).length, 3);
        for (const row of (await drain(env.java, env.broker, [topic])).values()) {
          assert.equal(row['bodyLength'], 30_000);
          assert.ok(Number(row['storeSize']) < 10_000, 'stored without compression');
        }
      },
    },
    {
      name: 'to one queue, in order',
      async run(env) {
        const topic = 'ProducerQueue';
        await env.java.run('produce', { namesrv: env.broker.namesrvAddr, topic, count: 8, prefix: 'create' });
        const before = await maxOffset(env.broker.brokerAddr, topic, 2);
        const rows = await env.java.run('produce', { namesrv: env.broker.namesrvAddr, topic, count: 20, queue: 2 });
        assert.deepEqual(
          sent(rows).map((row) => row['queueOffset']),
          upTo(20).map((i) => before + i),
        );
      },
    },
    {
      name: 'a message with a delay level is delivered later, and only then',
      async run(env) {
        const topic = 'ProducerDelay';
        await env.java.run('produce', { namesrv: env.broker.namesrvAddr, topic, count: 1, prefix: 'create' });
        await env.java.run('produce', { namesrv: env.broker.namesrvAddr, topic, count: 5, start: 1, 'delay-level': 2 });
        await until('the delayed messages arrive', async () => (await stored(env, topic)) === 6);
        const rows = ofTopic(await drain(env.java, env.broker, [topic]), topic);
        assert.deepEqual(indexes(rows), upTo(6));
        for (const row of received(rows)) {
          const properties = row['properties'] as Record<string, string>;
          if (properties['index'] === '0') continue;
          assert.ok(Number(row['storeTimestamp']) - Number(row['bornTimestamp']) >= 900, 'delivered too early');
        }
      },
    },
  ],
};
