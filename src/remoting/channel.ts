// A connection of either side. Input: the socket's chunk is cut into frames that are handled where they lie; a connection gets one
// chunk and a bounded number of frames a turn. Output: channel-output.ts. The peer's answers to our own requests come in between and
// are matched by `opaque`.

import type { Socket } from 'node:net';
import { errorText, GantryError } from '../common/index.ts';
import { addressText, hostBytes, plainIp } from './address.ts';
import { encodeBinaryFrame } from './binary-header.ts';
import { ChannelOutput } from './channel-output.ts';
import { FLAG_ONEWAY, FLAG_RESPONSE, LANGUAGE_NAMES, LanguageCode, SerializeType } from './codes.ts';
import { CHUNK_BYTES, type ConnectionHub, type HubMember } from './connection-hub.ts';
import { decodeFrame } from './frame.ts';
import { FrameReader, type FrameSink } from './frame-reader.ts';
import type { FrameWriter } from './frame-writer.ts';
import type { HeaderView } from './header-view.ts';
import { KeptBody } from './kept-body.ts';
import { PendingCalls } from './pending-calls.ts';
import type { Preamble } from './preamble.ts';
import type { SlabPool } from './slab-pool.ts';
import type { Channel, ExtFields, RemotingResponse, ResponseCallback } from './types.ts';

/** A peer that does not end its side after we ended ours is cut off after so long. */
const LINGER_MS = 5_000;

/** Gets each request frame of a channel; the body is `buffer[bodyStart, end)`. */
export type FrameHandler = (
  channel: SocketChannel,
  header: HeaderView,
  buffer: Buffer,
  bodyStart: number,
  end: number,
) => void;

export interface ChannelOptions {
  hub: ConnectionHub;
  socket: Socket;
  handler: FrameHandler;
  /** Looks at the first bytes of an accepted connection. */
  preamble?: Preamble | undefined;
  /** How the headers of our own requests are encoded. Default JSON. */
  serializeType?: SerializeType;
}

export class SocketChannel implements Channel, HubMember {
  readonly id: number;
  readonly localAddress: string;
  /** LanguageCode number of the last request frame. */
  languageCode: number = LanguageCode.JAVA;
  version = 0;
  readonly #hub: ConnectionHub;
  readonly #socket: Socket;
  readonly #handler: FrameHandler;
  readonly #reader: FrameReader;
  readonly #output: ChannelOutput;
  readonly #serializeType: SerializeType;
  #remoteAddress: string;
  #remoteHost: Uint8Array;
  #preamble: Preamble | undefined;

  #open = true;
  #gone = false;
  /** The peer has sent its last byte. */
  #inputEnded = false;
  /** Input is thrown away: the connection is being ended. */
  #deaf = false;
  /** The socket ends once the output has been written. */
  #endAfterFlush = false;
  /** As `#endAfterFlush`, but not before all that is in flight has been answered. */
  #endWhenQuiet = false;
  #reading = true;
  /** Bytes that were read and wait for the connection's next turn. */
  #backlog: Buffer | undefined;
  #backlogAt = 0;
  /** The pool's buffer that the backlog lies in, if it is one. */
  #backlogSlab: Buffer | undefined;
  #inputQueued = false;
  /** Ms that what the socket holds has waited for an owner who is pressed still; 0 once its next bytes are read. */
  #waitedMs = 0;
  /** A handler wants what comes behind its request to wait. */
  #held = false;
  /** Requests that wait to be handled anew: a peer that has sent its last byte hears of them still. */
  #waiting = 0;
  /** Frames that may still be handled in the hub's turn of this number. */
  #framesLeft = 0;
  #turn = -1;

  #outputQueued = false;
  #throttled = false;
  #activeAt: number;

  inFlight = 0;
  readonly #calls: PendingCalls;
  readonly #closeListeners: Array<() => void> = [];
  readonly #sink: FrameSink = (buffer, start, end) => this.#frame(buffer, start, end);

