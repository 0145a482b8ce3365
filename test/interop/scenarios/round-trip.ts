// One store directory, opened in turn by RocketMQ and by the system under test, which append to it: every message drains equal
// from both, field by field, also after either was killed while it wrote. Files are small, so that the log has many.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Row } from '../child.ts';
import {
  assertAcknowledged,
  assertContains,
  assertSame,
  assertUnique,
  type Drained,
  drain,
  drained,
  ofTopic,
} from '../drained.ts';
import { splitAddress } from '../probe.ts';
import { received, sent } from '../rows.ts';
import type { Env, Suite } from '../runner.ts';
import {
  CLUSTER_NAME,
  type RunningBroker,
  SMALL_COMMIT_LOG_FILE,
  type SystemKind,
  writeBrokerConf,
} from '../system.ts';
import { until } from '../wait.ts';

const TOPICS = ['RoundSingle', 'RoundBatch', 'RoundLarge', 'RoundGroup'];
const GROUP = 'G-RoundGroup';
const MANY_FILES = 11;

function logFiles(storeDir: string): number {
  return readdirSync(join(storeDir, 'commitlog')).length;
}

/** Sends a mix: tags, keys, unicode, batches, compressed bodies, several topics; the answers. */
async function fill(env: Env, broker: RunningBroker, prefix: string): Promise<Row[]> {
  const common = { namesrv: broker.namesrvAddr, prefix, keys: true };
  const rows = [
    ...(await env.java.run('produce', {
      ...common,
      topic: 'RoundSingle',
      count: 120,
      tags: 'TagA,TagB',
      unicode: true,
      mode: 'async',
    })),
    ...(await env.java.run('produce', {
      ...common,
      topic: 'RoundLarge',
      count: 250,
      size: 3000,
      'compress-over': 1_000_000,
    })),
    ...(await env.java.run('produce', {
      ...common,
      topic: 'RoundLarge',
      count: 5,
      size: 20_000,
      'compress-over': 4096,
    })),
    ...(await env.java.run('produce', { ...common, topic: 'RoundGroup', count: 40, mode: 'async' })),
  ];
  await env.java.run('produce', {
    ...common,
    topic: 'RoundBatch',
    count: 48,
    batch: 8,
    mode: 'batch',
    tags: 'TagA,TagB',
  });
  return sent(rows);
}

/** Lets the group consume everything there is of its topic, and waits until the broker has been told: what a client says as it shuts down may be lost. */
async function consumeAll(env: Env, broker: RunningBroker, count: number): Promise<Row[]> {
  const child = env.java.start('consume', { namesrv: broker.namesrvAddr, topic: 'RoundGroup', group: GROUP });
  await child.until(`${count} messages`, (rows) => received(rows).length >= count);
  await until('the broker knows that the group has consumed everything', async () => {
    const queues = Object.values(await offsets(env, broker));
    return queues.length > 0 && queues.every((queue) => queue.consumer === queue.broker);
  });
  return received(await child.close());
}

async function offsets(env: Env, broker: RunningBroker): Promise<Record<string, { consumer: number; broker: number }>> {
  const rows = await env.java.run('offsets', { namesrv: broker.namesrvAddr, topic: 'RoundGroup', group: GROUP });
  return rows.find((row) => row['offsets'] !== undefined)!['offsets'] as Record<
    string,
    { consumer: number; broker: number }
  >;
}

/** Finds one message of each send by its key, its unique key and its id, which needs the index and the log. */
async function assertQueries(
  env: Env,
  broker: RunningBroker,
  prefixes: readonly string[],
  sends: readonly Row[],
): Promise<void> {
  for (const prefix of prefixes) {
    const send = sends.find((row) => row['topic'] === 'RoundSingle' && String(row['prefix']) === prefix)!;
    const rows = await env.java.run('admin', {
      namesrv: broker.namesrvAddr,
      broker: broker.brokerAddr,
      topic: 'RoundSingle',
      steps: 'byId,byUniqKey,byKey',
      id: String(send['offsetMsgId']),
      'uniq-key': String(send['msgId']),
      key: `${prefix}-key-${send['sent']}`,
    });
    const value = (name: string) => {
      const row = rows.find((candidate) => candidate['step'] === name);
      assert.equal(row?.['failure'], undefined, `${prefix} ${name}: ${row?.['failure']}`);
      return row?.['value'] as Record<string, unknown>;
    };
    for (const name of ['byId', 'byUniqKey']) assert.equal(value(name)['uniqKey'], send['msgId'], `${prefix} ${name}`);
    assert.deepEqual(
      value('byKey'),
      { [String(send['sent'])]: `${send['queueId']}:${send['queueOffset']}` },
      `${prefix} byKey`,
    );
  }
}

