// Requests of one client that wait for their reply: by correlation id, each with a time limit. The reply comes as a request of a broker
// (PUSH_REPLY_MESSAGE_TO_CLIENT, 326). RocketMQ: RequestFutureHolder.

import { type Clock, GantryError, type Timer } from '../common/index.ts';
import { PropertyName } from '../message/index.ts';
import type { ReceivedMessage } from './message-types.ts';

interface Waiting {
  owner: object;
  timer: Timer;
  resolve(message: ReceivedMessage): void;
  reject(error: unknown): void;
}

/** The open requests of a ClientInstance. */
export class PendingReplies {
  readonly #clock: Clock;
  readonly #waiting = new Map<string, Waiting>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Requests without a reply. */
  get size(): number {
    return this.#waiting.size;
  }

  /** Waits for the reply to a request. Rejects with REMOTING_TIMEOUT after `timeoutMs`, or as `fail` and `failAll` say. */
  expect(correlationId: string, timeoutMs: number, owner: object): Promise<ReceivedMessage> {
    return new Promise((resolve, reject) => {
      const timer = this.#clock.after(timeoutMs, () => {
        this.#waiting.delete(correlationId);
        reject(new GantryError('REMOTING_TIMEOUT', `no reply to the request ${correlationId} came in time`));
      });
      this.#waiting.set(correlationId, { owner, timer, resolve, reject });
    });
  }

  /** A reply has come; false if nobody waits for it (any more). */
  deliver(reply: ReceivedMessage): boolean {
    const waiting = this.#take(reply.properties.get(PropertyName.CORRELATION_ID) ?? '');
    waiting?.resolve(reply);
    return waiting !== undefined;
  }

  /** The request will have no reply. */
  fail(correlationId: string, error: unknown): void {
    this.#take(correlationId)?.reject(error);
  }

  /** None of the owner's requests will have a reply. */
  failAll(owner: object, error: unknown): void {
    for (const [id, waiting] of [...this.#waiting]) if (waiting.owner === owner) this.fail(id, error);
  }

  #take(correlationId: string): Waiting | undefined {
    const waiting = this.#waiting.get(correlationId);
    this.#waiting.delete(correlationId);
    waiting?.timer.cancel();
    return waiting;
  }
}
