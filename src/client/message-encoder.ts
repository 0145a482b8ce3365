// A Message as it goes on the wire: property text, body (compressed if large), flags, and the header fields of a send. The header of
// 310 and 320 has one-letter names (RocketMQ: SendMessageRequestHeaderV2):
//
//   a producerGroup | b topic | c defaultTopic | d defaultTopicQueueNums | e queueId | f sysFlag | g bornTimestamp | h flag
//   i properties | j reconsumeTimes | k unitMode | l maxReconsumeTimes | m batch | n brokerName

import { GantryError } from '../common/index.ts';
import {
  type BatchInput,
  encodeBatch,
  MAX_PROPERTIES_BYTES,
  PropertyName,
  propertiesTextInJavaOrder,
} from '../message/index.ts';
import type { ExtFields } from '../remoting/index.ts';
import { COMPRESSED_ZLIB, compressBody } from './compression.ts';
import type { Message } from './message-types.ts';
import type { MessageQueue } from './queues.ts';
import { checkPropertyText, checkSendTopic, checkUserProperty } from './validators.ts';

/** A message (or a whole batch) made ready once and sent as often as it takes. */
export interface EncodedMessage {
  topic: string;
  /** UNIQ_KEY; of a batch, the members' joined by commas. */
  msgId: string;
  body: Uint8Array;
  sysFlag: number;
  flag: number;
  /** Property text of the header. */
  properties: string;
  batch: boolean;
  /** An answer to a request (SEND_REPLY_MESSAGE_V2): the broker pushes it to who asked. */
  reply: boolean;
  /** Only for a message that a consumer sends back. */
  reconsumeTimes: number;
  maxReconsumeTimes: number | undefined;
}

/** Limits of the encoder. */
export interface EncodeLimits {
  /** Most body bytes, before compression. */
  maxMessageSize: number;
  /** Bodies of at least this many bytes are compressed. */
  compressOverBytes: number;
}

/** What the client itself adds to a message: a half message's marks, a request's address. */
export interface SystemFields {
  properties: Readonly<Record<string, string>>;
  /** Bits of the sysFlag. */
  sysFlag?: number;
  reply?: boolean;
}

/** RocketMQ: a client's property map is a HashMap of the default capacity. */
const CLIENT_MAP_CAPACITY = 16;

function bodyBytes(message: Message, limits: EncodeLimits): Uint8Array {
  const body = typeof message.body === 'string' ? Buffer.from(message.body, 'utf8') : message.body;
  if (body.length === 0) throw new GantryError('MESSAGE', 'the body is empty; brokers accept at least one byte');
  if (body.length > limits.maxMessageSize) {
    throw new GantryError('MESSAGE', `the body has ${body.length} bytes, maxMessageSize is ${limits.maxMessageSize}`);
  }
  return body;
}

const INT_MAX = 0x7fff_ffff;

/** Keys as they are in the property. */
export function keysText(keys: string | readonly string[]): string {
  return typeof keys === 'string' ? keys : keys.join(' ');
}

function delayProperties(message: Message, properties: Map<string, string>): void {
  const { delayLevel, delayMs, delaySeconds, deliverAt } = message;
  const given = [delayLevel, delayMs, delaySeconds, deliverAt].filter((value) => value !== undefined);
  if (given.length > 1) {
    throw new GantryError('MESSAGE', 'only one of delayLevel, delayMs, delaySeconds and deliverAt may be given');
  }
  const value = given[0];
  if (value === undefined) return;
  if (!Number.isSafeInteger(value) || value < 0) {
    throw new GantryError('MESSAGE', `the delay is ${value}; it must be a whole number that is not negative`);
  }
  if (delayLevel !== undefined) {
    if (value > 0) properties.set(PropertyName.DELAY, String(value));
  } else if (delayMs !== undefined) {
    properties.set(PropertyName.TIMER_DELAY_MS, String(value));
  } else if (delaySeconds !== undefined) {
    properties.set(PropertyName.TIMER_DELAY_SEC, String(value));
  } else {
    properties.set(PropertyName.TIMER_DELIVER_MS, String(value));
  }
}

/** Whether a message asks to be delivered later. */
export function isDelayed(message: Message): boolean {
  const { delayLevel, delayMs, delaySeconds, deliverAt } = message;
  return Boolean(delayLevel) || delayMs !== undefined || delaySeconds !== undefined || deliverAt !== undefined;
}

/** The property map of a message, its new id included. @throws GantryError MESSAGE */
export function messageProperties(message: Message, uniqueKey: string): Map<string, string> {
  const properties = new Map<string, string>();
  if (message.tags !== undefined && message.tags !== '') {
    checkPropertyText(message.tags, 'tag');
    properties.set(PropertyName.TAGS, message.tags);
  }
  const keys = keysText(message.keys ?? '');
  if (keys !== '') {
    checkPropertyText(keys, 'keys text');
    properties.set(PropertyName.KEYS, keys);
  }
  if (message.shardingKey !== undefined) {
    checkPropertyText(message.shardingKey, 'sharding key');
    properties.set(PropertyName.SHARDING_KEY, message.shardingKey);
  }
  properties.set(PropertyName.WAIT, String(message.waitStoreMsgOK ?? true));
  for (const [name, value] of Object.entries(message.properties ?? {})) {
    checkUserProperty(name, value);
    properties.set(name, value);
  }
  const { priority } = message;
  if (priority !== undefined) {
    if (!Number.isInteger(priority) || priority < 0 || priority > INT_MAX) {
      throw new GantryError('MESSAGE', `the priority is ${priority}; it must be a whole number from 0 to ${INT_MAX}`);
    }
    properties.set(PropertyName.PRIORITY, String(priority));
  }
  delayProperties(message, properties);
  properties.set(PropertyName.UNIQ_KEY, uniqueKey);
  return properties;
}

