// What an append costs with each kind of segments, and for how long it holds the loop up while the disk is being synced. The store runs in
// this process, on a real disk, without a network: node dist/bench/segments.js [--dir /where] [--seconds 3] [--rounds 3]
//
// A turn of the loop puts what is due and commits it, as a broker does with what a socket's chunk brought; the time of that part of the
// turn is what everybody else waits for. CPU is the whole process's, so that work handed to other threads counts.

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { hostField } from '../src/message/index.ts';
import {
  MessageStore,
  type MessageStoreConfig,
  PutMessageStatus,
  PutRequest,
  PutResult,
  putStatusName,
} from '../src/store/index.ts';

const KINDS: Record<string, Partial<MessageStoreConfig>> = {
  buffered: { gantrySegments: 'buffered' },
  mapped: { gantrySegments: 'mapped' },
  'buffered, warm': { gantrySegments: 'buffered', warmMapedFileEnable: true },
  'mapped, warm': { gantrySegments: 'mapped', warmMapedFileEnable: true },
  pool: { transientStorePoolEnable: true },
};
/** A turn that takes longer has stalled. */
const STALL_MS = 1;

interface Load {
  name: string;
  flushDiskType: MessageStoreConfig['flushDiskType'];
  /** Puts a second; 0: as many as go. */
  rate: number;
  /** Puts that may wait for their answer. */
  window: number;
}

const LOADS: readonly Load[] = [
  { name: 'ASYNC_FLUSH, 100,000/s', flushDiskType: 'ASYNC_FLUSH', rate: 100_000, window: 100_000 },
  { name: 'ASYNC_FLUSH, all that goes', flushDiskType: 'ASYNC_FLUSH', rate: 0, window: 512 },
  { name: 'SYNC_FLUSH, 100,000/s', flushDiskType: 'SYNC_FLUSH', rate: 100_000, window: 100_000 },
  { name: 'SYNC_FLUSH, 512 in flight', flushDiskType: 'SYNC_FLUSH', rate: 0, window: 512 },
];

interface Figures {
  rate: number;
  cpuMicros: number;
  appendNanos: number;
  p99: number;
  p999: number;
  longest: number;
  stalledPercent: number;
}

const { values } = parseArgs({
  options: {
    dir: { type: 'string', default: tmpdir() },
    seconds: { type: 'string', default: '3' },
    rounds: { type: 'string', default: '3' },
    size: { type: 'string', default: '512' },
    kinds: { type: 'string', default: 'buffered;mapped' },
    loads: { type: 'string', default: '' },
  },
});

async function measure(kind: string, load: Load): Promise<Figures> {
  const storePathRootDir = mkdtempSync(join(values.dir, 'gantry-segments-'));
  const store = await MessageStore.open({
    storePathRootDir,
    flushDiskType: load.flushDiskType,
    messageIndexEnable: false,
    ...KINDS[kind],
  });
  try {
    // The first files are made and their first pages are there.
    await run(store, load, 500);
    const figures = await run(store, load, Number(values.seconds) * 1000);
    await store.close();
    return figures;
  } finally {
    rmSync(storePathRootDir, { recursive: true });
  }
}

async function run(store: MessageStore, load: Load, ms: number): Promise<Figures> {
  const request = new PutRequest();
  request.topic = 'Segments';
  request.topicBytes = Buffer.from(request.topic);
  request.bornHost = hostField('127.0.0.1', 1);
  request.storeHost = request.bornHost;
  request.body = Buffer.alloc(Number(values.size), 'x');
  request.bodyEnd = request.body.length;
  const result = new PutResult();
  const turns: number[] = [];
  let puts = 0;
  let answered = 0;
  const started = performance.now();
  const cpu = process.cpuUsage();
  for (;;) {
    const now = performance.now() - started;
    if (now >= ms) break;
    const due = load.rate === 0 ? Number.POSITIVE_INFINITY : (now * load.rate) / 1000 - puts;
    const count = Math.floor(Math.min(256, due, load.window - (puts - answered)));
    if (count > 0) {
      const begin = performance.now();
      let done = 0;
      while (done < count) {
        request.queueId = (puts + done) & 7;
        request.bornTimestamp = 1_796_000_000_000;
        store.put(request, result);
        if (result.status !== PutMessageStatus.PUT_OK) break;
        done++;
      }
      store.endTurn();
      turns.push(performance.now() - begin);
      puts += done;
      if (done > 0) {
        store.park(result.wroteOffset + result.wroteBytes, true, {
          settle: (status, reason) => {
            if (status !== PutMessageStatus.PUT_OK) throw new Error(`${putStatusName(status)} ${reason}`);
            answered += done;
          },
        });
      }
    }
    await new Promise((resolve) => setImmediate(resolve));
  }
  const wall = performance.now() - started;
  const { user, system } = process.cpuUsage(cpu);
  const total = turns.reduce((sum, turn) => sum + turn, 0);
  const stalled = turns.reduce((sum, turn) => sum + (turn > STALL_MS ? turn : 0), 0);
  turns.sort((a, b) => a - b);
  const at = (part: number): number => turns[Math.min(turns.length - 1, Math.floor(turns.length * part))] ?? 0;
  return {
    rate: puts / (wall / 1000),
    cpuMicros: (user + system) / puts,
    appendNanos: (total * 1e6) / puts,
    p99: at(0.99),
    p999: at(0.999),
    longest: at(1),
    stalledPercent: (stalled / wall) * 100,
  };
}

function median(numbers: readonly number[]): number {
  return [...numbers].sort((a, b) => a - b)[Math.floor(numbers.length / 2)]!;
}

const kinds = values.kinds.split(';');
for (const load of LOADS) {
  if (!load.name.startsWith(values.loads)) continue;
  console.log(`\n${load.name}, ${values.size} B`);
  console.log('| | puts/s | CPU, µs a put | in the turn, ns a put | turn p99, ms | p99.9 | longest | stalled, % |');
  console.log('|---|---:|---:|---:|---:|---:|---:|---:|');
  const rounds = new Map<string, Figures[]>(kinds.map((kind) => [kind, []]));
  for (let round = 0; round < Number(values.rounds); round++) {
    for (const kind of kinds) rounds.get(kind)!.push(await measure(kind, load));
  }
  for (const [kind, figures] of rounds) {
    const of = (name: keyof Figures, digits: number): string => median(figures.map((f) => f[name])).toFixed(digits);
    console.log(
      `| ${kind} | ${of('rate', 0)} | ${of('cpuMicros', 2)} | ${of('appendNanos', 0)} | ${of('p99', 2)} | ${of('p999', 2)} | ${of('longest', 1)} | ${of('stalledPercent', 1)} |`,
    );
  }
}
