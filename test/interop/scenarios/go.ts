// The Go client: producer, push consumer, filters and transactions, against what the Java client sees.

import assert from 'node:assert/strict';
import { join } from 'node:path';
import type { Child, Row } from '../child.ts';
import { drain } from '../drained.ts';
import { storedMessages } from '../probe.ts';
import { indexOf, propertiesOf, range, received, sent } from '../rows.ts';
import type { Suite } from '../runner.ts';
import { until } from '../wait.ts';

async function consumed(child: Child, count: number): Promise<Row[]> {
  await child.until(`${count} messages`, (rows) => new Set(received(rows).map((row) => row['index'])).size >= count);
  return await child.close();
}

function indexes(rows: readonly Row[]): number[] {
  return [...new Set(received(rows).map((row) => Number(row['index'])))].sort((a, b) => a - b);
}

export const go: Suite = {
  name: 'go',
  needs: ['go', 'java'],
  shared: 'small files',
  broker: {
    conf: {
      enablePropertyFilter: true,
      transactionCheckInterval: 1000,
      transactionTimeOut: 2000,
      transactionOpBatchInterval: 300,
    },
  },
  scenarios: [
    {
      name: 'producer sync, async and batch; a Java pull finds all',
      async run(env) {
        const topic = 'GoProducer';
        const options = { namesrv: env.broker.namesrvAddr, topic, tags: 'TagA,TagB', keys: true };
        const rows: Row[] = [];
        for (const mode of ['sync', 'async', 'batch']) {
          rows.push(...(await env.go.run('produce', { ...options, mode, count: 24, prefix: mode })));
        }
        assert.equal(rows.filter((row) => row['failed'] !== undefined).length, 0);
        for (const row of sent(rows)) assert.equal(row['status'], 'SEND_OK');
        assert.equal(sent(rows).length, 24 + 24 + 3);
        const found = [...(await drain(env.java, env.broker, [topic])).values()];
        assert.equal(found.length, 72);
        const keys = new Set(found.map((row) => propertiesOf(row)['KEYS']!.trim()));
        assert.deepEqual(
          keys,
          new Set(['sync', 'async', 'batch'].flatMap((mode) => range(0, 24).map((i) => `${mode}-key-${i}`))),
        );
      },
    },
    {
      name: 'push consumer of what Java sent, with a tag filter',
      async run(env) {
        const topic = 'GoConsumer';
        const options = { namesrv: env.broker.namesrvAddr, topic };
        await env.java.run('produce', { ...options, count: 30, tags: 'TagA,TagB,TagC', keys: true, unicode: true });
        const all = env.go.start('consume', { ...options, group: 'G-GoConsumer' });
        assert.deepEqual(indexes(await consumed(all, 30)), range(0, 30));
        const some = env.go.start('consume', { ...options, group: 'G-GoFilter', expression: 'TagA || TagB' });
        assert.deepEqual(
          indexes(await consumed(some, 20)),
          range(0, 30).filter((i) => i % 3 !== 2),
        );
        const java = new Map(
          [...(await drain(env.java, env.broker, [topic])).values()].map((row) => [row['uniqKey'], row['bodySha256']]),
        );
        for (const row of received(all.rows)) assert.equal(row['bodySha256'], java.get(row['msgId']), 'another body');
      },
    },
    {
      name: 'kill -9 between the Go producer and the Go consumer: all that was acknowledged arrives',
      async run(env) {
        const options = { storeDir: join(env.dir, 'go-store'), smallFiles: true, brokerName: 'go-kill' };
        const one = await env.startBroker(env.sutKind, options);
        const topic = 'GoKilled';
        const rows = await env.go.run('produce', { namesrv: one.namesrvAddr, topic, mode: 'sync', count: 40 });
        assert.equal(sent(rows).length, 40);
        await one.kill();
        const two = await env.startBroker(env.sutKind, options);
        const consumer = env.go.start('consume', { namesrv: two.namesrvAddr, topic, group: 'G-GoKilled' });
        assert.deepEqual(indexes(await consumed(consumer, 40)), range(0, 40));
      },
    },
    {
      name: 'SQL92: what is there, and what comes while it waits',
      async run(env) {
        const topic = 'GoSql';
        const options = { namesrv: env.broker.namesrvAddr, topic, tags: 'TagA,TagB' };
        await env.go.run('produce', { ...options, count: 30 });
        const sql = "index BETWEEN 3 AND 1000 AND TAGS = 'TagA' AND color IS NULL";
        const wanted = range(0, 30).filter((i) => i >= 3 && i % 2 === 0);
        const consumer = env.go.start('consume', { ...options, group: 'G-GoSql', sql });
        await consumer.until('what is there', (rows) => received(rows).length >= wanted.length);
        await env.java.run('produce', { ...options, start: 30, count: 10 });
        assert.deepEqual(indexes(await consumed(consumer, wanted.length + 5)), [...wanted, 30, 32, 34, 36, 38]);
      },
    },
    {
      name: 'transactions: commit, rollback, and unknown that a check ends',
      async run(env) {
        const topic = 'GoTransactions';
        const options = { namesrv: env.broker.namesrvAddr, topic, local: 'commit,rollback,unknown' };
        const producer = env.go.start('transact', { ...options, count: 12, group: 'T-Go', check: 'commit' });
        await producer.until('all are sent', (rows) => rows.some((row) => row['sentAll'] === true));
        const sends = sent(producer.rows);
        for (const row of sends) assert.equal(row['status'], 'SEND_OK');
        const expected = range(0, 12).filter((i) => i % 3 !== 1);
        await until(
          'all are delivered',
          async () => (await storedMessages(env.broker.brokerAddr, topic)) >= expected.length,
        );
        const asked = (await producer.close()).filter((row) => row['checked'] !== undefined);
        assert.deepEqual(new Set(asked.map((row) => row['checked'])), new Set(range(0, 12).filter((i) => i % 3 === 2)));
        for (const row of asked) {
          assert.equal(row['topic'], topic);
          assert.equal(row['transactionId'], sends.find((send) => send['sent'] === row['checked'])!['msgId']);
        }
        const found = [...(await drain(env.java, env.broker, [topic])).values()];
        const have = found.map(indexOf);
        assert.deepEqual(
          have.sort((a, b) => a - b),
          expected,
        );
      },
    },
    {
      name: 'request and reply',
      async run(env) {
        const options = { namesrv: env.broker.namesrvAddr, topic: 'GoRequest', group: 'G-GoRequest', count: 3 };
        const rows = await env.go.run('request-reply', options);
        const answers = rows.filter((row) => row['answer'] !== undefined).map((row) => row['body']);
        assert.deepEqual(answers, ['re:go0', 're:go1', 're:go2']);
      },
    },
    {
      name: 'a Go consumer goes on where a Java consumer stopped',
      async run(env) {
        const topic = 'GoGoesOn';
        const options = { namesrv: env.broker.namesrvAddr, topic, group: 'G-GoGoesOn' };
        await env.java.run('produce', { ...options, count: 20 });
        const java = env.java.start('consume', options);
        await java.until('20 messages', (rows) => received(rows).length >= 20);
        await java.close();
        await env.java.run('produce', { ...options, count: 10, start: 20 });
        const rows = await consumed(env.go.start('consume', options), 10);
        assert.deepEqual(indexes(rows), range(20, 30));
      },
    },
  ],
};
