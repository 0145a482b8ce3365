// What a put is handed and what it answers. Both are single objects that a caller keeps and fills anew for every message:
// the hot path makes no object per message.

/** RocketMQ: PutMessageStatus. The value is a small number; `putStatusName` gives RocketMQ's name. */
export const PutMessageStatus = {
  PUT_OK: 0,
  FLUSH_DISK_TIMEOUT: 1,
  FLUSH_SLAVE_TIMEOUT: 2,
  SLAVE_NOT_AVAILABLE: 3,
  SERVICE_NOT_AVAILABLE: 4,
  CREATE_MAPPED_FILE_FAILED: 5,
  MESSAGE_ILLEGAL: 6,
  PROPERTIES_SIZE_EXCEEDED: 7,
  OS_PAGE_CACHE_BUSY: 8,
  UNKNOWN_ERROR: 9,
} as const;
export type PutMessageStatus = (typeof PutMessageStatus)[keyof typeof PutMessageStatus];

export function putStatusName(status: PutMessageStatus): string {
  for (const [name, value] of Object.entries(PutMessageStatus)) if (value === status) return name;
  return 'UNKNOWN_ERROR';
}

const EMPTY = new Uint8Array(0);

/**
 * One message to append, or one client batch. Byte ranges are borrowed: they are read before `put` returns and never after.
 * `properties` is the stored text already (name 0x01 value 0x02 ...), without the property CRC.
 */
export class PutRequest {
  topic = '';
  /** UTF-8 of `topic`. */
  topicBytes: Uint8Array = EMPTY;
  queueId = 0;
  flag = 0;
  sysFlag = 0;
  bornTimestamp = 0;
  /** 4 or 16 address bytes, then the port as i32. */
  bornHost: Uint8Array = EMPTY;
  storeHost: Uint8Array = EMPTY;
  reconsumeTimes = 0;
  preparedTransactionOffset = 0;
  /** The body is `body[bodyStart, bodyEnd)`; for a batch the wire form of store-format.md 2.10. */
  body: Uint8Array = EMPTY;
  bodyStart = 0;
  bodyEnd = 0;
  properties: Uint8Array = EMPTY;
  propertiesLength = 0;
  /** True: `body` holds a client batch, each member of which becomes a record of its own. */
  batch = false;
  /** False only for the property WAIT=false: the answer does not wait for a flush or a replica. */
  waitStoreMsgOK = true;
}

/** What a put did. Meaningful fields depend on the status; offsets only when something was appended. */
export class PutResult {
  status: PutMessageStatus = PutMessageStatus.UNKNOWN_ERROR;
  /** Start of the (first) record. */
  wroteOffset = 0;
  /** Bytes appended; the watermark to wait for is `wroteOffset + wroteBytes`. */
  wroteBytes = 0;
  queueOffset = 0;
  storeTimestamp = 0;
  /** Records appended (a batch appends several). */
  messageCount = 0;
  /** Start of each record of a batch; filled for batches only. */
  batchOffsets: number[] = [];
  /** For a refusal: the reason in words, with the limit and what was measured. */
  reason = '';
}
