// RocketMQ: MessageStoreConfig, where data lies, what is durable, and how bytes get into the files.

import { honoured, later, moot, mustBeEmpty, type Setting } from './setting.ts';

/** Why what asks for RocksDB refuses the start. */
export const NO_ROCKSDB = 'data in RocksDB cannot be read or written';

export const STORE_FILES: readonly Setting[] = [
  // Where data lies.
  honoured('storePathRootDir', 'text', null, '', 'Directory of the store; unset means ~/store.', { important: true }),
  honoured('storePathCommitLog', 'text', null, '', 'Directory of the CommitLog; unset means commitlog/ in the store.', {
    important: true,
    guard: {
      passes: (value) => typeof value !== 'string' || !value.includes(','),
      why: 'a CommitLog spread over several directories cannot be read or written',
    },
  }),
  later(
    'readOnlyCommitLogStorePaths',
    'text',
    null,
    '',
    'More CommitLog directories that are only read.',
    mustBeEmpty('a CommitLog spread over several directories cannot be read'),
  ),
  later('storePathDLedgerCommitLog', 'text', null, '', 'Directory of a DLedger log.', { important: true }),
  later('storePathEpochFile', 'text', null, '', 'File of the replication epochs.', { important: true }),
  later('storePathBrokerIdentity', 'text', null, '', 'File with the identity a controller gave.', {
    important: true,
  }),
  later('storeType', 'text', 'default', '', 'Where consume queues lie: default (files) or defaultRocksDB.', {
    important: true,
    guard: { passes: (value) => String(value).toLowerCase() === 'default', why: NO_ROCKSDB },
  }),
  honoured(
    'mappedFileSizeCommitLog',
    'int',
    1_073_741_824,
    'bytes',
    'Length of one CommitLog file. It belongs to the files on disk: a store opens only with the size that it was written with.',
    { min: 1024 },
  ),
  honoured(
    'mappedFileSizeConsumeQueue',
    'int',
    6_000_000,
    'bytes',
    'Length of one ConsumeQueue file, rounded up to whole units of 20 bytes. It belongs to the files on disk too.',
    { min: 20 },
  ),

  // What is durable.
  honoured(
    'flushDiskType',
    ['ASYNC_FLUSH', 'SYNC_FLUSH'],
    'ASYNC_FLUSH',
    '',
    'When a send is answered: ASYNC_FLUSH once the message is written, SYNC_FLUSH once the disk has confirmed it. Only SYNC_FLUSH keeps every acknowledged message over a power cut.',
    { important: true },
  ),
  honoured(
    'brokerRole',
    ['ASYNC_MASTER', 'SYNC_MASTER', 'SLAVE'],
    'ASYNC_MASTER',
    '',
    'ASYNC_MASTER or SYNC_MASTER; without replicas the two are the same.',
    {
      important: true,
      guard: {
        passes: (value) => value !== 'SLAVE',
        why: 'following a master is not built, and a slave must not take sends',
      },
    },
  ),
  honoured('flushIntervalCommitLog', 'int', 500, 'ms', 'Time between two flushes with ASYNC_FLUSH.', {
    min: 1,
    important: true,
  }),
  honoured(
    'flushCommitLogLeastPages',
    'int',
    4,
    'pages of 4 KiB',
    'An asynchronous flush waits until so much is unflushed, or until flushCommitLogThoroughInterval is over.',
    { min: 0 },
  ),
  honoured('flushCommitLogThoroughInterval', 'int', 10_000, 'ms', 'After this time anything unflushed is flushed.', {
    min: 0,
  }),
  honoured('flushIntervalConsumeQueue', 'int', 1000, 'ms', 'Time between two flushes of consume queues.', { min: 1 }),
  honoured(
    'flushConsumeQueueLeastPages',
    'int',
    2,
    'pages of 4 KiB',
    'How much of a queue must be unflushed before it is flushed; 0 flushes all of them each flushIntervalConsumeQueue.',
    {
      min: 0,
    },
  ),
  honoured('flushConsumeQueueThoroughInterval', 'int', 60_000, 'ms', 'After this time every queue is flushed.', {
    min: 0,
  }),
  honoured(
    'syncFlushTimeout',
    'int',
    2500,
    'ms',
    "How long a send waits for the disk before it is answered FLUSH_DISK_TIMEOUT. Shorter than RocketMQ's 5000, so that a client sees this answer and not its own time-out of 3 s.",
    { rocketmq: 5000, min: 1 },
  ),
  honoured(
    'flushCommitLogTimed',
    'bool',
    true,
    '',
    'Flush at the times of flushIntervalCommitLog only; false lets wakeFlushWhenPutMessage count.',
    { important: true },
  ),
  honoured(
    'wakeFlushWhenPutMessage',
    'bool',
    false,
    '',
    'Where flushCommitLogTimed is false: a put starts an asynchronous flush, rather than the interval alone.',
    { important: true },
  ),
  moot(
    'enableRunningFlagsInFlush',
    'bool',
    false,
    '',
    'Java: make the store read-only after a failed flush. Here always.',
    {
      important: true,
    },
  ),
  moot('putMessageTimeout', 'int', 8000, 'ms', 'RocketMQ declares it and never reads it.'),

  // How bytes get into the files.
  honoured(
    'gantrySegments',
    ['auto', 'buffered', 'mapped'],
    'auto',
    '',
    'Where appends go: buffered (memory, written once per turn), mapped (pages of the file; Linux, needs koffi) or auto, which takes what serves the flush mode best.',
    { important: true },
  ),
  honoured(
    'writeWithoutMmap',
    'bool',
    false,
    '',
    'Write by file calls and never through mapped pages; switches transientStorePoolEnable off.',
    { important: true },
  ),
  honoured(
    'transientStorePoolEnable',
    'bool',
    false,
    '',
    'Answer a send with ASYNC_FLUSH when it is in memory, and write it a little later: a killed process loses what was not written.',
    { important: true },
  ),
  honoured(
    'transientStorePoolSize',
    'int',
    5,
    'buffers',
    'How much may wait to be written, in lengths of a CommitLog file; beyond it sends are refused. Memory is taken as it is needed.',
    { min: 2 },
  ),
  honoured(
    'fastFailIfNoBufferInStorePool',
    'bool',
    false,
    '',
    'A put that finds that pool exhausted fails for good instead of being told to come again.',
  ),
  honoured('commitIntervalCommitLog', 'int', 200, 'ms', 'Time between two writes out of that pool.', {
    min: 1,
    important: true,
  }),
  honoured(
    'commitCommitLogLeastPages',
    'int',
    4,
    'pages of 4 KiB',
    'Such a write waits until so much is there, or until commitCommitLogThoroughInterval is over.',
    { min: 0 },
  ),
  honoured('commitCommitLogThoroughInterval', 'int', 200, 'ms', 'After this time anything that waits is written.', {
    min: 0,
  }),
  honoured(
    'wakeCommitWhenPutMessage',
    'bool',
    true,
    '',
    'Whether a put starts that write, rather than the interval alone.',
    {
      important: true,
    },
  ),
  honoured(
    'warmMapedFileEnable',
    'bool',
    false,
    '',
    'Fill a file with zeros when it is made ahead of its use, and lock mapped pages into memory.',
  ),
  honoured(
    'flushLeastPagesWhenWarmMapedFile',
    'int',
    4096,
    'pages of 4 KiB',
    'With SYNC_FLUSH, a sync follows each so much of that.',
    { min: 1 },
  ),
];
