// The write queues of a topic over the whole cluster, as Java's clients order them, from the first name server that answers. RocketMQ:
// TopicRouteInfoManager, MQClientInstance#topicRouteData2TopicPublishInfo.

import { type JsonObject, parseJson, type RemotingResponse, RequestCode, ResponseCode } from '../../remoting/index.ts';
import { readInteger, readList, readObject, readText } from '../json-fields.ts';
import { isWriteable } from '../topic/topic-config.ts';
import type { WriteQueues } from './lite-sharding.ts';

const TIMEOUT_MS = 3000;

interface Client {
  invoke(
    address: string,
    code: number,
    ext: Record<string, string>,
    body: Uint8Array | null,
    timeoutMs: number,
  ): Promise<RemotingResponse>;
}

/** Looks routes up at whichever name servers are known when it is called. */
export function writeQueues(nameServers: () => readonly string[], client: Client): WriteQueues {
  return async (topic) => {
    let failure: unknown;
    for (const address of nameServers()) {
      try {
        const code = RequestCode.GET_ROUTEINFO_BY_TOPIC;
        const response = await client.invoke(address, code, { topic }, null, TIMEOUT_MS);
        if (response.code !== ResponseCode.SUCCESS) return undefined;
        return brokersOfQueues(parseJson(response.body) as JsonObject);
      } catch (error) {
        failure = error;
      }
    }
    if (failure !== undefined) throw failure;
    return undefined;
  };
}

/** The broker name of each write queue of a TopicRouteData. @throws GantryError CONFIG_FILE if it is none. */
export function brokersOfQueues(route: JsonObject): string[] {
  const order = readText(route, 'orderTopicConf') ?? '';
  const brokers: string[] = [];
  const add = (name: string, count: number): void => {
    for (let i = 0; i < count; i++) brokers.push(name);
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
