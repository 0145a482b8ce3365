// Offsets as administrators move them: reset by time or to a number, copy to another group, compare. RocketMQ: AdminBrokerProcessor.

import { type Request, RequestCode, ResponseCode, toJson, toJsonBytes } from '../../remoting/index.ts';
import type { BrokerContext } from '../broker-context.ts';
import type { MessageQueue } from '../client/rebalance-lock-manager.ts';
import { isBroadcast } from '../offset/consumer-offset-manager.ts';
import { messageQueue } from './message-queues.ts';
import { answerLater, type HandlerRegistry } from './registry.ts';

export function registerOffsetAdmin(registry: HandlerRegistry, context: BrokerContext): void {
  registry.register(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, (request) => resetOffset(context, request));
  registry.register(RequestCode.CLONE_GROUP_OFFSET, (request) => cloneGroupOffset(context, request));
  registry.register(RequestCode.QUERY_CORRECTION_OFFSET, (request) => queryCorrectionOffset(context, request));
  registry.register(RequestCode.GET_ALL_CONSUMER_OFFSET, (request) => {
    request.respond(ResponseCode.SUCCESS, null, null, toJsonBytes(allOffsets(context)));
  });
  registry.register(RequestCode.GET_ALL_DELAY_OFFSET, (request) => {
    const offsetTable = new Map([...context.schedule.progress()].map(({ level, offset }) => [level, offset]));
    const body = { dataVersion: context.schedule.dataVersion.fields(), offsetTable };
    request.respond(ResponseCode.SUCCESS, null, null, toJsonBytes(body));
  });
}

/** RocketMQ: the broker's answer to a slave is its consumerOffset.json in the compact form. */
function allOffsets(context: BrokerContext): object {
  const groupTopicMap = new Map<string, string[]>();
  const offsetTable = new Map<string, ReadonlyMap<number, number>>();
  const pullOffsetTable = new Map<string, ReadonlyMap<number, number>>();
  for (const offsets of context.offsets.entries()) {
    if (offsets.committed.size > 0) {
      offsetTable.set(offsets.key, offsets.committed);
      if (!isBroadcast(offsets.group)) {
        groupTopicMap.set(offsets.group, [...(groupTopicMap.get(offsets.group) ?? []), offsets.topic]);
      }
    }
    if (offsets.pulled.size > 0) pullOffsetTable.set(offsets.key, offsets.pulled);
  }
  return { dataVersion: context.offsets.dataVersion.fields(), groupTopicMap, offsetTable, pullOffsetTable };
}

/** Where each queue is to go: all read queues by time, or one by time or to a number. A text says why it cannot be. */
async function resetTargets(
  context: BrokerContext,
  wish: { topic: string; queueId: number; timestamp: number; offset: number; queues: number },
): Promise<Map<number, number> | string> {
  const { store } = context;
  const { topic, queueId, timestamp, offset } = wish;
  const byTime = (queue: number): Promise<number> | number =>
    timestamp < 0 ? store.maxOffsetInQueue(topic, queue) : store.offsetInQueueByTime(topic, queue, timestamp, 'LOWER');
  const targets = new Map<number, number>();
  if (queueId < 0) {
    for (let queue = 0; queue < wish.queues; queue++) targets.set(queue, await byTime(queue));
    return targets;
  }
  if (offset === -1) {
    targets.set(queueId, await byTime(queueId));
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

/** The reset waits for the next pull of each queue: no client needs to be connected, and no later commit undoes it. */
function resetOffset(context: BrokerContext, request: Request): void {
  const { header } = request;
  const topic = header.required('topic');
  const group = header.required('group');
  const config = context.topics.select(topic);
  if (config === undefined) {
    request.respond(ResponseCode.TOPIC_NOT_EXIST, `Topic ${topic} does not exist`);
    return;
  }
  if (!context.groups.has(group)) {
    request.respond(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, `Group ${group} does not exist`);
    return;
  }
  const wish = {
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
    for (const [queueId, offset] of targets) {
      context.offsets.assignReset(group, topic, queueId, offset);
      offsetTable.set(messageQueue(topic, context.config.brokerName, queueId), offset);
    }
    context.logger.info(`offsets of group ${group} on topic ${topic} are reset`, { queues: toJson(targets) });
    responder.respond(ResponseCode.SUCCESS, null, null, toJsonBytes({ offsetTable }));
  });
}

function cloneGroupOffset(context: BrokerContext, request: Request): void {
  const { header } = request;
  const from = header.required('srcGroup');
  const to = header.required('destGroup');
  const one = header.get('topic') ?? '';
  const offline = header.bool('offline', false);
  for (const topic of one.trim() === '' ? context.offsets.topicsOf(from) : [one]) {
    if (!context.topics.has(topic)) continue;
    const live = offline ? undefined : context.consumers.find(from);
    if (live !== undefined && live.subscriptions.size > 0 && !live.subscriptions.has(topic)) continue;
    context.offsets.clone(from, to, topic);
  }
  request.respond(ResponseCode.SUCCESS);
}

const LONG_MAX = 9_223_372_036_854_775_807n;

/** The lowest offset of all groups on each queue; beyond every number where the compared group is behind even that. */
function queryCorrectionOffset(context: BrokerContext, request: Request): void {
  const { header } = request;
  const topic = header.required('topic');
  const compare = context.offsets.find(header.required('compareGroup'), topic);
  // RocketMQ: deletes the filtered groups' offsets from its table. Here they are only passed over.
  const filtered = new Set((header.get('filterGroups') ?? '').split(','));
  const lowest = new Map<number, number | bigint>();
  for (const offsets of context.offsets.entries()) {
    if (offsets.topic !== topic || filtered.has(offsets.group)) continue;
    for (const [queueId, offset] of offsets.committed) {
      if (offset < context.store.minOffsetInQueue(topic, queueId)) continue;
      const known = lowest.get(queueId);
      if (known === undefined || offset < known) lowest.set(queueId, offset);
    }
  }
  for (const [queueId, offset] of compare?.committed ?? []) {
    const known = lowest.get(queueId);
    if (known !== undefined && known > offset) lowest.set(queueId, LONG_MAX);
  }
  request.respond(ResponseCode.SUCCESS, null, null, toJsonBytes({ correctionOffsets: lowest }));
}
