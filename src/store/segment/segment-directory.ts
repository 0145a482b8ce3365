// A folder of equally long files that together are one byte space: the CommitLog, and each ConsumeQueue.
// RocketMQ: MappedFileQueue.
//
//   00000000000000000000   00000000000000065536   00000000000000131072
//   |------ size --------| |------ size --------| |------ size --------|
//   file name = offset of its first byte in the whole space, 20 digits; adjacent files differ by exactly `size`
//
// Invariant: `files` is sorted and contiguous. Files are opened when first used and closed by whoever owns the directory.

import { assert, GantryError, type Logger } from '../../common/index.ts';
import type { FileHandle, FileSystem } from '../../io/index.ts';

/** Who knows the folder of its files. */
export interface InFolder {
  readonly folder: string;
}

/** One file of a segment directory. */
export class SegmentFile {
  /** Offset of its first byte in the whole space. */
  readonly base: number;
  readonly size: number;
  /** False while it is being created off the loop; nothing may be written before. */
  ready: boolean;
  /** Told when the last pin is gone. */
  onFree: (() => void) | undefined;
  #handle: FileHandle | undefined;
  #pins = 0;
  #closeWhenFree = false;
  readonly #fs: FileSystem;
  readonly #folder: string | InFolder;

  constructor(fs: FileSystem, folder: string | InFolder, base: number, size: number, ready: boolean) {
    this.#fs = fs;
    this.#folder = folder;
    this.base = base;
    this.size = size;
    this.ready = ready;
  }

  /** Made when it is asked for: of very many files, texts are most of what they would cost. */
  get path(): string {
    const folder = typeof this.#folder === 'string' ? this.#folder : this.#folder.folder;
    return `${folder}/${segmentName(this.base)}`;
  }

  get end(): number {
    return this.base + this.size;
  }

