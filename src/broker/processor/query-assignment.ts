// Clients that leave it to the broker which queues they consume, and whether they pull or pop them. RocketMQ: QueryAssignmentProcessor,
// and the look-up of AdminBrokerProcessor.

import { GantryError } from '../../common/index.ts';
import { type Request, RequestCode, ResponseCode, toJsonBytes } from '../../remoting/index.ts';
import { isLightQueue } from '../../store/index.ts';
import { allocateForPop, compareQueues, STRATEGIES } from '../assignment/allocate.ts';
import { type RequestModeSetting, readRequestMode } from '../assignment/message-request-mode-manager.ts';
import type { TopicRoutes } from '../assignment/topic-routes.ts';
import type { BrokerContext } from '../broker-context.ts';
import { bodyObject } from '../client/heartbeat-data.ts';
import type { MessageQueue } from '../client/rebalance-lock-manager.ts';
import { readText } from '../json-fields.ts';
import { RETRY_GROUP_TOPIC_PREFIX } from '../topic/topic-names.ts';
import { answerLater, type HandlerRegistry, NO_REMARK_SET } from './registry.ts';

/** RocketMQ: QueryAssignmentRequestBody. */
interface AssignmentRequest {
  readonly topic: string;
  readonly group: string;
  readonly clientId: string;
  readonly strategyName: string | undefined;
  readonly messageModel: string | undefined;
}

export function registerQueryAssignment(registry: HandlerRegistry, context: BrokerContext, routes: TopicRoutes): void {
  const { requestModes } = context;
  registry.register(RequestCode.QUERY_ASSIGNMENT, (request) => queryAssignment(context, routes, request));
  registry.register(RequestCode.SET_MESSAGE_REQUEST_MODE, (request) => setMessageRequestMode(context, request));
  registry.register(RequestCode.GET_ALL_MESSAGE_REQUEST_MODE, (request) => {
    request.respond(ResponseCode.SUCCESS, null, null, toJsonBytes(requestModes.toJson()));
  });
  // Pops under way in RocksDB go into the topic; here they always are. RocketMQ: transferPopToFsStore, for mqadmin exportPopRecord.
  registry.register(RequestCode.POP_ROLLBACK, (request) => request.respond(ResponseCode.SUCCESS, NO_REMARK_SET));
}

function queryAssignment(context: BrokerContext, routes: TopicRoutes, request: Request): void {
  const wanted = readAssignmentRequest(request);
  const answer = (respond: Request['respond'], known: readonly MessageQueue[] | undefined): void => {
    const setting = modeOf(context, wanted);
    const queues = assigned(context, wanted, setting, known);
    // RocketMQ: no list at all says "keep what you have", an empty one "you have none".
    const messageQueueAssignments = queues?.map((messageQueue) => ({ messageQueue, mode: setting.mode }));
    respond(ResponseCode.SUCCESS, null, null, toJsonBytes({ messageQueueAssignments }));
  };
  const known = isLightQueue(wanted.topic) ? lightQueue(context, wanted.topic) : routes.find(wanted.topic);
  if (known !== undefined) {
    answer((...response) => request.respond(...response), known);
    return;
  }
  answerLater(request, async (responder) => {
    const found = await routes.queuesOf(wanted.topic);
    answer((...response) => responder.respond(...response), found);
  });
}

/** @throws GantryError JSON or CONFIG_FILE (answered with code 1) for a body without topic, group or client. RocketMQ: a NullPointerException. */
function readAssignmentRequest(request: Request): AssignmentRequest {
  const json = bodyObject(request.bodyCopy());
  const topic = readText(json, 'topic');
  const group = readText(json, 'consumerGroup');
  if (topic === undefined || group === undefined) {
    throw new GantryError('JSON', 'the body names no topic or no consumerGroup', { responseCode: 1 });
  }
  return {
    topic,
    group,
    clientId: readText(json, 'clientId') ?? '',
    strategyName: readText(json, 'strategyName'),
    messageModel: readText(json, 'messageModel'),
  };
}

function lightQueue({ config }: BrokerContext, topic: string): MessageQueue[] {
  return [{ brokerName: config.brokerName, queueId: 0, topic }];
}

/** What an administrator has set, or else the broker's default; a retry topic is pulled. */
function modeOf({ config, requestModes }: BrokerContext, { topic, group }: AssignmentRequest): RequestModeSetting {
  const set = requestModes.find(topic, group);
  if (set !== undefined) return set;
  const mode = topic.startsWith(RETRY_GROUP_TOPIC_PREFIX) ? 'PULL' : config.defaultMessageRequestMode;
  const popShareQueueNum = mode === 'POP' ? config.defaultPopShareQueueNum : 0;
  return { topic, consumerGroup: group, mode, popShareQueueNum };
}

/** Undefined: nothing can be said. RocketMQ: doLoadBalance. */
function assigned(
  context: BrokerContext,
  { group, clientId, strategyName, messageModel }: AssignmentRequest,
  { mode, popShareQueueNum }: RequestModeSetting,
  known: readonly MessageQueue[] | undefined,
): readonly MessageQueue[] | undefined {
  if (known === undefined || messageModel === 'BROADCASTING') return known;
  if (messageModel !== 'CLUSTERING') return undefined;
  if (!context.config.serverLoadBalancerEnable) return known;
  const clientIds = context.consumers.find(group)?.clientIds().toSorted() ?? [];
  const strategy = STRATEGIES.get(strategyName ?? '');
  if (strategy === undefined || clientId === '' || clientIds.length === 0 || known.length === 0) return undefined;
  const queues = known.toSorted(compareQueues);
  return mode === 'POP'
    ? allocateForPop(strategy, clientId, queues, clientIds, popShareQueueNum)
    : strategy(clientId, queues, clientIds);
}

function setMessageRequestMode({ topics, groups, requestModes }: BrokerContext, request: Request): void {
  const setting = readRequestMode(bodyObject(request.bodyCopy()));
  const { topic, consumerGroup } = setting;
  if (topic.startsWith(RETRY_GROUP_TOPIC_PREFIX)) {
    request.respond(ResponseCode.NO_PERMISSION, 'retry topic is not allowed to set mode');
    return;
  }
  if (!topics.has(topic)) {
    request.respond(ResponseCode.TOPIC_NOT_EXIST, `topic[${topic}] not exist`);
    return;
  }
  if (groups.findOrCreate(consumerGroup) === undefined) {
    request.respond(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, 'subscription group does not exist');
    return;
  }
  requestModes.set(setting);
  request.respond(ResponseCode.SUCCESS);
}
