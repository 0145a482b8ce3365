// RECALL_MESSAGE (370): cancels a timer message that is not due yet, by the handle that its send was answered with. An order to delete goes
// into the same slot, so that it lasts; until that is there, and in the last tick too, the service knows of it at once.
//
// RocketMQ: RecallMessageProcessor. It takes an order for anything, due or not, known or not, refuses in the last tick before the
// message is due, and says the same whether that message was delivered or never was. Here the answer tells: success (cancelled, again if it
// was before), or 604 with "already delivered" or "unknown".

import {
  decodeMessages,
  decodeRecallHandle,
  PropertyName,
  type RecallHandle,
  type StoredMessage,
} from '../../message/index.ts';
import { type Request, RequestCode, type Responder, ResponseCode } from '../../remoting/index.ts';
import { PutMessageStatus } from '../../store/index.ts';
import type { BrokerContext } from '../broker-context.ts';
import { type InternalMessage, putInternal } from '../internal-put.ts';
import { deleteKey, toTimerTopic } from '../timer/timer-put.ts';
import { isWriteable } from '../topic/topic-config.ts';
import { TIMER_TOPIC } from '../topic/topic-names.ts';
import { answerLater, type HandlerRegistry, NO_REMARK_SET } from './registry.ts';

const RECALL_TAG = '_RECALL_TAG_';
const RECALL_BODY = Buffer.from('0');
/** Records of one key that are looked at: the message, its rounds, orders to delete it. */
const MOST_RECORDS = 32;
/** Ms between two looks at the index while it is behind, and how many. */
const INDEX_WAIT_MS = 10;
const INDEX_TRIES = 100;

export function registerRecallMessage(registry: HandlerRegistry, context: BrokerContext): void {
  registry.register(RequestCode.RECALL_MESSAGE, (request) => recall(context, request));
}

/** Why a recall is not done. */
interface Refusal {
  readonly code: number;
  readonly remark: string;
}

function recall(context: BrokerContext, request: Request): void {
  const topic = request.header.get('topic') ?? '';
  const producerGroup = request.header.get('producerGroup') ?? '';
  const common = { MSG_REGION: context.config.regionId };
  const refusal = refusalOf(context, topic);
  if (refusal !== undefined) return request.respond(refusal.code, refusal.remark, common);
  const handle = decodeRecallHandle(request.header.get('recallHandle') ?? '');
  const slotMs = handle === undefined ? 0 : Number(handle.timestamp) - 1;
  const wrong = wrongHandle(context, topic, handle, slotMs);
  if (wrong !== undefined || handle === undefined) {
    return request.respond(ResponseCode.ILLEGAL_OPERATION, wrong ?? 'recall handle is invalid', common);
  }
  const bornHost = request.channel.remoteHost;
  answerLater(request, async (responder) => {
    const fate = await fateOf(context, handle, slotMs);
    if (fate === 'unknown') {
      return responder.respond(ResponseCode.ILLEGAL_OPERATION, 'recall failed, the message is unknown', common);
    }
    const key = deleteKey(context.config, handle.topic, handle.messageId);
    if (!context.timer.cancel(slotMs, key)) {
      if (fate === 'cancelled') return done(responder, handle, common);
      return responder.respond(
        ResponseCode.ILLEGAL_OPERATION,
        'recall failed, timestamp invalid (the message is already delivered)',
        common,
      );
    }
    if (fate === 'cancelled') return done(responder, handle, common);
    const order = orderOf(context, handle, key, slotMs, producerGroup, bornHost);
    putInternal(context.store, order, context.storeHost, (status, _result, reason) => {
      if (status === PutMessageStatus.PUT_OK) return done(responder, handle, common);
      if (status === PutMessageStatus.FLUSH_SLAVE_TIMEOUT || status === PutMessageStatus.SLAVE_NOT_AVAILABLE)
        return done(responder, handle, common);
      // RocketMQ: success. An order that is not known to be on disk does not last for certain, though it counts if it is there.
      if (status !== PutMessageStatus.FLUSH_DISK_TIMEOUT) context.timer.uncancel(slotMs, key);
      responder.respond(ResponseCode.SYSTEM_ERROR, `recall failed, execute error (${reason})`, common);
    });
    context.timer.noted();
  });
}

