// The topics of this broker (config/topics.json): which exist, how many queues they have and who may use them. Primary data: a topic
// that is lost here hides its messages, so every change is saved before it is answered. Topics that sends create on their own are
// saved once at the end of the loop turn, before its messages are committed, so that a burst of new topics costs one save.
//
// RocketMQ: TopicConfigManager.

import type { JsonObject } from '../../remoting/index.ts';
import { isLightQueue } from '../../store/index.ts';
import type { BrokerConfig } from '../broker-config.ts';
import { type ConfigEnvironment, ConfigManager } from '../config-manager.ts';
import { DataVersion } from '../data-version.ts';
import { readDataVersion, readObject } from '../json-fields.ts';
import { prettyEntry, prettyPieces } from '../pretty-json.ts';
import { alterAttributes, TOPIC_ATTRIBUTES } from './attributes.ts';
import { isInherited, Perm, TopicConfig } from './topic-config.ts';
import { readTopicConfig, topicFields } from './topic-json.ts';
import * as names from './topic-names.ts';

const ONE_QUEUE = { readQueueNums: 1, writeQueueNums: 1 };

/** Told of topics whose config is new or different, so that name servers hear of it at once. */
export type TopicsChanged = (topics: readonly TopicConfig[]) => void;

/** Told of each topic that a send has created by the example of TBW102; not of retry, dead-letter and system topics. */
export type TopicCreated = (topic: TopicConfig) => void;

export class TopicConfigManager extends ConfigManager {
  readonly dataVersion: DataVersion;
  readonly systemTopics: names.SystemTopics = new names.SystemTopics();
  /** Grows with every change of any topic; what was looked up before is then to be looked up again. */
  version = 0;
  /** With enableLmq every light queue is a topic of one queue, without a config of its own. RocketMQ: LmqTopicConfigManager. */
  lightQueues = false;
  readonly #config: BrokerConfig;
  readonly #table = new Map<string, TopicConfig>();
  readonly #changed: TopicsChanged;
  readonly #created: TopicCreated | undefined;
  #waiting: Map<string, TopicConfig> | undefined;

  constructor(environment: ConfigEnvironment, config: BrokerConfig, changed: TopicsChanged, created?: TopicCreated) {
    super(environment, 'topics.json');
    this.#config = config;
    this.#changed = changed;
    this.#created = created;
    this.dataVersion = new DataVersion(environment.clock.now());
    this.#putBootTopics();
  }

  select(topic: string): TopicConfig | undefined {
    return this.#table.get(topic) ?? (this.#isLight(topic) ? new TopicConfig(topic, ONE_QUEUE) : undefined);
  }

  has(topic: string): boolean {
    return this.#table.has(topic) || this.#isLight(topic);
  }

