// Delivers a slot that is over: its orders to delete first, then its units, oldest first.

import { errorText } from '../../common/index.ts';
import { nameBytes, PropertyName } from '../../message/index.ts';
import { TimerMagic, TimerSlot } from '../../store/index.ts';
import { type DueUnits, dueUnits } from './due-units.ts';
import { isOrder, type RecallOrders } from './recall-orders.ts';
import type { Fetched, Missing, RecordFetch } from './record-fetch.ts';
import { DROPPED, RETRY, type TimerDelivery } from './timer-delivery.ts';
import { deleteKey } from './timer-put.ts';
import type { TimerQueue } from './timer-queue.ts';
import { TimerRecord } from './timer-record.ts';
import type { TimerSlots } from './timer-slots.ts';
import { RETRY_MS, type TimerState } from './timer-state.ts';

/** Ms that a stop waits for the slot that is being delivered. */
const STOP_MS = 1500;
const UNIQ_KEY = nameBytes(PropertyName.UNIQ_KEY);

export interface SlotParts {
  readonly state: TimerState;
  readonly slots: TimerSlots;
  readonly queue: TimerQueue;
  readonly delivery: TimerDelivery;
  readonly orders: RecallOrders;
  readonly fetch: RecordFetch;
}

export class SlotDelivery {
  readonly #parts: SlotParts;
  readonly #record = new TimerRecord();
  /** The slot that a stop has left, and where its rest begins. */
  #partial: { slotMs: number; position: number; count: number } | undefined;

  constructor(parts: SlotParts) {
    this.#parts = parts;
  }

  /** True when all of the slot is delivered; false if a stop has left it. @throws GantryError IO: it is to be tried again. */
  async deliver(slotMs: number): Promise<boolean> {
    const { state, delivery, orders, fetch } = this.#parts;
    const { logger, clock } = state;
    const due = dueUnits(state.wheel, state.log, slotMs, (position) => {
      logger.error(
        `timer: the chain of ${slotMs} is broken at ${position} of the timer log, which is looked through instead`,
      );
    });
    const deletes = await orders.keysOf(due);
    const cancelled = orders.cancelledIn(slotMs);
    const lateFrom = slotMs + state.precisionMs;
    let stopAt = Number.POSITIVE_INFINITY;
    for (let from = 0; from < due.count; ) {
      const batch = await fetch.read(due, from);
      const ends: number[] = new Array(batch.length).fill(0);
      for (let k = 0; k < batch.length; ) {
        if (!state.running) {
          if (stopAt === Number.POSITIVE_INFINITY) stopAt = clock.now() + STOP_MS;
          if (deletes === undefined || clock.now() >= stopAt) return this.#leaveRest(deletes, slotMs, due, from + k);
        }
        const end = this.#handleUnit(due, from + k, batch.open(k, this.#record), deletes, cancelled, lateFrom);
        if (end !== RETRY) {
          ends[k++] = end;
          if (k < batch.length) continue;
          const lost = await delivery.firstLost(ends);
          if (lost < 0) break;
          this.#takeBack(batch, ends, lost);
          k = lost;
        }
        if (!state.running) return this.#leaveRest(deletes, slotMs, due, from + k);
        await state.pause(RETRY_MS);
      }
      from += batch.length;
      await state.turn();
    }
    return true;
  }

  /** Of deliveries that are lost, from `k` on: they wait again. */
  #takeBack(batch: Fetched, ends: number[], lost: number): void {
    const message = this.#record;
    for (let k = lost; k < batch.length; k++) {
      if (ends[k] === 0 || batch.open(k, message) !== undefined) continue;
      this.#parts.state.metrics.add(message.realTopic.name, 1);
    }
  }

  /** Where what was delivered ends in the CommitLog; DROPPED, or RETRY if the unit must be tried again. Of the record that is open. */
  #handleUnit(
    due: DueUnits,
    i: number,
    missing: Missing | undefined,
    deletes: ReadonlySet<string> | undefined,
    cancelled: ReadonlySet<string> | undefined,
    lateFrom: number,
  ): number {
    const { state, slots, queue, delivery } = this.#parts;
    const { metrics, figures } = state;
    const magic = due.magics[i]!;
    if (isOrder(magic)) return DROPPED;
    if (missing !== undefined) {
      if (missing.isLater) {
        slots.postpone(due, i, missing.reason);
        return DROPPED;
      }
      const place = { queueOffset: -1, physicalOffset: due.offsets[i]!, messageId: `of unit ${due.positions[i]}` };
      state.setAside(place, missing.reason);
      return DROPPED;
    }
    const message = this.#record;
    const topic = message.realTopic.name;
    const roll = (magic & TimerMagic.ROLL) !== 0;
    if (!roll && (deletes !== undefined || cancelled !== undefined)) {
      const key = deleteKey(state.config, topic, message.properties.get(UNIQ_KEY) ?? '');
      if (deletes?.has(key) || cancelled?.has(key)) {
        figures.deleted++;
        metrics.add(topic, -1);
        return DROPPED;
      }
    }
    const end = delivery.deliver(message, String(due.writeTimes[i]), roll);
    if (end === RETRY) return RETRY;
    metrics.add(topic, -1);
    if (end === DROPPED) return DROPPED;
    if (roll) queue.noted();
    else figures.lateness.add(Math.max(0, state.clock.now() - lateFrom));
    return end;
  }

  /** An orderly stop within a slot. Orders to delete count for all of it, so that a slot with some is begun again. */
  #leaveRest(deletes: ReadonlySet<string> | undefined, slotMs: number, due: DueUnits, count: number): boolean {
    if (count > 0 && deletes === undefined) this.#partial = { slotMs, position: due.positions[count]!, count };
    return false;
  }

  /** What was delivered leaves the chain of a slot that a stop has left, so that the next start begins with the first message that was not. */
  shortenSlot(): void {
    if (this.#partial === undefined) return;
    const { wheel, log, logger } = this.#parts.state;
    const { slotMs, position, count } = this.#partial;
    const slot = new TimerSlot();
    if (!wheel.read(slotMs, slot)) return;
    try {
      log.endChain(position);
      slot.firstPos = position;
      slot.num -= count;
      wheel.write(slotMs, slot);
    } catch (error) {
      logger.error(`timer: ${count} messages due at ${slotMs} come again after the start (${errorText(error)})`);
    }
  }
}
