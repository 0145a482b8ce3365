// RocketMQ: BrokerConfig. Every key of 5.5.0, in the order in which an operator meets them.

import { SENDS_AND_PULLS } from './broker-client-settings.ts';
import { POP } from './broker-pop-settings.ts';
import { honoured, later, moot, mustBeEmpty, mustBeOff, type SettingTable } from './setting.ts';

const NO_METRICS = 'Metrics: ';

export const BROKER_SETTINGS: SettingTable = {
  part: 'broker',
  settings: [
    // Who it is and where it is reached.
    honoured('brokerName', 'text', null, '', 'Name of the broker in routes; unset means the host name.', {
      important: true,
    }),
    honoured('brokerClusterName', 'text', 'DefaultCluster', '', 'Cluster that the broker belongs to.', {
      important: true,
    }),
    honoured('brokerId', 'long', 0, '', '0 is the master, which this broker always is.', { min: -1, important: true }),
    honoured(
      'brokerIP1',
      'text',
      null,
      '',
      'Address that clients are told to connect to: an IP address or a host name that resolves here. Unset, the start chooses one and prints why.',
      { important: true },
    ),
    later('brokerIP2', 'text', null, '', 'Address that replicas are told to connect to.'),
    honoured('namesrvAddr', 'text', null, '', 'Name servers to register with: host:port, several with a semicolon.', {
      important: true,
    }),
    honoured('listenPort', 'int', 10_911, 'port', 'Port that clients connect to; 0 takes any free one.', {
      min: 0,
      max: 65_535,
      important: true,
    }),
    honoured(
      'gantryAdvertisedPort',
      'int',
      0,
      'port',
      'Port that clients are told to connect to, where it differs from listenPort, as behind a port mapping; 0 means the same.',
      { min: 0, max: 65_535, important: true },
    ),
    honoured('regionId', 'text', 'DefaultRegion', '', 'Region that is noted in every message, for message traces.'),
    later('fetchNameSrvAddrByDnsLookup', 'bool', false, '', 'Whether namesrvAddr is one name for many addresses.', {
      important: true,
    }),
    later('fetchNamesrvAddrByAddressServer', 'bool', false, '', 'Whether an HTTP server names the name servers.', {
      important: true,
    }),
    later('fetchNamesrvAddrInterval', 'long', 10_000, 'ms', 'How often it is asked.'),
    later('rmqAddressServerDomain', 'text', 'jmenv.tbsite.net', '', 'Host of that HTTP server.'),
    later('rmqAddressServerSubGroup', 'text', 'nsaddr', '', 'Path on that HTTP server.'),
    moot('rocketmqHome', 'text', null, '', 'Java: where RocketMQ is installed. Nothing is installed here.'),
    moot('brokerConfigPath', 'text', null, '', 'Java: path of this file, which Java notes itself.'),

    // Registration.
    honoured('registerNameServerPeriod', 'int', 30_000, 'ms', 'Time between two registrations, from 10 s to 60 s.', {
      min: 1,
    }),
    honoured('registerBrokerTimeoutMills', 'int', 24_000, 'ms', 'How long a registration waits for the name server.', {
      min: 1,
    }),
    honoured('forceRegister', 'bool', true, '', 'Whether a registration is sent although nothing changed.'),
    later('compressedRegister', 'bool', false, '', 'Whether registrations are compressed.'),
    later('compatibleWithOldNameSrv', 'bool', true, '', 'Whether name servers before 5.0 are spoken to.'),
    later('updateNameServerAddrPeriod', 'int', 120_000, 'ms', 'Time between two looks for other name servers.'),
    later('brokerHeartbeatInterval', 'int', 1000, 'ms', 'Time between two heartbeats to the name server.'),
    later('sendHeartbeatTimeoutMillis', 'int', 1000, 'ms', 'How long such a heartbeat waits.'),
    later('brokerNotActiveTimeoutMillis', 'long', 10_000, 'ms', 'Silence after which a name server drops the broker.'),
    honoured('enableSingleTopicRegister', 'bool', false, '', 'Whether a new topic is registered alone.'),
    later('enableSplitRegistration', 'bool', false, '', 'Whether registrations are sent in parts.'),
    later('splitRegistrationSize', 'int', 800, 'topics', 'Topics of one part.'),
    honoured('enableSplitMetadata', 'bool', true, '', 'Hand topics to replicas in parts.', { live: true }),
    honoured('splitMetadataSize', 'int', 2000, 'topics', 'Topics of one such part.', { min: 1, live: true }),
    later('skipPreOnline', 'bool', false, '', 'Whether a broker registers before it has looked at its group.'),

    // Topics and groups.
    honoured('brokerPermission', 'int', 6, 'bits', 'What the broker allows: 4 reads, 2 writes, 6 both.', {
      min: 0,
      max: 7,
      live: true,
    }),
    honoured('autoCreateTopicEnable', 'bool', true, '', 'Create a topic when a client first sends to it.', {
      live: true,
      important: true,
    }),
    honoured(
      'gantrySpreadNewTopics',
      'bool',
      true,
      '',
      'Create a topic that a send has created at the other masters of the cluster, too, with the same queues, where autoCreateTopicEnable is true and no such topic exists; with RocketMQ it stays on one broker.',
      { live: true },
    ),
    honoured('defaultTopicQueueNums', 'int', 8, 'queues', 'Most queues of a topic that is created so.', {
      min: 1,
      live: true,
    }),
    honoured('clusterTopicEnable', 'bool', true, '', 'Keep a topic of the name of the cluster.'),
    honoured('brokerTopicEnable', 'bool', true, '', 'Keep a topic of the name of the broker.'),
    honoured('autoCreateSubscriptionGroup', 'bool', true, '', 'Create a consumer group when it first connects.', {
      live: true,
      important: true,
    }),
    honoured('traceTopicEnable', 'bool', false, '', 'Keep a topic for message traces.', { important: true }),
    honoured('msgTraceTopicName', 'text', 'RMQ_SYS_TRACE_TOPIC', '', 'Name of that topic.', { important: true }),
    honoured('traceOn', 'bool', true, '', 'Note in every message that traces are on, which clients go by.', {
      live: true,
    }),
    honoured(
      'enableCreateSysGroup',
      'bool',
      true,
      '',
      'Create groups of the system (CID_RMQ_SYS_...) even when autoCreateSubscriptionGroup is off.',
    ),
    honoured('validateSystemTopicWhenUpdateTopic', 'bool', true, '', 'Keep system topics from being changed.', {
      live: true,
    }),
    honoured(
      'clearRetryTopicWhenDeleteTopic',
      'bool',
      true,
      '',
      'Delete the retry topics of pop together with their topic.',
      { live: true },
    ),
    honoured('enableMixedMessageType', 'bool', false, '', 'Allow topics of the type MIXED.', { live: true }),
    later('useStaticSubscription', 'bool', false, '', 'Whether a group reads only what its settings name.'),
    honoured('useSeparateRetryQueue', 'bool', false, '', 'Whether every queue has a retry queue of its own.'),
    later('configManagerVersion', 'text', 'v1', '', 'How topics, groups and offsets are kept: v1 (JSON files) or v2.', {
      guard: { passes: (value) => value === 'v1', why: 'topics and offsets kept in RocksDB cannot be read or written' },
    }),
    later('useSingleRocksDBForAllConfigs', 'bool', false, '', 'Whether one RocksDB holds them all.'),

    ...SENDS_AND_PULLS,

    // Roles of several brokers.
    later(
      'enableControllerMode',
      'bool',
      false,
      '',
      'Whether a controller elects the master.',
      mustBeOff('the broker would take sends without having been elected'),
    ),
    later('controllerAddr', 'text', '', '', 'Addresses of the controllers.'),
    later('fetchControllerAddrByDnsLookup', 'bool', false, '', 'Whether that is one name for many addresses.'),
    later(
      'controllerHeartBeatTimeoutMills',
      'long',
      10_000,
      'ms',
      'Silence after which a controller drops the broker.',
    ),
    later('syncBrokerMetadataPeriod', 'long', 5000, 'ms', 'How often the broker asks the controller for its role.'),
    later('syncControllerMetadataPeriod', 'long', 10_000, 'ms', 'How often it asks who leads the controllers.'),
    later('checkSyncStateSetPeriod', 'long', 5000, 'ms', 'How often the master looks at its replicas.'),
    later('brokerElectionPriority', 'int', 2_147_483_647, '', 'Who is elected first; less is sooner.'),
    later(
      'enableSlaveActingMaster',
      'bool',
      false,
      '',
      'Whether a slave takes over some duties of a master that is gone.',
      mustBeOff('the brokers of the group would disagree on who acts'),
    ),
    later('enableRemoteEscape', 'bool', false, '', 'Whether such a slave writes to other brokers.'),
    later('syncBrokerMemberGroupPeriod', 'int', 1000, 'ms', 'How often the members of the group are asked for.'),
    honoured('forwardTimeout', 'long', 3000, 'ms', 'How long a request for a static topic waits for another broker.', {
      live: true,
    }),
    later('messageStorePlugIn', 'text', '', '', 'Java classes that wrap the store.', {
      ...mustBeEmpty('Java classes cannot be loaded, and messages might be expected elsewhere, as in tiered storage'),
    }),
    later('isBrokerContainer', 'bool', false, '', 'Java notes by it that it runs several brokers.'),
    later('isInBrokerContainer', 'bool', false, '', 'Java notes by it that it is one of them.'),
    later('inBrokerContainer', 'bool', false, '', 'The same under the name by which it is set.'),
    moot(
      'recoverConcurrently',
      'bool',
      false,
      '',
      'Java: threads look for the ends of the queues. Here one pass over their newest units finds them, or what was saved of them.',
      { important: true },
    ),
    later('isolateLogEnable', 'bool', false, '', 'Whether each broker of a process writes its own log files.'),

    // Load balancing by the broker.
    honoured(
      'serverLoadBalancerEnable',
      'bool',
      true,
      '',
      'Whether clients that ask for their queues get a share of them.',
      {
        live: true,
      },
    ),
    honoured('loadBalancePollNameServerInterval', 'long', 30_000, 'ms', 'How often routes are fetched for that.', {
      min: 1000,
    }),
    later('cleanOfflineBrokerInterval', 'int', 30_000, 'ms', 'How often routes of gone brokers are dropped.'),
    honoured('defaultMessageRequestMode', ['PULL', 'POP'], 'PULL', '', 'How clients that ask fetch messages.', {
      live: true,
    }),
    honoured(
      'defaultPopShareQueueNum',
      'int',
      -1,
      'clients',
      'How many clients behind it a client shares its queues with in POP; 0 or less: all.',
      { live: true },
    ),

    ...POP,

    // Transactions.
    honoured('transactionTimeOut', 'long', 6000, 'ms', 'Age at which an open transaction is first asked about.', {
      live: true,
      important: true,
      min: 0,
    }),
    honoured('transactionCheckMax', 'int', 15, 'times', 'How often it is asked about.', {
      live: true,
      important: true,
      min: 0,
    }),
    honoured('transactionCheckInterval', 'long', 30_000, 'ms', 'Time between two rounds of asking.', {
      live: true,
      important: true,
      min: 1,
    }),
    honoured('transactionOpMsgMaxSize', 'int', 4096, 'bytes', 'Length of a record of ended transactions.', {
      live: true,
      min: 1,
    }),
    honoured('transactionOpBatchInterval', 'int', 3000, 'ms', 'Time between two such records.', { live: true, min: 0 }),
    honoured('transactionMetricFlushInterval', 'long', 10_000, 'ms', 'Time between two saves of the counts.', {
      live: true,
      min: 1,
    }),
    moot('transactionCheckRocksdbCoreThreads', 'int', 2, 'threads', 'Java: threads that ask, with RocksDB.'),
    moot('transactionCheckRocksdbMaxThreads', 'int', 5, 'threads', 'Java: most of them.'),
    moot('transactionCheckRocksdbQueueCapacity', 'int', 2000, 'tasks', 'Java: tasks that wait for them.'),

    // Lite topics.
    honoured('enableLiteEventMode', 'bool', true, '', 'Whether consumers of lite topics are woken by events.'),
    honoured('liteEventCheckInterval', 'long', 10_000, 'ms', 'Time between two looks for lost events.'),
    honoured(
      'liteEventFullDispatchDelayTime',
      'long',
      10_000,
      'ms',
      'Pause after all events of a client were made anew.',
    ),
    honoured('liteEventFullDispatchDelayTimeForWildcardGroup', 'long', 10_000, 'ms', 'The same with a wildcard.'),
    honoured('liteTtlCheckInterval', 'long', 120_000, 'ms', 'Time between two looks for expired lite topics.'),
    honoured('minLiteTTl', 'long', 900_000, 'ms', 'Shortest life of a lite topic.'),
    honoured('liteSubscriptionCheckInterval', 'long', 120_000, 'ms', 'Time between two looks for dead subscriptions.'),
    honoured('liteSubscriptionCheckTimeoutMills', 'long', 180_000, 'ms', 'Silence after which one is dead.'),
    honoured('maxLiteSubscriptionCount', 'long', 100_000, 'subscriptions', 'Most subscriptions to lite topics.'),
    honoured('maxClientEventCount', 'int', 100, 'events', 'Most events that wait for one client.'),
    honoured('enableLitePopLog', 'bool', false, '', 'Whether pops of lite topics are logged.'),
    honoured('liteLagLatencyCollectEnable', 'bool', false, '', 'Whether their lag in time is measured.'),
    later('liteLagLatencyMetricsEnable', 'bool', false, '', 'Whether it is published.'),
    later('liteLagCountMetricsEnable', 'bool', false, '', 'Whether their lag in messages is published.'),
    honoured('liteLagLatencyTopK', 'int', 50, 'topics', 'Topics with the most lag that are named.'),
    honoured('enableLmqStats', 'bool', false, '', 'Keep figures for each light queue; false: for all of them as one.', {
      live: true,
    }),

    // Figures.
    honoured('enableDetailStat', 'bool', true, '', 'Keep figures for the queue of each delay level.', { live: true }),
    honoured('autoDeleteUnusedStats', 'bool', true, '', 'Whether figures go with their topic or group.', {
      live: true,
    }),
    honoured(
      'maxStatsIdleTimeInMinutes',
      'int',
      -1,
      'min',
      'How long a figure that stands still is kept, half an hour at least; -1 means for ever.',
      { live: true },
    ),
    moot('accountStatsEnable', 'bool', true, '', 'Java: log figures for accounts, which only plug-ins add to.'),
    moot('accountStatsPrintZeroValues', 'bool', true, '', 'Java: log those that are 0, too.'),
    moot('commercialBaseCount', 'int', 1, '', 'Java: how plug-ins count messages.'),
    moot('commercialSizePerMsg', 'int', 4096, 'bytes', 'Java: how large a message counts as one.'),
    later('estimateAccumulation', 'bool', true, '', 'Whether a backlog behind a filter is estimated.'),
    later('metricsExporterType', ['DISABLE', 'OTLP_GRPC', 'PROM', 'LOG'], 'DISABLE', '', `${NO_METRICS}where they go.`),
    later('metricsOtelCardinalityLimit', 'int', 50_000, '', `${NO_METRICS}most combinations of labels.`),
    later('metricsGrpcExporterTarget', 'text', '', '', `${NO_METRICS}address of the collector.`),
    later('metricsGrpcExporterHeader', 'text', '', '', `${NO_METRICS}headers for the collector.`),
    later('metricGrpcExporterTimeOutInMills', 'long', 3000, 'ms', `${NO_METRICS}how long a report waits.`),
    later('metricGrpcExporterIntervalInMills', 'long', 60_000, 'ms', `${NO_METRICS}time between two reports.`),
    later('metricLoggingExporterIntervalInMills', 'long', 10_000, 'ms', `${NO_METRICS}time between two log lines.`),
    later('metricsPromExporterPort', 'int', 5557, 'port', `${NO_METRICS}port for Prometheus.`),
    later('metricsPromExporterHost', 'text', '', '', `${NO_METRICS}address for Prometheus.`),
    later('metricsLabel', 'text', '', '', `${NO_METRICS}labels of every figure.`),
    later('metricsExportBatchMaxDataPoints', 'int', 1000, '', `${NO_METRICS}figures of one report.`),
    later('metricsInDelta', 'bool', false, '', `${NO_METRICS}whether they are differences.`),
    later('enableRemotingMetrics', 'bool', true, '', `${NO_METRICS}those of connections and requests.`),
    later('enableMessageStoreMetrics', 'bool', true, '', `${NO_METRICS}those of the store.`),
    later('enablePopMetrics', 'bool', true, '', `${NO_METRICS}those of pop.`),
    later('enableConnectionMetrics', 'bool', true, '', `${NO_METRICS}those of clients.`),
    later('enableTransactionMetrics', 'bool', true, '', `${NO_METRICS}those of transactions.`),
    later('enableStatsMetrics', 'bool', true, '', `${NO_METRICS}those of topics and groups.`),
    later('enableRequestMetrics', 'bool', true, '', `${NO_METRICS}those of sends and pulls.`),
    later('enableLagAndDlqMetrics', 'bool', true, '', `${NO_METRICS}those of backlogs.`),

    // Changes while it runs.
    honoured(
      'configBlackList',
      'text',
      'configBlackList;brokerConfigPath',
      '',
      'Settings that a command may not change, with semicolons.',
    ),
    honoured(
      'gantryYoungQueueFromZero',
      'bool',
      true,
      '',
      'Start a group that has no offset yet at the first message of a young queue, even if it asked for the last, as RocketMQ does; false leaves it to the client.',
      { live: true },
    ),

    honoured(
      'gantryTopicMessageTypeCheck',
      'bool',
      false,
      '',
      "Refuse a message whose type (NORMAL, FIFO, DELAY, TRANSACTION, PRIORITY, LITE) is not its topic's message.type, as RocketMQ's proxy does.",
    ),

    // Sends that come twice.
    honoured(
      'gantrySendDeduplicationEnable',
      'bool',
      false,
      '',
      'Answer a message that was sent to the same topic before, by its unique id or keys, with the place of the first one instead of storing it again. Files are the same with and without it; a start reads the log of the last gantrySendDeduplicationWindowMs.',
    ),
    honoured(
      'gantrySendDeduplicationKey',
      ['UNIQ_KEY', 'KEYS'],
      'UNIQ_KEY',
      '',
      'What tells that two messages are one: the id that the client gives each, the same whenever it tries again, or the keys that the application sets.',
    ),
    honoured('gantrySendDeduplicationWindowMs', 'long', 600_000, 'ms', 'How long a message is remembered.', { min: 1 }),
    honoured(
      'gantrySendDeduplicationMaxBytes',
      'long',
      67_108_864,
      'bytes',
      'Memory for what is remembered; the oldest are forgotten first. A message takes some 85 bytes.',
      { min: 1_048_576 },
    ),

    // Cold data.
    honoured(
      'cgColdReadThreshold',
      'long',
      3_145_728,
      'bytes in 5 s',
      'With coldDataFlowControlEnable: old data that one group may read, unless a command has set another limit for it.',
      { min: 0, live: true },
    ),
    honoured('globalColdReadThreshold', 'long', 104_857_600, 'bytes in 5 s', 'Old data that all groups may read.', {
      min: 0,
      live: true,
    }),
    honoured(
      'coldCtrStrategyEnable',
      'bool',
      false,
      '',
      'Raise and lower the limits of groups by what all of them read.',
      {
        live: true,
      },
    ),
    honoured(
      'usePIDColdCtrStrategy',
      'bool',
      true,
      '',
      'Judge by the last ten windows of 5 s; false judges by the last one alone.',
    ),

    // What belongs to Java's threads and memory.
    moot('sendMessageThreadPoolNums', 'int', null, 'threads', 'Java: threads for sends.'),
    moot('putMessageFutureThreadPoolNums', 'int', null, 'threads', 'Java: threads for answers to sends.'),
    moot('pullMessageThreadPoolNums', 'int', null, 'threads', 'Java: threads for pulls.'),
    moot('litePullMessageThreadPoolNums', 'int', null, 'threads', 'Java: threads for lite pulls.'),
    moot('ackMessageThreadPoolNums', 'int', 16, 'threads', 'Java: threads for acknowledgements.'),
    moot('processReplyMessageThreadPoolNums', 'int', null, 'threads', 'Java: threads for replies.'),
    moot('queryMessageThreadPoolNums', 'int', null, 'threads', 'Java: threads for look-ups.'),
    moot('adminBrokerThreadPoolNums', 'int', 16, 'threads', 'Java: threads for operators.'),
    moot('clientManageThreadPoolNums', 'int', 32, 'threads', 'Java: threads for clients.'),
    moot('consumerManageThreadPoolNums', 'int', 32, 'threads', 'Java: threads for consumers.'),
    moot('loadBalanceProcessorThreadPoolNums', 'int', 32, 'threads', 'Java: threads for load balancing.'),
    moot('heartbeatThreadPoolNums', 'int', null, 'threads', 'Java: threads for heartbeats.'),
    moot('recoverThreadPoolNums', 'int', 32, 'threads', 'Java: threads for recovery.'),
    moot('endTransactionThreadPoolNums', 'int', null, 'threads', 'Java: threads for ends of transactions.'),
    moot('sendThreadPoolQueueCapacity', 'int', 10_000, 'requests', 'Java: sends that wait for a thread.'),
    moot('putThreadPoolQueueCapacity', 'int', 10_000, 'requests', 'Java: answers that wait.'),
    moot('pullThreadPoolQueueCapacity', 'int', 100_000, 'requests', 'Java: pulls that wait.'),
    moot('litePullThreadPoolQueueCapacity', 'int', 100_000, 'requests', 'Java: lite pulls that wait.'),
    moot('ackThreadPoolQueueCapacity', 'int', 100_000, 'requests', 'Java: acknowledgements that wait.'),
    moot('replyThreadPoolQueueCapacity', 'int', 10_000, 'requests', 'Java: replies that wait.'),
    moot('queryThreadPoolQueueCapacity', 'int', 20_000, 'requests', 'Java: look-ups that wait.'),
    moot('clientManagerThreadPoolQueueCapacity', 'int', 1_000_000, 'requests', 'Java: requests of clients that wait.'),
    moot(
      'consumerManagerThreadPoolQueueCapacity',
      'int',
      1_000_000,
      'requests',
      'Java: requests of consumers that wait.',
    ),
    moot('heartbeatThreadPoolQueueCapacity', 'int', 50_000, 'requests', 'Java: heartbeats that wait.'),
    moot('endTransactionPoolQueueCapacity', 'int', 100_000, 'requests', 'Java: ends of transactions that wait.'),
    moot('adminBrokerThreadPoolQueueCapacity', 'int', 10_000, 'requests', 'Java: requests of operators that wait.'),
    moot('loadBalanceThreadPoolQueueCapacity', 'int', 100_000, 'requests', 'Java: load balancing that waits.'),
    moot('transferMsgByHeap', 'bool', true, '', 'Java: whether pulled messages are copied first.'),
    moot('asyncSendEnable', 'bool', true, '', 'Java: whether a thread is freed while a send waits. Here always.'),
    moot('highSpeedMode', 'bool', false, '', 'Java: declared, never read.'),
  ],
};
