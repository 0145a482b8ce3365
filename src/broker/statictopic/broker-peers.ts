// Other brokers that a request for a static topic is forwarded to: a logic queue's older places may lie there. Their addresses come from
// the name servers, asked when one is not known and again when it does not answer. RocketMQ: RpcClientImpl and ClientMetadata, which ask
// for the whole cluster every few seconds, whether anything is forwarded or not.

import { type Clock, GantryError } from '../../common/index.ts';
import {
  type ExtFields,
  type JsonObject,
  type RemotingResponse,
  RequestCode,
  ResponseCode,
} from '../../remoting/index.ts';
import { readObject, readText } from '../json-fields.ts';
import { askNameServers, type NameServers, topicRoute } from '../name-servers.ts';

export interface BrokerPeersDeps extends NameServers {
  readonly clock: Clock;
}

/** RocketMQ: the id of a broker's master. */
const MASTER = '0';
/** The name servers are asked again at most so often. */
const ASK_AGAIN_MS = 1_000;

export class BrokerPeers {
  readonly #deps: BrokerPeersDeps;
  #addresses = new Map<string, string>();
  #askedAt = Number.NEGATIVE_INFINITY;
  /** A question under way. */
  #asking: Promise<void> | undefined;

  constructor(deps: BrokerPeersDeps) {
    this.#deps = deps;
  }

  /**
   * Sends a request to the master of a broker.
   * @throws GantryError REMOTING_... or RESPONSE (responseCode 1) when the broker is not known, cannot be reached or does not answer in time
   */
  async invoke(
    brokerName: string,
    code: number,
    ext: ExtFields,
    body: Uint8Array | null,
    timeoutMs: number,
  ): Promise<RemotingResponse> {
    const address = this.#addresses.get(brokerName) ?? (await this.#ask(brokerName, timeoutMs));
    try {
      return await this.#deps.invoke(address, code, ext, body, timeoutMs);
    } catch (error) {
      // It may have moved.
      if (this.#addresses.get(brokerName) === address) this.#addresses.delete(brokerName);
      throw error;
    }
  }

  /** TopicRouteData of a topic. @throws GantryError when no name server says it. */
  async route(topic: string, timeoutMs: number): Promise<JsonObject> {
    const route = await topicRoute(this.#deps, topic, timeoutMs);
    if (route !== undefined) return route;
    throw new GantryError('RESPONSE', `no name server has a route of ${topic}`, {
      responseCode: ResponseCode.SYSTEM_ERROR,
    });
  }

  async #ask(brokerName: string, timeoutMs: number): Promise<string> {
    const now = this.#deps.clock.monotonic();
    if (this.#asking === undefined && now - this.#askedAt >= ASK_AGAIN_MS) {
      this.#askedAt = now;
      this.#asking = this.#learn(timeoutMs).finally(() => {
        this.#asking = undefined;
      });
    }
    await this.#asking;
    const address = this.#addresses.get(brokerName);
    if (address === undefined) {
      throw new GantryError('RESPONSE', `cannot find addr for broker ${brokerName}`, { responseCode: 1 });
    }
    return address;
  }

  async #learn(timeoutMs: number): Promise<void> {
    const info = await askNameServers(this.#deps, RequestCode.GET_BROKER_CLUSTER_INFO, {}, timeoutMs);
    this.#addresses = masters(info ?? {});
  }
}

/** The masters in a ClusterInfo, name to address. */
function masters(info: JsonObject): Map<string, string> {
  const found = new Map<string, string>();
  const table = readObject(info, 'brokerAddrTable') ?? {};
  for (const name of Object.keys(table)) {
    const address = readText(readObject(readObject(table, name) ?? {}, 'brokerAddrs') ?? {}, MASTER);
    if (address !== undefined) found.set(name, address);
  }
  return found;
}

/** An answer of another broker that is none of those that are expected. */
export function unexpected(response: RemotingResponse): GantryError {
  const text = `unexpected remote response code ${response.code}${response.remark ? `, ${response.remark}` : ''}`;
  return new GantryError('RESPONSE', text, { responseCode: ResponseCode.SYSTEM_ERROR });
}
