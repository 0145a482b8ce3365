// The routes that a client knows, and from them the addresses of brokers. A route that the name server no longer has is kept: after a
// restart of the name server brokers are back within seconds, and meanwhile sends and pulls go on.

import { type Clock, errorText } from '../common/index.ts';
import type { NameServers } from './name-servers.ts';
import type { MessageQueue } from './queues.ts';
import type { RepeatedLog } from './repeated-log.ts';
import { type BrokerData, isLogicBroker, MASTER_ID, publishQueues, subscribeQueues, type TopicRoute } from './route.ts';

interface KnownRoute {
  route: TopicRoute;
  /** To notice changes. */
  text: string;
  publish: MessageQueue[];
  subscribe: MessageQueue[];
}

/** Routes by topic, addresses by broker name. */
export class RouteTable {
  readonly #nameServers: NameServers;
  readonly #clock: Clock;
  readonly #repeated: RepeatedLog;
  readonly #routes = new Map<string, KnownRoute>();
  /** As the newest answer told each name. */
  readonly #brokers = new Map<string, BrokerData>();
  readonly #asking = new Map<string, Promise<boolean>>();
  readonly #askedAt = new Map<string, number>();

  constructor(nameServers: NameServers, clock: Clock, repeated: RepeatedLog) {
    this.#nameServers = nameServers;
    this.#clock = clock;
    this.#repeated = repeated;
  }

  /** Topics whose route is known. */
  topics(): Iterable<string> {
    return this.#routes.keys();
  }

  get(topic: string): TopicRoute | undefined {
    return this.#routes.get(topic)?.route;
  }

  /** Queues to send to; empty if the route is unknown. */
  publishQueues(topic: string): readonly MessageQueue[] {
    return this.#routes.get(topic)?.publish ?? [];
  }

  /** Queues to read from; empty if the route is unknown. */
  subscribeQueues(topic: string): readonly MessageQueue[] {
    return this.#routes.get(topic)?.subscribe ?? [];
  }

  /** Asks the name server for a topic's route; true if something changed. Failures are logged and change nothing. */
  async refresh(topic: string): Promise<boolean> {
    try {
      return await this.require(topic);
    } catch (error) {
      this.#repeated.warn(`route ${topic}`, `the route of ${topic} could not be asked for: ${errorText(error)}`);
      return false;
    }
  }

  /** As `refresh`, but rejects when no name server answers. Calls for one topic share one question. */
  require(topic: string): Promise<boolean> {
    const running = this.#asking.get(topic);
    if (running !== undefined) return running;
    this.#askedAt.set(topic, this.#clock.monotonic());
    const asking = this.#ask(topic).finally(() => this.#asking.delete(topic));
    this.#asking.set(topic, asking);
    return asking;
  }

  /** As `refresh`, unless the topic was asked for within `ageMs`. */
  async refreshIfOlder(topic: string, ageMs: number): Promise<boolean> {
    const at = this.#askedAt.get(topic);
    if (at !== undefined && this.#clock.monotonic() - at < ageMs) return this.#asking.get(topic) ?? false;
    return this.refresh(topic);
  }

  /** Puts a route in by hand: that of the default topic under a new topic's name. */
  put(topic: string, route: TopicRoute): boolean {
    for (const data of route.brokerDatas) this.#brokers.set(data.brokerName, data);
    const text = JSON.stringify(route);
    if (this.#routes.get(topic)?.text === text) return false;
    this.#routes.set(topic, {
      route,
      text,
      publish: publishQueues(topic, route),
      subscribe: subscribeQueues(topic, route),
    });
    this.#dropUnnamedBrokers();
    return true;
  }

  /** The broker that has a queue: its own name, or of a static topic where the queue lies now; undefined if that is nowhere. */
  brokerOf(queue: MessageQueue): string | undefined {
    const { topic, brokerName, queueId } = queue;
    if (!isLogicBroker(brokerName)) return brokerName;
    const route = this.#routes.get(topic)?.route;
    return route?.logicQueues.find((one) => one.queueId === queueId && one.brokerName === brokerName)?.at;
  }

  masterAddress(queue: MessageQueue): string | undefined {
    const brokerName = this.brokerOf(queue);
    return brokerName === undefined ? undefined : this.#brokers.get(brokerName)?.brokerAddrs[MASTER_ID];
  }

  /** The address of this broker id, or of any other of the name, masters first. */
  readAddress(queue: MessageQueue, brokerId: number): string | undefined {
    const brokerName = this.brokerOf(queue);
    const addresses = brokerName === undefined ? undefined : this.#brokers.get(brokerName)?.brokerAddrs;
    if (addresses === undefined) return undefined;
    return addresses[String(brokerId)] ?? addresses[MASTER_ID] ?? Object.values(addresses)[0];
  }

  /** Addresses of all known brokers. */
  brokerAddresses(mastersOnly: boolean): string[] {
    const list = new Set<string>();
    for (const { brokerAddrs } of this.#brokers.values()) {
      for (const [id, address] of Object.entries(brokerAddrs)) if (!mastersOnly || id === MASTER_ID) list.add(address);
    }
    return [...list];
  }

  isBroker(address: string): boolean {
    for (const { brokerAddrs } of this.#brokers.values()) {
      for (const known of Object.values(brokerAddrs)) if (known === address) return true;
    }
    return false;
  }

  async #ask(topic: string): Promise<boolean> {
    const route = await this.#nameServers.topicRoute(topic);
    this.#repeated.clear(`route ${topic}`);
    return route !== undefined && this.put(topic, route);
  }

  /** Brokers that no route names any more are gone: heartbeats to them end. */
  #dropUnnamedBrokers(): void {
    const named = new Set<string>();
    for (const { route } of this.#routes.values()) for (const data of route.brokerDatas) named.add(data.brokerName);
    for (const name of this.#brokers.keys()) if (!named.has(name)) this.#brokers.delete(name);
  }
}
