// What consumers ask and say of offsets, for the logic queues of static topics: beginning, end, a time's offset, a group's place. Only the
// leader of a logic queue answers; what lies in an older place on another broker is asked for there. RocketMQ: the
// rewriteRequestForStaticTopic of AdminBrokerProcessor and ConsumerManageProcessor.

import {
  type ExtFields,
  type RemotingResponse,
  type Request,
  RequestCode,
  type RequestHandler,
  ResponseCode,
} from '../../remoting/index.ts';
import type { BrokerContext } from '../broker-context.ts';
import { answerLater, type HandlerRegistry } from '../processor/registry.ts';
import { unexpected } from './broker-peers.ts';
import { MappedRequest } from './mapped-request.ts';
import { itemAt, type LogicQueue, logicQueueOf, notLeaderText, staticTopicOf } from './mapping-context.ts';
import {
  hasEnd,
  type LogicQueueMappingItem,
  logicOffsetOf,
  looseLogicOffset,
  queueOffsetOf,
} from './topic-queue-mapping.ts';

const CODES: readonly number[] = [
  RequestCode.SEARCH_OFFSET_BY_TIMESTAMP,
  RequestCode.GET_MAX_OFFSET,
  RequestCode.GET_MIN_OFFSET,
  RequestCode.GET_EARLIEST_MSG_STORETIME,
  RequestCode.QUERY_CONSUMER_OFFSET,
  RequestCode.UPDATE_CONSUMER_OFFSET,
];

/** A registry whose handlers of offsets see physical queues only. */
export function withStaticOffsets(registry: HandlerRegistry, context: BrokerContext): HandlerRegistry {
  const offsets = new StaticOffsets(context);
  return {
    register(code, handler) {
      registry.register(code, CODES.includes(code) ? (request) => offsets.handle(request, handler) : handler);
    },
  };
}

class StaticOffsets {
  readonly #context: BrokerContext;

  constructor(context: BrokerContext) {
    this.#context = context;
  }

