// 64-bit fields as numbers: two 32-bit accesses through a DataView, which is several times faster than bigint
// (docs/decisions). All of the store and the protocol is big-endian and signed.

import { GantryError } from './errors.ts';

const TWO_32 = 0x1_0000_0000;
const ZERO = 0x30;

/**
 * Reads a signed big-endian 64-bit field as a number.
 * @throws GantryError `NUMBER_RANGE` when the value is outside +-(2^53 - 1): such bytes come from a damaged file or peer.
 */
export function readI64(view: DataView, position: number): number {
  const value = view.getInt32(position) * TWO_32 + view.getUint32(position + 4);
  if (!Number.isSafeInteger(value)) {
    throw new GantryError('NUMBER_RANGE', `64-bit value at byte ${position} is beyond 2^53 - 1`);
  }
  return value;
}

/** As `readI64`, but a value outside the safe range comes back rounded; for scans that judge the value themselves. */
export function peekI64(view: DataView, position: number): number {
  return view.getInt32(position) * TWO_32 + view.getUint32(position + 4);
}

/** Writes a number (a safe integer) as a signed big-endian 64-bit field. */
export function writeI64(view: DataView, position: number, value: number): void {
  const high = Math.floor(value / TWO_32);
  view.setInt32(position, high);
  view.setInt32(position + 4, (value - high * TWO_32) | 0);
}

/** A DataView over exactly the bytes of an array. */
export function viewOf(bytes: Uint8Array): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

/** A copy of `bytes[start, end)`. (A Buffer's own `slice` shares its memory, whatever the type says.) */
export function copyBytes(bytes: Uint8Array, start: number, end: number): Uint8Array {
  return Uint8Array.prototype.slice.call(bytes, start, end);
}

/** Writes a safe integer, not negative, as decimal digits; answers the position behind them. */
export function writeDigits(value: number, target: Uint8Array, at: number): number {
  let count = 1;
  for (let limit = 10; value >= limit; limit *= 10) count++;
  const end = at + count;
  let rest = value;
  for (let i = end - 1; i >= at; i--) {
    const next = Math.floor(rest / 10);
    target[i] = ZERO + (rest - next * 10);
    rest = next;
  }
  return end;
}

/** Whether two ranges hold the same bytes. For short ranges (names, keys): a loop beats a native call below some 100 bytes. */
export function sameBytes(a: Uint8Array, aStart: number, b: Uint8Array, bStart: number, length: number): boolean {
  for (let i = 0; i < length; i++) {
    if (a[aStart + i] !== b[bStart + i]) return false;
  }
  return true;
}

/** Position of the first `byte` in `bytes[start, end)`, `end` if there is none. For short ranges, where a native call costs more. */
export function indexOfByte(bytes: Uint8Array, byte: number, start: number, end: number): number {
  let i = start;
  // Four bytes a round: what a round costs beside its bytes is as much as several of them.
  for (const last = end - 4; i <= last; i += 4) {
    if (bytes[i] === byte) return i;
    if (bytes[i + 1] === byte) return i + 1;
    if (bytes[i + 2] === byte) return i + 2;
    if (bytes[i + 3] === byte) return i + 3;
  }
  while (i < end && bytes[i] !== byte) i++;
  return i;
}

const HEX = '0123456789ABCDEF';

/** Upper-case hex text, as RocketMQ writes ids. */
export function toHex(bytes: Uint8Array): string {
  let text = '';
  for (let i = 0; i < bytes.length; i++) {
    const byte = bytes[i]!;
    text += HEX[byte >> 4]! + HEX[byte & 15]!;
  }
  return text;
}
