// Pops of one revive queue that are not over: their check points as they are read from it, and what acknowledges them. Most are acknowledged and
// leave again at once; what is left when the time ends is revived. An acknowledgement may stand before its check point, and waits for it here.
//
//   revive queue   . . ck1 . ack2 . . ack1 . ck2 . . scanned        ack2 came before ck2: the position stays before ack2 until ck2 is done
//                  ^ position + 1: the first record that somebody still needs
//
// The table is bounded. When it is full, no more is taken in: reading goes on for the sake of acknowledgements of what is there, and comes back
// to the first record that was passed over (`resumeAt`).

import { offsetByIndex, type PopCheckPoint, reviveTimeOf } from '../../../message/index.ts';

/** A check point under way. */
export interface OpenPoint {
  readonly ck: PopCheckPoint;
  /** When its time ends; ms since 1970. */
  readonly reviveMs: number;
  /** Where its record lies in the log. */
  readonly physicalOffset: number;
  /** Queue offsets of messages that are neither acknowledged nor revived. */
  readonly pending: number[];
}

/** All that has one key. */
export interface OpenEntry {
  readonly key: string;
  /** First record of the revive queue that belongs here. */
  readonly from: number;
  /** More than one only if check points with other contents bear the same key. */
  readonly points: OpenPoint[];
  /** Acknowledged offsets whose check point has not come. */
  early: number[] | undefined;
  /** When an acknowledgement without its check point was due. */
  earlyMs: number;
}

/** Entries of one queue; those of a second of heavy traffic are a tenth. */
const MOST_OPEN = 100_000;
/** Acknowledged messages that wait for their check point: more than one can have. */
const MOST_EARLY = 256;

export class OpenCheckPoints {
  readonly #most: number;
  /** In the order of `from`. */
  readonly #entries = new Map<string, OpenEntry>();
  /** First record that was not taken in. */
  resumeAt: number | undefined;

  constructor(most: number = MOST_OPEN) {
    this.#most = most;
  }

  get size(): number {
    return this.#entries.size;
  }

  has(key: string): boolean {
    return this.#entries.has(key);
  }

  entries(): Iterable<OpenEntry> {
    return this.#entries.values();
  }

  /** First record that somebody still needs; `scanned` if nobody does. */
  neededFrom(scanned: number): number {
    for (const entry of this.#entries.values()) return entry.from;
    return this.resumeAt ?? scanned;
  }

  /** Takes in a check point, the record `offset` of the queue. */
  add(key: string, ck: PopCheckPoint, offset: number, physicalOffset: number): void {
    let entry = this.#entries.get(key);
    if (entry === undefined) {
      const pending = messagesOf(ck);
      if (pending.length === 0 || !this.#takes(offset)) return;
      entry = { key, from: offset, points: [], early: undefined, earlyMs: 0 };
      entry.points.push({ ck, reviveMs: reviveTimeOf(ck), physicalOffset, pending });
      this.#entries.set(key, entry);
      return;
    }
    // Records passed over may hold the same one once more, and the timer repeats some after a power cut.
    if (entry.points.some((other) => isSame(other.ck, ck))) return;
    const pending = messagesOf(ck).filter((message) => entry.early?.includes(message) !== true);
    entry.early = undefined;
    entry.points.push({ ck, reviveMs: reviveTimeOf(ck), physicalOffset, pending });
    this.settle(entry);
  }

  /** Takes in acknowledged messages, which wait for their check point if it is not there. `dueMs`: when the record was due. */
  ack(key: string, messages: readonly number[], offset: number, dueMs: number): void {
    const entry = this.#entries.get(key);
    if (entry === undefined) {
      if (!this.#takes(offset)) return;
      const early = messages.slice(0, MOST_EARLY);
      this.#entries.set(key, { key, from: offset, points: [], early, earlyMs: dueMs });
      return;
    }
    if (entry.early !== undefined) {
      for (const message of messages) {
        if (entry.early.length >= MOST_EARLY) break;
        if (!entry.early.includes(message)) entry.early.push(message);
      }
      entry.earlyMs = Math.max(entry.earlyMs, dueMs);
      return;
    }
    for (const { pending } of entry.points) {
      for (const message of messages) {
        const at = pending.indexOf(message);
        if (at >= 0) pending.splice(at, 1);
      }
    }
    this.settle(entry);
  }

  /** Forgets an entry of which nothing is left to do. */
  settle(entry: OpenEntry): void {
    if (entry.early !== undefined) return;
    for (const { pending } of entry.points) if (pending.length > 0) return;
    this.#entries.delete(entry.key);
  }

  delete(entry: OpenEntry): void {
    this.#entries.delete(entry.key);
  }

  /** Whether there is room for many more. */
  get hasRoom(): boolean {
    return this.#entries.size < this.#most / 2;
  }

  #takes(offset: number): boolean {
    if (this.resumeAt === undefined && this.#entries.size < this.#most) return true;
    this.resumeAt ??= offset;
    return false;
  }
}

/** Queue offsets of a check point's messages whose bit is not set. RocketMQ: PopCheckPoint#ackOffsetByIndex. */
export function messagesOf(ck: PopCheckPoint): number[] {
  const { bitMap, num, offsetDiffs } = ck;
  const messages: number[] = [];
  const count = offsetDiffs.length > 0 ? Math.min(num, offsetDiffs.length) : num;
  for (let i = 0; i < count; i++) {
    if (i < 32 && (bitMap & (1 << i)) !== 0) continue;
    messages.push(offsetByIndex(ck, i));
  }
  return messages;
}

function isSame(a: PopCheckPoint, b: PopCheckPoint): boolean {
  if (a.invisibleTimeMs !== b.invisibleTimeMs || a.num !== b.num || a.rePutTimes !== b.rePutTimes) return false;
  if (a.bitMap !== b.bitMap || a.offsetDiffs.length !== b.offsetDiffs.length) return false;
  return a.offsetDiffs.every((diff, i) => diff === b.offsetDiffs[i]);
}
