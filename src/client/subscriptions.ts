// The topics of one consumer. Each change makes a higher version: brokers replace an entry only by a newer one, and refuse a pull that
// names a newer one than they have. So pulls name the version that was announced last, not one whose heartbeat is still on its way.

import type { Clock } from '../common/index.ts';
import { type MessageSelector, parseSubscription, type SubscriptionData } from './subscription.ts';
import { checkTopic } from './validators.ts';

/** Subscriptions by topic. */
export class Subscriptions {
  readonly #clock: Clock;
  readonly #byTopic = new Map<string, SubscriptionData>();
  readonly #announced = new Map<string, number>();
  #version = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** @throws GantryError CONFIG_VALUE, MESSAGE */
  set(topic: string, expression: string | MessageSelector): void {
    checkTopic(topic);
    this.#byTopic.set(topic, parseSubscription(topic, expression, this.#nextVersion()));
  }

  /** False if it was not there. */
  delete(topic: string): boolean {
    this.#announced.delete(topic);
    return this.#byTopic.delete(topic);
  }

  /** A topic's entry for pulls: with the announced version. */
  get(topic: string): SubscriptionData | undefined {
    const data = this.#byTopic.get(topic);
    return data === undefined ? undefined : { ...data, subVersion: this.#announced.get(topic) ?? 0 };
  }

  /** Runs `tell`, which sends heartbeats; what there was before it counts as announced after it. */
  async announce(tell: () => Promise<void>): Promise<void> {
    const versions = this.list().map((data) => [data.topic, data.subVersion] as const);
    await tell();
    for (const [topic, version] of versions) if (this.#byTopic.has(topic)) this.#announced.set(topic, version);
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
