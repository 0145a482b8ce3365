// ACK_MESSAGE (200051) and BATCH_ACK_MESSAGE (200151): popped messages are done with. RocketMQ: AckMessageProcessor.
//
//   ACK        ─► checks ─► with the others of this turn and check point ─► at its end one record for all of them ─► answers parked
//   BATCH_ACK  ─► a record for each check point ─► answer parked
//
// RocketMQ: a record for each acknowledgement, and SUCCESS even where that could not be stored; then the message comes back although it was
// acknowledged. Here such an acknowledgement is refused, and the client knows.

import {
  type BatchAck,
  decodeBatchAcks,
  isOrderHandle,
  POP_ORDER_REVIVE_QUEUE,
  parseReceiptHandle,
  realTopicOf,
} from '../../message/index.ts';
import { type Request, RequestCode, type Responder, ResponseCode, refuseBody } from '../../remoting/index.ts';
import type { BrokerContext } from '../broker-context.ts';
import { ackLite, isAboutLite } from '../lite/ack-lite.ts';
import { ackOrderly } from '../pop/orderly-acks.ts';
import { TurnOfAcks } from '../pop/turn-of-acks.ts';
import { illegalQueue } from './pop-checks.ts';
import type { HandlerRegistry } from './registry.ts';
import { ackCode, SendAckPool } from './send-acks.ts';
import { TurnAcks } from './turn-acks.ts';

/** Far more than the acknowledgements of a client's pops take. */
const BATCH_BODY_BYTES = 1024 * 1024;
/** Messages that one record names: those who read it back take no record beyond 64 KiB. */
const MOST_OFFSETS = 1024;

export class AckMessageProcessor {
  readonly #context: BrokerContext;
  readonly #answers: TurnAcks;
  readonly #turn: TurnOfAcks;

  constructor(context: BrokerContext) {
    this.#context = context;
    const pool = new SendAckPool((writer, old, status, reason) => {
      writer.response(ackCode(status), old.opaque, `the acknowledgement cannot be stored: ${reason}`);
    });
    this.#answers = new TurnAcks(context.store, pool, true);
    this.#turn = new TurnOfAcks(context, this.#answers);
  }

