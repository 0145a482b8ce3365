// The connections of one client. RemotingClient makes and mends them; here a connection counts as ready only after the owner has had its
// turn on it: a broker has to hear of a consumer group before it may be asked for messages.

import { type Clock, GantryError } from '../common/index.ts';
import {
  type Channel,
  type ExtFields,
  type RemotingClient,
  type RemotingResponse,
  ResponseCode,
} from '../remoting/index.ts';

/** Called on every new connection before anything else is sent over it. It must not reject. */
export type AfterConnect = (address: string, channel: Channel) => Promise<void>;

/** One connection per address, made when it is first needed and again after it was lost. */
export class Connections {
  readonly #remoting: RemotingClient;
  readonly #clock: Clock;
  readonly #afterConnect: AfterConnect;
  readonly #ready = new Map<string, Promise<Channel>>();
  #closed = false;

  constructor(remoting: RemotingClient, clock: Clock, afterConnect: AfterConnect) {
    this.#remoting = remoting;
    this.#clock = clock;
    this.#afterConnect = afterConnect;
  }

  /** The connection to an address. @throws GantryError REMOTING_CONNECT, or CLIENT_STATE after `close`. */
  get(address: string): Promise<Channel> {
    if (this.#closed) return Promise.reject(new GantryError('CLIENT_STATE', 'the client is closed'));
    const known = this.#ready.get(address);
    if (known !== undefined) return known;
    const ready = this.#connect(address);
    this.#ready.set(address, ready);
    const forget = (): void => this.#forget(address, ready);
    ready.then((channel) => channel.onClose(forget), forget);
    return ready;
  }

  /** Whether there is a connection, or one is being made. */
  has(address: string): boolean {
    return this.#ready.has(address);
  }

  /**
   * Sends a request and waits for the answer, whatever its code. GO_AWAY (a broker that is stopping) is answered by one more try on a
   * new connection. @throws GantryError REMOTING_CONNECT, REMOTING_TIMEOUT, REMOTING_CLOSED, CLIENT_STATE
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
      const ready = this.get(address);
      const channel = await ready;
      const left = deadline - this.#clock.monotonic();
      if (left <= 0) throw new GantryError('REMOTING_TIMEOUT', `no connection to ${address} within ${timeoutMs} ms`);
      const response = await channel.invoke(code, ext, body, Math.ceil(left));
      if (response.code !== ResponseCode.GO_AWAY || attempt > 0) return response;
      this.#forget(address, ready);
      channel.close('the peer is shutting down');
    }
  }

  /** Sends a request that is not answered. @throws GantryError REMOTING_CONNECT, CLIENT_STATE */
  async sendOneway(address: string, code: number, ext: ExtFields | null, body: Uint8Array | null): Promise<void> {
    const channel = await this.get(address);
    channel.sendOneway(code, ext, body);
  }

  /** Closes all connections once what was sent has gone; there will be no new ones. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#ready.clear();
    await this.#remoting.close();
  }

  async #connect(address: string): Promise<Channel> {
    const channel = await this.#remoting.connect(address);
    await this.#afterConnect(address, channel);
    return channel;
  }

  #forget(address: string, ready: Promise<Channel>): void {
    if (this.#ready.get(address) === ready) this.#ready.delete(address);
  }
}
