// Looks after a cluster: topics, groups, routes, offsets, progress, and single messages. What mqadmin does with one command is one method
// here, typed, and failures are errors with the broker's words. RocketMQ: DefaultMQAdminExt.

import { GantryError } from '../common/index.ts';
import { decodeMessages, decodeOffsetMessageId, PropertyName, type StoredMessage } from '../message/index.ts';
import {
  type ExtFields,
  type JsonValue,
  parseJson,
  type RemotingResponse,
  RequestCode,
  ResponseCode,
  toJsonBytes,
} from '../remoting/index.ts';
import {
  type ClusterInfo,
  type ConsumerConnection,
  type ConsumerProgress,
  parseClusterInfo,
  parseConsumerConnection,
  parseConsumerProgress,
  parseTopicStats,
  type QueueStats,
} from './admin-types.ts';
import { BrokerError, expectSuccess, isResponse } from './client-errors.ts';
import { ClientInstance } from './client-instance.ts';
import type { ClientOptions } from './client-options.ts';
import { type Boundary, maxOffset, minOffset, offsetByTime } from './initial-offset.ts';
import { ReceivedMessage } from './message-types.ts';
import { jsonField, jsonNumber, queueEntries } from './queue-json.ts';
import type { MessageQueue } from './queues.ts';
import { MASTER_ID, type TopicRoute } from './route.ts';
import { retryTopic } from './send-back.ts';
import { AUTO_CREATE_TOPIC } from './send-kernel.ts';
import { checkGroup, checkTopic } from './validators.ts';

/** Settings of an AdminClient. */
export interface AdminClientOptions extends ClientOptions {
  /** A shared instance; then all ClientOptions here are ignored. */
  client?: ClientInstance;
}

/** Which brokers a change goes to: the masters of a cluster, one address, or (neither) the masters of every cluster. */
export interface Target {
  cluster?: string;
  brokerAddr?: string;
}

/** How a topic is to be. */
export interface TopicSettings extends Target {
  /** Default 8. */
  readQueueNums?: number;
  /** Default 8. */
  writeQueueNums?: number;
  /** Bits: 4 read, 2 write. Default 6. */
  perm?: number;
  /** Default false. */
  order?: boolean;
  /** Attributes to set, for instance `message.type`. */
  attributes?: Readonly<Record<string, string>>;
}

/** Window and limit of a query by key. */
export interface QueryOptions {
  /** Most messages of one broker. Default 64. */
  maxNum?: number;
  /** Store time from, in ms since the Unix epoch. Default 0. */
  begin?: number;
  /** Store time to. Default: no limit. */
  end?: number;
}

/** RocketMQ: Long.MAX_VALUE, as the tools send it. */
const NO_END = '9223372036854775807';
const REQUEST_TIMEOUT_MS = 5000;

/**
 * Asks and changes a cluster.
 *
 * @example
 * const admin = new AdminClient({ namesrvAddr: '127.0.0.1:9876' });
 * await admin.start();
 * await admin.createTopic('orders', { writeQueueNums: 4, readQueueNums: 4 });
 * console.log(await admin.consumerProgress('GID_orders'));
 * await admin.close();
 */
export class AdminClient {
  readonly #client: ClientInstance;
  #running = false;

  /** @throws GantryError CONFIG_VALUE */
  constructor(options: AdminClientOptions) {
    this.#client = options.client ?? new ClientInstance({ requestTimeoutMs: REQUEST_TIMEOUT_MS, ...options });
  }

