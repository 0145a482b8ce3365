// A request for a logic queue as the handler of physical queues gets it: some fields are others, and its answer is changed on the way
// back. It goes through the handler that all requests take, so that both answer alike.

import {
  type Channel,
  type ExtFields,
  type FrameWriter,
  HeaderView,
  type HeldRequest,
  type KeptBody,
  type Request,
  type Responder,
} from '../../remoting/index.ts';

/** Changes the fields of a successful answer. */
export type AnswerChange = (ext: ExtFields) => ExtFields;

export class MappedRequest implements Request {
  readonly header: HeaderView = new HeaderView();
  readonly #request: Request;
  readonly #change: AnswerChange;

  constructor(request: Request, fields: Readonly<Record<string, string>>, change: AnswerChange) {
    this.#request = request;
    this.#change = change;
    const { code, opaque, flag, version, languageCode } = request.header;
    Object.assign(this.header, { code, opaque, flag, version, languageCode, count: -1 });
    this.header.parsed = { ...request.header.toObject(), ...fields };
  }

  get code(): number {
    return this.#request.code;
  }
  get opaque(): number {
    return this.#request.opaque;
  }
  get oneway(): boolean {
    return this.#request.oneway;
  }
  get channel(): Channel {
    return this.#request.channel;
  }
  get buffer(): Uint8Array {
    return this.#request.buffer;
  }
  get bodyStart(): number {
    return this.#request.bodyStart;
  }
  get bodyEnd(): number {
    return this.#request.bodyEnd;
  }

  bodyCopy(): Uint8Array {
    return this.#request.bodyCopy();
  }
  keepBody(): KeptBody {
    return this.#request.keepBody();
  }
  begin(code: number): FrameWriter {
    return this.#request.begin(code);
  }
  takeOver(): void {
    this.#request.takeOver();
  }

  hold(): HeldRequest {
    return this.#request.hold();
  }

  respond(code: number, remark?: string | null, ext?: ExtFields | null, body?: Uint8Array | null): void {
    this.#request.respond(code, remark, ext && this.#change(ext), body);
  }

  defer(): Responder {
    const responder = this.#request.defer();
    const { channel, opaque } = responder;
    return {
      channel,
      opaque,
      respond: (code, remark, ext, body) => responder.respond(code, remark, ext && this.#change(ext), body),
    };
  }
}
