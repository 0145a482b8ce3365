// What consumer groups ask of topics by expressions other than tags: heartbeats bring it, pulls are filtered by it, and filter bits of ext units are
// worked out of it. It outlives a restart (config/consumerFilter.json), since bits that were written then refer to it. A group that has
// gone counts as dead, and is kept for a day, so that its bits are there when it comes back. RocketMQ: ConsumerFilterManager.

import { errorText } from '../../common/index.ts';
import {
  BloomFilter,
  type BloomFilterData,
  isTagType,
  type Sql92Filter,
  type SubscriptionData,
  setBits,
  type TagFilter,
} from '../../filter/index.ts';
import type { JsonObject } from '../../remoting/index.ts';
import type { BrokerConfig } from '../broker-config.ts';
import { type ConfigEnvironment, ConfigManager } from '../config-manager.ts';
import { readInteger, readList, readObject, readText, toInteger } from '../json-fields.ts';
import { type PrettyBean, prettyJson, prettyPieces } from '../pretty-json.ts';
import { RETRY_GROUP_TOPIC_PREFIX } from '../topic/topic-names.ts';
import { compileExpression, ExpressionFilter, RetryFilter } from './expression-filter.ts';
import { type Prepared, preparedKey } from './heavy-expressions.ts';

/** What a consumer that was alive when the broker ended is taken to be silent for. */
const SILENT_AT_LOAD_MS = 30_000;
/** Of an expression in the broker's log. */
const LOGGED_CHARS = 1024;
const NONE_PREPARED: Prepared = new Map();

/** What one group asks of one topic. RocketMQ: ConsumerFilterData. */
export interface ConsumerFilterData {
  readonly consumerGroup: string;
  readonly topic: string;
  readonly expression: string;
  readonly expressionType: string;
  /** Ms since 1970: bits of messages stored later know this expression. */
  readonly bornTime: number;
  /** When the group went; 0, or before `bornTime`: it is alive. */
  deadTime: number;
  readonly bloomFilterData: BloomFilterData;
  /** RocketMQ: the subVersion of the subscription. */
  clientVersion: number;
  /** Undefined where a file holds an expression that cannot be read: everything matches. */
  readonly filter: ExpressionFilter | undefined;
}

type Config = Pick<
  BrokerConfig,
  'enableCalcFilterBitMap' | 'expectConsumerNumUseFilter' | 'maxErrorRateOfBloomFilter' | 'filterDataCleanTimeSpan'
>;

export class ConsumerFilterManager extends ConfigManager {
  readonly #config: Config;
  readonly #bloom: BloomFilter;
  /** By topic, then by group. */
  #topics = new Map<string, Map<string, ConsumerFilterData>>();
  readonly #bits: Uint8Array;
  #prepared: Prepared = NONE_PREPARED;

  /** @throws GantryError CONFIG_VALUE on settings that make no bloom filter. */
  constructor(environment: ConfigEnvironment, config: Config) {
    super(environment, 'consumerFilter.json');
    this.#config = config;
    this.#bloom = new BloomFilter(config.maxErrorRateOfBloomFilter, config.expectConsumerNumUseFilter);
    this.#bits = new Uint8Array(this.#bloom.bits / 8);
  }

  find(topic: string, group: string): ConsumerFilterData | undefined {
    return this.#topics.get(topic)?.get(group);
  }

  /** With `filterSupportRetry`: the filter of a pull, where that is of a retry topic with what the group asks of the topics behind it besides. */
  retryFilterOf(topic: string, own: TagFilter): TagFilter {
    if (!topic.startsWith(RETRY_GROUP_TOPIC_PREFIX)) return own;
    const group = topic.slice(RETRY_GROUP_TOPIC_PREFIX.length);
    return new RetryFilter(own, (retried) => this.find(retried, group)?.filter);
  }

