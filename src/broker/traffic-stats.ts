// What goes into each topic and out to each group, over the last minute, hour and day: VIEW_BROKER_STATS_DATA, and the rates that tools
// show. Those who handle messages add to plain numbers that they keep at hand; sampling them is all that it costs beyond that.
// RocketMQ: BrokerStatsManager, LmqBrokerStatsManager, StatsItemSet, StatsItem. Of its names TOPIC_PUT_LATENCY and GROUP_GET_LATENCY are
// not kept: they would take a clock and a table of every queue at each message. GROUP_GET_FROM_DISK_..., BROKER_GET_FROM_DISK_...,
// DLQ_PUT_NUMS and COMMERCIAL_... it never adds to itself, so that nothing is counted there either.

import type { Clock, Timer } from '../common/index.ts';
import { isLightQueue } from '../store/index.ts';
import { InTurns } from './in-turns.ts';
import { SCHEDULE_TOPIC } from './topic/topic-names.ts';

/** What has gone so far. */
export class TrafficCount {
  messages = 0;
  bytes = 0;
  /** Sends or pulls that it came in. */
  requests = 0;
}

/** Key of what the delay levels have given out. RocketMQ: MixAll.SCHEDULE_CONSUMER_GROUP reads the schedule topic. */
const SCHEDULE_CONSUMER = 'SCHEDULE_CONSUMER';
/** Stands for every light queue and its group while `enableLmqStats` is off. RocketMQ: MixAll.LMQ_PREFIX. */
const LIGHT_QUEUES = '%LMQ%';
/** RocketMQ: a figure is kept for half an hour at least. */
const LEAST_IDLE_MINUTES = 10;
const LEAST_IDLE_KEPT_MINUTES = 30;

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

/** Keys of dead letters that are counted, and characters of the longest. */
const MOST_DEAD_LETTERS = 10_000;
const LONGEST_DEAD_LETTER = 1024;

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
const MINUTE_MS = 60_000;

interface Sample {
  readonly atMs: number;
  readonly messages: number;
  readonly bytes: number;
  readonly requests: number;
}

class TrafficItem {
  readonly count = new TrafficCount();
  /** Not shown: it has stood still for too long. */
  hidden = false;
  /** One list a span, the oldest first. */
  readonly #samples: readonly Sample[][] = SPANS.map(() => []);
  /** What it had come to when it moved last, and when that was seen. */
  #lastMessages = 0;
  #lastRequests = 0;
  #movedAt = -1;
  #hiddenBytes = 0;

  sample(span: number, now: number): void {
    const { messages, bytes, requests } = this.count;
    if (this.#movedAt < 0 || messages !== this.#lastMessages || requests !== this.#lastRequests) {
      if (this.hidden) this.#begin(now);
      this.#movedAt = now;
      this.#lastMessages = messages;
      this.#lastRequests = requests;
    }
    if (this.hidden) return;
    const list = this.#samples[span]!;
    const { everyMs, samples } = SPANS[span]!;
    if (list.length === 0) list.push({ atMs: now - everyMs, messages: 0, bytes: 0, requests: 0 });
    list.push({ atMs: now, messages, bytes, requests });
    if (list.length > samples) list.shift();
  }

