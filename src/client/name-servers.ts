// The name servers: one is asked until it fails, then the next. They do not talk to each other and all know the same.

import { type Clock, errorText, GantryError, type Logger, type Random } from '../common/index.ts';
import { type ExtFields, parseJson, type RemotingResponse, RequestCode, ResponseCode } from '../remoting/index.ts';
import { BrokerError, isNetworkError } from './client-errors.ts';
import type { Connections } from './connections.ts';
import { parseTopicRoute, type TopicRoute } from './route.ts';

/** Asks the name servers of a list, one at a time. */
export class NameServers {
  readonly #addresses: string[];
  readonly #connections: Connections;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #timeoutMs: number;
  #current: number;

  constructor(
    addresses: readonly string[],
    connections: Connections,
    options: { clock: Clock; random: Random; logger: Logger; timeoutMs: number },
  ) {
    this.#addresses = [...addresses];
    this.#connections = connections;
    this.#clock = options.clock;
    this.#logger = options.logger;
    this.#timeoutMs = options.timeoutMs;
    this.#current = options.random.int(addresses.length);
  }

  get addresses(): readonly string[] {
    return this.#addresses;
  }

  /** The address that is asked next. */
  get current(): string {
    return this.#addresses[this.#current]!;
  }

  /** Asks one name server, or after a network failure the others in turn. @throws the last one's GantryError REMOTING_... */
  async invoke(code: number, ext: ExtFields | null, body: Uint8Array | null): Promise<RemotingResponse> {
    let failure: unknown;
    for (let i = 0; i < this.#addresses.length; i++) {
      const index = this.#current;
      const address = this.#addresses[index]!;
      try {
        return await this.#connections.invoke(address, code, ext, body, this.#timeoutMs);
      } catch (error) {
        if (!isNetworkError(error)) throw error;
        failure = error;
        // Another call may have moved on meanwhile.
        if (this.#current === index) this.#current = (index + 1) % this.#addresses.length;
        this.#logger.debug(`the name server ${address} failed: ${errorText(error)}`);
      }
    }
    throw failure;
  }

  /** As `invoke`, at one given server. */
  invokeAt(address: string, code: number, ext: ExtFields | null, body: Uint8Array | null): Promise<RemotingResponse> {
    return this.#connections.invoke(address, code, ext, body, this.#timeoutMs);
  }

  /** The route of a topic; undefined if the name server knows none. @throws BrokerError for other answers, GantryError REMOTING_... */
  async topicRoute(topic: string): Promise<TopicRoute | undefined> {
    const started = this.#clock.monotonic();
    const response = await this.invoke(RequestCode.GET_ROUTEINFO_BY_TOPIC, { topic }, null);
    this.#logger.debug(`route of ${topic}: code ${response.code} after ${this.#clock.monotonic() - started} ms`);
    if (response.code === ResponseCode.TOPIC_NOT_EXIST) return undefined;
    if (response.code !== ResponseCode.SUCCESS) throw new BrokerError(`the route of ${topic}`, this.current, response);
    if (response.body.length === 0) throw new GantryError('FRAME', `the route of ${topic} came without a body`);
    return parseTopicRoute(parseJson(response.body));
  }
}
