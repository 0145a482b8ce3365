// How clients come to know this broker: it registers its topics with every name server, Java's or ours, over the wire (RocketMQ:
// BrokerOuterAPI and the registering half of BrokerController). The whole table goes out at the start, after 10 s and then
// each period; a new or changed topic at once. Leaving is the first thing that a stop does.
//
// RocketMQ: a name server that cannot be reached is tried again with the next period, and after a connection is lost routes are
// missing that long. Here each one is tried again after 1, 2, 4 and then each 5 s, and at once when its connection ends.

import { type Clock, errorText, type Logger, type Timer } from '../../common/index.ts';
import { type Channel, parseJson, type RemotingResponse } from '../../remoting/index.ts';
import { type BrokerIdentity, NameServerPeer, type PeerOptions, within } from './name-server-peer.ts';
import { type MappingTable, RegistrationBodies, type TopicTable } from './registration-body.ts';

export type { BrokerIdentity } from './name-server-peer.ts';
export type { TopicTable } from './registration-body.ts';

export interface RegistrationDeps {
  readonly clock: Clock;
  readonly logger: Logger;
  /** Opens a connection to `host:port`. Rejects with GantryError REMOTING_CONNECT. */
  readonly connect: (address: string) => Promise<Channel>;
}

export interface RegistrationOptions {
  readonly identity: BrokerIdentity;
  readonly topics: TopicTable;
  /** Its static topics. Default: none. */
  readonly mappings?: MappingTable;
  /** `a:1;b:2`; may be empty, and then there is nothing to do until `setNameServers`. */
  readonly nameServers: string;
  /** The broker's own permission bits, read at each registration (brokerPermission). Default: read and write. */
  readonly permission?: () => number;
  /** Time between two registrations, held between 10 and 60 s (registerNameServerPeriod). Default 30,000 ms. */
  readonly periodMs?: number;
  /** Ms after the start in which no period registers (disappearTimeAfterStart). Default 0. */
  readonly quietMs?: number;
  /** How long one request may take (registerBrokerTimeoutMills). Default 24,000 ms. */
  readonly requestTimeoutMs?: number;
  /** False: a periodic registration first asks whether the name server holds another version (forceRegister). Default true. */
  readonly forceRegister?: boolean;
  /**
   * True: changed topics are registered one by one (enableSingleTopicRegister). Name servers with deleteTopicWithBrokerRegistration
   * need it, since to them an increment is the whole table. Default false.
   */
  readonly singleTopicRegister?: boolean;
  /** Given the names of the ordered topics with each registration that says them; from one name server only. */
  readonly onOrderTopics?: (topics: Iterable<string>) => void;
}

/** What a name server makes of this broker. */
export interface NameServerState {
  readonly address: string;
  readonly registered: boolean;
  /** Why it is not, if the last attempt failed. */
  readonly error: string | undefined;
}

const SECOND_REGISTRATION_MS = 10_000;
const MIN_PERIOD_MS = 10_000;
const MAX_PERIOD_MS = 60_000;
/** What `registerTopics` waits for a name server that has answered so far and does not now. */
const TOPIC_WAIT_MS = 3_000;
const READ_WRITE = 6;

export class NameServerRegistration {
  readonly #options: RegistrationOptions;
  readonly #deps: RegistrationDeps;
  readonly #peerOptions: PeerOptions;
  #peers: NameServerPeer[] = [];
  #timers: Timer[] = [];
  #started = false;
  /** Monotonic time from which on periods register. */
  #periodsFrom = 0;
  #stopped = false;

