// The JSON header, scanned in place: one pass over its bytes leaves ranges in a HeaderView. It knows the JSON that clients write;
// whatever else is legal (numbers as strings, fractions, nested values, escaped keys) goes to the lenient parser, which gives the same
// answer for all that both understand (header-scanner.test.ts). docs/formats/remoting.md has the header's table.
//
// Strings are searched four bytes at a time: `words` is a DataView over exactly `buffer`, read little-endian, so that the first byte
// is the lowest one.

import { GantryError } from '../common/index.ts';
import { LANGUAGE_NAMES, LanguageCode } from './codes.ts';
import { type HeaderView, MAX_RANGES } from './header-view.ts';
import { type JsonValue, parseJson } from './json.ts';
import { HEX_VALUE, SHORT_ESCAPE } from './json-unescape.ts';
import { toJson } from './json-writer.ts';
import { setOwn } from './own-property.ts';

const QUOTE = 0x22;
const COMMA = 0x2c;
const MINUS = 0x2d;
const ZERO = 0x30;
const COLON = 0x3a;
const BACKSLASH = 0x5c;
const OPEN = 0x7b;
const CLOSE = 0x7d;
const LETTER_F = 0x66;
const LETTER_N = 0x6e;
const LETTER_T = 0x74;
const LETTER_U = 0x75;

/** Longer headers must be of the kind that the scanner knows: the parser would hold up everybody else. */
const MAX_PARSED_BYTES = 128 * 1024;
/** Longer runs of digits are left to the parser. */
const MAX_DIGITS = 19;

/** Four bytes of a name as the word that they are read as. */
function word(text: string): number {
  return Buffer.from(text).readInt32LE(0);
}
const CODE = word('code');
const FLAG = word('flag');
const OPAQ = word('opaq');
const AQUE = word('aque');
const REMA = word('rema');
const MARK = word('mark');
const VERS = word('vers');
const SION = word('sion');
const LANG = word('lang');
const UAGE = word('uage');
const EXTF = word('extF');
const IELD = word('ield');
const ELDS = word('elds');
const LETTER_KEY_REST = word('\0":"');
const TRUE = Buffer.from('true');
const FALSE = Buffer.from('false');
const NULL = Buffer.from('null');
const LANGUAGES = LANGUAGE_NAMES.map((name) => Buffer.from(name));

/**
 * Decodes the JSON header `buffer[start, end)` into `view`.
 * @throws GantryError FRAME if it is not a header.
 */
export function decodeJsonHeader(buffer: Buffer, start: number, end: number, view: HeaderView): void {
  view.reset(buffer);
  if (scanJsonHeader(buffer, start, end, view)) return;
  view.reset(buffer);
  parseJsonHeader(buffer, start, end, view);
}

/** Fills `view` and returns true, or returns false where the header is not of the kind that it knows. */
export function scanJsonHeader(buffer: Buffer, start: number, end: number, view: HeaderView): boolean {
  const words = view.wordsOf(buffer);
  let i = skipSpace(buffer, start, end);
  if (i >= end || buffer[i] !== OPEN) return false;
  i = skipSpace(buffer, i + 1, end);
  if (i < end && buffer[i] === CLOSE) return skipSpace(buffer, i + 1, end) === end;
  for (;;) {
    if (i >= end || buffer[i] !== QUOTE) return false;
    const keyStart = i + 1;
    const packed = scanString(buffer, words, keyStart, end);
    if (packed < 0 || (packed & 1) === 1) return false;
    const keyEnd = packed >> 1;
    i = skipSpace(buffer, keyEnd + 1, end);
    if (i >= end || buffer[i] !== COLON) return false;
    i = skipSpace(buffer, i + 1, end);
    if (i >= end) return false;
    i = scanMember(buffer, words, keyStart, keyEnd, i, end, view);
    if (i < 0) return false;
    i = skipSpace(buffer, i, end);
    if (i >= end) return false;
    if (buffer[i] === CLOSE) return skipSpace(buffer, i + 1, end) === end;
    if (buffer[i] !== COMMA) return false;
    i = skipSpace(buffer, i + 1, end);
  }
}

