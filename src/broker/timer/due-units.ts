// The units of one slot, oldest first, in columns: a slot may hold a million.

import { type TimerLog, TimerSlot, TimerUnit, type TimerWheel } from '../../store/index.ts';

const FIRST_CAPACITY = 64;

export class DueUnits {
  count = 0;
  positions: Float64Array = new Float64Array(FIRST_CAPACITY);
  offsets: Float64Array = new Float64Array(FIRST_CAPACITY);
  writeTimes: Float64Array = new Float64Array(FIRST_CAPACITY);
  sizes: Int32Array = new Int32Array(FIRST_CAPACITY);
  magics: Int32Array = new Int32Array(FIRST_CAPACITY);

  push(position: number, unit: TimerUnit): void {
    if (this.count === this.positions.length) this.#grow();
    const i = this.count++;
    this.positions[i] = position;
    this.offsets[i] = unit.offset;
    this.writeTimes[i] = unit.writeTime;
    this.sizes[i] = unit.size;
    this.magics[i] = unit.magic;
  }

  reverse(): void {
    for (const column of this.#columns()) column.subarray(0, this.count).reverse();
  }

  #columns(): [Float64Array, Float64Array, Float64Array, Int32Array, Int32Array] {
    return [this.positions, this.offsets, this.writeTimes, this.sizes, this.magics];
  }

  #grow(): void {
    const length = this.positions.length * 4;
    const [positions, offsets, writeTimes, sizes, magics] = this.#columns();
    this.positions = new Float64Array(length);
    this.offsets = new Float64Array(length);
    this.writeTimes = new Float64Array(length);
    this.sizes = new Int32Array(length);
    this.magics = new Int32Array(length);
    this.positions.set(positions);
    this.offsets.set(offsets);
    this.writeTimes.set(writeTimes);
    this.sizes.set(sizes);
    this.magics.set(magics);
  }
}

/**
 * The units of the slot of `timeMs`. Where its chain is broken `broken` is told of the place, and the log is looked through from the
 * slot's first unit on. @throws GantryError IO.
 */
export function dueUnits(
  wheel: TimerWheel,
  log: TimerLog,
  timeMs: number,
  broken: (position: number) => void,
): DueUnits {
  const due = new DueUnits();
  const slot = new TimerSlot();
  if (!wheel.read(timeMs, slot)) return due;
  const unit = new TimerUnit();
  let position = slot.lastPos;
  while (position >= log.first && position >= 0) {
    if (!log.read(position, unit) || unit.slotTime !== timeMs || unit.prevPos >= position) {
      broken(position);
      return lookThrough(log, Math.max(log.first, slot.firstPos), timeMs);
    }
    due.push(position, unit);
    position = unit.prevPos;
  }
  due.reverse();
  return due;
}

function lookThrough(log: TimerLog, from: number, timeMs: number): DueUnits {
  const due = new DueUnits();
  log.scan(
    from,
    (position, unit) => {
      if (unit.slotTime === timeMs) due.push(position, unit);
      return true;
    },
    new TimerUnit(),
    () => {},
  );
  return due;
}
