// Frames that we send, written one behind the other into one growing buffer, so that all answers of a loop turn leave in one
// write. Headers are JSON, whatever the peer's own type is, as Java's server answers too; every field's value is a string, which
// is all that the C++ client takes. docs/formats/remoting.md shows a frame byte by byte.

import { assert, writeDigits } from '../common/index.ts';
import { FLAG_RESPONSE, MQ_VERSION } from './codes.ts';
import { SlabPool } from './slab-pool.ts';
import type { ExtFields } from './types.ts';

const EMPTY = Buffer.alloc(0);
const QUOTE = 0x22;
const COLON = 0x3a;
const COMMA = 0x2c;
const MINUS = 0x2d;
const BRACE = 0x7d;
const BACKSLASH = 0x5c;

const HEAD = Buffer.from('{"code":');
const EXT = Buffer.from(',"extFields":{');
const FLAG = Buffer.from(',"flag":');
const LANGUAGE_OPAQUE = Buffer.from(',"language":"JAVA","opaque":');
const REMARK = Buffer.from(',"remark":');
const TAIL = Buffer.from(`,"serializeTypeCurrentRPC":"JSON","version":${MQ_VERSION}}`);
/** Room for everything in a header but its fields and remark. */
const FIXED_ROOM =
  8 + HEAD.length + EXT.length + FLAG.length + LANGUAGE_OPAQUE.length + REMARK.length + TAIL.length + 64;
const DIGITS_ROOM = 20;
/** UTF-16 units of a remark; longer than all that RocketMQ says. */
const MAX_REMARK = 16 * 1024;
/** Longer pieces are copied by `set`, which costs more to begin with. */
const SHORT = 64;

/**
 * Writes frames: `begin`, any number of fields, `endHeader`, the body, `endFrame`. Nothing is readable in between.
 *
 * ```ts
 * writer.begin(ResponseCode.SUCCESS, request.opaque);
 * writer.numberField('offset', 5);
 * writer.endHeader();
 * writer.endFrame();
 * ```
 */
export class FrameWriter {
  /** The bytes; `[0, length)` are written. Replaced when it grows. */
  bytes: Buffer = EMPTY;
  length = 0;
  readonly #slabs: SlabPool;
  /** Size of the buffer that the next first byte is given. */
  #hint = 0;
  /** -1 between frames. */
  #frameStart = -1;
  #headerEnd = 0;
  #opaque = 0;
  #flag = 0;
  /** 0: no field yet, 1: the fields are open and empty, 2: there are fields. */
  #fields = 0;

  constructor(slabs: SlabPool = new SlabPool(0)) {
    this.#slabs = slabs;
  }

  /** Whether a frame was begun and not ended. */
  get isOpen(): boolean {
    return this.#frameStart >= 0;
  }

