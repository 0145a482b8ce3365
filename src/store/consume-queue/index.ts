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
export { ConsumeQueueStore, canBeFolder, type TopicQueues } from './consume-queue-store.ts';
