// The few properties that dispatch looks at, found in one pass over a record's property text, as ranges; nothing is copied.

import { indexOfByte } from '../../common/index.ts';

const NAME_END = 0x01;
const PAIR_END = 0x02;

/** First four bytes of a name as one number. */
function head(name: string): number {
  return (name.charCodeAt(0) << 24) | (name.charCodeAt(1) << 16) | (name.charCodeAt(2) << 8) | name.charCodeAt(3);
}

const TAGS = head('TAGS');
const KEYS = head('KEYS');
const UNIQ = head('UNIQ');
const UNIQ_REST = head('_KEY');
const DELA = head('DELA');
const INNE = head('INNE');
const MULT = head('MULT');
const MULTI_DISPATCH_LENGTH = 'INNER_MULTI_DISPATCH'.length;
const MULTI_QUEUE_OFFSET_LENGTH = 'INNER_MULTI_QUEUE_OFFSET'.length;

/** Ranges of the values; an absent or empty property has an empty range. The last duplicate wins, as in RocketMQ's reader. */
export class RecordProperties {
  tagsStart = 0;
  tagsEnd = 0;
  keysStart = 0;
  keysEnd = 0;
  uniqKeyStart = 0;
  uniqKeyEnd = 0;
  delayStart = 0;
  delayEnd = 0;
  /** Whether there is a property whose name begins with INNER_ (multi-dispatch.ts). */
  hasInner = false;
  /** Of those, if there are any: INNER_MULTI_DISPATCH and INNER_MULTI_QUEUE_OFFSET, or what is as long and begins like them. */
  multiDispatchStart = 0;
  multiDispatchEnd = 0;
  multiOffsetStart = 0;
  multiOffsetEnd = 0;

  scan(bytes: Uint8Array, start: number, end: number): void {
    this.tagsStart = this.tagsEnd = 0;
    this.keysStart = this.keysEnd = 0;
    this.uniqKeyStart = this.uniqKeyEnd = 0;
    this.delayStart = this.delayEnd = 0;
    this.hasInner = false;
    let at = start;
    while (at < end) {
      const nameStart = at;
      while (at < end && bytes[at] !== NAME_END && bytes[at] !== PAIR_END) at++;
      if (at === end) return;
      if (bytes[at] === PAIR_END) {
        at++;
        continue;
      }
      const nameLength = at - nameStart;
      const valueStart = ++at;
      at = indexOfByte(bytes, PAIR_END, at, end);
      if (at > valueStart && (nameLength === 4 || nameLength === 5 || nameLength === 8)) {
        this.#take(bytes, nameStart, nameLength, valueStart, at);
      } else if (nameLength > 8 && bytes[nameStart] === 0x49 && bytes[nameStart + 5] === 0x5f) {
        this.#takeInner(bytes, nameStart, nameLength, valueStart, at);
      }
      at++;
    }
  }

  #takeInner(bytes: Uint8Array, name: number, length: number, valueStart: number, valueEnd: number): void {
    if (word(bytes, name) !== INNE || bytes[name + 4] !== 0x52) return;
    if (!this.hasInner) {
      this.hasInner = true;
      this.multiDispatchStart = this.multiDispatchEnd = 0;
      this.multiOffsetStart = this.multiOffsetEnd = 0;
    }
    if (word(bytes, name + 6) !== MULT) return;
    if (length === MULTI_DISPATCH_LENGTH) {
      this.multiDispatchStart = valueStart;
      this.multiDispatchEnd = valueEnd;
    } else if (length === MULTI_QUEUE_OFFSET_LENGTH) {
      this.multiOffsetStart = valueStart;
      this.multiOffsetEnd = valueEnd;
    }
  }

  #take(bytes: Uint8Array, name: number, length: number, valueStart: number, valueEnd: number): void {
    const first = word(bytes, name);
    if (length === 4) {
      if (first === TAGS) {
        this.tagsStart = valueStart;
        this.tagsEnd = valueEnd;
      } else if (first === KEYS) {
        this.keysStart = valueStart;
        this.keysEnd = valueEnd;
      }
    } else if (length === 8) {
      if (first === UNIQ && word(bytes, name + 4) === UNIQ_REST) {
        this.uniqKeyStart = valueStart;
        this.uniqKeyEnd = valueEnd;
      }
    } else if (first === DELA && bytes[name + 4] === 0x59) {
      this.delayStart = valueStart;
      this.delayEnd = valueEnd;
    }
  }
}

function word(bytes: Uint8Array, at: number): number {
  return (bytes[at]! << 24) | (bytes[at + 1]! << 16) | (bytes[at + 2]! << 8) | bytes[at + 3]!;
}
