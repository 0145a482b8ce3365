// Walks any part of the CommitLog, at once, and says where the first bytes are that are no record: for the look at what was durable, which
// changes nothing and goes on behind damage. Where the log ends is decided by scan-log.ts.

import { assert, viewOf } from '../../common/index.ts';
import { MAGIC_BLANK, RecordOutcome, RecordView, readRecord, Verify } from '../../message/index.ts';
import type { SegmentFile } from '../segment/index.ts';

const WINDOW_BYTES = 4 * 1024 * 1024;

/** Where a scan ended and why. */
export interface WalkResult {
  /** End of the sound data. */
  end: number;
  /** Start of the last sound record; -1 if there is none. */
  lastRecord: number;
  /** Records seen. */
  records: number;
  /** Bytes read. */
  scannedBytes: number;
  /** `end`, or the end of the filler that stands there with no file behind it. */
  fillerEnd: number;
  /** undefined: the log simply ends here (zeros, or no file behind a filler). Otherwise what is wrong with the bytes at `end`. */
  damage: string | undefined;
}

/** What part of the log to walk, and what is known of it. Physical offsets. */
export interface WalkRange {
  /** A record's start in the first file; default the file's. */
  from?: number;
  /** The scan ends at the first record that starts here or behind. */
  to?: number;
  /** Bodies in here have been checked. */
  checked?: { from: number; to: number };
  /** Below this no record can be torn: it was synced. */
  tornFrom?: number;
}

/**
 * Reads records from the start of `files[first]` on and hands each to `visit`. The view and bytes are reused: `visit` keeps nothing,
 * and ends the scan before its record by answering false.
 * With `tornTail` (an unclean stop) a last record with zeros in its topic or properties is no record: no CRC covers those bytes.
 * RocketMQ: keeps it, without its keys and tag.
 * A record that says it lies elsewhere ends the log, too: stale bytes of an earlier writer can be sound in all else.
 */
export function walkLog(
  files: readonly SegmentFile[],
  first: number,
  verify: Verify,
  tornTail: boolean,
  visit: (bytes: Uint8Array, record: RecordView) => unknown,
  progress: (scannedBytes: number) => void = () => {},
  range: WalkRange = {},
): WalkResult {
  const { to = Number.POSITIVE_INFINITY, tornFrom = 0 } = range;
  const { from: checkedFrom, to: checkedTo } = range.checked ?? { from: 0, to: 0 };
  let window = new Uint8Array(0);
  let view = new DataView(window.buffer);
  const record = new RecordView();
  const result: WalkResult = {
    end: range.from ?? files[first]?.base ?? 0,
    fillerEnd: 0,
    lastRecord: -1,
    records: 0,
    scannedBytes: 0,
    damage: undefined,
  };
  for (let f = first; f < files.length; f++) {
    const file = files[f]!;
    // window[0] is file byte `windowStart`; `have` bytes are in it.
    let windowStart = 0;
    let have = 0;
    let at = 0;
    const fill = (from: number, atLeast: number): void => {
      const capacity = Math.min(file.size - from, Math.max(WINDOW_BYTES, atLeast));
      if (window.length < capacity) {
        window = new Uint8Array(capacity);
        view = new DataView(window.buffer);
      }
      have = file.handle().readSync(window, 0, Math.min(window.length, file.size - from), from);
      windowStart = from;
      at = 0;
      result.scannedBytes += have;
      progress(result.scannedBytes);
    };
    fill(f === first && range.from !== undefined ? range.from - file.base : 0, 0);
    for (;;) {
      const position = windowStart + at;
      const offset = file.base + position;
      if (offset >= to) return ended(result, offset, undefined);
      const closely = offset >= checkedFrom && offset < checkedTo ? Verify.STRUCTURE : verify;
      const outcome = readRecord(window, view, at, have, closely, record);
      if (outcome === RecordOutcome.SHORT) {
        const rest = file.size - position;
        const wanted = have - at >= 8 ? view.getInt32(at) : 8;
        if (wanted <= rest && at > 0) {
          fill(position, wanted);
          continue;
        }
        if (wanted <= rest && have < rest) {
          fill(position, wanted);
          if (have > 0) continue;
        }
        return ended(
          result,
          offset,
          rest < 8 ? undefined : `a record of ${wanted} bytes runs past the end of ${file.path}`,
        );
      }
      if (outcome === RecordOutcome.BAD) {
        return ended(result, offset, record.reason === 'zeros' ? undefined : record.reason);
      }
      if (outcome === RecordOutcome.BLANK) {
        if (record.totalSize !== file.size - position) {
          return ended(result, offset, `a filler of ${record.totalSize} bytes where ${file.size - position} are left`);
        }
        // RocketMQ: a filler with no file behind it is not kept; the next append begins in its place.
        result.end = f + 1 < files.length ? file.end : offset;
        result.fillerEnd = file.end;
        break;
      }
      if (record.physicalOffset !== offset) {
        return ended(result, offset, `the record says that it lies at ${record.physicalOffset}`);
      }
      const mayBeTorn =
        tornTail && offset >= tornFrom && holdsZero(window, record) && !propertyCrcHolds(window, view, at, have);
      if (mayBeTorn && !soundFollows(files, f, position + record.totalSize, verify)) {
        return ended(result, offset, 'the last record has zeros in its topic or properties: it was written in part');
      }
      if (visit(window, record) === false) return ended(result, offset, undefined);
      result.records++;
      result.lastRecord = offset;
      at += record.totalSize;
      result.end = file.base + windowStart + at;
      result.fillerEnd = result.end;
      assert(at <= have, 'a record was read beyond the window');
    }
  }
  return result;
}

function ended(result: WalkResult, offset: number, damage: string | undefined): WalkResult {
  result.end = offset;
  result.fillerEnd = offset;
  result.damage = damage;
  return result;
}

/** Whether topic or properties hold a byte 0, which no client sends and a page that never reached the disk consists of. */
function holdsZero(bytes: Uint8Array, record: RecordView): boolean {
  const end = record.propertiesEnd;
  for (let i = record.topicStart; i < end; i++)
    if (bytes[i] === 0 && (i < record.topicEnd || i >= record.propertiesStart)) return true;
  return false;
}

/** Whether the record at `at` ends with a property CRC, and that is right. */
function propertyCrcHolds(bytes: Uint8Array, view: DataView, at: number, end: number): boolean {
  return readRecord(bytes, view, at, end, Verify.PROPERTY_CRC, new RecordView()) === RecordOutcome.RECORD;
}

/** Whether a sound record stands at a place of a file, or behind the filler there, at the start of the next one. */
function soundFollows(files: readonly SegmentFile[], index: number, position: number, verify: Verify): boolean {
  const file = files[index];
  if (file === undefined) return false;
  const head = new Uint8Array(8);
  if (file.handle().readSync(head, 0, 8, position) < 8) return false;
  const view = viewOf(head);
  const size = view.getInt32(0);
  if (view.getInt32(4) === MAGIC_BLANK)
    return size === file.size - position && soundFollows(files, index + 1, 0, verify);
  if (size < 8 || size > file.size - position) return false;
  const bytes = new Uint8Array(size);
  file.handle().readSync(bytes, 0, size, position);
  const record = new RecordView();
  const outcome = readRecord(bytes, viewOf(bytes), 0, size, verify, record);
  return outcome === RecordOutcome.RECORD && record.physicalOffset === file.base + position;
}
