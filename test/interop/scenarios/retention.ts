// Old files of a store that Gantry serves: they go at an administrator's request, a consumer whose messages went with them goes on, and
// RocketMQ opens what is left, also after a kill in the middle of a removal.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { assertContains, assertSame, assertUnique, type Drained, drain, drained } from '../drained.ts';
import { RawConnection, splitAddress } from '../probe.ts';
import { received, sent } from '../rows.ts';
import type { Env, Suite } from '../runner.ts';
import { type RunningBroker, SMALL_COMMIT_LOG_FILE, writeBrokerConf } from '../system.ts';
import { until } from '../wait.ts';

const TOPICS = ['RoundLarge', 'RoundGroup'];
const DELETE_EXPIRED_COMMITLOG = 329;
const GROUP = 'G-Retention';
const OLD_AT_ONCE = { fileReservedTime: 0, deleteCommitLogFilesInterval: 1, deleteConsumeQueueFilesInterval: 1 };

/** Numbers of the CommitLog files, oldest first. */
function logFiles(storeDir: string): number[] {
  return readdirSync(join(storeDir, 'commitlog'))
    .map((name) => Number(name) / SMALL_COMMIT_LOG_FILE)
    .sort((a, b) => a - b);
}

async function removeOld(env: Env, broker: RunningBroker): Promise<void> {
  await env.java.mqadmin(['deleteExpiredCommitLog', '-n', broker.namesrvAddr, '-b', broker.brokerAddr]);
}

async function produce(env: Env, broker: RunningBroker, topic: string, count: number, size = 100): Promise<void> {
  const rows = await env.java.run('produce', {
    namesrv: broker.namesrvAddr,
    topic,
    prefix: `${topic}-${count}`,
    count,
    size,
    keys: true,
    'compress-over': 1_000_000,
  });
  assert.equal(sent(rows).length, count);
}

/** What RocketMQ's bare store classes read in a copy of the store. */
async function readOffline(env: Env, storeDir: string, copy: string): Promise<Drained> {
  const dir = join(env.dir, copy);
  assert.equal(spawnSync('cp', ['-a', '--sparse=always', storeDir, dir]).status, 0);
  const conf = join(env.dir, `${copy}.conf`);
  writeBrokerConf(conf, { storeDir: dir, brokerName: 'offline', port: 0, namesrvAddr: '', smallFiles: true });
  const rows = await env.java.run('store', { conf });
  assert.equal(rows.find((row) => row['loaded'] !== undefined)?.['loaded'], true, 'RocketMQ loads the store');
  assert.equal(rows.find((row) => row['dispatched'] !== undefined)?.['dispatched'], true, 'and gets through the log');
  rmSync(dir, { recursive: true });
  return drained(
    rows.filter((row) =>
      TOPICS.some((topic) => row['topic'] === topic || String(row['queue']).startsWith(`${topic}:`)),
    ),
  );
}

export const retention: Suite = {
  name: 'retention',
  needs: ['java'],
  shared: 'none',
  scenarios: [
    {
      name: 'old files go at the request of mqadmin, a consumer goes on, RocketMQ opens what is left',
      async run(env) {
        const storeDir = join(env.dir, 'store');
        const options = { storeDir, smallFiles: true, brokerName: 'old-files', conf: OLD_AT_ONCE };
        const broker = await env.startBroker('gantry', options);
        const { namesrvAddr } = broker;
        await produce(env, broker, 'RoundGroup', 40);
        const first = env.java.start('consume', { namesrv: namesrvAddr, topic: 'RoundGroup', group: GROUP });
        await first.until('40 messages', (rows) => received(rows).length >= 40);
        await first.close();
        await produce(env, broker, 'RoundGroup', 24);
        await produce(env, broker, 'RoundLarge', 250, 3000);
        const before = await drain(env.java, broker, TOPICS);
        await until('old files are gone', async () => {
          await removeOld(env, broker);
          return logFiles(storeDir)[0]! >= 8;
        });
        const after = await drain(env.java, broker, TOPICS);
        assertContains(before, after, 'what is left was there before');
        assert.ok(after.size < before.size / 2, `${after.size} of ${before.size} messages are left`);
        await produce(env, broker, 'RoundGroup', 12);
        const again = env.java.start('consume', { namesrv: namesrvAddr, topic: 'RoundGroup', group: GROUP });
        await again.until('12 messages', (rows) => received(rows).length >= 12);
        assert.equal(received(await again.close()).length, 12, 'the consumer gets what is left, each once');
        const left = await drain(env.java, broker, TOPICS);
        await broker.stop();
        assertSame(await readOffline(env, storeDir, 'copy'), left, 'read offline by RocketMQ');

        const port = splitAddress(broker.brokerAddr)[1];
        const java = await env.startBroker('java', { ...options, port, conf: {} });
        assertSame(await drain(env.java, java, TOPICS), left, 'RocketMQ reads it');
        await produce(env, java, 'RoundLarge', 30, 3000);
        const more = await drain(env.java, java, TOPICS);
        assertContains(more, left, 'RocketMQ appends');
        await java.stop();
        const last = await env.startBroker('gantry', { ...options, port });
        assertSame(await drain(env.java, last, TOPICS), more, 'Gantry reads that');
        await last.stop();
      },
    },
    {
      name: 'Gantry is killed while it removes old files: RocketMQ and Gantry open what is left, and agree',
      async run(env) {
        const storeDir = join(env.dir, 'store');
        const options = {
          storeDir,
          smallFiles: true,
          brokerName: 'old-files',
          conf: { ...OLD_AT_ONCE, deleteCommitLogFilesInterval: 100 },
        };
        for (let round = 0; round < 4; round++) {
          const broker = await env.startBroker('gantry', options);
          await produce(env, broker, 'RoundLarge', 250, 3000);
          const oldest = logFiles(storeDir)[0]!;
          const admin = new RawConnection(broker.brokerAddr);
          assert.equal((await admin.request(DELETE_EXPIRED_COMMITLOG)).code, 0);
          admin.close();
          await until('a removal is under way', () => logFiles(storeDir)[0]! > oldest + round);
          await broker.kill();
          const files = logFiles(storeDir);
          assert.deepEqual(
            files,
            files.map((_, i) => files[0]! + i),
            'no hole',
          );
          const java = await readOffline(env, storeDir, `copy-${round}`);
          assertUnique(java);
          assert.ok(java.size > 0);
          const again = await env.startBroker('gantry', options);
          assertSame(await drain(env.java, again, ['RoundLarge']), java, 'Gantry reads what RocketMQ reads');
          await again.stop();
        }
      },
    },
  ],
};
