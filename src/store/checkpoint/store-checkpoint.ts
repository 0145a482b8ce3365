// The store's checkpoint: how far log, queues and index were durable when it was last written (docs/formats/checkpoint.md). One page
// of 4096 bytes, rewritten in place by a single write; all fields lie in its first sector, which a disk writes whole, so that a
// power cut leaves the old values or the new ones. It holds claims about other files and must never run ahead of them (I5):
// whoever sets a field has synced first what the field speaks of.
//
//   0 physicMsgTimestamp | 8 logicsMsgTimestamp | 16 indexMsgTimestamp | 24 masterFlushedOffset | 32 confirmPhyOffset
//   40 logicsPhysicalOffset | 48 zeros                                              each i64, big-endian

import { peekI64, viewOf, writeI64 } from '../../common/index.ts';
import type { Done, FileHandle, FileSystem } from '../../io/index.ts';
import type { DurableMark } from './durable-mark.ts';

/** Bytes of the file. */
export const CHECKPOINT_BYTES = 4096;

/**
 * The six values, in memory, and the file behind them. RocketMQ: StoreCheckpoint. 4.9 wrote the first three fields and 5.1 to 5.3
 * the first five; what a file does not have reads 0, "not known".
 */
export class StoreCheckpoint {
  /** Store time (ms) of the last message whose CommitLog bytes are synced. */
  physicMsgTimestamp = 0;
  /** Store time (ms) of the last message whose ConsumeQueue unit is synced. */
  logicsMsgTimestamp = 0;
  /** Store time (ms) of the last message in an index file that became full and is synced. */
  indexMsgTimestamp = 0;
  /** Replication: how far the master had flushed. */
  masterFlushedOffset = 0;
  /** Start of the last valid message at the last recovery; the confirm offset in controller mode. */
  confirmPhyOffset = 0;
  /** Physical offset (record start) of the message that belongs to `logicsMsgTimestamp`; 0 means not known. */
  logicsPhysicalOffset = 0;

  /** Our own mark, which is saved before each checkpoint that it belongs to. */
  mark: DurableMark | undefined;

  readonly path: string;
  readonly #fs: FileSystem;
  readonly #page: Uint8Array;
  readonly #view: DataView;
  #file: FileHandle | undefined;
  #fresh: boolean;
  #writing = false;
  #waiting: Done[] = [];

  private constructor(fs: FileSystem, path: string, page: Uint8Array, fresh: boolean) {
    this.#fs = fs;
    this.path = path;
    this.#page = page;
    this.#view = viewOf(page);
    this.#fresh = fresh;
    this.physicMsgTimestamp = this.#field(0);
    this.logicsMsgTimestamp = this.#field(8);
    this.indexMsgTimestamp = this.#field(16);
    this.masterFlushedOffset = this.#field(24);
    this.confirmPhyOffset = this.#field(32);
    this.logicsPhysicalOffset = this.#field(40);
  }

  /**
   * Reads the file; writes nothing. An absent or shorter file gives zeros for what it lacks, and bytes behind the six fields are
   * kept as they are. A value that no store can have written (beyond 2^53) reads 0.
   * @throws GantryError IO when the file cannot be read.
   */
  static load(fs: FileSystem, path: string): StoreCheckpoint {
    const page = new Uint8Array(CHECKPOINT_BYTES);
    const stat = fs.stat(path);
    if (stat !== undefined) {
      const file = fs.open(path, 'read');
      try {
        file.readSync(page, 0, CHECKPOINT_BYTES, 0);
      } finally {
        file.close();
      }
    }
    return new StoreCheckpoint(fs, path, page, stat === undefined);
  }

  /** The six values, in the file's order. */
  get values(): number[] {
    return [
      this.physicMsgTimestamp,
      this.logicsMsgTimestamp,
      this.indexMsgTimestamp,
      this.masterFlushedOffset,
      this.confirmPhyOffset,
      this.logicsPhysicalOffset,
    ];
  }

  /** Whether there was no file when it was loaded, and none has been written since. */
  get isAbsent(): boolean {
    return this.#fresh;
  }

  /**
   * Writes the values that the fields have now. With `sync` they are durable on return; an asynchronous write that is on its way
   * must not be overtaken, so call this at start and stop only.
   * @throws GantryError IO or DISK_FULL.
   */
  flush(sync: boolean): void {
    if (sync) this.mark?.saveSync(this.values);
    const file = this.#open();
    file.writeSync(this.#encode(), 0, CHECKPOINT_BYTES, 0);
    if (!sync) return;
    file.syncSync();
    this.#nameIsDurable();
  }

  /** Writes and syncs the values that the fields have now. Calls while a write is under way share the next one. */
  flushAsync(done: Done): void {
    this.#waiting.push(done);
    if (!this.#writing) this.#next();
  }

  /**
   * Writes and syncs values that were lowered, before what they spoke of is changed: on the spot, so that `done` has run on return, unless
   * a write is under way.
   */
  takeBack(done: Done): void {
    if (this.#writing) return this.flushAsync(done);
    this.flush(true);
    done(undefined);
  }

  /** Closes the file; what was not flushed is lost. */
  close(): void {
    this.mark?.close();
    this.#file?.close();
    this.#file = undefined;
  }

  #next(): void {
    const waiting = this.#waiting;
    this.#waiting = [];
    this.#writing = true;
    const finish: Done = (error) => {
      this.#writing = false;
      for (const done of waiting) done(error);
      if (this.#waiting.length > 0 && !this.#writing) this.#next();
    };
    let file: FileHandle;
    try {
      file = this.#open();
    } catch (error) {
      return finish(error as Parameters<Done>[0]);
    }
    const page = this.#encode();
    const write = (): void =>
      file.write(page, 0, CHECKPOINT_BYTES, 0, (error) => {
        if (error !== undefined) return finish(error);
        file.sync((syncError) => {
          if (syncError === undefined) {
            try {
              this.#nameIsDurable();
            } catch (directoryError) {
              return finish(directoryError as Parameters<Done>[0]);
            }
          }
          finish(syncError);
        });
      });
    // A mark that cannot be saved does not fit this checkpoint, and is then ignored.
    if (this.mark === undefined) write();
    else this.mark.save(this.values, write);
  }

  #open(): FileHandle {
    this.#file ??= this.#fs.open(this.path, 'create');
    return this.#file;
  }

  #nameIsDurable(): void {
    if (!this.#fresh) return;
    this.#fs.syncDirectory(this.path.slice(0, this.path.lastIndexOf('/')));
    this.#fresh = false;
  }

  /** A copy of the page with the current values: its bytes are in flight while the fields change. */
  #encode(): Uint8Array {
    const page = this.#page.slice();
    const view = viewOf(page);
    writeI64(view, 0, this.physicMsgTimestamp);
    writeI64(view, 8, this.logicsMsgTimestamp);
    writeI64(view, 16, this.indexMsgTimestamp);
    writeI64(view, 24, this.masterFlushedOffset);
    writeI64(view, 32, this.confirmPhyOffset);
    writeI64(view, 40, this.logicsPhysicalOffset);
    return page;
  }

  #field(position: number): number {
    const value = peekI64(this.#view, position);
    return Number.isSafeInteger(value) ? value : 0;
  }
}
