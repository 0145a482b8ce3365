// How far each client of a broadcasting group has pulled. Such clients keep their offsets themselves; the broker notes them so that a
// client that moves between broker and proxy goes on where it was, and a new one behind a proxy begins where the slowest is. Every five
// seconds the lowest of a group's live clients is committed for the group `GROUP@broadcast`. RocketMQ: BroadcastOffsetManager.

import type { Clock, Timer } from '../../common/index.ts';
import type { BrokerConfig } from '../broker-config.ts';
import type { ConsumerManager } from '../client/consumer-manager.ts';
import { broadcastGroup, type ConsumerOffsetManager } from './consumer-offset-manager.ts';

/** Ms between two commits. */
export const BROADCAST_SCAN_MS = 5000;

/** What `initial` answers beside an offset. */
export const InitialOffset = {
  /** The pull's own offset counts. */
  NONE: -1,
  /** Nothing is known of the client or its group: the queue decides. */
  OF_QUEUE: -2,
} as const;

interface ClientOffsets {
  /** Time of the last pull. */
  lastPullMs: number;
  fromProxy: boolean;
  /** Queue, offset that the client has come to; it only grows. */
  readonly offsets: Map<number, number>;
}

interface BroadcastGroup {
  readonly topic: string;
  readonly group: string;
  readonly clients: Map<string, ClientOffsets>;
}

export class BroadcastOffsetManager {
  readonly #config: BrokerConfig;
  readonly #clock: Clock;
  readonly #consumers: ConsumerManager;
  readonly #offsets: ConsumerOffsetManager;
  /** By `topic@group`. */
  readonly #groups = new Map<string, BroadcastGroup>();
  #timer: Timer | undefined;

  constructor(config: BrokerConfig, clock: Clock, consumers: ConsumerManager, offsets: ConsumerOffsetManager) {
    this.#config = config;
    this.#clock = clock;
    this.#consumers = consumers;
    this.#offsets = offsets;
  }

  start(): void {
    this.#timer = this.#clock.every(BROADCAST_SCAN_MS, () => this.scan());
  }

  stop(): void {
    this.#timer?.cancel();
  }

  /** Notes where a client pulled. */
  update(topic: string, group: string, queueId: number, offset: number, clientId: string, fromProxy: boolean): void {
    const key = `${topic}@${group}`;
    let known = this.#groups.get(key);
    if (known === undefined) {
      known = { topic, group, clients: new Map() };
      this.#groups.set(key, known);
    }
    const client = clientOf(known, clientId, fromProxy, this.#clock.now());
    client.lastPullMs = this.#clock.now();
    client.fromProxy = fromProxy;
    client.offsets.set(queueId, Math.max(offset, client.offsets.get(queueId) ?? offset));
  }

  /**
   * Where a client is to begin instead of where it asks for: an offset, or one of `InitialOffset`. That is the case when a proxy asks
   * for none (below 0), and when the client has moved from a proxy to the broker or back.
   */
  initial(topic: string, group: string, queueId: number, clientId: string, asked: number, fromProxy: boolean): number {
    const known = this.#groups.get(`${topic}@${group}`);
    if (known === undefined) {
      return fromProxy && asked < 0 ? this.#committed(topic, group, queueId) : InitialOffset.NONE;
    }
    const client = clientOf(known, clientId, fromProxy, this.#clock.now());
    if (client.fromProxy === fromProxy && !(fromProxy && asked < 0)) return InitialOffset.NONE;
    return client.offsets.get(queueId) ?? this.#committed(topic, group, queueId);
  }

  /** Commits the lowest offset of each queue, and forgets clients that have gone. */
  scan(): void {
    const now = this.#clock.now();
    const expireMs = this.#config.broadcastOffsetExpireSecond * 1000;
    const expireMaxMs = this.#config.broadcastOffsetExpireMaxSecond * 1000;
    for (const [key, { topic, group, clients }] of this.#groups) {
      const lowest = new Map<number, number>();
      for (const [clientId, client] of clients) {
        const silentMs = now - client.lastPullMs;
        const online = this.#consumers.find(group)?.findClient(clientId) !== undefined;
        if (online || silentMs < expireMs) {
          for (const [queueId, offset] of client.offsets) {
            lowest.set(queueId, Math.min(offset, lowest.get(queueId) ?? offset));
          }
        }
        if (silentMs >= (online ? expireMaxMs : expireMs)) clients.delete(clientId);
      }
      if (clients.size === 0) this.#groups.delete(key);
      for (const [queueId, offset] of lowest) {
        this.#offsets.commit('BroadcastOffset', broadcastGroup(group), topic, queueId, offset);
      }
    }
  }

  #committed(topic: string, group: string, queueId: number): number {
    const offset = this.#offsets.query(broadcastGroup(group), topic, queueId);
    return offset < 0 ? InitialOffset.OF_QUEUE : offset;
  }
}

function clientOf(group: BroadcastGroup, clientId: string, fromProxy: boolean, now: number): ClientOffsets {
  let client = group.clients.get(clientId);
  if (client === undefined) {
    client = { lastPullMs: now, fromProxy, offsets: new Map() };
    group.clients.set(clientId, client);
  }
  return client;
}
