// The wire body of a batch send: member after member, each with sizes in front (docs/formats/commit-log.md).
//
//   0 TOTALSIZE i32 | 4 MAGIC i32 (0) | 8 BODYCRC i32 (0) | 12 FLAG i32 | 16 BODYLEN i32 | 20 BODY | PROPLEN i16 | PROPERTIES

import { viewOf } from '../common/index.ts';

/** Bytes of a member without body and properties. */
export const BATCH_MEMBER_BYTES = 22;

/** One member, as ranges over the batch body; filled by `readBatchMember`. */
export class BatchMember {
  flag = 0;
  bodyStart = 0;
  bodyEnd = 0;
  propertiesStart = 0;
  propertiesEnd = 0;
  /** Start of the next member. */
  end = 0;
}

/** Reads the member at `start`. Answers a reason in words if the bytes are not one; undefined if all is well. */
export function readBatchMember(view: DataView, start: number, end: number, out: BatchMember): string | undefined {
  if (end - start < BATCH_MEMBER_BYTES)
    return `${end - start} bytes are left, a batch member has at least ${BATCH_MEMBER_BYTES}`;
  const bodyLength = view.getInt32(start + 16);
  const bodyStart = start + 20;
  if (bodyLength < 0 || bodyStart + bodyLength + 2 > end) return `body length ${bodyLength} runs past the batch`;
  const bodyEnd = bodyStart + bodyLength;
  const propertiesLength = view.getInt16(bodyEnd);
  if (propertiesLength < 0) {
    const actual = propertiesLength + 0x1_0000;
    return `properties of ${actual} bytes are beyond the limit of 32767`;
  }
  if (bodyEnd + 2 + propertiesLength > end) return `properties length ${propertiesLength} runs past the batch`;
  out.flag = view.getInt32(start + 12);
  out.bodyStart = bodyStart;
  out.bodyEnd = bodyEnd;
  out.propertiesStart = bodyEnd + 2;
  out.propertiesEnd = out.propertiesStart + propertiesLength;
  out.end = out.propertiesEnd;
  return undefined;
}

/** What a client puts into a batch. */
export interface BatchInput {
  flag: number;
  body: Uint8Array;
  /** Property text, UTF-8. */
  properties: Uint8Array;
}

/** Encodes a batch body. RocketMQ: MessageDecoder#encodeMessages. */
export function encodeBatch(members: readonly BatchInput[]): Uint8Array {
  let total = 0;
  for (const m of members) total += BATCH_MEMBER_BYTES + m.body.length + m.properties.length;
  const bytes = new Uint8Array(total);
  const view = viewOf(bytes);
  let at = 0;
  for (const m of members) {
    const size = BATCH_MEMBER_BYTES + m.body.length + m.properties.length;
    view.setInt32(at, size);
    view.setInt32(at + 12, m.flag);
    view.setInt32(at + 16, m.body.length);
    bytes.set(m.body, at + 20);
    view.setInt16(at + 20 + m.body.length, m.properties.length);
    bytes.set(m.properties, at + 22 + m.body.length);
    at += size;
  }
  return bytes;
}
