// What a restart takes: of a broker whose store has grown to 1.7 GB and was killed, and of a store with very many queues. The stores are
// made by the store library in a process of their own (store-process.ts), so that every round begins with the same bytes.

import { execFileSync, spawnSync } from 'node:child_process';
import { cpSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type { System } from '../test/interop/system.ts';
import type { WorkloadResult } from './report.ts';
import { startTimed } from './requests.ts';
import type { FillOrder, OpenFigures, OpenOrder } from './store-shapes.ts';
import type { Figures } from './workloads.ts';

const PROCESS = join(import.meta.dirname, 'store-process.js');
const DERIVED = ['consumequeue', 'index', 'checkpoint'];

/** How large, and how often. */
export interface RestartEffort {
  rounds: number;
  bytes: number;
  topics: number;
}

type Say = (line: string) => void;

/** From exec to the first accepted send after a kill, with the derived files as the kill left them and without them. */
export async function measureRestart(
  all: readonly System[],
  base: string,
  { rounds, bytes }: RestartEffort,
  say: Say,
): Promise<WorkloadResult> {
  const result: WorkloadResult = {
    name: 'restart',
    title: `after kill -9 of ${bytes / 1e9} GB, 128 B bodies with keys, 8 queues`,
    java: [],
    gantry: [],
  };
  const killed = join(base, 'restart-killed');
  run({ do: 'fill', dir: killed, bytes, topics: 1, queues: 8, bodyBytes: 128, keys: true, end: 'kill' });
  for (let round = 1; round <= rounds; round++) {
    for (const system of all) {
      const figures: Figures = {
        'first send ms': await firstSend(system, killed, base, []),
        'first send ms, derived files deleted': await firstSend(system, killed, base, DERIVED),
      };
      result[system.kind].push(figures);
      say(`restart round ${round} ${system.kind}: ${JSON.stringify(figures)}`);
    }
  }
  rmSync(killed, { recursive: true, force: true });
  return result;
}

async function firstSend(system: System, store: string, base: string, without: readonly string[]): Promise<number> {
  const storeDir = join(base, 'restart-copy');
  copy(store, storeDir);
  for (const name of without) rmSync(join(storeDir, name), { recursive: true, force: true });
  const { broker, firstSendMs } = await startTimed(system, storeDir);
  await broker.kill();
  rmSync(storeDir, { recursive: true, force: true });
  return firstSendMs;
}

/** A store with 8 queues a topic and 10 messages each: its disk, its starts, and what a put costs by what it costs with 8 queues. */
export function measureQueues(base: string, { rounds, topics }: RestartEffort, say: Say): WorkloadResult {
  const queues = topics * 8;
  const result: WorkloadResult = {
    name: 'queues',
    title: `${queues.toLocaleString('en-US')} queues with 10 messages each (the store alone)`,
    java: [],
    gantry: [],
  };
  const many = join(base, 'queues-many');
  const few = join(base, 'queues-few');
  const shape = { do: 'fill', queues: 8, bodyBytes: 128, keys: true, end: 'stop' } as const;
  run({ ...shape, dir: many, perQueue: 10, topics });
  run({ ...shape, dir: few, perQueue: 10, topics: 1 });
  const diskMb = Number(execFileSync('du', ['-s', '--block-size=1', many], { encoding: 'utf8' }).split('\t')[0]) / 1e6;
  for (let round = 1; round <= rounds; round++) {
    const clean = run({ do: 'open', dir: many, end: 'kill' });
    const unclean = run({ do: 'open', dir: many, end: 'stop' });
    const puts = 50 * queues;
    const copyOf = (store: string, topicCount: number): OpenFigures => {
      const dir = join(base, 'queues-copy');
      copy(store, dir);
      const figures = run({ do: 'open', dir, end: 'kill', puts, topics: topicCount, queues: 8 });
      rmSync(dir, { recursive: true, force: true });
      return figures;
    };
    const one = copyOf(few, 1);
    const all = copyOf(many, topics);
    const figures: Figures = {
      'real disk MB': diskMb,
      'start after a stop, first put ms': clean.firstPutMs,
      'start after a kill, first put ms': unclean.firstPutMs,
      'RSS MB after the start': clean.rssMb,
      'descriptors after the start': clean.descriptors,
      'CPU ns of a put, 8 queues': one.putNs,
      'CPU ns of a put, all queues': all.putNs,
      'descriptors under puts': all.descriptorsUnderPuts,
      'RSS MB under puts': all.rssUnderPutsMb,
    };
    result.gantry.push(figures);
    say(`queues round ${round} gantry: ${JSON.stringify(figures)}`);
  }
  for (const dir of [many, few]) rmSync(dir, { recursive: true, force: true });
  return result;
}

/** A copy that keeps holes. */
function copy(from: string, to: string): void {
  rmSync(to, { recursive: true, force: true });
  if (spawnSync('cp', ['-a', '--sparse=always', from, to]).status !== 0) cpSync(from, to, { recursive: true });
}

function run(order: OpenOrder): OpenFigures;
function run(order: FillOrder): undefined;
function run(order: OpenOrder | FillOrder): OpenFigures | undefined {
  const child = spawnSync(process.execPath, [PROCESS, JSON.stringify(order)], { encoding: 'utf8' });
  const ended = order.end === 'kill' ? child.signal === 'SIGKILL' : child.status === 0;
  if (!ended) throw new Error(`store-process ended with ${child.signal ?? child.status}: ${child.stderr}`);
  return order.do === 'open' ? (JSON.parse(child.stdout) as OpenFigures) : undefined;
}
