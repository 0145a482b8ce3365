// What the tests of transactions stand on: a broker whose time is moved by hand, with a producer that is asked and may answer.

import { setImmediate } from 'node:timers/promises';
import { FakeClock, SeededRandom } from '../../common/index.ts';
import { MemoryFileSystem } from '../../io/index.ts';
import { decodeOffsetMessageId, propertiesText, type StoredMessage, SysFlag, UniqueIds } from '../../message/index.ts';
import { type ExtFields, RequestCode } from '../../remoting/index.ts';
import type { MessageStoreConfig } from '../../store/index.ts';
import type { BrokerConfig } from '../broker-config.ts';
import { type Answer, BrokerFixture, FakeChannel } from '../broker-fixture.test.support.ts';
import { registerProcessors } from '../processor/register.ts';
import { SendMessageProcessor } from '../processor/send-message.ts';
import { messagesOf, selectLater } from '../store-reads.ts';
import { TRANS_HALF_TOPIC, TRANS_OP_HALF_TOPIC } from '../topic/topic-names.ts';
import { EndTransactionProcessor } from './end-transaction.ts';
import { TRANS_GROUP } from './half-message.ts';

export const COMMIT: number = SysFlag.TRANSACTION_COMMIT;
export const ROLLBACK: number = SysFlag.TRANSACTION_ROLLBACK;
export const UNKNOWN = 0;

/** Rounds come when a test says so. */
const NEVER_MS = 1_000_000_000;
/** Rounds come by themselves. */
export const ROUNDS = { transactionCheckInterval: 30_000 };

/** Counts the timers that are started. */
class CountingClock extends FakeClock {
  started = 0;

  override after(delayMs: number, fn: () => void): ReturnType<FakeClock['after']> {
    this.started++;
    return super.after(delayMs, fn);
  }
}

/** Where a half message lies. */
export interface Half {
  offset: number;
  queueOffset: number;
}

/** What a producer says to end a transaction. */
export function endFields(half: Half, outcome: number = COMMIT): Record<string, string> {
  return {
    producerGroup: 'PG',
    tranStateTableOffset: String(half.queueOffset),
    commitLogOffset: String(half.offset),
    commitOrRollback: String(outcome),
    fromTransactionCheck: 'false',
    msgId: 'id',
    transactionId: 'id',
  };
}

export class World {
  clock: CountingClock = new CountingClock();
  fs: MemoryFileSystem;
  broker!: BrokerFixture;
  producer: FakeChannel = new FakeChannel();
  #endTurn: () => void = () => {};
  readonly #config: Partial<BrokerConfig>;
  readonly #store: Partial<MessageStoreConfig>;

  constructor(config: Partial<BrokerConfig> = {}, store: Partial<MessageStoreConfig> = {}) {
    this.#config = { transactionCheckInterval: NEVER_MS, ...config };
    this.#store = { mappedFileSizeCommitLog: 4 * 1024 * 1024, ...store };
    this.fs = new MemoryFileSystem({ clock: this.clock, directories: ['/store/config'] });
  }

