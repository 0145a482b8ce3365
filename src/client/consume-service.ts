// Hands messages to the listener, a few at a time, and deals with what it says: done, or again later. RocketMQ:
// ConsumeMessageConcurrentlyService, with running calls instead of threads.

import { type Clock, errorText, type Logger } from '../common/index.ts';
import type { MessageModel } from './heartbeat.ts';
import { type ConsumeCounts, ListenerCalls } from './listener-calls.ts';
import type { MessageTrace } from './message-trace.ts';
import type { ReceivedMessage } from './message-types.ts';
import type { OffsetStore } from './offset-store.ts';
import type { ProcessQueue } from './process-queue.ts';
import type { MessageQueue } from './queues.ts';

/** What a listener says about the messages it was given. */
export type ConsumeStatus = 'CONSUME_SUCCESS' | 'RECONSUME_LATER';

/** What a listener may know and decide beside its answer. */
export interface ConsumeContext {
  /** Where the messages come from; when the broker has them popped its id is -1, and each message names its own. */
  readonly queue: MessageQueue;
  /** Delay before the next try of a failed message: 0 (default) lets the broker choose, -1 is the dead letter topic at once, else a delay level. */
  delayLevelWhenNextConsume: number;
  /** With CONSUME_SUCCESS: index of the last message that is done; those behind it are tried again. Default: all are done. */
  ackIndex: number;
}

/** Consumes messages. A rejection counts as RECONSUME_LATER. */
export type MessageListener = (messages: readonly ReceivedMessage[], context: ConsumeContext) => Promise<ConsumeStatus>;

/** When even sending back fails, the message is tried again here after this long. */
const RETRY_HERE_MS = 5000;
const MAX_EXPIRED_AT_ONCE = 16;
/** RocketMQ: what ProcessQueue#cleanExpiredMsg asks for; ten seconds with a broker's default levels. */
const EXPIRED_DELAY_LEVEL = 3;

/** What the service needs. */
export interface ConsumeServiceOptions {
  listener: MessageListener;
  /** Listener calls at once. */
  concurrency: number;
  /** Most messages of one call. */
  batchSize: number;
  /** Ms after which a message that a listener still has is given to another try. */
  consumeTimeoutMs: number;
  group: string;
  messageModel: MessageModel;
  offsets: OffsetStore;
  sendBack: (message: ReceivedMessage, delayLevel: number) => Promise<void>;
  trace: MessageTrace | undefined;
  clock: Clock;
  logger: Logger;
}

interface Task {
  taken: ProcessQueue;
  messages: ReceivedMessage[];
}

/** Runs the listener of one consumer. */
export class ConsumeService {
  readonly #options: ConsumeServiceOptions;
  readonly #calls: ListenerCalls<ConsumeContext, ConsumeStatus>;
  #waiting: Task[] = [];
  /** Tasks of `#waiting` before this one are taken. */
  #next = 0;
  #running = 0;
  #stopped = false;
  #idle: Array<() => void> = [];

