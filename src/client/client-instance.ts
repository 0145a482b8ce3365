// One client of a cluster: its id, its connections, the routes that it knows, its heartbeats and the timers behind it all. Producers
// and consumers are members of an instance; each makes its own unless it is handed a shared one. RocketMQ: MQClientInstance.
//
// Timers: routes every 30 s, heartbeats every 30 s and on each new broker connection, offsets every 5 s, rebalance every 20 s, again
// after 1 s when a round failed, and at once when a broker says that the members of a group have changed.

import { type Clock, errorText, GantryError, type Logger, type Random, type Timer } from '../common/index.ts';
import { hostField, UniqueIds } from '../message/index.ts';
import { type Channel, type ExtFields, RemotingClient, type RemotingResponse, RequestCode } from '../remoting/index.ts';
import { registerBrokerRequests } from './broker-requests.ts';
import { type ClientOptions, type ClientSettings, clientSettings } from './client-options.ts';
import { Coalesced } from './coalesced.ts';
import { Connections } from './connections.ts';
import type { GroupConsumer } from './group-consumer.ts';
import { type ConsumerData, heartbeatBody } from './heartbeat.ts';
import { KeepAlive } from './keep-alive.ts';
import { NameServers } from './name-servers.ts';
import { PendingReplies } from './pending-replies.ts';
import type { MessageQueue } from './queues.ts';
import { RepeatedLog } from './repeated-log.ts';
import { RouteTable } from './route-table.ts';
import type { TransactionCheckRequest } from './transaction-producer.ts';

const REBALANCE_INTERVAL_MS = 20_000;
const REBALANCE_RETRY_MS = 1000;

/** How a member differs from the settings of its instance. */
export interface InstanceDefaults {
  /** Used when the options name no instance. Default: process id and a random number. */
  instanceName?: string;
}

/** The shared base of producers and consumers. */
export class ClientInstance {
  readonly settings: ClientSettings;
  /** `ip@instanceName`: the name under which brokers know this client. */
  readonly clientId: string;
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
  /** For trouble that repeats each second. */
  readonly repeated: RepeatedLog;
  /** Requests of producers that wait for their reply. */
  readonly replies: PendingReplies;
  /** Who answers a broker's questions after transactions, by producer group. */
  readonly transactionChecks: Map<string, (request: TransactionCheckRequest) => void> = new Map();
  #connections: Connections | undefined;
  #nameServers: NameServers | undefined;
  #routes: RouteTable | undefined;
  readonly #uniqueIds: UniqueIds;
  readonly #producers = new Map<string, number>();
  readonly #consumers = new Map<string, GroupConsumer>();
  readonly #timers: Timer[] = [];
  #keepAlive: KeepAlive | undefined;
  #users = 0;
  readonly #heartbeats = new Coalesced(() => this.#heartbeatRound());
  readonly #rebalances = new Coalesced(() => this.#rebalanceRound());
  #rebalanceTimer: Timer | undefined;

  /** @throws GantryError CONFIG_VALUE */
  constructor(options: ClientOptions, defaults: InstanceDefaults = {}) {
    const settings = clientSettings(options);
    this.settings = settings;
    this.clock = settings.clock;
    this.random = settings.random;
    this.logger = settings.logger;
    this.repeated = new RepeatedLog(settings.logger, settings.clock);
    this.replies = new PendingReplies(settings.clock);
    const salt = settings.random.int(0x1_0000_0000);
    const instanceName = settings.instanceName ?? defaults.instanceName ?? `${process.pid}#${salt}`;
    this.clientId = `${settings.clientIp}@${instanceName}`;
    this.#uniqueIds = new UniqueIds({ ip: idAddress(settings), pid: process.pid, salt });
  }

  get isRunning(): boolean {
    return this.#users > 0;
  }

  /** @throws GantryError CLIENT_STATE while no member is started. */
  get connections(): Connections {
    return this.#connections ?? notStarted();
  }

  /** @throws GantryError CLIENT_STATE while no member is started. */
  get nameServers(): NameServers {
    return this.#nameServers ?? notStarted();
  }

  /** @throws GantryError CLIENT_STATE while no member is started. */
  get routes(): RouteTable {
    return this.#routes ?? notStarted();
  }

  /** A new UNIQ_KEY. */
  nextMessageId(): string {
    return this.#uniqueIds.next(this.clock.now());
  }

