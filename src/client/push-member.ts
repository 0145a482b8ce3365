// The push consumer as its instance, its rebalancer and its pull loops see it. RocketMQ: DefaultMQPushConsumerImpl.
//
// One queue's way:   rebalance takes it -> offset from the store -> pull loop -> ProcessQueue -> listener -> commit the lowest offset
//                    that is not consumed: every 5 s, when the queue is given away, and at close
//
// With `clientRebalance` false a broker says instead which queues there are for this member, and has some of them popped: pop-service.ts.

import { type Clock, errorText, GantryError, type Timer } from '../common/index.ts';
import { popRetryTopicV1, type StoredMessage } from '../message/index.ts';
import { queryAssignment } from './assignment.ts';
import { BrokerOffsetStore } from './broker-offset-store.ts';
import { checkSubscription } from './check-subscription.ts';
import type { ClientInstance } from './client-instance.ts';
import { ConsumeService, type ConsumeStatus } from './consume-service.ts';
import { consumerRunningInfo } from './consumer-running-info.ts';
import type { GroupConsumer } from './group-consumer.ts';
import type { ConsumeFromWhere, ConsumerData, MessageModel } from './heartbeat.ts';
import { initialOffset } from './initial-offset.ts';
import { LocalOffsetStore } from './local-offset-store.ts';
import { MessageTrace } from './message-trace.ts';
import { ReceivedMessage } from './message-types.ts';
import type { OffsetStore } from './offset-store.ts';
import { type OrderlyListener, OrderlyService, type OrderlyStatus } from './orderly-service.ts';
import { PopService } from './pop-service.ts';
import type { ProcessQueue } from './process-queue.ts';
import { originalTopic, PullLoop, type PullLoopOwner } from './pull-loop.ts';
import type { PushConsumerOptions } from './push-consumer.ts';
import { QueueLocks } from './queue-locks.ts';
import type { MessageQueue } from './queues.ts';
import { isRetryTopic, type RebalanceOwner, Rebalancer } from './rebalancer.ts';
import { retryTopic, SendBack } from './send-back.ts';
import type { MessageSelector, SubscriptionData } from './subscription.ts';
import { Subscriptions } from './subscriptions.ts';
import { Waiter } from './waiter.ts';

const HALF_HOUR_MS = 1_800_000;
const MINUTE_MS = 60_000;
/** RocketMQ: what -1 means for a concurrent consumer. */
const DEFAULT_MAX_RECONSUME_TIMES = 16;
/** RocketMQ: and for an ordered one. */
const ENDLESS_RECONSUME_TIMES = 0x7fff_ffff;
const DEFAULT_SUSPEND_MS = 1000;
/** How long a queue that is given away is waited for before the others are shared out. RocketMQ: tryRemoveOrderMessageQueue. */
const RELEASE_WAIT_MS = 500;

/** The working half of a PushConsumer. */
export class PushMember implements GroupConsumer, RebalanceOwner, PullLoopOwner {
  readonly group: string;
  readonly messageModel: MessageModel;
  readonly #client: ClientInstance;
  readonly #clock: Clock;
  readonly #from: ConsumeFromWhere;
  readonly #timestamp: number;
  readonly #concurrency: number;
  readonly #closeTimeoutMs: number;
  readonly #consumeTimeoutMs: number;
  readonly #subscriptions: Subscriptions;
  readonly #offsets: OffsetStore;
  readonly #rebalancer: Rebalancer;
  readonly #waiter: Waiter;
  readonly #pullLoop: PullLoop;
  /** One of the two. */
  readonly #consume: ConsumeService | undefined;
  readonly #orderly: OrderlyService | undefined;
  /** With clientRebalance=false, beside #consume. */
  readonly #pop: PopService | undefined;
  readonly #trace: MessageTrace | undefined;
  #state: 'created' | 'running' | 'closed' = 'created';
  #paused = false;
  #startedAt = 0;
  #expiryTimer: Timer | undefined;

