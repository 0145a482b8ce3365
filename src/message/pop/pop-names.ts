// The names that pop consumption goes by: the topic from which messages that nobody acknowledged come back, the retry topics that they come
// back into, and what marks the records of the first. RocketMQ: PopAckConstants, KeyBuilder.

export const REVIVE_TOPIC_PREFIX = 'rmq_sys_REVIVE_LOG_';
export const REVIVE_GROUP = 'CID_RMQ_SYS_REVIVE_GROUP';
/** Tags of the records of the revive topic: a check point, an acknowledgement, several of them. */
export const CK_TAG = 'ck';
export const ACK_TAG = 'ack';
export const BATCH_ACK_TAG = 'bAck';
/** Ms by which a check point is due before the acknowledgements of its messages. */
export const ACK_TIME_INTERVAL_MS = 1000;
/** In the place of a revive queue: the messages were popped in order, and no check point was stored. */
export const POP_ORDER_REVIVE_QUEUE = 999;
/** Most messages of one pop: a check point has a bit for each. */
export const MAX_POP_MESSAGES = 32;

const RETRY_PREFIX = '%RETRY%';

/** Where the messages of a pop come from, as it stands in handles and answers. RocketMQ: ExtraInfoUtil. */
export const RetryFlag = { NORMAL: '0', V1: '1', V2: '2' } as const;
export type RetryFlag = (typeof RetryFlag)[keyof typeof RetryFlag];

/** The revive topic of a cluster. */
export function reviveTopic(clusterName: string): string {
  return REVIVE_TOPIC_PREFIX + clusterName;
}

/** The retry topic of (topic, group) that a broker writes by default. */
export function popRetryTopicV1(topic: string, group: string): string {
  return `${RETRY_PREFIX}${group}_${topic}`;
}

/** The one that it writes with `enableRetryTopicV2`. */
export function popRetryTopicV2(topic: string, group: string): string {
  return `${RETRY_PREFIX}${group}+${topic}`;
}

/** The one that is written. */
export function popRetryTopic(topic: string, group: string, enableRetryTopicV2: boolean): string {
  return enableRetryTopicV2 ? popRetryTopicV2(topic, group) : popRetryTopicV1(topic, group);
}

export function isPopRetryTopicV2(topic: string): boolean {
  return topic.startsWith(RETRY_PREFIX) && topic.includes('+');
}

/** What kind of topic the name of one is. RocketMQ: ExtraInfoUtil#getRetry. */
export function retryFlagOf(topic: string): RetryFlag {
  if (!topic.startsWith(RETRY_PREFIX)) return RetryFlag.NORMAL;
  return topic.includes('+') ? RetryFlag.V2 : RetryFlag.V1;
}

/** The topic in which a message of `topic` lies by its flag; undefined if the flag is none. RocketMQ: getRealTopic(topic, cid, retry). */
export function realTopicOf(topic: string, group: string, retryFlag: string): string | undefined {
  switch (retryFlag) {
    case RetryFlag.NORMAL:
      return topic;
    case RetryFlag.V1:
      return popRetryTopicV1(topic, group);
    case RetryFlag.V2:
      return popRetryTopicV2(topic, group);
    default:
      return undefined;
  }
}

/** The topic that a retry topic of `group` is of; itself if it is none. RocketMQ: parseNormalTopic(topic, cid). */
export function normalTopicOf(topic: string, group: string): string {
  const prefix = RETRY_PREFIX + group;
  const mark = topic[prefix.length];
  return topic.startsWith(prefix) && (mark === '_' || mark === '+') ? topic.slice(prefix.length + 1) : topic;
}

/** Topic and group of a retry topic V2; undefined if it is none. */
export function splitRetryTopicV2(retryTopic: string): { topic: string; group: string } | undefined {
  const parts = retryTopic.split('+');
  if (!retryTopic.startsWith(RETRY_PREFIX) || parts.length !== 2) return undefined;
  return { topic: parts[1]!, group: parts[0]!.slice(RETRY_PREFIX.length) };
}

/** `topic@group@queueId`, by which pops wait for each other and for messages. RocketMQ: buildPollingKey. */
export function popQueueKey(topic: string, group: string, queueId: number): string {
  return `${topic}@${group}@${queueId}`;
}
