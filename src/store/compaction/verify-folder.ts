// Looks through the compaction logs of a store that nobody has open, or that somebody has: nothing is changed. What is listed is what a start would
// use; what is damaged is named by file, byte and reason.

import { viewOf } from '../../common/index.ts';
import type { FileHandle, FileSystem } from '../../io/index.ts';
import { MIN_RECORD_BYTES, RecordOutcome, RecordView, readRecord, Verify } from '../../message/index.ts';
import { segmentName } from '../segment/index.ts';
import {
  COMPACTING_FOLDER,
  COMPACTION_FOLDER,
  CompactionUnit,
  DELETE_SUFFIX,
  UNIT_BYTES,
  writeUnit,
} from './compaction-format.ts';
import { CompactionPositions } from './compaction-positions.ts';
import { basesIn, compactionFolders, logFolderOf, queueFolderOf } from './load-pairs.ts';
import { KeyLook } from './record-copy.ts';

const STEP_UNITS = 1424;
const WINDOW_BYTES = 256 * 1024;
/** Behind place and size in a unit. */
const TAGS_AT = 12;

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

/** A place that is not what it must be. */
export interface CompactionFault {
  readonly file: string;
  readonly byte: number;
  readonly reason: string;
  /** A compaction did not come to its end: a start brings the folder into order. */
  readonly isUnfinished?: true;
  /** A unit was not written yet: a start adds it. */
  readonly isLag?: true;
  /** Unit and record differ, but which record it is that the unit names is not in doubt. */
  readonly isDetail?: true;
}

/** One queue's compaction log. */
export interface CompactionReport {
  readonly topic: string;
  readonly queueId: number;
  readonly files: readonly CompactionFile[];
  /** Queue offset up to which it is compacted; -1: not at all. */
  readonly compactedTo: number;
  readonly faults: readonly CompactionFault[];
}

/** Looks at all compaction logs below a store's root. @throws GantryError IO. */
export function* verifyCompaction(fs: FileSystem, root: string): Generator<CompactionReport> {
  const positions = new CompactionPositions(fs, `${root}/${COMPACTION_FOLDER}`);
  const odd: CompactionFault[] = [];
  const warn = (reason: string): void => void odd.push({ file: positions.path, byte: 0, reason });
  positions.load({ debug() {}, info() {}, error() {}, warn });
  for (const { topic, queueId } of compactionFolders(fs, root)) {
    const faults = [...odd.splice(0)];
    const logFolder = logFolderOf(root, topic, queueId);
    const queueFolder = queueFolderOf(root, topic, queueId);
    const files: CompactionFile[] = [];
    const bases = [...new Set([...basesIn(fs, logFolder), ...basesIn(fs, queueFolder)])].sort((a, b) => a - b);
    let last = -1;
    for (const base of bases) {
      const file = lookAt(fs, logFolder, queueFolder, base, faults);
      if (file.firstOffset >= 0 && file.firstOffset <= last)
        faults.push({
          file: `${queueFolder}/${file.name}`,
          byte: 0,
          reason: `begins with message ${file.firstOffset}, the file before it ends with ${last}`,
        });
      last = Math.max(last, file.lastOffset);
      files.push(file);
    }
    for (const folder of [logFolder, queueFolder]) {
      const rest = fs.list(folder).filter((name) => name.endsWith(DELETE_SUFFIX) || name === COMPACTING_FOLDER);
      const reason = 'left by a compaction that did not come to its end';
      for (const name of rest) faults.push({ file: `${folder}/${name}`, byte: 0, reason, isUnfinished: true });
    }
    yield { topic, queueId, files, compactedTo: positions.get(`${topic}_${queueId}`), faults };
  }
}

