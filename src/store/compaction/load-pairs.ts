// Finds the files of a compaction log at a start, of ours or of a Java broker, and brings folders into order that a kill has left half done.
//
//   a plan of ours                      carried out to its end (replacement.ts)
//   compacting/, no .delete             a compaction that did not come to its end: dropped
//   .delete, compacting/ still whole    Java's replacement before its first new file moved: taken back
//   .delete, some have moved            Java's replacement behind that: carried out to its end
//   a log file without its queue file   the queue file is made again from the records
//   a queue file without its log file   an empty log file, whose records are written again from the CommitLog (CompactionLog)
//
// RocketMQ: CompactionLog.TopicPartitionLog#init. It does not start in any of these cases but the first two.

import { GantryError, type Logger, viewOf } from '../../common/index.ts';
import { type FileSystem, makeDirectoryDurably } from '../../io/index.ts';
import { MIN_RECORD_BYTES, RecordOutcome, RecordView, readRecord, Verify } from '../../message/index.ts';
import { type SegmentFile, segmentName } from '../segment/index.ts';
import type { MessageStoreConfig } from '../store-config.ts';
import {
  COMPACTING_FOLDER,
  COMPACTION_FOLDER,
  type CompactionSizes,
  CompactionUnit,
  compactionSizes,
  DELETE_SUFFIX,
  UNIT_BYTES,
  writeUnit,
} from './compaction-format.ts';
import { readUnit, scanUnits } from './cutting.ts';
import { FilePair, PairList } from './pair-list.ts';
import { KeyLook } from './record-copy.ts';

export function logFolderOf(root: string, topic: string, queueId: number): string {
  return `${root}/${COMPACTION_FOLDER}/compactionLog/${topic}/${queueId}`;
}

export function queueFolderOf(root: string, topic: string, queueId: number): string {
  return `${root}/${COMPACTION_FOLDER}/compactionCq/${topic}/${queueId}`;
}

/** Topics and queues that have a folder for a compaction log. */
export function* compactionFolders(fs: FileSystem, root: string): Generator<{ topic: string; queueId: number }> {
  const seen = new Set<string>();
  for (const kind of ['compactionLog', 'compactionCq']) {
    const folder = `${root}/${COMPACTION_FOLDER}/${kind}`;
    for (const topic of fs.list(folder).sort()) {
      for (const queueId of fs.list(`${folder}/${topic}`)) {
        if (!/^\d{1,9}$/.test(queueId) || seen.has(`${topic}/${queueId}`)) continue;
        seen.add(`${topic}/${queueId}`);
        yield { topic, queueId: Number(queueId) };
      }
    }
  }
}

/** Bases of the files in a folder, in order. */
export function basesIn(fs: FileSystem, folder: string): number[] {
  return fs
    .list(folder)
    .filter((name) => /^\d{20}$/.test(name))
    .map(Number)
    .sort((a, b) => a - b);
}

/**
 * Refuses a start with files of another length than the settings say, before anything is changed.
 * @throws GantryError STORE_FILE_SIZE.
 */
export function checkCompactionFiles(fs: FileSystem, config: MessageStoreConfig): void {
  const root = config.storePathRootDir;
  const sizes = compactionSizes(config.compactionMappedFileSize, config.compactionCqMappedFileSize);
  for (const { topic, queueId } of compactionFolders(fs, root)) {
    const kinds = [
      [logFolderOf(root, topic, queueId), sizes.log, 'compactionMappedFileSize'],
      [queueFolderOf(root, topic, queueId), sizes.queue, 'compactionCqMappedFileSize'],
    ] as const;
    const lengths = kinds.map(([folder]) =>
      basesIn(fs, folder).map(
        (base) => [`${folder}/${segmentName(base)}`, fs.stat(`${folder}/${segmentName(base)}`)!.size] as const,
      ),
    );
    // Where others have it, a length may have been lost in a power cut (`wholeLength`).
    if (kinds.some(([, size], i) => lengths[i]!.some(([, length]) => length === size))) continue;
    for (const [i, [, size, setting]] of kinds.entries()) {
      for (const [path, length] of lengths[i]!) {
        if (length < UNIT_BYTES || length % UNIT_BYTES !== 0) continue;
        throw new GantryError(
          'STORE_FILE_SIZE',
          `${path} has ${length} bytes, but ${setting} makes files of ${size}; set it to what the store was written with, or remove ${root}/${COMPACTION_FOLDER} if the CommitLog still has all messages`,
        );
      }
    }
  }
}

