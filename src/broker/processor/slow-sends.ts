// Sends with something to rewrite or to refuse (delay, retry, priority, light queues, batches for batch queues): the message becomes an
// object, and its put goes the way of the broker's own messages, by the same encoder. RocketMQ: SendMessageProcessor.

import { viewOf } from '../../common/index.ts';
import {
  BatchMember,
  createOffsetMessageId,
  PropertyName,
  parsePropertyBytes,
  readBatchMember,
  recallHandleOf,
  SysFlag,
  type UniqueIds,
} from '../../message/index.ts';
import { PeerVersion, type Request, ResponseCode } from '../../remoting/index.ts';
import { isStored, PutMessageStatus } from '../../store/index.ts';
import type { BrokerContext } from '../broker-context.ts';
import type { SendDeduplication } from '../dedup/send-deduplication.ts';
import { applyDelayLevel, type InternalMessage, parseDelayLevel, putInternal } from '../internal-put.ts';
import { lightSendRefusal } from '../lite/light-sends.ts';
import type { LogicQueue } from '../statictopic/mapping-context.ts';
import { looseLogicOffset } from '../statictopic/topic-queue-mapping.ts';
import { applyTimer } from '../timer/timer-put.ts';
import { priorityOf, typeOfProperties } from '../topic/message-type.ts';
import { Perm, type TopicConfig } from '../topic/topic-config.ts';
import * as names from '../topic/topic-names.ts';
import { halfFault, isTransactional, makeHalf } from '../transaction/half-message.ts';
import type { HeldSends } from './held-sends.ts';
import type { SendHeader } from './send-header.ts';
import { answerPut, refuse, refuseStatus } from './send-outcome.ts';
import type { SendTopic } from './send-topics.ts';

export class SlowSends {
  readonly #context: BrokerContext;
  readonly #uniqueIds: UniqueIds;
  readonly #once: SendDeduplication | undefined;
  readonly #unsaved: HeldSends;

  constructor(context: BrokerContext, uniqueIds: UniqueIds, once: SendDeduplication | undefined, unsaved: HeldSends) {
    this.#context = context;
    this.#once = once;
    this.#unsaved = unsaved;
    this.#uniqueIds = uniqueIds;
  }

