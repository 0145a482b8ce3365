// RocketMQ: MessageStoreConfig, messages that are delivered later.

import { honoured, later, moot, type Setting } from './setting.ts';

export const DELAY_AND_TIMER: readonly Setting[] = [
  // Delay and timer.
  honoured('flushDelayOffsetInterval', 'long', 10_000, 'ms', 'Time between two saves of the delay offsets.', {
    min: 1,
  }),
  honoured('enableScheduleMessageStats', 'bool', true, '', 'Count what the delay levels deliver.'),
  honoured(
    'enableScheduleAsyncDeliver',
    'bool',
    false,
    '',
    'Whether a delay level goes on while its deliveries wait for the disk. None overtakes another, and a refused one is waited for.',
  ),
  honoured(
    'scheduleAsyncDeliverMaxPendingLimit',
    'int',
    2000,
    'messages',
    'Most deliveries of one level that wait so.',
    { min: 0, live: true },
  ),
  honoured(
    'scheduleAsyncDeliverMaxResendNum2Blocked',
    'int',
    3,
    'tries',
    'Tries of a refused delivery, 100 ms apart, after which the level waits longer from try to try, up to a minute.',
    { min: 0, live: true },
  ),
  honoured('timerWheelEnable', 'bool', true, '', 'Whether messages can have any delay (timer messages).'),
  honoured('timerMaxDelaySec', 'int', 259_200, 's', 'Longest delay.', { min: 0, live: true }),
  honoured(
    'timerPrecisionMs',
    'int',
    1000,
    'ms',
    'Precision of the timer wheel: 100, 200, 500 or 1000, other values are rounded down. Pending messages need the precision that they were sent with.',
    { min: 1 },
  ),
  honoured(
    'timerRollWindowSlot',
    'int',
    172_800,
    'slots',
    'Slots of the wheel that are used before a message goes round.',
  ),
  honoured('mappedFileSizeTimerLog', 'int', 104_857_600, 'bytes', 'Length of one timer log file.', { min: 68 }),
  honoured('timerFlushIntervalMs', 'int', 1000, 'ms', 'Time between two flushes of the timer.', { min: 1 }),
  honoured(
    'timerWheelSnapshotFlush',
    'bool',
    false,
    '',
    'Save the timer wheel as snapshots beside it (timerwheel.POSITION), whole and by a new name each, rather than in place.',
  ),
  honoured('timerWheelSnapshotIntervalMs', 'int', 10_000, 'ms', 'Time between two snapshots.', { min: 1 }),
  honoured(
    'timerCongestNumEachSlot',
    'int',
    2_147_483_647,
    'messages',
    'Messages for one slot after which more are refused.',
  ),
  honoured('timerStopEnqueue', 'bool', false, '', 'Whether the timer takes nothing in.', { live: true }),
  honoured('timerStopDequeue', 'bool', false, '', 'Whether the timer gives nothing out; RocketMQ cannot set it.', {
    live: true,
  }),
  honoured('timerSkipUnknownError', 'bool', false, '', 'Whether the timer goes past what it cannot handle.'),
  moot(
    'timerEnableRetryUntilSuccess',
    'bool',
    false,
    '',
    'Whether the timer tries a delivery for ever, which it does here: a message is never given up because the store cannot take it now.',
  ),
  moot('timerWarmEnable', 'bool', false, '', 'Whether coming slots are read ahead; RocketMQ cannot set it either.'),
  honoured('timerEnableCheckMetrics', 'bool', true, '', "Whether the timer's figures are checked daily."),
  honoured('timerCheckMetricsWhen', 'text', '05', 'hour of day', 'When; RocketMQ cannot set it either.'),
  honoured('timerMetricSmallThreshold', 'int', 1_000_000, 'messages', 'Backlog up to which that check counts exactly.'),
  honoured('timerProgressLogIntervalMs', 'int', 10_000, 'ms', 'Time between two progress lines, at level debug.', {
    min: 1,
  }),
  moot('timerInterceptDelayLevel', 'bool', false, '', 'RocketMQ declares it and never reads it.'),
  moot('timerColdDataCheckIntervalMs', 'int', 60_000, 'ms', 'Java: time between two looks which pages are in memory.'),
  honoured('appendTopicForTimerDeleteKey', 'bool', false, '', 'Whether a cancelling key begins with the topic.'),
  moot('timerGetMessageThreadNum', 'int', 3, 'threads', 'Threads that read due messages.'),
  moot('timerPutMessageThreadNum', 'int', 3, 'threads', 'Threads that deliver them.'),
  moot('timerEnableDisruptor', 'bool', false, '', 'Kind of queue between them; RocketMQ cannot set it either.'),
  later('disappearTimeAfterStart', 'int', -1, 'ms', 'How long a start waits before it registers.', {
    important: true,
  }),
];