/** Brings the folders of one log into order. @throws GantryError IO. */
export function settleFolders(fs: FileSystem, logger: Logger, logFolder: string, queueFolder: string): void {
  const dying = [logFolder, queueFolder].map((folder) =>
    fs.list(folder).filter((name) => name.endsWith(DELETE_SUFFIX)),
  );
  const [made, madeQueues] = [logFolder, queueFolder].map((folder) => basesIn(fs, `${folder}/${COMPACTING_FOLDER}`));
  const hasCompacting = [logFolder, queueFolder].some(
    (folder) => fs.stat(`${folder}/${COMPACTING_FOLDER}`) !== undefined,
  );
  const replacing = dying.some((names) => names.length > 0) || (made!.length === 0 && madeQueues!.length > 0);
  if (!replacing && !hasCompacting) return;
  if (!replacing) {
    logger.info(`${logFolder}/${COMPACTING_FOLDER} is of a compaction that did not come to its end; it is removed`);
  } else if (made!.includes(0)) {
    logger.warn(`${logFolder}: files were about to be replaced, and none was; the old ones stay`);
    for (const [i, folder] of [logFolder, queueFolder].entries()) {
      for (const name of dying[i]!) {
        const path = `${folder}/${name.slice(0, -DELETE_SUFFIX.length)}`;
        if (fs.stat(path) === undefined) fs.rename(`${folder}/${name}`, path);
      }
    }
  } else {
    logger.warn(`${logFolder}: files were being replaced; the new ones count`);
    for (const [folder, bases] of [
      [logFolder, made!],
      [queueFolder, madeQueues!],
    ] as const) {
      for (const base of bases)
        fs.rename(`${folder}/${COMPACTING_FOLDER}/${segmentName(base)}`, `${folder}/${segmentName(base)}`);
      if (fs.stat(folder) !== undefined) fs.syncDirectory(folder);
    }
    const logs = basesIn(fs, logFolder);
    const last = logs.at(-1);
    for (const base of basesIn(fs, queueFolder)) {
      // What was made with the old files speaks of places that the new ones have not; the last pair was not touched.
      if (base !== last) fs.remove(`${queueFolder}/${segmentName(base)}`);
    }
  }
  for (const folder of [logFolder, queueFolder]) {
    for (const name of fs.list(folder)) if (name.endsWith(DELETE_SUFFIX)) fs.remove(`${folder}/${name}`);
    fs.removeTree(`${folder}/${COMPACTING_FOLDER}`);
    if (fs.stat(folder) !== undefined) fs.syncDirectory(folder);
  }
}

/**
 * The pairs of a log whose folders are in order; `hollow`: those whose log file was missing; `asides`: how many were moved away, since they
 * did not fit to the rest. @throws GantryError IO, DISK_FULL.
 */
export function loadPairs(
  fs: FileSystem,
  logger: Logger,
  root: string,
  topic: string,
  queueId: number,
  sizes: CompactionSizes,
  clean: boolean,
): LoadedPairs {
  const made: FilePair[] = [];
  try {
    return findPairs(fs, logger, root, topic, queueId, sizes, clean, made);
  } catch (error) {
    for (const pair of made) pair.close();
    throw error;
  }
}

interface LoadedPairs {
  list: PairList;
  hollow: FilePair[];
  asides: number;
}

