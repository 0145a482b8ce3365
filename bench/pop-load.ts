// The popping half of the generator: POP_MESSAGE on any queue, one in flight for each connection, and an ACK_MESSAGE for each message by
// itself, as a Java consumer does. When a group has popped all that there is, the next group begins at the first message, so that a run may
// last as long as it likes.

import { Connection } from './connection.ts';
import { type LoadFigures, LoadRun } from './load-run.ts';
import { Code, numberAt, OPAQUE_BASE, ResponseScanner } from './wire.ts';

/** What is popped, and how. */
export interface PopOptions {
  addr: string;
  /** The broker's name, a part of every receipt handle. */
  broker: string;
  topic: string;
  conns: number;
  /** Requests in flight of one connection: one pop, and acknowledgements. */
  window: number;
  /** Most messages of one pop. */
  batch: number;
  invisibleMs: number;
  /** False: what is popped stays out of sight, and `count` messages end the run. */
  ack: boolean;
  count: number;
  seconds: number;
  warmup: number;
  pid: number;
}

export interface PopFigures extends LoadFigures {
  popped: number;
  popP99Ms: number;
  groups: number;
  beside: number;
}

const POP_TIME = Buffer.from('"popTime":"');
const INVISIBLE_TIME = Buffer.from('"invisibleTime":"');
const REVIVE_QID = Buffer.from('"reviveQid":"');
const REST_NUM = Buffer.from('"restNum":"');
const START_OFFSETS = Buffer.from('"startOffsetInfo":"');
const POP_CK = Buffer.from('POP_CK\u0001');
/** How long a pop that finds nothing may be held: long enough for another one to give a queue back, too short to matter at the end of a group. */
const POLL_MS = 50;
const QUEUE_ID_AT = 12;
const QUEUE_OFFSET_AT = 20;
const HEAD_ROOM = 2048;
/** POLLING_TIMEOUT, and PULL_NOT_FOUND: there is nothing. */
const NOTHING = [210, 19];

/** One message to be acknowledged. */
interface Ack {
  group: string;
  topic: string;
  handle: string;
  queue: number;
  offset: number;
}

class Run extends LoadRun {
  readonly pops = new LoadRun();
  /** Unique over runs, since groups stay. */
  readonly name = `GID_bench_${Date.now()}_`;
  group = 0;
  popped = 0;
  /** Pops that found nothing although there was something. */
  beside = 0;
  stopping = false;
}

class Popper {
  readonly #options: PopOptions;
  readonly #run: Run;
  readonly #connection: Connection;
  readonly #scanner = new ResponseScanner();
  readonly #sentAt: Float64Array;
  /** The group of the pop in flight; the slot 0 is its own. */
  #group = 0;
  #popping = false;
  readonly #free: number[] = [];
  #pending: Ack[] = [];
  #next = 0;
  #out = Buffer.allocUnsafe(1 << 16);
  #length = 0;
  readonly #lost: (error: Error) => void;

  constructor(options: PopOptions, run: Run, connected: () => void, lost: (error: Error) => void) {
    this.#options = options;
    this.#run = run;
    this.#lost = lost;
    this.#sentAt = new Float64Array(options.window);
    for (let slot = options.window - 1; slot > 0; slot--) this.#free.push(slot);
    const handler = {
      frame: (bytes: Buffer, start: number, headerEnd: number, end: number) =>
        this.#frame(bytes, start, headerEnd, end),
      chunk: () => this.fill(),
      closed: lost,
    };
    this.#connection = new Connection(options.addr, handler, Math.floor(options.window / 4), connected);
  }

  get idle(): boolean {
    return !this.#popping && this.#free.length === this.#options.window - 1 && this.#next === this.#pending.length;
  }

  end(): void {
    this.#connection.end();
  }

