// When the CommitLog is synced: one sync at a time, off the loop, each for all that has come since the one before, and who waits for them.
//
//   flushed ........ target = committed when it began, at most the end of the file
//           └── one sync ──┘     └─ its end starts the next one

import { assert, type GantryError } from '../../common/index.ts';
import { BufferedMemory, type SegmentFile, segmentAt, zeroBytes } from '../segment/index.ts';
import type { CommitLogOptions } from './commit-log.ts';

/** With few senders, blocks are taken ahead of the log in steps of this, by syncs of less than that. */
const AHEAD_BYTES = 64 * 1024;
const SMALL_SYNC_BYTES = 16 * 1024;

/** The log, as its syncs see it. */
export interface SyncedLog {
  readonly files: readonly SegmentFile[];
  readonly committed: number;
  /** No write is under way, and none of late was slow: one more on the loop holds nobody up. */
  readonly mayWrite: boolean;
  /** A write that began then has ended. */
  noteSlow(started: number): void;
}

export class LogSync {
  /** End of what is durable. */
  flushed: number;
  /** How long the last sync took, from its start to its end on the loop, in ms. */
  lastMs = 0;
  /** Bytes that it covered. */
  lastBytes = 0;
  isUnderWay = false;
  /** Set when nothing above `flushed` is known to be durable, and never will be. */
  failure: GantryError | undefined;
  readonly #options: CommitLogOptions;
  readonly #log: SyncedLog;
  /** Up to here the file system has blocks for the log, as far as is known. */
  #hasBlocksTo = 0;
  #waiters: Array<{ offset: number; done: (error: GantryError | undefined) => void }> = [];

  constructor(options: CommitLogOptions, log: SyncedLog) {
    this.#options = options;
    this.#log = log;
    this.flushed = options.end;
  }

  get isWaitedFor(): boolean {
    return this.#waiters.length > 0;
  }

  /** Starts a sync of what is committed, unless one is under way: that one's end starts the next. */
  begin(): void {
    const log = this.#log;
    if (this.isUnderWay || this.failure !== undefined || this.flushed >= log.committed) return;
    const { lane, reads, clock } = this.#options;
    const file = segmentAt(log.files, this.flushed)!;
    const target = Math.min(file.end, log.committed);
    this.isUnderWay = true;
    const handle = file.handle();
    file.pin();
    const started = clock.monotonic();
    const ended = (error: GantryError | undefined): void => {
      file.unpin();
      this.isUnderWay = false;
      reads.yieldTo(false);
      this.lastMs = clock.monotonic() - started;
      this.#ended(file, target, error);
    };
    if (lane === undefined) return handle.sync(ended);
    this.#takeBlocks(file);
    reads.yieldTo(true);
    lane.sync(handle, ended);
  }

  #ended(file: SegmentFile, target: number, error: GantryError | undefined): void {
    const { onFlushed, onSyncFailed } = this.#options;
    // Another sync that failed meanwhile may have cost the bytes of this one: the system tells it once.
    const failure = this.failure ?? error;
    if (failure !== undefined) {
      const isNew = this.failure === undefined;
      this.fail(failure);
      if (isNew) onSyncFailed(failure);
      return;
    }
    assert(target >= this.flushed && target <= this.#log.committed, 'a sync ended outside of what is committed');
    this.lastBytes = target - this.flushed;
    this.flushed = target;
    // A file that is full needs no one to ask: go on into the next one.
    if (target === file.end) this.begin();
    onFlushed();
    this.releaseWaiters();
  }

  /** Nothing more becomes durable. */
  fail(error: GantryError): void {
    this.failure = error;
    for (const waiter of this.#waiters.splice(0)) waiter.done(error);
  }

  /**
   * A sync of bytes in a new block waits for the file system's journal, too. So small syncs write zeros ahead, where zeros are: those that
   * follow find their blocks. Nothing of it counts, and a failure is left to the next append.
   */
  #takeBlocks(file: SegmentFile): void {
    const { memory, clock } = this.#options;
    // Mapped pages may hold what is appended and not committed yet, and have their blocks anyway.
    if (memory !== undefined && !(memory instanceof BufferedMemory)) return;
    const log = this.#log;
    const at = log.committed;
    if (at < this.#hasBlocksTo || at >= file.end || at - this.flushed > SMALL_SYNC_BYTES || !log.mayWrite) return;
    const started = clock.monotonic();
    const end = Math.min(file.end, at - (at % AHEAD_BYTES) + 2 * AHEAD_BYTES);
    this.#hasBlocksTo = end;
    try {
      zeroBytes(file.handle(), at - file.base, end - at);
    } catch {
      // The disk is full, or worse: whoever needs the bytes is told.
    }
    log.noteSlow(started);
  }

  waitFor(offset: number, done: (error: GantryError | undefined) => void): void {
    this.#waiters.push({ offset, done });
  }

  /** Tells those whose bytes are durable, or never will be; syncs for the others. */
  releaseWaiters(): void {
    const due = this.#waiters.filter((waiter) => waiter.offset <= this.flushed || this.failure !== undefined);
    if (due.length > 0) this.#waiters = this.#waiters.filter((waiter) => !due.includes(waiter));
    for (const waiter of due) waiter.done(waiter.offset <= this.flushed ? undefined : this.failure);
    if (this.#waiters.length > 0) this.begin();
  }

  /** The log is cut. */
  cutTo(offset: number): void {
    this.flushed = Math.min(this.flushed, offset);
    this.#hasBlocksTo = Math.min(this.#hasBlocksTo, offset);
  }
}
