// Reads one record in place: no object and no copy, the fields land in a RecordView that the caller keeps. Dispatch, recovery,
// reads and the offline tools all judge bytes by this one function. RocketMQ: CommitLog#checkMessageAndReturnSize.

import { crc32, peekI64 } from '../common/index.ts';
import {
  BORN_HOST_AT,
  BORN_TIMESTAMP_AT,
  bornHostBytes,
  CRC_PROPERTY_BYTES,
  FIXED_BYTES,
  FLAG_AT,
  MAGIC_BLANK,
  MAGIC_V1,
  MAGIC_V2,
  PHYSICAL_OFFSET_AT,
  QUEUE_ID_AT,
  QUEUE_OFFSET_AT,
  SYS_FLAG_AT,
  storeHostBytes,
} from './layout.ts';
import { crcPropertyMatches } from './property-crc.ts';

/** What the bytes at a position are. */
export const RecordOutcome = {
  /** A sound record of `view.totalSize` bytes. */
  RECORD: 0,
  /** The filler at the end of a file; `view.totalSize` is its length. */
  BLANK: 1,
  /** Not a record; `view.reason` says why. */
  BAD: 2,
  /** Fewer bytes are at hand than the record (or its head) has. Only a caller that knows where data ends can call that bad. */
  SHORT: 3,
} as const;
export type RecordOutcome = (typeof RecordOutcome)[keyof typeof RecordOutcome];

/** How closely to look. */
export const Verify = {
  /** Size, magic and the sum of the fields. */
  STRUCTURE: 0,
  /** Also the CRC of the body. */
  BODY_CRC: 1,
  /** Also the property CRC at the record's end, which must be there (and then the body's is not looked at). */
  PROPERTY_CRC: 2,
} as const;
export type Verify = (typeof Verify)[keyof typeof Verify];

/** The fields of the record read last. Ranges are positions in the buffer that was read. */
export class RecordView {
  totalSize = 0;
  /** 1 or 2. */
  version = 1;
  bodyCrc = 0;
  queueId = 0;
  flag = 0;
  queueOffset = 0;
  physicalOffset = 0;
  sysFlag = 0;
  bornTimestamp = 0;
  bornHostStart = 0;
  bornHostEnd = 0;
  storeTimestamp = 0;
  storeHostStart = 0;
  storeHostEnd = 0;
  reconsumeTimes = 0;
  preparedTransactionOffset = 0;
  bodyStart = 0;
  bodyEnd = 0;
  topicStart = 0;
  topicEnd = 0;
  propertiesStart = 0;
  propertiesEnd = 0;
  reason = '';
}

/**
 * Reads what lies at `bytes[start, end)`.
 * @param view a DataView over exactly `bytes`.
 */
export function readRecord(
  bytes: Uint8Array,
  view: DataView,
  start: number,
  end: number,
  verify: Verify,
  out: RecordView,
): RecordOutcome {
  const available = end - start;
  if (available < 8) return RecordOutcome.SHORT;
  const totalSize = view.getInt32(start);
  const magic = view.getInt32(start + 4);
  if (magic === MAGIC_BLANK) {
    out.totalSize = totalSize;
    if (totalSize < 8) return bad(out, `filler of ${totalSize} bytes`);
    return RecordOutcome.BLANK;
  }
  if (magic !== MAGIC_V1 && magic !== MAGIC_V2) {
    return bad(out, totalSize === 0 && magic === 0 ? 'zeros' : `unknown magic 0x${(magic >>> 0).toString(16)}`);
  }
  const version = magic === MAGIC_V1 ? 1 : 2;
  if (totalSize < FIXED_BYTES + 16 + version + 2) return bad(out, `size ${totalSize} is too small for a record`);
  if (available < totalSize) return RecordOutcome.SHORT;

  const limit = start + totalSize;
  const sysFlag = view.getInt32(start + SYS_FLAG_AT);
  const bornHostStart = start + BORN_HOST_AT;
  const storeTimeAt = bornHostStart + bornHostBytes(sysFlag);
  const storeHostStart = storeTimeAt + 8;
  const afterHosts = storeHostStart + storeHostBytes(sysFlag);
  const bodyStart = afterHosts + 16;
  if (bodyStart > limit) return bad(out, 'fields run past the size');
  const bodyLength = view.getInt32(afterHosts + 12);
  // RocketMQ: takes it for an empty body, and looks for the topic in it.
  if (bodyLength < 0) return bad(out, `a body of ${bodyLength} bytes`);
  const bodyEnd = bodyStart + bodyLength;
  if (bodyEnd + version + 2 > limit) return bad(out, 'the body runs past the size');
  const topicStart = bodyEnd + version;
  const topicLength = version === 1 ? view.getInt8(bodyEnd) : view.getInt16(bodyEnd);
  if (topicLength < 0 || topicStart + topicLength + 2 > limit) return bad(out, 'the topic runs past the size');
  const topicEnd = topicStart + topicLength;
  const propertiesLength = view.getInt16(topicEnd);
  const propertiesStart = topicEnd + 2;
  const propertiesEnd = propertiesLength > 0 ? propertiesStart + propertiesLength : propertiesStart;
  if (propertiesEnd !== limit) return bad(out, 'the fields do not add up to the size');

  out.totalSize = totalSize;
  out.version = version;
  out.bodyCrc = view.getInt32(start + 8);
  out.queueId = view.getInt32(start + QUEUE_ID_AT);
  out.flag = view.getInt32(start + FLAG_AT);
  out.queueOffset = peekI64(view, start + QUEUE_OFFSET_AT);
  out.physicalOffset = peekI64(view, start + PHYSICAL_OFFSET_AT);
  out.sysFlag = sysFlag;
  out.bornTimestamp = peekI64(view, start + BORN_TIMESTAMP_AT);
  out.bornHostStart = bornHostStart;
  out.bornHostEnd = storeTimeAt;
  out.storeTimestamp = peekI64(view, storeTimeAt);
  out.storeHostStart = storeHostStart;
  out.storeHostEnd = afterHosts;
  out.reconsumeTimes = view.getInt32(afterHosts);
  out.preparedTransactionOffset = peekI64(view, afterHosts + 4);
  out.bodyStart = bodyStart;
  out.bodyEnd = bodyEnd;
  out.topicStart = topicStart;
  out.topicEnd = topicEnd;
  out.propertiesStart = propertiesStart;
  out.propertiesEnd = propertiesEnd;

  if (verify === Verify.BODY_CRC) {
    if (bodyEnd > bodyStart && crc32(bytes, bodyStart, bodyEnd) !== out.bodyCrc)
      return bad(out, 'the body CRC is wrong');
  } else if (verify === Verify.PROPERTY_CRC) {
    const block = limit - CRC_PROPERTY_BYTES;
    if (block < propertiesStart || !crcPropertyMatches(bytes, block, crc32(bytes, start, block))) {
      return bad(out, 'the property CRC is missing or wrong');
    }
  }
  return RecordOutcome.RECORD;
}

function bad(out: RecordView, reason: string): RecordOutcome {
  out.reason = reason;
  return RecordOutcome.BAD;
}
