// A peer that writes what bytes it likes and reads frames with a reader of its own, so that what the server's codecs have in common
// with ours cannot hide a fault: headers are encoded and parsed here by JSON.stringify, JSON.parse and DataView, and nothing else.

import { once } from 'node:events';
import { connect, type Socket } from 'node:net';

/** What came from the server. */
export interface Frame {
  code: number;
  opaque: number;
  flag: number;
  remark: string | undefined;
  ext: Record<string, string>;
  body: Buffer;
}

export type Fields = Record<string, unknown>;

/** Bits of a header's flag. */
export const RESPONSE = 1;
export const ONEWAY = 2;

/** Header fields of a send (SEND_MESSAGE_V2 and SEND_BATCH_MESSAGE) to queue 0, with changes. */
export function sendFields(topic: string, changes: Fields = {}): Fields {
  const place = { a: 'P', b: topic, c: 'TBW102', d: '4', e: '0', f: '0', g: '1700000000000', h: '0' };
  return { ...place, i: '', j: '0', k: 'false', m: 'false', ...changes };
}

/** A whole frame from its header word's type, header and body. */
export function frameOf(type: number, header: Uint8Array, body: Uint8Array = Buffer.alloc(0)): Buffer {
  const frame = Buffer.alloc(8 + header.length + body.length);
  frame.writeInt32BE(4 + header.length + body.length, 0);
  frame.writeUInt32BE(((type << 24) | header.length) >>> 0, 4);
  frame.set(header, 8);
  frame.set(body, 8 + header.length);
  return frame;
}

/** A request frame with a JSON header; `extFields` may hold values of any kind. */
export function jsonRequest(code: number, opaque: number, ext: Fields = {}, body?: Uint8Array, flag = 0): Buffer {
  const header = {
    code,
    extFields: ext,
    flag,
    language: 'JAVA',
    opaque,
    serializeTypeCurrentRPC: 'JSON',
    version: 513,
  };
  return frameOf(0, Buffer.from(JSON.stringify(header)), body);
}

/** A request frame with a binary header; values become text. */
export function binaryRequest(code: number, opaque: number, ext: Fields = {}, body?: Uint8Array, flag = 0): Buffer {
  const pieces: Buffer[] = [];
  for (const [key, value] of Object.entries(ext)) {
    const [name, text] = [Buffer.from(key), Buffer.from(String(value))];
    if (name.length > 0x7fff) continue;
    const lengths = Buffer.alloc(6);
    lengths.writeInt16BE(name.length, 0);
    lengths.writeInt32BE(text.length, 2);
    pieces.push(lengths.subarray(0, 2), name, lengths.subarray(2), text);
  }
  const fields = Buffer.concat(pieces);
  const head = Buffer.alloc(21);
  head.writeInt16BE((code << 16) >> 16, 0);
  head.writeInt16BE(513, 3);
  head.writeInt32BE(opaque, 5);
  head.writeInt32BE(flag, 9);
  head.writeInt32BE(fields.length, 17);
  return frameOf(1, Buffer.concat([head, fields]), body);
}

/** Asks `condition` once a loop turn until it holds; the test's own time limit is the only clock. */
export async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await new Promise((resolve) => setImmediate(resolve));
}

export class WirePeer {
  readonly socket: Socket;
  /** Called for each frame of the server; answers and the server's own requests alike. */
  onFrame: (frame: Frame) => void = (frame) => this.frames.push(frame);
  /** Frames that nobody else took. */
  readonly frames: Frame[] = [];
  closed = false;
  /** Whether this side ended it. */
  left = false;
  /** What was wrong with what the server sent. */
  fault: Error | undefined;
  #carry: Buffer = Buffer.alloc(0);

  private constructor(socket: Socket) {
    this.socket = socket;
    socket.setNoDelay(true);
    socket.on('data', (data: Buffer) => this.#take(data));
    socket.on('error', () => {});
    socket.on('end', () => socket.destroy());
    socket.on('close', () => {
      this.closed = true;
    });
  }

  /** Connects to `host:port`. */
  static async open(address: string): Promise<WirePeer> {
    const colon = address.lastIndexOf(':');
    const socket = connect({ port: Number(address.slice(colon + 1)), host: address.slice(0, colon) });
    const peer = new WirePeer(socket);
    await once(socket, 'connect');
    return peer;
  }

  write(bytes: Uint8Array): void {
    this.socket.write(bytes);
  }

  /** The answer to `opaque`, once it has come. */
  async answer(opaque: number): Promise<Frame> {
    let found: Frame | undefined;
    await until(() => {
      found = this.frames.find((frame) => frame.opaque === opaque && (frame.flag & RESPONSE) !== 0);
      return found !== undefined || this.closed;
    });
    if (found === undefined) throw new Error(`closed before the answer to ${opaque}`, { cause: this.fault });
    return found;
  }

  async call(code: number, opaque: number, ext: Fields = {}, body?: Uint8Array): Promise<Frame> {
    this.write(jsonRequest(code, opaque, ext, body));
    return this.answer(opaque);
  }

  async close(): Promise<void> {
    this.left = !this.closed;
    this.socket.destroy();
    await until(() => this.closed);
  }

  #take(data: Buffer): void {
    this.#carry = this.#carry.length === 0 ? data : Buffer.concat([this.#carry, data]);
    let at = 0;
    try {
      while (this.#carry.length - at >= 4) {
        const length = this.#carry.readInt32BE(at);
        if (length < 4 || length > 64 * 1024 * 1024) throw new Error(`the server sent a frame of ${length} bytes`);
        if (this.#carry.length - at - 4 < length) break;
        this.onFrame(parse(this.#carry.subarray(at + 4, at + 4 + length)));
        at += 4 + length;
      }
    } catch (error) {
      this.fault = error as Error;
      this.socket.destroy();
    }
    this.#carry = Buffer.from(this.#carry.subarray(at));
  }
}

/** Strict: what the server writes must be JSON with numbers where they belong and nothing but strings in extFields. */
function parse(frame: Buffer): Frame {
  const word = frame.readUInt32BE(0);
  if (word >>> 24 !== 0) throw new Error(`the server sent serialize type ${word >>> 24}`);
  const text = new TextDecoder('utf-8', { fatal: true }).decode(frame.subarray(4, 4 + word));
  const header = JSON.parse(text) as Record<string, unknown>;
  for (const name of ['code', 'opaque', 'flag', 'version']) {
    if (!Number.isInteger(header[name])) throw new Error(`the server's ${name} is ${header[name]}: ${text}`);
  }
  const ext = (header['extFields'] ?? {}) as Record<string, string>;
  for (const [name, value] of Object.entries(ext)) {
    if (typeof value !== 'string') throw new Error(`the server's field ${name} is no string: ${text}`);
  }
  return {
    code: header['code'] as number,
    opaque: header['opaque'] as number,
    flag: header['flag'] as number,
    remark: header['remark'] as string | undefined,
    ext,
    body: Buffer.from(frame.subarray(4 + word)),
  };
}
