// A message whose pop was not acknowledged is stored in the retry topic of its topic and group, with its properties and one more try counted.
// RocketMQ: PopReviveService#reviveRetry, #rePutCK. There a copy with a delay level is delayed once more; here it comes when its time is over.

import { errorText } from '../../../common/index.ts';
import {
  CRC_PROPERTY_BYTES,
  innerMessages,
  isInnerBatch,
  MAX_PROPERTIES_BYTES,
  normalTopicOf,
  type PopCheckPoint,
  PropertyName,
  parseProperties,
  popRetryTopic,
  propertiesTextInJavaOrder,
  rePutTimesOf,
  reviveTimeOf,
  type StoredMessage,
  SysFlag,
} from '../../../message/index.ts';
import { PutMessageStatus, PutResult, putStatusName } from '../../../store/index.ts';
import { copyOf, type InternalMessage, toPutRequest } from '../../internal-put.ts';
import { TopicConfig } from '../../topic/topic-config.ts';
import { RETRY_GROUP_TOPIC_PREFIX } from '../../topic/topic-names.ts';
import type { ReviveState } from './revive-parts.ts';

/** Instead of the end of a record: the store takes nothing now; it never takes this. */
export const LATER = -1;
export const NEVER = -2;
/** RocketMQ: ckRewriteIntervalsInSeconds. */
const INTERVALS_S = [10, 20, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200];
/** Capacity of the map that RocketMQ puts the properties into, which decides on their order. */
const MAP_CAPACITY = 16;
const FIRST_POP_TIME = '1ST_POP_TIME';

export class RetryPut {
  readonly #state: ReviveState;
  readonly #result = new PutResult();

  constructor(state: ReviveState) {
    this.#state = state;
  }

  /** Stores a copy in the retry topic, if that is ready; where it ends in the log, or LATER, or NEVER. */
  revive(ck: PopCheckPoint, message: StoredMessage): number {
    const topic = this.retryTopicOf(ck);
    if (!this.isReady(ck)) return LATER;
    const queueId = this.#queueOf(message, this.#state.parts.topics.select(topic)!.writeQueueNums);
    let end = NEVER;
    for (const one of this.#membersOf(message)) {
      end = this.#copy(ck, one, topic, queueId);
      if (end < 0) return end;
    }
    if (end > 0) this.#state.onLanded(ck);
    return end;
  }

