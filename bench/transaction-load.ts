// Transactions over some connections: a half message, and when it is answered its commit, as a request of its own, so that what is counted
// is over. Some are left open; the connections are live producers of the group and commit those when they are asked.

import { Histogram } from '../src/common/index.ts';
import { Connection } from './connection.ts';
import { cpuMicros } from './process-figures.ts';
import { LATENCY_STEPS, type LoadFigures } from './send-load.ts';

/** What is sent, and how. */
export interface TransactionOptions {
  addr: string;
  topic: string;
  queues: number;
  conns: number;
  window: number;
  size: number;
  /** One of so many is left open until the broker asks; 0: none. */
  unknownEvery: number;
  /** Ends after so many transactions, instead of after `seconds`; 0: by time. */
  count: number;
  seconds: number;
  warmup: number;
  pid: number;
}

export interface TransactionFigures extends LoadFigures {
  /** Left open, and checks of those and of others. */
  unknown: number;
  checks: number;
  checksOfCommitted: number;
}

const GROUP = 'PID_bench_tx';
const END_TRANSACTION = 37;
const CHECK_TRANSACTION_STATE = 39;
const COMMIT = '8';
const EMPTY: Buffer = Buffer.alloc(0);
const RESPONSE = 1;
const ONEWAY = 2;
/** How long open ones are waited for. */
const CHECK_LIMIT_MS = 120_000;

interface Header {
  code: number;
  flag: number;
  opaque: number;
  extFields?: Record<string, string>;
}

class Run {
  /** What the unique keys of this run begin with: another run's open transactions may be asked about, too. */
  readonly prefix = `AC1100010002${String(Date.now()).slice(-8)}`;
  readonly latency = new Histogram(LATENCY_STEPS);
  readonly errors: Record<string, number> = {};
  /** Unique keys of the open ones, and of those that were asked about. */
  readonly open = new Set<string>();
  readonly asked = new Set<string>();
  sequence = 0;
  done = 0;
  messages = 0;
  unknown = 0;
  checks = 0;
  checksOfCommitted = 0;
  measuring = false;
  stopping = false;
}

class Producer {
  readonly #options: TransactionOptions;
  readonly #run: Run;
  readonly #connection: Connection;
  readonly #body: Buffer;
  readonly #sentAt: Float64Array;
  readonly #keys: string[];
  /** Whether a slot waits for the answer to its commit. */
  readonly #ending: boolean[];
  #inFlight = 0;
  #out: Buffer[] = [];

  constructor(options: TransactionOptions, run: Run, connected: () => void, lost: (error: Error) => void) {
    this.#options = options;
    this.#run = run;
    this.#body = Buffer.alloc(options.size, 'x');
    this.#sentAt = new Float64Array(options.window);
    this.#keys = Array.from({ length: options.window }, () => '');
    this.#ending = Array.from({ length: options.window }, () => false);
    const handler = {
      frame: (bytes: Buffer, start: number, end: number) => this.#frame(bytes, start, end),
      chunk: () => this.flush(),
      closed: lost,
    };
    this.#connection = new Connection(options.addr, handler, Math.floor(options.window / 4), connected);
  }

  start(index: number): void {
    const body = JSON.stringify({
      clientID: `bench-${process.pid}-${index}`,
      producerDataSet: [{ groupName: GROUP }],
      consumerDataSet: [],
    });
    this.#send(34, -1, 0, {}, Buffer.from(body));
    for (let slot = 0; slot < this.#options.window; slot++) this.#half(slot);
    this.flush();
  }

  get idle(): boolean {
    return this.#inFlight === 0;
  }

  end(): void {
    this.#connection.end();
  }

  flush(): void {
    if (this.#out.length === 0) return;
    this.#connection.write(Buffer.concat(this.#out));
    this.#out = [];
  }

  #half(slot: number): void {
    const run = this.#run;
    const { count, queues } = this.#options;
    if (run.stopping || (count > 0 && run.sequence >= count)) return;
    const sequence = run.sequence++;
    const key = `${run.prefix}${String(sequence).padStart(12, '0')}`;
    this.#keys[slot] = key;
    this.#sentAt[slot] = performance.now();
    this.#ending[slot] = false;
    this.#inFlight++;
    const properties = { TRAN_MSG: 'true', UNIQ_KEY: key, WAIT: 'true', PGROUP: GROUP, TAGS: 'TagA' };
    const text = Object.entries(properties).map(([name, value]) => `${name}\u0001${value}\u0002`);
    this.#send(
      310,
      slot,
      0,
      {
        a: GROUP,
        b: this.#options.topic,
        c: 'TBW102',
        d: '4',
        e: String(sequence % queues),
        f: '4',
        g: String(Date.now()),
        h: '0',
        i: text.join(''),
        j: '0',
        k: 'false',
        m: 'false',
      },
      this.#body,
    );
  }

