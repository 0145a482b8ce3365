// Stores with extended units, batch queues and light queues, opened in turn by RocketMQ and by the system under test: every message drains equal from
// both, from each kind of queue, and with a tag filter, which reads through the extended units.

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Row } from '../child.ts';
import { assertAcknowledged, assertContains, assertSame, type Drained, drained, ofTopic } from '../drained.ts';
import { splitAddress } from '../probe.ts';
import { propertiesOf, received, sent } from '../rows.ts';
import type { Env, Suite } from '../runner.ts';
import { CLUSTER_NAME, type RunningBroker, type SystemKind } from '../system.ts';

const TOPICS = ['KindsPlain', 'KindsBatch', 'KindsLight'];
const LIGHT = ['%LMQ%a', '%LMQ%b', '%LMQ%c'];
const KINDS = ['consumequeue', 'consumequeue_ext', 'batchconsumequeue'];
const CONF = {
  enableConsumeQueueExt: true,
  mappedFileSizeConsumeQueueExt: 4096,
  mapperFileSizeBatchConsumeQueue: 460,
  enableLmq: true,
  enableMultiDispatch: true,
};

async function makeTopics(env: Env, broker: RunningBroker): Promise<void> {
  for (const topic of TOPICS) {
    const kind = topic === 'KindsBatch' ? ['-a', '+queue.type=BatchCQ'] : [];
    const target = ['-n', broker.namesrvAddr, '-c', CLUSTER_NAME];
    await env.java.mqadmin(['updateTopic', ...target, '-t', topic, '-r', '2', '-w', '2', ...kind]);
  }
}

/** Messages of a `fill`, each as often as it is in a queue. */
const FILL = 240 + 60 + 98 + 100;

/** Sends to all kinds; the answers of the single sends. */
async function fill(env: Env, broker: RunningBroker, prefix: string): Promise<Row[]> {
  const common = { namesrv: broker.namesrvAddr, prefix, keys: true, tags: 'TagA,TagB,refund' };
  const plain = await env.java.run('produce', { ...common, topic: 'KindsPlain', count: 240, mode: 'async' });
  const light = { ...common, topic: 'KindsLight', count: 60, 'multi-dispatch': '%LMQ%a;%LMQ%a,%LMQ%b;%LMQ%c,%LMQ%a' };
  const rows = [...plain, ...(await env.java.run('produce', light))];
  for (const batch of [7, 1]) {
    await env.java.run('produce', { ...common, topic: 'KindsBatch', count: 49, batch, mode: 'batch' });
  }
  return sent(rows);
}

async function drainKinds(env: Env, broker: RunningBroker): Promise<Drained> {
  const options = { namesrv: broker.namesrvAddr, topics: TOPICS.join(','), light: LIGHT.join(',') };
  return drained(await env.java.run('drain', options));
}

/** What a pull with a tag brings is what has it. */
async function assertFilters(env: Env, broker: RunningBroker, all: Drained): Promise<void> {
  for (const tag of ['TagB', 'refund']) {
    const options = { namesrv: broker.namesrvAddr, topics: 'KindsPlain', tag };
    const found = received(await env.java.run('drain', options)).map((row) => row['physicalOffset']);
    const wanted = ofTopic(all, 'KindsPlain').filter((row) => propertiesOf(row)['TAGS'] === tag);
    assert.ok(wanted.length > 50);
    assert.deepEqual(found.sort(), wanted.map((row) => row['physicalOffset']).sort(), tag);
  }
}

/** Hashes of all queue files. */
function queueFiles(storeDir: string): Record<string, string> {
  const hashes: Record<string, string> = {};
  for (const kind of KINDS) {
    for (const name of readdirSync(join(storeDir, kind), { recursive: true, encoding: 'utf8' }).sort()) {
      if (!/\d{20}$/.test(name)) continue;
      const bytes = readFileSync(join(storeDir, kind, name));
      hashes[`${kind}/${name}`] = createHash('sha256').update(bytes).digest('hex');
    }
  }
  for (const kind of KINDS)
    assert.ok(
      Object.keys(hashes).some((path) => path.startsWith(`${kind}/`)),
      kind,
    );
  return hashes;
}

/** `first` writes, `second` reads, changes nothing by it, and appends; `first` reads everything. */
async function thereAndBack(env: Env, first: SystemKind, second: SystemKind): Promise<void> {
  const storeDir = join(env.dir, 'store');
  const options = { storeDir, smallFiles: true, brokerName: 'kinds-broker', conf: CONF };
  const one = await env.startBroker(first, options);
  const restarted = { ...options, port: splitAddress(one.brokerAddr)[1] };
  await makeTopics(env, one);
  const sends = await fill(env, one, 'one');
  const afterOne = await drainKinds(env, one);
  assertAcknowledged(afterOne, sends);
  assert.equal(ofTopic(afterOne, '%LMQ%a').length, 60);
  assert.equal(ofTopic(afterOne, 'KindsBatch').length, 98);
  await assertFilters(env, one, afterOne);
  await one.stop();
  const files = queueFiles(storeDir);

  const reader = await env.startBroker(second, restarted);
  assertSame(await drainKinds(env, reader), afterOne, `${second} reads what ${first} wrote`);
  await assertFilters(env, reader, afterOne);
  await reader.stop();
  assert.deepEqual(queueFiles(storeDir), files, `${second} changes queue files by reading`);

  const two = await env.startBroker(second, restarted);
  sends.push(...(await fill(env, two, 'two')));
  const afterTwo = await drainKinds(env, two);
  assertContains(afterTwo, afterOne, `${second} appends`);
  assertAcknowledged(afterTwo, sends);
  // A broker that was busy may have refused some; nothing is there that was not sent.
  assert.ok(afterTwo.size <= 2 * FILL, `${afterTwo.size} messages`);
  await two.stop();

  const three = await env.startBroker(first, restarted);
  assertSame(await drainKinds(env, three), afterTwo, `${first} reads what ${second} appended`);
  await assertFilters(env, three, afterTwo);
  await three.stop();
}

export const queueKinds: Suite = {
  name: 'queue-kinds',
  needs: ['java'],
  shared: 'none',
  scenarios: [
    {
      name: 'Java writes ext, batch and light queues, Gantry appends, Java reads',
      run: async (env) => await thereAndBack(env, 'java', env.sutKind),
    },
    {
      name: 'Gantry writes ext, batch and light queues, Java appends, Gantry reads',
      run: async (env) => await thereAndBack(env, env.sutKind, 'java'),
    },
    {
      name: 'Gantry is killed with ext, batch and light queues, Java opens',
      async run(env) {
        const options = { storeDir: join(env.dir, 'store'), smallFiles: true, brokerName: 'kinds-broker', conf: CONF };
        const one = await env.startBroker(env.sutKind, options);
        await makeTopics(env, one);
        const sends = await fill(env, one, 'one');
        const before = await drainKinds(env, one);
        assertAcknowledged(before, sends);
        await one.kill();
        const two = await env.startBroker('java', options);
        assertSame(await drainKinds(env, two), before, 'Java after the kill');
        await assertFilters(env, two, before);
        await two.stop();
      },
    },
  ],
};
