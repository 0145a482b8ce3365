// The topics of one consumer. Each change makes a higher version: brokers replace an entry only by a newer one.

import type { Clock } from '../common/index.ts';
import { parseSubscription, type SubscriptionData } from './subscription.ts';
import { checkTopic } from './validators.ts';

/** Subscriptions by topic. */
export class Subscriptions {
  readonly #clock: Clock;
  readonly #byTopic = new Map<string, SubscriptionData>();
  #version = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** @throws GantryError CONFIG_VALUE, MESSAGE */
  set(topic: string, expression: string): void {
    checkTopic(topic);
    this.#byTopic.set(topic, parseSubscription(topic, expression, this.#nextVersion()));
  }

  /** False if it was not there. */
  delete(topic: string): boolean {
    return this.#byTopic.delete(topic);
  }

  get(topic: string): SubscriptionData | undefined {
    return this.#byTopic.get(topic);
  }

  /** Gives a topic's entry a new version, nothing else changed. RocketMQ: RebalancePushImpl#messageQueueChanged. */
  renew(topic: string): void {
    const data = this.#byTopic.get(topic);
    if (data !== undefined) this.#byTopic.set(topic, { ...data, subVersion: this.#nextVersion() });
  }

  topics(): string[] {
    return [...this.#byTopic.keys()];
  }

  list(): SubscriptionData[] {
    return [...this.#byTopic.values()];
  }

  #nextVersion(): number {
    this.#version = Math.max(this.#version + 1, this.#clock.now());
    return this.#version;
  }
}
