// What the route tables hold and hand out. The shapes of the answers are RocketMQ's JSON bodies (TopicRouteData, ClusterInfo,
// BrokerMemberGroup), fields in alphabetical order as Java writes them, so that JSON.stringify of a value is the body.

/** Version of a broker's topic table; two are the same only if all three fields are. */
export interface DataVersion {
  counter: number;
  stateVersion: number;
  /** Milliseconds since the epoch at the last change. */
  timestamp: number;
}

/** The part of a TopicConfig that a route is made of. */
export interface RegisteredTopic {
  topicName: string;
  readQueueNums: number;
  writeQueueNums: number;
  /** Bits of Perm. */
  perm: number;
  topicSysFlag: number;
}

/** TopicQueueMappingInfo: which logical queues of a static topic a broker holds. */
export interface QueueMappingInfo {
  bname: string;
  currIdMap: Record<string, number>;
  dirty: boolean;
  epoch: number;
  scope: string;
  topic: string;
  totalQueues: number;
}

/** What a broker says of itself with REGISTER_BROKER, decoded. */
export interface RegisteredTables {
  dataVersion: DataVersion;
  topics: RegisteredTopic[];
  queueMappings: QueueMappingInfo[];
  filterServers: string[];
}

export interface QueueData {
  brokerName: string;
  perm: number;
  readQueueNums: number;
  topicSysFlag: number;
  writeQueueNums: number;
}

/** Addresses of one broker name; the key is the broker id as text, "0" is the master. */
export interface BrokerData {
  brokerAddrs: Record<string, string>;
  brokerName: string;
  cluster: string;
  enableActingMaster: boolean;
  zoneName?: string;
}

export interface TopicRouteData {
  brokerDatas: BrokerData[];
  filterServerTable: Record<string, string[]>;
  orderTopicConf?: string;
  queueDatas: QueueData[];
  topicQueueMappingByBroker?: Record<string, QueueMappingInfo>;
}

export interface ClusterInfo {
  brokerAddrTable: Record<string, BrokerData>;
  clusterAddrTable: Record<string, string[]>;
}

export interface TopicList {
  brokerAddr?: string;
  topicList: string[];
}

export interface BrokerMemberGroup {
  brokerAddrs: Record<string, string>;
  brokerName: string | undefined;
  cluster: string | undefined;
}

/** Permission bits of a topic (RocketMQ: PermName). */
export const Perm = { INHERIT: 1, WRITE: 2, READ: 4 } as const;

/** The broker id of a master. */
export const MASTER_ID = 0;

/** Whether two versions are the same in all fields. */
export function sameDataVersion(a: DataVersion, b: DataVersion): boolean {
  return a.counter === b.counter && a.stateVersion === b.stateVersion && a.timestamp === b.timestamp;
}
