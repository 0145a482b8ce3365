// The settings of BrokerConfig (and the few of MessageStoreConfig) that the broker's own code reads, with RocketMQ's names, defaults
// and units. The table of every key that a broker.conf may hold is in src/common/config; what it parses is handed in here.

import { defaultLiteSettings, type LiteSettings } from './lite/lite-settings.ts';

export interface BrokerConfig extends LiteSettings {
  brokerName: string;
  brokerClusterName: string;
  /** 0 is the master. */
  brokerId: number;
  /** The address that clients are told to dial. */
  brokerIP1: string;
  listenPort: number;
  /** Permission bits of the whole broker: 4 read, 2 write. */
  brokerPermission: number;
  /** Queues of TBW102 and of topics that take after it. */
  defaultTopicQueueNums: number;
  autoCreateTopicEnable: boolean;
  /** Whether a topic that a send has created is created at the other masters of the cluster, too, where they allow it. */
  gantrySpreadNewTopics: boolean;
  clusterTopicEnable: boolean;
  brokerTopicEnable: boolean;
  autoCreateSubscriptionGroup: boolean;
  /** Whether groups that start with CID_RMQ_SYS_ are created on first use even with `autoCreateSubscriptionGroup` off. */
  enableCreateSysGroup: boolean;
  traceTopicEnable: boolean;
  msgTraceTopicName: string;
  /** What producers are told about tracing, in every answer to a send and in every stored message. */
  traceOn: boolean;
  regionId: string;
  /** Figures (traffic-stats.ts): of the delay levels' queues; which go with their topic or group, or when they stand still (min, -1 never). */
  enableDetailStat: boolean;
  autoDeleteUnusedStats: boolean;
  maxStatsIdleTimeInMinutes: number;
  /** Whether each light queue has figures of its own. */
  enableLmqStats: boolean;
  /** Whether producers are kept in a table, by which transactions are asked about. */
  enableRegisterProducer: boolean;
  /** Whether the thresholds of groups that read old data are found, and by the errors of ten windows or by the last one alone. */
  coldCtrStrategyEnable: boolean;
  usePIDColdCtrStrategy: boolean;
  /** Old bytes that one group, and all together, may read in a window of 5 s. */
  cgColdReadThreshold: number;
  globalColdReadThreshold: number;
  /** Whether a send is refused that waited so many ms for a store that still does not keep up. */
  brokerFastFailureEnable: boolean;
  waitTimeMillsInSendQueue: number;
  /** Whether a reply is stored, beside being handed to the client that waits for it. */
  storeReplyMessageEnable: boolean;
  longPollingEnable: boolean;
  shortPollingTimeMills: number;
  litePullMessageEnable: boolean;
  notifyConsumerIdsChangedEnable: boolean;
  /** False: a changed consumer list is told every 15 s instead of at once. */
  realTimeNotifyConsumerChange: boolean;
  rejectPullConsumerEnable: boolean;
  /** Whether a group that reads more than so many bytes behind the log's end is suspended. */
  disableConsumeIfConsumerReadSlowly: boolean;
  consumerFallbehindThreshold: number;
  /** Whether consumers may filter by SQL92. */
  enablePropertyFilter: boolean;
  /** Whether the messages of a retry topic are judged by what their group asks of the topic that they come from. */
  filterSupportRetry: boolean;
  /** Whether ext units get filter bits; how many groups share them, and at which error rate in percent. */
  enableCalcFilterBitMap: boolean;
  expectConsumerNumUseFilter: number;
  maxErrorRateOfBloomFilter: number;
  /** Ms that the filter of a group is kept for after its last client has gone. */
  filterDataCleanTimeSpan: number;
  /** Ms between two saves of consumerOffset.json. */
  flushConsumerOffsetInterval: number;
  /** Ms between two saves of delayOffset.json. */
  flushDelayOffsetInterval: number;
  /** Commits after which the offsets' DataVersion moves on. */
  consumerOffsetUpdateVersionStep: number;
  delayOffsetUpdateVersionStep: number;
  /** Whether a delay level reads on while deliveries wait for the disk. */
  /** Whether what the delay levels deliver is counted. */
  enableScheduleMessageStats: boolean;
  enableScheduleAsyncDeliver: boolean;
  /** Deliveries of one level that may wait so. */
  scheduleAsyncDeliverMaxPendingLimit: number;
  /** Tries of a refused delivery until the waits between them grow. */
  scheduleAsyncDeliverMaxResendNum2Blocked: number;
  /** Ms that a lock of a queue lives without renewal. */
  gantryRebalanceLockMaxLiveTime: number;
  useServerSideResetOffset: boolean;
  /** Whether offsets of broadcasting clients are kept, and for how long: of clients that are gone, and that are still connected. */
  enableBroadcastOffsetStore: boolean;
  broadcastOffsetExpireSecond: number;
  broadcastOffsetExpireMaxSecond: number;
  /** Whether pulls are told which broker of the group to ask next: the group's own settings say so. */
  slaveReadEnable: boolean;
  /** Ms without a heartbeat until a consumer's connection is closed. */
  channelExpiredTimeout: number;
  /** Whether the closing of a connection with so many groups is logged. */
  printChannelGroups: boolean;
  printChannelGroupsMinNum: number;
  validateSystemTopicWhenUpdateTopic: boolean;
  enableMixedMessageType: boolean;
  clearRetryTopicWhenDeleteTopic: boolean;
  splitMetadataSize: number;
  enableSplitMetadata: boolean;
  configBlackList: string;
  reviveQueueNum: number;
  /** Whether a group that begins at the end takes a young queue from its start. */
  initPopOffsetByCheckMsgInMem: boolean;
  /** Which retry topics of pops are written, and whether those of the old kind are read as well. */
  retrieveMessageFromPopRetryTopicV1: boolean;
  enableRetryTopicV2: boolean;
  /** Percent of pops that look at retries first, and the same for topics with priorities. */
  popFromRetryProbability: number;
  popFromRetryProbabilityForPriority: number;
  /** Whether the highest queue comes first. */
  priorityOrderAsc: boolean;
  /** Messages of a queue under way after which it is left out, and whether it is. */
  popInflightMessageThreshold: number;
  enablePopMessageThreshold: boolean;
  /** Whether a retried message keeps its retry topic's name. */
  popResponseReturnActualRetryTopic: boolean;
  /** Whether pops and their acknowledgements meet in memory. */
  enablePopBufferMerge: boolean;
  /** Ms that a pop stays there, and ms before its messages come back at which it leaves. */
  popCkStayBufferTime: number;
  popCkStayBufferTimeOut: number;
  /** Most pops there, altogether and of one queue. */
  popCkMaxBufferSize: number;
  popCkOffsetMaxQueueSize: number;
  /** Whether the acknowledgements of a pop that leaves are one record. */
  enablePopBatchAck: boolean;
  /** Ms between two looks at the revive topic, how many times that at most while nothing comes, and the longest look. */
  reviveInterval: number;
  reviveMaxSlow: number;
  reviveScanTime: number;
  /** Whether pops of a deleted group are dropped, and those that were tried 17 times in vain. */
  popReviveSkipIfGroupAbsent: boolean;
  skipWhenCKRePutReachMaxTimes: boolean;
  /** Whether pop's retry topics have a queue for each of their topic. */
  useSeparateRetryQueue: boolean;
  enablePopLog: boolean;
  /** Ms after a start in which nothing is delivered by the timer or comes back, and no period registers; below 1: none. */
  disappearTimeAfterStart: number;
  timerWheelEnable: boolean;
  timerPrecisionMs: number;
  timerMaxDelaySec: number;
  timerRollWindowSlot: number;
  mappedFileSizeTimerLog: number;
  timerFlushIntervalMs: number;
  /** Whether the wheel is saved as snapshots, and the ms between two; ms between two lines about its progress. */
  timerWheelSnapshotFlush: boolean;
  timerWheelSnapshotIntervalMs: number;
  timerProgressLogIntervalMs: number;
  timerCongestNumEachSlot: number;
  timerStopEnqueue: boolean;
  timerStopDequeue: boolean;
  timerSkipUnknownError: boolean;
  timerEnableCheckMetrics: boolean;
  timerCheckMetricsWhen: string;
  timerMetricSmallThreshold: number;
  appendTopicForTimerDeleteKey: boolean;
  /** How long a request for a static topic waits for the broker that it is forwarded to, ms. */
  forwardTimeout: number;
  /** Whether a send whose message is of another type than its topic (message.type) is refused, as a proxy refuses it. */
  gantryTopicMessageTypeCheck: boolean;
  /** Whether timer messages can be cancelled by the handle of their send. */
  recallMessageEnable: boolean;
  allowRecallWhenBrokerNotWriteable: boolean;
  startAcceptSendRequestTimeStamp: number;
  rejectTransactionMessage: boolean;
  /**
   * Whether a message whose UNIQ_KEY (or KEYS) was sent to the same topic within the window is answered with the place of the first one
   * instead of being stored again; how long and in how many bytes that is remembered.
   */
  gantrySendDeduplicationEnable: boolean;
  gantrySendDeduplicationKey: string;
  gantrySendDeduplicationWindowMs: number;
  gantrySendDeduplicationMaxBytes: number;
  /** Ms: age at which an open transaction is first asked about, and the time between two rounds of asking. */
  transactionTimeOut: number;
  transactionCheckInterval: number;
  /** How often it is asked about. */
  transactionCheckMax: number;
  /** Bytes of a record of ended transactions, and ms between two of them. */
  transactionOpMsgMaxSize: number;
  transactionOpBatchInterval: number;
  /** Ms between two saves of the counts. */
  transactionMetricFlushInterval: number;
  /** Ms between two registrations with the name servers, and how long one may take. */
  registerNameServerPeriod: number;
  registerBrokerTimeoutMills: number;
  /** False: a registration is sent only if a name server holds another version. */
  forceRegister: boolean;
  /** True: a new topic is registered alone (code 217) instead of with the broker. */
  enableSingleTopicRegister: boolean;
  /**
   * What a group that has no offset yet is told of a young queue (minimum 0, first message recent). True: offset 0, as RocketMQ does,
   * so that even "from last" begins at the first message, also one that comes while the client still asks. False: "not found", and the client's own rule decides.
   */
  gantryYoungQueueFromZero: boolean;
  /** False: each client that asks is given all queues. */
  serverLoadBalancerEnable: boolean;
  /** Ms between two looks at the routes of topics that clients ask their queues of. */
  loadBalancePollNameServerInterval: number;
  /** How clients that ask fetch messages, and how many of them share a queue with POP (0 or less: all), unless an administrator has set it. */
  defaultMessageRequestMode: 'PULL' | 'POP';
  defaultPopShareQueueNum: number;
  /** Pops that may wait for one queue, queues that they may wait for, and pops that may wait altogether. */
  popPollingSize: number;
  popPollingMapSize: number;
  maxPopPollingSize: number;
  /** Queue offsets by which a waiting pop looks, even at messages that are not for it; 0: never. */
  popLongPollingForceNotifyInterval: number;
  /** Whether pops that wait for an ordered queue are woken when the time of what was popped before is over. */
  enableNotifyAfterPopOrderLockRelease: boolean;
  /** Whether proxies are told of messages only that match, where fewer than so many wait in a queue. */
  useMessageFilterForNotification: boolean;
  maxMessageFilterNumForNotification: number;
}