  /** Stores and answers a single message, or refuses it. `logic`: the queue of a static topic that its sender means. */
  send(
    request: Request,
    header: SendHeader,
    topic: SendTopic,
    queueId: number,
    sysFlag: number,
    logic: LogicQueue | undefined,
  ): void {
    const context = this.#context;
    const properties = parsePropertyBytes(header.properties, header.propertiesStart, header.propertiesEnd);
    const half = isTransactional(properties, topic.isRetry, header.reconsumeTimes);
    const refusal = this.#refusalOf(properties, sysFlag, half) ?? lightSendRefusal(context, topic.name, properties);
    if (refusal !== undefined) {
      refuse(context, request, refusal.code, refusal.remark);
      return;
    }
    properties.delete(PropertyName.POP_CK);
    if (context.store.config.enabledAppendPropCRC) properties.delete(PropertyName.CRC32);
    properties.set(PropertyName.MSG_REGION, context.config.regionId);
    properties.set(PropertyName.TRACE_ON, String(context.config.traceOn));
    const message = messageOf(request, header, topic, queueId, sysFlag, request.bodyCopy(), properties);
    // RocketMQ: a send that ends among the dead letters is answered with the queue that it asked for.
    let answeredQueueId = queueId;
    if (topic.isRetry && !this.#retryOrDeadLetter(request, header, message)) return;
    const uniqKey = properties.get(PropertyName.UNIQ_KEY) ?? this.#uniqueIds.next(context.clock.now());
    properties.set(PropertyName.UNIQ_KEY, uniqKey);
    if (applyLiteAndPriority(message, topic.config!)) answeredQueueId = message.queueId;
    properties.set(PropertyName.CLUSTER, context.config.brokerClusterName);
    if (half) {
      this.#putHalf(request, message, answeredQueueId, uniqKey, logic);
      return;
    }
    const timer = applyTimer(context, message);
    if (timer !== undefined) {
      refuseStatus(context, request, timer.status, timer.reason);
      return;
    }
    applyDelayLevel(message, context.schedule.maxDelayLevel);
    const recallHandle = recallHandleOf(properties, context.config.brokerName);
    const more = recallHandle === undefined ? {} : { recallHandle };
    this.#putAndAnswer(request, message, answeredQueueId, uniqKey, more, logic);
    if (message.topic === names.TIMER_TOPIC) context.timer.noted();
  }

  /** Stores half of a transaction. */
  #putHalf(
    request: Request,
    message: InternalMessage,
    queueId: number,
    uniqKey: string,
    logic: LogicQueue | undefined,
  ): void {
    const { transactions } = this.#context;
    const { topic } = message;
    makeHalf(message);
    this.#putAndAnswer(request, message, queueId, uniqKey, {}, logic, () => {
      transactions.metrics.add(topic, 1);
      transactions.wake();
    });
  }

  /** Stores a message that is an object, and answers when it is as durable as the settings promise. */
  #putAndAnswer(
    request: Request,
    message: InternalMessage,
    queueId: number,
    uniqKey: string,
    more: Record<string, string>,
    logic: LogicQueue | undefined,
    stored?: () => void,
  ): void {
    const { store, storeHost, stats, traffic } = this.#context;
    const responder = request.defer();
    const puts = traffic.puts.of(message.topic);
    const put = putInternal(store, message, storeHost, (status, result, reason) => {
      if (isStored(status)) {
        stats.stored(puts, result);
        if (message.topic === names.SCHEDULE_TOPIC) traffic.delayed(message.queueId, result.wroteBytes);
      } else stats.putFailed++;
      if (status === PutMessageStatus.PUT_OK) stored?.();
      answerPut(this.#context, responder, status, reason, () => ({
        msgId: createOffsetMessageId(storeHost, result.wroteOffset),
        queueId: logic?.globalId ?? queueId,
        queueOffset: logic === undefined ? result.queueOffset : looseLogicOffset(logic.leader!, result.queueOffset),
        transactionId: uniqKey,
        ...more,
      }));
    });
    this.#once?.keep(put, queueId);
  }

  /** What this broker does not do with a message, and says so rather than storing it as something else. */
  #refusalOf(
    properties: ReadonlyMap<string, string>,
    sysFlag: number,
    half: boolean,
  ): { code: number; remark: string } | undefined {
    const { config } = this.#context;
    const fault = half ? halfFault(properties) : undefined;
    if (fault !== undefined) return { code: ResponseCode.MESSAGE_ILLEGAL, remark: fault };
    if (half && config.rejectTransactionMessage) {
      return {
        code: ResponseCode.NO_PERMISSION,
        remark: `the broker[${config.brokerIP1}] sending transaction message is forbidden`,
      };
    }
    const delay = properties.get(PropertyName.DELAY);
    if (parseDelayLevel(delay) === undefined) return badDelayLevel(delay);
    if (properties.has(PropertyName.INNER_NUM) && (sysFlag & SysFlag.INNER_BATCH) === 0) {
      return { code: ResponseCode.MESSAGE_ILLEGAL, remark: 'the property INNER_NUM needs the inner-batch flag' };
    }
    return undefined;
  }

  /** RocketMQ: handleRetryAndDLQ: a client's own send to a retry topic. False if it was answered or is held. */
  #retryOrDeadLetter(request: Request, header: SendHeader, message: InternalMessage): boolean {
    const { groups, topics, locks } = this.#context;
    const groupName = message.topic.slice(names.RETRY_GROUP_TOPIC_PREFIX.length);
    const group = groups.findOrCreate(groupName);
    if (group === undefined) {
      refuse(
        this.#context,
        request,
        ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
        `subscription group not exist, ${groupName}`,
      );
      return false;
    }
    const ownMax = request.header.version >= PeerVersion.V3_4_9 ? header.maxReconsumeTimes : undefined;
    const max = ownMax ?? group.retryMaxTimes;
    if (header.reconsumeTimes > max || locks.hasLiveLock(groupName)) {
      message.topic = names.dlqTopic(groupName);
      topics.createInSendBack(message.topic, 1, Perm.READ | Perm.WRITE, false, 0);
      if (topics.isUnsaved(message.topic)) {
        this.#unsaved.hold(message.topic, request);
        return false;
      }
      message.queueId = 0;
      message.properties.set(PropertyName.DELAY, '-1');
    }
    return true;
  }

  /** A batch to a topic of batch queues becomes one record that holds it as it came; consumers split it. */
  sendBatch(
    request: Request,
    header: SendHeader,
    topic: SendTopic,
    queueId: number,
    sysFlag: number,
    logic: LogicQueue | undefined,
  ): void {
    const { config } = this.#context;
    const body = request.bodyCopy();
    const view = viewOf(body);
    const member = new BatchMember();
    let count = 0;
    for (let at = 0; at < body.length; at = member.end) {
      const fault = readBatchMember(view, at, body.length, member);
      if (fault !== undefined) {
        refuseStatus(this.#context, request, PutMessageStatus.MESSAGE_ILLEGAL, `batch member ${count}: ${fault}`);
        return;
      }
      count++;
    }
    const properties = parsePropertyBytes(header.properties, header.propertiesStart, header.propertiesEnd);
    properties.delete(PropertyName.POP_CK);
    properties.set(PropertyName.MSG_REGION, config.regionId);
    properties.set(PropertyName.TRACE_ON, String(config.traceOn));
    properties.set(PropertyName.CLUSTER, config.brokerClusterName);
    properties.set(PropertyName.INNER_NUM, String(count));
    const flags = sysFlag | SysFlag.NEED_UNWRAP | SysFlag.INNER_BATCH;
    const message = messageOf(request, header, topic, queueId, flags, body, properties);
    const uniqKey = properties.get(PropertyName.UNIQ_KEY)!;
    this.#putAndAnswer(request, message, queueId, uniqKey, { batchUniqId: uniqKey }, logic);
  }
}

