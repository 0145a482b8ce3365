// The two kinds of message id (docs/formats/commit-log.md): where a record lies, and what a client called it.

import { GantryError, type PhysicalOffset, physicalOffset, readI64, toHex, viewOf } from '../common/index.ts';

const OFFSET_DIGITS = 16;
const COMMA = 0x2c;

/** RocketMQ: MessageDecoder#createMessageId. Upper-case hex of the store host (address, port i32) and the physical offset. */
export function createOffsetMessageId(storeHost: Uint8Array, offset: number): string {
  // Without a view, which costs more than all the rest.
  const bytes = new Uint8Array(storeHost.length + 8);
  bytes.set(storeHost);
  const high = Math.floor(offset / 0x1_0000_0000);
  putWord(bytes, storeHost.length, high);
  putWord(bytes, storeHost.length + 4, offset - high * 0x1_0000_0000);
  return toHex(bytes);
}

/**
 * The ids of a batch's records, with commas between: what `createOffsetMessageId` gives for each, but many at once. Hosts and commas are
 * laid out once; a call writes digits only.
 */
export class OffsetMessageIds {
  readonly #host: Uint8Array;
  #text: Uint8Array = new Uint8Array(0);
  #view: DataView = viewOf(this.#text);

  constructor(storeHost: Uint8Array) {
    this.#host = Buffer.from(toHex(storeHost), 'latin1');
  }

  /** ASCII, valid until the next call. */
  write(offsets: readonly number[]): Uint8Array {
    const step = this.#host.length + OFFSET_DIGITS + 1;
    const count = offsets.length;
    if (count * step > this.#text.length) this.#layOut(2 * count, step);
    const view = this.#view;
    for (let i = 0, at = this.#host.length; i < count; i++, at += step) {
      const high = Math.floor(offsets[i]! / 0x1_0000_0000);
      writeWord(view, at, high);
      writeWord(view, at + OFFSET_DIGITS / 2, offsets[i]! - high * 0x1_0000_0000);
    }
    return this.#text.subarray(0, Math.max(0, count * step - 1));
  }

  #layOut(count: number, step: number): void {
    this.#text = new Uint8Array(count * step).fill(COMMA);
    this.#view = viewOf(this.#text);
    for (let i = 0; i < count; i++) this.#text.set(this.#host, i * step);
  }
}

/** @throws GantryError MESSAGE when the text is not an id of 32 (IPv4) or 56 (IPv6) hex digits. */
export function decodeOffsetMessageId(id: string): { host: Uint8Array; address: string; offset: PhysicalOffset } {
  if (!/^([0-9A-Fa-f]{32}|[0-9A-Fa-f]{56})$/.test(id)) {
    throw new GantryError('MESSAGE', `"${id}" is no message id: 32 or 56 hex digits are expected`);
  }
  const bytes = Buffer.from(id, 'hex');
  const host = new Uint8Array(bytes.subarray(0, bytes.length - 8));
  return { host, address: hostText(host), offset: physicalOffset(readI64(viewOf(bytes), bytes.length - 8)) };
}

/** Writes the low 32 bits, the highest first. */
function putWord(bytes: Uint8Array, at: number, word: number): void {
  bytes[at] = word >>> 24;
  bytes[at + 1] = word >>> 16;
  bytes[at + 2] = word >>> 8;
  bytes[at + 3] = word;
}

/** `ip:port` of a host field (4 or 16 address bytes, port i32). */
export function hostText(host: Uint8Array): string {
  const at = host.length - 4;
  const port = (host[at]! << 24) | (host[at + 1]! << 16) | (host[at + 2]! << 8) | host[at + 3]!;
  if (host.length === 8) return `${host[0]}.${host[1]}.${host[2]}.${host[3]}:${port}`;
  const groups: string[] = [];
  for (let i = 0; i < 16; i += 2) groups.push(((host[i]! << 8) | host[i + 1]!).toString(16));
  return `[${groups.join(':')}]:${port}`;
}

/**
 * The host field for an IP address and port. IPv4-mapped IPv6 addresses become IPv4.
 * @throws GantryError ADDRESS for anything that is not a literal IP address.
 */
