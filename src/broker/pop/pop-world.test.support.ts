// A broker that is popped from, with a clock that is moved by hand.

import { setImmediate } from 'node:timers/promises';
import { FakeClock } from '../../common/index.ts';
import { MemoryFileSystem } from '../../io/index.ts';
import {
  decodeMessages,
  parseMessageOffsets,
  parseNumberInfo,
  receiptHandleText,
  retryFlagOf,
  type StoredMessage,
} from '../../message/index.ts';
import { RequestCode } from '../../remoting/index.ts';
import type { MessageStoreConfig } from '../../store/index.ts';
import type { BrokerConfig } from '../broker-config.ts';
import { type Answer, type BrokerFixture, FakeChannel, messageWith } from '../broker-fixture.test.support.ts';
import { ClockWorld } from '../clock-world.test.support.ts';
import { AckMessageProcessor } from '../processor/ack-message.ts';
import { ChangeInvisibleTimeProcessor } from '../processor/change-invisible-time.ts';
import { PopMessageProcessor } from '../processor/pop-message.ts';

/** A popped message and how to acknowledge it. */
export interface Popped {
  readonly message: StoredMessage;
  readonly body: string;
  /** The topic that it lies in. */
  readonly topic: string;
  readonly handle: string;
}

export interface PopAnswer extends Answer {
  readonly popped: Popped[];
}

export type Fields = Record<string, string | number | boolean>;

export class PopWorld extends ClockWorld {
  readonly group = 'G';
  readonly channel: FakeChannel = new FakeChannel();
  #processors: Array<{ endTurn(): void }> = [];

  static async open(
    options: {
      broker?: Partial<BrokerConfig>;
      store?: Partial<MessageStoreConfig>;
      queues?: number;
      now?: number;
    } = {},
  ): Promise<PopWorld> {
    const world = new PopWorld({ reviveQueueNum: 2, ...options.broker }, options.store ?? {});
    if (options.now !== undefined) {
      world.clock = new FakeClock(options.now);
      world.fs = new MemoryFileSystem({ clock: world.clock, random: world.random, directories: ['/store/config'] });
    }
    await world.start();
    const { topics } = world.context;
    topics.createInSend('T', 'TBW102', 'test', options.queues ?? 1, 0);
    topics.persistIfChanged();
    return world;
  }

  /** Opens the broker on what the disk holds; pops go, the timer too. */
  async start(): Promise<void> {
    await this.open();
    const { context } = this.broker;
    for (const table of [context.topics, context.groups, context.offsets]) table.load();
    await this.settle(context.timer.load());
    new PopMessageProcessor(context).register(this.broker);
    const acks = new AckMessageProcessor(context);
    const changes = new ChangeInvisibleTimeProcessor(context);
    acks.register(this.broker);
    changes.register(this.broker);
    this.#processors = [acks, changes];
    context.timer.start();
    context.pop.start();
    await this.broker.dispatched();
  }

  get context(): BrokerFixture['context'] {
    return this.broker.context;
  }

