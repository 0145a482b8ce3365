// One name server that this broker registers with. It owns the connection, has at most one request under way, and keeps what it
// still owes until the name server has confirmed it. Whatever happens to one of these is no other one's affair.
//
// After every new connection the whole table goes first: a name server forgets a broker when the connection ends, and one that was
// restarted knows nothing. So the version that a name server holds always covers every change up to it.

import { type Clock, errorText, GantryError, type Logger, type Timer } from '../../common/index.ts';
import {
  type Channel,
  type ExtFields,
  parseJson,
  type RemotingResponse,
  RequestCode,
  ResponseCode,
} from '../../remoting/index.ts';
import { refused } from '../name-servers.ts';
import type { RegistrationBodies, RegistrationBody } from './registration-body.ts';

/** Who registers. */
export interface BrokerIdentity {
  readonly clusterName: string;
  readonly brokerName: string;
  /** `host:port` as clients are to reach it. */
  readonly brokerAddr: string;
  readonly brokerId: number;
  /** `host:port` that replicas connect to. */
  readonly haServerAddr: string;
}

export interface PeerOptions {
  readonly identity: BrokerIdentity;
  readonly bodies: RegistrationBodies;
  /** Opens a connection. Rejects with GantryError REMOTING_CONNECT. */
  readonly connect: (address: string) => Promise<Channel>;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly requestTimeoutMs: number;
  /** Changed topics go one by one, with REGISTER_TOPIC_IN_NAMESRV. */
  readonly singleTopics: boolean;
  /** Called with the answer to each registration that was taken. */
  readonly registered: (peer: NameServerPeer, response: RemotingResponse) => void;
}

/** Whole table owed: not, if the name server holds another version, or in any case. */
type Whole = 'no' | 'if changed' | 'yes';

const FIRST_RETRY_MS = 1_000;
const LONGEST_RETRY_MS = 5_000;
/** A stop waits so long for a request under way, and then so long for the answer to its farewell. */
const UNDER_WAY_MS = 1_000;
const UNREGISTER_TIMEOUT_MS = 2_000;

/** Topics that are registered by themselves, built in one go. */
const MOST_NAMES = 500;

export class NameServerPeer {
  readonly address: string;
  readonly #options: PeerOptions;
  #channel: Channel | undefined;
  #connectedAt = 0;
  #whole: Whole = 'yes';
  /** Topics that changed and were not confirmed. */
  readonly #owed = new Set<string>();
  #running: Promise<void> | undefined;
  #waiting: Array<() => void> = [];
  #failures = 0;
  #error: string | undefined;
  #everRegistered = false;
  #retry: Timer | undefined;
  #closed = false;

  constructor(address: string, options: PeerOptions) {
    this.address = address;
    this.#options = options;
  }

  /** True while the name server is known to hold this broker. */
  get isRegistered(): boolean {
    return this.#channel !== undefined && this.#failures === 0 && this.#everRegistered;
  }

  /** Why the last attempt failed; undefined if it did not. */
  get error(): string | undefined {
    return this.#error;
  }

