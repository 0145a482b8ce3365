// The long run of hostile.ts: a broker process of its own, its memory watched all the while.
//
//   npm run fuzz -- --frames 1000000 [--seed 1] [--port 25100] [--namesrv 1]
//
// It ends with 0 if the broker lives, every well-behaved answer was right, and the memory of the second half of the run is at most 20
// MiB above that of the first (of which the first tenth does not count), by the middle one of the samples of each.
//
// `--namesrv` is how many of five attackers attack the name server.

import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { parseArgs } from 'node:util';
import { readBack, runHostile } from './hostile.ts';

const { values } = parseArgs({
  options: {
    frames: { type: 'string', default: '1000000' },
    seed: { type: 'string', default: '1' },
    port: { type: 'string', default: '25100' },
    namesrv: { type: 'string', default: '1' },
  },
});
const frames = Number(values.frames);
const port = Number(values.port);
const dist = dirname(dirname(import.meta.dirname));
const store = mkdtempSync(join(tmpdir(), 'gantry-hostile-'));
const [broker, namesrv] = [`127.0.0.1:${port}`, `127.0.0.1:${port + 1}`];

const MIB = 1024 * 1024;
const MARKS = 200;
const MARKS_A_LINE = 10;
const FLAT_BYTES = 20 * MIB;

/** Resident memory of the broker, in bytes; where /proc is not, 0. */
function resident(pid: number): number {
  try {
    return Number(/VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0) * 1024;
  } catch {
    return 0;
  }
}

function middle(samples: readonly number[]): number {
  return [...samples].sort((a, b) => a - b)[samples.length >> 1]!;
}

const gantry = join(dist, 'src', 'bin', 'gantry.js');
const args = [gantry, 'start', '--store', store, '--host', '127.0.0.1', '--port', `${port}`];
const child = spawn(process.execPath, [...args, '--namesrv-port', `${port + 1}`], {
  stdio: ['ignore', 'pipe', 'pipe'],
});
let log = '';
child.stderr.on('data', (data: Buffer) => {
  log = (log + data.toString()).slice(-1_000_000);
});
let exit: string | undefined;
child.once('exit', (code, signal) => {
  exit = `${code ?? signal}`;
});

/** Resolves when the broker says so: who answers on the port may be another one. */
async function ready(): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    child.stdout.on('data', (text) => {
      if (`${text}`.includes(' is ready after ')) resolve();
    });
    child.once('close', () => reject(new Error(`the broker ended with ${exit}:\n${log}`)));
  });
}

try {
  await ready();
  let marks = 0;
  const memory: number[] = [];
  const began = performance.now();
  const report = await runHostile({
    broker,
    namesrv,
    frames,
    namesrvOfFive: Number(values.namesrv),
    seed: Number(values.seed),
    progress: (sent) => {
      if (exit !== undefined) throw new Error(`the broker ended with ${exit}:\n${log}`);
      if (sent < (marks * frames) / MARKS) return;
      marks++;
      memory.push(resident(child.pid!));
      if (marks % MARKS_A_LINE === 1) console.log(`${sent} frames, ${(memory.at(-1)! / MIB).toFixed(0)} MiB resident`);
    },
  });
  const seconds = (performance.now() - began) / 1000;
  const at = (fraction: number): string => report.waits[Math.floor((report.waits.length - 1) * fraction)]!.toFixed(1);
  const read = await readBack(broker, report.messages.length);
  console.log(
    `${report.frames} frames in ${seconds.toFixed(0)} s: ${report.answers} answers, ${report.closed} connections closed; ` +
      `${report.waits.length} requests of others: p50 ${at(0.5)} ms, p99 ${at(0.99)} ms, longest ${at(1)} ms`,
  );
  console.log(`messages of others ${report.messages.join(' ')}, read again ${read.join(' ')}`);
  const [first, second] = [memory.slice(MARKS / 10, MARKS / 2), memory.slice(MARKS / 2)];
  const growth = middle(second) - middle(first);
  const isFlat = growth <= FLAT_BYTES;
  console.log(
    `memory: ${(middle(first) / MIB).toFixed(0)} MiB in the first half (at most ${(Math.max(...first) / MIB).toFixed(0)}), ` +
      `${(middle(second) / MIB).toFixed(0)} MiB in the second (at most ${(Math.max(...second) / MIB).toFixed(0)})` +
      `${isFlat ? '' : ': it grows'}`,
  );
  console.log(`frames by kind: ${[...report.kinds].map(([kind, count]) => `${kind} ${count}`).join(', ')}`);
  for (const fault of report.faults) console.log(`FAULT ${fault}`);
  const whole = read.every((count, i) => count === report.messages[i]);
  process.exitCode = report.faults.length === 0 && whole && isFlat && exit === undefined ? 0 : 1;
} catch (error) {
  console.error(error);
  const peer = /\d+\.\d+\.\d+\.\d+:\d+/.exec(String(error))?.[0];
  const lines = log
    .split('\n')
    .filter((line) => !line.includes(' INFO: ') || (peer !== undefined && line.includes(peer)));
  console.error(`the broker's log says:\n${lines.slice(-60).join('\n')}`);
  process.exitCode = 1;
} finally {
  child.kill('SIGTERM');
  await new Promise((resolve) => (exit === undefined ? child.once('exit', resolve) : resolve(undefined)));
  console.log(`the broker ended with ${exit}`);
  rmSync(store, { recursive: true, force: true });
}
