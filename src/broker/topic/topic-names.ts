// Which topic and group names are allowed, which topics are the broker's own, and the names that the broker derives from a group.
// RocketMQ: TopicValidator, MixAll, PopAckConstants. A broker's own topic names (cluster, broker, reply ...) are per broker, so the set
// of system topics is an object of the broker and not a table of the module.

export { popRetryTopicV1, popRetryTopicV2 } from '../../message/index.ts';

export const AUTO_CREATE_TOPIC_KEY_TOPIC = 'TBW102';
export const SCHEDULE_TOPIC = 'SCHEDULE_TOPIC_XXXX';
export const BENCHMARK_TOPIC = 'BenchmarkTest';
export const TRANS_HALF_TOPIC = 'RMQ_SYS_TRANS_HALF_TOPIC';
export const TRANS_OP_HALF_TOPIC = 'RMQ_SYS_TRANS_OP_HALF_TOPIC';
export const ROCKSDB_TRANS_HALF_TOPIC = 'RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC';
export const ROCKSDB_TRANS_OP_HALF_TOPIC = 'RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC';
export const TRACE_TOPIC = 'RMQ_SYS_TRACE_TOPIC';
export const TRANS_CHECK_MAX_TIME_TOPIC = 'TRANS_CHECK_MAX_TIME_TOPIC';
export const SELF_TEST_TOPIC = 'SELF_TEST_TOPIC';
export const OFFSET_MOVED_EVENT_TOPIC = 'OFFSET_MOVED_EVENT';
export const CHECKPOINT_TOPIC = 'CHECKPOINT_TOPIC';
export const TIMER_TOPIC = 'rmq_sys_wheel_timer';
export const SYSTEM_TOPIC_PREFIX = 'rmq_sys_';
export const RETRY_GROUP_TOPIC_PREFIX = '%RETRY%';
export const DLQ_GROUP_TOPIC_PREFIX = '%DLQ%';
/** Queues of SCHEDULE_TOPIC_XXXX at boot, one a level. */
export const SCHEDULE_TOPIC_QUEUES = 18;

const TOPIC_MAX_LENGTH = 127;
const RETRY_OR_DLQ_TOPIC_MAX_LENGTH = 255;
const GROUP_MAX_LENGTH = 120;

const ALWAYS_SYSTEM = [
  AUTO_CREATE_TOPIC_KEY_TOPIC,
  SCHEDULE_TOPIC,
  BENCHMARK_TOPIC,
  TRANS_HALF_TOPIC,
  TRACE_TOPIC,
  TRANS_OP_HALF_TOPIC,
  TRANS_CHECK_MAX_TIME_TOPIC,
  SELF_TEST_TOPIC,
  OFFSET_MOVED_EVENT_TOPIC,
  CHECKPOINT_TOPIC,
  ROCKSDB_TRANS_HALF_TOPIC,
  ROCKSDB_TRANS_OP_HALF_TOPIC,
];

const NOT_ALLOWED_SEND: ReadonlySet<string> = new Set([
  SCHEDULE_TOPIC,
  TRANS_HALF_TOPIC,
  TRANS_OP_HALF_TOPIC,
  TRANS_CHECK_MAX_TIME_TOPIC,
  SELF_TEST_TOPIC,
  OFFSET_MOVED_EVENT_TOPIC,
  ROCKSDB_TRANS_HALF_TOPIC,
  ROCKSDB_TRANS_OP_HALF_TOPIC,
]);

/** Topics that clients may not send to. */
export function isNotAllowedSendTopic(topic: string): boolean {
  return NOT_ALLOWED_SEND.has(topic);
}

/** The topics that belong to a broker itself. */
export class SystemTopics {
  readonly #names = new Set<string>(ALWAYS_SYSTEM);

  add(topic: string): void {
    this.#names.add(topic);
  }

  isSystem(topic: string): boolean {
    return this.#names.has(topic) || topic.startsWith(SYSTEM_TOPIC_PREFIX);
  }

  names(): string[] {
    return [...this.#names];
  }
}

function isBlank(text: string): boolean {
  return text.trim().length === 0;
}

function hasIllegalCharacter(text: string): boolean {
  for (let i = 0; i < text.length; i++) {
    const c = text.charCodeAt(i);
    const letterOrDigit = (c >= 48 && c <= 57) || (c >= 65 && c <= 90) || (c >= 97 && c <= 122);
    // % - _ |
    if (!letterOrDigit && c !== 37 && c !== 45 && c !== 95 && c !== 124) return true;
  }
  return false;
}

/** Why a topic name is not allowed, in RocketMQ's words; undefined if it is allowed. */
export function topicNameFault(topic: string): string | undefined {
  if (isBlank(topic)) return 'The specified topic is blank.';
  if (hasIllegalCharacter(topic)) {
    return `The specified topic: ${topic}, contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$`;
  }
  if (topic.startsWith(RETRY_GROUP_TOPIC_PREFIX) || topic.startsWith(DLQ_GROUP_TOPIC_PREFIX)) {
    if (topic.length > RETRY_OR_DLQ_TOPIC_MAX_LENGTH) {
      return `The specified topic is DLQ or Retry topic: ${topic}, and it's longer than topic max length: ${RETRY_OR_DLQ_TOPIC_MAX_LENGTH}`;
    }
  } else if (topic.length > TOPIC_MAX_LENGTH) {
    return `The specified topic: ${topic}, is longer than topic max length: ${TOPIC_MAX_LENGTH}`;
  }
  return undefined;
}

/** Why a group name is not allowed, in RocketMQ's words; undefined if it is allowed. */
export function groupNameFault(group: string): string | undefined {
  if (isBlank(group)) return 'The specified group is blank.';
  if (hasIllegalCharacter(group)) {
    return `The specified group: ${group}, contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$`;
  }
  if (group.length > GROUP_MAX_LENGTH) {
    return `The specified group: ${group}, is longer than group max length: ${GROUP_MAX_LENGTH}`;
  }
  return undefined;
}

export function retryTopic(group: string): string {
  return RETRY_GROUP_TOPIC_PREFIX + group;
}

export function dlqTopic(group: string): string {
  return DLQ_GROUP_TOPIC_PREFIX + group;
}

const SYSTEM_PULL_GROUPS: ReadonlySet<string> = new Set([
  'DEFAULT_CONSUMER',
  'TOOLS_CONSUMER',
  'SCHEDULE_CONSUMER',
  'FILTERSRV_CONSUMER',
  '__MONITOR_CONSUMER',
  'SELF_TEST_C_GROUP',
  'CID_ONS-HTTP-PROXY',
  'CID_ONSAPI_PERMISSION',
  'CID_ONSAPI_OWNER',
  'CID_ONSAPI_PULL',
]);

/** Groups of tools and of the broker itself. RocketMQ: isSysConsumerGroupPullMessage. */
export function isSystemPullGroup(group: string): boolean {
  return SYSTEM_PULL_GROUPS.has(group) || isSystemGroup(group);
}

/** Groups with this prefix serve the broker itself. */
export function isSystemGroup(group: string): boolean {
  return group.startsWith('CID_RMQ_SYS_');
}

/** The light queue of a lite topic. RocketMQ: LiteUtil#toLmqName. */
export function lightQueueOf(parentTopic: string, liteTopic: string): string {
  return `%LMQ%$${parentTopic}$${liteTopic}`;
}
