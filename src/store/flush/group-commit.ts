// When the next sync starts under SYNC_FLUSH. One runs at a time; all that is committed meanwhile waits for the next one. Started the
// moment the last one ends, it would leave behind those senders whose answers are leaving just now, and two halves would wait for each
// other for ever:
//
//   at once   |== A ==|== B ==|== A ==|      each sender waits for two syncs
//   held      |== A and B ==|··|== A and B ==|
//
// So the end of a sync holds the next one back until as many wait as waited then, or until the last sync's own time has passed again:
// longer never pays. Holds that bring nothing are made less often. A sender alone is never held back.

import type { Clock } from '../../common/index.ts';
import type { AckQueue } from './ack-queue.ts';

/** No hold is longer, however slow the disk: the loop looks for senders turn by turn meanwhile. */
const MAX_HOLD_MS = 0.5;
const MAX_LOOKS = 200;
/** After a sync of more than this none is held back: many share one already, and the loop has better to do than to look. */
const SMALL_SYNC_BYTES = 16 * 1024;
/** After holds that brought nothing, up to so many syncs start at once. */
const MAX_SKIPS = 64;

/** What is asked of the log. */
export interface SyncedLog {
  readonly committed: number;
  readonly flushed: number;
  readonly unflushed: number;
  readonly syncing: boolean;
  readonly lastSyncMs: number;
  readonly lastSyncBytes: number;
  flush(): void;
}

export class GroupCommit {
  readonly #clock: Clock;
  readonly #log: SyncedLog;
  readonly #acks: AckQueue;
  /** Until when the next sync is held back; 0: it is not. */
  #holdUntil = 0;
  /** Entries that waited when the hold began, and that it is for. */
  #waitedBefore = 0;
  #expected = 0;
  #looks = 0;
  #looking = false;
  #fruitless = 0;
  #skips = 0;
  readonly #look = (): void => {
    this.#looking = false;
    this.committed();
  };

  constructor(clock: Clock, log: SyncedLog, acks: AckQueue) {
    this.#clock = clock;
    this.#log = log;
    this.#acks = acks;
  }

  /** More is committed: starts a sync of it, or lets it wait for others. */
  committed(): void {
    const log = this.#log;
    if (log.syncing || log.unflushed === 0) return;
    if (this.#holdUntil !== 0) {
      const missing = this.#expected - this.#acks.waitingForSync;
      if (missing > 0 && this.#looks < MAX_LOOKS && this.#clock.monotonic() < this.#holdUntil) {
        if (!this.#looking) {
          this.#looking = true;
          this.#looks++;
          this.#clock.soon(this.#look);
        }
        return;
      }
      this.#judge(missing);
    }
    log.flush();
  }

  /** A sync has ended; the answers that waited for it have not been released yet. */
  ended(): void {
    this.#expected = this.#acks.waitingForSync;
    this.#acks.progress(this.#log.committed, this.#log.flushed);
    this.#waitedBefore = this.#acks.waitingForSync;
    this.#looks = 0;
    this.#holdUntil = 0;
    const released = this.#expected - this.#waitedBefore;
    if (this.#skips > 0) this.#skips--;
    else if (released > 0 && this.#expected > 1 && this.#log.lastSyncBytes <= SMALL_SYNC_BYTES) {
      this.#holdUntil = this.#clock.monotonic() + Math.min(MAX_HOLD_MS, this.#log.lastSyncMs);
    }
    this.committed();
  }

  /** Whether a hold has brought most of those that it was for. */
  #judge(missing: number): void {
    this.#holdUntil = 0;
    if (missing * 2 <= this.#expected - this.#waitedBefore) {
      this.#fruitless = 0;
      return;
    }
    this.#fruitless = Math.min(this.#fruitless + 1, Math.log2(MAX_SKIPS));
    this.#skips = 2 ** this.#fruitless - 1;
  }
}
