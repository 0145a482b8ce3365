// The command `npm run bench`: Gantry and, where Java and Maven are, RocketMQ's own broker, driven in turn in one run, and a table
// with the ratios. Both brokers have all their defaults; only addresses and directories are set. The machine should do nothing
// else meanwhile: generator and broker share its cores.

import { mkdtempSync, rmSync } from 'node:fs';
import { cpus, release, tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { GantrySystem } from '../test/interop/gantry-system.ts';
import { JavaSystem } from '../test/interop/java-system.ts';
import { Ports } from '../test/interop/ports.ts';
import type { RunningBroker, System, SystemKind } from '../test/interop/system.ts';
import { hasCommand, prepareJava } from '../test/interop/toolchain.ts';
import { measureBrokerQueues } from './broker-queues.ts';
import { measureColdReads } from './cold-reads.ts';
import { measureFilter } from './filter-load.ts';
import { measureKeyLookups } from './key-lookups.ts';
import { measureLight } from './light-queues.ts';
import { memory } from './process-figures.ts';
import { linesOf, table, type WorkloadResult } from './report.ts';
import { startTimed } from './requests.ts';
import { measureQueues, measureRestart } from './restart.ts';
import { type Effort, type Figures, REFUSED, type Workload, workloads } from './workloads.ts';

const USAGE = `usage: npm run bench -- [options] [WORKLOAD…]
  --quick            2 s a run and one round, 100 topics: to see that it works
  --rounds N         runs against each broker (default 3)
  --seconds N        measured seconds of a run (default 10), after --warmup N (default 5)
  --topics N         topics of many-topics (default 2000)
  --no-java          Gantry alone
  --java-options S   options of the broker's JVM, with blanks (default: none, so the JVM's own heap size)
  --loadgen PATH     another load generator with the same flags, to check this one
  --json             JSON instead of the table
workloads: start restart queues light-queues broker-queues cold-reads keys filter ${workloads.map((workload) => workload.name).join(' ')}`;

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    quick: { type: 'boolean', default: false },
    rounds: { type: 'string' },
    seconds: { type: 'string' },
    warmup: { type: 'string' },
    topics: { type: 'string' },
    'no-java': { type: 'boolean', default: false },
    'java-options': { type: 'string', default: '' },
    loadgen: { type: 'string' },
    json: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  },
});

if (values.help) {
  process.stdout.write(`${USAGE}\n`);
  process.exit(0);
}

const effort: Effort = {
  rounds: number(values.rounds, values.quick ? 1 : 3),
  seconds: number(values.seconds, values.quick ? 2 : 10),
  warmup: number(values.warmup, values.quick ? 1 : 5),
  manyTopics: number(values.topics, values.quick ? 100 : 2000),
  loadgen: values.loadgen,
};

const SETTLE_MS = values.quick ? 500 : 5000;
const say = (line: string): void => void process.stderr.write(`${line}\n`);
const wanted = (name: string): boolean => positionals.length === 0 || positionals.includes(name);

const dir = mkdtempSync(join(tmpdir(), 'gantry-bench-'));
try {
  const results = await measure(systems(dir), dir);
  const machine = { cpus: cpus().length, model: cpus()[0]?.model, kernel: release(), node: process.version, effort };
  if (values.json) {
    process.stdout.write(
      `${JSON.stringify({ machine, results: results.map((result) => ({ ...result, lines: linesOf(result) })) }, null, 2)}\n`,
    );
  } else {
    process.stdout.write(
      `${machine.cpus} × ${machine.model}, Linux ${machine.kernel}, Node ${machine.node}; ${effort.rounds} rounds of ${effort.seconds} s\n`,
    );
    process.stdout.write(`${table(results)}\n`);
  }
} finally {
  rmSync(dir, { recursive: true, force: true });
}
process.exit(0);

/** The systems that can be measured here, Java first. */
function systems(base: string): System[] {
  const ports = new Ports();
  const found: System[] = [new GantrySystem(ports, join(base, 'gantry'))];
  if (values['no-java']) return found;
  if (!['java', 'javac', 'mvn'].every(hasCommand)) {
    say('Java and Maven are not both here: Gantry alone');
    return found;
  }
  const jvm = values['java-options'].split(' ').filter((option) => option !== '');
  return [new JavaSystem(prepareJava(say), ports, join(base, 'java'), jvm), ...found];
}

