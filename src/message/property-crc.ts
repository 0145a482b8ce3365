// The property CRC: the last 20 bytes of a record when `enabledAppendPropCRC` is on. Name, 0x01, the masked CRC in decimal with
// its least significant digit first, padded on the right with '0' to ten characters, 0x02. RocketMQ: MessageDecoder#createCrc32.
//
//   5f 5f 43 52 43 33 32 23 | 01 | d0 d1 ... d9 | 02

import { CRC_PROPERTY_NAME } from './layout.ts';

const NAME = Buffer.from(CRC_PROPERTY_NAME, 'latin1');
const DIGITS_AT = NAME.length + 1;

/** Writes the 20 bytes at `target[at...]`. */
export function writeCrcProperty(target: Uint8Array, at: number, crc: number): void {
  target.set(NAME, at);
  target[at + NAME.length] = 0x01;
  let rest = crc;
  for (let i = 0; i < 10; i++) {
    target[at + DIGITS_AT + i] = 0x30 + (rest % 10);
    rest = Math.floor(rest / 10);
  }
  target[at + DIGITS_AT + 10] = 0x02;
}

/** Whether the 20 bytes at `bytes[at...]` are the block for `crc`. */
export function crcPropertyMatches(bytes: Uint8Array, at: number, crc: number): boolean {
  for (let i = 0; i < NAME.length; i++) if (bytes[at + i] !== NAME[i]) return false;
  if (bytes[at + NAME.length] !== 0x01 || bytes[at + DIGITS_AT + 10] !== 0x02) return false;
  let rest = crc;
  for (let i = 0; i < 10; i++) {
    if (bytes[at + DIGITS_AT + i] !== 0x30 + (rest % 10)) return false;
    rest = Math.floor(rest / 10);
  }
  return true;
}
