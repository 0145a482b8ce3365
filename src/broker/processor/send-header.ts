// The header fields of a send, read in one pass over the scanned ranges. Codes 310 and 320 carry one-letter names, code 10 long ones
// (docs/formats/remoting.md); a header that the scanner left to JSON.parse is asked by name. RocketMQ: SendMessageRequestHeader(V2).

import { GantryError } from '../../common/index.ts';
import { type HeaderView, missingText, notANumberText, unescapeInto } from '../../remoting/index.ts';

/** Long names in the order of the letters a to n. */
const LONG_NAMES = [
  'producerGroup',
  'topic',
  'defaultTopic',
  'defaultTopicQueueNums',
  'queueId',
  'sysFlag',
  'bornTimestamp',
  'flag',
  'properties',
  'reconsumeTimes',
  'unitMode',
  'maxReconsumeTimes',
  'batch',
] as const;
const LETTERS = LONG_NAMES.map((_, i) => String.fromCharCode(97 + i));
const A = 0x61;
const LETTER_F = 0x66;
const SLOTS = LONG_NAMES.length;

/** Digits that are read here; a number can collect so many without losing any. */
const MAX_DIGITS = 15;
const PART_DIGITS = 9;
const PART = 10 ** PART_DIGITS;

const PRODUCER_GROUP = 0;
const TOPIC = 1;
const DEFAULT_TOPIC = 2;
const DEFAULT_TOPIC_QUEUE_NUMS = 3;
const QUEUE_ID = 4;
const SYS_FLAG = 5;
const BORN_TIMESTAMP = 6;
const FLAG = 7;
const PROPERTIES = 8;
const RECONSUME_TIMES = 9;
const UNIT_MODE = 10;
const MAX_RECONSUME_TIMES = 11;
const BATCH = 12;

/** One send's header, filled anew for each request. Text is made only where it is asked for. */
export class SendHeader {
  queueId = 0;
  sysFlag = 0;
  bornTimestamp = 0;
  flag = 0;
  reconsumeTimes = 0;
  batch = false;
  /** The property text is `properties[propertiesStart, propertiesEnd)`, unescaped; borrowed until the next `read`. */
  properties: Uint8Array = new Uint8Array(0);
  propertiesStart = 0;
  propertiesEnd = 0;

  #view!: HeaderView;
  #names: readonly string[] = LETTERS;
  /** Range index of each field, -1 if absent. */
  readonly #slots = new Int32Array(SLOTS);
  #scratch = new Uint8Array(4096);

  /** Reads the header. @throws GantryError HEADER (answered with code 1) when a required field is missing or no number. */
  read(view: HeaderView, v2: boolean): void {
    this.#view = view;
    this.#names = v2 ? LETTERS : LONG_NAMES;
    const slots = this.#slots;
    // A loop: `fill` is a call out of the compiled code.
    for (let slot = 0; slot < SLOTS; slot++) slots[slot] = -1;
    if (view.parsed === undefined) {
      const { ranges, buffer, count } = view;
      if (v2) {
        for (let i = 0; i < count; i++) {
          const start = ranges[4 * i]!;
          const slot = buffer[start]! - A;
          if (ranges[4 * i + 1]! - start === 1 && slot >= 0 && slot < SLOTS) slots[slot] = i;
        }
      } else {
        for (let slot = 0; slot < SLOTS; slot++) slots[slot] = view.indexOf(LONG_NAMES[slot]!);
      }
    }
    this.queueId = this.#int(QUEUE_ID);
    this.sysFlag = this.#int(SYS_FLAG);
    this.bornTimestamp = this.#long(BORN_TIMESTAMP);
    this.flag = this.#int(FLAG);
    this.reconsumeTimes = this.#has(RECONSUME_TIMES) ? this.#int(RECONSUME_TIMES) : 0;
    if (v2) this.#checkUnused();
    this.batch = this.#isTrue(BATCH);
    this.#readProperties();
  }

