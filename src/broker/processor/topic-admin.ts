// Topics as administrators see them: create, change, delete, show. RocketMQ: AdminBrokerProcessor.

import { GantryError } from '../../common/index.ts';
import { parseJson, type Request, RequestCode, ResponseCode, toJson, toJsonBytes } from '../../remoting/index.ts';
import type { BrokerContext } from '../broker-context.ts';
import { bodyObject, objectsOf } from '../client/heartbeat-data.ts';
import type { DataVersion } from '../data-version.ts';
import { bytesInTurns, mapPieces } from '../in-turns.ts';
import { readText } from '../json-fields.ts';
import { isLiteTopic } from '../lite/lite-metadata.ts';
import { detailFields } from '../statictopic/topic-queue-mapping.ts';
import { parseAttributes } from '../topic/attributes.ts';
import { queueNumsFault, TopicConfig } from '../topic/topic-config.ts';
import { readTopicConfig, topicFields } from '../topic/topic-json.ts';
import { popRetryTopicV1, popRetryTopicV2, topicNameFault } from '../topic/topic-names.ts';
import { answerLater, type HandlerRegistry, NO_REMARK_SET } from './registry.ts';

export function registerTopicAdmin(registry: HandlerRegistry, context: BrokerContext): void {
  registry.register(RequestCode.UPDATE_AND_CREATE_TOPIC, (request) => updateTopic(context, request));
  registry.register(RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, (request) => updateTopicList(context, request));
  registry.register(RequestCode.DELETE_TOPIC_IN_BROKER, (request) => deleteTopic(context, request));
  registry.register(RequestCode.GET_ALL_TOPIC_CONFIG, (request) => getAllTopics(context, request));
  registry.register(RequestCode.GET_TOPIC_CONFIG, (request) => getTopic(context, request));
  registry.register(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER, (request) => {
    const topicList = context.topics.systemTopics.names();
    request.respond(ResponseCode.SUCCESS, null, null, toJsonBytes({ topicList }));
  });
}

/** Why an administrator may not touch a topic of this name; undefined if he may. */
export function topicFault(context: BrokerContext, topic: string): string | undefined {
  const fault = topicNameFault(topic);
  if (fault !== undefined) return fault;
  const ours = context.config.validateSystemTopicWhenUpdateTopic && context.topics.systemTopics.isSystem(topic);
  return ours ? `The topic[${topic}] is conflict with system topic.` : undefined;
}

export function queuesFault(topic: TopicConfig): string | undefined {
  return queueNumsFault('readQueueNums', topic.readQueueNums) ?? queueNumsFault('writeQueueNums', topic.writeQueueNums);
}

function mixedFault(context: BrokerContext, attributes: ReadonlyMap<string, string>): string | undefined {
  const refused = !context.config.enableMixedMessageType && attributes.get('+message.type') === 'MIXED';
  return refused ? 'MIXED message type is not supported.' : undefined;
}

function updateTopic(context: BrokerContext, request: Request): void {
  const { header } = request;
  const name = header.required('topic');
  const fault = topicFault(context, name);
  if (fault !== undefined) {
    request.respond(ResponseCode.INVALID_PARAMETER, fault);
    return;
  }
  const filterType = header.required('topicFilterType');
  if (filterType !== 'SINGLE_TAG' && filterType !== 'MULTI_TAG') {
    throw new GantryError('HEADER', `topicFilterType "${filterType}" is neither SINGLE_TAG nor MULTI_TAG`);
  }
  const attributes = parseAttributes(header.get('attributes'));
  const mixed = mixedFault(context, attributes);
  if (mixed !== undefined) {
    request.respond(ResponseCode.INVALID_PARAMETER, mixed);
    return;
  }
  const topic = new TopicConfig(name, {
    readQueueNums: header.int('readQueueNums'),
    writeQueueNums: header.int('writeQueueNums'),
    perm: header.int('perm'),
    topicFilterType: filterType,
    topicSysFlag: header.intOr('topicSysFlag', 0),
    order: header.bool('order', false),
    attributes,
  });
  const queues = queuesFault(topic);
  if (queues !== undefined) {
    request.respond(ResponseCode.INVALID_PARAMETER, queues);
    return;
  }
  const existing = context.topics.select(name);
  // A topic that spreads from another broker never changes one that is here.
  const unwanted = existing !== undefined && header.bool('gantryOnlyIfAbsent', false);
  answerLater(request, async (responder) => {
    if (!unwanted && (existing === undefined || !existing.equals(topic))) {
      await context.topics.update([{ topic, attributes }]);
    } else await context.topics.durable(name);
    responder.respond(ResponseCode.SUCCESS, NO_REMARK_SET);
  });
}

function updateTopicList(context: BrokerContext, request: Request): void {
  const wishes: Array<{ topic: TopicConfig; attributes: ReadonlyMap<string, string> }> = [];
  for (const json of objectsOf(bodyObject(request.bodyCopy()), 'topicConfigList')) {
    const topic = readTopicConfig(json, readText(json, 'topicName') ?? '')!;
    const fault = topicFault(context, topic.topicName) ?? mixedFault(context, topic.attributes) ?? queuesFault(topic);
    if (fault !== undefined) {
      request.respond(ResponseCode.INVALID_PARAMETER, fault);
      return;
    }
    // RocketMQ: one topic that is the same already ends the whole request with success, the others unmade.
    if (context.topics.select(topic.topicName)?.equals(topic)) continue;
    wishes.push({ topic, attributes: topic.attributes });
  }
  answerLater(request, async (responder) => {
    // Also those that are the same already, but may not be durable yet.
    await context.topics.update(wishes);
    responder.respond(ResponseCode.SUCCESS, NO_REMARK_SET);
  });
}

