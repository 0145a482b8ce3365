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
const OFFSET_DIGITS = 16;
/** The physical offset's digits, and those of three decimal numbers. */
const VALUE_BYTES = OFFSET_DIGITS + 3 * 20;
const HEX = Buffer.from('0123456789ABCDEF');
const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const MINUS = 0x2d;
const ZERO = 0x30;
/** 1 for the bytes that a JSON string cannot hold as they are. */
const NOT_PLAIN = Uint8Array.from({ length: 256 }, (_, byte) =>
  byte < 0x20 || byte > 0x7e || byte === QUOTE || byte === BACKSLASH ? 1 : 0,
);

/**
 * One connection's answers differ from each other in their values only, as long as those have the same lengths. So the last frame
 * is kept: the values are written over the old ones and the whole is copied out. Where a length differs the frame is laid out anew.
 */
export class SendAnswer {
  /** Everything up to the physical offset's digits, with room for the two lengths in front. */
  readonly #head: Uint8Array;
  readonly #fixedBytes: number;
  /** Holds the frame. */
  #room = new Uint8Array(0);
  #frame: Uint8Array = this.#room;
  #queueIdAt = 0;
  #queueIdEnd = 0;
  #queueOffsetAt = 0;
  #queueOffsetEnd = 0;
  #idAt = 0;
  #idEnd = 0;
  #opaqueAt = 0;
  #opaqueEnd = 0;

  constructor(regionId: string, traceOn: boolean, storeHost: Uint8Array) {
    const idHead = createOffsetMessageId(storeHost, 0).slice(0, -OFFSET_DIGITS);
    const text = `{"code":0,"extFields":{"MSG_REGION":${JSON.stringify(regionId)},"TRACE_ON":"${traceOn}","msgId":"${idHead}`;
    this.#head = Buffer.concat([Buffer.alloc(FRAME_HEAD_BYTES), Buffer.from(text)]);
    const pieces = [this.#head, QUEUE_ID, QUEUE_OFFSET, TRANSACTION_ID, FLAG_OPAQUE, TAIL];
    this.#fixedBytes = pieces.reduce((sum, piece) => sum + piece.length, VALUE_BYTES);
    this.#layOut(0, 0, 0, 0);
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
    const fits =
      idEnd - idStart === this.#idEnd - this.#idAt &&
      fillDecimal(this.#frame, this.#queueIdAt, this.#queueIdEnd, queueId) &&
      fillDecimal(this.#frame, this.#queueOffsetAt, this.#queueOffsetEnd, queueOffset) &&
      fillDecimal(this.#frame, this.#opaqueAt, this.#opaqueEnd, opaque);
    if (!fits) this.#layOut(opaque, queueId, queueOffset, idEnd - idStart);
    const frame = this.#frame;
    if (!copyPlain(id, idStart, idEnd, frame, this.#idAt)) return false;
    const high = Math.floor(physicalOffset / 0x1_0000_0000);
    hex32(frame, this.#head.length, high);
    hex32(frame, this.#head.length + 8, physicalOffset - high * 0x1_0000_0000);
    const at = writer.reserve(frame.length);
    writer.bytes.set(frame, at);
    return true;
  }

  /** Lays the frame out for values of these lengths, with all but id and physical offset in it. */
  #layOut(opaque: number, queueId: number, queueOffset: number, idBytes: number): void {
    const room = this.#fixedBytes + idBytes;
    if (this.#room.length < room) this.#room = new Uint8Array(2 * room);
    const bytes = this.#room;
    let at = copy(this.#head, 0, this.#head.length, bytes, 0) + OFFSET_DIGITS;
    at = copy(QUEUE_ID, 0, QUEUE_ID.length, bytes, at);
    this.#queueIdAt = at;
    at = decimal(bytes, at, queueId);
    this.#queueIdEnd = at;
    at = copy(QUEUE_OFFSET, 0, QUEUE_OFFSET.length, bytes, at);
    this.#queueOffsetAt = at;
    at = decimal(bytes, at, queueOffset);
    this.#queueOffsetEnd = at;
    at = copy(TRANSACTION_ID, 0, TRANSACTION_ID.length, bytes, at);
    this.#idAt = at;
    at += idBytes;
    this.#idEnd = at;
    at = copy(FLAG_OPAQUE, 0, FLAG_OPAQUE.length, bytes, at);
    this.#opaqueAt = at;
    at = decimal(bytes, at, opaque);
    this.#opaqueEnd = at;
    at = copy(TAIL, 0, TAIL.length, bytes, at);
    writeInt32(bytes, 0, at - 4);
    writeInt32(bytes, 4, at - FRAME_HEAD_BYTES);
    this.#frame = bytes.subarray(0, at);
  }
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

function hex32(target: Uint8Array, at: number, value: number): void {
  for (let shift = 28, p = at; shift >= 0; shift -= 4) target[p++] = HEX[(value >>> shift) & 15]!;
}

/** Fills `target[at, end)` with the digits of `value`; false if they are fewer or more, or a sign is needed. */
function fillDecimal(target: Uint8Array, at: number, end: number, value: number): boolean {
  if (value < 0 || value > 0x7fff_ffff) return false;
  let rest = value | 0;
  let p = end;
  do {
    if (p === at) return false;
    const next = (rest / 10) | 0;
    target[--p] = ZERO + (rest - next * 10);
    rest = next;
  } while (rest > 0);
  return p === at;
}

function writeInt32(target: Uint8Array, at: number, value: number): void {
  target[at] = value >>> 24;
  target[at + 1] = value >>> 16;
  target[at + 2] = value >>> 8;
  target[at + 3] = value;
}

/** Copies bytes that can stand in a JSON string as they are; false if there are others among them. */
function copyPlain(source: Uint8Array, start: number, end: number, target: Uint8Array, at: number): boolean {
  let strange = 0;
  for (let from = start, to = at; from < end; from++, to++) {
    const byte = source[from]!;
    strange |= NOT_PLAIN[byte]!;
    target[to] = byte;
  }
  return strange === 0;
}
