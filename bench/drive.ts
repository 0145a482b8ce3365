// Runs a load generator against one broker: the one of this folder, or the binary of another given by --loadgen, whose figures
// are brought into the same form. Both are processes of their own.

import { spawn } from 'node:child_process';
import { join } from 'node:path';
import type { DelayFigures, DelayOptions } from './delay-load.ts';
import type { LoadFigures } from './load-run.ts';
import type { PopFigures, PopOptions } from './pop-load.ts';
import { memory } from './process-figures.ts';
import type { PullOptions } from './pull-load.ts';
import type { SendOptions } from './send-load.ts';
import type { TransactionFigures, TransactionOptions } from './transaction-load.ts';

/** A run's figures with the broker's peak memory while it lasted. */
export interface DrivenFigures extends LoadFigures {
  rssMb: number;
  anonMb: number;
}

const GENERATOR = join(import.meta.dirname, 'generator.js');
const SAMPLE_MS = 200;

/** Runs transactions; only this folder's generator can. */
export async function driveTransactions(options: TransactionOptions): Promise<TransactionFigures> {
  const output = await runToEnd(process.execPath, [GENERATOR, 'transactions', JSON.stringify(options)]);
  return JSON.parse(output) as TransactionFigures;
}

/** Sends messages with a delay; only this folder's generator can. */
export async function driveDelays(options: DelayOptions): Promise<DelayFigures> {
  const output = await runToEnd(process.execPath, [GENERATOR, 'delays', JSON.stringify(options)]);
  return JSON.parse(output) as DelayFigures;
}

/** Pops and acknowledges; only this folder's generator can. */
export async function drivePops(options: PopOptions): Promise<PopFigures> {
  const output = await runToEnd(process.execPath, [GENERATOR, 'pop', JSON.stringify(options)]);
  return JSON.parse(output) as PopFigures;
}

/** Sends or pulls as told; `loadgen` is the other generator's path, if it is wanted. */
export async function drive(
  command: 'send' | 'pull',
  options: SendOptions | PullOptions,
  loadgen: string | undefined,
): Promise<DrivenFigures> {
  let rssMb = 0;
  let anonMb = 0;
  const sample = () => {
    const now = memory(options.pid);
    rssMb = Math.max(rssMb, now.rssMb);
    anonMb = Math.max(anonMb, now.anonMb);
  };
  const timer = setInterval(sample, SAMPLE_MS);
  try {
    const output =
      loadgen === undefined
        ? await runToEnd(process.execPath, [GENERATOR, command, JSON.stringify(options)])
        : await runToEnd(loadgen, loadgenWords(command, options));
    sample();
    const figures =
      loadgen === undefined ? (JSON.parse(output) as LoadFigures) : loadgenFigures(JSON.parse(output) as LoadgenReport);
    return { ...figures, rssMb, anonMb };
  } finally {
    clearInterval(timer);
  }
}

function loadgenWords(command: 'send' | 'pull', options: SendOptions | PullOptions): string[] {
  const words: Record<string, string | number> = {
    addr: options.addr,
    topic: options.topic,
    queues: options.queues,
    conns: options.conns,
    seconds: options.seconds,
    warmup: options.warmup,
    pid: options.pid,
  };
  if (command === 'send') {
    const send = options as SendOptions;
    Object.assign(words, {
      window: send.window,
      size: send.size,
      batch: send.batch,
      rate: send.rate ?? 0,
      keys: String(send.keys),
      mixqueues: String(send.mixQueues),
    });
  } else {
    Object.assign(words, { heartbeat: 'false', suspend: 0, repeat: 'true' });
  }
  return [command, '-quiet', ...Object.entries(words).map(([name, value]) => `-${name}=${value}`)];
}

/** The part of the other generator's report that is read. */
interface LoadgenReport {
  messages: number;
  seconds: number;
  messages_per_s: number;
  latency_ms: { p50: number; p99: number; max: number };
  errors?: Record<string, { count: number }>;
  server?: { cpu_us_per_message?: number };
  client?: { cpu_us_per_message?: number };
}

function loadgenFigures(report: LoadgenReport): LoadFigures {
  const errors = Object.entries(report.errors ?? {}).map(([code, { count }]) => [code, count] as const);
  return {
    messages: report.messages,
    accepted: 0,
    seconds: report.seconds,
    perSecond: report.messages_per_s,
    p50Ms: report.latency_ms.p50,
    p99Ms: report.latency_ms.p99,
    maxMs: report.latency_ms.max,
    errors: Object.fromEntries(errors),
    serverCpuMicros: (report.server?.cpu_us_per_message ?? 0) * report.messages,
    clientCpuMicros: (report.client?.cpu_us_per_message ?? 0) * report.messages,
  };
}

async function runToEnd(command: string, args: readonly string[]): Promise<string> {
  const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  let output = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    output += text;
  });
  const code = await new Promise<number | null>((resolve, reject) => {
    child.once('error', reject);
    child.once('close', resolve);
  });
  if (code !== 0) throw new Error(`the load generator ended with ${code}`);
  return output;
}
