// Pulls from one assigned queue for as long as it is ours: with long polling, so that one request is nearly always open. The push and the
// pull consumer differ only in what becomes of the messages. RocketMQ: DefaultMQPushConsumerImpl#pullMessage.

import { errorText, GantryError } from '../common/index.ts';
import { normalTopicOf, PropertyName, type StoredMessage } from '../message/index.ts';
import { ResponseCode } from '../remoting/index.ts';
import { isResponse } from './client-errors.ts';
import type { ClientInstance } from './client-instance.ts';
import type { ReceivedMessage } from './message-types.ts';
import type { ProcessQueue } from './process-queue.ts';
import { PullKernel, type PullResult } from './pull-kernel.ts';
import { type MessageQueue, queueText } from './queues.ts';
import { isRetryTopic } from './rebalancer.ts';
import type { SubscriptionData } from './subscription.ts';
import type { Waiter } from './waiter.ts';

/** How much may be in hand of one queue before pulling pauses, and how much comes with one pull. */
export interface PullLimits {
  /** Most messages of one pull. Default 32. */
  pullBatchSize?: number;
  /** A queue is not pulled while more messages than this are in hand. Default 1000. */
  pullThresholdForQueue?: number;
  /** The same in MiB of bodies. Default 100. */
  pullThresholdSizeForQueue?: number;
  /** The same for the distance from the lowest to the highest offset in hand. Default 2000. */
  consumeConcurrentlyMaxSpan?: number;
}

/** What a pull loop needs of its consumer. */
export interface PullLoopOwner {
  readonly group: string;
  isRunning(): boolean;
  /** Nothing is to be pulled from the queue now. */
  isPaused(taken: ProcessQueue): boolean;
  subscription(topic: string): SubscriptionData | undefined;
  /** An offset for the broker to save on the way; undefined for none. */
  commitOffset(taken: ProcessQueue): number | undefined;
  /** New messages, in hand already. */
  deliver(taken: ProcessQueue, messages: readonly ReceivedMessage[]): void;
  /** Nothing is in hand and everything below `taken.nextOffset` is done or filtered out. */
  caughtUp(taken: ProcessQueue): void;
  /** The queue has no such offset (any more); it must be started anew at `offset`. */
  moved(taken: ProcessQueue, offset: number): Promise<void>;
  /** Queues that are in work are started anew at these offsets. */
  resetOffsets(topic: string, offsets: Array<[MessageQueue, number]>): Promise<void>;
}

/** RocketMQ: BROKER_SUSPEND_MAX_TIME_MILLIS and CONSUMER_TIMEOUT_MILLIS_WHEN_SUSPEND. */
const SUSPEND_MS = 15_000;
const TIMEOUT_MS = 30_000;
const MAX_BYTES = 262_144;
const RETRY_MS = 1000;
const BROKER_FLOW_CONTROL_MS = 20;
const FLOW_CONTROL_MS = 50;
const MIB = 1024 * 1024;

/** The pull loops of one consumer. */
export class PullLoop {
  readonly #client: ClientInstance;
  readonly #owner: PullLoopOwner;
  readonly #originalTopic: (stored: StoredMessage) => string | undefined;
  readonly #limits: Required<PullLimits>;
  readonly #withSubscription: boolean;
  readonly #waiter: Waiter;
  readonly #kernel: PullKernel;

  constructor(
    client: ClientInstance,
    owner: PullLoopOwner,
    waiter: Waiter,
    options: PullLimits & { withSubscription: boolean },
  ) {
    this.#client = client;
    this.#owner = owner;
    this.#originalTopic = (stored) => originalTopic(stored, owner.group);
    this.#waiter = waiter;
    this.#withSubscription = options.withSubscription;
    this.#kernel = new PullKernel(client);
    this.#limits = {
      pullBatchSize: options.pullBatchSize ?? 32,
      pullThresholdForQueue: options.pullThresholdForQueue ?? 1000,
      pullThresholdSizeForQueue: options.pullThresholdSizeForQueue ?? 100,
      consumeConcurrentlyMaxSpan: options.consumeConcurrentlyMaxSpan ?? 2000,
    };
    for (const [name, value] of Object.entries(this.#limits)) {
      if (!Number.isInteger(value) || value < 1) {
        throw new GantryError('CONFIG_VALUE', `${name} is ${value}; it must be a whole number, at least 1`);
      }
    }
  }

  /** Runs until the queue is dropped or the consumer stops. Never rejects. */
  async run(taken: ProcessQueue): Promise<void> {
    try {
      while (this.#goesOn(taken)) await this.#turn(taken);
    } catch (error) {
      this.#client.logger.error(`the pull loop of ${queueText(taken.queue)} ended: ${errorText(error)}`);
    }
  }

  #goesOn(taken: ProcessQueue): boolean {
    return this.#owner.isRunning() && !taken.dropped;
  }

