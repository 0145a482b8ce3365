// The one seam between the engine and a disk. Everything that the store does to files goes through these two interfaces,
// so that tests can put a disk in memory beneath it that loses, tears, reorders, fails, fills up or delays (memory-file-system.ts).
//
// Durability, as the engine assumes it of a real disk:
//   - bytes written are readable at once by every handle of the same file, and safe only after `sync` called back without error;
//   - a file's name and a rename are safe only after `syncDirectory` of its folder;
//   - `truncate` to a larger length gives zeros and uses no blocks (sparse).
// Failures are GantryError: DISK_FULL when there is no space, IO for all else; both name the path.

import type { GantryError, Logger } from '../common/index.ts';
import type { FileMapper } from './file-mapper.ts';

/** Called exactly once; `error` is undefined on success. */
export type Done = (error: GantryError | undefined) => void;
/** As Done, with the number of bytes moved. */
export type DoneBytes = (error: GantryError | undefined, bytes: number) => void;

/** An open file. Positions are file-relative bytes. Reads past the end give fewer bytes. */
export interface FileHandle {
  readonly path: string;
  readSync(target: Uint8Array, targetStart: number, length: number, position: number): number;
  read(target: Uint8Array, targetStart: number, length: number, position: number, done: DoneBytes): void;
  /** Writes all bytes or throws. */
  writeSync(source: Uint8Array, sourceStart: number, length: number, position: number): void;
  /** Writes all bytes or fails. The source must not change before `done`. */
  write(source: Uint8Array, sourceStart: number, length: number, position: number, done: Done): void;
  /** Makes the data (and length) durable: fdatasync. What was written before the call is covered, nothing later. */
  sync(done: Done): void;
  syncSync(): void;
  truncateSync(length: number): void;

  /**
   * From now on the system reads what is asked for, and nothing ahead of it: what it would fetch at once, somebody's sync would wait for. Nothing
   * happens where that cannot be said.
   */
  readNoMore(): void;

  size(): number;
  /** The descriptor on a real disk, -1 elsewhere. */
  readonly fd: number;
  close(): void;
}

/** Syncs files one at a time, apart from all else that the disk has to do. */
export interface SyncLane {
  /** As `FileHandle.sync`; the handle stays open until `done`. */
  sync(file: FileHandle, done: Done): void;
  /** Ends the lane when the syncs that were asked for have ended. */
  close(): Promise<void>;
}

export interface FileStat {
  size: number;
  isDirectory: boolean;
  modifiedMs: number;
  /** The same for a file as long as it exists; a copy has another. */
  id: number;
}

/** `read`: must exist, read only. `write`: must exist, read and write. `create`: read and write, made if absent. */
export type OpenMode = 'read' | 'write' | 'create';

export interface FileSystem {
  open(path: string, mode: OpenMode): FileHandle;
  /** undefined if there is nothing at that path. */
  stat(path: string): FileStat | undefined;
  /** Names in a folder, unsorted; empty if the folder does not exist. */
  list(path: string): string[];
  makeDirectory(path: string): void;
  /** Removes one file; nothing happens if it is not there. */
  remove(path: string): void;
  /** As `remove`, off the loop (the blocks of a large file take time to free), and durable when `done` runs without an error. */
  removeLater(path: string, done: Done): void;
  /** Removes a folder and all below it; nothing happens if it is not there. */
  removeTree(path: string): void;
  rename(from: string, to: string): void;
  /** Makes names in this folder durable. */
  syncDirectory(path: string): void;
  /** As `syncDirectory`, off the loop. A folder that is not there any more is no error: its name is its parent's affair. */
  syncDirectoryLater(path: string, done: Done): void;
  /** Creates a sparse file of `length` zero bytes off the loop, and makes its name durable. */
  createSized(path: string, length: number, done: Done): void;
  /** What names the time since the machine came up; undefined if the system does not tell. */
  bootId(): string | undefined;
  /** A lane for syncs that somebody waits for. `logger` gets one line if it has to do with less than a lane. */
  openSyncLane(logger: Logger): SyncLane;
  /** Fraction of the partition in use, 0 to 1; -1 if the system does not tell. */
  usedFraction(path: string): number;
  /** Bytes of the whole partition; -1 if the system does not tell. */
  partitionBytes(path: string): number;
  /** Maps files into memory; absent where that cannot be done. A mapper of its own each time it is asked for. */
  readonly mapper?: FileMapper | undefined;
}
