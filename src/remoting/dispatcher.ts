// From a frame to the handler of its code and back to an answer. One request object serves all frames: a handler runs to its end
// before the next frame is looked at.

import { errorText, GantryError, InvariantError, type Logger } from '../common/index.ts';
import type { SocketChannel } from './channel.ts';
import { FLAG_ONEWAY, ResponseCode } from './codes.ts';
import { decodeFrame } from './frame.ts';
import { FrameWriter } from './frame-writer.ts';
import { HeaderView } from './header-view.ts';
import type { KeptBody } from './kept-body.ts';
import type { ExtFields, HeldRequest, Request, RequestHandler, Responder } from './types.ts';

const EMPTY = Buffer.alloc(0);
/** Codes below have their place in an array. */
const DENSE_CODES = 1024;

/** What became of the request. */
const OPEN = 0;
const ANSWERED = 1;
const LATER = 2;

class FrameRequest implements Request {
  channel!: SocketChannel;
  header: HeaderView = new HeaderView();
  buffer: Buffer = EMPTY;
  bodyStart = 0;
  bodyEnd = 0;
  code = 0;
  opaque = 0;
  oneway = false;
  state = OPEN;
  readonly #dispatcher: Dispatcher;
  /** Takes what is written in answer to a one-way request. */
  readonly #nowhere: FrameWriter = new FrameWriter();

  constructor(dispatcher: Dispatcher) {
    this.#dispatcher = dispatcher;
  }

  bodyCopy(): Buffer {
    return Buffer.from(this.buffer.subarray(this.bodyStart, this.bodyEnd));
  }

  keepBody(): KeptBody {
    return this.channel.keepBody(this.buffer, this.bodyStart, this.bodyEnd);
  }

  respond(code: number, remark?: string | null, ext?: ExtFields | null, body?: Uint8Array | null): void {
    if (this.state !== OPEN) return;
    this.state = ANSWERED;
    if (!this.oneway) this.channel.respond(code, this.opaque, remark, ext, body);
  }

  begin(code: number): FrameWriter {
    this.state = ANSWERED;
    const writer = this.oneway || !this.channel.isOpen ? this.#nowhere : this.channel.output;
    if (writer === this.#nowhere) writer.clear();
    writer.begin(code, this.opaque);
    return writer;
  }

  defer(): Responder {
    this.state = LATER;
    return new DeferredResponder(this.channel, this.opaque, this.oneway);
  }

  hold(): HeldRequest {
    this.state = LATER;
    const frame = Buffer.from(this.buffer.subarray(this.header.start, this.bodyEnd));
    return new HeldFrame(this.#dispatcher, this.channel, this.opaque, this.oneway, frame);
  }

  takeOver(): void {
    this.state = LATER;
    this.channel.inFlight++;
  }
}

class DeferredResponder implements Responder {
  readonly channel: SocketChannel;
  readonly opaque: number;
  /** Whether somebody waits for the answer. */
  #open: boolean;

  constructor(channel: SocketChannel, opaque: number, oneway: boolean) {
    this.channel = channel;
    this.opaque = opaque;
    this.#open = !oneway;
    if (this.#open) channel.inFlight++;
  }

  respond(code: number, remark?: string | null, ext?: ExtFields | null, body?: Uint8Array | null): void {
    if (!this.#open) return;
    this.giveUp();
    this.channel.respond(code, this.opaque, remark, ext, body);
  }

  /** Somebody else answers from now on. */
  protected giveUp(): void {
    if (!this.#open) return;
    this.#open = false;
    this.channel.inFlight--;
  }
}

class HeldFrame extends DeferredResponder implements HeldRequest {
  readonly #dispatcher: Dispatcher;
  /** From its header word on. */
  readonly #frame: Buffer;
  #isWaiting = true;

  constructor(dispatcher: Dispatcher, channel: SocketChannel, opaque: number, oneway: boolean, frame: Buffer) {
    super(channel, opaque, oneway);
    channel.holdRequest();
    this.#dispatcher = dispatcher;
    this.#frame = frame;
  }

  get bytes(): number {
    return this.#frame.length;
  }

  override respond(code: number, remark?: string | null, ext?: ExtFields | null, body?: Uint8Array | null): void {
    super.respond(code, remark, ext, body);
    this.#release();
  }

  again(): void {
    this.giveUp();
    this.#release();
    const header = new HeaderView();
    const bodyStart = decodeFrame(this.#frame, 0, this.#frame.length, header);
    this.#dispatcher.handle(this.channel, header, this.#frame, bodyStart, this.#frame.length);
  }

  #release(): void {
    if (!this.#isWaiting) return;
    this.#isWaiting = false;
    this.channel.releaseRequest();
  }
}

/** The table of handlers by request code. */
export class Dispatcher {
  readonly #logger: Logger;
  readonly #request: FrameRequest = new FrameRequest(this);
  readonly #dense: Array<RequestHandler | undefined> = new Array(DENSE_CODES).fill(undefined);
  readonly #others = new Map<number, RequestHandler>();
  #fallback: RequestHandler = notSupported;

  constructor(logger: Logger) {
    this.#logger = logger;
  }

  register(code: number, handler: RequestHandler): void {
    if (code >= 0 && code < DENSE_CODES) this.#dense[code] = handler;
    else this.#others.set(code, handler);
  }

  /** What answers codes without a handler; at first it says that the code is not supported. */
  setDefault(handler: RequestHandler): void {
    this.#fallback = handler;
  }

  /** Handles one request frame. @throws InvariantError only. */
  handle(channel: SocketChannel, header: HeaderView, buffer: Buffer, bodyStart: number, end: number): void {
    const request = this.#request;
    const { code } = header;
    request.channel = channel;
    request.header = header;
    request.buffer = buffer;
    request.bodyStart = bodyStart;
    request.bodyEnd = end;
    request.code = code;
    request.opaque = header.opaque;
    request.oneway = (header.flag & FLAG_ONEWAY) !== 0;
    request.state = OPEN;
    const handler = (code >= 0 && code < DENSE_CODES ? this.#dense[code] : this.#others.get(code)) ?? this.#fallback;
    try {
      handler(request);
      if (request.state === OPEN && !request.oneway) {
        this.#logger.error(`the handler of request ${code} gave no answer`);
        request.respond(ResponseCode.SYSTEM_ERROR, `no answer to request ${code}`);
      }
    } catch (error) {
      this.#answerError(request, error);
    }
    request.buffer = EMPTY;
  }

  #answerError(request: FrameRequest, error: unknown): void {
    if (error instanceof InvariantError) throw error;
    const { code, channel } = request;
    const writer = channel.output;
    if (writer.isOpen) {
      writer.abandon();
      request.state = OPEN;
    }
    if (error instanceof GantryError) {
      request.respond(error.responseCode ?? ResponseCode.SYSTEM_ERROR, error.message);
      return;
    }
    this.#logger.error(`the handler of request ${code} failed: ${errorText(error)}`, {
      code,
      peer: channel.remoteAddress,
      stack: error instanceof Error ? error.stack : undefined,
    });
    request.respond(ResponseCode.SYSTEM_ERROR, errorText(error));
  }
}

function notSupported(request: Request): void {
  request.respond(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, ` request type ${request.code} not supported`);
}
