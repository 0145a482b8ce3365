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

/** The route of a topic. */
export interface TopicRoute {
  /** `brokerA:4;brokerB:4` for an ordered topic; undefined otherwise. */
  orderTopicConf: string | undefined;
  queueDatas: QueueData[];
  brokerDatas: BrokerData[];
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
  };
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
  const masters = new Set<string>();
  for (const data of route.brokerDatas) if (data.brokerAddrs[MASTER_ID] !== undefined) masters.add(data.brokerName);
  return [...route.queueDatas]
    .sort((a, b) => compareText(a.brokerName, b.brokerName))
    .filter((data) => (data.perm & PERM_WRITE) !== 0 && masters.has(data.brokerName))
    .flatMap((data) => queuesOf(topic, data.brokerName, data.writeQueueNums));
}

/** The queues that consumers share: readable ones; a slave alone can serve them. */
export function subscribeQueues(topic: string, route: TopicRoute): MessageQueue[] {
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