/** Puts into `made` what it has opened. */
function findPairs(
  fs: FileSystem,
  logger: Logger,
  root: string,
  topic: string,
  queueId: number,
  sizes: CompactionSizes,
  clean: boolean,
  made: FilePair[],
): LoadedPairs {
  const logFolder = logFolderOf(root, topic, queueId);
  const queueFolder = queueFolderOf(root, topic, queueId);
  const list = new PairList(fs, logFolder, queueFolder, sizes);
  const hollow: FilePair[] = [];
  let asides = 0;
  const logs = new Set(basesIn(fs, logFolder));
  const queues = new Set(basesIn(fs, queueFolder));
  const bases = [...new Set([...logs, ...queues])].sort((a, b) => a - b);
  if (bases.length > 0) for (const folder of [logFolder, queueFolder]) makeDirectoryDurably(fs, folder);
  for (const base of bases) {
    const pair = new FilePair(fs, logFolder, queueFolder, base, sizes);
    made.push(pair);
    const hasLog = logs.has(base) && wholeLength(fs, logger, pair.log);
    const hasQueue = queues.has(base) && wholeLength(fs, logger, pair.queue);
    if (
      base === bases.at(-1) &&
      (!hasLog || !hasQueue) &&
      isBlank(hasLog ? pair.log : pair.queue, hasLog || hasQueue)
    ) {
      logger.warn(`${pair.log.path}: the last run ended while it was made; it is removed`);
      for (const file of [pair.log, pair.queue]) {
        file.close();
        fs.remove(file.path);
      }
      break;
    }
    if (!hasLog) {
      logger.warn(
        `${pair.log.path} is missing: its records are written again from the CommitLog, as far as that has them`,
      );
      makeFile(fs, pair.log);
      hollow.push(pair);
    }
    if (!hasQueue) {
      logger.warn(`${pair.queue.path} is missing: it is made again from the records of ${pair.log.path}`);
      makeFile(fs, pair.queue);
      makeUnits(pair);
    }
    if (clean && base !== bases.at(-1) && hasQueue) findBounds(pair);
    else readBounds(pair);
    if (hasRecordAt(pair, pair.logEnd)) {
      logger.warn(
        `${pair.queue.path}: byte ${pair.units * UNIT_BYTES}: no unit names the record at byte ${pair.logEnd} of ${pair.log.path}; the file is made again from the records`,
      );
      makeUnits(pair);
      readBounds(pair);
    }
    if (list.last !== undefined) list.last.isClosed = true;
    while (list.last !== undefined && pair.firstOffset >= 0 && pair.firstOffset <= list.last.lastOffset) {
      logger.error(
        `${list.last.queue.path} ends with message ${list.last.lastOffset}, but ${pair.queue.path} begins with ${pair.firstOffset}: they are not of one time`,
      );
      setAside(list, list.last, root, `${topic}-${queueId}`, logger);
      asides++;
    }
    list.pairs.push(pair);
  }
  return { list, hollow, asides };
}

/** Moves a pair of files out of the way. */
function setAside(list: PairList, pair: FilePair, root: string, name: string, logger: Logger): void {
  const { fs } = list;
  const folder = `${root}/gantry/compaction-damaged`;
  makeDirectoryDurably(fs, folder);
  for (const [file, kind, from] of [
    [pair.queue, 'queue', list.queueFolder],
    [pair.log, 'log', list.logFolder],
  ] as const) {
    const path = `${folder}/${name}-${kind}-${segmentName(pair.base)}`;
    file.close();
    fs.rename(file.path, path);
    fs.syncDirectory(folder);
    fs.syncDirectory(from);
    logger.warn(`${file.path} is kept in ${path}`);
  }
  list.pairs = list.pairs.filter((other) => other !== pair);
}

/** Whether the log file has a record of its own at a place. */
function hasRecordAt(pair: FilePair, at: number): boolean {
  const head = new Uint8Array(MIN_RECORD_BYTES);
  if (at + head.length > pair.log.size) return false;
  const handle = pair.log.handle();
  handle.readSync(head, 0, head.length, at);
  const size = viewOf(head).getInt32(0);
  if (size < head.length || at + size > pair.log.size) return false;
  const bytes = new Uint8Array(size);
  const record = new RecordView();
  const got = handle.readSync(bytes, 0, size, at);
  return (
    readRecord(bytes, viewOf(bytes), 0, got, Verify.BODY_CRC, record) === RecordOutcome.RECORD &&
    record.physicalOffset === pair.base + at &&
    record.queueOffset > pair.lastOffset
  );
}

