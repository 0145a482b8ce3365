// Messages with any delay. The put has moved them into the timer's topic (timer-put.ts); here they are taken from its queue into the wheel
// and, when their time has come, stored once more in their real topics.
//
//   queue of the timer's topic ─► look ─► unit in the timer log, slot in the wheel      (too late for the wheel: delivered at once)
//   clock reaches the end of a slot ─► its units, oldest first ─► orders to delete ─► real topic, or round again if it is far away
//   once a second, if something changed: log synced ─► wheel synced ─► checkpoint, whose time is never ahead of what is synced
//
// A slot holds what is due within the tick that it begins (a whole tick counts for the one before), and is delivered when that tick is
// over: never early, at most one tick late. The service sleeps until the next slot that holds something.
//
// RocketMQ: TimerMessageStore. Its six threads poll; it gives a message up after three failed puts, which here waits until the store
// takes it, and a damaged timer message stops everything behind it, which here is set aside, named and counted.

import { errorText, Histogram, javaStringHash, SeldomWarning, type Timer } from '../../common/index.ts';
import { MATCH_ALL } from '../../filter/index.ts';
import { decodeMessages, PropertyName, type StoredMessage } from '../../message/index.ts';
import {
  GetMessageStatus,
  GetResult,
  type MessageStore,
  PutMessageStatus,
  PutResult,
  putStatusName,
  type RecoveredTimer,
  type Removal,
  type RetentionFloor,
  recoverTimer,
  rollSlot,
  rollWindow,
  TimerMagic,
  TimerSlot,
  TimerUnit,
} from '../../store/index.ts';
import type { BrokerConfig } from '../broker-config.ts';
import type { ConfigEnvironment } from '../config-manager.ts';
import { copyOf, toPutRequest } from '../internal-put.ts';
import { isNotAllowedSendTopic, TIMER_TOPIC, topicNameFault } from '../topic/topic-names.ts';
import { DueUnits, dueUnits } from './due-units.ts';
import { type Fetched, RecordFetch } from './record-fetch.ts';
import { TimerMetrics } from './timer-metrics.ts';
import { timerPrecision } from './timer-put.ts';

/** Ms until the queue is looked at after a put, and again while more is to come. */
const LOOK_MS = 5;
/** Messages and bytes of one look. */
const LOOK_MESSAGES = 256;
const LOOK_BYTES = 1024 * 1024;
/** Ms until something that failed is tried again. */
const RETRY_MS = 500;
/** Ticks that are looked ahead for the next slot that holds something. */
const HORIZON_TICKS = 4096;
/** Ms that a stop waits for the slot that is being delivered. */
const STOP_MS = 1500;
/** What is later than this shares a slot. */
const MOST_LATE_MS = 604_800_000;
/** Ms between two counts of what retention must keep. */
const FLOOR_MS = 60_000;
/** RocketMQ: TIMER_ENQUEUE_MS of a message that never was in the wheel. */
const NEVER_ENQUEUED = '9223372036854775807';
const NO_BODY = new Uint8Array(0);
const NUMBER = /^-?\d{1,15}$/;

export interface TimerParts {
  readonly config: BrokerConfig;
  readonly store: MessageStore;
  readonly storeHost: Uint8Array;
}

/** Figures of the service. */
export interface TimerFigures {
  enqueued: number;
  delivered: number;
  deleted: number;
  rolled: number;
  /** Timer messages that made no sense and were left out. */
  setAside: number;
}

/** Positions that describe the same moment; safe when the CommitLog is flushed to `end`. */
interface Mark {
  readMs: number;
  queueOffset: number;
  end: number;
  /** End of the timer log. */
  logEnd: number;
}

export class TimerMessageService implements RetentionFloor {
  readonly name = 'timer messages';
  readonly metrics: TimerMetrics;
  readonly figures: TimerFigures = { enqueued: 0, delivered: 0, deleted: 0, rolled: 0, setAside: 0 };
  /** How long after the end of their slot messages were delivered. */
  readonly lateness: Histogram = new Histogram();
  readonly precisionMs: number;
  readonly #environment: ConfigEnvironment;
  readonly #parts: TimerParts;
  readonly #fetch: RecordFetch;
  readonly #seldom: SeldomWarning;
  readonly #slot = new TimerSlot();
  readonly #unit = new TimerUnit();
  readonly #result = new GetResult();
  #state: RecoveredTimer | undefined;
  #running = false;
  /** Next message of the queue to take. */
  #queueOffset = 0;
  /** First slot that is not done. */
  #readMs = 0;
  /** The slot that is being delivered; -1: none. */
  #slotMs = -1;
  #slotDone: Promise<void> = Promise.resolve();
  /** The wheel's time: start of the current tick; never goes back. */
  #writeMs = 0;
  /** Messages below are from an earlier life: those before the slot `#handledMs` were delivered then. */
  #knownOffset = 0;
  #handledMs = 0;
  /** Nothing is delivered until the queue was read to here. */
  #catchUpTo = 0;
  /** After a loss: messages that go round, until it is clear that they have not gone already. By UNIQ_KEY. */
  #held: Map<string, { message: StoredMessage; dueMs: number }> | undefined;
  /** The slot before which the queue is read to `#drainTo`. */
  #drainFor = -1;
  #drainTo = 0;
  #looking = false;
  /** The queue's next message waits: for a slot of an earlier round that is not done, or for a store that takes nothing. */
  #blocked = false;
  #lookTimer: Timer | undefined;
  #wakeTimer: Timer | undefined;
  #wakeMs = Number.POSITIVE_INFINITY;
  #flushTimer: Timer | undefined;
  #flushing: Promise<void> | undefined;
  #changed = false;
  #safe: Mark = { readMs: 0, queueOffset: 0, end: 0, logEnd: 0 };
  #pending: Mark | undefined;
  /** Cancelled by handle and not yet due: keys by slot. */
  readonly #cancelled = new Map<number, Set<string>>();
  #floorCount: { start: number; atMs: number; count: number } | undefined;
  #tps = { atMs: 0, enqueued: 0, delivered: 0, enqueueTps: 0, dequeueTps: 0 };
  #metricsDay = '';
  /** Where the last delivery ends in the CommitLog. */
  #putEnd = 0;
  /** Deliveries of the look under way that came too late for the wheel, and where they end in the CommitLog. */
  #late: StoredMessage[] = [];
  #lateEnds: number[] = [];
  /** The slot that a stop has left, and where its rest begins. */
  #partial: { slotMs: number; position: number; count: number } | undefined;