/** RocketMQ: a NumberFormatException, which it answers with this code. */
export function badDelayLevel(text: string | undefined): { code: number; remark: string } {
  return { code: ResponseCode.SYSTEM_ERROR, remark: `the delay level (property DELAY) is no number: "${text}"` };
}

function messageOf(
  request: Request,
  header: SendHeader,
  topic: SendTopic,
  queueId: number,
  sysFlag: number,
  body: Uint8Array,
  properties: Map<string, string>,
): InternalMessage {
  return {
    topic: topic.name,
    queueId,
    flag: header.flag,
    sysFlag,
    bornTimestamp: header.bornTimestamp,
    bornHost: request.channel.remoteHost,
    reconsumeTimes: header.reconsumeTimes,
    preparedTransactionOffset: 0,
    body,
    properties,
    waitStoreMsgOK: properties.get(PropertyName.WAIT)?.toLowerCase() !== 'false',
  };
}

/** Whether its priority has chosen another queue. RocketMQ: whatever the topic's type is. */
function applyLiteAndPriority(message: InternalMessage, config: TopicConfig): boolean {
  const { properties } = message;
  const lite = properties.get(PropertyName.LITE_TOPIC);
  if (lite !== undefined && lite !== '')
    properties.set(PropertyName.INNER_MULTI_DISPATCH, names.lightQueueOf(message.topic, lite));
  const priority = priorityOf(properties);
  if (priority < 0) return false;
  if (typeOfProperties(properties) !== 'PRIORITY') {
    properties.delete(PropertyName.PRIORITY);
    return false;
  }
  message.queueId = Math.max(0, Math.min(priority, config.writeQueueNums - 1));
  return true;
}
