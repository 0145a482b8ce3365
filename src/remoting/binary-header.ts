// The ROCKETMQ binary header (serialize type 1), decoded into the same ranges as a JSON header, and written for a client that asks
// for it. Layout (docs/formats/remoting.md):
//
//   code i16 · language i8 · version i16 · opaque i32 · flag i32 · remarkLength i32 · remark · extLength i32 · ext
//   ext = { keyLength i16 · key · valueLength i32 · value } ...
//
// Keys may occur twice, the last one counts. A value of length 0 is an absent value, not an empty one.

import { GantryError } from '../common/index.ts';
import { FLAG_RESPONSE, LANGUAGE_NAMES, LanguageCode, MQ_VERSION, SerializeType } from './codes.ts';
import { type HeaderView, MAX_RANGES } from './header-view.ts';
import { setOwn } from './own-property.ts';
import type { ExtFields } from './types.ts';

const FIXED_LENGTH = 2 + 1 + 2 + 4 + 4 + 4 + 4;
/** Codes that do not fit into 16 bits arrive without their upper half; no other request has these numbers. */
const TRUNCATED_FROM = 3442;
const TRUNCATED_TO = 3543;
const TRUNCATED_BASE = 200050 - TRUNCATED_FROM;

/**
 * Decodes the binary header `buffer[start, end)` into `view`.
 * RocketMQ: its server answers POP requests of binary clients with code 3, because their codes arrive truncated; we know them.
 * @throws GantryError FRAME if lengths do not fit.
 */
export function decodeBinaryHeader(buffer: Buffer, start: number, end: number, view: HeaderView): void {
  view.reset(buffer);
  if (end - start < FIXED_LENGTH) throw malformed('it is too short');
  let code = i16(buffer, start);
  const language = (buffer[start + 2]! << 24) >> 24;
  view.languageCode = language < LANGUAGE_NAMES.length ? language : -1;
  view.version = i16(buffer, start + 3);
  view.opaque = i32(buffer, start + 5);
  view.flag = i32(buffer, start + 9);
  if ((view.flag & FLAG_RESPONSE) === 0 && code >= TRUNCATED_FROM && code <= TRUNCATED_TO) code += TRUNCATED_BASE;
  view.code = code;
  const remarkLength = i32(buffer, start + 13);
  let at = start + 17;
  if (remarkLength < 0 || remarkLength > end - at - 4) throw malformed('the remark is longer than the header');
  if (remarkLength > 0) {
    view.remarkStart = at;
    view.remarkEnd = at + remarkLength;
    at += remarkLength;
  }
  const extLength = i32(buffer, at);
  at += 4;
  if (extLength < 0 || extLength > end - at) throw malformed('the fields are longer than the header');
  decodeFields(buffer, at, at + extLength, view);
}

function decodeFields(buffer: Buffer, start: number, end: number, view: HeaderView): void {
  const { ranges } = view;
  let count = 0;
  let absent = false;
  let at = start;
  while (at < end) {
    if (end - at < 2) throw malformed('a field is cut');
    const keyLength = i16(buffer, at);
    const keyStart = at + 2;
    if (keyLength < 0 || keyLength > end - keyStart - 4) throw malformed('a key is longer than the header');
    const valueStart = keyStart + keyLength + 4;
    const valueLength = i32(buffer, valueStart - 4);
    if (valueLength < 0 || valueLength > end - valueStart) throw malformed('a value is longer than the header');
    at = valueStart + valueLength;
    if (count === MAX_RANGES) {
      parseFields(buffer, start, end, view);
      return;
    }
    if (valueLength === 0) absent = true;
    ranges[4 * count] = keyStart;
    ranges[4 * count + 1] = keyStart + keyLength;
    ranges[4 * count + 2] = valueStart;
    ranges[4 * count + 3] = at;
    view.escaped[count] = 0;
    count++;
  }
  view.count = count;
  if (absent) parseFields(buffer, start, end, view);
}

/** Fields as an object: where there are many, or where an absent value may hide an earlier one of the same key. */
function parseFields(buffer: Buffer, start: number, end: number, view: HeaderView): void {
  const fields: Record<string, string> = {};
  let at = start;
  while (at < end) {
    if (end - at < 2) throw malformed('a field is cut');
    const keyEnd = at + 2 + i16(buffer, at);
    if (keyEnd < at + 2 || keyEnd + 4 > end) throw malformed('a key is longer than the header');
    const valueEnd = keyEnd + 4 + i32(buffer, keyEnd);
    if (valueEnd < keyEnd + 4 || valueEnd > end) throw malformed('a value is longer than the header');
    const key = buffer.toString('utf8', at + 2, keyEnd);
    if (valueEnd === keyEnd + 4) delete fields[key];
    else setOwn(fields, key, buffer.toString('utf8', keyEnd + 4, valueEnd));
    at = valueEnd;
  }
  view.count = -1;
  view.parsed = fields;
}

/** The binary header of a frame that we send. `code` must fit into 16 bits or arrives truncated. */
export function encodeBinaryHeader(
  code: number,
  opaque: number,
  flag: number,
  remark: string | null | undefined,
  ext: ExtFields | null | undefined,
): Buffer {
  const fields: Buffer[] = [];
  for (const key of Object.keys(ext ?? {})) {
    const value = ext![key];
    if (value === undefined || value === null) continue;
    const keyBytes = Buffer.from(key);
    const valueBytes = Buffer.from(String(value));
    const head = Buffer.alloc(2);
    const middle = Buffer.alloc(4);
    head.writeInt16BE(keyBytes.length);
    middle.writeInt32BE(valueBytes.length);
    fields.push(head, keyBytes, middle, valueBytes);
  }
  const extBytes = Buffer.concat(fields);
  const remarkBytes = Buffer.from(remark ?? '');
  const header = Buffer.alloc(FIXED_LENGTH + remarkBytes.length + extBytes.length);
  header.writeInt16BE((code << 16) >> 16, 0);
  header.writeInt8(LanguageCode.JAVA, 2);
  header.writeInt16BE(MQ_VERSION, 3);
  header.writeInt32BE(opaque, 5);
  header.writeInt32BE(flag, 9);
  header.writeInt32BE(remarkBytes.length, 13);
  remarkBytes.copy(header, 17);
  header.writeInt32BE(extBytes.length, 17 + remarkBytes.length);
  extBytes.copy(header, 21 + remarkBytes.length);
  return header;
}

/** A whole frame with a binary header and no remark. */
export function encodeBinaryFrame(
  code: number,
  opaque: number,
  flag: number,
  ext: ExtFields | null | undefined,
  body: Uint8Array | null | undefined,
): Buffer {
  const header = encodeBinaryHeader(code, opaque, flag, undefined, ext);
  const bodyLength = body?.length ?? 0;
  const frame = Buffer.allocUnsafe(8 + header.length + bodyLength);
  frame.writeInt32BE(4 + header.length + bodyLength, 0);
  frame.writeInt32BE((SerializeType.ROCKETMQ << 24) | header.length, 4);
  frame.set(header, 8);
  if (body) frame.set(body, 8 + header.length);
  return frame;
}

function i16(buffer: Buffer, at: number): number {
  return ((buffer[at]! << 24) >> 16) | buffer[at + 1]!;
}

function i32(buffer: Buffer, at: number): number {
  return (buffer[at]! << 24) | (buffer[at + 1]! << 16) | (buffer[at + 2]! << 8) | buffer[at + 3]!;
}

function malformed(what: string): GantryError {
  return new GantryError('FRAME', `the binary header is malformed: ${what}`);
}
