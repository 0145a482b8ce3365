export {
  BATCH_UNIT_BYTES,
  type BatchQueue,
  BatchQueueStore,
  BatchUnit,
  vote,
} from './batch-queue.ts';
export { ConsumeQueue, UnitPut } from './consume-queue.ts';
export {
  ConsumeQueueExt,
  EXT_FILE_MIN_BYTES,
  EXT_UNIT_BYTES,
  ExtRead,
  extPosition,
  isExtAddress,
} from './consume-queue-ext.ts';
export { ConsumeQueueStore, canBeFolder, type TopicQueues } from './consume-queue-store.ts';
export { type AnyQueue, isLightQueue, isOneLightName, QueueKinds } from './queue-kinds.ts';
export { CQ_UNIT_BYTES, FILLER_SIZE, isUnit, unitOffset, unitSize, unitTag } from './unit.ts';