async function measure(all: readonly System[], base: string): Promise<WorkloadResult[]> {
  const results: WorkloadResult[] = [];
  if (wanted('start')) results.push(await measureStarts(all, base));
  const restart = { rounds: effort.rounds, bytes: values.quick ? 2e8 : 1.7e9, topics: values.quick ? 100 : 2500 };
  if (wanted('restart')) results.push(await measureRestart(all, base, restart, say));
  if (wanted('queues')) results.push(measureQueues(base, restart, say));
  const own = all.find(({ kind }) => kind === 'gantry')!;
  if (wanted('light-queues')) {
    results.push(await measureLight(own, base, { ...effort, most: values.quick ? 10_000 : 100_000 }, say));
  }
  if (wanted('broker-queues')) {
    results.push(await measureBrokerQueues(own, base, values.quick ? 101 : 2501, effort, say));
  }
  if (wanted('cold-reads')) results.push(...(await measureColdReads(all, base, effort, say)));
  if (wanted('keys')) {
    results.push(await measureKeyLookups(own, base, values.quick ? 1000 : 100_000, { ...effort, rounds: 1 }, say));
  }
  if (wanted('filter')) results.push(measureFilters());
  for (const syncFlush of [false, true]) {
    const chosen = workloads.filter((workload) => workload.syncFlush === syncFlush && wanted(workload.name));
    if (chosen.length === 0) continue;
    const brokers = new Map<SystemKind, RunningBroker>();
    try {
      for (const system of all) {
        const conf = syncFlush ? { flushDiskType: 'SYNC_FLUSH' } : {};
        const storeDir = join(base, `store-${system.kind}-${syncFlush}`);
        brokers.set(system.kind, await system.startBroker({ storeDir, plain: true, conf }));
      }
      for (const workload of chosen) results.push(await measureWorkload(workload, brokers));
    } finally {
      for (const broker of brokers.values()) await broker.kill();
      for (const system of all)
        rmSync(join(base, `store-${system.kind}-${syncFlush}`), { recursive: true, force: true });
    }
  }
  return results;
}

/** SQL92 in this process: nobody is asked. */
function measureFilters(): WorkloadResult {
  const result: WorkloadResult = {
    name: 'filter',
    title: 'SQL92 evaluation, four terms, ten properties, one core',
    java: [],
    gantry: [],
  };
  for (let round = 1; round <= effort.rounds; round++) {
    result.gantry.push({ 'messages/s': measureFilter(effort.seconds) });
    say(`filter round ${round} gantry: ${headline(result.gantry.at(-1)!)}`);
  }
  return result;
}

async function measureWorkload(
  workload: Workload,
  brokers: ReadonlyMap<SystemKind, RunningBroker>,
): Promise<WorkloadResult> {
  const result: WorkloadResult = { name: workload.name, title: workload.title, java: [], gantry: [] };
  const targets = [...brokers].map(([kind, broker]) => ({
    kind,
    target: { addr: broker.brokerAddr, brokerName: broker.brokerName, pid: broker.pid },
  }));
  for (const { target } of targets) await workload.prepare?.(target, effort);
  for (let round = 1; round <= effort.rounds; round++) {
    for (const { kind, target } of targets) {
      const figures = await workload.run(target, effort);
      result[kind].push(figures);
      say(`${workload.name} round ${round} ${kind}: ${headline(figures)}`);
    }
  }
  return result;
}

/** Starts each system on an empty store, several times: time to the first accepted send, and memory when nothing happens. */
async function measureStarts(all: readonly System[], base: string): Promise<WorkloadResult> {
  const result: WorkloadResult = {
    name: 'start',
    title: 'from exec to the first accepted send; idle memory',
    java: [],
    gantry: [],
  };
  for (let round = 1; round <= effort.rounds; round++) {
    for (const system of all) {
      const storeDir = join(base, `store-start-${system.kind}-${round}`);
      const { broker, firstSendMs } = await startTimed(system, storeDir);
      await delay(SETTLE_MS);
      const { rssMb, anonMb } = memory(broker.pid);
      await broker.kill();
      rmSync(storeDir, { recursive: true, force: true });
      const figures: Figures = { 'first send ms': firstSendMs, 'idle RSS MB': rssMb, 'idle own memory MB': anonMb };
      result[system.kind].push(figures);
      say(`start round ${round} ${system.kind}: ${headline(figures)}`);
    }
  }
  return result;
}

function headline(figures: Figures): string {
  return Object.entries(figures)
    .filter(([name, value], i) => i < 4 || (name === REFUSED && value > 0))
    .map(([name, value]) => `${name} ${value >= 100 ? Math.round(value) : value.toPrecision(3)}`)
    .join(', ');
}

function number(text: string | undefined, other: number): number {
  if (text === undefined) return other;
  const value = Number(text);
  if (!(value >= 0)) throw new Error(`not a number: ${text}`);
  return value;
}