  /** RocketMQ: of the short names all numbers are read at once, those that nobody asks for as well. */
  #checkUnused(): void {
    if (this.#has(DEFAULT_TOPIC_QUEUE_NUMS)) this.#int(DEFAULT_TOPIC_QUEUE_NUMS);
    if (this.#has(MAX_RECONSUME_TIMES)) this.#int(MAX_RECONSUME_TIMES);
  }

  get producerGroup(): string {
    return this.#required(PRODUCER_GROUP);
  }

  get topic(): string {
    return this.#required(TOPIC);
  }

  /** Start of the topic's bytes in the header's buffer; -1 if they are escaped or parsed (then use `topic`). */
  get topicStart(): number {
    const slot = this.#slots[TOPIC]!;
    return slot < 0 || this.#view.escaped[slot] === 1 ? -1 : this.#view.ranges[4 * slot + 2]!;
  }

  get topicEnd(): number {
    return this.#view.ranges[4 * this.#slots[TOPIC]! + 3]!;
  }

  get buffer(): Uint8Array {
    return this.#view.buffer;
  }

  get defaultTopic(): string {
    return this.#required(DEFAULT_TOPIC);
  }

  get defaultTopicQueueNums(): number {
    return this.#int(DEFAULT_TOPIC_QUEUE_NUMS);
  }

  get unitMode(): boolean {
    return this.#isTrue(UNIT_MODE);
  }

  get maxReconsumeTimes(): number | undefined {
    return this.#has(MAX_RECONSUME_TIMES) ? this.#int(MAX_RECONSUME_TIMES) : undefined;
  }

  #has(slot: number): boolean {
    return this.#view.parsed === undefined ? this.#slots[slot]! >= 0 : this.#view.get(this.#names[slot]!) !== undefined;
  }

  #text(slot: number): string {
    const index = this.#slots[slot]!;
    return index >= 0 ? this.#view.valueAt(index) : (this.#view.get(this.#names[slot]!) ?? '');
  }

  /** RocketMQ: Boolean.parseBoolean. The plain "false" that nearly every send carries makes no text. */
  #isTrue(slot: number): boolean {
    const index = this.#slots[slot]!;
    if (index >= 0 && this.#view.buffer[this.#view.ranges[4 * index + 2]!] === LETTER_F) return false;
    return this.#has(slot) && this.#text(slot).toLowerCase() === 'true';
  }

  #required(slot: number): string {
    if (!this.#has(slot)) throw this.#missing(slot);
    return this.#text(slot);
  }

  #int(slot: number): number {
    const value = this.#long(slot);
    if (value !== (value | 0)) {
      throw new GantryError('HEADER', notANumberText(this.#names[slot]!, String(value)), { responseCode: 1 });
    }
    return value;
  }

  /** A decimal number; short runs of digits are read from the bytes. */
  #long(slot: number): number {
    const index = this.#slots[slot]!;
    if (index < 0) {
      if (this.#view.parsed === undefined) throw this.#missing(slot);
      return this.#view.long(this.#names[slot]!);
    }
    const { ranges, buffer } = this.#view;
    const start = ranges[4 * index + 2]!;
    const end = ranges[4 * index + 3]!;
    const length = end - start;
    if (length === 0) throw this.#missing(slot);
    if (length > MAX_DIGITS) return this.#view.long(this.#names[slot]!);
    // In two parts that are 32-bit numbers each.
    const middle = length > PART_DIGITS ? end - PART_DIGITS : start;
    const high = digitsIn(buffer, start, middle);
    const low = digitsIn(buffer, middle, end);
    if (high < 0 || low < 0) return this.#view.long(this.#names[slot]!);
    return high * PART + low;
  }

  #readProperties(): void {
    const index = this.#slots[PROPERTIES]!;
    if (index < 0) {
      const text = this.#view.parsed === undefined ? '' : this.#text(PROPERTIES);
      this.properties = Buffer.from(text, 'utf8');
      this.propertiesStart = 0;
      this.propertiesEnd = this.properties.length;
      return;
    }
    const { ranges, buffer, escaped } = this.#view;
    const start = ranges[4 * index + 2]!;
    const end = ranges[4 * index + 3]!;
    if (escaped[index] === 0) {
      this.properties = buffer;
      this.propertiesStart = start;
      this.propertiesEnd = end;
      return;
    }
    if (this.#scratch.length < end - start) this.#scratch = new Uint8Array(2 * (end - start));
    this.properties = this.#scratch;
    this.propertiesStart = 0;
    this.propertiesEnd = unescapeInto(buffer, start, end, this.#scratch, 0);
  }

  #missing(slot: number): GantryError {
    return new GantryError('HEADER', missingText(this.#names[slot]!), { responseCode: 1 });
  }
}

/** The value of at most nine decimal digits, -1 if other bytes are among them. */
function digitsIn(buffer: Uint8Array, start: number, end: number): number {
  let value = 0;
  for (let i = start; i < end; i++) {
    const digit = buffer[i]! - 0x30;
    if (digit < 0 || digit > 9) return -1;
    value = (Math.imul(value, 10) + digit) | 0;
  }
  return value;
}
