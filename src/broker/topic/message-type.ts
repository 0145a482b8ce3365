// Types of messages (NORMAL, FIFO, DELAY, TRANSACTION, PRIORITY, LITE): a topic's attribute `message.type` says one, a message's properties
// show one. RocketMQ: TopicMessageType, whose broker stores whatever type comes; the check is its proxy's (DefaultTopicMessageTypeValidator), and
// ours with gantryTopicMessageTypeCheck.

import { type NameBytes, nameBytes, PropertyName, type PropertyTable } from '../../message/index.ts';
import type { BrokerConfig } from '../broker-config.ts';
import type { TopicConfig } from './topic-config.ts';
import { DLQ_GROUP_TOPIC_PREFIX, RETRY_GROUP_TOPIC_PREFIX } from './topic-names.ts';

/** Properties that show a type, in RocketMQ's order: the first one counts. */
const SIGNS: ReadonlyArray<{ readonly name: string; readonly bytes: NameBytes; readonly type: string }> = (
  [
    [PropertyName.TRAN_MSG, 'TRANSACTION'],
    [PropertyName.DELAY, 'DELAY'],
    [PropertyName.TIMER_DELIVER_MS, 'DELAY'],
    [PropertyName.TIMER_DELAY_SEC, 'DELAY'],
    [PropertyName.TIMER_DELAY_MS, 'DELAY'],
    [PropertyName.SHARDING_KEY, 'FIFO'],
    [PropertyName.PRIORITY, 'PRIORITY'],
    [PropertyName.LITE_TOPIC, 'LITE'],
  ] as const
).map(([name, type]) => ({ name, bytes: nameBytes(name), type }));

/** The type of a topic. RocketMQ: TopicConfig#getTopicMessageType. */
function messageTypeOf(topic: TopicConfig): string {
  return topic.attributes.get('message.type') ?? 'NORMAL';
}

/** The type that a send to a topic must have; undefined: any. RocketMQ: a proxy looks at no retry and no dead-letter topic. */
export function expectedType(config: BrokerConfig, topic: TopicConfig): string | undefined {
  const { topicName } = topic;
  if (!config.gantryTopicMessageTypeCheck) return undefined;
  if (topicName.startsWith(RETRY_GROUP_TOPIC_PREFIX) || topicName.startsWith(DLQ_GROUP_TOPIC_PREFIX)) return undefined;
  const type = messageTypeOf(topic);
  return type === 'MIXED' ? undefined : type;
}

/** The type that properties show. RocketMQ: TopicMessageType#parseFromMessageProperty. */
export function typeOfProperties(properties: ReadonlyMap<string, string>): string {
  for (const { name, type } of SIGNS) if (shows(name, properties.get(name))) return type;
  return 'NORMAL';
}

/** The same of properties as they came. */
export function typeInTable(table: PropertyTable): string {
  for (const { name, bytes, type } of SIGNS) if (shows(name, table.get(bytes))) return type;
  return 'NORMAL';
}

function shows(name: string, value: string | undefined): boolean {
  return value !== undefined && (name !== PropertyName.TRAN_MSG || value.toLowerCase() === 'true');
}

const INT_MAX = 0x7fff_ffff;

/** A message's priority, from 0 on; -1: none. RocketMQ: Message#getPriority. */
export function priorityOf(properties: ReadonlyMap<string, string>): number {
  const text = properties.get(PropertyName.PRIORITY) ?? '';
  const value = /^\+?\d+$/.test(text) ? Number(text) : -1;
  return value > INT_MAX ? -1 : value;
}
