// The live producers by group, for transaction checks, replies and tools. RocketMQ: ProducerManager.

import type { Clock, Logger, Timer } from '../../common/index.ts';
import type { Channel } from '../../remoting/index.ts';
import { type ChannelGroupSettings, tellOfManyGroups } from './channel-groups.ts';
import type { ClientChannelInfo } from './consumer-group-info.ts';
import { CLIENT_SCAN_INTERVAL_MS } from './consumer-manager.ts';

/** Ms without a heartbeat until a producer's connection is closed. */
const CHANNEL_EXPIRED_TIMEOUT_MS = 120_000;

export class ProducerManager {
  readonly #config: ChannelGroupSettings;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #groups = new Map<string, Map<Channel, ClientChannelInfo>>();
  readonly #channelOfClient = new Map<string, Channel>();
  readonly #groupsOfChannel = new Map<Channel, Set<string>>();
  #timer: Timer | undefined;
  #turn = 0;

  constructor(config: ChannelGroupSettings, clock: Clock, logger: Logger) {
    this.#config = config;
    this.#clock = clock;
    this.#logger = logger;
  }

  /** Begins to look for silent clients. */
  start(): void {
    this.#timer = this.#clock.every(CLIENT_SCAN_INTERVAL_MS, () => this.scanNotActive());
  }

  stop(): void {
    this.#timer?.cancel();
  }

  /** The clients of a group; undefined if none is connected. */
  find(group: string): ReadonlyMap<Channel, ClientChannelInfo> | undefined {
    return this.#groups.get(group);
  }

  groups(): IterableIterator<[string, ReadonlyMap<Channel, ClientChannelInfo>]> {
    return this.#groups.entries();
  }

  /** The connection of a client id, whatever its groups. */
  findChannel(clientId: string): Channel | undefined {
    return this.#channelOfClient.get(clientId);
  }

  /** A live connection of a group, another one each time; undefined if there is none. */
  availableChannel(group: string): Channel | undefined {
    const channels = [...(this.#groups.get(group)?.keys() ?? [])];
    for (let i = 0; i < channels.length; i++) {
      const channel = channels[this.#turn++ % channels.length]!;
      if (channel.isOpen) return channel;
    }
    return undefined;
  }

  /** Whether a connection belongs to a group. */
  has(group: string, channel: Channel): boolean {
    return this.#groups.get(group)?.has(channel) ?? false;
  }

  /** Takes in one group of a heartbeat. */
  register(group: string, client: ClientChannelInfo): void {
    let channels = this.#groups.get(group);
    if (channels === undefined) {
      channels = new Map();
      this.#groups.set(group, channels);
    }
    const known = channels.get(client.channel);
    if (known !== undefined) {
      known.lastUpdateMs = client.lastUpdateMs;
      return;
    }
    channels.set(client.channel, client);
    this.#channelOfClient.set(client.clientId, client.channel);
    this.#watch(client.channel, group);
    this.#logger.info(`producer ${client.clientId} of group ${group} is connected`, {
      address: client.channel.remoteAddress,
    });
  }

  /** Takes a client out of a group, as it asked for. */
  unregister(group: string, channel: Channel): void {
    this.#groupsOfChannel.get(channel)?.delete(group);
    this.#remove(group, channel, 'unregistered');
  }

  /** Closes connections that sent no heartbeat for two minutes and takes their clients out. */
  scanNotActive(): void {
    const now = this.#clock.now();
    for (const [group, channels] of this.#groups) {
      for (const client of channels.values()) {
        if (now - client.lastUpdateMs <= CHANNEL_EXPIRED_TIMEOUT_MS) continue;
        client.channel.close(`no heartbeat of producer ${client.clientId}, group ${group}`);
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
    tellOfManyGroups(this.#config, this.#logger, channel, groups, 'producer');
    for (const group of groups) this.#remove(group, channel, 'gone');
  }

  #remove(group: string, channel: Channel, how: string): void {
    const channels = this.#groups.get(group);
    const client = channels?.get(channel);
    if (channels === undefined || client === undefined) return;
    channels.delete(channel);
    if (channels.size === 0) this.#groups.delete(group);
    // RocketMQ: forgets the client id although another group or connection of it may live on; replies then find nobody.
    if (this.#channelOfClient.get(client.clientId) === channel && !this.#servesAnotherGroup(channel)) {
      this.#channelOfClient.delete(client.clientId);
    }
    this.#logger.info(`producer ${client.clientId} of group ${group} is ${how}`, { address: channel.remoteAddress });
  }

  #servesAnotherGroup(channel: Channel): boolean {
    return (this.#groupsOfChannel.get(channel)?.size ?? 0) > 0;
  }
}
