// Takes the messages of the timer's topic from its queue, in order, into the wheel.

import { errorText, type Timer } from '../../common/index.ts';
import { MATCH_ALL } from '../../filter/index.ts';
import { nameBytes, PropertyName } from '../../message/index.ts';
import { GetMessageStatus, GetResult, type RecoveredTimer } from '../../store/index.ts';
import { TIMER_TOPIC } from '../topic/topic-names.ts';
import { RETRY, type TimerDelivery } from './timer-delivery.ts';
import { NO_TOPIC, type SlotMessage, TimerRecord } from './timer-record.ts';
import type { TimerSlots } from './timer-slots.ts';
import { RETRY_MS, type TimerState } from './timer-state.ts';

/** Ms until the queue is looked at after a put, and again while more is to come. */
const LOOK_MS = 5;
/** Messages and bytes of one look. */
const LOOK_MESSAGES = 256;
const LOOK_BYTES = 1024 * 1024;
/** RocketMQ: TIMER_ENQUEUE_MS of a message that never was in the wheel. */
const NEVER_ENQUEUED = '9223372036854775807';
/** Bytes of the buffer that is kept for the next look. */
const KEPT_BYTES = 256 * 1024;
const TIMER_OUT_MS = nameBytes(PropertyName.TIMER_OUT_MS);
const TIMER_ROLL_TIMES = nameBytes(PropertyName.TIMER_ROLL_TIMES);
const UNIQ_KEY = nameBytes(PropertyName.UNIQ_KEY);
const NO_BYTES = Buffer.alloc(0);

interface Held extends SlotMessage {
  readonly dueMs: number;
}

export class TimerQueue {
  readonly #state: TimerState;
  readonly #slots: TimerSlots;
  readonly #delivery: TimerDelivery;
  readonly #wake: () => void;
  readonly #result = new GetResult();
  /** Messages below are from an earlier life: those before the slot `#handledMs` were delivered then. */
  readonly #knownOffset: number;
  readonly #handledMs: number;
  /** After a loss: messages that go round, until it is clear that they have not gone already. By UNIQ_KEY. */
  #held: Map<string, Held> | undefined;
  #looking = false;
  #blocked = false;
  #timer: Timer | undefined;
  readonly #record = new TimerRecord();
  /** What was read last. */
  #bytes: Buffer = NO_BYTES;
  /** Records of the look under way that came too late for the wheel, and where their deliveries end in the CommitLog. */
  #late: Uint8Array[] = [];
  #lateEnds: number[] = [];

  /** `wake` is called when slots may be delivered. */
  constructor(
    state: TimerState,
    slots: TimerSlots,
    delivery: TimerDelivery,
    { knownOffset, readMs }: RecoveredTimer,
    wake: () => void,
  ) {
    this.#state = state;
    this.#slots = slots;
    this.#delivery = delivery;
    this.#knownOffset = knownOffset;
    this.#handledMs = readMs;
    this.#wake = wake;
    if (state.catchingUp) this.#held = new Map();
  }

  /** The queue's next message waits: for a slot of an earlier round that is not done, or for a store that takes nothing. */
  get blocked(): boolean {
    return this.#blocked;
  }

  /** Whether messages are held that the wheel does not name yet. */
  get isHolding(): boolean {
    return this.#held !== undefined;
  }

