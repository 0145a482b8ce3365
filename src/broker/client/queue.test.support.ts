import type { MessageQueue } from './rebalance-lock-manager.ts';

/** A queue of broker-a. */
export function messageQueueOf(topic: string, queueId: number): MessageQueue {
  return { brokerName: 'broker-a', queueId, topic };
}
