// The answers of one connection's sends in one loop turn: encoded when their messages were appended, sent when the watermark that they
// wait for has passed. One entry waits for all of them. Should the wait end otherwise, the encoded answers are read back and written
// anew with what is true then; that is rare and may cost what it costs.

import { viewOf } from '../../common/index.ts';
import {
  type Channel,
  COPY_LIMIT,
  decodeFrame,
  FrameWriter,
  HeaderView,
  ResponseCode,
  SlabPool,
} from '../../remoting/index.ts';
import { type AckTarget, isStored, PutMessageStatus } from '../../store/index.ts';

/** Bytes of output buffers kept for the next turns. */
const KEPT_BYTES = 4 * 1024 * 1024;
const KEPT_ACKS = 256;

/** Writes the answer to a request whose put did not end well; `old` is what would have been answered. */
export type Rewrite = (writer: FrameWriter, old: HeaderView, status: PutMessageStatus, reason: string) => void;

/** Makes SendAcks and takes them back when they have been sent. */
export class SendAckPool {
  readonly slabs: SlabPool = new SlabPool(KEPT_BYTES);
  readonly rewrite: Rewrite;
  readonly #free: SendAcks[] = [];

  constructor(rewrite: Rewrite = rewriteSend) {
    this.rewrite = rewrite;
  }

  take(channel: Channel): SendAcks {
    const acks = this.#free.pop() ?? new SendAcks(this);
    acks.channel = channel;
    acks.count = 0;
    return acks;
  }

  give(acks: SendAcks): void {
    if (this.#free.length < KEPT_ACKS) this.#free.push(acks);
  }
}

export class SendAcks implements AckTarget {
  channel!: Channel;
  readonly writer: FrameWriter;
  /** Answers in `writer`. */
  count = 0;
  readonly #pool: SendAckPool;

  constructor(pool: SendAckPool) {
    this.#pool = pool;
    this.writer = new FrameWriter(pool.slabs);
  }

  settle(status: PutMessageStatus, reason: string): void {
    if (status !== PutMessageStatus.PUT_OK) this.#rewrite(status, reason);
    const { bytes, slab } = this.writer.take();
    this.channel.send(bytes, this.count);
    // What is short was copied into the connection's own output.
    if (bytes.length <= COPY_LIMIT) this.#pool.slabs.give(slab);
    this.#pool.give(this);
  }

  #rewrite(status: PutMessageStatus, reason: string): void {
    const old = this.writer.take().bytes;
    const header = new HeaderView();
    const view = viewOf(old);
    for (let at = 0; at < old.length; ) {
      const end = at + 4 + view.getInt32(at);
      decodeFrame(old, at + 4, end, header);
      this.#pool.rewrite(this.writer, header, status, reason);
      at = end;
    }
  }
}

function rewriteSend(writer: FrameWriter, old: HeaderView, status: PutMessageStatus, reason: string): void {
  // What is stored is answered with its place.
  const { MSG_REGION, TRACE_ON, ...place } = old.toObject();
  const fields = isStored(status) ? { MSG_REGION, TRACE_ON, ...place } : { MSG_REGION, TRACE_ON };
  writer.response(ackCode(status), old.opaque, reason, fields);
}

/** The code that answers a put's final status. RocketMQ: handlePutMessageResult. */
export function ackCode(status: PutMessageStatus): number {
  switch (status) {
    case PutMessageStatus.PUT_OK:
      return ResponseCode.SUCCESS;
    case PutMessageStatus.FLUSH_DISK_TIMEOUT:
      return ResponseCode.FLUSH_DISK_TIMEOUT;
    case PutMessageStatus.FLUSH_SLAVE_TIMEOUT:
      return ResponseCode.FLUSH_SLAVE_TIMEOUT;
    case PutMessageStatus.SLAVE_NOT_AVAILABLE:
      return ResponseCode.SLAVE_NOT_AVAILABLE;
    case PutMessageStatus.SERVICE_NOT_AVAILABLE:
      return ResponseCode.SERVICE_NOT_AVAILABLE;
    case PutMessageStatus.MESSAGE_ILLEGAL:
    case PutMessageStatus.PROPERTIES_SIZE_EXCEEDED:
    case PutMessageStatus.WHEEL_TIMER_MSG_ILLEGAL:
      return ResponseCode.MESSAGE_ILLEGAL;
    case PutMessageStatus.OS_PAGE_CACHE_BUSY:
      return ResponseCode.SYSTEM_BUSY;
    case PutMessageStatus.LMQ_CONSUME_QUEUE_NUM_EXCEEDED:
      return ResponseCode.LMQ_QUOTA_EXCEEDED;
    default:
      return ResponseCode.SYSTEM_ERROR;
  }
}
