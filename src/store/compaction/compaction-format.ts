// The files of compaction topics: lengths, units, the end of a file (docs/formats/compaction.md is the page behind this file).
//
//   compaction/compactionLog/<topic>/<queueId>/<20 digits>   records of the CommitLog, PHYSICALOFFSET replaced by the place here
//   compaction/compactionCq/<topic>/<queueId>/<same name>    a unit for each record of the log file of the same name
//
//   unit: position i64 | size i32 | tagsCode i64 | store time i64 | queue offset i64 | 1 i16 | -1 i32 | 0 i32                46 bytes
//   end unit: -1 i64 | 0 i32 | 0 i64 | 0 i64 | 0 i64 | 0 i16 | -1 i32 | 0 i32        end of a log file: left i32 | CBD43194 | zeros
//
// RocketMQ: CompactionLog, SparseConsumeQueue.

import { peekI64, viewOf, writeI64 } from '../../common/index.ts';

/** Bytes of a unit. */
export const UNIT_BYTES = 46;
/** Least number of queue files that a log file is as long as. */
const LEAST_QUEUE_FILES = 5;

/** So many bytes may be unsynced for longer than a second. */
export const UNSYNCED_BYTES: number = 4 * 1024 * 1024;

export const COMPACTION_FOLDER = 'compaction';
/** Where a new generation is made. RocketMQ: COMPACTING_SUB_FOLDER. */
export const COMPACTING_FOLDER = 'compacting';
/** Ends the name of a file that is on its way out. */
export const DELETE_SUFFIX = '.delete';

/** Bytes of one file of each kind. */
export interface CompactionSizes {
  readonly log: number;
  readonly queue: number;
}

/** RocketMQ: CompactionLog#getCompactionLogSize. */
export function compactionSizes(compactionMappedFileSize: number, compactionCqMappedFileSize: number): CompactionSizes {
  const queue = Math.max(1, Math.floor(compactionCqMappedFileSize / UNIT_BYTES)) * UNIT_BYTES;
  const whole = Math.floor(compactionMappedFileSize / queue);
  if (whole < LEAST_QUEUE_FILES) return { log: queue * LEAST_QUEUE_FILES, queue };
  const rest = compactionMappedFileSize % queue;
  return { log: rest > 0 && rest < queue >> 1 ? whole * queue : (whole + 1) * queue, queue };
}

/** A unit that was read; one object per reader, filled anew. */
export class CompactionUnit {
  /** Place of the record in the compaction log. */
  position = 0;
  size = 0;
  tagsCode = 0;
  storeTimestamp = 0;
  queueOffset = 0;

  /** Takes the unit at `at`; false if there is none: zeros, an end unit, or bytes that are no unit. */
  read(view: DataView, at: number): boolean {
    this.position = peekI64(view, at);
    this.size = view.getInt32(at + 8);
    this.tagsCode = peekI64(view, at + 12);
    this.storeTimestamp = peekI64(view, at + 20);
    this.queueOffset = peekI64(view, at + 28);
    return this.position >= 0 && this.size > 0 && this.queueOffset >= 0 && view.getInt16(at + 36) > 0;
  }
}

export function writeUnit(
  view: DataView,
  at: number,
  position: number,
  size: number,
  tagsCode: number,
  storeTimestamp: number,
  queueOffset: number,
): void {
  writeI64(view, at, position);
  view.setInt32(at + 8, size);
  writeI64(view, at + 12, tagsCode);
  writeI64(view, at + 20, storeTimestamp);
  writeI64(view, at + 28, queueOffset);
  view.setInt16(at + 36, 1);
  view.setInt32(at + 38, -1);
  view.setInt32(at + 42, 0);
}

/** The unit that ends a file before it is full. RocketMQ: SparseConsumeQueue#putEndPositionInfo. */
export const END_UNIT: Uint8Array = endUnit();

function endUnit(): Uint8Array {
  const bytes = new Uint8Array(UNIT_BYTES);
  const view = viewOf(bytes);
  writeI64(view, 0, -1);
  view.setInt32(38, -1);
  return bytes;
}
