export type { TimerCheckpoint } from './timer-checkpoint.ts';
export { TimerMagic, TimerUnit, UNIT_BYTES } from './timer-format.ts';
export { TimerLog } from './timer-log.ts';
export {
  checkTimerFiles,
  type RecoveredTimer,
  recoverTimer,
  type TimerOptions,
  type TimerTruth,
} from './timer-recovery.ts';
export { TimerSlot, TimerWheel } from './timer-wheel.ts';
export { rollSlot, rollWindow } from './wheel-slot.ts';