/** Gives a file the length that it has lost; false if it has none at all. */
function wholeLength(fs: FileSystem, logger: Logger, file: SegmentFile): boolean {
  const length = fs.stat(file.path)?.size ?? 0;
  if (length === 0 || length === file.size) return length > 0;
  logger.warn(`${file.path} has ${length} bytes instead of ${file.size}: what is missing counts as zeros`);
  file.handle().truncateSync(file.size);
  return true;
}

function isBlank(file: SegmentFile, exists: boolean): boolean {
  if (!exists) return true;
  const head = new Uint8Array(8);
  file.handle().readSync(head, 0, head.length, 0);
  return head.every((byte) => byte === 0);
}

function makeFile(fs: FileSystem, file: SegmentFile): void {
  const handle = fs.open(file.path, 'create');
  try {
    handle.truncateSync(file.size);
  } finally {
    handle.close();
  }
}

/** Finds how many units a pair has and what its records' queue offsets are. */
function readBounds(pair: FilePair): void {
  pair.units = 0;
  pair.logEnd = 0;
  pair.firstOffset = -1;
  pair.lastOffset = -1;
  scanUnits(pair.queue, 0, (unit, index) => {
    if (unit.queueOffset <= pair.lastOffset || unit.position !== pair.base + pair.logEnd) return false;
    if (unit.position + unit.size > pair.base + pair.log.size) return false;
    if (index === 0) pair.firstOffset = unit.queueOffset;
    pair.lastOffset = unit.queueOffset;
    pair.units = index + 1;
    pair.logEnd = unit.position + unit.size - pair.base;
    return true;
  });
  pair.unitsWritten = pair.units;
  pair.logWritten = pair.logEnd;
}

/** As `readBounds`, by a few looks: after a clean stop. */
function findBounds(pair: FilePair): void {
  const unit = new CompactionUnit();
  let low = 0;
  let high = pair.queue.size / UNIT_BYTES;
  while (low < high) {
    const middle = Math.floor((low + high) / 2);
    if (readUnit(pair, middle, unit)) low = middle + 1;
    else high = middle;
  }
  if (low === 0 || !readUnit(pair, 0, unit)) return readBounds(pair);
  const { queueOffset } = unit;
  readUnit(pair, low - 1, unit);
  const end = unit.position + unit.size - pair.base;
  if (end < 0 || end > pair.log.size || unit.queueOffset < queueOffset) return readBounds(pair);
  pair.firstOffset = queueOffset;
  pair.lastOffset = unit.queueOffset;
  pair.units = pair.unitsWritten = low;
  pair.logEnd = pair.logWritten = end;
}

/** Writes the units of the records that a log file holds. */
function makeUnits(pair: FilePair): void {
  const bytes = new Uint8Array(pair.log.size);
  const have = pair.log.handle().readSync(bytes, 0, bytes.length, 0);
  const view = viewOf(bytes);
  const record = new RecordView();
  const key = new KeyLook();
  const unit = new Uint8Array(UNIT_BYTES);
  let units = 0;
  for (let at = 0; at < have; at += record.totalSize) {
    if (readRecord(bytes, view, at, have, Verify.STRUCTURE, record) !== RecordOutcome.RECORD) break;
    if (record.physicalOffset !== pair.base + at || (units + 1) * UNIT_BYTES > pair.queue.size) break;
    key.look(bytes, record);
    const { totalSize, storeTimestamp, queueOffset } = record;
    writeUnit(viewOf(unit), 0, pair.base + at, totalSize, key.tagsCode, storeTimestamp, queueOffset);
    pair.queue.handle().writeSync(unit, 0, UNIT_BYTES, units * UNIT_BYTES);
    units++;
  }
  pair.queue.handle().syncSync();
}
