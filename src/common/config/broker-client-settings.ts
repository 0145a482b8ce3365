// RocketMQ: BrokerConfig, what producers and consumers meet.

import { honoured, later, moot, mustBeOff, type Setting } from './setting.ts';

export const SENDS_AND_PULLS: readonly Setting[] = [
  // Sends.
  honoured('rejectTransactionMessage', 'bool', false, '', 'Refuse transactional messages.', {
    live: true,
    important: true,
  }),
  honoured('startAcceptSendRequestTimeStamp', 'long', 0, 'ms since 1970', 'Refuse sends before this time.', {
    min: 0,
  }),
  honoured(
    'brokerFastFailureEnable',
    'bool',
    true,
    '',
    'Refuse a send (SYSTEM_BUSY) that waited for waitTimeMillsInSendQueue while the store still does not keep up.',
    { live: true },
  ),
  honoured('waitTimeMillsInSendQueue', 'long', 200, 'ms', 'How long a send may wait so; at most a second counts.', {
    min: 1,
    live: true,
  }),
  moot('waitTimeMillsInPullQueue', 'long', 5000, 'ms', 'Java: how long a pull may wait; none waits so long here.'),
  moot('waitTimeMillsInLitePullQueue', 'long', 5000, 'ms', 'Java: the same for lite pulls.'),
  moot('waitTimeMillsInHeartbeatQueue', 'long', 31_000, 'ms', 'Java: the same for heartbeats.'),
  moot('waitTimeMillsInTransactionQueue', 'long', 3000, 'ms', 'Java: the same for ends of transactions.'),
  moot('waitTimeMillsInAckQueue', 'long', 3000, 'ms', 'Java: the same for acknowledgements.'),
  moot('waitTimeMillsInAdminBrokerQueue', 'long', 5000, 'ms', 'Java: the same for operators.'),
  moot(
    'enableNetWorkFlowControl',
    'bool',
    false,
    '',
    'Java: drop the answer to a pull that its client does not take. Here nothing more is read from such a client until it does.',
  ),
  honoured('storeReplyMessageEnable', 'bool', true, '', 'Store replies to requests, beside handing them over.', {
    live: true,
  }),
  honoured(
    'recallMessageEnable',
    'bool',
    false,
    '',
    'Whether a timer message can be cancelled by the handle that its send was answered with.',
    { live: true },
  ),
  honoured('allowRecallWhenBrokerNotWriteable', 'bool', true, '', 'Whether that works while sends are refused.', {
    live: true,
  }),
  honoured(
    'enableRegisterProducer',
    'bool',
    true,
    '',
    'Keep producers in a table although rejectTransactionMessage is set, so that nobody will be asked about a transaction.',
    { live: true },
  ),

  // Pulls.
  honoured('longPollingEnable', 'bool', true, '', 'Keep a pull that finds nothing until a message comes.', {
    live: true,
  }),
  honoured(
    'shortPollingTimeMills',
    'long',
    1000,
    'ms',
    'How long such a pull is kept when longPollingEnable is false.',
    {
      min: 1,
      live: true,
    },
  ),
  honoured('notifyConsumerIdsChangedEnable', 'bool', true, '', 'Tell a group at once when its members change.', {
    live: true,
  }),
  honoured('enablePropertyFilter', 'bool', false, '', 'Let consumers filter by SQL92 expressions.', { live: true }),
  honoured(
    'filterSupportRetry',
    'bool',
    false,
    '',
    'Judge a message of a retry topic that is read by an SQL92 expression by what its group asks of the topic that it comes from.',
    { live: true },
  ),
  honoured(
    'enableCalcFilterBitMap',
    'bool',
    false,
    '',
    'Note in each ext unit (enableConsumeQueueExt) which SQL92 expressions match, so that pulls pass over the others without reading them.',
    { live: true },
  ),
  honoured(
    'expectConsumerNumUseFilter',
    'int',
    32,
    'groups',
    'Groups that share the bits of that. A change makes the bits that were written meaningless: they are not used then.',
    { min: 1 },
  ),
  honoured(
    'maxErrorRateOfBloomFilter',
    'int',
    20,
    '%',
    'Share of the messages that may be read in vain although the bits are there. A change is one of the bits, too.',
    { min: 1, max: 99 },
  ),
  honoured(
    'filterDataCleanTimeSpan',
    'long',
    86_400_000,
    'ms',
    'How long the SQL92 expressions of a group are kept for after its last client has gone.',
    { min: 0, live: true },
  ),
  honoured('rejectPullConsumerEnable', 'bool', false, '', 'Refuse clients that pull without belonging to a group.', {
    live: true,
  }),
  honoured(
    'disableConsumeIfConsumerReadSlowly',
    'bool',
    false,
    '',
    'Suspend a group that reads far behind the log (consumeEnable=false), until an administrator lets it go on.',
    { live: true },
  ),
  honoured('consumerFallbehindThreshold', 'long', 17_179_869_184, 'bytes', 'How far behind that is.', {
    min: 1,
    live: true,
  }),
  honoured(
    'slaveReadEnable',
    'bool',
    false,
    '',
    'Tell consumers which broker to pull from next: whichBrokerWhenConsumeSlowly of their group where they read what is no longer in memory, else its brokerId.',
    { live: true },
  ),
  honoured('litePullMessageEnable', 'bool', true, '', 'Answer lite pulls.', { live: true }),
  honoured(
    'realTimeNotifyConsumerChange',
    'bool',
    true,
    '',
    'Tell a group of a changed member at once; false: every 15 s.',
    { live: true },
  ),
  honoured('channelExpiredTimeout', 'long', 120_000, 'ms', 'A client without a heartbeat for so long is dropped.', {
    min: 1,
  }),
  moot(
    'subscriptionExpiredTimeout',
    'long',
    600_000,
    'ms',
    'Java: how long a subscription is kept that came with a pull alone; none is kept here.',
  ),
  moot(
    'enableFastChannelEventProcess',
    'bool',
    false,
    '',
    'Java: find the groups of a closed connection by a table. Here always.',
  ),
  honoured('printChannelGroups', 'bool', false, '', 'Log connections that belonged to many groups when they close.', {
    live: true,
  }),
  honoured('printChannelGroupsMinNum', 'int', 5, 'groups', 'As many; below 5 that counts.', { live: true }),
  honoured(
    'gantryRebalanceLockMaxLiveTime',
    'long',
    60_000,
    'ms',
    'How long a queue stays locked for a consumer in order that does not renew; the system property rocketmq.broker.rebalance.lockMaxLiveTime of RocketMQ.',
    { min: 1, live: true },
  ),
  moot(
    'lockInStrictMode',
    'bool',
    false,
    '',
    'Java: lock an ordered queue for a client only if most replicas agree. A broker without replicas, as here, is most of them.',
  ),

  // Consumer offsets.
  honoured('flushConsumerOffsetInterval', 'int', 5000, 'ms', 'Time between two saves of the consumer offsets.', {
    min: 1,
  }),
  later('flushConsumerOffsetHistoryInterval', 'int', 60_000, 'ms', 'RocketMQ declares it and never reads it.'),
  later('persistConsumerOffsetIncrementally', 'bool', false, '', 'Whether only changed offsets are saved, in RocksDB.'),
  honoured(
    'consumerOffsetUpdateVersionStep',
    'long',
    500,
    'updates',
    'Updates of consumer offsets after which the table has a new version.',
    { min: 1 },
  ),
  honoured('delayOffsetUpdateVersionStep', 'long', 200, 'updates', 'The same for delay offsets.', { min: 1 }),
  honoured(
    'useServerSideResetOffset',
    'bool',
    true,
    '',
    'Reset offsets in the broker, so that clients need not take part.',
    { live: true },
  ),
  honoured('enableBroadcastOffsetStore', 'bool', true, '', 'Keep how far each broadcasting client has pulled.', {
    live: true,
  }),
  honoured('broadcastOffsetExpireSecond', 'long', 120, 's', 'How long, once the client is gone.', {
    min: 1,
    live: true,
  }),
  honoured('broadcastOffsetExpireMaxSecond', 'long', 300, 's', 'How long for one that is there and does not pull.', {
    min: 1,
    live: true,
  }),

  // Who may connect.
  later('aclEnable', 'bool', false, '', 'Whether access is checked in the old way (before 5.3).', {
    important: true,
    ...mustBeOff('access would not be checked'),
  }),
];
