// RocketMQ: NamesrvConfig, and ControllerConfig with JraftConfig, which a name server reads from the same file.

import { honoured, later, moot, mustBeOff, type SettingTable } from './setting.ts';

export const NAMESRV_SETTINGS: SettingTable = {
  part: 'name server',
  settings: [
    honoured('listenPort', 'int', 9876, 'port', 'Port that brokers and clients connect to; 0 takes any free one.', {
      min: 0,
      max: 65_535,
      important: true,
    }),
    honoured('kvConfigPath', 'text', null, '', 'File of the key-value settings; unset means ~/namesrv/kvConfig.json.'),
    honoured('orderMessageEnable', 'bool', false, '', 'Add the order settings of a topic to its route.', {
      live: true,
    }),
    honoured(
      'returnOrderTopicConfigToBroker',
      'bool',
      true,
      '',
      'Give a broker the order settings when it registers.',
      {
        live: true,
      },
    ),
    honoured(
      'scanNotActiveBrokerInterval',
      'long',
      5000,
      'ms',
      'Time between two looks for brokers that fell silent.',
      {
        min: 1,
      },
    ),
    honoured('supportActingMaster', 'bool', false, '', 'Show a slave as master in routes while the master is gone.', {
      live: true,
    }),
    honoured('enableAllTopicList', 'bool', true, '', 'Answer requests for the names of all topics.', { live: true }),
    honoured('enableTopicList', 'bool', true, '', 'Answer requests for the topics of a cluster or a kind.', {
      live: true,
    }),
    honoured('notifyMinBrokerIdChanged', 'bool', false, '', 'Tell brokers when the first of their group changes.', {
      live: true,
    }),
    honoured('needWaitForService', 'bool', false, '', 'Answer no routes until waitSecondsForService are over.'),
    honoured('waitSecondsForService', 'int', 45, 's', 'As long; brokers register in this time.', { min: 0 }),
    honoured(
      'deleteTopicWithBrokerRegistration',
      'bool',
      false,
      '',
      'Drop the topics that a registration no longer names.',
      { live: true },
    ),
    later('enableControllerInNamesrv', 'bool', false, '', 'Whether the name server is a controller too.', {
      ...mustBeOff('nobody would elect masters'),
    }),
    later('clusterTest', 'bool', false, '', 'Whether routes come from another environment, too.'),
    later('productEnvName', 'text', 'center', '', 'Name of that environment.'),
    honoured('configStorePath', 'text', null, '', 'Where changes to these settings are saved.'),
    honoured(
      'configBlackList',
      'text',
      'configBlackList;configStorePath;kvConfigPath',
      '',
      'Settings that a command may not change, with semicolons.',
    ),
    later('unRegisterBrokerQueueCapacity', 'int', 3000, 'requests', 'Brokers that leave at the same time.'),
    moot('rocketmqHome', 'text', null, '', 'Java: where RocketMQ is installed. Nothing is installed here.'),
    moot('clientRequestThreadPoolNums', 'int', 8, 'threads', 'Java: threads for routes.'),
    moot('defaultThreadPoolNums', 'int', 16, 'threads', 'Java: threads for everything else.'),
    moot('clientRequestThreadPoolQueueCapacity', 'int', 50_000, 'requests', 'Java: requests for routes that wait.'),
    moot('defaultThreadPoolQueueCapacity', 'int', 10_000, 'requests', 'Java: other requests that wait.'),
  ],
};

export const CONTROLLER_SETTINGS: SettingTable = {
  part: 'controller',
  settings: [
    later('controllerType', 'text', 'DLedger', '', 'How the controllers agree: DLedger or jRaft.'),
    later('controllerDLegerGroup', 'text', null, '', 'Name of their group.'),
    later('controllerDLegerPeers', 'text', null, '', 'Members of their group.'),
    later('controllerDLegerSelfId', 'text', null, '', 'Which member this one is.'),
    later('controllerStorePath', 'text', '', '', 'Directory of their log.'),
    later('mappedFileSize', 'int', 1_073_741_824, 'bytes', 'Length of one file of it.'),
    later('electMasterMaxRetryCount', 'int', 3, 'times', 'How often an election is tried.'),
    later('enableElectUncleanMaster', 'bool', false, '', 'Whether a replica that is behind may be elected.'),
    later('isProcessReadEvent', 'bool', false, '', 'Whether reads go through the log.'),
    later('processReadEvent', 'bool', false, '', 'The same under the name by which it is set.'),
    later('notifyBrokerRoleChanged', 'bool', true, '', 'Whether brokers are told of their role at once.'),
    later('scanInactiveMasterInterval', 'long', 5000, 'ms', 'Time between two looks for groups without a master.'),
    later('metricsExporterType', ['DISABLE', 'OTLP_GRPC', 'PROM', 'LOG'], 'DISABLE', '', 'Metrics: where they go.'),
    later('metricsGrpcExporterTarget', 'text', '', '', 'Metrics: address of the collector.'),
    later('metricsGrpcExporterHeader', 'text', '', '', 'Metrics: headers for the collector.'),
    later('metricGrpcExporterTimeOutInMills', 'long', 3000, 'ms', 'Metrics: how long a report waits.'),
    later('metricGrpcExporterIntervalInMills', 'long', 60_000, 'ms', 'Metrics: time between two reports.'),
    later('metricLoggingExporterIntervalInMills', 'long', 10_000, 'ms', 'Metrics: time between two log lines.'),
    later('metricsPromExporterPort', 'int', 5557, 'port', 'Metrics: port for Prometheus.'),
    later('metricsPromExporterHost', 'text', '', '', 'Metrics: address for Prometheus.'),
    later('metricsLabel', 'text', '', '', 'Metrics: labels of every figure.'),
    later('metricsInDelta', 'bool', false, '', 'Metrics: whether they are differences.'),
    later('jRaftElectionTimeoutMs', 'int', 1000, 'ms', 'JRaft: how long an election lasts.'),
    later('jRaftScanWaitTimeoutMs', 'int', 1000, 'ms', 'JRaft: how long a scan waits.'),
    later('jRaftSnapshotIntervalSecs', 'int', 3600, 's', 'JRaft: time between two snapshots.'),
    later('jRaftGroupId', 'text', 'jRaft-Controller', '', 'JRaft: name of the group.'),
    later('jRaftServerId', 'text', 'localhost:9880', '', 'JRaft: which member this one is.'),
    later('jRaftInitConf', 'text', 'localhost:9880,localhost:9881,localhost:9882', '', 'JRaft: the first members.'),
    later(
      'jRaftControllerRPCAddr',
      'text',
      'localhost:9770,localhost:9771,localhost:9772',
      '',
      'JRaft: their addresses.',
    ),
    moot('controllerThreadPoolNums', 'int', 16, 'threads', 'Java: threads for requests.'),
    moot('controllerRequestThreadPoolQueueCapacity', 'int', 50_000, 'requests', 'Java: requests that wait.'),
  ],
};
