// How full queues are and how far groups have come. RocketMQ: AdminBrokerProcessor.

import { type Request, RequestCode, ResponseCode, toJson, toJsonBytes } from '../../remoting/index.ts';
import type { BrokerContext } from '../broker-context.ts';
import { asDouble } from '../broker-stats.ts';
import type { MessageQueue } from '../client/rebalance-lock-manager.ts';
import { messageQueue } from './message-queues.ts';
import { answerLater, type HandlerRegistry } from './registry.ts';

export function registerStatsAdmin(registry: HandlerRegistry, context: BrokerContext): void {
  registry.register(RequestCode.GET_TOPIC_STATS_INFO, (request) => getTopicStats(context, request));
  registry.register(RequestCode.GET_CONSUME_STATS, (request) => getConsumeStats(context, request));
  registry.register(RequestCode.GET_BROKER_CONSUME_STATS, (request) => getBrokerConsumeStats(context, request));
  registry.register(RequestCode.QUERY_CONSUME_TIME_SPAN, (request) => getConsumeTimeSpan(context, request));
  registry.register(RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, (request) => {
    const topic = request.header.required('topic');
    const groups = new Set([...context.consumers.groupsOfTopic(topic), ...context.offsets.groupsOf(topic)]);
    request.respond(ResponseCode.SUCCESS, null, null, toJsonBytes({ groupList: groups }));
  });
  registry.register(RequestCode.QUERY_TOPICS_BY_CONSUMER, (request) => {
    const topicList = context.offsets.topicsOf(request.header.required('group'));
    const body = { brokerAddr: context.brokerAddress, topicList };
    request.respond(ResponseCode.SUCCESS, null, null, toJsonBytes(body));
  });
  registry.register(RequestCode.VIEW_BROKER_STATS_DATA, (request) => {
    const name = request.header.required('statsName');
    const key = request.header.required('statsKey');
    const view = context.traffic.view(name, key);
    if (view === undefined) request.respond(ResponseCode.SYSTEM_ERROR, `The stats <${name}> <${key}> not exist`);
    else request.respond(ResponseCode.SUCCESS, null, null, toJsonBytes(view));
  });
}

function getTopicStats(context: BrokerContext, request: Request): void {
  const name = request.header.required('topic');
  const topic = context.topics.select(name);
  if (topic === undefined) {
    request.respond(ResponseCode.TOPIC_NOT_EXIST, `topic[${name}] not exist`);
    return;
  }
  const { store, config } = context;
  answerLater(request, async (responder) => {
    const offsetTable = new Map<MessageQueue, object>();
    for (let queueId = 0; queueId < Math.max(topic.readQueueNums, topic.writeQueueNums); queueId++) {
      const maxOffset = store.maxOffsetInQueue(name, queueId);
      const lastUpdateTimestamp = maxOffset > 0 ? await store.messageStoreTimestamp(name, queueId, maxOffset - 1) : 0;
      offsetTable.set(messageQueue(name, config.brokerName, queueId), {
        lastUpdateTimestamp,
        maxOffset,
        minOffset: store.minOffsetInQueue(name, queueId),
      });
    }
    responder.respond(
      ResponseCode.SUCCESS,
      null,
      null,
      toJsonBytes({ offsetTable, topicPutTps: context.traffic.puts.tps(name) }),
    );
  });
}

/** Where a group stands on one queue. RocketMQ: OffsetWrapper. */
interface OffsetWrapper {
  readonly brokerOffset: number;
  readonly consumerOffset: number;
  readonly lastTimestamp: number;
  readonly pullOffset: number;
}

async function standOf(context: BrokerContext, group: string, topic: string, queueId: number): Promise<OffsetWrapper> {
  const committed = context.offsets.query(group, topic, queueId);
  // RocketMQ: of a static topic the group may be in another place of the logic queue, and 0 would be taken for its offset.
  const consumerOffset = context.mappings.find(topic) === undefined ? Math.max(0, committed) : committed;
  const time = consumerOffset > 0 ? await context.store.messageStoreTimestamp(topic, queueId, consumerOffset - 1) : 0;
  return {
    brokerOffset: context.store.maxOffsetInQueue(topic, queueId),
    consumerOffset,
    lastTimestamp: Math.max(0, time),
    pullOffset: Math.max(consumerOffset, context.offsets.queryPull(group, topic, queueId)),
  };
}

/** The topics that a request about a group names, or those that the group has offsets for. */
function topicsAskedFor(context: BrokerContext, request: Request, group: string): string[] {
  const list = (request.header.get('topicList') ?? '').split(';').filter((topic) => topic.trim() !== '');
  if (list.length > 0) return list;
  const one = request.header.get('topic') ?? '';
  const topics = one.trim() === '' ? context.offsets.topicsOf(group) : [one];
  return topics.filter((topic) => !context.consumers.hasLeft(group, topic));
}

function getConsumeStats(context: BrokerContext, request: Request): void {
  const group = request.header.required('consumerGroup');
  const topics = topicsAskedFor(context, request, group);
  answerLater(request, async (responder) => {
    const offsetTable = new Map<MessageQueue, OffsetWrapper>();
    let consumeTps = 0;
    for (const topic of topics) {
      consumeTps += context.traffic.gets.tps(context.traffic.groupKey(topic, group));
      const queues = context.topics.select(topic)?.readQueueNums ?? 0;
      for (let queueId = 0; queueId < queues; queueId++) {
        const queue = messageQueue(topic, context.config.brokerName, queueId);
        offsetTable.set(queue, await standOf(context, group, topic, queueId));
      }
    }
    responder.respond(ResponseCode.SUCCESS, null, null, toJsonBytes({ consumeTps, offsetTable }));
  });
}

