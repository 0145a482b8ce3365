// How far a group has come in each queue. In cluster mode the broker keeps it (BrokerOffsetStore), in broadcast mode a local file does
// (LocalOffsetStore). Both hold the newest value in memory and persist it on a timer, at rebalance and at close. RocketMQ: OffsetStore.

import type { MessageQueue } from './queues.ts';

/** Offsets of one consumer group: always the next one to consume. */
export interface OffsetStore {
  /** Sets the offset in memory; with `increaseOnly` a lower value changes nothing. */
  update(queue: MessageQueue, offset: number, increaseOnly: boolean): void;
  /** As `update`, and later updates are ignored until `remove`: a reset must not be overwritten by a listener that ends late. */
  updateAndFreeze(queue: MessageQueue, offset: number): void;
  /** The offset in memory; undefined if there is none. */
  peek(queue: MessageQueue): number | undefined;
  /** The persisted offset; undefined if there is none. Rejects when that cannot be known now. */
  fetch(queue: MessageQueue): Promise<number | undefined>;
  /** Saves the given queues' offsets. `confirm`: waits until the keeper has them. Failures are logged. */
  persist(queues: Iterable<MessageQueue>, confirm: boolean): Promise<void>;
  /** Forgets a queue in memory. */
  remove(queue: MessageQueue): void;
  /** What is in memory, of one topic or of all. */
  entries(topic?: string): Array<[MessageQueue, number]>;
}
