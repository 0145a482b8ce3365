// What is known of one half queue: which half messages have ended, which are left for later, and from where a start would have to look
// again. All of it can be had anew from the two saved positions and the records behind them.
//
//   half queue   0 . . . . . position . . k . . . scanned . . . . . end      k: kept, looked at and left for later
//   op queue     0 . . . . . opPosition . . . . . opRead                     a record stays needed while it names anything from `position` on
//
// Everything before `scanned` is ended, parked, renewed (a newer copy stands behind) or kept.

import { EndedOffsets } from './ended-offsets.ts';

/** A half message that was looked at and is still open: young by its own wish, or nobody of its group is there. */
export interface Kept {
  readonly offset: number;
  /** Not to be looked at before this time; ms since the epoch. */
  dueMs: number;
  /** When it is too old to be asked about. */
  readonly endMs: number;
  readonly group: string;
}

/** Ends of renewed messages that are remembered, so that a second end of the same transaction stores nothing twice. */
const MOST_SETTLED = 20_000;

export class HalfQueue {
  readonly queueId: number;
  scanned: number;
  opRead: number;
  /** Left for later, in order. */
  readonly kept: Map<number, Kept> = new Map();
  /** Half messages from `scanned` on, or kept, that have ended. */
  readonly ended: EndedOffsets = new EndedOffsets();
  /** Half messages of which a newer copy stands in the queue. */
  readonly #newer = new Map<number, number>();
  /** The copy's elder, for each of the newer ones. */
  readonly #elder = new Map<number, number>();
  readonly #settled = new Set<number>();
  /** Records of ended transactions, and the last half message that each names. */
  readonly #records = new Map<number, number>();

  constructor(queueId: number, position: number, opPosition: number) {
    this.queueId = queueId;
    this.scanned = position;
    this.opRead = opPosition;
  }

  /** Where a start has to begin to look. */
  get position(): number {
    for (const offset of this.kept.keys()) return Math.min(offset, this.scanned);
    return this.scanned;
  }

  /** First record of ended transactions that is still needed. */
  get opPosition(): number {
    const { position } = this;
    for (const [offset, last] of this.#records) {
      if (last >= position) return offset;
      this.#records.delete(offset);
    }
    return this.opRead;
  }

  get open(): boolean {
    return this.kept.size > 0 || this.ended.size > 0 || this.#records.size > 0;
  }

  /** The newest copy of a half message. */
  newest(offset: number): number {
    let at = offset;
    if (this.#newer.size === 0) return at;
    for (let next = this.#newer.get(at); next !== undefined; next = this.#newer.get(at)) at = next;
    return at;
  }

  /** Whether a transaction has been ended here since the start, by whichever of its copies. */
  hasEnded(offset: number): boolean {
    return (this.#settled.size > 0 && this.#settled.has(offset)) || this.ended.endedHere(this.newest(offset));
  }

  /** Whether a half message, by its newest copy, is open as far as is known. */
  isOpen(offset: number): boolean {
    return this.kept.has(offset) || (offset >= this.scanned && !this.ended.has(offset));
  }

  /** Takes in that a half message has given its place to a newer copy before it was looked at. */
  replace(offset: number): void {
    if (offset >= this.scanned) this.ended.set(offset, false);
  }

  /** Takes in that a half message, by its newest copy, has ended here. */
  end(offset: number): void {
    this.ended.set(offset, true);
  }

  /** Takes back that a half message, by its newest copy, has ended here; it is looked at in the next round. */
  reopen(offset: number): void {
    this.ended.delete(offset);
    if (offset >= this.scanned) return;
    this.kept.set(offset, { offset, dueMs: 0, endMs: 0, group: '' });
    const inOrder = [...this.kept].sort(([a], [b]) => a - b);
    this.kept.clear();
    for (const [at, kept] of inOrder) this.kept.set(at, kept);
  }

  /** Takes in a record of ended transactions that was read. */
  read(recordOffset: number, offsets: readonly number[]): void {
    let last = -1;
    for (const offset of offsets) {
      if (offset > last) last = offset;
      if (offset < this.scanned && !this.kept.has(offset)) continue;
      if (!this.ended.has(offset)) this.ended.set(offset, false);
    }
    this.#records.set(recordOffset, last);
    this.opRead = recordOffset + 1;
  }

  /** Notes that a half message has a newer copy. */
  renew(offset: number, copy: number): void {
    this.kept.delete(offset);
    if (this.newest(offset) === copy) return;
    this.#newer.set(offset, copy);
    this.#elder.set(copy, offset);
  }

  /** Whether a half message is over; then it is forgotten. */
  take(offset: number): boolean {
    if (!this.ended.delete(offset)) return false;
    this.forget(offset);
    return true;
  }

  /** Forgets a half message that is over or lost, and its elders. */
  forget(offset: number): void {
    this.kept.delete(offset);
    // A newer copy lives on.
    if (this.#newer.has(offset)) return;
    let at = this.#elder.get(offset);
    if (at === undefined) return;
    this.#elder.delete(offset);
    this.#settle(offset);
    while (at !== undefined) {
      this.#newer.delete(at);
      this.#settle(at);
      const next: number | undefined = this.#elder.get(at);
      this.#elder.delete(at);
      at = next;
    }
  }

  /** Forgets ends of what is no longer looked for; when the queue has been scanned to its end. */
  tidy(): void {
    for (const offset of this.ended.keys()) {
      if (offset < this.scanned && !this.kept.has(offset)) this.ended.delete(offset);
    }
  }

  #settle(offset: number): void {
    if (this.#settled.size >= MOST_SETTLED) this.#settled.delete(this.#settled.values().next().value!);
    this.#settled.add(offset);
  }

  /** Half messages of [from, to) that are open, as far as is known. */
  openIn(from: number, to: number): number {
    let count = 0;
    for (const offset of this.kept.keys()) if (offset >= from && offset < to) count++;
    for (let offset = Math.max(from, this.scanned); offset < to; offset++) if (!this.ended.has(offset)) count++;
    return count;
  }
}
