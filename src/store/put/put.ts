// What a put is handed and what it answers. Both are single objects that a caller keeps and fills anew for every message:
// the hot path makes no object per message.

import { RecordSource } from '../../message/index.ts';
import type { ConsumeQueue } from '../consume-queue/index.ts';

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
  LMQ_CONSUME_QUEUE_NUM_EXCEEDED: 10,
  WHEEL_TIMER_FLOW_CONTROL: 11,
  WHEEL_TIMER_MSG_ILLEGAL: 12,
  WHEEL_TIMER_NOT_ENABLE: 13,
} as const;
export type PutMessageStatus = (typeof PutMessageStatus)[keyof typeof PutMessageStatus];

/** Whether the message is in the log, though perhaps not as safe as was asked. */
export function isStored(status: PutMessageStatus): boolean {
  return (
    status === PutMessageStatus.PUT_OK ||
    status === PutMessageStatus.FLUSH_DISK_TIMEOUT ||
    status === PutMessageStatus.FLUSH_SLAVE_TIMEOUT ||
    status === PutMessageStatus.SLAVE_NOT_AVAILABLE
  );
}

export function putStatusName(status: PutMessageStatus): string {
  for (const [name, value] of Object.entries(PutMessageStatus)) if (value === status) return name;
  return 'UNKNOWN_ERROR';
}

/**
 * One message to append, or one client batch. Byte ranges are borrowed: they are read before `put` returns and never after.
 * For a batch, `body` is the wire form (docs/formats/commit-log.md), and each member becomes a record of its own.
 */
export class PutRequest extends RecordSource {
  batch = false;
  /** False only for the property WAIT=false: the answer does not wait for a flush or a replica. */
  waitStoreMsgOK = true;
  /**
   * True: whoever puts it has seen that there is nothing to rewrite: no property whose name begins with INNER_, no inner-batch flag. False
   * has the put look for itself.
   */
  plain = false;
  /** The broker's own bookkeeping, for which no sender waits: reads of old messages do not slow down for it. */
  isOwn = false;
  /** What `MessageStore.queuesOf` said of `topic`; undefined leaves the look-up to the put. */
  queues: readonly ConsumeQueue[] | undefined = undefined;
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
