// Who subscribes to which lite topics: by client (what it wants) and by queue (whom its messages are for). In memory alone; clients renew
// their subscriptions, and those that do not are dropped.
//
//   client ─► Subscription { group, topic, queues }          queue ─► the clients that subscribe to it
//
// A group with a wildcard has one entry, under the name <topic>@<group>, for all lite topics of its parent.
//
// RocketMQ: LiteSubscriptionRegistryImpl.

import type { Clock, Logger } from '../../common/index.ts';
import { type Channel, RequestCode } from '../../remoting/index.ts';
import type { ConsumerOffsetManager } from '../offset/consumer-offset-manager.ts';
import type { SubscriptionGroupManager } from '../subscription/subscription-group-manager.ts';
import { clientQuota, isExclusive, isReset, isWildcardGroup } from './lite-metadata.ts';
import { liteParts } from './lite-names.ts';
import type { LiteOrder } from './lite-order.ts';
import type { LiteSettings } from './lite-settings.ts';

/** RocketMQ: ClientGroup. */
export interface ClientGroup {
  readonly clientId: string;
  readonly group: string;
}

export interface LiteSubscription {
  readonly group: string;
  readonly topic: string;
  /** Names of queues. */
  readonly queues: Set<string>;
  /** When the client renewed it last; wall-clock ms. */
  updatedAt: number;
}

/** RocketMQ: OffsetOption. */
export interface OffsetOption {
  readonly type: 'POLICY' | 'OFFSET' | 'TAIL_N' | 'TIMESTAMP';
  readonly value: number;
}

const POLICY_MIN = 1;
const POLICY_MAX = 2;
const FROM_MIN: OffsetOption = { type: 'POLICY', value: POLICY_MIN };

/** Told of changes. RocketMQ: LiteCtlListener. */
export interface SubscriptionListener {
  subscribed(clientId: string, group: string, queue: string): void;
  unsubscribed(clientId: string, group: string, queue: string): void;
  /** All subscriptions of a client have ended. */
  gone(clientId: string): void;
}

export interface LiteSubscriptionsOptions {
  readonly config: LiteSettings;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly groups: SubscriptionGroupManager;
  readonly offsets: ConsumerOffsetManager;
  readonly order: LiteOrder;
  /** Whether this broker has a lite topic, or is to have it. RocketMQ: isSubscriptionActive. */
  readonly isActive: (topic: string, queue: string) => boolean;
  /** Offset behind a queue's last message. */
  readonly endOf: (queue: string) => number;
}

export class LiteSubscriptions {
  listener: SubscriptionListener | undefined;
  readonly #options: LiteSubscriptionsOptions;
  readonly #channels = new Map<string, Channel>();
  readonly #clients = new Map<string, LiteSubscription>();
  /** By queue, client id. A client is of one group. */
  readonly #queues = new Map<string, Map<string, ClientGroup>>();
  /** By parent topic: groups with a wildcard that somebody subscribes for. */
  readonly #wildcards = new Map<string, Set<string>>();
  #count = 0;

  constructor(options: LiteSubscriptionsOptions) {
    this.#options = options;
  }

  /** Subscriptions, each of one client to one lite topic. */
  get count(): number {
    return this.#count;
  }

  /** Clients whose connection is known. */
  get connections(): number {
    return this.#channels.size;
  }

  of(clientId: string): LiteSubscription | undefined {
    return this.#clients.get(clientId);
  }