  /** Starts a frame; `flag` is FLAG_RESPONSE unless it is a request. */
  begin(code: number, opaque: number, flag: number = FLAG_RESPONSE): void {
    assert(this.#frameStart < 0, 'a frame is begun before the last one was ended');
    this.ensure(FIXED_ROOM);
    this.#frameStart = this.length;
    this.#opaque = opaque;
    this.#flag = flag;
    this.#fields = 0;
    this.length += 8;
    this.#piece(HEAD);
    this.#digits(code);
  }

  field(name: string, value: string): void {
    this.#fieldName(name, 3 * value.length);
    this.#string(value);
  }

  /** A field with a whole number, as text. */
  numberField(name: string, value: number): void {
    this.#fieldName(name, DIGITS_ROOM);
    this.bytes[this.length++] = QUOTE;
    this.#digits(value);
    this.bytes[this.length++] = QUOTE;
  }

  /** As `numberField`, with name and quotes encoded before: `"offset":"`. */
  numberAfter(key: Uint8Array, value: number): void {
    this.ensure(FIXED_ROOM + key.length + DIGITS_ROOM);
    this.#separate();
    this.#piece(key);
    this.#digits(value);
    this.bytes[this.length++] = QUOTE;
  }

  /** A field whose value is ASCII that can stand in a JSON string as it is. */
  plainField(name: string, value: Uint8Array): void {
    this.#fieldName(name, value.length);
    this.bytes[this.length++] = QUOTE;
    this.#piece(value);
    this.bytes[this.length++] = QUOTE;
  }

  /** One or more whole fields, encoded before: `"a":"1","b":"2"`. */
  fieldText(text: Uint8Array): void {
    this.ensure(FIXED_ROOM + text.length);
    this.#separate();
    this.#piece(text);
  }

  /** All fields of an object; an object without any writes the empty fields that some answers have. */
  fields(ext: ExtFields): void {
    for (const name of Object.keys(ext)) {
      const value = ext[name];
      if (value === undefined || value === null) continue;
      if (typeof value === 'number' && Number.isSafeInteger(value)) this.numberField(name, value);
      else this.field(name, String(value));
    }
    if (this.#fields === 0) {
      this.#piece(EXT);
      this.#fields = 1;
    }
  }

  /** Ends the header; a remark that goes on and on (it may quote what the peer sent) is cut. */
  endHeader(text?: string | null): void {
    const remark = text && text.length > MAX_REMARK ? `${text.slice(0, MAX_REMARK)}...` : text;
    this.ensure(FIXED_ROOM + (remark ? 6 * remark.length : 0));
    if (this.#fields > 0) this.bytes[this.length++] = BRACE;
    this.#piece(FLAG);
    this.#digits(this.#flag);
    this.#piece(LANGUAGE_OPAQUE);
    this.#digits(this.#opaque);
    if (remark !== undefined && remark !== null) {
      this.#piece(REMARK);
      this.#string(remark);
    }
    this.#piece(TAIL);
    this.#headerEnd = this.length;
  }

  /** Appends `source[start, end)` to the body. */
  body(source: Uint8Array, start = 0, end: number = source.length): void {
    this.ensure(end - start);
    if (end - start <= SHORT) {
      for (let i = start; i < end; i++) this.bytes[this.length++] = source[i]!;
    } else {
      this.bytes.set(start === 0 && end === source.length ? source : source.subarray(start, end), this.length);
      this.length += end - start;
    }
  }

  /** Makes room for `size` body bytes, which the caller writes to `bytes` from the returned position on before anything else. */
  reserve(size: number): number {
    this.ensure(size);
    const at = this.length;
    this.length += size;
    return at;
  }

  /**
   * Ends the frame. `following` bytes belong to it but are sent by the caller behind it (a large body is not copied).
   */
  endFrame(following = 0): void {
    this.#int32(this.#frameStart, this.length - this.#frameStart - 4 + following);
    this.#int32(this.#frameStart + 4, this.#headerEnd - this.#frameStart - 8);
    this.#frameStart = -1;
  }

  /** Takes back a frame that was begun and not ended. */
  abandon(): void {
    if (this.#frameStart >= 0) this.length = this.#frameStart;
    this.#frameStart = -1;
  }

  /** A whole response frame. */
  response(
    code: number,
    opaque: number,
    remark?: string | null,
    ext?: ExtFields | null,
    body?: Uint8Array | null,
  ): void {
    this.begin(code, opaque);
    if (ext) this.fields(ext);
    this.endHeader(remark);
    if (body) this.body(body);
    this.endFrame();
  }

  /** The written bytes, handed over; a pool's buffer goes back to it as `slab` when they have been sent. */
  take(): { bytes: Buffer; slab: Buffer } {
    const slab = this.bytes;
    const bytes = slab.subarray(0, this.length);
    this.#hint = this.length;
    this.bytes = EMPTY;
    this.length = 0;
    return { bytes, slab };
  }

  /** Drops what was written. */
  clear(): void {
    this.length = 0;
    this.#frameStart = -1;
  }

  /** Makes room for `size` more bytes. */
  ensure(size: number): void {
    const needed = this.length + size;
    const { bytes } = this;
    if (needed <= bytes.length) return;
    const grown = this.#slabs.take(
      this.length === 0 ? Math.max(needed, this.#hint) : Math.max(needed, 2 * bytes.length),
    );
    if (this.length > 0) grown.set(bytes.subarray(0, this.length));
    this.bytes = grown;
    if (bytes.length > 0) this.#slabs.give(bytes);
  }

  #fieldName(name: string, valueRoom: number): void {
    this.ensure(FIXED_ROOM + name.length + valueRoom);
    this.#separate();
    // Escaped like a value where it must be: what is passed on for a peer has names of that peer's making.
    this.#string(name);
    this.ensure(FIXED_ROOM + valueRoom);
    this.bytes[this.length++] = COLON;
  }

  #separate(): void {
    if (this.#fields === 0) this.#piece(EXT);
    else if (this.#fields === 2) this.bytes[this.length++] = COMMA;
    this.#fields = 2;
  }

  /** A JSON string: the bytes of short plain text are written here, all else by JSON.stringify. */
  #string(value: string): void {
    const { bytes } = this;
    const start = this.length;
    let at = start;
    bytes[at++] = QUOTE;
    for (let i = 0; i < value.length; i++) {
      const unit = value.charCodeAt(i);
      if (unit < 0x20 || unit > 0x7e || unit === QUOTE || unit === BACKSLASH) {
        const text = JSON.stringify(value);
        this.ensure(3 * text.length + FIXED_ROOM);
        this.length += this.bytes.write(text, start, 'utf8');
        return;
      }
      bytes[at++] = unit;
    }
    bytes[at++] = QUOTE;
    this.length = at;
  }

  #piece(piece: Uint8Array): void {
    const { bytes } = this;
    const at = this.length;
    if (piece.length <= SHORT) for (let i = 0; i < piece.length; i++) bytes[at + i] = piece[i]!;
    else bytes.set(piece, at);
    this.length = at + piece.length;
  }

  /** The digits of a safe integer. */
  #digits(value: number): void {
    const isNegative = value < 0;
    if (isNegative) this.bytes[this.length++] = MINUS;
    this.length = writeDigits(isNegative ? -value : value, this.bytes, this.length);
  }

  #int32(at: number, value: number): void {
    const { bytes } = this;
    bytes[at] = value >>> 24;
    bytes[at + 1] = value >>> 16;
    bytes[at + 2] = value >>> 8;
    bytes[at + 3] = value;
  }
}
