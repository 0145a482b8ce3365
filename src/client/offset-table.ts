// The part that both offset stores share: offsets in memory, by queue. RocketMQ: ControllableOffset.

import { type MessageQueue, queueKey } from './queues.ts';

interface Entry {
  queue: MessageQueue;
  offset: number;
  frozen: boolean;
}

/** Offsets by queue, with a freeze for resets. */
export class OffsetTable {
  readonly #entries = new Map<string, Entry>();

  update(queue: MessageQueue, offset: number, increaseOnly: boolean): boolean {
    const key = queueKey(queue);
    const entry = this.#entries.get(key);
    if (entry === undefined) {
      this.#entries.set(key, { queue, offset, frozen: false });
      return true;
    }
    if (entry.frozen || entry.offset === offset || (increaseOnly && offset < entry.offset)) return false;
    entry.offset = offset;
    return true;
  }

  freeze(queue: MessageQueue, offset: number): void {
    this.#entries.set(queueKey(queue), { queue, offset, frozen: true });
  }

  get(queue: MessageQueue): number | undefined {
    return this.#entries.get(queueKey(queue))?.offset;
  }

  remove(queue: MessageQueue): void {
    this.#entries.delete(queueKey(queue));
  }

  entries(topic?: string): Array<[MessageQueue, number]> {
    const list: Array<[MessageQueue, number]> = [];
    for (const { queue, offset } of this.#entries.values()) {
      if (topic === undefined || queue.topic === topic) list.push([queue, offset]);
    }
    return list;
  }
}
