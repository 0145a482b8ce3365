// RocketMQ: MessageStoreConfig, what a start looks at, and when files go.

import { honoured, moot, type Setting } from './setting.ts';

export const RECOVERY_AND_RETENTION: readonly Setting[] = [
  // Recovery.
  honoured('checkCRCOnRecover', 'bool', true, '', 'Check the body of every record that a start looks at.'),
  moot(
    'checkCommitLogOffsetOnRecover',
    'bool',
    false,
    '',
    'Java: compare the offset in a record with its place at a start. Here always.',
  ),
  moot(
    'commitLogRecoverMaxNum',
    'int',
    10,
    'files',
    'Java: most CommitLog files that a start scans. Here the scan begins where something is missing.',
  ),
  honoured(
    'enableAcceleratedRecovery',
    'bool',
    false,
    '',
    'After an unclean stop, begin the scan of the CommitLog at the place dispatched last and not at the start of its file.',
  ),
  honoured(
    'gantryQueuesLookedAt',
    'int',
    1000,
    'queues',
    'With more queues than this, a start takes queues that are known to be durable as they were saved, without reading their files.',
    { min: 0 },
  ),
  moot('recheckReputOffsetFromCq', 'bool', false, '', 'Java: begin to dispatch where the queues end. Here always.'),
  moot(
    'enableLogConsumeQueueRepeatedlyBuildWhenRecover',
    'bool',
    false,
    '',
    'Java: log each unit that a start would write twice. Here the report of the start counts what was dispatched again.',
  ),
  moot('maxRecoveryCommitlogFiles', 'int', 30, 'files', 'RocketMQ declares it and never reads it.'),

  // Retention.
  honoured(
    'diskMaxUsedSpaceRatio',
    'int',
    75,
    '%',
    'Used part of the disk from which expired files go at any hour; below 10 and above 95 those count.',
    { min: 1, max: 100, live: true },
  ),
  honoured(
    'fileReservedTime',
    'int',
    72,
    'h',
    'How long a CommitLog file is kept, from its last write on. Its queue and index entries go with it.',
    { important: true, min: 0, live: true },
  ),
  honoured(
    'deleteWhen',
    'text',
    '04',
    'hour of day',
    'When expired files go, in local time; several with a semicolon.',
    {
      important: true,
      live: true,
    },
  ),
  honoured(
    'cleanFileForciblyEnable',
    'bool',
    true,
    '',
    'Whether a disk above diskSpaceCleanForciblyRatio deletes files before their time.',
    {
      important: true,
      live: true,
    },
  ),
  honoured(
    'diskSpaceWarningLevelRatio',
    'int',
    90,
    '%',
    'Used part of the disk from which sends are refused; below 35 and above 90 those count.',
    { live: true },
  ),
  honoured(
    'diskSpaceCleanForciblyRatio',
    'int',
    85,
    '%',
    'Used part of the disk from which the oldest files go before their time; below 30 and above 85 those count.',
    { live: true },
  ),
  honoured('cleanResourceInterval', 'int', 10_000, 'ms', 'Time between two looks for old files.', { min: 1 }),
  honoured('deleteFileBatchMax', 'int', 10, 'files', 'Most CommitLog files that one look deletes.', {
    important: true,
    min: 1,
    live: true,
  }),
  honoured('deleteCommitLogFilesInterval', 'int', 100, 'ms', 'Pause after a deleted CommitLog file.', {
    min: 0,
    live: true,
  }),
  honoured('deleteConsumeQueueFilesInterval', 'int', 100, 'ms', 'Pause after the deleted files of a queue.', {
    min: 0,
    live: true,
  }),
  honoured(
    'destroyMapedFileIntervalForcibly',
    'int',
    120_000,
    'ms',
    'How long a read that is under way keeps an expired file.',
    { min: 0, live: true },
  ),
  honoured(
    'redeleteHangedFileInterval',
    'int',
    120_000,
    'ms',
    'Time until a file that could not be deleted is tried again.',
    {
      min: 1,
      live: true,
    },
  ),
  honoured(
    'replicasPerDiskPartition',
    'int',
    1,
    'brokers',
    'How many brokers share the partition. With more than one, diskMaxUsedSpaceRatio is of an equal share of it, and of what this store has written.',
    { min: 1 },
  ),
  honoured(
    'logicalDiskSpaceCleanForciblyThreshold',
    'double',
    0.8,
    'fraction',
    'Used part of that share from which the oldest files go before their time.',
    { min: 0, live: true },
  ),
  moot(
    'correctLogicMinOffsetSleepInterval',
    'int',
    1,
    'ms',
    'Java: pause between two corrections of a minimum offset; here all are corrected with each removal.',
  ),
  moot('correctLogicMinOffsetForceInterval', 'int', 300_000, 'ms', 'Java: time after which they are corrected anyway.'),
  moot('maxBatchDeleteFilesNum', 'int', 50, 'files', 'RocketMQ declares it and never reads it.'),
  moot('enableCleanExpiredOffset', 'bool', false, '', 'RocketMQ declares it and never reads it.', {
    important: true,
  }),
];
