// A record as the compaction log keeps it, and what is looked at in one: key and tag.

import { javaHashUtf8, viewOf, writeI64 } from '../../common/index.ts';
import { PHYSICAL_OFFSET_AT, type RecordView } from '../../message/index.ts';
import { RecordProperties } from '../dispatch/record-properties.ts';

/** Copies a record and puts its place in the compaction log where its place in the CommitLog stood. */
export function copyWithPosition(
  bytes: Uint8Array,
  start: number,
  size: number,
  target: Uint8Array,
  at: number,
  position: number,
): void {
  target.set(bytes.subarray(start, start + size), at);
  writeI64(viewOf(target), at + PHYSICAL_OFFSET_AT, position);
}

/** What decides about a record; filled by `look`. */
export class KeyLook {
  /** Range of the KEYS text. */
  keyStart = 0;
  keyEnd = 0;
  /** Java hash of the whole TAGS text, 0 without one. */
  tagsCode = 0;
  readonly #properties = new RecordProperties();

  /** Whether the record has a key. RocketMQ: StringUtils#isNotBlank of the whole KEYS text. */
  look(bytes: Uint8Array, record: RecordView): boolean {
    const properties = this.#properties;
    properties.scan(bytes, record.propertiesStart, record.propertiesEnd);
    this.keyStart = properties.keysStart;
    this.keyEnd = properties.keysEnd;
    const { tagsStart, tagsEnd } = properties;
    this.tagsCode = tagsEnd > tagsStart ? javaHashUtf8(bytes, tagsStart, tagsEnd) : 0;
    return !isBlank(bytes, this.keyStart, this.keyEnd);
  }
}

/** Whether a text is empty or has white space only, as Java's Character#isWhitespace says. */
function isBlank(bytes: Uint8Array, start: number, end: number): boolean {
  for (let i = start; i < end; i++) {
    const byte = bytes[i]!;
    if (byte >= 0x80) return isBlankText(Buffer.from(bytes.subarray(start, end)).toString('utf8'));
    if (!isSpace(byte)) return false;
  }
  return true;
}

function isBlankText(text: string): boolean {
  for (let i = 0; i < text.length; i++) if (!isSpace(text.charCodeAt(i))) return false;
  return true;
}

/** All separators but those that do not break. */
function isSpace(code: number): boolean {
  if (code < 0x80) return (code >= 0x09 && code <= 0x0d) || (code >= 0x1c && code <= 0x20);
  if (code === 0x2007) return false;
  return (code >= 0x2000 && code <= 0x200a) || [0x1680, 0x2028, 0x2029, 0x205f, 0x3000].includes(code);
}

/** Whether KEYS is missing or blank in a message's properties, so that a compaction topic cannot take it. */
export function isBlankKey(keys: string | undefined): boolean {
  return keys === undefined || isBlankText(keys);
}
