// How much old data a group may read. All is off unless `coldDataFlowControlEnable`: then what each group reads from the cold part of the
// log is added up, and a group over its threshold (or everybody, once all together are over the global one) is held up until the window of
// 5 s ends. RocketMQ: ColdDataCgCtrService, ColdDataPullRequestHoldService, PIDAdaptiveColdCtrStrategy, SimpleColdCtrStrategy.
//
//   threshold of a group: what an operator set (2001), else what was found for it (`coldCtrStrategyEnable`), else cgColdReadThreshold
//
// What counts as cold is the store's matter (`accessMessageInMemoryHotRatio`); push consumers are refused, pull consumers wait.

import type { Clock, Timer } from '../../common/index.ts';
import type { MessageStoreConfig } from '../../store/index.ts';
import type { BrokerConfig } from '../broker-config.ts';
import { isSystemPullGroup } from '../topic/topic-names.ts';

/** RocketMQ: a window, and how long a group that reads nothing cold stays in the table. */
const WINDOW_MS = 5000;
const RESIDE_MS = 60_000;
/** RocketMQ: a pull that is held is run again so long after, at the next end of a window. */
const HOLD_MS = 3000;
const MOST_HELD = 10_000;
/** RocketMQ marks thresholds that were found, not set, like this. */
const ADAPTIVE = '||adaptive';
const MOST_DECELERATED = 3;
const PROMOTE = 1.5;
const DECELERATE = 0.8;
/** RocketMQ: the errors of so many windows, weighted as proportional, integral and differential part. */
const WINDOWS = 10;
const KP = 0.5;
const KI = 0.3;
const KD = 0.2;

interface Account {
  /** Cold bytes of this window. */
  bytes: number;
  createdAt: number;
  lastReadAt: number;
}

/** A pull that waits for the next windows. */
export interface ColdPull {
  /** Runs it again, this time without waiting. */
  resume(): void;
  /** There will be no answer. */
  forget(): void;
}

export class ColdDataControl {
  readonly #clock: Clock;
  readonly #config: BrokerConfig;
  readonly #storeConfig: MessageStoreConfig;
  readonly #accounts = new Map<string, Account>();
  readonly #set = new Map<string, number>();
  readonly #found = new Map<string, number>();
  readonly #errors: number[] = [];
  #globalBytes = 0;
  #held: Array<{ pull: ColdPull; since: number }> = [];
  #timer: Timer | undefined;

  constructor(clock: Clock, config: BrokerConfig, storeConfig: MessageStoreConfig) {
    this.#clock = clock;
    this.#config = config;
    this.#storeConfig = storeConfig;
  }

