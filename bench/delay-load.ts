// Messages that wait for a time: sent at an even rate, each with the same property that says how long, and read when all have been
// delivered. How late one is, is told by its own record: stored in its topic, less born, less the delay. All three are this machine's time.

import { setTimeout as delay } from 'node:timers/promises';
import { Histogram } from '../src/common/index.ts';
import { decodeMessages } from '../src/message/index.ts';
import { maxOffset, RawConnection } from '../test/interop/probe.ts';
import { cpuMicros } from './process-figures.ts';
import { Code } from './wire.ts';

/** What is sent, and how. */
export interface DelayOptions {
  addr: string;
  topic: string;
  queues: number;
  conns: number;
  size: number;
  /** Messages a second. */
  rate: number;
  /** The property that asks for the delay, and the ms that it stands for. */
  property: [name: string, value: string];
  delayMs: number;
  seconds: number;
  pid: number;
}

export interface DelayFigures {
  sent: number;
  refused: number;
  delivered: number;
  deliveredPerSecond: number;
  early: number;
  p50Ms: number;
  p99Ms: number;
  maxMs: number;
  serverCpuMicros: number;
}

/** Steps of a lateness' histogram. */
const LATENESS_STEPS = 64;
const STEP_MS = 5;
const POLL_MS = 100;
/** How much later than due the last one is waited for. */
const LIMIT_MS = 60_000;

/** Sends for `seconds`, and waits until all is delivered. @throws if messages stay away. */
export async function delayLoad(options: DelayOptions): Promise<DelayFigures> {
  const { addr, topic, queues, conns, size, rate, seconds, pid } = options;
  const first = await ends(options);
  const cpuBefore = cpuMicros(pid);
  const connections = Array.from({ length: conns }, () => new RawConnection(addr));
  const body = Buffer.alloc(size, 'x');
  const [name, value] = options.property;
  const total = rate * seconds;
  const answers: Array<Promise<boolean>> = [];
  const began = performance.now();
  while (answers.length < total) {
    const due = Math.min(total, Math.floor(((performance.now() - began) * rate) / 1000));
    while (answers.length < due) {
      const n = answers.length;
      const place = {
        a: 'PID_bench',
        b: topic,
        c: 'TBW102',
        d: '4',
        e: String(n % queues),
        f: '0',
        g: String(Date.now()),
      };
      const properties = `${name}\u0001${value}\u0002UNIQ_KEY\u0001${String(n).padStart(32, '0')}\u0002`;
      const fields = { ...place, h: '0', i: properties, j: '0', k: 'false', m: 'false' };
      const answer = connections[n % conns]!.request(Code.SEND_MESSAGE_V2, fields, body);
      answers.push(answer.then(({ code }) => code === 0));
    }
    await delay(STEP_MS);
  }
  const accepted = (await Promise.all(answers)).filter(Boolean).length;
  const limit = performance.now() + options.delayMs + LIMIT_MS;
  let last = first;
  const delivered = (): number => last.reduce((sum, end, queueId) => sum + end - first[queueId]!, 0);
  while (delivered() < accepted) {
    if (performance.now() > limit) throw new Error(`${delivered()} of ${accepted} messages were delivered`);
    await delay(POLL_MS);
    last = await ends(options);
  }
  const serverCpuMicros = cpuMicros(pid) - cpuBefore;
  const found = await lateness(connections[0]!, options, first, last);
  for (const connection of connections) connection.close();
  return { sent: total, refused: total - accepted, delivered: delivered(), ...found, serverCpuMicros };
}

async function ends({ addr, topic, queues }: DelayOptions): Promise<number[]> {
  return await Promise.all(Array.from({ length: queues }, (_, queueId) => maxOffset(addr, topic, queueId)));
}

/** How late the messages between two sets of offsets are. */
async function lateness(
  connection: RawConnection,
  { topic, queues, delayMs }: DelayOptions,
  first: readonly number[],
  last: readonly number[],
): Promise<Pick<DelayFigures, 'deliveredPerSecond' | 'early' | 'p50Ms' | 'p99Ms' | 'maxMs'>> {
  const late = new Histogram(LATENESS_STEPS);
  let early = 0;
  let [count, from, to] = [0, Number.POSITIVE_INFINITY, 0];
  for (let queueId = 0; queueId < queues; queueId++) {
    for (let offset = first[queueId]!; offset < last[queueId]!; ) {
      const place = { consumerGroup: 'GID_bench', topic, queueId: String(queueId), queueOffset: String(offset) };
      const how = { maxMsgNums: '1000', sysFlag: '4', commitOffset: '0', suspendTimeoutMillis: '0' };
      const what = { subscription: '*', subVersion: '0', expressionType: 'TAG' };
      const answer = await connection.request(Code.PULL_MESSAGE, { ...place, ...how, ...what });
      if (answer.code !== 0) throw new Error(`PULL_MESSAGE: code ${answer.code} ${answer.remark ?? ''}`);
      for (const { bornTimestamp, storeTimestamp } of decodeMessages(answer.body)) {
        const ms = storeTimestamp - bornTimestamp - delayMs;
        if (ms < 0) early++;
        late.add(Math.max(0, ms));
        count++;
        from = Math.min(from, storeTimestamp);
        to = Math.max(to, storeTimestamp);
      }
      offset = Number(answer.fields['nextBeginOffset']);
    }
  }
  const figures = { p50Ms: late.quantile(0.5), p99Ms: late.quantile(0.99), maxMs: late.maxMs };
  return { deliveredPerSecond: (1000 * count) / Math.max(1, to - from), early, ...figures };
}