  async start(): Promise<this> {
    const { fs, clock } = this;
    this.broker = await BrokerFixture.open({ fs, clock, store: this.#store, broker: this.#config });
    const { context } = this.broker;
    registerProcessors(this.broker, context);
    const ids = new UniqueIds({ ip: context.storeHost.subarray(0, 4), pid: 1, salt: 1 }, 1);
    const send = new SendMessageProcessor(context, ids);
    const ends = new EndTransactionProcessor(context);
    send.register(this.broker);
    ends.register(this.broker);
    this.#endTurn = () => {
      send.endTurn();
      ends.endTurn();
    };
    context.topics.load();
    context.topics.createInSend('T', 'TBW102', 'test', 4, 0);
    context.topics.persistIfChanged();
    context.offsets.load();
    context.transactions.metrics.load();
    context.transactions.start();
    this.connect();
    return this;
  }

  /** Lets the producer be known as one of the group PG, on a connection of its own. */
  connect(): void {
    this.producer = new FakeChannel();
    const client = { channel: this.producer, clientId: 'p', language: 'JAVA', version: 513 };
    this.broker.context.producers.register('PG', { ...client, lastUpdateMs: this.clock.now() });
  }

  /** Orderly stop. */
  async stop(): Promise<void> {
    const { transactions, store, offsets } = this.broker.context;
    await this.settled(transactions.stop());
    await this.settled(store.close());
    await this.settled(transactions.close());
    offsets.persistIfChanged();
  }

  /** The process ends here and now; what it wrote to files is there. Its timers must not go on. */
  die(): void {
    this.fs.kill(new SeededRandom(1));
    this.clock = new CountingClock(this.clock.now());
  }

  /** The outcome of some work; time passes meanwhile. */
  async settled<T>(work: Promise<T>): Promise<T> {
    let done = false;
    void work.finally(() => {
      done = true;
    });
    while (!done) {
      await setImmediate();
      this.clock.advance(10);
    }
    return await work;
  }

  /** Lets time pass, with the loop turns that what falls due needs. */
  async pass(ms: number, stepMs = 500): Promise<void> {
    const until = this.clock.now() + ms;
    do {
      this.clock.advance(Math.min(stepMs, until - this.clock.now()));
      for (let turn = 0; turn < 6; turn++) await setImmediate();
    } while (this.clock.now() < until);
  }

  /** One round now, and the time until its positions are saved. */
  async round(): Promise<void> {
    await this.settled(this.broker.context.transactions.check());
    await this.pass(11_000, 500);
  }

  /** A request of the producer's, and the end of its turn. */
  ask(code: number, fields: Record<string, string | number | boolean>, body = ''): Promise<Answer> {
    const answer = this.broker.ask(code, fields, body, this.producer);
    this.#endTurn();
    return answer;
  }

  send(name: string, properties: Record<string, string> = {}, fields: Record<string, string> = {}): Promise<Answer> {
    const all = { UNIQ_KEY: name, TRAN_MSG: 'true', PGROUP: 'PG', WAIT: 'true', TAGS: 'A', ...properties };
    return this.ask(
      RequestCode.SEND_MESSAGE,
      {
        producerGroup: 'PG',
        topic: 'T',
        defaultTopic: 'TBW102',
        defaultTopicQueueNums: 4,
        queueId: 1,
        sysFlag: 4,
        bornTimestamp: this.clock.now(),
        flag: 7,
        properties: propertiesText(new Map(Object.entries(all))),
        reconsumeTimes: 0,
        unitMode: false,
        ...fields,
      },
      `body of ${name}`,
    );
  }

  async half(name: string, properties: Record<string, string> = {}): Promise<Half> {
    const { ext } = await this.send(name, properties);
    return { offset: decodeOffsetMessageId(ext['msgId']!).offset, queueOffset: Number(ext['queueOffset']) };
  }

  /** An end with just these fields. */
  endWith(fields: Record<string, string>): Promise<Answer> {
    return this.ask(RequestCode.END_TRANSACTION, fields);
  }

  end(half: Half, outcome: number, fields: Record<string, string | number | boolean> = {}): Promise<Answer> {
    return this.ask(RequestCode.END_TRANSACTION, { ...endFields(half, outcome), ...fields });
  }

  /** What the producer was asked about. */
  get checks(): ExtFields[] {
    return this.producer.sent.filter(({ code }) => code === RequestCode.CHECK_TRANSACTION_STATE).map(({ ext }) => ext);
  }

  /** Unique keys of the messages that the producer was asked about. */
  get asked(): string[] {
    return this.checks.map((ext) => String(ext['msgId']));
  }

  /** Answers the check number `index`. */
  answer(index: number, outcome: number): Promise<Answer> {
    const ext = this.checks[index]!;
    const half = { offset: Number(ext['commitLogOffset']), queueOffset: Number(ext['tranStateTableOffset']) };
    return this.end(half, outcome, { fromTransactionCheck: true });
  }

  async all(topic: string, queueId = 0): Promise<StoredMessage[]> {
    const { store } = this.broker.context;
    for (let turn = 0; turn < 8; turn++) await setImmediate();
    const all: StoredMessage[] = [];
    let at: number = store.minOffsetInQueue(topic, queueId);
    while (at < store.maxOffsetInQueue(topic, queueId)) {
      const result = await selectLater(store, topic, queueId, at, 32, 1 << 20);
      all.push(...(await messagesOf(store, result)));
      at = Math.max(result.nextBeginOffset, at + 1);
    }
    return all;
  }

  /** Unique keys of what was delivered to T. */
  async delivered(): Promise<string[]> {
    return (await this.all('T', 1)).map((message) => message.messageId);
  }

  async ops(): Promise<string[]> {
    return (await this.all(TRANS_OP_HALF_TOPIC)).map((message) => Buffer.from(message.body).toString());
  }

  /** The saved positions, of half messages and of records of ended ones. */
  get positions(): [number, number] {
    const { offsets } = this.broker.context;
    return [offsets.query(TRANS_GROUP, TRANS_HALF_TOPIC, 0), offsets.query(TRANS_GROUP, TRANS_OP_HALF_TOPIC, 0)];
  }
}
