// Orders to delete a message that is not due yet: those that came by handle just now, and the units of a slot that are orders.

import { nameBytes, PropertyName } from '../../message/index.ts';
import { TimerMagic, TimerUnit } from '../../store/index.ts';
import { DueUnits } from './due-units.ts';
import type { RecordFetch } from './record-fetch.ts';
import { NO_TOPIC, TimerRecord } from './timer-record.ts';
import type { TimerState } from './timer-state.ts';

const TIMER_DEL_UNIQKEY = nameBytes(PropertyName.TIMER_DEL_UNIQKEY);

export class RecallOrders {
  readonly #state: TimerState;
  readonly #fetch: RecordFetch;
  /** Cancelled by handle and not yet due: keys by slot. */
  readonly #cancelled = new Map<number, Set<string>>();

  constructor(state: TimerState, fetch: RecordFetch) {
    this.#state = state;
    this.#fetch = fetch;
  }

  /** False: that slot is being delivered or done. */
  cancel(slotMs: number, key: string): boolean {
    if (slotMs < this.#state.openFrom) return false;
    const keys = this.#cancelled.get(slotMs) ?? new Set();
    this.#cancelled.set(slotMs, keys.add(key));
    return true;
  }

  uncancel(slotMs: number, key: string): void {
    this.#cancelled.get(slotMs)?.delete(key);
  }

  /** Keys of a slot that are cancelled by handle. */
  cancelledIn(slotMs: number): ReadonlySet<string> | undefined {
    return this.#cancelled.get(slotMs);
  }

  /** A slot is delivered. */
  forget(slotMs: number): void {
    this.#cancelled.delete(slotMs);
  }

  /** The keys that orders of a slot delete; undefined if there is no order. */
  async keysOf(due: DueUnits): Promise<ReadonlySet<string> | undefined> {
    const orders = new TimerUnit();
    const only = new DueUnits();
    for (let i = 0; i < due.count; i++) {
      if (!isOrder(due.magics[i]!)) continue;
      orders.offset = due.offsets[i]!;
      orders.size = due.sizes[i]!;
      only.push(due.positions[i]!, orders);
    }
    if (only.count === 0) return undefined;
    const keys = new Set<string>();
    const message = new TimerRecord();
    for (let from = 0; from < only.count; ) {
      const batch = await this.#fetch.read(only, from);
      for (let k = 0; k < batch.length; k++) {
        if (batch.open(k, message) !== undefined) continue;
        const key = message.properties.get(TIMER_DEL_UNIQKEY);
        if (key !== undefined) keys.add(key);
        // What the order took off when it came; each message that it deletes takes it off again.
        if (message.realTopic !== NO_TOPIC) this.#state.metrics.add(message.realTopic.name, 1);
      }
      from += batch.length;
    }
    return keys;
  }
}

/** A unit that only deletes others. */
export function isOrder(magic: number): boolean {
  return (magic & TimerMagic.DELETE) !== 0 && (magic & TimerMagic.ROLL) === 0;
}