function lookAt(
  fs: FileSystem,
  logFolder: string,
  queueFolder: string,
  base: number,
  faults: CompactionFault[],
): CompactionFile {
  const name = segmentName(base);
  const [log, queue] = [`${logFolder}/${name}`, `${queueFolder}/${name}`];
  let records = 0;
  let end = 0;
  let firstOffset = -1;
  let lastOffset = -1;
  const missing = [log, queue].find((path) => fs.stat(path) === undefined);
  if (missing !== undefined) {
    faults.push({ file: missing, byte: 0, reason: 'the file is missing' });
    return { name, records, bytes: end, firstOffset, lastOffset };
  }
  const logFile = fs.open(log, 'read');
  const queueFile = fs.open(queue, 'read');
  try {
    const units = new Uint8Array(STEP_UNITS * UNIT_BYTES);
    const unitsView = viewOf(units);
    const unit = new CompactionUnit();
    const record = new RecordView();
    const key = new KeyLook();
    const window = new LogWindow(logFile);
    const wanted = new Uint8Array(UNIT_BYTES);
    const wantedView = viewOf(wanted);
    let unitsEnd = 0;
    let isTorn = false;
    const inQueue = (byte: number, reason: string): void => void faults.push({ file: queue, byte, reason });
    const inLog = (byte: number, reason: string): void => void faults.push({ file: log, byte, reason });
    scan: for (let from = 0; ; from += units.length) {
      const got = queueFile.readSync(units, 0, units.length, from);
      for (let i = 0; i + UNIT_BYTES <= got; i += UNIT_BYTES) {
        const at = from + i;
        if (!unit.read(unitsView, i)) {
          // An end unit and zeros end it. Other bytes are damage if there is a record for them; if not, they are what a power cut has torn.
          isTorn = unit.size !== 0 || (unit.position !== -1 && unit.position !== 0);
          break scan;
        }
        // Records lie one behind the other, and each says how long it is.
        const start = unit.position - base;
        const reason = window.read(end, base, record);
        if (start !== end) inQueue(at, `names byte ${start} of the log file, ${end} is expected`);
        else if (reason !== '') inLog(end, reason);
        else {
          key.look(window.bytes, record);
          const { totalSize, storeTimestamp } = record;
          writeUnit(wantedView, 0, unit.position, totalSize, key.tagsCode, storeTimestamp, record.queueOffset);
          const k = wanted.findIndex((value, n) => value !== units[i + n]);
          const isDetail = k >= TAGS_AT;
          const differs = `byte ${k} is ${units[i + k]}; by the record, byte ${end} of ${log}, it is ${wanted[k]}`;
          if (k >= 0) faults.push({ file: queue, byte: at, reason: differs, ...(isDetail ? { isDetail } : {}) });
        }
        const { queueOffset } = unit;
        if (queueOffset <= lastOffset) inQueue(at, `message ${queueOffset} behind ${lastOffset}`);
        if (firstOffset < 0) firstOffset = queueOffset;
        lastOffset = queueOffset;
        end += reason === '' ? record.totalSize : unit.size;
        records++;
        unitsEnd = at + UNIT_BYTES;
      }
      if (got < units.length) break;
    }
    if (window.read(end, base, record) === '' && record.queueOffset > lastOffset) {
      const reason = `${isTorn ? 'it is no unit' : 'no unit is there'}; it must be that of message ${record.queueOffset}, byte ${end} of ${log}`;
      faults.push({ file: queue, byte: unitsEnd, reason, ...(isTorn ? {} : { isLag: true }) });
    }
  } finally {
    logFile.close();
    queueFile.close();
  }
  return { name, records, bytes: end, firstOffset, lastOffset };
}

/** Records of a file, read many at once. */
class LogWindow {
  bytes: Uint8Array = new Uint8Array(WINDOW_BYTES);
  view: DataView = viewOf(this.bytes);
  readonly #file: FileHandle;
  readonly #size: number;
  #start = 0;
  #count = 0;

  constructor(file: FileHandle) {
    this.#file = file;
    this.#size = file.size();
  }

  /** Reads the record at a place of the file, which begins at `base`; what is wrong with it, '' if nothing. */
  read(start: number, base: number, record: RecordView): string {
    const head = this.#at(start, MIN_RECORD_BYTES);
    const size = head < 0 ? 0 : this.view.getInt32(head);
    const at = size < MIN_RECORD_BYTES ? -1 : this.#at(start, size);
    if (at < 0) return head < 0 || size >= MIN_RECORD_BYTES ? 'the record is cut short' : `a record of ${size} bytes`;
    const outcome = readRecord(this.bytes, this.view, at, at + size, Verify.BODY_CRC, record);
    if (outcome === RecordOutcome.BAD) return record.reason;
    if (outcome !== RecordOutcome.RECORD) return 'it is no record';
    return record.physicalOffset === base + start ? '' : `the record says that it lies at ${record.physicalOffset}`;
  }

  /** Index in `bytes` of what lies at a place of the file; -1: it has not so many bytes. */
  #at(start: number, length: number): number {
    if (start < 0 || start + length > this.#size) return -1;
    if (start < this.#start || start + length > this.#start + this.#count) {
      if (length > this.bytes.length) {
        this.bytes = new Uint8Array(length);
        this.view = viewOf(this.bytes);
      }
      this.#count = this.#file.readSync(this.bytes, 0, this.bytes.length, start);
      this.#start = start;
    }
    return start + length > this.#start + this.#count ? -1 : start - this.#start;
  }
}
