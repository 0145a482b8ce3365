// The Go client: producer and push consumer, against what the Java client sees.

import assert from 'node:assert/strict';
import type { Child, Row } from '../child.ts';
import { received, sent } from '../clients.ts';
import { drain } from '../drained.ts';
import type { Suite } from '../runner.ts';

async function consumed(child: Child, count: number): Promise<Row[]> {
  await child.until(`${count} messages`, (rows) => new Set(received(rows).map((row) => row['index'])).size >= count);
  return await child.close();
}

function indexes(rows: readonly Row[]): number[] {
  return [...new Set(received(rows).map((row) => Number(row['index'])))].sort((a, b) => a - b);
}

function range(to: number): number[] {
  return Array.from({ length: to }, (_, i) => i);
}

export const go: Suite = {
  name: 'go',
  needs: ['go', 'java'],
  shared: 'small files',
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
        const keys = new Set(found.map((row) => (row['properties'] as Record<string, string>)['KEYS']!.trim()));
        assert.deepEqual(
          keys,
          new Set(['sync', 'async', 'batch'].flatMap((mode) => range(24).map((i) => `${mode}-key-${i}`))),
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
        assert.deepEqual(indexes(await consumed(all, 30)), range(30));
        const some = env.go.start('consume', { ...options, group: 'G-GoFilter', expression: 'TagA || TagB' });
        assert.deepEqual(
          indexes(await consumed(some, 20)),
          range(30).filter((i) => i % 3 !== 2),
        );
        const java = new Map(
          [...(await drain(env.java, env.broker, [topic])).values()].map((row) => [row['uniqKey'], row['bodySha256']]),
        );
        for (const row of received(all.rows)) assert.equal(row['bodySha256'], java.get(row['msgId']), 'another body');
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
        assert.deepEqual(indexes(rows), range(30).slice(20));
      },
    },
  ],
};