/** Reads the value at `i` of one top-level key; where it ended, or -1. */
function scanMember(
  buffer: Buffer,
  words: DataView,
  keyStart: number,
  keyEnd: number,
  i: number,
  end: number,
  view: HeaderView,
): number {
  const length = keyEnd - keyStart;
  if (length < 4) return skipScalar(buffer, words, i, end);
  // A name of 4 to 8 bytes is told by its first and its last four.
  const first = words.getInt32(keyStart, true);
  const last = words.getInt32(keyEnd - 4, true);
  switch (length) {
    case 4:
      if (first === CODE || first === FLAG) {
        const after = skipInteger(buffer, i, end);
        if (after < 0) return -1;
        const value = integerIn(buffer, i, after);
        if (value !== (value | 0)) return -1;
        if (first === CODE) view.code = value;
        else view.flag = value;
        return after;
      }
      break;
    case 6:
      if (first === OPAQ && last === AQUE) {
        const after = skipInteger(buffer, i, end);
        if (after < 0) return -1;
        const value = integerIn(buffer, i, after);
        if (value !== (value | 0)) return -1;
        view.opaque = value;
        return after;
      }
      if (first === REMA && last === MARK) return scanRemark(buffer, words, i, end, view);
      break;
    case 7:
      if (first === VERS && last === SION) {
        const after = skipInteger(buffer, i, end);
        if (after < 0) return -1;
        const value = integerIn(buffer, i, after);
        if (value !== (value | 0)) return -1;
        view.version = value;
        return after;
      }
      break;
    case 8:
      if (first === LANG && last === UAGE) {
        if (buffer[i] !== QUOTE) return -1;
        const packed = scanString(buffer, words, i + 1, end);
        if (packed < 0 || (packed & 1) === 1) return -1;
        view.languageCode = languageAt(buffer, i + 1, packed >> 1);
        return (packed >> 1) + 1;
      }
      break;
    case 9:
      if (first === EXTF && last === ELDS && words.getInt32(keyStart + 4, true) === IELD) {
        view.count = 0;
        if (buffer[i] === OPEN) return scanFields(buffer, words, i + 1, end, view);
        return buffer[i] === LETTER_N ? skipWord(buffer, i, end, NULL) : -1;
      }
      break;
  }
  return skipScalar(buffer, words, i, end);
}

/** Reads extFields from behind their brace; where they ended, or -1. */
function scanFields(buffer: Buffer, words: DataView, start: number, end: number, view: HeaderView): number {
  const { ranges, escaped } = view;
  let count = 0;
  let i = skipSpace(buffer, start, end);
  if (i < end && buffer[i] === CLOSE) return i + 1;
  for (;;) {
    if (i >= end || buffer[i] !== QUOTE || count === MAX_RANGES) return -1;
    const at = 4 * count;
    ranges[at] = i + 1;
    // The names in sends are one letter each, and then `x":"` is one word.
    if (i + 5 < end && isLetterKey(words.getInt32(i + 1, true))) {
      ranges[at + 1] = i + 2;
      i += 4;
    } else {
      const keyEnd = endOfKey(buffer, words, i + 1, end);
      if (keyEnd < 0) return -1;
      ranges[at + 1] = keyEnd;
      i = skipSpace(buffer, keyEnd + 1, end);
      if (i >= end || buffer[i] !== COLON) return -1;
      i = skipSpace(buffer, i + 1, end);
      if (i >= end) return -1;
    }
    if (buffer[i] === QUOTE) {
      ranges[at + 2] = i + 1;
      const packed = scanString(buffer, words, i + 1, end);
      if (packed < 0) return -1;
      ranges[at + 3] = packed >> 1;
      escaped[count] = packed & 1;
      i = (packed >> 1) + 1;
    } else {
      if (buffer[i] === LETTER_N) return -1;
      ranges[at + 2] = i;
      i = skipScalar(buffer, words, i, end);
      if (i < 0) return -1;
      ranges[at + 3] = i;
      escaped[count] = 0;
    }
    count++;
    if (i < end && buffer[i] !== COMMA) i = skipSpace(buffer, i, end);
    if (i >= end) return -1;
    if (buffer[i] === CLOSE) {
      view.count = count;
      return i + 1;
    }
    if (buffer[i] !== COMMA) return -1;
    i++;
    if (i < end && buffer[i] !== QUOTE) i = skipSpace(buffer, i, end);
  }
}

/** Whether four bytes are a letter, the quote that ends a name, a colon, and the quote that begins a value. */
function isLetterKey(four: number): boolean {
  const letter = four & 0xff;
  return (four & ~0xff) === LETTER_KEY_REST && letter !== QUOTE && letter !== BACKSLASH;
}