  /** Takes in what a heartbeat says that a group subscribes to; what it asked of other topics is dead. */
  register(group: string, subscriptions: readonly SubscriptionData[]): void {
    for (const { topic, subString, expressionType, subVersion } of subscriptions) {
      if (!isTagType(expressionType) && subString !== '') {
        this.#registerOne(topic, group, subString, expressionType, subVersion);
      }
    }
    if (this.#topics.size === 0) return;
    const topics = new Set<string>();
    for (const { topic } of subscriptions) topics.add(topic);
    for (const [topic, groups] of this.#topics) {
      const data = groups.get(group);
      if (data !== undefined && !isDead(data) && !topics.has(topic)) this.#die(data);
    }
  }

  /** The last client of a group has gone. */
  unregister(group: string): void {
    for (const groups of this.#topics.values()) {
      const data = groups.get(group);
      if (data !== undefined && !isDead(data)) this.#die(data);
    }
  }

  /** Forgets those that have been dead for `filterDataCleanTimeSpan`. */
  clean(): void {
    const now = this.environment.clock.now();
    for (const [topic, groups] of this.#topics) {
      for (const [group, data] of groups) {
        if (!isDead(data) || now - data.deadTime < this.#config.filterDataCleanTimeSpan) continue;
        groups.delete(group);
        this.markChanged();
        this.environment.logger.info(
          `the filter of group ${group} for ${topic} is forgotten: it has been gone too long`,
        );
      }
      if (groups.size === 0) this.#topics.delete(topic);
    }
  }

  /**
   * The filter bits of a message: those of each group whose expression matches, or all zero; undefined with none to ask. The same bytes serve
   * the next call. RocketMQ: CommitLogDispatcherCalcBitMap.
   */
  bitsOf(topic: string, bytes: Uint8Array, start: number, end: number): Uint8Array | undefined {
    if (!this.#config.enableCalcFilterBitMap) return undefined;
    const groups = this.#topics.get(topic);
    if (groups === undefined || groups.size === 0) return undefined;
    const bits = this.#bits.fill(0);
    for (const { filter, bloomFilterData } of groups.values()) {
      if (filter?.matches(bytes, start, end)) setBits(bits, bloomFilterData.bitPos);
    }
    return bits;
  }

  /** What 321 tells of a group's filter: Java's JSON of it. */
  describe(topic: string, group: string): string {
    const data = this.find(topic, group);
    return data === undefined ? 'null' : prettyJson(beanOf(data));
  }

  /** Whether a group's subscription needs no expression to be made ready: it is known, or older than what is. */
  has(group: string, { topic, subString, expressionType, subVersion }: SubscriptionData): boolean {
    const old = this.find(topic, group);
    if (old === undefined) return false;
    return subVersion <= old.clientVersion || (old.expression === subString && old.expressionType === expressionType);
  }

  /** Runs `register`, for which these expressions were made ready before. */
  withPrepared(prepared: Prepared, register: () => void): void {
    this.#prepared = prepared;
    try {
      register();
    } finally {
      this.#prepared = NONE_PREPARED;
    }
  }

  #registerOne(topic: string, group: string, expression: string, type: string, version: number): void {
    const old = this.find(topic, group);
    if (old !== undefined && version <= old.clientVersion) {
      if (version === old.clientVersion && isDead(old)) this.#live(old);
      return;
    }
    const bloomFilterData = this.#bloom.of(group, topic);
    const same =
      old !== undefined &&
      old.expression === expression &&
      old.expressionType === type &&
      JSON.stringify(old.bloomFilterData) === JSON.stringify(bloomFilterData);
    if (same) {
      old.clientVersion = version;
      this.markChanged();
      if (isDead(old)) this.#live(old);
      return;
    }
    const { clock, logger } = this.environment;
    const program = this.#compile(topic, group, type, expression);
    if (program === undefined) {
      // RocketMQ: the old one goes, so that pulls are told.
      if (old !== undefined && this.#topics.get(topic)!.delete(group)) this.markChanged();
      return;
    }
    let groups = this.#topics.get(topic);
    if (groups === undefined) {
      groups = new Map();
      this.#topics.set(topic, groups);
    }
    const bornTime = clock.now();
    groups.set(group, {
      consumerGroup: group,
      topic,
      expression,
      expressionType: type,
      bornTime,
      deadTime: 0,
      bloomFilterData,
      clientVersion: version,
      filter: new ExpressionFilter(program, bornTime, bloomFilterData),
    });
    this.markChanged();
    logger.info(`group ${group} filters ${topic} by ${JSON.stringify(expression.slice(0, LOGGED_CHARS))}`);
  }

  #compile(topic: string, group: string, type: string, expression: string, longest?: number): Sql92Filter | undefined {
    try {
      const ready = this.#prepared.get(preparedKey(type, expression));
      if (ready instanceof Error) throw ready;
      return ready ?? compileExpression(type, expression, longest);
    } catch (error) {
      this.environment.logger.error(
        `the expression ${JSON.stringify(expression.slice(0, LOGGED_CHARS))} of group ${group} for ${topic} cannot be read: ${errorText(error)}`,
      );
      return undefined;
    }
  }

  #die(data: ConsumerFilterData): void {
    data.deadTime = this.environment.clock.now();
    this.markChanged();
  }

  #live(data: ConsumerFilterData): void {
    data.deadTime = 0;
    this.markChanged();
  }

