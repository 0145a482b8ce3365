// What a read is handed and what it answers.

import type { GantryError, QueueOffset } from '../../common/index.ts';

/** RocketMQ: GetMessageStatus. */
export const GetMessageStatus = {
  FOUND: 0,
  NO_MATCHED_MESSAGE: 1,
  MESSAGE_WAS_REMOVING: 2,
  OFFSET_FOUND_NULL: 3,
  OFFSET_OVERFLOW_BADLY: 4,
  OFFSET_OVERFLOW_ONE: 5,
  OFFSET_TOO_SMALL: 6,
  NO_MATCHED_LOGIC_QUEUE: 7,
  NO_MESSAGE_IN_QUEUE: 8,
  OFFSET_RESET: 9,
} as const;
export type GetMessageStatus = (typeof GetMessageStatus)[keyof typeof GetMessageStatus];

const NAMES = Object.keys(GetMessageStatus) as Array<keyof typeof GetMessageStatus>;
/** RocketMQ's name of a status; it is also the remark of a pull answer. */
export function getStatusName(status: GetMessageStatus): string {
  return NAMES[status]!;
}

/** Decides on the record itself. */
export interface RecordFilter {
  /** False if the filter bits at `bytes[at, at + length)` of a message's ext unit, stored at `storeTimestamp`, say that it surely does not match. */
  mayMatch(storeTimestamp: number, bytes: Uint8Array, at: number, length: number): boolean;
  /** Whether a record with the property text `bytes[start, end)` matches. */
  matches(bytes: Uint8Array, start: number, end: number): boolean;
}

/** Decides on a ConsumeQueue unit, by its tagsCode (the low 32 bits count), and further on the record where `record` is given. */
export interface TagFilter {
  /** True: everything matches. */
  readonly all: boolean;
  /** Java string hashes of the wanted tags. */
  readonly codes: ReadonlySet<number>;
  readonly record?: RecordFilter | undefined;
}

/** What a pull asks for. */
export interface GetRequest {
  topic: string;
  queueId: number;
  /** Queue offset to begin at. */
  offset: number;
  maxMessages: number;
  maxBytes: number;
  filter: TagFilter;
}

/** Holds records that do not lie in the CommitLog. */
export interface RecordsElsewhere {
  /** As `MessageStore.copyRecords`. */
  copyRecords(result: GetResult, target: Uint8Array, at: number, ready: (error?: GantryError) => void): boolean;
}

/** Most records of one pull, whatever is asked for. */
const MAX_SELECTED = 256;

/**
 * The records that a pull may hand out: positions and sizes first (filled by `MessageStore.select`), the bytes copied afterwards
 * by `MessageStore.copyRecords`, straight into the response. One object per caller, filled anew.
 */
export class GetResult {
  status: GetMessageStatus = GetMessageStatus.NO_MATCHED_LOGIC_QUEUE;
  nextBeginOffset: QueueOffset = 0 as QueueOffset;
  minOffset: QueueOffset = 0 as QueueOffset;
  maxOffset: QueueOffset = 0 as QueueOffset;
  /** Number of records in `positions` and `sizes`. */
  count = 0;
  /** Messages in these beyond one each: records of batch queues hold several. */
  batched = 0;
  /** Physical offsets. */
  readonly positions: Float64Array = new Float64Array(MAX_SELECTED);
  /** Queue offsets; of a batch record that of its first message. */
  readonly ordinals: Float64Array = new Float64Array(MAX_SELECTED);
  readonly sizes: Int32Array = new Int32Array(MAX_SELECTED);
  /** Sum of the sizes. */
  totalBytes = 0;
  suggestPullingFromSlave = false;
  /** Physical offset of the unit that was looked at first; -1 if none was. */
  firstPosition = -1;
  /** With `coldDataFlowControlEnable`: bytes of `totalBytes` that are old. RocketMQ: coldDataSum. */
  coldBytes = 0;
  /** How far `copyRecords` has come, for a call that is repeated: whole records, and bytes of the next one. */
  copied = 0;
  copiedPart = 0;
  /** The plain queue that was read; undefined for a batch queue. */
  topic: string | undefined = undefined;
  queueId = 0;
  /** Whose places `positions` are; undefined: the CommitLog's. */
  elsewhere: RecordsElsewhere | undefined = undefined;
  /** Which files of `elsewhere` they speak of. */
  generation = 0;
}