/** Where the closing quote of a name is; -1 if there is none, or an escape. */
function endOfKey(buffer: Buffer, words: DataView, start: number, end: number): number {
  const packed = scanString(buffer, words, start, end);
  return packed < 0 || (packed & 1) === 1 ? -1 : packed >> 1;
}

function scanRemark(buffer: Buffer, words: DataView, i: number, end: number, view: HeaderView): number {
  view.remarkStart = -1;
  if (buffer[i] === LETTER_N) return skipWord(buffer, i, end, NULL);
  if (buffer[i] !== QUOTE) return -1;
  const packed = scanString(buffer, words, i + 1, end);
  if (packed < 0) return -1;
  view.remarkStart = i + 1;
  view.remarkEnd = packed >> 1;
  view.remarkEscaped = (packed & 1) === 1;
  return (packed >> 1) + 1;
}

function skipSpace(buffer: Buffer, start: number, end: number): number {
  let i = start;
  while (i < end) {
    const byte = buffer[i]!;
    if (byte > 0x20 || (byte !== 0x20 && byte !== 0x0a && byte !== 0x0d && byte !== 0x09)) break;
    i++;
  }
  return i;
}

/**
 * Finds the end of a string from behind its opening quote: twice the closing quote's position, plus 1 if there were escapes;
 * -1 if it does not end or has an escape that means nothing. Control characters are taken as they are, as fastjson does.
 */
function scanString(buffer: Buffer, words: DataView, start: number, end: number): number {
  let escapes = 0;
  let i = start;
  for (;;) {
    i = findSpecial(buffer, words, i, end);
    if (i >= end) return -1;
    if (buffer[i] === QUOTE) return (i << 1) | escapes;
    escapes = 1;
    i = skipEscape(buffer, i, end);
    if (i < 0) return -1;
  }
}

/** Where the escape that begins at `i` ends; -1 if it means nothing. */
function skipEscape(buffer: Buffer, i: number, end: number): number {
  if (i + 6 <= end && buffer[i + 1] === LETTER_U) {
    const digits =
      HEX_VALUE[buffer[i + 2]!]! | HEX_VALUE[buffer[i + 3]!]! | HEX_VALUE[buffer[i + 4]!]! | HEX_VALUE[buffer[i + 5]!]!;
    return digits < 0 ? -1 : i + 6;
  }
  return i + 2 > end || SHORT_ESCAPE[buffer[i + 1]!] === 0 ? -1 : i + 2;
}

const QUOTES = 0x22222222;
const BACKSLASHES = 0x5c5c5c5c;
const LOW_BITS = 0x01010101;
const HIGH_BITS = 0x80808080 | 0;

/** Position of the first quote or backslash at or behind `start`; at or beyond `end` if there is none before it. */
function findSpecial(buffer: Buffer, words: DataView, start: number, end: number): number {
  let i = start;
  for (const last = buffer.length - 4; i <= last && i < end; i += 4) {
    const four = words.getInt32(i, true);
    const q = four ^ QUOTES;
    const b = four ^ BACKSLASHES;
    // The high bit of each byte that is zero in q or b; of bytes above the first such one nothing is known.
    const hits = (((q - LOW_BITS) & ~q) | ((b - LOW_BITS) & ~b)) & HIGH_BITS;
    if (hits !== 0) return i + ((31 - Math.clz32(hits & (0 - hits))) >> 3);
  }
  while (i < end && buffer[i] !== QUOTE && buffer[i] !== BACKSLASH) i++;
  return i;
}

/** Where an integer without needless zeros ends; -1 if there is none, or more follows than a delimiter. */
function skipInteger(buffer: Buffer, start: number, end: number): number {
  let i = start;
  if (i < end && buffer[i] === MINUS) i++;
  const first = i;
  while (i < end && buffer[i]! >= ZERO && buffer[i]! <= 0x39) i++;
  const digits = i - first;
  if (digits === 0 || digits > MAX_DIGITS) return -1;
  if (buffer[first] === ZERO && (digits > 1 || first > start)) return -1;
  return isDelimiter(buffer, i, end) ? i : -1;
}

/** The value of the digits; rounded where it is large. */
function integerIn(buffer: Buffer, start: number, end: number): number {
  const negative = buffer[start] === MINUS;
  let value = 0;
  // Up to nine digits the sum stays a 32-bit number, which is the faster one.
  if (end - start <= 9 && !negative) {
    for (let i = start; i < end; i++) value = (Math.imul(value, 10) + (buffer[i]! - ZERO)) | 0;
    return value;
  }
  for (let i = negative ? start + 1 : start; i < end; i++) value = value * 10 + (buffer[i]! - ZERO);
  return negative ? -value : value;
}

