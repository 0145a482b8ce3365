// What light queues cost the store: a message that goes to one of 100,000 by one that goes to one of 8, and what very many of them take of
// disk, memory and descriptors.

import { execFileSync, spawnSync } from 'node:child_process';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import type { WorkloadResult } from './report.ts';
import type { LightFigures, LightOrder } from './store-shapes.ts';

const PROCESS = join(import.meta.dirname, 'store-process.js');
const FEW = 8;
/** RocketMQ: maxLmqConsumeQueueNum. */
const USUAL = 20_000;

/** `most`: light queues in the largest store. */
export function measureLight(base: string, rounds: number, most: number, say: (line: string) => void): WorkloadResult {
  const result: WorkloadResult = {
    name: 'light-queues',
    title: `messages to one of ${most.toLocaleString('en-US')} light queues (the store alone)`,
    java: [],
    gantry: [],
  };
  const dir = join(base, 'light-queues');
  for (let round = 1; round <= rounds; round++) {
    const puts = 10 * most;
    const none = run({ do: 'light', dir, light: 0, puts, end: 'kill' });
    const few = run({ do: 'light', dir, light: FEW, puts, end: 'kill' });
    const many = run({ do: 'light', dir, light: most, puts, end: 'kill' });
    const usual = Math.min(USUAL, most);
    const ten = run({ do: 'light', dir, light: usual, puts: 10 * usual, end: 'stop' }, true);
    const figures = {
      'CPU ns of a put, no light queue': none.putNs,
      'CPU ns of a put, 8 light queues': few.putNs,
      'CPU ns of a put, all light queues': many.putNs,
      'CPU, all by 8': many.putNs / few.putNs,
      'descriptors, 8': few.descriptors,
      'descriptors, all': many.descriptors,
      'RSS MB, all': many.rssMb,
      [`RSS MB, ${usual} with 10 messages`]: ten.rssMb,
      [`real disk MB, ${usual} with 10 messages`]: ten.diskMb,
    };
    result.gantry.push(figures);
    say(`light-queues round ${round} gantry: ${JSON.stringify(figures)}`);
  }
  return result;
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