  /** Sends the whole table, or only if the name server holds another version; resolves when that was done or failed. */
  registerWhole(ifChanged: boolean): Promise<void> {
    if (this.#whole !== 'yes') this.#whole = ifChanged ? 'if changed' : 'yes';
    return this.#workAndWait();
  }

  /** Sends changed topics; resolves when that was done or failed, and at once if this name server is failing anyway. */
  registerTopics(names: Iterable<string>): Promise<void> {
    for (const name of names) this.#owed.add(name);
    if (this.#failures > 0) return Promise.resolve();
    return this.#workAndWait();
  }

  /** Takes the broker off this name server, within 3 s, and closes the connection. Never rejects. */
  async stop(): Promise<void> {
    this.#closed = true;
    this.#retry?.cancel();
    const { clock, logger, identity } = this.#options;
    // What is under way goes first, so that it cannot arrive after the farewell.
    await within(clock, UNDER_WAY_MS, this.#running ?? Promise.resolve());
    const channel = this.#channel;
    if (channel === undefined) return;
    const { clusterName, brokerName, brokerAddr, brokerId } = identity;
    const ext: ExtFields = { brokerAddr, brokerId, brokerName, clusterName };
    try {
      const response = await channel.invoke(RequestCode.UNREGISTER_BROKER, ext, null, UNREGISTER_TIMEOUT_MS);
      if (response.code !== ResponseCode.SUCCESS) throw refused(response);
      logger.info(`unregistered from the name server ${this.address}`);
    } catch (error) {
      logger.warn(`cannot unregister from the name server ${this.address}: ${errorText(error)}`);
    }
    this.#channel = undefined;
    channel.close('this broker stops');
  }

  /** Stops registering and closes the connection without a word; the name server notices. */
  drop(): void {
    this.#closed = true;
    this.#retry?.cancel();
    const channel = this.#channel;
    this.#channel = undefined;
    channel?.close('this name server is no longer in the list');
  }

  #workAndWait(): Promise<void> {
    if (this.#closed) return Promise.resolve();
    const done = new Promise<void>((resolve) => this.#waiting.push(resolve));
    this.#work();
    return done;
  }

  #work(): void {
    if (this.#running !== undefined) return;
    if (this.#closed) return this.#release(this.#waiting.splice(0));
    this.#retry?.cancel();
    this.#retry = undefined;
    this.#running = this.#run().finally(() => {
      this.#running = undefined;
      // What came between the last look and now.
      if (this.#waiting.length > 0) this.#work();
    });
  }

  async #run(): Promise<void> {
    while (!this.#closed && (this.#whole !== 'no' || this.#owed.size > 0)) {
      const served = this.#waiting;
      this.#waiting = [];
      try {
        const channel = this.#channel ?? (await this.#connect());
        await this.#step(channel);
        this.#succeeded();
      } catch (error) {
        this.#failed(error);
        return this.#release(this.#waiting.splice(0));
      } finally {
        this.#release(served);
      }
    }
    this.#release(this.#waiting.splice(0));
  }

  #release(waiting: Array<() => void>): void {
    for (const resolve of waiting) resolve();
  }

  async #connect(): Promise<Channel> {
    this.#whole = 'yes';
    const channel = await this.#options.connect(this.address);
    if (this.#closed) {
      channel.close('this broker stops');
      throw new GantryError('CLIENT_STATE', 'the broker stops');
    }
    this.#channel = channel;
    this.#connectedAt = this.#options.clock.monotonic();
    channel.onClose(() => this.#connectionEnded(channel));
    return channel;
  }

  #connectionEnded(channel: Channel): void {
    if (this.#channel !== channel) return;
    this.#channel = undefined;
    this.#whole = 'yes';
    if (this.#closed || this.#running !== undefined) return;
    const { clock, logger } = this.#options;
    logger.warn(`the connection to the name server ${this.address} ended; registering again`);
    // At once, but not again and again with something that hangs up on everybody.
    const lasted = clock.monotonic() - this.#connectedAt;
    this.#retryAfter(lasted < FIRST_RETRY_MS ? FIRST_RETRY_MS : 0);
  }

  /** Sends one request, or two if it asks first. On return what it covered is owed no more. */
  async #step(channel: Channel): Promise<void> {
    const whole = this.#whole;
    const names = [...this.#owed];
    this.#whole = 'no';
    this.#owed.clear();
    try {
      // So many are long text: the whole table is built between other work, these would not be.
      if (
        whole === 'yes' ||
        names.length > MOST_NAMES ||
        (whole === 'if changed' && (await this.#isChanged(channel)))
      ) {
        const response = await this.#register(channel, await this.#options.bodies.whole());
        if (response.code !== ResponseCode.SUCCESS) throw refused(response);
        return this.#options.registered(this, response);
      }
      if (names.length === 0) return;
      if (this.#options.singleTopics) return await this.#registerOneByOne(channel, names);
      const response = await this.#register(channel, this.#options.bodies.some(names));
      if (response.code === ResponseCode.SUCCESS) return this.#options.registered(this, response);
      // It does not know this broker (any more): the next round sends the whole table.
      if (whole !== 'no') throw refused(response);
      this.#whole = 'yes';
    } catch (error) {
      this.#whole = 'yes';
      for (const name of names) this.#owed.add(name);
      throw error;
    }
  }

  #register(channel: Channel, body: RegistrationBody): Promise<RemotingResponse> {
    const { clusterName, brokerName, brokerAddr, brokerId, haServerAddr } = this.#options.identity;
    const ext: ExtFields = {
      bodyCrc32: body.crc,
      brokerAddr,
      brokerId,
      brokerName,
      clusterName,
      compressed: false,
      enableActingMaster: false,
      haServerAddr,
    };
    return channel.invoke(RequestCode.REGISTER_BROKER, ext, body.bytes, this.#options.requestTimeoutMs);
  }

  async #registerOneByOne(channel: Channel, names: readonly string[]): Promise<void> {
    const { bodies, identity, requestTimeoutMs } = this.#options;
    for (const topic of names) {
      const body = bodies.route(topic, identity.brokerName);
      if (body === undefined) continue;
      const { REGISTER_TOPIC_IN_NAMESRV } = RequestCode;
      const response = await channel.invoke(REGISTER_TOPIC_IN_NAMESRV, { topic }, body, requestTimeoutMs);
      if (response.code !== ResponseCode.SUCCESS) throw refused(response);
    }
  }

  async #isChanged(channel: Channel): Promise<boolean> {
    const { clusterName, brokerName, brokerAddr, brokerId } = this.#options.identity;
    const ext: ExtFields = { brokerAddr, brokerId, brokerName, clusterName };
    const mine = this.#options.bodies.dataVersion();
    const body = Buffer.from(mine, 'utf8');
    const response = await channel.invoke(RequestCode.QUERY_DATA_VERSION, ext, body, this.#options.requestTimeoutMs);
    if (response.code !== ResponseCode.SUCCESS || response.ext['changed'] !== 'false') return true;
    return response.body.length > 0 && !sameVersion(parseJson(response.body), parseJson(mine));
  }

  #succeeded(): void {
    const { logger } = this.#options;
    if (!this.#everRegistered) logger.info(`registered with the name server ${this.address}`);
    else if (this.#failures > 0) logger.info(`registered with the name server ${this.address} again`);
    this.#everRegistered = true;
    this.#failures = 0;
    this.#error = undefined;
  }

  #failed(error: unknown): void {
    const text = errorText(error);
    if (this.#closed) return;
    // One line when it begins, and one when the reason changes: not one for each attempt.
    if (text !== this.#error) {
      this.#options.logger.warn(`cannot register with the name server ${this.address}: ${text}; trying again`);
    }
    this.#error = text;
    const pause = Math.min(LONGEST_RETRY_MS, FIRST_RETRY_MS * 2 ** Math.min(this.#failures, 10));
    this.#failures++;
    this.#retryAfter(pause);
  }

  #retryAfter(pauseMs: number): void {
    this.#retry?.cancel();
    this.#retry = this.#options.clock.after(pauseMs, () => this.#work());
  }
}

/** Waits for something that may never come. */
export function within(clock: Clock, limitMs: number, work: Promise<unknown>): Promise<void> {
  return new Promise((resolve) => {
    const timer = clock.after(limitMs, resolve);
    const done = (): void => {
      timer.cancel();
      resolve();
    };
    work.then(done, done);
  });
}

function sameVersion(a: unknown, b: unknown): boolean {
  return ['counter', 'stateVersion', 'timestamp'].every((field) => fieldOf(a, field) === fieldOf(b, field));
}

function fieldOf(value: unknown, field: string): number {
  return typeof value === 'object' && value !== null ? Number((value as Record<string, unknown>)[field] ?? 0) : 0;
}
