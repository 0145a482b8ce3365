// Producers beside a consumer that drains old messages from the disk: p99 of 5,000 sends a second of 1 KiB, alone and beside it. Before each pass
// the system's caches are dropped, which takes root; without it what is drained may be in memory, and the table says so.

import { execFileSync } from 'node:child_process';
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { System } from '../test/interop/system.ts';
import { drive } from './drive.ts';
import { CONNECTIONS, PACED_QUEUES, pace } from './paced.ts';
import { memory } from './process-figures.ts';
import type { WorkloadResult } from './report.ts';
import { createTopic } from './requests.ts';
import type { Effort, Figures } from './workloads.ts';

const TOPIC = 'BenchCold';
const OLD_SECONDS = 8;

type Say = (line: string) => void;

/** With ASYNC_FLUSH and with SYNC_FLUSH: alone, beside the drain, alone; the mean of the two counts as alone. */
export async function measureColdReads(
  all: readonly System[],
  base: string,
  { rounds, seconds }: Effort,
  say: Say,
): Promise<WorkloadResult[]> {
  const results: WorkloadResult[] = [];
  for (const flushDiskType of ['ASYNC_FLUSH', 'SYNC_FLUSH']) {
    const title = `5,000 sends/s of 1 KiB beside a drain from the disk, ${flushDiskType}`;
    const result: WorkloadResult = { name: 'cold-reads', title, java: [], gantry: [] };
    for (const system of all) {
      const storeDir = join(base, 'cold-reads');
      const broker = await system.startBroker({ storeDir, plain: true, conf: { flushDiskType } });
      const { brokerAddr: addr, pid } = broker;
      await createTopic(addr, TOPIC, PACED_QUEUES);
      const old = {
        addr,
        pid,
        topic: TOPIC,
        topics: 1,
        queues: PACED_QUEUES,
        conns: CONNECTIONS,
        window: 64,
        size: 1024,
      };
      await drive(
        'send',
        { ...old, batch: 1, keys: false, mixQueues: true, warmup: 0, seconds: OLD_SECONDS },
        undefined,
      );
      const sends = (): ReturnType<typeof pace> => pace(addr, TOPIC, (elapsedMs) => elapsedMs < seconds * 1000);
      for (let round = 1; round <= rounds; round++) {
        dropCaches(say);
        const before = await sends();
        dropCaches(say);
        const drain = {
          addr,
          pid,
          topic: TOPIC,
          queues: PACED_QUEUES,
          conns: 1,
          batch: 32,
          warmup: 1,
          seconds: seconds - 2,
        };
        const [beside, drained] = await Promise.all([sends(), drive('pull', drain, undefined)]);
        dropCaches(say);
        const after = await sends();
        const alone = (before.p99Ms + after.p99Ms) / 2;
        const figures: Figures = {
          'p99 alone ms': alone,
          'p99 beside ms': beside.p99Ms,
          'beside by alone': beside.p99Ms / alone,
          'p50 alone ms': (before.p50Ms + after.p50Ms) / 2,
          'p50 beside ms': beside.p50Ms,
          'drained msg/s': drained.perSecond,
          'RSS MB': memory(pid).rssMb,
        };
        result[system.kind].push(figures);
        say(`cold-reads ${flushDiskType} round ${round} ${system.kind}: ${JSON.stringify(figures)}`);
      }
      await broker.kill();
      rmSync(storeDir, { recursive: true, force: true });
    }
    results.push(result);
  }
  return results;
}

function dropCaches(say: Say): void {
  try {
    execFileSync('sync');
    writeFileSync('/proc/sys/vm/drop_caches', '1');
  } catch (error) {
    say(`caches are not dropped (${(error as Error).message}): what is drained may be in memory`);
  }
}