  #commit(
    slot: number,
    flag: number,
    key: string,
    commitLogOffset: string,
    queueOffset: string,
    checked: boolean,
  ): void {
    const fields = {
      producerGroup: GROUP,
      tranStateTableOffset: queueOffset,
      commitLogOffset,
      commitOrRollback: COMMIT,
      fromTransactionCheck: String(checked),
      msgId: key,
      transactionId: key,
    };
    this.#send(END_TRANSACTION, slot, flag, fields);
  }

  #send(code: number, opaque: number, flag: number, extFields: Record<string, string>, body: Buffer = EMPTY): void {
    const header = Buffer.from(
      JSON.stringify({
        code,
        extFields,
        flag,
        language: 'JAVA',
        opaque,
        serializeTypeCurrentRPC: 'JSON',
        version: 513,
      }),
    );
    const head = Buffer.alloc(8);
    head.writeInt32BE(4 + header.length + body.length, 0);
    head.writeInt32BE(header.length, 4);
    this.#out.push(head, header, body);
  }

  #frame(bytes: Buffer, start: number, end: number): void {
    const header = JSON.parse(bytes.toString('utf8', start, end)) as Header;
    const run = this.#run;
    const fields = header.extFields ?? {};
    if ((header.flag & RESPONSE) === 0) {
      if (header.code === CHECK_TRANSACTION_STATE) this.#answerCheck(fields);
      return;
    }
    const slot = header.opaque;
    if (slot < 0) return;
    if (header.code !== 0) {
      run.errors[header.code] = (run.errors[header.code] ?? 0) + 1;
      this.#next(slot, false);
      return;
    }
    if (this.#ending[slot]) {
      this.#next(slot, true);
      return;
    }
    const every = this.#options.unknownEvery;
    const key = this.#keys[slot]!;
    if (every > 0 && Number(key.slice(run.prefix.length)) % every === 0) {
      run.unknown++;
      run.open.add(key);
      this.#next(slot, true);
      return;
    }
    this.#ending[slot] = true;
    const offset = BigInt(`0x${fields['msgId']!.slice(-16)}`);
    this.#commit(slot, 0, key, String(offset), fields['queueOffset']!, false);
  }

  #next(slot: number, ok: boolean): void {
    const run = this.#run;
    this.#inFlight--;
    if (ok) run.done++;
    if (ok && run.measuring) {
      run.messages++;
      run.latency.add(performance.now() - this.#sentAt[slot]!);
    }
    this.#half(slot);
  }

  #answerCheck(fields: Record<string, string>): void {
    const run = this.#run;
    const key = fields['transactionId']!;
    if (key.startsWith(run.prefix)) {
      run.checks++;
      run.asked.add(key);
      if (!run.open.has(key)) run.checksOfCommitted++;
    }
    this.#commit(0, ONEWAY, key, fields['commitLogOffset']!, fields['tranStateTableOffset']!, true);
  }
}

/** Runs transactions for `warmup` and `seconds`, or `count` of them and until all open ones were asked about. */
export async function transactionLoad(options: TransactionOptions): Promise<TransactionFigures> {
  const run = new Run();
  const producers: Producer[] = [];
  let fail: (error: Error) => void = () => {};
  const lost = new Promise<never>((_resolve, reject) => (fail = reject));
  lost.catch(() => {});
  const connected = Array.from({ length: options.conns }, () => {
    return new Promise<void>((resolve) => producers.push(new Producer(options, run, resolve, fail)));
  });
  await Promise.race([Promise.all(connected), lost]);
  for (const [index, producer] of producers.entries()) producer.start(index);
  const until = async (condition: () => boolean, limitMs: number): Promise<void> => {
    const end = performance.now() + limitMs;
    while (!condition() && performance.now() < end) {
      await Promise.race([new Promise((resolve) => setTimeout(resolve, 20)), lost]);
    }
  };
  const byCount = options.count > 0;
  await until(() => false, byCount ? 0 : options.warmup * 1000);
  run.measuring = true;
  const start = performance.now();
  const serverBefore = options.pid > 0 ? cpuMicros(options.pid) : 0;
  const clientBefore = cpuMicros(process.pid);
  const idle = (): boolean => producers.every((producer) => producer.idle);
  if (byCount) await until(() => run.sequence >= options.count && idle(), CHECK_LIMIT_MS);
  else await until(() => false, options.seconds * 1000);
  run.measuring = false;
  const seconds = (performance.now() - start) / 1000;
  const serverCpuMicros = options.pid > 0 ? cpuMicros(options.pid) - serverBefore : 0;
  const clientCpuMicros = cpuMicros(process.pid) - clientBefore;
  run.stopping = true;
  await until(idle, CHECK_LIMIT_MS);
  if (byCount) await until(() => run.asked.size >= run.unknown, CHECK_LIMIT_MS);
  for (const producer of producers) producer.end();
  return {
    messages: run.messages,
    accepted: run.done,
    seconds,
    perSecond: run.messages / seconds,
    p50Ms: run.latency.quantile(0.5),
    p99Ms: run.latency.quantile(0.99),
    maxMs: run.latency.maxMs,
    errors: run.errors,
    serverCpuMicros,
    clientCpuMicros,
    unknown: run.unknown,
    checks: run.checks,
    checksOfCommitted: run.checksOfCommitted,
  };
}
