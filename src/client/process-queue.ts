// The messages of one queue that were pulled and are not consumed yet, and the queue's progress: what may be committed is the lowest
// offset that is not consumed, since a restart begins there. RocketMQ: ProcessQueue.
//
//     offsets:   10   11   12   13   14        pulled 10..14, consumed 11 and 13
//     held:      10        12        14        remove(10) then answers 12: everything below is done

import type { Clock } from '../common/index.ts';
import type { ReceivedMessage } from './message-types.ts';
import type { MessageQueue } from './queues.ts';

interface Held {
  message: ReceivedMessage;
  /** Clock time when a listener was given the message; 0 while it waits. */
  startedAt: number;
}

/** Messages in hand of one assigned queue. Offsets are put in rising order, as pulls bring them. */
export class ProcessQueue {
  readonly queue: MessageQueue;
  /** The next offset to pull. */
  nextOffset: number;
  /** True once the queue was taken away: results of listeners no longer count, the pull loop ends. */
  dropped = false;
  /** Monotonic time. */
  lastPullAt: number;
  /** Wall clock time. */
  lastConsumeAt: number;
  /** Exclusive maximum of the queue as the last pull told it; 0 before. */
  brokerMaxOffset = 0;
  /** Ordered consumers: the broker has given the queue to us, at this monotonic time last. */
  locked = false;
  lastLockAt = 0;
  /** How often the lock could not be given up, because a listener still had messages. */
  tryUnlockTimes = 0;
  /** Ordered consumers: a turn of the queue is due, or it has one. */
  scheduled = false;
  /** Ordered consumers: a listener has messages of it. */
  busy = false;
  /** Called when `busy` ends. */
  whenIdle: (() => void) | undefined;
  // Insertion order is offset order, so that the first key is the lowest offset.
  readonly #held = new Map<number, Held>();
  #bytes = 0;
  #lastOffset = -1;

  constructor(queue: MessageQueue, nextOffset: number, clock: Clock) {
    this.queue = queue;
    this.nextOffset = nextOffset;
    this.lastPullAt = clock.monotonic();
    this.lastConsumeAt = clock.now();
  }

  /** Messages in hand. */
  get count(): number {
    return this.#held.size;
  }

  /** Their body bytes. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Lowest offset in hand; -1 if there is none. */
  get firstOffset(): number {
    for (const offset of this.#held.keys()) return offset;
    return -1;
  }

  /** Highest offset that was ever put; -1 if none was. */
  get lastOffset(): number {
    return this.#lastOffset;
  }

  /** Distance from the lowest to the highest offset in hand. */
  get span(): number {
    return this.#held.size === 0 ? 0 : this.#lastOffset - this.firstOffset;
  }

  /** Takes messages in hand; answers those that are new. An offset that was put before is a repeat of the broker's and is left out. */
  put(messages: readonly ReceivedMessage[]): ReceivedMessage[] {
    const fresh: ReceivedMessage[] = [];
    for (const message of messages) {
      const offset = message.queueOffset;
      if (offset <= this.#lastOffset) continue;
      this.#held.set(offset, { message, startedAt: 0 });
      this.#bytes += message.storedBody.length;
      this.#lastOffset = offset;
      fresh.push(message);
    }
    return fresh;
  }

  /** The lowest messages in hand, at most `limit`; they stay. */
  first(limit: number): ReceivedMessage[] {
    const messages: ReceivedMessage[] = [];
    for (const held of this.#held.values()) {
      if (messages.length >= limit) break;
      messages.push(held.message);
    }
    return messages;
  }

  has(message: ReceivedMessage): boolean {
    return this.#held.get(message.queueOffset)?.message === message;
  }

  /** Notes that a listener has the message now. */
  started(message: ReceivedMessage, now: number): void {
    const held = this.#held.get(message.queueOffset);
    if (held !== undefined) held.startedAt = now;
    this.lastConsumeAt = now;
  }

  /** Takes messages out. Answers the offset that may be committed, -1 if nothing was in hand to begin with. */
  remove(messages: readonly ReceivedMessage[]): number {
    if (this.#held.size === 0) return -1;
    for (const message of messages) {
      if (!this.#held.delete(message.queueOffset)) continue;
      this.#bytes -= message.storedBody.length;
    }
    // With nothing in hand all that was pulled is done, also what the tag filter left out behind the last message.
    return this.#held.size === 0 ? Math.max(this.#lastOffset + 1, this.nextOffset) : this.firstOffset;
  }

  /** The lowest messages, while a listener has had them since before `deadline`; at most `limit`. */
  expired(deadline: number, limit: number): ReceivedMessage[] {
    const messages: ReceivedMessage[] = [];
    for (const held of this.#held.values()) {
      if (held.startedAt === 0 || held.startedAt >= deadline || messages.length === limit) break;
      messages.push(held.message);
    }
    return messages;
  }

  /** Forgets everything in hand. */
  clear(): void {
    this.#held.clear();
    this.#bytes = 0;
  }
}