  constructor(options: ChannelOptions) {
    const { hub, socket } = options;
    this.#hub = hub;
    this.#socket = socket;
    this.#handler = options.handler;
    this.#preamble = options.preamble;
    this.#serializeType = options.serializeType ?? SerializeType.JSON;
    this.#calls = new PendingCalls(hub.clock, () => this.#remoteAddress);
    this.#reader = new FrameReader(hub.limits.frameLimit, hub.frameSlabs);
    this.#output = new ChannelOutput(hub, socket, () => this.#onTaken());
    const ip = plainIp(socket.remoteAddress ?? '0.0.0.0');
    this.#remoteAddress = addressText(ip, socket.remotePort ?? 0);
    this.#remoteHost = hostBytes(ip, socket.remotePort ?? 0);
    this.localAddress = addressText(plainIp(socket.localAddress ?? '0.0.0.0'), socket.localPort ?? 0);
    this.#activeAt = hub.clock.now();
    this.id = hub.add(this);
    socket.setNoDelay(true);
    socket.on('end', () => this.#onEnd());
    socket.on('error', (error) => this.#onError(error));
    socket.on('close', () => this.#onSocketClose());
  }

  get remoteAddress(): string {
    return this.#remoteAddress;
  }

  get remoteHost(): Uint8Array {
    return this.#remoteHost;
  }

  get isOpen(): boolean {
    return this.#open;
  }

  get language(): string {
    return LANGUAGE_NAMES[this.languageCode] ?? 'OTHER';
  }

  get unsentBytes(): number {
    return this.#output.unsentBytes;
  }

  /** Output of this turn, for whole frames. */
  get output(): FrameWriter {
    this.#queueOutput();
    return this.#output.writer;
  }

  // Input

  /** Takes bytes that the socket has read; false if it should read no more for now. */
  input(buffer: Buffer, length: number): boolean {
    if (this.#deaf || !this.#open) return true;
    this.#hub.wake();
    this.#activeAt = this.#hub.now;
    this.#beginTurn();
    if (this.#backlog !== undefined) {
      this.#backlog = Buffer.concat([this.#backlog.subarray(this.#backlogAt), buffer.subarray(0, length)]);
      this.#backlogAt = 0;
      this.#giveBacklog();
      return false;
    }
    if (this.#preamble !== undefined) return this.#firstInput(buffer, length);
    if (this.#waitedMs === 0) this.#consume(buffer, 0, length);
    else this.#consumeLate(buffer, length);
    if (length >= CHUNK_BYTES) this.#queueInput();
    if (this.#inputQueued || this.#stopped) this.#reading = false;
    return this.#reading;
  }

  /** As `#consume`, for the first bytes after a hold that ended in vain. */
  #consumeLate(buffer: Buffer, length: number): void {
    this.#hub.heldMs = this.#waitedMs;
    this.#waitedMs = 0;
    try {
      this.#consume(buffer, 0, length);
    } finally {
      this.#hub.heldMs = 0;
    }
  }

  /** The share of a new turn: first what was left of the last chunk, then the socket again. */
  continueInput(): void {
    this.#inputQueued = false;
    if (!this.#open || this.#deaf || this.#stopped) return;
    // What the socket holds has waited as long as the backlog.
    this.#waitedMs = this.#hub.heldMs;
    this.#beginTurn();
    if (this.#backlog !== undefined) {
      // What is handled here wants the end of a turn, too.
      this.#hub.wake();
      const backlog = this.#backlog;
      const at = this.#backlogAt;
      this.#backlog = undefined;
      this.#consume(backlog, at, backlog.length);
      if (this.#backlog !== backlog) this.#giveBacklog();
      if (this.#backlog !== undefined || this.#stopped || !this.#open) return;
    }
    if (!this.#inputEnded) this.#resumeReading();
    else if (this.#waiting === 0) this.#endInput();
  }

  /** Nothing is read for now: the peer does not take its answers, or a handler is not done with its request. */
  get #stopped(): boolean {
    return this.#throttled || this.#held;
  }

  /** A request waits to be handled anew. */
  holdRequest(): void {
    this.#waiting++;
  }

  /** It waits no longer. If it is handled now, this turn gets its end, although nothing has come by the socket. */
  releaseRequest(): void {
    this.#waiting--;
    this.#hub.wake();
    if (this.#inputEnded && this.#waiting === 0 && this.#open) this.#queueInput();
  }

  holdInput(): void {
    this.#held = true;
  }

  resumeInput(restMs = 0): void {
    if (!this.#held) return;
    if (restMs > 0 && this.#hub.isShared) {
      this.#hub.clock.after(restMs, () => this.resumeInput());
      return;
    }
    this.#held = false;
    if (this.#open && !this.#throttled) this.#queueInput();
    if (this.#endWhenQuiet) this.#queueOutput();
  }

  /** The body of the frame that is being handled, which lies in `buffer[start, end)`, to be kept. */
  keepBody(buffer: Buffer, start: number, end: number): KeptBody {
    const bytes = buffer.subarray(start, end);
    const isShared = buffer.buffer === this.#hub.chunk.buffer || buffer.buffer === this.#backlogSlab?.buffer;
    if (isShared) return new KeptBody(Buffer.from(bytes), undefined, undefined);
    const { lent } = this.#reader;
    return new KeptBody(bytes, lent === buffer ? lent : undefined, this.#hub.frameSlabs);
  }

  #giveBacklog(): void {
    if (this.#backlogSlab !== undefined) this.#hub.slabs.give(this.#backlogSlab);
    this.#backlogSlab = undefined;
  }

  #beginTurn(): void {
    if (this.#turn === this.#hub.turn) return;
    this.#turn = this.#hub.turn;
    this.#framesLeft = this.#hub.beginTurn(this);
  }

  #firstInput(buffer: Buffer, length: number): boolean {
    const preamble = this.#preamble!;
    try {
      const bytes = preamble.take(buffer.subarray(0, length));
      if (bytes === undefined) return true;
      this.#preamble = undefined;
      if (preamble.peer !== undefined) {
        this.#remoteAddress = addressText(preamble.peer.ip, preamble.peer.port);
        this.#remoteHost = hostBytes(preamble.peer.ip, preamble.peer.port);
      }
      if (bytes.length > 0) this.#consume(bytes, 0, bytes.length);
    } catch (error) {
      if (!(error instanceof GantryError)) throw error;
      this.#fault(error.message);
    }
    if (this.#inputQueued || this.#stopped) this.#reading = false;
    return this.#reading;
  }

  #consume(buffer: Buffer, start: number, end: number): void {
    let stopped = start;
    try {
      if (this.#framesLeft > 0) stopped = this.#reader.read(buffer, start, end, this.#sink);
    } catch (error) {
      if (!(error instanceof GantryError)) throw error;
      this.#fault(error.message);
      return;
    }
    if (!this.#open || this.#deaf) return;
    if (stopped < end) {
      if (buffer.buffer === this.#hub.chunk.buffer) {
        this.#backlogSlab = this.#hub.slabs.take(end - stopped);
        buffer.copy(this.#backlogSlab, 0, stopped, end);
        this.#backlog = this.#backlogSlab.subarray(0, end - stopped);
        this.#backlogAt = 0;
      } else {
        this.#backlog = buffer;
        this.#backlogAt = stopped;
      }
      if (!this.#stopped) this.#queueInput();
    }
  }

  /** Handles one frame; false if the next one must wait. */
  #frame(buffer: Buffer, start: number, end: number): boolean {
    const { header, limits } = this.#hub;
    const bodyStart = decodeFrame(buffer, start, end, header);
    if ((header.flag & FLAG_RESPONSE) !== 0) {
      this.#calls.answer(header, buffer, bodyStart, end);
    } else {
      this.languageCode = header.languageCode;
      this.version = header.version;
      this.#handler(this, header, buffer, bodyStart, end);
    }
    header.release();
    if (this.unsentBytes > limits.unsentLimit) this.#throttled = true;
    return --this.#framesLeft > 0 && !this.#stopped && this.#open && !this.#deaf;
  }

  #queueInput(): void {
    if (this.#inputQueued) return;
    this.#inputQueued = true;
    this.#hub.queueInput(this);
  }

  #resumeReading(): void {
    if (this.#reading || !this.#open) return;
    this.#reading = true;
    this.#socket.resume();
  }

  #onEnd(): void {
    this.#inputEnded = true;
    if (!this.#open) return;
    if (this.#backlog === undefined && !this.#stopped && this.#waiting === 0) this.#endInput();
  }

  /** All that the peer sent has been handled: what this turn answers still goes out. */
  #endInput(): void {
    const carried = this.#preamble?.carried ?? this.#reader.carried;
    if (carried > 0) {
      const expected = this.#reader.expected;
      this.#fault(`it ended in the middle of a frame, after ${carried} ${expected > 0 ? `of ${expected} ` : ''}bytes`);
      return;
    }
    this.#endAfterFlush = true;
    this.#queueOutput();
  }

  // Output

  send(bytes: Uint8Array, answered = 0, slab?: Buffer): void {
    this.inFlight -= answered;
    if (this.#open) {
      this.#queueOutput();
      this.#output.send(bytes, slab);
    } else if (slab !== undefined) this.#hub.slabs.give(slab);
  }

  get slabs(): SlabPool {
    return this.#hub.slabs;
  }

  drop(count: number): void {
    this.inFlight -= count;
    if (this.#endWhenQuiet) this.#queueOutput();
    this.#hub.watcher?.();
  }

  /** Sends one response frame. */
  respond(
    code: number,
    opaque: number,
    remark: string | null | undefined,
    ext: ExtFields | null | undefined,
    body: Uint8Array | null | undefined,
  ): void {
    if (!this.#open) return;
    const writer = this.output;
    writer.begin(code, opaque);
    if (ext) writer.fields(ext);
    writer.endHeader(remark);
    this.#output.endFrame(body);
  }

  #queueOutput(): void {
    if (this.#outputQueued || this.#gone) return;
    this.#outputQueued = true;
    this.#hub.queueOutput(this);
  }

  /** Writes the turn's output in one piece. */
  flush(): void {
    this.#outputQueued = false;
    if (this.#output.flush(!this.#gone && !this.#socket.destroyed)) {
      this.#activeAt = this.#hub.now;
      if (this.#output.unsent > this.#hub.limits.unsentLimit) this.#throttle();
    }
    const isQuiet = this.inFlight === 0 && this.#backlog === undefined && !this.#held;
    if (this.#open && (this.#endAfterFlush || (this.#endWhenQuiet && isQuiet))) this.#endSocket();
  }

  /** Nothing more is sent; what comes in until the peer ends its side, too, is thrown away. */
  #endSocket(): void {
    this.#deaf = true;
    this.#backlog = undefined;
    this.#resumeReading();
    this.#open = false;
    this.#socket.end();
    this.#hub.watcher?.();
  }

  /** The peer's side has taken bytes, or never will. */
  #onTaken(): void {
    this.#hub.watcher?.();
    if (this.#throttled && this.#open && this.#output.unsent <= this.#hub.limits.unsentLimit / 2) {
      this.#throttled = false;
      if (!this.#held) this.#queueInput();
    }
  }

  #throttle(): void {
    this.#throttled = true;
    if (!this.#reading) return;
    this.#reading = false;
    this.#socket.pause();
  }

  // Our own requests

  sendOneway(code: number, ext?: ExtFields | null, body?: Uint8Array | null): void {
    if (this.#open) this.#writeRequest(code, this.#calls.nextOpaque(), FLAG_ONEWAY, ext, body);
  }

  invoke(code: number, ext: ExtFields | null, body: Uint8Array | null, timeoutMs: number): Promise<RemotingResponse> {
    return new Promise((resolve, reject) => {
      this.request(code, ext, body, timeoutMs, (error, response) => {
        if (error !== undefined) reject(error);
        else resolve(response!);
      });
    });
  }

  request(
    code: number,
    ext: ExtFields | null,
    body: Uint8Array | null,
    timeoutMs: number,
    done: ResponseCallback,
  ): void {
    if (!this.#open) done(this.#calls.closedError(code), undefined);
    else this.#writeRequest(code, this.#calls.add(code, timeoutMs, done), 0, ext, body);
  }

  #writeRequest(
    code: number,
    opaque: number,
    flag: number,
    ext: ExtFields | null | undefined,
    body: Uint8Array | null | undefined,
  ): void {
    if (this.#serializeType === SerializeType.ROCKETMQ) {
      this.send(encodeBinaryFrame(code, opaque, flag, ext, body));
      return;
    }
    const writer = this.output;
    writer.begin(code, opaque, flag);
    if (ext) writer.fields(ext);
    writer.endHeader();
    this.#output.endFrame(body);
  }

  // The end

  close(reason: string): void {
    if (!this.#open) return;
    this.#hub.logger.info(`closing the connection of ${this.#remoteAddress}: ${reason}`, { peer: this.#remoteAddress });
    this.destroy();
  }

  onClose(fn: () => void): void {
    if (this.#gone) fn();
    else this.#closeListeners.push(fn);
  }

  /** Ends the connection once the output has gone; what still comes in is thrown away. */
  end(): void {
    if (!this.#open) return;
    this.#deaf = true;
    this.#backlog = undefined;
    this.#endAfterFlush = true;
    this.#queueOutput();
    this.#resumeReading();
  }

  /**
   * Ends the connection right behind the answer to the last request that is in flight. Until then everything goes on, so that as few
   * requests as can be are under way to a peer that does not hear them any more.
   */
  endWhenQuiet(): void {
    this.#endWhenQuiet = true;
    this.#queueOutput();
  }

  /** Closes without a word. */
  destroy(): void {
    this.#open = false;
    this.#backlog = undefined;
    this.#socket.destroy();
  }

  sweep(now: number): void {
    const { limits } = this.#hub;
    const { unsent } = this.#output;
    if (unsent > 0) {
      if (!this.#output.isStalled(now)) return;
      this.#fault(`it took none of ${unsent} bytes for ${limits.stallMs / 1000} s`);
      this.destroy();
    } else if (!this.#open) {
      if (now - this.#activeAt >= LINGER_MS) this.destroy();
    } else if (now - this.#activeAt >= limits.idleMs) {
      this.close(`idle for ${limits.idleMs / 1000} s`);
    }
  }

  #fault(reason: string): void {
    if (!this.#open) return;
    this.#hub.complain(this.#remoteAddress, reason);
    this.destroy();
  }

  #onError(error: Error): void {
    this.#hub.logger.debug(`the connection of ${this.#remoteAddress} broke: ${errorText(error)}`);
    this.destroy();
  }

  #onSocketClose(): void {
    if (this.#gone) return;
    this.#open = false;
    this.#gone = true;
    this.#output.abandon();
    this.#calls.fail();
    for (const fn of this.#closeListeners.splice(0)) fn();
    this.#hub.remove(this);
  }
}
