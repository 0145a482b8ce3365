// The live consumers by group: heartbeats register them, an unregistration, a closed connection or two minutes of silence removes them.
// Whenever the members or the topics of a group change, every client of the group (the new one too) is told to rebalance.
//
// RocketMQ: ConsumerManager, DefaultConsumerIdsChangeListener, ClientHousekeepingService.

import type { Clock, Logger, Timer } from '../../common/index.ts';
import type { SubscriptionData } from '../../filter/index.ts';
import { normalTopicOf } from '../../message/index.ts';
import { type Channel, RequestCode } from '../../remoting/index.ts';
import type { BrokerConfig } from '../broker-config.ts';
import { tellOfManyGroups } from './channel-groups.ts';
import {
  type ClientChannelInfo,
  type ConsumeBehaviour,
  ConsumerGroupInfo,
  type LiveSubscription,
} from './consumer-group-info.ts';

/** Ms between two looks for silent clients. */
export const CLIENT_SCAN_INTERVAL_MS = 10_000;
/** With `realTimeNotifyConsumerChange` off: ms between two rounds of telling. */
const NOTIFY_INTERVAL_MS = 15_000;

/** Told of what heartbeats say that groups subscribe to, and of groups whose last client has gone. */
export interface SubscriptionListener {
  register(group: string, subscriptions: readonly SubscriptionData[]): void;
  unregister(group: string): void;
}

export class ConsumerManager {
  readonly #config: BrokerConfig;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #groups = new Map<string, ConsumerGroupInfo>();
  readonly #groupsOfChannel = new Map<Channel, Set<string>>();
  readonly #toNotify = new Set<string>();
  readonly #listener: SubscriptionListener | undefined;
  #timers: Timer[] = [];

  constructor(config: BrokerConfig, clock: Clock, logger: Logger, listener?: SubscriptionListener) {
    this.#listener = listener;
    this.#config = config;
    this.#clock = clock;
    this.#logger = logger;
  }

  /** Begins to look for silent clients. */
  start(): void {
    this.#timers = [this.#clock.every(CLIENT_SCAN_INTERVAL_MS, () => this.scanNotActive())];
    if (!this.#config.realTimeNotifyConsumerChange) {
      this.#timers.push(this.#clock.every(NOTIFY_INTERVAL_MS, () => this.#notifyWaiting()));
    }
  }

  stop(): void {
    for (const timer of this.#timers) timer.cancel();
    this.#timers = [];
  }

  find(group: string): ConsumerGroupInfo | undefined {
    return this.#groups.get(group);
  }

  groups(): IterableIterator<ConsumerGroupInfo> {
    return this.#groups.values();
  }

  /** What a live group subscribes to of a topic, with its filter. */
  subscription(group: string, topic: string): LiveSubscription | undefined {
    return this.#groups.get(group)?.subscriptions.get(topic);
  }

  /** True of a topic that a live group no longer subscribes to. */
  hasLeft(group: string, topic: string): boolean {
    const subscriptions = this.#groups.get(group)?.subscriptions;
    if (subscriptions === undefined || subscriptions.size === 0 || subscriptions.has(topic)) return false;
    // Who pops a topic takes its retries along without a word. RocketMQ: compensateSubscribeData.
    return !subscriptions.has(normalTopicOf(topic, group));
  }

  /** Names of the live groups that subscribe to a topic. */
  groupsOfTopic(topic: string): string[] {
    const groups: string[] = [];
    for (const info of this.#groups.values()) if (info.subscriptions.has(topic)) groups.push(info.groupName);
    return groups;
  }

  /**
   * Takes in one group of a heartbeat. True if its members or topics have changed.
   * @param subscriptions undefined keeps what is known (a heartbeat without subscriptions)
   * @param notify whether the group wants to be told of changes
   */
  register(
    group: string,
    client: ClientChannelInfo,
    behaviour: ConsumeBehaviour,
    subscriptions: readonly SubscriptionData[] | undefined,
    notify: boolean,
  ): boolean {
    let info = this.#groups.get(group);
    if (info === undefined) {
      info = new ConsumerGroupInfo(group, behaviour, this.#logger);
      this.#groups.set(group, info);
    }
    this.#watch(client.channel, group);
    const newChannel = info.updateChannel(client, behaviour);
    const newTopics = subscriptions === undefined ? false : info.updateSubscriptions(subscriptions);
    if ((newChannel || newTopics) && notify && !info.isBroadcasting) this.#notify(info);
    if (subscriptions !== undefined) this.#listener?.register(group, subscriptions);
    return newChannel || newTopics;
  }

  /** Takes a client out of a group, as it asked for. */
  unregister(group: string, channel: Channel, notify: boolean): void {
    const info = this.#groups.get(group);
    if (info === undefined) return;
    this.#groupsOfChannel.get(channel)?.delete(group);
    this.#remove(info, channel, 'unregistered');
    if (notify && !info.isBroadcasting) this.#notify(info);
  }

  /** Closes connections that sent no heartbeat for `channelExpiredTimeout` and takes their clients out. */
  scanNotActive(): void {
    const now = this.#clock.now();
    for (const info of this.#groups.values()) {
      for (const client of info.channels.values()) {
        if (now - client.lastUpdateMs <= this.#config.channelExpiredTimeout) continue;
        client.channel.close(`no heartbeat of consumer ${client.clientId}, group ${info.groupName}`);
        // A channel that reports its closing later must not keep the client until then.
        this.#closed(client.channel);
      }
    }
  }

  #watch(channel: Channel, group: string): void {
    const groups = this.#groupsOfChannel.get(channel);
    if (groups !== undefined) {
      groups.add(group);
      return;
    }
    this.#groupsOfChannel.set(channel, new Set([group]));
    channel.onClose(() => this.#closed(channel));
  }

  #closed(channel: Channel): void {
    const groups = this.#groupsOfChannel.get(channel);
    if (groups === undefined) return;
    this.#groupsOfChannel.delete(channel);
    tellOfManyGroups(this.#config, this.#logger, channel, groups, 'consumer');
    for (const group of groups) {
      const info = this.#groups.get(group);
      if (info === undefined) continue;
      this.#remove(info, channel, 'gone');
      // RocketMQ: the group's own wish not to be told is not asked here.
      if (!info.isBroadcasting) this.#notify(info);
    }
  }

  #remove(info: ConsumerGroupInfo, channel: Channel, how: string): void {
    const client = info.channels.get(channel);
    if (client !== undefined) {
      info.channels.delete(channel);
      this.#logger.info(`consumer ${client.clientId} of group ${info.groupName} is ${how}`, {
        address: channel.remoteAddress,
      });
    }
    if (info.channels.size > 0) return;
    if (this.#groups.delete(info.groupName)) this.#listener?.unregister(info.groupName);
  }

  #notify(info: ConsumerGroupInfo): void {
    if (!this.#config.notifyConsumerIdsChangedEnable) return;
    if (this.#config.realTimeNotifyConsumerChange) this.#tell(info);
    else this.#toNotify.add(info.groupName);
  }

  #notifyWaiting(): void {
    for (const group of this.#toNotify) {
      const info = this.#groups.get(group);
      if (info !== undefined) this.#tell(info);
    }
    this.#toNotify.clear();
  }

  #tell(info: ConsumerGroupInfo): void {
    for (const channel of info.channels.keys()) {
      channel.sendOneway(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, { consumerGroup: info.groupName });
    }
  }
}
