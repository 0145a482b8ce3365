// The topics of this broker (config/topics.json): which exist, how many queues they have and who may use them. Primary data: a topic
// that is lost here hides its messages, so every change is durable before it is answered, and before a message goes to the topic.
//
//   change ─► in the table at once, but unsaved ─► one save for all of the loop turn, between other work
//                └─ sends to it wait (`afterSave`)        ├─ saved: name servers are told, those who wait go on
//                                                         └─ failed: those who wait are told; it stays unsaved, and is tried again
//
// RocketMQ: TopicConfigManager, which saves the whole table before it goes on and answers with success whether it could or not.

import { errorText, GantryError } from '../../common/index.ts';
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

/** Told when a topic is durable, or why it is not. */
export type TopicSaved = (failure: GantryError | undefined) => void;

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
  /** Topics that are new or different and not durable yet, each with the number of its last change. */
  readonly #unsaved = new Map<string, number>();
  /** Those of them that are new: a change that is lost costs no message. */
  readonly #new = new Set<string>();
  /** Who waits for some of them. */
  readonly #waiting = new Map<string, TopicSaved[]>();
  #saving = false;

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

  /** Whether a power cut could still take the topic; no message may be accepted for it then. */
  isUnsaved(topic: string): boolean {
    return this.#new.has(topic);
  }

  /** Calls `done` in a turn of its own once the topic is durable, in the order of the calls, or when that has failed. */
  afterSave(topic: string, done: TopicSaved): void {
    if (!this.#unsaved.has(topic)) {
      this.environment.clock.soon(() => done(undefined));
      return;
    }
    const waiting = this.#waiting.get(topic);
    if (waiting === undefined) this.#waiting.set(topic, [done]);
    else waiting.push(done);
    this.#saveSoon();
  }

  /** Resolves once the topic is durable. @throws GantryError IO or DISK_FULL. */
  durable(topic: string): Promise<void> {
    if (!this.#unsaved.has(topic)) return Promise.resolve();
    return new Promise((resolve, reject) => {
      this.afterSave(topic, (failure) => (failure === undefined ? resolve() : reject(failure)));
    });
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
   * Creates the topic of a send by the example of `defaultTopic`, if that one exists and may be inherited from; it is unsaved then.
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
    this.#put(created);
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
   * Creates a retry or dead-letter topic if it is not there; it is unsaved then. RocketMQ: createTopicInSendMessageBackMethod.
   * @param order whether it is to be an order topic; an existing one is changed to that
   */
  createInSendBack(topic: string, queueNums: number, perm: number, order: boolean, topicSysFlag: number): TopicConfig {
    const existing = this.#table.get(topic);
    if (existing !== undefined) {
      if (existing.order === order) return existing;
      const changed = existing.with({ order });
      this.#put(changed);
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
    this.#put(created);
    return created;
  }

  /**
   * Creates or replaces topics by an administrator's wish; durable and told to the name servers when this resolves.
   * @param wishes each topic with the changes of its attributes (`+name`, `-name`)
   * @throws GantryError CONFIG_VALUE, from the call itself, for an attribute that is not allowed (nothing is changed then)
   * @throws GantryError IO or DISK_FULL if saving fails; the topics are there, unsaved, and it is tried again
   */
  update(wishes: ReadonlyArray<{ topic: TopicConfig; attributes: ReadonlyMap<string, string> }>): Promise<void> {
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
    return this.saved();
  }

  /** Removes a topic's config; durable once `saved` resolves. False if there was none. */
  delete(topic: string): boolean {
    if (!this.#table.delete(topic)) return false;
    this.environment.logger.info(`topic ${topic} is deleted`);
    this.#moveOn();
    return true;
  }

  /** Marks the topics that the name servers list as ordered. RocketMQ: updateOrderTopicConfig, which never unmarks one. */
  updateOrderTopics(topics: Iterable<string>): void {
    for (const topic of topics) {
      const config = this.#table.get(topic);
      if (config !== undefined && !config.order) this.#put(config.with({ order: true }));
    }
  }

  /** Tells the name servers of all topics anew, as after a change of the broker's own permission. */
  touchAll(): void {
    this.#moveOn();
    this.#saveSoon();
    this.#changed([...this.#table.values()]);
  }

  /** The topics `[first, first + count)` in name order, as the paged answer to GET_ALL_TOPIC_CONFIG wants them. */
  page(first: number, count: number): TopicConfig[] {
    const ordered = [...this.#table.keys()].sort();
    return ordered.slice(first, first + count).map((topic) => this.#table.get(topic)!);
  }

  protected override *encode(): Iterable<string> {
    // As of this version: it takes several turns, and topics come meanwhile.
    const topics = [...this.#table.values()];
    yield `{\n\t${prettyEntry('dataVersion', this.dataVersion.fields(), 1)},\n\t"topicConfigTable":{`;
    yield* prettyPieces(entriesOf(topics), topicFields);
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

  /** Takes effect now, but for sends; saved together with all others of this loop turn. */
  #put(topic: TopicConfig): void {
    if (!this.#table.has(topic.topicName)) this.#new.add(topic.topicName);
    this.#table.set(topic.topicName, topic);
    this.#moveOn();
    this.#unsaved.set(topic.topicName, this.lastChange);
    this.#saveSoon();
  }

  #moveOn(): void {
    this.version++;
    this.dataVersion.next(this.environment.clock.now());
    this.markChanged();
  }

  #saveSoon(): void {
    if (this.#saving) return;
    this.#saving = true;
    this.environment.clock.soon(() => {
      const until = this.lastChange;
      this.saved().then(
        () => this.#saveEnded(until, undefined),
        (error: unknown) => this.#saveEnded(until, asSaveError(error)),
      );
    });
  }

  /** What has come while it was saved has its own save; what could not be saved waits for the broker's timer, or for the next send. */
  #saveEnded(until: number, failure: GantryError | undefined): void {
    this.#saving = false;
    if (failure !== undefined) {
      const failed = [...this.#waiting.values()].flat();
      this.#waiting.clear();
      for (const done of failed) this.environment.clock.soon(() => done(failure));
    } else if (this.lastChange > until) this.#saveSoon();
  }

  protected override savedTo(change: number): void {
    const saved: TopicConfig[] = [];
    const settled: string[] = [];
    for (const [name, made] of this.#unsaved) {
      if (made > change) continue;
      const topic = this.#table.get(name);
      if (topic !== undefined) saved.push(topic);
      if (this.#waiting.has(name)) settled.push(name);
      else this.#isSaved(name);
    }
    if (settled.length > 0) this.environment.clock.soon(() => this.#settle(settled, change));
    if (saved.length === 0) return;
    this.version++;
    this.#changed(saved);
  }

  #isSaved(topic: string): void {
    this.#unsaved.delete(topic);
    this.#new.delete(topic);
  }

  /** Those who wait go on before anybody who comes later: until then the topics count as unsaved. */
  #settle(topics: readonly string[], change: number): void {
    for (const name of topics) {
      const waiting = this.#waiting.get(name) ?? [];
      const made = this.#unsaved.get(name);
      // Changed again, or settled already.
      if (made === undefined || made > change) continue;
      this.#waiting.delete(name);
      this.#isSaved(name);
      this.version++;
      for (const done of waiting) done(undefined);
    }
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

function* entriesOf(topics: readonly TopicConfig[]): Iterable<readonly [string, TopicConfig]> {
  for (const topic of topics) yield [topic.topicName, topic];
}

function asSaveError(error: unknown): GantryError {
  return error instanceof GantryError ? error : new GantryError('IO', errorText(error), { cause: error });
}
