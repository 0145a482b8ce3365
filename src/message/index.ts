export { BATCH_MEMBER_BYTES, type BatchInput, BatchMember, encodeBatch, readBatchMember } from './batch.ts';
export { innerMessages, isInnerBatch } from './inner-batch.ts';
export {
  BLANK_BYTES,
  bornHostBytes,
  CRC_PROPERTY_BYTES,
  CRC_PROPERTY_NAME,
  isCounted,
  MAGIC_BLANK,
  MAGIC_V1,
  MAGIC_V2,
  MAX_PROPERTIES_BYTES,
  MAX_V1_TOPIC_CHARS,
  MIN_RECORD_BYTES,
  PHYSICAL_OFFSET_AT,
  QUEUE_ID_AT,
  QUEUE_OFFSET_AT,
  SYS_FLAG_AT,
  SysFlag,
  storeHostBytes,
} from './layout.ts';
export { decodeMessages, type StoredMessage, toMessage } from './message.ts';
export {
  createOffsetMessageId,
  decodeOffsetMessageId,
  hostField,
  hostText,
  OffsetMessageIds,
  type UniqueIdSeed,
  UniqueIds,
} from './message-id.ts';
export * from './pop/index.ts';
export {
  type NameBytes,
  nameBytes,
  PropertyTable,
  parseProperties,
  parsePropertyBytes,
  propertiesText,
  propertiesTextInJavaOrder,
} from './properties.ts';
export { PropertyName } from './property-names.ts';
export { decodeRecallHandle, encodeRecallHandle, type RecallHandle, recallHandleOf } from './recall-handle.ts';
export { RecordOutcome, RecordView, readRecord, Verify } from './record-reader.ts';
export {
  copy,
  placeRecord,
  propertiesBytes,
  RecordSource,
  recordBytes,
  recordVersion,
  sysFlagWithHosts,
  writeRecord,
} from './record-writer.ts';