  start(): void {
    this.#timer = this.#clock.every(WINDOW_MS, () => {
      this.#endWindow();
      this.#resumeHeld();
    });
  }

  stop(): void {
    this.#timer?.cancel();
    for (const { pull } of this.#held.splice(0)) pull.forget();
  }

  /** Adds what a read has taken from the cold part of the log. */
  add(group: string, bytes: number): void {
    if (bytes <= 0 || !this.#storeConfig.coldDataFlowControlEnable || isSystemPullGroup(group)) return;
    const now = this.#clock.now();
    this.#globalBytes += bytes;
    const account = this.#accounts.get(group);
    if (account === undefined) {
      this.#accounts.set(group, { bytes, createdAt: now, lastReadAt: now });
    } else {
      account.bytes += bytes;
      account.lastReadAt = now;
    }
  }

  /** Whether the group's reads of cold data are held up now. */
  isHeldUp(group: string): boolean {
    if (!this.#storeConfig.coldDataFlowControlEnable || this.#accounts.size === 0) return false;
    const account = this.#accounts.get(group);
    if (account === undefined) return false;
    return account.bytes >= this.#threshold(group) || this.#globalBytes >= this.#config.globalColdReadThreshold;
  }

  /** Lets a pull wait; false if too many do. RocketMQ forgets such a pull, and its client runs into a time-out. */
  hold(pull: ColdPull): boolean {
    if (this.#held.length >= MOST_HELD) return false;
    this.#held.push({ pull, since: this.#clock.now() });
    return true;
  }

  /** Pulls that wait. */
  get held(): number {
    return this.#held.length;
  }

  setThreshold(group: string, bytes: number): void {
    this.#set.set(group, bytes);
  }

  removeThreshold(group: string): void {
    this.#set.delete(group);
    if (group.endsWith(ADAPTIVE)) this.#found.delete(group.slice(0, -ADAPTIVE.length));
  }

  /** RocketMQ: getColdDataFlowCtrInfo. */
  info(): object {
    const runtimeTable: Record<string, object> = {};
    for (const [group, { bytes, createdAt, lastReadAt }] of this.#accounts) {
      runtimeTable[group] = { coldAcc: bytes, createTimeMills: createdAt, lastColdReadTimeMills: lastReadAt };
    }
    const configTable: Record<string, number> = Object.fromEntries(this.#set);
    for (const [group, bytes] of this.#found) configTable[group + ADAPTIVE] = bytes;
    return {
      runtimeTable,
      configTable,
      cgColdReadThreshold: this.#config.cgColdReadThreshold,
      globalColdReadThreshold: this.#config.globalColdReadThreshold,
      globalAcc: this.#globalBytes,
    };
  }

  #threshold(group: string): number {
    const set = this.#set.get(group);
    if (set !== undefined) return set;
    const found = this.#config.coldCtrStrategyEnable ? this.#found.get(group) : undefined;
    return found ?? this.#config.cgColdReadThreshold;
  }

  #endWindow(): void {
    const adapts = this.#config.coldCtrStrategyEnable;
    const isOver = this.#globalBytes > this.#config.globalColdReadThreshold;
    if (adapts) {
      this.#errors.push(0.8 * this.#config.globalColdReadThreshold - this.#globalBytes);
      if (this.#errors.length > WINDOWS) this.#errors.shift();
    }
    const now = this.#clock.now();
    for (const [group, account] of this.#accounts) {
      const threshold = this.#threshold(group);
      if (now >= account.lastReadAt + RESIDE_MS) {
        this.#accounts.delete(group);
        this.#found.delete(group);
      } else if (account.bytes >= threshold && adapts && !isOver && !this.#set.has(group) && this.#mayPromote()) {
        this.#found.set(group, Math.floor(threshold * PROMOTE));
      }
      account.bytes = 0;
    }
    if (adapts) this.#decelerate(isOver);
    else this.#found.clear();
    this.#globalBytes = 0;
  }

  #decelerate(isOver: boolean): void {
    if (this.#config.usePIDColdCtrStrategy ? this.#factor() >= 0 : !isOver) return;
    const largest = [...this.#found].filter(([group]) => !this.#set.has(group)).sort((a, b) => b[1] - a[1]);
    for (const [group, threshold] of largest.slice(0, MOST_DECELERATED)) {
      this.#found.set(group, Math.max(this.#config.cgColdReadThreshold, Math.floor(threshold * DECELERATE)));
    }
  }

  #mayPromote(): boolean {
    return !this.#config.usePIDColdCtrStrategy || this.#factor() > 0;
  }

  /** Above 0: there is room; 0 until enough is known. */
  #factor(): number {
    if (this.#errors.length < WINDOWS) return 0;
    const last = this.#errors.at(-1)!;
    const sum = this.#errors.reduce((total, error) => total + error, 0);
    return KP * last + KI * sum + KD * (last - this.#errors.at(-2)!);
  }

  #resumeHeld(): void {
    const due = this.#clock.now() - HOLD_MS;
    let count = 0;
    while (count < this.#held.length && this.#held[count]!.since <= due) count++;
    for (const { pull } of this.#held.splice(0, count)) pull.resume();
  }
}