  clientsOf(group: string): string[] {
    const clients: string[] = [];
    for (const [clientId, subscription] of this.#clients) if (subscription.group === group) clients.push(clientId);
    return clients;
  }

  /** The connection by which a client is told that it lost a subscription. */
  heardFrom(clientId: string, channel: Channel): void {
    this.#channels.set(clientId, channel);
  }

  /**
   * Why a client of a group may not subscribe to so many lite topics more; undefined if it may. `whole`: to these alone. RocketMQ: asks
   * only for those that are added in part, and takes any number of them at once.
   */
  overQuota(
    clientId: string,
    group: string,
    topic: string,
    queues: ReadonlySet<string>,
    whole: boolean,
  ): string | undefined {
    const { config, groups, isActive } = this.#options;
    const own = this.#clients.get(clientId)?.queues;
    let fresh = 0;
    let known = 0;
    for (const queue of queues) {
      if (own?.has(queue) === true) known++;
      else if (isActive(topic, queue)) fresh++;
    }
    if (fresh === 0) return undefined;
    const before = own?.size ?? 0;
    const after = fresh + (whole ? known : before);
    if (this.#count - before + after > config.maxLiteSubscriptionCount) {
      return `lite subscription quota exceeded ${config.maxLiteSubscriptionCount}`;
    }
    const most = clientQuota(groups.find(group));
    if (after <= most) return undefined;
    return `lite subscription quota exceeded ${most} (lite.sub.client.quota of the group ${group}, for the client ${clientId})`;
  }

  /** Adds lite topics to what a client subscribes to; what another broker has is left out. */
  add(clientId: string, group: string, topic: string, queues: ReadonlySet<string>, from?: OffsetOption): void {
    const subscription = this.#subscription(clientId, group, topic);
    const client = { clientId, group: subscription.group };
    const exclusive = isExclusive(this.#options.groups.find(group));
    for (const queue of queues) {
      if (!this.#options.isActive(topic, queue)) continue;
      if (exclusive) this.#exclude(client, queue);
      if (from !== undefined) this.#moveTo(queue, group, from);
      subscription.queues.add(queue);
      this.#link(client, queue);
    }
  }

  /** Keeps what a client subscribes to. */
  renew(clientId: string): void {
    const subscription = this.#clients.get(clientId);
    if (subscription !== undefined) subscription.updatedAt = this.#options.clock.now();
  }

  /** Takes lite topics from what a client subscribes to. */
  remove(clientId: string, group: string, topic: string, queues: ReadonlySet<string>): void {
    if (!this.#clients.has(clientId)) return;
    const subscription = this.#subscription(clientId, group, topic);
    const reset = isReset(this.#options.groups.find(group), 'unsubscribe');
    for (const queue of queues) {
      subscription.queues.delete(queue);
      if (this.#unlink(clientId, queue) && reset) this.#moveTo(queue, subscription.group, FROM_MIN);
    }
  }

  /** Sets all that a client subscribes to. Of a group with a wildcard, that is everything. */
  replace(clientId: string, group: string, topic: string, queues: ReadonlySet<string>): void {
    const wildcard = isWildcardGroup(this.#options.groups.find(group));
    let wanted = queues;
    if (wildcard) {
      wanted = new Set([wildcardName(topic, group)]);
      const groups = this.#wildcards.get(topic) ?? new Set();
      this.#wildcards.set(topic, groups.add(group));
    } else {
      wanted = new Set([...queues].filter((queue) => this.#options.isActive(topic, queue)));
    }
    const subscription = this.#subscription(clientId, group, topic);
    const client = { clientId, group: subscription.group };
    for (const queue of [...subscription.queues]) {
      if (wanted.has(queue)) continue;
      subscription.queues.delete(queue);
      this.#unlink(clientId, queue);
    }
    for (const queue of wanted) {
      subscription.queues.add(queue);
      this.#link(client, queue);
    }
  }

  /** Ends all that a client subscribes to. */
  removeAll(clientId: string): void {
    this.#channels.delete(clientId);
    const subscription = this.#clients.get(clientId);
    if (subscription === undefined) return;
    this.#clients.delete(clientId);
    for (const queue of subscription.queues) this.#unlink(clientId, queue);
    this.listener?.gone(clientId);
  }

  /** Ends the subscriptions to a lite topic that is deleted. */
  removeQueue(queue: string): void {
    const clients = this.#queues.get(queue);
    if (clients === undefined) return;
    this.#queues.delete(queue);
    for (const { clientId, group } of clients.values()) {
      this.#clients.get(clientId)?.queues.delete(queue);
      this.#count--;
      this.listener?.unsubscribed(clientId, group, queue);
    }
  }

  /** The clients of one group that a queue's messages are for. */
  subscribers(group: string, queue: string): ClientGroup[] {
    const parent = liteParts(queue)?.parent ?? '';
    if (isWildcardGroup(this.#options.groups.find(group))) return this.wildcardSubscribers(group, parent);
    return [...(this.#queues.get(queue)?.values() ?? [])].filter((client) => client.group === group);
  }

  /** The same of all groups. */
  allSubscribers(queue: string): Map<string, ClientGroup[]> {
    const byGroup = new Map<string, ClientGroup[]>();
    for (const client of this.#queues.get(queue)?.values() ?? []) {
      const clients = byGroup.get(client.group);
      if (clients === undefined) byGroup.set(client.group, [client]);
      else clients.push(client);
    }
    if (this.#wildcards.size === 0) return byGroup;
    const parent = liteParts(queue)?.parent ?? '';
    for (const group of this.#wildcards.get(parent) ?? []) {
      const clients = this.wildcardSubscribers(group, parent);
      if (clients.length > 0 && !byGroup.has(group)) byGroup.set(group, clients);
    }
    return byGroup;
  }

  wildcardSubscribers(group: string, topic: string): ClientGroup[] {
    return [...(this.#queues.get(wildcardName(topic, group))?.values() ?? [])];
  }

  /** Whether anybody subscribes to anything. */
  get isEmpty(): boolean {
    return this.#queues.size === 0 && this.#wildcards.size === 0;
  }

  /** Ends the subscriptions of clients that did not renew them; connections of clients without any are forgotten. */
  clean(): void {
    const { clock, config, logger } = this.#options;
    const oldest = clock.now() - config.liteSubscriptionCheckTimeoutMills;
    for (const [clientId, { group, topic, updatedAt }] of this.#clients) {
      if (updatedAt >= oldest) continue;
      logger.info(`lite subscriptions of ${clientId} (group ${group}, topic ${topic}) end: it did not renew them`);
      this.removeAll(clientId);
    }
    // Of clients that were refused, or that others took everything from.
    for (const clientId of this.#channels.keys()) if (!this.#clients.has(clientId)) this.#channels.delete(clientId);
  }

  #subscription(clientId: string, group: string, topic: string): LiteSubscription {
    const now = this.#options.clock.now();
    let subscription = this.#clients.get(clientId);
    if (subscription === undefined) {
      subscription = { group, topic, queues: new Set(), updatedAt: now };
      this.#clients.set(clientId, subscription);
    }
    subscription.updatedAt = now;
    return subscription;
  }

  #link(client: ClientGroup, queue: string): void {
    let clients = this.#queues.get(queue);
    if (clients === undefined) {
      clients = new Map();
      this.#queues.set(queue, clients);
    }
    if (clients.has(client.clientId)) return;
    clients.set(client.clientId, client);
    this.#count++;
    this.listener?.subscribed(client.clientId, client.group, queue);
  }

  #unlink(clientId: string, queue: string): boolean {
    const clients = this.#queues.get(queue);
    const client = clients?.get(clientId);
    if (clients === undefined || client === undefined) return false;
    clients.delete(clientId);
    this.#count--;
    this.listener?.unsubscribed(clientId, client.group, queue);
    if (clients.size > 0) return true;
    this.#queues.delete(queue);
    // Groups have names without one; topics are what clients say.
    const at = queue.lastIndexOf('@');
    const groups = at < 0 ? undefined : this.#wildcards.get(queue.slice(0, at));
    if (groups?.delete(queue.slice(at + 1)) === true && groups.size === 0) this.#wildcards.delete(queue.slice(0, at));
    return true;
  }

  /** The former owner of a lite topic that is for one client alone loses it, and is told. */
  #exclude(newcomer: ClientGroup, queue: string): void {
    const { groups, logger } = this.#options;
    for (const { clientId, group } of [...(this.#queues.get(queue)?.values() ?? [])]) {
      // RocketMQ: tells also a client that subscribes anew to what it has, which then drops it.
      if (group !== newcomer.group || clientId === newcomer.clientId) continue;
      const subscription = this.#clients.get(clientId);
      subscription?.queues.delete(queue);
      this.#unlink(clientId, queue);
      if (subscription?.queues.size === 0) this.#clients.delete(clientId);
      const reset = isReset(groups.find(group), 'exclusive');
      logger.info(
        `${queue} of group ${group} goes from ${clientId} to ${newcomer.clientId}${reset ? ', from its beginning' : ''}`,
      );
      this.#channels.get(clientId)?.sendOneway(RequestCode.NOTIFY_UNSUBSCRIBE_LITE, {
        clientId,
        consumerGroup: group,
        liteTopic: liteParts(queue)?.lite,
      });
      if (reset) this.#moveTo(queue, group, FROM_MIN);
    }
  }

  /** Moves a group in a queue, whatever is out of it. RocketMQ: resetOffset; the option TIMESTAMP does nothing. */
  #moveTo(queue: string, group: string, { type, value }: OffsetOption): void {
    const { endOf, logger, offsets, order } = this.#options;
    const current = offsets.query(group, queue, 0);
    let target = -1;
    if (type === 'POLICY' && value === POLICY_MIN) target = 0;
    else if (type === 'POLICY' && value === POLICY_MAX) target = endOf(queue);
    else if (type === 'OFFSET') target = value;
    else if (type === 'TAIL_N' && current >= 0) target = Math.max(0, current - value);
    if (target < 0 || target === current) return;
    logger.info(`offset of ${queue}@${group} is moved from ${current} to ${target}`);
    offsets.assignReset(group, queue, 0, target);
    order.remove(queue, group);
  }
}

function wildcardName(topic: string, group: string): string {
  return `${topic}@${group}`;
}
