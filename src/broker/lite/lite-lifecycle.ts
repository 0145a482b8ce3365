// The end of lite topics: one without a message for as long as its parent says is deleted, with the offsets and subscriptions of those who
// read it, and so are all of a parent that is deleted.
//
// RocketMQ: AbstractLiteLifecycleManager. There a message that comes between the look and the deletion goes with the queue; here the queue
// is looked at again in the turn in which its end is fixed, and sends to it are refused until it is gone.

import { type Clock, errorText, type Logger } from '../../common/index.ts';
import type { MessageStore } from '../../store/index.ts';
import { isLightQueue } from '../../store/index.ts';
import type { BrokerConfig } from '../broker-config.ts';
import type { ConsumerOffsetManager } from '../offset/consumer-offset-manager.ts';
import type { SubscriptionGroupManager } from '../subscription/subscription-group-manager.ts';
import type { TopicConfigManager } from '../topic/topic-config-manager.ts';
import type { LiteLags } from './lite-lag.ts';
import { boundGroups, topicTtls } from './lite-metadata.ts';
import { isLiteQueueOf, liteParts } from './lite-names.ts';
import type { LiteOrder } from './lite-order.ts';
import type { LiteSettings } from './lite-settings.ts';
import type { LiteSubscriptions } from './lite-subscriptions.ts';

/** An empty queue is deleted when it is found so once more than this. */
const EMPTY_LOOKS = 5;
/** Queues that are deleted at once: each deletion writes a file. */
const DELETED_AT_ONCE = 500;
const MINUTE_MS = 60_000;
/** Queues that are looked at before other work has its turn. */
const QUEUES_PER_TURN = 2000;

export interface LiteLifecycleOptions {
  readonly config: LiteSettings & Pick<BrokerConfig, 'disappearTimeAfterStart'>;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly store: MessageStore;
  readonly topics: TopicConfigManager;
  readonly groups: SubscriptionGroupManager;
  readonly offsets: ConsumerOffsetManager;
  readonly order: LiteOrder;
  readonly subscriptions: LiteSubscriptions;
  readonly lags: LiteLags;
}

interface Seen {
  /** Offset behind its last message. */
  readonly end: number;
  /** Store time of that message. */
  readonly time: number;
}

export class LiteLifecycle {
  readonly #options: LiteLifecycleOptions;
  /** What was seen of queues that may expire: their last message is read once only. */
  #seen = new Map<string, Seen>();
  /** How often a queue was found empty. */
  #empty = new Map<string, number>();
  readonly #startedAt: number;
  #running: Promise<void> | undefined;
  #stopped = false;

  constructor(options: LiteLifecycleOptions) {
    this.#options = options;
    this.#startedAt = options.clock.now() + options.config.disappearTimeAfterStart;
  }

  /** Light queues of the store. */
  get lightQueues(): number {
    let count = 0;
    for (const { topic } of this.#options.store.queues()) if (isLightQueue(topic)) count++;
    return count;
  }

  /** Queues of a parent's lite topics. */
  queuesOf(parent: string): string[] {
    const queues: string[] = [];
    for (const { topic } of this.#options.store.queues()) if (isLiteQueueOf(topic, parent)) queues.push(topic);
    return queues;
  }

  /** Deletes what has expired, unless the broker has just started. Never rejects; one look at a time. */
  clean(): Promise<void> {
    const { clock, config } = this.#options;
    if (clock.now() - this.#startedAt < config.minLiteTTl || this.#stopped) return Promise.resolve();
    this.#running ??= this.#clean().finally(() => {
      this.#running = undefined;
    });
    return this.#running;
  }

  /** Deletes all lite topics of a parent. @throws GantryError IO, DISK_FULL: those that are left are as before. */
  async deleteAll(parent: string): Promise<void> {
    const queues = this.queuesOf(parent);
    for (let at = 0; at < queues.length; at += DELETED_AT_ONCE) {
      await this.#delete(queues.slice(at, at + DELETED_AT_ONCE));
    }
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    await this.#running;
  }

  async #clean(): Promise<void> {
    const { logger } = this.#options;
    try {
      const expired = await this.#expired();
      for (let at = 0; at < expired.length && !this.#stopped; at += DELETED_AT_ONCE) {
        const now = expired.slice(at, at + DELETED_AT_ONCE).filter((queue) => this.#isAsSeen(queue));
        if (now.length === 0) continue;
        logger.info(`${now.length} lite topics have expired, such as ${now[0]}`);
        await this.#delete(now, (queue) => this.#isAsSeen(queue));
      }
    } catch (error) {
      logger.error(`expired lite topics are not deleted: ${errorText(error)}`);
    }
  }

  async #expired(): Promise<string[]> {
    const { clock, config, store, topics } = this.#options;
    const ttls = topicTtls(topics);
    const seen = new Map<string, Seen>();
    const empty = new Map<string, number>();
    const expired: string[] = [];
    if (![...ttls.values()].some((minutes) => minutes > 0)) return expired;
    let looked = 0;
    for (const { topic: queue } of store.queues()) {
      if (++looked % QUEUES_PER_TURN === 0) await new Promise<void>((resolve) => clock.soon(resolve));
      if (this.#stopped) break;
      const parent = liteParts(queue)?.parent;
      const minutes = parent === undefined ? 0 : (ttls.get(parent) ?? 0);
      const end: number = store.maxOffsetInQueue(queue, 0);
      if (parent === undefined || !ttls.has(parent)) continue;
      if (end <= 0) {
        const looks = (this.#empty.get(queue) ?? 0) + 1;
        if (looks <= EMPTY_LOOKS) empty.set(queue, looks);
        else if (this.#isEmpty(queue)) expired.push(queue);
        continue;
      }
      if (minutes <= 0) continue;
      const before = this.#seen.get(queue);
      const time = before?.end === end ? before.time : await store.messageStoreTimestamp(queue, 0, end - 1);
      seen.set(queue, { end, time });
      const silent = clock.now() - time;
      if (silent >= config.minLiteTTl && silent > minutes * MINUTE_MS) expired.push(queue);
    }
    this.#seen = seen;
    this.#empty = empty;
    return expired;
  }

  /** No message has come since the look, neither into the queue nor on its way there. */
  #isAsSeen(queue: string): boolean {
    const seen = this.#seen.get(queue);
    if (seen === undefined) return this.#isEmpty(queue);
    return this.#options.store.maxOffsetInQueue(queue, 0, false) === seen.end;
  }

  #isEmpty(queue: string): boolean {
    return this.#options.store.maxOffsetInQueue(queue, 0, false) === 0;
  }

  async #delete(wanted: readonly string[], isDoomed: (queue: string) => boolean = () => true): Promise<void> {
    const { groups, lags, offsets, order, store, subscriptions } = this.#options;
    const queues: string[] = [];
    await store.deleteTopics(wanted, (queue) => isDoomed(queue) && queues.push(queue) > 0);
    const bound = boundGroups(groups);
    for (const queue of queues) {
      const parent = liteParts(queue)?.parent ?? '';
      for (const group of bound.get(parent) ?? []) {
        order.remove(queue, group);
        lags.note(group, parent, queue, undefined);
      }
      offsets.removeTopic(queue);
      subscriptions.removeQueue(queue);
      this.#seen.delete(queue);
    }
    // What cannot be saved is logged, and saved with the next change.
    await offsets.saved().catch(() => {});
  }
}
