// A broker whose time is moved by hand, with timer messages in it.

import type { MessageStoreConfig } from '../../store/index.ts';
import type { BrokerConfig } from '../broker-config.ts';
import { messageWith } from '../broker-fixture.test.support.ts';
import { ClockWorld } from '../clock-world.test.support.ts';
import { applyTimer, type TimerRefusal } from './timer-put.ts';

export class TimerWorld extends ClockWorld {
  constructor(config: Partial<BrokerConfig> = {}, store: Partial<MessageStoreConfig> = {}, seed?: number) {
    super({ mappedFileSizeTimerLog: 52 * 20 + 20, recallMessageEnable: true, ...config }, store, seed);
  }

  async start(): Promise<this> {
    await this.open();
    await this.broker.context.timer.load();
    this.broker.context.timer.start();
    await this.pass(0);
    return this;
  }

  /** Orderly stop. */
  async stop(): Promise<void> {
    const { timer, store } = this.broker.context;
    await this.settle(timer.stop());
    await this.settle(store.close());
    await this.settle(timer.close());
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
}
