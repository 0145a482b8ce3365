// Sends at a rate that is far below what a broker takes, and how long each waited since it was due: what a producer feels of whatever else the
// broker does.

import { Histogram } from '../src/common/index.ts';
import { Connection } from './connection.ts';
import { Code, encodeTemplate, fillDecimal, OPAQUE_BASE, ResponseScanner, type Template } from './wire.ts';

export const CONNECTIONS = 8;
export const PACED_QUEUES = 8;
/** Messages a second. */
const RATE = 5000;
const TICK_MS = 4;
export const WARMUP_MS = 2000;
/** Requests of one connection that may be in flight: a second's worth. */
const SLOTS = RATE;
const BODY = Buffer.alloc(1024, 'x');

/** What came of sends at a rate. */
export interface Pace {
  messages: number;
  perSecond: number;
  p50Ms: number;
  p99Ms: number;
  p999Ms: number;
  maxMs: number;
  /** By code. */
  refused: Record<string, number>;
}

/** One connection that sends at a rate and measures from when a message was due. */
class PacedSender {
  readonly latency: Histogram;
  readonly #template: Template;
  readonly #connection: Connection;
  readonly #scanner = new ResponseScanner();
  readonly #warmAt: number;
  readonly #dueAt = new Float64Array(SLOTS);
  #sent = 0;
  answered = 0;
  readonly refused: Record<string, number> = {};

  constructor(addr: string, topic: string, latency: Histogram, warmAt: number) {
    this.latency = latency;
    this.#warmAt = warmAt;
    const keys = 'KEYS\u0001K{key:12}\u0002UNIQ_KEY\u0001AC1100010002{uniq:20}\u0002WAIT\u0001true\u0002';
    const fields = { a: 'PID', b: topic, c: 'TBW102', d: '8', e: '{queue:1}', f: '0', g: '1', h: '0', i: keys };
    this.#template = encodeTemplate(Code.SEND_MESSAGE_V2, { ...fields, j: '0', k: 'false', m: 'false' }, BODY);
    this.#connection = new Connection(addr, this, 0, () => {});
  }

  frame(bytes: Buffer, headerStart: number, headerEnd: number): void {
    this.#scanner.scan(bytes, headerStart, headerEnd);
    const { code, slot } = this.#scanner;
    this.answered++;
    const now = performance.now();
    if (code === 0 && now > this.#warmAt) this.latency.add(now - this.#dueAt[slot]!);
    if (code !== 0) this.refused[code] = (this.refused[code] ?? 0) + 1;
  }

  chunk(): void {}

  closed(error: Error): void {
    throw error;
  }

  /** Sends `count` messages that were due at `dueMs`. */
  send(count: number, dueMs: number): void {
    const { bytes, holes } = this.#template;
    const out = Buffer.allocUnsafe(bytes.length * count);
    for (let i = 0; i < count; i++) {
      const number = this.#sent++;
      const slot = number % SLOTS;
      this.#dueAt[slot] = dueMs;
      fillDecimal(bytes, holes.get('opaque')!, OPAQUE_BASE + slot);
      fillDecimal(bytes, holes.get('queue')!, number % PACED_QUEUES);
      fillDecimal(bytes, holes.get('key')!, number);
      fillDecimal(bytes, holes.get('uniq')!, number);
      out.set(bytes, i * bytes.length);
    }
    this.#connection.write(out);
  }

  get inFlight(): number {
    return this.#sent - this.answered;
  }

  end(): void {
    this.#connection.end();
  }
}

/** Sends at the rate for as long as `goesOn` says after so many milliseconds, and waits for the answers. */
export async function pace(addr: string, topic: string, goesOn: (elapsedMs: number) => boolean): Promise<Pace> {
  const latency = new Histogram(64);
  const start = performance.now();
  const senders = Array.from({ length: CONNECTIONS }, () => new PacedSender(addr, topic, latency, start + WARMUP_MS));
  let sent = 0;
  await new Promise<void>((resolve) => {
    const timer = setInterval(() => {
      const now = performance.now();
      const due = Math.floor(((now - start) * RATE) / 1000) - sent;
      if (!goesOn(now - start)) {
        clearInterval(timer);
        resolve();
        return;
      }
      for (const [i, sender] of senders.entries()) {
        const share = Math.floor((due + i) / CONNECTIONS);
        if (share > 0) sender.send(share, now);
        sent += share;
      }
    }, TICK_MS);
  });
  const seconds = (performance.now() - start - WARMUP_MS) / 1000;
  while (senders.some((sender) => sender.inFlight > 0)) await new Promise((resolve) => setTimeout(resolve, 10));
  for (const sender of senders) sender.end();
  return {
    messages: sent,
    perSecond: latency.count / seconds,
    p50Ms: latency.quantile(0.5),
    p99Ms: latency.quantile(0.99),
    p999Ms: latency.quantile(0.999),
    maxMs: latency.maxMs,
    refused: Object.assign({}, ...senders.map((sender) => sender.refused)),
  };
}
