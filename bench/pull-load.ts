// The pulling half of the generator: PULL_MESSAGE from offset 0 to the end of every queue, and again from 0, one pull in flight
// for each queue. It pulls as a pull consumer does, with its subscription in the request, so no heartbeat is needed.

import { Connection } from './connection.ts';
import { type LoadFigures, LoadRun } from './load-run.ts';
import { Code, OPAQUE_BASE, ResponseScanner } from './wire.ts';

/** What is pulled, and how. */
export interface PullOptions {
  addr: string;
  topic: string;
  queues: number;
  conns: number;
  /** Most messages of one pull. */
  batch: number;
  seconds: number;
  warmup: number;
  pid: number;
}

/** sysFlag: the request carries its subscription; it does not wait for messages. */
const WITH_SUBSCRIPTION = '4';
const NEXT_BEGIN_OFFSET = Buffer.from('"nextBeginOffset":"');

class Puller {
  readonly #before: string;
  readonly #scanner = new ResponseScanner();
  readonly #connection: Connection;
  readonly #queues: number[];
  readonly #offsets = new Map<number, number>();
  readonly #sentAt = new Map<number, number>();
  readonly closedBy: Promise<never>;
  #reject: (error: Error) => void = () => {};
  readonly #run: LoadRun;
  #out: Buffer[] = [];

  constructor(options: PullOptions, queues: number[], run: LoadRun, connected: () => void) {
    this.#queues = queues;
    this.#run = run;
    this.closedBy = new Promise((_, reject) => {
      this.#reject = reject;
    });
    this.closedBy.catch(() => {});
    this.#before = `{"code":${Code.PULL_MESSAGE},"extFields":{"commitOffset":"0","subscription":"*","suspendTimeoutMillis":"0",\
"sysFlag":"${WITH_SUBSCRIPTION}","expressionType":"TAG","topic":"${options.topic}","consumerGroup":"GID_bench",\
"maxMsgNums":"${options.batch}","subVersion":"0","queueId":"`;
    this.#connection = new Connection(options.addr, this, 0, connected);
  }

  begin(): void {
    for (const queue of this.#queues) this.#ask(queue, 0);
    this.chunk();
  }

  frame(bytes: Buffer, headerStart: number, headerEnd: number, end: number): void {
    this.#scanner.scan(bytes, headerStart, headerEnd);
    const queue = this.#scanner.slot;
    const offset = this.#offsets.get(queue)!;
    if (this.#scanner.code !== 0) {
      // 19, 20, 21: nothing there, or beyond the end. Begin again.
      if (this.#scanner.code < 19 || this.#scanner.code > 21 || offset === 0) {
        this.#run.failed(this.#scanner.code);
        if (offset === 0) {
          const header = bytes.toString('utf8', headerStart, headerEnd);
          this.#reject(new Error(`nothing to pull from the start of queue ${queue}: ${header}`));
        }
      }
      this.#ask(queue, 0);
      return;
    }
    let count = 0;
    for (let at = headerEnd; at < end; at += bytes.readInt32BE(at)) count++;
    this.#run.took(count, performance.now() - this.#sentAt.get(queue)!);
    const next = bytes.indexOf(NEXT_BEGIN_OFFSET, headerStart);
    this.#ask(queue, Number.parseInt(bytes.toString('latin1', next + NEXT_BEGIN_OFFSET.length, headerEnd), 10));
  }

  chunk(): void {
    if (this.#out.length > 0) this.#connection.write(Buffer.concat(this.#out));
    this.#out = [];
  }

  closed(error: Error): void {
    this.#reject(error);
  }

  end(): void {
    this.#connection.end();
  }

  #ask(queue: number, offset: number): void {
    const header = `${this.#before}${queue}","queueOffset":"${offset}"},"flag":0,"language":"JAVA","opaque":${OPAQUE_BASE + queue},\
"serializeTypeCurrentRPC":"JSON","version":513}`;
    const frame = Buffer.allocUnsafe(8 + header.length);
    frame.writeInt32BE(4 + header.length, 0);
    frame.writeInt32BE(header.length, 4);
    frame.write(header, 8, 'latin1');
    this.#offsets.set(queue, offset);
    this.#sentAt.set(queue, performance.now());
    this.#out.push(frame);
  }
}

/** Pulls for `warmup` and then `seconds`; the figures of the second part. */
export async function pullLoad(options: PullOptions): Promise<LoadFigures> {
  const run = new LoadRun();
  const pullers: Puller[] = [];
  const connected: Array<Promise<void>> = [];
  for (let i = 0; i < Math.min(options.conns, options.queues); i++) {
    const queues = Array.from({ length: options.queues }, (_, queue) => queue).filter(
      (queue) => queue % options.conns === i,
    );
    let resolve: () => void = () => {};
    connected.push(new Promise((done) => (resolve = done)));
    pullers.push(new Puller(options, queues, run, resolve));
  }
  const lost = Promise.race(pullers.map((puller) => puller.closedBy));
  lost.catch(() => {});
  await Promise.race([Promise.all(connected), lost]);
  for (const puller of pullers) puller.begin();
  await Promise.race([sleep(options.warmup), lost]);
  await run.measure(options.pid, () => Promise.race([sleep(options.seconds), lost]));
  for (const puller of pullers) puller.end();
  return run.figures();
}

function sleep(seconds: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, seconds * 1000));
}
