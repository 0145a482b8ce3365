// CRC-32 (IEEE), masked to 31 bits as RocketMQ stores it (UtilAll#crc32). Slicing by 16 in plain JavaScript wins below
// about 512 bytes, where a native call costs more than the work; above, zlib's own.

import { crc32 as nativeCrc32 } from 'node:zlib';

const NATIVE_FROM = 512;
const TABLES = buildTables();

function buildTables(): Int32Array {
  const tables = new Int32Array(16 * 256);
  for (let n = 0; n < 256; n++) {
    let c = n;
    for (let k = 0; k < 8; k++) c = c & 1 ? (c >>> 1) ^ 0xedb88320 : c >>> 1;
    tables[n] = c;
  }
  for (let n = 0; n < 256; n++) {
    let c = tables[n]!;
    for (let t = 1; t < 16; t++) {
      c = tables[c & 0xff]! ^ (c >>> 8);
      tables[t * 256 + n] = c;
    }
  }
  return tables;
}

/** The CRC of what comes piece by piece: `running` is 0 at first, then what the call before has answered, and `& 0x7fffffff` at the end. */
export function crc32On(running: number, bytes: Uint8Array): number {
  return nativeCrc32(bytes, running);
}

/** CRC-32 & 0x7FFFFFFF of `bytes[start, end)`. */
export function crc32(bytes: Uint8Array, start = 0, end: number = bytes.length): number {
  if (end - start >= NATIVE_FROM) {
    return nativeCrc32(start === 0 && end === bytes.length ? bytes : bytes.subarray(start, end)) & 0x7fffffff;
  }
  const T = TABLES;
  let crc = -1;
  let i = start;
  for (const last = end - 16; i <= last; i += 16) {
    const a = crc ^ (bytes[i]! | (bytes[i + 1]! << 8) | (bytes[i + 2]! << 16) | (bytes[i + 3]! << 24));
    crc =
      T[0xf00 + (a & 0xff)]! ^
      T[0xe00 + ((a >>> 8) & 0xff)]! ^
      T[0xd00 + ((a >>> 16) & 0xff)]! ^
      T[0xc00 + (a >>> 24)]! ^
      T[0xb00 + bytes[i + 4]!]! ^
      T[0xa00 + bytes[i + 5]!]! ^
      T[0x900 + bytes[i + 6]!]! ^
      T[0x800 + bytes[i + 7]!]! ^
      T[0x700 + bytes[i + 8]!]! ^
      T[0x600 + bytes[i + 9]!]! ^
      T[0x500 + bytes[i + 10]!]! ^
      T[0x400 + bytes[i + 11]!]! ^
      T[0x300 + bytes[i + 12]!]! ^
      T[0x200 + bytes[i + 13]!]! ^
      T[0x100 + bytes[i + 14]!]! ^
      T[bytes[i + 15]!]!;
  }
  for (; i < end; i++) crc = T[(crc ^ bytes[i]!) & 0xff]! ^ (crc >>> 8);
  return (crc ^ -1) & 0x7fffffff;
}

/** Longest range that `copyWithCrc32` is worth: beyond, the two native calls are quicker. */
export const COPY_WITH_CRC_LIMIT: number = NATIVE_FROM - 1;

/** Copies `source[start, end)` to `target[at...]` and answers the `crc32` of it, in one pass. */
export function copyWithCrc32(source: DataView, start: number, end: number, target: DataView, at: number): number {
  const T = TABLES;
  let crc = -1;
  let i = start;
  let to = at;
  for (const last = end - 16; i <= last; i += 16, to += 16) {
    const a = source.getInt32(i, true);
    const b = source.getInt32(i + 4, true);
    const c = source.getInt32(i + 8, true);
    const d = source.getInt32(i + 12, true);
    target.setInt32(to, a, true);
    target.setInt32(to + 4, b, true);
    target.setInt32(to + 8, c, true);
    target.setInt32(to + 12, d, true);
    const e = crc ^ a;
    crc =
      T[0xf00 + (e & 0xff)]! ^
      T[0xe00 + ((e >>> 8) & 0xff)]! ^
      T[0xd00 + ((e >>> 16) & 0xff)]! ^
      T[0xc00 + (e >>> 24)]! ^
      T[0xb00 + (b & 0xff)]! ^
      T[0xa00 + ((b >>> 8) & 0xff)]! ^
      T[0x900 + ((b >>> 16) & 0xff)]! ^
      T[0x800 + (b >>> 24)]! ^
      T[0x700 + (c & 0xff)]! ^
      T[0x600 + ((c >>> 8) & 0xff)]! ^
      T[0x500 + ((c >>> 16) & 0xff)]! ^
      T[0x400 + (c >>> 24)]! ^
      T[0x300 + (d & 0xff)]! ^
      T[0x200 + ((d >>> 8) & 0xff)]! ^
      T[0x100 + ((d >>> 16) & 0xff)]! ^
      T[d >>> 24]!;
  }
  for (; i < end; i++, to++) {
    const byte = source.getUint8(i);
    target.setUint8(to, byte);
    crc = T[(crc ^ byte) & 0xff]! ^ (crc >>> 8);
  }
  return (crc ^ -1) & 0x7fffffff;
}
