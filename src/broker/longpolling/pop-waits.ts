// Pops and notifications that wait, and what wakes them beside arrivals: a queue that was popped in order is free again.

import type { BrokerContext } from '../broker-context.ts';
import type { Arrivals } from './arrivals.ts';
import { PopLongPolling } from './pop-long-polling.ts';

export class PopWaits {
  readonly pops: PopLongPolling;
  readonly notifications: PopLongPolling;
  readonly #context: BrokerContext;

  constructor(context: BrokerContext, arrivals: Arrivals) {
    const { clock, config, orders, topics } = context;
    this.#context = context;
    const queuesOf = (topic: string): number => topics.select(topic)?.readQueueNums ?? 0;
    this.pops = new PopLongPolling({ clock, config, arrivals, queuesOf });
    this.notifications = new PopLongPolling({ clock, config, arrivals, queuesOf, notifications: true });
    const wakeIfAny = (topic: string, group: string, queueId: number): void => this.wakeIfAny(topic, group, queueId);
    context.pop.waiting = this.pops;
    context.pop.order = orders;
    context.pop.wakeIfAny = wakeIfAny;
    orders.whenFree(wakeIfAny);
  }

  start(): void {
    this.#context.orders.start();
  }

  stop(): void {
    this.#context.orders.stop();
    this.pops.stop();
    this.notifications.stop();
  }

  /** Wakes who waits for a queue if it has something to pop. RocketMQ: notifyLongPollingRequestIfNeed. */
  wakeIfAny(topic: string, group: string, queueId: number): void {
    const { pop, store } = this.#context;
    if (store.maxOffsetInQueue(topic, queueId) <= pop.nextOffset(topic, group, queueId)) return;
    this.pops.notifyAnyOr(topic, group, queueId);
    this.notifications.notifyGroups(topic, queueId);
  }
}
