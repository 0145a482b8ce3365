export {
  BATCH_UNIT_BYTES,
  type BatchQueue,
  BatchQueueStore,
  BatchUnit,
} from './batch-queue.ts';
export {
  ConsumeQueue,
  CQ_UNIT_BYTES,
  FILLER_SIZE,
  isUnit,
  UnitPut,
  unitOffset,
  unitSize,
  unitTag,
} from './consume-queue.ts';
export { ConsumeQueueExt, EXT_FILE_MIN_BYTES, ExtRead, extPosition, isExtAddress } from './consume-queue-ext.ts';
export { ConsumeQueueStore, canBeFolder, type TopicQueues } from './consume-queue-store.ts';
export { type AnyQueue, isLightQueue, QueueKinds } from './queue-kinds.ts';
