// What goes into each topic and out to each group, over the last minute, hour and day: VIEW_BROKER_STATS_DATA, and the rates that tools
// show. Those who handle messages add to plain numbers that they keep at hand; sampling them is all that it costs beyond that.
// RocketMQ: BrokerStatsManager, StatsItemSet, StatsItem.

import type { Clock, Timer } from '../common/index.ts';

/** What has gone so far. */
export class TrafficCount {
  messages = 0;
  bytes = 0;
  /** Sends or pulls that it came in. */
  requests = 0;
}

/** Numbers over a span. RocketMQ: BrokerStatsItem. */
export interface TrafficRate {
  readonly sum: number;
  /** A second. */
  readonly tps: number;
  /** A request. */
  readonly avgpt: number;
}

/** RocketMQ: BrokerStatsData. */
export interface TrafficView {
  readonly statsDay: TrafficRate;
  readonly statsHour: TrafficRate;
  readonly statsMinute: TrafficRate;
}

type Measure = 'messages' | 'bytes';

/** Time between two samples and how many are kept: a minute, an hour and a day. */
const SPANS = [
  { everyMs: 10_000, samples: 7 },
  { everyMs: 600_000, samples: 7 },
  { everyMs: 3_600_000, samples: 25 },
] as const;
const MINUTE = 0;
const HOUR = 1;
const DAY = 2;

interface Sample {
  readonly atMs: number;
  readonly messages: number;
  readonly bytes: number;
  readonly requests: number;
}

class TrafficItem {
  readonly count = new TrafficCount();
  /** One list a span, the oldest first. */
  readonly #samples: readonly Sample[][] = SPANS.map(() => []);

  sample(span: number, now: number): void {
    const list = this.#samples[span]!;
    const { everyMs, samples } = SPANS[span]!;
    const { messages, bytes, requests } = this.count;
    if (list.length === 0) list.push({ atMs: now - everyMs, messages: 0, bytes: 0, requests: 0 });
    list.push({ atMs: now, messages, bytes, requests });
    if (list.length > samples) list.shift();
  }

  rate(span: number, of: Measure): TrafficRate {
    const list = this.#samples[span]!;
    const [first, last] = [list[0], list.at(-1)];
    if (first === undefined || last === undefined) return { avgpt: 0, sum: 0, tps: 0 };
    const sum = last[of] - first[of];
    const requests = last.requests - first.requests;
    return { avgpt: requests > 0 ? sum / requests : 0, sum, tps: (sum * 1000) / (last.atMs - first.atMs) };
  }
}

/** The counts of one kind, by topic or by `topic@group`. */
export class TrafficSet {
  readonly #items = new Map<string, TrafficItem>();

  /** The count to add to; it may be kept for as long as its topic or group is there. */
  of(key: string): TrafficCount {
    let item = this.#items.get(key);
    if (item === undefined) {
      item = new TrafficItem();
      this.#items.set(key, item);
    }
    return item.count;
  }

  /** Messages a second of the last minute. */
  tps(key: string): number {
    return this.#items.get(key)?.rate(MINUTE, 'messages').tps ?? 0;
  }

  view(key: string, of: Measure): TrafficView | undefined {
    const item = this.#items.get(key);
    if (item === undefined) return undefined;
    return { statsDay: item.rate(DAY, of), statsHour: item.rate(HOUR, of), statsMinute: item.rate(MINUTE, of) };
  }