  constructor(client: ClientInstance, options: PushConsumerOptions) {
    const { clock, logger, settings, clientId } = client;
    this.group = options.group;
    this.messageModel = options.messageModel ?? 'CLUSTERING';
    this.#client = client;
    this.#clock = clock;
    this.#from = options.consumeFromWhere ?? 'CONSUME_FROM_LAST_OFFSET';
    this.#timestamp = options.consumeTimestamp ?? clock.now() - HALF_HOUR_MS;
    this.#concurrency = options.concurrency ?? 20;
    this.#closeTimeoutMs = options.closeTimeoutMs ?? 10_000;
    this.#consumeTimeoutMs = (options.consumeTimeoutMinutes ?? 15) * MINUTE_MS;
    this.#subscriptions = new Subscriptions(clock);
    this.#offsets =
      this.messageModel === 'BROADCASTING'
        ? new LocalOffsetStore(settings.fs, logger, `${settings.localOffsetStoreDir}/${clientId}/${this.group}`)
        : new BrokerOffsetStore(client, this.group);
    this.#rebalancer = new Rebalancer(client, this);
    this.#waiter = new Waiter(clock);
    this.#pullLoop = new PullLoop(client, this, this.#waiter, {
      ...options,
      withSubscription: false,
      // One listener at a time keeps the span short.
      ...(options.orderlyListener === undefined ? {} : { consumeConcurrentlyMaxSpan: Number.MAX_SAFE_INTEGER }),
    });
    const times = options.maxReconsumeTimes ?? -1;
    this.#trace = MessageTrace.of(client, this.group, 'CONSUME', options);
    const { listener, orderlyListener } = options;
    if (orderlyListener !== undefined) this.#orderly = this.#newOrderly(options, orderlyListener, times);
    if (listener === undefined) return;
    const maxReconsumeTimes = times < 0 ? DEFAULT_MAX_RECONSUME_TIMES : times;
    const sendBack = new SendBack(client, this.group, maxReconsumeTimes);
    if (options.clientRebalance === false) {
      this.#pop = new PopService(client, {
        ...options,
        listener,
        concurrency: this.#concurrency,
        batchSize: options.consumeMessageBatchMaxSize ?? 1,
        initMode: this.#from === 'CONSUME_FROM_FIRST_OFFSET' ? 0 : 1,
        maxReconsumeTimes,
        trace: this.#trace,
        waiter: this.#waiter,
        isRunning: () => this.isRunning(),
        isPaused: () => this.#paused,
        subscription: (topic) => this.#subscriptions.get(topic),
        giveUp: (message) => sendBack.sendBack(message, -1),
      });
    }
    this.#consume = new ConsumeService({
      listener,
      concurrency: this.#concurrency,
      batchSize: options.consumeMessageBatchMaxSize ?? 1,
      consumeTimeoutMs: this.#consumeTimeoutMs,
      group: this.group,
      messageModel: this.messageModel,
      offsets: this.#offsets,
      sendBack: (message, delayLevel) => sendBack.sendBack(message, delayLevel),
      trace: this.#trace,
      clock,
      logger,
    });
  }

  assignment(): MessageQueue[] {
    return [...this.#pulled(), ...(this.#pop?.queues() ?? []).map((from) => from.queue)];
  }

  subscribe(topic: string, expression: string | MessageSelector): void {
    if (this.#state === 'closed') throw new GantryError('CLIENT_STATE', 'the consumer is closed');
    this.#subscriptions.set(topic, expression);
    if (this.#state === 'running') void this.#subscribed(topic);
  }

  unsubscribe(topic: string): void {
    if (this.#subscriptions.delete(topic) && this.#state === 'running') void this.#subscriptionChanged();
  }

  setPaused(paused: boolean): void {
    this.#paused = paused;
  }

  async start(): Promise<void> {
    if (this.#state !== 'created') throw new GantryError('CLIENT_STATE', `the consumer is ${this.#state}`);
    this.#client.addConsumer(this);
    this.#state = 'running';
    this.#startedAt = this.#clock.now();
    if (this.messageModel === 'CLUSTERING') this.#subscriptions.set(retryTopic(this.group), '*');
    this.#client.acquire();
    const consume = this.#consume;
    if (consume !== undefined) {
      this.#expiryTimer = this.#clock.every(
        this.#consumeTimeoutMs,
        () => void consume.sendBackExpired(this.#rebalancer.queues()),
      );
    }
    this.#orderly?.start();
    try {
      for (const data of this.#subscriptions.list()) await checkSubscription(this.#client, this.group, data);
    } catch (error) {
      await this.close();
      throw error;
    }
    await this.#subscriptionChanged();
  }

  async close(): Promise<void> {
    const wasRunning = this.#state === 'running';
    this.#state = 'closed';
    this.#waiter.wakeAll();
    this.#expiryTimer?.cancel();
    if (!wasRunning) return;
    const stopped = Promise.all([this.#consume?.stop() ?? this.#orderly!.stop(), this.#pop?.stop()]);
    const inTime = await this.#waiter.race(stopped, this.#closeTimeoutMs);
    if (!inTime) this.#client.logger.warn(`${this.group}: some listeners still run; their messages will come again`);
    const held = this.#rebalancer.held().filter((taken) => !taken.dropped || taken.locked);
    await this.#offsets.persist(
      held.map((taken) => taken.queue),
      true,
    );
    await this.#orderly?.unlock(held);
    this.#rebalancer.dropAll();
    await this.#trace?.close();
    await this.#client.removeConsumer(this.group);
    await this.#client.release();
  }

  topics(): Iterable<string> {
    return this.#subscriptions.topics();
  }

  heartbeatData(): ConsumerData {
    return {
      groupName: this.group,
      consumeType: 'CONSUME_PASSIVELY',
      messageModel: this.messageModel,
      consumeFromWhere: this.#from,
      unitMode: false,
      subscriptionDataSet: this.#subscriptions.list(),
    };
  }

  async rebalance(): Promise<boolean> {
    if (!this.isRunning() || this.#paused) return true;
    this.#pop?.retain(new Set(this.topics()));
    return this.#rebalancer.rebalance();
  }

  get assignedQueues(): ((topic: string) => Promise<readonly MessageQueue[] | undefined>) | undefined {
    const pop = this.#pop;
    return pop === undefined ? undefined : (topic) => this.#askAssignment(pop, topic);
  }

  initialOffset(queue: MessageQueue): Promise<number> {
    this.#offsets.remove(queue);
    return initialOffset(this.#client, this.#offsets, queue, this.#from, this.#timestamp);
  }

  get lockQueue(): ((queue: MessageQueue) => Promise<boolean>) | undefined {
    const orderly = this.#orderly;
    return orderly !== undefined && this.messageModel === 'CLUSTERING' ? (queue) => orderly.lock(queue) : undefined;
  }

  async queueRemoved(taken: ProcessQueue): Promise<boolean> {
    if (this.#orderly !== undefined && !(await this.#releaseInOrder(this.#orderly, taken))) return false;
    // Without its lock, what an ordered consumer knows of a queue is not the newest.
    if (this.lockQueue === undefined || taken.locked) await this.#offsets.persist([taken.queue], true);
    this.#offsets.remove(taken.queue);
    await this.#orderly?.unlock([taken]);
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
    return this.#paused || (this.#orderly !== undefined && !taken.locked && this.messageModel === 'CLUSTERING');
  }

  subscription(topic: string): SubscriptionData | undefined {
    return this.#subscriptions.get(topic);
  }

  commitOffset(taken: ProcessQueue): number | undefined {
    const offset = this.messageModel === 'CLUSTERING' ? this.#offsets.peek(taken.queue) : undefined;
    return offset === undefined || offset <= 0 ? undefined : offset;
  }

  deliver(taken: ProcessQueue, messages: readonly ReceivedMessage[]): void {
    if (this.#consume !== undefined) this.#consume.submit(taken, messages);
    else this.#orderly!.submit(taken);
  }

  caughtUp(taken: ProcessQueue): void {
    this.#offsets.update(taken.queue, taken.nextOffset, true);
  }

  async moved(taken: ProcessQueue, offset: number): Promise<void> {
    await this.#moveTo(taken, offset);
    void this.#client.rebalanceNow();
  }

  async persistOffsets(confirm: boolean): Promise<void> {
    await this.#offsets.persist(this.#pulled(), confirm);
  }

  async resetOffsets(topic: string, offsets: Array<[MessageQueue, number]>): Promise<void> {
    await Promise.all(
      offsets.map(async ([queue, offset]) => {
        const taken = queue.topic === topic ? this.#rebalancer.get(queue) : undefined;
        if (taken !== undefined && !taken.dropped) await this.#moveTo(taken, offset);
      }),
    );
    await this.#client.rebalanceNow();
  }

  offsets(topic: string): Array<[MessageQueue, number]> {
    return this.#offsets.entries(topic);
  }

  runningInfo(): object {
    return consumerRunningInfo({
      client: this.#client,
      consumeType: 'CONSUME_PASSIVELY',
      concurrency: this.#concurrency,
      orderly: this.#orderly !== undefined,
      startedAt: this.#startedAt,
      subscriptions: this.#subscriptions.list(),
      queues: this.#rebalancer.queues(),
      popQueues: this.#pop?.queues() ?? [],
      committed: (queue) => this.#offsets.peek(queue) ?? -1,
      consumed: new Map([...(this.#pop?.counts ?? []), ...(this.#consume ?? this.#orderly!).counts]),
    });
  }

  async consumeDirectly(stored: StoredMessage, brokerName: string): Promise<object> {
    const queue = { topic: stored.topic, brokerName, queueId: stored.queueId };
    const topic = originalTopic(stored, this.group);
    const message = new ReceivedMessage(stored, topic === undefined ? { queue } : { queue, topic });
    const begin = this.#clock.monotonic();
    let consumeResult = 'CR_RETURN_NULL';
    let remark: string | undefined;
    try {
      const service: { consumeDirectly: ConsumeService['consumeDirectly'] | OrderlyService['consumeDirectly'] } =
        this.#consume ?? this.#orderly!;
      const status: ConsumeStatus | OrderlyStatus | undefined = await service.consumeDirectly([message], queue);
      if (status === 'CONSUME_SUCCESS' || status === 'SUCCESS') consumeResult = 'CR_SUCCESS';
      else if (status === 'RECONSUME_LATER' || status === 'SUSPEND_CURRENT_QUEUE_A_MOMENT') consumeResult = 'CR_LATER';
    } catch (error) {
      consumeResult = 'CR_THROW_EXCEPTION';
      remark = errorText(error);
    }
    const spentTimeMills = Math.round(this.#clock.monotonic() - begin);
    return { autoCommit: true, consumeResult, order: this.#orderly !== undefined, remark, spentTimeMills };
  }

  #pulled(): MessageQueue[] {
    return this.#rebalancer.queues().map((taken) => taken.queue);
  }

  /** Pops from what the broker wants popped, and answers what is to be pulled. RocketMQ: RebalanceImpl#updateMessageQueueAssignment. */
  async #askAssignment(pop: PopService, topic: string): Promise<readonly MessageQueue[] | undefined> {
    const assigned = await queryAssignment(this.#client, topic, this.group, this.messageModel);
    if (assigned === undefined || !this.isRunning()) return undefined;
    const popped = assigned.filter(({ mode }) => mode === 'POP').map(({ queue }) => queue);
    const pulled = assigned.filter(({ mode }) => mode === 'PULL').map(({ queue }) => queue);
    pop.assign(topic, popped);
    if (assigned.length > 0 && !isRetryTopic(topic)) this.#readPopRetryTopic(topic, popped.length === 0);
    return pulled;
  }

  /** What was popped and has failed before a group went over to pulling lies in a topic of its own, which pops read by themselves. */
  #readPopRetryTopic(topic: string, wanted: boolean): void {
    const retry = popRetryTopicV1(topic, this.group);
    if (!wanted) this.#subscriptions.delete(retry);
    else if (!this.#subscriptions.topics().includes(retry)) {
      this.#subscriptions.set(retry, '*');
      void this.#subscriptionChanged();
    }
  }

  #newOrderly(options: PushConsumerOptions, listener: OrderlyListener, times: number): OrderlyService {
    const maxReconsumeTimes = times < 0 ? ENDLESS_RECONSUME_TIMES : times;
    const sendBack = new SendBack(this.#client, this.group, maxReconsumeTimes);
    return new OrderlyService({
      listener,
      concurrency: this.#concurrency,
      batchSize: options.consumeMessageBatchMaxSize ?? 1,
      suspendMs: options.suspendCurrentQueueTimeMillis ?? DEFAULT_SUSPEND_MS,
      maxReconsumeTimes,
      group: this.group,
      messageModel: this.messageModel,
      offsets: this.#offsets,
      locks: new QueueLocks(this.#client, this.group),
      queues: () => this.#rebalancer.queues(),
      lost: (taken) => void this.#rebalancer.drop(taken).then(() => this.#client.rebalanceNow()),
      sendBack: (message) => sendBack.sendCopy(message),
      trace: this.#trace,
      clock: this.#clock,
      logger: this.#client.logger,
    });
  }

  /**
   * Whether no listener has messages of a queue that is given away: only then may its lock go. The first time it is waited a moment.
   * RocketMQ: gives the lock up after 20 s in any case; here the broker's own time limit does, since it is not renewed any more.
   */
  async #releaseInOrder(orderly: OrderlyService, taken: ProcessQueue): Promise<boolean> {
    if (!taken.busy) return true;
    if (taken.tryUnlockTimes === 0) {
      if (taken.locked) await this.#offsets.persist([taken.queue], true);
      if (await this.#waiter.race(orderly.idle(taken), RELEASE_WAIT_MS)) return true;
    }
    taken.tryUnlockTimes++;
    void orderly.idle(taken).then(() => {
      if (this.isRunning()) void this.#client.rebalanceNow();
    });
    return false;
  }

  #announce(): Promise<void> {
    return this.#subscriptions.announce(() => this.#client.heartbeatAll());
  }

  /** Takes a topic in while running; nobody waits for it, so that a refusal is logged. */
  async #subscribed(topic: string): Promise<void> {
    const data = this.#subscriptions.get(topic);
    try {
      if (data !== undefined) await checkSubscription(this.#client, this.group, data);
    } catch (error) {
      this.#client.logger.error(`${topic} is not consumed: ${errorText(error)}`);
      this.#subscriptions.delete(topic);
    }
    await this.#subscriptionChanged();
  }

  async #subscriptionChanged(): Promise<void> {
    await Promise.all(this.#subscriptions.topics().map((topic) => this.#client.routes.refresh(topic)));
    await this.#announce();
    await this.#client.rebalanceNow();
  }

  /** Ends work on a queue and saves an offset, from which the next round starts it anew. Listeners that end late change nothing. */
  async #moveTo(taken: ProcessQueue, offset: number): Promise<void> {
    taken.dropped = true;
    taken.clear();
    this.#offsets.updateAndFreeze(taken.queue, offset);
    await this.#rebalancer.drop(taken);
  }
}
