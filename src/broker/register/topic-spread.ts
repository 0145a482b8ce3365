// A topic that a send has created spreads to the other masters of the cluster, so that its queues, and the load of its producers, are
// not on one broker alone. It goes where the first send might have gone as well: to the masters that the route of TBW102 names as
// writable, so neither to brokers that create no topics nor to those that an operator has taken out of service. There it is made by an
// administrator's request, and does not spread further.
//
//   send ─► topic ─► waiting ─► route of TBW102 ─┬─► SpreadPeer broker-b
//                    (a round takes them all)    └─► SpreadPeer broker-c
//
// All of it happens beside the send, which neither waits for it nor fails with it. RocketMQ: such a topic stays where it came into
// being until an administrator creates it elsewhere.

import { errorText, SeldomWarning } from '../../common/index.ts';
import type { JsonObject } from '../../remoting/index.ts';
import { readInteger, readList, readObject, readText } from '../json-fields.ts';
import { topicRoute } from '../name-servers.ts';
import { isWriteable, type TopicConfig } from '../topic/topic-config.ts';
import { AUTO_CREATE_TOPIC_KEY_TOPIC } from '../topic/topic-names.ts';
import { type SpreadDeps, SpreadPeer, type TopicNow } from './spread-peer.ts';
import { MOST_WAITING, TwoTries } from './two-tries.ts';

export interface SpreadOptions {
  readonly clusterName: string;
  /** This broker's own. */
  readonly brokerName: string;
  /** Addresses of the name servers that know this broker now. */
  readonly nameServers: () => readonly string[];
  /** The topic as it is now: only one that is still as the send made it spreads. */
  readonly select: TopicNow;
}

export class TopicSpread {
  readonly #options: SpreadOptions;
  readonly #deps: SpreadDeps;
  readonly #warnings: SeldomWarning;
  readonly #waiting: TwoTries;
  readonly #peers = new Map<string, SpreadPeer>();

  constructor(options: SpreadOptions, deps: SpreadDeps) {
    this.#options = options;
    this.#deps = deps;
    this.#warnings = new SeldomWarning(deps.clock, deps.logger);
    this.#waiting = new TwoTries(deps.clock, (topics) => this.#giveToPeers(topics));
  }

  /** Takes a topic that a send has just created. Never throws; nothing is sent before this loop turn ends. */
  add(topic: TopicConfig): void {
    if (this.#waiting.add(topic)) return;
    this.#warnings.warn('waiting', `${MOST_WAITING} new topics wait to spread: ${topic.topicName} stays here alone`);
  }

  /** Gives up what is under way. */
  stop(): void {
    this.#waiting.stop();
    for (const peer of this.#peers.values()) peer.stop();
  }

  async #giveToPeers(topics: readonly TopicConfig[]): Promise<readonly TopicConfig[]> {
    try {
      const masters = await this.#masters();
      for (const [name, peer] of this.#peers) {
        if (!masters.has(name) && peer.isIdle) this.#peers.delete(name);
      }
      for (const [name, address] of masters) this.#peer(name, address).add(topics);
      return [];
    } catch (error) {
      this.#warnings.warn('route', `new topics do not spread, as other brokers are not found: ${errorText(error)}`);
      return topics;
    }
  }

  #peer(name: string, address: string): SpreadPeer {
    let peer = this.#peers.get(name);
    if (peer === undefined) {
      peer = new SpreadPeer(name, this.#options.select, this.#deps, this.#warnings);
      this.#peers.set(name, peer);
    }
    peer.address = address;
    return peer;
  }

  /** The other masters of the cluster that take new topics, name to address; none without a name server. */
  async #masters(): Promise<Map<string, string>> {
    const { nameServers, clusterName, brokerName } = this.#options;
    if (nameServers().length === 0) return new Map();
    const { invoke } = this.#deps;
    const route = await topicRoute({ invoke, nameServers }, AUTO_CREATE_TOPIC_KEY_TOPIC);
    const masters = writableMasters(route ?? {}, clusterName);
    masters.delete(brokerName);
    return masters;
  }
}

/** Masters of a cluster in a TopicRouteData that may be written to, name to address. @throws GantryError CONFIG_FILE if it is none. */
function writableMasters(route: JsonObject, clusterName: string): Map<string, string> {
  const writable = new Set<string>();
  for (const queue of (readList(route, 'queueDatas') ?? []) as readonly JsonObject[]) {
    if (isWriteable(readInteger(queue, 'perm') ?? 0)) writable.add(readText(queue, 'brokerName') ?? '');
  }
  const masters = new Map<string, string>();
  for (const broker of (readList(route, 'brokerDatas') ?? []) as readonly JsonObject[]) {
    const name = readText(broker, 'brokerName') ?? '';
    const address = readText(readObject(broker, 'brokerAddrs') ?? {}, '0');
    if (address === undefined || readText(broker, 'cluster') !== clusterName || !writable.has(name)) continue;
    masters.set(name, address);
  }
  return masters;
}
