// Receipt handles: the text by which a consumer acknowledges a popped message. Clients build them, so a broker takes nothing in them for
// granted. RocketMQ: ExtraInfoUtil (the property POP_CK, the field extraInfo).
//
//   startOffset popTime invisibleTime reviveQueueId retryFlag brokerName queueId [queueOffset]      one space between

import { isJavaInt, isSafeLong } from './java-numbers.ts';
import { POP_ORDER_REVIVE_QUEUE } from './pop-names.ts';

export interface ReceiptHandle {
  /** Queue offset at which the pop began to read; names its check point. */
  startOffset: number;
  /** Ms since the epoch. */
  popTime: number;
  invisibleTimeMs: number;
  /** Queue of the revive topic that holds the check point; POP_ORDER_REVIVE_QUEUE if it was popped in order. */
  reviveQueueId: number;
  /** `RetryFlag`, or whatever stands there. */
  retryFlag: string;
  brokerName: string;
  /** -1 if it is missing or no number. */
  queueId: number;
  /** Of the message; undefined in the short form, or if it is no number. */
  queueOffset: number | undefined;
}

/** Words that a broker needs, and those of a handle of an ordered pop. */
const WORDS = 6;
const ORDER_WORDS = 4;

/**
 * Reads a handle. Answers what is wrong with one that cannot be read, in RocketMQ's words. Nothing is wrong with an odd queue or offset at its
 * end: a broker goes by the request's own fields. `orderFirst`: who reads it asks first whether it is of an ordered pop, as RocketMQ does for a
 * change of the invisible time. RocketMQ: takes numbers beyond 2^53, too.
 */
export function parseReceiptHandle(text: string, orderFirst = false): ReceiptHandle | string {
  const parts = text.split(' ');
  // As Java's split: nothing comes of what is empty at the end, but for a text without any blank.
  while (parts.length > 1 && parts.at(-1) === '') parts.pop();
  const { length } = parts;
  if (orderFirst && length < ORDER_WORDS) return `getReviveQid fail, extraInfoStrs length ${length}`;
  if (length < WORDS) return `getBrokerName fail, extraInfoStrs length ${length}`;
  const [start, popTime, invisible, revive, retryFlag, brokerName, queueId, queueOffset] = parts as [
    string,
    string,
    string,
    string,
    string,
    string,
    string | undefined,
    string | undefined,
  ];
  for (const long of [start, popTime, invisible]) if (!isSafeLong(long)) return `For input string: "${long}"`;
  if (!isJavaInt(revive)) return `For input string: "${revive}"`;
  return {
    startOffset: Number(start),
    popTime: Number(popTime),
    invisibleTimeMs: Number(invisible),
    reviveQueueId: Number(revive),
    retryFlag,
    brokerName,
    queueId: queueId !== undefined && isJavaInt(queueId) ? Number(queueId) : -1,
    queueOffset: queueOffset !== undefined && isSafeLong(queueOffset) ? Number(queueOffset) : undefined,
  };
}

export function receiptHandleText(handle: ReceiptHandle): string {
  const { startOffset, popTime, invisibleTimeMs, reviveQueueId, retryFlag, brokerName, queueId, queueOffset } = handle;
  const text = `${startOffset} ${popTime} ${invisibleTimeMs} ${reviveQueueId} ${retryFlag} ${brokerName} ${queueId}`;
  return queueOffset === undefined ? text : `${text} ${queueOffset}`;
}

/** Whether its message was popped in order. */
export function isOrderHandle(handle: ReceiptHandle): boolean {
  return handle.reviveQueueId === POP_ORDER_REVIVE_QUEUE;
}
