// Files as memory: the seam behind mapped segments. On the real disk it is mmap by FFI (mmap.ts), in memory a stand-in whose pages
// reach the file one by one (memory-file-system.ts). A system without it has buffered segments only.

import type { GantryError } from '../common/index.ts';
import type { FileHandle } from './file-system.ts';

/** A range of a file as memory. What is written to `bytes` is in the file at once, and durable after a sync of the file. */
export interface Mapping {
  readonly bytes: Uint8Array;
  /** Ends it; `bytes` then shows nothing of the file any more. Called once, when nothing uses the bytes. */
  end(): void;
}

export interface MapOptions {
  /** Makes the pages ready to be written, not only to be read; they count as changed from then on. */
  writable: boolean;
  /** Keeps the pages in memory (mlock). */
  lock: boolean;
}

export type DoneMapping = (error: GantryError | undefined, mapping: Mapping | undefined) => void;

export interface FileMapper {
  /** Bytes of a page: mappings begin at a multiple of it. */
  readonly pageBytes: number;
  /** Told once if pages cannot be locked. */
  onLockFailed: ((reason: string) => void) | undefined;
  /**
   * Reserves the blocks of [position, position + length) and then maps them with their pages present, off the loop. The range lies
   * within the file's length. A disk without room for the blocks is the error DISK_FULL, and no later write into the range can
   * meet it. The handle may be closed once `done` was called.
   */
  map(handle: FileHandle, position: number, length: number, options: MapOptions, done: DoneMapping): void;
}
