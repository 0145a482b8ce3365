// A broker with very many queues (B19): its starts after a stop and after a kill, and what sends over all of them cost by what they cost
// over eight. The store alone, without a broker in front, is measured by restart.ts.

import { readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type { RunningBroker, System } from '../test/interop/system.ts';
import { type DrivenFigures, drive } from './drive.ts';
import { memory } from './process-figures.ts';
import type { WorkloadResult } from './report.ts';
import { createTopic, startTimed } from './requests.ts';
import type { Effort, Figures } from './workloads.ts';

const QUEUES = 8;
/** Topics that are created at the same time. */
const AT_ONCE = 16;
/** s in which every queue has got its file: the flush of all comes each minute. */
const FILES_SECONDS = 70;

type Say = (line: string) => void;

/** `topics` is odd, so that a generator that goes through topics and queues in turn meets every pair. */
export async function measureBrokerQueues(
  system: System,
  base: string,
  topics: number,
  { rounds, seconds, warmup }: Effort,
  say: Say,
): Promise<WorkloadResult> {
  const result: WorkloadResult = {
    name: 'broker-queues',
    title: `a broker with ${(topics * QUEUES).toLocaleString('en-US')} queues`,
    java: [],
    gantry: [],
  };
  const storeDir = join(base, 'store-broker-queues');
  const send = (
    { brokerAddr: addr, pid }: RunningBroker,
    changes: { topic: string; topics: number; seconds?: number },
  ): Promise<DrivenFigures> => {
    const shape = { queues: QUEUES, conns: 8, window: 64, size: 128, batch: 1, keys: false, mixQueues: true };
    return drive('send', { ...shape, addr, pid, seconds, warmup, ...changes }, undefined);
  };
  const all = { topic: 'BenchQueues', topics };
  const few = { topic: 'BenchFew', topics: 1 };
  const { broker: first } = await startTimed(system, storeDir);
  await createTopics(first.brokerAddr, topics);
  await createTopic(first.brokerAddr, few.topic, QUEUES);
  const making = await send(first, { ...all, seconds: topics > 1000 ? FILES_SECONDS : seconds });
  await first.kill();
  for (let round = 1; round <= rounds; round++) {
    const unclean = await startTimed(system, storeDir);
    const eight = await send(unclean.broker, few);
    const many = await send(unclean.broker, all);
    // Whatever the machine does meanwhile, the mean of before and after has it too.
    const eightAgain = await send(unclean.broker, few);
    const descriptorsUnderSends = openDescriptors(unclean.broker);
    const stopMs = await timeOfStop(unclean.broker);
    // The next start finds an orderly stop all the same.
    if (stopMs < 0) await timeOfStop((await startTimed(system, storeDir)).broker);
    const clean = await startTimed(system, storeDir);
    const descriptors = openDescriptors(clean.broker);
    const { rssMb } = memory(clean.broker.pid);
    await clean.broker.kill();
    const micros = (driven: DrivenFigures): number => driven.serverCpuMicros / driven.messages;
    const ofEight = (micros(eight) + micros(eightAgain)) / 2;
    const figures: Figures = {
      'start after a kill, first send ms': unclean.firstSendMs,
      'stop ms, -1 not in time': stopMs,
      'start after an orderly stop, first send ms': clean.firstSendMs,
      'descriptors after the start': descriptors,
      'RSS MB after the start': rssMb,
      'sends/s, 8 queues': eight.perSecond,
      'sends/s, all queues': many.perSecond,
      'CPU per send, all by 8': micros(many) / ofEight,
      'CPU per send while files are made, by 8': micros(making) / ofEight,
      'p99 ms, 8 queues': Math.max(eight.p99Ms, eightAgain.p99Ms),
      'p99 ms, all queues': many.p99Ms,
      'descriptors under sends': descriptorsUnderSends,
      'RSS MB under sends': many.rssMb,
    };
    result[system.kind].push(figures);
    say(`broker-queues round ${round} ${system.kind}: ${JSON.stringify(figures)}`);
  }
  rmSync(storeDir, { recursive: true, force: true });
  return result;
}

async function createTopics(addr: string, count: number): Promise<void> {
  for (let first = 0; first < count; first += AT_ONCE) {
    const names = Array.from({ length: Math.min(AT_ONCE, count - first) }, (_, i) => first + i);
    await Promise.all(names.map((i) => createTopic(addr, `BenchQueues${String(i).padStart(4, '0')}`, QUEUES)));
  }
}

/** Ms; -1 if the broker gave up. All queues were written to in its last seconds: it has as many files to make durable. */
async function timeOfStop(broker: RunningBroker): Promise<number> {
  const before = performance.now();
  try {
    await broker.stop();
  } catch {
    return -1;
  }
  return performance.now() - before;
}

function openDescriptors(broker: RunningBroker): number {
  return readdirSync(`/proc/${broker.pid}/fd`).length;
}