  /** RocketMQ: puts a record with a batch as it is, which no retry topic takes. */
  #membersOf(message: StoredMessage): StoredMessage[] {
    if (!isInnerBatch(message) || (message.sysFlag & SysFlag.COMPRESSED) !== 0) return [message];
    try {
      return innerMessages(message, message.body);
    } catch (error) {
      const fault = errorText(error);
      this.#state.seldom.warn(`batch ${message.topic}`, `revive: a batch of ${message.topic} is none: ${fault}`);
      return [];
    }
  }

  #copy(ck: PopCheckPoint, message: StoredMessage, topic: string, queueId: number): number {
    const { storeHost } = this.#state.parts;
    const copy = copyOf(message);
    const { properties } = copy;
    if (message.reconsumeTimes === 0 || !properties.has(FIRST_POP_TIME))
      properties.set(FIRST_POP_TIME, String(ck.popTime));
    properties.set(PropertyName.ORIGIN_GROUP, ck.group);
    copy.topic = topic;
    copy.queueId = queueId;
    copy.bornHost = storeHost;
    copy.preparedTransactionOffset = 0;
    if (!ck.suspend) copy.reconsumeTimes++;
    const text = propertiesTextInJavaOrder(inJavaOrder(properties), MAP_CAPACITY);
    if (this.#fits(text)) return this.#put(copy, text);
    // RocketMQ: no retry topic takes it, now or ever.
    return this.#put(copy, propertiesTextInJavaOrder(inJavaOrder(copyOf(message).properties), MAP_CAPACITY));
  }

  /** Whether a record has room for such properties; if not, the message comes back without the marks of this pop. */
  #fits(text: string): boolean {
    const { enabledAppendPropCRC } = this.#state.parts.store.config;
    const most = MAX_PROPERTIES_BYTES - (enabledAppendPropCRC ? CRC_PROPERTY_BYTES : 0);
    return 3 * text.length <= most || Buffer.byteLength(text) <= most;
  }

  /** Whether an earlier life of the broker has stored that copy. @throws GantryError IO. */
  async isDone(ck: PopCheckPoint, message: StoredMessage): Promise<boolean> {
    const { earlier, parts } = this.#state;
    const topic = this.retryTopicOf(ck);
    const queues = parts.topics.select(topic)?.writeQueueNums ?? 0;
    if (queues === 0) return false;
    const tries = message.reconsumeTimes + (ck.suspend ? 0 : 1);
    return await earlier.has(topic, this.#queueOf(message, queues), message, tries, reviveTimeOf(ck));
  }

  #queueOf(message: StoredMessage, queues: number): number {
    return this.#state.parts.config.useSeparateRetryQueue && message.queueId < queues ? message.queueId : 0;
  }

  /** RocketMQ: a message of any retry topic stays in it. */
  retryTopicOf(ck: PopCheckPoint): string {
    if (ck.topic.startsWith(RETRY_GROUP_TOPIC_PREFIX)) return ck.topic;
    return popRetryTopic(ck.topic, ck.group, this.#state.parts.config.enableRetryTopicV2);
  }

  /**
   * Stores the check point again for some of its messages, so that the queue can go on without it; where it ends in the log, or LATER, or
   * NEVER. `failed`: it could not be revived, and is tried after the next of RocketMQ's intervals.
   */
  putAgain(ck: PopCheckPoint, messages: readonly number[], reviveQueueId: number, failed: boolean): number {
    const now = this.#state.parts.clock.now();
    const times = rePutTimesOf(ck);
    const startOffset = messages.reduce((a, b) => Math.min(a, b), Number.MAX_SAFE_INTEGER);
    const mostMs = (this.#state.parts.config.timerMaxDelaySec - 1) * 1000;
    const waitMs = Math.min(INTERVALS_S[Math.min(times, INTERVALS_S.length - 1)]! * 1000, mostMs);
    // RocketMQ: counts from the old time, which may be long over, and tries several times in a row then.
    const invisibleTimeMs = failed ? Math.max(ck.invisibleTimeMs, now - ck.popTime) + waitMs : ck.invisibleTimeMs;
    const again: PopCheckPoint = {
      ...ck,
      bitMap: 0,
      // Acknowledgements name it by where it begins: what waits for some keeps that.
      startOffset: failed ? startOffset : ck.startOffset,
      num: messages.length,
      offsetDiffs: messages.map((offset) => offset - (failed ? startOffset : ck.startOffset)),
      invisibleTimeMs,
      rePutTimes: failed ? String(times + 1) : ck.rePutTimes,
      reviveOffset: 0,
    };
    const { checkPoints } = this.#state.parts;
    if (checkPoints.checkPoint(again, reviveQueueId)) return checkPoints.logEnd;
    const { status } = checkPoints.result;
    const isLater = status !== PutMessageStatus.WHEEL_TIMER_MSG_ILLEGAL && status !== PutMessageStatus.MESSAGE_ILLEGAL;
    if (isLater) this.#state.seldom.warn('later', `revive waits: ${putStatusName(status)} ${checkPoints.reason}`);
    return isLater ? LATER : NEVER;
  }

  /** Whether RocketMQ's tries are used up, and what is left is to be dropped. */
  isExhausted(ck: PopCheckPoint): boolean {
    return this.#state.parts.config.skipWhenCKRePutReachMaxTimes && rePutTimesOf(ck) >= INTERVALS_S.length;
  }

  #put(message: InternalMessage, properties: string): number {
    const { seldom, parts } = this.#state;
    const request = toPutRequest(message, parts.storeHost);
    request.properties = Buffer.from(properties, 'utf8');
    request.propertiesEnd = request.properties.length;
    const result = this.#result;
    parts.store.put(request, result);
    switch (result.status) {
      case PutMessageStatus.PUT_OK:
        return result.wroteOffset + result.wroteBytes;
      case PutMessageStatus.MESSAGE_ILLEGAL:
      case PutMessageStatus.PROPERTIES_SIZE_EXCEEDED:
        seldom.warn(`never ${message.topic}`, `revive: ${message.topic} cannot take a message: ${result.reason}`);
        return NEVER;
      default:
        seldom.warn('later', `revive waits: ${putStatusName(result.status)} ${result.reason}`);
        return LATER;
    }
  }

  /** Whether the retry topic of a check point is there, durable, and has the queues that it should have. */
  isReady(ck: PopCheckPoint): boolean {
    const topic = this.retryTopicOf(ck);
    return !this.#state.parts.topics.isUnsaved(topic) && this.#missing(topic, ck.group) === 0;
  }

  /** Makes it so, and gives the group its offsets; false if that cannot be done now. */
  async makeReady(ck: PopCheckPoint): Promise<boolean> {
    const { offsets, topics } = this.#state.parts;
    const topic = this.retryTopicOf(ck);
    const wanted = this.#missing(topic, ck.group);
    for (let queueId = 0; queueId < wanted; queueId++) {
      if (offsets.query(ck.group, topic, queueId) < 0) offsets.commit('revive', ck.group, topic, queueId, 0);
    }
    try {
      if (wanted === 0) await topics.durable(topic);
      else {
        const made = new TopicConfig(topic, { readQueueNums: wanted, writeQueueNums: wanted });
        await topics.update([{ topic: made, attributes: new Map() }]);
      }
    } catch (error) {
      this.#state.seldom.warn('topic', `revive waits, ${topic} cannot be made: ${errorText(error)}`);
      return false;
    }
    return true;
  }

  /** The queues that the retry topic should have, if it has others or is not there; else 0. */
  #missing(topic: string, group: string): number {
    const { config, topics } = this.#state.parts;
    const queues = topics.select(topic)?.writeQueueNums ?? 0;
    let wanted = 1;
    if (config.useSeparateRetryQueue) wanted = topics.select(normalTopicOf(topic, group))?.writeQueueNums ?? 1;
    return queues < 1 || (config.useSeparateRetryQueue && queues !== wanted) ? wanted : 0;
  }
}

/** The properties as RocketMQ's map has them before it makes a text of them: the tag first, then in the order of a decoded message. */
function inJavaOrder(properties: ReadonlyMap<string, string>): Map<string, string> {
  const ordered = new Map<string, string>();
  const tag = properties.get(PropertyName.TAGS);
  if (tag !== undefined) ordered.set(PropertyName.TAGS, tag);
  const own = new Map(properties);
  const last = [FIRST_POP_TIME, PropertyName.ORIGIN_GROUP].map((name) => [name, own.get(name)] as const);
  for (const [name] of last) own.delete(name);
  for (const [name, value] of parseProperties(propertiesTextInJavaOrder(own))) ordered.set(name, value);
  for (const [name, value] of last) if (value !== undefined) ordered.set(name, value);
  return ordered;
}
