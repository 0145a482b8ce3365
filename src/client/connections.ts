// One connection per address, made when it is first needed and again after it was lost. Requests wait for it, within their own time.

import { type Clock, GantryError } from '../common/index.ts';
import { type Channel, type ExtFields, type RemotingResponse, ResponseCode } from '../remoting/index.ts';

/** Opens a connection. Rejects with GantryError REMOTING_CONNECT. */
export type Dial = (address: string) => Promise<Channel>;

/** Called on every new connection before anything else is sent over it. It must not throw. */
export type AfterConnect = (address: string, channel: Channel) => Promise<void>;

/** The connections of one client. */
export class Connections {
  readonly #dial: Dial;
  readonly #clock: Clock;
  readonly #afterConnect: AfterConnect;
  readonly #channels = new Map<string, Promise<Channel>>();
  #closed = false;

  constructor(dial: Dial, clock: Clock, afterConnect: AfterConnect) {
    this.#dial = dial;
    this.#clock = clock;
    this.#afterConnect = afterConnect;
  }

  /** The connection to an address. @throws GantryError REMOTING_CONNECT, or CLIENT_STATE after `close`. */
  get(address: string): Promise<Channel> {
    if (this.#closed) return Promise.reject(new GantryError('CLIENT_STATE', 'the client is closed'));
    const known = this.#channels.get(address);
    if (known !== undefined) return known;
    const pending = this.#connect(address);
    this.#channels.set(address, pending);
    pending.catch(() => this.#forget(address, pending));
    return pending;
  }

  /** Whether there is a connection, or one is being made. */
  has(address: string): boolean {
    return this.#channels.has(address);
  }

  /**
   * Sends a request and waits for the answer, whatever its code. GO_AWAY (a broker that is stopping) is answered by one more try on a
   * new connection. @throws GantryError REMOTING_CONNECT, REMOTING_TIMEOUT, REMOTING_CLOSED
   */
  async invoke(
    address: string,
    code: number,
    ext: ExtFields | null,
    body: Uint8Array | null,
    timeoutMs: number,
  ): Promise<RemotingResponse> {
    const deadline = this.#clock.monotonic() + timeoutMs;
    for (let attempt = 0; ; attempt++) {
      const channel = await this.get(address);
      const left = deadline - this.#clock.monotonic();
      if (left <= 0) throw new GantryError('REMOTING_TIMEOUT', `no connection to ${address} within ${timeoutMs} ms`);
      const response = await channel.invoke(code, ext, body, left);
      if (response.code !== ResponseCode.GO_AWAY || attempt > 0) return response;
      this.#channels.delete(address);
      channel.close('the broker is stopping');
    }
  }

  /** Sends a request that is not answered. @throws GantryError REMOTING_CONNECT */
  async sendOneway(address: string, code: number, ext: ExtFields | null, body: Uint8Array | null): Promise<void> {
    const channel = await this.get(address);
    channel.sendOneway(code, ext, body);
  }

  /** Closes all connections; there will be no new ones. */
  close(): void {
    this.#closed = true;
    for (const pending of this.#channels.values()) {
      pending.then(
        (channel) => channel.close('the client is closed'),
        () => {},
      );
    }
    this.#channels.clear();
  }

  async #connect(address: string): Promise<Channel> {
    const channel = await this.#dial(address);
    if (this.#closed) {
      channel.close('the client is closed');
      throw new GantryError('CLIENT_STATE', 'the client is closed');
    }
    const pending = this.#channels.get(address);
    channel.onClose(() => this.#forget(address, pending));
    await this.#afterConnect(address, channel);
    return channel;
  }

  #forget(address: string, pending: Promise<Channel> | undefined): void {
    if (pending !== undefined && this.#channels.get(address) === pending) this.#channels.delete(address);
  }
}
