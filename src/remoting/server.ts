// The remoting server: listens, reads frames, hands requests to the handlers of their codes, sends the answers.
//
// Reading goes through Node's `onread`, which fills one buffer for all connections and spares a stream event and an allocation per
// chunk. For accepted sockets that option is not documented (it is for `net.connect`): the accepted handle is moved to a new
// `net.Socket`. Where that does not work the plain 'data' event is used, with the same result.

import { createServer, type Server, Socket } from 'node:net';
import { type Clock, errorText, GantryError, type Logger } from '../common/index.ts';
import { addressText } from './address.ts';
import { type FrameHandler, SocketChannel } from './channel.ts';
import { ConnectionHub, type ConnectionLimits } from './connection-hub.ts';
import { Dispatcher } from './dispatcher.ts';
import { Preamble } from './preamble.ts';
import type { Channel, RequestHandler } from './types.ts';

export interface RemotingServerOptions {
  clock: Clock;
  logger: Logger;
  /** How sockets are read. Default `onread`, or `data` where that does not work. */
  reading?: 'onread' | 'data';
  /** Default: DEFAULT_LIMITS. */
  limits?: Partial<ConnectionLimits>;
}

/** Input that waited for the owner. */
export interface HeldInput {
  /** Ms that the request in hand waited; 0 if it did not, or the owner is pressed no longer. */
  readonly heldMs: number;
  /** Connections that waited with it. */
  readonly heldConnections: number;
}

/** How long `close` waits for peers to end their side. */
const LINGER_MS = 1_000;

/** A socket that was accepted, and what of it Node does not document. */
interface AcceptedSocket {
  _handle: unknown;
  _server: unknown;
}

/**
 * Serves any number of addresses with one table of handlers.
 *
 * ```ts
 * const server = new RemotingServer({ clock, logger });
 * server.register(RequestCode.HEART_BEAT, (request) => request.respond(ResponseCode.SUCCESS));
 * const port = await server.listen('127.0.0.1', 0);
 * ```
 */
export class RemotingServer {
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #hub: ConnectionHub;
  readonly #dispatcher: Dispatcher;
  readonly #reading: 'onread' | 'data';
  readonly #servers: Server[] = [];
  readonly #channels = new Set<SocketChannel>();
  readonly #connectListeners: Array<(channel: Channel) => void> = [];
  readonly #closeListeners: Array<(channel: Channel) => void> = [];
  readonly #handler: FrameHandler = (channel, header, buffer, bodyStart, end) =>
    this.#dispatcher.handle(channel, header, buffer, bodyStart, end);

  constructor(options: RemotingServerOptions) {
    this.#clock = options.clock;
    this.#logger = options.logger;
    this.#hub = new ConnectionHub(options.clock, options.logger, options.limits ?? {});
    this.#dispatcher = new Dispatcher(options.logger);
    this.#reading = options.reading ?? 'onread';
  }

  /** Connections that are open. */
  get channels(): ReadonlySet<Channel> {
    return this.#channels;
  }

  /** Sets the handler of a request code. */
  register(code: number, handler: RequestHandler): void {
    this.#dispatcher.register(code, handler);
  }

  /** Sets the handler of all codes that have none; without it they are answered REQUEST_CODE_NOT_SUPPORTED. */
  setDefault(handler: RequestHandler): void {
    this.#dispatcher.setDefault(handler);
  }

  /**
   * Calls `fn` at the end of each loop turn that had input or output, before the turn's answers are written: the place to commit
   * what a turn's requests have appended. It costs nothing beyond the call; `clock.soon` would cost a callback of its own.
   */
  onTurnEnd(fn: () => void): void {
    this.#hub.onTurnEnd(fn);
  }

  /**
   * Asks `pressed` at the end of a turn whether the owner keeps up. While it does not, a connection that has sent more than its share
   * of the turn waits, until `ease` is called or another turn finds the pressure gone; all others go on. After `limitMs` (at most a
   * second, which is the default) it goes on under pressure, too.
   */
  holdWhile(pressed: () => boolean, limitMs?: () => number): void {
    this.#hub.pressed = pressed;
    if (limitMs !== undefined) this.#hub.holdLimitMs = limitMs;
  }

  /** For how long the request in hand waited so in vain, and with how many connections. */
  get heldInput(): HeldInput {
    return this.#hub;
  }

  /** The pressure may have gone. */
  ease(): void {
    this.#hub.ease();
  }

  onConnect(fn: (channel: Channel) => void): void {
    this.#connectListeners.push(fn);
  }

