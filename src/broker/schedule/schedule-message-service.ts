// Delay levels: a message that asks for one waits in SCHEDULE_TOPIC_XXXX, queue level - 1, and is stored once more in its real topic when its
// time has come. Every queue is in order of due time, so each level is one position that moves on (delay-offsets.ts).
//
// A level sleeps until its next message falls due; two looks a second at the ends of the queues wake those that had nothing, which is in
// time for the shortest level (1 s). Due messages are put in runs, and a position moves only past what is as durable as the store
// promises.
//
// A message is due at the time in its queue unit, which is that of the levels it was stored with: another `messageDelayLevel` changes
// nothing for those that wait, unless they would wait longer than the level now says. What waits in a level that is gone stays there
// until the level is back, and each start says so.
//
// A level delivers about a thousand before it waits for the disk; with `enableScheduleAsyncDeliver` that is
// `scheduleAsyncDeliverMaxPendingLimit`. They are settled in their order either way.
//
// RocketMQ: ScheduleMessageService. It polls every level ten times a second, takes a put whose flush timed out for a failed one (and
// delivers twice), lets messages overtake a refused one when it delivers asynchronously, and tries a message that can never be stored
// again for ever; such a one is set aside here, with one line, and counted.

import { errorText, type GantryError, SeldomWarning, type Timer, viewOf } from '../../common/index.ts';
import { MATCH_ALL } from '../../filter/index.ts';
import {
  PropertyName,
  RecordOutcome,
  RecordView,
  readRecord,
  type StoredMessage,
  toMessage,
  Verify,
} from '../../message/index.ts';
import {
  GetMessageStatus,
  GetResult,
  getStatusName,
  type MessageStore,
  PutMessageStatus,
  PutResult,
  parseDelayLevels,
  putStatusName,
  QueueUnits,
  type Removal,
  type RetentionFloor,
} from '../../store/index.ts';
import type { BrokerConfig } from '../broker-config.ts';
import type { BrokerStats } from '../broker-stats.ts';
import type { ConfigEnvironment } from '../config-manager.ts';
import { copyOf, parseJavaInt, toPutRequest } from '../internal-put.ts';
import { SCHEDULE_TOPIC, TRANS_HALF_TOPIC, topicNameFault } from '../topic/topic-names.ts';
import type { TrafficStats } from '../traffic-stats.ts';
import { DelayOffsets } from './delay-offsets.ts';

/** Ms until something that failed is tried again. */
const RETRY_MS = 100;
/** Longest wait between two tries of an asynchronous delivery. */
const MAX_RETRY_MS = 60_000;
/** So many damaged messages are named one by one. */
const MAX_TOLD = 1000;
/** Messages delivered in one turn of the loop. */
const TURN_MESSAGES = 256;
/** Deliveries of a level that may wait for the disk, unless they are asynchronous. */
const MOST_PENDING = 1024;
/** Ms between two looks for messages of sleeping levels. */
const LOOK_MS = 500;
/** Longest timer: the runtime's have 31 bits. */
const MOST_WAIT_MS = 86_400_000;
/** Messages and bytes that one run reads. */
const RUN_MESSAGES = 32;
const RUN_BYTES = 1024 * 1024;

/** What the service works on. */
export interface ScheduleParts {
  readonly config: BrokerConfig;
  readonly store: MessageStore;
  /** Host field of this broker. */
  readonly storeHost: Uint8Array;
  readonly stats: BrokerStats;
  readonly traffic: TrafficStats;
}

/** Deliveries of one run that wait for the disk. */
interface Flight {
  /** The level's position when they are durable. */
  next: number;
  readonly count: number;
  /** Where the last of them ends in the log. */
  readonly end: number;
  done: boolean;
}

/** One level at work. */
interface Level {
  readonly level: number;
  readonly delayMs: number;
  /** Next queue offset to look at. */
  offset: number;
  timer: Timer | undefined;
  /** Ms since 1970 at which `timer` is to go off. */
  wakeMs: number;
  busy: boolean;
  /** Runs under way, oldest first, and their messages. */
  flights: Flight[];
  pending: number;
  /** When to go on, once enough of `pending` is settled; undefined while nothing waits for that. */
  held: number | undefined;
  /** Refusals of the message at `offset`. */
  tries: number;
  /** Messages to read in the next run: many while all that is read is due, one while the level keeps time. */
  ask: number;
  readonly result: GetResult;
}

