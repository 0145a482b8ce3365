// Pops and notifications that wait, and what wakes them beside arrivals: a queue that was popped in order is free again.

import type { BrokerContext } from '../broker-context.ts';
import type { Arrivals } from './arrivals.ts';
import { PopLongPolling } from './pop-long-polling.ts';

/** How far pops are ahead of the group's offset in a queue; -1: not. RocketMQ: PopBufferMergeService#getLatestOffset. */
export type LatestOffset = (topic: string, group: string, queueId: number) => number;

export class PopWaits {
  readonly pops: PopLongPolling;
  readonly notifications: PopLongPolling;
  readonly #context: BrokerContext;
  readonly #latestOffset: LatestOffset;

  constructor(context: BrokerContext, arrivals: Arrivals, latestOffset: LatestOffset) {
    const { clock, config, orders, topics } = context;
    this.#context = context;
    this.#latestOffset = latestOffset;
    const queuesOf = (topic: string): { own: number; retry: number } => {
      const own = topics.select(topic)?.readQueueNums ?? 0;
      return { own, retry: config.useSeparateRetryQueue ? Math.max(1, own) : 1 };
    };
    this.pops = new PopLongPolling({ clock, config, arrivals, queuesOf });
    this.notifications = new PopLongPolling({ clock, config, arrivals, queuesOf, notifications: true });
    orders.whenFree((topic, group, queueId) => this.wakeIfAny(topic, group, queueId));
  }

  start(): void {
    this.pops.start();
    this.notifications.start();
    this.#context.orders.start();
  }

  stop(): void {
    this.#context.orders.stop();
    this.pops.stop();
    this.notifications.stop();
  }

  /** Wakes who waits for a queue if it has something to pop. RocketMQ: notifyLongPollingRequestIfNeed. */
  wakeIfAny(topic: string, group: string, queueId: number): void {
    const { offsets, store } = this.#context;
    const offset = Math.max(offsets.query(group, topic, queueId), this.#latestOffset(topic, group, queueId));
    if (store.maxOffsetInQueue(topic, queueId) <= offset) return;
    this.pops.notifyAnyOr(topic, group, queueId);
    this.notifications.notifyGroups(topic, queueId);
  }
}