  /** Is shown again: what was counted before it was hidden belongs to no span. */
  #begin(now: number): void {
    this.hidden = false;
    const atMs = now - SPANS[MINUTE].everyMs;
    const before = { atMs, messages: this.#lastMessages, bytes: this.#hiddenBytes, requests: this.#lastRequests };
    for (const list of this.#samples) list.push(before);
  }

  /** Hides it, and lets its samples go, if it has stood still for so long. */
  hideIfIdle(now: number, idleMs: number): void {
    if (this.hidden || now - this.#movedAt <= idleMs) return;
    this.hidden = true;
    this.#hiddenBytes = this.count.bytes;
    for (const list of this.#samples) list.length = 0;
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

/** The counts of one kind, by topic or by `topic@group`. What goes through all of them does so in steps (InTurns). */
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

  has(key: string): boolean {
    return this.#items.has(key);
  }

  get size(): number {
    return this.#items.size;
  }

  /** Messages a second of the last minute. */
  tps(key: string): number {
    return this.#items.get(key)?.rate(MINUTE, 'messages').tps ?? 0;
  }

  view(key: string, of: Measure): TrafficView | undefined {
    const item = this.#items.get(key);
    if (item === undefined || item.hidden) return undefined;
    return { statsDay: item.rate(DAY, of), statsHour: item.rate(HOUR, of), statsMinute: item.rate(MINUTE, of) };
  }

  /** Messages of all whose key is chosen. */
  *sum(isChosen: (key: string) => boolean): Generator<undefined, number> {
    let sum = 0;
    for (const [key, item] of this.#items) {
      if (isChosen(key)) sum += item.count.messages;
      yield;
    }
    return sum;
  }

  *sample(span: number, now: number): Generator<undefined, void> {
    for (const item of this.#items.values()) {
      item.sample(span, now);
      yield;
    }
  }

  /** Shows no longer what has stood still for so long; whoever adds to it still may. RocketMQ: cleanResource. */
  *hideIdle(now: number, idleMs: number): Generator<undefined, void> {
    for (const item of this.#items.values()) {
      item.hideIfIdle(now, idleMs);
      yield;
    }
  }

  /** Adds to a count of one kind whose requests are all that counts, or their time in ms. */
  add(key: string, value = 1): void {
    const count = this.of(key);
    count.messages += value;
    count.requests++;
  }

  /** Forgets what is there no longer. */
  *keep(exists: (key: string) => boolean): Generator<undefined, void> {
    for (const key of this.#items.keys()) {
      if (!exists(key)) this.#items.delete(key);
      yield;
    }
  }
}

/** What the broker has counted as a whole, and what is there. */
export interface TrafficSource {
  /** Key of the broker's own numbers. */
  readonly clusterName: string;
  /** Looked at when it matters: most of it may change. */
  readonly config: {
    readonly enableDetailStat: boolean;
    readonly autoDeleteUnusedStats: boolean;
    readonly maxStatsIdleTimeInMinutes: number;
    readonly enableLmqStats: boolean;
  };
  total(): { readonly putMessages: number; readonly getMessages: number };
  hasTopic(topic: string): boolean;
  isSystemTopic(topic: string): boolean;
  /** Of a `topic@group`: whether the group has offsets of the topic, or of its lite topics. */
  hasOffsets(key: string): boolean;
}

export class TrafficStats {
  /** Sends by topic. */
  readonly puts: TrafficSet = new TrafficSet();
  /** Pulls, and messages that came back, by `topic@group`. */
  readonly gets: TrafficSet = new TrafficSet();
  readonly sendBacks: TrafficSet = new TrafficSet();
  /** What pops were given and what was acknowledged, by `topic@group`. */
  readonly checkPoints: TrafficSet = new TrafficSet();
  readonly acks: TrafficSet = new TrafficSet();
  /** Messages that became dead letters, by `owner@topic@group@SEND_BACK_TO_DLQ`. */
  readonly #deadLetters = new TrafficSet();
  /** Ms that registering took, by cluster. */
  readonly consumerRegistrations: TrafficSet = new TrafficSet();
  readonly producerRegistrations: TrafficSet = new TrafficSet();
  /** Connections that came (CONNECT) and went (CLOSE). */
  readonly channels: TrafficSet = new TrafficSet();
  /** The delay levels' queues, by `topic@queueId` and `topic@queueId@group`. RocketMQ: counts no other queues. */
  readonly #queuePuts = new TrafficSet();
  readonly #queueGets = new TrafficSet();
  readonly #brokerPuts = new TrafficSet();
  readonly #brokerGets = new TrafficSet();
  readonly #brokerPutsOfUsers = new TrafficSet();
  readonly #brokerGetsOfUsers = new TrafficSet();
  readonly #brokerAcks = new TrafficSet();
  readonly #brokerCheckPoints = new TrafficSet();
  readonly #byName: ReadonlyMap<string, readonly [TrafficSet, Measure]>;
  readonly #sets: ReadonlySet<TrafficSet>;
  readonly #clock: Clock;
  readonly #source: TrafficSource;
  readonly #upkeep: InTurns;
  #timers: Timer[] = [];

  constructor(clock: Clock, source: TrafficSource) {
    this.#clock = clock;
    this.#upkeep = new InTurns(clock);
    this.#source = source;
    this.#byName = new Map<string, readonly [TrafficSet, Measure]>([
      ['TOPIC_PUT_NUMS', [this.puts, 'messages']],
      ['TOPIC_PUT_SIZE', [this.puts, 'bytes']],
      ['GROUP_GET_NUMS', [this.gets, 'messages']],
      ['GROUP_GET_SIZE', [this.gets, 'bytes']],
      ['SNDBCK_PUT_NUMS', [this.sendBacks, 'messages']],
      ['SNDBCK2DLQ_TIMES', [this.#deadLetters, 'messages']],
      ['QUEUE_PUT_NUMS', [this.#queuePuts, 'messages']],
      ['QUEUE_PUT_SIZE', [this.#queuePuts, 'bytes']],
      ['QUEUE_GET_NUMS', [this.#queueGets, 'messages']],
      ['QUEUE_GET_SIZE', [this.#queueGets, 'bytes']],
      ['GROUP_ACK_NUMS', [this.acks, 'messages']],
      ['GROUP_CK_NUMS', [this.checkPoints, 'messages']],
      ['BROKER_PUT_NUMS', [this.#brokerPuts, 'messages']],
      ['BROKER_GET_NUMS', [this.#brokerGets, 'messages']],
      ['BROKER_PUT_NUMS_WITHOUT_SYSTEM_TOPIC', [this.#brokerPutsOfUsers, 'messages']],
      ['BROKER_GET_NUMS_WITHOUT_SYSTEM_TOPIC', [this.#brokerGetsOfUsers, 'messages']],
      ['BROKER_ACK_NUMS', [this.#brokerAcks, 'messages']],
      ['BROKER_CK_NUMS', [this.#brokerCheckPoints, 'messages']],
      ['CONSUMER_REGISTER_TIME', [this.consumerRegistrations, 'messages']],
      ['PRODUCER_REGISTER_TIME', [this.producerRegistrations, 'messages']],
      ['CHANNEL_ACTIVITY', [this.channels, 'messages']],
    ]);
    this.#sets = new Set([...this.#byName.values()].map(([set]) => set));
  }

  start(): void {
    this.#timers = SPANS.map(({ everyMs }, span) =>
      this.#clock.every(everyMs, () => this.#upkeep.run(this.#sample(span, this.#clock.now()))),
    );
  }

  stop(): void {
    for (const timer of this.#timers) timer.cancel();
    this.#upkeep.stop();
  }

  /** Key of a topic and a group; light queues, which are very many, share one unless `enableLmqStats` is on. */
  groupKey(topic: string, group: string): string {
    return `${this.#shown(topic)}@${this.#shown(group)}`;
  }

  #shown(name: string): string {
    return !this.#source.config.enableLmqStats && isLightQueue(name) ? LIGHT_QUEUES : name;
  }

  /** A message was stored for a delay level. */
  delayed(queueId: number, bytes: number): void {
    if (this.#source.config.enableDetailStat) addTo(this.#queuePuts.of(`${SCHEDULE_TOPIC}@${queueId}`), bytes);
  }

  /** A delay level has delivered a message to its real topic, where it took so many bytes. */
  delivered(topic: string, queueId: number, bytes: number): void {
    if (this.#source.config.enableDetailStat)
      addTo(this.#queueGets.of(`${SCHEDULE_TOPIC}@${queueId}@${SCHEDULE_CONSUMER}`), bytes);
    addTo(this.gets.of(`${SCHEDULE_TOPIC}@${SCHEDULE_CONSUMER}`), bytes);
    addTo(this.puts.of(topic), bytes);
  }

  /** Pops have been given so many messages, each with a check point. */
  checkPointed(topic: string, group: string, messages: number): void {
    this.checkPoints.add(this.groupKey(topic, group), messages);
    this.#brokerCheckPoints.add(this.#source.clusterName, messages);
  }

  /** So many messages of pops were acknowledged, or given another time. */
  acknowledged(topic: string, group: string, messages: number): void {
    const key = this.groupKey(topic, group);
    // Anybody may acknowledge in the name of any group.
    if (this.acks.has(key) || key.includes(LIGHT_QUEUES) || this.#source.hasOffsets(key)) this.acks.add(key, messages);
    this.#brokerAcks.add(this.#source.clusterName, messages);
  }

  /** A message became a dead letter; owner and topic are what its client says, which may be anything. RocketMQ: keeps every one. */
  deadLettered(owner: string | null, topic: string | null, group: string): void {
    const key = `${owner}@${topic}@${group}@SEND_BACK_TO_DLQ`;
    const isNew = !this.#deadLetters.has(key);
    if (isNew && (this.#deadLetters.size >= MOST_DEAD_LETTERS || key.length > LONGEST_DEAD_LETTER)) return;
    this.#deadLetters.add(key);
  }

  /** The numbers of a name and a key of RocketMQ; undefined if nothing was counted there, or it is not counted. */
  view(name: string, key: string): TrafficView | undefined {
    const entry = this.#byName.get(name);
    return entry?.[0].view(key, entry[1]);
  }

  *#sample(span: number, now: number): Generator<undefined, void> {
    yield* this.#sum();
    for (const set of this.#sets) yield* set.sample(span, now);
    if (span === HOUR) yield* this.#clean(now);
  }

  /** The broker's own numbers. */
  *#sum(): Generator<undefined, void> {
    const { clusterName, isSystemTopic, total } = this.#source;
    const { putMessages, getMessages } = total();
    this.#brokerPuts.of(clusterName).messages = putMessages;
    this.#brokerGets.of(clusterName).messages = getMessages;
    const putsOfSystem = yield* this.puts.sum((topic) => isSystemTopic(topic));
    const getsOfSystem = yield* this.gets.sum((key) => isSystemTopic(key.slice(0, key.indexOf('@'))));
    this.#brokerPutsOfUsers.of(clusterName).messages = Math.max(0, putMessages - putsOfSystem);
    this.#brokerGetsOfUsers.of(clusterName).messages = Math.max(0, getMessages - getsOfSystem);
  }

  *#clean(now: number): Generator<undefined, void> {
    const { config, hasTopic, hasOffsets } = this.#source;
    if (config.autoDeleteUnusedStats) {
      yield* this.puts.keep(hasTopic);
      const keptApart = `${SCHEDULE_TOPIC}@${SCHEDULE_CONSUMER}`;
      const isThere = (key: string): boolean => key === keptApart || key.includes(LIGHT_QUEUES) || hasOffsets(key);
      for (const set of [this.gets, this.sendBacks]) yield* set.keep(isThere);
      for (const set of [this.acks, this.checkPoints]) {
        yield* set.keep((key) => hasTopic(key.slice(0, key.lastIndexOf('@'))));
      }
    }
    const minutes = config.maxStatsIdleTimeInMinutes;
    if (minutes < 0) return;
    const idleMs = (minutes <= LEAST_IDLE_MINUTES ? LEAST_IDLE_KEPT_MINUTES : minutes) * MINUTE_MS;
    for (const set of [this.puts, this.gets, this.sendBacks]) yield* set.hideIdle(now, idleMs);
  }
}

function addTo(count: TrafficCount, bytes: number): void {
  count.messages++;
  count.bytes += bytes;
  count.requests++;
}