  /** Takes a handle of it that somebody has opened. */
  adopt(handle: FileHandle): void {
    assert(this.#handle === undefined, 'a file is opened twice');
    this.#handle = handle;
  }

  /** The open file; opened at first use. */
  handle(): FileHandle {
    assert(this.ready, 'a segment file is used before it exists');
    this.#closeWhenFree = false;
    this.#handle ??= this.#fs.open(this.path, 'write');
    return this.#handle;
  }

  /** Keeps the handle open while a read or a sync of it is under way (a closed descriptor's number may be given to another file). */
  pin(): void {
    this.#pins++;
  }

  unpin(): void {
    this.#pins--;
    if (this.#pins > 0) return;
    if (this.#closeWhenFree) this.close();
    this.onFree?.();
  }

  /** Whether a read or a sync of it is under way. */
  get isPinned(): boolean {
    return this.#pins > 0;
  }

  /** Closes the handle, now or when nothing uses it any more; `handle` opens it again. */
  close(): void {
    this.#closeWhenFree = this.#pins > 0;
    if (this.#closeWhenFree) return;
    this.#handle?.close();
    this.#handle = undefined;
  }
}

/** A file is shorter than it was: it was cut under us. */
export function shortRead(file: SegmentFile, position: number, wanted: number, got: number): GantryError {
  return new GantryError(
    'IO',
    `${file.path} ends at byte ${position + got}, ${position + wanted} are expected: it was cut`,
  );
}

/** 20 digits. RocketMQ: UtilAll#offset2FileName. */
export function segmentName(base: number): string {
  return String(base).padStart(20, '0');
}

/** What a load needs to know of a folder. */
export interface SegmentFolder {
  fs: FileSystem;
  path: string;
  /** Bytes of each file. */
  size: number;
  /** Name of the setting that `size` comes from, for the refusal's text. */
  setting: string;
  /** The files can be built again from the log: what follows a gap or an unfinished file is removed instead of refused. */
  derived: boolean;
  /** Of derived files: whether one of another length is damaged; without it, or if not, the setting is another than they were made with. */
  isDamage?: (length: number) => boolean;
  logger: Logger;
}

/**
 * Lists the files of a folder, oldest first. A last file of length 0 (a kill between creating and sizing it) is removed; foreign
 * files are named once and left alone. Changes nothing else.
 * @throws GantryError STORE_FILE_SIZE for a file of another length, STORE_DAMAGED for a gap between files.
 */
export function loadSegments(folder: SegmentFolder): SegmentFile[] {
  const { fs, path, size, logger } = folder;
  const names = fs.list(path).sort();
  const ours = names.filter((name) => /^\d{20}$/.test(name));
  const foreign = names.filter((name) => !/^\d{20}$/.test(name));
  for (const name of foreign) {
    if (fs.stat(`${path}/${name}`)?.isDirectory === false)
      logger.warn(`${path}/${name} is not a store file; it is left alone`);
  }
  const files: SegmentFile[] = [];
  for (const [index, name] of ours.entries()) {
    const full = `${path}/${name}`;
    const length = fs.stat(full)?.size ?? 0;
    const previous = files.at(-1);
    const gap = previous !== undefined && previous.end !== Number(name);
    if (length === 0 && (index === ours.length - 1 || folder.derived)) {
      logger.warn(`${full} has length 0 (the last run ended while it was being created); it is removed`);
      for (const later of ours.slice(index)) fs.remove(`${path}/${later}`);
      break;
    }
    if (gap && folder.derived) {
      logger.warn(`${path}: ${segmentName(previous.end)} is missing; what follows it is built again from the log`);
      for (const later of ours.slice(index)) fs.remove(`${path}/${later}`);
      break;
    }
    if (length !== size && folder.isDamage?.(length)) {
      logger.warn(`${full} has ${length} bytes instead of ${size}: it and what follows is built again from the log`);
      for (const later of ours.slice(index)) fs.remove(`${path}/${later}`);
      break;
    }
    if (length !== size) {
      throw new GantryError(
        'STORE_FILE_SIZE',
        `${full} has ${length} bytes, but ${folder.setting} = ${size}; set ${folder.setting} to the length that the store was written with`,
      );
    }
    const file = new SegmentFile(fs, path, Number(name), size, true);
    if (gap && index === ours.length - 1 && isBlank(file)) {
      logger.warn(`${full} has nothing in it (it was made ahead, and the log was cut meanwhile); it is removed`);
      fs.remove(full);
      break;
    }
    if (gap) {
      throw new GantryError(
        'STORE_DAMAGED',
        `${path} has no file for the bytes ${previous.end} to ${file.base}: ${segmentName(previous.end)} is missing`,
      );
    }
    files.push(file);
  }
  return files;
}

/** The file that holds an offset; undefined if none does. The files are contiguous, so this is index arithmetic. */
export function segmentAt(files: readonly SegmentFile[], offset: number): SegmentFile | undefined {
  const first = files[0];
  if (first === undefined || offset < first.base) return undefined;
  return files[Math.floor((offset - first.base) / first.size)];
}

const ZEROS = new Uint8Array(1024 * 1024);

/** Overwrites a range with zeros. */
export function zeroBytes(handle: FileHandle, position: number, length: number): void {
  for (let done = 0; done < length; done += ZEROS.length) {
    handle.writeSync(ZEROS, 0, Math.min(ZEROS.length, length - done), position + done);
  }
}

/** Behind so many zeros in a file nothing more is looked for: a tear is never that far from the end of what was written. */
const ZERO_RUN_BYTES = 4 * 1024 * 1024;

/**
 * Makes everything from `offset` on dead on disk: later files are removed, and in the file that holds `offset` the bytes behind it
 * become zeros, durably, before this returns. The file keeps its length at every moment: a file of another length would keep any
 * broker from starting if the cut itself is cut short. The first file stays, emptied, if the space begins beyond 0 with it: it alone says
 * where the space goes on. The caller has closed or dropped what it caches.
 */
export function cutSegments(fs: FileSystem, folder: string, files: SegmentFile[], offset: number): void {
  while (files.length > 0 && files.at(-1)!.base >= offset) {
    if (files.length === 1 && offset > 0 && files[0]!.base === offset) break;
    const file = files.pop()!;
    file.close();
    fs.remove(file.path);
    // One by one from the end: names may come back in any order after a power cut, and must not leave a gap.
    fs.syncDirectory(folder);
  }
  const last = files.at(-1);
  if (last !== undefined && offset < last.end) zeroTail(last, offset - last.base);
}

/** Whether a file of the log was never written: its first record would begin with a length. */
function isBlank(file: SegmentFile): boolean {
  const head = new Uint8Array(8);
  file.handle().readSync(head, 0, head.length, 0);
  file.close();
  return head.every((byte) => byte === 0);
}

function zeroTail(file: SegmentFile, position: number): void {
  const handle = file.handle();
  const step = new Uint8Array(Math.min(ZEROS.length, file.size - position));
  let dirtyEnd = position;
  for (let at = position; at < file.size && at - dirtyEnd < ZERO_RUN_BYTES; at += step.length) {
    let last = handle.readSync(step, 0, Math.min(step.length, file.size - at), at);
    while (last > 0 && step[last - 1] === 0) last--;
    if (last > 0) dirtyEnd = at + last;
  }
  if (dirtyEnd === position) return;
  zeroBytes(handle, position, dirtyEnd - position);
  handle.syncSync();
}
