// What a name server says about a topic, and the queues that follow from it. RocketMQ: TopicRouteData, TopicPublishInfo.

import { GantryError } from '../common/index.ts';
import { compareText, type MessageQueue } from './queues.ts';

/** The queues of a topic on one broker name. */
export interface QueueData {
  brokerName: string;
  readQueueNums: number;
  writeQueueNums: number;
  /** Bits: 4 read, 2 write, 1 inherit. */
  perm: number;
  topicSysFlag: number;
}

/** The addresses of one broker name: id 0 is the master. */
export interface BrokerData {
  cluster: string;
  brokerName: string;
  /** Broker id (as text) to `ip:port`. */
  brokerAddrs: Readonly<Record<string, string>>;
}

/** A queue of a static topic, which keeps its number and offsets while it moves from broker to broker. */
export interface LogicQueue {
  /** What clients call its broker. */
  readonly brokerName: string;
  readonly queueId: number;
  /** The broker that has it now; undefined while none has. */
  readonly at: string | undefined;
}

/** The route of a topic. */
export interface TopicRoute {
  /** `brokerA:4;brokerB:4` for an ordered topic; undefined otherwise. */
  orderTopicConf: string | undefined;
  queueDatas: QueueData[];
  brokerDatas: BrokerData[];
  /** Of a static topic, which has these queues and no others. */
  logicQueues: LogicQueue[];
}

const PERM_READ = 4;
const PERM_WRITE = 2;
/** Id of a master, as the key of `brokerAddrs`. */
export const MASTER_ID = '0';

function record(value: unknown, what: string): Record<string, unknown> {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Record<string, unknown>;
  throw new GantryError('FRAME', `${what} is not an object`);
}

function list(value: unknown): unknown[] {
  return Array.isArray(value) ? value : [];
}

function count(value: unknown): number {
  const number = Number(value ?? 0);
  return Number.isInteger(number) && number > 0 ? number : 0;
}

/** Reads one BrokerData object. @throws GantryError FRAME */
export function parseBrokerData(value: unknown): BrokerData {
  const data = record(value, 'a BrokerData');
  const brokerAddrs: Record<string, string> = {};
  for (const [id, address] of Object.entries(record(data['brokerAddrs'] ?? {}, 'brokerAddrs'))) {
    brokerAddrs[id] = String(address);
  }
  return { cluster: String(data['cluster'] ?? ''), brokerName: String(data['brokerName'] ?? ''), brokerAddrs };
}

/** Reads a TopicRouteData that was parsed from JSON. @throws GantryError FRAME when it is none. */
export function parseTopicRoute(json: unknown): TopicRoute {
  const route = record(json, 'the route');
  const order = route['orderTopicConf'];
  return {
    orderTopicConf: typeof order === 'string' && order !== '' ? order : undefined,
    queueDatas: list(route['queueDatas']).map((item) => {
      const data = record(item, 'a QueueData');
      return {
        brokerName: String(data['brokerName'] ?? ''),
        readQueueNums: count(data['readQueueNums']),
        writeQueueNums: count(data['writeQueueNums']),
        perm: count(data['perm']),
        topicSysFlag: count(data['topicSysFlag']),
      };
    }),
    brokerDatas: list(route['brokerDatas']).map(parseBrokerData),
    logicQueues: parseLogicQueues(route['topicQueueMappingByBroker'] ?? {}),
  };
}

/** RocketMQ: MixAll.LOGICAL_QUEUE_MOCK_BROKER_PREFIX. */
const LOGIC_BROKER_PREFIX = '__syslo__';
const GLOBAL_SCOPE = '__global__';
/** RocketMQ has no limit; a route makes every client hold so many queues. */
const MOST_LOGIC_QUEUES = 65_536;

export function isLogicBroker(brokerName: string): boolean {
  return brokerName.startsWith(LOGIC_BROKER_PREFIX);
}

/** The queues of a static topic, by number; the newest mapping says where one lies. RocketMQ: topicRouteData2EndpointsForStaticTopic. */
function parseLogicQueues(mappings: unknown): LogicQueue[] {
  const infos = Object.values(record(mappings, 'topicQueueMappingByBroker')).map((value) => {
    const info = record(value, 'a TopicQueueMappingInfo');
    return {
      scope: String(info['scope'] ?? GLOBAL_SCOPE),
      bname: String(info['bname'] ?? ''),
      epoch: Number(info['epoch'] ?? 0),
      totalQueues: Math.min(count(info['totalQueues']), MOST_LOGIC_QUEUES),
      ids: Object.keys(record(info['currIdMap'] ?? {}, 'currIdMap')).map(Number),
    };
  });
  infos.sort((a, b) => a.epoch - b.epoch);
  const queues: LogicQueue[] = [];
  for (const scope of new Set(infos.map((info) => info.scope))) {
    const ofScope = infos.filter((info) => info.scope === scope);
    const at = new Map<number, string>();
    for (const { bname, ids } of ofScope) for (const id of ids) at.set(id, bname);
    const brokerName = LOGIC_BROKER_PREFIX + (scope === GLOBAL_SCOPE ? scope.slice(2) : scope);
    const total = Math.max(...ofScope.map((info) => info.totalQueues));
    for (let queueId = 0; queueId < total; queueId++) queues.push({ brokerName, queueId, at: at.get(queueId) });
  }
  return queues.sort((a, b) => a.queueId - b.queueId);
}

function logicQueues(topic: string, route: TopicRoute): MessageQueue[] {
  return route.logicQueues.map(({ brokerName, queueId }) => ({ topic, brokerName, queueId }));
}

function queuesOf(topic: string, brokerName: string, queueCount: number): MessageQueue[] {
  return Array.from({ length: queueCount }, (_, queueId) => ({ topic, brokerName, queueId }));
}

/** The queues that a producer may send to: writable ones on broker names that have a master, by name and id; or what the order configuration says. */
export function publishQueues(topic: string, route: TopicRoute): MessageQueue[] {
  if (route.orderTopicConf !== undefined) {
    return route.orderTopicConf
      .split(';')
      .filter((part) => part !== '')
      .flatMap((part) => {
        const [brokerName, number] = part.split(':');
        return queuesOf(topic, brokerName!, count(number));
      });
  }
  if (route.logicQueues.length > 0) return logicQueues(topic, route);
  const masters = new Set<string>();
  for (const data of route.brokerDatas) if (data.brokerAddrs[MASTER_ID] !== undefined) masters.add(data.brokerName);
  return [...route.queueDatas]
    .sort((a, b) => compareText(a.brokerName, b.brokerName))
    .filter((data) => (data.perm & PERM_WRITE) !== 0 && masters.has(data.brokerName))
    .flatMap((data) => queuesOf(topic, data.brokerName, data.writeQueueNums));
}

/** The queues that consumers share: readable ones; a slave alone can serve them. */
export function subscribeQueues(topic: string, route: TopicRoute): MessageQueue[] {
  if (route.logicQueues.length > 0) return logicQueues(topic, route);
  return route.queueDatas
    .filter((data) => (data.perm & PERM_READ) !== 0)
    .flatMap((data) => queuesOf(topic, data.brokerName, data.readQueueNums));
}

/** The route of the default topic as a new topic would get it: no more queues than the producer asks for. RocketMQ: TBW102. */
export function cappedRoute(route: TopicRoute, queueNums: number): TopicRoute {
  const queueDatas = route.queueDatas.map((data) => {
    const capped = Math.min(queueNums, data.readQueueNums);
    return { ...data, readQueueNums: capped, writeQueueNums: capped };
  });
  return { ...route, queueDatas };
}
