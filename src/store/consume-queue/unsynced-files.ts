// Files of queues that were written since they were synced, for the stores of all kinds of queues: made durable a few at once, then the folders
// of new ones.
//
// Where the sync of a file has failed the system takes its pages for clean, and a later sync that succeeds says nothing of them: they are made
// dirty again by writing every byte once more, at once, while the cache still has them; and as long as that fails no sync of them counts.

import type { Clock, GantryError } from '../../common/index.ts';
import type { Done, FileHandle, FileSystem } from '../../io/index.ts';
import type { SegmentFile } from '../segment/index.ts';
import type { QueueFolders } from './queue-folders.ts';

const STEP_BYTES = 256 * 1024;

export interface UnsyncedFilesOptions<Q> {
  fs: FileSystem;
  clock: Clock;
  folders: QueueFolders;
  /** A file was synced; `written` is what its queue had written when that began. */
  onSynced?: (queue: Q, file: SegmentFile, written: number) => void;
}

export class UnsyncedFiles<Q extends { readonly written: number }> {
  readonly #options: UnsyncedFilesOptions<Q>;
  readonly #files = new Map<SegmentFile, Q>();
  /** Files whose sync has failed. */
  readonly #suspect = new Set<SegmentFile>();
  /** Syncs that have ended, of files and of folders. */
  synced = 0;
  /** Files and folders that the call under way has still to sync. */
  left = 0;

  constructor(options: UnsyncedFilesOptions<Q>) {
    this.#options = options;
  }

  /** A file of `queue` was written. */
  add(file: SegmentFile, queue: Q): void {
    this.#files.set(file, queue);
  }

  /** A file goes, or what it holds does not count. */
  forget(file: SegmentFile): void {
    this.#files.delete(file);
    this.#suspect.delete(file);
  }

  all(): ReadonlyMap<SegmentFile, Q> {
    return this.#files;
  }

  /** Syncs files, and the folders of files that are new, `lanes` at a time; they share the journal's writes. What fails is tried again next time. */
  sync(files: ReadonlyArray<[SegmentFile, Q]>, lanes: number, done: Done): void {
    const { dirty } = this.#options.folders;
    const folders = [...dirty];
    dirty.clear();
    let at = 0;
    let running = 0;
    let firstError: GantryError | undefined;
    this.left = files.length + folders.length;
    const ended: Done = (error) => {
      firstError ??= error;
      running--;
      this.synced++;
      this.left = files.length + folders.length - at + running;
      go();
    };
    const go = (): void => {
      while (running < lanes && at < files.length + folders.length) {
        const entry = files[at];
        const folder = folders[at - files.length];
        at++;
        // Some may be gone: their topic was deleted meanwhile.
        if (entry !== undefined && !this.#files.has(entry[0])) continue;
        running++;
        if (entry !== undefined) this.#sync(entry[0], entry[1], ended);
        else this.#syncFolder(folder!, ended);
      }
      if (running === 0) done(firstError);
    };
    go();
  }

  #sync(file: SegmentFile, queue: Q, ended: Done): void {
    const { folders, clock, onSynced } = this.#options;
    const { written } = queue;
    this.#files.delete(file);
    let handle: FileHandle;
    try {
      handle = folders.handle(file);
      this.#mend(file, handle);
    } catch (error) {
      this.#files.set(file, queue);
      return clock.soon(() => ended(error as GantryError));
    }
    file.pin();
    handle.sync((error) => {
      file.unpin();
      if (error === undefined) onSynced?.(queue, file, written);
      else {
        this.#files.set(file, queue);
        this.#failed(file, handle);
      }
      ended(error);
    });
  }

  /** A folder that is not there any more is its parent's affair: its topic was deleted while the flush was under way. */
  #syncFolder(folder: string, ended: Done): void {
    const { fs, folders } = this.#options;
    fs.syncDirectoryLater(folder, (error) => {
      if (error !== undefined) folders.dirty.add(folder);
      ended(error);
    });
  }

  #failed(file: SegmentFile, handle: FileHandle): void {
    this.#suspect.add(file);
    try {
      this.#mend(file, handle);
    } catch {
      // It is tried again before the next sync, which reports it.
    }
  }

  /** @throws GantryError: it could not be written again, and a sync would say nothing. */
  #mend(file: SegmentFile, handle: FileHandle): void {
    if (!this.#suspect.has(file)) return;
    writeAgain(handle, file.size);
    this.#suspect.delete(file);
  }
}

function writeAgain(handle: FileHandle, length: number): void {
  const step = new Uint8Array(Math.min(length, STEP_BYTES));
  for (let at = 0; at < length; at += step.length) {
    const want = Math.min(step.length, length - at);
    const got = handle.readSync(step, 0, want, at);
    step.fill(0, got);
    handle.writeSync(step, 0, want, at);
  }
}
