// Lite topics as administrators see them (200074 to 200079; mqadmin getBrokerLiteInfo, getParentTopicInfo, getLiteTopicInfo,
// getLiteClientInfo, getLiteGroupInfo, triggerLiteDispatch). RocketMQ: LiteManagerProcessor.

import { type Request, RequestCode, type Responder, ResponseCode, toJsonBytes } from '../../remoting/index.ts';
import { isLightQueue } from '../../store/index.ts';
import type { BrokerContext } from '../broker-context.ts';
import { forEachInTurns } from '../in-turns.ts';
import { answerLater, type HandlerRegistry } from '../processor/registry.ts';
import type { SubscriptionGroupConfig } from '../subscription/subscription-group-config.ts';
import type { TopicConfig } from '../topic/topic-config.ts';
import { lightQueueOf } from '../topic/topic-names.ts';
import { bindTopicOf, boundGroups, isLiteTopic, isWildcardGroup, liteExpiration, topicTtls } from './lite-metadata.ts';

/** Lite topics that an answer names at most. */
const MOST_NAMED = 10_000;
const DEFAULT_NAMED = 1000;

export function registerLiteAdmin(registry: HandlerRegistry, context: BrokerContext): void {
  registry.register(RequestCode.GET_BROKER_LITE_INFO, (request) => getBrokerLiteInfo(context, request));
  registry.register(RequestCode.GET_PARENT_TOPIC_INFO, (request) => getParentTopicInfo(context, request));
  registry.register(RequestCode.GET_LITE_TOPIC_INFO, (request) => getLiteTopicInfo(context, request));
  registry.register(RequestCode.GET_LITE_CLIENT_INFO, (request) => getLiteClientInfo(context, request));
  registry.register(RequestCode.GET_LITE_GROUP_INFO, (request) => getLiteGroupInfo(context, request));
  registry.register(RequestCode.TRIGGER_LITE_DISPATCH, (request) => triggerLiteDispatch(context, request));
}

function answer(responder: Responder, body: object): void {
  responder.respond(ResponseCode.SUCCESS, null, null, toJsonBytes(body));
}

function getBrokerLiteInfo(context: BrokerContext, request: Request): void {
  const { clock, groups, lite, offsets, store, topics } = context;
  answerLater(request, async (responder) => {
    const tables = new Set<string>();
    let currentLmqNum = 0;
    await forEachInTurns(clock, store.queues(), ({ topic }) => {
      tables.add(topic);
      if (isLightQueue(topic)) currentLmqNum++;
    });
    let offsetTableSize = 0;
    await forEachInTurns(clock, offsets.entries(), ({ committed }) => {
      if (committed.size > 0) offsetTableSize++;
    });
    answer(responder, {
      cqTableSize: tables.size,
      currentLmqNum,
      eventMapSize: lite.events.size,
      groupMeta: boundGroups(groups),
      liteSubscriptionCount: lite.subscriptions.count,
      maxLmqNum: store.config.maxLmqConsumeQueueNum,
      offsetTableSize,
      orderInfoCount: lite.order.size,
      storeType: 'default',
      topicMeta: topicTtls(topics),
    });
  });
}

/** The parent topic, or undefined after an answer that says what is wrong with it. */
function parentOf({ topics }: BrokerContext, request: Request, name: string | undefined): TopicConfig | undefined {
  const topic = name === undefined ? undefined : topics.select(name);
  if (topic === undefined) request.respond(ResponseCode.TOPIC_NOT_EXIST, `Topic [${name ?? null}] not exist.`);
  else if (isLiteTopic(topic)) return topic;
  else request.respond(ResponseCode.INVALID_PARAMETER, `Topic [${name}] type not match.`);
  return undefined;
}

/** The group, or undefined after an answer that says that there is none. */
function groupOf({ groups }: BrokerContext, request: Request, name: string): SubscriptionGroupConfig | undefined {
  const group = groups.find(name);
  if (group === undefined) request.respond(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, `Group [${name}] not exist.`);
  return group;
}

/** The parent topic of a lite group, or undefined after an answer that says that it is none. */
function boundTopicOf(context: BrokerContext, request: Request, name: string): string | undefined {
  const group = groupOf(context, request, name);
  const topic = bindTopicOf(group) ?? '';
  if (group === undefined || topic !== '') return topic === '' ? undefined : topic;
  request.respond(ResponseCode.INVALID_PARAMETER, `Group [${name}] is not a LITE group.`);
  return undefined;
}

function getParentTopicInfo(context: BrokerContext, request: Request): void {
  const { groups, lite } = context;
  const topic = parentOf(context, request, request.header.required('topic'));
  if (topic === undefined) return;
  answer(request, {
    groups: boundGroups(groups).get(topic.topicName),
    liteTopicCount: lite.lifecycle.queuesOf(topic.topicName).length,
    lmqNum: lite.lifecycle.lightQueues,
    topic: topic.topicName,
    ttl: liteExpiration(topic),
  });
}

