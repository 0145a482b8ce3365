// The first bytes of a connection that we accepted: a PROXY header of a load balancer (versions 1 and 2), a TLS hello, or already
// a frame, whose first byte is 0 or 1. The port serves plain remoting; TLS is refused with a reason that a person can act on.

import { GantryError } from '../common/index.ts';
import { ipBytes, plainIp } from './address.ts';

const TLS_HELLO = 0x16;
const V2_SIGNATURE = Buffer.from([0x0d, 0x0a, 0x0d, 0x0a, 0x00, 0x0d, 0x0a, 0x51, 0x55, 0x49, 0x54, 0x0a]);
const V1_SIGNATURE = Buffer.from('PROXY ');
/** The longest line of version 1, its end included. */
const V1_LIMIT = 107;
const V2_HEAD = 16;
/** More than address and extensions of any load balancer. */
const V2_LIMIT = 4096;
const V2_PROXY = 0x21;
const V2_LOCAL = 0x20;
const TCP4 = 0x11;
const TCP6 = 0x21;

/** What a PROXY header says of the real peer. */
export interface ProxiedPeer {
  ip: string;
  port: number;
}

/**
 * Looks at the first bytes until they are known to be the first bytes of a frame.
 */
export class Preamble {
  #bytes: Buffer = Buffer.alloc(0);
  /** The real peer, once a PROXY header has named it. */
  peer: ProxiedPeer | undefined;

  /** Bytes that wait for more. */
  get carried(): number {
    return this.#bytes.length;
  }

  /**
   * Takes the next bytes. Returns those from which frames begin, or undefined if more are needed to tell.
   * @throws GantryError FRAME if it is TLS, or a PROXY header that cannot be read.
   */
  take(chunk: Buffer): Buffer | undefined {
    const bytes = this.#bytes.length === 0 ? chunk : Buffer.concat([this.#bytes, chunk]);
    const first = bytes[0];
    let length: number;
    if (first === TLS_HELLO) {
      throw new GantryError('FRAME', 'it began with a TLS hello, and TLS is not supported on this port');
    } else if (first === V1_SIGNATURE[0] && beginsAlike(bytes, V1_SIGNATURE)) {
      length = this.#version1(bytes);
    } else if (first === V2_SIGNATURE[0] && beginsAlike(bytes, V2_SIGNATURE)) {
      length = this.#version2(bytes);
    } else {
      return bytes;
    }
    if (length < 0) {
      this.#bytes = Buffer.from(bytes);
      return undefined;
    }
    this.#bytes = Buffer.alloc(0);
    return bytes.subarray(length);
  }

  /** Length of the header, -1 if more is needed. */
  #version1(bytes: Buffer): number {
    const end = bytes.subarray(0, V1_LIMIT).indexOf('\r\n');
    if (end < 0) {
      if (bytes.length >= V1_LIMIT) throw new GantryError('FRAME', 'its PROXY line does not end');
      return -1;
    }
    const line = bytes.toString('latin1', 0, end);
    const words = line.split(' ');
    if (words[1] === 'UNKNOWN') return end + 2;
    if ((words[1] !== 'TCP4' && words[1] !== 'TCP6') || words.length !== 6 || !/^[0-9]{1,5}$/.test(words[4]!)) {
      throw new GantryError('FRAME', 'its PROXY line cannot be read');
    }
    ipBytes(words[2]!);
    this.peer = { ip: plainIp(words[2]!), port: Number(words[4]) };
    return end + 2;
  }

  #version2(bytes: Buffer): number {
    if (bytes.length < V2_HEAD) return -1;
    const command = bytes[12]!;
    const length = V2_HEAD + bytes.readUInt16BE(14);
    if ((command !== V2_PROXY && command !== V2_LOCAL) || length > V2_LIMIT) {
      throw new GantryError('FRAME', 'its PROXY header cannot be read');
    }
    if (bytes.length < length) return -1;
    if (command === V2_PROXY) this.#addresses(bytes, bytes[13]!, length);
    return length;
  }

  #addresses(bytes: Buffer, family: number, end: number): void {
    if (family === TCP4 && end >= V2_HEAD + 12) {
      this.peer = { ip: [...bytes.subarray(V2_HEAD, V2_HEAD + 4)].join('.'), port: bytes.readUInt16BE(V2_HEAD + 8) };
    } else if (family === TCP6 && end >= V2_HEAD + 36) {
      const groups: string[] = [];
      for (let i = 0; i < 16; i += 2) groups.push(bytes.readUInt16BE(V2_HEAD + i).toString(16));
      this.peer = { ip: groups.join(':'), port: bytes.readUInt16BE(V2_HEAD + 32) };
    }
  }
}

function beginsAlike(bytes: Buffer, signature: Buffer): boolean {
  const length = Math.min(bytes.length, signature.length);
  return bytes.subarray(0, length).equals(signature.subarray(0, length));
}
