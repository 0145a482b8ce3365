// Hands the messages of each queue to the listener one call after the other, in the order of their offsets, and only while the queue's
// lock at its broker is ours. A failed message holds its queue up until it succeeds or its tries are used up.
// RocketMQ: ConsumeMessageOrderlyService, with running calls instead of threads.
//
//   lock: taken with the queue -> renewed every 20 s -> stale after 30 s without an answer: no call begins until it is renewed
//   a broker forgets a lock after 60 s; somebody else may have gone on then, and the queue is taken anew, from the saved offset

import { type Clock, errorText, type Logger, type Timer } from '../common/index.ts';
import type { MessageModel } from './heartbeat.ts';
import { type ConsumeCounts, ListenerCalls } from './listener-calls.ts';
import type { MessageTrace } from './message-trace.ts';
import type { ReceivedMessage } from './message-types.ts';
import type { OffsetStore } from './offset-store.ts';
import type { ProcessQueue } from './process-queue.ts';
import { byBroker, type QueueLocks } from './queue-locks.ts';
import { type MessageQueue, queueKey, queueText } from './queues.ts';

/** What an ordered listener says about the messages it was given. */
export type OrderlyStatus = 'SUCCESS' | 'SUSPEND_CURRENT_QUEUE_A_MOMENT';

/** What an ordered listener may know and decide beside its answer. */
export interface OrderlyContext {
  readonly queue: MessageQueue;
  /** Ms until the next try after SUSPEND_CURRENT_QUEUE_A_MOMENT, 10 to 30000; -1 (default): the consumer's suspendCurrentQueueTimeMillis. */
  suspendCurrentQueueTimeMillis: number;
}

/** Consumes messages of one queue, in order. A rejection counts as SUSPEND_CURRENT_QUEUE_A_MOMENT. */
export type OrderlyListener = (messages: readonly ReceivedMessage[], context: OrderlyContext) => Promise<OrderlyStatus>;

/** RocketMQ: REBALANCE_LOCK_INTERVAL, and the delay of its first round. */
export const LOCK_INTERVAL_MS = 20_000;
const FIRST_LOCK_MS = 1000;
/** RocketMQ: REBALANCE_LOCK_MAX_LIVE_TIME. */
export const LOCK_LIVE_MS = 30_000;
/** RocketMQ: RebalanceLockManager's, in the broker. */
const BROKER_LOCK_MS = 60_000;
const RELOCK_MS = 10;
const RELOCK_FAILED_MS = 3000;
const MIN_SUSPEND_MS = 10;
const MAX_SUSPEND_MS = 30_000;

/** What the service needs. */
export interface OrderlyServiceOptions {
  listener: OrderlyListener;
  /** Queues that are worked on at once. */
  concurrency: number;
  /** Most messages of one call. */
  batchSize: number;
  suspendMs: number;
  /** Tries before a message is sent back, which puts it into the dead letter topic. */
  maxReconsumeTimes: number;
  group: string;
  messageModel: MessageModel;
  offsets: OffsetStore;
  locks: QueueLocks;
  /** The queues in work. */
  queues: () => Iterable<ProcessQueue>;
  /** Somebody else may have consumed from this queue: it must be taken anew, and nothing of it saved. */
  lost: (taken: ProcessQueue) => void;
  sendBack: (message: ReceivedMessage) => Promise<void>;
  trace: MessageTrace | undefined;
  clock: Clock;
  logger: Logger;
}

/** Runs the ordered listener of one consumer. */
export class OrderlyService {
  readonly #options: OrderlyServiceOptions;
  readonly #calls: ListenerCalls<OrderlyContext, OrderlyStatus>;
  readonly #clock: Clock;
  readonly #needsLock: boolean;
  /** Queues whose turn will come. */
  readonly #waiting: ProcessQueue[] = [];
  #running = 0;
  #stopped = false;
  #timers: Timer[] = [];
  readonly #idle: Array<() => void> = [];

