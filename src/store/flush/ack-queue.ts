// Answers that wait for a watermark. A whole turn's answers of one connection wait as one entry; entries lie in the order of the log,
// so a step of the watermark releases a run from the front and costs nothing for those behind it.
//
//   committed-waiters   o o o o | o o        flushed-waiters   o o | o o o o
//                     committed ^                      flushed ^      each with its deadline
//
// Invariant: offsets in each list do not fall.

import type { Clock } from '../../common/index.ts';
import { PutMessageStatus } from '../put/index.ts';

/** Told once how its wait ended: PUT_OK, FLUSH_DISK_TIMEOUT (stored, not known to be durable) or SERVICE_NOT_AVAILABLE (not stored). */
export interface AckTarget {
  settle(status: PutMessageStatus, reason: string): void;
  /** Answers that it stands for; absent: one. */
  readonly count?: number;
}

interface Waiter {
  offset: number;
  deadline: number;
  target: AckTarget;
}

/** A first-in first-out list on an array with a moving head. */
class Fifo {
  #items: Array<Waiter | undefined> = [];
  #head = 0;

  get first(): Waiter | undefined {
    return this.#items[this.#head];
  }

  /** Adds at the end, or a few places before it where offsets would fall. */
  push(item: Waiter): void {
    let at = this.#items.length;
    while (at > this.#head && this.#items[at - 1]!.offset > item.offset) at--;
    if (at === this.#items.length) this.#items.push(item);
    else this.#items.splice(at, 0, item);
  }

  shift(): Waiter | undefined {
    const item = this.#items[this.#head];
    if (item === undefined) return undefined;
    this.#items[this.#head++] = undefined;
    if (this.#head === this.#items.length) {
      this.#items = [];
      this.#head = 0;
    } else if (this.#head > 1024 && this.#head * 2 > this.#items.length) {
      this.#items = this.#items.slice(this.#head);
      this.#head = 0;
    }
    return item;
  }

  /** Takes off all waiters above `offset`, from the end. */
  takeAbove(offset: number): Waiter[] {
    const taken: Waiter[] = [];
    while (this.#items.length > this.#head && this.#items.at(-1)!.offset > offset) taken.push(this.#items.pop()!);
    return taken.reverse();
  }

  get size(): number {
    return this.#items.length - this.#head;
  }
}

export class AckQueue {
  /** Answers since the start that came out of a wait otherwise than well: not synced in time, after a failed sync, given up since they could not be written. */
  timedOut = 0;
  unsynced = 0;
  abandoned = 0;
  readonly #clock: Clock;
  readonly #timeoutMs: number;
  readonly #committed = new Fifo();
  readonly #flushed = new Fifo();
  #committedTo = 0;
  #flushedTo = 0;

  constructor(clock: Clock, timeoutMs: number) {
    this.#clock = clock;
    this.#timeoutMs = timeoutMs;
  }

  /** Entries that wait, for metrics. */
  get size(): number {
    return this.#committed.size + this.#flushed.size;
  }

  /** Entries that wait for a sync. */
  get waitingForSync(): number {
    return this.#flushed.size;
  }

  /** Lets `target` wait until everything below `offset` is committed, or with `flush` synced; settles at once if it is already. */
  park(offset: number, flush: boolean, target: AckTarget): void {
    if (offset <= (flush ? this.#flushedTo : this.#committedTo)) {
      target.settle(PutMessageStatus.PUT_OK, '');
      return;
    }
    const deadline = flush ? this.#clock.monotonic() + this.#timeoutMs : 0;
    (flush ? this.#flushed : this.#committed).push({ offset, deadline, target });
  }

  /** Releases what the watermarks cover. */
  progress(committed: number, flushed: number): void {
    this.#committedTo = committed;
    this.#flushedTo = flushed;
    release(this.#committed, committed);
    release(this.#flushed, flushed);
  }

  /** Answers those that have waited too long for a sync: their messages are in the log, and may or may not survive a power cut. */
  expire(): void {
    const now = this.#clock.monotonic();
    while (this.#flushed.first !== undefined && this.#flushed.first.deadline <= now) {
      const { target } = this.#flushed.shift()!;
      this.timedOut += target.count ?? 1;
      target.settle(PutMessageStatus.FLUSH_DISK_TIMEOUT, `not synced to disk within ${this.#timeoutMs} ms`);
    }
  }

  /** What lies above `committed` has been given up: its senders are told that nothing was stored. */
  abandon(committed: number, reason: string): void {
    for (const list of [this.#committed, this.#flushed]) {
      for (const waiter of list.takeAbove(committed)) {
        this.abandoned += waiter.target.count ?? 1;
        waiter.target.settle(PutMessageStatus.SERVICE_NOT_AVAILABLE, reason);
      }
    }
  }

  /** No sync will ever cover those that wait for one. What lies above `wrote` is in no file for certain, nor is it certain that it is not. */
  syncFailed(wrote: number, reason: string): void {
    for (let waiter = this.#flushed.shift(); waiter !== undefined; waiter = this.#flushed.shift()) {
      this.unsynced += waiter.target.count ?? 1;
      waiter.target.settle(PutMessageStatus.FLUSH_DISK_TIMEOUT, reason);
    }
    for (const waiter of this.#committed.takeAbove(wrote)) {
      this.unsynced += waiter.target.count ?? 1;
      waiter.target.settle(PutMessageStatus.FLUSH_DISK_TIMEOUT, reason);
    }
  }
}

function release(list: Fifo, offset: number): void {
  while (list.first !== undefined && list.first.offset <= offset) {
    list.shift()!.target.settle(PutMessageStatus.PUT_OK, '');
  }
}
