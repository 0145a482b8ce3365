// The pull consumer as its instance, its rebalancer and its pull loops see it: messages are fetched ahead into a buffer per queue, and
// `take` hands them out. RocketMQ: DefaultLitePullConsumerImpl.
//
//     committed      position        nextOffset            committed: what a restart begins at (saved every 5 s)
//         |             |                |                 position: next message to hand out
//   ...done  handed out | in the buffer  | not pulled yet  what was handed out is done when `take` is called again

import { GantryError } from '../common/index.ts';
import type { StoredMessage } from '../message/index.ts';
import { BrokerOffsetStore } from './broker-offset-store.ts';
import { checkSubscription } from './check-subscription.ts';
import type { ClientInstance } from './client-instance.ts';
import { consumerRunningInfo } from './consumer-running-info.ts';
import type { GroupConsumer } from './group-consumer.ts';
import type { ConsumeFromWhere, ConsumerData, MessageModel } from './heartbeat.ts';
import { initialOffset } from './initial-offset.ts';
import type { ConsumeCounts } from './listener-calls.ts';
import type { ReceivedMessage } from './message-types.ts';
import type { OffsetStore } from './offset-store.ts';
import type { ProcessQueue } from './process-queue.ts';
import type { PullConsumerOptions } from './pull-consumer.ts';
import { PullLoop, type PullLoopOwner } from './pull-loop.ts';
import { type MessageQueue, queueKey, queueText } from './queues.ts';
import { type RebalanceOwner, Rebalancer } from './rebalancer.ts';
import { type MessageSelector, parseSubscription, type SubscriptionData } from './subscription.ts';
import { Subscriptions } from './subscriptions.ts';
import { Waiter } from './waiter.ts';

const HALF_HOUR_MS = 1_800_000;

/** The working half of a PullConsumer. */
export class PullMember implements GroupConsumer, RebalanceOwner, PullLoopOwner {
  readonly group: string;
  readonly messageModel: MessageModel = 'CLUSTERING';
  readonly #client: ClientInstance;
  readonly #from: ConsumeFromWhere;
  readonly #timestamp: number;
  readonly #autoCommit: boolean;
  readonly #subscriptions: Subscriptions;
  readonly #offsets: OffsetStore;
  readonly #rebalancer: Rebalancer;
  readonly #waiter: Waiter;
  readonly #pullLoop: PullLoop;
  /** Queues that were assigned by hand; undefined: they are shared with the group. */
  #fixed: readonly MessageQueue[] | undefined;
  /** Next offset to hand out, of queues from which something was. */
  readonly #positions = new Map<string, { queue: MessageQueue; offset: number }>();
  readonly #consumed = new Map<string, ConsumeCounts>();
  /** Wakes those who wait for messages. */
  readonly #arrival: Waiter;
  /** Queues that are not read for now. */
  readonly #paused = new Set<string>();
  #turn = 0;
  #state: 'created' | 'running' | 'closed' = 'created';
  #startedAt = 0;

  constructor(client: ClientInstance, options: PullConsumerOptions) {
    this.group = options.group;
    this.#client = client;
    this.#from = options.consumeFromWhere ?? 'CONSUME_FROM_LAST_OFFSET';
    this.#timestamp = options.consumeTimestamp ?? client.clock.now() - HALF_HOUR_MS;
    this.#autoCommit = options.autoCommit ?? true;
    this.#subscriptions = new Subscriptions(client.clock);
    this.#offsets = new BrokerOffsetStore(client, this.group);
    this.#rebalancer = new Rebalancer(client, this);
    this.#waiter = new Waiter(client.clock);
    this.#arrival = new Waiter(client.clock);
    this.#pullLoop = new PullLoop(client, this, this.#waiter, { ...options, withSubscription: true });
  }

  assignment(): MessageQueue[] {
    return this.#rebalancer.queues().map((taken) => taken.queue);
  }