  constructor(environment: ConfigEnvironment, parts: TimerParts) {
    this.#environment = environment;
    this.#parts = parts;
    this.precisionMs = timerPrecision(parts.config);
    this.metrics = new TimerMetrics(environment);
    this.#fetch = new RecordFetch(parts.store);
    this.#seldom = new SeldomWarning(environment.clock, environment.logger);
  }

  /** Whether the timer is there: the setting, and the start. */
  get enabled(): boolean {
    return this.#state !== undefined;
  }

  /** Messages that are due in the tick that begins at `timeMs`. */
  pendingAt(timeMs: number): number {
    return this.#state?.wheel.read(timeMs, this.#slot) ? this.#slot.num : 0;
  }

  /** What a slave is answered; undefined while the timer is off. */
  get checkpoint(): Uint8Array | undefined {
    return this.#state?.checkpoint.encode();
  }

  /** RocketMQ's figures for the runtime information. */
  runtime(): Record<string, string> {
    const state = this.#state;
    const { store } = this.#parts;
    const now = this.#environment.clock.now();
    if (state === undefined) {
      return {
        timerReadBehind: '0',
        timerOffsetBehind: '0',
        timerCongestNum: '0',
        timerEnqueueTps: '0.0',
        timerDequeueTps: '0.0',
      };
    }
    this.#advance();
    return {
      timerReadBehind: String(Math.floor((now - this.#readMs) / 1000)),
      timerOffsetBehind: String(store.maxOffsetInQueue(TIMER_TOPIC, 0) - this.#queueOffset),
      timerCongestNum: String(state.wheel.countFrom(this.#readMs)),
      timerEnqueueTps: this.#tps.enqueueTps.toFixed(1),
      timerDequeueTps: this.#tps.dequeueTps.toFixed(1),
      gantryTimerSetAside: String(this.figures.setAside),
      gantryTimerDelivered: String(this.figures.delivered),
      gantryTimerDeleted: String(this.figures.deleted),
      gantryTimerLateMs: `${this.lateness.count} messages, median ${this.lateness.quantile(0.5).toFixed(0)} ms, 99 % ${this.lateness.quantile(0.99).toFixed(0)} ms, longest ${this.lateness.maxMs.toFixed(0)} ms`,
    };
  }

  /**
   * Opens and mends the timer's files; nothing happens with `timerWheelEnable` off.
   * @throws GantryError STORE_FILE_SIZE, STORE_DAMAGED, IO, DISK_FULL.
   */
  async load(): Promise<void> {
    const { config, store } = this.#parts;
    if (!config.timerWheelEnable) return;
    const { clock, fs, logger } = this.#environment;
    try {
      this.metrics.load();
    } catch (error) {
      logger.warn(`the timer's figures start from 0: ${errorText(error)}`);
    }
    const root = store.config.storePathRootDir;
    const options = { fs, logger, root, precisionMs: this.precisionMs, logFileBytes: config.mappedFileSizeTimerLog };
    const state = await recoverTimer(options, {
      logEnd: store.watermarks.wrote,
      queueMin: store.minOffsetInQueue(TIMER_TOPIC, 0),
      queueMax: store.maxOffsetInQueue(TIMER_TOPIC, 0),
      nowMs: clock.now(),
      ordinalOf: (offset, size) => this.#ordinalOf(offset, size),
    });
    this.#state = state;
    this.#queueOffset = state.queueOffset;
    this.#knownOffset = state.knownOffset;
    this.#readMs = state.readMs;
    this.#handledMs = state.readMs;
    this.#writeMs = this.#tick(clock.now());
    this.#catchUpTo = store.maxOffsetInQueue(TIMER_TOPIC, 0);
    if (this.#queueOffset < this.#catchUpTo) this.#held = new Map();
    this.#safe = {
      readMs: state.readMs,
      queueOffset: Math.max(state.queueOffset, state.knownOffset),
      end: 0,
      logEnd: state.log.end,
    };
    this.#tps.atMs = clock.now();
  }

  async #ordinalOf(offset: number, size: number): Promise<number | undefined> {
    const { store } = this.#parts;
    const record = await store.recordAt(offset);
    if (record === undefined || record.length !== size) return undefined;
    const [message] = decodeMessages(record);
    if (message?.topic !== TIMER_TOPIC || message.queueOffset >= store.maxOffsetInQueue(TIMER_TOPIC, 0))
      return undefined;
    return message.queueOffset;
  }

  /** Begins to take and to deliver. */
  start(): void {
    if (this.#state === undefined) return;
    this.#running = true;
    const { clock } = this.#environment;
    this.#flushTimer = clock.every(this.#parts.config.timerFlushIntervalMs, () => this.#beat());
    this.#lookSoon(0);
  }

  /** Takes and delivers nothing more; resolves when the slot that is being delivered is left. */
  async stop(): Promise<void> {
    this.#running = false;
    this.#flushTimer?.cancel();
    this.#lookTimer?.cancel();
    this.#wakeTimer?.cancel();
    await this.#slotDone;
  }

  /** Saves exactly how far it came; for the end, when the store is closed and all deliveries are on disk. */
  async close(): Promise<void> {
    const state = this.#state;
    if (state === undefined) return;
    await this.#flushing;
    const { flushed, wrote } = this.#parts.store.watermarks;
    if (this.#pending !== undefined && flushed >= this.#pending.end) this.#safe = this.#pending;
    this.#pending = undefined;
    // While the queue is read after a loss, and when the last sync has failed, the last safe mark counts.
    if (flushed >= wrote && this.#held === undefined) {
      this.#shortenSlot(state);
      this.#advance();
      this.#safe = { readMs: this.#readMs, queueOffset: this.#queueOffset, end: 0, logEnd: state.log.end };
    }
    try {
      await this.#write(state);
    } catch (error) {
      this.#environment.logger.error(`the timer is not saved (${errorText(error)}); the next start looks further back`);
    }
    this.metrics.persistIfChanged();
    state.log.close();
    this.#state = undefined;
  }

  /** A message was put into the timer's topic. */
  noted(): void {
    if (this.#running && this.#lookTimer === undefined && !this.#looking) this.#lookSoon(LOOK_MS);
  }

  /**
   * Cancels a message by the slot and key of its handle, from now on; the order that makes it last is put by the caller. False: that slot
   * is being delivered or done.
   */
  cancel(slotMs: number, key: string): boolean {
    if (slotMs < this.#openFrom()) return false;
    const keys = this.#cancelled.get(slotMs) ?? new Set();
    this.#cancelled.set(slotMs, keys.add(key));
    return true;
  }

  /** Takes back a `cancel` whose order could not be put. */
  uncancel(slotMs: number, key: string): void {
    this.#cancelled.get(slotMs)?.delete(key);
  }

  // --- Retention

  /** Messages of a removal that wait in the wheel, or are not taken from the queue yet. */
  needed(removal: Removal): number {
    const state = this.#state;
    if (state === undefined || removal.soon !== undefined) return 0;
    let count = 0;
    for (const { topic, from, to } of removal.moves) {
      if (topic === TIMER_TOPIC) count += Math.max(0, to - Math.max(from, this.#queueOffset));
    }
    const now = this.#environment.clock.now();
    const last = this.#floorCount;
    if (last?.start !== removal.start || now - last.atMs > FLOOR_MS || removal.forced) {
      this.#floorCount = { start: removal.start, atMs: now, count: this.#waitingIn(state, removal) };
    }
    return count + this.#floorCount!.count;
  }

  #waitingIn({ log }: RecoveredTimer, { start, end }: Removal): number {
    let count = 0;
    // A delivery that is not on disk may have to be made again.
    const from = Math.min(this.#safe.readMs, this.#readMs);
    try {
      log.scan(
        this.#fileBefore(log, start),
        (_position, unit) => {
          if (unit.offset >= start && unit.offset < end && unit.slotTime >= from) count++;
          return unit.offset < end;
        },
        new TimerUnit(),
      );
    } catch (error) {
      this.#seldom.warn('floor', `the timer log cannot be read (${errorText(error)}); nothing that it names may go`);
      return Math.max(1, count);
    }
    return count;
  }

  /** Start of the file of the timer log in which the units begin that name records from `offset` on. */
  #fileBefore(log: RecoveredTimer['log'], offset: number): number {
    const unit = new TimerUnit();
    let base = log.first;
    while (base + log.fileSize < log.end && log.read(base + log.fileSize, unit) && unit.offset <= offset)
      base += log.fileSize;
    return base;
  }

  // --- From the queue into the wheel

  #tick(timeMs: number): number {
    return Math.floor(timeMs / this.precisionMs) * this.precisionMs;
  }

  /** The first slot that still takes messages. */
  #openFrom(): number {
    return this.#slotMs >= 0 ? this.#slotMs + this.precisionMs : this.#readMs;
  }

  /** Moves past slots that hold nothing. */
  #advance(): void {
    this.#writeMs = Math.max(this.#writeMs, this.#tick(this.#environment.clock.now()));
    if (this.#slotMs >= 0 || this.#queueOffset < this.#catchUpTo) return;
    const next = this.#state!.wheel.next(this.#readMs, this.#writeMs);
    this.#readMs = next < 0 ? Math.max(this.#readMs, this.#writeMs) : next;
  }

  #lookSoon(ms: number): void {
    this.#lookTimer?.cancel();
    this.#lookTimer = this.#environment.clock.after(ms, () => {
      this.#lookTimer = undefined;
      this.#look();
    });
  }

  #look(): void {
    if (!this.#running || this.#looking || this.#state === undefined) return;
    if (this.#parts.config.timerStopEnqueue) {
      this.#catchUpTo = 0;
      return this.#wake();
    }
    this.#looking = true;
    try {
      this.#step(this.#state);
    } catch (error) {
      this.#lookFailed(error);
    }
  }

  #lookFailed(error: unknown): void {
    this.#looking = false;
    this.#seldom.warn(
      'look',
      `the timer's queue cannot be read at ${this.#queueOffset} (${errorText(error)}); it is tried again`,
    );
    if (this.#running) this.#lookSoon(RETRY_MS);
  }

  #step(state: RecoveredTimer): void {
    const { store } = this.#parts;
    const result = this.#result;
    const again = (error?: unknown): void => {
      if (error !== undefined) return this.#lookFailed(error);
      this.#looking = false;
      this.#look();
    };
    const request = {
      topic: TIMER_TOPIC,
      queueId: 0,
      offset: this.#queueOffset,
      maxMessages: LOOK_MESSAGES,
      maxBytes: LOOK_BYTES,
      filter: MATCH_ALL,
    };
    if (!store.select(request, result, again)) return;
    if (result.status === GetMessageStatus.FOUND) {
      const bytes = new Uint8Array(result.totalBytes);
      if (!store.copyRecords(result, bytes, 0, again)) return;
      const next = result.nextBeginOffset;
      const reached = this.#take(state, this.#decoded(bytes), next);
      if (this.#late.length === 0) return this.#taken(state, reached, reached === next);
      void this.#settleLate().then((settled) => {
        if (settled) this.#taken(state, reached, reached === next);
        else this.#looking = false;
      });
      return;
    } else if (result.nextBeginOffset > this.#queueOffset) {
      const from = this.#queueOffset;
      this.#queueOffset = result.nextBeginOffset;
      this.#changed = true;
      this.#environment.logger.warn(
        `timer: messages ${from} to ${this.#queueOffset - 1} of its queue are gone or damaged`,
      );
    } else {
      if (result.nextBeginOffset < this.#queueOffset) this.#queueOffset = result.nextBeginOffset;
      this.#looking = false;
      this.#caughtUp(state);
      // What is put, but not yet visible.
      if (store.maxOffsetInQueue(TIMER_TOPIC, 0, false) > this.#queueOffset) this.#lookSoon(LOOK_MS);
      return this.#wake();
    }
    this.#taken(state, this.#queueOffset, true);
  }

  /** The messages before `offset` are taken, and what was delivered of them is written. Not `whole`: that one must be tried again. */
  #taken(state: RecoveredTimer, offset: number, whole: boolean): void {
    this.#queueOffset = offset;
    this.#changed = true;
    this.#looking = false;
    this.#blocked = !whole;
    if (!whole) this.#lookSoon(RETRY_MS);
    else {
      if (this.#queueOffset >= this.#catchUpTo) this.#caughtUp(state);
      this.#environment.clock.soon(() => this.#look());
    }
    if (this.#queueOffset >= this.#catchUpTo) this.#wake();
  }

  /** Each for itself: one that makes no sense hides no other. */
  #decoded(bytes: Uint8Array): StoredMessage[] {
    const { count, sizes, positions } = this.#result;
    const messages: StoredMessage[] = [];
    for (let i = 0, at = 0; i < count; at += sizes[i++]!) {
      const [message] = decodeMessages(bytes.subarray(at, at + sizes[i]!));
      if (message !== undefined) messages.push(message);
      else this.#setAside({ queueOffset: -1, physicalOffset: positions[i]!, messageId: '' }, 'it is no message');
    }
    return messages;
  }

  /** All that was in the queue at the start is taken: what had to go round is known now. */
  #caughtUp(state: RecoveredTimer): void {
    this.#catchUpTo = 0;
    if (this.#held === undefined) return;
    const held = this.#held;
    this.#held = undefined;
    for (const { message, dueMs } of held.values()) this.#link(state, message, dueMs);
  }

  /** Takes messages in order; the offset behind them, or of one that must be tried again. */
  #take(state: RecoveredTimer, messages: readonly StoredMessage[], next: number): number {
    this.#advance();
    for (const message of messages) if (!this.#takeOne(state, message)) return message.queueOffset;
    return next;
  }

  #takeOne(state: RecoveredTimer, message: StoredMessage): boolean {
    const { properties } = message;
    const text = properties.get(PropertyName.TIMER_OUT_MS);
    const topic = properties.get(PropertyName.REAL_TOPIC);
    const dueMs = text !== undefined && NUMBER.test(text) ? Number(text) : Number.NaN;
    if (Number.isNaN(dueMs) || topic === undefined) {
      this.#setAside(message, `TIMER_OUT_MS is ${text}, REAL_TOPIC is ${topic}`);
      return true;
    }
    const slotMs = this.#tick(dueMs);
    const known = message.queueOffset < this.#knownOffset;
    if (known && slotMs < this.#handledMs) return true;
    if (this.#held !== undefined && !this.#holds(message, slotMs)) return true;
    // What comes for the slot that is being delivered follows in the next one.
    if (slotMs === this.#slotMs) {
      if (properties.has(PropertyName.TIMER_DEL_UNIQKEY)) return true;
      this.#link(state, message, slotMs + this.precisionMs);
      return true;
    }
    if (slotMs < this.#openFrom()) {
      if (properties.has(PropertyName.TIMER_DEL_UNIQKEY)) return true;
      return this.#deliverLate(message);
    }
    // Where a slot of an earlier round is not read yet, this one waits for it.
    const occupant = state.wheel.occupant(this.#slotOf(slotMs).slotMs);
    if (occupant >= this.#readMs && occupant < this.#writeMs && occupant !== this.#slotOf(slotMs).slotMs) {
      this.#catchUpTo = 0;
      return false;
    }
    this.#link(state, message, slotMs);
    return true;
  }

  /** Without the wheel; false if it must be tried again. */
  #deliverLate(message: StoredMessage): boolean {
    const outcome = this.#deliver(message, NEVER_ENQUEUED, false);
    if (outcome === 'done') {
      this.#late.push(message);
      this.#lateEnds.push(this.#putEnd);
    }
    return outcome !== 'retry';
  }

  /** What came too late is written, or delivered again, before the queue's next messages are taken. False if a stop comes between. */
  async #settleLate(): Promise<boolean> {
    while (this.#late.length > 0) {
      const lost = await this.#firstLost(this.#lateEnds);
      const again = lost < 0 ? [] : this.#late.slice(lost);
      this.#late = [];
      this.#lateEnds = [];
      for (let k = 0; k < again.length; ) {
        await this.#pause(RETRY_MS);
        if (!this.#running) return false;
        while (k < again.length && this.#deliverLate(again[k]!)) k++;
      }
    }
    return true;
  }

  /** After a loss: false if the message waits until it is clear whether it has gone round already. */
  #holds(message: StoredMessage, dueMs: number): boolean {
    const key = message.properties.get(PropertyName.UNIQ_KEY);
    if (key === undefined) return true;
    const identity = `${message.properties.has(PropertyName.TIMER_DEL_UNIQKEY) ? '-' : '+'}${key}`;
    // Its copy comes behind it in the queue.
    if (message.properties.has(PropertyName.TIMER_ROLL_TIMES)) this.#held!.delete(identity);
    if (message.queueOffset >= this.#catchUpTo || dueMs - message.storeTimestamp < this.#windowMs - this.precisionMs)
      return true;
    // Without its body, which would keep all that was read with it in memory.
    this.#held!.set(identity, { message: { ...message, body: NO_BODY }, dueMs });
    return false;
  }

  get #windowMs(): number {
    return rollWindow(this.#parts.config.timerRollWindowSlot, this.precisionMs);
  }

  /** The slot of a due time now: one on the way if it is beyond the window. */
  #slotOf(dueMs: number): { slotMs: number; roll: boolean } {
    const onTheWay = rollSlot(dueMs, this.#writeMs, this.#windowMs, this.precisionMs);
    if (onTheWay >= 0) return { slotMs: onTheWay, roll: true };
    // After a long stop: a unit's delay has 32 bits.
    return { slotMs: Math.max(dueMs, this.#writeMs - MOST_LATE_MS), roll: false };
  }

  /** RocketMQ: doEnqueue. */
  #link({ wheel, log }: RecoveredTimer, message: StoredMessage, dueMs: number): void {
    const { slotMs, roll } = this.#slotOf(dueMs);
    const isDelete = message.properties.has(PropertyName.TIMER_DEL_UNIQKEY);
    const topic = message.properties.get(PropertyName.REAL_TOPIC)!;
    const slot = this.#slot;
    const unit = this.#unit;
    wheel.read(slotMs, slot);
    unit.prevPos = slot.lastPos;
    unit.magic = TimerMagic.DEFAULT | (roll ? TimerMagic.ROLL : 0) | (isDelete ? TimerMagic.DELETE : 0);
    unit.writeTime = this.#writeMs;
    unit.delay = slotMs - this.#writeMs;
    unit.offset = message.physicalOffset;
    unit.size = message.storeSize;
    unit.topicHash = javaStringHash(topic);
    this.#append(wheel, log, slotMs, unit, slot, isDelete ? -1 : 1);
    this.metrics.add(topic, isDelete ? -1 : 1);
    this.figures.enqueued++;
    if (slotMs + this.precisionMs < this.#wakeMs) this.#sleepUntil(slotMs + this.precisionMs);
  }

  #append(
    wheel: RecoveredTimer['wheel'],
    log: RecoveredTimer['log'],
    slotMs: number,
    unit: TimerUnit,
    slot: TimerSlot,
    count: number,
  ): void {
    slot.lastPos = log.append(unit);
    if (slot.firstPos < 0) slot.firstPos = slot.lastPos;
    slot.num += count;
    wheel.write(slotMs, slot);
  }

  #setAside(message: Pick<StoredMessage, 'queueOffset' | 'physicalOffset' | 'messageId'>, reason: string): void {
    this.figures.setAside++;
    this.#environment.logger.error(
      `timer message ${message.messageId} (number ${message.queueOffset}, offset ${message.physicalOffset} of the log) is set aside: ${reason}`,
    );
  }

  // --- From the wheel into the real topics

  #sleepUntil(wakeMs: number): void {
    if (!this.#running) return;
    this.#wakeTimer?.cancel();
    this.#wakeMs = wakeMs;
    this.#wakeTimer = this.#environment.clock.after(Math.max(0, wakeMs - this.#environment.clock.now()), () => {
      this.#wakeTimer = undefined;
      this.#wakeMs = Number.POSITIVE_INFINITY;
      this.#wake();
    });
  }

  /** Delivers the next slot that is over, or sleeps until there is one. */
  #wake(): void {
    if (!this.#running || this.#slotMs >= 0 || this.#state === undefined) return;
    if (this.#parts.config.timerStopDequeue || this.#queueOffset < this.#catchUpTo) return;
    this.#advance();
    if (this.#readMs < this.#writeMs) {
      if (!this.#drained()) return;
      this.#slotMs = this.#readMs;
      this.#slotDone = this.#deliverSlot(this.#state, this.#slotMs).then(
        (done) => this.#leaveSlot(done),
        (error: unknown) => {
          this.#seldom.warn(
            'slot',
            `timer: messages due at ${this.#slotMs} cannot be delivered now (${errorText(error)}); they wait`,
          );
          this.#leaveSlot(false);
        },
      );
      return;
    }
    const next = this.#state.wheel.next(this.#readMs, this.#readMs + HORIZON_TICKS * this.precisionMs);
    if (next >= 0) this.#sleepUntil(next + this.precisionMs);
    else this.#sleepUntil(this.#readMs + HORIZON_TICKS * this.precisionMs);
  }

  /** Whether all is taken from the queue that was in it when the slot was over: messages and orders for it. */
  #drained(): boolean {
    if (this.#drainFor !== this.#readMs) {
      this.#drainFor = this.#readMs;
      this.#drainTo = this.#parts.store.maxOffsetInQueue(TIMER_TOPIC, 0);
    }
    if (this.#queueOffset >= this.#drainTo || this.#blocked || this.#parts.config.timerStopEnqueue) return true;
    if (!this.#looking && this.#lookTimer === undefined) this.#lookSoon(0);
    return false;
  }

  #leaveSlot(done: boolean): void {
    const slotMs = this.#slotMs;
    this.#slotMs = -1;
    this.#changed = true;
    if (done) {
      this.#readMs = slotMs + this.precisionMs;
      this.#cancelled.delete(slotMs);
      this.#wake();
    } else if (this.#running) {
      this.#environment.clock.after(RETRY_MS, () => this.#wake());
    }
  }

  /** True when all of the slot is delivered. */
  async #deliverSlot(state: RecoveredTimer, slotMs: number): Promise<boolean> {
    const { logger, clock } = this.#environment;
    const due = dueUnits(state.wheel, state.log, slotMs, (position) => {
      logger.error(
        `timer: the chain of ${slotMs} is broken at ${position} of the timer log, which is looked through instead`,
      );
    });
    const deletes = await this.#deletesOf(due);
    const cancelled = this.#cancelled.get(slotMs);
    const lateFrom = slotMs + this.precisionMs;
    let stopAt = Number.POSITIVE_INFINITY;
    for (let from = 0; from < due.count; ) {
      const batch = await this.#fetch.read(due, from);
      const ends: number[] = new Array(batch.length).fill(0);
      for (let k = 0; k < batch.length; ) {
        if (!this.#running) {
          if (stopAt === Number.POSITIVE_INFINITY) stopAt = clock.now() + STOP_MS;
          if (deletes === undefined || clock.now() >= stopAt) return this.#leaveRest(deletes, slotMs, due, from + k);
        }
        this.#putEnd = 0;
        const wait = this.#handleUnit(state, due, from + k, batch[k]!, deletes, cancelled, lateFrom);
        ends[k] = this.#putEnd;
        if (!wait) {
          k++;
          if (k < batch.length) continue;
          const lost = await this.#firstLost(ends);
          if (lost < 0) break;
          this.#takeBack(batch, ends, lost);
          k = lost;
        }
        if (!this.#running) return this.#leaveRest(deletes, slotMs, due, from + k);
        await this.#pause(RETRY_MS);
      }
      from += batch.length;
      await this.#turn();
    }
    return true;
  }

  /** Of deliveries that are lost, from `k` on: they wait again. */
  #takeBack(batch: readonly Fetched[], ends: number[], lost: number): void {
    for (let k = lost; k < batch.length; k++) {
      const message = batch[k]!;
      if (ends[k] === 0 || !('properties' in message)) continue;
      this.metrics.add(message.properties.get(PropertyName.REAL_TOPIC) ?? '', 1);
    }
  }

  /** The first of some deliveries, by where they end in the CommitLog, that could not be written; -1 when all are. */
  async #firstLost(ends: readonly number[]): Promise<number> {
    const { store } = this.#parts;
    const end = ends.reduce((a, b) => Math.max(a, b), 0);
    if (end === 0) return -1;
    const [status, reason] = await new Promise<[PutMessageStatus, string]>((resolve) =>
      store.whenDurable(end, false, (...outcome) => resolve(outcome)),
    );
    if (status === PutMessageStatus.PUT_OK) return -1;
    this.#seldom.warn('lost', `timer messages that were due are not written and are delivered again: ${reason}`);
    const { committed } = store.watermarks;
    return ends.findIndex((one) => one > committed);
  }

