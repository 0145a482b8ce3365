export type { Fault } from './fault.ts';
export { repairStore } from './repair.ts';
export { type StoreReport, verifyStore } from './verify-store.ts';
