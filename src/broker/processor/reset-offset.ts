// An administrator moves a group: INVOKE_BROKER_TO_RESET_OFFSET (222), by time or to a number; and asks its clients where they are:
// INVOKE_BROKER_TO_GET_CONSUMER_STATUS (223). RocketMQ: AdminBrokerProcessor, Broker2Client.
//
//   222 ─ useServerSideResetOffset ─► pending reset and committed offset; the next pull of each queue is told (any client, online or not)
//       └ else ─► RESET_CONSUMER_CLIENT_OFFSET (220) to every client of the group, which moves itself
//   223 ─► GET_CONSUMER_STATUS_FROM_CLIENT (221) to one client or all, their answers in one body

import { errorText, GantryError } from '../../common/index.ts';
import {
  type JsonValue,
  PeerVersion,
  parseJson,
  type Request,
  RequestCode,
  ResponseCode,
  toJson,
  toJsonBytes,
} from '../../remoting/index.ts';
import type { BrokerContext } from '../broker-context.ts';
import type { ClientChannelInfo } from '../client/consumer-group-info.ts';
import type { MessageQueue } from '../client/rebalance-lock-manager.ts';
import { messageQueue } from './message-queues.ts';
import { answerLater, type HandlerRegistry } from './registry.ts';

/** Ms that a client has to say where it is. */
const STATUS_ANSWER_MS = 5_000;
/** Queues that a remark names one by one. */
const NAMED_QUEUES = 64;

export function registerResetOffset(registry: HandlerRegistry, context: BrokerContext): void {
  registry.register(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, (request) => {
    if (context.config.useServerSideResetOffset || isDryRun(request)) resetHere(context, request);
    else resetAtClients(context, request);
  });
  registry.register(RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, (request) => consumerStatus(context, request));
}

/**
 * Ours: with `gantryDryRun` in the header, "true" or "false", the remark says where each queue was and where it goes; with "true" that is
 * all that happens. RocketMQ has no such thing, and its answer no remark.
 */
function isDryRun(request: Request): boolean {
  return request.header.bool('gantryDryRun', false);
}

/** What a reset asks for. */
interface ResetWish {
  readonly topic: string;
  /** All queues if below 0. */
  readonly queueId: number;
  /** Ms since 1970; below 0: the end. */
  readonly timestamp: number;
  /** -1: by time. */
  readonly offset: number;
  /** Read queues of the topic. */
  readonly queues: number;
}

/** Where each queue is to go. A text says why it cannot be. */
async function resetTargets(context: BrokerContext, wish: ResetWish): Promise<Map<number, number> | string> {
  const { store } = context;
  const { topic, queueId, offset } = wish;
  const targets = new Map<number, number>();
  if (queueId < 0) {
    for (let queue = 0; queue < wish.queues; queue++)
      targets.set(queue, await offsetByTime(context, topic, queue, wish.timestamp));
    return targets;
  }
  if (offset === -1) {
    targets.set(queueId, await offsetByTime(context, topic, queueId, wish.timestamp));
    return targets;
  }
  const min = store.minOffsetInQueue(topic, queueId);
  const max = store.maxOffsetInQueue(topic, queueId);
  if (offset < min || offset > max + 1) {
    return `Target offset ${offset} not in consume queue range [${min}-${max}]`;
  }
  // RocketMQ: takes max + 1 too, which the next pull finds outside the queue.
  targets.set(queueId, Math.min(offset, max));
  return targets;
}

function offsetByTime({ store }: BrokerContext, topic: string, queueId: number, timestamp: number): Promise<number> {
  if (timestamp < 0) return Promise.resolve(store.maxOffsetInQueue(topic, queueId));
  return Promise.resolve(store.offsetInQueueByTime(topic, queueId, timestamp, 'LOWER'));
}

/** The reset waits for the next pull of each queue: no client needs to be connected, and no later commit undoes it. */
function resetHere(context: BrokerContext, request: Request): void {
  const { header } = request;
  const topic = header.required('topic');
  const group = header.get('group') ?? 'null';
  const dryRun = isDryRun(request);
  const wantsRemark = header.get('gantryDryRun') !== undefined;
  const config = context.topics.select(topic);
  if (config === undefined) {
    request.respond(ResponseCode.TOPIC_NOT_EXIST, `Topic ${topic} does not exist`);
    return;
  }
  if (!context.groups.has(group)) {
    request.respond(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, `Group ${group} does not exist`);
    return;
  }
  const wish: ResetWish = {
    topic,
    queueId: header.intOr('queueId', -1),
    timestamp: header.longOr('timestamp', -1),
    offset: header.longOr('offset', -1),
    queues: config.readQueueNums,
  };
  answerLater(request, async (responder) => {
    const targets = await resetTargets(context, wish);
    if (typeof targets === 'string' || targets.size === 0) {
      responder.respond(ResponseCode.SYSTEM_ERROR, typeof targets === 'string' ? targets : 'No queues to reset.');
      return;
    }
    const offsetTable = new Map<MessageQueue, number>();
    const moves: string[] = [];
    for (const [queueId, offset] of targets) {
      const before = context.offsets.query(group, topic, queueId);
      moves.push(`${queueId}: ${before < 0 ? 'none' : before} -> ${offset}`);
      if (!dryRun) context.offsets.assignReset(group, topic, queueId, offset);
      offsetTable.set(messageQueue(topic, context.config.brokerName, queueId), offset);
    }
    if (!dryRun) {
      context.logger.info(`offsets of group ${group} on topic ${topic} are reset`, { queues: moves.join(', ') });
      // RocketMQ: pops that wait hear of it when their time is up.
      for (const queueId of targets.keys()) context.pop.wakeIfAny(topic, group, queueId);
    }
    const remark = wantsRemark ? `${dryRun ? 'dry run, ' : ''}queues ${movesText(moves)}` : null;
    responder.respond(ResponseCode.SUCCESS, remark, null, toJsonBytes({ offsetTable }));
  });
}

