// PEEK_MESSAGE (200052): what a group would pop next, without popping it. Rare: proxies ask it. RocketMQ: PeekMessageProcessor.

import { popRetryTopic } from '../../message/index.ts';
import { type ExtFields, type Request, RequestCode, ResponseCode } from '../../remoting/index.ts';
import { GetMessageStatus } from '../../store/index.ts';
import type { BrokerContext } from '../broker-context.ts';
import { copyLater, selectLater } from '../store-reads.ts';
import { isReadable } from '../topic/topic-config.ts';
import { illegalQueue, type PopRefusal } from './pop-checks.ts';
import { answerLater, type HandlerRegistry } from './registry.ts';

/** Of all queues together, but for the message that goes beyond it. */
const MAX_BYTES = 4 * 1024 * 1024;
/** RocketMQ: one of so many looks at the retries first. */
const RETRY_FIRST = 5;
const HUNDRED = 100;
/** RocketMQ: the fields of PopMessageResponseHeader that are no objects. */
const NO_FIELDS: ExtFields = { popTime: 0, invisibleTime: 0, reviveQid: 0, restNum: 0 };

interface Peek {
  readonly group: string;
  readonly topic: string;
  readonly queueId: number;
  readonly maxMessages: number;
}

export function registerPeekMessage(registry: HandlerRegistry, context: BrokerContext): void {
  registry.register(RequestCode.PEEK_MESSAGE, (request) => {
    const { header } = request;
    const peek: Peek = {
      group: header.required('consumerGroup'),
      topic: header.required('topic'),
      queueId: header.intOr('queueId', 0),
      maxMessages: header.intOr('maxMsgNums', 0),
    };
    const refusal = refusalOf(context, request, peek);
    if (refusal !== undefined) {
      request.respond(refusal.code, refusal.remark, NO_FIELDS);
      return;
    }
    answerLater(request, async (responder) => {
      const { body, rest } = await look(context, peek);
      const fields = { ...NO_FIELDS, restNum: rest };
      if (body.length > 0) responder.respond(ResponseCode.SUCCESS, 'FOUND', fields, body);
      else responder.respond(ResponseCode.PULL_NOT_FOUND, 'NO_MESSAGE_IN_QUEUE', fields);
    });
  });
}

function refusalOf(context: BrokerContext, request: Request, peek: Peek): PopRefusal | undefined {
  const { config, groups, topics } = context;
  if (!isReadable(config.brokerPermission)) {
    return {
      code: ResponseCode.NO_PERMISSION,
      remark: `the broker[${config.brokerIP1}] peeking message is forbidden (brokerPermission is ${config.brokerPermission})`,
    };
  }
  const topic = topics.select(peek.topic);
  if (topic === undefined) {
    return { code: ResponseCode.TOPIC_NOT_EXIST, remark: `topic[${peek.topic}] not exist, apply first please!` };
  }
  if (!isReadable(topic.perm)) {
    return { code: ResponseCode.NO_PERMISSION, remark: `the topic[${peek.topic}] peeking message is forbidden` };
  }
  if (peek.queueId >= topic.readQueueNums) {
    const remark = illegalQueue(peek.queueId, topic, request.channel.remoteAddress);
    return { code: ResponseCode.INVALID_PARAMETER, remark };
  }
  // RocketMQ: creates it.
  const group = groups.find(peek.group);
  if (group === undefined) {
    return {
      code: ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
      remark: `subscription group [${peek.group}] does not exist`,
    };
  }
  if (!group.consumeEnable) {
    return { code: ResponseCode.NO_PERMISSION, remark: `subscription group no permission, ${peek.group}` };
  }
  return undefined;
}

/** The queues in the order in which they are looked into. */
function queuesOf(context: BrokerContext, peek: Peek): Array<{ topic: string; queueId: number }> {
  const { config, random, topics } = context;
  const chance = random.int(HUNDRED);
  const all = (topic: string): Array<{ topic: string; queueId: number }> => {
    const queues = topics.select(topic)?.readQueueNums ?? 0;
    return Array.from({ length: queues }, (_, i) => ({ topic, queueId: (chance + i) % queues }));
  };
  const own = peek.queueId < 0 ? all(peek.topic) : [{ topic: peek.topic, queueId: peek.queueId }];
  const retries = all(popRetryTopic(peek.topic, peek.group, config.enableRetryTopicV2));
  return chance % RETRY_FIRST === 0 ? [...retries, ...own] : [...own, ...retries];
}

async function look(context: BrokerContext, peek: Peek): Promise<{ body: Uint8Array; rest: number }> {
  const { pop, store } = context;
  const bodies: Uint8Array[] = [];
  let count = 0;
  let rest = 0;
  let room = MAX_BYTES;
  for (const { topic, queueId } of queuesOf(context, peek)) {
    const next = pop.nextOffset(topic, peek.group, queueId);
    let offset = next < 0 ? store.minOffsetInQueue(topic, queueId) : next;
    rest += store.maxOffsetInQueue(topic, queueId) - offset;
    const wanted = peek.maxMessages - count;
    if (wanted <= 0 || room <= 0) continue;
    let result = await selectLater(store, topic, queueId, offset, wanted, room);
    const { nextBeginOffset, status } = result;
    if (status === GetMessageStatus.OFFSET_TOO_SMALL || status === GetMessageStatus.OFFSET_OVERFLOW_BADLY) {
      offset = nextBeginOffset;
      result = await selectLater(store, topic, queueId, offset, wanted, room);
    }
    if (result.count === 0) continue;
    const bytes = new Uint8Array(result.totalBytes);
    await copyLater(store, result, bytes);
    bodies.push(bytes.subarray(0, result.totalBytes));
    room -= result.totalBytes;
    count += result.count;
  }
  return { body: Buffer.concat(bodies), rest };
}