  /** A member starts to use the instance; the first one starts it. */
  acquire(): void {
    if (this.#users++ > 0) return;
    const { settings } = this;
    this.repeated.muted = false;
    this.#keepAlive = new KeepAlive();
    const remoting = new RemotingClient(settings);
    registerBrokerRequests(remoting, this);
    this.#connections = new Connections(remoting, settings.clock, (address, channel) =>
      this.#afterConnect(address, channel),
    );
    this.#nameServers = new NameServers(settings.namesrvAddrs, this.#connections, {
      ...settings,
      timeoutMs: settings.requestTimeoutMs,
    });
    this.#routes = new RouteTable(this.#nameServers, settings.clock, this.repeated);
    this.#timers.push(
      this.clock.every(settings.pollNameServerIntervalMs, () => void this.#pollRoutes()),
      this.clock.every(settings.heartbeatBrokerIntervalMs, () => void this.heartbeatAll()),
      this.clock.every(settings.persistConsumerOffsetIntervalMs, () => void this.#persistOffsets()),
    );
  }

  /** A member has ended; the last one stops the instance and resolves when its connections are closed. */
  async release(): Promise<void> {
    if (this.#users === 0 || --this.#users > 0) return;
    this.repeated.muted = true;
    for (const timer of this.#timers.splice(0)) timer.cancel();
    this.#rebalanceTimer?.cancel();
    this.#rebalanceTimer = undefined;
    const connections = this.#connections;
    this.#connections = undefined;
    this.#nameServers = undefined;
    this.#routes = undefined;
    const keepAlive = this.#keepAlive;
    this.#keepAlive = undefined;
    await connections?.close();
    keepAlive?.release();
  }

  addProducer(group: string): void {
    this.#producers.set(group, (this.#producers.get(group) ?? 0) + 1);
  }

  /** Tells the brokers that the group has no producer here any more. */
  async removeProducer(group: string): Promise<void> {
    const left = (this.#producers.get(group) ?? 1) - 1;
    if (left > 0) {
      this.#producers.set(group, left);
      return;
    }
    this.#producers.delete(group);
    await this.#unregister({ producerGroup: group });
  }

  /** @throws GantryError CLIENT_STATE when the group has a consumer in this instance already: brokers could not tell the two apart. */
  addConsumer(consumer: GroupConsumer): void {
    if (this.#consumers.has(consumer.group)) {
      throw new GantryError('CLIENT_STATE', `this client instance has a consumer of ${consumer.group} already`);
    }
    this.#consumers.set(consumer.group, consumer);
  }

  /** Tells the brokers that the group has no consumer here any more, so that the others of the group take over at once. */
  async removeConsumer(group: string): Promise<void> {
    if (!this.#consumers.delete(group)) return;
    await this.#unregister({ consumerGroup: group });
  }

  consumer(group: string): GroupConsumer | undefined {
    return this.#consumers.get(group);
  }

  /** A request to a broker within requestTimeoutMs. @throws GantryError REMOTING_... */
  invokeBroker(
    address: string,
    code: number,
    ext: ExtFields | null,
    body: Uint8Array | null = null,
    timeoutMs: number = this.settings.requestTimeoutMs,
  ): Promise<RemotingResponse> {
    return this.connections.invoke(address, code, ext, body, timeoutMs);
  }

  /** Address of the queue's master, for writes. @throws GantryError NO_ROUTE */
  async masterAddress(queue: MessageQueue): Promise<string> {
    return this.#address(queue, () => this.routes.masterAddress(queue), 'no master');
  }

  /** Address for reads: the broker of this id if it is there, else any of the name. @throws GantryError NO_ROUTE */
  async readAddress(queue: MessageQueue, brokerId = 0): Promise<string> {
    return this.#address(queue, () => this.routes.readAddress(queue, brokerId), 'no broker');
  }

  /** Heartbeats to all brokers that need one; resolves after a round that began now or later. Failures are logged. */
  heartbeatAll(): Promise<void> {
    return this.#heartbeats.run();
  }

  /** Shares out the queues of all consumers anew; resolves after a round that began now or later. */
  rebalanceNow(): Promise<void> {
    return this.#rebalances.run();
  }

  async #address(queue: MessageQueue, find: () => string | undefined, what: string): Promise<string> {
    const known = find();
    if (known !== undefined) return known;
    await this.routes.refresh(queue.topic);
    const address = find();
    if (address !== undefined) return address;
    throw new GantryError('NO_ROUTE', `${what} of the name ${queue.brokerName} is known for the topic ${queue.topic}`);
  }

  #heartbeatData(): Uint8Array {
    const consumers: ConsumerData[] = [];
    for (const consumer of this.#consumers.values()) consumers.push(consumer.heartbeatData());
    return heartbeatBody(this.clientId, this.#producers.keys(), consumers);
  }

  #hasMembers(): boolean {
    return this.#producers.size + this.#consumers.size > 0;
  }

  async #heartbeatRound(): Promise<void> {
    if (!this.isRunning || !this.#hasMembers()) return;
    // Slaves only serve consumers.
    const addresses = this.routes.brokerAddresses(this.#consumers.size === 0);
    await Promise.all(addresses.map((address) => this.#heartbeatTo(address)));
  }

  async #heartbeatTo(address: string): Promise<void> {
    try {
      const channel = await this.connections.get(address);
      await this.#heartbeatOn(address, channel);
    } catch (error) {
      this.#heartbeatFailed(address, error);
    }
  }

  async #heartbeatOn(address: string, channel: Channel): Promise<void> {
    const body = this.#heartbeatData();
    const response = await channel.invoke(RequestCode.HEART_BEAT, null, body, this.settings.requestTimeoutMs);
    if (response.code !== 0) {
      this.repeated.warn(
        `heartbeat ${address}`,
        `the heartbeat to ${address} was answered ${response.code}: ${response.remark ?? ''}`,
      );
    } else {
      this.repeated.clear(`heartbeat ${address}`);
    }
  }

  #heartbeatFailed(address: string, error: unknown): void {
    if (!this.isRunning) return;
    this.repeated.warn(`heartbeat ${address}`, `the heartbeat to ${address} failed: ${errorText(error)}`);
  }

  /** A broker must know a group before it may pull, so consumers wait for the heartbeat; producers need not. */
  async #afterConnect(address: string, channel: Channel): Promise<void> {
    if (!this.isRunning || !this.#hasMembers() || !this.routes.isBroker(address)) return;
    const sent = this.#heartbeatOn(address, channel).catch((error) => this.#heartbeatFailed(address, error));
    if (this.#consumers.size > 0) await sent;
  }

  async #pollRoutes(): Promise<void> {
    const topics = new Set<string>(this.routes.topics());
    for (const consumer of this.#consumers.values()) for (const topic of consumer.topics()) topics.add(topic);
    const changed = await Promise.all([...topics].map((topic) => this.routes.refresh(topic)));
    if (this.isRunning && changed.some((change) => change) && this.#consumers.size > 0) await this.rebalanceNow();
  }

  async #persistOffsets(): Promise<void> {
    await Promise.all(Array.from(this.#consumers.values(), (consumer) => consumer.persistOffsets(false)));
  }

  async #rebalanceRound(): Promise<void> {
    this.#rebalanceTimer?.cancel();
    let balanced = true;
    for (const consumer of [...this.#consumers.values()]) {
      if (!this.isRunning) return;
      balanced = (await consumer.rebalance()) && balanced;
    }
    if (!this.isRunning || this.#consumers.size === 0) return;
    this.#rebalanceTimer?.cancel();
    const delay = balanced ? REBALANCE_INTERVAL_MS : REBALANCE_RETRY_MS;
    this.#rebalanceTimer = this.clock.after(delay, () => void this.rebalanceNow());
  }

  async #unregister(groups: { producerGroup?: string; consumerGroup?: string }): Promise<void> {
    if (!this.isRunning) return;
    const header = { clientID: this.clientId, ...groups };
    const known = this.routes.brokerAddresses(false).filter((address) => this.connections.has(address));
    await Promise.all(
      known.map(async (address) => {
        try {
          await this.invokeBroker(address, RequestCode.UNREGISTER_CLIENT, header);
        } catch (error) {
          this.logger.debug(`unregistering at ${address} failed: ${errorText(error)}`);
        }
      }),
    );
  }
}

function notStarted(): never {
  throw new GantryError('CLIENT_STATE', 'the client is not started');
}

/** The address bytes of a UNIQ_KEY. */
function idAddress(settings: ClientSettings): Uint8Array {
  try {
    const host = hostField(settings.clientIp, 0);
    return host.subarray(0, host.length - 4);
  } catch {
    // clientIp may be any text; the id only has to be unique. RocketMQ: createFakeIP.
    const now = settings.clock.now();
    return Uint8Array.of(now >>> 24, now >>> 16, now >>> 8, now);
  }
}
