// What may be sent and how groups may be called. The limits are RocketMQ's (Validators, TopicValidator): a refusal here is one that
// the broker would answer too, only sooner and with the reason in words.

import { GantryError } from '../common/index.ts';

const NAME = /^[%|a-zA-Z0-9_-]+$/;
const TOPIC_MAX = 127;
const RETRY_TOPIC_MAX = 255;
const GROUP_MAX = 120;

/** Topics that brokers write to by themselves only. */
const FORBIDDEN_TOPICS: ReadonlySet<string> = new Set([
  'SCHEDULE_TOPIC_XXXX',
  'RMQ_SYS_TRANS_HALF_TOPIC',
  'RMQ_SYS_TRANS_OP_HALF_TOPIC',
  'RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC',
  'RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC',
  'TRANS_CHECK_MAX_TIME_TOPIC',
  'SELF_TEST_TOPIC',
  'OFFSET_MOVED_EVENT',
]);

/** RocketMQ: MessageConst.STRING_HASH_SET. Names that brokers or clients set themselves. */
const RESERVED_PROPERTIES: ReadonlySet<string> = new Set(
  (
    'KEYS TAGS WAIT DELAY RETRY_TOPIC ORIGIN_GROUP REAL_TOPIC REAL_QID TRAN_MSG PGROUP MIN_OFFSET MAX_OFFSET BUYER_ID ' +
    'ORIGIN_MESSAGE_ID TRANSFER_FLAG CORRECTION_FLAG MQ2_FLAG RECONSUME_TIME MSG_REGION TRACE_ON UNIQ_KEY EXTEND_UNIQ_INFO ' +
    'MAX_RECONSUME_TIMES CONSUME_START_TIME POP_CK POP_CK_OFFSET 1ST_POP_TIME TRAN_PREPARED_QUEUE_OFFSET DUP_INFO INSTANCE_ID ' +
    'CORRELATION_ID REPLY_TO_CLIENT TTL ARRIVE_TIME PUSH_REPLY_TIME CLUSTER MSG_TYPE INNER_MULTI_QUEUE_OFFSET TIMER_DELAY_MS ' +
    'TIMER_DELAY_SEC TIMER_DELIVER_MS TIMER_ENQUEUE_MS TIMER_DEQUEUE_MS TIMER_ROLL_TIMES TIMER_OUT_MS TIMER_DEL_UNIQKEY ' +
    'TIMER_DELAY_LEVEL __BORNHOST BORN_TIMESTAMP DLQ_ORIGIN_TOPIC DLQ_ORIGIN_MESSAGE_ID __CRC32# _SYS_MSG_PRIORITY_ __LITE_TOPIC'
  ).split(' '),
);

/** @throws GantryError CONFIG_VALUE */
export function checkGroup(group: string): void {
  if (group.trim() === '') throw new GantryError('CONFIG_VALUE', 'a group name is needed');
  if (group.length > GROUP_MAX) {
    throw new GantryError('CONFIG_VALUE', `the group name has ${group.length} characters, ${GROUP_MAX} are allowed`);
  }
  if (!NAME.test(group))
    throw new GantryError('CONFIG_VALUE', `the group name "${group}" may only hold % | a-z A-Z 0-9 _ -`);
}

/** @throws GantryError MESSAGE */
export function checkTopic(topic: string): void {
  if (topic.trim() === '') throw new GantryError('MESSAGE', 'a topic is needed');
  const limit = topic.startsWith('%RETRY%') || topic.startsWith('%DLQ%') ? RETRY_TOPIC_MAX : TOPIC_MAX;
  if (topic.length > limit) {
    throw new GantryError('MESSAGE', `the topic has ${topic.length} characters, ${limit} are allowed`);
  }
  if (!NAME.test(topic)) throw new GantryError('MESSAGE', `the topic "${topic}" may only hold % | a-z A-Z 0-9 _ -`);
}

/** @throws GantryError MESSAGE for a topic that only brokers write to. */
export function checkSendTopic(topic: string): void {
  checkTopic(topic);
  if (FORBIDDEN_TOPICS.has(topic)) throw new GantryError('MESSAGE', `nobody may send to the system topic ${topic}`);
}

/** @throws GantryError MESSAGE */
export function checkUserProperty(name: string, value: string): void {
  if (RESERVED_PROPERTIES.has(name))
    throw new GantryError('MESSAGE', `the property name ${name} is reserved by RocketMQ`);
  checkPropertyText(name, 'property name');
  checkPropertyText(value, `value of the property ${name}`);
}

/** Readers drop pairs with an empty side, and the two separators cannot be escaped. @throws GantryError MESSAGE */
export function checkPropertyText(text: string, what: string): void {
  if (text === '') throw new GantryError('MESSAGE', `the ${what} is empty`);
  if (text.includes('\u0001') || text.includes('\u0002')) {
    throw new GantryError('MESSAGE', `the ${what} holds a character (0x01 or 0x02) that separates properties`);
  }
}
