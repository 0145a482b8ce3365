// Lite topics with news, given to the clients that subscribe to them: a client's next pop looks at these alone, however many it subscribes
// to. An event is the name of a queue. It goes to one client of each group; each client has a bounded set of them.
//
//   message arrives ─┐
//   queue is free ───┼─► a client of the group, whose waiting pop is woken
//   subscribed ──────┘       │ all their sets are full ─► later all that they subscribe to is looked through (full dispatch)
//                            └ it does not fetch ─► another one gets its events (scan)
//
// RocketMQ: LiteEventDispatcher, which looks for due full dispatches every liteEventCheckInterval; here each has a timer.

import type { Clock, Logger, Random, Timer } from '../../common/index.ts';
import type { ConsumerOffsetManager } from '../offset/consumer-offset-manager.ts';
import type { SubscriptionGroupManager } from '../subscription/subscription-group-manager.ts';
import { bindTopicOf, isWildcardGroup, maxEvents } from './lite-metadata.ts';
import { isLiteQueueOf } from './lite-names.ts';
import type { LiteSettings } from './lite-settings.ts';
import type { ClientGroup, LiteSubscriptions, SubscriptionListener } from './lite-subscriptions.ts';

/** A client that has events and fetches none for so many ms, or none at all for longer than a poll takes, is taken for blocked. */
const INACTIVE_MS = 10_000;
const LONG_POLLING_MS = 35_000;
/** A client that fetched so recently is at work. */
const ACTIVE_MS = 5000;
/** Of a blocked client: how long others are preferred to it. */
const BLACKLIST_MS = 10_000;
/** A set that is fuller than this is not filled by a full dispatch. */
const LOW_WATER = 0.2;
const SHORTEST_DELAY_MS = 50;
/** Delay of a full dispatch for a group with a wildcard that has a new client. */
const NEW_WILDCARD_MS = 5000;
/** Queues that a full dispatch for a wildcard looks at in one turn of the loop. */
const SLICE = 2048;

interface ClientEvents {
  readonly group: string;
  readonly queues: Set<string>;
  readonly most: number;
  /** When it asked last; wall-clock ms. */
  accessedAt: number;
}

export interface LiteEventsOptions {
  readonly config: LiteSettings;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly random: Random;
  readonly groups: SubscriptionGroupManager;
  readonly offsets: ConsumerOffsetManager;
  readonly subscriptions: LiteSubscriptions;
  readonly endOf: (queue: string) => number;
  /** Names of all queues of the store. */
  readonly queues: () => Iterable<string>;
  /** Wakes a pop of a client that waits. */
  readonly wake: (clientId: string) => void;
}

export class LiteEvents implements SubscriptionListener {
  readonly #options: LiteEventsOptions;
  readonly #clients = new Map<string, ClientEvents>();
  /** Clients, and until when others are preferred to them. */
  readonly #blacklist = new Map<string, number>();
  /** Full dispatches to come, by client, or by group with a wildcard. */
  readonly #full = new Map<string, Timer>();
  #stopped = false;

  constructor(options: LiteEventsOptions) {
    this.#options = options;
  }

  /** Clients that have, or had, events. */
  get size(): number {
    return this.#clients.size;
  }

  /** When a client asked last, wall-clock ms; -1 if it never did. */
  lastAccess(clientId: string): number {
    return this.#clients.get(clientId)?.accessedAt ?? -1;
  }

  /** A queue has news for all groups that subscribe to it. */
  arrived(queue: string): void {
    const { config, subscriptions } = this.#options;
    if (!config.enableLiteEventMode || subscriptions.isEmpty) return;
    for (const clients of subscriptions.allSubscribers(queue).values()) this.#give(queue, clients, undefined);
  }

