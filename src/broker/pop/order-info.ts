// What an ordered pop has handed out of one queue and is still waited for: until all of it is acknowledged, or its time is over, the
// queue gives nothing to others. RocketMQ: QueueLevelConsumerManager.OrderInfo.

import type { JsonObject } from '../../remoting/index.ts';
import { readInteger, readIntegerMap, readList, readObject, readText, toInteger } from '../json-fields.ts';
import type { PrettyBean } from '../pretty-json.ts';

/** What stands in the place of an offset to commit when none is: not handed out, by another pop, and nothing is known of the queue. */
export const Acknowledged = { ILLEGAL: -1, STALE: -2, UNKNOWN: -3 } as const;

export class OrderInfo {
  readonly popTime: number;
  /** Ms; undefined or no more than 0 counts as that of the next who asks. */
  invisibleTime: number | undefined;
  /** Queue offsets, ascending. */
  readonly offsets: readonly number[];
  /** Wall-clock time at which a message is visible again, by queue offset, where it is not `popTime + invisibleTime`. */
  readonly nextVisible: Map<number, number>;
  /** How often a message has been handed out before, by queue offset, where that is not 0; undefined: no pop is known before this one. */
  consumed: Map<number, number> | undefined;
  lastConsumeMs: number;
  /** Bit i: offset i is acknowledged. At most 53 of them are kept; a pop hands out 32. */
  committed: number;
  readonly attemptId: string | undefined;

  constructor(
    attemptId: string | undefined,
    popTime: number,
    invisibleTime: number | undefined,
    offsets: readonly number[],
    lastConsumeMs: number,
  ) {
    this.attemptId = attemptId;
    this.popTime = popTime;
    this.invisibleTime = invisibleTime;
    this.offsets = offsets;
    this.lastConsumeMs = lastConsumeMs;
    this.nextVisible = new Map();
    this.consumed = undefined;
    this.committed = 0;
  }

  /** Takes over what is known of messages that the pop before handed out, too. RocketMQ: mergeOffsetConsumedCount. */
  follow(before: OrderInfo): void {
    if (before.attemptId !== undefined && before.attemptId === this.attemptId) {
      this.consumed = before.consumed ?? new Map();
      return;
    }
    const earlier = new Set(before.offsets);
    const consumed = new Map<number, number>();
    for (const offset of this.offsets) {
      if (earlier.has(offset)) consumed.set(offset, (before.consumed?.get(offset) ?? 0) + 1);
    }
    this.consumed = consumed;
  }

  /** Whether a pop must wait; one of the same attempt, whose answer was lost, need not. RocketMQ: needBlock. */
  blocks(attemptId: string | undefined, invisibleTime: number, now: number): boolean {
    if (this.attemptId !== undefined && this.attemptId === attemptId) return false;
    if (this.invisibleTime === undefined || this.invisibleTime <= 0) this.invisibleTime = invisibleTime;
    for (let i = 0; i < this.offsets.length; i++) if (!this.#isAcknowledged(i) && now < this.#visibleAt(i)) return true;
    return false;
  }

  /** When the first message that is waited for is visible again, or `now` if none is; undefined: it cannot be said. */
  freeAt(now: number): number | undefined {
    if (this.offsets.length === 0) return undefined;
    for (let i = 0; i < this.offsets.length; i++) {
      if (this.#isAcknowledged(i)) continue;
      if (this.invisibleTime === undefined || this.invisibleTime <= 0) return undefined;
      const visibleAt = this.#visibleAt(i);
      if (now < visibleAt) return visibleAt;
    }
    return now;
  }

  /** Notes an acknowledgement; the offset to commit, or one of `Acknowledged`. */
  acknowledge(offset: number, popTime: number): number {
    if (this.offsets.length === 0) return Acknowledged.ILLEGAL;
    if (popTime !== this.popTime) return Acknowledged.STALE;
    const index = this.offsets.indexOf(offset);
    if (index < 0) return Acknowledged.ILLEGAL;
    if (!this.#isAcknowledged(index)) this.committed += 2 ** index;
    for (let i = 0; i < this.offsets.length; i++) if (!this.#isAcknowledged(i)) return this.offsets[i]!;
    return this.offsets.at(-1)! + 1;
  }

  #isAcknowledged(index: number): boolean {
    return Math.floor(this.committed / 2 ** index) % 2 === 1;
  }

  #visibleAt(index: number): number {
    return this.nextVisible.get(this.offsets[index]!) ?? this.popTime + (this.invisibleTime ?? 0);
  }

  /** As it stands in the file: the first offset, then the distances from it. */
  toBean(): PrettyBean {
    const first = this.offsets[0] ?? 0;
    return {
      a: this.attemptId,
      cm: this.committed,
      i: this.invisibleTime,
      l: this.lastConsumeMs,
      o: this.offsets.map((offset, i) => (i === 0 ? offset : offset - first)),
      oc: this.consumed,
      ot: this.nextVisible.size > 0 ? this.nextVisible : undefined,
      popTime: this.popTime,
    };
  }

  /** @throws GantryError CONFIG_FILE on a field of another kind. */
  static of(json: JsonObject): OrderInfo {
    const distances = (readList(json, 'o') ?? []).map((value) => toInteger(value, 'o'));
    const first = distances[0] ?? 0;
    const info = new OrderInfo(
      readText(json, 'a'),
      readInteger(json, 'popTime') ?? 0,
      readInteger(json, 'i'),
      distances.map((distance, i) => (i === 0 ? distance : first + distance)),
      readInteger(json, 'l') ?? 0,
    );
    for (const [offset, time] of readIntegerMap(json, 'ot')) info.nextVisible.set(offset, time);
    if (readObject(json, 'oc') !== undefined) info.consumed = readIntegerMap(json, 'oc');
    info.committed = readInteger(json, 'cm') ?? 0;
    return info;
  }
}