function copyStore(from: string, to: string): string {
  const result = spawnSync('cp', ['-a', '--sparse=always', from, to]);
  assert.equal(result.status, 0, `cp: ${result.stderr}`);
  return to;
}

/** Opens a copy of the store with RocketMQ's bare store classes: what its queues and its log hold. */
async function readOffline(env: Env, storeDir: string, copy: string): Promise<Drained> {
  const dir = copyStore(storeDir, join(env.dir, copy));
  const conf = join(env.dir, `${copy}.conf`);
  writeBrokerConf(conf, { storeDir: dir, brokerName: 'offline', port: 0, namesrvAddr: '', smallFiles: true });
  const rows = await env.java.run('store', { conf });
  const opened = rows.find((row) => row['loaded'] !== undefined);
  assert.equal(opened?.['loaded'], true, 'RocketMQ does not load the store');
  assert.equal(
    rows.find((row) => row['dispatched'] !== undefined)?.['dispatched'],
    true,
    'RocketMQ does not get through the log',
  );
  return drained(
    rows.filter((row) =>
      TOPICS.some((topic) => row['topic'] === topic || String(row['queue']).startsWith(`${topic}:`)),
    ),
  );
}

/** `first` writes, `second` appends, `first` reads everything: (a) and (b) of the round trip. */
async function thereAndBack(env: Env, first: SystemKind, second: SystemKind): Promise<void> {
  const storeDir = join(env.dir, 'store');
  const options = { storeDir, smallFiles: true, brokerName: 'round-broker' };

  const one = await env.startBroker(first, options);
  // A message id names the broker's address.
  const restarted = { ...options, port: splitAddress(one.brokerAddr)[1] };
  const sends = (await fill(env, one, 'one')).map((row) => ({ ...row, prefix: 'one' }) as Row);
  await consumeAll(env, one, 40);
  await env.java.run('produce', { namesrv: one.namesrvAddr, topic: 'RoundGroup', prefix: 'lag', count: 20 });
  const afterOne = await drain(env.java, one, TOPICS);
  const offsetsOfOne = await offsets(env, one);
  assertAcknowledged(afterOne, sends);
  assert.ok(logFiles(storeDir) >= MANY_FILES, `only ${logFiles(storeDir)} CommitLog files`);
  await one.stop();
  assert.ok(!existsSync(join(storeDir, 'abort')), `${first} left the abort file behind`);
  assertSame(await readOffline(env, storeDir, 'copy-one'), afterOne, `${first}'s files read offline`);

  const two = await env.startBroker(second, restarted);
  assertSame(await drain(env.java, two, TOPICS), afterOne, `${second} reads what ${first} wrote`);
  assert.deepEqual(await offsets(env, two), offsetsOfOne, `${second} knows the group's offsets`);
  await assertQueries(env, two, ['one'], sends);
  assert.equal((await consumeAll(env, two, 20)).length, 20, `${second} delivers exactly what the group had not seen`);
  sends.push(...(await fill(env, two, 'two')).map((row) => ({ ...row, prefix: 'two' }) as Row));
  const afterTwo = await drain(env.java, two, TOPICS);
  const offsetsOfTwo = await offsets(env, two);
  assertContains(afterTwo, afterOne, `${second} appends`);
  assertAcknowledged(afterTwo, sends);
  assertUnique(afterTwo);
  assert.equal(ofTopic(afterTwo, 'RoundBatch').length, 96);
  await two.stop();
  assert.ok(!existsSync(join(storeDir, 'abort')), `${second} left the abort file behind`);
  assertSame(await readOffline(env, storeDir, 'copy-two'), afterTwo, `${second}'s files read offline by RocketMQ`);

  const three = await env.startBroker(first, restarted);
  assertSame(await drain(env.java, three, TOPICS), afterTwo, `${first} reads what ${second} wrote`);
  assert.deepEqual(await offsets(env, three), offsetsOfTwo, `${first} knows the group's offsets`);
  await assertQueries(env, three, ['one', 'two'], sends);
  assert.equal((await consumeAll(env, three, 40)).length, 40, `${first} delivers exactly what the group had not seen`);
  await three.stop();
}

