export { type CompactionFault, type CompactionReport, isBlankKey, verifyCompaction } from './compaction/index.ts';
export { type ConsumeQueue, isLightQueue } from './consume-queue/index.ts';
export { parseDelayLevels } from './dispatch/delay-levels.ts';
export type { ArrivalListener, FilterBits } from './dispatch/dispatcher.ts';
export { mayNameLightQueues } from './dispatch/multi-dispatch.ts';
export type { LogWatcher } from './engine.ts';
export type { AckTarget } from './flush/ack-queue.ts';
export type { StoreDependencies } from './load-store.ts';
export { MessageStore, type Watermarks } from './message-store.ts';
export type { LongBatch } from './put/index.ts';
export { isStored, PutMessageStatus, PutRequest, PutResult, putStatusName } from './put/index.ts';
export {
  GetMessageStatus,
  type GetRequest,
  GetResult,
  getStatusName,
  type RecordFilter,
  type TagFilter,
} from './read/get.ts';
export type { QueryResult } from './read/message-reader.ts';
export { QueueUnits } from './read/queue-units.ts';
export type { RecoveryReport } from './recovery/report.ts';
export type { QueueMove, Removal, RetentionCounts, RetentionFloor } from './retention/index.ts';
export { isTimeToDelete } from './retention/index.ts';
export type { Ready } from './segment/index.ts';
export {
  type BrokerRole,
  type DamagedRecordPolicy,
  defaultStoreConfig,
  type FlushDiskType,
  type MessageStoreConfig,
} from './store-config.ts';
export {
  checkTimerFiles,
  type IdleTimer,
  type RecoveredTimer,
  readIdleTimer,
  recoverTimer,
  rollSlot,
  rollWindow,
  type TimerLog,
  TimerMagic,
  TimerSlot,
  TimerUnit,
  type TimerWheel,
} from './timer/index.ts';
export { type Fault, repairStore, type StoreReport, verifyStore } from './verify/index.ts';
