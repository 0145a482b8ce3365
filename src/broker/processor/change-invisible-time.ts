// CHANGE_MESSAGE_INVISIBLETIME (200053): a popped message comes back sooner or later than was agreed. It gets a check point of its own, and
// the place that it has in the old one is acknowledged, in this order: should only the first be in the log, the message comes back twice, and
// it is never lost. RocketMQ: ChangeInvisibleTimeProcessor.

import { isOrderHandle, parseReceiptHandle, type ReceiptHandle } from '../../message/index.ts';
import {
  type ExtFields,
  type FrameWriter,
  type Request,
  RequestCode,
  type Responder,
  ResponseCode,
} from '../../remoting/index.ts';
import type { BrokerContext } from '../broker-context.ts';
import { changeLiteInvisible, isAboutLite } from '../lite/ack-lite.ts';
import { noReviveQueue } from './ack-message.ts';
import { illegalQueue } from './pop-checks.ts';
import { type HandlerRegistry, NO_REMARK_SET } from './registry.ts';
import { SendAckPool } from './send-acks.ts';
import { TurnAcks } from './turn-acks.ts';

/** RocketMQ: the fields of ChangeInvisibleTimeResponseHeader are there even in a refusal. */
const NO_FIELDS: ExtFields = { popTime: 0, invisibleTime: 0, reviveQid: 0 };

/** By so many ms at most changes that follow each other at once go ahead of the clock; beyond that it was set back. */
const MOST_AHEAD_MS = 1000;

/** Whose time is to change. */
interface Change {
  readonly group: string;
  readonly topic: string;
  readonly queueId: number;
  readonly offset: number;
  readonly invisibleTimeMs: number;
  readonly suspend: boolean;
  readonly handle: ReceiptHandle;
}

export class ChangeInvisibleTimeProcessor {
  readonly #context: BrokerContext;
  readonly #answers: TurnAcks;

  constructor(context: BrokerContext) {
    this.#context = context;
    const pool = new SendAckPool((writer, old, _status, reason) => {
      writer.response(ResponseCode.SYSTEM_ERROR, old.opaque, `the check point cannot be stored: ${reason}`, NO_FIELDS);
    });
    this.#answers = new TurnAcks(context.store, pool, true);
  }