  handle(request: Request, handler: RequestHandler): void {
    const { header } = request;
    const detail = staticTopicOf(this.#context.mappings, header);
    if (detail === undefined) {
      handler(request);
      return;
    }
    const queue = logicQueueOf(detail, header.int('queueId'));
    if (queue.leader === undefined) {
      request.respond(ResponseCode.NOT_LEADER_FOR_QUEUE, notLeaderText(queue));
      return;
    }
    switch (request.code) {
      case RequestCode.QUERY_CONSUMER_OFFSET:
        this.#query(request, handler, queue);
        return;
      case RequestCode.UPDATE_CONSUMER_OFFSET: {
        const offset = header.long('commitOffset');
        const item = itemAt(queue, offset);
        this.#pass(request, handler, queue, item, { commitOffset: String(queueOffsetOf(item, offset)) }, same);
        return;
      }
      case RequestCode.GET_MAX_OFFSET: {
        // RocketMQ: asks for the leader's queue also where the place is another one.
        const item = itemAt(queue, Number.MAX_SAFE_INTEGER);
        this.#pass(
          request,
          handler,
          queue,
          item,
          {},
          offsetBy((offset) => logicOffsetOf(item, offset)),
        );
        return;
      }
      case RequestCode.GET_MIN_OFFSET: {
        const item = itemAt(queue, 0);
        this.#pass(
          request,
          handler,
          queue,
          item,
          {},
          offsetBy((offset) => looseLogicOffset(item, offset)),
        );
        return;
      }
      case RequestCode.GET_EARLIEST_MSG_STORETIME:
        // RocketMQ: forwards it with the logic queue's number, to itself as well.
        this.#pass(request, handler, queue, itemAt(queue, 0), {}, same);
        return;
      default:
        this.#search(request, queue);
    }
  }

  /** Has a request answered where the place lies: here, by the handler of all, or on another broker. */
  #pass(
    request: Request,
    handler: RequestHandler,
    queue: LogicQueue,
    item: LogicQueueMappingItem,
    fields: Readonly<Record<string, string>>,
    change: (ext: ExtFields) => ExtFields,
  ): void {
    const here = { ...fields, queueId: String(item.queueId), lo: 'false' };
    if (item.bname === queue.detail.bname) {
      handler(new MappedRequest(request, here, change));
      return;
    }
    const forwarded = { ...request.header.toObject(), ...here, bname: item.bname };
    const { code } = request;
    answerLater(request, async (responder) => {
      const response = await this.#forward(item, code, forwarded);
      if (response.code !== ResponseCode.SUCCESS) throw unexpected(response);
      responder.respond(response.code, '', change(response.ext), response.body.length === 0 ? null : response.body);
    });
  }

  #forward(item: LogicQueueMappingItem, code: number, fields: ExtFields): Promise<RemotingResponse> {
    const { config, peers } = this.#context;
    return peers.invoke(item.bname, code, fields, null, config.forwardTimeout);
  }

  /** The group's place: the newest that any place of the queue knows. */
  #query(request: Request, handler: RequestHandler, queue: LogicQueue): void {
    const { items, leader } = queue;
    if (items.length === 1 && leader!.logicOffset === 0) {
      this.#pass(
        request,
        handler,
        queue,
        leader!,
        {},
        offsetBy((offset) => logicOffsetOf(leader!, offset)),
      );
      return;
    }
    const fields = request.header.toObject();
    const group = request.header.required('consumerGroup');
    answerLater(request, async (responder) => {
      for (const item of items.toReversed()) {
        // RocketMQ: counts from -1 there.
        if (item.logicOffset < 0) continue;
        const offset = await this.#committed(queue, item, group, fields);
        if (offset < 0) continue;
        responder.respond(ResponseCode.SUCCESS, null, { offset: logicOffsetOf(item, offset) });
        return;
      }
      responder.respond(ResponseCode.QUERY_NOT_FOUND, 'Not found, maybe this group consumer boot first', {});
    });
  }

  async #committed(
    { detail }: LogicQueue,
    item: LogicQueueMappingItem,
    group: string,
    fields: Readonly<Record<string, string>>,
  ): Promise<number> {
    if (item.bname === detail.bname) return this.#context.offsets.query(group, detail.topic, item.queueId);
    const response = await this.#forward(item, RequestCode.QUERY_CONSUMER_OFFSET, {
      ...fields,
      bname: item.bname,
      queueId: item.queueId,
      lo: false,
      setZeroIfNotFound: false,
    });
    if (response.code === ResponseCode.QUERY_NOT_FOUND) return -1;
    if (response.code !== ResponseCode.SUCCESS) throw unexpected(response);
    return Number(response.ext['offset'] ?? -1);
  }

  /**
   * The offset of a time: in the first place that has a message of that time or later. RocketMQ: does not stop at a place on another
   * broker, and passes over the first message of one here.
   */
  #search(request: Request, { detail, items }: LogicQueue): void {
    const { header } = request;
    const fields = header.toObject();
    const timestamp = header.long('timestamp');
    const boundary = header.get('boundaryType')?.toUpperCase() === 'UPPER' ? 'UPPER' : 'LOWER';
    answerLater(request, async (responder) => {
      let found = -1;
      for (const item of items) {
        if (item.logicOffset < 0) continue;
        const offset =
          item.bname === detail.bname
            ? await this.#context.store.offsetInQueueByTime(detail.topic, item.queueId, timestamp, boundary)
            : await this.#searchThere(item, fields);
        if (offset < 0) continue;
        found = logicOffsetOf(item, offset);
        if (!hasEnd(item) || offset < item.endOffset) break;
      }
      responder.respond(ResponseCode.SUCCESS, null, { offset: found });
    });
  }

  async #searchThere(item: LogicQueueMappingItem, fields: Readonly<Record<string, string>>): Promise<number> {
    const there = { ...fields, bname: item.bname, queueId: item.queueId, lo: false };
    const response: RemotingResponse = await this.#forward(item, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, there);
    if (response.code !== ResponseCode.SUCCESS) throw unexpected(response);
    return Number(response.ext['offset'] ?? -1);
  }
}

const same = (ext: ExtFields): ExtFields => ext;

function offsetBy(change: (offset: number) => number): (ext: ExtFields) => ExtFields {
  return (ext) => (ext['offset'] === undefined ? ext : { ...ext, offset: change(Number(ext['offset'])) });
}