  constructor(options: OrderlyServiceOptions) {
    this.#options = options;
    this.#calls = new ListenerCalls({
      ...options,
      success: 'SUCCESS',
      failure: 'SUSPEND_CURRENT_QUEUE_A_MOMENT',
      timeoutMs: Number.POSITIVE_INFINITY,
    });
    this.#clock = options.clock;
    this.#needsLock = options.messageModel === 'CLUSTERING';
  }

  /** Messages consumed with success and failed, by topic. */
  get counts(): ReadonlyMap<string, ConsumeCounts> {
    return this.#calls.counts;
  }

  /** Begins to renew locks. */
  start(): void {
    if (!this.#needsLock) return;
    const first = this.#clock.after(FIRST_LOCK_MS, () => {
      void this.renewLocks();
      this.#timers.push(this.#clock.every(LOCK_INTERVAL_MS, () => void this.renewLocks()));
    });
    this.#timers.push(first);
  }

  /** No listener call begins any more; resolves when those that run have ended. */
  stop(): Promise<void> {
    this.#stopped = true;
    for (const timer of this.#timers.splice(0)) timer.cancel();
    this.#waiting.length = 0;
    if (this.#running === 0) return Promise.resolve();
    return new Promise((resolve) => this.#idle.push(resolve));
  }

  /** Messages of a queue have come; they must be in it already. */
  submit(taken: ProcessQueue): void {
    if (taken.scheduled || this.#stopped) return;
    taken.scheduled = true;
    this.#waiting.push(taken);
    this.#pump();
  }

  /** Calls the listener with messages outside of any queue (request 309). Rejects with what it throws. */
  async consumeDirectly(messages: ReceivedMessage[], queue: MessageQueue): Promise<OrderlyStatus | undefined> {
    return await this.#options.listener(messages, newContext(queue));
  }

  /** Locks a queue that is about to be taken. A rejection or false: not now. */
  async lock(queue: MessageQueue): Promise<boolean> {
    if (this.#stopped) return false;
    const { locks } = this.#options;
    const mine = (await locks.lock([queue])).has(queueKey(queue));
    if (!mine || !this.#stopped) return mine;
    await locks.unlock([queue]).catch(() => {});
    return false;
  }

  /** Renews the locks of all queues in work, with one request to each broker. */
  async renewLocks(): Promise<void> {
    const rounds = Array.from(byBroker(this.#options.queues(), this.#options.locks.brokerOf).values(), (list) =>
      this.#renew(list),
    );
    await Promise.all(rounds);
  }

  /** Resolves when no listener has messages of the queue. */
  idle(taken: ProcessQueue): Promise<void> {
    if (!taken.busy) return Promise.resolve();
    return new Promise((resolve) => {
      taken.whenIdle = resolve;
    });
  }

  /** Gives up the locks of queues on which no listener works; failures are logged, and the broker's time limit frees those. */
  async unlock(queues: Iterable<ProcessQueue>): Promise<void> {
    if (!this.#needsLock) return;
    const held = [...queues].filter((taken) => taken.locked && !taken.busy);
    for (const taken of held) taken.locked = false;
    await Promise.all(
      Array.from(byBroker(held, this.#options.locks.brokerOf).values(), async (list) => {
        try {
          await this.#options.locks.unlock(list.map((taken) => taken.queue));
        } catch (error) {
          this.#options.logger.warn(`${this.#options.group}: ${errorText(error)}`);
        }
      }),
    );
  }

  /** Locks again what was locked; false if no broker said yes. */
  async #renew(list: readonly ProcessQueue[]): Promise<boolean> {
    let ours: Set<string>;
    try {
      ours = await this.#options.locks.lock(list.map((taken) => taken.queue));
    } catch (error) {
      if (!this.#stopped) this.#options.logger.warn(`${this.#options.group}: ${errorText(error)}`);
      return false;
    }
    const now = this.#clock.monotonic();
    let held = false;
    for (const taken of list) {
      if (taken.dropped) continue;
      const mine = ours.has(queueKey(taken.queue));
      // RocketMQ: goes on with what is in hand when it has the lock again, which whoever had it meanwhile may have consumed.
      if (!mine || now - taken.lastLockAt > BROKER_LOCK_MS) {
        taken.locked = false;
        this.#options.logger.warn(`${this.#options.group}: the lock of ${queueText(taken.queue)} was lost`);
        this.#options.lost(taken);
        continue;
      }
      taken.locked = true;
      taken.lastLockAt = now;
      held = true;
    }
    return held;
  }

  #mayConsume(taken: ProcessQueue): boolean {
    if (!this.#needsLock) return true;
    return taken.locked && this.#clock.monotonic() - taken.lastLockAt <= LOCK_LIVE_MS;
  }

  #pump(): void {
    while (!this.#stopped && this.#running < this.#options.concurrency) {
      const taken = this.#waiting.shift();
      if (taken === undefined) return;
      if (taken.dropped || taken.count === 0) {
        taken.scheduled = false;
        continue;
      }
      if (!this.#mayConsume(taken)) {
        this.#later(RELOCK_MS, () => void this.#relock(taken));
        continue;
      }
      this.#running++;
      taken.busy = true;
      void this.#run(taken).then((waitMs) => {
        this.#running--;
        taken.busy = false;
        taken.whenIdle?.();
        taken.whenIdle = undefined;
        this.#again(taken, waitMs);
        if (this.#running === 0) for (const resolve of this.#idle.splice(0)) resolve();
      });
    }
  }

  /** The queue's next turn: behind the others, or after a while. */
  #again(taken: ProcessQueue, waitMs: number): void {
    if (this.#stopped) return;
    if (waitMs > 0) {
      this.#later(waitMs, () => this.#enqueue(taken));
      this.#pump();
    } else this.#enqueue(taken);
  }

  #enqueue(taken: ProcessQueue): void {
    this.#waiting.push(taken);
    this.#pump();
  }

  #later(ms: number, run: () => void): void {
    const timer = this.#clock.after(ms, () => {
      this.#timers.splice(this.#timers.indexOf(timer), 1);
      run();
    });
    this.#timers.push(timer);
  }

  async #relock(taken: ProcessQueue): Promise<void> {
    const held = !taken.dropped && (await this.#renew([taken]));
    if (!this.#stopped) this.#later(held ? RELOCK_MS : RELOCK_FAILED_MS, () => this.#enqueue(taken));
  }

  /** One listener call; answers the ms until the queue's next turn. */
  async #run(taken: ProcessQueue): Promise<number> {
    const context = newContext(taken.queue);
    const messages = taken.first(this.#options.batchSize);
    taken.lastConsumeAt = this.#clock.now();
    const ok = await this.#calls.call(messages, context);
    this.#calls.count(taken.queue.topic, ok ? messages.length : 0, ok ? 0 : messages.length);
    const done = ok ? messages : await this.#sendBackExhausted(messages);
    if (done.length > 0) this.#commit(taken, taken.remove(done));
    return done.length === messages.length ? 0 : this.#suspendMs(context);
  }

  /** Sends back the messages whose tries are used up, and answers them; the others count a failed try. */
  async #sendBackExhausted(messages: readonly ReceivedMessage[]): Promise<ReceivedMessage[]> {
    const { maxReconsumeTimes, sendBack, logger, group } = this.#options;
    const gone: ReceivedMessage[] = [];
    for (const message of messages) {
      if (message.reconsumeTimes >= maxReconsumeTimes) {
        try {
          await sendBack(message);
          gone.push(message);
          continue;
        } catch (error) {
          logger.error(`${group}: message ${message.msgId} could not be sent back, it stays: ${errorText(error)}`);
        }
      }
      message.countRetryHere();
    }
    return gone;
  }

  /** RocketMQ: lets a result go when the queue was given away meanwhile. Here it counts for as long as the lock is ours: nobody has gone on. */
  #commit(taken: ProcessQueue, offset: number): void {
    if (offset < 0 || (taken.dropped && !taken.locked)) return;
    this.#options.offsets.update(taken.queue, offset, false);
  }

  #suspendMs(context: OrderlyContext): number {
    const { suspendCurrentQueueTimeMillis: own } = context;
    const ms = Number.isFinite(own) && own !== -1 ? own : this.#options.suspendMs;
    return Math.min(Math.max(ms, MIN_SUSPEND_MS), MAX_SUSPEND_MS);
  }
}

function newContext(queue: MessageQueue): OrderlyContext {
  return { queue, suspendCurrentQueueTimeMillis: -1 };
}