function movesText(moves: readonly string[]): string {
  const more = moves.length - NAMED_QUEUES;
  return moves.slice(0, NAMED_QUEUES).join(', ') + (more > 0 ? ` and ${more} more` : '');
}

/** Every client of the group is told where to go on. RocketMQ: Broker2Client#resetOffset. */
function resetAtClients(context: BrokerContext, request: Request): void {
  const { header } = request;
  const topic = header.required('topic');
  const group = header.required('group');
  const timestamp = header.long('timestamp');
  const isForce = header.bool('isForce', false);
  const config = context.topics.select(topic);
  if (config === undefined) {
    const remark = `[reset-offset] reset offset failed, no topic in this broker. topic=${topic}`;
    request.respond(ResponseCode.TOPIC_NOT_EXIST, remark);
    return;
  }
  const { writeQueueNums } = config;
  // C++ reads a list where others read a map.
  const asList = header.language === 'CPP';
  answerLater(request, async (responder) => {
    const offsetTable = new Map<MessageQueue, number>();
    for (let queueId = 0; queueId < writeQueueNums; queueId++) {
      const before = context.offsets.query(group, topic, queueId);
      if (before === -1) {
        responder.respond(ResponseCode.SYSTEM_ERROR, `THe consumer group <${group}> not exist`);
        return;
      }
      const target = Math.max(0, await offsetByTime(context, topic, queueId, timestamp));
      const offset = isForce || target < before ? target : before;
      offsetTable.set(messageQueue(topic, context.config.brokerName, queueId), offset);
    }
    const clients = [...(context.consumers.find(group)?.channels.values() ?? [])];
    if (clients.length === 0) {
      const remark = `Consumer not online, so can not reset offset, Group: ${group} Topic: ${topic} Timestamp: ${timestamp}`;
      responder.respond(ResponseCode.CONSUMER_NOT_ONLINE, remark);
      return;
    }
    // RocketMQ: those before the first one that is too old are told all the same.
    const old = clients.find(isTooOld);
    if (old !== undefined) {
      responder.respond(ResponseCode.SYSTEM_ERROR, tooOldRemark(old));
      return;
    }
    const body = toJsonBytes({ offsetTable: asList ? listOf(offsetTable) : offsetTable });
    const ext = { topic, group, timestamp, isForce: false, queueId: -1 };
    for (const { channel } of clients) channel.sendOneway(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, ext, body);
    context.logger.info(`${clients.length} clients of group ${group} are told to reset their offsets on ${topic}`, {
      queues: toJson([...offsetTable.values()]),
    });
    responder.respond(ResponseCode.SUCCESS, null, null, toJsonBytes({ offsetTable }));
  });
}

/** RocketMQ: ResetOffsetBodyForC. */
function listOf(offsetTable: ReadonlyMap<MessageQueue, number>): object[] {
  return [...offsetTable].map(([queue, offset]) => ({ ...queue, offset }));
}

function isTooOld(client: ClientChannelInfo): boolean {
  return client.version < PeerVersion.V3_0_7_SNAPSHOT;
}

function tooOldRemark(client: ClientChannelInfo): string {
  return `the client does not support this feature. version=${client.version} (${client.clientId})`;
}

/** Where the clients of a group say that they are. RocketMQ: Broker2Client#getConsumeStatus. */
function consumerStatus(context: BrokerContext, request: Request): void {
  const { header } = request;
  const topic = header.required('topic');
  const group = header.required('group');
  const wanted = header.get('clientAddr') ?? '';
  // RocketMQ: a group that is not online ends in a NullPointerException.
  const all = [...(context.consumers.find(group)?.channels.values() ?? [])];
  if (all.length === 0) {
    const remark = `No Any Consumer online in the consumer group: [${group}]`;
    request.respond(ResponseCode.SYSTEM_ERROR, remark);
    return;
  }
  const clients = wanted.trim() === '' ? all : all.filter((client) => client.clientId === wanted);
  const old = clients.find(isTooOld);
  if (old !== undefined) {
    request.respond(ResponseCode.SYSTEM_ERROR, tooOldRemark(old));
    return;
  }
  answerLater(request, async (responder) => {
    const consumerTable = new Map<string, JsonValue>();
    const tables = await Promise.all(clients.map((client) => statusOf(context, client, topic, group)));
    for (const [i, table] of tables.entries()) {
      if (table !== undefined) consumerTable.set(clients[i]!.clientId, table);
    }
    responder.respond(ResponseCode.SUCCESS, null, null, toJsonBytes({ consumerTable, messageQueueTable: {} }));
  });
}

/** One client's table; undefined if it gives none. */
async function statusOf(
  { logger }: BrokerContext,
  client: ClientChannelInfo,
  topic: string,
  group: string,
): Promise<JsonValue | undefined> {
  try {
    const answer = await client.channel.invoke(
      RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT,
      { topic, group },
      null,
      STATUS_ANSWER_MS,
    );
    if (answer.code !== ResponseCode.SUCCESS || answer.body.length === 0) return undefined;
    const json = parseJson(answer.body);
    if (json === null || typeof json !== 'object' || Array.isArray(json) || json instanceof Map) return undefined;
    return json['messageQueueTable'];
  } catch (error) {
    if (!(error instanceof GantryError)) throw error;
    logger.warn(`client ${client.clientId} of group ${group} does not say where it is: ${errorText(error)}`);
    return undefined;
  }
}
