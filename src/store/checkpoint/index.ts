export { type Durable, DurableMark } from './durable-mark.ts';
export { CHECKPOINT_BYTES, StoreCheckpoint } from './store-checkpoint.ts';