  /** Makes the client ready; nothing is sent yet. May be called again. */
  async start(): Promise<void> {
    if (this.#running) return;
    this.#running = true;
    this.#client.acquire();
  }

  /** Closes the connections. May be called twice. */
  async close(): Promise<void> {
    if (!this.#running) return;
    this.#running = false;
    await this.#client.release();
  }

  /** Brokers by name and names by cluster. @throws BrokerError, GantryError REMOTING_..., CLIENT_STATE */
  async clusterInfo(): Promise<ClusterInfo> {
    const response = await this.#nameServer('the cluster', RequestCode.GET_BROKER_CLUSTER_INFO, null);
    return parseClusterInfo(json(response));
  }

  /** All topics that the name server knows. @throws as `clusterInfo` */
  async topicList(): Promise<string[]> {
    const response = await this.#nameServer('the topics', RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, null);
    return strings(jsonField(json(response), 'topicList'));
  }

  /** The route of a topic; undefined if the name server knows none. @throws as `clusterInfo` */
  topicRoute(topic: string): Promise<TopicRoute | undefined> {
    return this.#client.nameServers.topicRoute(topic);
  }

  /** The queues that a topic's consumers read. @throws GantryError NO_ROUTE, and as `clusterInfo` */
  async topicQueues(topic: string): Promise<readonly MessageQueue[]> {
    await this.#route(topic);
    return this.#client.routes.subscribeQueues(topic);
  }

  /**
   * Creates a topic, or changes it to these settings. @throws GantryError MESSAGE (illegal name), NO_ROUTE (no such cluster); as `clusterInfo`
   */
  async createTopic(topic: string, settings: TopicSettings = {}): Promise<void> {
    checkTopic(topic);
    const attributes = Object.entries(settings.attributes ?? {}).map(([name, value]) => `+${name}=${value}`);
    const header = {
      topic,
      defaultTopic: AUTO_CREATE_TOPIC,
      readQueueNums: settings.readQueueNums ?? 8,
      writeQueueNums: settings.writeQueueNums ?? 8,
      perm: settings.perm ?? 6,
      topicFilterType: 'SINGLE_TAG',
      topicSysFlag: 0,
      order: settings.order ?? false,
      attributes: attributes.join(','),
      force: false,
    };
    for (const address of await this.#targets(settings)) {
      await this.#broker(`creating ${topic}`, address, RequestCode.UPDATE_AND_CREATE_TOPIC, header);
    }
  }

  /** Deletes a topic at the masters and at every name server. Its messages remain until retention. @throws as `createTopic` */
  async deleteTopic(topic: string, target: Target = {}): Promise<void> {
    checkTopic(topic);
    for (const address of await this.#targets(target)) {
      await this.#broker(`deleting ${topic}`, address, RequestCode.DELETE_TOPIC_IN_BROKER, { topic });
    }
    const header = { topic, clusterName: target.cluster };
    for (const address of this.#client.nameServers.addresses) {
      const response = await this.#client.nameServers.invokeAt(
        address,
        RequestCode.DELETE_TOPIC_IN_NAMESRV,
        header,
        null,
      );
      expectSuccess(`deleting ${topic}`, address, response);
    }
  }

  /** Creates a consumer group, or changes it; `config` holds fields of RocketMQ's SubscriptionGroupConfig, others get its defaults. @throws as `createTopic` */
  async createSubscriptionGroup(
    group: string,
    config: Readonly<Record<string, unknown>> = {},
    target: Target = {},
  ): Promise<void> {
    checkGroup(group);
    const body = toJsonBytes({ ...config, groupName: group });
    for (const address of await this.#targets(target)) {
      await this.#broker(`creating ${group}`, address, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, null, body);
    }
  }

  /** Deletes a consumer group; with `cleanOffset` (default true) its offsets too. @throws as `createTopic` */
  async deleteSubscriptionGroup(group: string, target: Target & { cleanOffset?: boolean } = {}): Promise<void> {
    const header = { groupName: group, cleanOffset: target.cleanOffset ?? true };
    for (const address of await this.#targets(target)) {
      await this.#broker(`deleting ${group}`, address, RequestCode.DELETE_SUBSCRIPTIONGROUP, header);
    }
  }

  /** The first offset that a queue holds. @throws GantryError NO_ROUTE, REMOTING_...; BrokerError */
  minOffset(queue: MessageQueue): Promise<number> {
    return minOffset(this.#client, queue);
  }

  /** The offset that the next message of a queue will get. @throws as `minOffset` */
  maxOffset(queue: MessageQueue): Promise<number> {
    return maxOffset(this.#client, queue);
  }

  /** The offset of the first message stored at `timestamp` (ms since the Unix epoch) or later. @throws as `minOffset` */
  offsetByTime(queue: MessageQueue, timestamp: number, boundary: Boundary = 'LOWER'): Promise<number> {
    return offsetByTime(this.#client, queue, timestamp, boundary);
  }

  /** First and next offset and the last store time of each queue. @throws as `topicQueues` */
  async topicStats(topic: string): Promise<QueueStats[]> {
    const stats: QueueStats[] = [];
    for (const address of await this.#masters(topic)) {
      const response = await this.#broker(`the state of ${topic}`, address, RequestCode.GET_TOPIC_STATS_INFO, {
        topic,
      });
      stats.push(...parseTopicStats(json(response)));
    }
    return stats;
  }

  /** How far a group is behind, queue by queue; of one topic, or of all that it has offsets in. @throws as `topicQueues` */
  async consumerProgress(group: string, topic?: string): Promise<ConsumerProgress> {
    const queues: ConsumerProgress['queues'] = [];
    let consumeTps = 0;
    for (const address of await this.#masters(topic ?? retryTopic(group))) {
      const header = { consumerGroup: group, topic };
      const response = await this.#broker(`the progress of ${group}`, address, RequestCode.GET_CONSUME_STATS, header);
      const progress = parseConsumerProgress(json(response));
      queues.push(...progress.queues);
      consumeTps += progress.consumeTps;
    }
    return { queues, consumeTps, diffTotal: queues.reduce((sum, queue) => sum + queue.diff, 0) };
  }

  /** Who is in a group and what it subscribes to; undefined if nobody is online. @throws as `topicQueues` */
  async consumerConnection(group: string): Promise<ConsumerConnection | undefined> {
    for (const address of await this.#masters(retryTopic(group))) {
      try {
        const header = { consumerGroup: group };
        const what = `the members of ${group}`;
        return parseConsumerConnection(
          json(await this.#broker(what, address, RequestCode.GET_CONSUMER_CONNECTION_LIST, header)),
        );
      } catch (error) {
        if (!isResponse(error, ResponseCode.CONSUMER_NOT_ONLINE)) throw error;
      }
    }
    return undefined;
  }

  /**
   * Puts a group to the offset of a time (-1: the end) in every queue of a topic; answers the new offsets. With `dryRun` a Gantry broker
   * only says what they would be. @throws as `topicQueues`
   */
  async resetOffset(
    group: string,
    topic: string,
    timestamp: number,
    force = true,
    dryRun = false,
  ): Promise<Array<[MessageQueue, number]>> {
    const offsets: Array<[MessageQueue, number]> = [];
    const wish = { topic, group, timestamp, isForce: force, queueId: -1 };
    const header = dryRun ? { ...wish, gantryDryRun: true } : wish;
    for (const address of await this.#masters(topic)) {
      const what = `the reset of ${group}`;
      const response = await this.#broker(what, address, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, header);
      if (response.body.length === 0) continue;
      const table = queueEntries(jsonField(json(response), 'offsetTable'));
      for (const [queue, offset] of table) offsets.push([queue, jsonNumber(offset, -1)]);
    }
    return offsets;
  }

  /** Sets one offset of a group. @throws as `minOffset` */
  async updateConsumerOffset(group: string, queue: MessageQueue, offset: number): Promise<void> {
    const address = await this.#client.masterAddress(queue);
    const header = {
      consumerGroup: group,
      topic: queue.topic,
      queueId: queue.queueId,
      commitOffset: offset,
      bname: queue.brokerName,
    };
    await this.#broker(`an offset of ${group}`, address, RequestCode.UPDATE_CONSUMER_OFFSET, header);
  }

  /**
   * The message with this id: a broker's offset id (the id names the broker), or with `topic` also a producer's UNIQ_KEY.
   * @throws GantryError MESSAGE (no such id), REMOTING_...; BrokerError (no such message)
   */
  async viewMessage(id: string, topic?: string): Promise<ReceivedMessage> {
    if (topic !== undefined) {
      const found = await this.queryMessageByUniqueKey(topic, id);
      if (found[0] !== undefined) return found[0];
    }
    const { address, offset } = decodeOffsetMessageId(id);
    const response = await this.#broker(`message ${id}`, address, RequestCode.VIEW_MESSAGE_BY_ID, { offset, topic });
    const [message] = decodeMessages(response.body);
    if (message === undefined)
      throw new GantryError('FRAME', `${address} answered message ${id} with something that is none`);
    return received(message, '');
  }

  /** Messages that have `key` among their keys; newest first of each broker. @throws as `topicQueues` */
  async queryMessage(topic: string, key: string, options: QueryOptions = {}): Promise<ReceivedMessage[]> {
    const messages = await this.#query(topic, key, options, false);
    return messages.filter((message) => message.keys.includes(key) || message.msgId === key);
  }

  /** Messages that a producer gave this id (more than one after a repeated send). @throws as `topicQueues` */
  async queryMessageByUniqueKey(topic: string, msgId: string, options: QueryOptions = {}): Promise<ReceivedMessage[]> {
    const messages = await this.#query(topic, msgId, options, true);
    return messages.filter((message) => message.properties.get(PropertyName.UNIQ_KEY) === msgId);
  }

  /** What a broker says about itself: GET_BROKER_RUNTIME_INFO. @throws BrokerError, GantryError REMOTING_... */
  async brokerRuntimeInfo(brokerAddr: string): Promise<Record<string, string>> {
    const response = await this.#broker('runtime info', brokerAddr, RequestCode.GET_BROKER_RUNTIME_INFO, null);
    const table = jsonField(json(response), 'table') ?? {};
    const entries = table instanceof Map ? [...table] : Object.entries(table as Record<string, JsonValue>);
    return Object.fromEntries(entries.map(([key, value]) => [String(key), String(value)]));
  }

  async #query(topic: string, key: string, options: QueryOptions, unique: boolean): Promise<ReceivedMessage[]> {
    const header = {
      topic,
      key,
      maxNum: options.maxNum ?? 64,
      beginTimestamp: options.begin ?? 0,
      endTimestamp: options.end ?? NO_END,
      indexType: unique ? 'U' : 'K',
      _UNIQUE_KEY_QUERY: unique,
    };
    const route = await this.#route(topic);
    const messages: ReceivedMessage[] = [];
    for (const { brokerName, brokerAddrs } of route.brokerDatas) {
      const address = brokerAddrs[MASTER_ID] ?? Object.values(brokerAddrs)[0];
      if (address === undefined) continue;
      const response = await this.#client.invokeBroker(address, RequestCode.QUERY_MESSAGE, header);
      if (response.code === ResponseCode.QUERY_NOT_FOUND) continue;
      expectSuccess(`messages of ${topic} by key`, address, response);
      for (const message of decodeMessages(response.body)) messages.push(received(message, brokerName));
    }
    return messages.filter((message) => message.topic === topic);
  }

  async #route(topic: string): Promise<TopicRoute> {
    await this.#client.routes.require(topic);
    const route = this.#client.routes.get(topic);
    if (route !== undefined) return route;
    throw new GantryError('NO_ROUTE', `the name server ${this.#client.nameServers.current} knows no topic ${topic}`);
  }

  async #masters(topic: string): Promise<string[]> {
    const { brokerDatas } = await this.#route(topic);
    return brokerDatas.flatMap(({ brokerAddrs }) => brokerAddrs[MASTER_ID] ?? []);
  }

