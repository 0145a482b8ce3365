// A push consumer whose broker wants it to pop: a loop of pops for each assigned queue, a listener called with what they bring, and an
// acknowledgement for each message that is done. There are no offsets; what fails gets a later time to come again.
// RocketMQ: DefaultMQPushConsumerImpl#popMessage, ConsumeMessagePopConcurrentlyService, PopProcessQueue.

import { errorText } from '../common/index.ts';
import { ResponseCode } from '../remoting/index.ts';
import { isResponse } from './client-errors.ts';
import type { ClientInstance } from './client-instance.ts';
import { type ConsumeContext, type ConsumeStatus, type MessageListener, newContext } from './consume-service.ts';
import { type ConsumeCounts, ListenerCalls } from './listener-calls.ts';
import type { MessageTrace } from './message-trace.ts';
import type { ReceivedMessage } from './message-types.ts';
import { AT_ONCE_MS, AT_ONCE_PAUSE_MS, PopKernel, type PopResult } from './pop-kernel.ts';
import { type MessageQueue, queueKey, queueText } from './queues.ts';
import type { SubscriptionData } from './subscription.ts';
import type { Waiter } from './waiter.ts';

/** How a push consumer pops. */
export interface PopLimits {
  /** Ms that a popped message stays out of sight of the group, 5000 to 300000. Default 60000. */
  popInvisibleTime?: number;
  /** Most messages of one pop, 1 to 32. Default 32. */
  popBatchNums?: number;
  /** A queue is not popped from while more of its messages than this wait for their listener to end. Default 96. */
  popThresholdForQueue?: number;
}

/** What the service needs. */
export interface PopServiceOptions extends PopLimits {
  listener: MessageListener;
  /** Listener calls at once. */
  concurrency: number;
  /** Most messages of one call. */
  batchSize: number;
  group: string;
  initMode: 0 | 1;
  maxReconsumeTimes: number;
  trace: MessageTrace | undefined;
  waiter: Waiter;
  isRunning: () => boolean;
  isPaused: () => boolean;
  subscription: (topic: string) => SubscriptionData | undefined;
  /** Puts a message into the dead letter topic. */
  giveUp: (message: ReceivedMessage) => Promise<void>;
}

/** RocketMQ: BROKER_SUSPEND_MAX_TIME_MILLIS. */
const POLL_MS = 15_000;
const RETRY_MS = 1000;
const FLOW_CONTROL_MS = 50;
const BROKER_FLOW_CONTROL_MS = 20;
/** Seconds until a message that failed comes again, by the number of tries. RocketMQ: DefaultMQPushConsumerImpl.popDelayLevel. */
const RETRY_SECONDS = [10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200];

/** One queue to pop from. RocketMQ: PopProcessQueue. */
export interface PopQueue {
  readonly queue: MessageQueue;
  dropped: boolean;
  /** Messages whose listener has not ended. */
  waiting: number;
  /** Monotonic time. */
  lastPopAt: number;
}

interface Task {
  from: PopQueue;
  messages: ReceivedMessage[];
  /** Monotonic time after which the messages may be with somebody else. */
  expiresAt: number;
}

/** Pops for one push consumer. */
export class PopService {
  readonly #client: ClientInstance;
  readonly #options: PopServiceOptions;
  readonly #invisibleMs: number;
  readonly #kernel: PopKernel;
  readonly #calls: ListenerCalls<ConsumeContext, ConsumeStatus>;
  readonly #queues = new Map<string, PopQueue>();
  #tasks: Task[] = [];
  #running = 0;
  #stopped = false;
  #idle: Array<() => void> = [];
  /** Done, and not acknowledged yet: those of one turn go together. */
  #done: ReceivedMessage[] = [];
  readonly #requests = new Set<Promise<void>>();