  /** Sends what there is room for: acknowledgements first, then a pop. */
  fill(): void {
    const now = performance.now();
    while (this.#next < this.#pending.length && this.#free.length > 0) this.#ack(this.#pending[this.#next++]!, now);
    if (this.#next === this.#pending.length) {
      this.#pending = [];
      this.#next = 0;
      if (!this.#popping && !this.#run.stopping) this.#pop(now);
    }
    if (this.#length === 0) return;
    this.#connection.write(this.#out.subarray(0, this.#length));
    this.#out = Buffer.allocUnsafe(1 << 16);
    this.#length = 0;
  }

  #pop(now: number): void {
    const { topic, batch, invisibleMs } = this.#options;
    const run = this.#run;
    this.#group = run.group;
    this.#popping = true;
    this.#sentAt[0] = now;
    this.#request(
      Code.POP_MESSAGE,
      0,
      `"exp":"*","bornTime":"${Math.floor(performance.timeOrigin + now)}","initMode":"0","topic":"${topic}",\
"queueId":"-1","consumerGroup":"${run.name}${this.#group}","maxMsgNums":"${batch}","invisibleTime":"${invisibleMs}","pollTime":"${POLL_MS}",\
"expType":"TAG","order":"false"`,
    );
  }

  #ack({ group, topic, handle, queue, offset }: Ack, now: number): void {
    const slot = this.#free.pop()!;
    this.#sentAt[slot] = now;
    this.#request(
      Code.ACK_MESSAGE,
      slot,
      `"extraInfo":"${handle}","offset":"${offset}","topic":"${topic}","queueId":"${queue}","consumerGroup":"${group}"`,
    );
  }

  #request(code: number, slot: number, fields: string): void {
    const header = `{"code":${code},"extFields":{${fields}},"flag":0,"language":"JAVA","opaque":${OPAQUE_BASE + slot},\
"serializeTypeCurrentRPC":"JSON","version":513}`;
    if (this.#length + header.length + HEAD_ROOM > this.#out.length) {
      const larger = Buffer.allocUnsafe(2 * this.#out.length);
      this.#out.copy(larger, 0, 0, this.#length);
      this.#out = larger;
    }
    this.#out.writeInt32BE(4 + header.length, this.#length);
    this.#out.writeInt32BE(header.length, this.#length + 4);
    this.#length += 8 + this.#out.write(header, this.#length + 8, 'latin1');
  }

  #frame(bytes: Buffer, start: number, headerEnd: number, end: number): void {
    const run = this.#run;
    const scanner = this.#scanner;
    scanner.scan(bytes, start, headerEnd);
    const { code, slot } = scanner;
    const ms = performance.now() - this.#sentAt[slot]!;
    if (slot > 0) {
      this.#free.push(slot);
      if (code !== 0) return run.failed(code);
      run.accepted++;
      run.took(1, ms);
      return;
    }
    this.#popping = false;
    if (code === 0) {
      run.pops.took(1, ms);
      this.#take(bytes, start, headerEnd, end);
    } else if (NOTHING.includes(code)) {
      // Its queues were other pops' at the moment.
      if (field(bytes, start, REST_NUM) > 0) run.beside++;
      else if (this.#options.count > 0) run.stopping = true;
      else if (this.#group === run.group) run.group++;
    } else {
      run.failed(code);
      this.#lost(new Error(`a pop was answered ${code}: ${bytes.toString('utf8', start, headerEnd)}`));
    }
  }

  /** Makes the handles of all messages of an answer. */
  #take(bytes: Buffer, start: number, headerEnd: number, end: number): void {
    const run = this.#run;
    const { topic, broker, ack } = this.#options;
    const group = `${run.name}${this.#group}`;
    const popTime = field(bytes, start, POP_TIME);
    const invisible = field(bytes, start, INVISIBLE_TIME);
    const revive = field(bytes, start, REVIVE_QID);
    const from = bytes.indexOf(START_OFFSETS, start) + START_OFFSETS.length;
    const starts = new Map<string, string>();
    for (const item of bytes.toString('latin1', from, bytes.indexOf(0x22, from)).split(';')) {
      const words = item.split(' ');
      starts.set(`${words[0]} ${words[1]}`, words[2]!);
    }
    let count = 0;
    for (let at = headerEnd; at < end; at += bytes.readInt32BE(at)) {
      count++;
      if (!ack) continue;
      const queue = bytes.readInt32BE(at + QUEUE_ID_AT);
      const offset =
        bytes.readUInt32BE(at + QUEUE_OFFSET_AT) * 0x1_0000_0000 + bytes.readUInt32BE(at + QUEUE_OFFSET_AT + 4);
      const first = starts.get(`0 ${queue}`);
      // The broker itself has written the handle of a message that was not acknowledged in time.
      const written = first === undefined ? bytes.indexOf(POP_CK, at) + POP_CK.length : 0;
      const handle =
        first === undefined
          ? bytes.toString('latin1', written, bytes.indexOf(0x02, written))
          : `${first} ${popTime} ${invisible} ${revive} 0 ${broker} ${queue} ${offset}`;
      this.#pending.push({
        group,
        topic: first === undefined ? `%RETRY%${group}_${topic}` : topic,
        handle,
        queue,
        offset,
      });
    }
    run.popped += count;
    if (this.#options.count > 0 && run.popped >= this.#options.count) run.stopping = true;
    if (!ack) {
      run.accepted += count;
      run.took(count, performance.now() - this.#sentAt[0]!);
    }
  }
}

function field(bytes: Buffer, start: number, name: Buffer): number {
  return numberAt(bytes, bytes.indexOf(name, start) + name.length);
}

/** Pops and acknowledges for `warmup` and then `seconds`; the figures of the second part. With `count`: until so many are popped. */
export async function popLoad(options: PopOptions): Promise<PopFigures> {
  const run = new Run();
  const poppers: Popper[] = [];
  let fail: (error: Error) => void = () => {};
  const lost = new Promise<never>((_resolve, reject) => (fail = reject));
  lost.catch(() => {});
  const connected = Array.from({ length: options.conns }, () => {
    return new Promise<void>((resolve) => poppers.push(new Popper(options, run, resolve, fail)));
  });
  await Promise.race([Promise.all(connected), lost]);
  for (const popper of poppers) popper.fill();
  const idle = (): boolean => run.stopping && poppers.every((popper) => popper.idle);
  const sleep = async (seconds: number): Promise<void> => {
    const until = performance.now() + seconds * 1000;
    while (performance.now() < until && !idle()) {
      await Promise.race([new Promise((resolve) => setTimeout(resolve, 20)), lost]);
    }
  };
  await sleep(options.warmup);
  await run.pops.measure(0, () => run.measure(options.pid, () => sleep(options.seconds)));
  run.stopping = true;
  await sleep(10);
  for (const popper of poppers) popper.end();
  return {
    ...run.figures(),
    popped: run.popped,
    popP99Ms: run.pops.figures().p99Ms,
    groups: run.group + 1,
    beside: run.beside,
  };
}
