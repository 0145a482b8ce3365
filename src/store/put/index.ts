export { BatchEncoder } from './batch-encoder.ts';
export { LongBatch } from './long-batch.ts';
export { MessageAppender } from './message-appender.ts';
export { isStored, PutMessageStatus, PutRequest, PutResult, putStatusName } from './put.ts';
export { PutGuard } from './put-guard.ts';
export { StageTimes } from './stage-times.ts';
