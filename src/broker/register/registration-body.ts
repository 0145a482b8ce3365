// What a broker says of itself to a name server: the JSON of RegisterBrokerBody with the topics as RocketMQ writes them. A whole
// table of many topics is built in slices between other work, once for each version of the table, and shared by all name servers.

import { type Clock, crc32, crc32On } from '../../common/index.ts';
import { toJson, toJsonBytes } from '../../remoting/index.ts';
import { infoFields, type TopicQueueMappingDetail } from '../statictopic/topic-queue-mapping.ts';
import { isReadable, isWriteable, type TopicConfig } from '../topic/topic-config.ts';
import { topicFields } from '../topic/topic-json.ts';

/** The topics of a broker; TopicConfigManager is one. A TopicConfig in it is never changed in place. */
export interface TopicTable {
  readonly dataVersion: { fields(): { counter: number; stateVersion: number; timestamp: number } };
  all(): Iterable<TopicConfig>;
  select(topic: string): TopicConfig | undefined;
}

/** The static topics of a broker; TopicQueueMappingManager is one. */
export interface MappingTable {
  readonly dataVersion: { readonly counter: number };
  all(): Iterable<TopicQueueMappingDetail>;
  find(topic: string): TopicQueueMappingDetail | undefined;
}

/** A body with its checksum, as REGISTER_BROKER carries them. */
export interface RegistrationBody {
  readonly bytes: Uint8Array;
  readonly crc: number;
}

/** Topics whose text is made in one go: some 0.5 ms. */
const SLICE_TOPICS = 500;
const FILTER_SERVERS = '{"filterServerList":[],"topicConfigSerializeWrapper":{"dataVersion":';
// RocketMQ: a fresh mapping version at each registration; a fixed one lets equal tables have equal bytes.
const BEFORE_TOPICS = ',"mappingDataVersion":{"counter":0,"stateVersion":0,"timestamp":0},"topicConfigTable":{';
const AFTER_TOPICS = '},"topicQueueMappingDetailMap":{},"topicQueueMappingInfoMap":{';
const AFTER_MAPPINGS = '}}}';

/** Builds bodies of one broker. */
export class RegistrationBodies {
  readonly #topics: TopicTable;
  readonly #permission: () => number;
  readonly #clock: Clock;
  readonly #mappings: MappingTable | undefined;
  #wholeKey = '';
  #whole: Promise<RegistrationBody> | undefined;

  /** `permission` is the broker's own (brokerPermission): what it lacks no topic has. */
  constructor(topics: TopicTable, permission: () => number, clock: Clock, mappings?: MappingTable) {
    this.#topics = topics;
    this.#mappings = mappings;
    this.#permission = permission;
    this.#clock = clock;
  }

  /** JSON of the version of the table. */
  dataVersion(): string {
    return toJson(this.#topics.dataVersion.fields());
  }

  /** The body with all topics, as they are at the call. */
  whole(): Promise<RegistrationBody> {
    const key = `${this.dataVersion()}/${this.#permission()}/${this.#mappings?.dataVersion.counter}`;
    if (this.#whole === undefined || key !== this.#wholeKey) {
      this.#wholeKey = key;
      this.#whole = this.#build(this.dataVersion(), [...this.#topics.all()], [...(this.#mappings?.all() ?? [])]);
    }
    return this.#whole;
  }

  /** The body with some topics, under the version of the table; those that do not exist (any more) are left out. */
  some(names: Iterable<string>): RegistrationBody {
    const parts: string[] = [];
    const mappings: TopicQueueMappingDetail[] = [];
    for (const name of names) {
      const topic = this.#topics.select(name);
      if (topic === undefined) continue;
      parts.push(this.#entry(topic));
      const mapping = this.#mappings?.find(name);
      if (mapping !== undefined) mappings.push(mapping);
    }
    return assemble(this.dataVersion(), parts, mappings);
  }

  /** TopicRouteData of one topic, as REGISTER_TOPIC_IN_NAMESRV carries it; undefined if it does not exist (any more). */
  route(name: string, brokerName: string): Buffer | undefined {
    const topic = this.#topics.select(name);
    if (topic === undefined) return undefined;
    const { perm, readQueueNums, topicSysFlag, writeQueueNums } = this.#limited(topic);
    return toJsonBytes({ queueDatas: [{ brokerName, perm, readQueueNums, topicSysFlag, writeQueueNums }] });
  }

  async #build(
    dataVersion: string,
    topics: readonly TopicConfig[],
    mappings: readonly TopicQueueMappingDetail[],
  ): Promise<RegistrationBody> {
    const parts: Buffer[] = [Buffer.from(before(dataVersion))];
    let crc = crc32On(0, parts[0]!);
    const add = (text: string): void => {
      const part = Buffer.from(text);
      crc = crc32On(crc, part);
      parts.push(part);
    };
    for (let i = 0; i < topics.length; i += SLICE_TOPICS) {
      const entries = topics.slice(i, i + SLICE_TOPICS).map((topic) => this.#entry(topic));
      add(`${i === 0 ? '' : ','}${entries.join(',')}`);
      await new Promise<void>((resolve) => this.#clock.soon(resolve));
    }
    add(behind(mappings));
    return { bytes: Buffer.concat(parts), crc: crc & 0x7fffffff };
  }

  #entry(topic: TopicConfig): string {
    return `${JSON.stringify(topic.topicName)}:${toJson(topicFields(this.#limited(topic)))}`;
  }

  /** What the broker may not do, its topics may not. */
  #limited(topic: TopicConfig): TopicConfig {
    const permission = this.#permission();
    if (isReadable(permission) && isWriteable(permission)) return topic;
    return topic.with({ perm: topic.perm & permission });
  }
}

function assemble(
  dataVersion: string,
  topics: readonly string[],
  mappings: readonly TopicQueueMappingDetail[],
): RegistrationBody {
  const bytes = Buffer.from(before(dataVersion) + topics.join(',') + behind(mappings), 'utf8');
  return { bytes, crc: crc32(bytes) };
}

function before(dataVersion: string): string {
  return FILTER_SERVERS + dataVersion + BEFORE_TOPICS;
}

function behind(mappings: readonly TopicQueueMappingDetail[]): string {
  const infos = mappings.map((detail) => `${JSON.stringify(detail.topic)}:${toJson(infoFields(detail))}`).join(',');
  return AFTER_TOPICS + infos + AFTER_MAPPINGS;
}
