// Messages with any delay. The put has moved them into the timer's topic (timer-put.ts); here they are taken from its queue into the wheel
// and, when their time has come, stored once more in their real topics.
//
//   timer-queue    queue of the timer's topic ─► look ─► unit in the timer log, slot in the wheel   (too late for it: delivered at once)
//   slot-delivery  end of a slot ─► its units, oldest first ─► orders to delete ─► real topic, or round again if it is far away
//   timer-saving   once a second, if something changed: log synced ─► wheel synced ─► checkpoint, whose time is never ahead of what is synced
//
// A slot holds what is due within the tick that it begins (a whole tick counts for the one before), and is delivered when that tick is
// over: never early, at most one tick late. The service sleeps until the next slot that holds something.
//
// RocketMQ: TimerMessageStore. Its six threads poll; it gives a message up after three failed puts, which here waits until the store
// takes it, and a damaged timer message stops everything behind it, which here is set aside, named and counted.

import { errorText, GantryError, SeldomWarning, type Timer } from '../../common/index.ts';
import { decodeMessages } from '../../message/index.ts';
import { type Removal, type RetentionFloor, readIdleTimer, recoverTimer } from '../../store/index.ts';
import type { ConfigEnvironment } from '../config-manager.ts';
import { TIMER_TOPIC } from '../topic/topic-names.ts';
import { MetricsRevision } from './metrics-revision.ts';
import { RecallOrders } from './recall-orders.ts';
import { RecordFetch } from './record-fetch.ts';
import { SlotDelivery, type SlotParts } from './slot-delivery.ts';
import { TimerDelivery } from './timer-delivery.ts';
import { TimerFigures } from './timer-figures.ts';
import { TimerMetrics } from './timer-metrics.ts';
import { timerPrecision } from './timer-put.ts';
import { TimerQueue } from './timer-queue.ts';
import { TimerRetention } from './timer-retention.ts';
import { TimerSaving } from './timer-saving.ts';
import { TimerSlots } from './timer-slots.ts';
import { RETRY_MS, type TimerParts, TimerState } from './timer-state.ts';

/** Ticks that are looked ahead for the next slot that holds something. */
const HORIZON_TICKS = 4096;

/** The parts of a timer that is there. */
interface Work extends SlotParts {
  readonly slotDelivery: SlotDelivery;
  readonly saving: TimerSaving;
  readonly revision: MetricsRevision;
}

/** How far the timer is. */
export interface TimerPosition {
  /** Messages of its queue before this one are in the wheel, or delivered if they came too late for it. */
  readonly queueOffset: number;
  /** Slots before this time are delivered; ms since 1970. */
  readonly readMs: number;
  /** The slot that is being delivered; -1: none. What comes for it goes into the next one. */
  readonly slotMs: number;
  readonly precisionMs: number;
}

export class TimerMessageService implements RetentionFloor {
  readonly name = 'timer messages';
  readonly metrics: TimerMetrics;
  readonly figures: TimerFigures = new TimerFigures();
  readonly precisionMs: number;
  readonly #environment: ConfigEnvironment;
  readonly #parts: TimerParts;
  #work: Work | undefined;
  #retention: TimerRetention | undefined;
  #slotDone: Promise<void> = Promise.resolve();
  /** The slot before which the queue is read to `#drainTo`. */
  #drainFor = -1;
  #drainTo = 0;
  /** Nothing is delivered before; ms since 1970. */
  #startAt = 0;
  #wakeTimer: Timer | undefined;
  #wakeMs = Number.POSITIVE_INFINITY;
  #beatTimer: Timer | undefined;
  /** Time of the last line about the progress. */
  #toldMs = 0;

  constructor(environment: ConfigEnvironment, parts: TimerParts) {
    this.#environment = environment;
    this.#parts = parts;
    this.precisionMs = timerPrecision(parts.config);
    this.metrics = new TimerMetrics(environment);
  }

  /** Whether the timer is there: the setting, and the start. */
  get enabled(): boolean {
    return this.#work !== undefined;
  }

