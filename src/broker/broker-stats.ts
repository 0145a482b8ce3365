// Counters of what goes in and out, and the rates that tools show. Those who handle messages add to the plain numbers; a sample every
// ten seconds is all that it costs beyond that. RocketMQ: StoreStatsService, BrokerStats.

import type { Clock, Timer } from '../common/index.ts';
import type { PutResult } from '../store/index.ts';
import type { TrafficCount } from './traffic-stats.ts';

const SAMPLE_MS = 10_000;
/** Samples kept: ten minutes and the one before. */
const SAMPLES = 61;

interface Sample {
  atMs: number;
  put: number;
  found: number;
  missed: number;
  transferred: number;
}

export class BrokerStats {
  /** Messages stored and their bytes, and puts that were refused. */
  putMessages = 0;
  putBytes = 0;
  putFailed = 0;
  /** Of these, sends that had waited too long for a store that did not keep up. */
  putTooLate = 0;
  /** Messages that were not stored again, because they had been before (send de-duplication). */
  putDuplicates = 0;
  /** Longest put so far, ms. */
  putLongestMs = 0;
  /** Pulls that found something, pulls that did not, and messages handed out. */
  getFound = 0;
  getMissed = 0;
  getMessages = 0;
  /** Totals at the last two midnights (local time); 0 until one has passed. */
  putTodayMorning = 0;
  putYesterdayMorning = 0;
  getTodayMorning = 0;
  getYesterdayMorning = 0;
  readonly bootMs: number;
  readonly #clock: Clock;
  readonly #samples: Sample[] = [];
  #timer: Timer | undefined;
  #day: number;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.bootMs = clock.now();
    this.#day = localDay(this.bootMs);
  }

  /** Counts what a request has stored, here and in its topic's count. */
  stored(puts: TrafficCount, result: PutResult): void {
    this.putMessages += result.messageCount;
    this.putBytes += result.wroteBytes;
    puts.messages += result.messageCount;
    puts.bytes += result.wroteBytes;
    puts.requests++;
  }

  /** Begins to sample. */
  start(): void {
    this.#sample();
    this.#timer = this.#clock.every(SAMPLE_MS, () => this.#sample());
  }

  stop(): void {
    this.#timer?.cancel();
  }

  /** Rates a second over the last 10, 60 and 600 seconds, as far as the broker has run; RocketMQ's text form. */
  rates(of: 'put' | 'found' | 'missed' | 'transferred' | 'get'): string {
    const now = this.#now();
    return [1, 6, 60]
      .map((back) => {
        const then = this.#samples.at(-back);
        if (then === undefined) return '';
        const seconds = (now.atMs - then.atMs) / 1000;
        const value = (sample: Sample): number => (of === 'get' ? sample.found + sample.missed : sample[of]);
        return seconds <= 0 ? '0.0' : asDouble((value(now) - value(then)) / seconds);
      })
      .filter((text) => text !== '')
      .join(' ');
  }

  #now(): Sample {
    return {
      atMs: this.#clock.now(),
      put: this.putMessages,
      found: this.getFound,
      missed: this.getMissed,
      transferred: this.getMessages,
    };
  }

  #sample(): void {
    this.#samples.push(this.#now());
    if (this.#samples.length > SAMPLES) this.#samples.shift();
    const day = localDay(this.#clock.now());
    if (day === this.#day) return;
    this.#day = day;
    this.putYesterdayMorning = this.putTodayMorning;
    this.putTodayMorning = this.putMessages;
    this.getYesterdayMorning = this.getTodayMorning;
    this.getTodayMorning = this.getMessages;
  }
}

/** A number as Java prints a double: with a decimal point. */
export function asDouble(value: number): string {
  return Number.isInteger(value) ? `${value}.0` : String(value);
}

function localDay(ms: number): number {
  const date = new Date(ms);
  return date.getFullYear() * 1000 + date.getMonth() * 40 + date.getDate();
}