function done(responder: Responder, handle: RecallHandle, common: Record<string, string>): void {
  responder.respond(ResponseCode.SUCCESS, NO_REMARK_SET, { ...common, msgId: handle.messageId });
}

/** RocketMQ's checks, in its order. */
function refusalOf({ config, topics, clock, timer }: BrokerContext, topic: string): Refusal | undefined {
  if (!config.recallMessageEnable) {
    return { code: ResponseCode.NO_PERMISSION, remark: 'recall failed, operation is forbidden' };
  }
  const unwritable = !isWriteable(config.brokerPermission) && !config.allowRecallWhenBrokerNotWriteable;
  if (clock.now() < config.startAcceptSendRequestTimeStamp || unwritable || !timer.enabled) {
    return { code: ResponseCode.SERVICE_NOT_AVAILABLE, remark: 'recall failed, broker service not available' };
  }
  if (!topics.has(topic)) {
    return { code: ResponseCode.TOPIC_NOT_EXIST, remark: `recall failed, the topic[${topic}] not exist` };
  }
  return undefined;
}

function wrongHandle(
  { config, clock, timer }: BrokerContext,
  topic: string,
  handle: RecallHandle | undefined,
  slotMs: number,
): string | undefined {
  if (handle === undefined) return 'recall handle is invalid';
  if (topic !== handle.topic) return 'recall failed, topic not match';
  if (config.brokerName !== handle.brokerName) return 'recall failed, broker service not available';
  const valid = /^\d{1,15}$/.test(handle.timestamp) && slotMs % timer.precisionMs === 0;
  if (!valid || slotMs - clock.now() >= config.timerMaxDelaySec * 1000) return 'recall failed, timestamp invalid';
  return undefined;
}

/** What the index knows of the message. Without an index every handle is believed, as RocketMQ does. */
async function fateOf(
  context: BrokerContext,
  handle: RecallHandle,
  slotMs: number,
): Promise<'there' | 'cancelled' | 'unknown'> {
  const { store, clock } = context;
  if (!store.config.messageIndexEnable || !store.config.indexFileWriteEnable || !store.config.indexFileReadEnable)
    return 'there';
  const end = store.watermarks.wrote;
  for (let i = 0; store.watermarks.indexed < end && i < INDEX_TRIES; i++) {
    await new Promise<void>((resolve) => clock.after(INDEX_WAIT_MS, resolve));
  }
  const { records } = await store.queryMessage(
    TIMER_TOPIC,
    handle.messageId,
    MOST_RECORDS,
    0,
    Number.MAX_SAFE_INTEGER,
    'U',
  );
  const waiting = records.flatMap(decodeMessages).filter((message) => isOf(message, handle, slotMs));
  if (waiting.length === 0) return 'unknown';
  return waiting.some((message) => message.properties.has(PropertyName.TIMER_DEL_UNIQKEY)) ? 'cancelled' : 'there';
}

function isOf({ properties }: StoredMessage, handle: RecallHandle, slotMs: number): boolean {
  return (
    properties.get(PropertyName.UNIQ_KEY) === handle.messageId &&
    properties.get(PropertyName.REAL_TOPIC) === handle.topic &&
    properties.get(PropertyName.TIMER_OUT_MS) === String(slotMs)
  );
}

/** The order to delete, as RocketMQ stores it. */
function orderOf(
  { clock }: BrokerContext,
  handle: RecallHandle,
  key: string,
  slotMs: number,
  producerGroup: string,
  bornHost: Uint8Array,
): InternalMessage {
  const now = clock.now();
  const properties = new Map([
    [PropertyName.TAGS, RECALL_TAG],
    [PropertyName.TIMER_DEL_UNIQKEY, key],
    [PropertyName.UNIQ_KEY, handle.messageId],
    [PropertyName.TIMER_DELIVER_MS, handle.timestamp],
    [PropertyName.BORN_TIMESTAMP, String(now)],
    [PropertyName.PGROUP, producerGroup],
  ] as Array<[string, string]>);
  const order: InternalMessage = {
    topic: handle.topic,
    queueId: 0,
    flag: 0,
    sysFlag: 0,
    bornTimestamp: now,
    bornHost,
    reconsumeTimes: 0,
    preparedTransactionOffset: 0,
    body: RECALL_BODY,
    properties,
    waitStoreMsgOK: true,
  };
  toTimerTopic(order, slotMs);
  return order;
}
