// One message of the timer's topic, read where it lies: without an object of its own, and with no text but its real topic's, which is kept
// for the next one.

import { copyBytes, javaStringHash, sameBytes, viewOf } from '../../common/index.ts';
import {
  type NameBytes,
  nameBytes,
  PropertyName,
  PropertyTable,
  RecordOutcome,
  RecordView,
  readRecord,
  toMessage,
  Verify,
} from '../../message/index.ts';
import { isNotAllowedSendTopic, TIMER_TOPIC, topicNameFault } from '../topic/topic-names.ts';

/** Digits of a time. */
const MOST_DIGITS = 15;
const MINUS = 0x2d;
const ZERO = 0x30;
const NO_BYTES = new Uint8Array(0);
const TIMER_TOPIC_BYTES: Uint8Array = Buffer.from(TIMER_TOPIC, 'utf8');
const REAL_TOPIC = nameBytes(PropertyName.REAL_TOPIC);
const TIMER_DEL_UNIQKEY = nameBytes(PropertyName.TIMER_DEL_UNIQKEY);

/** Where a message is to be delivered. */
export interface RealTopic {
  readonly name: string;
  readonly bytes: Uint8Array;
  /** Java hash of the name. */
  readonly hash: number;
  /** Whether a message may be delivered to it. */
  readonly isGood: boolean;
}

/** What the wheel needs of a message. */
export interface SlotMessage {
  readonly realTopic: RealTopic;
  /** Whether it only deletes another one. */
  readonly isOrder: boolean;
  readonly physicalOffset: number;
  readonly storeSize: number;
}

/** That of a message without one. */
export const NO_TOPIC: RealTopic = { name: '', bytes: NO_BYTES, hash: 0, isGood: false };

export class TimerRecord implements SlotMessage {
  readonly record: RecordView = new RecordView();
  /** In the order of the record; whoever delivers it changes them. */
  readonly properties: PropertyTable = new PropertyTable();
  realTopic: RealTopic = NO_TOPIC;
  isOrder = false;
  bytes: Uint8Array = NO_BYTES;
  #view = viewOf(NO_BYTES);
  #start = 0;
  #lastTopic: RealTopic = NO_TOPIC;

  /** Reads the record at `bytes[start, end)`, which stay as they are while this is used; false if there is none. */
  open(bytes: Uint8Array, start: number, end: number): boolean {
    if (bytes !== this.bytes) {
      this.bytes = bytes;
      this.#view = viewOf(bytes);
    }
    this.#start = start;
    const { properties, record } = this;
    if (readRecord(bytes, this.#view, start, end, Verify.STRUCTURE, record) !== RecordOutcome.RECORD) return false;
    properties.read(bytes, record.propertiesStart, record.propertiesEnd);
    this.isOrder = properties.find(TIMER_DEL_UNIQKEY) >= 0;
    this.realTopic = this.#topicAt(properties.find(REAL_TOPIC));
    return true;
  }

  get queueOffset(): number {
    return this.record.queueOffset;
  }

  get physicalOffset(): number {
    return this.record.physicalOffset;
  }

  get storeSize(): number {
    return this.record.totalSize;
  }

  get storeTimestamp(): number {
    return this.record.storeTimestamp;
  }

  /** As StoredMessage has it; for a line that names the message. */
  get messageId(): string {
    return toMessage(this.bytes, this.record).messageId;
  }

  get isOfTimer(): boolean {
    const { topicEnd, topicStart } = this.record;
    const { length } = TIMER_TOPIC_BYTES;
    return topicEnd - topicStart === length && sameBytes(this.bytes, topicStart, TIMER_TOPIC_BYTES, 0, length);
  }

  /** A copy of the record's bytes. */
  copy(): Uint8Array {
    return copyBytes(this.bytes, this.#start, this.#start + this.record.totalSize);
  }

  /** A property as a whole number; NaN if it is none, of more than 15 digits, or not there. */
  number(name: NameBytes): number {
    const index = this.properties.find(name);
    if (index < 0) return Number.NaN;
    const source = this.properties.sourceOf(index);
    const end = this.properties.valueEnd(index);
    const start = this.properties.valueStart(index);
    const isNegative = source[start] === MINUS;
    let at = isNegative ? start + 1 : start;
    if (at === end || end - at > MOST_DIGITS) return Number.NaN;
    let value = 0;
    for (; at < end; at++) {
      const digit = source[at]! - ZERO;
      if (digit < 0 || digit > 9) return Number.NaN;
      value = value * 10 + digit;
    }
    return isNegative ? -value : value;
  }

  #topicAt(index: number): RealTopic {
    if (index < 0) return NO_TOPIC;
    const source = this.properties.sourceOf(index);
    const start = this.properties.valueStart(index);
    const length = this.properties.valueEnd(index) - start;
    const last = this.#lastTopic;
    if (last.bytes.length === length && sameBytes(source, start, last.bytes, 0, length)) return last;
    const name = this.properties.valueText(index);
    const isGood = name !== TIMER_TOPIC && !isNotAllowedSendTopic(name) && topicNameFault(name) === undefined;
    // Not the bytes that lie there, which may be no UTF-8.
    const bytes = Buffer.from(name, 'utf8');
    const topic = { name, bytes, hash: javaStringHash(name), isGood };
    this.#lastTopic = topic;
    return topic;
  }
}
