// The Java producer, in each of its ways to send, and what a pull of everything then brings back.

import assert from 'node:assert/strict';
import { assertAcknowledged, assertUnique, drain, ofTopic } from '../drained.ts';
import { maxOffset, storedMessages } from '../probe.ts';
import { indexesOf, propertiesOf, range, received, sent } from '../rows.ts';
import type { Suite } from '../runner.ts';
import { until } from '../wait.ts';

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
        assert.deepEqual(indexesOf([...found.values()]), range(0, 40));
        assertAcknowledged(found, sent(rows));
        assertUnique(found);
        const tags = new Set([...found.values()].map((row) => propertiesOf(row)['TAGS']));
        assert.deepEqual([...tags].sort(), ['Größe', 'TagA', 'TagB'].sort());
        const first = [...found.values()].find((row) => propertiesOf(row)['index'] === '3');
        assert.equal(propertiesOf(first!)['name'], 'Ünïcödé 名前 3');
        assert.equal(propertiesOf(first!)['KEYS'], 'm-key-3 m-all');
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
        assert.deepEqual(indexesOf([...found.values()]), range(0, 600));
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
        await until(
          'all one-way messages are stored',
          async () => (await storedMessages(env.broker.brokerAddr, topic)) === 52,
        );
        const found = await drain(env.java, env.broker, [topic]);
        assert.deepEqual(indexesOf([...found.values()]), [0, ...range(0, 51)]);
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
        assert.deepEqual(indexesOf([...found.values()]), range(0, 30));
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
          range(before, before + 20),
        );
      },
    },
    {
      name: 'a message with a delay level is delivered later, and only then',
      async run(env) {
        const topic = 'ProducerDelay';
        await env.java.run('produce', { namesrv: env.broker.namesrvAddr, topic, count: 1, prefix: 'create' });
        await env.java.run('produce', { namesrv: env.broker.namesrvAddr, topic, count: 5, start: 1, 'delay-level': 2 });
        await until(
          'the delayed messages arrive',
          async () => (await storedMessages(env.broker.brokerAddr, topic)) === 6,
        );
        const rows = ofTopic(await drain(env.java, env.broker, [topic]), topic);
        assert.deepEqual(indexesOf(rows), range(0, 6));
        for (const row of received(rows)) {
          const properties = propertiesOf(row);
          if (properties['index'] === '0') continue;
          assert.ok(Number(row['storeTimestamp']) - Number(row['bornTimestamp']) >= 900, 'delivered too early');
        }
      },
    },
  ],
};