  /** A queue has something for one group; a client other than `except` is to fetch it, if there is one. */
  dispatch(group: string, queue: string, except?: string): void {
    if (!this.#options.config.enableLiteEventMode) return;
    this.#give(queue, this.#options.subscriptions.subscribers(group, queue), except);
  }

  /** The next queue that a client is to look at; undefined if there is none. */
  next(clientId: string): string | undefined {
    const events = this.#clients.get(clientId);
    if (events === undefined) return undefined;
    events.accessedAt = this.#options.clock.now();
    for (const queue of events.queues) {
      events.queues.delete(queue);
      return queue;
    }
    return undefined;
  }

  /** Whether there is one. */
  hasNext(clientId: string): boolean {
    return (this.#clients.get(clientId)?.queues.size ?? 0) > 0;
  }

  /** A client asks, be there events for it or not. RocketMQ: one that was never given an event is not known to have asked. */
  asked(clientId: string): void {
    const events = this.#clients.get(clientId);
    if (events !== undefined) events.accessedAt = this.#options.clock.now();
  }

  /** What a client was given could not be read: all that it subscribes to is looked through again, later. */
  failed(clientId: string, group: string): void {
    const { config, groups } = this.#options;
    if (isWildcardGroup(groups.find(group)))
      this.#fullForGroupIn(group, config.liteEventFullDispatchDelayTimeForWildcardGroup);
    else this.#fullForClientIn(clientId, group, config.liteEventFullDispatchDelayTime);
  }

  subscribed(_clientId: string, group: string, queue: string): void {
    const { endOf, groups } = this.#options;
    if (isWildcardGroup(groups.find(group))) this.#fullForGroupIn(group, NEW_WILDCARD_MS);
    else if (endOf(queue) > 0) this.dispatch(group, queue);
  }

  /** What it was given is for the others. RocketMQ: a client that lost a lite topic may still fetch from it. */
  unsubscribed(clientId: string, group: string, queue: string): void {
    if (this.#clients.get(clientId)?.queues.delete(queue) === true) this.dispatch(group, queue);
  }

  gone(clientId: string): void {
    this.#full.get(clientId)?.cancel();
    this.#full.delete(clientId);
    this.#takeFrom(clientId);
  }

  /** Gives the events of clients that do not fetch to others. Called every liteEventCheckInterval. */
  scan(): void {
    const { clock, logger } = this.#options;
    const now = clock.now();
    for (const [clientId, until] of this.#blacklist) if (until <= now) this.#blacklist.delete(clientId);
    for (const [clientId, events] of this.#clients) {
      if (!this.#isBlocked(events)) continue;
      if (events.queues.size > 0) {
        logger.warn(`${clientId} does not fetch ${events.queues.size} lite topics that it was given: others get them`);
      }
      this.#blacklist.set(clientId, now + BLACKLIST_MS);
      this.#takeFrom(clientId);
    }
  }

  stop(): void {
    this.#stopped = true;
    for (const timer of this.#full.values()) timer.cancel();
    this.#full.clear();
    this.#clients.clear();
  }

  /** Looks through all that a client, or a group with a wildcard, subscribes to. RocketMQ: doFullDispatchForClient, ...ByGroup. */
  fullForClient(clientId: string, group: string): void {
    const { config, endOf, offsets, subscriptions } = this.#options;
    const subscription = subscriptions.of(clientId);
    if (!config.enableLiteEventMode || subscription === undefined || subscription.queues.size === 0) return;
    const events = this.#eventsOf(clientId, group);
    const again = (spreadMs: number): void =>
      this.#fullForClientIn(clientId, group, config.liteEventFullDispatchDelayTime + this.#upTo(spreadMs));
    const active = this.#options.clock.now() - events.accessedAt < ACTIVE_MS;
    if (this.#isBlocked(events)) return again(15_000);
    if (events.queues.size / events.most >= LOW_WATER) return again(active ? 0 : 10_000);
    for (const queue of subscription.queues) {
      const end = endOf(queue);
      if (end <= 0 || offsets.query(group, queue, 0) >= end) continue;
      if (!add(events, queue)) {
        again(active ? 0 : 15_000);
        break;
      }
    }
    // As many pops as wait may each take a share.
    for (let left = events.queues.size; left > 0; left -= 10) this.#options.wake(clientId);
  }

  fullForGroup(group: string): void {
    const { groups, subscriptions } = this.#options;
    if (isWildcardGroup(groups.find(group))) this.#fullForWildcard(group);
    else for (const clientId of subscriptions.clientsOf(group)) this.fullForClient(clientId, group);
  }

  #fullForWildcard(group: string): void {
    const { clock, config, groups, queues } = this.#options;
    const parent = bindTopicOf(groups.find(group));
    if (!config.enableLiteEventMode || parent === undefined) return;
    const names = queues()[Symbol.iterator]();
    const step = (): void => {
      if (this.#stopped) return;
      for (let i = 0; i < SLICE; i++) {
        const { done, value } = names.next();
        if (done) return;
        if (isLiteQueueOf(value, parent) && !this.#giveToWildcard(group, parent, value)) return;
      }
      clock.soon(step);
    };
    step();
  }

  /** False if no client of the group takes more. */
  #giveToWildcard(group: string, parent: string, queue: string): boolean {
    const { endOf, offsets, subscriptions } = this.#options;
    const end = endOf(queue);
    if (end <= 0 || offsets.query(group, queue, 0) >= end) return true;
    const clients = subscriptions.wildcardSubscribers(group, parent);
    return clients.length > 0 && this.#give(queue, clients, undefined);
  }

  /** Gives an event to one client of a group; false if none takes it. RocketMQ: selectAndDispatch. */
  #give(queue: string, clients: readonly ClientGroup[], except: string | undefined): boolean {
    if (clients.length === 0) return true;
    const { config, groups, random, wake } = this.#options;
    const { group } = clients[0]!;
    const wildcard = isWildcardGroup(groups.find(group));
    const fallback: string[] = [];
    const start = clients.length === 1 ? 0 : random.int(clients.length);
    for (let i = 0; i < clients.length; i++) {
      const { clientId } = clients[(start + i) % clients.length]!;
      const isLast = clientId === except || (this.#isListed(clientId) && !wildcard);
      if (isLast) fallback.push(clientId);
      else if (!this.#isListed(clientId) && this.#offer(queue, clientId, group, wildcard)) {
        wake(clientId);
        return true;
      }
    }
    for (const clientId of fallback) {
      if (!this.#offer(queue, clientId, group, wildcard)) continue;
      wake(clientId);
      return true;
    }
    if (wildcard) this.#fullForGroupIn(group, config.liteEventFullDispatchDelayTimeForWildcardGroup);
    return false;
  }

  #isListed(clientId: string): boolean {
    return (this.#blacklist.get(clientId) ?? 0) > this.#options.clock.now();
  }

  #offer(queue: string, clientId: string, group: string, wildcard: boolean): boolean {
    if (add(this.#eventsOf(clientId, group), queue)) return true;
    if (!wildcard) {
      const spread = this.#isListed(clientId) ? this.#upTo(15_000) : 0;
      this.#fullForClientIn(clientId, group, this.#options.config.liteEventFullDispatchDelayTime + spread);
    }
    return false;
  }

  #eventsOf(clientId: string, group: string): ClientEvents {
    let events = this.#clients.get(clientId);
    if (events === undefined) {
      const { clock, config, groups } = this.#options;
      const most = maxEvents(groups.find(group), config.maxClientEventCount);
      events = { group, queues: new Set(), most, accessedAt: clock.now() };
      this.#clients.set(clientId, events);
    }
    return events;
  }

  /** RocketMQ: maybeBlock. */
  #isBlocked({ accessedAt, queues }: ClientEvents): boolean {
    const silent = this.#options.clock.now() - accessedAt;
    return silent > LONG_POLLING_MS || (queues.size > 0 && silent > INACTIVE_MS);
  }

  #takeFrom(clientId: string): void {
    const events = this.#clients.get(clientId);
    if (events === undefined) return;
    this.#clients.delete(clientId);
    for (const queue of events.queues) this.dispatch(events.group, queue, clientId);
  }

  #fullForClientIn(clientId: string, group: string, delayMs: number): void {
    this.#fullIn(clientId, delayMs, () => this.fullForClient(clientId, group));
  }

  /** No client has such an id. */
  #fullForGroupIn(group: string, delayMs: number): void {
    this.#fullIn(`$${group}$`, delayMs, () => this.fullForGroup(group));
  }

  #fullIn(key: string, delayMs: number, run: () => void): void {
    if (this.#stopped || this.#full.has(key)) return;
    const timer = this.#options.clock.after(Math.max(SHORTEST_DELAY_MS, delayMs), () => {
      this.#full.delete(key);
      run();
    });
    this.#full.set(key, timer);
  }

  #upTo(ms: number): number {
    return ms === 0 ? 0 : this.#options.random.int(ms);
  }
}

/** False if the client has as many events as it may. */
function add({ queues, most }: ClientEvents, queue: string): boolean {
  if (queues.has(queue)) return true;
  if (queues.size >= most) return false;
  queues.add(queue);
  return true;
}