/** RocketMQ's defaults (5.5.0); the names and the address are placeholders until the start fills them in. */
export function defaultBrokerConfig(): BrokerConfig {
  return {
    brokerName: 'broker-a',
    brokerClusterName: 'DefaultCluster',
    brokerId: 0,
    brokerIP1: '127.0.0.1',
    listenPort: 10911,
    brokerPermission: 6,
    defaultTopicQueueNums: 8,
    autoCreateTopicEnable: true,
    gantrySpreadNewTopics: true,
    clusterTopicEnable: true,
    brokerTopicEnable: true,
    autoCreateSubscriptionGroup: true,
    enableCreateSysGroup: true,
    traceTopicEnable: false,
    msgTraceTopicName: 'RMQ_SYS_TRACE_TOPIC',
    traceOn: true,
    regionId: 'DefaultRegion',
    enableDetailStat: true,
    autoDeleteUnusedStats: true,
    maxStatsIdleTimeInMinutes: -1,
    enableLmqStats: false,
    enableRegisterProducer: true,
    coldCtrStrategyEnable: false,
    usePIDColdCtrStrategy: true,
    cgColdReadThreshold: 3 * 1024 * 1024,
    globalColdReadThreshold: 100 * 1024 * 1024,
    brokerFastFailureEnable: true,
    waitTimeMillsInSendQueue: 200,
    storeReplyMessageEnable: true,
    longPollingEnable: true,
    shortPollingTimeMills: 1000,
    litePullMessageEnable: true,
    notifyConsumerIdsChangedEnable: true,
    realTimeNotifyConsumerChange: true,
    rejectPullConsumerEnable: false,
    disableConsumeIfConsumerReadSlowly: false,
    consumerFallbehindThreshold: 16 * 1024 ** 3,
    enablePropertyFilter: false,
    filterSupportRetry: false,
    enableCalcFilterBitMap: false,
    expectConsumerNumUseFilter: 32,
    maxErrorRateOfBloomFilter: 20,
    filterDataCleanTimeSpan: 86_400_000,
    flushConsumerOffsetInterval: 5000,
    flushDelayOffsetInterval: 10_000,
    consumerOffsetUpdateVersionStep: 500,
    delayOffsetUpdateVersionStep: 200,
    enableScheduleMessageStats: true,
    enableScheduleAsyncDeliver: false,
    scheduleAsyncDeliverMaxPendingLimit: 2000,
    scheduleAsyncDeliverMaxResendNum2Blocked: 3,
    gantryRebalanceLockMaxLiveTime: 60_000,
    useServerSideResetOffset: true,
    enableBroadcastOffsetStore: true,
    broadcastOffsetExpireSecond: 120,
    broadcastOffsetExpireMaxSecond: 300,
    slaveReadEnable: false,
    channelExpiredTimeout: 120_000,
    printChannelGroups: false,
    printChannelGroupsMinNum: 5,
    validateSystemTopicWhenUpdateTopic: true,
    enableMixedMessageType: false,
    clearRetryTopicWhenDeleteTopic: true,
    splitMetadataSize: 2000,
    enableSplitMetadata: true,
    configBlackList: 'configBlackList;brokerConfigPath',
    reviveQueueNum: 8,
    initPopOffsetByCheckMsgInMem: true,
    retrieveMessageFromPopRetryTopicV1: true,
    enableRetryTopicV2: false,
    popFromRetryProbability: 20,
    popFromRetryProbabilityForPriority: 0,
    priorityOrderAsc: true,
    popInflightMessageThreshold: 10_000,
    enablePopMessageThreshold: false,
    popResponseReturnActualRetryTopic: false,
    enablePopBufferMerge: false,
    popCkStayBufferTime: 10_000,
    popCkStayBufferTimeOut: 3000,
    popCkMaxBufferSize: 200_000,
    popCkOffsetMaxQueueSize: 20_000,
    enablePopBatchAck: false,
    reviveInterval: 1000,
    reviveMaxSlow: 3,
    reviveScanTime: 10_000,
    popReviveSkipIfGroupAbsent: true,
    skipWhenCKRePutReachMaxTimes: false,
    useSeparateRetryQueue: false,
    enablePopLog: false,
    disappearTimeAfterStart: -1,
    timerWheelEnable: true,
    timerPrecisionMs: 1000,
    timerMaxDelaySec: 259_200,
    timerRollWindowSlot: 172_800,
    mappedFileSizeTimerLog: 104_857_600,
    timerFlushIntervalMs: 1000,
    timerWheelSnapshotFlush: false,
    timerWheelSnapshotIntervalMs: 10_000,
    timerProgressLogIntervalMs: 10_000,
    timerCongestNumEachSlot: 2_147_483_647,
    timerStopEnqueue: false,
    timerStopDequeue: false,
    timerSkipUnknownError: false,
    timerEnableCheckMetrics: true,
    timerCheckMetricsWhen: '05',
    timerMetricSmallThreshold: 1_000_000,
    appendTopicForTimerDeleteKey: false,
    forwardTimeout: 3000,
    gantryTopicMessageTypeCheck: false,
    recallMessageEnable: false,
    allowRecallWhenBrokerNotWriteable: true,
    startAcceptSendRequestTimeStamp: 0,
    rejectTransactionMessage: false,
    gantrySendDeduplicationEnable: false,
    gantrySendDeduplicationKey: 'UNIQ_KEY',
    gantrySendDeduplicationWindowMs: 600_000,
    gantrySendDeduplicationMaxBytes: 64 * 1024 * 1024,
    transactionTimeOut: 6000,
    transactionCheckInterval: 30_000,
    transactionCheckMax: 15,
    transactionOpMsgMaxSize: 4096,
    transactionOpBatchInterval: 3000,
    transactionMetricFlushInterval: 10_000,
    registerNameServerPeriod: 30_000,
    registerBrokerTimeoutMills: 24_000,
    forceRegister: true,
    enableSingleTopicRegister: false,
    gantryYoungQueueFromZero: true,
    serverLoadBalancerEnable: true,
    loadBalancePollNameServerInterval: 30_000,
    defaultMessageRequestMode: 'PULL',
    defaultPopShareQueueNum: -1,
    popPollingSize: 1024,
    popPollingMapSize: 100_000,
    maxPopPollingSize: 100_000,
    popLongPollingForceNotifyInterval: 800,
    enableNotifyAfterPopOrderLockRelease: true,
    useMessageFilterForNotification: true,
    maxMessageFilterNumForNotification: 64,
    ...defaultLiteSettings(),
  };
}
