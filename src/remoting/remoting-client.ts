// Outgoing connections: one per address, made when it is first needed, and again when it has gone. What the peer asks of us in turn
// (a broker tells its clients that a group has changed) goes to handlers as in the server.

import { createConnection, type Socket } from 'node:net';
import { type Clock, GantryError, type Logger } from '../common/index.ts';
import { splitAddress } from './address.ts';
import { SocketChannel } from './channel.ts';
import { ResponseCode, SerializeType } from './codes.ts';
import { ConnectionHub, type ConnectionLimits } from './connection-hub.ts';
import { Dispatcher } from './dispatcher.ts';
import type { Channel, ExtFields, RemotingResponse, RequestHandler } from './types.ts';

export interface RemotingClientOptions {
  clock: Clock;
  logger: Logger;
  /** Default 3000. */
  connectTimeoutMs?: number;
  /** How the headers of our requests are encoded. Default JSON. */
  serializeType?: SerializeType;
  /** Default: DEFAULT_LIMITS. */
  limits?: Partial<ConnectionLimits>;
}

/**
 * A client of any number of servers.
 *
 * ```ts
 * const client = new RemotingClient({ clock, logger });
 * const answer = await client.invoke('127.0.0.1:9876', RequestCode.GET_ROUTEINFO_BY_TOPIC, { topic: 'T' }, null, 3000);
 * ```
 */
export class RemotingClient {
  readonly #clock: Clock;
  readonly #hub: ConnectionHub;
  readonly #dispatcher: Dispatcher;
  readonly #connectTimeoutMs: number;
  readonly #serializeType: SerializeType;
  readonly #channels = new Map<string, SocketChannel>();
  readonly #connecting = new Map<string, Promise<SocketChannel>>();
  readonly #connectListeners: Array<(address: string, channel: Channel) => void> = [];
  readonly #closeListeners: Array<(address: string, channel: Channel) => void> = [];
  #closed = false;

  constructor(options: RemotingClientOptions) {
    this.#clock = options.clock;
    this.#hub = new ConnectionHub(options.clock, options.logger, options.limits ?? {});
    this.#dispatcher = new Dispatcher(options.logger);
    this.#connectTimeoutMs = options.connectTimeoutMs ?? 3_000;
    this.#serializeType = options.serializeType ?? SerializeType.JSON;
  }

  /** Sets the handler of a request that servers send to us. */
  register(code: number, handler: RequestHandler): void {
    this.#dispatcher.register(code, handler);
  }

  onConnect(fn: (address: string, channel: Channel) => void): void {
    this.#connectListeners.push(fn);
  }

  /** Calls `fn` once for each connection that has gone. */
  onDisconnect(fn: (address: string, channel: Channel) => void): void {
    this.#closeListeners.push(fn);
  }

  /** Calls `fn` at the end of each loop turn that had input or output, before output is written. */
  onTurnEnd(fn: () => void): void {
    this.#hub.onTurnEnd(fn);
  }

  /** The open connection to an address, if there is one. */
  channel(address: string): Channel | undefined {
    const channel = this.#channels.get(address);
    return channel?.isOpen === true ? channel : undefined;
  }

  /**
   * The connection to `address` (`host:port`), made if there is none.
   * @throws GantryError REMOTING_CONNECT or ADDRESS.
   */
  async connect(address: string): Promise<Channel> {
    return this.#connect(address);
  }

  /**
   * Sends a request and waits for its answer; `timeoutMs` includes connecting. A peer that is shutting down (GO_AWAY) is
   * connected to once more.
   * @throws GantryError REMOTING_CONNECT, REMOTING_TIMEOUT, REMOTING_CLOSED or ADDRESS.
   */
  async invoke(
    address: string,
    code: number,
    ext: ExtFields | null,
    body: Uint8Array | null,
    timeoutMs: number,
  ): Promise<RemotingResponse> {
    const start = this.#clock.monotonic();
    const channel = await this.#connect(address);
    const response = await channel.invoke(code, ext, body, this.#timeLeft(address, code, start, timeoutMs));
    if (response.code !== ResponseCode.GO_AWAY) return response;
    if (this.#channels.get(address) === channel) channel.close('the peer is shutting down');
    const again = await this.#connect(address);
    return again.invoke(code, ext, body, this.#timeLeft(address, code, start, timeoutMs));
  }

  /** Sends a one-way request; resolves once it is on its way. @throws GantryError REMOTING_CONNECT or ADDRESS. */
  async invokeOneway(address: string, code: number, ext: ExtFields | null, body: Uint8Array | null): Promise<void> {
    const channel = await this.#connect(address);
    channel.sendOneway(code, ext, body);
  }

  /** Closes all connections once what was written has gone; open calls are rejected. */
  async close(): Promise<void> {
    this.#closed = true;
    await Promise.allSettled(this.#connecting.values());
    const gone = [...this.#channels.values()].map((channel) => {
      channel.end();
      return new Promise<void>((resolve) => channel.onClose(resolve));
    });
    const timer = this.#clock.after(1_000, () => {
      for (const channel of this.#channels.values()) channel.destroy();
    });
    await Promise.all(gone);
    timer.cancel();
  }

  #timeLeft(address: string, code: number, start: number, timeoutMs: number): number {
    const left = timeoutMs - (this.#clock.monotonic() - start);
    if (left > 0) return left;
    throw new GantryError('REMOTING_TIMEOUT', `request ${code} to ${address} took longer than ${timeoutMs} ms`);
  }

  #connect(address: string): Promise<SocketChannel> {
    const open = this.#channels.get(address);
    if (open?.isOpen === true) return Promise.resolve(open);
    const connecting = this.#connecting.get(address) ?? this.#dial(address);
    this.#connecting.set(address, connecting);
    return connecting;
  }

  #dial(address: string): Promise<SocketChannel> {
    return new Promise<SocketChannel>((resolve, reject) => {
      if (this.#closed) throw new GantryError('CLIENT_STATE', 'the remoting client is closed');
      const { host, port } = splitAddress(address);
      let channel: SocketChannel | undefined;
      const { chunk } = this.#hub;
      const onread = { buffer: chunk, callback: (length: number) => channel?.input(chunk, length) ?? true };
      const socket = createConnection({ host, port, onread, allowHalfOpen: true, noDelay: true });
      const fail = (reason: string, cause?: Error): void => {
        timer.cancel();
        socket.destroy();
        reject(new GantryError('REMOTING_CONNECT', `cannot connect to ${address}: ${reason}`, { cause }));
      };
      const timer = this.#clock.after(this.#connectTimeoutMs, () => fail(`no answer in ${this.#connectTimeoutMs} ms`));
      const onError = (error: NodeJS.ErrnoException): void => fail(error.code ?? error.message, error);
      socket.once('error', onError);
      socket.once('connect', () => {
        timer.cancel();
        socket.off('error', onError);
        channel = this.#open(address, socket);
        resolve(channel);
      });
    }).finally(() => this.#connecting.delete(address));
  }

  #open(address: string, socket: Socket): SocketChannel {
    const channel = new SocketChannel({
      hub: this.#hub,
      socket,
      handler: (from, header, buffer, bodyStart, end) => this.#dispatcher.handle(from, header, buffer, bodyStart, end),
      serializeType: this.#serializeType,
    });
    this.#channels.set(address, channel);
    channel.onClose(() => {
      if (this.#channels.get(address) === channel) this.#channels.delete(address);
      for (const fn of this.#closeListeners) fn(address, channel);
    });
    for (const fn of this.#connectListeners) fn(address, channel);
    return channel;
  }
}
