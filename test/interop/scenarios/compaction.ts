// A topic that is compacted by key, written and compacted by Gantry, which is killed meanwhile, then by RocketMQ on the same directory, which is
// killed, too, and by Gantry again: the newest message of each key is always there, in the same place, and nothing older below the checkpoint.

import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Row } from '../child.ts';
import { splitAddress } from '../probe.ts';
import { indexOf, propertiesOf, received } from '../rows.ts';
import type { Env, Suite } from '../runner.ts';
import { CLUSTER_NAME, type RunningBroker } from '../system.ts';
import { until } from '../wait.ts';

const TOPIC = 'Compacted';
const KEYS = 7;
const CONF = { compactionMappedFileSize: 20_240, compactionCqMappedFileSize: 460, compactionScheduleInternal: 1000 };

function compactedTo(storeDir: string): number {
  const path = join(storeDir, 'compaction/position-checkpoint');
  if (!existsSync(path)) return -1;
  return JSON.parse(readFileSync(path, 'utf8') || '{}').queueOffsetMap?.[`${TOPIC}_0`] ?? -1;
}

async function send(env: Env, broker: RunningBroker, start: number, count: number): Promise<void> {
  const options = { namesrv: broker.namesrvAddr, topic: TOPIC, queue: 0, start, count, 'key-count': KEYS };
  const rows = await env.java.run('produce', options);
  assert.equal(rows.filter((row) => row['sent'] !== undefined).length, count);
}

/** What pulls bring, when `sends` messages were sent. */
async function drainCompacted(env: Env, broker: RunningBroker, storeDir: string, sends: number): Promise<Row[]> {
  const rows = received(await env.java.run('drain', { namesrv: broker.namesrvAddr, topics: TOPIC }));
  const position = compactedTo(storeDir);
  const newest = new Map<string, number>();
  const old: string[] = [];
  for (const row of rows) {
    const key = propertiesOf(row)['KEYS']!;
    newest.set(key, indexOf(row));
    if (Number(row['queueOffset']) <= position) old.push(key);
  }
  const expected = Array.from({ length: sends }, (_, i) => [`key-${i % KEYS}`, i] as const);
  assert.deepEqual(Object.fromEntries(newest), Object.fromEntries(expected));
  assert.equal(new Set(old).size, old.length, `older messages stay below ${position}: ${old}`);
  return rows;
}

export const compaction: Suite = {
  name: 'compaction',
  needs: ['java'],
  shared: 'none',
  scenarios: [
    {
      name: 'a compacted topic goes from Gantry to Java and back, each killed',
      async run(env) {
        const storeDir = join(env.dir, 'store');
        const options = { storeDir, smallFiles: true, brokerName: 'compaction-broker', conf: CONF };
        const first = await env.startBroker(env.sutKind, options);
        const target = ['-n', first.namesrvAddr, '-c', CLUSTER_NAME];
        const attributes = ['-a', '+cleanup.policy=COMPACTION'];
        await env.java.mqadmin(['updateTopic', ...target, '-t', TOPIC, '-r', '1', '-w', '1', ...attributes]);
        await send(env, first, 0, 60);
        await first.kill();
        const again = { ...options, port: splitAddress(first.brokerAddr)[1] };

        const second = await env.startBroker(env.sutKind, again);
        await send(env, second, 60, 60);
        await until('the topic is compacted', () => compactedTo(storeDir) >= 110);
        const ours = await drainCompacted(env, second, storeDir, 120);
        assert.ok(ours.length < 30, `${ours.length} messages are left`);
        await second.kill();

        const java = await env.startBroker('java', again);
        assert.deepEqual(await drainCompacted(env, java, storeDir, 120), ours, 'Java reads what Gantry compacted');
        await send(env, java, 120, 60);
        await until('Java compacts the topic', () => compactedTo(storeDir) >= 160);
        const javas = await drainCompacted(env, java, storeDir, 180);
        await java.kill();

        const last = await env.startBroker(env.sutKind, again);
        assert.deepEqual(await drainCompacted(env, last, storeDir, 180), javas, 'Gantry reads what Java compacted');
        await last.stop();
      },
    },
  ],
};