  /** Looks at the queue in `ms`, unless it is looked at already or soon. */
  noted(ms: number = LOOK_MS): void {
    if (this.#state.running && this.#timer === undefined && !this.#looking) this.#lookSoon(ms);
  }

  stop(): void {
    this.#timer?.cancel();
  }

  #lookSoon(ms: number): void {
    this.#timer?.cancel();
    this.#timer = this.#state.clock.after(ms, () => {
      this.#timer = undefined;
      this.#look();
    });
  }

  #look(): void {
    const state = this.#state;
    if (!state.running || this.#looking) return;
    if (state.config.timerStopEnqueue) {
      state.catchUpTo = 0;
      return this.#wake();
    }
    this.#looking = true;
    try {
      this.#step();
    } catch (error) {
      this.#lookFailed(error);
    }
  }

  #lookFailed(error: unknown): void {
    const { running, queueOffset, seldom } = this.#state;
    this.#looking = false;
    seldom.warn('look', `the timer's queue cannot be read at ${queueOffset} (${errorText(error)}); it is tried again`);
    if (running) this.#lookSoon(RETRY_MS);
  }

  #step(): void {
    const state = this.#state;
    const { store } = state;
    const result = this.#result;
    const again = (error?: unknown): void => {
      if (error !== undefined) return this.#lookFailed(error);
      this.#looking = false;
      this.#look();
    };
    const request = {
      topic: TIMER_TOPIC,
      queueId: 0,
      offset: state.queueOffset,
      maxMessages: LOOK_MESSAGES,
      maxBytes: LOOK_BYTES,
      filter: MATCH_ALL,
    };
    if (!store.select(request, result, again)) return;
    const next = result.nextBeginOffset;
    if (result.status === GetMessageStatus.FOUND) {
      if (this.#bytes.length < result.totalBytes) this.#bytes = Buffer.allocUnsafe(result.totalBytes);
      if (!store.copyRecords(result, this.#bytes, 0, again)) return;
      const reached = this.#take(this.#bytes, next);
      if (this.#bytes.length > KEPT_BYTES) this.#bytes = NO_BYTES;
      if (this.#late.length === 0) return this.#taken(reached, reached === next);
      void this.#settleLate().then((settled) => {
        if (settled) this.#taken(reached, reached === next);
        else this.#looking = false;
      });
    } else if (next > state.queueOffset) {
      state.logger.warn(`timer: messages ${state.queueOffset} to ${next - 1} of its queue are gone or damaged`);
      this.#taken(next, true);
    } else {
      state.queueOffset = next;
      this.#looking = false;
      this.#caughtUp();
      // What is put, but not yet visible.
      if (store.maxOffsetInQueue(TIMER_TOPIC, 0, false) > state.queueOffset) this.#lookSoon(LOOK_MS);
      this.#wake();
    }
  }

  /** The messages before `offset` are taken, and what was delivered of them is written. Not `whole`: that one must be tried again. */
  #taken(offset: number, whole: boolean): void {
    const state = this.#state;
    state.queueOffset = offset;
    state.changed = true;
    this.#looking = false;
    this.#blocked = !whole;
    if (!whole) this.#lookSoon(RETRY_MS);
    else {
      if (!state.catchingUp) this.#caughtUp();
      state.clock.soon(() => this.#look());
    }
    if (!state.catchingUp) this.#wake();
  }

  /** All that was in the queue at the start is taken: what had to go round is known now. */
  #caughtUp(): void {
    this.#state.catchUpTo = 0;
    if (this.#held === undefined) return;
    const held = this.#held;
    this.#held = undefined;
    for (const message of held.values()) this.#slots.link(message, message.dueMs);
  }

  /** Takes what was read, in order; the offset behind it, or of one that must be tried again. One that makes no sense hides no other. */
  #take(bytes: Uint8Array, next: number): number {
    const { count, sizes, positions } = this.#result;
    const message = this.#record;
    this.#state.advance();
    for (let i = 0, at = 0; i < count; at += sizes[i++]!) {
      if (!message.open(bytes, at, at + sizes[i]!)) {
        this.#state.setAside({ queueOffset: -1, physicalOffset: positions[i]!, messageId: '' }, 'it is no message');
      } else if (!this.#takeOne(message)) return message.queueOffset;
    }
    return next;
  }

  #takeOne(message: TimerRecord): boolean {
    const state = this.#state;
    const dueMs = message.number(TIMER_OUT_MS);
    if (Number.isNaN(dueMs) || message.realTopic === NO_TOPIC) {
      const text = message.properties.get(TIMER_OUT_MS);
      const topic = message.realTopic === NO_TOPIC ? undefined : message.realTopic.name;
      state.setAside(message, `TIMER_OUT_MS is ${text}, REAL_TOPIC is ${topic}`);
      return true;
    }
    const slotMs = state.tick(dueMs);
    const known = message.queueOffset < this.#knownOffset;
    if (known && slotMs < this.#handledMs) return true;
    if (this.#held !== undefined && !this.#holds(this.#held, message, slotMs)) return true;
    if (slotMs < state.openFrom) {
      if (message.isOrder) return true;
      if (slotMs !== state.slotMs) return this.#deliverLate(message);
      // What comes for the slot that is being delivered follows in the next one.
      this.#slots.link(message, slotMs + state.precisionMs);
      return true;
    }
    if (this.#slots.isOccupied(slotMs)) {
      state.catchUpTo = 0;
      return false;
    }
    this.#slots.link(message, slotMs);
    return true;
  }

  /** Without the wheel; false if it must be tried again. */
  #deliverLate(message: TimerRecord): boolean {
    const end = this.#delivery.deliver(message, NEVER_ENQUEUED, false);
    if (end > 0) {
      this.#late.push(message.copy());
      this.#lateEnds.push(end);
    }
    return end !== RETRY;
  }

  /** What came too late is written, or delivered again, before the queue's next messages are taken. False if a stop comes between. */
  async #settleLate(): Promise<boolean> {
    while (this.#late.length > 0) {
      const lost = await this.#delivery.firstLost(this.#lateEnds);
      const again = lost < 0 ? [] : this.#late.slice(lost);
      this.#late = [];
      this.#lateEnds = [];
      for (let k = 0; k < again.length; ) {
        await this.#state.pause(RETRY_MS);
        if (!this.#state.running) return false;
        while (k < again.length && this.#deliverLate(this.#opened(again[k]!))) k++;
      }
    }
    return true;
  }

  #opened(bytes: Uint8Array): TimerRecord {
    this.#record.open(bytes, 0, bytes.length);
    return this.#record;
  }

  /** After a loss: false if the message waits until it is clear whether it has gone round already. */
  #holds(held: Map<string, Held>, message: TimerRecord, dueMs: number): boolean {
    const { catchUpTo, precisionMs } = this.#state;
    const key = message.properties.get(UNIQ_KEY);
    if (key === undefined) return true;
    const identity = `${message.isOrder ? '-' : '+'}${key}`;
    // Its copy comes behind it in the queue.
    if (message.properties.find(TIMER_ROLL_TIMES) >= 0) held.delete(identity);
    if (message.queueOffset >= catchUpTo || dueMs - message.storeTimestamp < this.#slots.windowMs - precisionMs)
      return true;
    const { isOrder, physicalOffset, realTopic, storeSize } = message;
    held.set(identity, { isOrder, physicalOffset, realTopic, storeSize, dueMs });
    return false;
  }
}
