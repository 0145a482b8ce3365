// Messages by key, by unique id, by tag, and by physical offset. RocketMQ: QueryMessageProcessor.

import { type Request, RequestCode, ResponseCode } from '../../remoting/index.ts';
import type { BrokerContext } from '../broker-context.ts';
import { answerLater, type HandlerRegistry } from './registry.ts';

export function registerQueryMessage(registry: HandlerRegistry, context: BrokerContext): void {
  registry.register(RequestCode.QUERY_MESSAGE, (request) => queryMessage(context, request));
  registry.register(RequestCode.VIEW_MESSAGE_BY_ID, (request) => viewMessage(context, request));
}

function queryMessage(context: BrokerContext, request: Request): void {
  const { header } = request;
  // RocketMQ: finds nothing without them.
  const topic = header.get('topic') ?? '';
  const key = header.get('key') ?? '';
  const begin = header.long('beginTimestamp');
  const end = header.long('endTimestamp');
  const unique = header.bool('_UNIQUE_KEY_QUERY', false);
  const maxMessages = unique ? context.store.config.defaultQueryMaxNum : header.int('maxNum');
  const indexType = unique ? 'U' : header.get('indexType') || 'K';
  answerLater(request, async (responder) => {
    const found = await context.store.queryMessage(topic, key, maxMessages, begin, end, indexType);
    if (found.records.length === 0) {
      // RocketMQ: the header is there, with zeros whatever the index holds.
      const ext = { indexLastUpdateTimestamp: 0, indexLastUpdatePhyoffset: 0 };
      responder.respond(ResponseCode.QUERY_NOT_FOUND, 'can not find message, maybe time range not correct', ext);
      return;
    }
    const ext = {
      indexLastUpdateTimestamp: found.indexLastUpdateTimestamp,
      indexLastUpdatePhyoffset: found.indexLastUpdatePhyoffset,
    };
    responder.respond(ResponseCode.SUCCESS, null, ext, Buffer.concat(found.records));
  });
}

function viewMessage(context: BrokerContext, request: Request): void {
  const offset = request.header.long('offset');
  answerLater(request, async (responder) => {
    const record = await context.store.recordAt(offset);
    if (record === undefined) {
      responder.respond(ResponseCode.SYSTEM_ERROR, `can not find message by the offset, ${offset}`);
      return;
    }
    responder.respond(ResponseCode.SUCCESS, null, null, record);
  });
}
