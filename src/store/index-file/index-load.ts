// Opening the index folder. After a clean stop a file is taken as it is once its header agrees with the units at both ends. After an
// unclean one every file that is not known to be durable is scanned, and what proves itself is kept; the keys of all that comes
// after are put in again from the log, which `durableOffset` names.
//
// RocketMQ: after an unclean stop deletes every file whose end time is later than checkpoint.indexMsgTimestamp, which is always the
// newest one, and indexes again only what lies behind the recovery's start: older keys are gone. Here nothing is lost.

import { type Clock, GantryError, type Logger, silentLogger } from '../../common/index.ts';
import type { Done, FileHandle, FileSystem } from '../../io/index.ts';
import { IndexFile } from './index-file.ts';
import type { IndexHeader, IndexLayout } from './index-format.ts';
import {
  cutFile,
  headerFault,
  loadSlots,
  mendFile,
  popUnits,
  readHeader,
  removeNewestFirst,
  type StoreTimeOf,
  scanUnits,
  UnitBlocks,
  type UnitScan,
} from './index-scan.ts';
import { indexSum } from './index-sum.ts';
import type { ScannedAhead } from './scan-ahead.ts';

export interface IndexOptions {
  fs: FileSystem;
  clock: Clock;
  logger: Logger;
  /** The index folder; need not exist. */
  path: string;
  layout: IndexLayout;
  /** False when `abort` was there. */
  lastExitClean: boolean;
  /** From the checkpoint: the first file that ends at this store time is durable, and so are those before it. */
  indexMsgTimestamp: number;
  /** No record starts at or beyond this physical offset, as far as is known before recovery; default no limit. */
  maxPhysicalOffset?: number;
  /** What the last flush had reached, as the caller has saved it; optional. It counts if the files hold what they held then and nothing since. */
  progress?: IndexProgress | undefined;
  /** What a thread has found in the file that is scanned first (scanAhead). */
  scanned?: ScannedAhead | undefined;
  /** Store times of records, for headers that a crash left behind; optional. */
  storeTimeOf?: StoreTimeOf;
  /** Told when a full file has become durable, in file order, with the store time that it ends at (checkpoint.indexMsgTimestamp). */
  onSealed?: (endTimestamp: number) => void;
  /**
   * Told before a file changes that the checkpoint's time may name or lie beyond: where the last one ends that stays as it is, 0 without
   * one. `done` when the checkpoint says so durably; at the opening before this returns. For the file may come to end at the same time again.
   */
  onUnsealed?: (endTimestamp: number, done: Done) => void;
}

/** How far an index was durable, and what it held then. */
export interface IndexProgress {
  /** Every record that starts below this had its keys in the files. */
  durableOffset: number;
  /** Name and units of the newest file that had any; an empty name and 0 if none had. */
  file: string;
  units: number;
  /** After an orderly stop: what that file held (indexSum). */
  crc?: number;
}

/** What opening found. */
export interface LoadedIndex {
  /** Oldest first. */
  files: IndexFile[];
  /** Every record that starts below this has its keys in the files. */
  durableOffset: number;
}

/**
 * Opens the folder; repairs only after an unclean stop.
 * @throws GantryError STORE_FILE_SIZE when a file's length contradicts the settings, IO.
 */
export function loadIndex(options: IndexOptions): LoadedIndex {
  const { files, faults } = readHeaders(options);
  const { indexMsgTimestamp: claimed } = options;
  // Files that are built again may come to end at the very time that the checkpoint names, before they are durable.
  if (claimed > 0 && !files.some((file) => isFull(file) && file.header.endTimestamp === claimed))
    options.onUnsealed?.(0, rethrow);
  return options.lastExitClean ? trust(options, files, faults) : verify(options, files, faults);
}

