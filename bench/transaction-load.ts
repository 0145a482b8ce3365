// Transactions over some connections: a half message, and when it is answered its commit, as a request of its own, so that what is counted
// is over. Some are left open; the connections are live producers of the group and commit those when they are asked.

import { Connection } from './connection.ts';
import { type LoadFigures, LoadRun } from './load-run.ts';
import { Code, encodeTemplate, fillDecimal, numberAt, OPAQUE_BASE, ResponseScanner, type Template } from './wire.ts';

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
const HEART_BEAT = 34;
/** The last slot that ten digits have: of requests whose answers do not matter. */
const NO_SLOT = 999_999_999;
const SEQUENCE_DIGITS = 12;
const MSG_ID = Buffer.from('"msgId":"');
const QUEUE_OFFSET = Buffer.from('"queueOffset":"');
/** How long open ones are waited for. */
const CHECK_LIMIT_MS = 120_000;

interface Header {
  extFields?: Record<string, string>;
}

class Run extends LoadRun {
  /** What the unique keys of this run begin with: another run's open transactions may be asked about, too. */
  readonly prefix = `AC1100010002${String(Date.now()).slice(-8)}`;
  /** Unique keys of the open ones, and of those that were asked about. */
  readonly open = new Set<string>();
  readonly asked = new Set<string>();
  sequence = 0;
  unknown = 0;
  checks = 0;
  checksOfCommitted = 0;
  stopping = false;
}

class Producer {
  readonly #options: TransactionOptions;
  readonly #run: Run;
  readonly #connection: Connection;
  readonly #scanner = new ResponseScanner();
  readonly #half: Template;
  readonly #end: Template;
  readonly #sentAt: Float64Array;
  /** The number of the transaction in each slot. */
  readonly #sequence: Float64Array;
  /** Whether a slot waits for the answer to its commit. */
  readonly #ending: boolean[];
  #inFlight = 0;
  #out: Buffer[] = [];

  constructor(options: TransactionOptions, run: Run, connected: () => void, lost: (error: Error) => void) {
    this.#options = options;
    this.#run = run;
    this.#half = halfTemplate(options, run.prefix);
    this.#end = endTemplate(run.prefix);
    this.#sentAt = new Float64Array(options.window);
    this.#sequence = new Float64Array(options.window);
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
    const { bytes, holes } = encodeTemplate(HEART_BEAT, {}, Buffer.from(body));
    fillDecimal(bytes, holes.get('opaque')!, OPAQUE_BASE + NO_SLOT);
    this.#out.push(bytes);
    for (let slot = 0; slot < this.#options.window; slot++) this.#begin(slot);
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
    this.#connection.write(this.#out.length === 1 ? this.#out[0]! : Buffer.concat(this.#out));
    this.#out = [];
  }

  #begin(slot: number): void {
    const run = this.#run;
    const { count, queues } = this.#options;
    if (run.stopping || (count > 0 && run.sequence >= count)) return;
    const sequence = run.sequence++;
    const now = performance.now();
    this.#sequence[slot] = sequence;
    this.#sentAt[slot] = now;
    this.#ending[slot] = false;
    this.#inFlight++;
    const { bytes, holes } = this.#half;
    fillDecimal(bytes, holes.get('queue')!, sequence % queues);
    fillDecimal(bytes, holes.get('born')!, Math.floor(performance.timeOrigin + now));
    fillDecimal(bytes, holes.get('uniq')!, sequence);
    this.#send(this.#half, slot);
  }

