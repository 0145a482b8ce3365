// What the parts of the running timer share: what they work on, the timer's files, and how far it is in them.

import { type Clock, type Logger, SeldomWarning } from '../../common/index.ts';
import type { StoredMessage } from '../../message/index.ts';
import type { MessageStore, RecoveredTimer, TimerLog, TimerWheel } from '../../store/index.ts';
import type { BrokerConfig } from '../broker-config.ts';
import type { ConfigEnvironment } from '../config-manager.ts';
import type { TimerFigures } from './timer-figures.ts';
import type { TimerMetrics } from './timer-metrics.ts';

/** Ms until something that failed is tried again. */
export const RETRY_MS = 500;

export interface TimerParts {
  readonly config: BrokerConfig;
  readonly store: MessageStore;
  readonly storeHost: Uint8Array;
}

export class TimerState {
  readonly config: BrokerConfig;
  readonly store: MessageStore;
  readonly storeHost: Uint8Array;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly seldom: SeldomWarning;
  readonly metrics: TimerMetrics;
  readonly figures: TimerFigures;
  readonly wheel: TimerWheel;
  readonly log: TimerLog;
  readonly checkpoint: RecoveredTimer['checkpoint'];
  /** Whether messages are taken and delivered. */
  running = false;
  /** Whether there is something to save. */
  changed = false;
  /** Next message of the queue to take. */
  queueOffset: number;
  /** Nothing is delivered until the queue was read to here. */
  catchUpTo: number;
  /** First slot that is not done. */
  readMs: number;
  /** The slot that is being delivered; -1: none. */
  slotMs = -1;
  /** The wheel's time: start of the current tick; never goes back. */
  writeMs: number;

  constructor(
    { clock, logger }: ConfigEnvironment,
    { config, store, storeHost }: TimerParts,
    { metrics, figures }: { metrics: TimerMetrics; figures: TimerFigures },
    recovered: RecoveredTimer,
    queueMax: number,
  ) {
    this.config = config;
    this.store = store;
    this.storeHost = storeHost;
    this.clock = clock;
    this.logger = logger;
    this.seldom = new SeldomWarning(clock, logger);
    this.metrics = metrics;
    this.figures = figures;
    this.wheel = recovered.wheel;
    this.log = recovered.log;
    this.checkpoint = recovered.checkpoint;
    this.queueOffset = recovered.queueOffset;
    this.catchUpTo = queueMax;
    this.readMs = recovered.readMs;
    this.writeMs = this.tick(clock.now());
  }

  get precisionMs(): number {
    return this.wheel.precisionMs;
  }

  /** Whether messages that were in the queue at the start are still to be taken. */
  get catchingUp(): boolean {
    return this.queueOffset < this.catchUpTo;
  }

  /** The first slot that still takes messages. */
  get openFrom(): number {
    return this.slotMs >= 0 ? this.slotMs + this.precisionMs : this.readMs;
  }

  tick(timeMs: number): number {
    return Math.floor(timeMs / this.precisionMs) * this.precisionMs;
  }

  /** Moves past slots that hold nothing. */
  advance(): void {
    this.writeMs = Math.max(this.writeMs, this.tick(this.clock.now()));
    if (this.slotMs >= 0 || this.catchingUp) return;
    const next = this.wheel.next(this.readMs, this.writeMs);
    this.readMs = next < 0 ? Math.max(this.readMs, this.writeMs) : next;
  }

  /** Leaves out a message that makes no sense. */
  setAside(message: Pick<StoredMessage, 'queueOffset' | 'physicalOffset' | 'messageId'>, reason: string): void {
    this.figures.setAside++;
    this.logger.error(
      `timer message ${message.messageId} (number ${message.queueOffset}, offset ${message.physicalOffset} of the log) is set aside: ${reason}`,
    );
  }

  /** Lets other work have its turn. */
  turn(): Promise<void> {
    return new Promise((resolve) => this.clock.soon(resolve));
  }

  pause(ms: number): Promise<void> {
    return new Promise((resolve) => this.clock.after(ms, resolve));
  }
}
