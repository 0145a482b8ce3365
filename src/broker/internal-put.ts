// Messages that the broker itself stores: copies for a retry or dead-letter topic, delayed messages that fall due, replies. Rare beside
// what clients send, so they are built from objects; what is stored is the same as if they had come over the wire.

import { hostField, isCounted, PropertyName, propertiesTextInJavaOrder, type StoredMessage } from '../message/index.ts';
import { type MessageStore, PutMessageStatus, PutRequest, PutResult } from '../store/index.ts';
import { SCHEDULE_TOPIC } from './topic/topic-names.ts';

/** Properties that ask for a time of delivery. */
const TIMER_WISHES = [PropertyName.TIMER_DELIVER_MS, PropertyName.TIMER_DELAY_SEC, PropertyName.TIMER_DELAY_MS];

/** A message to store. */
export interface InternalMessage {
  topic: string;
  queueId: number;
  flag: number;
  sysFlag: number;
  bornTimestamp: number;
  /** Host field of the client that made it. */
  bornHost: Uint8Array;
  reconsumeTimes: number;
  preparedTransactionOffset: number;
  body: Uint8Array;
  properties: Map<string, string>;
  /** False: the answer does not wait for a flush. */
  waitStoreMsgOK: boolean;
}

/** A copy of a stored message, to be changed and stored again; the check sum of its properties counts for the original only. */
export function copyOf(message: StoredMessage): InternalMessage {
  const properties = new Map(message.properties);
  properties.delete(PropertyName.CRC32);
  const at = message.bornHost.lastIndexOf(':');
  const ip = message.bornHost.slice(0, at).replace(/^\[|\]$/g, '');
  return {
    topic: message.topic,
    queueId: message.queueId,
    flag: message.flag,
    sysFlag: message.sysFlag,
    bornTimestamp: message.bornTimestamp,
    bornHost: hostField(ip, Number(message.bornHost.slice(at + 1))),
    reconsumeTimes: message.reconsumeTimes,
    preparedTransactionOffset: message.preparedTransactionOffset,
    body: message.body,
    properties,
    waitStoreMsgOK: true,
  };
}

/** The request of a message; its topic, queue and properties as they are. */
export function toPutRequest(message: InternalMessage, storeHost: Uint8Array): PutRequest {
  const request = new PutRequest();
  request.topic = message.topic;
  request.topicBytes = Buffer.from(message.topic, 'utf8');
  request.queueId = message.queueId;
  request.flag = message.flag;
  request.sysFlag = message.sysFlag;
  request.bornTimestamp = message.bornTimestamp;
  request.bornHost = message.bornHost;
  request.storeHost = storeHost;
  request.reconsumeTimes = message.reconsumeTimes;
  request.preparedTransactionOffset = message.preparedTransactionOffset;
  request.body = message.body;
  request.bodyEnd = message.body.length;
  request.properties = Buffer.from(propertiesTextInJavaOrder(message.properties), 'utf8');
  request.propertiesEnd = request.properties.length;
  request.waitStoreMsgOK = message.waitStoreMsgOK;
  return request;
}

/**
 * Turns a message with a delay level into one of the schedule topic, where it waits for its time: RocketMQ's put hook
 * (HookUtils#transformDelayLevelMessage). Does nothing to a message without one, or to half of a transaction.
 */
export function applyDelayLevel(message: InternalMessage, maxLevel: number): void {
  const wanted = delayLevelOf(message.properties);
  if (wanted <= 0 || !isCounted(message.sysFlag)) return;
  // RocketMQ: checkIfTimerMessage: the level counts.
  for (const name of TIMER_WISHES) message.properties.delete(name);
  const level = Math.min(wanted, maxLevel);
  if (level !== wanted) message.properties.set(PropertyName.DELAY, String(level));
  message.properties.set(PropertyName.REAL_TOPIC, message.topic);
  message.properties.set(PropertyName.REAL_QID, String(message.queueId));
  message.topic = SCHEDULE_TOPIC;
  message.queueId = level - 1;
}

/** The value of DELAY; 0 if there is none, or none that is a Java int. */
export function delayLevelOf(properties: ReadonlyMap<string, string>): number {
  return parseDelayLevel(properties.get(PropertyName.DELAY)) ?? 0;
}

/** A delay level; 0 if there is none, undefined if it is no Java int. */
export function parseDelayLevel(text: string | undefined): number | undefined {
  return text === undefined ? 0 : parseJavaInt(text);
}

/** A number as Java's Integer#parseInt reads it (of ASCII digits); undefined if it is none. */
export function parseJavaInt(text: string): number | undefined {
  const value = /^[+-]?\d+$/.test(text) ? Number(text) : Number.NaN;
  return (value | 0) === value ? value | 0 : undefined;
}

/** Called once with the status of a put: of the append if that was refused, else of the wait for durability. */
export type PutDone = (status: PutMessageStatus, result: PutResult, reason: string) => void;

/** Stores a message and calls back when it is as durable as the store's settings promise. Answers what came of the append. */
export function putInternal(
  store: MessageStore,
  message: InternalMessage,
  storeHost: Uint8Array,
  done: PutDone,
): PutResult {
  const result = new PutResult();
  const request = toPutRequest(message, storeHost);
  store.put(request, result);
  if (result.status !== PutMessageStatus.PUT_OK) {
    done(result.status, result, result.reason);
    return result;
  }
  store.whenDurable(result.wroteOffset + result.wroteBytes, request.waitStoreMsgOK, (status, reason) => {
    done(status, result, reason);
  });
  return result;
}
