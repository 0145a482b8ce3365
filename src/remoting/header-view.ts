// A frame's header as ranges over the bytes that it came in: no object and no string for a field that nobody asks for.
// The JSON scanner (header-scanner.ts) and the binary decoder (binary-header.ts) fill the same object, again and again.

import { GantryError, viewOf } from '../common/index.ts';
import { LANGUAGE_NAMES, LanguageCode } from './codes.ts';
import { unescapeText } from './json-unescape.ts';
import { setOwn } from './own-property.ts';

/** More fields than this are parsed into `parsed`; a real request has at most about twenty. */
export const MAX_RANGES = 64;

const EMPTY = Buffer.alloc(0);
/** A longer buffer is not kept beyond its frame. */
const KEPT_BYTES = 65_536;
/** Digits that a number can collect without losing any. */
const SAFE_DIGITS = 15;
const I64_MAX = 0x7fff_ffff_ffff_ffffn;

/**
 * The header of one frame, filled anew for each frame by a codec and valid as long as `buffer` is. `count` fields, each a key
 * range and a value range in `buffer`; an `escaped` value holds JSON escapes. A header outside the scanner's grammar lies in
 * `parsed` instead (then `count` is -1). `get` and its relatives work on both. Only codecs write the fields.
 */
export class HeaderView {
  code = 0;
  opaque = 0;
  flag = 0;
  version = 0;
  /** LanguageCode number; -1 for a language that has none. */
  languageCode: number = LanguageCode.JAVA;
  buffer: Buffer = EMPTY;
  /** Number of extFields in the ranges; -1 when they are in `parsed`. */
  count = 0;
  /** Four numbers a field: keyStart, keyEnd, valueStart, valueEnd. */
  readonly ranges: Int32Array = new Int32Array(4 * MAX_RANGES);
  /** 1 where the value needs unescaping. */
  readonly escaped: Uint8Array = new Uint8Array(MAX_RANGES);
  parsed: Record<string, string> | undefined = undefined;
  /** The remark's bytes; -1 when there is none or it is in `remarkText`. */
  remarkStart = -1;
  remarkEnd = -1;
  remarkEscaped = false;
  remarkText: string | undefined = undefined;
  /** Where the frame's header word lies in `buffer`. */
  start = 0;
  /** What `#words` is over: frames mostly come in one and the same buffer. */
  #viewed: Buffer = EMPTY;
  #words: DataView = viewOf(EMPTY);

  /** A DataView over exactly `buffer`. For codecs. */
  wordsOf(buffer: Buffer): DataView {
    if (buffer !== this.#viewed) {
      this.#viewed = buffer;
      this.#words = viewOf(buffer);
    }
    return this.#words;
  }

  /** Sets all fields to what an empty header means. For codecs. */
  reset(buffer: Buffer): void {
    this.buffer = buffer;
    this.code = 0;
    this.opaque = 0;
    this.flag = 0;
    this.version = 0;
    this.languageCode = LanguageCode.JAVA;
    this.count = 0;
    this.parsed = undefined;
    this.remarkStart = -1;
    this.remarkEscaped = false;
    this.remarkText = undefined;
  }