export function hostField(ip: string, port: number): Uint8Array {
  const plain = ip.toLowerCase().startsWith('::ffff:') && ip.includes('.') ? ip.slice(7) : ip;
  const v4 = /^(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})$/.exec(plain);
  if (v4?.slice(1).every((part) => Number(part) <= 255)) {
    const host = new Uint8Array(8);
    for (let i = 0; i < 4; i++) host[i] = Number(v4[i + 1]);
    viewOf(host).setInt32(4, port);
    return host;
  }
  const groups = expandV6(plain.replace(/%.*$/, ''));
  if (groups === undefined) throw new GantryError('ADDRESS', `"${ip}" is not an IP address`);
  const host = new Uint8Array(20);
  for (let i = 0; i < 8; i++) {
    host[i * 2] = groups[i]! >> 8;
    host[i * 2 + 1] = groups[i]! & 0xff;
  }
  viewOf(host).setInt32(16, port);
  return host;
}

function expandV6(text: string): number[] | undefined {
  const halves = text.split('::');
  if (halves.length > 2) return undefined;
  const parse = (half: string): number[] =>
    half === '' ? [] : half.split(':').map((group) => Number.parseInt(group, 16));
  const head = parse(halves[0]!);
  const tail = halves.length === 2 ? parse(halves[1]!) : [];
  const missing = 8 - head.length - tail.length;
  if (halves.length === 2 ? missing < 0 : missing !== 0) return undefined;
  const groups = [...head, ...new Array<number>(missing).fill(0), ...tail];
  return groups.every((group) => Number.isInteger(group) && group >= 0 && group <= 0xffff) ? groups : undefined;
}

/** What `UniqueIds` needs to know of its process. */
export interface UniqueIdSeed {
  /** 4 or 16 address bytes. */
  ip: Uint8Array;
  pid: number;
  /** Any 32-bit value that differs between users of one process (Java: class loader hash). */
  salt: number;
}

/** Makes UNIQ_KEY values. RocketMQ: MessageClientIDSetter: ip, pid i16, salt i32, ms since the month began (local time) i32, counter i16. */
export class UniqueIds {
  /** Bytes of an id, which is ASCII. */
  readonly length: number;
  /** The id made last: what never changes, then 12 digits. */
  readonly #text: Uint8Array;
  #counter: number;
  #monthStart = 0;
  #nextMonth = 0;

  constructor(seed: UniqueIdSeed, firstCounter = 0) {
    const bytes = new Uint8Array(seed.ip.length + 12);
    bytes.set(seed.ip);
    const view = viewOf(bytes);
    view.setUint16(seed.ip.length, seed.pid & 0xffff);
    view.setInt32(seed.ip.length + 2, seed.salt | 0);
    this.#text = Buffer.from(toHex(bytes), 'latin1');
    this.length = this.#text.length;
    this.#counter = firstCounter;
  }

  /** A new id; `nowMs` is the wall clock. */
  next(nowMs: number): string {
    this.#make(nowMs);
    return Buffer.from(this.#text).toString('latin1');
  }

  /** As `next`, written to `target[at, at + length)`. */
  writeNext(nowMs: number, target: Uint8Array, at: number): void {
    this.#make(nowMs);
    target.set(this.#text, at);
  }

  #make(nowMs: number): void {
    if (nowMs >= this.#nextMonth || nowMs < this.#monthStart) {
      const date = new Date(nowMs);
      this.#monthStart = new Date(date.getFullYear(), date.getMonth(), 1).getTime();
      this.#nextMonth = new Date(date.getFullYear(), date.getMonth() + 1, 1).getTime();
    }
    const text = this.#text;
    writeHex(text, text.length - 12, nowMs - this.#monthStart, 8);
    writeHex(text, text.length - 4, this.#counter, 4);
    this.#counter = (this.#counter + 1) & 0xffff;
  }
}

const HEX_DIGITS = Buffer.from('0123456789ABCDEF');
/** The two digits of each byte. */
const HEX_PAIRS = Uint16Array.from(
  { length: 256 },
  (_, byte) => (HEX_DIGITS[byte >> 4]! << 8) | HEX_DIGITS[byte & 15]!,
);

/** The eight hex digits of a whole number below 2^32. */
function writeWord(view: DataView, at: number, value: number): void {
  view.setUint16(at, HEX_PAIRS[value >>> 24]!);
  view.setUint16(at + 2, HEX_PAIRS[(value >>> 16) & 255]!);
  view.setUint16(at + 4, HEX_PAIRS[(value >>> 8) & 255]!);
  view.setUint16(at + 6, HEX_PAIRS[value & 255]!);
}

/** The last `digits` hex digits of a whole number below 2^32. */
function writeHex(target: Uint8Array, at: number, value: number, digits: number): void {
  for (let i = at + digits - 1, rest = value; i >= at; i--, rest >>>= 4) target[i] = HEX_DIGITS[rest & 15]!;
}
