// `npm run soak -- --seconds N`: a broker for a while under what it is meant to bear, and what became of it.
//
//   paced      5,000 messages a second of 1 KiB with keys over 8 connections, while old files are removed, and beside 1,000 consumers
//              that wait: how long an answer takes at worst, how long the loop stands still, memory at the end by that at the beginning
//   clean-up   5,000 such messages a second, while 100 old files lie there and then while they are removed
//   overload   windows 64 times as deep as the broker fills: whether what it takes is as much as with shallow ones, how long that takes,
//              what is refused and why, memory likewise
//
// The machine should do nothing else. It prints JSON, and on stderr where it is.

import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { Histogram } from '../src/common/index.ts';
import { GantrySystem } from '../test/interop/gantry-system.ts';
import { Ports } from '../test/interop/ports.ts';
import { call } from '../test/interop/probe.ts';
import type { RunningBroker } from '../test/interop/system.ts';
import { Connection } from './connection.ts';
import { drive } from './drive.ts';
import { CONNECTIONS, pace, PACED_QUEUES as QUEUES, WARMUP_MS } from './paced.ts';
import { memory } from './process-figures.ts';
import { createTopic } from './requests.ts';
import { Code, encodeTemplate, fillDecimal, OPAQUE_BASE } from './wire.ts';

const { values } = parseArgs({
  options: { seconds: { type: 'string', default: '60' }, consumers: { type: 'string', default: '1000' } },
});
const seconds = Number(values.seconds);
const consumers = Number(values.consumers);

const PING_MS = 5;
const SAMPLE_MS = 1000;
const PROGRESS_MS = 30_000;
/** s that an overload takes at most. */
const OVERLOAD_MOST = 600;
const SHALLOW = 64;
const DEEP = 4096;
const OLD_FILES = 100;
/** Files that are there however quickly old ones go: the newest, one made ahead, and what ten seconds bring. */
const FEW_FILES = 8;
/** Old files go at once, every ten seconds, so that a short run sees many go. */
const CONF = {
  mappedFileSizeCommitLog: 16 * 1024 * 1024,
  fileReservedTime: 0,
  deleteWhen: Array.from({ length: 24 }, (_, hour) => String(hour).padStart(2, '0')).join(';'),
};

/** Memory of the broker while something runs. */
class MemorySamples {
  readonly #samples: number[] = [];
  readonly #timer: NodeJS.Timeout;

  constructor(pid: number) {
    this.#timer = setInterval(() => this.#samples.push(memory(pid).rssMb), SAMPLE_MS);
  }

