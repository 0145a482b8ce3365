export { GetMessageStatus, GetResult, getStatusName, type TagFilter } from './get.ts';
export type { ArrivalListener, MessageStore, QueryResult, Watermarks } from './message-store.ts';
export { PutMessageStatus, PutRequest, PutResult, putStatusName } from './put.ts';
export { type BrokerRole, defaultStoreConfig, type FlushDiskType, type MessageStoreConfig } from './store-config.ts';
