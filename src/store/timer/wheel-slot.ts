// Which slot of the wheel a message takes. RocketMQ: TimerMessageStore#doEnqueue.

import { BLANK_SLOTS, WHEEL_SLOTS_TOTAL } from './timer-wheel.ts';

/** Ms that the wheel is used for before a message goes round. RocketMQ: timerRollWindowSlots. */
export function rollWindow(timerRollWindowSlot: number, precisionMs: number): number {
  const most = WHEEL_SLOTS_TOTAL - BLANK_SLOTS;
  return (timerRollWindowSlot > most || timerRollWindowSlot < 2 ? most : timerRollWindowSlot) * precisionMs;
}

/** The slot for a message that is due at `dueMs`: one on the way, where it goes round, if that is beyond the window; -1: its own. */
export function rollSlot(dueMs: number, writeMs: number, windowMs: number, precisionMs: number): number {
  const beyond = dueMs - writeMs - windowMs;
  if (beyond < 0) return -1;
  const slots = windowMs / precisionMs;
  // What would be left is so little that it is left for the second half.
  const near = beyond < Math.floor(slots / 3) * precisionMs;
  return writeMs + (near ? Math.floor(slots / 2) * precisionMs : windowMs);
}
