// Requests that we sent on one connection and whose answers are still to come, by their opaque.

import { type Clock, GantryError, type Timer } from '../common/index.ts';
import type { HeaderView } from './header-view.ts';
import type { ResponseCallback } from './types.ts';

/** Our own requests are numbered far from where clients begin, for those that tell answers from requests by `opaque` alone. */
const FIRST_OPAQUE = 0x4000_0000;

interface PendingCall {
  code: number;
  done: ResponseCallback;
  timer: Timer;
}

export class PendingCalls {
  readonly #clock: Clock;
  /** Who is asked, for error texts. */
  readonly #peer: () => string;
  readonly #calls = new Map<number, PendingCall>();
  #opaque: number = FIRST_OPAQUE;

  constructor(clock: Clock, peer: () => string) {
    this.#clock = clock;
    this.#peer = peer;
  }

  /** An opaque that no open call has. */
  nextOpaque(): number {
    do this.#opaque = (this.#opaque + 1) | 0;
    while (this.#calls.has(this.#opaque));
    return this.#opaque;
  }

  /** Remembers a call; `done` is called exactly once. Returns its opaque. */
  add(code: number, timeoutMs: number, done: ResponseCallback): number {
    const opaque = this.nextOpaque();
    const timer = this.#clock.after(timeoutMs, () => {
      this.#calls.delete(opaque);
      const text = `${this.#peer()} did not answer request ${code} within ${timeoutMs} ms`;
      done(new GantryError('REMOTING_TIMEOUT', text), undefined);
    });
    this.#calls.set(opaque, { code, done, timer });
    return opaque;
  }

  /** Hands a response frame to its call; one that comes too late is dropped. */
  answer(header: HeaderView, buffer: Buffer, bodyStart: number, end: number): void {
    const call = this.#calls.get(header.opaque);
    if (call === undefined) return;
    this.#calls.delete(header.opaque);
    call.timer.cancel();
    call.done(undefined, {
      code: header.code,
      remark: header.remark,
      ext: header.toObject(),
      body: Buffer.from(buffer.subarray(bodyStart, end)),
      version: header.version,
    });
  }

  /** Fails all open calls: the connection has gone. */
  fail(): void {
    const calls = [...this.#calls.values()];
    this.#calls.clear();
    for (const call of calls) {
      call.timer.cancel();
      call.done(this.closedError(call.code), undefined);
    }
  }

  closedError(code: number): GantryError {
    return new GantryError(
      'REMOTING_CLOSED',
      `the connection to ${this.#peer()} was closed before it answered request ${code}`,
    );
  }
}