  constructor(options: RegistrationOptions, deps: RegistrationDeps) {
    this.#options = options;
    this.#deps = deps;
    this.#peerOptions = {
      identity: options.identity,
      bodies: new RegistrationBodies(
        options.topics,
        options.permission ?? (() => READ_WRITE),
        deps.clock,
        options.mappings,
      ),
      connect: deps.connect,
      clock: deps.clock,
      logger: deps.logger,
      requestTimeoutMs: options.requestTimeoutMs ?? 24_000,
      singleTopics: options.singleTopicRegister ?? false,
      registered: (peer, response) => this.#registered(peer, response),
    };
    this.setNameServers(options.nameServers);
  }

  /** Registers with all name servers; resolves when each has taken it or failed. From then on it goes by the clock. */
  async start(): Promise<void> {
    this.#started = true;
    const { clock } = this.#deps;
    this.#periodsFrom = clock.monotonic() + (this.#options.quietMs ?? 0);
    const period = Math.min(MAX_PERIOD_MS, Math.max(MIN_PERIOD_MS, this.#options.periodMs ?? 30_000));
    this.#timers.push(
      clock.after(SECOND_REGISTRATION_MS, () => {
        this.#registerPeriodically();
        if (!this.#stopped) this.#timers.push(clock.every(period, () => this.#registerPeriodically()));
      }),
    );
    await this.registerAll();
  }

  /** Sends the whole table to every name server; resolves when each has taken it or failed. */
  async registerAll(): Promise<void> {
    await Promise.all(this.#peers.map((peer) => peer.registerWhole(false)));
  }

  /**
   * Tells every name server of new or changed topics; resolves when each that is not failing has taken them, and after 3 s at the
   * latest. What was not taken is kept and sent again. Calls while a request is under way share the next one.
   */
  async registerTopics(names: Iterable<string>): Promise<void> {
    if (!this.#started || this.#stopped) return;
    const list = [...names];
    const work = Promise.all(this.#peers.map((peer) => peer.registerTopics(list)));
    await within(this.#deps.clock, TOPIC_WAIT_MS, work);
  }

  /**
   * Sets the list of name servers, `a:1;b:2`. New ones are registered with at once; resolves when they have taken it or failed.
   * Others are left without a word, as clients of theirs may still be served until they notice.
   */
  async setNameServers(list: string): Promise<void> {
    const addresses = [...new Set(splitAddresses(list))];
    const known = new Map(this.#peers.map((peer) => [peer.address, peer]));
    this.#peers = addresses.map((address) => known.get(address) ?? new NameServerPeer(address, this.#peerOptions));
    const fresh = this.#peers.filter((peer) => !known.has(peer.address));
    for (const [address, peer] of known) {
      if (!addresses.includes(address)) peer.drop();
    }
    if (this.#started && !this.#stopped) await Promise.all(fresh.map((peer) => peer.registerWhole(false)));
  }

  /** Every name server of the list with what it makes of this broker. */
  states(): NameServerState[] {
    return this.#peers.map((peer) => ({ address: peer.address, registered: peer.isRegistered, error: peer.error }));
  }

  /** The name servers that hold this broker now, in the order of the list. */
  knownAt(): string[] {
    return this.#peers.filter((peer) => peer.isRegistered).map((peer) => peer.address);
  }

  /** Leaves all name servers, so that clients go elsewhere; takes some 3 s at the most, whatever they do. Never rejects. */
  async stop(): Promise<void> {
    this.#stopped = true;
    for (const timer of this.#timers) timer.cancel();
    await Promise.all(this.#peers.map((peer) => peer.stop()));
  }

  #registerPeriodically(): void {
    if (this.#deps.clock.monotonic() < this.#periodsFrom) return;
    const ifChanged = this.#options.forceRegister === false;
    for (const peer of this.#peers) {
      // One that is failing is tried again by itself.
      if (peer.error === undefined) void peer.registerWhole(ifChanged);
    }
  }

  #registered(peer: NameServerPeer, response: RemotingResponse): void {
    if (this.#options.onOrderTopics === undefined || response.body.length === 0) return;
    // Name servers may hold different tables; the first of the list that answers counts, so that nothing swings to and fro.
    const first = this.#peers.find((other) => other === peer || other.isRegistered);
    if (first !== peer) return;
    try {
      this.#options.onOrderTopics(orderTopics(response.body));
    } catch (error) {
      this.#deps.logger.warn(`the ordered topics of the name server ${peer.address} are ignored: ${errorText(error)}`);
    }
  }
}

/** The addresses of a list with semicolons. */
function splitAddresses(list: string): string[] {
  return list
    .split(';')
    .map((address) => address.trim())
    .filter((address) => address !== '');
}

/** The keys of a KVTable: `{"table":{topic:"broker-a:4;broker-b:4"}}`. */
function orderTopics(body: Uint8Array): string[] {
  const root = parseJson(body);
  const table = typeof root === 'object' && root !== null && 'table' in root ? root['table'] : undefined;
  return typeof table === 'object' && table !== null ? Object.keys(table) : [];
}
