// The sending half of the generator: SEND_MESSAGE_V2 over some connections, each with a window of requests in flight.

import { Connection } from './connection.ts';
import { type LoadFigures, LoadRun } from './load-run.ts';
import { Code, encodeTemplate, fillDecimal, type Hole, OPAQUE_BASE, ResponseScanner, type Template } from './wire.ts';

/** What is sent, and how. */
export interface SendOptions {
  addr: string;
  topic: string;
  /** Topics `<topic>0000` and so on in turn, if more than one. */
  topics: number;
  queues: number;
  conns: number;
  window: number;
  size: number;
  /** Messages of one request; above 1 they go as SEND_BATCH_MESSAGE, and are counted one by one. */
  batch: number;
  /** Adds KEYS, UNIQ_KEY and WAIT, as a Java client does. */
  keys: boolean;
  /** Light queues that the messages go to, too, in turn; 0: none. */
  light: number;
  /** Every connection sends to all queues in turn; otherwise each to its own. */
  mixQueues: boolean;
  /** Requests a second over all connections; undefined: as fast as answers come. */
  rate?: number;
  seconds: number;
  warmup: number;
  /** The broker's process, for its CPU time. */
  pid: number;
}

const KEYS = 'KEYS\u0001K{key:12}\u0002UNIQ_KEY\u0001AC1100010001{uniq:20}\u0002WAIT\u0001true\u0002';
const TAGS = 'TAGS\u0001TagA\u0002';
/** Between two looks at what a paced load has to send. */
const TICK_MS = 1;
const LIGHT = 'INNER_MULTI_DISPATCH\u0001%LMQ%bench{light:6}\u0002';

function sendTemplate(options: SendOptions): Template {
  const many = options.topics > 1;
  const body = Buffer.alloc(options.size, 'x');
  const batch = options.batch > 1;
  return encodeTemplate(
    batch ? Code.SEND_BATCH_MESSAGE : Code.SEND_MESSAGE_V2,
    {
      a: 'PID_bench',
      b: many ? `${options.topic}{topic:4}` : options.topic,
      c: 'TBW102',
      d: String(Math.min(options.queues, 9)),
      e: '{queue:1}',
      f: '0',
      g: '{born:13}',
      h: '0',
      i: batch ? '' : (options.keys ? KEYS : TAGS) + (options.light > 0 ? LIGHT : ''),
      j: '0',
      k: 'false',
      m: String(batch),
    },
    batch ? Buffer.concat(Array.from({ length: options.batch }, () => batchMember(body))) : body,
  );
}

/** One message as it lies in the body of a batch: size, magic, CRC, flag (all as a Java client leaves them), body, properties. */
function batchMember(body: Buffer): Buffer {
  const head = Buffer.alloc(20);
  head.writeInt32BE(head.length + body.length + 2 + TAGS.length, 0);
  head.writeInt32BE(body.length, 16);
  const propertyBytes = Buffer.alloc(2);
  propertyBytes.writeInt16BE(TAGS.length);
  return Buffer.concat([head, body, propertyBytes, Buffer.from(TAGS)]);
}

/** Shared by the connections of a run. */
class Run extends LoadRun {
  stopping = false;
  sequence = 0;
}

/** One connection's window. */
class Sender {
  readonly #options: SendOptions;
  readonly #run: Run;
  readonly #template: Template;
  readonly #opaque: Hole;
  readonly #scanner = new ResponseScanner();
  readonly #sentAt: Float64Array;
  readonly #free: Int32Array;
  readonly #connection: Connection;
  readonly #index: number;
  #freeCount = 0;
  #turn: number;
  #sent = 0;
  #chunkTime = 0;
  readonly drained: Promise<void>;
  #resolveDrained: () => void = () => {};
  #rejectDrained: (error: Error) => void = () => {};

  constructor(options: SendOptions, run: Run, index: number, connected: () => void) {
    this.#options = options;
    this.#run = run;
    this.#index = index;
    this.#turn = index;
    this.#template = sendTemplate(options);
    this.#opaque = this.#template.holes.get('opaque')!;
    this.#sentAt = new Float64Array(options.window);
    this.#free = new Int32Array(options.window);
    for (let slot = 0; slot < options.window; slot++) this.#free[this.#freeCount++] = slot;
    this.drained = new Promise((resolve, reject) => {
      this.#resolveDrained = resolve;
      this.#rejectDrained = reject;
    });
    this.#connection = new Connection(options.addr, this, Math.floor(options.window / 4), connected);
  }