export class ScheduleMessageService implements RetentionFloor {
  readonly name = 'the delay levels';
  readonly offsets: DelayOffsets;
  readonly #environment: ConfigEnvironment;
  readonly #parts: ScheduleParts;
  readonly #delays: readonly number[];
  readonly #levels: Level[] = [];
  #timers: Timer[] = [];
  #running = false;
  /** Messages that may still be delivered before other work gets its turn. Each level that wants gets one run a turn in any case. */
  #turnLeft = 0;
  /** Levels with more to do in the next turn. */
  readonly #waiting: Level[] = [];
  /** Messages that can be delivered never, since the start. */
  #setAside = 0;
  readonly #seldom: SeldomWarning;
  readonly #units = new QueueUnits();

  constructor(environment: ConfigEnvironment, parts: ScheduleParts) {
    this.offsets = new DelayOffsets(environment, parts);
    this.#environment = environment;
    this.#parts = parts;
    this.#delays = parseDelayLevels(parts.store.config.messageDelayLevel);
    this.#seldom = new SeldomWarning(environment.clock, environment.logger);
  }

  /** Messages set aside since the start: damaged ones, and those that no topic can take. Each has a line in the log. */
  get setAside(): number {
    return this.#setAside;
  }

  get maxDelayLevel(): number {
    return this.#delays.length;
  }

  /** Ms of a level; 0 for a level that does not exist. */
  delayOf(level: number): number {
    return this.#delays[level - 1] ?? 0;
  }

