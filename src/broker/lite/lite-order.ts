// What is out of each light queue: one pop of a group at a time, whose messages stay where they are until all of it is acknowledged or its
// time is over. In memory alone: after a restart everything that was not acknowledged is handed out again.
//
//   popped 5 6 7 ─► acked 5 ─► offset 6 ─► acked 7 ─► offset 6 ─► acked 6 ─► offset 8, the queue is free
//
// RocketMQ: MemoryConsumerOrderInfoManager, QueueLevelConsumerManager, QueueLevelConsumerOrderInfoLockManager.

import type { Clock, Timer } from '../../common/index.ts';

/** What an acknowledgement came to; any other answer is the offset to commit. */
export const Acked = { ILLEGAL: -1, STALE: -2 } as const;

/** Ms after which what nobody acknowledged is forgotten; it was handed out again long before. */
const FORGOTTEN_MS = 24 * 3600 * 1000;
/** Longest sleep of a bell; no timer takes what clients may ask for. */
const LONGEST_MS = 3600 * 1000;

interface Popped {
  readonly attemptId: string | undefined;
  readonly popTime: number;
  /** Ms. */
  invisibleTime: number;
  /** Queue offsets, rising. */
  readonly offsets: readonly number[];
  readonly acked: Set<number>;
  /** When a message comes back that has a time of its own; wall-clock ms. */
  visibleAt: Map<number, number> | undefined;
  /** How often messages were popped before; those that were not are not in it. */
  counts: ReadonlyMap<number, number>;
  readonly at: number;
  /** Rings when the queue is free again. */
  bell: Timer | undefined;
}

const NO_COUNTS: ReadonlyMap<number, number> = new Map();

export class LiteOrder {
  readonly #clock: Clock;
  readonly #table = new Map<string, Popped>();
  /** Pops of before are of an earlier life, and not in the table. */
  readonly #since: number;
  readonly #onFree: (queue: string, group: string) => void;

  /** `onFree`: told of a queue whose popped messages may be handed out again. */
  constructor(clock: Clock, onFree: (queue: string, group: string) => void) {
    this.#clock = clock;
    this.#since = clock.now();
    this.#onFree = onFree;
  }

  /** Queues of groups of which something is out. RocketMQ: also those of which something was. */
  get size(): number {
    return this.#table.size;
  }

  /** Whether messages of an earlier pop are still out; one that is tried again by the same attempt is not in its own way. */
  isBlocked(attemptId: string | undefined, queue: string, group: string, invisibleTime: number): boolean {
    const popped = this.#table.get(keyOf(queue, group));
    if (popped === undefined) return false;
    if (popped.attemptId !== undefined && popped.attemptId === attemptId) return false;
    if (popped.invisibleTime <= 0) popped.invisibleTime = invisibleTime;
    return this.#freeAt(popped) > this.#clock.now();
  }

  /** Notes a pop; answers, for each message, how often it was popped before. */
  popped(
    attemptId: string | undefined,
    queue: string,
    group: string,
    popTime: number,
    invisibleTime: number,
    offsets: readonly number[],
  ): number[] {
    const key = keyOf(queue, group);
    const before = this.#table.get(key);
    let counts = NO_COUNTS;
    if (before !== undefined) {
      before.bell?.cancel();
      if (before.attemptId !== undefined && before.attemptId === attemptId) counts = before.counts;
      else {
        const known = new Set(before.offsets);
        counts = new Map(
          offsets.filter((offset) => known.has(offset)).map((offset) => [offset, (before.counts.get(offset) ?? 0) + 1]),
        );
      }
    }
    const popped: Popped = {
      attemptId,
      popTime,
      invisibleTime,
      offsets,
      acked: new Set(),
      visibleAt: undefined,
      counts,
      at: this.#clock.now(),
      bell: undefined,
    };
    this.#table.set(key, popped);
    this.#ring(popped, queue, group);
    return offsets.map((offset) => counts.get(offset) ?? 0);
  }

  /**
   * Notes an acknowledgement; answers the offset to commit, or what kept it from counting: ILLEGAL if the pop has no such message, STALE if
   * the messages have been popped anew. `committed` is the group's offset now. RocketMQ: of a queue of which it knows nothing, as after
   * a restart, any message moves the offset behind itself, past others that nobody acknowledged.
   */
  ack(queue: string, group: string, offset: number, popTime: number, committed: number): number {
    const popped = this.#table.get(keyOf(queue, group));
    if (popped === undefined) return offset === committed && popTime < this.#since ? offset + 1 : Acked.ILLEGAL;
    if (popped.popTime !== popTime) return Acked.STALE;
    if (!popped.offsets.includes(offset)) return Acked.ILLEGAL;
    popped.acked.add(offset);
    const next = popped.offsets.find((other) => !popped.acked.has(other));
    if (next === undefined) this.remove(queue, group);
    else this.#ring(popped, queue, group);
    return next ?? popped.offsets.at(-1)! + 1;
  }

  /** Has one message come back at another time. */
  changeVisible(queue: string, group: string, offset: number, popTime: number, visibleAt: number): void {
    const popped = this.#table.get(keyOf(queue, group));
    if (popped === undefined || popped.popTime !== popTime || !popped.offsets.includes(offset)) return;
    popped.visibleAt ??= new Map();
    popped.visibleAt.set(offset, visibleAt);
    this.#ring(popped, queue, group);
  }

  /** Has all that is out come back at a time; the pop is not counted. */
  suspend(queue: string, group: string, popTime: number, visibleAt: number): void {
    const popped = this.#table.get(keyOf(queue, group));
    if (popped === undefined || popped.popTime !== popTime) return;
    popped.counts = new Map([...popped.counts].map(([offset, count]) => [offset, Math.max(0, count - 1)]));
    popped.visibleAt = undefined;
    popped.invisibleTime = visibleAt - popTime;
    this.#ring(popped, queue, group);
  }

  /** Forgets what is out of a queue. */
  remove(queue: string, group: string): void {
    const key = keyOf(queue, group);
    this.#table.get(key)?.bell?.cancel();
    this.#table.delete(key);
  }

  /** Forgets what is out for too long, and what nothing is out of any more. */
  clean(): void {
    const oldest = this.#clock.now() - FORGOTTEN_MS;
    for (const [key, popped] of this.#table) {
      if (popped.at >= oldest) continue;
      popped.bell?.cancel();
      this.#table.delete(key);
    }
  }

  stop(): void {
    for (const popped of this.#table.values()) popped.bell?.cancel();
    this.#table.clear();
  }

  /** When the last of the messages that are out comes back; at most now if none is out. RocketMQ: getMaxLockFreeTimestamp. */
  #freeAt(popped: Popped): number {
    let latest = 0;
    for (const offset of popped.offsets) {
      if (popped.acked.has(offset)) continue;
      latest = Math.max(latest, popped.visibleAt?.get(offset) ?? popped.popTime + popped.invisibleTime);
    }
    return latest;
  }

  /** RocketMQ: enableNotifyAfterPopOrderLockRelease; without the bell nobody would fetch what came back. */
  #ring(popped: Popped, queue: string, group: string): void {
    popped.bell?.cancel();
    popped.bell = undefined;
    const delay = this.#freeAt(popped) - this.#clock.now();
    if (delay <= 0) return;
    popped.bell = this.#clock.after(Math.min(delay, LONGEST_MS), () => {
      if (this.#freeAt(popped) > this.#clock.now()) return this.#ring(popped, queue, group);
      popped.bell = undefined;
      this.#onFree(queue, group);
    });
  }
}

function keyOf(queue: string, group: string): string {
  return `${queue}@${group}`;
}
