// The acknowledgements of one loop turn. A consumer acknowledges message by message what it has popped together, and sends these requests
// one behind the other: those of one check point become one record, in the form that RocketMQ has for the batches of its clients.
//
// The first of them is parsed; of those that follow it only the bytes are compared, and the offset is read.

import { sameBytes } from '../../common/index.ts';
import type { ReceiptHandle } from '../../message/index.ts';
import { type Channel, FrameWriter, type HeaderView, type Request, ResponseCode } from '../../remoting/index.ts';
import type { BrokerContext } from '../broker-context.ts';
import { ackCode } from '../processor/send-acks.ts';
import type { TurnAcks } from '../processor/turn-acks.ts';

/** Acknowledgements that one record holds at most: a check point has 32 messages, but anybody may say anything. */
const MOST_OFFSETS = 64;
const KEPT = 64;
const EMPTY = Buffer.alloc(0);
const SPACE = 0x20;
/** Words of a handle that name its check point: all but the queue and the offset of the message. */
const NAMING_WORDS = 6;

/** Those of one check point. */
export class PendingAck {
  group = '';
  topic = '';
  queueId = 0;
  handle!: ReceiptHandle;
  /** Offsets that may be acknowledged: both ends are. */
  minOffset = 0;
  maxOffset = 0;
  readonly offsets: number[] = [];
  /** Who waits for an answer. */
  readonly channels: Channel[] = [];
  readonly opaques: number[] = [];
  // As they stand in a request's header; empty where they are escaped there.
  groupBytes: Buffer = EMPTY;
  topicBytes: Buffer = EMPTY;
  handleBytes: Buffer = EMPTY;
}

export class TurnOfAcks {
  readonly #context: BrokerContext;
  readonly #answers: TurnAcks;
  #pending: PendingAck[] = [];
  readonly #free: PendingAck[] = [];

  constructor(context: BrokerContext, answers: TurnAcks) {
    this.#context = context;
    this.#answers = answers;
  }

  /** The one that a request belongs to, if it is the last one and has room. */
  match(header: HeaderView): PendingAck | undefined {
    const last = this.#pending.at(-1);
    if (last === undefined || last.handleBytes.length === 0 || last.offsets.length >= MOST_OFFSETS) return undefined;
    if (!startsWith(header, 'extraInfo', last.handleBytes, false)) return undefined;
    if (!startsWith(header, 'consumerGroup', last.groupBytes, true)) return undefined;
    if (!startsWith(header, 'topic', last.topicBytes, true)) return undefined;
    // A light queue's has a way of its own.
    return header.indexOf('liteTopic') < 0 && header.int('queueId') === last.queueId ? last : undefined;
  }

  /** Begins one for a request that was checked. */
  begin(request: Request, group: string, topic: string, queueId: number, handle: ReceiptHandle): PendingAck {
    const { store } = this.#context;
    const { header } = request;
    const pending = this.#free.pop() ?? new PendingAck();
    pending.group = group;
    pending.topic = topic;
    pending.queueId = queueId;
    pending.handle = handle;
    pending.minOffset = store.minOffsetInQueue(topic, queueId);
    pending.maxOffset = store.maxOffsetInQueue(topic, queueId);
    pending.groupBytes = rawOf(header, 'consumerGroup');
    pending.topicBytes = rawOf(header, 'topic');
    pending.handleBytes = namingPart(rawOf(header, 'extraInfo'));
    this.#pending.push(pending);
    return pending;
  }

  /** Takes the request over; it is answered at the end of the turn or later. */
  add(pending: PendingAck, request: Request, offset: number): void {
    pending.offsets.push(offset);
    if (request.oneway) return;
    request.takeOver();
    pending.channels.push(request.channel);
    pending.opaques.push(request.opaque);
  }

  /** Stores all of them; the answers wait with the others of the turn. */
  end(): void {
    if (this.#pending.length === 0) return;
    const all = this.#pending;
    this.#pending = [];
    for (const pending of all) {
      this.#store(pending);
      pending.offsets.length = 0;
      pending.channels.length = 0;
      pending.opaques.length = 0;
      if (this.#free.length < KEPT) this.#free.push(pending);
    }
  }

  #store(pending: PendingAck): void {
    const { pop, traffic } = this.#context;
    const { queues, revive } = pop;
    const { channels, group, handle, offsets, opaques, queueId, topic } = pending;
    const { brokerName, invisibleTimeMs, popTime, reviveQueueId, startOffset } = handle;
    const reviveTime = popTime + invisibleTimeMs;
    const single = offsets.length === 1;
    const ack = { ackOffset: single ? offsets[0]! : -1, startOffset, group, topic, queueId, popTime, brokerName };
    const isStored = single
      ? revive.ack(ack, reviveQueueId, reviveTime)
      : revive.batchAck({ ...ack, ackOffsets: offsets }, reviveQueueId, reviveTime);
    if (!isStored) {
      this.#refuse(pending);
      return;
    }
    traffic.acknowledged(topic, group, offsets.length);
    queues.landed(topic, group, queueId, popTime, offsets.length);
    for (let i = 0; i < channels.length; i++) {
      const writer = this.#answers.writerOf(channels[i]!, revive.logEnd);
      writer.begin(ResponseCode.SUCCESS, opaques[i]!);
      writer.endHeader();
      writer.endFrame();
    }
  }

  #refuse({ channels, opaques }: PendingAck): void {
    const { reason, result } = this.#context.pop.revive;
    for (let i = 0; i < channels.length; i++) {
      const writer = new FrameWriter();
      writer.response(ackCode(result.status), opaques[i]!, `the acknowledgement cannot be stored: ${reason}`);
      channels[i]!.send(writer.take().bytes, 1);
    }
  }
}

/** A copy of a field's bytes where they are plain. */
function rawOf(header: HeaderView, name: string): Buffer {
  const index = header.indexOf(name);
  if (index < 0 || header.escaped[index] === 1) return EMPTY;
  const { buffer, ranges } = header;
  return Buffer.from(buffer.subarray(ranges[4 * index + 2]!, ranges[4 * index + 3]!));
}

function namingPart(handle: Buffer): Buffer {
  let words = 0;
  for (let i = 0; i < handle.length; i++) {
    if (handle[i] === SPACE && ++words === NAMING_WORDS) return handle.subarray(0, i + 1);
  }
  return EMPTY;
}

function startsWith(header: HeaderView, name: string, bytes: Buffer, whole: boolean): boolean {
  const index = header.indexOf(name);
  if (index < 0 || header.escaped[index] === 1) return false;
  const { buffer, ranges } = header;
  const start = ranges[4 * index + 2]!;
  const length = ranges[4 * index + 3]! - start;
  const fits = whole ? length === bytes.length : length >= bytes.length;
  return fits && sameBytes(buffer, start, bytes, 0, bytes.length);
}
