// Writes one record. The only encoder there is: single sends, batch members, and what the broker itself stores all pass here.
// RocketMQ: MessageExtEncoder#encode and CommitLog's append callback, which patches offsets and time into the encoded bytes.

import { COPY_WITH_CRC_LIMIT, copyWithCrc32, crc32, viewOf, writeI64 } from '../common/index.ts';
import {
  BORN_HOST_AT,
  CRC_PROPERTY_BYTES,
  FIXED_BYTES,
  MAGIC_V1,
  MAGIC_V2,
  MAX_V1_TOPIC_CHARS,
  PHYSICAL_OFFSET_AT,
  QUEUE_OFFSET_AT,
  SysFlag,
} from './layout.ts';
import { writeCrcProperty } from './property-crc.ts';

const EMPTY = new Uint8Array(0);

/** What goes into a record, apart from the place it gets. Byte ranges are borrowed for the length of a call. */
export class RecordSource {
  topic = '';
  /** UTF-8 of `topic`. */
  topicBytes: Uint8Array = EMPTY;
  queueId = 0;
  flag = 0;
  sysFlag = 0;
  /** Milliseconds, the producer's clock. */
  bornTimestamp = 0;
  /** 4 or 16 address bytes, then the port as i32. */
  bornHost: Uint8Array = EMPTY;
  storeHost: Uint8Array = EMPTY;
  reconsumeTimes = 0;
  preparedTransactionOffset = 0;
  bodyStart = 0;
  bodyEnd = 0;
  /** The stored text: name 0x01 value 0x02 ..., in `properties[propertiesStart, propertiesEnd)`, without a property CRC. */
  properties: Uint8Array = EMPTY;
  propertiesStart = 0;
  propertiesEnd = 0;
  /** If set, the stored text comes from here instead, straight into the record. */
  propertyTable: PropertyText | undefined = undefined;
  #body: Uint8Array = EMPTY;
  #bodyView: DataView | undefined = undefined;

  /** The body is `body[bodyStart, bodyEnd)`. */
  get body(): Uint8Array {
    return this.#body;
  }

