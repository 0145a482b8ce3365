// The files that the log is going to need: the one after the last is made before the log comes to it, off the loop, one at a time, so that a
// crash never leaves a later file beside an unfinished one. RocketMQ: AllocateMappedFileService.
//
//   prepare ─► being made (─► filled with zeros) ─► ready, waiting ─► take: it joins the log
//                                                        └─► drop: it goes again, also one that is still being made

import type { Clock, GantryError, Logger } from '../../common/index.ts';
import type { FileSystem } from '../../io/index.ts';
import { SegmentFile, type WarmFiles } from '../segment/index.ts';

const RETRY_MS = 1000;

export interface NewFilesOptions {
  fs: FileSystem;
  clock: Clock;
  logger: Logger;
  folder: string;
  /** Bytes of each file. */
  fileSize: number;
  /** Fills files that are made ahead, so that their blocks are there before they are needed. */
  warm?: WarmFiles | undefined;
}

export class NewFiles {
  readonly #options: NewFilesOptions;
  readonly #onReady: () => void;
  /** The file after the log's last one. */
  #ahead: SegmentFile | undefined;
  /** Files that are to be made, the one under way first. */
  readonly #creating: SegmentFile[] = [];
  /** Files that are being made and were given up meanwhile. */
  readonly #unwanted = new Set<SegmentFile>();
  #closed = false;

  /** `onReady` is told when a file is there that was not. */
  constructor(options: NewFilesOptions, onReady: () => void) {
    this.#options = options;
    this.#onReady = onReady;
  }

  /** The file after the log's last one, if there is to be one; it may not be ready. */
  get ahead(): SegmentFile | undefined {
    return this.#ahead;
  }

  /** Makes the file that begins at `base`, unless it is there or being made. */
  prepare(base: number): void {
    if (this.#ahead?.base !== base) this.#ahead = this.#create(base);
  }

  /** The file that begins at `base`, for the log to go on into; it may not be ready. */
  take(base: number): SegmentFile {
    const file = this.#ahead?.base === base ? this.#ahead : this.#create(base);
    this.#ahead = undefined;
    return file;
  }

  /** Removes the file that was made ahead; one that is still being made is removed when it is there. @throws GantryError IO. */
  drop(): void {
    const ahead = this.#ahead;
    if (ahead === undefined) return;
    this.#ahead = undefined;
    if (ahead.ready) this.#remove(ahead);
    else this.#unwanted.add(ahead);
  }

  /** As `drop` for a log that is being closed, whose end is known: a file that stays is found empty by the next start. */
  dropAtEnd(): void {
    try {
      this.drop();
    } catch (error) {
      this.#options.logger.warn(`the file made ahead stays: ${(error as GantryError).message}`);
    }
  }

  /** No file is made or told of any more, but one that is under way and unwanted still goes. */
  close(): void {
    this.#closed = true;
  }

  #create(base: number): SegmentFile {
    const { fs, folder, fileSize } = this.#options;
    const file = new SegmentFile(fs, folder, base, fileSize, false);
    if (this.#creating.push(file) === 1) this.#createNext();
    return file;
  }

  #createNext(): void {
    const { fs, clock, logger, warm } = this.#options;
    const file = this.#creating[0];
    if (file === undefined) return;
    if (this.#unwanted.delete(file)) {
      this.#creating.shift();
      return this.#createNext();
    }
    if (this.#closed) return;
    fs.createSized(file.path, file.size, (error) => {
      if (error !== undefined && !this.#unwanted.has(file)) {
        if (this.#closed) return;
        logger.error(`${file.path} cannot be created (${error.message}); trying again in 1 s`);
        clock.after(RETRY_MS, () => this.#createNext());
      } else if (warm !== undefined && file === this.#ahead) warm.fill(file, () => this.#created(file));
      else this.#created(file);
    });
  }

  #created(file: SegmentFile): void {
    if (this.#unwanted.delete(file)) this.#removeUnwanted(file);
    else file.ready = true;
    this.#creating.shift();
    this.#createNext();
    if (file.ready && !this.#closed) this.#onReady();
  }

  #removeUnwanted(file: SegmentFile): void {
    try {
      this.#remove(file);
    } catch (error) {
      this.#options.logger.error(`${file.path} is not needed and cannot be removed: ${(error as GantryError).message}`);
    }
  }

  /** Durably: were it there again after a power cut, and the file before it not, the log would have a gap. */
  #remove(file: SegmentFile): void {
    this.#options.fs.remove(file.path);
    this.#options.fs.syncDirectory(this.#options.folder);
  }
}
