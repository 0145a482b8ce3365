// The answer to a stored message, written as one frame from pieces that never change and five values. The bytes are what FrameWriter would
// write for the same fields (a test says so); this is the short way, because there is one of these for every message.
//
//   length | header length | {"code":0,"extFields":{"MSG_REGION":..,"TRACE_ON":..,"msgId":"HOST PORT offset as 16 hex digits","queueId":"n",
//   "queueOffset":"n","transactionId":"UNIQ_KEY"},"flag":1,"language":"JAVA","opaque":n,"serializeTypeCurrentRPC":"JSON","version":513}

import { copy, createOffsetMessageId } from '../../message/index.ts';
import { type FrameWriter, MQ_VERSION } from '../../remoting/index.ts';

const QUEUE_ID = Buffer.from('","queueId":"');
const QUEUE_OFFSET = Buffer.from('","queueOffset":"');
const TRANSACTION_ID = Buffer.from('","transactionId":"');
const FLAG_OPAQUE = Buffer.from('"},"flag":1,"language":"JAVA","opaque":');
const TAIL = Buffer.from(`,"serializeTypeCurrentRPC":"JSON","version":${MQ_VERSION}}`);
const FRAME_HEAD_BYTES = 8;
/** The physical offset's digits, and those of three decimal numbers. */
const VALUE_BYTES = 16 + 3 * 20;
const HEX = Buffer.from('0123456789ABCDEF');
const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const MINUS = 0x2d;
const ZERO = 0x30;

export class SendAnswer {
  /** Everything up to the physical offset's digits, with room for the two lengths in front. */
  readonly #head: Uint8Array;
  readonly #fixedBytes: number;

  constructor(regionId: string, traceOn: boolean, storeHost: Uint8Array) {
    const idHead = createOffsetMessageId(storeHost, 0).slice(0, -16);
    const text = `{"code":0,"extFields":{"MSG_REGION":${JSON.stringify(regionId)},"TRACE_ON":"${traceOn}","msgId":"${idHead}`;
    this.#head = Buffer.concat([Buffer.alloc(FRAME_HEAD_BYTES), Buffer.from(text)]);
    const pieces = [this.#head, QUEUE_ID, QUEUE_OFFSET, TRANSACTION_ID, FLAG_OPAQUE, TAIL];
    this.#fixedBytes = pieces.reduce((sum, piece) => sum + piece.length, VALUE_BYTES);
  }

  /**
   * Writes the frame. `id[idStart, idEnd)` is the UNIQ_KEY as it came; false, with nothing written, if it cannot stand in a JSON
   * string as it is.
   */
  write(
    writer: FrameWriter,
    opaque: number,
    physicalOffset: number,
    queueId: number,
    queueOffset: number,
    id: Uint8Array,
    idStart: number,
    idEnd: number,
  ): boolean {
    if (!isPlain(id, idStart, idEnd)) return false;
    writer.ensure(this.#fixedBytes + idEnd - idStart);
    const bytes = writer.bytes;
    const start = writer.length;
    let at = copy(this.#head, 0, this.#head.length, bytes, start);
    const high = Math.floor(physicalOffset / 0x1_0000_0000);
    at = hex32(bytes, at, high);
    at = hex32(bytes, at, physicalOffset - high * 0x1_0000_0000);
    at = copy(QUEUE_ID, 0, QUEUE_ID.length, bytes, at);
    at = decimal(bytes, at, queueId);
    at = copy(QUEUE_OFFSET, 0, QUEUE_OFFSET.length, bytes, at);
    at = decimal(bytes, at, queueOffset);
    at = copy(TRANSACTION_ID, 0, TRANSACTION_ID.length, bytes, at);
    at = copy(id, idStart, idEnd, bytes, at);
    at = copy(FLAG_OPAQUE, 0, FLAG_OPAQUE.length, bytes, at);
    at = decimal(bytes, at, opaque);
    at = copy(TAIL, 0, TAIL.length, bytes, at);
    writeInt32(bytes, start, at - start - 4);
    writeInt32(bytes, start + 4, at - start - FRAME_HEAD_BYTES);
    writer.length = at;
    return true;
  }
}

function hex32(target: Uint8Array, at: number, value: number): number {
  for (let shift = 28, p = at; shift >= 0; shift -= 4) target[p++] = HEX[(value >>> shift) & 15]!;
  return at + 8;
}

function decimal(target: Uint8Array, at: number, value: number): number {
  let rest = value;
  let p = at;
  if (rest < 0) {
    target[p++] = MINUS;
    rest = -rest;
  }
  let count = 1;
  for (let limit = 10; rest >= limit; limit *= 10) count++;
  for (let i = p + count - 1; i >= p; i--) {
    const next = Math.floor(rest / 10);
    target[i] = ZERO + (rest - next * 10);
    rest = next;
  }
  return p + count;
}

function writeInt32(target: Uint8Array, at: number, value: number): void {
  target[at] = value >>> 24;
  target[at + 1] = value >>> 16;
  target[at + 2] = value >>> 8;
  target[at + 3] = value;
}

/** Whether bytes can stand in a JSON string as they are. */
function isPlain(bytes: Uint8Array, start: number, end: number): boolean {
  for (let i = start; i < end; i++) {
    const byte = bytes[i]!;
    if (byte < 0x20 || byte > 0x7e || byte === QUOTE || byte === BACKSLASH) return false;
  }
  return true;
}
