// Syncs in a thread of their own. libuv's pool has four threads for everything: cold reads that occupy them let a sync wait in line, and
// with it every sender under SYNC_FLUSH. Here a sync waits for nothing but the disk. The way there and back costs what the pool's costs
// (docs/decisions/2026-11-30-sync-lane.md).
//
//   loop: descriptor, request number ─► Atomics.notify ─► thread: fdatasync ─► message ─► loop: done
//
// Until the thread runs, and after it has died, syncs go through the pool: that is slower and no less durable.

import { SHARE_ENV, Worker } from 'node:worker_threads';
import { GantryError, type Logger } from '../common/index.ts';
import type { Done, FileHandle, SyncLane } from './file-system.ts';
import { ioError } from './io-error.ts';
import { LANE_WORDS, LaneState, LaneWord } from './sync-lane-words.ts';

/** The thread runs a few lines: it needs a fraction of a usual heap. */
const RESOURCE_LIMITS = { maxOldGenerationSizeMb: 8, maxYoungGenerationSizeMb: 1, stackSizeMb: 1 };

interface Waiting {
  file: FileHandle;
  done: Done;
}

export class NodeSyncLane implements SyncLane {
  readonly #words = new Int32Array(new SharedArrayBuffer(4 * LANE_WORDS));
  readonly #logger: Logger;
  #worker: Worker | undefined;
  #online = false;
  #current: Waiting | undefined;
  readonly #waiting: Waiting[] = [];
  #closing = false;
  readonly #whenEnded: Array<() => void> = [];

  /** `script` is the thread's program; another one is for tests. */
  constructor(logger: Logger, script: URL = new URL('./sync-lane-worker.js', import.meta.url)) {
    this.#logger = logger;
    try {
      this.#start(script);
    } catch (error) {
      this.#lost(error);
    }
  }

  #start(script: URL): void {
    const worker = new Worker(script, {
      workerData: this.#words,
      name: 'gantry-sync',
      execArgv: [],
      env: SHARE_ENV,
      trackUnmanagedFds: false,
      resourceLimits: RESOURCE_LIMITS,
    });
    this.#worker = worker;
    // It keeps the process alive only while a sync is under way.
    worker.unref();
    let cause: unknown;
    worker.on('online', () => {
      this.#online = true;
    });
    worker.on('message', (failure: string | null) => this.#ended(failure));
    worker.on('error', (error) => {
      cause = error;
    });
    worker.on('exit', () => {
      this.#worker = undefined;
      this.#online = false;
      if (!this.#closing) this.#lost(cause ?? 'it ended');
      for (const fn of this.#whenEnded.splice(0)) fn();
    });
  }

  /** Whether syncs go through the thread now. */
  get hasThread(): boolean {
    return this.#online;
  }

  sync(file: FileHandle, done: Done): void {
    if (!this.#online) return file.sync(done);
    if (this.#current !== undefined) this.#waiting.push({ file, done });
    else this.#hand({ file, done });
  }

  async close(): Promise<void> {
    this.#closing = true;
    const worker = this.#worker;
    if (worker === undefined) return;
    worker.ref();
    await new Promise<void>((resolve) => {
      this.#whenEnded.push(resolve);
      // A thread that is starting has not looked yet, and finds it.
      if (this.#current === undefined) this.#tell(-1);
    });
  }

  #hand(next: Waiting): void {
    this.#current = next;
    this.#words[LaneWord.DESCRIPTOR] = next.file.fd;
    Atomics.store(this.#words, LaneWord.STATE, LaneState.WAITING);
    this.#worker!.ref();
    this.#tell((this.#words[LaneWord.REQUEST]! + 1) & 0x3fffffff);
  }

  #tell(request: number): void {
    Atomics.store(this.#words, LaneWord.REQUEST, request);
    Atomics.notify(this.#words, LaneWord.REQUEST);
  }

  #ended(failure: string | null): void {
    const { file, done } = this.#current!;
    const next = this.#waiting.shift();
    this.#current = undefined;
    if (next !== undefined) this.#hand(next);
    else if (this.#closing) this.#tell(-1);
    else this.#worker!.unref();
    done(failure === null ? undefined : ioError({ code: failure }, 'sync', file.path));
  }

  /** The thread has gone, or never came. */
  #lost(cause: unknown): void {
    const text = cause instanceof Error ? cause.message : String(cause);
    this.#logger.warn(
      `the thread that syncs the CommitLog is not there (${text}); its syncs share the pool of other disk work`,
    );
    const current = this.#current;
    this.#current = undefined;
    if (current !== undefined) this.#settle(current, text);
    for (const { file, done } of this.#waiting.splice(0)) file.sync(done);
  }

  /** A sync that the system may have failed must not be asked for again: the second one would say yes. */
  #settle({ file, done }: Waiting, cause: string): void {
    const state = Atomics.load(this.#words, LaneWord.STATE);
    if (state === LaneState.WAITING) file.sync(done);
    else if (state === LaneState.SYNCED) done(undefined);
    else done(new GantryError('IO', `nobody knows how the sync of ${file.path} ended: its thread died (${cause})`));
  }
}
