// Walks over the records of a pair of files in the order of their units, in the background: what compaction, verification and mending look at.

import { type Clock, viewOf } from '../../common/index.ts';
import type { DoneBytes } from '../../io/index.ts';
import { RecordOutcome, RecordView, readRecord, Verify } from '../../message/index.ts';
import type { ReadLane, SegmentFile } from '../segment/index.ts';
import { CompactionUnit, UNIT_BYTES } from './compaction-format.ts';
import type { FilePair } from './pair-list.ts';
import { nextTurn } from './waits.ts';

/** Bytes of records that are looked at before the loop gets a turn. */
const CHUNK_BYTES = 64 * 1024;
const CHUNK_UNITS = 512;

/** What a walk comes by: the record of a unit lies at `bytes[start, start + unit.size)`. */
export interface WalkVisitor {
  record(bytes: Uint8Array, start: number, record: RecordView, unit: CompactionUnit): void;
  /** A unit whose record is not whole. Awaited before the walk goes on. */
  damaged?(unit: CompactionUnit, reason: string): Promise<void> | void;
  /** Called after each chunk; false ends the walk. */
  goesOn?(): boolean;
}

/** Walks over the units [first, pair.unitsWritten). @throws GantryError IO. */
export async function walkRecords(
  clock: Clock,
  reads: ReadLane,
  pair: FilePair,
  first: number,
  visitor: WalkVisitor,
): Promise<void> {
  const units = new Uint8Array(CHUNK_UNITS * UNIT_BYTES);
  const unitView = viewOf(units);
  const unit = new CompactionUnit();
  const record = new RecordView();
  let bytes = new Uint8Array(CHUNK_BYTES);
  const end = pair.unitsWritten;
  const logEnd = pair.logWritten;
  for (let index = first; index < end; ) {
    const wanted = Math.min(CHUNK_UNITS, end - index);
    const got = Math.floor(
      (await read(reads, pair.queue, units, wanted * UNIT_BYTES, index * UNIT_BYTES)) / UNIT_BYTES,
    );
    if (got === 0) return;
    for (let i = 0; i < got; ) {
      if (!unit.read(unitView, i * UNIT_BYTES)) {
        await visitor.damaged?.(unit, `its unit ${index + i} is none`);
        i++;
        continue;
      }
      // Of the units that follow, as many as a chunk holds: records lie one behind the other.
      const from = unit.position - pair.base;
      const least = unit.size;
      if (from < 0 || from + least > logEnd) {
        await visitor.damaged?.(unit, `its unit ${index + i} names ${least} bytes that the log file has not`);
        i++;
        continue;
      }
      if (least > bytes.length) bytes = new Uint8Array(least);
      const have = await read(reads, pair.log, bytes, Math.min(bytes.length, logEnd - from), from);
      const view = viewOf(bytes);
      for (; i < got; i++) {
        if (!unit.read(unitView, i * UNIT_BYTES)) break;
        const start = unit.position - pair.base - from;
        if (start < 0 || start + unit.size > have) break;
        const reason = faultOf(bytes, view, start, unit, record);
        if (reason === undefined) visitor.record(bytes, start, record, unit);
        else await visitor.damaged?.(unit, reason);
      }
      if (i < got && unit.position - pair.base === from && unit.size > have) {
        await visitor.damaged?.(unit, 'the log file ends before it does');
        i++;
      }
      if (visitor.goesOn?.() === false) return;
      await nextTurn(clock);
    }
    index += got;
  }
}

/** What is wrong with the record of a unit; undefined if it is whole. */
export function faultOf(
  bytes: Uint8Array,
  view: DataView,
  start: number,
  unit: CompactionUnit,
  record: RecordView,
): string | undefined {
  const outcome = readRecord(bytes, view, start, start + unit.size, Verify.BODY_CRC, record);
  if (outcome === RecordOutcome.BAD) return record.reason;
  const isIt =
    outcome === RecordOutcome.RECORD &&
    record.totalSize === unit.size &&
    record.physicalOffset === unit.position &&
    record.queueOffset === unit.queueOffset;
  return isIt ? undefined : 'what lies there is not the record that its unit names';
}

function read(
  reads: ReadLane,
  file: SegmentFile,
  target: Uint8Array,
  length: number,
  position: number,
): Promise<number> {
  return new Promise((resolve, reject) => {
    const done: DoneBytes = (error, got) => (error === undefined ? resolve(got) : reject(error));
    reads.read(file, target, length, position, done);
  });
}