/** The files, oldest first, with what is wrong with the header of each. */
function readHeaders(options: IndexOptions): { files: IndexFile[]; faults: Array<string | undefined> } {
  const { fs, path, layout } = options;
  const files: IndexFile[] = [];
  const faults: Array<string | undefined> = [];
  for (const name of fileNames(options)) {
    const [header, fault] = withFile(fs, `${path}/${name}`, (file) => {
      const header = readHeader(file);
      checkSize(file, options, header);
      return [header, headerFault(file, layout, header)] as const;
    });
    files.push(new IndexFile(path, name, layout, header));
    faults.push(fault);
  }
  return { files, faults };
}

/** The file that an opening after an unclean stop scans first, and the units that its header speaks of; undefined: there is none. */
export function firstDoubtful(
  options: IndexOptions,
): { path: string; units: number; minOffset: number; maxOffset: number; isReal: boolean } | undefined {
  const { files, faults } = readHeaders({ ...options, logger: silentLogger });
  const at = durableFiles(files, faults, options.indexMsgTimestamp);
  const file = files[at];
  if (file === undefined) return undefined;
  return {
    path: file.path,
    units: file.header.unitCount,
    minOffset: files[at - 1]?.header.endPhyOffset ?? 0,
    maxOffset: maxOffset(options),
    isReal: withFile(options.fs, file.path, ({ fd }) => fd >= 0),
  };
}

/** The saved progress, if the files are as they were then. */
function standingProgress({ progress }: IndexOptions, files: readonly IndexFile[]): IndexProgress | undefined {
  const last = files.findLast((file) => file.header.unitCount > 0);
  const stands = progress?.file === (last?.name ?? '') && progress.units === (last?.header.unitCount ?? 0);
  return stands && !last?.damaged ? progress : undefined;
}

/** Names of index files, oldest first; anything else in the folder is named once and left alone. */
function fileNames(options: IndexOptions): string[] {
  const { fs, path, logger } = options;
  const foreign: string[] = [];
  const names: string[] = [];
  for (const name of fs.list(path)) {
    if (/^\d{17}$/.test(name) && fs.stat(`${path}/${name}`)?.isDirectory === false) names.push(name);
    else foreign.push(name);
  }
  if (foreign.length > 0) logger.warn(`${path}: not index files, left alone: ${foreign.sort().join(', ')}`);
  return names.sort();
}

/**
 * A file may be shorter than configured (a kill while it was made or cut, a larger maxIndexNum since): it grows when it is written.
 * It must not be longer, nor, after a clean stop, have its units elsewhere than the settings say. After an unclean one that cannot be
 * told from units that are lost, and the units are put in again.
 */
function checkSize(file: FileHandle, options: IndexOptions, header: IndexHeader): void {
  const { layout } = options;
  const size = file.size();
  if (size === layout.fileBytes) return;
  if (size < layout.fileBytes) {
    if (header.indexCount <= 1 || !options.lastExitClean) return;
    if (new UnitBlocks(file, layout, 1).phyOffset(1) === header.beginPhyOffset) return;
  }
  throw new GantryError(
    'STORE_FILE_SIZE',
    `${file.path} is ${size} bytes long; maxHashSlotNum ${layout.slots} and maxIndexNum ${layout.units} make ${layout.fileBytes}`,
  );
}

function trust(options: IndexOptions, files: IndexFile[], faults: Array<string | undefined>): LoadedIndex {
  let durableOffset = 0;
  dropRotten(options, files);
  files.forEach((file, i) => {
    const fault = faults[i];
    if (fault !== undefined) {
      options.logger.warn(
        `index file ${file.path} is damaged (${fault}): lookups use what is readable, new keys go to another file`,
      );
      guessHeader(options, file);
      // The last message that proves itself may not be whole.
      durableOffset = Math.max(durableOffset, file.header.endPhyOffset);
    } else if (file.header.unitCount > 0) {
      durableOffset = Math.max(durableOffset, file.header.endPhyOffset + 1);
    }
  });
  return { files, durableOffset: Math.max(durableOffset, standingProgress(options, files)?.durableOffset ?? 0) };
}

