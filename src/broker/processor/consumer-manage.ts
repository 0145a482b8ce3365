// What consumers ask between pulls: who else is in the group, where they stand, where a queue begins and ends. RocketMQ:
// ConsumerManageProcessor, and the offset look-ups of AdminBrokerProcessor.

import { type Request, RequestCode, ResponseCode, toJsonBytes } from '../../remoting/index.ts';
import type { BrokerContext } from '../broker-context.ts';
import { EmptyStarts } from '../offset/empty-starts.ts';
import { isYoungQueue } from '../store-reads.ts';
import { lightQueueOf } from '../topic/topic-names.ts';
import { answerLater, type HandlerRegistry } from './registry.ts';

export function registerConsumerManage(registry: HandlerRegistry, context: BrokerContext): void {
  const emptyStarts = new EmptyStarts(context.clock);
  registry.register(RequestCode.GET_CONSUMER_LIST_BY_GROUP, (request) => getConsumerList(context, request));
  registry.register(RequestCode.UPDATE_CONSUMER_OFFSET, (request) => updateConsumerOffset(context, request));
  registry.register(RequestCode.QUERY_CONSUMER_OFFSET, (request) => queryConsumerOffset(context, emptyStarts, request));
  registry.register(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, (request) => searchOffset(context, request));
  registry.register(RequestCode.GET_MAX_OFFSET, (request) => {
    const topic = request.header.required('topic');
    const queueId = request.header.int('queueId');
    const offset = emptyStarts.take(request.channel, topic, queueId)
      ? 0
      : context.store.maxOffsetInQueue(topic, queueId);
    request.respond(ResponseCode.SUCCESS, null, { offset });
  });
  registry.register(RequestCode.GET_MIN_OFFSET, (request) => {
    const offset = context.store.minOffsetInQueue(request.header.required('topic'), request.header.int('queueId'));
    // RocketMQ: an empty remark here, none everywhere else.
    request.respond(ResponseCode.SUCCESS, '', { offset });
  });
  registry.register(RequestCode.GET_EARLIEST_MSG_STORETIME, (request) => {
    const topic = request.header.required('topic');
    const queueId = request.header.int('queueId');
    answerLater(request, async (responder) => {
      const timestamp = await context.store.earliestMessageTime(topic, queueId);
      responder.respond(ResponseCode.SUCCESS, null, { timestamp });
    });
  });
}

function getConsumerList(context: BrokerContext, request: Request): void {
  const group = request.header.required('consumerGroup');
  const consumerIdList = context.consumers.find(group)?.clientIds() ?? [];
  // RocketMQ: an unknown group is an error and no empty list; a client takes an empty list for "nobody consumes".
  if (consumerIdList.length === 0) {
    request.respond(ResponseCode.SYSTEM_ERROR, `no consumer for this group, ${group}`, {});
    return;
  }
  request.respond(ResponseCode.SUCCESS, null, {}, toJsonBytes({ consumerIdList }));
}

function updateConsumerOffset(context: BrokerContext, request: Request): void {
  const { header } = request;
  const topic = header.required('topic');
  // RocketMQ: a group that is not named is an unknown one.
  const group = header.get('consumerGroup') ?? 'null';
  if (!context.groups.has(group)) {
    request.respond(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, `Group ${group} not exist!`, {});
    return;
  }
  if (!context.topics.has(topic)) {
    request.respond(ResponseCode.TOPIC_NOT_EXIST, `Topic ${topic} not exist!`, {});
    return;
  }
  const queueId = numberOrNone(() => header.int('queueId'));
  if (queueId === undefined) {
    request.respond(ResponseCode.INVALID_PARAMETER, `QueueId is null, topic is ${topic}`, {});
    return;
  }
  const commitOffset = numberOrNone(() => header.long('commitOffset'));
  if (commitOffset === undefined) {
    request.respond(ResponseCode.INVALID_PARAMETER, `Offset is null, topic is ${topic}`, {});
    return;
  }
  if (context.config.useServerSideResetOffset && context.offsets.hasReset(group, topic, queueId)) {
    request.respond(ResponseCode.SUCCESS, 'Offset has been previously reset', {});
    return;
  }
  context.offsets.commit(request.channel.remoteAddress, group, topic, queueId, commitOffset);
  request.respond(ResponseCode.SUCCESS, null, {});
}

/** RocketMQ: what is no number of its size counts as not there. */
function numberOrNone(read: () => number): number | undefined {
  try {
    return read();
  } catch {
    return undefined;
  }
}

function queryConsumerOffset(context: BrokerContext, emptyStarts: EmptyStarts, request: Request): void {
  const { header } = request;
  const topic = header.required('topic');
  const queueId = header.int('queueId');
  const offset = context.offsets.query(header.required('consumerGroup'), topic, queueId);
  if (offset >= 0) {
    request.respond(ResponseCode.SUCCESS, null, { offset });
    return;
  }
  if (!header.bool('setZeroIfNotFound', true)) {
    request.respond(ResponseCode.QUERY_NOT_FOUND, 'Not found, do not set to zero, maybe this group boot first', {});
    return;
  }
  const notFound = 'Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first';
  if (!context.config.gantryYoungQueueFromZero || context.store.minOffsetInQueue(topic, queueId) > 0) {
    request.respond(ResponseCode.QUERY_NOT_FOUND, notFound, {});
    return;
  }
  if (context.store.maxOffsetInQueue(topic, queueId) === 0) {
    emptyStarts.note(request.channel, topic, queueId);
    request.respond(ResponseCode.QUERY_NOT_FOUND, notFound, {});
    return;
  }
  answerYoungQueue(context, request, topic, queueId, notFound);
}

/** Offset 0 in a young queue, as RocketMQ has it; else "not found". */
function answerYoungQueue(
  context: BrokerContext,
  request: Request,
  topic: string,
  queueId: number,
  notFound: string,
): void {
  answerLater(request, async (responder) => {
    if (await isYoungQueue(context.store, topic, queueId)) {
      responder.respond(ResponseCode.SUCCESS, null, { offset: 0 });
    } else {
      responder.respond(ResponseCode.QUERY_NOT_FOUND, notFound, {});
    }
  });
}

function searchOffset(context: BrokerContext, request: Request): void {
  const { header } = request;
  const parent = header.required('topic');
  const lite = header.get('liteTopic') ?? '';
  const topic = lite.trim() === '' ? parent : lightQueueOf(parent, lite);
  const queueId = header.int('queueId');
  const timestamp = header.long('timestamp');
  const boundary = header.get('boundaryType')?.toUpperCase() === 'UPPER' ? 'UPPER' : 'LOWER';
  answerLater(request, async (responder) => {
    const offset = await context.store.offsetInQueueByTime(topic, queueId, timestamp, boundary);
    responder.respond(ResponseCode.SUCCESS, null, { offset });
  });
}
