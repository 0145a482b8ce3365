// A consumer that takes messages when it wants some and acknowledges each when it is done with it, in any order and from any member of its
// group: there are no queues to share out and no offsets to keep. What is not acknowledged in time comes again. RocketMQ 5: SimpleConsumer,
// here over pops of the remoting protocol.

import { type Clock, errorText, GantryError } from '../common/index.ts';
import { MAX_POP_MESSAGES, type StoredMessage } from '../message/index.ts';
import { checkSubscription } from './check-subscription.ts';
import { BrokerError } from './client-errors.ts';
import { ClientInstance } from './client-instance.ts';
import type { ClientOptions } from './client-options.ts';
import { consumerRunningInfo } from './consumer-running-info.ts';
import type { GroupConsumer } from './group-consumer.ts';
import type { ConsumerData } from './heartbeat.ts';
import type { ReceivedMessage } from './message-types.ts';
import { ANY_QUEUE, AT_ONCE_MS, AT_ONCE_PAUSE_MS, PopKernel, type PopResult } from './pop-kernel.ts';
import type { MessageQueue } from './queues.ts';
import { type MessageSelector, parseSubscription } from './subscription.ts';
import { Subscriptions } from './subscriptions.ts';
import { checkGroup } from './validators.ts';
import { Waiter } from './waiter.ts';

/** Settings of a SimpleConsumer. */
export interface SimpleConsumerOptions extends ClientOptions {
  /** The consumer group: each message goes to one of its members. */
  group: string;
  /** Ms that `receive` waits for the first message. Default 15000. */
  awaitDurationMs?: number;
  /** Ms that a received message stays out of sight of the group, unless `receive` says otherwise. Default 60000. */
  invisibleDurationMs?: number;
  /** Where the group begins in a queue that it has never read. Default CONSUME_FROM_LAST_OFFSET: behind its last message. */
  consumeFromWhere?: 'CONSUME_FROM_LAST_OFFSET' | 'CONSUME_FROM_FIRST_OFFSET';
  /**
   * Messages of a queue in their order: nothing more of a queue is received until what was received of it is acknowledged or has come
   * back. All members of a group should say the same. Default false.
   */
  fifo?: boolean;
  /** A shared instance; then all ClientOptions here are ignored. */
  client?: ClientInstance;
}

const DEFAULT_AWAIT_MS = 15_000;
const DEFAULT_INVISIBLE_MS = 60_000;
const DEFAULT_MESSAGES = 16;
/** With several topics or brokers: how long one of them is waited at before it is the next one's turn. */
const TURN_MS = 1000;
const RETRY_MS = 1000;

/**
 * Receives messages on demand and acknowledges them one by one.
 *
 * @example
 * const consumer = new SimpleConsumer({ namesrvAddr: '127.0.0.1:9876', group: 'GID_mails' });
 * await consumer.start();
 * await consumer.subscribe('mails', 'welcome || invoice');
 * for (const message of await consumer.receive(16, 30_000)) {
 *   console.log(message.text());
 *   await consumer.ack(message);
 * }
 * await consumer.close();
 */
export class SimpleConsumer {
  readonly group: string;
  readonly #client: ClientInstance;
  readonly #clock: Clock;
  readonly #kernel: PopKernel;
  readonly #subscriptions: Subscriptions;
  readonly #waiter: Waiter;
  readonly #awaitMs: number;
  readonly #invisibleMs: number;
  readonly #initMode: 0 | 1;
  readonly #fifo: boolean;
  readonly #consumed = new Map<string, { ok: number; failed: number }>();
  #turn = 0;
  #state: 'created' | 'running' | 'closed' = 'created';
  #startedAt = 0;
  #closing: Promise<void> | undefined;

  /** @throws GantryError CONFIG_VALUE */
  constructor(options: SimpleConsumerOptions) {
    checkGroup(options.group);
    this.group = options.group;
    this.#awaitMs = duration('awaitDurationMs', options.awaitDurationMs ?? DEFAULT_AWAIT_MS, 0);
    this.#invisibleMs = duration('invisibleDurationMs', options.invisibleDurationMs ?? DEFAULT_INVISIBLE_MS, 1);
    this.#initMode = options.consumeFromWhere === 'CONSUME_FROM_FIRST_OFFSET' ? 0 : 1;
    this.#fifo = options.fifo ?? false;
    this.#client = options.client ?? new ClientInstance(options);
    this.#clock = this.#client.clock;
    this.#kernel = new PopKernel(this.#client, this.group);
    this.#subscriptions = new Subscriptions(this.#clock);
    this.#waiter = new Waiter(this.#clock);
  }

