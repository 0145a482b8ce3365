// The write queues of a topic over the whole cluster, as Java's clients order them. RocketMQ: TopicRouteInfoManager,
// MQClientInstance#topicRouteData2TopicPublishInfo.

import type { JsonObject } from '../../remoting/index.ts';
import { readInteger, readList, readObject, readText } from '../json-fields.ts';
import { MOST_QUEUES, type NameServers, topicRoute } from '../name-servers.ts';
import { isWriteable } from '../topic/topic-config.ts';
import type { WriteQueues } from './lite-sharding.ts';

/** Looks routes up at whichever name servers are known when it is called; a broker without any is alone. */
export function writeQueues(servers: NameServers): WriteQueues {
  return async (topic) => {
    const route = servers.nameServers().length === 0 ? undefined : await topicRoute(servers, topic);
    return route && brokersOfQueues(route);
  };
}

/** The broker name of each write queue of a TopicRouteData. @throws GantryError CONFIG_FILE if it is none. */
export function brokersOfQueues(route: JsonObject): string[] {
  const order = readText(route, 'orderTopicConf') ?? '';
  const brokers: string[] = [];
  const add = (name: string, count: number): void => {
    for (let i = 0; i < Math.min(MOST_QUEUES, count); i++) brokers.push(name);
  };
  if (order !== '') {
    for (const part of order.split(';')) {
      const [name, count] = part.split(':');
      if (name !== undefined && name !== '') add(name, Number(count) || 0);
    }
    return brokers;
  }
  const masters = new Set<string>();
  for (const broker of (readList(route, 'brokerDatas') ?? []) as readonly JsonObject[]) {
    const isMaster = readText(readObject(broker, 'brokerAddrs') ?? {}, '0') !== undefined;
    if (isMaster) masters.add(readText(broker, 'brokerName') ?? '');
  }
  const queues = ((readList(route, 'queueDatas') ?? []) as readonly JsonObject[]).map((queue) => ({
    name: readText(queue, 'brokerName') ?? '',
    count: readInteger(queue, 'writeQueueNums') ?? 0,
    perm: readInteger(queue, 'perm') ?? 0,
  }));
  queues.sort((a, b) => (a.name < b.name ? -1 : Number(a.name > b.name)));
  for (const { name, count, perm } of queues) if (isWriteable(perm) && masters.has(name)) add(name, count);
  return brokers;
}
