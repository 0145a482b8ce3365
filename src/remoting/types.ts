// The contracts between the wire and what answers it. A processor never sees a socket: it gets a request with a responder.

import type { GantryError } from '../common/index.ts';
import type { FrameWriter } from './frame-writer.ts';
import type { HeaderView } from './header-view.ts';
import type { KeptBody } from './kept-body.ts';
import type { SlabPool } from './slab-pool.ts';

/** Header fields of a response or of a request that we send; null and undefined fields are left out, all others become text. */
export type ExtFields = Record<string, string | number | boolean | null | undefined>;

/** Answers one request, once, now or later. Answering a one-way request, or a peer that has gone, does nothing. */
export interface Responder {
  readonly channel: Channel;
  readonly opaque: number;
  /** `body` is taken over: it must not change afterwards. */
  respond(code: number, remark?: string | null, ext?: ExtFields | null, body?: Uint8Array | null): void;
}

/**
 * A request, valid until the handler returns: one object per server, filled anew for each frame, over the bytes of the
 * socket's chunk. What must outlive the call is copied (`bodyCopy`, `header.get`), and `defer` gives a responder that lives on.
 */
export interface Request extends Responder {
  readonly code: number;
  readonly oneway: boolean;
  readonly header: HeaderView;
  /** The body is `buffer[bodyStart, bodyEnd)`. */
  readonly buffer: Uint8Array;
  readonly bodyStart: number;
  readonly bodyEnd: number;
  bodyCopy(): Uint8Array;
  /**
   * The body for as long as it is wanted: a long one where it lies. For a handler that reads it between other work, which mostly wants
   * `channel.holdInput()`, too; at most once for each request.
   */
  keepBody(): KeptBody;
  /** A responder that outlives the call. Then the handler's return answers nothing. */
  defer(): Responder;
  /** As `defer`, with a copy of the whole request, for what cannot be done yet. */
  hold(): HeldRequest;
  /**
   * Starts the answer in the connection's own output, for handlers that carry the load: fields, `endHeader`, body and
   * `endFrame` are written to the returned writer before the handler returns. For a one-way request they go nowhere.
   */
  begin(code: number): FrameWriter;
  /**
   * As `defer`, without an object: the handler keeps `channel` and `opaque`, and hands the bytes of the answer to
   * `channel.send(bytes, 1)` or, if there will be none, calls `channel.drop(1)`.
   */
  takeOver(): void;
}

/** A request that waits; it is either handled anew or answered. */
export interface HeldRequest extends Responder {
  /** What it keeps of memory. */
  readonly bytes: number;
  /** Hands it to the handler of its code as if it had just come, also where its peer has gone. Not to be called by a handler. */
  again(): void;
}

/**
 * Handles one request. A throw answers SYSTEM_ERROR with the text (GantryError: its responseCode); returning without answering
 * or deferring is a fault of the handler and is answered SYSTEM_ERROR too.
 */
export type RequestHandler = (request: Request) => void;

/** What a peer answered. */
export interface RemotingResponse {
  code: number;
  remark: string | undefined;
  ext: Record<string, string>;
  body: Uint8Array;
  version: number;
}

/** A connection, of either side. Both sides can send requests. */
export interface Channel {
  readonly id: number;
  /** `ip:port` of the peer. */
  readonly remoteAddress: string;
  /** Peer address as in a record: 4 or 16 address bytes, then the port as i32. */
  readonly remoteHost: Uint8Array;
  readonly localAddress: string;
  readonly isOpen: boolean;
  /** LanguageCode name of the last request frame, and its version. */
  readonly language: string;
  readonly version: number;
  /** Requests of the peer that were taken over or deferred and not answered yet. */
  readonly inFlight: number;
  /** Bytes that the peer has not taken yet. */
  readonly unsentBytes: number;
  /** Sends a one-way request. */
  sendOneway(code: number, ext?: ExtFields | null, body?: Uint8Array | null): void;
  /** Sends a request and waits. Rejects with GantryError REMOTING_TIMEOUT or REMOTING_CLOSED. */
  invoke(code: number, ext: ExtFields | null, body: Uint8Array | null, timeoutMs: number): Promise<RemotingResponse>;
  /** As `invoke`, with a callback instead of a promise: for callers that send thousands a second. */
  request(
    code: number,
    ext: ExtFields | null,
    body: Uint8Array | null,
    timeoutMs: number,
    done: ResponseCallback,
  ): void;
  /** Closes with one log line that names the peer and the reason. */
  close(reason: string): void;
  /** Called once, after the connection has gone; at once if it already has. */
  onClose(fn: () => void): void;
  /**
   * Sends bytes of whole frames with all else of this loop turn. Takes the bytes over: short ones are copied, long ones must
   * not change any more. `answered` says how many requests that were taken over these bytes answer. A `slab` of `slabs` that the
   * bytes lie in is given back there once the socket has taken them.
   */
  send(bytes: Uint8Array, answered?: number, slab?: Buffer): void;
  /** Buffers for long answers. */
  readonly slabs: SlabPool;
  /** What the peer sent behind the request that is being handled waits until `resumeInput`. */
  holdInput(): void;
  /** Goes on with it; `restMs` later if others send, too. */
  resumeInput(restMs?: number): void;
  /** Says that `count` requests that were taken over will not be answered. */
  drop(count: number): void;
}

/** Called exactly once, with an error or a response. */
export type ResponseCallback = (error: GantryError | undefined, response: RemotingResponse | undefined) => void;