  /** undefined while the timer is off. */
  get position(): TimerPosition | undefined {
    if (this.#work === undefined) return undefined;
    const { state } = this.#work;
    state.advance();
    const { queueOffset, readMs, slotMs } = state;
    return { queueOffset, readMs, slotMs, precisionMs: this.precisionMs };
  }

  /** Messages that are due in the tick that begins at `timeMs`. */
  pendingAt(timeMs: number): number {
    return this.#work?.slots.pendingAt(timeMs) ?? 0;
  }

  /** What a slave is answered; undefined while the timer is off. */
  get checkpoint(): Uint8Array | undefined {
    return this.#work?.state.checkpoint.encode();
  }

  /** RocketMQ's figures for the runtime information. */
  runtime(): Record<string, string> {
    const rates = this.figures.rates();
    if (this.#work === undefined) {
      return { timerReadBehind: '0', timerOffsetBehind: '0', timerCongestNum: '0', ...rates };
    }
    const { state } = this.#work;
    state.advance();
    return {
      timerReadBehind: String(Math.floor((state.clock.now() - state.readMs) / 1000)),
      timerOffsetBehind: String(state.store.maxOffsetInQueue(TIMER_TOPIC, 0) - state.queueOffset),
      timerCongestNum: String(state.wheel.countFrom(state.readMs)),
      ...rates,
      ...this.figures.own(),
    };
  }

  /**
   * Opens and mends the timer's files; with `timerWheelEnable` off they are only looked at, for what must stay.
   * @throws GantryError STORE_FILE_SIZE, STORE_DAMAGED, IO, DISK_FULL.
   */
  async load(): Promise<void> {
    const { config, store } = this.#parts;
    const { clock, fs, logger } = this.#environment;
    if (!config.timerWheelEnable) {
      this.#retention = this.#retentionOfIdle();
      return;
    }
    try {
      this.metrics.load();
    } catch (error) {
      logger.warn(`the timer's figures start from 0: ${errorText(error)}`);
    }
    const root = store.config.storePathRootDir;
    const options = { fs, logger, root, precisionMs: this.precisionMs, logFileBytes: config.mappedFileSizeTimerLog };
    const recovered = await recoverTimer(options, {
      logEnd: store.watermarks.wrote,
      queueMin: store.minOffsetInQueue(TIMER_TOPIC, 0),
      queueMax: store.maxOffsetInQueue(TIMER_TOPIC, 0),
      nowMs: clock.now(),
      ordinalOf: (offset, size) => this.#ordinalOf(offset, size),
    });
    const queueMax = store.maxOffsetInQueue(TIMER_TOPIC, 0);
    const state = new TimerState(this.#environment, this.#parts, this, recovered, queueMax);
    const slots = new TimerSlots(state, (timeMs) => {
      if (timeMs < this.#wakeMs) this.#sleepUntil(state, timeMs);
    });
    const delivery = new TimerDelivery(state);
    const queue = new TimerQueue(state, slots, delivery, recovered, () => this.#wake());
    const fetch = new RecordFetch(store);
    const parts = { state, slots, queue, delivery, fetch, orders: new RecallOrders(state, fetch) };
    const revision = new MetricsRevision(state);
    const saving = new TimerSaving(state, queue, recovered, () => {
      this.metrics.persistInSlices();
      this.figures.sample(clock.now());
      revision.reviseIfDue();
    });
    this.#retention = new TimerRetention(saving, clock, state.seldom);
    this.#work = { ...parts, slotDelivery: new SlotDelivery(parts), saving, revision };
    this.figures.sample(clock.now());
  }

  /** For a timer that is switched off. Files that cannot be read name nothing; what they named lies in the queue, too. */
  #retentionOfIdle(): TimerRetention | undefined {
    const { clock, fs, logger } = this.#environment;
    const { config, store } = this.#parts;
    try {
      const { log, queueOffset, readMs } = readIdleTimer(
        fs,
        store.config.storePathRootDir,
        config.mappedFileSizeTimerLog,
      );
      const progress = { log, queueOffset, doneMs: readMs };
      return new TimerRetention(progress, clock, new SeldomWarning(clock, logger));
    } catch (error) {
      if (!(error instanceof GantryError)) throw error;
      logger.warn(`what waits in the timer's files is not known, and is not kept from removal: ${error.message}`);
      return undefined;
    }
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
    if (this.#work === undefined) return;
    const { state, queue } = this.#work;
    state.running = true;
    this.#startAt = state.clock.now() + state.config.disappearTimeAfterStart;
    this.#beatTimer = state.clock.every(state.config.timerFlushIntervalMs, () => this.#beat());
    queue.noted(0);
  }

  /** Takes and delivers nothing more; resolves when the slot that is being delivered is left. */
  async stop(): Promise<void> {
    if (this.#work === undefined) return;
    this.#work.state.running = false;
    this.#work.queue.stop();
    this.#beatTimer?.cancel();
    this.#wakeTimer?.cancel();
    await this.#slotDone;
  }

  /** Saves exactly how far it came; for the end, when the store is closed and all deliveries are on disk. */
  async close(): Promise<void> {
    if (this.#work === undefined) return;
    const { state, saving, slotDelivery } = this.#work;
    await saving.close(() => slotDelivery.shortenSlot());
    await this.metrics.persistLast();
    state.log.close();
    this.#work = undefined;
  }

  /** After a start that failed: lets the timer's files go, as they are. */
  release(): void {
    this.#work?.state.log.close();
    this.#work = undefined;
  }

  /** A message was put into the timer's topic. */
  noted(): void {
    this.#work?.queue.noted();
  }

  /**
   * Cancels a message by the slot and key of its handle, from now on; the order that makes it last is put by the caller. False: that slot
   * is being delivered or done.
   */
  cancel(slotMs: number, key: string): boolean {
    return this.#work?.orders.cancel(slotMs, key) ?? false;
  }

  /** Takes back a `cancel` whose order could not be put. */
  uncancel(slotMs: number, key: string): void {
    this.#work?.orders.uncancel(slotMs, key);
  }

  /** Counts what `needed` will be asked. */
  async prepare(file: Pick<Removal, 'start' | 'end' | 'forced'>): Promise<void> {
    await this.#retention?.prepare(file);
  }

  /** Messages of a removal that wait in the wheel, or are not taken from the queue yet. */
  needed(removal: Removal): number {
    return this.#retention?.needed(removal) ?? 0;
  }

  /** Counts what waits for each topic anew. @throws GantryError IO. */
  async reviseMetrics(): Promise<void> {
    await this.#work?.revision.revise();
  }

  // --- When slots are delivered

  #sleepUntil(state: TimerState, wakeMs: number): void {
    if (!state.running) return;
    this.#wakeTimer?.cancel();
    this.#wakeMs = wakeMs;
    this.#wakeTimer = state.clock.after(Math.max(0, wakeMs - state.clock.now()), () => {
      this.#wakeTimer = undefined;
      this.#wakeMs = Number.POSITIVE_INFINITY;
      this.#wake();
    });
  }

  /** Delivers the next slot that is over, or sleeps until there is one. */
  #wake(): void {
    const work = this.#work;
    if (work === undefined) return;
    const { state } = work;
    if (!state.running || state.slotMs >= 0 || state.config.timerStopDequeue || state.catchingUp) return;
    if (state.clock.now() < this.#startAt) {
      this.#sleepUntil(state, this.#startAt);
      return;
    }
    state.advance();
    if (state.readMs < state.writeMs) {
      if (this.#drained(work)) this.#slotDone = this.#deliverSlot(work);
      return;
    }
    const horizonMs = state.readMs + HORIZON_TICKS * this.precisionMs;
    const next = state.wheel.next(state.readMs, horizonMs);
    this.#sleepUntil(state, next >= 0 ? next + this.precisionMs : horizonMs);
  }

  /** Whether all is taken from the queue that was in it when the slot was over: messages and orders for it. */
  #drained({ state, queue }: Work): boolean {
    if (this.#drainFor !== state.readMs) {
      this.#drainFor = state.readMs;
      this.#drainTo = state.store.maxOffsetInQueue(TIMER_TOPIC, 0);
    }
    if (state.queueOffset >= this.#drainTo || queue.blocked || state.config.timerStopEnqueue) return true;
    queue.noted(0);
    return false;
  }

  async #deliverSlot({ state, slotDelivery, orders }: Work): Promise<void> {
    const slotMs = state.readMs;
    state.slotMs = slotMs;
    let done = false;
    try {
      done = await slotDelivery.deliver(slotMs);
    } catch (error) {
      state.seldom.warn(
        'slot',
        `timer: messages due at ${slotMs} cannot be delivered now (${errorText(error)}); they wait`,
      );
    }
    state.slotMs = -1;
    state.changed = true;
    if (done) {
      state.readMs = slotMs + this.precisionMs;
      orders.forget(slotMs);
      this.#wake();
    } else if (state.running) {
      state.clock.after(RETRY_MS, () => this.#wake());
    }
  }

  /** Once in `timerFlushIntervalMs`. */
  #beat(): void {
    if (this.#work === undefined) return;
    const { state, queue, saving } = this.#work;
    if (state.store.maxOffsetInQueue(TIMER_TOPIC, 0, false) > state.queueOffset) queue.noted();
    // A clock that was set ahead: the timer does not know.
    if (state.slotMs < 0 && (this.#wakeTimer === undefined || state.clock.now() >= this.#wakeMs)) this.#wake();
    saving.begin();
    this.#tellProgress(state);
  }

  /** RocketMQ: "Timer progress-check", at level info. */
  #tellProgress(state: TimerState): void {
    const now = state.clock.now();
    if (now - this.#toldMs < state.config.timerProgressLogIntervalMs) return;
    this.#toldMs = now;
    const behind = state.store.maxOffsetInQueue(TIMER_TOPIC, 0) - state.queueOffset;
    state.logger.debug(
      `the timer has come to ${new Date(state.readMs).toISOString()} and to message ${state.queueOffset} of its queue, ${behind} before its end`,
    );
  }
}
