export type { TimerCheckpoint } from './timer-checkpoint.ts';
export { TimerMagic, TimerUnit, UNIT_BYTES } from './timer-format.ts';
export { TimerLog } from './timer-log.ts';
export {
  BLANK_SLOTS,
  checkTimerFiles,
  type RecoveredTimer,
  recoverTimer,
  type TimerOptions,
  type TimerTruth,
} from './timer-recovery.ts';
export { TimerSlot, TimerWheel, WHEEL_SLOTS_TOTAL } from './timer-wheel.ts';
