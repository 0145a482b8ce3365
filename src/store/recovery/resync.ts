// Finds where the log goes on behind bytes that are no record. A record's size cannot be believed there, so the next one is searched for:
// magic, CRC, and a physical offset that is its own position. Stale bytes and copies of records inside bodies fail the last.

import { peekI64, viewOf } from '../../common/index.ts';
import {
  BLANK_BYTES,
  MAGIC_BLANK,
  MAGIC_V1,
  MAGIC_V2,
  MIN_RECORD_BYTES,
  PHYSICAL_OFFSET_AT,
  RecordOutcome,
  RecordView,
  readRecord,
  Verify,
} from '../../message/index.ts';
import type { SegmentFile } from '../segment/index.ts';

const STEP_BYTES = 1024 * 1024;
/** Bytes of a head up to and with the physical offset. */
const HEAD_BYTES = PHYSICAL_OFFSET_AT + 8;
/** What the magics of records share, and the filler's magic. */
const RECORD_START: Buffer = Buffer.from([0xda, 0xa3, 0x20]);
const BLANK: Buffer = Buffer.from([0xcb, 0xd4, 0x31, 0x94]);

/** Bytes of the log in one file that are no record, and where it goes on. */
export interface DamagedRun {
  file: SegmentFile;
  /** Physical offsets. */
  start: number;
  end: number;
  /** It is one record: its size leads on. */
  isOne: boolean;
  reason: string;
}

/**
 * The run that begins with the bad bytes at `start`, up to the next record or filler of the file, to `limit` (a boundary that is known),
 * or to the file's end. If the bad record's size leads to a record, that is its end.
 */
export function damagedRun(
  file: SegmentFile,
  start: number,
  limit: number,
  verify: Verify,
  reason: string,
): DamagedRun {
  const stop = Math.min(limit, file.end);
  const head = bytesAt(file, start, HEAD_BYTES);
  const size = head === undefined ? 0 : viewOf(head).getInt32(0);
  const end = start + size;
  if (size >= MIN_RECORD_BYTES && end <= stop && (end === limit || leadsOn(file, end)))
    return { file, start, end, isOne: true, reason };
  return { file, start, end: nextSound(file, start + 1, stop, verify), isOne: false, reason };
}

/** Where the next sound record, or the filler, of a file begins in [from, stop); `stop` if there is none. */
export function nextSound(file: SegmentFile, from: number, stop: number, verify: Verify): number {
  const step = Buffer.alloc(Math.min(STEP_BYTES, Math.max(8, stop - from)));
  // A magic may lie across two steps.
  for (let at = from; at + 8 <= stop; at += step.length - 7) {
    const got = file.handle().readSync(step, 0, Math.min(step.length, file.end - at), at - file.base);
    const bytes = step.subarray(0, got);
    let record = bytes.indexOf(RECORD_START, 4);
    let filler = bytes.indexOf(BLANK, 4);
    while (record >= 0 || filler >= 0) {
      const isNext = filler < 0 || (record >= 0 && record < filler);
      const place = at + (isNext ? record : filler) - 4;
      if (place >= stop) return stop;
      if (isNext ? isSound(file, place, verify) : isFiller(file, place)) return place;
      if (isNext) record = bytes.indexOf(RECORD_START, record + 1);
      else filler = bytes.indexOf(BLANK, filler + 1);
    }
    if (got < step.length) break;
  }
  return stop;
}

/** The record at a place if its fields add up and it says that it lies there, whatever its CRC says. */
export function recordLike(
  file: SegmentFile,
  offset: number,
  verify: Verify = Verify.STRUCTURE,
): { bytes: Uint8Array; record: RecordView } | undefined {
  const head = bytesAt(file, offset, HEAD_BYTES);
  if (head === undefined) return undefined;
  const view = viewOf(head);
  const magic = view.getInt32(4);
  if ((magic !== MAGIC_V1 && magic !== MAGIC_V2) || peekI64(view, PHYSICAL_OFFSET_AT) !== offset) return undefined;
  const size = view.getInt32(0);
  if (size < MIN_RECORD_BYTES || size > file.end - offset - BLANK_BYTES) return undefined;
  const bytes = bytesAt(file, offset, size)!;
  const record = new RecordView();
  return readRecord(bytes, viewOf(bytes), 0, size, verify, record) === RecordOutcome.RECORD
    ? { bytes, record }
    : undefined;
}

/** A whole read of [offset, offset + length); undefined if the file ends before. */
export function bytesAt(file: SegmentFile, offset: number, length: number): Uint8Array | undefined {
  if (offset + length > file.end) return undefined;
  const bytes = new Uint8Array(length);
  return file.handle().readSync(bytes, 0, length, offset - file.base) === length ? bytes : undefined;
}

export function isFiller(file: SegmentFile, offset: number): boolean {
  const head = bytesAt(file, offset, BLANK_BYTES);
  if (head === undefined) return false;
  const view = viewOf(head);
  return view.getInt32(4) === MAGIC_BLANK && view.getInt32(0) === file.end - offset;
}

/** Whether a record or filler begins there, if only by its head: it may be damaged itself. */
function leadsOn(file: SegmentFile, offset: number): boolean {
  if (isFiller(file, offset)) return true;
  const head = bytesAt(file, offset, HEAD_BYTES);
  if (head === undefined) return false;
  const view = viewOf(head);
  const magic = view.getInt32(4);
  return (magic === MAGIC_V1 || magic === MAGIC_V2) && peekI64(view, PHYSICAL_OFFSET_AT) === offset;
}

function isSound(file: SegmentFile, offset: number, verify: Verify): boolean {
  return recordLike(file, offset, verify) !== undefined;
}