  /** The instance behind this consumer: its `clientId` is what brokers list. */
  get client(): ClientInstance {
    return this.#client;
  }

  /** The topics that are subscribed to. */
  get topics(): string[] {
    return this.#subscriptions.topics();
  }

  /**
   * Starts the client. @throws GantryError CLIENT_STATE when started before, or when the instance has a consumer of this group already;
   * BrokerError when a broker refuses an SQL92 expression
   *
   * @example
   * await consumer.start();
   */
  async start(): Promise<void> {
    if (this.#state !== 'created') throw new GantryError('CLIENT_STATE', `the consumer is ${this.#state}`);
    this.#client.addConsumer(this.#asMember());
    this.#state = 'running';
    this.#startedAt = this.#clock.now();
    this.#client.acquire();
    try {
      for (const data of this.#subscriptions.list()) await checkSubscription(this.#client, this.group, data);
    } catch (error) {
      await this.close();
      throw error;
    }
    await this.#settle();
  }

  /**
   * Adds or replaces a topic; before the start or later. `expression` is `*` (default) or tags: `TagA || TagB`, or a MessageSelector,
   * which may be SQL92.
   * @throws GantryError CONFIG_VALUE, MESSAGE (illegal topic), CLIENT_STATE after `close`; BrokerError when a broker refuses an SQL92
   * expression
   *
   * @example
   * await consumer.subscribe('orders', MessageSelector.bySql("price > 100 AND region = 'eu'"));
   */
  async subscribe(topic: string, expression: string | MessageSelector = '*'): Promise<void> {
    if (this.#state === 'closed') throw new GantryError('CLIENT_STATE', 'the consumer is closed');
    if (this.#state === 'running') {
      await checkSubscription(this.#client, this.group, parseSubscription(topic, expression, 0));
    }
    this.#subscriptions.set(topic, expression);
    await this.#settle();
  }

  /**
   * Receives nothing more of a topic. What was received of it may still be acknowledged.
   *
   * @example
   * await consumer.unsubscribe('orders');
   */
  async unsubscribe(topic: string): Promise<void> {
    if (this.#subscriptions.delete(topic)) await this.#settle();
  }

  /**
   * Receives up to `maxMessages` messages of the topics in turn (1 to 32, which is what a broker hands out at once; default 16). They stay out
   * of sight of the group for `invisibleDurationMs` (default: the consumer's) and come again, to any member, unless they are
   * acknowledged by then. If there are none it waits for the first one, at most `awaitDurationMs` (default: the consumer's), and
   * answers an empty list when none came or the consumer is closed. Several calls may wait at once. With several topics or brokers one that
   * cannot be reached is passed over as long as another answers.
   * @throws GantryError CLIENT_STATE (not running, or no topic), CONFIG_VALUE, NO_ROUTE, REMOTING_...; BrokerError
   *
   * @example
   * const messages = await consumer.receive(32, 30_000);
   */
  async receive(
    maxMessages: number = DEFAULT_MESSAGES,
    invisibleDurationMs: number = this.#invisibleMs,
    awaitDurationMs: number = this.#awaitMs,
  ): Promise<ReceivedMessage[]> {
    this.#checkRunning();
    if (!Number.isInteger(maxMessages) || maxMessages < 1 || maxMessages > MAX_POP_MESSAGES) {
      throw new GantryError('CONFIG_VALUE', `maxMessages is ${maxMessages}; it must be from 1 to ${MAX_POP_MESSAGES}`);
    }
    duration('invisibleDurationMs', invisibleDurationMs, 1);
    duration('awaitDurationMs', awaitDurationMs, 0);
    if (this.#subscriptions.topics().length === 0) {
      throw new GantryError('CLIENT_STATE', 'the consumer is subscribed to no topic');
    }
    const deadline = this.#clock.monotonic() + awaitDurationMs;
    for (let round = 0; ; round++) {
      const targets = await this.#targets(round > 0);
      if (this.#state !== 'running') return [];
      if (targets.length === 0 && round === 0 && awaitDurationMs === 0) throw this.#noRoute();
      const left = Math.max(0, deadline - this.#clock.monotonic());
      // With more than one place to look at, each is asked at once before any is waited at.
      const share = targets.length > 1 ? (round === 0 ? 0 : TURN_MS) : left;
      let away = 0;
      for (let i = 0; i < targets.length; i++) {
        const waitMs = Math.floor(Math.min(share, Math.max(0, deadline - this.#clock.monotonic())));
        const queue = targets[this.#turn++ % targets.length]!;
        const began = this.#clock.monotonic();
        let result: PopResult;
        try {
          result = await this.#pop(queue, maxMessages, invisibleDurationMs, waitMs);
        } catch (error) {
          // A broker that refuses says what is wrong; one that is away must not hide what the others have.
          if (error instanceof BrokerError || ++away === targets.length) throw error;
          const text = `${this.group}: ${errorText(error)}; it receives from the others meanwhile`;
          this.#client.repeated.warn(text, text);
          continue;
        }
        if (result.messages.length > 0) return result.messages;
        if (this.#state !== 'running') return [];
        const now = this.#clock.monotonic();
        const isAtOnce = waitMs > AT_ONCE_MS && now - began < AT_ONCE_MS;
        if (result.status === 'POLLING_FULL') await this.#waiter.sleep(Math.min(RETRY_MS, deadline - now));
        else if (isAtOnce) await this.#waiter.sleep(Math.min(AT_ONCE_PAUSE_MS, deadline - now));
      }
      if (this.#clock.monotonic() >= deadline) return [];
      if (targets.length === 0) {
        await this.#waiter.sleep(Math.min(RETRY_MS, left));
        if (this.#state !== 'running') return [];
        if (this.#clock.monotonic() >= deadline) throw this.#noRoute();
      }
    }
  }

  /**
   * Acknowledges a message: the group is done with it. One that is out of sight no longer is delivered again although the broker accepts this.
   * @throws BrokerError when the broker refuses (208: it has no such message), GantryError MESSAGE (it was not popped), CLIENT_STATE,
   * NO_ROUTE, REMOTING_...
   *
   * @example
   * await consumer.ack(message);
   */
  async ack(message: ReceivedMessage): Promise<void> {
    this.#checkRunning();
    await this.#kernel.ack(message);
    this.#count(message, 1);
  }

  /**
   * Acknowledges messages with one request for each broker that they came from. The broker does not say of a single one whether it knew it.
   * @throws as `ack`; then some of them may be acknowledged
   *
   * @example
   * const messages = await consumer.receive();
   * await consumer.ackAll(messages);
   */
  async ackAll(messages: Iterable<ReceivedMessage>): Promise<void> {
    this.#checkRunning();
    const list = [...messages];
    if (list.length === 0) return;
    await this.#kernel.ackAll(list);
    for (const message of list) this.#count(message, 1);
  }

  /**
   * Sets how long a message stays out of sight, counted from now: longer for work that takes its time, shorter to have it tried again
   * soon. The message gets a new receipt handle, with which it is acknowledged from then on; `visibleAt` follows. A message that comes again
   * after that has its `reconsumeTimes` one higher.
   * @throws as `ack`, CONFIG_VALUE
   *
   * @example
   * await consumer.changeInvisibleDuration(message, 120_000);
   */
  async changeInvisibleDuration(message: ReceivedMessage, invisibleDurationMs: number): Promise<void> {
    this.#checkRunning();
    duration('invisibleDurationMs', invisibleDurationMs, 1);
    await this.#kernel.changeInvisibleTime(message, invisibleDurationMs);
  }

  /**
   * Ends the client; calls of `receive` that wait answer an empty list. What was received and not acknowledged comes again. May be called
   * twice.
   *
   * @example
   * await consumer.close();
   */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    const wasRunning = this.#state === 'running';
    this.#state = 'closed';
    this.#waiter.wakeAll();
    if (!wasRunning) return;
    await this.#client.removeConsumer(this.group);
    await this.#client.release();
  }

  #checkRunning(): void {
    if (this.#state === 'running') return;
    throw new GantryError('CLIENT_STATE', `the consumer is ${this.#state === 'created' ? 'not started' : 'closed'}`);
  }

  #noRoute(): GantryError {
    return new GantryError('NO_ROUTE', `no route to ${this.#subscriptions.topics().join(', ')} is known`);
  }

  /** Where there may be messages: each topic at each of its brokers. Those without a route are asked for first. */
  async #targets(refresh: boolean): Promise<MessageQueue[]> {
    const targets: MessageQueue[] = [];
    for (const topic of this.#subscriptions.topics()) {
      const { routes } = this.#client;
      let queues = routes.subscribeQueues(topic);
      if (queues.length === 0 && refresh) {
        await routes.refreshIfOlder(topic, RETRY_MS);
        if (this.#state !== 'running') return [];
        queues = routes.subscribeQueues(topic);
      }
      const names = new Set(queues.map((queue) => queue.brokerName));
      for (const brokerName of names) targets.push({ topic, brokerName, queueId: ANY_QUEUE });
    }
    return targets;
  }

  async #pop(queue: MessageQueue, maxMessages: number, invisibleMs: number, pollMs: number): Promise<PopResult> {
    const nothing: PopResult = { status: 'NOTHING', messages: [], unwanted: [] };
    const subscription = this.#subscriptions.get(queue.topic);
    if (subscription === undefined) return nothing;
    let result: PopResult;
    try {
      const popped = this.#kernel.pop({
        group: this.group,
        queue,
        subscription,
        maxMessages,
        invisibleMs,
        pollMs,
        initMode: this.#initMode,
        inOrder: this.#fifo,
      });
      const answer = await this.#waiter.orWoken(popped);
      if (answer === undefined) return nothing;
      result = answer;
    } catch (error) {
      if (this.#state === 'closed') return nothing;
      throw error;
    }
    const { unwanted } = result;
    if (unwanted.length > 0) {
      this.#kernel.ackAll(unwanted).catch((error) => {
        this.#client.logger.warn(`${this.group}: ${unwanted.length} unwanted messages come again: ${errorText(error)}`);
      });
    }
    return result;
  }

  #count({ topic }: ReceivedMessage, ok: number): void {
    const counts = this.#consumed.get(topic);
    if (counts === undefined) this.#consumed.set(topic, { ok, failed: 0 });
    else counts.ok += ok;
  }

  /** Routes and heartbeats follow a change of what is read. */
  async #settle(): Promise<void> {
    if (this.#state !== 'running') return;
    await Promise.all(this.#subscriptions.topics().map((topic) => this.#client.routes.refresh(topic)));
    await this.#subscriptions.announce(() => this.#client.heartbeatAll());
  }

  /** The consumer as its instance sees it: there are no queues and no offsets. */
  #asMember(): GroupConsumer {
    const subscriptions = this.#subscriptions;
    return {
      group: this.group,
      topics: () => subscriptions.topics(),
      heartbeatData: (): ConsumerData => ({
        groupName: this.group,
        consumeType: 'CONSUME_ACTIVELY',
        messageModel: 'CLUSTERING',
        consumeFromWhere: this.#initMode === 0 ? 'CONSUME_FROM_FIRST_OFFSET' : 'CONSUME_FROM_LAST_OFFSET',
        unitMode: false,
        subscriptionDataSet: subscriptions.list(),
      }),
      rebalance: async () => true,
      persistOffsets: async () => {},
      resetOffsets: async () => {},
      offsets: () => [],
      runningInfo: () =>
        consumerRunningInfo({
          client: this.#client,
          consumeType: 'CONSUME_ACTIVELY',
          concurrency: 1,
          orderly: this.#fifo,
          startedAt: this.#startedAt,
          subscriptions: subscriptions.list(),
          queues: [],
          popQueues: [],
          committed: () => -1,
          consumed: this.#consumed,
        }),
      consumeDirectly: (_stored: StoredMessage, _brokerName: string) => undefined,
    };
  }
}

/** @throws GantryError CONFIG_VALUE */
function duration(name: string, value: number, least: number): number {
  if (Number.isInteger(value) && value >= least) return value;
  throw new GantryError(
    'CONFIG_VALUE',
    `${name} is ${value}; it must be a whole number of milliseconds, at least ${least}`,
  );
}