  async #targets(target: Target): Promise<string[]> {
    if (target.brokerAddr !== undefined) return [target.brokerAddr];
    const { clusters, brokers } = await this.clusterInfo();
    const names = target.cluster === undefined ? Object.keys(brokers) : (clusters[target.cluster] ?? []);
    const addresses = names.flatMap((name) => brokers[name]?.brokerAddrs[MASTER_ID] ?? []);
    if (addresses.length > 0) return addresses;
    const which = target.cluster === undefined ? 'no cluster' : `no cluster ${target.cluster}`;
    throw new GantryError(
      'NO_ROUTE',
      `the name server ${this.#client.nameServers.current} knows ${which} with a master`,
    );
  }

  async #nameServer(what: string, code: number, ext: ExtFields | null): Promise<RemotingResponse> {
    const { nameServers } = this.#client;
    const response = await nameServers.invoke(code, ext, null);
    if (response.code !== ResponseCode.SUCCESS) throw new BrokerError(what, nameServers.current, response);
    return response;
  }

  async #broker(
    what: string,
    address: string,
    code: number,
    ext: ExtFields | null,
    body: Uint8Array | null = null,
  ): Promise<RemotingResponse> {
    return expectSuccess(what, address, await this.#client.invokeBroker(address, code, ext, body));
  }
}

function received(message: StoredMessage, brokerName: string): ReceivedMessage {
  return new ReceivedMessage(message, { queue: { topic: message.topic, brokerName, queueId: message.queueId } });
}

/** The body as JSON. @throws GantryError JSON, FRAME (no body) */
function json(response: RemotingResponse): JsonValue {
  if (response.body.length === 0) throw new GantryError('FRAME', 'the answer has no body');
  return parseJson(response.body);
}

function strings(value: JsonValue | undefined): string[] {
  return Array.isArray(value) ? value.map(String) : [];
}
