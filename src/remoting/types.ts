// The contracts between the wire and what answers it. A processor never sees a socket: it gets a request with a responder.

import type { HeaderView } from './header-view.ts';

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
 * A request, valid until the handler returns: one object per connection, filled anew for each frame, over the bytes of the
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
  /** A responder that outlives the call. Then the handler's return answers nothing. */
  defer(): Responder;
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
  /** Language and version of the last request frame. */
  language: string;
  version: number;
  /** Sends a one-way request. */
  sendOneway(code: number, ext?: ExtFields | null, body?: Uint8Array | null): void;
  /** Sends a request and waits. Rejects with GantryError REMOTING_TIMEOUT or REMOTING_CLOSED. */
  invoke(code: number, ext: ExtFields | null, body: Uint8Array | null, timeoutMs: number): Promise<RemotingResponse>;
  /** Closes with one log line that names the peer and the reason. */
  close(reason: string): void;
  onClose(fn: () => void): void;
  /**
   * Bytes of whole response frames, written out once with all else of this loop turn (`queue`), or kept by a caller that waits
   * for a watermark and hands them over later (`send`). `send` takes the bytes over.
   */
  send(bytes: Uint8Array): void;
}
