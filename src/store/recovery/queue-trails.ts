// What the sound records say about those that are lost: each queue's ordinals must follow one another, so that a jump names the missing ones
// and the part of the log in which they lay. Where a jump begins before the part that was walked, the queue's own units tell.

import { viewOf } from '../../common/index.ts';
import { isCounted, type RecordView } from '../../message/index.ts';
import {
  type ConsumeQueue,
  type ConsumeQueueStore,
  CQ_UNIT_BYTES,
  FILLER_SIZE,
  unitOffset,
  unitSize,
} from '../consume-queue/index.ts';

/** A jump wider than this is no loss, but another life of the topic or a queue that was moved. */
const MAX_GAP = 1_000_000;

/** Ordinals of one queue that no sound record has, and the physical offsets between which they must have lain. */
export interface QueueGap {
  topic: string;
  queueId: number;
  /** First and last missing ordinal. */
  from: number;
  to: number;
  after: number;
  before: number;
}

/** A unit of a ConsumeQueue that points into a range of the log. */
export interface LostUnit {
  start: number;
  size: number;
  topic: string;
  queueId: number;
  queueOffset: number;
}

interface Trail {
  topic: string;
  queueId: number;
  lastOrdinal: number;
  lastPosition: number;
}

export class QueueTrails {
  readonly gaps: QueueGap[] = [];
  readonly #queues: ConsumeQueueStore;
  readonly #from: number;
  /** Whether the walk begins with the log's first record ever. */
  readonly #whole: boolean;
  readonly #trails = new Map<string, Trail>();

  /** `from`: physical offset at which the walk begins. */
  constructor(queues: ConsumeQueueStore, from: number) {
    this.#queues = queues;
    this.#from = from;
    this.#whole = from === 0;
  }

