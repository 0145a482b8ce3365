// Look-ups by key through a broker (users' ask 29): many keyed messages, some of whose keys collide in the index, a kill in between; how
// many are found, whether anybody else's message is, and how long a look-up takes.

import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { AdminClient, Producer } from '../src/client/index.ts';
import { Histogram } from '../src/common/index.ts';
import type { System } from '../test/interop/system.ts';
import type { WorkloadResult } from './report.ts';
import { createTopic, startTimed } from './requests.ts';
import type { Effort, Figures } from './workloads.ts';

const TOPIC = 'BenchKeyed';
const QUEUES = 8;
/** Sends, and look-ups, at the same time. */
const SENDS = 512;
const LOOKUPS = 4;
const COLLISIONS = 20;

/** `count` messages with a key each; the last are pairs whose keys have one hash. */
export async function measureKeyLookups(
  system: System,
  base: string,
  count: number,
  { rounds }: Effort,
  say: (line: string) => void,
): Promise<WorkloadResult> {
  const result: WorkloadResult = {
    name: 'keys',
    title: `${count.toLocaleString('en-US')} keyed messages, ${COLLISIONS} collisions, kill -9, each looked up`,
    java: [],
    gantry: [],
  };
  const keys = keysOf(count);
  for (let round = 1; round <= rounds; round++) {
    const storeDir = join(base, 'store-keys');
    const { broker: first } = await startTimed(system, storeDir);
    await createTopic(first.brokerAddr, TOPIC, QUEUES);
    const producer = new Producer({ namesrvAddr: first.namesrvAddr, group: 'PID_bench' });
    await producer.start();
    await inParallel(SENDS, keys, async (key) => {
      await producer.send({ topic: TOPIC, body: key, keys: [key] });
    });
    await first.kill();
    await producer.close();
    const { broker, firstSendMs } = await startTimed(system, storeDir);
    const admin = new AdminClient({ namesrvAddr: broker.namesrvAddr });
    await admin.start();
    const waits = new Histogram(64);
    let found = 0;
    let foreign = 0;
    await inParallel(LOOKUPS, keys, async (key) => {
      const began = performance.now();
      const messages = await admin.queryMessage(TOPIC, key);
      waits.add(performance.now() - began);
      const own = messages.filter(({ body }) => Buffer.from(body).toString() === key);
      if (own.length === 1) found++;
      foreign += messages.length - own.length;
    });
    await admin.close();
    await broker.kill();
    rmSync(storeDir, { recursive: true, force: true });
    const figures: Figures = {
      'found of 100': (100 * found) / count,
      'foreign messages': foreign,
      'look-up p50 ms': waits.quantile(0.5),
      'look-up p99 ms': waits.quantile(0.99),
      'look-up most ms': waits.maxMs,
      'first send after the kill ms': firstSendMs,
    };
    result[system.kind].push(figures);
    say(`keys round ${round} ${system.kind}: ${JSON.stringify(figures)}`);
  }
  return result;
}

/** "Aa" and "BB" have one hash in Java, and so have texts that differ in them alone. */
function keysOf(count: number): string[] {
  const plain = Array.from({ length: count - 2 * COLLISIONS }, (_, i) => `order-${i}`);
  const pairs = Array.from({ length: COLLISIONS }, (_, i) => [`pair-${i}-Aa`, `pair-${i}-BB`]);
  return [...plain, ...pairs.flat()];
}

async function inParallel(lanes: number, keys: readonly string[], work: (key: string) => Promise<void>): Promise<void> {
  let next = 0;
  const lane = async (): Promise<void> => {
    while (next < keys.length) await work(keys[next++]!);
  };
  await Promise.all(Array.from({ length: lanes }, lane));
}
