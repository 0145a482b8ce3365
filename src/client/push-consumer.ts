// A consumer that calls a listener for each message: it shares the queues of its topics with the other members of its group, or reads all
// of them in broadcast mode. This file is what callers see; push-member.ts does the work. RocketMQ: DefaultMQPushConsumer.

import { GantryError } from '../common/index.ts';
import { MAX_POP_MESSAGES } from '../message/index.ts';
import { ClientInstance } from './client-instance.ts';
import type { ClientOptions } from './client-options.ts';
import type { MessageListener } from './consume-service.ts';
import type { ConsumeFromWhere, MessageModel } from './heartbeat.ts';
import type { TraceOptions } from './message-trace.ts';
import type { OrderlyListener } from './orderly-service.ts';
import type { PopLimits } from './pop-service.ts';
import type { PullLimits } from './pull-loop.ts';
import { PushMember } from './push-member.ts';
import type { MessageQueue } from './queues.ts';
import type { MessageSelector } from './subscription.ts';
import { checkGroup } from './validators.ts';

/** Settings of a PushConsumer. */
export interface PushConsumerOptions extends ClientOptions, PullLimits, PopLimits, TraceOptions {
  /** The consumer group; members of one group must subscribe to the same topics and tags. */
  group: string;
  /** Called for each message (or batch), many at once. Either this or `orderlyListener` is needed. */
  listener?: MessageListener;
  /**
   * Called for the messages of each queue in their order, one call at a time for a queue, and only by the member of the group that holds
   * the queue's lock at the broker. A failed message holds its queue up.
   */
  orderlyListener?: OrderlyListener;
  /** Default CLUSTERING: the members share the messages. BROADCASTING: each gets all, and there are no retries. */
  messageModel?: MessageModel;
  /**
   * False: a broker shares the queues out, and decides whether they are pulled or popped from (`mqadmin setConsumeMode`). All members of a group
   * should say the same. Not in order and not in broadcast mode. Default true.
   */
  clientRebalance?: boolean;
  /** Where the group begins in a queue without an offset. Default CONSUME_FROM_LAST_OFFSET. */
  consumeFromWhere?: ConsumeFromWhere;
  /** For CONSUME_FROM_TIMESTAMP: ms since the Unix epoch. Default: half an hour before the consumer was made. */
  consumeTimestamp?: number;
  /** Listener calls at once; with `orderlyListener` at most one for each queue. Default 20. */
  concurrency?: number;
  /** Most messages of one listener call. Default 1. */
  consumeMessageBatchMaxSize?: number;
  /** Tries before a message goes to the dead letter topic. Default -1: 16; with `orderlyListener` without end. */
  maxReconsumeTimes?: number;
  /** With `orderlyListener`: ms until a failed message is tried again, 10 to 30000. Default 1000. */
  suspendCurrentQueueTimeMillis?: number;
  /** Minutes after which a listener that still has a message is given up and the message goes to another try. Default 15. Not with `orderlyListener`. */
  consumeTimeoutMinutes?: number;
  /** Ms that `close` waits for running listeners. Default 10000. */
  closeTimeoutMs?: number;
  /** A shared instance; then all ClientOptions here are ignored. */
  client?: ClientInstance;
}

/**
 * Consumes topics with a listener.
 *
 * @example
 * const consumer = new PushConsumer({
 *   namesrvAddr: '127.0.0.1:9876',
 *   group: 'GID_orders',
 *   listener: async (messages) => {
 *     for (const message of messages) console.log(message.text());
 *     return 'CONSUME_SUCCESS';
 *   },
 * });
 * consumer.subscribe('orders', 'paid || shipped');
 * await consumer.start();
 */
export class PushConsumer {
  readonly group: string;
  readonly #client: ClientInstance;
  readonly #member: PushMember;
  #closing: Promise<void> | undefined;

  /** @throws GantryError CONFIG_VALUE */
  constructor(options: PushConsumerOptions) {
    checkGroup(options.group);
    for (const name of ['concurrency', 'consumeMessageBatchMaxSize', 'consumeTimeoutMinutes'] as const) {
      const value = options[name];
      if (value !== undefined && !(Number.isInteger(value) && value >= 1)) {
        throw new GantryError('CONFIG_VALUE', `${name} is ${value}; it must be a whole number, at least 1`);
      }
    }
    checkRange('popInvisibleTime', options.popInvisibleTime, 5000, 300_000);
    checkRange('popBatchNums', options.popBatchNums, 1, MAX_POP_MESSAGES);
    checkRange('popThresholdForQueue', options.popThresholdForQueue, 1, Number.MAX_SAFE_INTEGER);
    if (
      options.clientRebalance === false &&
      (options.orderlyListener !== undefined || options.messageModel === 'BROADCASTING')
    ) {
      throw new GantryError('CONFIG_VALUE', 'clientRebalance=false is not for ordered or broadcasting consumers');
    }
    if ((options.listener === undefined) === (options.orderlyListener === undefined)) {
      throw new GantryError('CONFIG_VALUE', 'either listener or orderlyListener is needed');
    }
    this.group = options.group;
    // RocketMQ: only clustering consumers replace the instance name DEFAULT, as local offsets are found again under it.
    const defaults = options.messageModel === 'BROADCASTING' ? { instanceName: 'DEFAULT' } : {};
    this.#client = options.client ?? new ClientInstance(options, defaults);
    this.#member = new PushMember(this.#client, options);
  }

  /** The instance behind this consumer: its `clientId` is what brokers list. */
  get client(): ClientInstance {
    return this.#client;
  }

  /** The queues that are being consumed now. */
  get assignment(): MessageQueue[] {
    return this.#member.assignment();
  }

  /**
   * Adds or replaces a topic of the subscription; also while running. `expression` is `*` (default) or tags: `TagA || TagB`,
   * or a MessageSelector, which may be SQL92: brokers are asked whether they take it when the consumer starts.
   * @throws GantryError CONFIG_VALUE, MESSAGE (illegal topic), CLIENT_STATE after `close`
   */
  subscribe(topic: string, expression: string | MessageSelector = '*'): void {
    this.#member.subscribe(topic, expression);
  }

  /** Takes a topic out of the subscription; its queues are given away at once. */
  unsubscribe(topic: string): void {
    this.#member.unsubscribe(topic);
  }

  /**
   * Starts to consume. Resolves after the first round of sharing out queues; brokers that are away then are found later.
   * @throws GantryError CLIENT_STATE when started before, or when the instance has a consumer of this group already; BrokerError when a
   * broker refuses an SQL92 expression
   */
  async start(): Promise<void> {
    await this.#member.start();
  }

  /** Stops pulling; messages in hand are still consumed. */
  pause(): void {
    this.#member.setPaused(true);
  }

  /** Pulls again after `pause`. */
  resume(): void {
    this.#member.setPaused(false);
  }

  /**
   * Stops: no new listener calls, waits for those that run (at most closeTimeoutMs), saves offsets and tells the brokers, so that other
   * members take over at once. May be called twice.
   */
  close(): Promise<void> {
    this.#closing ??= this.#member.close();
    return this.#closing;
  }
}

/** @throws GantryError CONFIG_VALUE */
function checkRange(name: string, value: number | undefined, least: number, most: number): void {
  if (value === undefined || (Number.isInteger(value) && value >= least && value <= most)) return;
  throw new GantryError('CONFIG_VALUE', `${name} is ${value}; it must be a whole number from ${least} to ${most}`);
}
