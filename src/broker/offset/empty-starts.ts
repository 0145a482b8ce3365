// A new group that starts while its queue gets the first message. Its client asks where the group stands (14), is told "not found", and
// asks for the queue's maximum (30) to begin there. RocketMQ: a message that comes between the two is never consumed, although the same
// group would have begun at 0 a moment later (the rule for young queues). So a queue that was empty when a connection was told "not
// found" is still empty in the answer to that connection's next question for the maximum.

import type { Clock } from '../../common/index.ts';
import type { Channel } from '../../remoting/index.ts';

/** A client gives its second question up after so many ms. */
const VALID_MS = 5000;
/** Queues remembered for one connection; the oldest goes. */
const MOST_QUEUES = 4096;
/** A topic with a longer name gets no messages, so that its queues need not be remembered. */
const LONGEST_TOPIC = 255;

/** Which connection was told "not found" of which empty queue, and when. */
export class EmptyStarts {
  readonly #clock: Clock;
  readonly #told = new WeakMap<Channel, Map<string, number>>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** The connection was told that the group has no offset, and the queue had no message. */
  note(channel: Channel, topic: string, queueId: number): void {
    if (topic.length > LONGEST_TOPIC) return;
    const queues = this.#told.get(channel) ?? new Map<string, number>();
    this.#told.set(channel, queues);
    const key = keyOf(topic, queueId);
    queues.delete(key);
    queues.set(key, this.#clock.monotonic());
    if (queues.size > MOST_QUEUES) queues.delete(queues.keys().next().value!);
  }

  /** True, once, if the connection goes on from there. */
  take(channel: Channel, topic: string, queueId: number): boolean {
    const queues = this.#told.get(channel);
    if (queues === undefined) return false;
    const key = keyOf(topic, queueId);
    const since = queues.get(key);
    if (since === undefined) return false;
    queues.delete(key);
    return this.#clock.monotonic() - since <= VALID_MS;
  }
}

function keyOf(topic: string, queueId: number): string {
  return `${topic}@${queueId}`;
}