  /** Calls `fn` once for each connection that has gone. */
  onDisconnect(fn: (channel: Channel) => void): void {
    this.#closeListeners.push(fn);
  }

  /**
   * Listens on one more address; port 0 takes a free one. Resolves with the port.
   * @throws GantryError PORT_TAKEN or ADDRESS.
   */
  listen(host: string, port: number): Promise<number> {
    const pauseOnConnect = this.#reading === 'onread';
    const server = createServer({ allowHalfOpen: true, pauseOnConnect, noDelay: true }, (socket) =>
      this.#accept(socket),
    );
    return new Promise((resolve, reject) => {
      server.once('error', (error) => reject(listenError(error, host, port)));
      server.listen({ host, port, backlog: 1024 }, () => {
        server.removeAllListeners('error');
        server.on('error', (error) => this.#logger.warn(`accepting connections failed: ${errorText(error)}`));
        this.#servers.push(server);
        const address = server.address();
        resolve(typeof address === 'object' && address !== null ? address.port : port);
      });
    });
  }

  /**
   * Stops: accepts no more, waits until the requests in flight have been answered (at most `graceMs`), sends what is to be sent and
   * ends all connections. What comes in meanwhile is answered as ever; a client whose connection ends tries elsewhere at once.
   *
   * RocketMQ: with `enableShutdownGracefully` (off by default) newer clients are answered GO_AWAY while the port is still open for half
   * a minute. Nobody is told that here: a 5.5.0 client then dials again, and if the port is closed it waits for its whole timeout,
   * with no time left to try another broker.
   */
  async close(graceMs = 5_000): Promise<void> {
    const closed = this.#servers.map((server) => new Promise<void>((resolve) => server.close(() => resolve())));
    for (const channel of this.#channels) channel.endWhenQuiet();
    await this.#until(graceMs, () => [...this.#channels].every((channel) => !channel.isOpen));
    for (const channel of this.#channels) channel.end();
    await this.#until(LINGER_MS, () => this.#channels.size === 0);
    for (const channel of this.#channels) channel.destroy();
    await Promise.all(closed);
    this.#hub.stop();
  }

  /** Resolves when `done` says so, which is asked whenever a connection comes nearer to its end, or after `limitMs`. */
  #until(limitMs: number, done: () => boolean): Promise<void> {
    if (done()) return Promise.resolve();
    return new Promise((resolve) => {
      const finish = (): void => {
        timer.cancel();
        this.#hub.watcher = undefined;
        resolve();
      };
      const timer = this.#clock.after(limitMs, finish);
      this.#hub.watcher = () => {
        if (done()) finish();
      };
    });
  }

  #accept(accepted: Socket): void {
    if (this.#reading === 'data') {
      this.#readByData(accepted);
      return;
    }
    const { _handle: handle, _server: owner } = accepted as unknown as AcceptedSocket;
    if (handle === undefined || handle === null) {
      this.#readByData(accepted);
      accepted.resume();
      return;
    }
    let channel: SocketChannel | undefined;
    const { chunk } = this.#hub;
    const options = {
      handle,
      allowHalfOpen: true,
      onread: { buffer: chunk, callback: (length: number) => channel?.input(chunk, length) ?? true },
    };
    Object.assign(accepted as unknown as AcceptedSocket, { _handle: null, _server: null });
    const socket = new Socket(options as ConstructorParameters<typeof Socket>[0]);
    Object.assign(socket as unknown as AcceptedSocket, { _server: owner });
    channel = this.#open(socket);
  }

  #readByData(socket: Socket): void {
    const channel = this.#open(socket);
    socket.on('data', (data: Buffer) => {
      if (!channel.input(data, data.length)) socket.pause();
    });
  }

  #open(socket: Socket): SocketChannel {
    const channel = new SocketChannel({ hub: this.#hub, socket, handler: this.#handler, preamble: new Preamble() });
    this.#channels.add(channel);
    channel.onClose(() => {
      this.#channels.delete(channel);
      for (const fn of this.#closeListeners) fn(channel);
    });
    for (const fn of this.#connectListeners) fn(channel);
    return channel;
  }
}

function listenError(error: NodeJS.ErrnoException, host: string, port: number): GantryError {
  const address = addressText(host, port);
  if (error.code === 'EADDRINUSE') {
    return new GantryError('PORT_TAKEN', `port ${port} is in use: cannot listen on ${address}`, { cause: error });
  }
  return new GantryError('ADDRESS', `cannot listen on ${address}: ${error.code ?? error.message}`, { cause: error });
}