  async subscribe(topic: string, expression: string | MessageSelector): Promise<void> {
    this.#checkOpen();
    if (this.#fixed !== undefined)
      throw new GantryError('CLIENT_STATE', 'queues were assigned by hand: subscribe is not possible');
    if (this.#state === 'running') {
      await checkSubscription(this.#client, this.group, parseSubscription(topic, expression, 0));
    }
    this.#subscriptions.set(topic, expression);
    await this.#settle();
  }

  async unsubscribe(topic: string): Promise<void> {
    if (this.#subscriptions.delete(topic)) await this.#settle();
  }

  async assign(queues: readonly MessageQueue[], expression: string): Promise<void> {
    this.#checkOpen();
    if (this.#fixed === undefined && this.#subscriptions.topics().length > 0) {
      throw new GantryError('CLIENT_STATE', 'topics were subscribed to: assign is not possible');
    }
    this.#fixed = [...queues];
    const topics = new Set(queues.map((queue) => queue.topic));
    for (const topic of this.#subscriptions.topics()) if (!topics.has(topic)) this.#subscriptions.delete(topic);
    for (const topic of topics) this.#subscriptions.set(topic, expression);
    await this.#settle();
  }

  async start(): Promise<void> {
    if (this.#state !== 'created') throw new GantryError('CLIENT_STATE', `the consumer is ${this.#state}`);
    this.#client.addConsumer(this);
    this.#state = 'running';
    this.#startedAt = this.#client.clock.now();
    this.#client.acquire();
    try {
      for (const data of this.#subscriptions.list()) await checkSubscription(this.#client, this.group, data);
    } catch (error) {
      await this.close();
      throw error;
    }
    await this.#settle();
  }

  async close(): Promise<void> {
    const wasRunning = this.#state === 'running';
    this.#state = 'closed';
    this.#waiter.wakeAll();
    this.#arrival.wakeAll();
    if (!wasRunning) return;
    await this.persistOffsets(true);
    this.#rebalancer.dropAll();
    await this.#client.removeConsumer(this.group);
    await this.#client.release();
  }

  /** Hands out messages of one queue, in order; waits at most `timeoutMs` for the first. */
  async take(timeoutMs: number, limit: number): Promise<ReceivedMessage[]> {
    this.#checkRunning();
    if (this.#autoCommit) this.#commitPositions();
    const deadline = this.#client.clock.monotonic() + timeoutMs;
    for (;;) {
      const messages = this.#takeNow(limit);
      if (messages.length > 0) return messages;
      const left = deadline - this.#client.clock.monotonic();
      if (left <= 0 || this.#state !== 'running') return [];
      await this.#arrival.sleep(left);
    }
  }

  async commit(): Promise<void> {
    this.#checkRunning();
    this.#commitPositions();
    await this.persistOffsets(true);
  }

  seek(queue: MessageQueue, offset: number): void {
    this.#checkRunning();
    if (!Number.isSafeInteger(offset) || offset < 0) throw new GantryError('CONFIG_VALUE', `${offset} is no offset`);
    const taken = this.#rebalancer.get(queue);
    if (taken === undefined || taken.dropped) {
      throw new GantryError('CLIENT_STATE', `${queueText(queue)} is not assigned to this consumer`);
    }
    this.#positions.set(queueKey(queue), { queue, offset });
    this.#rebalancer.restart(taken, offset);
  }

  setPaused(queues: readonly MessageQueue[], paused: boolean): void {
    for (const queue of queues) {
      if (paused) this.#paused.add(queueKey(queue));
      else this.#paused.delete(queueKey(queue));
    }
    // Those that wait may find something in a queue that goes on.
    if (!paused) this.#arrival.wakeAll();
  }

  paused(): MessageQueue[] {
    return this.assignment().filter((queue) => this.#paused.has(queueKey(queue)));
  }

  position(queue: MessageQueue): number | undefined {
    const taken = this.#rebalancer.get(queue);
    if (taken === undefined) return undefined;
    return this.#positions.get(queueKey(queue))?.offset ?? (taken.count > 0 ? taken.firstOffset : taken.nextOffset);
  }

  fetchCommitted(queue: MessageQueue): Promise<number | undefined> {
    this.#checkRunning();
    return new BrokerOffsetStore(this.#client, this.group).fetch(queue);
  }

  topics(): Iterable<string> {
    return this.#subscriptions.topics();
  }

  fixedQueues(topic: string): readonly MessageQueue[] | undefined {
    return this.#fixed?.filter((queue) => queue.topic === topic);
  }

  heartbeatData(): ConsumerData {
    return {
      groupName: this.group,
      consumeType: 'CONSUME_ACTIVELY',
      messageModel: this.messageModel,
      consumeFromWhere: this.#from,
      unitMode: false,
      // With queues assigned by hand there is nothing to share, so that brokers need not know what is read.
      subscriptionDataSet: this.#fixed === undefined ? this.#subscriptions.list() : [],
    };
  }

  async rebalance(): Promise<boolean> {
    return this.isRunning() ? this.#rebalancer.rebalance() : true;
  }

  initialOffset(queue: MessageQueue): Promise<number> {
    this.#offsets.remove(queue);
    return initialOffset(this.#client, this.#offsets, queue, this.#from, this.#timestamp);
  }

  async queueRemoved(taken: ProcessQueue): Promise<boolean> {
    await this.#offsets.persist([taken.queue], true);
    this.#offsets.remove(taken.queue);
    this.#positions.delete(queueKey(taken.queue));
    return true;
  }

  async queuesChanged(topic: string): Promise<void> {
    this.#subscriptions.renew(topic);
    await this.#announce();
  }

  queueAdded(taken: ProcessQueue): void {
    void this.#pullLoop.run(taken);
  }

  isRunning(): boolean {
    return this.#state === 'running';
  }

  isPaused(taken: ProcessQueue): boolean {
    return this.#paused.has(queueKey(taken.queue));
  }

  subscription(topic: string): SubscriptionData | undefined {
    return this.#subscriptions.get(topic);
  }

  /** Offsets are saved by the timer and at `commit`, not on the way. */
  commitOffset(): number | undefined {
    return undefined;
  }

  deliver(): void {
    this.#arrival.wakeAll();
  }

  caughtUp(taken: ProcessQueue): void {
    // What the tag filter left out behind the last message handed out needs no repeat, once that message is done.
    const position = this.#positions.get(queueKey(taken.queue));
    if (position !== undefined) position.offset = taken.nextOffset;
    else if (this.#autoCommit) this.#offsets.update(taken.queue, taken.nextOffset, true);
  }

  async moved(taken: ProcessQueue, offset: number): Promise<void> {
    this.#positions.set(queueKey(taken.queue), { queue: taken.queue, offset });
    this.#offsets.update(taken.queue, offset, false);
    this.#rebalancer.restart(taken, offset);
  }

  async persistOffsets(confirm: boolean): Promise<void> {
    await this.#offsets.persist(this.assignment(), confirm);
  }

  async resetOffsets(topic: string, offsets: Array<[MessageQueue, number]>): Promise<void> {
    for (const [queue, offset] of offsets) {
      const taken = queue.topic === topic ? this.#rebalancer.get(queue) : undefined;
      if (taken !== undefined && !taken.dropped) await this.moved(taken, offset);
    }
    await this.persistOffsets(true);
  }

  offsets(topic: string): Array<[MessageQueue, number]> {
    return this.#offsets.entries(topic);
  }

  runningInfo(): object {
    return consumerRunningInfo({
      client: this.#client,
      consumeType: 'CONSUME_ACTIVELY',
      concurrency: 1,
      orderly: false,
      startedAt: this.#startedAt,
      subscriptions: this.#subscriptions.list(),
      queues: this.#rebalancer.queues(),
      popQueues: [],
      committed: (queue) => this.#offsets.peek(queue) ?? -1,
      consumed: this.#consumed,
    });
  }

  consumeDirectly(_stored: StoredMessage, _brokerName: string): undefined {
    return undefined;
  }

  #checkOpen(): void {
    if (this.#state === 'closed') throw new GantryError('CLIENT_STATE', 'the consumer is closed');
  }

  #checkRunning(): void {
    this.#checkOpen();
    if (this.#state === 'created') throw new GantryError('CLIENT_STATE', 'the consumer is not started');
  }

  #announce(): Promise<void> {
    return this.#subscriptions.announce(() => this.#client.heartbeatAll());
  }

  /** Routes, heartbeats and queues follow a change of what is read. */
  async #settle(): Promise<void> {
    if (this.#state !== 'running') return;
    await Promise.all(this.#subscriptions.topics().map((topic) => this.#client.routes.refresh(topic)));
    await this.#announce();
    await this.#client.rebalanceNow();
  }

  #commitPositions(): void {
    for (const { queue, offset } of this.#positions.values()) this.#offsets.update(queue, offset, false);
  }

  /** The queues take turns, so that a full one does not starve the others. */
  #takeNow(limit: number): ReceivedMessage[] {
    const queues = this.#rebalancer.queues();
    for (let i = 0; i < queues.length; i++) {
      const taken = queues[(this.#turn + i) % queues.length]!;
      if (taken.count === 0 || (this.#paused.size > 0 && this.isPaused(taken))) continue;
      this.#turn = (this.#turn + i + 1) % queues.length;
      const messages = taken.first(limit);
      const last = messages[messages.length - 1]!;
      taken.remove(messages);
      const offset = taken.count === 0 ? taken.nextOffset : last.queueOffset + 1;
      this.#positions.set(queueKey(taken.queue), { queue: taken.queue, offset });
      const { topic } = taken.queue;
      const { ok = 0 } = this.#consumed.get(topic) ?? {};
      this.#consumed.set(topic, { ok: ok + messages.length, failed: 0 });
      return messages;
    }
    return [];
  }
}
