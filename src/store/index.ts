export type { AckTarget } from './flush/ack-queue.ts';
export { GetMessageStatus, GetResult, getStatusName, type TagFilter } from './get.ts';
export { type ArrivalListener, MessageStore, type StoreDependencies, type Watermarks } from './message-store.ts';
export { PutMessageStatus, PutRequest, PutResult, putStatusName } from './put.ts';
export type { QueryResult } from './read/message-reader.ts';
export type { RecoveryReport } from './recovery/recover.ts';
export type { Ready } from './segment/index.ts';
export { type BrokerRole, defaultStoreConfig, type FlushDiskType, type MessageStoreConfig } from './store-config.ts';