  /** The slot's half message is stored. */
  #stored(slot: number, bytes: Buffer, start: number): void {
    const run = this.#run;
    const sequence = this.#sequence[slot]!;
    const every = this.#options.unknownEvery;
    if (every > 0 && sequence % every === 0) {
      run.unknown++;
      run.open.add(`${run.prefix}${String(sequence).padStart(SEQUENCE_DIGITS, '0')}`);
      this.#next(slot, true);
      return;
    }
    this.#ending[slot] = true;
    const { bytes: end, holes } = this.#end;
    const id = bytes.indexOf(MSG_ID, start) + MSG_ID.length;
    const idEnd = bytes.indexOf(0x22, id);
    fillDecimal(end, holes.get('offset')!, hexBefore(bytes, idEnd));
    fillDecimal(
      end,
      holes.get('queueOffset')!,
      numberAt(bytes, bytes.indexOf(QUEUE_OFFSET, start) + QUEUE_OFFSET.length),
    );
    fillDecimal(end, holes.get('msgId')!, sequence);
    fillDecimal(end, holes.get('transactionId')!, sequence);
    this.#send(this.#end, slot);
  }

  #send({ bytes, holes }: Template, slot: number): void {
    fillDecimal(bytes, holes.get('opaque')!, OPAQUE_BASE + slot);
    this.#out.push(Buffer.from(bytes));
  }

  #frame(bytes: Buffer, start: number, end: number): void {
    const run = this.#run;
    const scanner = this.#scanner;
    scanner.scan(bytes, start, end);
    const { code, slot } = scanner;
    if (code === CHECK_TRANSACTION_STATE) {
      this.#answerCheck(JSON.parse(bytes.toString('utf8', start, end)) as Header);
      return;
    }
    if (slot === NO_SLOT) return;
    if (code !== 0) {
      run.failed(code);
      this.#next(slot, false);
    } else if (this.#ending[slot]) this.#next(slot, true);
    else this.#stored(slot, bytes, start);
  }

  #next(slot: number, ok: boolean): void {
    const run = this.#run;
    this.#inFlight--;
    if (ok) {
      run.accepted++;
      run.took(1, performance.now() - this.#sentAt[slot]!);
    }
    this.#begin(slot);
  }

  #answerCheck({ extFields: fields = {} }: Header): void {
    const run = this.#run;
    const key = fields['transactionId']!;
    if (key.startsWith(run.prefix)) {
      run.checks++;
      run.asked.add(key);
      if (!run.open.has(key)) run.checksOfCommitted++;
    }
    const extFields = {
      producerGroup: GROUP,
      tranStateTableOffset: fields['tranStateTableOffset']!,
      commitLogOffset: fields['commitLogOffset']!,
      commitOrRollback: COMMIT,
      fromTransactionCheck: 'true',
      msgId: key,
      transactionId: key,
    };
    // Its answer belongs to no slot.
    const { bytes, holes } = encodeTemplate(END_TRANSACTION, extFields);
    fillDecimal(bytes, holes.get('opaque')!, OPAQUE_BASE + NO_SLOT);
    this.#out.push(bytes);
  }
}

function halfTemplate({ topic, size }: TransactionOptions, prefix: string): Template {
  const properties = {
    TRAN_MSG: 'true',
    UNIQ_KEY: `${prefix}{uniq:${SEQUENCE_DIGITS}}`,
    WAIT: 'true',
    PGROUP: GROUP,
    TAGS: 'TagA',
  };
  const text = Object.entries(properties).map(([name, value]) => `${name}\u0001${value}\u0002`);
  return encodeTemplate(
    Code.SEND_MESSAGE_V2,
    {
      a: GROUP,
      b: topic,
      c: 'TBW102',
      d: '4',
      e: '{queue:1}',
      f: '4',
      g: '{born:13}',
      h: '0',
      i: text.join(''),
      j: '0',
      k: 'false',
      m: 'false',
    },
    Buffer.alloc(size, 'x'),
  );
}

function endTemplate(prefix: string): Template {
  return encodeTemplate(END_TRANSACTION, {
    producerGroup: GROUP,
    tranStateTableOffset: '{queueOffset:10}',
    commitLogOffset: '{offset:12}',
    commitOrRollback: COMMIT,
    fromTransactionCheck: 'false',
    msgId: `${prefix}{msgId:${SEQUENCE_DIGITS}}`,
    transactionId: `${prefix}{transactionId:${SEQUENCE_DIGITS}}`,
  });
}

/** The number in the last twelve hex digits before `end`: a physical offset of less than 256 TiB. */
function hexBefore(bytes: Buffer, end: number): number {
  let value = 0;
  for (let at = end - 12; at < end; at++) {
    const byte = bytes[at]!;
    value = value * 16 + (byte < 0x3a ? byte - 0x30 : (byte | 0x20) - 0x57);
  }
  return value;
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
  const idle = (): boolean => producers.every((producer) => producer.idle);
  await run.measure(options.pid, () =>
    byCount
      ? until(() => run.sequence >= options.count && idle(), CHECK_LIMIT_MS)
      : until(() => false, options.seconds * 1000),
  );
  run.stopping = true;
  await until(idle, CHECK_LIMIT_MS);
  if (byCount) await until(() => run.asked.size >= run.unknown, CHECK_LIMIT_MS);
  for (const producer of producers) producer.end();
  const { unknown, checks, checksOfCommitted } = run;
  return { ...run.figures(), unknown, checks, checksOfCommitted };
}