  async #turn(taken: ProcessQueue): Promise<void> {
    taken.lastPullAt = this.#client.clock.monotonic();
    if (this.#owner.isPaused(taken)) return this.#waiter.sleep(RETRY_MS);
    if (this.#tooMuchInHand(taken)) return this.#waiter.sleep(FLOW_CONTROL_MS);
    let result: PullResult;
    try {
      result = await this.#pull(taken);
    } catch (error) {
      if (this.#goesOn(taken)) await this.#failed(error, taken.queue.topic);
      return;
    }
    if (!taken.dropped) await this.#pulled(taken, result);
    else if (wasReset(taken, result) && this.#owner.isRunning()) {
      // The broker hands a reset offset to one pull only, and this one was left over: whoever works on the queue now must hear of it.
      await this.#owner.resetOffsets(taken.queue.topic, [[taken.queue, result.nextBeginOffset]]);
    }
  }

  #tooMuchInHand(taken: ProcessQueue): boolean {
    return (
      taken.count > this.#limits.pullThresholdForQueue ||
      taken.bytes > this.#limits.pullThresholdSizeForQueue * MIB ||
      taken.span > this.#limits.consumeConcurrentlyMaxSpan
    );
  }

  #pull(taken: ProcessQueue): Promise<PullResult> {
    const { queue } = taken;
    const subscription = this.#owner.subscription(queue.topic);
    if (subscription === undefined) {
      return Promise.reject(new GantryError('CLIENT_STATE', `${queue.topic} is not subscribed to any more`));
    }
    return this.#kernel.pull({
      group: this.#owner.group,
      queue,
      offset: taken.nextOffset,
      subscription,
      withSubscription: this.#withSubscription,
      commitOffset: this.#owner.commitOffset(taken),
      maxMessages: this.#limits.pullBatchSize,
      maxBytes: MAX_BYTES,
      suspendMs: SUSPEND_MS,
      timeoutMs: TIMEOUT_MS,
      originalTopic: this.#originalTopic,
    });
  }

  async #failed(error: unknown, topic: string): Promise<void> {
    if (isResponse(error, ResponseCode.FLOW_CONTROL)) return this.#waiter.sleep(BROKER_FLOW_CONTROL_MS);
    // One line for all queues of a broker that is away.
    const text = `${this.#owner.group}: ${errorText(error)}`;
    this.#client.repeated.warn(text, text);
    // The broker has forgotten the group, or holds an older subscription: tell it now rather than at the next heartbeat.
    if (
      isResponse(error, ResponseCode.SUBSCRIPTION_NOT_EXIST) ||
      isResponse(error, ResponseCode.SUBSCRIPTION_NOT_LATEST)
    ) {
      await this.#client.heartbeatAll();
    }
    // A queue of a static topic has moved to another broker.
    if (isResponse(error, ResponseCode.NOT_LEADER_FOR_QUEUE)) await this.#client.routes.refreshIfOlder(topic, RETRY_MS);
    await this.#waiter.sleep(RETRY_MS);
  }

  async #pulled(taken: ProcessQueue, result: PullResult): Promise<void> {
    taken.brokerMaxOffset = result.maxOffset;
    if (result.status === 'OFFSET_ILLEGAL') {
      this.#client.logger.warn(
        `${queueText(taken.queue)} has the offsets ${result.minOffset} to ${result.maxOffset}; ${this.#owner.group} asked for ${taken.nextOffset} and goes on at ${result.nextBeginOffset}`,
      );
      return this.#owner.moved(taken, result.nextBeginOffset);
    }
    taken.nextOffset = result.nextBeginOffset;
    const fresh = taken.put(result.messages);
    if (fresh.length > 0) this.#owner.deliver(taken, fresh);
    else if (taken.count === 0) this.#owner.caughtUp(taken);
  }
}

/** Whether the broker sends the pull elsewhere although the queue has the offset that was asked for: somebody has reset the group. */
function wasReset(taken: ProcessQueue, { status, minOffset, maxOffset }: PullResult): boolean {
  return status === 'OFFSET_ILLEGAL' && minOffset <= taken.nextOffset && taken.nextOffset <= maxOffset;
}

/**
 * The topic that a message of a retry topic of this group was first sent to; undefined for other messages. RocketMQ: resetRetryAndNamespace,
 * which knows pop retry topics for retry topics only where it pops.
 */
export function originalTopic(stored: StoredMessage, group: string): string | undefined {
  if (!isRetryTopic(stored.topic)) return undefined;
  const topic = normalTopicOf(stored.topic, group);
  return topic === stored.topic ? stored.properties.get(PropertyName.RETRY_TOPIC) : topic;
}
