// One connection of the generator: whole frames out of a socket's chunks, and a hand on how often it wakes up. A broker that
// writes each response by itself would wake the generator for each one; so after a chunk with few responses reading rests for a
// moment, until more have come. A broker that answers in large writes is read at once.

import { connect, type Socket } from 'node:net';

/** Gets the frames of one connection. */
export interface FrameHandler {
  /** A whole frame: header from `headerStart` to `headerEnd`, body from there to `end`. Bytes are only valid during the call. */
  frame(bytes: Buffer, headerStart: number, headerEnd: number, end: number): void;
  /** After the last frame of a chunk: the time to send again. */
  chunk(): void;
  /** The connection is gone. */
  closed(error: Error): void;
}

const REST_MS = 1;

/** A socket that hands out whole frames. */
export class Connection {
  readonly #socket: Socket;
  readonly #handler: FrameHandler;
  readonly #restBelow: number;
  #rest: Buffer | undefined;

  /** Chunks with less than `restBelow` frames are followed by a rest; 0 never rests. */
  constructor(addr: string, handler: FrameHandler, restBelow: number, connected: () => void) {
    const colon = addr.lastIndexOf(':');
    this.#handler = handler;
    this.#restBelow = restBelow;
    this.#socket = connect(
      { host: addr.slice(0, colon), port: Number(addr.slice(colon + 1)), noDelay: true },
      connected,
    );
    this.#socket.on('data', (chunk) => this.#data(chunk));
    this.#socket.once('error', (error) => handler.closed(error));
    this.#socket.once('close', () => handler.closed(new Error('the broker closed the connection')));
  }

  /** Sends bytes, which must not change until they are gone: give a buffer of its own. */
  write(bytes: Buffer): void {
    this.#socket.write(bytes);
  }

  end(): void {
    this.#socket.removeAllListeners('close');
    this.#socket.destroy();
  }

  #data(chunk: Buffer): void {
    let bytes = chunk;
    if (this.#rest !== undefined) {
      bytes = Buffer.concat([this.#rest, chunk]);
      this.#rest = undefined;
    }
    let at = 0;
    let frames = 0;
    while (bytes.length - at >= 8) {
      const end = at + 4 + bytes.readInt32BE(at);
      if (end > bytes.length) break;
      const headerEnd = at + 8 + (bytes.readInt32BE(at + 4) & 0xffffff);
      this.#handler.frame(bytes, at + 8, headerEnd, end);
      at = end;
      frames++;
    }
    if (at < bytes.length) this.#rest = bytes.subarray(at);
    if (frames === 0) return;
    this.#handler.chunk();
    if (frames < this.#restBelow) {
      this.#socket.pause();
      setTimeout(() => this.#socket.resume(), REST_MS);
    }
  }
}