/** `killed` dies by SIGKILL while it takes messages; `opener` must find what was acknowledged, and both must agree. */
async function killAndOpen(
  env: Env,
  killed: SystemKind,
  opener: SystemKind,
  conf: Record<string, string>,
): Promise<void> {
  const storeDir = join(env.dir, 'store');
  const options = { storeDir, smallFiles: true, brokerName: 'kill-broker', conf };
  const broker = await env.startBroker(killed, options);
  const load = env.java.start('load', {
    namesrv: broker.namesrvAddr,
    topic: 'RoundLarge',
    size: 1000,
    threads: 8,
    keys: true,
    tags: 'TagA,TagB',
    'compress-over': 1_000_000,
  });
  const enough = Math.ceil((MANY_FILES * SMALL_COMMIT_LOG_FILE) / 1000);
  await load.until('enough for many files', () => sent(load.rows).length >= enough && logFiles(storeDir) > MANY_FILES);
  await broker.kill();
  const sends = sent(await load.finish());
  assert.ok(existsSync(join(storeDir, 'abort')), 'a killed broker leaves the abort file');
  const other = copyStore(storeDir, join(env.dir, 'store-for-the-other'));

  const opened = await env.startBroker(opener, options);
  const found = await drain(env.java, opened, ['RoundLarge']);
  assertAcknowledged(found, sends);
  assertUnique(found);
  const more = sent(
    await env.java.run('produce', { namesrv: opened.namesrvAddr, topic: 'RoundLarge', prefix: 'more', count: 40 }),
  );
  const withMore = await drain(env.java, opened, ['RoundLarge']);
  assertContains(withMore, found, `${opener} appends after the recovery`);
  assertAcknowledged(withMore, more);
  await opened.stop();
  assertSame(await readOffline(env, storeDir, 'copy-after'), withMore, 'read offline by RocketMQ');

  const again = await env.startBroker(killed, { ...options, storeDir: other });
  assertSame(await drain(env.java, again, ['RoundLarge']), found, `${killed} recovers to the same as ${opener}`);
  await again.stop();
}

/** A topic is deleted and made anew at `writer`, which is then killed: what was sent since is there, and nothing from before. */
async function deleteAndOpen(env: Env, writer: SystemKind): Promise<void> {
  const options = { storeDir: join(env.dir, 'store'), smallFiles: true, brokerName: 'delete-broker' };
  const broker = await env.startBroker(writer, options);
  const { namesrvAddr } = broker;
  await env.java.run('produce', { namesrv: namesrvAddr, topic: 'RoundSingle', prefix: 'old', count: 120 });
  await env.java.mqadmin(['deleteTopic', '-n', namesrvAddr, '-c', CLUSTER_NAME, '-t', 'RoundSingle']);
  const sends = sent(
    await env.java.run('produce', { namesrv: namesrvAddr, topic: 'RoundSingle', prefix: 'new', count: 20 }),
  );
  const before = await drain(env.java, broker, ['RoundSingle']);
  assertAcknowledged(before, sends);
  assert.equal(before.size, 20);
  await broker.kill();
  // All that is left is the log, and what the broker has written down beside it.
  rmSync(join(options.storeDir, 'consumequeue'), { recursive: true });
  const opened = await env.startBroker('gantry', options);
  assertSame(await drain(env.java, opened, ['RoundSingle']), before, 'after the kill');
  await opened.stop();
}

/** A bit of a stored body is flipped in the middle of the log, and the queues are gone: Gantry does what it was told to, and RocketMQ goes on with that. */
async function damageAndOpen(env: Env, gantryDamagedRecord: 'skip' | 'cut'): Promise<void> {
  const storeDir = join(env.dir, 'store');
  const options = { storeDir, smallFiles: true, brokerName: 'damage-broker' };
  const broker = await env.startBroker('gantry', options);
  await fill(env, broker, 'one');
  const before = await drain(env.java, broker, TOPICS);
  await broker.stop();
  const position = (row: Row): number => Number(`0x${String(row['offsetMsgId']).slice(-16)}`);
  const large = ofTopic(before, 'RoundLarge').sort((a, b) => position(a) - position(b));
  const victim = large[100]!;
  const at = position(victim) + 1000;
  const file = join(storeDir, 'commitlog', String(at - (at % SMALL_COMMIT_LOG_FILE)).padStart(20, '0'));
  const bytes = readFileSync(file);
  bytes[at % SMALL_COMMIT_LOG_FILE]! ^= 4;
  writeFileSync(file, bytes);
  rmSync(join(storeDir, 'consumequeue'), { recursive: true });

  const again = await env.startBroker('gantry', { ...options, conf: { gantryDamagedRecord } });
  const found = await drain(env.java, again, TOPICS);
  const key = `RoundLarge:${victim['queueId']}:${victim['queueOffset']}`;
  for (const [place, row] of before) {
    const isKept = gantryDamagedRecord === 'skip' ? place !== key : position(row) < position(victim);
    if (isKept) assertContains(found, new Map([[place, row]]), 'beside the damaged record');
    else if (gantryDamagedRecord === 'skip') assert.notEqual(found.get(place)?.['uniqKey'], row['uniqKey']);
    else assert.ok(!found.has(place), `${place} lies behind the cut`);
  }
  assert.equal(found.has(key), gantryDamagedRecord === 'skip', 'the place of the damaged record');
  await again.stop();
  assertSame(await readOffline(env, storeDir, 'copy'), found, 'read offline by RocketMQ');

  rmSync(join(storeDir, 'consumequeue'), { recursive: true });
  const port = splitAddress(broker.brokerAddr)[1];
  // Of its own accord RocketMQ looks at the last ten files only.
  const java = await env.startBroker('java', { ...options, port, conf: { commitLogRecoverMaxNum: 100 } });
  assertSame(await drain(env.java, java, TOPICS), found, 'RocketMQ builds the queues again');
  await java.stop();
}