  /** Next offset of each level that has delivered something, and the end of its queue; for the runtime information. */
  *progress(): Generator<{ level: number; offset: number; max: number }> {
    for (const [level, offset] of this.offsets.entries()) {
      yield { level, offset, max: this.#parts.store.maxOffsetInQueue(SCHEDULE_TOPIC, level - 1) };
    }
  }

  /** Messages of a removal whose delivery is not on disk yet. */
  needed(removal: Removal): number {
    let count = 0;
    for (const { topic, queueId, from, to } of removal.moves) {
      if (topic !== SCHEDULE_TOPIC || queueId >= this.#delays.length) continue;
      count += Math.max(0, to - Math.max(from, this.offsets.safeOf(queueId + 1)));
    }
    return count;
  }

  /** Corrects what was loaded and begins to deliver. */
  start(): void {
    const { clock } = this.#environment;
    this.offsets.correct();
    this.#tellLostLevels();
    this.#running = true;
    this.#levels.length = 0;
    for (let level = 1; level <= this.#delays.length; level++) {
      this.#levels.push({
        level,
        delayMs: this.#delays[level - 1]!,
        offset: this.offsets.of(level),
        timer: undefined,
        wakeMs: 0,
        busy: false,
        flights: [],
        pending: 0,
        held: undefined,
        tries: 0,
        ask: RUN_MESSAGES,
        result: new GetResult(),
      });
    }
    for (const level of this.#levels) this.#wakeAt(level, clock.now());
    this.#timers = [
      clock.every(LOOK_MS, () => this.#look()),
      clock.every(this.#parts.config.flushDelayOffsetInterval, () => this.offsets.save()),
    ];
    this.offsets.persistIfChanged();
  }

  /** Delivers nothing more. */
  stop(): void {
    this.#running = false;
    for (const timer of this.#timers) timer.cancel();
    for (const level of this.#levels) level.timer?.cancel();
  }

  /** Saves exactly how far it came; for the end, when it is stopped and the store is closed, so that all deliveries are on disk. */
  close(): void {
    const { flushed } = this.#parts.store.watermarks;
    for (const level of this.#levels) {
      for (const flight of level.flights) flight.done ||= flight.end <= flushed;
      this.#settle(level);
    }
    this.offsets.close();
  }

  /** RocketMQ: says nothing of messages in levels that `messageDelayLevel` no longer has. */
  #tellLostLevels(): void {
    const { store } = this.#parts;
    for (const { topic, queueId } of store.queues()) {
      if (topic !== SCHEDULE_TOPIC || queueId < this.#delays.length) continue;
      const from = Math.max(this.offsets.of(queueId + 1), store.minOffsetInQueue(topic, queueId));
      const waiting = store.maxOffsetInQueue(topic, queueId) - from;
      if (waiting <= 0) continue;
      this.#environment.logger.warn(
        `messageDelayLevel has ${this.#delays.length} levels: ${waiting} messages wait in level ${queueId + 1} until it is back`,
      );
    }
  }

  /** Wakes the sleeping levels for which something has been stored. */
  #look(): void {
    const now = this.#environment.clock.now();
    for (const level of this.#levels) {
      if (level.timer !== undefined && now >= level.wakeMs) {
        // The clock was set ahead: the timer does not know.
        level.timer.cancel();
        level.timer = undefined;
      }
      if (level.busy || level.timer !== undefined) continue;
      if (this.#parts.store.maxOffsetInQueue(SCHEDULE_TOPIC, level.level - 1) > level.offset) this.#run(level);
    }
  }

  #wakeAt(level: Level, atMs: number): void {
    if (!this.#running) return;
    const { clock } = this.#environment;
    const waitMs = atMs - clock.now();
    if (waitMs <= 0) {
      if (this.#turnLeft > 0) this.#run(level);
      else this.#nextTurn(level);
      return;
    }
    level.wakeMs = atMs;
    level.timer = clock.after(Math.min(waitMs, MOST_WAIT_MS), () => {
      level.timer = undefined;
      this.#run(level);
    });
  }

  /** More is due: other work first. */
  #nextTurn(level: Level): void {
    level.busy = true;
    this.#waiting.push(level);
    if (this.#waiting.length > 1) return;
    this.#environment.clock.soon(() => {
      this.#turnLeft = TURN_MESSAGES;
      for (const one of this.#waiting.splice(0)) {
        one.busy = false;
        this.#run(one);
      }
    });
  }

  /** Ends a run; the level goes on at `untilMs`, or sleeps until something is stored for it. */
  #rest(level: Level, untilMs?: number): void {
    level.busy = false;
    if (untilMs !== undefined) this.#wakeAt(level, untilMs);
  }

  #fail(level: Level, error: unknown): void {
    this.#environment.logger.error(
      `delay level ${level.level} cannot be read (${errorText(error)}); it is tried again`,
    );
    this.#rest(level, this.#environment.clock.now() + RETRY_MS);
  }

  /** Reads the next messages of a level and delivers those that are due. */
  #run(level: Level): void {
    if (!this.#running || level.busy) return;
    level.busy = true;
    try {
      this.#step(level);
    } catch (error) {
      this.#fail(level, error);
    }
  }

  #step(level: Level): void {
    const { store } = this.#parts;
    const { result } = level;
    const again = (error?: GantryError): void => {
      if (error !== undefined) {
        this.#fail(level, error);
        return;
      }
      level.busy = false;
      this.#run(level);
    };
    const queueId = level.level - 1;
    const request = {
      topic: SCHEDULE_TOPIC,
      queueId,
      offset: level.offset,
      maxMessages: level.ask,
      maxBytes: RUN_BYTES,
      filter: MATCH_ALL,
    };
    if (!store.select(request, result, again)) return;
    if (result.status !== GetMessageStatus.FOUND) {
      this.#nothingFound(level);
      return;
    }
    const bytes = new Uint8Array(result.totalBytes);
    if (!store.copyRecords(result, bytes, 0, again)) return;
    const next = result.nextBeginOffset;
    if (!store.unitsOf(SCHEDULE_TOPIC, queueId, level.offset, next - level.offset, this.#units, again)) return;
    this.#deliver(level, bytes, next);
  }

  #nothingFound(level: Level): void {
    const { result } = level;
    const next = result.nextBeginOffset;
    const empty =
      result.status === GetMessageStatus.NO_MESSAGE_IN_QUEUE ||
      result.status === GetMessageStatus.NO_MATCHED_LOGIC_QUEUE ||
      result.status === GetMessageStatus.OFFSET_OVERFLOW_ONE;
    if (empty || next === level.offset) {
      this.#rest(level);
      return;
    }
    if (result.status !== GetMessageStatus.OFFSET_TOO_SMALL) this.#setAside += Math.max(0, next - level.offset);
    this.#environment.logger.warn(
      `delay level ${level.level}: nothing can be read at ${level.offset} (${getStatusName(result.status)}); it continues at ${next}`,
    );
    this.#advance(level, next, 0, 0);
    this.#rest(level, this.#environment.clock.now());
  }

  /** Delivers what is due of the records of `level.result`, which lie in `bytes`; `next` is the queue offset behind the last one. */
  #deliver(level: Level, bytes: Uint8Array, next: number): void {
    const { result, offset: first } = level;
    const units = this.#units;
    const now = this.#environment.clock.now();
    const view = viewOf(bytes);
    const record = new RecordView();
    let unit = 0;
    let at = 0;
    let end = 0;
    let due = 0;
    let count = 0;
    let until = now;
    let reached = next;
    for (let i = 0; i < result.count; i++) {
      // Units whose record is not among the result are damaged or gone.
      while (unit < units.count && units.positions[unit] !== result.positions[i])
        this.#unreadable(level, first + unit++);
      const offset = first + unit;
      const tag = unit < units.count ? units.tags[unit] : undefined;
      unit++;
      const size = result.sizes[i]!;
      const isRecord = readRecord(bytes, view, at, at + size, Verify.STRUCTURE, record) === RecordOutcome.RECORD;
      if (isRecord) {
        const dueMs = this.#dueTime(level, tag, record.storeTimestamp);
        // A clock that was set back must not keep a message longer than its level says.
        if (dueMs > now && dueMs <= now + level.delayMs) {
          reached = offset;
          until = dueMs;
          break;
        }
        const wrote = this.#deliverOne(level, toMessage(bytes, record), offset);
        if (wrote < 0) {
          reached = offset;
          until = now + this.#retryMs(level);
          break;
        }
        level.tries = 0;
        if (wrote > 0) {
          end = Math.max(end, wrote);
          count++;
        }
      } else {
        this.#unreadable(level, offset);
      }
      at += size;
      due++;
    }
    if (reached === next) while (first + unit < next) this.#unreadable(level, first + unit++);
    level.ask = due === result.count ? Math.min(RUN_MESSAGES, level.ask * 2) : Math.max(1, due);
    const flight = this.#advance(level, reached, count, end);
    if (flight !== undefined) this.#whenDurable(level, flight);
    if (level.offset === reached) this.#goOn(level, until);
    // The deliveries are lost.
    else this.#rest(level, now + RETRY_MS);
  }

  /** Goes on reading at `next`; the position follows when `count` deliveries, and those before them, are durable. */
  #advance(level: Level, next: number, count: number, end: number): Flight | undefined {
    this.#turnLeft -= Math.max(1, count);
    level.offset = next;
    level.pending += count;
    const last = level.flights.at(-1);
    if (count > 0) {
      const flight: Flight = { next, count, end, done: false };
      level.flights.push(flight);
      return flight;
    }
    if (last === undefined) this.offsets.set(level.level, next);
    else last.next = next;
    return undefined;
  }

  /** Ms since 1970 at which a message is due. An ext address in the unit's place of it: as RocketMQ where its ext unit is lost. */
  #dueTime(level: Level, tag: number | undefined, storeTimestamp: number): number {
    return tag === undefined || Number.isNaN(tag) ? storeTimestamp + level.delayMs : tag;
  }

  #unreadable(level: Level, offset: number): void {
    if (++this.#setAside > MAX_TOLD) return;
    this.#environment.logger.error(
      `delay level ${level.level}: the message at ${offset} cannot be read and is set aside`,
    );
  }

  /** Ms until a refused message is tried again. RocketMQ: PutResultProcess#doResend, with asynchronous delivery. */
  #retryMs(level: Level): number {
    const { enableScheduleAsyncDeliver, scheduleAsyncDeliverMaxResendNum2Blocked } = this.#parts.config;
    level.tries++;
    if (!enableScheduleAsyncDeliver || level.tries <= scheduleAsyncDeliverMaxResendNum2Blocked) return RETRY_MS;
    return Math.min(level.tries * RETRY_MS, MAX_RETRY_MS);
  }

  /** Goes on at `untilMs`, but only while no more deliveries than allowed wait for the disk. */
  #goOn(level: Level, untilMs: number): void {
    if (level.pending > this.#mostPending) level.held = untilMs;
    else this.#rest(level, untilMs);
  }

  get #mostPending(): number {
    const { enableScheduleAsyncDeliver, scheduleAsyncDeliverMaxPendingLimit } = this.#parts.config;
    return enableScheduleAsyncDeliver ? scheduleAsyncDeliverMaxPendingLimit : MOST_PENDING;
  }

  #whenDurable(level: Level, flight: Flight): void {
    this.#parts.store.whenDurable(flight.end, true, (status, reason) => {
      if (!level.flights.includes(flight)) return;
      if (status === PutMessageStatus.PUT_OK) {
        this.#landed(level, flight);
      } else if (status === PutMessageStatus.FLUSH_DISK_TIMEOUT) {
        this.#environment.logger.warn(`delay level ${level.level} waits for its deliveries to be durable: ${reason}`);
        this.#waitForFlush(level, flight);
      } else {
        this.#environment.logger.warn(
          `delay level ${level.level}: deliveries were not stored and are repeated: ${reason}`,
        );
        this.#lost(level);
      }
    });
  }

  /** The records are in the log already: putting them again would deliver twice. */
  #waitForFlush(level: Level, flight: Flight): void {
    this.#environment.clock.after(RETRY_MS, () => {
      if (!this.#running || !level.flights.includes(flight)) return;
      if (this.#parts.store.watermarks.flushed >= flight.end) this.#landed(level, flight);
      else this.#waitForFlush(level, flight);
    });
  }

  #landed(level: Level, flight: Flight): void {
    flight.done = true;
    this.#settle(level);
    const until = level.held;
    if (until === undefined || level.pending > this.#mostPending) return;
    level.held = undefined;
    // The store is just telling who waited for it: nothing new is put meanwhile.
    if (until <= this.#environment.clock.now()) this.#nextTurn(level);
    else this.#rest(level, until);
  }

  /** Moves the position past the oldest runs that are durable. */
  #settle(level: Level): void {
    let done = 0;
    while (level.flights[done]?.done === true) {
      level.pending -= level.flights[done]!.count;
      this.offsets.set(level.level, level.flights[done]!.next);
      done++;
    }
    level.flights.splice(0, done);
  }

  /** Begins again behind what is known to be durable. */
  #lost(level: Level): void {
    level.flights = [];
    level.pending = 0;
    level.offset = this.offsets.of(level.level);
    // One that is at work goes on from there by itself.
    if (level.busy && level.held === undefined) return;
    level.held = undefined;
    level.timer?.cancel();
    level.timer = undefined;
    this.#rest(level, this.#environment.clock.now() + RETRY_MS);
  }

  /** The end of the record that was written; 0 if the message is passed over, -1 if it must be tried again. */
  #deliverOne(level: Level, message: StoredMessage, offset: number): number {
    const topic = message.properties.get(PropertyName.REAL_TOPIC) ?? '';
    const queueId = parseJavaInt(message.properties.get(PropertyName.REAL_QID) ?? '') ?? -1;
    const name = `delay level ${level.level}: message ${message.messageId} at ${offset}`;
    if (topic === TRANS_HALF_TOPIC || queueId < 0 || topicNameFault(topic) !== undefined) {
      const place = `topic "${topic}", queue ${message.properties.get(PropertyName.REAL_QID)}`;
      this.#setAside++;
      this.#environment.logger.error(`${name} is set aside: it belongs into ${place}`);
      return 0;
    }
    // The stored text keeps DELAY, REAL_TOPIC and REAL_QID, as RocketMQ's does.
    const copy = { ...copyOf(message), topic, queueId, preparedTransactionOffset: 0 };
    const request = toPutRequest(copy, this.#parts.storeHost);
    const result = new PutResult();
    this.#parts.store.put(request, result);
    switch (result.status) {
      case PutMessageStatus.PUT_OK:
        if (this.#parts.config.enableScheduleMessageStats) this.#count(level, topic, result);
        return result.wroteOffset + result.wroteBytes;
      case PutMessageStatus.MESSAGE_ILLEGAL:
      case PutMessageStatus.PROPERTIES_SIZE_EXCEEDED:
        this.#setAside++;
        this.#environment.logger.error(`${name} is set aside, ${topic} cannot take it: ${result.reason}`);
        return 0;
      default:
        this.#seldom.warn(`level ${level.level}`, `${name} waits: ${putStatusName(result.status)} ${result.reason}`);
        return -1;
    }
  }

  /** RocketMQ: PutResultProcess#onSuccess. */
  #count(level: Level, topic: string, result: PutResult): void {
    const { stats, traffic } = this.#parts;
    traffic.delivered(topic, level.level - 1, result.wroteBytes);
    stats.putMessages++;
    stats.putBytes += result.wroteBytes;
  }
}
