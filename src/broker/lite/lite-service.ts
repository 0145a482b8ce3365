// Lite topics: everything that lives beside the requests, put together. RocketMQ: the parts of BrokerController that end in Lite.
//
//   LiteSubscriptions   who wants what          LiteOrder       what is out
//   LiteEvents          who is to look where    LiteLifecycle   what has expired
//   LiteHold            who waits               LiteLags        who is behind

import type { Clock, Logger, Random, Timer } from '../../common/index.ts';
import type { MessageStore } from '../../store/index.ts';
import type { BrokerConfig } from '../broker-config.ts';
import type { ConsumerOffsetManager } from '../offset/consumer-offset-manager.ts';
import type { SubscriptionGroupManager } from '../subscription/subscription-group-manager.ts';
import type { TopicConfigManager } from '../topic/topic-config-manager.ts';
import { LiteEvents } from './lite-events.ts';
import { type HoldLimits, LiteHold } from './lite-hold.ts';
import { LiteLags } from './lite-lag.ts';
import { LiteLifecycle } from './lite-lifecycle.ts';
import { isLiteQueue } from './lite-names.ts';
import { LiteOrder } from './lite-order.ts';
import type { LiteSettings } from './lite-settings.ts';
import { LiteSharding } from './lite-sharding.ts';
import { LiteSubscriptions } from './lite-subscriptions.ts';

/** Ms between two looks for what has been out for a day. */
const ORDER_CLEAN_MS = 5 * 60_000;

export interface LiteServiceOptions {
  readonly config: LiteSettings & HoldLimits & Pick<BrokerConfig, 'brokerName' | 'disappearTimeAfterStart'>;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly random: Random;
  readonly store: MessageStore;
  readonly topics: TopicConfigManager;
  readonly groups: SubscriptionGroupManager;
  readonly offsets: ConsumerOffsetManager;
}

export class LiteService {
  readonly sharding: LiteSharding;
  readonly order: LiteOrder;
  readonly subscriptions: LiteSubscriptions;
  readonly events: LiteEvents;
  readonly hold: LiteHold;
  readonly lifecycle: LiteLifecycle;
  readonly lags: LiteLags;
  readonly #options: LiteServiceOptions;
  readonly #timers: Timer[] = [];

  constructor(options: LiteServiceOptions) {
    const { config, clock, logger, store, offsets } = options;
    this.#options = options;
    const endOf = (queue: string): number => this.endOf(queue);
    this.sharding = new LiteSharding(config.brokerName, clock, logger);
    this.order = new LiteOrder(clock, (queue, group) => this.events.dispatch(group, queue));
    this.subscriptions = new LiteSubscriptions({
      ...options,
      order: this.order,
      isActive: (topic, queue) => this.sharding.isOwn(topic, queue) || endOf(queue) > 0,
      endOf,
    });
    this.hold = new LiteHold(clock, config);
    this.events = new LiteEvents({
      ...options,
      subscriptions: this.subscriptions,
      endOf,
      queues: () => topicsOf(store),
      wake: (clientId) => this.hold.wake(clientId),
    });
    this.subscriptions.listener = this.events;
    this.lags = new LiteLags({
      config,
      offsets,
      endOf,
      storeTimeOf: (queue, offset) => store.messageStoreTimestamp(queue, 0, offset),
    });
    const { order, subscriptions, lags } = this;
    this.lifecycle = new LiteLifecycle({ ...options, order, subscriptions, lags });
  }

  /** Offset behind the last message of a light queue; 0 if there is none. */
  endOf(queue: string): number {
    return this.#options.store.maxOffsetInQueue(queue, 0);
  }

  start(): void {
    const { clock, config, store } = this.#options;
    store.onLightArrival((queue) => {
      // Of very many queues even their names are seldom at hand.
      if (!this.subscriptions.isEmpty && isLiteQueue(queue)) this.events.arrived(queue);
    });
    this.#timers.push(
      clock.every(config.liteEventCheckInterval, () => this.events.scan()),
      clock.every(config.liteSubscriptionCheckInterval, () => this.subscriptions.clean()),
      clock.every(config.liteTtlCheckInterval, () => void this.lifecycle.clean()),
      clock.every(ORDER_CLEAN_MS, () => this.order.clean()),
    );
  }

  async stop(): Promise<void> {
    for (const timer of this.#timers) timer.cancel();
    this.hold.stop();
    this.events.stop();
    this.order.stop();
    await this.lifecycle.stop();
  }
}

function* topicsOf(store: MessageStore): Generator<string> {
  for (const { topic } of store.queues()) yield topic;
}
