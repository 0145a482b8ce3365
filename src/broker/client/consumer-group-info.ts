// One consumer group as its live clients describe it: who is connected, and what the group subscribes to. RocketMQ: ConsumerGroupInfo.

import type { Logger } from '../../common/index.ts';
import { type SubscriptionData, type TagFilter, tagFilterOf } from '../../filter/index.ts';
import type { Channel } from '../../remoting/index.ts';

/** RocketMQ: ConsumeType. */
export type ConsumeType = 'CONSUME_ACTIVELY' | 'CONSUME_PASSIVELY' | 'CONSUME_POP';
/** RocketMQ: MessageModel. */
export type MessageModel = 'BROADCASTING' | 'CLUSTERING' | 'LITE_SELECTIVE';
/** RocketMQ: ConsumeFromWhere. */
export type ConsumeFromWhere =
  | 'CONSUME_FROM_LAST_OFFSET'
  | 'CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST'
  | 'CONSUME_FROM_MIN_OFFSET'
  | 'CONSUME_FROM_MAX_OFFSET'
  | 'CONSUME_FROM_FIRST_OFFSET'
  | 'CONSUME_FROM_TIMESTAMP';

/** How a group's clients consume; undefined where a client sent a name that means nothing here. */
export interface ConsumeBehaviour {
  readonly consumeType: ConsumeType | undefined;
  readonly messageModel: MessageModel | undefined;
  readonly consumeFromWhere: ConsumeFromWhere | undefined;
}

/** A client on a connection. RocketMQ: ClientChannelInfo. */
export interface ClientChannelInfo {
  readonly channel: Channel;
  readonly clientId: string;
  /** Language and version as the client's requests say. */
  readonly language: string;
  readonly version: number;
  /** Time of the last heartbeat. */
  lastUpdateMs: number;
}

/** A subscription with the filter that serves its pulls. */
export interface LiveSubscription {
  readonly data: SubscriptionData;
  readonly filter: TagFilter;
}

export class ConsumerGroupInfo {
  readonly groupName: string;
  behaviour: ConsumeBehaviour;
  readonly subscriptions: Map<string, LiveSubscription> = new Map();
  readonly channels: Map<Channel, ClientChannelInfo> = new Map();
  readonly #logger: Logger;

  constructor(groupName: string, behaviour: ConsumeBehaviour, logger: Logger) {
    this.groupName = groupName;
    this.behaviour = behaviour;
    this.#logger = logger;
  }

  get isBroadcasting(): boolean {
    return this.behaviour.messageModel === 'BROADCASTING';
  }

  /** The clients' ids, one a connection. */
  clientIds(): string[] {
    return [...this.channels.values()].map((client) => client.clientId);
  }

  findClient(clientId: string): ClientChannelInfo | undefined {
    for (const client of this.channels.values()) if (client.clientId === clientId) return client;
    return undefined;
  }

  /** Notes a heartbeat; true if the connection is new to the group. */
  updateChannel(client: ClientChannelInfo, behaviour: ConsumeBehaviour): boolean {
    this.behaviour = behaviour;
    const known = this.channels.get(client.channel);
    if (known === undefined) {
      this.channels.set(client.channel, client);
      this.#logger.info(`consumer ${client.clientId} of group ${this.groupName} is connected`, {
        address: client.channel.remoteAddress,
      });
      return true;
    }
    if (known.clientId !== client.clientId) {
      this.#logger.error(
        `connection ${client.channel.remoteAddress} of group ${this.groupName} was client ${known.clientId} and is now ${client.clientId}`,
      );
      this.channels.set(client.channel, client);
    }
    known.lastUpdateMs = client.lastUpdateMs;
    return false;
  }

  /**
   * Takes over what a heartbeat says the group subscribes to: new topics, newer versions of known ones, and without those no longer
   * listed. True if the set of topics has changed; a newer version of a subscription alone is no change.
   */
  updateSubscriptions(subscriptions: readonly SubscriptionData[]): boolean {
    let changed = false;
    const listed = new Set<string>();
    for (const data of subscriptions) {
      listed.add(data.topic);
      const known = this.subscriptions.get(data.topic);
      if (known === undefined) changed = true;
      else if (data.subVersion <= known.data.subVersion) continue;
      this.subscriptions.set(data.topic, { data, filter: tagFilterOf(data) });
    }
    for (const topic of this.subscriptions.keys()) {
      if (listed.has(topic)) continue;
      this.subscriptions.delete(topic);
      this.#logger.info(`group ${this.groupName} no longer subscribes to ${topic}`);
      changed = true;
    }
    return changed;
  }
}
