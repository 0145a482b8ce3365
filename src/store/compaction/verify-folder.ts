// Looks through the compaction logs of a store that nobody has open, or that somebody has: nothing is changed. What is listed is what a start would
// use; what is damaged is named by file, byte and reason.

import { viewOf } from '../../common/index.ts';
import type { FileSystem } from '../../io/index.ts';
import { RecordOutcome, RecordView, readRecord, Verify } from '../../message/index.ts';
import { segmentName } from '../segment/index.ts';
import {
  COMPACTING_FOLDER,
  COMPACTION_FOLDER,
  CompactionUnit,
  DELETE_SUFFIX,
  UNIT_BYTES,
} from './compaction-format.ts';
import { CompactionPositions } from './compaction-positions.ts';
import { basesIn, compactionFolders, logFolderOf, queueFolderOf } from './load-pairs.ts';

/** One pair of files. */
export interface CompactionFile {
  readonly name: string;
  readonly records: number;
  /** Bytes of records. */
  readonly bytes: number;
  /** Queue offsets; -1 without a record. */
  readonly firstOffset: number;
  readonly lastOffset: number;
}

/** One queue's compaction log. */
export interface CompactionReport {
  readonly topic: string;
  readonly queueId: number;
  readonly files: readonly CompactionFile[];
  /** Queue offset up to which it is compacted; -1: not at all. */
  readonly compactedTo: number;
  /** `file: byte N: reason`. */
  readonly faults: readonly string[];
}

/** Looks at all compaction logs below a store's root. @throws GantryError IO. */
export function* verifyCompaction(fs: FileSystem, root: string): Generator<CompactionReport> {
  const positions = new CompactionPositions(fs, `${root}/${COMPACTION_FOLDER}`);
  const warnings: string[] = [];
  positions.load({ debug() {}, info() {}, error() {}, warn: (text: string) => warnings.push(text) });
  for (const { topic, queueId } of compactionFolders(fs, root)) {
    const faults = [...warnings.splice(0)];
    const logFolder = logFolderOf(root, topic, queueId);
    const queueFolder = queueFolderOf(root, topic, queueId);
    const files: CompactionFile[] = [];
    const bases = [...new Set([...basesIn(fs, logFolder), ...basesIn(fs, queueFolder)])].sort((a, b) => a - b);
    let last = -1;
    for (const base of bases) {
      const file = lookAt(fs, logFolder, queueFolder, base, faults);
      if (file.firstOffset >= 0 && file.firstOffset <= last)
        faults.push(
          `${queueFolder}/${file.name}: byte 0: begins with message ${file.firstOffset}, the file before it ends with ${last}`,
        );
      last = Math.max(last, file.lastOffset);
      files.push(file);
    }
    for (const folder of [logFolder, queueFolder]) {
      const rest = fs.list(folder).filter((name) => name.endsWith(DELETE_SUFFIX) || name === COMPACTING_FOLDER);
      for (const name of rest) faults.push(`${folder}/${name}: left by a compaction that did not come to its end`);
    }
    yield { topic, queueId, files, compactedTo: positions.get(`${topic}_${queueId}`), faults };
  }
}

function lookAt(
  fs: FileSystem,
  logFolder: string,
  queueFolder: string,
  base: number,
  faults: string[],
): CompactionFile {
  const name = segmentName(base);
  const [log, queue] = [`${logFolder}/${name}`, `${queueFolder}/${name}`];
  let records = 0;
  let end = 0;
  let firstOffset = -1;
  let lastOffset = -1;
  const missing = [log, queue].find((path) => fs.stat(path) === undefined);
  if (missing !== undefined) {
    faults.push(`${missing}: byte 0: the file is missing`);
    return { name, records, bytes: end, firstOffset, lastOffset };
  }
  const logFile = fs.open(log, 'read');
  const queueFile = fs.open(queue, 'read');
  try {
    const unitBytes = new Uint8Array(UNIT_BYTES);
    const unitView = viewOf(unitBytes);
    const unit = new CompactionUnit();
    const record = new RecordView();
    const size = queueFile.size();
    for (let at = 0; at + UNIT_BYTES <= size; at += UNIT_BYTES) {
      queueFile.readSync(unitBytes, 0, UNIT_BYTES, at);
      if (!unit.read(unitView, 0)) {
        // An end unit and zeros end it; anything else is damage.
        const isEnd = unit.size === 0 && (unit.position === -1 || unit.position === 0);
        if (!isEnd) faults.push(`${queue}: byte ${at}: no unit`);
        break;
      }
      const start = unit.position - base;
      const room = start < 0 ? 0 : Math.max(0, logFile.size() - start);
      const bytes = new Uint8Array(Math.min(unit.size, room));
      const got = bytes.length === 0 ? 0 : logFile.readSync(bytes, 0, bytes.length, start);
      const outcome = readRecord(bytes, viewOf(bytes), 0, got, Verify.BODY_CRC, record);
      if (outcome !== RecordOutcome.RECORD) {
        faults.push(
          `${log}: byte ${start}: ${outcome === RecordOutcome.BAD ? record.reason : 'the record is cut short'}`,
        );
      } else if (record.physicalOffset !== unit.position || record.queueOffset !== unit.queueOffset) {
        faults.push(`${log}: byte ${start}: not the record that its unit names`);
      }
      if (unit.queueOffset <= lastOffset)
        faults.push(`${queue}: byte ${at}: message ${unit.queueOffset} behind ${lastOffset}`);
      if (start !== end) faults.push(`${queue}: byte ${at}: names byte ${start} of the log file, ${end} is expected`);
      if (firstOffset < 0) firstOffset = unit.queueOffset;
      lastOffset = unit.queueOffset;
      end = start + unit.size;
      records++;
    }
  } finally {
    logFile.close();
    queueFile.close();
  }
  return { name, records, bytes: end, firstOffset, lastOffset };
}
