export { CHECKPOINT_BYTES, StoreCheckpoint } from './store-checkpoint.ts';
