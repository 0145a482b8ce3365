// What is measured, and in which unit. A workload runs against one broker and answers its figures; the order of a run is: every
// workload, every round, one broker after the other.

import { setTimeout as delay } from 'node:timers/promises';
import { maxOffset, storedMessages } from '../test/interop/probe.ts';
import { type DrivenFigures, drive, driveDelays, drivePops, driveTransactions } from './drive.ts';
import type { LoadFigures } from './load-run.ts';
import { memory } from './process-figures.ts';
import type { PullOptions } from './pull-load.ts';
import { createTopic, untilDispatched } from './requests.ts';
import type { SendOptions } from './send-load.ts';

/** A broker that is measured. */
export interface Target {
  addr: string;
  brokerName: string;
  pid: number;
}

/** How long, and with which generator. */
export interface Effort {
  seconds: number;
  warmup: number;
  rounds: number;
  /** Topics of the workload with many topics. */
  manyTopics: number;
  loadgen: string | undefined;
}

/** Figures by name, such as `sends/s`. */
export type Figures = Record<string, number>;

/** One thing that is measured. */
export interface Workload {
  name: string;
  /** What a person reads. */
  title: string;
  /** Needs the broker that was started with SYNC_FLUSH. */
  syncFlush: boolean;
  prepare?(target: Target, effort: Effort): Promise<void>;
  run(target: Target, effort: Effort): Promise<Figures>;
}

const SEND = {
  topic: 'BenchSend',
  topics: 1,
  queues: 8,
  conns: 8,
  window: 64,
  size: 128,
  batch: 1,
  keys: false,
  light: 0,
  mixQueues: false,
};

export function sendOptions(target: Target, effort: Effort, changes: Partial<SendOptions> = {}): SendOptions {
  return { ...SEND, addr: target.addr, pid: target.pid, seconds: effort.seconds, warmup: effort.warmup, ...changes };
}

function pullOptions(target: Target, effort: Effort): PullOptions {
  const shape = { topic: 'BenchPull', queues: 8, conns: 8, batch: 32 };
  return { ...shape, addr: target.addr, pid: target.pid, seconds: effort.seconds, warmup: effort.warmup };
}

export function sendFigures(driven: DrivenFigures): Figures {
  return {
    'sends/s': driven.perSecond,
    'p50 ms': driven.p50Ms,
    'p99 ms': driven.p99Ms,
    'broker CPU µs/msg': driven.serverCpuMicros / driven.messages,
    'generator CPU µs/msg': driven.clientCpuMicros / driven.messages,
    'peak RSS MB': driven.rssMb,
    'peak own memory MB': driven.anonMb,
    [REFUSED]: refused(driven),
  };
}

/** The figure of requests that a broker refused because it was busy (code 2), warm-up included. */
export const REFUSED = 'refused as busy';

/** How many those are. @throws if there are other codes, or nothing was done: then something else was measured. */
export function refused({ errors, messages }: LoadFigures): number {
  const { 2: busy = 0, ...wrong } = errors;
  if (Object.keys(wrong).length > 0) throw new Error(`responses with error codes: ${JSON.stringify(errors)}`);
  if (messages === 0) throw new Error(`nothing was acknowledged; ${REFUSED}: ${busy}`);
  return busy;
}

function sending(name: string, title: string, changes: Partial<SendOptions>, syncFlush = false): Workload {
  return {
    name,
    title,
    syncFlush,
    prepare: async (target) => await createTopic(target.addr, changes.topic ?? SEND.topic, SEND.queues),
    async run(target, effort) {
      const { addr } = target;
      const topic = changes.topic ?? SEND.topic;
      const before = await storedMessages(addr, topic, SEND.queues);
      const driven = await drive('send', sendOptions(target, effort, changes), effort.loadgen);
      const figures = sendFigures(driven);
      if (driven.accepted > 0) {
        // Also the proof that what was counted was stored.
        figures['all dispatched after ms'] = await untilDispatched(addr, topic, SEND.queues, before + driven.accepted);
      }
      return figures;
    },
  };
}

