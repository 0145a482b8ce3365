// What lies on the disk, read by the format pages alone (docs/formats) and with nothing of the engine, so that the engine is
// not its own witness.

import { crc32 as zlibCrc32 } from 'node:zlib';
import type { FileSystem } from '../../src/io/index.ts';
import { readWhole } from '../../src/io/index.ts';

const MAGIC_V1 = 0xdaa320a7;
const MAGIC_V2 = 0xdaa320ab;
const MAGIC_BLANK = 0xcbd43194;

export interface LogRecord {
  position: number;
  size: number;
  topic: string;
  queueId: number;
  flag: number;
  queueOffset: number;
  sysFlag: number;
  bornTimestamp: number;
  storeTimestamp: number;
  reconsumeTimes: number;
  body: Buffer;
  properties: string;
}

export interface LogContent {
  /** Start of the first file. */
  start: number;
  records: LogRecord[];
  /** End of the last record, or the file's end where a filler follows it. */
  end: number;
  /** Why the record at `end` is none. */
  reason: string;
}

/** Names that are offsets (20 digits), sorted. */
export function segmentNames(fs: FileSystem, folder: string): string[] {
  return fs
    .list(folder)
    .filter((name) => /^\d{20}$/.test(name))
    .sort();
}

/** One record, or the reason why there is none. IPv4 hosts only. */
export function parseRecord(bytes: Buffer, at: number, position: number): LogRecord | string {
  if (at + 91 > bytes.length) return 'too few bytes';
  const size = bytes.readInt32BE(at);
  const magic = bytes.readUInt32BE(at + 4);
  if (magic !== MAGIC_V1 && magic !== MAGIC_V2) return `magic ${magic.toString(16)}`;
  if (size < 91 || at + size > bytes.length) return `size ${size}`;
  const physical = Number(bytes.readBigInt64BE(at + 28));
  if (physical !== position) return `physical offset ${physical}`;
  const bodyLength = bytes.readInt32BE(at + 84);
  const topicWidth = magic === MAGIC_V1 ? 1 : 2;
  const topicAt = at + 88 + bodyLength;
  if (bodyLength < 0 || topicAt + topicWidth + 2 > at + size) return 'body length';
  const body = bytes.subarray(at + 88, topicAt);
  if (bodyLength > 0 && (zlibCrc32(body) & 0x7fffffff) !== bytes.readInt32BE(at + 8)) return 'body CRC';
  const topicLength = topicWidth === 1 ? bytes.readInt8(topicAt) : bytes.readInt16BE(topicAt);
  const propertiesAt = topicAt + topicWidth + topicLength;
  if (topicLength < 0 || propertiesAt + 2 > at + size) return 'topic length';
  const propertiesLength = bytes.readInt16BE(propertiesAt);
  if (propertiesLength < 0 || propertiesAt + 2 + propertiesLength !== at + size) return 'the sum of the fields';
  return {
    position,
    size,
    topic: bytes.toString('utf8', topicAt + topicWidth, propertiesAt),
    queueId: bytes.readInt32BE(at + 12),
    flag: bytes.readInt32BE(at + 16),
    queueOffset: Number(bytes.readBigInt64BE(at + 20)),
    sysFlag: bytes.readInt32BE(at + 36),
    bornTimestamp: Number(bytes.readBigInt64BE(at + 40)),
    storeTimestamp: Number(bytes.readBigInt64BE(at + 56)),
    reconsumeTimes: bytes.readInt32BE(at + 72),
    body: Buffer.from(body),
    properties: bytes.toString('utf8', propertiesAt + 2, at + size),
  };
}

/** Walks the CommitLog from its first file to the first thing that is no record. */
export function readLog(fs: FileSystem, folder: string): LogContent {
  const names = segmentNames(fs, folder);
  const start = names.length === 0 ? 0 : Number(names[0]);
  const records: LogRecord[] = [];
  let end = start;
  for (const name of names) {
    const base = Number(name);
    if (base !== end) return { start, records, end, reason: `next file is ${name}` };
    const bytes = Buffer.from(readWhole(fs, `${folder}/${name}`)!);
    let at = 0;
    for (;;) {
      if (at + 8 <= bytes.length && bytes.readUInt32BE(at + 4) === MAGIC_BLANK) {
        if (bytes.readInt32BE(at) !== bytes.length - at) return { start, records, end, reason: 'size of a filler' };
        end = base + bytes.length;
        break;
      }
      const record = parseRecord(bytes, at, base + at);
      if (typeof record === 'string') return { start, records, end, reason: record };
      records.push(record);
      at += record.size;
      end = base + at;
    }
  }
  return { start, records, end, reason: 'no more files' };
}

export interface ConsumeQueueUnit {
  queueOffset: number;
  position: number;
  size: number;
  tagsCode: number;
}

/** The units of one queue, up to the first invalid one. */
export function readConsumeQueue(fs: FileSystem, folder: string): ConsumeQueueUnit[] {
  const units: ConsumeQueueUnit[] = [];
  for (const name of segmentNames(fs, folder)) {
    const bytes = Buffer.from(readWhole(fs, `${folder}/${name}`)!);
    for (let at = 0; at + 20 <= bytes.length; at += 20) {
      const size = bytes.readInt32BE(at + 8);
      if (size <= 0) return units;
      units.push({
        queueOffset: (Number(name) + at) / 20,
        position: Number(bytes.readBigInt64BE(at)),
        size,
        tagsCode: Number(bytes.readBigInt64BE(at + 12)),
      });
    }
  }
  return units;
}

/** Hash and position of each index entry, file after file. */
export function readIndex(fs: FileSystem, folder: string, slots: number): Array<{ hash: number; position: number }> {
  const entries: Array<{ hash: number; position: number }> = [];
  for (const name of fs
    .list(folder)
    .filter((n) => /^\d{17}$/.test(n))
    .sort()) {
    const bytes = Buffer.from(readWhole(fs, `${folder}/${name}`)!);
    if (bytes.length < 40) continue;
    const count = bytes.readInt32BE(36);
    for (let n = 1; n < count; n++) {
      const at = 40 + 4 * slots + 20 * n;
      entries.push({ hash: bytes.readInt32BE(at), position: Number(bytes.readBigInt64BE(at + 4)) });
    }
  }
  return entries;
}
