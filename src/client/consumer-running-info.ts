// What a consumer tells a broker that asks for its state (307), for mqadmin consumerStatus and the like. RocketMQ: ConsumerRunningInfo.

import type { Clock } from '../common/index.ts';
import type { ClientInstance } from './client-instance.ts';
import type { ConsumeCounts } from './listener-calls.ts';
import type { PopQueue } from './pop-service.ts';
import type { ProcessQueue } from './process-queue.ts';
import { queueMap } from './queue-json.ts';
import type { MessageQueue } from './queues.ts';
import type { SubscriptionData } from './subscription.ts';

/** What the answer is made of. */
export interface RunningInfoInput {
  client: ClientInstance;
  consumeType: 'CONSUME_ACTIVELY' | 'CONSUME_PASSIVELY';
  concurrency: number;
  orderly: boolean;
  startedAt: number;
  subscriptions: SubscriptionData[];
  queues: readonly ProcessQueue[];
  popQueues: readonly PopQueue[];
  committed: (queue: MessageQueue) => number;
  /** Messages consumed and failed, by topic. */
  consumed: ReadonlyMap<string, ConsumeCounts>;
}

/** The name of the version that requests carry. */
const CLIENT_VERSION = 'V5_5_0';
const MIB = 1024 * 1024;

function processQueueInfo(taken: ProcessQueue, input: RunningInfoInput): object {
  const { clock } = input.client;
  return {
    commitOffset: input.committed(taken.queue),
    cachedMsgMinOffset: Math.max(0, taken.firstOffset),
    cachedMsgMaxOffset: taken.count === 0 ? 0 : taken.lastOffset,
    cachedMsgCount: taken.count,
    cachedMsgSizeInMiB: Math.floor(taken.bytes / MIB),
    transactionMsgMinOffset: 0,
    transactionMsgMaxOffset: 0,
    transactionMsgCount: 0,
    locked: taken.locked,
    tryUnlockTimes: taken.tryUnlockTimes,
    lastLockTimestamp: taken.lastLockAt === 0 ? 0 : wallClock(clock, taken.lastLockAt),
    droped: taken.dropped,
    lastPullTimestamp: wallClock(clock, taken.lastPullAt),
    lastConsumeTimestamp: taken.lastConsumeAt,
  };
}

function popQueueInfo(from: PopQueue, input: RunningInfoInput): object {
  const lastPopTimestamp = wallClock(input.client.clock, from.lastPopAt);
  return { droped: from.dropped, lastPopTimestamp, waitAckCount: from.waiting };
}

/** The time of day of a monotonic time. */
function wallClock(clock: Clock, monotonic: number): number {
  return Math.round(clock.now() - (clock.monotonic() - monotonic));
}

/** The ConsumerRunningInfo, ready for JSON. Rates are means since the start. */
export function consumerRunningInfo(input: RunningInfoInput): object {
  const seconds = Math.max(1, (input.client.clock.now() - input.startedAt) / 1000);
  const statusTable: Record<string, object> = {};
  for (const { topic } of input.subscriptions) {
    const { ok, failed } = input.consumed.get(topic) ?? { ok: 0, failed: 0 };
    statusTable[topic] = {
      pullRT: 0,
      pullTPS: 0,
      consumeRT: 0,
      consumeOKTPS: ok / seconds,
      consumeFailedTPS: failed / seconds,
      consumeFailedMsgs: failed,
    };
  }
  return {
    properties: {
      PROP_NAMESERVER_ADDR: `${input.client.settings.namesrvAddrs.join(';')};`,
      PROP_THREADPOOL_CORE_SIZE: String(input.concurrency),
      PROP_CONSUMEORDERLY: String(input.orderly),
      PROP_CONSUME_TYPE: input.consumeType,
      PROP_CLIENT_VERSION: CLIENT_VERSION,
      PROP_CONSUMER_START_TIMESTAMP: String(input.startedAt),
    },
    subscriptionSet: input.subscriptions,
    mqTable: queueMap(input.queues.map((taken) => [taken.queue, processQueueInfo(taken, input)] as const)),
    mqPopTable: queueMap(input.popQueues.map((from) => [from.queue, popQueueInfo(from, input)] as const)),
    statusTable,
    userConsumerInfo: {},
  };
}
