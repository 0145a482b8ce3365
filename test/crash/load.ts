// The sender, a process of its own: `load.js JSON` sends over several connections with a window of requests in flight on each, kills
// the broker at its moment, and then, when the last connection is gone, writes down what was acknowledged. It kills the broker itself,
// so that a moment can be "right after the hundredth acknowledgement".

import { CollectingLogger, systemClock } from '../../src/common/index.ts';
import { RemotingClient, RequestCode, ResponseCode, SerializeType } from '../../src/remoting/index.ts';
import { callerOf, Deleter, type DeleterState } from './deleter.ts';
import { ManifestWriter } from './manifest.ts';
import { type Draft, draftOf, GROUP, MOST_REQUESTS } from './messages.ts';
import { placesOf, sendDraft } from './send.ts';

/** When the broker is killed. */
export interface KillMoment {
  /** After so many acknowledged or sent requests, or so many ms after the first acknowledgement; never before that. */
  when: 'acknowledged' | 'sent' | 'ms';
  count: number;
}

/** What the sender is told. */
export interface LoadOptions {
  addr: string;
  seed: number;
  life: number;
  connections: number;
  /** Requests in flight on each. */
  window: number;
  manifest: string;
  pid: number;
  kill: KillMoment;
  /** The topic that is deleted again and again, as the last life left it. */
  deleter: DeleterState | undefined;
}

/** What the sender says at its end. */
export interface LoadReport {
  requests: number;
  /** Messages. */
  acknowledged: number;
  /** Answers other than success, by code, with a remark of each. */
  refused: Record<string, { count: number; remark: string }>;
  /** What went wrong before the broker was killed. */
  faults: string[];
  /** The topic that was deleted again and again. */
  deleter: DeleterState;
}

/** The broker is killed after so long in any case. */
const LIMIT_MS = 4000;
const PROGRESS_EVERY = 100;

/** Answers that say that the message is stored, though not as safely as asked: no promise. */
const UNSURE: ReadonlySet<number> = new Set([
  ResponseCode.FLUSH_DISK_TIMEOUT,
  ResponseCode.FLUSH_SLAVE_TIMEOUT,
  ResponseCode.SLAVE_NOT_AVAILABLE,
]);

class Load {
  readonly #options: LoadOptions;
  readonly #manifest = new ManifestWriter();
  readonly #logger = new CollectingLogger();
  readonly #clients: RemotingClient[] = [];
  readonly #refused: LoadReport['refused'] = {};
  readonly #faults: string[] = [];
  readonly #consumed = new Map<string, number>();
  /** Requests of each connection. */
  readonly #sent: number[] = [];
  #requests = 0;
  #answers = 0;
  #inFlight = 0;
  #killed = false;
  #ended: () => void = () => {};

  constructor(options: LoadOptions) {
    this.#options = options;
  }

  async run(): Promise<LoadReport> {
    const { connections, addr } = this.#options;
    const ended = new Promise<void>((resolve) => {
      this.#ended = resolve;
    });
    for (let i = 0; i < connections; i++) {
      const serializeType = i % 3 === 2 ? SerializeType.ROCKETMQ : SerializeType.JSON;
      const client = new RemotingClient({ clock: systemClock, logger: this.#logger, serializeType });
      await client.connect(addr);
      client.onDisconnect(() => this.#lost());
      this.#clients.push(client);
      this.#sent.push(0);
    }
    const limit = systemClock.after(LIMIT_MS, () => this.#kill());
    const deleter = new Deleter(callerOf(this.#clients[0]!.channel(addr)!), this.#options.life, this.#options.deleter);
    for (let i = 0; i < connections; i++) for (let j = 0; j < this.#options.window; j++) this.#send(i);
    await ended;
    limit.cancel();
    if (deleter.fault !== undefined) this.#faults.push(deleter.fault);
    this.#manifest.write(this.#options.manifest, this.#options.life, this.#sent);
    return {
      requests: this.#requests,
      acknowledged: this.#manifest.acknowledged,
      refused: this.#refused,
      faults: this.#faults,
      deleter: deleter.state,
    };
  }

  #send(connection: number): void {
    const { seed, life, connections } = this.#options;
    const channel = this.#clients[connection]!.channel(this.#options.addr);
    if (channel === undefined || this.#killed || this.#requests >= MOST_REQUESTS) return;
    // The number says which connection it is: what one connection sends to a queue must lie there in the order of its numbers.
    const n = this.#sent[connection]! * connections + connection;
    this.#sent[connection]!++;
    this.#requests++;
    const draft = draftOf(seed, life, n);
    this.#inFlight++;
    sendDraft(channel, draft, systemClock.now(), (error, response) => {
      this.#inFlight--;
      if (response !== undefined) {
        this.#answered(n, draft, response.code, response.remark ?? '', () => placesOf(response));
        this.#send(connection);
      } else if (error?.code === 'REMOTING_TIMEOUT') {
        this.#faults.push(`request ${n} was not answered: ${error.message}`);
      }
      if (this.#inFlight === 0 && this.#killed) this.#ended();
    });
    const { kill } = this.#options;
    if (kill.when === 'sent' && this.#answers > 0 && this.#requests >= kill.count) {
      // What this turn sends leaves first.
      systemClock.soon(() => this.#kill());
    }
  }

  #answered(n: number, draft: Draft, code: number, remark: string, places: () => ReturnType<typeof placesOf>): void {
    const { kill } = this.#options;
    if (code !== ResponseCode.SUCCESS) {
      const entry = this.#refused[code];
      if (entry === undefined) this.#refused[code] = { count: 1, remark };
      else entry.count++;
      if (!UNSURE.has(code)) this.#manifest.refuse(n, code);
      return;
    }
    const { queueOffset, physicalOffsets } = places();
    this.#manifest.acknowledge(n, queueOffset, physicalOffsets);
    this.#answers++;
    if (this.#answers === 1 && kill.when === 'ms') systemClock.after(kill.count, () => this.#kill());
    if (kill.when === 'acknowledged' && this.#answers >= kill.count) this.#kill();
    if (this.#answers % PROGRESS_EVERY === 0) this.#consume(draft, queueOffset + physicalOffsets.length);
  }

  /** A consumer says how far it has come in a queue. */
  #consume(draft: Draft, offset: number): void {
    const { topic, queueId } = draft;
    const key = `${topic}/${queueId}`;
    const channel = this.#clients[0]!.channel(this.#options.addr);
    if (channel === undefined || this.#killed || offset <= (this.#consumed.get(key) ?? 0)) return;
    this.#consumed.set(key, offset);
    this.#manifest.progress(topic, queueId, offset);
    channel.sendOneway(RequestCode.UPDATE_CONSUMER_OFFSET, {
      consumerGroup: GROUP,
      topic,
      queueId,
      commitOffset: offset,
    });
  }

  #kill(): void {
    if (this.#killed) return;
    this.#killed = true;
    try {
      process.kill(this.#options.pid, 'SIGKILL');
    } catch (error) {
      this.#faults.push(`the broker was gone before it was killed: ${String(error)}`);
    }
    if (this.#inFlight === 0) this.#ended();
  }

  /** A connection is gone: as it should be after the kill, not before. */
  #lost(): void {
    if (this.#killed) return;
    this.#faults.push(`a connection was lost before the kill: ${this.#logger.texts().slice(-3).join('; ')}`);
    this.#kill();
  }
}

const report = await new Load(JSON.parse(process.argv[2] ?? '{}') as LoadOptions).run();
process.stdout.write(`${JSON.stringify(report)}\n`);