  register(registry: HandlerRegistry): void {
    registry.register(RequestCode.ACK_MESSAGE, (request) => this.#ack(request));
    registry.register(RequestCode.BATCH_ACK_MESSAGE, (request) => {
      if (!refuseBody(request, BATCH_BODY_BYTES)) this.#batchAck(request);
    });
  }

  /** Called at the end of each turn of the server: the turn's acknowledgements are stored, and their answers wait for that. */
  endTurn(): void {
    this.#turn.end();
    this.#answers.endTurn();
  }

  #ack(request: Request): void {
    const { header } = request;
    const known = this.#turn.match(header);
    if (known !== undefined) {
      const offset = header.long('offset');
      const { maxOffset, minOffset, queueId, topic } = known;
      if (offset < minOffset || offset > maxOffset) refuseOffset(request, topic, queueId, offset, minOffset, maxOffset);
      else this.#turn.add(known, request, offset);
      return;
    }
    const { pop, store, topics, traffic } = this.#context;
    const group = header.required('consumerGroup');
    const topic = header.required('topic');
    const queueId = header.int('queueId');
    const extraInfo = header.required('extraInfo');
    const offset = header.long('offset');
    const topicConfig = topics.select(topic);
    if (topicConfig === undefined) {
      request.respond(ResponseCode.TOPIC_NOT_EXIST, `topic[${topic}] not exist, apply first please!`);
      return;
    }
    if (queueId < 0 || queueId >= topicConfig.readQueueNums) {
      const remark = illegalQueue(queueId, topicConfig, request.channel.remoteAddress);
      request.respond(ResponseCode.MESSAGE_ILLEGAL, remark);
      return;
    }
    if (isAboutLite(header)) {
      ackLite(this.#context, request);
      return;
    }
    const min = store.minOffsetInQueue(topic, queueId);
    const max = store.maxOffsetInQueue(topic, queueId);
    if (offset < min || offset > max) {
      refuseOffset(request, topic, queueId, offset, min, max);
      return;
    }
    const handle = parseReceiptHandle(extraInfo);
    if (typeof handle === 'string') {
      request.respond(ResponseCode.SYSTEM_ERROR, handle);
      return;
    }
    const { invisibleTimeMs, popTime, reviveQueueId } = handle;
    if (isOrderHandle(handle)) {
      const { channel } = request;
      const responder = request.defer();
      const ack = { group, topic, queueId, offset, popTime, invisibleTimeMs };
      ackOrderly(this.#context, ack, channel.remoteAddress, (fault) => answerOrderly(responder, fault));
      return;
    }
    if (!pop.isReviveQueue(reviveQueueId)) {
      // RocketMQ: stores it in a queue that nobody reads.
      request.respond(ResponseCode.MESSAGE_ILLEGAL, noReviveQueue(reviveQueueId));
      return;
    }
    const { brokerName, startOffset } = handle;
    const ack = { ackOffset: offset, startOffset, group, topic, queueId, popTime, brokerName };
    if (pop.buffer.ack(ack, [offset])) {
      traffic.acknowledged(topic, group, 1);
      pop.queues.landed(topic, group, queueId, popTime, 1);
      request.respond(ResponseCode.SUCCESS);
      return;
    }
    this.#turn.add(this.#turn.begin(request, group, topic, queueId, handle), request, offset);
  }

  #batchAck(request: Request): void {
    const body = decodeBatchAcks(Buffer.from(request.bodyCopy()).toString('utf8'));
    if (typeof body === 'string') {
      request.respond(ResponseCode.SYSTEM_ERROR, body);
      return;
    }
    const { acks, brokerName } = body;
    if (acks.length === 0) {
      request.respond(ResponseCode.NO_MESSAGE);
      return;
    }
    const odd = acks.find((ack) => realTopicOf(ack.topic, ack.group, ack.retryFlag) === undefined);
    if (odd !== undefined) {
      request.respond(ResponseCode.SYSTEM_ERROR, 'getRetry fail, format is wrong');
      return;
    }
    const { revive } = this.#context.pop;
    let logEnd = 0;
    let fault: string | undefined;
    for (const ack of acks) {
      if (ack.reviveQueueId === POP_ORDER_REVIVE_QUEUE) {
        this.#ackOrderly(ack, request.channel.remoteAddress, (text) => {
          fault ??= text;
        });
        continue;
      }
      const stored = this.#store(ack, brokerName);
      if (stored === undefined) continue;
      if (!stored) {
        // What was stored of the others counts.
        request.respond(ackCode(revive.result.status), `an acknowledgement cannot be stored: ${revive.reason}`);
        return;
      }
      logEnd = revive.logEnd;
    }
    if (logEnd === 0 || request.oneway) {
      request.respond(fault === undefined ? ResponseCode.SUCCESS : ResponseCode.MESSAGE_ILLEGAL, fault);
      return;
    }
    request.takeOver();
    const writer = this.#answers.writerOf(request.channel, logEnd);
    writer.response(fault === undefined ? ResponseCode.SUCCESS : ResponseCode.MESSAGE_ILLEGAL, request.opaque, fault);
  }

  /** The queue of the messages of one check point, and their offsets; undefined if there is no such queue, or none of them. */
  #offsetsOf(ack: BatchAck): { topic: string; offsets: number[] } | undefined {
    const { store, topics } = this.#context;
    const topic = realTopicOf(ack.topic, ack.group, ack.retryFlag)!;
    const config = topics.select(topic);
    // RocketMQ: asks its queues, and makes one where there is none.
    if (config === undefined || ack.queueId < 0 || ack.queueId >= config.readQueueNums) return undefined;
    const min = store.minOffsetInQueue(topic, ack.queueId);
    const max = store.maxOffsetInQueue(topic, ack.queueId);
    const offsets = ack.bits.map((bit) => ack.startOffset + bit).filter((offset) => offset >= min && offset <= max);
    return offsets.length === 0 ? undefined : { topic, offsets };
  }

  /** undefined: there is nothing to store. */
  #store(ack: BatchAck, brokerName: string | undefined): boolean | undefined {
    const { pop, traffic } = this.#context;
    const { group, popTime, queueId, reviveQueueId, startOffset } = ack;
    const of = this.#offsetsOf(ack);
    if (of === undefined || !pop.isReviveQueue(reviveQueueId)) return undefined;
    const { offsets: ackOffsets, topic } = of;
    const record = { ackOffset: -1, ackOffsets, startOffset, group, topic, queueId, popTime, brokerName };
    const reviveTime = popTime + ack.invisibleTimeMs;
    if (!pop.buffer.ack(record, ackOffsets)) {
      for (let at = 0; at < ackOffsets.length; at += MOST_OFFSETS) {
        record.ackOffsets = ackOffsets.slice(at, at + MOST_OFFSETS);
        if (!pop.revive.batchAck(record, reviveQueueId, reviveTime)) return false;
      }
    }
    traffic.acknowledged(topic, group, ackOffsets.length);
    pop.queues.landed(topic, group, queueId, popTime, ackOffsets.length);
    return true;
  }

  #ackOrderly(ack: BatchAck, peer: string, done: (fault: string | undefined) => void): void {
    const { group, invisibleTimeMs, popTime, queueId } = ack;
    const of = this.#offsetsOf(ack);
    for (const offset of of?.offsets ?? []) {
      ackOrderly(this.#context, { group, topic: of!.topic, queueId, offset, popTime, invisibleTimeMs }, peer, done);
    }
  }
}

function answerOrderly(responder: Responder, fault: string | undefined): void {
  responder.respond(fault === undefined ? ResponseCode.SUCCESS : ResponseCode.MESSAGE_ILLEGAL, fault ?? null);
}

function refuseOffset(
  request: Request,
  topic: string,
  queueId: number,
  offset: number,
  min: number,
  max: number,
): void {
  const remark = `offset is illegal, key:${topic}@${queueId}, commit:${offset}, store:${min}~${max}`;
  request.respond(ResponseCode.NO_MESSAGE, remark);
}

export function noReviveQueue(reviveQueueId: number): string {
  return `reviveQueueId[${reviveQueueId}] is illegal: no receipt handle of this broker has it`;
}
