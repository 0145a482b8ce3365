// Check points and acknowledgements on their way into the revive topic: by the timer, which brings a check point into it one second before
// the acknowledgements of its messages. RocketMQ: buildCkMsg, appendAck and the put hooks in front of them, with a property text that comes
// out the same: the order of its maps does not depend on the values.

import type { Clock, Random } from '../../common/index.ts';
import {
  ACK_TAG,
  ACK_TIME_INTERVAL_MS,
  type AckMsg,
  ackUniqueId,
  BATCH_ACK_TAG,
  type BatchAckMsg,
  batchAckUniqueId,
  CK_TAG,
  ckUniqueId,
  encodeAckMsg,
  encodeBatchAckMsg,
  encodeCheckPoint,
  type PopCheckPoint,
  reviveTimeOf,
  reviveTopic,
} from '../../message/index.ts';
import { type MessageStore, PutMessageStatus, PutRequest, PutResult, putStatusName } from '../../store/index.ts';
import type { BrokerConfig } from '../broker-config.ts';
import type { TimerMessageService } from '../timer/timer-message-service.ts';
import { timerSlotOf } from '../timer/timer-put.ts';
import { TIMER_TOPIC } from '../topic/topic-names.ts';

export interface RevivePutParts {
  readonly config: BrokerConfig;
  readonly clock: Clock;
  readonly random: Random;
  readonly store: MessageStore;
  readonly timer: TimerMessageService;
  readonly storeHost: Uint8Array;
}

/** Separators in a property text. */
const NAME_END = '\u0001';
const PAIR_END = '\u0002';
/** Bytes that a UTF-16 unit takes at most. */
const UNIT_BYTES = 3;

export class RevivePut {
  /** Name of the revive topic. */
  readonly topic: string;
  /** Of the last put. */
  readonly result: PutResult = new PutResult();
  readonly #parts: RevivePutParts;
  readonly #request = new PutRequest();
  readonly #topicBytes: Uint8Array;
  readonly #timerTopicBytes: Uint8Array = Buffer.from(TIMER_TOPIC);
  #scratch: Buffer = Buffer.alloc(16 * 1024);

  constructor(parts: RevivePutParts) {
    this.#parts = parts;
    this.topic = reviveTopic(parts.config.brokerClusterName);
    this.#topicBytes = Buffer.from(this.topic, 'utf8');
    const request = this.#request;
    // RocketMQ: the broker itself is where they are born.
    request.bornHost = parts.storeHost;
    request.storeHost = parts.storeHost;
    request.plain = true;
    request.isOwn = true;
  }

  /**
   * Appends a check point; true if it is in the log (see `result`), where it counts once it is committed. If not, `reason` says why.
   */
  checkPoint(ck: PopCheckPoint, reviveQueueId: number): boolean {
    const due = reviveTimeOf(ck) - ACK_TIME_INTERVAL_MS;
    return this.#put(encodeCheckPoint(ck), ckUniqueId(ck), CK_TAG, reviveQueueId, due);
  }

  /** As `checkPoint`; `reviveTime` is that of the check point. */
  ack(ack: AckMsg, reviveQueueId: number, reviveTime: number): boolean {
    return this.#put(encodeAckMsg(ack), ackUniqueId(ack), ACK_TAG, reviveQueueId, reviveTime);
  }

  /** Several acknowledgements of one check point in one record, as clients send them. */
  batchAck(ack: BatchAckMsg, reviveQueueId: number, reviveTime: number): boolean {
    return this.#put(encodeBatchAckMsg(ack), ackUniqueId(ack), BATCH_ACK_TAG, reviveQueueId, reviveTime);
  }

  /** The same from the merge buffer. */
  bufferedAck(ack: BatchAckMsg, reviveQueueId: number, reviveTime: number): boolean {
    return this.#put(encodeBatchAckMsg(ack), batchAckUniqueId(ack), BATCH_ACK_TAG, reviveQueueId, reviveTime);
  }

  /** End of the last record in the log. */
  get logEnd(): number {
    return this.result.wroteOffset + this.result.wroteBytes;
  }

  /** Why the last put was refused. */
  get reason(): string {
    const { reason, status } = this.result;
    return reason === '' ? putStatusName(status) : reason;
  }

  #put(body: string, uniqKey: string, tag: string, reviveQueueId: number, due: number): boolean {
    const { clock, store, timer } = this.#parts;
    const { result } = this;
    // Groups and names of brokers come from handles, and would end the property and begin another: REAL_TOPIC, for one. RocketMQ: they do.
    if (uniqKey.includes(NAME_END) || uniqKey.includes(PAIR_END)) {
      result.status = PutMessageStatus.MESSAGE_ILLEGAL;
      result.reason = 'a name in the receipt handle holds a separator of properties';
      return false;
    }
    const now = clock.now();
    let properties = `TIMER_DELIVER_MS\u0001${due}\u0002UNIQ_KEY\u0001${uniqKey}\u0002TAGS\u0001${tag}\u0002`;
    const isLater = due > now;
    if (isLater) {
      const out = timerSlotOf(this.#parts, due, now);
      if (typeof out !== 'number') {
        result.status = out.status;
        result.reason = out.reason;
        return false;
      }
      properties = `REAL_TOPIC\u0001${this.topic}\u0002${properties}TIMER_OUT_MS\u0001${out}\u0002REAL_QID\u0001${reviveQueueId}\u0002`;
    }
    const room = UNIT_BYTES * (body.length + properties.length);
    if (room > this.#scratch.length) this.#scratch = Buffer.alloc(2 * room);
    const scratch = this.#scratch;
    const request = this.#request;
    request.topic = isLater ? TIMER_TOPIC : this.topic;
    request.topicBytes = isLater ? this.#timerTopicBytes : this.#topicBytes;
    request.queueId = isLater ? 0 : reviveQueueId;
    request.bornTimestamp = now;
    request.body = scratch;
    request.bodyEnd = scratch.write(body, 0);
    request.properties = scratch;
    request.propertiesStart = request.bodyEnd;
    request.propertiesEnd = request.bodyEnd + scratch.write(properties, request.bodyEnd);
    result.reason = '';
    store.put(request, result);
    if (result.status !== PutMessageStatus.PUT_OK) return false;
    if (isLater) timer.noted();
    return true;
  }
}