  /** The keys that orders of this slot delete, with the topics of those that gave them; undefined if there is no order. */
  async #deletesOf(due: DueUnits): Promise<Map<string, string> | undefined> {
    const orders = new TimerUnit();
    const only = new DueUnits();
    for (let i = 0; i < due.count; i++) {
      if (!isOrder(due.magics[i]!)) continue;
      orders.offset = due.offsets[i]!;
      orders.size = due.sizes[i]!;
      only.push(due.positions[i]!, orders);
    }
    if (only.count === 0) return undefined;
    const keys = new Map<string, string>();
    for (let from = 0; from < only.count; ) {
      const batch = await this.#fetch.read(only, from);
      for (const message of batch) {
        if (!('properties' in message)) continue;
        const key = message.properties.get(PropertyName.TIMER_DEL_UNIQKEY);
        const topic = message.properties.get(PropertyName.REAL_TOPIC);
        if (key !== undefined) keys.set(key, topic ?? '');
        // What the order took off when it came; each message that it deletes takes it off again.
        if (topic !== undefined) this.metrics.add(topic, 1);
      }
      from += batch.length;
    }
    return keys;
  }

  /** True if the unit must be tried again. */
  #handleUnit(
    state: RecoveredTimer,
    due: DueUnits,
    i: number,
    fetched: Fetched,
    deletes: ReadonlyMap<string, string> | undefined,
    cancelled: ReadonlySet<string> | undefined,
    lateFrom: number,
  ): boolean {
    const magic = due.magics[i]!;
    if (isOrder(magic)) return false;
    const place = { queueOffset: -1, physicalOffset: due.offsets[i]!, messageId: `of unit ${due.positions[i]}` };
    if ('gone' in fetched) {
      this.#setAside(place, fetched.gone);
      return false;
    }
    if ('later' in fetched) {
      this.#postpone(state, due, i, fetched.later);
      return false;
    }
    const topic = fetched.properties.get(PropertyName.REAL_TOPIC) ?? '';
    const uniqKey = fetched.properties.get(PropertyName.UNIQ_KEY) ?? '';
    const roll = (magic & TimerMagic.ROLL) !== 0;
    const key = this.deleteKey(topic, uniqKey);
    if (!roll && (deletes?.has(key) || cancelled?.has(key))) {
      this.figures.deleted++;
      this.metrics.add(topic, -1);
      return false;
    }
    const outcome = this.#deliver(fetched, String(due.writeTimes[i]), roll);
    if (outcome === 'retry') return true;
    this.metrics.add(topic, -1);
    if (outcome === 'done' && !roll) this.lateness.add(Math.max(0, this.#environment.clock.now() - lateFrom));
    return false;
  }

  /** RocketMQ: buildDeleteKey. */
  deleteKey(topic: string, uniqKey: string): string {
    return this.#parts.config.appendTopicForTimerDeleteKey ? `${topic}+${uniqKey}` : uniqKey;
  }

  /** A record that the disk does not give now stays in the wheel, some ticks on. */
  #postpone({ wheel, log }: RecoveredTimer, due: DueUnits, i: number, reason: string): void {
    this.#advance();
    const slotMs = Math.max(this.#openFrom(), this.#writeMs) + 10 * this.precisionMs;
    this.#seldom.warn(
      'read',
      `timer: the message at ${due.offsets[i]} of the log cannot be read now (${reason}); it waits`,
    );
    const slot = this.#slot;
    const unit = this.#unit;
    wheel.read(slotMs, slot);
    unit.prevPos = slot.lastPos;
    unit.magic = due.magics[i]!;
    unit.writeTime = this.#writeMs;
    unit.delay = slotMs - this.#writeMs;
    unit.offset = due.offsets[i]!;
    unit.size = due.sizes[i]!;
    unit.topicHash = 0;
    this.#append(wheel, log, slotMs, unit, slot, 1);
  }

  /** An orderly stop within a slot. Orders to delete count for all of it, so that a slot with some is begun again. */
  #leaveRest(deletes: ReadonlyMap<string, string> | undefined, slotMs: number, due: DueUnits, count: number): boolean {
    if (count > 0 && deletes === undefined) this.#partial = { slotMs, position: due.positions[count]!, count };
    return false;
  }

  /** What was delivered leaves its chain, so that the next start begins with the first message that was not. */
  #shortenSlot(state: RecoveredTimer): void {
    if (this.#partial === undefined) return;
    const { slotMs, position, count } = this.#partial;
    const slot = this.#slot;
    if (!state.wheel.read(slotMs, slot)) return;
    try {
      state.log.endChain(position);
      slot.firstPos = position;
      slot.num -= count;
      state.wheel.write(slotMs, slot);
    } catch (error) {
      this.#environment.logger.error(
        `timer: ${count} messages due at ${slotMs} come again after the start (${errorText(error)})`,
      );
    }
  }

  #turn(): Promise<void> {
    return new Promise((resolve) => this.#environment.clock.soon(resolve));
  }

  #pause(ms: number): Promise<void> {
    return new Promise((resolve) => this.#environment.clock.after(ms, resolve));
  }

  /** Stores a due message in its real topic, or once more in the timer's if it goes round. RocketMQ: convert, doPut. */
  #deliver(message: StoredMessage, enqueueMs: string, roll: boolean): 'done' | 'dropped' | 'retry' {
    const copy = copyOf(message);
    const { properties } = copy;
    properties.set(PropertyName.TIMER_ENQUEUE_MS, enqueueMs);
    if (roll) {
      const times = properties.get(PropertyName.TIMER_ROLL_TIMES);
      properties.set(
        PropertyName.TIMER_ROLL_TIMES,
        String((times !== undefined && NUMBER.test(times) ? Number(times) : 0) + 1),
      );
    }
    properties.set(PropertyName.TIMER_DEQUEUE_MS, String(this.#environment.clock.now()));
    copy.preparedTransactionOffset = 0;
    copy.waitStoreMsgOK = false;
    if (!roll) {
      const topic = properties.get(PropertyName.REAL_TOPIC)!;
      const queueId = properties.get(PropertyName.REAL_QID) ?? '';
      if (
        topic === TIMER_TOPIC ||
        isNotAllowedSendTopic(topic) ||
        topicNameFault(topic) ||
        !/^\d{1,9}$/.test(queueId)
      ) {
        this.#setAside(message, `its real topic is ${topic}, queue ${queueId}`);
        return 'dropped';
      }
      // The stored text keeps REAL_TOPIC and REAL_QID, as RocketMQ's does.
      copy.topic = topic;
      copy.queueId = Number(queueId);
    }
    const { store, storeHost, config } = this.#parts;
    const result = new PutResult();
    store.put(toPutRequest(copy, storeHost), result);
    switch (result.status) {
      case PutMessageStatus.PUT_OK:
        this.#changed = true;
        this.#putEnd = result.wroteOffset + result.wroteBytes;
        if (roll) {
          this.figures.rolled++;
          this.noted();
        } else this.figures.delivered++;
        return 'done';
      case PutMessageStatus.MESSAGE_ILLEGAL:
      case PutMessageStatus.PROPERTIES_SIZE_EXCEEDED:
        this.#setAside(message, `${copy.topic} cannot take it: ${result.reason}`);
        return 'dropped';
      case PutMessageStatus.UNKNOWN_ERROR:
        if (!config.timerSkipUnknownError) return 'retry';
        this.#setAside(message, result.reason);
        return 'dropped';
      default:
        this.#seldom.warn('put', `timer messages wait: ${putStatusName(result.status)} ${result.reason}`);
        return 'retry';
    }
  }

  // --- Saving

  /** Once in `timerFlushIntervalMs`. */
  #beat(): void {
    const state = this.#state;
    if (state === undefined) return;
    const { store } = this.#parts;
    if (store.maxOffsetInQueue(TIMER_TOPIC, 0, false) > this.#queueOffset) this.noted();
    // A clock that was set ahead: the timer does not know.
    if (this.#slotMs < 0 && (this.#wakeTimer === undefined || this.#environment.clock.now() >= this.#wakeMs))
      this.#wake();
    if (!this.#changed || this.#flushing !== undefined) return;
    this.#flushing = this.#save(state)
      .catch((error: unknown) =>
        this.#seldom.warn('save', `the timer cannot be saved (${errorText(error)}); it is tried again`),
      )
      .finally(() => {
        this.#flushing = undefined;
      });
  }

  async #save(state: RecoveredTimer): Promise<void> {
    const { watermarks } = this.#parts.store;
    if (this.#pending !== undefined && watermarks.flushed >= this.#pending.end) {
      this.#safe = this.#pending;
      this.#pending = undefined;
    }
    if (this.#pending === undefined) {
      this.#advance();
      const catching = this.#queueOffset < this.#catchUpTo || this.#held !== undefined;
      const mark = catching
        ? { ...this.#safe, end: watermarks.wrote }
        : {
            readMs: this.#slotMs >= 0 ? this.#slotMs : this.#readMs,
            queueOffset: this.#queueOffset,
            end: watermarks.wrote,
            logEnd: state.log.end,
          };
      if (watermarks.flushed >= watermarks.wrote) {
        this.#safe = mark;
        this.#changed = false;
      } else this.#pending = mark;
    }
    await this.#write(state);
    this.#afterSave(state);
  }

  /** Log, wheel, checkpoint: each is durable before the next one speaks of it. */
  async #write(state: RecoveredTimer): Promise<void> {
    const { wheel, log, checkpoint } = state;
    const safe = this.#safe;
    const pages = wheel.takeDirty();
    try {
      await log.flush();
      await wheel.flush(pages);
    } catch (error) {
      wheel.giveBack(pages);
      this.#changed = true;
      throw error;
    }
    const now = this.#environment.clock.now();
    if (
      checkpoint.lastReadTimeMs !== safe.readMs ||
      checkpoint.lastTimerQueueOffset !== safe.queueOffset ||
      checkpoint.lastTimerLogFlushPos !== safe.logEnd
    ) {
      checkpoint.counter++;
      checkpoint.timestamp = now;
    }
    checkpoint.lastReadTimeMs = safe.readMs;
    checkpoint.lastTimerLogFlushPos = safe.logEnd;
    checkpoint.lastTimerQueueOffset = safe.queueOffset;
    checkpoint.masterTimerQueueOffset = safe.queueOffset;
    await checkpoint.flush();
  }

  #afterSave({ log }: RecoveredTimer): void {
    log.removeBelow(this.#parts.store.watermarks.minimum, this.#unit);
    this.metrics.persistInSlices();
    const now = this.#environment.clock.now();
    const seconds = Math.max(1, now - this.#tps.atMs) / 1000;
    const { enqueued, delivered } = this.figures;
    this.#tps = {
      atMs: now,
      enqueued,
      delivered,
      enqueueTps: (enqueued - this.#tps.enqueued) / seconds,
      dequeueTps: (delivered - this.#tps.delivered) / seconds,
    };
    this.#checkMetrics(now);
  }

  /** RocketMQ: checkAndReviseMetrics, once in the hour `timerCheckMetricsWhen`. */
  #checkMetrics(now: number): void {
    const { config } = this.#parts;
    const date = new Date(now);
    const day = date.toISOString().slice(0, 10);
    const hours = config.timerCheckMetricsWhen.split(';').map(Number);
    if (!config.timerEnableCheckMetrics || this.#metricsDay === day || !hours.includes(date.getHours())) return;
    this.#metricsDay = day;
    this.reviseMetrics();
  }

  /** Counts what waits for each topic anew, from the timer log; for topics with less than `timerMetricSmallThreshold`. */
  reviseMetrics(): void {
    const state = this.#state;
    if (state === undefined) return;
    const counts = new Map<number, number>();
    state.log.scan(
      state.log.first,
      (_position, unit) => {
        if (unit.slotTime >= this.#readMs) {
          const count = counts.get(unit.topicHash) ?? 0;
          counts.set(unit.topicHash, count + ((unit.magic & TimerMagic.DELETE) !== 0 ? -1 : 1));
        }
        return true;
      },
      new TimerUnit(),
    );
    for (const topic of [...this.metrics.topics]) {
      if (this.metrics.count(topic) < this.#parts.config.timerMetricSmallThreshold) {
        this.metrics.set(topic, counts.get(javaStringHash(topic)) ?? 0);
      }
    }
  }
}

/** A unit that only deletes others. */
function isOrder(magic: number): boolean {
  return (magic & TimerMagic.DELETE) !== 0 && (magic & TimerMagic.ROLL) === 0;
}
