// What light queues cost: a send that goes to one of 100,000 by one that goes to one of 8, and what very many of them take of disk, memory and
// descriptors.

import { execFileSync, spawnSync } from 'node:child_process';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import type { System } from '../test/interop/system.ts';
import { drive } from './drive.ts';
import type { WorkloadResult } from './report.ts';
import { createTopic } from './requests.ts';
import type { LightFigures, LightOrder } from './store-shapes.ts';
import { type Effort, type Figures, REFUSED, sendFigures, sendOptions } from './workloads.ts';

const PROCESS = join(import.meta.dirname, 'store-process.js');
const FEW = 8;
/** RocketMQ: maxLmqConsumeQueueNum. */
const USUAL = 20_000;

/** How much is measured. */
interface LightEffort extends Effort {
  /** Light queues in the largest store. */
  most: number;
}

/** `system`: whose broker the sends go to. */
export async function measureLight(
  system: System,
  base: string,
  effort: LightEffort,
  say: (line: string) => void,
): Promise<WorkloadResult> {
  const { most, rounds } = effort;
  const result: WorkloadResult = {
    name: 'light-queues',
    title: `messages to one of ${most.toLocaleString('en-US')} light queues, by those to one of ${FEW}`,
    java: [],
    gantry: [],
  };
  const dir = join(base, 'light-queues');
  for (let round = 1; round <= rounds; round++) {
    const puts = 6 * most;
    const usual = Math.min(USUAL, most);
    const few = run({ do: 'light', dir, light: FEW, puts, end: 'kill' });
    const many = run({ do: 'light', dir, light: most, puts, end: 'kill' });
    const ten = run({ do: 'light', dir, light: usual, puts: 10 * usual, end: 'stop' }, true);
    const sends = await sendTo(system, dir, effort, [FEW, most, usual]);
    const [toFew, toMost, toUsual] = sends as [Figures, Figures, Figures];
    const cpu = 'broker CPU µs/msg';
    const figures = {
      [`${cpu}, ${FEW}`]: toFew[cpu]!,
      [`${cpu}, ${most}`]: toMost[cpu]!,
      [`${cpu}, ${most} by ${FEW}`]: toMost[cpu]! / toFew[cpu]!,
      [`p99 ms, ${FEW}`]: toFew['p99 ms']!,
      [`p99 ms, ${usual}`]: toUsual['p99 ms']!,
      [`p99 ms, ${most}`]: toMost['p99 ms']!,
      [REFUSED]: toFew[REFUSED]! + toUsual[REFUSED]! + toMost[REFUSED]!,
      [`store CPU ns/put, ${FEW}`]: few.putNs,
      [`store CPU ns/put, ${most}`]: many.putNs,
      [`descriptors, ${most}`]: many.descriptors,
      [`RSS MB, ${most}`]: many.rssMb,
      [`RSS MB, ${usual} with 10 messages`]: ten.rssMb,
      [`real disk MB, ${usual} with 10 messages`]: ten.diskMb,
    };
    result.gantry.push(figures);
    say(`light-queues round ${round} gantry: ${JSON.stringify(figures)}`);
  }
  return result;
}

/**
 * Sends to so many light queues, one number after the other, which are all there when it is measured. The largest number comes before what
 * waits fills the store's budget: that their files are made, once, is in the figures of the one behind it.
 */
async function sendTo(system: System, dir: string, effort: Effort, light: readonly number[]): Promise<Figures[]> {
  const conf = { enableLmq: true, enableMultiDispatch: true };
  const broker = await system.startBroker({ storeDir: dir, plain: true, conf });
  try {
    const target = { addr: broker.brokerAddr, brokerName: broker.brokerName, pid: broker.pid };
    await createTopic(target.addr, 'BenchLight', 8);
    const all: Figures[] = [];
    for (const count of light) {
      const warmup = Math.max(effort.warmup, count / 20_000);
      const options = sendOptions(target, { ...effort, warmup }, { topic: 'BenchLight', light: count });
      all.push(sendFigures(await drive('send', options, undefined)));
    }
    return all;
  } finally {
    await broker.kill();
    rmSync(dir, { recursive: true, force: true });
  }
}

function run(order: LightOrder, disk = false): LightFigures & { diskMb: number } {
  rmSync(order.dir, { recursive: true, force: true });
  const child = spawnSync(process.execPath, [PROCESS, JSON.stringify(order)], { encoding: 'utf8' });
  const ended = order.end === 'kill' ? child.signal === 'SIGKILL' : child.status === 0;
  if (!ended) throw new Error(`store-process ended with ${child.signal ?? child.status}: ${child.stderr}`);
  const figures = JSON.parse(child.stdout) as LightFigures;
  const du = disk ? execFileSync('du', ['-s', '--block-size=1', order.dir], { encoding: 'utf8' }) : '0\t';
  rmSync(order.dir, { recursive: true, force: true });
  return { ...figures, diskMb: Number(du.split('\t')[0]) / 1e6 };
}
