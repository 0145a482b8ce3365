// A broker that is popped from and brings back what is not acknowledged, on a disk whose power may go at any write. It saves its tables as often
// as a real one does; requests that get no answer are given up.

import { setImmediate } from 'node:timers/promises';
import type { BrokerConfig } from '../../src/broker/broker-config.ts';
import type { Answer } from '../../src/broker/broker-fixture.test.support.ts';
import { messageWith } from '../../src/broker/broker-fixture.test.support.ts';
import { saveInTurn } from '../../src/broker/config-manager.ts';
import { type Fields, type Popped, PopWorld, poppedOf } from '../../src/broker/pop/pop-world.test.support.ts';
import { encodeBatchAcks, parseReceiptHandle } from '../../src/message/index.ts';
import { RequestCode } from '../../src/remoting/index.ts';
import type { MessageStoreConfig } from '../../src/store/index.ts';

/** Loop turns that a request is waited for. */
const MOST_TURNS = 60;

export class PopSimWorld extends PopWorld {
  readonly seed: number;

  constructor(seed: number, config: Partial<BrokerConfig>, store: Partial<MessageStoreConfig>) {
    super(config, store, seed);
    this.seed = seed;
  }

  /** Starts what a broker runs for pops. @throws GantryError whatever the disk says, for one whose power goes meanwhile. */
  override async start(): Promise<void> {
    await super.start();
    const { context } = this.broker;
    const { groups, offsets, topics } = context;
    offsets.clampTo(context.store);
    context.revive.start();
    this.clock.every(context.config.flushConsumerOffsetInterval, () => void saveInTurn([offsets, topics, groups]));
  }

  /** Orderly stop; false if the power goes meanwhile. */
  async stop(): Promise<boolean> {
    const { pop, revive, timer, store, topics, groups, offsets } = this.broker.context;
    const steps = [
      () => revive.stop(),
      () => pop.stop(),
      () => timer.stop(),
      () => store.close(),
      () => timer.close(),
      () => revive.close(),
      ...[topics, groups, offsets].map((table) => () => table.persistLast()),
    ];
    for (const step of steps) if (!(await this.unlessDown(async () => step()))) return false;
    return true;
  }

  /** Waits for some work while time goes on; false if the power goes meanwhile. */
  async unlessDown(work: () => Promise<unknown>): Promise<boolean> {
    let outcome: { error?: unknown } | undefined;
    work().then(
      () => {
        outcome = {};
      },
      (error: unknown) => {
        outcome = { error };
      },
    );
    while (outcome === undefined && !this.fs.isDown) {
      await setImmediate();
      this.clock.advance(10);
    }
    if (this.fs.isDown) return false;
    if (outcome?.error !== undefined) throw outcome.error;
    return true;
  }

  /** What comes of some work within a few turns; undefined if nothing does. */
  async #soon<T>(work: Promise<T>): Promise<T | undefined> {
    let done: T | undefined;
    work.then(
      (value) => {
        done = value;
      },
      () => {},
    );
    for (let turn = 0; turn < MOST_TURNS && done === undefined; turn++) {
      await setImmediate();
      if (!this.fs.isDown) this.#turn();
    }
    return this.fs.isDown ? undefined : done;
  }

  #turn(): void {
    try {
      this.endTurn();
    } catch (error) {
      if (!this.fs.isDown) throw error;
    }
  }

  async tryAsk(code: number, fields: Fields, body: string | Uint8Array = ''): Promise<Answer | undefined> {
    // A connection of its own: answers that never come must not be taken for others'.
    const answer = this.broker.ask(code, fields, body);
    this.#turn();
    return this.#soon(answer);
  }

  /** Whether the message is as durable as the settings promise. */
  async trySend(body: string, topic: string, queueId: number): Promise<boolean> {
    const properties = new Map([['UNIQ_KEY', body]]);
    const put = this.broker.put(messageWith({ topic, queueId, body: Buffer.from(body), properties }));
    const result = await this.#soon(put);
    return result?.status === 0;
  }

  /** What a group gets; undefined if there is no answer. */
  async tryPop(group: string, topic: string, max: number, invisibleTime: number): Promise<Popped[] | undefined> {
    const answer = await this.tryAsk(RequestCode.POP_MESSAGE, {
      consumerGroup: group,
      topic,
      queueId: -1,
      maxMsgNums: max,
      invisibleTime,
      pollTime: 0,
      bornTime: 0,
      initMode: 0,
      expType: 'TAG',
      exp: '*',
      order: false,
    });
    return answer === undefined ? undefined : poppedOf(answer, topic, group, 'broker-a');
  }

  tryAck(group: string, { handle, message, topic }: Popped): Promise<Answer | undefined> {
    const { queueId, queueOffset: offset } = message;
    return this.tryAsk(RequestCode.ACK_MESSAGE, { consumerGroup: group, topic, queueId, extraInfo: handle, offset });
  }

  /** Acknowledges several at once, each by its own check point. */
  tryBatchAck(group: string, popped: readonly Popped[], asked: string): Promise<Answer | undefined> {
    const acks = popped.map(({ handle, message }) => {
      const parsed = parseReceiptHandle(handle);
      if (typeof parsed === 'string') throw new Error(parsed);
      const { invisibleTimeMs, popTime, retryFlag, reviveQueueId, startOffset } = parsed;
      const bits = [message.queueOffset - startOffset];
      const { queueId } = message;
      return { group, topic: asked, retryFlag, startOffset, queueId, reviveQueueId, popTime, invisibleTimeMs, bits };
    });
    return this.tryAsk(RequestCode.BATCH_ACK_MESSAGE, {}, encodeBatchAcks({ brokerName: 'broker-a', acks }));
  }

  tryChange(
    group: string,
    { handle, message, topic }: Popped,
    invisibleTime: number,
    suspend: boolean,
  ): Promise<Answer | undefined> {
    const { queueId, queueOffset: offset } = message;
    const fields = { consumerGroup: group, topic, queueId, extraInfo: handle, offset, invisibleTime, suspend };
    return this.tryAsk(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, fields);
  }
}
