// The forms that a transactional message takes: the half message, which waits in RMQ_SYS_TRANS_HALF_TOPIC; its copy when it has been asked
// about; the message that a commit stores; and what is parked when nobody ever answered. RocketMQ: TransactionalMessageBridge,
// EndTransactionProcessor#endMessageTransaction, DefaultTransactionalMessageCheckListener.

import { PropertyName, type StoredMessage, SysFlag } from '../../message/index.ts';
import { applyDelayLevel, copyOf, delayLevelOf, type InternalMessage } from '../internal-put.ts';
import { TRANS_CHECK_MAX_TIME_TOPIC, TRANS_HALF_TOPIC } from '../topic/topic-names.ts';

/** The group whose offsets say how far open transactions and the records of ended ones have been looked at. */
export const TRANS_GROUP = 'CID_RMQ_SYS_TRANS';

const TIMED = [
  PropertyName.TIMER_DELAY_SEC,
  PropertyName.TIMER_DELAY_MS,
  PropertyName.TIMER_DELIVER_MS,
  PropertyName.TIMER_DEL_UNIQKEY,
];

/**
 * Whether a send asks for a transaction. RocketMQ: clients before 4.6.1 send a committed message that failed to be consumed with its
 * TRAN_MSG; a delay level tells it. The last such send, to the dead letters, has none and becomes a half message there, for good.
 */
export function isTransactional(properties: ReadonlyMap<string, string>, retry: boolean, reconsumed: number): boolean {
  if (properties.get(PropertyName.TRAN_MSG)?.toLowerCase() !== 'true') return false;
  return !(reconsumed > 0 && (retry || delayLevelOf(properties) > 0));
}

/**
 * Why a half message is refused; undefined if it is not. RocketMQ: lets the delay act on the half message, which is then discarded or
 * goes round until nobody asks any more; the consumer gets nothing.
 */
export function halfFault(properties: ReadonlyMap<string, string>): string | undefined {
  const timed = delayLevelOf(properties) > 0 ? PropertyName.DELAY : TIMED.find((name) => properties.has(name));
  if (timed === undefined) return undefined;
  return `a transactional message cannot be delayed: send it without the property ${timed}`;
}

/** Turns a message into its half. */
export function makeHalf(message: InternalMessage): void {
  const { properties } = message;
  const uniqKey = properties.get(PropertyName.UNIQ_KEY);
  if (uniqKey !== undefined && uniqKey !== '') properties.set(PropertyName.TRANSACTION_ID, uniqKey);
  properties.set(PropertyName.REAL_TOPIC, message.topic);
  properties.set(PropertyName.REAL_QID, String(message.queueId));
  message.sysFlag &= ~SysFlag.TRANSACTION_MASK;
  message.topic = TRANS_HALF_TOPIC;
  message.queueId = 0;
}

/** Where a half message belongs and whose it is. */
export interface HalfOrigin {
  readonly topic: string;
  readonly queueId: number;
  readonly group: string;
}

/** The origin of a half message; undefined if it does not tell, and then nobody can end it. */
export function originOf(message: StoredMessage): HalfOrigin | undefined {
  const topic = message.properties.get(PropertyName.REAL_TOPIC);
  const queueId = message.properties.get(PropertyName.REAL_QID) ?? '';
  const group = message.properties.get(PropertyName.PGROUP);
  if (topic === undefined || topic === TRANS_HALF_TOPIC || group === undefined || !/^\d{1,9}$/.test(queueId)) {
    return undefined;
  }
  return { topic, queueId: Number(queueId), group };
}

/** The message that a commit stores. RocketMQ keeps TRAN_MSG, PGROUP and __transactionId__ in it. */
export function committed(half: StoredMessage, origin: HalfOrigin, maxDelayLevel: number): InternalMessage {
  const message = copyOf(half);
  message.topic = origin.topic;
  message.queueId = origin.queueId;
  message.sysFlag = (message.sysFlag & ~SysFlag.TRANSACTION_MASK) | SysFlag.TRANSACTION_COMMIT;
  message.preparedTransactionOffset = half.physicalOffset;
  message.properties.delete(PropertyName.REAL_TOPIC);
  message.properties.delete(PropertyName.REAL_QID);
  message.waitStoreMsgOK = false;
  // None has one that came by this broker; a store that was taken over may.
  applyDelayLevel(message, maxDelayLevel);
  return message;
}

/** A half message once more, at the end of its queue. RocketMQ: renewHalfMessageInner, which loses the flag. */
export function renewed(half: StoredMessage, properties: Record<string, string>): InternalMessage {
  const message = copyOf(half);
  message.preparedTransactionOffset = 0;
  message.waitStoreMsgOK = false;
  for (const [name, value] of Object.entries(properties)) message.properties.set(name, value);
  return message;
}

/** A half message as it lies where nobody asks about it any more. */
export function parked(half: StoredMessage): InternalMessage {
  const message = renewed(half, {});
  message.topic = TRANS_CHECK_MAX_TIME_TOPIC;
  message.queueId = 0;
  return message;
}

/** How often a half message has been asked about. */
export function checkTimesOf(half: StoredMessage): number {
  const text = half.properties.get(PropertyName.TRANSACTION_CHECK_TIMES) ?? '';
  return /^\d{1,9}$/.test(text) ? Number(text) : 0;
}

/** Ms that a half message asks to be left alone; undefined if it does not. RocketMQ: what is no number counts as the time-out. */
export function immunityOf(half: StoredMessage, timeOutMs: number): number | undefined {
  const text = half.properties.get(PropertyName.CHECK_IMMUNITY_TIME);
  if (text === undefined) return undefined;
  return /^\d{1,12}$/.test(text) ? Number(text) * 1000 : timeOutMs;
}

/** The topic, message and group of a half message, for a line in the log. */
export function nameOf(half: StoredMessage): string {
  const group = half.properties.get(PropertyName.PGROUP);
  const topic = half.properties.get(PropertyName.REAL_TOPIC);
  return `half message ${half.messageId} at ${half.queueOffset}, topic ${topic}, group ${group}`;
}
