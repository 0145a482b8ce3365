// The wheel's slots: which one takes a message, and its unit in the log. RocketMQ: TimerMessageStore#doEnqueue.

import { rollSlot, rollWindow, TimerMagic, TimerSlot, TimerUnit } from '../../store/index.ts';
import type { DueUnits } from './due-units.ts';
import type { SlotMessage } from './timer-record.ts';
import type { TimerState } from './timer-state.ts';

/** What is later than this shares a slot. */
const MOST_LATE_MS = 604_800_000;
/** Ticks until a message is looked at again that the disk does not give now. */
const POSTPONE_TICKS = 10;

export class TimerSlots {
  readonly #state: TimerState;
  readonly #wakeBy: (timeMs: number) => void;
  readonly #slot = new TimerSlot();
  readonly #unit = new TimerUnit();
  #rolls = false;

  /** `wakeBy` is told when the slot of each message that comes is over. */
  constructor(state: TimerState, wakeBy: (timeMs: number) => void) {
    this.#state = state;
    this.#wakeBy = wakeBy;
  }

  /** Messages that are due in the tick that begins at `timeMs`. */
  pendingAt(timeMs: number): number {
    return this.#state.wheel.read(timeMs, this.#slot) ? this.#slot.num : 0;
  }

  /** Ms that the wheel is used for before a message goes round. */
  get windowMs(): number {
    return rollWindow(this.#state.config.timerRollWindowSlot, this.#state.precisionMs);
  }

  /** The slot of a due time now: one on the way if it is beyond the window, which `#rolls` says. */
  #slotOf(dueMs: number): number {
    const { writeMs, precisionMs } = this.#state;
    const onTheWay = rollSlot(dueMs, writeMs, this.windowMs, precisionMs);
    this.#rolls = onTheWay >= 0;
    // After a long stop: a unit's delay has 32 bits.
    return this.#rolls ? onTheWay : Math.max(dueMs, writeMs - MOST_LATE_MS);
  }

  /** Whether the slot for a due time is one of an earlier round that is not read yet. */
  isOccupied(dueMs: number): boolean {
    const { wheel, readMs, writeMs } = this.#state;
    const slotMs = this.#slotOf(dueMs);
    const occupant = wheel.occupant(slotMs);
    return occupant >= readMs && occupant < writeMs && occupant !== slotMs;
  }

  /** Puts a message into its slot. */
  link({ isOrder, physicalOffset, realTopic, storeSize }: SlotMessage, dueMs: number): void {
    const { metrics, figures, precisionMs } = this.#state;
    const slotMs = this.#slotOf(dueMs);
    const magic = TimerMagic.DEFAULT | (this.#rolls ? TimerMagic.ROLL : 0) | (isOrder ? TimerMagic.DELETE : 0);
    const count = isOrder ? -1 : 1;
    this.#append(slotMs, magic, physicalOffset, storeSize, realTopic.hash, count);
    metrics.add(realTopic.name, count);
    figures.enqueued++;
    this.#wakeBy(slotMs + precisionMs);
  }

  /** A record that the disk does not give now stays in the wheel, some ticks on. */
  postpone(due: DueUnits, i: number, reason: string): void {
    const state = this.#state;
    state.advance();
    const slotMs = Math.max(state.openFrom, state.writeMs) + POSTPONE_TICKS * state.precisionMs;
    state.seldom.warn(
      'read',
      `timer: the message at ${due.offsets[i]} of the log cannot be read now (${reason}); it waits`,
    );
    this.#append(slotMs, due.magics[i]!, due.offsets[i]!, due.sizes[i]!, 0, 1);
  }

  #append(slotMs: number, magic: number, offset: number, size: number, topicHash: number, count: number): void {
    const { wheel, log, writeMs } = this.#state;
    const slot = this.#slot;
    const unit = this.#unit;
    wheel.read(slotMs, slot);
    unit.prevPos = slot.lastPos;
    unit.magic = magic;
    unit.writeTime = writeMs;
    unit.delay = slotMs - writeMs;
    unit.offset = offset;
    unit.size = size;
    unit.topicHash = topicHash;
    slot.lastPos = log.append(unit);
    if (slot.firstPos < 0) slot.firstPos = slot.lastPos;
    slot.num += count;
    wheel.write(slotMs, slot);
  }
}
