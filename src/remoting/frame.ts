// One frame: its header word tells how the header is encoded, and where the body begins.
//
//   length i32 (of what follows) · headerWord i32 (serialize type in the top byte, header length below) · header · body

import { GantryError } from '../common/index.ts';
import { decodeBinaryHeader } from './binary-header.ts';
import { SerializeType } from './codes.ts';
import { decodeJsonHeader } from './header-scanner.ts';
import type { HeaderView } from './header-view.ts';

/**
 * Decodes the frame whose header word is at `start` (behind the length) and that ends at `end`; returns where its body begins.
 * @throws GantryError FRAME if it cannot be decoded.
 */
export function decodeFrame(buffer: Buffer, start: number, end: number, header: HeaderView): number {
  header.start = start;
  const type = buffer[start]!;
  const headerLength = (buffer[start + 1]! << 16) | (buffer[start + 2]! << 8) | buffer[start + 3]!;
  const headerStart = start + 4;
  const bodyStart = headerStart + headerLength;
  if (bodyStart > end) {
    throw new GantryError('FRAME', `a header of ${headerLength} bytes in a frame of ${end - start}`);
  }
  if (type === SerializeType.JSON) decodeJsonHeader(buffer, headerStart, bodyStart, header);
  else if (type === SerializeType.ROCKETMQ) decodeBinaryHeader(buffer, headerStart, bodyStart, header);
  else throw new GantryError('FRAME', `unknown serialize type ${type}`);
  return bodyStart;
}
