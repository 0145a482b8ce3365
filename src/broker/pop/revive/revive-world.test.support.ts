// A broker whose time is moved by hand, with pops in it: messages, and the records that a pop and its acknowledgements leave behind.

import {
  ACK_TAG,
  type AckMsg,
  ackUniqueId,
  BATCH_ACK_TAG,
  CK_TAG,
  ckUniqueId,
  encodeAckMsg,
  encodeBatchAckMsg,
  encodeCheckPoint,
  type PopCheckPoint,
  popRetryTopic,
  REVIVE_GROUP,
  reviveTimeOf,
  reviveTopic,
  type StoredMessage,
} from '../../../message/index.ts';
import type { MessageStoreConfig } from '../../../store/index.ts';
import type { BrokerConfig } from '../../broker-config.ts';
import { messageWith } from '../../broker-fixture.test.support.ts';
import { ClockWorld } from '../../clock-world.test.support.ts';
import type { InternalMessage } from '../../internal-put.ts';
import { applyTimer } from '../../timer/timer-put.ts';
import type { ReviveCounts } from './revive-parts.ts';

/** Long enough for a pop whose time is over to come back, and for a position to be saved, which waits for the log to be flushed. */
export const ROUNDS_MS = 20_000;
const CLUSTER = 'DefaultCluster';

export class ReviveWorld extends ClockWorld {
  readonly topic: string = reviveTopic(CLUSTER);
  /** Pops of a queue that may be open at once. */
  mostOpen: number | undefined;

  constructor(config: Partial<BrokerConfig> = {}, store: Partial<MessageStoreConfig> = {}, seed?: number) {
    super({ reviveQueueNum: 1, ...config }, { mappedFileSizeCommitLog: 4 * 1024 * 1024, ...store }, seed);
  }

  async start(): Promise<this> {
    await this.open();
    const { context } = this.broker;
    for (const table of [context.topics, context.groups, context.offsets]) table.load();
    context.offsets.clampTo(context.store);
    await context.timer.load();
    context.timer.start();
    context.revive.start(this.mostOpen);
    await this.pass(0);
    return this;
  }

  /** Orderly stop. */
  async stop(): Promise<void> {
    const { revive, timer, store, topics, groups, offsets } = this.broker.context;
    await this.settle(revive.stop());
    await this.settle(timer.stop());
    await this.settle(store.close());
    await this.settle(timer.close());
    revive.close();
    for (const table of [topics, groups, offsets]) table.persistIfChanged();
  }

  /** Makes topics of `queues` queues, and the group G. */
  make(topics: readonly string[], queues = 1): void {
    const { context } = this.broker;
    for (const topic of topics) context.topics.createInSend(topic, 'TBW102', 'test', queues, 0);
    context.topics.persistIfChanged();
    context.groups.findOrCreate('G');
  }

  /** Sends m0, m1, ... to queue 0. */
  async send(count: number, topic = 'T', fields: Partial<InternalMessage> = {}): Promise<void> {
    for (let i = 0; i < count; i++) {
      const properties = new Map([
        ['UNIQ_KEY', `${topic}-${i}`],
        ['TAGS', 'A'],
      ]);
      await this.settle(this.broker.put(messageWith({ topic, body: Buffer.from(`m${i}`), properties, ...fields })));
    }
    await this.settle(this.broker.dispatched());
  }

  /** The check point of a pop of queue 0 now. */
  popOf(offsets: readonly number[], fields: Partial<PopCheckPoint> = {}): PopCheckPoint {
    const startOffset = fields.startOffset ?? offsets[0]!;
    return {
      startOffset,
      popTime: this.clock.now(),
      invisibleTimeMs: 5000,
      bitMap: 0,
      num: offsets.length,
      queueId: 0,
      topic: 'T',
      group: 'G',
      reviveOffset: 0,
      offsetDiffs: offsets.map((offset) => offset - startOffset),
      brokerName: 'broker-a',
      rePutTimes: undefined,
      suspend: false,
      ...fields,
    };
  }

  /** What a pop leaves behind. */
  async pop(offsets: readonly number[], fields: Partial<PopCheckPoint> = {}, queueId = 0): Promise<PopCheckPoint> {
    const ck = this.popOf(offsets, fields);
    await this.put(CK_TAG, encodeCheckPoint(ck), reviveTimeOf(ck) - 1000, ckUniqueId(ck), queueId);
    return ck;
  }

  async ack(ck: PopCheckPoint, offsets: readonly number[], queueId = 0): Promise<void> {
    for (const ackOffset of offsets) {
      const ack = ackOf(ck, ackOffset);
      await this.put(ACK_TAG, encodeAckMsg(ack), reviveTimeOf(ck), ackUniqueId(ack), queueId);
    }
  }

  async ackTogether(ck: PopCheckPoint, offsets: readonly number[], queueId = 0): Promise<void> {
    const ack = { ...ackOf(ck, -1), ackOffsets: [...offsets] };
    await this.put(BATCH_ACK_TAG, encodeBatchAckMsg(ack), reviveTimeOf(ck), ackUniqueId(ack), queueId);
  }

  /** A record of the revive topic, by way of the timer if its time is to come; `past` the timer: as if that had delivered it. */
  async put(tag: string, body: string, deliverMs: number, key: string, queueId = 0, past = false): Promise<void> {
    const properties = new Map([
      ['TAGS', tag],
      ['TIMER_DELIVER_MS', String(deliverMs)],
      ['UNIQ_KEY', key],
    ]);
    const message = messageWith({ topic: this.topic, queueId, body: Buffer.from(body), properties });
    const refusal = past ? undefined : applyTimer(this.broker.context, message);
    if (refusal !== undefined) throw new Error(refusal.reason);
    const stored = this.broker.put(message);
    this.broker.context.timer.noted();
    await this.settle(stored);
  }

  get counts(): Readonly<ReviveCounts> {
    return this.broker.context.revive.counts;
  }

  /** Messages of the retry topic. */
  revived(topic = 'T', group = 'G'): Promise<StoredMessage[]> {
    return this.drain(popRetryTopic(topic, group, this.broker.context.config.enableRetryTopicV2));
  }

  async revivedBodies(topic = 'T', group = 'G'): Promise<string[]> {
    return (await this.revived(topic, group)).map((message) => Buffer.from(message.body).toString());
  }

  /** The saved position, the last record that is done, and the end of the revive queue. */
  position(queueId = 0): [saved: number, end: number] {
    const { offsets, store } = this.broker.context;
    return [offsets.query(REVIVE_GROUP, this.topic, queueId), store.maxOffsetInQueue(this.topic, queueId)];
  }

  /** Lines of the log that hold a word. */
  lines(word: string): string[] {
    return this.broker.logger.texts().filter((text) => text.includes(word));
  }
}

function ackOf(ck: PopCheckPoint, ackOffset: number): AckMsg {
  const { brokerName, group, popTime, queueId, startOffset, topic } = ck;
  return { ackOffset, startOffset, group, topic, queueId, popTime, brokerName };
}