/** Removes the newest file if it is not what it was at the stop: its keys are put in again. It is one whose damage its header does not show. */
function dropRotten(options: IndexOptions, files: IndexFile[]): void {
  const { fs, path, layout, progress, logger } = options;
  const at = files.findIndex(({ name }) => name === progress?.file);
  const file = files[at];
  if (file === undefined || progress?.crc === undefined) return;
  // Another broker has added keys since, which changed slots and header: nothing says what should be there.
  if (file.header.unitCount > progress.units) return;
  if (indexSum(fs, file.path, layout, progress.units) === progress.crc) return;
  logger.warn(
    `index file ${file.path} is not what it was when the store was closed: its keys are put in again from the log`,
  );
  options.onUnsealed?.(files[at - 1]?.header.endTimestamp ?? 0, rethrow);
  removeNewestFirst(fs, path, files.splice(at));
}

/** Replaces what cannot be believed of a damaged file's header by what its units say. The file itself stays as it is. */
function guessHeader(options: IndexOptions, file: IndexFile): void {
  file.damaged = true;
  const scan = withFile(options.fs, file.path, (handle) => scanUnits(handle, file.layout, 0, maxOffset(options)));
  adoptScan(file.header, scan, options.storeTimeOf);
}

function verify(options: IndexOptions, files: IndexFile[], faults: Array<string | undefined>): LoadedIndex {
  const { fs, layout, logger, storeTimeOf } = options;
  const notes: string[] = [];
  const durable = durableFiles(files, faults, options.indexMsgTimestamp);
  let at = durable;
  let lastOffset = at === 0 ? 0 : files[at - 1]!.header.endPhyOffset;

  // Keep files while they prove themselves whole; the first that does not is the last.
  for (; at < files.length; at++) {
    const file = files[at]!;
    const claimed = file.header.unitCount;
    const ahead = options.scanned;
    const scan =
      ahead?.path === file.path && ahead.minOffset === lastOffset
        ? ahead.scan
        : withFile(fs, file.path, (handle) => scanUnits(handle, layout, lastOffset, maxOffset(options)));
    const full = scan.units === layout.units - 1;
    if (!adoptScan(file.header, scan, storeTimeOf)) {
      scan.units = 0;
      scan.reason = 'the time that its units count from is not known';
    }
    if (scan.units < claimed)
      notes.push(`${file.name} keeps ${scan.units} of ${claimed} units (${scan.reason || 'no more are there'})`);
    const goesOn = full && scan.units > 0 && at + 1 < files.length;
    if (!goesOn) {
      file.slots = scan.slots;
      break;
    }
    mendFile(fs, file.path, layout, file.header, scan.slots);
    lastOffset = scan.lastOffset;
  }
  const doubtful = files.splice(at + 1);
  for (const file of doubtful) notes.push(`${file.name} is dropped, it comes after a gap`);

  const loaded: LoadedIndex = { files, durableOffset: 0 };
  settleEnd(options, loaded, durable, doubtful);
  if (notes.length > 0) {
    const from = `keys from physical offset ${loaded.durableOffset} on are put in again`;
    logger.warn(`index after an unclean stop: ${notes.join('; ')}; ${from}`);
  }
  return loaded;
}

/**
 * How many files, from the oldest on, are known to be durable. The checkpoint's time names one: the first that ends then, for files are
 * sealed in order, and one behind it may have filled up in the same millisecond and not be synced.
 * RocketMQ: trusts every file that ends at or before that time.
 */
function durableFiles(files: readonly IndexFile[], faults: readonly unknown[], indexMsgTimestamp: number): number {
  const named = files.findIndex((file) => isFull(file) && file.header.endTimestamp === indexMsgTimestamp);
  const doubtful = files.findIndex((file, i) => i > named || faults[i] !== undefined || !isFull(file));
  return doubtful < 0 ? files.length : doubtful;
}

function isFull(file: IndexFile): boolean {
  return file.header.indexCount >= file.layout.units;
}

/**
 * The last message's keys may not all be there, so its units go and it is put in again. It may have begun in the file before.
 * Answers the offset to go on from, and leaves on disk what `files` says.
 */
