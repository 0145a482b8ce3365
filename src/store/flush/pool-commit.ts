// The transient store pool: when what was appended in memory is written to the files. RocketMQ: TransientStorePool, CommitRealTimeService.
//
//   put ... put ─► wrote (answered, with asynchronous flush)      committed: what readers see      flushed
//                    └─ least pages, or the thorough interval ─► write, off the loop ─► sync, at the next interval
//
// The pool is a limit, in files whose bytes are not written: while a disk stalls or is full, appends go on until it is used up, and are
// then refused. RocketMQ: takes and locks all buffers at the start; a buffer is held by the file made ahead, too.
// With sync flush every turn is written, since its senders wait for the sync that follows (RocketMQ 4: waited for a write that nothing
// asked for).

import type { Clock } from '../../common/index.ts';
import type { CommitLog } from '../commit-log/commit-log.ts';
import type { MessageStoreConfig } from '../store-config.ts';

const PAGE_BYTES = 4096;

export class PoolCommit {
  readonly #log: CommitLog;
  readonly #clock: Clock;
  readonly #config: MessageStoreConfig;
  #lastCommit: number;
  #timer: { cancel(): void } | undefined;

  constructor(log: CommitLog, clock: Clock, config: MessageStoreConfig) {
    this.#log = log;
    this.#clock = clock;
    this.#config = config;
    this.#lastCommit = clock.monotonic();
  }

  start(): void {
    this.#timer = this.#clock.every(this.#config.commitIntervalCommitLog, () => {
      this.#commitIfDue();
      // What only a power cut would take is not left to the thorough interval of the flush.
      this.#log.flush();
    });
  }

  stop(): void {
    this.#timer?.cancel();
  }

  /** Buffers that are left. */
  get free(): number {
    return Math.max(0, this.#config.transientStorePoolSize - this.#log.uncommittedFiles);
  }

  /** Up to where sends are answered that wait for no flush. */
  get answered(): number {
    return this.#log.wrote;
  }

  /** A loop turn has appended something. */
  endTurn(): void {
    if (this.#config.flushDiskType === 'SYNC_FLUSH') this.#log.commit();
    else if (this.#config.wakeCommitWhenPutMessage) this.#commitIfDue();
  }

  #commitIfDue(): void {
    const { commitCommitLogLeastPages: pages, commitCommitLogThoroughInterval: thorough } = this.#config;
    const now = this.#clock.monotonic();
    const { wrote, committed } = this.#log;
    const due = Math.floor(wrote / PAGE_BYTES) - Math.floor(committed / PAGE_BYTES) >= pages;
    if (!due && now - this.#lastCommit < thorough) return;
    this.#lastCommit = now;
    this.#log.commit();
  }
}