  constructor(client: ClientInstance, options: PopServiceOptions) {
    this.#client = client;
    this.#options = options;
    this.#invisibleMs = options.popInvisibleTime ?? 60_000;
    this.#kernel = new PopKernel(client, options.group);
    this.#calls = new ListenerCalls({
      ...options,
      success: 'CONSUME_SUCCESS',
      failure: 'RECONSUME_LATER',
      timeoutMs: this.#invisibleMs,
      clock: client.clock,
      logger: client.logger,
    });
  }

  /** Messages consumed with success and failed, by topic. */
  get counts(): ReadonlyMap<string, ConsumeCounts> {
    return this.#calls.counts;
  }

  /** The queues that are popped from. */
  queues(): PopQueue[] {
    return [...this.#queues.values()];
  }

  /** Pops from these queues of a topic and no others. */
  assign(topic: string, queues: readonly MessageQueue[]): void {
    const wanted = new Map(queues.map((queue) => [queueKey(queue), queue]));
    for (const [key, from] of this.#queues) if (from.queue.topic === topic && !wanted.has(key)) this.#drop(key, from);
    for (const [key, queue] of wanted) {
      if (this.#queues.has(key)) continue;
      const from = { queue, dropped: false, waiting: 0, lastPopAt: this.#client.clock.monotonic() };
      this.#queues.set(key, from);
      this.#client.logger.info(`${this.#options.group} pops from ${queueText(queue)}`);
      void this.#loop(from);
    }
  }

  /** Pops from no topics but these. */
  retain(topics: ReadonlySet<string>): void {
    for (const [key, from] of this.#queues) if (!topics.has(from.queue.topic)) this.#drop(key, from);
  }

  /** No listener call begins any more; resolves when those that run have ended and what they did is acknowledged. */
  async stop(): Promise<void> {
    this.#stopped = true;
    this.#tasks = [];
    for (const [key, from] of this.#queues) this.#drop(key, from);
    if (this.#running > 0) await new Promise<void>((resolve) => this.#idle.push(resolve));
    for (;;) {
      this.#flush();
      if (this.#requests.size === 0) return;
      await Promise.all(this.#requests);
    }
  }

  #drop(key: string, from: PopQueue): void {
    from.dropped = true;
    this.#queues.delete(key);
  }

  async #loop(from: PopQueue): Promise<void> {
    const { isRunning, isPaused, waiter, popThresholdForQueue = 96 } = this.#options;
    while (isRunning() && !from.dropped) {
      from.lastPopAt = this.#client.clock.monotonic();
      if (isPaused()) await waiter.sleep(RETRY_MS);
      else if (from.waiting > popThresholdForQueue) await waiter.sleep(FLOW_CONTROL_MS);
      else await this.#turn(from);
    }
  }

  async #turn(from: PopQueue): Promise<void> {
    const { group, initMode, waiter, isRunning, subscription, popBatchNums = 32 } = this.#options;
    const wanted = subscription(from.queue.topic);
    if (wanted === undefined) return waiter.sleep(RETRY_MS);
    const { clock } = this.#client;
    const began = clock.monotonic();
    let result: PopResult;
    try {
      result = await this.#kernel.pop({
        group,
        queue: from.queue,
        subscription: wanted,
        maxMessages: popBatchNums,
        invisibleMs: this.#invisibleMs,
        pollMs: POLL_MS,
        initMode,
        inOrder: false,
      });
    } catch (error) {
      if (!isRunning() || from.dropped) return;
      if (isResponse(error, ResponseCode.FLOW_CONTROL)) return waiter.sleep(BROKER_FLOW_CONTROL_MS);
      const text = `${group}: ${errorText(error)}`;
      this.#client.repeated.warn(text, text);
      return waiter.sleep(RETRY_MS);
    }
    if (result.unwanted.length > 0) this.#ack(result.unwanted);
    if (result.messages.length > 0) this.#submit(from, result.messages);
    else if (result.status === 'POLLING_FULL') await waiter.sleep(RETRY_MS);
    else if (result.status === 'NOTHING' && clock.monotonic() - began < AT_ONCE_MS)
      await waiter.sleep(AT_ONCE_PAUSE_MS);
  }

  /** Takes messages in hand, even of a queue that is another member's by now: until they expire nobody else gets them. */
  #submit(from: PopQueue, messages: readonly ReceivedMessage[]): void {
    if (this.#stopped) return;
    const { batchSize, maxReconsumeTimes } = this.#options;
    // RocketMQ: acknowledges those that were tried too often. Here they go to the dead letter topic, as pulled ones do.
    const fresh = messages.filter((message) => message.reconsumeTimes <= maxReconsumeTimes);
    if (fresh.length < messages.length) {
      for (const message of messages) if (message.reconsumeTimes > maxReconsumeTimes) this.#giveUp(message);
    }
    const expiresAt = this.#client.clock.monotonic() + this.#invisibleMs;
    from.waiting += fresh.length;
    for (let at = 0; at < fresh.length; at += batchSize) {
      this.#tasks.push({ from, messages: fresh.slice(at, at + batchSize), expiresAt });
    }
    this.#pump();
  }

  #pump(): void {
    let next = 0;
    while (!this.#stopped && this.#running < this.#options.concurrency && next < this.#tasks.length) {
      const task = this.#tasks[next++]!;
      this.#running++;
      void this.#run(task).finally(() => {
        task.from.waiting -= task.messages.length;
        this.#running--;
        this.#pump();
        if (this.#running === 0) for (const resolve of this.#idle.splice(0)) resolve();
      });
    }
    if (next > 0) this.#tasks.splice(0, next);
  }

  async #run({ from, messages, expiresAt }: Task): Promise<void> {
    if (this.#expired(messages, expiresAt, 'before its listener was called')) return;
    const context = newContext(from.queue);
    const ok = await this.#calls.call(messages, context);
    if (this.#expired(messages, expiresAt, 'before its listener had ended')) return;
    const ackIndex = ok ? context.ackIndex : -1;
    const done = messages.slice(0, Math.min(Math.max(ackIndex, -1), messages.length - 1) + 1);
    const failed = messages.slice(done.length);
    this.#calls.count(from.queue.topic, done.length, failed.length);
    if (done.length > 0) this.#ack(done);
    for (const message of failed) this.#later(message, context.delayLevelWhenNextConsume);
  }

  #expired(messages: readonly ReceivedMessage[], expiresAt: number, when: string): boolean {
    if (this.#client.clock.monotonic() < expiresAt) return false;
    const { group } = this.#options;
    this.#client.logger.warn(
      `${group}: message ${messages[0]!.msgId} was not done within ${this.#invisibleMs} ms, ${when}; it comes again`,
    );
    return true;
  }

  #later(message: ReceivedMessage, delayLevel: number): void {
    const { maxReconsumeTimes } = this.#options;
    if (delayLevel < 0 || message.reconsumeTimes >= maxReconsumeTimes) return this.#giveUp(message);
    const level = Math.min(delayLevel === 0 ? message.reconsumeTimes : delayLevel, RETRY_SECONDS.length - 1);
    const change = this.#kernel.changeInvisibleTime(message, RETRY_SECONDS[level]! * 1000);
    this.#track(change, `message ${message.msgId}, which failed, keeps its time to come again`);
  }

  #giveUp(message: ReceivedMessage): void {
    const given = this.#options.giveUp(message).then(() => this.#ack([message]));
    this.#track(given, `message ${message.msgId} could not be put into the dead letter topic and comes again`);
  }

  #ack(messages: readonly ReceivedMessage[]): void {
    if (this.#done.length === 0) this.#client.clock.soon(() => this.#flush());
    this.#done.push(...messages);
  }

  #flush(): void {
    if (this.#done.length === 0) return;
    const done = this.#done;
    this.#done = [];
    this.#track(this.#kernel.ackAll(done), `${done.length} messages could not be acknowledged and come again`);
  }

  #track(request: Promise<void>, failure: string): void {
    const settled = request
      .catch((error) => this.#client.logger.warn(`${this.#options.group}: ${failure}: ${errorText(error)}`))
      .finally(() => this.#requests.delete(settled));
    this.#requests.add(settled);
  }
}
