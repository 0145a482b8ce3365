// How far one group has popped one queue. Three places, in this order:
//
//   may be saved        committed           next to pop
//        │  check points   │  check points     │
//        │  not synced     │  not stored       │  not popped yet
//
// A pop moves the last one. The group's offset, which all others see, follows when the check point of the pop is in the log (or, with the
// merge buffer, when all its messages are acknowledged), strictly in the order of the pops. What is saved in consumerOffset.json follows
// when the check point is synced: after a power cut every message is either popped again or comes back by its check point (B65).
//
// RocketMQ: commitOffsets of PopBufferMergeService, QueueLockManager. It saves the offset without looking at what is synced.

import type { GroupOffsets } from '../offset/consumer-offset-manager.ts';

/** One pop of a queue that is not behind the offset that may be saved. */
export interface PoppedRange {
  /** What the group's offset was, or would have been, before it. */
  readonly start: number;
  readonly next: number;
  /** End of its check point in the log; 0: it has none or needs none; -1: it is not stored yet. */
  logEnd: number;
}

/** The positions of a queue that its group's offsets know. */
export interface PopOffsets {
  /** The group's offsets on the topic, new ones if they were removed. */
  of(group: string, topic: string): GroupOffsets;
  commit(offsets: GroupOffsets, queueId: number, offset: number): void;
}

export class PopQueue {
  readonly topic: string;
  readonly group: string;
  readonly queueId: number;
  /** Messages that were popped and are neither acknowledged nor come back. RocketMQ: PopInflightMessageCounter. */
  inFlight = 0;
  /** Ms since the epoch of the last pop. */
  usedMs = 0;
  /** Start and time of the last check point: another one of both would be taken for the same. */
  lastStart = -1;
  lastPopTime = -1;
  /** Changes when what was known of the queue counts no longer: its topic or group was deleted, or its group begins elsewhere. */
  #life = 0;
  #isLocked = false;
  #waiting: Array<() => void> = [];
  readonly #positions: PopOffsets;
  #offsets: GroupOffsets | undefined;
  /** The first `#committed` of them count in the group's offset. */
  #ranges: PoppedRange[] = [];
  #committed = 0;

  constructor(topic: string, group: string, queueId: number, positions: PopOffsets) {
    this.topic = topic;
    this.group = group;
    this.queueId = queueId;
    this.#positions = positions;
  }

  // --- The lock, for as long as a pop waits for the disk

  get isLocked(): boolean {
    return this.#isLocked;
  }

  /** False if somebody has it. */
  tryLock(): boolean {
    if (this.#isLocked) return false;
    this.#isLocked = true;
    return true;
  }

  unlock(): void {
    this.#isLocked = false;
    const waiting = this.#waiting;
    if (waiting.length === 0) return;
    this.#waiting = [];
    for (const run of waiting) this.whenFree(run);
  }

  /** Calls `run` when nobody has the lock: at once, or later. */
  whenFree(run: () => void): void {
    if (this.#isLocked) this.#waiting.push(run);
    else run();
  }

  // --- Positions

  /** Whoever waits while he has the lock takes nothing if this is another number then. */
  get life(): number {
    if (this.#offsets?.removed === true) this.clear();
    return this.#life;
  }

  get #groupOffsets(): GroupOffsets {
    const known = this.#offsets;
    if (known !== undefined && !known.removed) return known;
    // The topic or the group was deleted: what was popped before counts no longer.
    if (known !== undefined) this.clear();
    this.#offsets = this.#positions.of(this.group, this.topic);
    return this.#offsets;
  }

  /** Pops that are not behind the offset that may be saved. */
  get pending(): number {
    return this.#ranges.length;
  }

  /** Pops whose offset waits for their check point. */
  get uncommitted(): number {
    return this.#ranges.length - this.#committed;
  }

  /** Where the next pop begins if pops wait for their check points; -1 if none do. RocketMQ: getLatestOffset. */
  get latest(): number {
    return this.#offsets?.removed === true || this.uncommitted === 0 ? -1 : this.#ranges.at(-1)!.next;
  }

  /** The group's offset; -1 if it has none. Pending resets are the caller's. */
  get committed(): number {
    return this.#groupOffsets.committed.get(this.queueId) ?? -1;
  }

  /** Whether an administrator has moved the group, and no pop has gone by it yet. */
  get hasReset(): boolean {
    return this.#groupOffsets.resets?.has(this.queueId) ?? false;
  }

  commit(offset: number): void {
    this.#positions.commit(this.#groupOffsets, this.queueId, offset);
  }

  /** Notes a pop from `start` to `next`; the range may be stored or done later, see `advance`. */
  add(start: number, next: number, logEnd: number): PoppedRange {
    const offsets = this.#groupOffsets;
    const before = this.latest;
    const range = { start: before < 0 ? (offsets.committed.get(this.queueId) ?? start) : before, next, logEnd };
    this.#ranges.push(range);
    this.advance();
    return range;
  }

  /** Moves the group's offset as far as check points are stored. */
  advance(): void {
    const offsets = this.#groupOffsets;
    const ranges = this.#ranges;
    let at = this.#committed;
    while (at < ranges.length && ranges[at]!.logEnd >= 0) at++;
    if (at === this.#committed) return;
    if (offsets.unsaved === undefined) offsets.unsaved = new Map();
    if (!offsets.unsaved.has(this.queueId)) offsets.unsaved.set(this.queueId, ranges[this.#committed]!.start);
    this.#committed = at;
    this.#positions.commit(offsets, this.queueId, ranges[at - 1]!.next);
  }

  /** What is synced up to `flushed` may be saved. */
  synced(flushed: number): void {
    const offsets = this.#groupOffsets;
    const ranges = this.#ranges;
    let done = 0;
    while (done < this.#committed && ranges[done]!.logEnd <= flushed) done++;
    if (done === 0) return;
    if (done === this.#committed) offsets.unsaved?.delete(this.queueId);
    else offsets.unsaved?.set(this.queueId, ranges[done - 1]!.next);
    ranges.splice(0, done);
    this.#committed -= done;
  }

  /** Check points from `end` on are not in the log after all: their messages were not popped. */
  cut(end: number): void {
    const offsets = this.#groupOffsets;
    const ranges = this.#ranges;
    const at = ranges.findIndex((range) => range.logEnd > end);
    if (at < 0) return;
    const { start } = ranges[at]!;
    ranges.splice(at);
    // Some of them will never be acknowledged, and which is not known: too few in flight close no queue.
    this.inFlight = 0;
    if (at >= this.#committed) return;
    this.#committed = at;
    this.#positions.commit(offsets, this.queueId, start);
    if (at === 0) offsets.unsaved?.delete(this.queueId);
  }

  /** Forgets what was popped: the group begins elsewhere. RocketMQ: clearOffsetQueue. */
  clear(): void {
    this.#offsets?.unsaved?.delete(this.queueId);
    this.#offsets = undefined;
    this.#ranges = [];
    this.#committed = 0;
    this.#life++;
  }
}
