// Topics as sends need them: found by the bytes of their name, which lie in the request, and looked up in the table of topics only when
// that has changed. Only topics that exist are kept: a peer could fill the memory with other names.

import { ByteTable, copyBytes } from '../../common/index.ts';
import { copy } from '../../message/index.ts';
import { type Request, ResponseCode } from '../../remoting/index.ts';
import { type ConsumeQueue, isLightQueue } from '../../store/index.ts';
import type { BrokerContext } from '../broker-context.ts';
import type { TopicQueueMappingDetail } from '../statictopic/topic-queue-mapping.ts';
import { expectedType } from '../topic/message-type.ts';
import { Perm, type TopicConfig } from '../topic/topic-config.ts';
import * as names from '../topic/topic-names.ts';
import { TrafficCount } from '../traffic-stats.ts';
import type { SendHeader } from './send-header.ts';

/** A topic as sends need it, found by its bytes. */
export interface SendTopic {
  /** Its config, and what most sends need of it, as of this version of the table; another version has it looked up again. */
  config: TopicConfig | undefined;
  version: number;
  queueNums: number;
  isMultiTag: boolean;
  /** It is compacted by key: a message without one cannot be kept. */
  needsKey: boolean;
  /** What the store's `queuesOf` said. */
  queues: readonly ConsumeQueue[] | undefined;
  readonly name: string;
  readonly bytes: Uint8Array;
  /** Why no one may send to it by its name alone. */
  readonly fault: { code: number; remark: string } | undefined;
  readonly isRetry: boolean;
  /** Of a static topic: where its logic queues lie. */
  mapping: TopicQueueMappingDetail | undefined;
  /** The type that its messages must have; undefined: any. */
  expectedType: string | undefined;
  /** Its messages never take the fast way: a retry or a static topic. */
  isSlow: boolean;
  /** What has been sent to it; one of its own until the topic exists. */
  puts: TrafficCount;
}

export class SendTopics {
  readonly #context: BrokerContext;
  readonly #topics = new ByteTable<SendTopic>();
  /** By length: where the name of the topic that is being put to lies. */
  readonly #names: Uint8Array[] = [];

  constructor(context: BrokerContext) {
    this.#context = context;
  }

  /** The topic that a send names. */
  find(header: SendHeader): SendTopic {
    const start = header.topicStart;
    if (start < 0) {
      const bytes = Buffer.from(header.topic, 'utf8');
      return this.topicOf(bytes, 0, bytes.length);
    }
    return this.topicOf(header.buffer, start, header.topicEnd);
  }

  /** The topic whose name lies at [start, end), as the table of topics has it now. */
  topicOf(bytes: Uint8Array, start: number, end: number): SendTopic {
    const topic = this.#topics.find(bytes, start, end) ?? this.#add(bytes, start, end);
    if (topic.version !== this.#context.topics.version) this.refresh(topic);
    return topic;
  }

  #add(bytes: Uint8Array, start: number, end: number): SendTopic {
    const own = copyBytes(bytes, start, end);
    const name = Buffer.from(own).toString('utf8');
    // What each send looks at comes first: with thousands of topics in turn, every further cache line of the object is a miss.
    const topic: SendTopic = {
      version: -1,
      config: undefined,
      queueNums: 0,
      queues: undefined,
      puts: new TrafficCount(),
      fault: nameFault(name),
      mapping: undefined,
      expectedType: undefined,
      isMultiTag: false,
      needsKey: false,
      isSlow: false,
      bytes: own,
      name,
      isRetry: name.startsWith(names.RETRY_GROUP_TOPIC_PREFIX),
    };
    // Every name of a light queue exists.
    const isKept = topic.fault === undefined && !isLightQueue(name) && this.#context.topics.has(name);
    if (isKept) this.#topics.add(topic, own);
    else this.#topics.lookFirstAt(topic, own);
    return topic;
  }

  /** The topic's name, copied from the request, which is at hand, rather than from the entry's own array, which mostly is not. */
  nameOf(header: SendHeader, topic: SendTopic): Uint8Array {
    const start = header.topicStart;
    if (start < 0) return topic.bytes;
    const length = header.topicEnd - start;
    const name = this.#names[length] ?? new Uint8Array(length);
    this.#names[length] = name;
    copy(header.buffer, start, header.topicEnd, name, 0);
    return name;
  }

  /** Looks a topic up again; without a config it does not exist, or waits for its save. */
  refresh(topic: SendTopic): void {
    const { topics } = this.#context;
    const config = topics.isUnsaved(topic.name) ? undefined : topics.select(topic.name);
    topic.config = config;
    topic.version = topics.version;
    topic.queueNums = config === undefined ? 0 : Math.max(config.writeQueueNums, config.readQueueNums);
    topic.queues = config === undefined ? undefined : this.#context.store.queuesOf(topic.name);
    if (config !== undefined) topic.puts = this.#context.traffic.puts.of(topic.name);
    topic.needsKey = config?.isCompacted === true;
    topic.isMultiTag = config?.topicFilterType === 'MULTI_TAG';
    topic.expectedType = config === undefined ? undefined : expectedType(this.#context.config, config);
    topic.mapping = this.#context.mappings.find(topic.name);
    topic.isSlow = topic.isRetry || topic.mapping !== undefined;
  }

  /** Creates a topic for a send to it, if that may be; one that is there is answered as it is. */
  create(request: Request, header: SendHeader, topic: SendTopic): TopicConfig | undefined {
    const { topics } = this.#context;
    let topicSysFlag = 0;
    if (header.unitMode) topicSysFlag = topic.isRetry ? 2 : 1;
    const created = topics.createInSend(
      topic.name,
      header.defaultTopic,
      request.channel.remoteAddress,
      header.defaultTopicQueueNums,
      topicSysFlag,
    );
    if (created !== undefined || !topic.isRetry) return created;
    return topics.createInSendBack(topic.name, 1, Perm.READ | Perm.WRITE, false, topicSysFlag);
  }
}

function nameFault(name: string): SendTopic['fault'] {
  const fault = names.topicNameFault(name);
  if (fault !== undefined) return { code: ResponseCode.INVALID_PARAMETER, remark: fault };
  if (names.isNotAllowedSendTopic(name)) {
    return { code: ResponseCode.NO_PERMISSION, remark: `Sending message to topic[${name}] is forbidden.` };
  }
  return undefined;
}