function getLiteTopicInfo(context: BrokerContext, request: Request): void {
  const { groups, lite, store } = context;
  const parent = parentOf(context, request, request.header.get('parentTopic'));
  if (parent === undefined) return;
  const { topicName: parentTopic } = parent;
  const liteTopic = request.header.get('liteTopic') ?? '';
  const queue = lightQueueOf(parentTopic, liteTopic);
  answerLater(request, async (responder) => {
    await lite.sharding.know(parentTopic);
    const maxOffset = lite.endOf(queue);
    const lastUpdateTimestamp = maxOffset > 0 ? await store.messageStoreTimestamp(queue, 0, maxOffset - 1) : 0;
    const subscriber: object[] = [];
    for (const [group, clients] of lite.subscriptions.allSubscribers(queue)) {
      if (isWildcardGroup(groups.find(group))) subscriber.push({ clientId: '*', group });
      else for (const { clientId } of clients) subscriber.push({ clientId, group });
    }
    answer(responder, {
      liteTopic: liteTopic === '' ? undefined : liteTopic,
      parentTopic,
      shardingToBroker: lite.sharding.isOwn(parentTopic, queue),
      subscriber,
      topicOffset: {
        lastUpdateTimestamp,
        maxOffset,
        minOffset: maxOffset > 0 ? Math.max(0, store.minOffsetInQueue(queue, 0)) : 0,
      },
    });
  });
}

function getLiteClientInfo(context: BrokerContext, request: Request): void {
  const { lite } = context;
  const { header } = request;
  const parent = parentOf(context, request, header.get('parentTopic'));
  if (parent === undefined) return;
  const name = header.required('group');
  const group = groupOf(context, request, name);
  if (group === undefined) return;
  if (bindTopicOf(group) !== parent.topicName) {
    const remark = `Subscription [${name}]-[${parent.topicName}] not match.`;
    request.respond(ResponseCode.INVALID_PARAMETER, remark);
    return;
  }
  const clientId = header.required('clientId');
  const maxCount = header.intOr('maxCount', DEFAULT_NAMED);
  if (maxCount <= 0) {
    request.respond(ResponseCode.SYSTEM_ERROR, '[maxCount] field invalid');
    return;
  }
  const queues = lite.subscriptions.of(clientId)?.queues;
  answer(request, {
    clientId,
    group: name,
    lastAccessTime: lite.events.lastAccess(clientId),
    lastConsumeTime: 0,
    liteTopicCount: queues?.size ?? -1,
    liteTopicSet: queues === undefined ? undefined : [...queues].slice(0, Math.min(maxCount, MOST_NAMED)),
    parentTopic: parent.topicName,
  });
}

function getLiteGroupInfo(context: BrokerContext, request: Request): void {
  const { header } = request;
  const group = header.required('group');
  const parentTopic = boundTopicOf(context, request, group);
  if (parentTopic === undefined) return;
  const liteTopic = header.get('liteTopic') ?? '';
  const topK = header.intOr('topK', 0);
  const common = { group, parentTopic, liteTopic: header.get('liteTopic') };
  answerLater(request, async (responder) => {
    answer(
      responder,
      liteTopic === ''
        ? { ...common, ...(await groupLag(context, group, parentTopic, topK)) }
        : { ...common, ...(await topicLag(context, group, lightQueueOf(parentTopic, liteTopic))) },
    );
  });
}

async function groupLag({ lite }: BrokerContext, group: string, parent: string, topK: number): Promise<object> {
  const byCount = await lite.lags.byCount(group, topK);
  const byTime = lite.lags.byTime(group, parent, topK);
  return {
    earliestUnconsumedTimestamp: byTime.oldest,
    lagCountTopK: byCount.lags,
    lagTimestampTopK: byTime.lags,
    totalLagCount: byCount.total,
  };
}

async function topicLag({ lite, offsets, store }: BrokerContext, group: string, queue: string): Promise<object> {
  const brokerOffset = lite.endOf(queue);
  const consumerOffset = offsets.query(group, queue, 0);
  if (brokerOffset <= 0) return { earliestUnconsumedTimestamp: -1, totalLagCount: -1 };
  if (consumerOffset < 0) return { earliestUnconsumedTimestamp: -1, totalLagCount: 0 };
  return {
    earliestUnconsumedTimestamp: await store.messageStoreTimestamp(queue, 0, consumerOffset),
    liteTopicOffsetWrapper: {
      brokerOffset,
      consumerOffset,
      lastTimestamp: consumerOffset > 0 ? await store.messageStoreTimestamp(queue, 0, consumerOffset - 1) : 0,
      pullOffset: 0,
    },
    totalLagCount: brokerOffset - consumerOffset,
  };
}

function triggerLiteDispatch(context: BrokerContext, request: Request): void {
  const { events } = context.lite;
  const group = request.header.required('group');
  if (boundTopicOf(context, request, group) === undefined) return;
  const clientId = request.header.get('clientId') ?? '';
  if (clientId === '') events.fullForGroup(group);
  else events.fullForClient(clientId, group);
  request.respond(ResponseCode.SUCCESS);
}