function deleteTopic(context: BrokerContext, request: Request): void {
  const topic = request.header.get('topic') ?? '';
  if (topic.trim() === '') {
    request.respond(ResponseCode.INVALID_PARAMETER, 'The specified topic is blank.');
    return;
  }
  if (context.config.validateSystemTopicWhenUpdateTopic && context.topics.systemTopics.isSystem(topic)) {
    request.respond(ResponseCode.INVALID_PARAMETER, `The topic[${topic}] is conflict with system topic.`);
    return;
  }
  const doomed = [topic];
  if (context.config.clearRetryTopicWhenDeleteTopic) {
    for (const group of context.offsets.groupsOf(topic)) {
      for (const retry of [popRetryTopicV2(topic, group), popRetryTopicV1(topic, group)]) {
        if (context.topics.has(retry)) doomed.push(retry);
      }
    }
  }
  answerLater(request, async (responder) => {
    const isParent = isLiteTopic(context.topics.select(topic));
    if (isParent) await context.lite.lifecycle.deleteAll(topic);
    await context.store.deleteTopics(doomed);
    let offsetsChanged = false;
    for (const name of doomed) {
      context.topics.delete(name);
      context.mappings.delete(name);
      context.timer.metrics.remove(name);
      context.orders.removeTopic(name);
      if (context.offsets.removeTopic(name)) offsetsChanged = true;
    }
    // Those that sends have made until the topic was gone.
    if (isParent) await context.lite.lifecycle.deleteAll(topic);
    // A group that comes back with its old progress would skip what is sent to the topic from now on.
    await context.topics.saved();
    if (offsetsChanged) await context.offsets.saved();
    responder.respond(ResponseCode.SUCCESS);
  });
}

function getAllTopics(context: BrokerContext, request: Request): void {
  const { header } = request;
  const sequence = header.get('topicSeq');
  const most = header.get('maxTopicNum');
  const version = header.get('dataVersion');
  const { topics, mappings, config } = context;
  const paged = config.enableSplitMetadata && (sequence !== undefined || most !== undefined || version !== undefined);
  const chosen = paged
    ? topics.page(
        pageStart(topics.dataVersion, header.intOr('topicSeq', 0), version),
        Math.min(config.splitMetadataSize, header.intOr('maxTopicNum', config.splitMetadataSize)),
      )
    : [...topics.all()];
  const details = (paged ? chosen.map((topic) => mappings.find(topic.topicName)) : [...mappings.all()])
    .filter((detail) => detail !== undefined)
    .map((detail) => [detail.topic, detailFields(detail)] as const);
  const pieces = topicPieces(
    toJson(topics.dataVersion.fields()),
    toJson(mappings.dataVersion.fields()),
    chosen,
    details,
  );
  const totalTopicNum = topics.size;
  answerLater(request, async (responder) => {
    responder.respond(ResponseCode.SUCCESS, null, { totalTopicNum }, await bytesInTurns(context.clock, pieces));
  });
}

/** RocketMQ: TopicConfigAndMappingSerializeWrapper. */
function* topicPieces(
  dataVersion: string,
  mappingVersion: string,
  topics: readonly TopicConfig[],
  details: ReadonlyArray<readonly [string, unknown]>,
): Generator<string> {
  yield `{"dataVersion":${dataVersion},"mappingDataVersion":${mappingVersion},"topicConfigTable":`;
  yield* mapPieces(entriesOf(topics));
  yield ',"topicQueueMappingDetailMap":';
  yield* mapPieces(details);
  yield ',"topicQueueMappingInfoMap":{}}';
}

function* entriesOf(topics: readonly TopicConfig[]): Generator<readonly [string, unknown]> {
  for (const topic of topics) yield [topic.topicName, topicFields(topic)];
}

/** Where a page begins: at 0 again if the table has changed since the asker began. */
export function pageStart(current: DataVersion, wanted: number, seen: string | undefined): number {
  if (wanted <= 0) return 0;
  if (seen === undefined || seen.trim() === '') return 0;
  const json = parseJson(seen);
  const same = typeof json === 'object' && json !== null && current.equals(json as Partial<DataVersion>);
  return same ? wanted : 0;
}

function getTopic(context: BrokerContext, request: Request): void {
  const name = request.header.required('topic');
  const topic = context.topics.select(name);
  if (topic === undefined) {
    request.respond(ResponseCode.TOPIC_NOT_EXIST, `No topic in this broker. topic: ${name}`);
    return;
  }
  const detail = request.header.bool('lo', false) ? context.mappings.find(name) : undefined;
  const fields =
    detail === undefined ? topicFields(topic) : { ...topicFields(topic), mappingDetail: detailFields(detail) };
  request.respond(ResponseCode.SUCCESS, null, null, toJsonBytes(fields));
}
