// The layout of the timer's files (docs/formats/timer.md): constants and the codec of a timer log unit. All big-endian.
//
//   unit    0 size i32 = 52 | 4 prevPos i64 | 12 magic i32 | 16 writeTime i64 | 24 delay i32 | 28 offsetPy i64 | 36 sizePy i32
//           40 topicHash i32 | 44 reserved i64 = 0
//   filler  0 bytes left in the file i32 | 4 zero i64 | 12 magic i32 = CBD43194
//
// RocketMQ: TimerLog, TimerMessageStore#doEnqueue.

import { peekI64, writeI64 } from '../../common/index.ts';

export const UNIT_BYTES = 52;
export const FILLER_BYTES = 16;
export const FILLER_MAGIC: number = 0xcbd43194 | 0;

/** Bits of a unit's magic. These reach the disk: never renumber them. */
export const TimerMagic = { DEFAULT: 1, ROLL: 2, DELETE: 4 } as const;

/** A unit, filled anew for each one that is read or written. */
export class TimerUnit {
  /** Position of the previous unit of the same slot; -1: none. */
  prevPos = -1;
  magic = 0;
  /** Ms: the wheel's time when it was written. */
  writeTime = 0;
  /** Ms from there to the slot. */
  delay = 0;
  /** Physical offset and bytes of the record in the timer's topic. */
  offset = 0;
  size = 0;
  /** Java hash of the real topic's name. */
  topicHash = 0;

  /** Ms of the slot that it is chained in. */
  get slotTime(): number {
    return this.writeTime + this.delay;
  }
}

export function writeUnit(view: DataView, at: number, unit: TimerUnit): void {
  view.setInt32(at, UNIT_BYTES);
  writeI64(view, at + 4, unit.prevPos);
  view.setInt32(at + 12, unit.magic);
  writeI64(view, at + 16, unit.writeTime);
  view.setInt32(at + 24, unit.delay);
  writeI64(view, at + 28, unit.offset);
  view.setInt32(at + 36, unit.size);
  view.setInt32(at + 40, unit.topicHash);
  writeI64(view, at + 44, 0);
}

/** False if what lies there is no unit. */
export function readUnit(view: DataView, at: number, unit: TimerUnit): boolean {
  unit.magic = view.getInt32(at + 12);
  if (view.getInt32(at) !== UNIT_BYTES || (unit.magic & ~0xf) !== 0) return false;
  unit.prevPos = peekI64(view, at + 4);
  unit.writeTime = peekI64(view, at + 16);
  unit.delay = view.getInt32(at + 24);
  unit.offset = peekI64(view, at + 28);
  unit.size = view.getInt32(at + 36);
  unit.topicHash = view.getInt32(at + 40);
  return unit.offset >= 0 && unit.size > 0 && Number.isSafeInteger(unit.offset) && Number.isSafeInteger(unit.writeTime);
}

/** Whether a filler lies there: the rest of the file holds nothing. */
export function isFiller(view: DataView, at: number): boolean {
  return view.getInt32(at + 12) === FILLER_MAGIC;
}