function settleEnd(options: IndexOptions, loaded: LoadedIndex, durable: number, doubtful: IndexFile[]): void {
  const { fs, path, layout, storeTimeOf } = options;
  const { files } = loaded;
  removeNewestFirst(fs, path, doubtful);
  const standing = doubtful.length === 0 ? standingProgress(options, files) : undefined;
  if (standing !== undefined) {
    loaded.durableOffset = standing.durableOffset;
    while (files.at(-1)?.header.unitCount === 0) removeNewestFirst(fs, path, files.splice(-1));
    const last = files.at(-1);
    if (last === undefined || isFull(last)) return;
    last.slots ??= withFile(fs, last.path, (file) => loadSlots(file, layout, last.header.indexCount));
    return cutFile(fs, last.path, layout, last.header);
  }
  let message = -1;
  let sealed = durable;
  for (let last = files.at(-1); last !== undefined; last = files.at(-1)) {
    const { header } = last;
    if (header.unitCount > 0) {
      if (message < 0) message = header.endPhyOffset;
      else if (header.endPhyOffset < message) break;
      if (files.length <= sealed) {
        sealed = files.length - 1;
        options.onUnsealed?.(files[sealed - 1]?.header.endTimestamp ?? 0, rethrow);
      }
      const slots = last.slots ?? withFile(fs, last.path, (file) => loadSlots(file, layout, header.indexCount));
      const from = message;
      withFile(fs, last.path, (file) => popUnits(file, layout, slots, header, (offset) => offset >= from, storeTimeOf));
      if (header.unitCount > 0) {
        last.slots = slots;
        cutFile(fs, last.path, layout, header);
        break;
      }
    }
    files.pop();
    removeNewestFirst(fs, path, [last]);
  }
  loaded.durableOffset = files.length > 0 ? message : 0;
}

function rethrow(error: GantryError | undefined): void {
  if (error !== undefined) throw error;
}

/**
 * Makes a header say what a scan found. Answers false if the begin time, from which all units count, cannot be told: then the units
 * are of no use.
 */
function adoptScan(header: IndexHeader, scan: UnitScan, storeTimeOf: StoreTimeOf | undefined): boolean {
  const usable = scan.units > 0 && adoptTimes(header, scan, storeTimeOf);
  if (!usable) {
    header.beginTimestamp = header.endTimestamp = header.beginPhyOffset = header.endPhyOffset = 0;
    header.hashSlotCount = 0;
    header.indexCount = 1;
    return scan.units === 0;
  }
  header.beginPhyOffset = scan.firstOffset;
  header.endPhyOffset = scan.lastOffset;
  header.hashSlotCount = scan.usedSlots;
  header.indexCount = scan.units + 1;
  return true;
}

function adoptTimes(header: IndexHeader, scan: UnitScan, storeTimeOf: StoreTimeOf | undefined): boolean {
  if (header.beginPhyOffset !== scan.firstOffset || !isTime(header.beginTimestamp)) {
    const begin = storeTimeOf?.(scan.firstOffset);
    if (begin === undefined) return false;
    header.beginTimestamp = begin;
  }
  if (header.endPhyOffset !== scan.lastOffset || !isTime(header.endTimestamp)) {
    const latest = scan.units === 1 ? 0 : scan.lastTimeDiff * 1000 + 999;
    header.endTimestamp = storeTimeOf?.(scan.lastOffset) ?? header.beginTimestamp + latest;
  }
  return true;
}

function isTime(value: number): boolean {
  return Number.isSafeInteger(value) && value > 0;
}

function maxOffset(options: IndexOptions): number {
  return options.maxPhysicalOffset ?? Number.MAX_SAFE_INTEGER;
}

function withFile<T>(fs: FileSystem, path: string, use: (file: FileHandle) => T): T {
  const file = fs.open(path, 'read');
  try {
    return use(file);
  } finally {
    file.close();
  }
}
