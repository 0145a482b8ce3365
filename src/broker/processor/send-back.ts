// A consumer gives a message back: a copy goes to the group's retry topic, delayed, or to its dead-letter topic when it has failed too
// often. RocketMQ: AbstractSendMessageProcessor#consumerSendMsgBack.

import { decodeMessages, PropertyName, type StoredMessage } from '../../message/index.ts';
import { PeerVersion, type Request, RequestCode, ResponseCode } from '../../remoting/index.ts';
import { PutMessageStatus, type PutResult, putStatusName } from '../../store/index.ts';
import type { BrokerContext } from '../broker-context.ts';
import { applyDelayLevel, copyOf, type InternalMessage, putInternal } from '../internal-put.ts';
import { buildTopicSysFlag, isWriteable, Perm } from '../topic/topic-config.ts';
import { dlqTopic, retryTopic, SCHEDULE_TOPIC } from '../topic/topic-names.ts';
import { answerLater, type HandlerRegistry } from './registry.ts';

/** Queues of a dead-letter topic. */
const DLQ_QUEUES = 1;

export function registerSendBack(registry: HandlerRegistry, context: BrokerContext): void {
  registry.register(RequestCode.CONSUMER_SEND_MSG_BACK, (request) => sendBack(context, request));
}

/** What a request wants, read before anything is waited for. */
interface Wish {
  readonly group: string;
  readonly offset: number;
  readonly delayLevel: number;
  readonly maxReconsumeTimes: number;
  /** As the request has them, for the count of dead letters alone. */
  readonly owner: string | null;
  readonly originTopic: string | null;
}

function sendBack(context: BrokerContext, request: Request): void {
  const { header } = request;
  const name = header.required('group');
  const offset = header.long('offset');
  const delayLevel = header.int('delayLevel');
  const ownMax = header.intOr('maxReconsumeTimes', Number.NaN);
  const group = context.groups.findOrCreate(name);
  if (group === undefined) {
    request.respond(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, `subscription group not exist, ${name} `);
    return;
  }
  if (!isWriteable(context.config.brokerPermission)) {
    request.respond(ResponseCode.NO_PERMISSION, `the broker[${context.config.brokerIP1}] sending message is forbidden`);
    return;
  }
  if (group.retryQueueNums <= 0) {
    request.respond(ResponseCode.SUCCESS);
    return;
  }
  const retry = retryTopic(name);
  const sysFlag = header.bool('unitMode', false) ? buildTopicSysFlag(false, true) : 0;
  const topic = context.topics.createInSendBack(retry, group.retryQueueNums, Perm.READ | Perm.WRITE, false, sysFlag);
  if (!isWriteable(topic.perm)) {
    request.respond(ResponseCode.NO_PERMISSION, `the topic[${retry}] sending message is forbidden`);
    return;
  }
  const wish: Wish = {
    group: name,
    offset,
    delayLevel,
    maxReconsumeTimes: header.version >= PeerVersion.V3_4_9 && !Number.isNaN(ownMax) ? ownMax : group.retryMaxTimes,
    owner: header.get('Owner') ?? null,
    originTopic: header.get('originTopic') ?? null,
  };
  // RocketMQ: any of the group's number, also where the topic is older and has fewer, in which nobody reads them.
  const queueId = context.random.int(Math.max(1, Math.min(group.retryQueueNums, topic.readQueueNums)));
  answerLater(request, async (responder) => {
    const message = await lookUp(context, wish.offset);
    if (message === undefined) {
      responder.respond(ResponseCode.SYSTEM_ERROR, `look message by offset failed, ${wish.offset}`);
      return;
    }
    const copy = makeCopy(context, message, wish, queueId);
    for (const name of [retry, copy.topic]) await context.topics.durable(name);
    putInternal(context.store, copy, context.storeHost, (status, result, reason) => {
      if (status !== PutMessageStatus.PUT_OK) {
        context.logger.warn(`message ${message.messageId} of group ${name} is not taken back: ${reason}`);
        responder.respond(ResponseCode.SYSTEM_ERROR, putStatusName(status));
        return;
      }
      count(context, wish, message, copy, result);
      responder.respond(ResponseCode.SUCCESS);
    });
  });
}

/** RocketMQ: counts a copy in its topic only while it is delayed. */
function count(
  { stats, traffic }: BrokerContext,
  { group, owner, originTopic }: Wish,
  message: StoredMessage,
  copy: InternalMessage,
  result: PutResult,
): void {
  if (copy.topic === SCHEDULE_TOPIC) {
    stats.stored(traffic.puts.of(copy.topic), result);
    traffic.delayed(copy.queueId, result.wroteBytes);
  } else {
    stats.putMessages++;
    stats.putBytes += result.wroteBytes;
    if (copy.topic === dlqTopic(group)) traffic.deadLettered(owner, originTopic, group);
  }
  traffic.sendBacks.add(traffic.groupKey(message.properties.get(PropertyName.RETRY_TOPIC) ?? message.topic, group));
}

/** The message at a physical offset; undefined if no record starts there. */
export async function lookUp(context: BrokerContext, offset: number): Promise<StoredMessage | undefined> {
  const record = await context.store.recordAt(offset);
  return record === undefined ? undefined : decodeMessages(record)[0];
}

/** The copy to store: in the dead-letter topic at once, or in the schedule topic on its way to the retry topic. */
function makeCopy(context: BrokerContext, message: StoredMessage, wish: Wish, queueId: number): InternalMessage {
  const copy = copyOf(message);
  const { properties } = copy;
  if (!properties.has(PropertyName.RETRY_TOPIC)) properties.set(PropertyName.RETRY_TOPIC, message.topic);
  properties.set(PropertyName.WAIT, 'false');
  const dead = message.reconsumeTimes >= wish.maxReconsumeTimes || wish.delayLevel < 0;
  const level = wish.delayLevel === 0 ? 3 + message.reconsumeTimes : wish.delayLevel;
  properties.set(PropertyName.DELAY, dead ? '0' : String(level));
  copy.reconsumeTimes = message.reconsumeTimes + 1;
  copy.preparedTransactionOffset = 0;
  const origin = properties.get(PropertyName.ORIGIN_MESSAGE_ID);
  if (origin === undefined || origin.trim() === '') {
    properties.set(PropertyName.ORIGIN_MESSAGE_ID, message.offsetMessageId);
  }
  // RocketMQ: the answer does not wait for a flush, so a power cut can take the copy after the consumer has moved on. Here it waits.
  copy.waitStoreMsgOK = true;
  if (!dead) {
    copy.topic = retryTopic(wish.group);
    copy.queueId = queueId;
    applyDelayLevel(copy, context.schedule.maxDelayLevel);
    return copy;
  }
  copy.topic = dlqTopic(wish.group);
  copy.queueId = 0;
  context.topics.createInSendBack(copy.topic, DLQ_QUEUES, Perm.READ | Perm.WRITE, false, 0);
  context.logger.info(
    `message ${message.messageId} goes to ${copy.topic} after ${message.reconsumeTimes} failures of group ${wish.group}`,
    { topic: properties.get(PropertyName.RETRY_TOPIC) },
  );
  return copy;
}
