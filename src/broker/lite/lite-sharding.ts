// Which broker of a cluster holds a lite topic: a consistent hash of its name over the write queues of its parent. Clients ask all brokers
// for a subscription, and each takes what is its own, or what it has messages of. RocketMQ: LiteShardingImpl, Guava's Hashing#consistentHash.

import type { Clock, Logger } from '../../common/index.ts';
import { errorText, javaStringHash, SeldomWarning } from '../../common/index.ts';
import { liteParts } from './lite-names.ts';

/** Asks a name server for the broker name of each write queue of a topic, in the order of Java's clients; undefined: no such route. */
export type WriteQueues = (topic: string) => Promise<readonly string[] | undefined>;

/** Ms that a route is good for; RocketMQ asks as often. */
const FRESH_MS = 30_000;
/** Routes that are kept; a peer can name any topic. */
const MOST_ROUTES = 4096;

interface Known {
  readonly at: number;
  readonly brokers: readonly string[] | undefined;
}

export class LiteSharding {
  /** Set once there is somebody to ask; until then everything belongs here. */
  writeQueues: WriteQueues | undefined;
  readonly #brokerName: string;
  readonly #clock: Clock;
  readonly #warnings: SeldomWarning;
  readonly #routes = new Map<string, Known>();
  readonly #asked = new Map<string, Promise<void>>();

  constructor(brokerName: string, clock: Clock, logger: Logger) {
    this.#brokerName = brokerName;
    this.#clock = clock;
    this.#warnings = new SeldomWarning(clock, logger);
  }

  /** Whether a lite topic's queue belongs to this broker, as far as the route is known. */
  isOwn(parent: string, queue: string): boolean {
    const brokers = this.#routes.get(parent)?.brokers;
    const lite = liteParts(queue)?.lite;
    if (brokers === undefined || brokers.length === 0 || lite === undefined) return true;
    return brokers[consistentHash(javaStringHash(lite), brokers.length)] === this.#brokerName;
  }

  /** Whether the route of a topic is known, so that nobody need wait for `know`. */
  isKnown(parent: string): boolean {
    if (this.writeQueues === undefined) return true;
    const known = this.#routes.get(parent);
    return known !== undefined && this.#clock.now() - known.at < FRESH_MS;
  }

  /** Asks for the route of a topic if it is not known. Never rejects: without a name server everything belongs here, as on RocketMQ. */
  async know(parent: string): Promise<void> {
    if (this.isKnown(parent)) return;
    let asked = this.#asked.get(parent);
    if (asked === undefined) {
      asked = this.#ask(parent).finally(() => this.#asked.delete(parent));
      this.#asked.set(parent, asked);
    }
    await asked;
  }

  async #ask(parent: string): Promise<void> {
    const at = this.#clock.now();
    let brokers: readonly string[] | undefined;
    try {
      brokers = await this.writeQueues!(parent);
    } catch (error) {
      // The route of before is better than none.
      brokers = this.#routes.get(parent)?.brokers;
      this.#warnings.warn('route', `the route of ${parent} is not to be had: ${errorText(error)}`);
    }
    if (this.#routes.size >= MOST_ROUTES && !this.#routes.has(parent)) this.#routes.clear();
    this.#routes.set(parent, { at, brokers });
  }
}

const MULTIPLIER = 2862933555777941757n;

/** Guava's consistent hash: the bucket of `input` among `buckets`. */
export function consistentHash(input: number | bigint, buckets: number): number {
  let state = BigInt.asIntN(64, BigInt(input));
  let candidate = 0;
  for (;;) {
    state = BigInt.asIntN(64, MULTIPLIER * state + 1n);
    const top = Number(BigInt.asIntN(32, BigInt.asUintN(64, state) >> 33n));
    const next = Math.trunc((candidate + 1) / ((top + 1) / 2 ** 31));
    if (next < 0 || next >= buckets) return candidate;
    candidate = next;
  }
}