  set body(bytes: Uint8Array) {
    if (bytes !== this.#body) this.#bodyView = undefined;
    this.#body = bytes;
  }

  /** Over exactly `body`. Many bodies in a row lie in one array (a socket's chunk, a batch), and share it. */
  get bodyView(): DataView {
    this.#bodyView ??= viewOf(this.#body);
    return this.#bodyView;
  }
}

/** Property text that is written where it belongs (PropertyTable). */
export interface PropertyText {
  /** Bytes that `write` takes. */
  bytes(): number;
  /** Writes the text at `target[at...]`; answers the position behind it. */
  write(target: Uint8Array, at: number): number;
}

/** The sysFlag with the host bits set from the addresses' widths. */
export function sysFlagWithHosts(source: RecordSource): number {
  let sysFlag = source.sysFlag & ~(SysFlag.BORNHOST_V6 | SysFlag.STOREHOST_V6);
  if (source.bornHost.length === 20) sysFlag |= SysFlag.BORNHOST_V6;
  if (source.storeHost.length === 20) sysFlag |= SysFlag.STOREHOST_V6;
  return sysFlag;
}

/** 2 for a topic that needs it (and when V2 is allowed), else 1. Counted in UTF-16 units, as Java does. */
export function recordVersion(topic: string, allowV2: boolean): 1 | 2 {
  return allowV2 && topic.length > MAX_V1_TOPIC_CHARS ? 2 : 1;
}

/**
 * Bytes of the property block: the given text, and with the property CRC its 20 bytes and, where `separator` asks for it, one
 * 0x02 behind a text that does not end in one (single messages only; RocketMQ never adds it to batch members).
 */
export function propertiesBytes(source: RecordSource, propertyCrc: boolean, separator: boolean): number {
  const table = source.propertyTable;
  const length = table === undefined ? source.propertiesEnd - source.propertiesStart : table.bytes();
  if (!propertyCrc) return length;
  // A table ends every pair with 0x02.
  const needsSeparator =
    separator && table === undefined && length > 0 && source.properties[source.propertiesEnd - 1] !== 0x02;
  return length + (needsSeparator ? 1 : 0) + CRC_PROPERTY_BYTES;
}

/** Bytes of the whole record, given its property block's bytes. */
export function recordBytes(source: RecordSource, version: 1 | 2, propertyBlockBytes: number): number {
  return (
    FIXED_BYTES +
    source.bornHost.length +
    source.storeHost.length +
    (source.bodyEnd - source.bodyStart) +
    version +
    source.topicBytes.length +
    2 +
    propertyBlockBytes
  );
}

/**
 * Writes a record of `totalSize` bytes at `target[at...]`; `view` covers exactly `target`.
 * The caller has checked the limits and computed the sizes (`recordBytes`, `propertiesBytes`).
 */
export function writeRecord(
  target: Uint8Array,
  view: DataView,
  at: number,
  source: RecordSource,
  sysFlag: number,
  version: 1 | 2,
  totalSize: number,
  propertyBlockBytes: number,
  propertyCrc: boolean,
  queueOffset: number,
  physicalOffset: number,
  storeTimestamp: number,
): void {
  const body = source.body;
  const bodyStart = source.bodyStart;
  const bodyLength = source.bodyEnd - bodyStart;
  view.setInt32(at, totalSize);
  view.setInt32(at + 4, version === 1 ? MAGIC_V1 : MAGIC_V2);
  view.setInt32(at + 12, source.queueId);
  view.setInt32(at + 16, source.flag);
  writeI64(view, at + 20, queueOffset);
  writeI64(view, at + 28, physicalOffset);
  view.setInt32(at + 36, sysFlag);
  writeI64(view, at + 40, source.bornTimestamp);
  let p = copy(source.bornHost, 0, source.bornHost.length, target, at + 48);
  writeI64(view, p, storeTimestamp);
  p = copy(source.storeHost, 0, source.storeHost.length, target, p + 8);
  view.setInt32(p, source.reconsumeTimes);
  writeI64(view, p + 4, source.preparedTransactionOffset);
  view.setInt32(p + 12, bodyLength);
  p += 16;
  let bodyCrc = 0;
  if (bodyLength > COPY_WITH_CRC_LIMIT) {
    // Both the sum and the copy are native calls, which want the bytes as an array of their own.
    const part = new Uint8Array(body.buffer, body.byteOffset + bodyStart, bodyLength);
    bodyCrc = crc32(part);
    target.set(part, p);
  } else if (bodyLength > 0) {
    bodyCrc = copyWithCrc32(source.bodyView, bodyStart, source.bodyEnd, view, p);
  }
  view.setInt32(at + 8, bodyCrc);
  p += bodyLength;
  const topic = source.topicBytes;
  if (version === 1) view.setInt8(p, topic.length);
  else view.setInt16(p, topic.length);
  p = copy(topic, 0, topic.length, target, p + version);
  view.setInt16(p, propertyBlockBytes);
  const table = source.propertyTable;
  if (table !== undefined) p = table.write(target, p + 2);
  else p = copy(source.properties, source.propertiesStart, source.propertiesEnd, target, p + 2);
  if (propertyCrc) {
    const block = at + totalSize - CRC_PROPERTY_BYTES;
    if (p < block) target[p] = 0x02;
    writeCrcProperty(target, block, crc32(target, at, block));
  }
}

/** Gives a record that `writeRecord` wrote, at `target[at, at + totalSize)`, another place and time. */
export function placeRecord(
  target: Uint8Array,
  view: DataView,
  at: number,
  totalSize: number,
  bornHostBytes: number,
  propertyCrc: boolean,
  queueOffset: number,
  physicalOffset: number,
  storeTimestamp: number,
): void {
  writeI64(view, at + QUEUE_OFFSET_AT, queueOffset);
  writeI64(view, at + PHYSICAL_OFFSET_AT, physicalOffset);
  writeI64(view, at + BORN_HOST_AT + bornHostBytes, storeTimestamp);
  if (!propertyCrc) return;
  const block = at + totalSize - CRC_PROPERTY_BYTES;
  writeCrcProperty(target, block, crc32(target, at, block));
}

/** Up to these a loop beats a native call; for a part of an array that call needs a `subarray`, which is an object. */
const LOOP_COPY_WHOLE = 32;
const LOOP_COPY_PART = 80;

/** Copies `source[start, end)` to `target[at...]`; answers the position behind the copy. */
export function copy(source: Uint8Array, start: number, end: number, target: Uint8Array, at: number): number {
  const length = end - start;
  const whole = length === source.length;
  if (length <= (whole ? LOOP_COPY_WHOLE : LOOP_COPY_PART)) {
    let from = start;
    let to = at;
    // Eight bytes a round: what a round costs beside its bytes is as much as several of them.
    for (const last = end - 8; from <= last; from += 8, to += 8) {
      target[to] = source[from]!;
      target[to + 1] = source[from + 1]!;
      target[to + 2] = source[from + 2]!;
      target[to + 3] = source[from + 3]!;
      target[to + 4] = source[from + 4]!;
      target[to + 5] = source[from + 5]!;
      target[to + 6] = source[from + 6]!;
      target[to + 7] = source[from + 7]!;
    }
    for (; from < end; from++, to++) target[to] = source[from]!;
  } else {
    target.set(whole ? source : source.subarray(start, end), at);
  }
  return at + length;
}