  protected override *encode(): Iterable<string> {
    yield '{\n\t"filterDataByTopic":{';
    yield* prettyPieces(this.#topics, filtersOf);
    yield '\n}';
  }

  protected override decode(json: JsonObject): void {
    const topics = new Map<string, Map<string, ConsumerFilterData>>();
    const byTopic = readObject(json, 'filterDataByTopic') ?? {};
    for (const topic of Object.keys(byTopic)) {
      const byGroup = readObject(readObject(byTopic, topic) ?? {}, 'groupFilterData') ?? {};
      const groups = new Map<string, ConsumerFilterData>();
      for (const group of Object.keys(byGroup)) {
        const entry = readObject(byGroup, group);
        if (entry !== undefined) groups.set(group, this.#read(topic, group, entry));
      }
      if (groups.size > 0) topics.set(topic, groups);
    }
    const all = [...topics.values()].flatMap((groups) => [...groups.values()]);
    if (!all.every(({ bloomFilterData }) => this.#bloom.isValid(bloomFilterData))) {
      // RocketMQ: bits that were written mean nothing any more, and groups that begin anew do not trust them.
      this.environment.logger.info(
        `${this.path} was written with other bits (maxErrorRateOfBloomFilter): it is not used`,
      );
      topics.clear();
    }
    this.#topics = topics;
  }

  #read(topic: string, group: string, json: JsonObject): ConsumerFilterData {
    const expression = readText(json, 'expression') ?? '';
    const expressionType = readText(json, 'expressionType') ?? '';
    const bornTime = readInteger(json, 'bornTime') ?? 0;
    const bloom = readObject(json, 'bloomFilterData') ?? {};
    const bloomFilterData = {
      bitNum: readInteger(bloom, 'bitNum') ?? 0,
      bitPos: (readList(bloom, 'bitPos') ?? []).map((position) => toInteger(position, 'bitPos')),
    };
    const dead = readInteger(json, 'deadTime') ?? 0;
    const silentSince = Math.max(bornTime, this.environment.clock.now() - SILENT_AT_LOAD_MS);
    // What a file holds has been used before, however long it is.
    const program = this.#compile(topic, group, expressionType, expression, Number.POSITIVE_INFINITY);
    return {
      consumerGroup: group,
      topic,
      expression,
      expressionType,
      bornTime,
      deadTime: dead === 0 ? silentSince : dead,
      bloomFilterData,
      clientVersion: readInteger(json, 'clientVersion') ?? 0,
      filter: program && new ExpressionFilter(program, bornTime, bloomFilterData),
    };
  }
}

function isDead(data: ConsumerFilterData): boolean {
  return data.deadTime >= data.bornTime;
}

/** The filters of one topic, by group. */
function filtersOf(groups: ReadonlyMap<string, ConsumerFilterData>, topic: string): PrettyBean {
  return { groupFilterData: new Map([...groups].map(([group, data]) => [group, beanOf(data)])), topic };
}

function beanOf(data: ConsumerFilterData): PrettyBean {
  const { bloomFilterData, bornTime, clientVersion, consumerGroup, deadTime, expression, expressionType, topic } = data;
  return {
    bloomFilterData: { bitNum: bloomFilterData.bitNum, bitPos: bloomFilterData.bitPos },
    bornTime,
    clientVersion,
    consumerGroup,
    dead: isDead(data),
    deadTime,
    expression,
    expressionType,
    topic,
  };
}
