// RocketMQ: MessageStoreConfig, what may be put, and how it is read again, by offset and by key.

import { honoured, moot, type Setting } from './setting.ts';

export const STORE_PUTS_AND_READS: readonly Setting[] = [
  // What a put may carry, and when it is refused.
  honoured('maxMessageSize', 'int', 4_194_304, 'bytes', 'Largest body of a message, and of a batch on the wire.', {
    min: 1,
  }),
  honoured(
    'osPageCacheBusyTimeOutMills',
    'long',
    1000,
    'ms',
    'Sends are refused with PAGE_CACHE_BUSY while an append has waited longer than this for the disk.',
    { min: 1 },
  ),
  honoured(
    'autoMessageVersionOnTopicLen',
    'bool',
    true,
    '',
    'Write records of version 2 for topic names longer than 127 bytes; false refuses such names.',
  ),
  honoured('enabledAppendPropCRC', 'bool', false, '', 'Add a checksum over the properties to every record.'),
  honoured('forceVerifyPropCRC', 'bool', false, '', 'Check that checksum whenever a record is checked.'),
  honoured(
    'messageDelayLevel',
    'text',
    '1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h',
    '',
    'The delay levels, from level 1 on: numbers with s, m, h or d.',
  ),
  moot('maxTopicLength', 'int', 127, 'bytes', 'Deprecated in RocketMQ, and not read there.'),
  moot('putMsgIndexHightWater', 'int', 600_000, '', 'RocketMQ declares it and never reads it.'),
  moot('maxAsyncPutMessageRequests', 'int', 5000, '', 'RocketMQ declares it and never reads it.'),
  honoured(
    'gantryDiskFullRatio',
    'double',
    null,
    'fraction',
    'Used part of the disk from which sends are refused, instead of diskSpaceWarningLevelRatio, also above 0.9; reads go on.',
    { min: 0.01, max: 1 },
  ),
  honoured(
    'gantryDamagedRecord',
    ['refuse', 'cut', 'skip'],
    'refuse',
    '',
    'A damaged record that was durable: refuse the start, cut the log there as RocketMQ does, or skip it by a marked record in its place.',
  ),
  honoured(
    'gantryMaxDispatchBehindBytes',
    'long',
    268_435_456,
    'bytes',
    'Sends are refused with the cause while more than this waits to be dispatched into queues and index.',
    { min: 1_048_576 },
  ),

  // Reading.
  honoured(
    'maxTransferBytesOnMessageInMemory',
    'int',
    262_144,
    'bytes',
    'Most bytes of one pull near the end of the log.',
    {
      min: 1,
      important: true,
    },
  ),
  honoured('maxTransferCountOnMessageInMemory', 'int', 32, 'messages', 'Most messages of such a pull.', {
    min: 1,
    important: true,
  }),
  honoured('maxTransferBytesOnMessageInDisk', 'int', 65_536, 'bytes', 'Most bytes of one pull of old messages.', {
    min: 1,
    important: true,
  }),
  honoured('maxTransferCountOnMessageInDisk', 'int', 8, 'messages', 'Most messages of such a pull.', {
    min: 1,
    important: true,
  }),
  honoured(
    'accessMessageInMemoryMaxRatio',
    'int',
    40,
    '% of memory',
    'How far behind the end of the log a message counts as being in memory, for the four limits above.',
    { min: 0, max: 100, important: true },
  ),
  honoured(
    'maxFilterMessageSize',
    'int',
    16_000,
    'bytes',
    'Bytes of consume queue, 20 a message, that one pull looks through for messages that match its filter.',
    { min: 20 },
  ),
  honoured('readUnCommitted', 'bool', false, '', 'Let consumers see messages that the disk has not confirmed yet.'),
  honoured(
    'gantryReadCacheBytes',
    'long',
    16_777_216,
    'bytes',
    'Memory for blocks of old messages that consumers read.',
    {
      min: 1_048_576,
    },
  ),
  honoured(
    'gantryColdReadBytesInFlight',
    'long',
    524_288,
    'bytes',
    'Old messages that are being read from disk at the same time; while somebody waits for a sync, one read at a time.',
    { min: 65_536 },
  ),
  honoured(
    'gantryColdReadBytesPerSecond',
    'long',
    67_108_864,
    'bytes a second',
    'Old messages that are read from disk while new ones are being written; 0 means no limit. Without writes there is none.',
    { min: 0 },
  ),

  // Look-up by key.
  honoured('messageIndexEnable', 'bool', true, '', 'Keep an index, so that messages are found by key.', {
    important: true,
  }),
  honoured('indexFileWriteEnable', 'bool', true, '', 'Write index files; false stops adding to them.'),
  honoured('indexFileReadEnable', 'bool', true, '', 'Answer look-ups from index files.'),
  honoured(
    'maxHashSlotNum',
    'int',
    5_000_000,
    'slots',
    'Hash slots of one index file. It belongs to the files on disk.',
    {
      min: 1,
    },
  ),
  honoured('maxIndexNum', 'int', 20_000_000, 'entries', 'Entries of one index file. It belongs to the files on disk.', {
    min: 2,
  }),
  honoured('maxMsgsNumBatch', 'int', 64, 'messages', 'Most messages that one look-up by key answers.', { min: 1 }),
  honoured('defaultQueryMaxNum', 'int', 32, 'messages', 'As many are answered when the request names no number.', {
    min: 1,
  }),
  moot(
    'messageIndexSafe',
    'bool',
    false,
    '',
    'Java: begin the scan after a kill where the index was last flushed. Here it always begins where something is missing.',
    { important: true },
  ),
];
