// A broker whose time is moved by hand, with timer messages in it.

import { setImmediate } from 'node:timers/promises';
import { FakeClock, SeededRandom } from '../../common/index.ts';
import { MemoryFileSystem } from '../../io/index.ts';
import type { StoredMessage } from '../../message/index.ts';
import type { MessageStoreConfig } from '../../store/index.ts';
import type { BrokerConfig } from '../broker-config.ts';
import { BrokerFixture, messageWith } from '../broker-fixture.test.support.ts';
import { messagesOf, selectLater } from '../store-reads.ts';
import { applyTimer, type TimerRefusal } from './timer-put.ts';

export class TimerWorld {
  clock: FakeClock;
  fs: MemoryFileSystem;
  readonly random: SeededRandom;
  broker!: BrokerFixture;
  readonly store: Partial<MessageStoreConfig>;
  readonly config: Partial<BrokerConfig>;

  constructor(
    config: Partial<BrokerConfig> = {},
    store: Partial<MessageStoreConfig> = {},
    seed = 11,
    startMs?: number,
  ) {
    this.config = { mappedFileSizeTimerLog: 52 * 20 + 20, recallMessageEnable: true, ...config };
    this.store = store;
    this.clock = new FakeClock(startMs);
    this.random = new SeededRandom(seed);
    this.fs = new MemoryFileSystem({ clock: this.clock, random: this.random, directories: ['/store/config'] });
  }

  async start(): Promise<this> {
    this.broker = await BrokerFixture.open({ fs: this.fs, clock: this.clock, store: this.store, broker: this.config });
    await this.broker.context.timer.load();
    this.broker.context.timer.start();
    await this.pass(0);
    return this;
  }

  /** The process ends here and now; `how` says what becomes of its files. Its timers must not go on. */
  die(how: (fs: MemoryFileSystem) => void): void {
    how(this.fs);
    this.clock = new FakeClock(this.clock.now());
    this.fs = this.fs.clone();
  }

  /** Orderly stop. */
  async stop(): Promise<void> {
    const { timer, store } = this.broker.context;
    await this.settle(timer.stop());
    await this.settle(store.close());
    await this.settle(timer.close());
  }

  async settle(work: Promise<unknown>): Promise<void> {
    let done = false;
    void work.then(() => {
      done = true;
    });
    for (let turn = 0; !done && turn < 2000; turn++) {
      await setImmediate();
      this.clock.advance(10);
    }
    await work;
  }

  /** Lets time pass, with the loop turns that whatever falls due needs. */
  async pass(ms: number, stepMs = 50): Promise<void> {
    const until = this.clock.now() + ms;
    do {
      this.clock.advance(Math.min(stepMs, until - this.clock.now()));
      for (let turn = 0; turn < 6; turn++) await setImmediate();
    } while (this.clock.now() < until);
  }

  /** Lets the loop turn while time stands still. */
  async turns(count: number): Promise<void> {
    for (let turn = 0; turn < count; turn++) await setImmediate();
  }

  /** Puts a message as a send would; what refused it, if anything did. */
  async send(properties: Record<string, string>, body: string, topic = 'T'): Promise<TimerRefusal | undefined> {
    const message = messageWith({
      topic,
      flag: 7,
      body: Buffer.from(body),
      properties: new Map(Object.entries({ UNIQ_KEY: body, ...properties })),
    });
    const refusal = applyTimer(this.broker.context, message);
    if (refusal !== undefined) return refusal;
    const stored = this.broker.put(message);
    this.broker.context.timer.noted();
    await stored;
    return undefined;
  }

  /** Sends one to be delivered at a time. */
  async at(timeMs: number, body: string, topic = 'T'): Promise<void> {
    await this.send({ TIMER_DELIVER_MS: String(timeMs) }, body, topic);
  }

  async drain(topic = 'T', queueId = 0): Promise<StoredMessage[]> {
    const { store } = this.broker.context;
    const all: StoredMessage[] = [];
    let at: number = store.minOffsetInQueue(topic, queueId);
    while (at < store.maxOffsetInQueue(topic, queueId)) {
      const result = await selectLater(store, topic, queueId, at, 32, 1 << 20);
      all.push(...(await messagesOf(store, result)));
      at = result.nextBeginOffset;
    }
    return all;
  }

  async bodies(topic = 'T'): Promise<string[]> {
    return (await this.drain(topic)).map((message) => Buffer.from(message.body).toString());
  }
}