  sample(span: number, now: number): void {
    for (const item of this.#items.values()) item.sample(span, now);
  }

  /** Forgets what is there no longer. */
  keep(exists: (key: string) => boolean): void {
    for (const key of this.#items.keys()) if (!exists(key)) this.#items.delete(key);
  }
}

/** What the broker has counted as a whole, and what is there. */
export interface TrafficSource {
  /** Key of the broker's own numbers. */
  readonly clusterName: string;
  total(): { readonly putMessages: number; readonly getMessages: number };
  hasTopic(topic: string): boolean;
  /** `topic@group`. */
  hasOffsets(key: string): boolean;
}

export class TrafficStats {
  /** Sends by topic. */
  readonly puts: TrafficSet = new TrafficSet();
  /** Pulls, and messages that came back, by `topic@group`. */
  readonly gets: TrafficSet = new TrafficSet();
  readonly sendBacks: TrafficSet = new TrafficSet();
  /** Check points of pops, and acknowledged messages, by `topic@group`, and of the whole broker. */
  readonly #checkPoints = new TrafficSet();
  readonly #acks = new TrafficSet();
  readonly #brokerCheckPoints = new TrafficSet();
  readonly #brokerAcks = new TrafficSet();
  readonly #brokerPuts = new TrafficSet();
  readonly #brokerGets = new TrafficSet();
  readonly #clock: Clock;
  readonly #source: TrafficSource;
  #timers: Timer[] = [];

  constructor(clock: Clock, source: TrafficSource) {
    this.#clock = clock;
    this.#source = source;
  }

  start(): void {
    this.#timers = SPANS.map(({ everyMs }, span) => this.#clock.every(everyMs, () => this.#sample(span)));
  }

  stop(): void {
    for (const timer of this.#timers) timer.cancel();
  }

  /** Counts a check point. */
  checkPoint(topic: string, group: string): void {
    this.#checkPoints.of(`${topic}@${group}`).messages++;
    this.#brokerCheckPoints.of(this.#source.clusterName).messages++;
  }

  /** Counts acknowledged messages. */
  acked(topic: string, group: string, count: number): void {
    this.#acks.of(`${topic}@${group}`).messages += count;
    this.#brokerAcks.of(this.#source.clusterName).messages += count;
  }

  /** The numbers of a name and a key of RocketMQ; undefined if nothing was counted there, or it is not counted. */
  view(name: string, key: string): TrafficView | undefined {
    switch (name) {
      case 'TOPIC_PUT_NUMS':
        return this.puts.view(key, 'messages');
      case 'TOPIC_PUT_SIZE':
        return this.puts.view(key, 'bytes');
      case 'GROUP_GET_NUMS':
        return this.gets.view(key, 'messages');
      case 'GROUP_GET_SIZE':
        return this.gets.view(key, 'bytes');
      case 'SNDBCK_PUT_NUMS':
        return this.sendBacks.view(key, 'messages');
      case 'GROUP_CK_NUMS':
        return this.#checkPoints.view(key, 'messages');
      case 'GROUP_ACK_NUMS':
        return this.#acks.view(key, 'messages');
      case 'BROKER_CK_NUMS':
        return this.#brokerCheckPoints.view(key, 'messages');
      case 'BROKER_ACK_NUMS':
        return this.#brokerAcks.view(key, 'messages');
      case 'BROKER_PUT_NUMS':
        return this.#brokerPuts.view(key, 'messages');
      case 'BROKER_GET_NUMS':
        return this.#brokerGets.view(key, 'messages');
      default:
        return undefined;
    }
  }

  #sample(span: number): void {
    const now = this.#clock.now();
    const { putMessages, getMessages } = this.#source.total();
    this.#brokerPuts.of(this.#source.clusterName).messages = putMessages;
    this.#brokerGets.of(this.#source.clusterName).messages = getMessages;
    const pops = [this.#checkPoints, this.#acks];
    const ofBroker = [this.#brokerPuts, this.#brokerGets, this.#brokerCheckPoints, this.#brokerAcks];
    for (const set of [this.puts, this.gets, this.sendBacks, ...pops, ...ofBroker]) set.sample(span, now);
    if (span !== HOUR) return;
    this.puts.keep((topic) => this.#source.hasTopic(topic));
    for (const set of [this.gets, ...pops]) set.keep((key) => this.#source.hasOffsets(key));
    this.sendBacks.keep((key) => this.#source.hasOffsets(key));
  }
}
