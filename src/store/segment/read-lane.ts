// Reads of store files from disk, a bounded number of bytes at once, in the order in which they were asked for. Beyond that they wait
// here instead of in the system: whoever syncs or writes finds at most the budget ahead of it, however many consumers read old messages.
//
//   asked ─► waiting ··· ─► in flight (at most `maxBytes`; one read while a sync is under way) ─► done
//
// A read that is longer than the budget goes alone. While messages are being written, reads also keep to a rate: at full speed they take
// processor and memory bandwidth that senders wait for (docs/decisions/2026-11-30-cold-reads.md).

import type { Clock } from '../../common/index.ts';
import type { DoneBytes } from '../../io/index.ts';
import type { SegmentFile } from './segment-directory.ts';

/** So long after the last write of the log reads keep to their rate. */
const WRITING_MS = 200;
/** What the rate allows in one go after a pause. */
const BURST_MS = 20;
/** A read that takes longer than this comes from a disk, not from the system's memory. */
const SLOW_MS = 1;

export interface ReadLaneOptions {
  clock: Clock;
  /** Bytes in flight at most. */
  maxBytes: number;
  /** Bytes a second while messages are being written; 0: any number. */
  bytesPerSecond: number;
}

interface WaitingRead {
  file: SegmentFile;
  target: Uint8Array;
  length: number;
  position: number;
  done: DoneBytes;
}

export class ReadLane {
  readonly #clock: Clock;
  readonly #maxBytes: number;
  readonly #bytesPerMs: number;
  /** Bytes that may be read now; below 0 after a read that was longer. */
  #allowed = 0;
  #allowedAt = 0;
  #resting = false;
  #waiting: WaitingRead[] = [];
  #head = 0;
  #yielding = false;
  #reads = 0;
  /** Bytes that are being read. */
  inFlight = 0;
  /** Reads since the start, for metrics. */
  count = 0;
  /** What a read takes, as a moving mean. */
  #meanMs = 0;

  /** When the log was written last; set by the log. */
  wroteAt: number = Number.NEGATIVE_INFINITY;

  constructor(options: ReadLaneOptions) {
    this.#clock = options.clock;
    this.#maxBytes = options.maxBytes;
    this.#bytesPerMs = options.bytesPerSecond / 1000;
  }

  /** Reads that wait for their turn. */
  get waiting(): number {
    return this.#waiting.length - this.#head;
  }

  /** Whether a read that nobody waits for yet would delay none that somebody does. */
  get isIdle(): boolean {
    return this.waiting === 0 && !this.#yielding && !this.#resting && this.inFlight < this.#maxBytes;
  }

  /** Whether reads take so long of late that it is worth while to begin them early. */
  get isSlow(): boolean {
    return this.#meanMs > SLOW_MS;
  }

  /** Reads bytes of a file; it is kept open until `done`, which never runs before this returns. */
  read(file: SegmentFile, target: Uint8Array, length: number, position: number, done: DoneBytes): void {
    file.pin();
    this.#waiting.push({ file, target, length, position, done });
    this.#pump();
  }

  /** Whether somebody waits for a sync now: reads then go one by one. */
  yieldTo(sync: boolean): void {
    this.#yielding = sync;
    if (!sync) this.#pump();
  }

  #pump(): void {
    while (this.#head < this.#waiting.length && !this.#resting) {
      const next = this.#waiting[this.#head]!;
      if (this.#reads > 0 && (this.#yielding || this.inFlight + next.length > this.#maxBytes)) return;
      if (this.#mustRest(next.length)) return;
      this.#head++;
      if (this.#head === this.#waiting.length || this.#head > 1024) {
        this.#waiting = this.#waiting.slice(this.#head);
        this.#head = 0;
      }
      this.#start(next);
    }
  }

  /** Takes the read's bytes from what the rate allows; true, and a later look, if it has to wait. */
  #mustRest(length: number): boolean {
    if (this.#bytesPerMs === 0) return false;
    const now = this.#clock.monotonic();
    if (now - this.wroteAt > WRITING_MS) return false;
    const earned = (now - this.#allowedAt) * this.#bytesPerMs;
    this.#allowed = Math.min(this.#allowed + earned, BURST_MS * this.#bytesPerMs);
    this.#allowedAt = now;
    if (this.#allowed > 0) {
      this.#allowed -= length;
      return false;
    }
    this.#resting = true;
    this.#clock.after(Math.max(1, -this.#allowed / this.#bytesPerMs), () => {
      this.#resting = false;
      this.#pump();
    });
    return true;
  }

  #start({ file, target, length, position, done }: WaitingRead): void {
    this.#reads++;
    this.inFlight += length;
    this.count++;
    const begun = this.#clock.monotonic();
    const ended: DoneBytes = (error, bytes) => {
      this.#meanMs += (this.#clock.monotonic() - begun - this.#meanMs) / 4;
      file.unpin();
      this.#reads--;
      this.inFlight -= length;
      done(error, bytes);
      this.#pump();
    };
    try {
      const handle = file.handle();
      handle.readNoMore();
      handle.read(target, 0, length, position, ended);
    } catch (error) {
      // The file cannot be opened; told later, as everything that ends here is.
      this.#clock.soon(() => ended(error as Parameters<DoneBytes>[0], 0));
    }
  }
}
