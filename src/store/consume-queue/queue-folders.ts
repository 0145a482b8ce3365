// The files of queues on a disk, `<root>/<topic>/<queueId>/<20 digits>`, for the stores of all kinds of queues: found at the start, made,
// opened, a bounded number at once, and removed, with the folders whose names are not durable yet.

import { GantryError, type Logger } from '../../common/index.ts';
import type { FileHandle, FileSystem } from '../../io/index.ts';
import { loadSegments, type ReadCache, SegmentFile } from '../segment/index.ts';

export interface QueueFoldersOptions {
  fs: FileSystem;
  logger: Logger;
  root: string;
  /** Bytes of one file, and the setting that says so. */
  fileSize: number;
  setting: string;
  /** Bytes of one unit: no setting makes files of another multiple. */
  unitBytes?: number;
  cache: ReadCache;
  /** Files kept open. */
  mostOpen: number;
}

/** What it needs to know of a queue. */
interface Folder {
  readonly topic: string;
  readonly folder: string;
  files: SegmentFile[];
}

export class QueueFolders {
  /** Folders with names that are not durable yet. */
  readonly dirty: Set<string> = new Set();
  readonly #options: QueueFoldersOptions;
  /** Open files, least recently used first. */
  readonly #open = new Map<SegmentFile, true>();

  constructor(options: QueueFoldersOptions) {
    this.#options = options;
  }

  /** Finds every queue on disk, without opening a file. @throws GantryError STORE_FILE_SIZE, STORE_DAMAGED. */
  *load(): Generator<{ topic: string; queueId: number; files: SegmentFile[] }> {
    const { fs, root, fileSize: size, setting, unitBytes = 1, logger } = this.#options;
    let othersFit: boolean | undefined;
    const isDamage = (length: number): boolean => {
      if (length % unitBytes !== 0) return true;
      othersFit ??= this.#someFileFits();
      return othersFit;
    };
    for (const topic of fs.list(root).sort()) {
      if (fs.stat(`${root}/${topic}`)?.isDirectory !== true) continue;
      for (const name of fs.list(`${root}/${topic}`)) {
        const path = `${root}/${topic}/${name}`;
        if (!/^\d+$/.test(name) || fs.stat(path)?.isDirectory !== true) continue;
        const files = loadSegments({ fs, path, size, setting, derived: true, isDamage, logger });
        yield { topic, queueId: Number(name), files };
      }
    }
  }

  /** Whether any queue has a file of the length that the setting says. */
  #someFileFits(): boolean {
    const { fs, root, fileSize } = this.#options;
    const fits = (path: string, depth: number): boolean =>
      depth === 0
        ? fs.stat(path)?.size === fileSize
        : fs.stat(path)?.isDirectory === true && fs.list(path).some((name) => fits(`${path}/${name}`, depth - 1));
    return fits(root, 3);
  }

  /** Makes the next file of a queue, which holds `byte`, with its folders. @throws GantryError IO, DISK_FULL, STORE_DAMAGED. */
  create(queue: Folder, byte: number): SegmentFile {
    const { fs, fileSize } = this.#options;
    const base = byte - (byte % fileSize);
    const last = queue.files.at(-1);
    if (last !== undefined && last.end !== base) {
      throw new GantryError('STORE_DAMAGED', `${queue.folder} ends at ${last.end}, a unit belongs at byte ${byte}`);
    }
    const { folder } = queue;
    if (last === undefined) {
      fs.makeDirectory(folder);
      this.doubtNames(queue);
    } else this.dirty.add(folder);
    const file = new SegmentFile(fs, queue, base, fileSize, true);
    const handle = fs.open(file.path, 'create');
    try {
      handle.truncateSync(fileSize);
    } catch (error) {
      handle.close();
      throw error;
    }
    // It is about to be written.
    file.adopt(handle);
    this.opened(file);
    // A list that grows by itself takes room for seventeen.
    if (last === undefined) queue.files = [file];
    else queue.files.push(file);
    return file;
  }

  /** The names of a queue's files and folders may not be durable. */
  doubtNames({ topic, folder }: Folder): void {
    this.dirty.add(folder);
    this.dirty.add(`${this.#options.root}/${topic}`);
    this.dirty.add(this.#options.root);
  }

  /** Removes a queue's folder. */
  remove({ topic, folder }: Folder): void {
    this.#options.fs.removeTree(folder);
    this.dirty.delete(folder);
    this.dirty.add(`${this.#options.root}/${topic}`);
  }

  /** Removes a topic's folder. Where that fails, the start tells what is of an earlier life by its places in the log. */
  removeTopic(topic: string): void {
    const { fs, root, logger } = this.#options;
    const path = `${root}/${topic}`;
    try {
      fs.removeTree(path);
    } catch (error) {
      if (!(error instanceof GantryError)) throw error;
      logger.warn(`${path} cannot be removed: ${error.message}`);
    }
    for (const dirty of this.dirty) {
      if (dirty === path || dirty.startsWith(`${path}/`)) this.dirty.delete(dirty);
    }
    this.dirty.add(root);
  }

  /** A file's handle, opened if it is not. @throws GantryError IO. */
  handle(file: SegmentFile): FileHandle {
    this.opened(file);
    return file.handle();
  }

  /** A file is used now: one that was not for long may be closed for it. */
  opened(file: SegmentFile): void {
    this.#open.delete(file);
    this.#open.set(file, true);
    if (this.#open.size <= this.#options.mostOpen) return;
    for (const old of this.#open.keys()) {
      this.#open.delete(old);
      old.close();
      return;
    }
  }

  /** Drops what is kept of a file that goes. */
  forget(file: SegmentFile): void {
    this.#options.cache.forget(file);
    this.#open.delete(file);
    file.close();
  }

  close(): void {
    for (const file of this.#open.keys()) file.close();
    this.#open.clear();
  }

  isOpen(file: SegmentFile): boolean {
    return this.#open.has(file);
  }

  get openFiles(): number {
    return this.#open.size;
  }
}