export const roundTrip: Suite = {
  name: 'round-trip',
  needs: ['java'],
  shared: 'none',
  scenarios: [
    {
      name: 'Java writes, Gantry appends, Java reads',
      run: async (env) => await thereAndBack(env, 'java', env.sutKind),
    },
    {
      name: 'Gantry writes, Java appends, Gantry reads',
      run: async (env) => await thereAndBack(env, env.sutKind, 'java'),
    },
    {
      name: 'Gantry is killed under load, Java opens',
      run: async (env) => await killAndOpen(env, env.sutKind, 'java', {}),
    },
    {
      name: 'Gantry is killed under load with sync flush, Java opens',
      run: async (env) => await killAndOpen(env, env.sutKind, 'java', { flushDiskType: 'SYNC_FLUSH' }),
    },
    // The settings of the log's files. Java has the same ones; those that are ours it does not know.
    ...[
      { gantrySegments: 'mapped' },
      { gantrySegments: 'mapped', flushDiskType: 'SYNC_FLUSH' },
      { gantrySegments: 'mapped', warmMapedFileEnable: 'true' },
      { writeWithoutMmap: 'true' },
      // Without a flush the pool answers what a kill takes.
      { transientStorePoolEnable: 'true', flushDiskType: 'SYNC_FLUSH' },
    ].map((conf: Record<string, string>) => ({
      name: `Gantry is killed under load, Java opens: ${Object.entries(conf)
        .map((pair) => pair.join('='))
        .join(', ')}`,
      run: async (env: Env) => await killAndOpen(env, env.sutKind, 'java', conf),
    })),
    {
      name: 'Java is killed under load with writeWithoutMmap, Gantry opens',
      run: async (env) => await killAndOpen(env, 'java', env.sutKind, { writeWithoutMmap: 'true' }),
    },
    {
      name: 'Java is killed under load, Gantry opens',
      run: async (env) => await killAndOpen(env, 'java', env.sutKind, {}),
    },
    {
      name: 'a topic deleted and made anew at Java, which is killed: Gantry reads what was sent since',
      run: async (env) => await deleteAndOpen(env, 'java'),
    },
    {
      name: 'a topic deleted and made anew at Gantry, which is killed: Gantry reads what was sent since',
      run: async (env) => await deleteAndOpen(env, 'gantry'),
    },
    {
      name: 'a damaged record is skipped by Gantry, Java opens',
      run: async (env) => await damageAndOpen(env, 'skip'),
    },
    {
      name: 'Gantry cuts at a damaged record, Java opens',
      run: async (env) => await damageAndOpen(env, 'cut'),
    },
    {
      name: 'offsets of a group survive the kill of the broker that took them',
      async run(env) {
        const storeDir = join(env.dir, 'store');
        const options = { storeDir, smallFiles: true, brokerName: 'round-broker' };
        const one = await env.startBroker(env.sutKind, options);
        await env.java.run('produce', { namesrv: one.namesrvAddr, topic: 'RoundGroup', count: 40 });
        await consumeAll(env, one, 40);
        const before = await offsets(env, one);
        await until('the offsets are on disk', () => {
          const file = join(storeDir, 'config/consumerOffset.json');
          if (!existsSync(file)) return false;
          const table = spawnSync('cat', [file], { encoding: 'utf8' }).stdout;
          return Object.values(before).every(({ consumer }) => table.includes(`:${consumer}`));
        });
        await one.kill();
        const two = await env.startBroker('java', options);
        assert.deepEqual(await offsets(env, two), before);
        await two.stop();
      },
    },
  ],
};
