// The CommitLog: one log for all topics, the only truth about messages. This file holds its bytes and its positions; what is put
// into it, and who is told, is decided by message-store.ts. docs/formats/commit-log.md is the page behind the files.
//
//        files on disk                                   chunks in memory
//   |-- file --|-- file --|-- file (active) --------|    [ chunk ][ chunk ][ chunk, filling ]
//   minimum                    flushed   committed  ^ the next file is made ahead     wrote
//
//   append   encodes a record straight into the last chunk             wrote     moves
//   commit   writes what is new in the chunks to the file              committed moves
//   flush    syncs the file, one sync at a time, off the loop          flushed   moves
//
// Invariants: flushed <= committed <= wrote. A record lies in one chunk and in one file. A file is closed by a filler of at least
// 8 bytes; of a filler only the first 8 are kept in memory and written, the rest of the file stays a hole of zeros.
// Chunks that are committed and dispatched stay as the cache of the tail until their budget is used up.

import { assert, type Clock, type GantryError, type Logger } from '../../common/index.ts';
import type { FileSystem, SyncLane } from '../../io/index.ts';
import { BLANK_BYTES, MAGIC_BLANK } from '../../message/index.ts';
import {
  BufferedMemory,
  type Chunk,
  cutSegments,
  type ReadCache,
  type ReadLane,
  type Ready,
  type SegmentFile,
  type SegmentMemory,
  segmentAt,
  shortRead,
  type WarmFiles,
  zeroBytes,
} from '../segment/index.ts';
import { LogSync } from './log-sync.ts';
import { NewFiles } from './new-files.ts';
import { Tail } from './tail.ts';

/** A synchronous write that takes longer than this means that the disk stalls writers: for a while, writes go off the loop. */
const SLOW_WRITE_MS = 25;
const ASYNC_AFTER_SLOW_MS = 10_000;

export interface CommitLogOptions {
  fs: FileSystem;
  clock: Clock;
  logger: Logger;
  folder: string;
  /** Bytes of each file. */
  fileSize: number;
  files: SegmentFile[];
  /** End of the sound data, from recovery: all positions start here. */
  end: number;
  cache: ReadCache;
  reads: ReadLane;
  /** Where syncs run; without one, in the pool of all disk work. */
  lane?: SyncLane | undefined;
  /** Where appends lie until they are committed; default memory of the process. */
  memory?: SegmentMemory;
  /** Fills files that are made ahead, so that their blocks are there before they are needed. */
  warm?: WarmFiles | undefined;
  /**
   * What could not be written stays in memory and is tried again at the next commit, since its senders have their answers (the
   * transient store pool); told each time. Writes then never hold the loop up. Absent: see `onWriteFailed`.
   */
  onWriteDelayed?: ((error: GantryError) => void) | undefined;
  /** Whether the log may go on into the file that begins at `base`; false holds commits until one is asked for again. */
  mayCommitInto: (base: number) => boolean;
  /** Told after each step forward, on the loop, outside any append. */
  onCommitted: () => void;
  onFlushed: () => void;
  /** A write failed and left nothing behind: everything above `committed` is given up. Called before the bytes are dropped. */
  onWriteFailed: (error: GantryError) => void;
  /** A sync failed: nothing above `flushed` is known to be durable, and never will be. */
  onSyncFailed: (error: GantryError) => void;
}

export class CommitLog {
  /** End of what was appended. */
  wrote: number;
  /** End of what is in the files (not necessarily durable). */
  committed: number;
  /** Below this the derived stores have everything; chunks above it are kept. */
  dispatched: number;
  /** When the oldest append that is not committed yet was made; 0 if all is committed. */
  uncommittedSince = 0;
  /** How long what was committed last had waited since its first append, in ms; -1 once somebody has taken note. */
  appendMs = -1;
  /** Whether somebody's message is among what is not committed; set by who appends it. */
  hasSends = false;

  readonly #options: CommitLogOptions;
  readonly #fs: FileSystem;
  readonly #clock: Clock;
  readonly fileSize: number;
  readonly files: SegmentFile[];
  readonly #memory: SegmentMemory;
  readonly #tail: Tail;
  #writing = false;
  #asyncUntil = 0;
  #delayed: GantryError | undefined;
  #closed = false;
  #isCut = false;
  readonly #newFiles: NewFiles;
  readonly #sync: LogSync;
  #ownFrom: number;

