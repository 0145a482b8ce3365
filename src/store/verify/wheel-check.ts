// Holds the timer wheel's file, or the snapshot that a start would read, against the wheel that follows from the timer log.

import { peekI64, viewOf } from '../../common/index.ts';
import type { FileSystem } from '../../io/index.ts';
import { TimerUnit } from '../timer/timer-format.ts';
import type { TimerLog } from '../timer/timer-log.ts';
import { SLOT_BYTES, SLOTS, TimerSlot, type TimerWheel } from '../timer/timer-wheel.ts';

const BLOCK_SLOTS = 8192;
/** Faults that are named. */
const MOST_FAULTS = 100;

export interface ComparedWheel {
  /** Slots that are not done. */
  slots: number;
  faults: Array<{ file: string; byte: number; reason: string }>;
}

/**
 * `made`: the wheel of the units of `log` below `logEnd`. What was done before `readMs` counts no more, and what was put in behind `logEnd` is
 * looked at again by a start. @throws GantryError IO.
 */
export function compareWheel(
  fs: FileSystem,
  made: TimerWheel,
  readMs: number,
  log: TimerLog,
  logEnd: number,
  isClean: boolean,
): ComparedWheel {
  const result: ComparedWheel = { slots: 0, faults: [] };
  const source = made.source();
  if (source === undefined) {
    const size = fs.stat(made.path)?.size;
    if (size !== undefined)
      result.faults.push({ file: made.path, byte: 0, reason: `it has ${size} bytes, not ${SLOTS * SLOT_BYTES}` });
    return result;
  }
  const { path, position = logEnd } = source;
  const limit = Math.min(logEnd, position);
  const { precisionMs } = made;
  const block = new Uint8Array(BLOCK_SLOTS * SLOT_BYTES);
  const view = viewOf(block);
  const slot = new TimerSlot();
  const unit = new TimerUnit();
  const fault = (index: number, reason: string): void => {
    if (result.faults.length < MOST_FAULTS) result.faults.push({ file: path, byte: index * SLOT_BYTES, reason });
  };
  const file = fs.open(path, 'read');
  try {
    for (let first = 0; first < SLOTS; first += BLOCK_SLOTS) {
      const count = Math.min(BLOCK_SLOTS, SLOTS - first);
      block.fill(0);
      file.readSync(block, 0, count * SLOT_BYTES, first * SLOT_BYTES);
      for (let i = 0, at = 0; i < count; i++, at += SLOT_BYTES) {
        const index = first + i;
        const tick = peekI64(view, at);
        const foundMs = tick * precisionMs;
        const wantedMs = made.occupant(index * precisionMs);
        if (tick !== 0 && tick % SLOTS !== index) fault(index, `its time is ${tick}, which is that of another slot`);
        else if (foundMs >= readMs || wantedMs >= readMs) {
          const [firstPos, lastPos, num] = [peekI64(view, at + 8), peekI64(view, at + 16), view.getInt32(at + 24)];
          // Put in since what the checkpoint speaks of, or, after an unclean stop, cut off the timer log before.
          if (lastPos >= logEnd && (!isClean || (log.read(lastPos, unit) && unit.slotTime === foundMs))) continue;
          if (wantedMs < readMs) {
            if (lastPos >= log.first)
              fault(index, `it names the units ${firstPos} to ${lastPos}; the timer log has none of its time`);
            continue;
          }
          made.read(wantedMs, slot);
          // A start adds them to the snapshot.
          if (slot.lastPos >= limit) continue;
          result.slots++;
          const wrong = differs(foundMs === wantedMs, tick, firstPos, lastPos, num, slot, log.first);
          if (wrong === '') continue;
          const wanted = `counts ${slot.num}, the first at ${slot.firstPos}, the newest at ${slot.lastPos}`;
          fault(index, `${wrong}; by the timer log it is ${wantedMs / precisionMs}, ${wanted}`);
        }
      }
    }
  } finally {
    file.close();
  }
  return result;
}

/** What of a slot is not what it must be; '' if nothing. */
function differs(
  isItsTime: boolean,
  tick: number,
  firstPos: number,
  lastPos: number,
  num: number,
  wanted: TimerSlot,
  logFirst: number,
): string {
  if (!isItsTime) return `its time is ${tick}`;
  if (lastPos !== wanted.lastPos) return `its newest unit is at ${lastPos}`;
  // The files of older ones are gone.
  if (firstPos < logFirst) return '';
  if (firstPos !== wanted.firstPos) return `its first unit is at ${firstPos}`;
  // RocketMQ: what it puts in again after a kill is not counted.
  return num > wanted.num || num < Math.min(0, wanted.num) ? `it counts ${num}` : '';
}
