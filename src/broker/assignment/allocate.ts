// Which queues of a topic a client of a group consumes: the strategies that a client may name, and what pop makes of them. RocketMQ:
// AllocateMessageQueueAveragely, AllocateMessageQueueAveragelyByCircle, QueryAssignmentProcessor#allocate4Pop.

import type { MessageQueue } from '../client/rebalance-lock-manager.ts';

/** Of `queues`, those of `clientId`; both lists are sorted. None if the client is not of the group. */
export type AllocateStrategy = (
  clientId: string,
  queues: readonly MessageQueue[],
  clientIds: readonly string[],
) => MessageQueue[];

/** Runs of neighbours. */
export const averagely: AllocateStrategy = (clientId, queues, clientIds) => {
  const index = clientIds.indexOf(clientId);
  if (index < 0) return [];
  const share = Math.floor(queues.length / clientIds.length);
  const rest = queues.length % clientIds.length;
  const from = index * share + Math.min(index, rest);
  return queues.slice(from, from + share + (index < rest ? 1 : 0));
};

/** Dealt out one by one. */
export const averagelyByCircle: AllocateStrategy = (clientId, queues, clientIds) => {
  const index = clientIds.indexOf(clientId);
  return index < 0 ? [] : queues.filter((_, i) => i % clientIds.length === index);
};

/** By the names that requests bear. */
export const STRATEGIES: ReadonlyMap<string, AllocateStrategy> = new Map([
  ['AVG', averagely],
  ['AVG_BY_CIRCLE', averagelyByCircle],
]);

/** For a queue id: any queue of the broker. */
export const ANY_QUEUE = -1;

/**
 * For pop: a client's own queues and those of the `shareQueueNum` clients that follow it; with no such number, or one that takes in everyone,
 * each broker once, whose queues all clients share. With more clients than queues each client has one.
 */
export function allocateForPop(
  strategy: AllocateStrategy,
  clientId: string,
  queues: readonly MessageQueue[],
  clientIds: readonly string[],
  shareQueueNum: number,
): MessageQueue[] {
  if (shareQueueNum <= 0 || shareQueueNum >= clientIds.length - 1) {
    const brokers = new Map(queues.map((queue) => [queue.brokerName, { ...queue, queueId: ANY_QUEUE }]));
    return [...brokers.values()];
  }
  const index = clientIds.indexOf(clientId);
  if (index < 0) return [];
  if (clientIds.length > queues.length) return [queues[index % queues.length]!];
  const mine = new Set<MessageQueue>();
  for (let i = 0; i <= shareQueueNum; i++) {
    for (const queue of strategy(clientIds[(index + i) % clientIds.length]!, queues, clientIds)) mine.add(queue);
  }
  return [...mine];
}

/** RocketMQ: MessageQueue#compareTo. */
export function compareQueues(a: MessageQueue, b: MessageQueue): number {
  if (a.topic !== b.topic) return a.topic < b.topic ? -1 : 1;
  if (a.brokerName !== b.brokerName) return a.brokerName < b.brokerName ? -1 : 1;
  return a.queueId - b.queueId;
}