  #isLight(topic: string): boolean {
    return this.lightQueues && isLightQueue(topic);
  }

  isOrderTopic(topic: string): boolean {
    return this.#table.get(topic)?.order ?? false;
  }

  get size(): number {
    return this.#table.size;
  }

  all(): IterableIterator<TopicConfig> {
    return this.#table.values();
  }

  /**
   * Creates the topic of a send by the example of `defaultTopic`, if that one exists and may be inherited from.
   * RocketMQ: createTopicInSendMessageMethod.
   * @returns the topic, or undefined if it does not exist and may not be created
   */
  createInSend(
    topic: string,
    defaultTopic: string,
    producerAddress: string,
    clientDefaultTopicQueueNums: number,
    topicSysFlag: number,
  ): TopicConfig | undefined {
    const existing = this.select(topic);
    if (existing !== undefined) return existing;
    const example = this.#table.get(defaultTopic);
    if (example === undefined) {
      this.environment.logger.warn(
        `topic ${topic} is not created: its default topic ${defaultTopic} does not exist (producer ${producerAddress})`,
      );
      return undefined;
    }
    // A TBW102 of an earlier run may still be in the file.
    const mayInherit =
      isInherited(example.perm) &&
      (defaultTopic !== names.AUTO_CREATE_TOPIC_KEY_TOPIC || this.#config.autoCreateTopicEnable);
    if (!mayInherit) {
      this.environment.logger.warn(
        `topic ${topic} is not created: its default topic ${defaultTopic} may not be inherited from (producer ${producerAddress})`,
      );
      return undefined;
    }
    const queues = Math.max(0, Math.min(clientDefaultTopicQueueNums, example.writeQueueNums));
    const created = new TopicConfig(topic, {
      readQueueNums: queues,
      writeQueueNums: queues,
      perm: example.perm & ~Perm.INHERIT,
      topicSysFlag,
      topicFilterType: example.topicFilterType,
    });
    this.environment.logger.info(`topic ${topic} is created with ${queues} queues, for producer ${producerAddress}`);
    this.#putSoon(created);
    // Another example was chosen by the producer, maybe for the brokers that have it.
    if (defaultTopic === names.AUTO_CREATE_TOPIC_KEY_TOPIC && !this.#belongsHere(topic)) this.#created?.(created);
    return created;
  }

  /** Whether a topic is of one group or broker and not for its cluster. */
  #belongsHere(topic: string): boolean {
    return (
      topic.startsWith(names.RETRY_GROUP_TOPIC_PREFIX) ||
      topic.startsWith(names.DLQ_GROUP_TOPIC_PREFIX) ||
      this.systemTopics.isSystem(topic)
    );
  }

  /**
   * Creates a retry or dead-letter topic if it is not there. RocketMQ: createTopicInSendMessageBackMethod.
   * @param order whether it is to be an order topic; an existing one is changed to that
   */
  createInSendBack(topic: string, queueNums: number, perm: number, order: boolean, topicSysFlag: number): TopicConfig {
    const existing = this.#table.get(topic);
    if (existing !== undefined) {
      if (existing.order === order) return existing;
      const changed = existing.with({ order });
      this.#putSoon(changed);
      return changed;
    }
    const created = new TopicConfig(topic, {
      readQueueNums: queueNums,
      writeQueueNums: queueNums,
      perm,
      topicSysFlag,
      order,
    });
    this.environment.logger.info(`topic ${topic} is created with ${queueNums} queues`);
    this.#putSoon(created);
    return created;
  }

  /**
   * Creates or replaces topics by an administrator's wish; saved and told to the name servers on return.
   * @param wishes each topic with the changes of its attributes (`+name`, `-name`)
   * @throws GantryError CONFIG_VALUE for an attribute that is not allowed (nothing is changed then), IO or DISK_FULL if saving fails
   */
  update(wishes: ReadonlyArray<{ topic: TopicConfig; attributes: ReadonlyMap<string, string> }>): void {
    const kept = wishes.filter(({ topic }) => !this.#isLight(topic.topicName));
    const ready = kept.map(({ topic, attributes }) => {
      const old = this.#table.get(topic.topicName);
      const altered = alterAttributes(old === undefined, TOPIC_ATTRIBUTES, old?.attributes ?? new Map(), attributes);
      return topic.with({ attributes: altered });
    });
    for (const topic of ready) {
      const old = this.#table.get(topic.topicName);
      this.environment.logger.info(`topic ${topic.topicName} is ${old === undefined ? 'created' : 'changed'}`, {
        queues: topic.writeQueueNums,
        perm: topic.perm,
      });
      this.#put(topic);
    }
    this.persist();
    this.#changed(ready);
  }

  /** Removes a topic's config; saved on return. False if there was none. @throws GantryError IO or DISK_FULL if saving fails. */
  delete(topic: string): boolean {
    if (!this.#table.delete(topic)) return false;
    this.environment.logger.info(`topic ${topic} is deleted`);
    this.#moveOn();
    this.persist();
    return true;
  }

  /** Marks the topics that the name servers list as ordered. RocketMQ: updateOrderTopicConfig, which never unmarks one. */
  updateOrderTopics(topics: Iterable<string>): void {
    for (const topic of topics) {
      const config = this.#table.get(topic);
      if (config !== undefined && !config.order) this.#putSoon(config.with({ order: true }));
    }
  }

  /** Tells the name servers of all topics anew, as after a change of the broker's own permission. */
  touchAll(): void {
    this.#moveOn();
    this.persistIfChanged();
    this.#changed([...this.#table.values()]);
  }

  /** The topics `[first, first + count)` in name order, as the paged answer to GET_ALL_TOPIC_CONFIG wants them. */
  page(first: number, count: number): TopicConfig[] {
    const ordered = [...this.#table.keys()].sort();
    return ordered.slice(first, first + count).map((topic) => this.#table.get(topic)!);
  }

  protected override *encode(): Iterable<string> {
    yield `{\n\t${prettyEntry('dataVersion', this.dataVersion.fields(), 1)},\n\t"topicConfigTable":{`;
    yield* prettyPieces(this.#table, topicFields);
    yield '\n}';
  }

  protected override decode(json: JsonObject): void {
    const table = readObject(json, 'topicConfigTable');
    const loaded = Object.entries(table ?? {}).map(([name, value]) => readTopicConfig(value, name));
    const version = readDataVersion(json);
    for (const topic of loaded) {
      if (topic !== undefined) this.#table.set(topic.topicName, topic);
    }
    if (version !== undefined) this.dataVersion.assign(version);
    this.version++;
  }

  #put(topic: TopicConfig): void {
    this.#table.set(topic.topicName, topic);
    this.#moveOn();
  }

  #moveOn(): void {
    this.version++;
    this.dataVersion.next(this.environment.clock.now());
    this.markChanged();
  }

  /** Saves what sends have created and name servers have not been told of. To be called before the answers of a loop turn leave. */
  saveWaiting(): void {
    if (this.#waiting !== undefined) this.persistIfChanged();
  }

  /** Takes effect now; told to the name servers together with all others of this loop turn, and saved by then at the latest. */
  #putSoon(topic: TopicConfig): void {
    this.#put(topic);
    if (this.#waiting === undefined) {
      this.#waiting = new Map();
      this.environment.clock.soon(() => this.#tellWaiting());
    }
    this.#waiting.set(topic.topicName, topic);
  }

  #tellWaiting(): void {
    const topics = [...(this.#waiting?.values() ?? [])];
    this.#waiting = undefined;
    this.persistIfChanged();
    this.#changed(topics);
  }

  #putBootTopics(): void {
    const config = this.#config;
    const add = (topic: string, queues: number, perm = Perm.READ | Perm.WRITE): void => {
      this.systemTopics.add(topic);
      this.#table.set(topic, new TopicConfig(topic, { readQueueNums: queues, writeQueueNums: queues, perm }));
    };
    const ownPerm = (enabled: boolean): number => Perm.INHERIT | (enabled ? Perm.READ | Perm.WRITE : 0);
    add(names.SELF_TEST_TOPIC, 1);
    if (config.autoCreateTopicEnable) {
      add(names.AUTO_CREATE_TOPIC_KEY_TOPIC, config.defaultTopicQueueNums, Perm.INHERIT | Perm.READ | Perm.WRITE);
    }
    add(names.BENCHMARK_TOPIC, 1024);
    add(config.brokerClusterName, 16, ownPerm(config.clusterTopicEnable));
    add(config.brokerName, 1, ownPerm(config.brokerTopicEnable));
    add(names.OFFSET_MOVED_EVENT_TOPIC, 1);
    add(names.SCHEDULE_TOPIC, names.SCHEDULE_TOPIC_QUEUES);
    if (config.traceTopicEnable) add(config.msgTraceTopicName, 1);
    add(`${config.brokerClusterName}_REPLY_TOPIC`, 1);
    add(`rmq_sys_REVIVE_LOG_${config.brokerClusterName}`, config.reviveQueueNum);
    add(`rmq_sys_SYNC_BROKER_MEMBER_${config.brokerName}`, 1, Perm.INHERIT);
    add(names.TRANS_HALF_TOPIC, 1);
    add(names.TRANS_OP_HALF_TOPIC, 1);
    add(names.ROCKSDB_TRANS_HALF_TOPIC, 1);
    add(names.ROCKSDB_TRANS_OP_HALF_TOPIC, 1);
    if (config.timerWheelEnable) add(names.TIMER_TOPIC, 1);
  }
}
