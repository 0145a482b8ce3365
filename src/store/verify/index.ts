export type { Fault } from './log-walk.ts';
export { repairStore, type StoreReport, verifyStore } from './verify-store.ts';