  constructor(options: ConsumeServiceOptions) {
    this.#options = options;
    this.#calls = new ListenerCalls({
      ...options,
      success: 'CONSUME_SUCCESS',
      failure: 'RECONSUME_LATER',
      timeoutMs: options.consumeTimeoutMs,
    });
  }

  /** Messages consumed with success and failed, by topic. */
  get counts(): ReadonlyMap<string, ConsumeCounts> {
    return this.#calls.counts;
  }

  /** Takes messages of a queue in hand; they must be in it already. */
  submit(taken: ProcessQueue, messages: readonly ReceivedMessage[]): void {
    const size = this.#options.batchSize;
    for (let at = 0; at < messages.length; at += size) {
      this.#waiting.push({ taken, messages: messages.slice(at, at + size) });
    }
    this.#pump();
  }

  /** No listener call begins any more; resolves when those that run have ended. */
  stop(): Promise<void> {
    this.#stopped = true;
    this.#waiting = [];
    this.#next = 0;
    if (this.#running === 0) return Promise.resolve();
    return new Promise((resolve) => this.#idle.push(resolve));
  }

  /** Calls the listener with messages outside of any queue (request 309). Rejects with what it throws. */
  async consumeDirectly(messages: ReceivedMessage[], queue: MessageQueue): Promise<ConsumeStatus | undefined> {
    return await this.#options.listener(messages, newContext(queue));
  }

  /**
   * Gives up on listeners that have had a message for longer than the time-out, so that their queue moves on: in cluster mode the
   * message goes back to the broker for another try.
   */
  async sendBackExpired(queues: Iterable<ProcessQueue>): Promise<void> {
    const { clock, consumeTimeoutMs, offsets } = this.#options;
    const deadline = clock.now() - consumeTimeoutMs;
    for (const taken of queues) {
      const expired = taken.expired(deadline, MAX_EXPIRED_AT_ONCE);
      for (const message of expired) await this.#giveUp(taken, message);
      if (expired.length > 0 && !taken.dropped) await offsets.persist([taken.queue], false);
    }
  }

  async #giveUp(taken: ProcessQueue, message: ReceivedMessage): Promise<void> {
    const { group, logger, consumeTimeoutMs, messageModel } = this.#options;
    const what = `${group}: message ${message.msgId} was not consumed within ${consumeTimeoutMs} ms`;
    try {
      if (messageModel === 'CLUSTERING') await this.#options.sendBack(message, EXPIRED_DELAY_LEVEL);
      logger.warn(`${what} and ${messageModel === 'CLUSTERING' ? 'goes back to the broker' : 'is passed by'}`);
      if (taken.has(message)) this.#commit(taken, taken.remove([message]));
    } catch (error) {
      logger.error(`${what} and could not be sent back: ${errorText(error)}`);
    }
  }

  #pump(): void {
    while (!this.#stopped && this.#running < this.#options.concurrency && this.#next < this.#waiting.length) {
      const task = this.#waiting[this.#next++]!;
      if (this.#next >= 1024 || this.#next === this.#waiting.length) {
        this.#waiting = this.#waiting.slice(this.#next);
        this.#next = 0;
      }
      if (task.taken.dropped) continue;
      this.#running++;
      void this.#run(task).finally(() => {
        this.#running--;
        this.#pump();
        if (this.#running === 0) for (const resolve of this.#idle.splice(0)) resolve();
      });
    }
  }

  async #run({ taken, messages }: Task): Promise<void> {
    const context = newContext(taken.queue);
    const now = this.#options.clock.now();
    for (const message of messages) taken.started(message, now);
    const ok = await this.#calls.call(messages, context);
    // The queue went to another member meanwhile, which starts from the saved offset: the result here counts no more.
    if (taken.dropped) return;
    await this.#finish(taken, messages, ok ? context.ackIndex : -1, context);
  }

  async #finish(
    taken: ProcessQueue,
    messages: ReceivedMessage[],
    ackIndex: number,
    context: ConsumeContext,
  ): Promise<void> {
    const done = messages.slice(0, Math.min(Math.max(ackIndex, -1), messages.length - 1) + 1);
    const failed = messages.slice(done.length);
    this.#calls.count(taken.queue.topic, done.length, failed.length);
    const again = failed.length === 0 ? [] : await this.#handleFailed(taken, failed, context);
    const finished = again.length === 0 ? messages : messages.filter((message) => !again.includes(message));
    this.#commit(taken, taken.remove(finished));
    if (again.length === 0) return;
    this.#options.clock.after(RETRY_HERE_MS, () => {
      if (!this.#stopped && !taken.dropped) this.submit(taken, again);
    });
  }

  /** Sends failed messages back; answers those that have to be tried again here. */
  async #handleFailed(
    taken: ProcessQueue,
    failed: readonly ReceivedMessage[],
    context: ConsumeContext,
  ): Promise<ReceivedMessage[]> {
    const { messageModel, group, logger } = this.#options;
    const again: ReceivedMessage[] = [];
    for (const message of failed) {
      if (messageModel === 'BROADCASTING') {
        logger.warn(`${group}: message ${message.msgId} failed and is dropped: there is no retry in broadcast mode`);
        continue;
      }
      // It timed out and went back already.
      if (!taken.has(message)) continue;
      try {
        await this.#options.sendBack(message, context.delayLevelWhenNextConsume);
      } catch (error) {
        logger.error(
          `${group}: message ${message.msgId} could not be sent back, it is tried again here: ${errorText(error)}`,
        );
        message.countRetryHere();
        again.push(message);
      }
    }
    return again;
  }

  #commit(taken: ProcessQueue, offset: number): void {
    if (offset >= 0 && !taken.dropped) this.#options.offsets.update(taken.queue, offset, true);
  }
}

/** What a listener finds beside its messages. */
export function newContext(queue: MessageQueue): ConsumeContext {
  return { queue, delayLevelWhenNextConsume: 0, ackIndex: Number.MAX_SAFE_INTEGER };
}