/** Delays of 5 s, sent at 20,000 a second: `property` asks for them. */
function delaying(name: string, title: string, property: [string, string], syncFlush = false): Workload {
  const topic = `BenchDelay${property[0]}`;
  return {
    name,
    title,
    syncFlush,
    prepare: async (target) => await createTopic(target.addr, topic, 4),
    async run({ addr, pid }, { seconds }) {
      const shape = { topic, queues: 4, conns: 8, size: 128, rate: 20_000, property, delayMs: 5000 };
      const found = await driveDelays({ ...shape, addr, pid, seconds });
      return {
        'delivered/s': found.deliveredPerSecond,
        early: found.early,
        'late p50 ms': found.p50Ms,
        'late p99 ms': found.p99Ms,
        'latest ms': found.maxMs,
        'broker CPU µs/msg': found.serverCpuMicros / found.sent,
        [REFUSED]: found.refused,
      };
    },
  };
}

const MILLION = 1_000_000;

/** All workloads, in the order in which they run. */
export const workloads: readonly Workload[] = [
  sending('send', 'async flush, 8 × 64 in flight, 128 B', {}),
  sending('send-keys', 'the same with keys, all queues in turn', { topic: 'BenchKeys', keys: true, mixQueues: true }),
  sending('paced', '300,000/s, 8 × 256 in flight at most', { topic: 'BenchPaced', rate: 300_000, window: 256 }),
  sending('paced-keys', 'the same with keys, all queues in turn', {
    topic: 'BenchPacedKeys',
    rate: 300_000,
    window: 256,
    keys: true,
    mixQueues: true,
  }),
  sending('batch', 'async flush, batches of 32, 8 × 8 in flight', { topic: 'BenchBatch', batch: 32, window: 8 }),
  {
    name: 'pull',
    title: 'pull of 32 × 128 B, 8 queues',
    syncFlush: false,
    async prepare(target, effort) {
      await createTopic(target.addr, 'BenchPull', 8);
      const fill = { topic: 'BenchPull', mixQueues: true, warmup: 0, seconds: Math.min(effort.seconds, 3) };
      await drive('send', sendOptions(target, effort, fill), undefined);
    },
    async run(target, effort) {
      const driven = await drive('pull', pullOptions(target, effort), effort.loadgen);
      return {
        'pulled msg/s': driven.perSecond,
        'p99 ms': driven.p99Ms,
        'broker CPU µs/msg': driven.serverCpuMicros / driven.messages,
        'generator CPU µs/msg': driven.clientCpuMicros / driven.messages,
        [REFUSED]: refused(driven),
      };
    },
  },
  {
    name: 'pop',
    title: 'pop of 32 × 128 B, 8 queues, each message acknowledged by itself; 4 × 64 in flight',
    syncFlush: false,
    async prepare(target, effort) {
      await createTopic(target.addr, 'BenchPop', 8);
      const fill = { topic: 'BenchPop', mixQueues: true, warmup: 0, seconds: Math.min(effort.seconds, 3) };
      await drive('send', sendOptions(target, effort, fill), undefined);
    },
    async run({ addr, pid, brokerName }, { seconds, warmup }) {
      const shape = { topic: 'BenchPop', conns: 4, window: 64, batch: 32, invisibleMs: 60_000, ack: true, count: 0 };
      const driven = await drivePops({ ...shape, addr, broker: brokerName, pid, seconds, warmup });
      return {
        'popped and acknowledged msg/s': driven.perSecond,
        'pop p99 ms': driven.popP99Ms,
        'ack p99 ms': driven.p99Ms,
        'broker CPU µs/msg': driven.serverCpuMicros / driven.messages,
        'generator CPU µs/msg': driven.clientCpuMicros / driven.messages,
        'pops that went empty beside others': driven.beside,
        [REFUSED]: refused(driven),
      };
    },
  },
  {
    name: 'pop-memory',
    title: 'a million messages of 128 B popped by one group, none acknowledged',
    syncFlush: false,
    async prepare(target, effort) {
      await createTopic(target.addr, 'BenchInFlight', 8);
      const fill = { topic: 'BenchInFlight', mixQueues: true, warmup: 0, seconds: Math.min(effort.seconds, 3) };
      while ((await storedMessages(target.addr, 'BenchInFlight', 8)) < MILLION) {
        await drive('send', sendOptions(target, effort, fill), undefined);
      }
    },
    async run({ addr, pid, brokerName }, { seconds }) {
      await delay(seconds * 1000);
      const before = memory(pid);
      const shape = { topic: 'BenchInFlight', conns: 4, window: 1, batch: 32, invisibleMs: 600_000, ack: false };
      const driven = await drivePops({
        ...shape,
        addr,
        broker: brokerName,
        pid,
        seconds: 600,
        warmup: 0,
        count: MILLION,
      });
      await delay(seconds * 1000);
      const after = memory(pid);
      return {
        'in flight': driven.popped,
        'popped msg/s': driven.perSecond,
        'own memory before MB': before.anonMb,
        'own memory beyond that MB': after.anonMb - before.anonMb,
        'broker CPU µs/msg': driven.serverCpuMicros / driven.messages,
      };
    },
  },
  {
    name: 'transactions',
    title: 'half message and commit, each answered; 1 of 100 left open',
    syncFlush: false,
    prepare: async (target) => await createTopic(target.addr, 'BenchTx', 8),
    async run({ addr, pid }, { seconds, warmup }) {
      const ops = (): Promise<number> => maxOffset(addr, 'RMQ_SYS_TRANS_OP_HALF_TOPIC', 0);
      const before = await ops();
      const shape = { topic: 'BenchTx', queues: 8, conns: 8, window: 64, size: 128, unknownEvery: 100, count: 0 };
      const driven = await driveTransactions({ ...shape, addr, pid, seconds, warmup });
      return {
        'transactions/s': driven.perSecond,
        'p50 ms': driven.p50Ms,
        'p99 ms': driven.p99Ms,
        'broker CPU µs/transaction': driven.serverCpuMicros / driven.messages,
        'generator CPU µs/transaction': driven.clientCpuMicros / driven.messages,
        'op records per 100 commits': (100 * ((await ops()) - before)) / driven.accepted,
        'checks of committed': driven.checksOfCommitted,
        [REFUSED]: refused(driven),
      };
    },
  },
  {
    name: 'many-topics',
    title: 'cost of a send over many topics, by that over one',
    syncFlush: false,
    async prepare(target, effort) {
      for (let i = 0; i < effort.manyTopics; i++) {
        await createTopic(target.addr, `BenchMany${String(i).padStart(4, '0')}`, 1);
      }
      await createTopic(target.addr, 'BenchOne', 1);
    },
    async run(target, effort) {
      // The other generator cannot send to many topics, so this one always does. What the machine does meanwhile, such as memory that is
      // touched for the first time, is the same for both in this order.
      const send = async (changes: Partial<SendOptions>): Promise<Figures> =>
        sendFigures(await drive('send', sendOptions(target, effort, { queues: 1, ...changes }), undefined));
      const one = { topic: 'BenchOne' };
      const many = { topic: 'BenchMany', topics: effort.manyTopics };
      const runs = [await send(one), await send(many), await send(many), await send(one)] as const;
      const mean = (name: string, a: number, b: number): number => (runs[a]![name]! + runs[b]![name]!) / 2;
      const cost = 'broker CPU µs/msg';
      return {
        'sends/s, one topic': mean('sends/s', 0, 3),
        [`sends/s, ${effort.manyTopics} topics`]: mean('sends/s', 1, 2),
        'CPU per send, many by one': mean(cost, 1, 2) / mean(cost, 0, 3),
        [REFUSED]: runs.reduce((sum, run) => sum + run[REFUSED]!, 0),
      };
    },
  },
  delaying('delay', 'delay level 2 at 20,000/s, async flush: how late', ['DELAY', '2']),
  delaying('timer', 'TIMER_DELAY_MS=5000 at 20,000/s, async flush: how late', ['TIMER_DELAY_MS', '5000']),
  delaying('sync-delay', 'delay level 2 at 20,000/s, sync flush: how late', ['DELAY', '2'], true),
  sending('sync-8x64', 'sync flush, 8 × 64 in flight', { topic: 'BenchSync' }, true),
  sending('sync-8x1', 'sync flush, 8 × 1 in flight', { topic: 'BenchSync', window: 1 }, true),
  sending('sync-1x1', 'sync flush, 1 × 1 in flight', { topic: 'BenchSync', conns: 1, window: 1 }, true),
];
