// Frames of the load generator. A request is encoded once, with holes of fixed width for what differs from one to the next, and
// sending it copies its bytes and fills the holes; of a response only code and opaque are read, where they were the last time,
// before anything is searched. That keeps the generator's own cost at a fraction of a broker's.
//
//   frame      length i32 | header length i32 (top byte: 0 = JSON) | header | body
//   opaque     1,000,000,000 + slot, so that it has ten digits; a slot is one place in a connection's window

/** The lowest opaque: adding a slot below a billion keeps ten digits. */
export const OPAQUE_BASE = 1_000_000_000;

/** Request codes that the generator sends. */
export const Code = {
  PULL_MESSAGE: 11,
  UPDATE_AND_CREATE_TOPIC: 17,
  UPDATE_BROKER_CONFIG: 25,
  GET_MAX_OFFSET: 30,
  GET_MIN_OFFSET: 31,
  SEND_MESSAGE_V2: 310,
  SEND_BATCH_MESSAGE: 320,
  POP_MESSAGE: 200050,
  ACK_MESSAGE: 200051,
} as const;

/** A hole of a template: where it begins in the frame, and how many bytes it has. */
export interface Hole {
  at: number;
  width: number;
}

/** A whole request frame with named holes. */
export interface Template {
  bytes: Buffer;
  holes: Map<string, Hole>;
}

/** Encodes a frame. A field value may hold `{name:width}`, which becomes a hole filled with zeros. */
export function encodeTemplate(code: number, fields: Record<string, string>, body: Buffer = Buffer.alloc(0)): Template {
  const header =
    `{"code":${code},"extFields":${JSON.stringify(fields)},"flag":0,"language":"JAVA",` +
    `"opaque":{opaque:10},"serializeTypeCurrentRPC":"JSON","version":513}`;
  const holes = new Map<string, Hole>();
  let text = '';
  let rest = header;
  for (let match = /\{(\w+):(\d+)\}/.exec(rest); match !== null; match = /\{(\w+):(\d+)\}/.exec(rest)) {
    text += rest.slice(0, match.index);
    holes.set(match[1]!, { at: 8 + Buffer.byteLength(text), width: Number(match[2]) });
    text += '0'.repeat(Number(match[2]));
    rest = rest.slice(match.index + match[0].length);
  }
  text += rest;
  const bytes = Buffer.concat([Buffer.alloc(8), Buffer.from(text), body]);
  bytes.writeInt32BE(bytes.length - 4, 0);
  bytes.writeInt32BE(Buffer.byteLength(text), 4);
  return { bytes, holes };
}

/** Writes `value` in decimal, with leading zeros, into a hole. */
export function fillDecimal(bytes: Uint8Array, hole: Hole, value: number): void {
  let rest = value;
  for (let at = hole.at + hole.width - 1; at >= hole.at; at--) {
    const next = Math.floor(rest / 10);
    bytes[at] = 48 + (rest - next * 10);
    rest = next;
  }
}

const OPAQUE_KEY = Buffer.from('"opaque":');
const CODE_KEY = Buffer.from('"code":');

/** Reads code and opaque of JSON response headers, guessing that they lie where they lay before. */
export class ResponseScanner {
  code = 0;
  slot = 0;
  /** Distance of the opaque's digits from the end of the header, and of the code's from its start. */
  #opaqueFromEnd = 0;
  #codeFromStart = 0;

  /** Reads the header at `start` to `end`. Sets `code` and `slot`. @throws on a header without opaque. */
  scan(bytes: Buffer, start: number, end: number): void {
    let at = end - this.#opaqueFromEnd;
    if (this.#opaqueFromEnd === 0 || !endsWith(bytes, at, OPAQUE_KEY)) {
      at = bytes.indexOf(OPAQUE_KEY, start);
      if (at < 0 || at >= end) throw new Error('a response without opaque');
      at += OPAQUE_KEY.length;
      this.#opaqueFromEnd = end - at;
    }
    this.slot = numberAt(bytes, at) - OPAQUE_BASE;
    let codeAt = start + this.#codeFromStart;
    if (this.#codeFromStart === 0 || !endsWith(bytes, codeAt, CODE_KEY)) {
      codeAt = bytes.indexOf(CODE_KEY, start);
      if (codeAt < 0 || codeAt >= end) throw new Error('a response without code');
      codeAt += CODE_KEY.length;
      this.#codeFromStart = codeAt - start;
    }
    this.code = numberAt(bytes, codeAt);
  }
}

function endsWith(bytes: Buffer, at: number, key: Buffer): boolean {
  const from = at - key.length;
  if (from < 0) return false;
  for (let i = 0; i < key.length; i++) if (bytes[from + i] !== key[i]) return false;
  return true;
}

/** The decimal digits at a position, as a number. */
export function numberAt(bytes: Buffer, at: number): number {
  let value = 0;
  for (let i = at; ; i++) {
    const digit = bytes[i]! - 48;
    if (digit < 0 || digit > 9) return value;
    value = value * 10 + digit;
  }
}
