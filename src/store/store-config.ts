// The settings of MessageStoreConfig that the store reads, with RocketMQ's names, defaults and units. The table of all keys that
// a broker.conf may hold, honoured or not, is src/common/config (parsing, help and checks come from it).

/** RocketMQ: FlushDiskType. */
export type FlushDiskType = 'ASYNC_FLUSH' | 'SYNC_FLUSH';
/** RocketMQ: BrokerRole. */
export type BrokerRole = 'ASYNC_MASTER' | 'SYNC_MASTER' | 'SLAVE';

export type DamagedRecordPolicy = 'refuse' | 'cut' | 'skip';
/** Where appends go: memory that a commit writes, or the pages of the files themselves; `auto` chooses by flush mode. */
export type SegmentKind = 'auto' | 'buffered' | 'mapped';

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
  /** Whether a put starts such a flush, once the least pages are there: the second, unless the first is set. */
  flushCommitLogTimed: boolean;
  wakeFlushWhenPutMessage: boolean;
  flushIntervalConsumeQueue: number;
  flushConsumeQueueLeastPages: number;
  flushConsumeQueueThoroughInterval: number;
  gantrySegments: SegmentKind;
  /** Appends are written by calls on the file, never through mapped pages; switches the pool off. */
  writeWithoutMmap: boolean;
  /** Appends are answered (asynchronous flush) when they are in memory, and written later, within the buffers of a pool. */
  transientStorePoolEnable: boolean;
  /** Buffers of that pool, each of the length of a CommitLog file. */
  transientStorePoolSize: number;
  fastFailIfNoBufferInStorePool: boolean;
  /** The pool is written each so many ms, when so many 4 KiB pages wait, or when the last time was so many ms ago. */
  commitIntervalCommitLog: number;
  commitCommitLogLeastPages: number;
  commitCommitLogThoroughInterval: number;
  wakeCommitWhenPutMessage: boolean;
  /** Fills a file with zeros when it is made ahead, and locks mapped pages. */
  warmMapedFileEnable: boolean;
  /** With sync flush: 4 KiB pages of such a file between two syncs. */
  flushLeastPagesWhenWarmMapedFile: number;
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
  /** A start that has much to look at has threads parse the log. */
  enableBuildConsumeQueueConcurrently: boolean;
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
  /** Most ConsumeQueue files that one pull may look at until something matches. */
  travelCqFileNumWhenGetMessage: number;
  /** Fraction (percent) of memory taken as "in memory" when a pull chooses its limits. */
  accessMessageInMemoryMaxRatio: number;
  /** Whether reads of old data are added up (`GetResult.coldBytes`), and beyond which percentage of memory data is old. */
  coldDataFlowControlEnable: boolean;
  accessMessageInMemoryHotRatio: number;
  /** Whether the block behind the one that is being read is fetched too. */
  dataReadAheadEnable: boolean;
  messageDelayLevel: string;
  /** Topics with the attribute cleanup.policy=COMPACTION: whether they are compacted, and bytes of a file of each kind. */
  enableCompaction: boolean;
  compactionMappedFileSize: number;
  compactionCqMappedFileSize: number;
  /** Ms between two compactions of a queue; up to as much again is added. */
  compactionScheduleInternal: number;
  /** Compactions at once, and the bytes of keys that they may hold together. */
  compactionThreadNum: number;
  maxOffsetMapSize: number;
  /** Retention (src/store/retention): hours that a CommitLog file is kept, hours of the day when old ones go, separated by `;`. */
  fileReservedTime: number;
  deleteWhen: string;
  /** Percents of the partition from which on: expired files go at any hour; the oldest go before their time; writes are refused. */
  diskMaxUsedSpaceRatio: number;
  diskSpaceCleanForciblyRatio: number;
  diskSpaceWarningLevelRatio: number;
  cleanFileForciblyEnable: boolean;
  /** Brokers that share the partition: with more than one, old files go by what this store holds of its share of it, and by force from this fraction on. */
  replicasPerDiskPartition: number;
  logicalDiskSpaceCleanForciblyThreshold: number;
  /** Ms between two looks for old files, most files of one look, ms after each CommitLog and ConsumeQueue file. */
  cleanResourceInterval: number;
  deleteFileBatchMax: number;
  deleteCommitLogFilesInterval: number;
  deleteConsumeQueueFilesInterval: number;
  /** Ms for which a reader keeps an expired file, and ms until a file that could not be removed is tried again. */
  destroyMapedFileIntervalForcibly: number;
  redeleteHangedFileInterval: number;
  /** Fraction of the partition at which writes are refused, instead of diskSpaceWarningLevelRatio; null: that one counts. */
  gantryDiskFullRatio: number | null;
  /** What a start does with a damaged record that was durable: refuse, cut the log there, or put a marked record in its place. */
  gantryDamagedRecord: DamagedRecordPolicy;
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
    flushCommitLogTimed: true,
    wakeFlushWhenPutMessage: false,
    flushIntervalConsumeQueue: 1000,
    flushConsumeQueueLeastPages: 2,
    flushConsumeQueueThoroughInterval: 60_000,
    gantrySegments: 'auto',
    writeWithoutMmap: false,
    transientStorePoolEnable: false,
    transientStorePoolSize: 5,
    fastFailIfNoBufferInStorePool: false,
    commitIntervalCommitLog: 200,
    commitCommitLogLeastPages: 4,
    commitCommitLogThoroughInterval: 200,
    wakeCommitWhenPutMessage: true,
    warmMapedFileEnable: false,
    flushLeastPagesWhenWarmMapedFile: 4096,
    syncFlushTimeout: 2500,
    osPageCacheBusyTimeOutMills: 1000,
    maxMessageSize: 4_194_304,
    autoMessageVersionOnTopicLen: true,
    enabledAppendPropCRC: false,
    forceVerifyPropCRC: false,
    checkCRCOnRecover: true,
    enableAcceleratedRecovery: false,
    enableBuildConsumeQueueConcurrently: false,
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
    travelCqFileNumWhenGetMessage: 1,
    accessMessageInMemoryMaxRatio: 40,
    coldDataFlowControlEnable: false,
    accessMessageInMemoryHotRatio: 26,
    dataReadAheadEnable: true,
    messageDelayLevel: '1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h',
    enableCompaction: true,
    compactionMappedFileSize: 104_857_600,
    compactionCqMappedFileSize: 10_485_760,
    compactionScheduleInternal: 900_000,
    compactionThreadNum: 6,
    maxOffsetMapSize: 104_857_600,
    fileReservedTime: 72,
    deleteWhen: '04',
    diskMaxUsedSpaceRatio: 75,
    diskSpaceCleanForciblyRatio: 85,
    diskSpaceWarningLevelRatio: 90,
    cleanFileForciblyEnable: true,
    replicasPerDiskPartition: 1,
    logicalDiskSpaceCleanForciblyThreshold: 0.8,
    cleanResourceInterval: 10_000,
    deleteFileBatchMax: 10,
    deleteCommitLogFilesInterval: 100,
    deleteConsumeQueueFilesInterval: 100,
    destroyMapedFileIntervalForcibly: 120_000,
    redeleteHangedFileInterval: 120_000,
    gantryDiskFullRatio: null,
    gantryDamagedRecord: 'refuse',
    gantryMaxDispatchBehindBytes: 256 * 1024 * 1024,
    gantryQueuesLookedAt: 1000,
    gantryReadCacheBytes: 16 * 1024 * 1024,
    gantryColdReadBytesInFlight: 512 * 1024,
    gantryColdReadBytesPerSecond: 64 * 1024 * 1024,
  };
}
