// SEND_REPLY_MESSAGE (324) and SEND_REPLY_MESSAGE_V2 (325): the answer of a consumer to a request that came as a message. It is handed
// to the client that waits for it (PUSH_REPLY_MESSAGE_TO_CLIENT, 326) over the connection that its heartbeats name, and stored beside
// that. RocketMQ: ReplyMessageProcessor.
//
//   reply ─► checks of a send ─► REPLY_TO_CLIENT's connection ─► 326, waited for ─► stored (storeReplyMessageEnable) ─► answer

import { errorText } from '../../common/index.ts';
import {
  createOffsetMessageId,
  hostText,
  PropertyName,
  parsePropertyBytes,
  propertiesTextInJavaOrder,
} from '../../message/index.ts';
import { type ExtFields, type Request, RequestCode, type Responder, ResponseCode } from '../../remoting/index.ts';
import { isStored, type PutResult } from '../../store/index.ts';
import type { BrokerContext } from '../broker-context.ts';
import { applyDelayLevel, type InternalMessage, putInternal } from '../internal-put.ts';
import { answerLater, type HandlerRegistry } from './registry.ts';
import { SendHeader } from './send-header.ts';
import type { SendMessageProcessor } from './send-message.ts';

/** Ms that a client has to take its reply. */
const CLIENT_ANSWER_MS = 10_000;
/** A client that leaves more than this unread gets no replies: they would fill the memory. */
const MOST_UNSENT_BYTES = 8 * 1024 * 1024;

export class ReplyMessageProcessor {
  readonly #context: BrokerContext;
  readonly #send: SendMessageProcessor;
  readonly #header = new SendHeader();

  constructor(context: BrokerContext, send: SendMessageProcessor) {
    this.#context = context;
    this.#send = send;
  }

  register(registry: HandlerRegistry): void {
    registry.register(RequestCode.SEND_REPLY_MESSAGE, (request) => this.#handle(request, false));
    registry.register(RequestCode.SEND_REPLY_MESSAGE_V2, (request) => this.#handle(request, true));
  }

  #handle(request: Request, v2: boolean): void {
    const header = this.#header;
    header.read(request.header, v2);
    const topic = this.#send.topicOf(request, header);
    if (topic === undefined) return;
    let { queueId } = header;
    if (queueId < 0) queueId = this.#context.random.int(Math.max(1, topic.config!.writeQueueNums));
    const message: InternalMessage = {
      topic: topic.name,
      queueId,
      flag: header.flag,
      // RocketMQ: the reply's own flags go to the client and are not stored.
      sysFlag: 0,
      bornTimestamp: header.bornTimestamp,
      bornHost: request.channel.remoteHost,
      reconsumeTimes: header.reconsumeTimes,
      preparedTransactionOffset: 0,
      body: request.bodyCopy(),
      properties: parsePropertyBytes(header.properties, header.propertiesStart, header.propertiesEnd),
      waitStoreMsgOK: true,
    };
    const push: ExtFields = {
      bornHost: request.channel.remoteAddress,
      bornTimestamp: header.bornTimestamp,
      defaultTopic: header.defaultTopic,
      defaultTopicQueueNums: header.defaultTopicQueueNums,
      flag: header.flag,
      producerGroup: header.producerGroup,
      queueId: header.queueId,
      reconsumeTimes: header.reconsumeTimes,
      storeHost: hostText(this.#context.storeHost),
      storeTimestamp: this.#context.clock.now(),
      sysFlag: header.sysFlag,
      topic: topic.name,
      unitMode: header.unitMode,
    };
    answerLater(request, async (responder) => this.#deliver(responder, message, push));
  }

  async #deliver(responder: Responder, message: InternalMessage, push: ExtFields): Promise<void> {
    const { config } = this.#context;
    const fault = await this.#push(message, push);
    const code = fault === null ? ResponseCode.SUCCESS : ResponseCode.SYSTEM_ERROR;
    const ext: ExtFields = { MSG_REGION: config.regionId, TRACE_ON: config.traceOn };
    // RocketMQ: zeros, since a client cannot read an answer without them.
    if (fault === null) Object.assign(ext, { msgId: '0', queueId: message.queueId, queueOffset: 0 });
    if (!config.storeReplyMessageEnable) {
      responder.respond(code, fault, ext);
      return;
    }
    const { queueId } = message;
    this.#store(message, (stored) => {
      if (stored !== undefined) {
        const msgId = createOffsetMessageId(this.#context.storeHost, stored.wroteOffset);
        Object.assign(ext, { msgId, queueId, queueOffset: stored.queueOffset });
      }
      responder.respond(code, fault, ext);
    });
  }

  /** Hands the reply to the client that waits for it; what kept it from that, null if nothing did. */
  async #push(message: InternalMessage, fields: ExtFields): Promise<string | null> {
    const { clock, logger, producers } = this.#context;
    const clientId = message.properties.get(PropertyName.REPLY_TO_CLIENT);
    if (clientId === undefined) return `reply message properties[${PropertyName.REPLY_TO_CLIENT}] is null`;
    const channel = producers.findChannel(clientId);
    if (channel === undefined) return `push reply message fail, channel of <${clientId}> not found.`;
    if (channel.unsentBytes > MOST_UNSENT_BYTES) {
      return `push reply message to ${clientId} fail. (it has left ${channel.unsentBytes} bytes unread)`;
    }
    // The time is for the client alone; what is stored is what came.
    const properties = new Map(message.properties).set(PropertyName.PUSH_REPLY_TIME, String(clock.now()));
    const ext = { ...fields, properties: propertiesTextInJavaOrder(properties) };
    try {
      const answer = await channel.invoke(
        RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT,
        ext,
        message.body,
        CLIENT_ANSWER_MS,
      );
      if (answer.code === ResponseCode.SUCCESS) return null;
      logger.warn(`client ${clientId} refused a reply with code ${answer.code}: ${answer.remark ?? ''}`);
      return `push reply message to ${clientId} fail. (code ${answer.code}: ${answer.remark ?? ''})`;
    } catch (error) {
      logger.warn(`client ${clientId} did not take a reply: ${errorText(error)}`);
      return `push reply message to ${clientId} fail. (${errorText(error)})`;
    }
  }

  /** Stores the reply; `done` gets its place, undefined if it is not stored. RocketMQ: that is no failure of the reply. */
  #store(message: InternalMessage, done: (stored: PutResult | undefined) => void): void {
    const { logger, schedule, stats, store, storeHost, traffic } = this.#context;
    applyDelayLevel(message, schedule.maxDelayLevel);
    putInternal(store, message, storeHost, (status, result, reason) => {
      if (!isStored(status)) {
        stats.putFailed++;
        logger.warn(`a reply to ${message.topic} is not stored: ${reason}`);
        done(undefined);
        return;
      }
      stats.stored(traffic.puts.of(message.topic), result);
      done(result);
    });
  }
}