function getBrokerConsumeStats(context: BrokerContext, request: Request): void {
  const orderOnly = request.header.bool('isOrder', false);
  const groups = [...context.groups.all()].map((group) => group.groupName);
  answerLater(request, async (responder) => {
    const stats: Buffer[] = [];
    let totalDiff = 0;
    let totalInflightDiff = 0;
    for (const group of groups) {
      const ofGroup: object[] = [];
      for (const name of context.offsets.topicsOf(group)) {
        const topic = context.topics.select(name);
        if (topic === undefined || (orderOnly && !topic.order) || context.consumers.hasLeft(group, name)) continue;
        const offsetTable = new Map<MessageQueue, OffsetWrapper>();
        for (let queueId = 0; queueId < topic.writeQueueNums; queueId++) {
          const stand = await standOf(context, group, name, queueId);
          // RocketMQ: leaves pullOffset at 0 here, so that its total of messages in flight comes out negative.
          offsetTable.set(messageQueue(name, context.config.brokerName, queueId), stand);
          totalDiff += stand.brokerOffset - stand.consumerOffset;
          totalInflightDiff += stand.pullOffset - stand.consumerOffset;
        }
        const consumeTps = context.traffic.gets.tps(context.traffic.groupKey(name, group));
        ofGroup.push({ consumeTps, offsetTable });
      }
      stats.push(Buffer.from(`${stats.length === 0 ? '' : ','}${toJson({ [group]: ofGroup })}`));
      await new Promise<void>((resolve) => context.clock.soon(resolve));
    }
    const head = `{"brokerAddr":${toJson(context.brokerAddress)},"consumeStatsList":[`;
    const end = `],"totalDiff":${totalDiff},"totalInflightDiff":${totalInflightDiff}}`;
    responder.respond(ResponseCode.SUCCESS, null, null, Buffer.concat([Buffer.from(head), ...stats, Buffer.from(end)]));
  });
}

function getConsumeTimeSpan(context: BrokerContext, request: Request): void {
  const name = request.header.required('topic');
  const group = request.header.required('group');
  const topic = context.topics.select(name);
  if (topic === undefined) {
    request.respond(ResponseCode.TOPIC_NOT_EXIST, `topic[${name}] not exist`);
    return;
  }
  const { store, offsets, clock, config } = context;
  answerLater(request, async (responder) => {
    const consumeTimeSpanSet: object[] = [];
    for (let queueId = 0; queueId < topic.writeQueueNums; queueId++) {
      const timeAt = (offset: number): Promise<number> => store.messageStoreTimestamp(name, queueId, offset);
      const minTimeStamp = await store.earliestMessageTime(name, queueId);
      const max = store.maxOffsetInQueue(name, queueId);
      const consumed = offsets.query(group, name, queueId);
      // RocketMQ: a group without an offset counts from -1, and its delay becomes the whole time since 1970. It begins at the queue's minimum.
      const next = Math.max(consumed, store.minOffsetInQueue(name, queueId));
      consumeTimeSpanSet.push({
        consumeTimeStamp: consumed > 0 ? await timeAt(consumed - 1) : minTimeStamp,
        delayTime: next < max ? clock.now() - (await timeAt(next)) : 0,
        maxTimeStamp: await timeAt(max - 1),
        messageQueue: messageQueue(name, config.brokerName, queueId),
        minTimeStamp,
      });
    }
    responder.respond(ResponseCode.SUCCESS, null, null, toJsonBytes({ consumeTimeSpanSet }));
  });
}

/** The runtime information's numbers of this broker's own counters, in RocketMQ's names and texts. */
export function statsInfo(context: BrokerContext): Record<string, string> {
  const { stats, clock } = context;
  const average = stats.putMessages === 0 ? 0 : stats.putBytes / stats.putMessages;
  return {
    bootTimestamp: String(stats.bootMs),
    runtime: runtimeText(clock.now() - stats.bootMs),
    putMessageEntireTimeMax: String(stats.putLongestMs),
    putMessageTimesTotal: String(stats.putMessages),
    putMessageFailedTimes: String(stats.putFailed),
    ...(context.config.gantrySendDeduplicationEnable ? { gantrySendDuplicates: String(stats.putDuplicates) } : {}),
    putMessageSizeTotal: String(stats.putBytes),
    putMessageAverageSize: asDouble(average),
    putTps: stats.rates('put'),
    getFoundTps: stats.rates('found'),
    getMissTps: stats.rates('missed'),
    getTotalTps: stats.rates('get'),
    getTransferredTps: stats.rates('transferred'),
    msgPutTotalYesterdayMorning: String(stats.putYesterdayMorning),
    msgPutTotalTodayMorning: String(stats.putTodayMorning),
    msgPutTotalTodayNow: String(stats.putMessages),
    msgGetTotalYesterdayMorning: String(stats.getYesterdayMorning),
    msgGetTotalTodayMorning: String(stats.getTodayMorning),
    msgGetTotalTodayNow: String(stats.getMessages),
  };
}

function runtimeText(ms: number): string {
  const seconds = Math.floor(ms / 1000);
  const days = Math.floor(seconds / 86_400);
  const hours = Math.floor(seconds / 3600) % 24;
  const minutes = Math.floor(seconds / 60) % 60;
  return `[ ${days} days, ${hours} hours, ${minutes} minutes, ${seconds % 60} seconds ]`;
}