  register(registry: HandlerRegistry): void {
    registry.register(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, (request) => this.#handle(request));
  }

  /** Called at the end of each turn of the server. */
  endTurn(): void {
    this.#answers.endTurn();
  }

  #handle(request: Request): void {
    const { header } = request;
    const { pop, store, topics } = this.#context;
    const group = header.required('consumerGroup');
    const topic = header.required('topic');
    const queueId = header.int('queueId');
    const extraInfo = header.required('extraInfo');
    const offset = header.long('offset');
    const invisibleTimeMs = header.long('invisibleTime');
    const suspend = header.bool('suspend', false);
    const topicConfig = topics.select(topic);
    if (topicConfig === undefined) {
      request.respond(ResponseCode.TOPIC_NOT_EXIST, `topic[${topic}] not exist, apply first please!`, NO_FIELDS);
      return;
    }
    if (queueId < 0 || queueId >= topicConfig.readQueueNums) {
      const remark = illegalQueue(queueId, topicConfig, request.channel.remoteAddress);
      request.respond(ResponseCode.MESSAGE_ILLEGAL, remark, NO_FIELDS);
      return;
    }
    if (isAboutLite(header)) {
      changeLiteInvisible(this.#context, request);
      return;
    }
    if (offset < store.minOffsetInQueue(topic, queueId) || offset >= store.maxOffsetInQueue(topic, queueId)) {
      request.respond(ResponseCode.NO_MESSAGE, NO_REMARK_SET, NO_FIELDS);
      return;
    }
    const handle = parseReceiptHandle(extraInfo, true);
    if (typeof handle === 'string') {
      request.respond(ResponseCode.SYSTEM_ERROR, handle);
      return;
    }
    const change: Change = { group, topic, queueId, offset, invisibleTimeMs, suspend, handle };
    if (isOrderHandle(handle)) {
      this.#changeInOrder(request.defer(), change);
      return;
    }
    if (!pop.isReviveQueue(handle.reviveQueueId)) {
      request.respond(ResponseCode.MESSAGE_ILLEGAL, noReviveQueue(handle.reviveQueueId), NO_FIELDS);
      return;
    }
    this.#change(request, change);
  }

  #change(request: Request, change: Change): void {
    const { clock, config, logger, pop, traffic } = this.#context;
    const { group, handle, invisibleTimeMs, offset, queueId, topic } = change;
    const { revive } = pop;
    const now = clock.now();
    // RocketMQ: within one millisecond two check points would bear one name, and the acknowledgement of the old one would be the new one's, too.
    const aheadMs = handle.popTime - now;
    const popTime = aheadMs >= 0 && aheadMs < MOST_AHEAD_MS ? handle.popTime + 1 : now;
    const ck = {
      startOffset: offset,
      popTime,
      invisibleTimeMs,
      bitMap: 0,
      num: 1,
      queueId,
      topic,
      group,
      reviveOffset: 0,
      offsetDiffs: [0],
      brokerName: handle.brokerName,
      rePutTimes: undefined,
      suspend: change.suspend,
    };
    if (!revive.checkPoint(ck, handle.reviveQueueId)) {
      const remark = `the check point cannot be stored: ${revive.reason}`;
      request.respond(ResponseCode.SYSTEM_ERROR, remark, NO_FIELDS);
      return;
    }
    if (config.enablePopLog)
      logger.info(`${group} has ${topic} queue ${queueId} offset ${offset} back at ${popTime + invisibleTimeMs}`);
    const { logEnd } = revive;
    traffic.checkPointed(topic, group, 1);
    traffic.acknowledged(topic, group, 1);
    this.#ackOrigin(change);
    if (request.oneway) return;
    request.takeOver();
    const writer = this.#answers.writerOf(request.channel, Math.max(logEnd, revive.logEnd));
    writer.begin(ResponseCode.SUCCESS, request.opaque);
    writeFields(writer, popTime, invisibleTimeMs, handle.reviveQueueId);
    writer.endHeader(NO_REMARK_SET);
    writer.endFrame();
  }

  /** RocketMQ: ackOrigin; a failure is only told: the message comes back by both check points. */
  #ackOrigin({ group, handle, offset, queueId, topic }: Change): void {
    const { logger, pop } = this.#context;
    const { brokerName, invisibleTimeMs, popTime, reviveQueueId, startOffset } = handle;
    const ack = { ackOffset: offset, startOffset, group, topic, queueId, popTime, brokerName };
    if (pop.buffer.ack(ack, [offset])) return;
    if (pop.revive.ack(ack, reviveQueueId, popTime + invisibleTimeMs)) return;
    logger.error(`the old invisible time of ${topic} queue ${queueId} offset ${offset} stays: ${pop.revive.reason}`);
  }

  /** RocketMQ: processChangeInvisibleTimeForOrder: the pop time stays, and the invisible time is counted from it. */
  #changeInOrder(responder: Responder, change: Change): void {
    const { clock, offsets, pop } = this.#context;
    const { group, handle, invisibleTimeMs, offset, queueId, topic } = change;
    const isPast = (): boolean => offset < offsets.query(group, topic, queueId);
    if (isPast()) {
      responder.respond(ResponseCode.SUCCESS, NO_REMARK_SET, NO_FIELDS);
      return;
    }
    pop.queues.whenFree(topic, group, queueId, () => {
      if (isPast()) {
        responder.respond(ResponseCode.SUCCESS, NO_REMARK_SET, NO_FIELDS);
        return;
      }
      const visibleMs = clock.now() + invisibleTimeMs;
      pop.order.updateNextVisibleTime(topic, group, queueId, offset, handle.popTime, visibleMs);
      responder.respond(ResponseCode.SUCCESS, NO_REMARK_SET, {
        popTime: handle.popTime,
        invisibleTime: visibleMs - handle.popTime,
        reviveQid: handle.reviveQueueId,
      });
    });
  }
}

function writeFields(writer: FrameWriter, popTime: number, invisibleTime: number, reviveQid: number): void {
  writer.numberField('popTime', popTime);
  writer.numberField('invisibleTime', invisibleTime);
  writer.numberField('reviveQid', reviveQid);
}
