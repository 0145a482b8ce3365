// What an earlier life of the broker has revived: its position may have been saved too late to say so. A pop whose time was over before this start
// is looked for at the end of its retry topic, by unique key, tries and time, before it is stored there once more. RocketMQ stores it again.

import { PropertyName, type StoredMessage } from '../../../message/index.ts';
import { messagesOf, selectLater } from '../../store-reads.ts';
import type { ReviveParts } from './revive-parts.ts';

/** Messages of a retry queue that are looked at, from its end on. */
const MOST_MESSAGES = 20_000;
const READ_MESSAGES = 256;
const READ_BYTES = 1024 * 1024;
/** Copies of all queues that are kept; those of further queues are not looked for, and may come twice. */
const MOST_KEPT = 400_000;
/** Ms after the start in which such pops come. */
const KEPT_MS = 600_000;

export class EarlierCopies {
  readonly #parts: ReviveParts;
  readonly #startMs: number;
  readonly #most: number;
  #kept = 0;
  /** By retry topic and queue: when the newest copy was stored, by unique key and tries. */
  #queues = new Map<string, Promise<Map<string, number>>>();

  constructor(parts: ReviveParts, most: number = MOST_KEPT) {
    this.#parts = parts;
    this.#most = most;
    this.#startMs = parts.clock.now();
  }

  /** Whether a copy that counts `tries` was stored before this start, when the time of its pop was over. @throws GantryError IO. */
  async has(topic: string, queueId: number, message: StoredMessage, tries: number, reviveMs: number): Promise<boolean> {
    if (reviveMs > this.#startMs) return false;
    const key = message.properties.get(PropertyName.UNIQ_KEY);
    if (key === undefined || this.#parts.clock.now() > this.#startMs + KEPT_MS) {
      this.#queues.clear();
      this.#kept = 0;
      return false;
    }
    const queue = `${topic} ${queueId}`;
    let copies = this.#queues.get(queue);
    if (copies === undefined) {
      if (this.#kept >= this.#most) return false;
      copies = this.#read(topic, queueId);
      this.#queues.set(queue, copies);
      // A disk that cannot be read now is tried again.
      copies.catch(() => this.#queues.delete(queue));
    }
    return ((await copies).get(nameOf(key, tries, message.bodyCrc)) ?? -1) >= reviveMs;
  }

  async #read(topic: string, queueId: number): Promise<Map<string, number>> {
    const { store } = this.#parts;
    const copies = new Map<string, number>();
    const end = store.maxOffsetInQueue(topic, queueId);
    let at = Math.max(store.minOffsetInQueue(topic, queueId), end - MOST_MESSAGES);
    while (at < end) {
      const result = await selectLater(store, topic, queueId, at, READ_MESSAGES, READ_BYTES);
      for (const { bodyCrc, properties, reconsumeTimes, storeTimestamp } of await messagesOf(store, result)) {
        const key = properties.get(PropertyName.UNIQ_KEY);
        if (key !== undefined && storeTimestamp <= this.#startMs)
          copies.set(nameOf(key, reconsumeTimes, bodyCrc), storeTimestamp);
      }
      if (result.nextBeginOffset <= at) break;
      at = result.nextBeginOffset;
    }
    this.#kept += copies.size;
    return copies;
  }
}

/** Clients that choose their keys themselves may use one twice: the body is to be the same, too. */
function nameOf(key: string, tries: number, bodyCrc: number): string {
  return `${key} ${tries} ${bodyCrc}`;
}