  /** Ends the turn of a server. */
  endTurn(): void {
    for (const processor of this.#processors) processor.endTurn();
    this.context.store.endTurn();
  }

  async ask(code: number, fields: Fields, body: string | Uint8Array = ''): Promise<Answer> {
    const answer = this.broker.ask(code, fields, body, this.channel);
    this.endTurn();
    for (let turn = 0; turn < 3; turn++) {
      await setImmediate();
      this.endTurn();
    }
    return answer;
  }

  async send(
    bodies: readonly string[],
    fields: { topic?: string; queueId?: number; tag?: string } = {},
  ): Promise<void> {
    for (const body of bodies) {
      const properties = new Map(fields.tag === undefined ? [] : [['TAGS', fields.tag]]);
      const { topic = 'T', queueId = 0 } = fields;
      await this.broker.put(messageWith({ topic, queueId, body: Buffer.from(body), properties }));
    }
    await this.broker.dispatched();
  }

  async pop(fields: Fields = {}): Promise<PopAnswer> {
    const wants = {
      consumerGroup: this.group,
      topic: 'T',
      queueId: -1,
      maxMsgNums: 32,
      invisibleTime: 60_000,
      pollTime: 0,
      bornTime: 0,
      initMode: 0,
      expType: 'TAG',
      exp: '*',
      order: false,
      ...fields,
    };
    const answer = await this.ask(RequestCode.POP_MESSAGE, wants);
    return {
      ...answer,
      popped: poppedOf(answer, wants.topic, wants.consumerGroup, this.config.brokerName ?? 'broker-a'),
    };
  }

  ack({ handle, message, topic }: Popped, fields: Fields = {}): Promise<Answer> {
    return this.ask(RequestCode.ACK_MESSAGE, {
      consumerGroup: this.group,
      topic,
      queueId: message.queueId,
      extraInfo: handle,
      offset: message.queueOffset,
      ...fields,
    });
  }

  /** Several in one turn, as they come over a connection. */
  async ackTogether(popped: readonly Popped[], fields: Fields = {}): Promise<Answer[]> {
    const answers = popped.map(({ handle, message, topic }) =>
      this.broker.ask(
        RequestCode.ACK_MESSAGE,
        {
          consumerGroup: this.group,
          topic,
          queueId: message.queueId,
          extraInfo: handle,
          offset: message.queueOffset,
          ...fields,
        },
        '',
        this.channel,
      ),
    );
    this.endTurn();
    await setImmediate();
    return Promise.all(answers);
  }

  change({ handle, message, topic }: Popped, invisibleTime: number, fields: Fields = {}): Promise<Answer> {
    return this.ask(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, {
      consumerGroup: this.group,
      topic,
      queueId: message.queueId,
      extraInfo: handle,
      offset: message.queueOffset,
      invisibleTime,
      ...fields,
    });
  }

  /** Records of the timer's topic, which check points and acknowledgements wait in; the bodies. */
  async waiting(): Promise<string[]> {
    await this.broker.dispatched();
    return this.bodies('rmq_sys_wheel_timer');
  }

  /** The power goes off and on again. */
  async powerCut(): Promise<void> {
    this.die((fs) => fs.powerCut(this.random));
    await this.start();
  }

  /** The process is killed; the system keeps what it was given. */
  async kill(): Promise<void> {
    this.die((fs) => fs.kill(this.random));
    await this.start();
  }

  /** What consumerOffset.json says of the group on a queue of T, -1 for nothing. */
  savedOffset(queueId = 0): number {
    const { offsets } = this.context;
    offsets.persistIfChanged();
    const found = new RegExp(`"T@G":\\{[^}]*\\b${queueId}:(\\d+)`).exec(offsets.text());
    return found === null ? -1 : Number(found[1]);
  }
}

/** The messages of an answer with their handles, built as clients build them. */
export function poppedOf(answer: Answer, topic: string, group: string, brokerName: string): Popped[] {
  if (answer.code !== 0) return [];
  const { popTime, invisibleTime, reviveQid, startOffsetInfo, msgOffsetInfo } = answer.ext;
  const starts = parseNumberInfo(startOffsetInfo)!;
  const offsets = parseMessageOffsets(msgOffsetInfo)!;
  return decodeMessages(answer.body).map((message) => {
    const ck = message.properties.get('POP_CK');
    const flag = ck === undefined ? retryFlagOf(message.topic) : ck.split(' ')[4]!;
    const key = `${flag}@${message.queueId}`;
    if (!offsets.get(key)!.includes(message.queueOffset)) throw new Error(`${key} lacks ${message.queueOffset}`);
    const handle =
      ck ??
      receiptHandleText({
        startOffset: starts.get(key)!,
        popTime: Number(popTime),
        invisibleTimeMs: Number(invisibleTime),
        reviveQueueId: Number(reviveQid),
        retryFlag: flag,
        brokerName,
        queueId: message.queueId,
        queueOffset: message.queueOffset,
      });
    const real = flag === '0' ? topic : `%RETRY%${group}${flag === '1' ? '_' : '+'}${topic}`;
    return { message, body: Buffer.from(message.body).toString(), topic: real, handle };
  });
}
