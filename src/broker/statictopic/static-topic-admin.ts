// UPDATE_AND_CREATE_STATIC_TOPIC (513): a topic with the mapping of its logic queues, as mqadmin's updateStaticTopic and
// remappingStaticTopic send it to every broker concerned. Topic and mapping are durable before the answer. RocketMQ:
// AdminBrokerProcessor#updateAndCreateStaticTopic, which keeps the topic when its mapping is refused.

import { GantryError } from '../../common/index.ts';
import { parseJson, type Request, RequestCode, ResponseCode } from '../../remoting/index.ts';
import type { BrokerContext } from '../broker-context.ts';
import { readObject } from '../json-fields.ts';
import { answerLater, type HandlerRegistry, NO_REMARK_SET } from '../processor/registry.ts';
import { queuesFault, topicFault } from '../processor/topic-admin.ts';
import { TopicConfig } from '../topic/topic-config.ts';
import { readDetail, type TopicQueueMappingDetail } from './topic-queue-mapping.ts';

export function registerStaticTopicAdmin(registry: HandlerRegistry, context: BrokerContext): void {
  registry.register(RequestCode.UPDATE_AND_CREATE_STATIC_TOPIC, (request) => updateStaticTopic(context, request));
}

function updateStaticTopic(context: BrokerContext, request: Request): void {
  const { header } = request;
  const name = header.get('topic') ?? '';
  const filterType = header.required('topicFilterType');
  if (filterType !== 'SINGLE_TAG' && filterType !== 'MULTI_TAG') {
    throw new GantryError('HEADER', `topicFilterType "${filterType}" is neither SINGLE_TAG nor MULTI_TAG`);
  }
  const topic = new TopicConfig(name, {
    readQueueNums: header.int('readQueueNums'),
    writeQueueNums: header.int('writeQueueNums'),
    perm: header.int('perm'),
    topicFilterType: filterType,
    topicSysFlag: header.intOr('topicSysFlag', 0),
  });
  const fault = topicFault(context, name) ?? queuesFault(topic);
  if (fault !== undefined) {
    request.respond(ResponseCode.INVALID_PARAMETER, fault);
    return;
  }
  const detail = detailOf(request, name);
  const { topics, mappings } = context;
  const checked = detail && mappings.checked(detail, header.bool('force', false));
  // The mapping first: name servers are told of the topic, and what it has then.
  if (checked !== undefined) mappings.update(checked);
  answerLater(request, async (responder) => {
    await topics.update([{ topic, attributes: new Map() }]);
    responder.respond(ResponseCode.SUCCESS, NO_REMARK_SET);
  });
}

/** The mapping in the body; undefined without a body. @throws GantryError JSON or CONFIG_FILE (responseCode 1) if it is none of this topic. */
function detailOf(request: Request, topic: string): TopicQueueMappingDetail | undefined {
  if (request.bodyEnd === request.bodyStart) return undefined;
  const text = Buffer.from(request.bodyCopy()).toString('utf8');
  // A reference to nothing is null as well, and no mapping.
  if (text.trim() === 'null') return undefined;
  const mappingDetail = parseJson(text);
  const detail = readDetail(readObject({ mappingDetail }, 'mappingDetail') ?? {});
  if (detail.topic === topic) return detail;
  const fault = `the mapping is of the topic ${detail.topic}, not of ${topic}`;
  throw new GantryError('CONFIG_VALUE', fault, { responseCode: ResponseCode.SYSTEM_ERROR });
}
