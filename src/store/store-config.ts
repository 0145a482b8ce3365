// The settings of MessageStoreConfig that the store reads, with RocketMQ's names, defaults and units. The table of all keys that
// a broker.conf may hold, honoured or not, is src/common/config (parsing, help and checks come from it).

/** RocketMQ: FlushDiskType. */
export type FlushDiskType = 'ASYNC_FLUSH' | 'SYNC_FLUSH';
/** RocketMQ: BrokerRole. */
export type BrokerRole = 'ASYNC_MASTER' | 'SYNC_MASTER' | 'SLAVE';

export interface MessageStoreConfig {
  /** Root of the store. */
  storePathRootDir: string;
  /** CommitLog folder; null means `<root>/commitlog`. */
  storePathCommitLog: string | null;
  /** Bytes of one CommitLog file. */
  mappedFileSizeCommitLog: number;
  /** Bytes of one ConsumeQueue file, rounded up to a multiple of 20. */
  mappedFileSizeConsumeQueue: number;
  /** Whether each ConsumeQueue unit gets an ext unit (ConsumeQueueExt), and bytes of one of their files. */
  enableConsumeQueueExt: boolean;
  mappedFileSizeConsumeQueueExt: number;
  /** Bytes of one file of a batch queue, a multiple of 46. */
  mapperFileSizeBatchConsumeQueue: number;
  /** Whether puts give messages their offsets in the light queues that they name, and whether dispatch fills these. */
  enableLmq: boolean;
  enableMultiDispatch: boolean;
  /** Whether puts that would make more light queues than `maxLmqConsumeQueueNum` are refused. */
  enableLmqQuota: boolean;
  maxLmqConsumeQueueNum: number;
  flushDiskType: FlushDiskType;
  brokerRole: BrokerRole;
  /** Async flush: interval in ms, least dirty 4 KiB pages, and the interval after which one page is enough. */
  flushIntervalCommitLog: number;
  flushCommitLogLeastPages: number;
  flushCommitLogThoroughInterval: number;
  flushIntervalConsumeQueue: number;
  flushConsumeQueueLeastPages: number;
  flushConsumeQueueThoroughInterval: number;
  /** Ms until a waiting sync send is answered FLUSH_DISK_TIMEOUT. RocketMQ: 5000; here 2500, so that the true code arrives before the client's own 3 s (docs/decisions). */
  syncFlushTimeout: number;
  /** Ms that the oldest uncommitted append may wait before sends are refused as OS_PAGE_CACHE_BUSY. */
  osPageCacheBusyTimeOutMills: number;
  /** Most body bytes of one message, and of the wire body of a batch. */
  maxMessageSize: number;
  autoMessageVersionOnTopicLen: boolean;
  enabledAppendPropCRC: boolean;
  forceVerifyPropCRC: boolean;
  checkCRCOnRecover: boolean;
  /** After an unclean stop: begin the scan at the place dispatched last instead of at the start of its file. */
  enableAcceleratedRecovery: boolean;
  readUnCommitted: boolean;
  messageIndexEnable: boolean;
  indexFileWriteEnable: boolean;
  indexFileReadEnable: boolean;
  maxHashSlotNum: number;
  maxIndexNum: number;
  maxMsgsNumBatch: number;
  defaultQueryMaxNum: number;
  maxTransferBytesOnMessageInMemory: number;
  maxTransferCountOnMessageInMemory: number;
  maxTransferBytesOnMessageInDisk: number;
  maxTransferCountOnMessageInDisk: number;
  /** Most bytes of ConsumeQueue that one pull may scan past non-matching units. */
  maxFilterMessageSize: number;
  /** Fraction (percent) of memory taken as "in memory" when a pull chooses its limits. */
  accessMessageInMemoryMaxRatio: number;
  /** Whether reads of old data are added up (`GetResult.coldBytes`), and beyond which percentage of memory data is old. */
  coldDataFlowControlEnable: boolean;
  accessMessageInMemoryHotRatio: number;
  /** Whether the block behind the one that is being read is fetched too. */
  dataReadAheadEnable: boolean;
  messageDelayLevel: string;
  diskMaxUsedSpaceRatio: number;
  /** Fraction of the CommitLog's partition at which writes are refused. RocketMQ: a system property, 0.90. */
  gantryDiskFullRatio: number;
  /** Bytes that may wait for dispatch before sends are refused with the cause. */
  gantryMaxDispatchBehindBytes: number;
  /** With more queues than this, a start takes those that are known to be durable as they were saved, without reading their files. */
  gantryQueuesLookedAt: number;
  /** Bytes of the block cache that serves reads behind the tail. */
  gantryReadCacheBytes: number;
  /** Bytes that reads behind the tail may have in flight at the disk. */
  gantryColdReadBytesInFlight: number;
  /** Bytes a second that they may read while messages are being written; 0: any number. */
  gantryColdReadBytesPerSecond: number;
}

/** RocketMQ's defaults (5.5.0), ours where a comment above says so. */
export function defaultStoreConfig(storePathRootDir: string): MessageStoreConfig {
  return {
    storePathRootDir,
    storePathCommitLog: null,
    mappedFileSizeCommitLog: 1_073_741_824,
    mappedFileSizeConsumeQueue: 6_000_000,
    enableConsumeQueueExt: false,
    mappedFileSizeConsumeQueueExt: 50_331_648,
    mapperFileSizeBatchConsumeQueue: 13_800_000,
    enableLmq: false,
    enableMultiDispatch: false,
    enableLmqQuota: false,
    maxLmqConsumeQueueNum: 20_000,
    flushDiskType: 'ASYNC_FLUSH',
    brokerRole: 'ASYNC_MASTER',
    flushIntervalCommitLog: 500,
    flushCommitLogLeastPages: 4,
    flushCommitLogThoroughInterval: 10_000,
    flushIntervalConsumeQueue: 1000,
    flushConsumeQueueLeastPages: 2,
    flushConsumeQueueThoroughInterval: 60_000,
    syncFlushTimeout: 2500,
    osPageCacheBusyTimeOutMills: 1000,
    maxMessageSize: 4_194_304,
    autoMessageVersionOnTopicLen: true,
    enabledAppendPropCRC: false,
    forceVerifyPropCRC: false,
    checkCRCOnRecover: true,
    enableAcceleratedRecovery: false,
    readUnCommitted: false,
    messageIndexEnable: true,
    indexFileWriteEnable: true,
    indexFileReadEnable: true,
    maxHashSlotNum: 5_000_000,
    maxIndexNum: 20_000_000,
    maxMsgsNumBatch: 64,
    defaultQueryMaxNum: 32,
    maxTransferBytesOnMessageInMemory: 262_144,
    maxTransferCountOnMessageInMemory: 32,
    maxTransferBytesOnMessageInDisk: 65_536,
    maxTransferCountOnMessageInDisk: 8,
    maxFilterMessageSize: 16_000,
    accessMessageInMemoryMaxRatio: 40,
    coldDataFlowControlEnable: false,
    accessMessageInMemoryHotRatio: 26,
    dataReadAheadEnable: true,
    messageDelayLevel: '1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h',
    diskMaxUsedSpaceRatio: 75,
    gantryDiskFullRatio: 0.9,
    gantryMaxDispatchBehindBytes: 256 * 1024 * 1024,
    gantryQueuesLookedAt: 1000,
    gantryReadCacheBytes: 16 * 1024 * 1024,
    gantryColdReadBytesInFlight: 512 * 1024,
    gantryColdReadBytesPerSecond: 64 * 1024 * 1024,
  };
}
