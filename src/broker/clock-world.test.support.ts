// A broker whose time is moved by hand, which may stop, die and start again on the same disk.

import { setImmediate } from 'node:timers/promises';
import { FakeClock, SeededRandom } from '../common/index.ts';
import { MemoryFileSystem } from '../io/index.ts';
import type { StoredMessage } from '../message/index.ts';
import type { MessageStoreConfig } from '../store/index.ts';
import type { BrokerConfig } from './broker-config.ts';
import { BrokerFixture } from './broker-fixture.test.support.ts';
import { messagesOf, selectLater } from './store-reads.ts';

/** Turns of the loop that whatever falls due at one time needs. */
const TURNS = 6;

export class ClockWorld {
  clock: FakeClock;
  fs: MemoryFileSystem;
  readonly random: SeededRandom;
  broker!: BrokerFixture;
  /** What the next start opens the store and the broker with. */
  readonly store: Partial<MessageStoreConfig>;
  readonly config: Partial<BrokerConfig>;

  constructor(config: Partial<BrokerConfig>, store: Partial<MessageStoreConfig>, seed = 11) {
    this.config = { ...config };
    this.store = { ...store };
    this.clock = new FakeClock();
    this.random = new SeededRandom(seed);
    this.fs = new MemoryFileSystem({ clock: this.clock, random: this.random, directories: ['/store/config'] });
  }

  /** Opens the broker; none of its services is started. */
  protected async open(): Promise<void> {
    this.broker = await BrokerFixture.open({ fs: this.fs, clock: this.clock, store: this.store, broker: this.config });
  }

  /** The process ends here and now; `how` says what becomes of its files. Its timers must not go on. */
  die(how: (fs: MemoryFileSystem) => void): void {
    how(this.fs);
    this.clock = new FakeClock(this.clock.now());
    this.fs = this.fs.clone();
  }

  /** Waits for something that takes time. */
  async settle<T>(work: Promise<T>): Promise<T> {
    let done = false;
    const end = (): void => {
      done = true;
    };
    work.then(end, end);
    for (let turn = 0; !done && turn < 2000; turn++) {
      await setImmediate();
      this.clock.advance(10);
    }
    return work;
  }

  /** Lets time pass, with the loop turns that whatever falls due needs. */
  async pass(ms: number, stepMs = 50): Promise<void> {
    const until = this.clock.now() + ms;
    do {
      this.clock.advance(Math.min(stepMs, until - this.clock.now()));
      await this.turns(TURNS);
    } while (this.clock.now() < until);
  }

  /** Lets the loop turn while time stands still. */
  async turns(count: number): Promise<void> {
    for (let turn = 0; turn < count; turn++) await setImmediate();
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

/** The names m0, m1, ... that tests give to their messages. */
export function numbered(count: number): string[] {
  return Array.from({ length: count }, (_, i) => `m${i}`);
}
