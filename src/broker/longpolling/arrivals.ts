// Who is told of arrivals. The store has one listener and one switch a queue, and pulls, pops and notifications all wait for messages: a
// queue is watched while any of them does. RocketMQ: NotifyMessageArrivingListener.

import type { QueueOffset } from '../../common/index.ts';
import type { MessageStore } from '../../store/index.ts';

/** A service that waits for messages. */
export interface ArrivalWaiter {
  /** A record has come into a watched queue; see the store's `ArrivalListener`. Called for every one: cheap, and never throws. */
  arrived(
    topic: string,
    queueId: number,
    maxOffset: QueueOffset,
    tagsCode: number,
    bytes: Uint8Array,
    start: number,
    end: number,
  ): void;
  /** Whether it waits for messages of this queue. */
  waitsFor(topic: string, queueId: number): boolean;
}

export class Arrivals {
  readonly #store: Pick<MessageStore, 'onArrival' | 'watch'>;
  readonly #waiters: ArrivalWaiter[] = [];
  #isListening = false;

  constructor(store: Pick<MessageStore, 'onArrival' | 'watch'>) {
    this.#store = store;
  }

  /** From now on tells `waiter`; one that waits for nothing need not be told. */
  add(waiter: ArrivalWaiter): void {
    const waiters = this.#waiters;
    waiters.push(waiter);
    if (this.#isListening) return;
    this.#isListening = true;
    this.#store.onArrival((topic, queueId, maxOffset, tagsCode, bytes, start, end) => {
      for (let i = 0; i < waiters.length; i++) {
        waiters[i]!.arrived(topic, queueId, maxOffset, tagsCode, bytes, start, end);
      }
    });
  }

  /** Tells `waiter` no longer. */
  remove(waiter: ArrivalWaiter): void {
    const index = this.#waiters.indexOf(waiter);
    if (index >= 0) this.#waiters.splice(index, 1);
  }

  /** Turns telling of a queue's arrivals on. */
  watch(topic: string, queueId: number): void {
    this.#store.watch(topic, queueId, true);
  }

  /** Somebody no longer waits for a queue: telling of it ends if nobody else does. */
  release(topic: string, queueId: number): void {
    for (const waiter of this.#waiters) if (waiter.waitsFor(topic, queueId)) return;
    this.#store.watch(topic, queueId, false);
  }
}
