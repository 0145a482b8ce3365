export { TimerMagic, TimerUnit } from './timer-format.ts';
export type { TimerLog } from './timer-log.ts';
export { checkTimerFiles, type IdleTimer, type RecoveredTimer, readIdleTimer, recoverTimer } from './timer-recovery.ts';
export { TimerSlot, type TimerWheel } from './timer-wheel.ts';
export { rollSlot, rollWindow } from './wheel-slot.ts';
