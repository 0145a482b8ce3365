// A consumer that is asked for messages: with queues shared among its group (`subscribe`) or chosen by hand (`assign`). This file is what
// callers see; pull-member.ts does the work. RocketMQ: DefaultLitePullConsumer.

import { ClientInstance } from './client-instance.ts';
import type { ClientOptions } from './client-options.ts';
import type { ConsumeFromWhere } from './heartbeat.ts';
import { type Boundary, maxOffset, minOffset, offsetByTime } from './initial-offset.ts';
import type { ReceivedMessage } from './message-types.ts';
import type { PullLimits } from './pull-loop.ts';
import { PullMember } from './pull-member.ts';
import type { MessageQueue } from './queues.ts';
import type { MessageSelector } from './subscription.ts';
import { checkGroup } from './validators.ts';

/** Settings of a PullConsumer. */
export interface PullConsumerOptions extends ClientOptions, PullLimits {
  /** The consumer group, under which offsets are kept. */
  group: string;
  /** Where the group begins in a queue without an offset. Default CONSUME_FROM_LAST_OFFSET. */
  consumeFromWhere?: ConsumeFromWhere;
  /** For CONSUME_FROM_TIMESTAMP: ms since the Unix epoch. Default: half an hour before the consumer was made. */
  consumeTimestamp?: number;
  /** Messages count as done when `poll` is called again, and offsets are saved every 5 s. False: only `commit` saves. Default true. */
  autoCommit?: boolean;
  /** A shared instance; then all ClientOptions here are ignored. */
  client?: ClientInstance;
}

const DEFAULT_POLL_MS = 5000;
const DEFAULT_POLL_MESSAGES = 32;

/**
 * Reads messages on demand.
 *
 * @example
 * const consumer = new PullConsumer({ namesrvAddr: '127.0.0.1:9876', group: 'GID_report' });
 * await consumer.start();
 * await consumer.subscribe('orders');
 * for await (const message of consumer) console.log(message.text());
 */
export class PullConsumer {
  readonly group: string;
  readonly #client: ClientInstance;
  readonly #member: PullMember;
  #closing: Promise<void> | undefined;

  /** @throws GantryError CONFIG_VALUE */
  constructor(options: PullConsumerOptions) {
    checkGroup(options.group);
    this.group = options.group;
    this.#client = options.client ?? new ClientInstance(options);
    this.#member = new PullMember(this.#client, options);
  }

  /** The instance behind this consumer: its `clientId` is what brokers list. */
  get client(): ClientInstance {
    return this.#client;
  }

  /** The queues that are being read now. */
  get assignment(): MessageQueue[] {
    return this.#member.assignment();
  }

  /** Starts the client. @throws GantryError CLIENT_STATE when started before, or when the instance has a consumer of this group already */
  start(): Promise<void> {
    return this.#member.start();
  }

  /** Saves committed offsets and tells the brokers. What `poll` handed out last is not committed by this. May be called twice. */
  close(): Promise<void> {
    this.#closing ??= this.#member.close();
    return this.#closing;
  }

  /**
   * Reads a topic together with the other members of the group. `expression` is `*` (default) or tags: `TagA || TagB`, or a
   * MessageSelector, which may be SQL92.
   * @throws GantryError CONFIG_VALUE, MESSAGE (illegal topic), CLIENT_STATE (closed, or queues were assigned by hand); BrokerError when a
   * broker refuses an SQL92 expression
   */
  subscribe(topic: string, expression: string | MessageSelector = '*'): Promise<void> {
    return this.#member.subscribe(topic, expression);
  }

  /** Reads a topic no more. */
  unsubscribe(topic: string): Promise<void> {
    return this.#member.unsubscribe(topic);
  }

  /**
   * Reads exactly these queues, whatever others of the group do; replaces an earlier assignment.
   * @throws GantryError CONFIG_VALUE, CLIENT_STATE (closed, or topics were subscribed to)
   */
  assign(queues: readonly MessageQueue[], expression = '*'): Promise<void> {
    return this.#member.assign(queues, expression);
  }

  /** The queues of a topic. @throws GantryError REMOTING_..., BrokerError; none: the topic is unknown */
  async fetchMessageQueues(topic: string): Promise<readonly MessageQueue[]> {
    await this.#client.routes.require(topic);
    return this.#client.routes.subscribeQueues(topic);
  }

  /**
   * The next messages of one queue, at most `maxMessages` (default 32); none when nothing came within `timeoutMs` (default 5000).
   * @throws GantryError CLIENT_STATE
   */
  poll(timeoutMs: number = DEFAULT_POLL_MS, maxMessages: number = DEFAULT_POLL_MESSAGES): Promise<ReceivedMessage[]> {
    return this.#member.take(timeoutMs, Math.max(1, maxMessages));
  }

  /** Saves at the brokers that everything handed out so far is done. Failures are logged. @throws GantryError CLIENT_STATE */
  commit(): Promise<void> {
    return this.#member.commit();
  }

  /** Goes on at another offset of an assigned queue. @throws GantryError CLIENT_STATE (not assigned), CONFIG_VALUE */
  seek(queue: MessageQueue, offset: number): void {
    this.#member.seek(queue, offset);
  }

  /** Goes on at the first offset that an assigned queue holds. @throws as `seek` and `committed` */
  async seekToBegin(queue: MessageQueue): Promise<void> {
    this.seek(queue, await this.minOffset(queue));
  }

  /** Goes on behind the last message of an assigned queue. @throws as `seek` and `committed` */
  async seekToEnd(queue: MessageQueue): Promise<void> {
    this.seek(queue, await this.maxOffset(queue));
  }

  /** Hands out nothing of these queues until `resume`, and soon pulls nothing; they stay assigned. */
  pause(queues: readonly MessageQueue[]): void {
    this.#member.setPaused(queues, true);
  }

  /** Hands out messages of these queues again. */
  resume(queues: readonly MessageQueue[]): void {
    this.#member.setPaused(queues, false);
  }

  /** The assigned queues that are paused. */
  get paused(): MessageQueue[] {
    return this.#member.paused();
  }

  /** Offset of the next message that `poll` hands out; undefined if the queue is not assigned. */
  position(queue: MessageQueue): number | undefined {
    return this.#member.position(queue);
  }

  /** The group's saved offset; undefined if there is none. @throws GantryError NO_ROUTE, REMOTING_...; BrokerError */
  committed(queue: MessageQueue): Promise<number | undefined> {
    return this.#member.fetchCommitted(queue);
  }

  /** The first offset that a queue holds. @throws as `committed` */
  minOffset(queue: MessageQueue): Promise<number> {
    return minOffset(this.#client, queue);
  }

  /** The offset that the next message of a queue will get. @throws as `committed` */
  maxOffset(queue: MessageQueue): Promise<number> {
    return maxOffset(this.#client, queue);
  }

  /** The offset of the first message stored at `timestamp` (ms since the Unix epoch) or later. @throws as `committed` */
  offsetByTime(queue: MessageQueue, timestamp: number, boundary: Boundary = 'LOWER'): Promise<number> {
    return offsetByTime(this.#client, queue, timestamp, boundary);
  }

  /**
   * Messages one by one, until the consumer is closed. A message counts as done when the next one is asked for; leaving the loop early
   * does not count the one in hand (call `commit` if it is done).
   */
  async *[Symbol.asyncIterator](): AsyncGenerator<ReceivedMessage, void, undefined> {
    while (this.#member.isRunning()) {
      const [message] = await this.#member.take(DEFAULT_POLL_MS, 1);
      if (message !== undefined) yield message;
    }
  }
}