  /** To be called for each sound record, in log order. */
  pass(bytes: Uint8Array, record: RecordView): void {
    if (!isCounted(record.sysFlag)) return;
    const topic = topicOf(bytes, record);
    const { queueId, queueOffset, physicalOffset } = record;
    const key = keyOf(topic, queueId);
    let trail = this.#trails.get(key);
    if (trail === undefined) {
      const { ordinal, position } = this.#before(topic, queueId) ?? {
        ordinal: this.#whole ? -1 : queueOffset - 1,
        position: -1,
      };
      trail = { topic, queueId, lastOrdinal: ordinal, lastPosition: position };
      this.#trails.set(key, trail);
    }
    this.#step(trail, queueOffset, physicalOffset);
  }

  #step(trail: Trail, queueOffset: number, position: number): void {
    const missing = queueOffset - trail.lastOrdinal - 1;
    if (missing > 0 && missing <= MAX_GAP) {
      this.gaps.push({
        topic: trail.topic,
        queueId: trail.queueId,
        from: trail.lastOrdinal + 1,
        to: queueOffset - 1,
        after: trail.lastPosition,
        before: position,
      });
    }
    trail.lastOrdinal = queueOffset;
    trail.lastPosition = position;
  }

  /** Whether a message with this place in a queue can have begun at `start`, as far as the sound records tell. */
  allows(topic: string, queueId: number, queueOffset: number, start: number): boolean {
    const trail = this.#trails.get(keyOf(topic, queueId)) ?? this.#outside(topic, queueId);
    if (trail === undefined) return true;
    if (start > trail.lastPosition)
      return queueOffset > trail.lastOrdinal && queueOffset <= trail.lastOrdinal + MAX_GAP;
    return this.gaps.some(
      (gap) =>
        gap.topic === topic &&
        gap.queueId === queueId &&
        queueOffset >= gap.from &&
        queueOffset <= gap.to &&
        start > gap.after &&
        start < gap.before,
    );
  }

  /**
   * Takes over what damaged records said of themselves, in log order: behind a queue's last sound record they, too, name what is missing
   * before them.
   */
  follow(
    placed: ReadonlyArray<{ start: number; topic: string; queueId: number; queueOffset: number; sysFlag: number }>,
  ): void {
    for (const { start, topic, queueId, queueOffset, sysFlag } of placed) {
      if (!isCounted(sysFlag)) continue;
      const key = keyOf(topic, queueId);
      const trail = this.#trails.get(key) ?? this.#outside(topic, queueId);
      if (trail === undefined || start <= trail.lastPosition || queueOffset <= trail.lastOrdinal) continue;
      this.#step(trail, queueOffset, start);
      this.#trails.set(key, trail);
    }
  }

  /** Units of all queues that point into [start, end), in log order. */
  unitsIn(start: number, end: number): LostUnit[] {
    const units: LostUnit[] = [];
    const bytes = new Uint8Array(CQ_UNIT_BYTES);
    const view = viewOf(bytes);
    for (const queue of this.#queues.all()) {
      for (let ordinal = this.#firstAt(queue, start); ordinal < queue.maxOffset; ordinal++) {
        if (this.#queues.readUnitsSync(queue, ordinal, 1, bytes) === 0) break;
        const size = unitSize(view, 0);
        if (size === FILLER_SIZE) continue;
        const position = unitOffset(view, 0);
        if (position < start || position >= end) break;
        if (size <= 0 || position + size > end) continue;
        units.push({ start: position, size, topic: queue.topic, queueId: queue.queueId, queueOffset: ordinal });
      }
    }
    return units.sort((a, b) => a.start - b.start || preference(a) - preference(b));
  }

  /** A queue that the walk has not met. */
  #outside(topic: string, queueId: number): Trail | undefined {
    const before = this.#before(topic, queueId) ?? (this.#whole ? { ordinal: -1, position: -1 } : undefined);
    if (before === undefined) return undefined;
    return { topic, queueId, lastOrdinal: before.ordinal, lastPosition: before.position };
  }

  /** A queue's last unit whose record begins before the walk. */
  #before(topic: string, queueId: number): { ordinal: number; position: number } | undefined {
    const queue = this.#queues.find(topic, queueId);
    if (queue === undefined) return undefined;
    const bytes = new Uint8Array(CQ_UNIT_BYTES);
    const view = viewOf(bytes);
    for (let ordinal = this.#firstAt(queue, this.#from) - 1; ordinal >= 0; ordinal--) {
      if (this.#queues.readUnitsSync(queue, ordinal, 1, bytes) === 0) return undefined;
      if (unitSize(view, 0) !== FILLER_SIZE) return { ordinal, position: unitOffset(view, 0) };
    }
    return undefined;
  }

  /** The first ordinal whose unit points to `position` or behind. Physical offsets rise with the ordinal; a filler counts as the unit behind it. */
  #firstAt(queue: ConsumeQueue, position: number): number {
    const bytes = new Uint8Array(CQ_UNIT_BYTES);
    const view = viewOf(bytes);
    let low = (queue.files[0]?.base ?? queue.tailStart * CQ_UNIT_BYTES) / CQ_UNIT_BYTES;
    let high = queue.maxOffset;
    while (low < high) {
      const middle = Math.floor((low + high) / 2);
      let at = middle;
      while (at < high && this.#queues.readUnitsSync(queue, at, 1, bytes) > 0 && unitSize(view, 0) === FILLER_SIZE)
        at++;
      if (at === high || unitOffset(view, 0) >= position) high = middle;
      else low = at + 1;
    }
    return low;
  }
}

export function topicOf(bytes: Uint8Array, record: RecordView): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset + record.topicStart, record.topicEnd - record.topicStart).toString(
    'utf8',
  );
}

export function keyOf(topic: string, queueId: number): string {
  return `${queueId}/${topic}`;
}

/** A record that was dispatched to light queues too has its own queue's unit first. */
function preference(unit: LostUnit): number {
  return unit.topic.startsWith('%LMQ%') ? 1 : 0;
}
