// A due message is stored in its real topic, or once more in the timer's if it goes round. RocketMQ: TimerMessageStore#convert, #doPut.

import { copyBytes } from '../../common/index.ts';
import { type NameBytes, nameBytes, PropertyName } from '../../message/index.ts';
import { PutMessageStatus, PutRequest, PutResult, putStatusName } from '../../store/index.ts';
import { TIMER_TOPIC } from '../topic/topic-names.ts';
import type { TimerRecord } from './timer-record.ts';
import type { TimerState } from './timer-state.ts';

/** Instead of the end of a record: the message is left out; it must be tried again. */
export const DROPPED = 0;
export const RETRY = -1;
/** Most digits of a queue, and of a time. */
const QUEUE_DIGITS = 9;
const TIME_DIGITS = 20;
const CRC32 = nameBytes(PropertyName.CRC32);
const REAL_QID = nameBytes(PropertyName.REAL_QID);
const TIMER_ROLL_TIMES = nameBytes(PropertyName.TIMER_ROLL_TIMES);

/** A property that each delivery sets. */
class Stamp {
  readonly name: NameBytes;
  readonly pair: Buffer;
  readonly #valueAt: number;

  constructor(name: string) {
    this.name = nameBytes(name);
    this.#valueAt = this.name.bytes.length + 1;
    this.pair = Buffer.alloc(this.#valueAt + TIME_DIGITS, `${name}\u0001`);
  }

  /** The end of the pair with a value of few digits. */
  set(value: string): number {
    return this.#valueAt + this.pair.write(value, this.#valueAt, 'latin1');
  }
}

export class TimerDelivery {
  readonly #state: TimerState;
  readonly #enqueued = new Stamp(PropertyName.TIMER_ENQUEUE_MS);
  readonly #dequeued = new Stamp(PropertyName.TIMER_DEQUEUE_MS);
  readonly #timerTopic: Uint8Array = Buffer.from(TIMER_TOPIC, 'utf8');
  readonly #request = new PutRequest();
  readonly #result = new PutResult();
  #text: Uint8Array = new Uint8Array(1024);

  constructor(state: TimerState) {
    this.#state = state;
    const request = this.#request;
    request.storeHost = state.storeHost;
    request.waitStoreMsgOK = false;
    request.isOwn = true;
  }

  /** Where the record that was written ends in the CommitLog; else DROPPED or RETRY. Changes the properties of `message`. */
  deliver(message: TimerRecord, enqueueMs: string, roll: boolean): number {
    const state = this.#state;
    const request = this.#request;
    const result = this.#result;
    const { realTopic, record } = message;
    request.topic = TIMER_TOPIC;
    request.topicBytes = this.#timerTopic;
    request.queueId = record.queueId;
    if (!roll) {
      if (!realTopic.isGood || !hasQueue(message)) {
        const queue = message.properties.get(REAL_QID) ?? '';
        state.setAside(message, `its real topic is ${realTopic.name}, queue ${queue}`);
        return DROPPED;
      }
      // The stored text keeps REAL_TOPIC and REAL_QID, as RocketMQ's does.
      request.topic = realTopic.name;
      request.topicBytes = realTopic.bytes;
      request.queueId = message.number(REAL_QID);
    }
    this.#stamp(message, enqueueMs, roll);
    request.flag = record.flag;
    request.sysFlag = record.sysFlag;
    request.bornTimestamp = record.bornTimestamp;
    request.bornHost = copyBytes(message.bytes, record.bornHostStart, record.bornHostEnd);
    request.reconsumeTimes = record.reconsumeTimes;
    request.body = message.bytes;
    request.bodyStart = record.bodyStart;
    request.bodyEnd = record.bodyEnd;
    result.reason = '';
    state.store.put(request, result);
    switch (result.status) {
      case PutMessageStatus.PUT_OK:
        state.changed = true;
        if (roll) state.figures.rolled++;
        else state.figures.delivered++;
        return result.wroteOffset + result.wroteBytes;
      case PutMessageStatus.MESSAGE_ILLEGAL:
      case PutMessageStatus.PROPERTIES_SIZE_EXCEEDED:
        state.setAside(message, `${request.topic} cannot take it: ${result.reason}`);
        return DROPPED;
      case PutMessageStatus.UNKNOWN_ERROR:
        if (!state.config.timerSkipUnknownError) return RETRY;
        state.setAside(message, result.reason);
        return DROPPED;
      default:
        state.seldom.warn('put', `timer messages wait: ${putStatusName(result.status)} ${result.reason}`);
        return RETRY;
    }
  }

  /** The properties with the marks of a delivery, as the text of the request. */
  #stamp(message: TimerRecord, enqueueMs: string, roll: boolean): void {
    const request = this.#request;
    const enqueued = this.#enqueued;
    const dequeued = this.#dequeued;
    const { properties } = message;
    // It counts for the original only.
    const crc = properties.find(CRC32);
    if (crc >= 0) properties.remove(crc);
    properties.putPair(enqueued.name, enqueued.pair, enqueued.set(enqueueMs));
    if (roll) {
      const times = message.number(TIMER_ROLL_TIMES);
      properties.put(TIMER_ROLL_TIMES, Buffer.from(String((Number.isNaN(times) ? 0 : times) + 1)));
    }
    properties.putPair(dequeued.name, dequeued.pair, dequeued.set(String(this.#state.clock.now())));
    const bytes = properties.bytes();
    if (bytes > this.#text.length) this.#text = new Uint8Array(2 * bytes);
    request.properties = this.#text;
    request.propertiesEnd = properties.write(this.#text, 0);
  }

  /** The first of some deliveries, by where they end in the CommitLog, that could not be written; -1 when all are. */
  async firstLost(ends: readonly number[]): Promise<number> {
    const { store, seldom } = this.#state;
    const end = ends.reduce((a, b) => Math.max(a, b), 0);
    if (end === 0) return -1;
    const [status, reason] = await new Promise<[PutMessageStatus, string]>((resolve) =>
      store.whenDurable(end, false, (...outcome) => resolve(outcome)),
    );
    if (status === PutMessageStatus.PUT_OK) return -1;
    seldom.warn('lost', `timer messages that were due are not written and are delivered again: ${reason}`);
    const { committed } = store.watermarks;
    return ends.findIndex((one) => one > committed);
  }
}

/** RocketMQ: Integer#parseInt, which takes a sign as well. */
function hasQueue({ properties }: TimerRecord): boolean {
  const index = properties.find(REAL_QID);
  if (index < 0) return false;
  const bytes = properties.sourceOf(index);
  const start = properties.valueStart(index);
  const end = properties.valueEnd(index);
  if (end - start > QUEUE_DIGITS) return false;
  for (let at = start; at < end; at++) if (bytes[at]! < 0x30 || bytes[at]! > 0x39) return false;
  return true;
}