/** The text of a property map. @throws GantryError MESSAGE when it is longer than a record can hold. */
export function propertyText(properties: ReadonlyMap<string, string>): string {
  const text = propertiesTextInJavaOrder(properties, CLIENT_MAP_CAPACITY);
  const bytes = Buffer.byteLength(text);
  if (bytes > MAX_PROPERTIES_BYTES) {
    throw new GantryError('MESSAGE', `the properties have ${bytes} bytes, ${MAX_PROPERTIES_BYTES} are allowed`);
  }
  return text;
}

/** Makes one message ready to send. @throws GantryError MESSAGE naming the limit that it breaks. */
export async function encodeMessage(
  message: Message,
  uniqueKey: string,
  limits: EncodeLimits,
  system?: SystemFields,
): Promise<EncodedMessage> {
  checkSendTopic(message.topic);
  const body = bodyBytes(message, limits);
  const map = messageProperties(message, uniqueKey);
  if (system !== undefined) for (const [name, value] of Object.entries(system.properties)) map.set(name, value);
  const properties = propertyText(map);
  const compress = body.length >= limits.compressOverBytes;
  return {
    topic: message.topic,
    msgId: uniqueKey,
    body: compress ? await compressBody(body) : body,
    sysFlag: (compress ? COMPRESSED_ZLIB : 0) | (system?.sysFlag ?? 0),
    flag: message.flag ?? 0,
    properties,
    batch: false,
    reply: system?.reply ?? false,
    reconsumeTimes: 0,
    maxReconsumeTimes: undefined,
  };
}

/**
 * Makes messages ready to be sent as one batch: one topic, no delay, the same waitStoreMsgOK, at most maxMessageSize bytes together.
 * Members are never compressed. @throws GantryError MESSAGE
 */
export function encodeBatchMessage(
  messages: readonly Message[],
  nextId: () => string,
  limits: EncodeLimits,
): EncodedMessage {
  const first = messages[0];
  if (first === undefined) throw new GantryError('MESSAGE', 'the batch is empty');
  checkSendTopic(first.topic);
  if (first.topic.startsWith('%RETRY%')) throw new GantryError('MESSAGE', 'a batch cannot go to a retry topic');
  const wait = first.waitStoreMsgOK ?? true;
  const ids: string[] = [];
  const members: BatchInput[] = [];
  for (const message of messages) {
    if (message.topic !== first.topic) {
      throw new GantryError('MESSAGE', `a batch has one topic, this one has ${first.topic} and ${message.topic}`);
    }
    if ((message.waitStoreMsgOK ?? true) !== wait) {
      throw new GantryError('MESSAGE', 'all members of a batch must agree on waitStoreMsgOK');
    }
    if (isDelayed(message)) {
      throw new GantryError('MESSAGE', 'members of a batch cannot be delayed');
    }
    const id = nextId();
    ids.push(id);
    const body = bodyBytes(message, limits);
    const properties = Buffer.from(propertyText(messageProperties(message, id)), 'utf8');
    members.push({ flag: message.flag ?? 0, body, properties });
  }
  const body = encodeBatch(members);
  if (body.length > limits.maxMessageSize) {
    throw new GantryError(
      'MESSAGE',
      `the batch has ${body.length} bytes, maxMessageSize is ${limits.maxMessageSize}; send it in parts`,
    );
  }
  const properties = new Map([
    [PropertyName.WAIT as string, String(wait)],
    [PropertyName.UNIQ_KEY as string, nextId()],
  ]);
  return {
    topic: first.topic,
    msgId: ids.join(','),
    body,
    sysFlag: 0,
    flag: 0,
    properties: propertyText(properties),
    batch: true,
    reply: false,
    reconsumeTimes: 0,
    maxReconsumeTimes: undefined,
  };
}

/** What the header of a send says beside the message. */
export interface SendHeaderInput {
  producerGroup: string;
  defaultTopic: string;
  defaultTopicQueueNums: number;
  queue: MessageQueue;
  bornTimestamp: number;
}

/** Header fields of SEND_MESSAGE_V2 (310) and SEND_BATCH_MESSAGE (320). */
export function sendHeader(message: EncodedMessage, input: SendHeaderInput): ExtFields {
  return {
    a: input.producerGroup,
    b: message.topic,
    c: input.defaultTopic,
    d: input.defaultTopicQueueNums,
    e: input.queue.queueId,
    f: message.sysFlag,
    g: input.bornTimestamp,
    h: message.flag,
    i: message.properties,
    j: message.reconsumeTimes,
    k: false,
    l: message.maxReconsumeTimes,
    m: message.batch,
    n: input.queue.brokerName,
  };
}