  /** Lets go of the bytes, so that a kept view keeps no chunk alive. */
  release(): void {
    this.buffer = EMPTY;
    if (this.count > 0) this.count = 0;
    if (this.#viewed.length > KEPT_BYTES) this.wordsOf(EMPTY);
  }

  /** LanguageCode name; `OTHER` for one that is not in the table. */
  get language(): string {
    return LANGUAGE_NAMES[this.languageCode] ?? 'OTHER';
  }

  get remark(): string | undefined {
    if (this.remarkStart < 0) return this.remarkText;
    return this.#text(this.remarkStart, this.remarkEnd, this.remarkEscaped);
  }

  /** Number of the field's range, -1 if absent or in `parsed`. The last of duplicate keys wins. `name` is ASCII. */
  indexOf(name: string): number {
    const { ranges, buffer } = this;
    const length = name.length;
    for (let i = this.count - 1; i >= 0; i--) {
      const start = ranges[4 * i]!;
      if (ranges[4 * i + 1]! - start !== length) continue;
      let k = 0;
      while (k < length && buffer[start + k] === name.charCodeAt(k)) k++;
      if (k === length) return i;
    }
    return -1;
  }

  /** The text of the value in range `index`. */
  valueAt(index: number): string {
    return this.#text(this.ranges[4 * index + 2]!, this.ranges[4 * index + 3]!, this.escaped[index] === 1);
  }

  /** The text of a field; undefined if absent. The last of duplicate keys wins. */
  get(name: string): string | undefined {
    if (this.parsed !== undefined) return Object.hasOwn(this.parsed, name) ? this.parsed[name] : undefined;
    const index = this.indexOf(name);
    return index < 0 ? undefined : this.valueAt(index);
  }

  /** @throws GantryError HEADER (responseCode 1) if absent. */
  required(name: string): string {
    const value = this.get(name);
    if (value === undefined) throw missing(name);
    return value;
  }

  /** i32. @throws GantryError HEADER if absent or not a number. */
  int(name: string): number {
    const value = this.#number(name);
    if (value === undefined) throw missing(name);
    return checkedInt(name, value);
  }

  /** i32, or `fallback` if absent. @throws GantryError HEADER if not a number. */
  intOr(name: string, fallback: number): number {
    const value = this.#number(name);
    return value === undefined ? fallback : checkedInt(name, value);
  }

  /** i64 as a number; beyond 2^53 it is rounded. @throws GantryError HEADER if absent or not a number. */
  long(name: string): number {
    const value = this.#number(name);
    if (value === undefined) throw missing(name);
    return value;
  }

  /** As `long`, or `fallback` if absent. @throws GantryError HEADER if not a number. */
  longOr(name: string, fallback: number): number {
    return this.#number(name) ?? fallback;
  }

  /** Java's parseBoolean: only "true" (any case) is true. */
  bool(name: string, fallback: boolean): boolean {
    const value = this.get(name);
    return value === undefined ? fallback : value.toLowerCase() === 'true';
  }

  /** All fields as an object (copies). */
  toObject(): Record<string, string> {
    const object: Record<string, string> = {};
    if (this.parsed !== undefined) {
      for (const key of Object.keys(this.parsed)) setOwn(object, key, this.parsed[key]!);
      return object;
    }
    for (let i = 0; i < this.count; i++) {
      setOwn(object, this.#text(this.ranges[4 * i]!, this.ranges[4 * i + 1]!, false), this.valueAt(i));
    }
    return object;
  }

  #text(start: number, end: number, escaped: boolean): string {
    return escaped ? unescapeText(this.buffer, start, end) : this.buffer.toString('utf8', start, end);
  }

  /** The value of a decimal field; undefined if absent. */
  #number(name: string): number | undefined {
    if (this.parsed !== undefined) {
      const text = this.get(name);
      return text === undefined ? undefined : numberOf(name, text);
    }
    const index = this.indexOf(name);
    if (index < 0) return undefined;
    let at = this.ranges[4 * index + 2]!;
    const end = this.ranges[4 * index + 3]!;
    const negative = this.buffer[at] === 0x2d;
    if (negative) at++;
    if (at === end || end - at > SAFE_DIGITS) return numberOf(name, this.valueAt(index));
    let value = 0;
    for (; at < end; at++) {
      const digit = this.buffer[at]! - 0x30;
      if (digit < 0 || digit > 9) return numberOf(name, this.valueAt(index));
      value = value * 10 + digit;
    }
    return negative ? -value : value;
  }
}

function missing(name: string): GantryError {
  return new GantryError('HEADER', missingText(name), { responseCode: 1 });
}

function notANumber(name: string, text: string): GantryError {
  return new GantryError('HEADER', notANumberText(name, text), { responseCode: 1 });
}

/** RocketMQ: RemotingCommand#decodeCommandCustomHeader, which logs this and fails later, with a NullPointerException in most handlers. */
export function missingText(name: string): string {
  return `the custom field <${name}> is null`;
}

/** The words of Java's NumberFormatException, and the field, which it does not name. */
export function notANumberText(name: string, text: string): string {
  return `the custom field <${name}> is not a number of its size: For input string: "${text.slice(0, 64)}"`;
}

/** Long.parseLong for what is not a short run of digits. */
function numberOf(name: string, text: string): number {
  if (!/^[+-]?[0-9]+$/.test(text) || text.length > 40) throw notANumber(name, text);
  const exact = BigInt(text.startsWith('+') ? text.slice(1) : text);
  if (exact > I64_MAX || exact < -I64_MAX - 1n) throw notANumber(name, text);
  return Number(exact);
}

function checkedInt(name: string, value: number): number {
  if (value > 0x7fffffff || value < -0x80000000) throw notANumber(name, String(value));
  return value;
}