  /** MB: the mean of the first fifth and of the last, and the most. */
  end(): { firstFifth: number; lastFifth: number; most: number } {
    clearInterval(this.#timer);
    const fifth = Math.max(1, Math.floor(this.#samples.length / 5));
    const mean = (part: readonly number[]): number => part.reduce((sum, one) => sum + one, 0) / part.length;
    return {
      firstFifth: mean(this.#samples.slice(0, fifth)),
      lastFifth: mean(this.#samples.slice(-fifth)),
      most: Math.max(...this.#samples),
    };
  }
}

/** Connections that ask the same over and over, each when the last is answered. */
class Asking {
  readonly wait = new Histogram(64);
  readonly #connection: Connection;
  readonly #request: Buffer;
  readonly #pauseMs: number;
  #askedAt = 0;

  constructor(addr: string, code: number, fields: Record<string, string>, pauseMs: number) {
    const { bytes, holes } = encodeTemplate(code, fields);
    fillDecimal(bytes, holes.get('opaque')!, OPAQUE_BASE);
    this.#request = bytes;
    this.#pauseMs = pauseMs;
    this.#connection = new Connection(addr, this, 0, () => this.#ask());
  }

  frame(): void {
    this.wait.add(performance.now() - this.#askedAt);
    setTimeout(() => this.#ask(), this.#pauseMs);
  }

  chunk(): void {}

  closed(error: Error): void {
    throw error;
  }

  #ask(): void {
    this.#askedAt = performance.now();
    this.#connection.write(this.#request);
  }

  end(): void {
    this.#connection.end();
  }
}

async function paced(broker: RunningBroker): Promise<object> {
  const { brokerAddr: addr, pid } = broker;
  const pull = { consumerGroup: 'GID_idle', topic: 'SoakIdle', queueOffset: '0', maxMsgNums: '32', sysFlag: '6' };
  const waiting = { commitOffset: '0', suspendTimeoutMillis: '15000', subscription: '*', subVersion: '0' };
  const idle = Array.from({ length: consumers }, (_, i) => {
    const fields = { ...pull, ...waiting, queueId: String(i % QUEUES), expressionType: 'TAG' };
    return new Asking(addr, Code.PULL_MESSAGE, fields, 0);
  });
  const samples = new MemorySamples(pid);
  const pacing = pace(addr, 'Soak', (elapsedMs) => elapsedMs < seconds * 1000);
  // A thousand connections at once are no part of it.
  await new Promise((resolve) => setTimeout(resolve, WARMUP_MS));
  const ping = new Asking(addr, Code.GET_MAX_OFFSET, { topic: 'SoakIdle', queueId: '0', committed: 'true' }, PING_MS);
  const figures = await pacing;
  for (const one of [...idle, ping]) one.end();
  return {
    ...figures,
    // The round trip of the lightest request: the loop never stood still for longer.
    stallMs: { p99: ping.wait.quantile(0.99), max: ping.wait.maxMs },
    rssMb: samples.end(),
  };
}

/** Sends while old files lie there, and then while they go. */
async function cleanUp(system: GantrySystem, base: string): Promise<object> {
  const storeDir = join(base, 'old');
  const broker = await system.startBroker({ storeDir, plain: true, conf: { ...CONF, fileReservedTime: 72 } });
  process.once('exit', () => void broker.kill());
  const addr = broker.brokerAddr;
  const files = (): number => readdirSync(join(storeDir, 'commitlog')).length;
  await createTopic(addr, 'Soak', QUEUES);
  const fill = { topic: 'Soak', topics: 1, queues: QUEUES, conns: CONNECTIONS, window: 64, size: 1024, batch: 1 };
  while (files() < OLD_FILES) {
    await drive(
      'send',
      { ...fill, keys: false, mixQueues: true, addr, pid: broker.pid, warmup: 0, seconds: 2 },
      undefined,
    );
  }
  const before = await pace(addr, 'Soak', (elapsedMs) => elapsedMs < 20_000);
  const all = files();
  const update = await call(addr, Code.UPDATE_BROKER_CONFIG, {}, Buffer.from('fileReservedTime=0'));
  if (update.code !== 0) throw new Error(`UPDATE_BROKER_CONFIG: code ${update.code} ${update.remark ?? ''}`);
  const during = await pace(addr, 'Soak', () => files() > FEW_FILES);
  await broker.stop();
  return { files: all, before, during, p99OfBefore: during.p99Ms / before.p99Ms };
}

async function overload(broker: RunningBroker): Promise<object> {
  const { brokerAddr: addr, pid } = broker;
  const shape = { topic: 'Soak', topics: 1, queues: QUEUES, conns: CONNECTIONS, size: 128, batch: 1, keys: false };
  const load = (window: number, seconds: number): ReturnType<typeof drive> =>
    drive('send', { ...shape, mixQueues: true, addr, pid, window, warmup: 2, seconds }, undefined);
  const time = Math.min(seconds, OVERLOAD_MOST);
  const part = Math.max(5, time / 6);
  const before = await load(SHALLOW, part);
  const samples = new MemorySamples(pid);
  const deep = await load(DEEP, time);
  const rssMb = samples.end();
  // What the machine does meanwhile, such as memory that is touched for the first time, is neither's.
  const after = await load(SHALLOW, part);
  const most = (before.perSecond + after.perSecond) / 2;
  return {
    mostPerSecond: most,
    acceptedPerSecond: deep.perSecond,
    ofMost: deep.perSecond / most,
    p99Ms: deep.p99Ms,
    maxMs: deep.maxMs,
    refused: deep.errors,
    rssMb,
  };
}

/** Shows what a phase gave: a later one may not come to its end. */
function told(figures: object): object {
  process.stderr.write(`${phase}: ${JSON.stringify(figures)}\n`);
  return figures;
}

const base = mkdtempSync(join(tmpdir(), 'gantry-soak-'));
let phase = 'paced';
const progress = setInterval(() => {
  process.stderr.write(`${phase}: ${Math.round(performance.now() / 1000)} s since the start\n`);
}, PROGRESS_MS);
try {
  const system = new GantrySystem(new Ports(), base);
  const broker = await system.startBroker({ storeDir: join(base, 'store'), plain: true, conf: CONF });
  process.once('exit', () => void broker.kill());
  await createTopic(broker.brokerAddr, 'Soak', QUEUES);
  await createTopic(broker.brokerAddr, 'SoakIdle', QUEUES);
  const pacedFigures = told(await paced(broker));
  phase = 'overload';
  const overloadFigures = told(await overload(broker));
  // Old files went: the queues begin here.
  const minimum = await call(broker.brokerAddr, Code.GET_MIN_OFFSET, { topic: 'Soak', queueId: '0' });
  await broker.stop();
  rmSync(join(base, 'store'), { recursive: true, force: true });
  phase = 'clean-up';
  const old = await cleanUp(system, base);
  const runs = { paced: pacedFigures, overload: overloadFigures };
  const figures = { seconds, ...runs, firstOffset: Number(minimum.fields['offset']), cleanUp: old };
  process.stdout.write(`${JSON.stringify(figures, null, 2)}\n`);
} finally {
  clearInterval(progress);
  rmSync(base, { recursive: true, force: true });
}
process.exit(0);