  frame(bytes: Buffer, headerStart: number, headerEnd: number): void {
    if (this.#chunkTime === 0) this.#chunkTime = performance.now();
    this.#scanner.scan(bytes, headerStart, headerEnd);
    const slot = this.#scanner.slot;
    const run = this.#run;
    if (this.#scanner.code === 0) {
      run.accepted += this.#options.batch;
      run.took(this.#options.batch, this.#chunkTime - this.#sentAt[slot]!);
    } else run.failed(this.#scanner.code);
    this.#free[this.#freeCount++] = slot;
  }

  chunk(): void {
    this.#chunkTime = 0;
    if (this.#run.stopping) {
      this.checkDrained();
      return;
    }
    // A few free places are not worth a write of their own, unless the window is small.
    if (this.#options.rate === undefined && this.#freeCount * 4 >= this.#options.window) this.fill();
  }

  closed(error: Error): void {
    this.#rejectDrained(error);
  }

  /** Sends what is due of a paced load after so long, as far as the window has places. */
  pace(elapsedMs: number): void {
    const { rate = 0, conns } = this.#options;
    const due = Math.floor((elapsedMs * rate) / conns / 1000) - this.#sent;
    if (due > 0 && this.#freeCount > 0) this.fill(Math.min(due, this.#freeCount));
  }

  /** Sends so many requests, or one for every free place of the window, in one write. */
  fill(count: number = this.#freeCount): void {
    const size = this.#template.bytes.length;
    const out = Buffer.allocUnsafe(size * count);
    this.#sent += count;
    const now = performance.now();
    const bytes = this.#template.bytes;
    const { holes } = this.#template;
    const born = holes.get('born')!;
    const queue = holes.get('queue')!;
    const key = holes.get('key');
    const uniq = holes.get('uniq');
    const topic = holes.get('topic');
    const light = holes.get('light');
    fillDecimal(bytes, born, Math.floor(performance.timeOrigin + now));
    let at = 0;
    while (at < out.length) {
      const slot = this.#free[--this.#freeCount]!;
      const turn = this.#turn++;
      fillDecimal(bytes, this.#opaque, OPAQUE_BASE + slot);
      fillDecimal(bytes, queue, (this.#options.mixQueues ? turn : this.#index) % this.#options.queues);
      if (topic !== undefined) fillDecimal(bytes, topic, turn % this.#options.topics);
      if (light !== undefined) fillDecimal(bytes, light, turn % this.#options.light);
      if (key !== undefined && uniq !== undefined) {
        const sequence = this.#run.sequence++;
        fillDecimal(bytes, key, sequence);
        fillDecimal(bytes, uniq, sequence);
      }
      out.set(bytes, at);
      at += size;
      this.#sentAt[slot] = now;
    }
    this.#connection.write(out);
  }

  checkDrained(): void {
    if (this.#freeCount === this.#options.window) {
      this.#connection.end();
      this.#resolveDrained();
    }
  }
}

/** Sends for `warmup` and then `seconds`, waits for what is in flight, and answers the figures of the second part. */
export async function sendLoad(options: SendOptions): Promise<LoadFigures> {
  const run = new Run();
  const senders: Sender[] = [];
  const connected: Array<Promise<void>> = [];
  for (let i = 0; i < options.conns; i++) {
    let resolve: () => void = () => {};
    connected.push(new Promise((done) => (resolve = done)));
    senders.push(new Sender(options, run, i, resolve));
  }
  const drained = Promise.all(senders.map((sender) => sender.drained));
  drained.catch(() => {});
  await Promise.race([Promise.all(connected), drained]);
  const began = performance.now();
  const pacer =
    options.rate === undefined
      ? undefined
      : setInterval(() => {
          for (const sender of senders) sender.pace(performance.now() - began);
        }, TICK_MS);
  if (pacer === undefined) for (const sender of senders) sender.fill();
  await pause(options.warmup * 1000, drained);
  await run.measure(options.pid, () => pause(options.seconds * 1000, drained));
  clearInterval(pacer);
  run.stopping = true;
  for (const sender of senders) sender.checkDrained();
  await drained;
  return run.figures();
}

/** Waits `ms`, or fails as soon as `lost` does. */
async function pause(ms: number, lost: Promise<unknown>): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  await Promise.race([
    new Promise<void>((resolve) => {
      timer = setTimeout(resolve, ms);
    }),
    lost,
  ]);
  clearTimeout(timer);
}