  constructor(options: CommitLogOptions) {
    this.#options = options;
    this.#fs = options.fs;
    this.#clock = options.clock;
    this.#memory = options.memory ?? new BufferedMemory();
    this.#tail = new Tail(this.#memory);
    this.fileSize = options.fileSize;
    this.files = options.files;
    this.#newFiles = new NewFiles(options, () => this.#fileIsReady());
    this.wrote = options.end;
    this.committed = options.end;
    this.#sync = new LogSync(options, this);
    this.dispatched = options.end;
    this.#ownFrom = options.end;
    if (this.files.length === 0) {
      const base = options.end - (options.end % this.fileSize);
      this.#addFile(base);
    } else if (this.#last().end === options.end) {
      this.#addFile(options.end);
    }
    this.#newFiles.prepare(this.#last().end);
    this.#memory.onCut = (error) => this.#wasCut(error);
    this.#memory.advance(this.#active(), this.wrote, this.#fileBehind(this.#active()));
  }

  /**
   * All from here on was appended by this object, and what the files hold of it is what it wrote; nothing is that after a sync has failed,
   * since the system may then drop pages that never reached the disk.
   */
  get ownFrom(): number {
    return this.#sync.failure === undefined ? this.#ownFrom : Number.POSITIVE_INFINITY;
  }

  /** Start of the oldest file. */
  get minimum(): number {
    return this.files[0]?.base ?? this.wrote;
  }

  /** True while a sync has failed: the log takes nothing more. */
  get syncFailure(): GantryError | undefined {
    return this.#sync.failure;
  }

  /** A mapped file was cut by someone else, and what was not dispatched yet lay in its pages: it cannot be had until the next start. */
  get isCut(): boolean {
    return this.#isCut;
  }

  /** Why what was put is not written yet although it was tried (see `onWriteDelayed`); undefined once it is. */
  get writeDelayed(): GantryError | undefined {
    return this.#delayed;
  }

  /** Files that have bytes which are not committed. */
  get uncommittedFiles(): number {
    if (this.committed === this.wrote) return 0;
    return Math.floor((this.wrote - 1) / this.fileSize) - Math.floor(this.committed / this.fileSize) + 1;
  }

  /** Whether a record of `size` bytes fits into a file at all. */
  fits(size: number): boolean {
    return size + BLANK_BYTES <= this.fileSize;
  }

  /**
   * Makes room for `size` bytes at `wrote`, closing the active file with a filler first if they don't fit into it. Answers the chunk;
   * the bytes go to `chunk.bytes` at `chunk.used`, and `appended` then moves the position. Requires `fits(size)`.
   */
  reserve(size: number): Chunk {
    const file = this.#active();
    if (size + BLANK_BYTES > file.end - this.wrote) {
      this.#fill(file);
      return this.#chunkFor(this.#active(), size);
    }
    const chunk = this.#tail.current;
    if (chunk !== undefined && chunk.bytes.length - chunk.used >= size) return chunk;
    return this.#chunkFor(file, size);
  }

  /** Whether a record may have these bytes: none runs over a file. */
  isInOneFile(offset: number, length: number): boolean {
    return Math.floor(offset / this.fileSize) === Math.floor((offset + length - 1) / this.fileSize);
  }

  /** A buffer for at least `size` bytes of records that have no place yet, with old bytes in it; it ends in `adopt` or `giveBuffer`. */
  takeBuffer(size: number): Uint8Array {
    return this.#memory.takeBuffer(size);
  }

  /** Takes back a buffer that is not used any more. */
  giveBuffer(bytes: Uint8Array): void {
    this.#memory.giveBuffer(bytes);
  }

  /** Closes the active file if `size` bytes don't fit into it; answers where they go. Requires `fits(size)`. */
  makeRoom(size: number): number {
    const file = this.#active();
    if (size + BLANK_BYTES > file.end - this.wrote) this.#fill(file);
    return this.wrote;
  }

