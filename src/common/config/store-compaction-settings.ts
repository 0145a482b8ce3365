// RocketMQ: MessageStoreConfig, topics that are compacted by key.

import { honoured, type Setting } from './setting.ts';

export const COMPACTION: readonly Setting[] = [
  honoured(
    'enableCompaction',
    'bool',
    true,
    '',
    'Whether topics with the attribute cleanup.policy=COMPACTION are compacted: pulls get the newest message of each key. Off: they are topics like others.',
  ),
  honoured(
    'compactionMappedFileSize',
    'int',
    104_857_600,
    'bytes',
    'Length of one file of a compaction log, made a multiple of the next. It belongs to the files on disk.',
    { min: 1 },
  ),
  honoured(
    'compactionCqMappedFileSize',
    'int',
    10_485_760,
    'bytes',
    'Length of one of its queue files, rounded down to whole units of 46 bytes. It belongs to the files on disk.',
    { min: 92 },
  ),
  honoured(
    'compactionScheduleInternal',
    'int',
    900_000,
    'ms',
    'Time between two compactions of a queue; a random part of as much again is added.',
    { min: 1 },
  ),
  honoured(
    'maxOffsetMapSize',
    'int',
    104_857_600,
    'bytes',
    'Memory for the keys of compactions, 24 bytes each, shared by compactionThreadNum. What finds no room is compacted next time.',
    { min: 0 },
  ),
  honoured(
    'compactionThreadNum',
    'int',
    6,
    'compactions',
    'Compactions at once, at most as many as there are processors. They run between other work, without threads of their own.',
  ),
];
