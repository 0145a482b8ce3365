// Reads LZ4 frames, which Java producers may use for bodies (compressType LZ4) and node:zlib does not know.
//
//   magic 0x184D2204 LE u32 | FLG | BD | [content size u64] | [dictionary id u32] | HC | blocks | end mark u32 0 | [checksum u32]
//   block: size LE u32 (top bit: stored as it is) | bytes | [checksum u32]
//   FLG bits: 7-6 version 01, 5 blocks are independent, 4 block checksums, 3 content size, 2 content checksum, 0 dictionary id
//   a compressed block is sequences: token (literal length, match length - 4; 15 goes on in bytes of 255) | literals | offset LE u16
//
// Checksums are not looked at: brokers guard a body by its own CRC.

import { GantryError } from '../common/index.ts';

const MAGIC = 0x184d2204;
const MIN_MATCH = 4;

function fault(what: string): GantryError {
  return new GantryError('MESSAGE', `not an LZ4 frame: ${what}`);
}

/** Output that grows; matches copy from what is in it already. */
class Output {
  bytes: Buffer = Buffer.allocUnsafe(65_536);
  length = 0;
  readonly #limit: number;

  constructor(limit: number) {
    this.#limit = limit;
  }

  /** Makes room for `count` more bytes. */
  reserve(count: number): void {
    const needed = this.length + count;
    if (needed > this.#limit) throw fault(`more than ${this.#limit} bytes come out of it`);
    if (needed <= this.bytes.length) return;
    const larger = Buffer.allocUnsafe(Math.max(needed, this.bytes.length * 2));
    this.bytes.copy(larger, 0, 0, this.length);
    this.bytes = larger;
  }
}

/**
 * Decompresses one frame.
 * @throws GantryError MESSAGE for anything that is none, or that grows beyond `limit` bytes.
 */
export function decodeLz4Frame(source: Uint8Array, limit: number): Uint8Array {
  const view = new DataView(source.buffer, source.byteOffset, source.byteLength);
  if (source.length < 7 || view.getUint32(0, true) !== MAGIC) throw fault('the magic is missing');
  const flags = source[4]!;
  if (flags >> 6 !== 1) throw fault(`version ${flags >> 6}`);
  if ((flags & 1) !== 0) throw fault('it needs a dictionary');
  const blockChecksum = (flags & 0x10) !== 0 ? 4 : 0;
  let at = 7 + ((flags & 0x08) !== 0 ? 8 : 0);
  const output = new Output(limit);
  for (;;) {
    if (at + 4 > source.length) throw fault('it ends without an end mark');
    const word = view.getUint32(at, true);
    at += 4;
    if (word === 0) return output.bytes.subarray(0, output.length);
    const end = at + (word & 0x7fffffff);
    if (end + blockChecksum > source.length) throw fault('a block runs past the end');
    if (word >= 0x80000000) copyLiterals(source, at, end - at, output);
    else decodeBlock(source, at, end, output);
    at = end + blockChecksum;
  }
}

function copyLiterals(source: Uint8Array, at: number, count: number, output: Output): void {
  output.reserve(count);
  output.bytes.set(source.subarray(at, at + count), output.length);
  output.length += count;
}

function decodeBlock(source: Uint8Array, start: number, end: number, output: Output): void {
  let at = start;
  while (at < end) {
    const token = source[at++]!;
    let literals = token >> 4;
    if (literals === 15) {
      let more = 255;
      while (more === 255 && at < end) literals += more = source[at++]!;
    }
    if (at + literals > end) throw fault('literals run past their block');
    copyLiterals(source, at, literals, output);
    at += literals;
    // The last sequence of a block has no match.
    if (at === end) return;
    if (at + 2 > end) throw fault('an offset is cut off');
    const offset = source[at]! | (source[at + 1]! << 8);
    at += 2;
    let length = token & 15;
    if (length === 15) {
      let more = 255;
      while (more === 255 && at < end) length += more = source[at++]!;
    }
    copyMatch(offset, length + MIN_MATCH, output);
  }
}

/** Byte by byte: a match may overlap what it writes, which is how runs are stored. */
function copyMatch(offset: number, length: number, output: Output): void {
  if (offset === 0 || offset > output.length) throw fault('a match lies before the start');
  output.reserve(length);
  const { bytes } = output;
  let to = output.length;
  for (let from = to - offset; from < output.length - offset + length; from++) bytes[to++] = bytes[from]!;
  output.length = to;
}