  /** Takes over `size` bytes of a buffer of `takeBuffer`, as they are, for the place that `makeRoom` gave; what follows goes behind them. */
  adopt(bytes: Uint8Array, size: number): void {
    const file = this.#active();
    assert(size <= bytes.length && size + BLANK_BYTES <= file.end - this.wrote, 'bytes are adopted without room');
    const view = new DataView(bytes.buffer);
    this.appended(this.#tail.add({ start: this.wrote, used: 0, bytes, view, file, mapped: false }), size);
  }

  /** Takes over `size` bytes that were written into the chunk of the last `reserve`. */
  appended(chunk: Chunk, size: number): void {
    chunk.used += size;
    this.wrote += size;
    if (this.uncommittedSince === 0) this.uncommittedSince = this.#clock.monotonic();
  }

  /** Where `offset` lies in memory; undefined if it must come from a file. The chunk holds [chunk.start, chunk.start + used). */
  chunkAt(offset: number): Chunk | undefined {
    return this.#tail.at(offset);
  }

  /** Copies from [offset, offset + length), which must be below `committed`, to `target[at...]`; answers as ReadCache.copy. */
  copy(offset: number, length: number, target: Uint8Array, at: number, ready: Ready): number {
    const chunk = this.chunkAt(offset);
    if (chunk !== undefined) {
      const from = offset - chunk.start;
      assert(from + length <= chunk.used, 'a record runs over its chunk');
      target.set(chunk.bytes.subarray(from, from + length), at);
      return length;
    }
    return this.copyStored(offset, length, target, at, ready);
  }

  /** As `copy`, where no chunk has the bytes. */
  copyStored(offset: number, length: number, target: Uint8Array, at: number, ready: Ready): number {
    const file = this.#fileOf(offset, length);
    const limit = Math.min(this.committed, file.end) - file.base;
    return this.#options.cache.copy(file, offset - file.base, length, limit, target, at, ready);
  }

  /** Reads [offset, offset + length), which must be below `committed`, past the cache: for single look-ups. */
  read(offset: number, length: number, target: Uint8Array, done: (error: GantryError | undefined) => void): void {
    const chunk = this.chunkAt(offset);
    if (chunk !== undefined) {
      const from = offset - chunk.start;
      target.set(chunk.bytes.subarray(from, Math.min(chunk.used, from + length)));
      return done(undefined);
    }
    const file = this.#fileOf(offset, length);
    const position = offset - file.base;
    this.#options.reads.read(file, target, length, position, (error, got) => {
      done(error ?? (got < length ? shortRead(file, position, length, got) : undefined));
    });
  }

  #fileOf(offset: number, length: number): SegmentFile {
    const file = segmentAt(this.files, offset);
    assert(file !== undefined && offset + length <= file.end, 'a read of the log runs over a file');
    return file;
  }

  /** Writes what is new to the files. Called once per loop turn that appended something. */
  commit(): void {
    while (!this.#writing && this.committed < this.wrote) {
      const chunk = this.#chunkToCommit();
      if (chunk === undefined || !chunk.file.ready || !this.#options.mayCommitInto(chunk.file.base)) return;
      const from = this.committed - chunk.start;
      const length = chunk.used - from;
      const position = this.committed - chunk.file.base;
      // Its pages are the file's.
      if (chunk.mapped) {
        this.#advanceCommitted(chunk, from + length);
        continue;
      }
      const started = this.#clock.monotonic();
      if (this.hasSends) this.#options.reads.wroteAt = started;
      this.hasSends = false;
      if (this.#options.onWriteDelayed !== undefined || started < this.#asyncUntil) {
        this.#writing = true;
        chunk.file.handle().write(chunk.bytes, from, length, position, (error) => {
          this.#writing = false;
          // A file was cut meanwhile, and the chunk given up.
          if (this.committed >= this.wrote) return;
          if (error !== undefined) return this.#writeFailed(error);
          this.#delayed = undefined;
          this.#advanceCommitted(chunk, from + length);
          this.commit();
          if (this.#sync.isWaitedFor) this.flush();
          this.#options.onCommitted();
        });
        return;
      }
      try {
        chunk.file.handle().writeSync(chunk.bytes, from, length, position);
      } catch (error) {
        return this.#writeFailed(error as GantryError);
      }
      this.noteSlow(started);
      this.#advanceCommitted(chunk, from + length);
    }
  }

  /** No write is under way, and none of late was slow. */
  get mayWrite(): boolean {
    return !this.#writing && this.#clock.monotonic() >= this.#asyncUntil;
  }

  /** A write that began then has ended. */
  noteSlow(started: number): void {
    const now = this.#clock.monotonic();
    if (now - started > SLOW_WRITE_MS) this.#asyncUntil = now + ASYNC_AFTER_SLOW_MS;
  }

  /** End of what is durable. */
  get flushed(): number {
    return this.#sync.flushed;
  }

  /** Bytes that are committed but not known to be durable. */
  get unflushed(): number {
    return this.committed - this.#sync.flushed;
  }

  get syncing(): boolean {
    return this.#sync.isUnderWay;
  }

  /** How long the last sync took, in ms, and the bytes that it covered. */
  get lastSyncMs(): number {
    return this.#sync.lastMs;
  }
  get lastSyncBytes(): number {
    return this.#sync.lastBytes;
  }

  /** Starts a sync of what is committed, unless one is under way: that one's end starts the next. */
  flush(): void {
    if (!this.#closed) this.#sync.begin();
  }

  /** Syncs what is committed until everything below `offset` is durable. */
  syncTo(offset: number, done: (error: GantryError | undefined) => void): void {
    this.#sync.waitFor(offset, done);
    if (offset > this.committed) this.commit();
    this.#sync.releaseWaiters();
  }

  /** Frees chunks that are committed, dispatched, and beyond the tail's budget; one that is being written is not committed yet. */
  trim(): void {
    this.#tail.trim(Math.min(this.committed, this.dispatched));
  }

  /**
   * Cuts the log at a record boundary, durably: on return the bytes from `offset` on are dead on disk. Requires that everything is
   * committed and no write or sync is under way.
   */
  truncateTo(offset: number): void {
    assert(
      !this.#writing && !this.#sync.isUnderWay && this.committed === this.wrote,
      'the log is cut while it is being written',
    );
    for (const file of this.files) if (file.end > offset) this.#options.cache.forget(file);
    this.#tail.cutTo(offset);
    for (const file of this.files) if (file.end > offset) this.#memory.forget(file);
    this.#newFiles.drop();
    cutSegments(this.#fs, this.#options.folder, this.files, offset);
    if (this.files.length === 0 || this.#last().end === offset) this.#addFile(offset - (offset % this.fileSize));
    this.wrote = offset;
    this.committed = offset;
    this.#ownFrom = Math.min(this.#ownFrom, offset);
    this.#sync.cutTo(offset);
    this.dispatched = Math.min(this.dispatched, offset);
    this.#newFiles.prepare(this.#last().end);
  }

  /**
   * Takes the oldest file out of the log, which from now on begins at the next one; nothing of it can be read any more. Removing it from
   * the disk is the caller's affair. Requires that everything in it is flushed and that another file follows.
   */
  dropFirst(): SegmentFile {
    const file = this.files[0]!;
    assert(this.files.length > 1 && file.end <= this.flushed, 'a file of the log is dropped that is still needed');
    this.#options.cache.forget(file);
    // A piece of the tail that is still mapped would keep its bytes on the disk.
    this.#tail.dropFile(file);
    this.#memory.forget(file);
    this.files.shift();
    file.close();
    return file;
  }

  /** Commits, syncs and closes. `done` gets the error that kept bytes from being durable, if any. */
  close(done: (error: GantryError | undefined) => void): void {
    const finish = (): void => {
      const isWritten = !this.#writing && this.committed === this.wrote;
      if (this.#sync.failure === undefined && isWritten && this.flushed === this.committed) {
        // RocketMQ: a clean stop removes the file that was made ahead.
        this.#newFiles.dropAtEnd();
        return this.#end(done, undefined);
      }
      const failure = this.#sync.failure ?? this.#delayed;
      if (failure !== undefined && !this.#writing) return this.#end(done, failure);
      this.commit();
      this.flush();
      this.#clock.soon(finish);
    };
    finish();
  }

  /** A mapped file was cut by someone else: nothing is taken any more, and what is not committed is given up. Reads come from the files. */
  #wasCut(error: GantryError): void {
    if (this.#sync.failure !== undefined || this.#closed) return;
    this.#isCut = true;
    this.#tail.cutTo(0);
    this.wrote = this.committed;
    this.uncommittedSince = 0;
    this.#sync.fail(error);
    this.#options.onSyncFailed(error);
  }

  #end(done: (error: GantryError | undefined) => void, failure: GantryError | undefined): void {
    this.#closed = true;
    this.#newFiles.close();
    this.#tail.cutTo(0);
    this.#memory.forget();
    for (const file of this.files) file.close();
    done(failure);
  }

  #last(): SegmentFile {
    return this.files.at(-1)!;
  }

  /** The file that `wrote` lies in. */
  #active(): SegmentFile {
    const file = segmentAt(this.files, this.wrote);
    if (file !== undefined) return file;
    return this.#addFile(this.#last().end);
  }

  #fill(file: SegmentFile): void {
    const rest = file.end - this.wrote;
    assert(rest >= BLANK_BYTES, 'a file has no room for its filler');
    const current = this.#tail.current;
    const chunk =
      current !== undefined && current.bytes.length - current.used >= BLANK_BYTES
        ? current
        : this.#chunkFor(file, BLANK_BYTES);
    chunk.view.setInt32(chunk.used, rest);
    chunk.view.setInt32(chunk.used + 4, MAGIC_BLANK);
    chunk.used += BLANK_BYTES;
    this.wrote = file.end;
    this.#tail.current = undefined;
    if (this.uncommittedSince === 0) this.uncommittedSince = this.#clock.monotonic();
  }

  #chunkFor(file: SegmentFile, size: number): Chunk {
    const mayMap = this.#tail.isInFiles(this.committed) && this.#options.mayCommitInto(file.base);
    return this.#tail.add(this.#memory.chunkFor(file, this.wrote, size, mayMap));
  }

  /** The chunk whose next bytes are to be written; steps over the hole behind a filler. */
  #chunkToCommit(): Chunk | undefined {
    const chunk = this.chunkAt(this.committed);
    if (chunk !== undefined) return chunk;
    const next = this.#tail.behind(this.committed);
    const file = segmentAt(this.files, this.committed);
    assert(
      next === undefined || file === undefined || next.start === file.end,
      'a hole in the chunks that is no filler',
    );
    return undefined;
  }

  #advanceCommitted(chunk: Chunk, used: number): void {
    this.committed = chunk.start + used;
    // A filler's rest is a hole of zeros in the file: committed with its first 8 bytes.
    if (used === chunk.used && this.committed < this.wrote && this.chunkAt(this.committed) === undefined) {
      this.committed = this.#tail.behind(chunk.start)?.start ?? this.wrote;
    }
    if (this.committed === this.wrote) {
      this.appendMs = this.#clock.monotonic() - this.uncommittedSince;
      this.uncommittedSince = 0;
      if (!chunk.mapped && this.#memory.canMap(chunk.file, this.wrote)) this.#tail.current = undefined;
    } else {
      this.uncommittedSince = this.#clock.monotonic();
    }
    this.#memory.advance(chunk.file, this.committed, this.#fileBehind(chunk.file));
  }

  #fileBehind(file: SegmentFile): SegmentFile | undefined {
    return segmentAt(this.files, file.end) ?? this.#newFiles.ahead;
  }

  /**
   * Gives up what could not be written: it was never acknowledged, and nothing of it may come back, so the part that did reach the
   * file is made zeros, durably, before anyone is told that it was not stored.
   */
  #writeFailed(error: GantryError): void {
    if (this.#options.onWriteDelayed !== undefined) {
      this.#delayed = error;
      return this.#options.onWriteDelayed(error);
    }
    this.#asyncUntil = 0;
    const file = segmentAt(this.files, this.committed)!;
    this.#options.cache.forget(file);
    // Behind bytes that a write may fail on nothing was mapped (see Tail.isInFiles): what is in no file needs no eraser.
    const erased = this.#erase(file, Math.min(this.wrote, file.end) - this.committed);
    if (erased) this.#options.onWriteFailed(error);
    else this.#sync.failure = error;
    this.#tail.cutTo(this.committed);
    this.wrote = this.committed;
    this.uncommittedSince = 0;
    if (!erased) this.#options.onSyncFailed(error);
  }

  /** Makes what a failed write may have left zeros again; false if that is not certain. */
  #erase(file: SegmentFile, length: number): boolean {
    try {
      const handle = file.handle();
      try {
        zeroBytes(handle, this.committed - file.base, length);
      } catch (error) {
        // Where the disk has no block for zeros there is no block with bytes either.
        if ((error as GantryError).code !== 'DISK_FULL') throw error;
      }
      handle.syncSync();
      return true;
    } catch (error) {
      this.#options.logger.error(
        `${file.path}: what was written of refused sends may stay: ${(error as GantryError).message}`,
      );
      return false;
    }
  }

  #addFile(base: number): SegmentFile {
    const next = this.#newFiles.take(base);
    this.files.push(next);
    this.#newFiles.prepare(next.end);
    return next;
  }

  /** A file is there that was not: what waits for it goes on. */
  #fileIsReady(): void {
    const active = segmentAt(this.files, this.wrote);
    if (active !== undefined) this.#memory.advance(active, this.wrote, this.#fileBehind(active));
    if (this.committed < this.wrote) {
      this.commit();
      this.#options.onCommitted();
    }
  }
}