function isDelimiter(buffer: Buffer, i: number, end: number): boolean {
  if (i >= end) return false;
  const byte = buffer[i]!;
  return byte === COMMA || byte === CLOSE || byte <= 0x20;
}

/** Where a string, an integer, a boolean or a null ends; -1 for anything else. */
function skipScalar(buffer: Buffer, words: DataView, i: number, end: number): number {
  switch (buffer[i]) {
    case QUOTE: {
      const packed = scanString(buffer, words, i + 1, end);
      return packed < 0 ? -1 : (packed >> 1) + 1;
    }
    case LETTER_T:
      return skipWord(buffer, i, end, TRUE);
    case LETTER_F:
      return skipWord(buffer, i, end, FALSE);
    case LETTER_N:
      return skipWord(buffer, i, end, NULL);
    default:
      return skipInteger(buffer, i, end);
  }
}

function skipWord(buffer: Buffer, i: number, end: number, word: Uint8Array): number {
  const after = i + word.length;
  return isDelimiter(buffer, after, end) && isAt(buffer, i, word) ? after : -1;
}

function isAt(buffer: Buffer, at: number, word: Uint8Array): boolean {
  for (let k = 0; k < word.length; k++) {
    if (buffer[at + k] !== word[k]) return false;
  }
  return true;
}

/** LanguageCode of a name; -1 if there is none such. */
function languageAt(buffer: Buffer, start: number, end: number): number {
  for (let code = 0; code < LANGUAGES.length; code++) {
    const name = LANGUAGES[code]!;
    if (name.length === end - start && isAt(buffer, start, name)) return code;
  }
  return -1;
}

/** The long way: any JSON object that Java would take for a header. */
export function parseJsonHeader(buffer: Buffer, start: number, end: number, view: HeaderView): void {
  if (end - start > MAX_PARSED_BYTES) {
    throw new GantryError('FRAME', `a header of ${end - start} bytes that is not written as clients write it`);
  }
  let root: JsonValue;
  try {
    root = parseJson(buffer.toString('utf8', start, end), { exactLongs: true, lenientOnly: true, references: false });
  } catch (error) {
    throw new GantryError('FRAME', `the header is not JSON: ${(error as Error).message}`, { cause: error });
  }
  if (typeof root !== 'object' || root === null || Array.isArray(root) || root instanceof Map) {
    throw new GantryError('FRAME', 'the header is not a JSON object');
  }
  view.code = headerInt('code', root['code']);
  view.opaque = headerInt('opaque', root['opaque']);
  view.flag = headerInt('flag', root['flag']);
  view.version = headerInt('version', root['version']);
  view.languageCode = languageOf(root['language']);
  view.remarkText = textOf(root['remark']);
  view.count = -1;
  view.parsed = fieldsOf(root['extFields']);
}

function headerInt(name: string, value: JsonValue | undefined): number {
  if (value === undefined || value === null) return 0;
  const number = typeof value === 'string' && /^-?[0-9]{1,10}$/.test(value) ? Number(value) : value;
  if (typeof number !== 'number' || number !== (number | 0)) {
    throw new GantryError('FRAME', `the header's ${name} is not a 32-bit number`);
  }
  return number;
}

function languageOf(value: JsonValue | undefined): number {
  if (value === undefined) return LanguageCode.JAVA;
  if (typeof value === 'number') return value in LANGUAGES ? value : -1;
  return typeof value === 'string' ? LANGUAGE_NAMES.indexOf(value) : -1;
}

/** Text of a scalar; of anything else its JSON. */
function textOf(value: JsonValue | undefined): string | undefined {
  if (value === undefined || value === null) return undefined;
  return typeof value === 'object' ? toJson(value) : String(value);
}

function fieldsOf(value: JsonValue | undefined): Record<string, string> {
  const fields: Record<string, string> = {};
  if (value === undefined || value === null) return fields;
  if (typeof value !== 'object' || Array.isArray(value) || value instanceof Map) {
    throw new GantryError('FRAME', "the header's extFields are not an object");
  }
  for (const key of Object.keys(value)) {
    const text = textOf(value[key]);
    if (text !== undefined) setOwn(fields, key, text);
  }
  return fields;
}
