// A broker with lite topics: a parent P, a lite group G, clients without sockets, and a clock that is moved by hand.

import assert from 'node:assert/strict';
import { setImmediate } from 'node:timers/promises';
import type { FakeClock } from '../../common/index.ts';
import type { MemoryFileSystem } from '../../io/index.ts';
import { decodeMessages, PropertyName, type StoredMessage } from '../../message/index.ts';
import { RequestCode } from '../../remoting/index.ts';
import type { MessageStoreConfig } from '../../store/index.ts';
import type { BrokerConfig } from '../broker-config.ts';
import { type Answer, BrokerFixture, FakeChannel } from '../broker-fixture.test.support.ts';
import { AckMessageProcessor } from '../processor/ack-message.ts';
import { ChangeInvisibleTimeProcessor } from '../processor/change-invisible-time.ts';
import { registerProcessors } from '../processor/register.ts';
import { Sender } from '../processor/sender.test.support.ts';
import { defaultGroupConfig } from '../subscription/subscription-group-config.ts';
import { TopicConfig } from '../topic/topic-config.ts';
import { lightQueueOf } from '../topic/topic-names.ts';

export type Fields = Record<string, string | number | boolean>;

/** A popped message, with what its client makes of it. */
export interface Got {
  readonly body: string;
  readonly lite: string;
  readonly offset: number;
  readonly handle: string;
  readonly count: number;
}

export interface Popped {
  readonly code: number;
  readonly got: readonly Got[];
  readonly bodies: readonly string[];
  readonly answer: Answer;
}

export class LiteWorld {
  readonly broker: BrokerFixture;
  readonly #sender: Sender;

  private constructor(broker: BrokerFixture) {
    this.broker = broker;
    this.#sender = new Sender(broker);
  }

  static async open(
    options: {
      fs?: MemoryFileSystem;
      clock?: FakeClock;
      broker?: Partial<BrokerConfig>;
      store?: Partial<MessageStoreConfig>;
    } = {},
  ): Promise<LiteWorld> {
    const store = { enableLmq: true, enableMultiDispatch: true, ...options.store };
    const broker = await BrokerFixture.open({ ...options, store });
    const { context } = broker;
    for (const table of [context.topics, context.groups, context.offsets]) table.load();
    registerProcessors(broker, context);
    new AckMessageProcessor(context).register(broker);
    new ChangeInvisibleTimeProcessor(context).register(broker);
    const world = new LiteWorld(broker);
    context.lite.start();
    if (!context.topics.has('P')) world.makeTopic('P', { '+message.type': 'LITE' });
    if (!context.groups.has('G')) world.makeGroup('G');
    return world;
  }

  makeTopic(topic: string, attributes: Record<string, string>): void {
    const { topics } = this.broker.context;
    void topics.update([
      {
        topic: new TopicConfig(topic, { readQueueNums: 2, writeQueueNums: 2 }),
        attributes: new Map(Object.entries(attributes)),
      },
    ]);
    topics.persist();
  }

  makeGroup(group: string, attributes: Record<string, string> = {}, parent = 'P'): void {
    const all = { '+lite.bind.topic': parent, ...attributes };
    this.broker.context.groups.update([{ ...defaultGroupConfig(group), attributes: new Map(Object.entries(all)) }]);
  }

  /** A send to a lite topic; with '' one to the parent alone. */
  async send(lite: string, body: string, properties: Record<string, string> = {}, topic = 'P'): Promise<Answer> {
    const all = { ...(lite === '' ? {} : { [PropertyName.LITE_TOPIC]: lite }), ...properties };
    const i = Object.entries(all).map(([name, value]) => `${name}\u0001${value}\u0002`);
    const done = await this.#sender.send({ b: topic, i: i.join('') }, body);
    await this.broker.dispatched();
    return done;
  }

  async sends(lite: string, ...bodies: string[]): Promise<void> {
    for (const body of bodies) {
      const { code, remark } = await this.send(lite, body);
      assert.equal(code, 0, remark ?? '');
    }
  }

  async ctl(
    action: string,
    clientId: string,
    lites: readonly string[],
    more: object = {},
    channel: FakeChannel = new FakeChannel(),
  ): Promise<Answer> {
    const entry = { action, clientId, group: 'G', topic: 'P', liteTopicSet: lites, version: 0, ...more };
    const body = JSON.stringify({ subscriptionSet: [entry] });
    return await this.broker.ask(RequestCode.LITE_SUBSCRIPTION_CTL, {}, body, channel);
  }

  async subscribe(clientId: string, lites: readonly string[], more: object = {}): Promise<void> {
    const { code, remark } = await this.ctl('PARTIAL_ADD', clientId, lites, more);
    assert.equal(code, 0, remark ?? '');
  }

  async pop(clientId: string, fields: Fields = {}, channel: FakeChannel = new FakeChannel()): Promise<Popped> {
    const header = {
      clientId,
      consumerGroup: 'G',
      topic: 'P',
      maxMsgNum: 32,
      invisibleTime: 10_000,
      pollTime: 0,
      bornTime: 0,
      ...fields,
    };
    const answer = await this.broker.ask(RequestCode.POP_LITE_MESSAGE, header, '', channel);
    const got = answer.code === 0 ? handlesOf(answer) : [];
    return { code: answer.code, got, bodies: got.map(({ body }) => body), answer };
  }

  async ack({ handle, lite, offset }: Got, fields: Fields = {}): Promise<Answer> {
    const header = {
      consumerGroup: 'G',
      topic: 'P',
      queueId: 0,
      extraInfo: handle,
      offset,
      liteTopic: lite,
      ...fields,
    };
    return await this.broker.ask(RequestCode.ACK_MESSAGE, header);
  }

  async change({ handle, lite, offset }: Got, invisibleTime: number, fields: Fields = {}): Promise<Answer> {
    const header = { consumerGroup: 'G', topic: 'P', queueId: 0, extraInfo: handle, offset, liteTopic: lite };
    const code = RequestCode.CHANGE_MESSAGE_INVISIBLETIME;
    return await this.broker.ask(code, { ...header, invisibleTime, ...fields });
  }

  /** Lets time pass, and whatever falls due happen. */
  async pass(ms: number): Promise<void> {
    this.broker.clock.advance(ms);
    for (let turn = 0; turn < 8; turn++) await setImmediate();
  }

  offsetOf(lite: string, group = 'G'): number {
    return this.broker.context.offsets.query(group, lightQueueOf('P', lite), 0);
  }
}

/** As MQClientAPIImpl#processPopLiteResponse makes handles. */
function handlesOf({ body, ext }: Answer): Got[] {
  const counts = ext['orderCountInfo']!.split(';');
  const messages: StoredMessage[] = decodeMessages(body);
  assert.equal(counts.length, messages.length);
  return messages.map(({ body: bytes, properties }, i) => {
    const offset = Number(properties.get(PropertyName.INNER_MULTI_QUEUE_OFFSET));
    const lite = properties.get(PropertyName.LITE_TOPIC)!;
    const handle = `0 ${ext['popTime']} ${ext['invisibleTime']} ${ext['reviveQid']} 0 broker-a 0 ${offset}`;
    return { body: Buffer.from(bytes).toString(), lite, offset, handle, count: Number(counts[i]) };
  });
}
