// With `disableConsumeIfConsumerReadSlowly`: a group that reads too far behind the log's end is suspended (consumeEnable=false), until an
// administrator lets it go on. RocketMQ: BrokerController#protectBroker, on the statistics GROUP_GET_FALL_SIZE.

import type { Clock, Logger, Timer } from '../../common/index.ts';
import type { BrokerConfig } from '../broker-config.ts';
import type { SubscriptionGroupManager } from '../subscription/subscription-group-manager.ts';

/** Ms between two looks. */
export const PROTECT_MS = 180_000;

export class SlowConsumers {
  readonly #config: BrokerConfig;
  readonly #groups: SubscriptionGroupManager;
  readonly #clock: Clock;
  readonly #logger: Logger;
  /** By group, then by queue: bytes between the last message that was pulled and the log's end. */
  readonly #behind = new Map<string, Map<string, number>>();
  #timer: Timer | undefined;

  constructor(config: BrokerConfig, groups: SubscriptionGroupManager, clock: Clock, logger: Logger) {
    this.#config = config;
    this.#groups = groups;
    this.#clock = clock;
    this.#logger = logger;
  }

  start(): void {
    this.#timer = this.#clock.every(PROTECT_MS, () => this.#look());
  }

  stop(): void {
    this.#timer?.cancel();
  }

  /** Notes a pull of a group, while the setting is on. */
  note(group: string, topic: string, queueId: number, bytes: number): void {
    let queues = this.#behind.get(group);
    if (queues === undefined) {
      queues = new Map();
      this.#behind.set(group, queues);
    }
    queues.set(`${topic}@${queueId}`, bytes);
  }

  #look(): void {
    const { disableConsumeIfConsumerReadSlowly, consumerFallbehindThreshold } = this.#config;
    for (const [group, queues] of this.#behind) {
      for (const [queue, bytes] of queues) {
        if (!disableConsumeIfConsumerReadSlowly || bytes <= consumerFallbehindThreshold) continue;
        if (!this.#groups.disableConsume(group)) break;
        this.#logger.warn(
          `group ${group} is suspended: on ${queue} it reads ${bytes} bytes behind the log's end, ` +
            `consumerFallbehindThreshold is ${consumerFallbehindThreshold} (disableConsumeIfConsumerReadSlowly)`,
        );
        break;
      }
    }
    // RocketMQ: keeps the last value of a group that pulls no more, so that it is suspended again after each release.
    this.#behind.clear();
  }
}
