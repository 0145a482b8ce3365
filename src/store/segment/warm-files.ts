// warmMapedFileEnable: a file that is made ahead is filled with zeros, off the loop, so that its blocks are on the disk before the log
// comes to it: a full disk then shows here, and a sync of the file has no blocks to note in the file system's journal.
// RocketMQ: DefaultMappedFile#warmMappedFile, which touches each page of the mapping.

import type { GantryError, Logger } from '../../common/index.ts';
import type { FileHandle, FileSystem } from '../../io/index.ts';
import type { SegmentFile } from './segment-directory.ts';

const STEP_BYTES = 1024 * 1024;
const PAGE_BYTES = 4096;

export class WarmFiles {
  readonly #fs: FileSystem;
  readonly #logger: Logger;
  /** With SYNC_FLUSH a sync follows each so many bytes (flushLeastPagesWhenWarmMapedFile); 0: none. */
  readonly #syncBytes: number;
  readonly #zeros: Uint8Array;

  constructor(fs: FileSystem, logger: Logger, fileSize: number, syncPages: number) {
    this.#fs = fs;
    this.#logger = logger;
    this.#syncBytes = syncPages * PAGE_BYTES;
    this.#zeros = new Uint8Array(Math.min(STEP_BYTES, fileSize));
  }

  /** Fills a file that nothing else uses yet. A disk that has no room leaves it sparse, as it was: that is said, and not final. */
  fill(file: SegmentFile, done: () => void): void {
    let handle: FileHandle;
    const end = (error: GantryError | undefined): void => {
      if (error !== undefined) this.#logger.warn(`${file.path} is not filled ahead: ${error.message}`);
      handle?.close();
      done();
    };
    try {
      handle = this.#fs.open(file.path, 'write');
    } catch (error) {
      this.#logger.warn(`${file.path} is not filled ahead: ${(error as GantryError).message}`);
      return done();
    }
    let unsynced = 0;
    const step = (position: number): void => {
      const length = Math.min(this.#zeros.length, file.size - position);
      if (length <= 0) return this.#syncBytes > 0 && unsynced > 0 ? handle.sync(end) : end(undefined);
      handle.write(this.#zeros, 0, length, position, (error) => {
        if (error !== undefined) return end(error);
        unsynced += length;
        if (this.#syncBytes === 0 || unsynced < this.#syncBytes) return step(position + length);
        unsynced = 0;
        handle.sync((failure) => (failure === undefined ? step(position + length) : end(failure)));
      });
    };
    step(0);
  }
}
