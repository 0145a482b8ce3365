// Transactions of one broker: what is open, when producers are asked, how far that has come, and what must not be removed from the log
// meanwhile. Nothing runs while nothing is open: the next round is a timer that a half message or an end starts, and the last round leaves none.
// RocketMQ: TransactionalMessageServiceImpl, TransactionalMessageCheckService.

import type { Timer } from '../../common/index.ts';
import { PropertyName, type StoredMessage } from '../../message/index.ts';
import { type MessageStore, PutMessageStatus, type Removal, type RetentionFloor } from '../../store/index.ts';
import type { BrokerConfig } from '../broker-config.ts';
import type { ProducerManager } from '../client/producer-manager.ts';
import type { ConfigEnvironment } from '../config-manager.ts';
import { putInternal } from '../internal-put.ts';
import type { ConsumerOffsetManager } from '../offset/consumer-offset-manager.ts';
import { Perm } from '../topic/topic-config.ts';
import type { TopicConfigManager } from '../topic/topic-config-manager.ts';
import { TRANS_CHECK_MAX_TIME_TOPIC, TRANS_HALF_TOPIC, TRANS_OP_HALF_TOPIC } from '../topic/topic-names.ts';
import { originOf, renewed, TRANS_GROUP } from './half-message.ts';
import { HalfQueue } from './half-queue.ts';
import { OpBatches } from './op-batches.ts';
import { PendingEnds } from './pending-ends.ts';
import { type CheckCounts, TransactionCheck } from './transaction-check.ts';
import { TransactionMetrics } from './transaction-metrics.ts';

/** Ms between two looks whether what a round wrote is on disk. */
const SAVE_LOOK_MS = 500;
/** Loop turns that a round waits for its records to be dispatched. */
const MOST_TURNS = 1000;

export interface TransactionParts {
  readonly config: BrokerConfig;
  readonly store: MessageStore;
  readonly offsets: ConsumerOffsetManager;
  readonly producers: ProducerManager;
  readonly topics: TopicConfigManager;
  readonly storeHost: Uint8Array;
  readonly brokerAddress: string;
}

interface Positions {
  readonly queueId: number;
  readonly half: number;
  readonly op: number;
}

export class TransactionService implements RetentionFloor {
  readonly name = 'open transactions';
  readonly metrics: TransactionMetrics;
  readonly ops: OpBatches;
  readonly pending: PendingEnds;
  readonly #environment: ConfigEnvironment;
  readonly #parts: TransactionParts;
  readonly #check: TransactionCheck;
  readonly #queues = new Map<number, HalfQueue>();
  #timer: Timer | undefined;
  #saveTimer: Timer | undefined;
  #round: Promise<void> | undefined;
  #running = false;
  /** Positions that count when the log is flushed to `end`. */
  #pending: { positions: readonly Positions[]; end: number } | undefined;

  constructor(environment: ConfigEnvironment, parts: TransactionParts) {
    const { clock, logger } = environment;
    const { config, store, storeHost, producers, topics } = parts;
    this.#environment = environment;
    this.#parts = parts;
    this.metrics = new TransactionMetrics(environment, config);
    this.ops = new OpBatches({ config, store, clock, logger, storeHost });
    this.pending = new PendingEnds({ store, clock, logger, transactions: this });
    this.#check = new TransactionCheck({
      config,
      store,
      clock,
      logger,
      storeHost,
      producers,
      metrics: this.metrics,
      ops: this.ops,
      createParkTopic: () => {
        topics.createInSendBack(TRANS_CHECK_MAX_TIME_TOPIC, 1, Perm.READ | Perm.WRITE, false, 0);
        // Once in a broker's life.
        if (topics.isUnsaved(TRANS_CHECK_MAX_TIME_TOPIC)) topics.persistIfChanged();
        return !topics.isUnsaved(TRANS_CHECK_MAX_TIME_TOPIC);
      },
      stopped: () => !this.#running,
    });
  }

  get counts(): Readonly<CheckCounts> {
    return this.#check.counts;
  }

  /** Whether a round has something to do, now or later. */
  get open(): boolean {
    const { store } = this.#parts;
    for (const queue of this.#queues.values()) {
      if (queue.open || queue.scanned < store.maxOffsetInQueue(TRANS_HALF_TOPIC, queue.queueId)) return true;
      if (queue.opRead < store.maxOffsetInQueue(TRANS_OP_HALF_TOPIC, queue.queueId)) return true;
    }
    return this.ops.waiting;
  }

  /** Begins where the saved offsets say. */
  start(): void {
    this.#running = true;
    this.#queues.clear();
    const queues = this.#parts.topics.select(TRANS_HALF_TOPIC)?.readQueueNums ?? 1;
    for (let queueId = 0; queueId < Math.max(1, queues); queueId++) this.queue(queueId);
    this.wake();
  }

  /** Asks nobody any more, and writes what ends are noted; before the store is closed. */
  async stop(): Promise<void> {
    this.#running = false;
    this.#timer?.cancel();
    this.#timer = undefined;
    this.#saveTimer?.cancel();
    this.#saveTimer = undefined;
    await this.#round;
    this.pending.note();
    this.ops.flush();
    this.ops.stop();
    this.metrics.stop();
  }

  /** Hands over exactly how far it came, if all of it is on disk; when the store is closed, whose last sync may have failed. */
  async close(): Promise<void> {
    const { watermarks } = this.#parts.store;
    if (watermarks.flushed >= watermarks.wrote) this.#commit(this.#positions());
    else this.#saveIfFlushed();
    this.#pending = undefined;
    await this.metrics.persistLast();
  }

  /** A half queue; made where the saved offsets say, or the queue's minimum, if it is new. */
  queue(queueId: number): HalfQueue {
    let queue = this.#queues.get(queueId);
    if (queue === undefined) {
      const { offsets, store } = this.#parts;
      const saved = (topic: string): number => {
        const offset = offsets.query(TRANS_GROUP, topic, queueId);
        return offset >= 0 ? offset : store.minOffsetInQueue(topic, queueId);
      };
      queue = new HalfQueue(queueId, saved(TRANS_HALF_TOPIC), saved(TRANS_OP_HALF_TOPIC));
      this.#queues.set(queueId, queue);
    }
    return queue;
  }

  /** Sees to it that there will be a round. To be called when a half message was stored or has ended. */
  wake(): void {
    if (this.#timer !== undefined || !this.#running) return;
    this.#timer = this.#environment.clock.after(this.#parts.config.transactionCheckInterval, () => {
      this.#timer = undefined;
      void this.check();
    });
  }

  /** One round over all half queues; while one runs, that one. */
  check(): Promise<void> {
    this.#round ??= this.#checkAll().finally(() => {
      this.#round = undefined;
      if (this.open) this.wake();
    });
    return this.#round;
  }

  async #checkAll(): Promise<void> {
    // What has ended is in the log before anybody is asked, and its records are read in this round.
    this.pending.note();
    this.ops.flush();
    await this.#dispatched();
    for (const queue of this.#queues.values()) await this.#check.round(queue);
    this.#save();
  }

  /** Resolves when the records that were written stand in their queues, or cannot come there at present. */
  async #dispatched(): Promise<void> {
    const { store } = this.#parts;
    await new Promise<void>((resolve) => store.whenDurable(store.watermarks.wrote, false, () => resolve()));
    for (const [queueId, end] of this.ops.ends) {
      for (let turn = 0; turn < MOST_TURNS && store.maxOffsetInQueue(TRANS_OP_HALF_TOPIC, queueId) < end; turn++) {
        await new Promise<void>((resolve) => this.#environment.clock.soon(resolve));
      }
    }
  }

  /** Takes in that a transaction is over, known by the half message at a queue offset. */
  ended(queueId: number, queueOffset: number, topic: string): void {
    this.noteEnd(queueId, queueOffset, this.ending(queueId, queueOffset), topic);
  }

  /**
   * Takes in that a transaction is being ended: a second end does nothing. Answers the queue offset of its newest copy, for what must follow:
   * `noteEnd` when that cannot be lost any more, or `reopen`.
   */
  ending(queueId: number, queueOffset: number): number {
    const queue = this.queue(queueId);
    const newest = queue.newest(queueOffset);
    queue.end(newest);
    return newest;
  }

  /** Has a record tell of an end. */
  noteEnd(queueId: number, queueOffset: number, newest: number, topic: string): void {
    this.metrics.add(topic, -1);
    this.#note(queueId, queueOffset, newest);
  }

  /** Takes in that a half message is a copy of one that has ended before. */
  passOver(queueId: number, queueOffset: number): void {
    const newest = this.ending(queueId, queueOffset);
    if (this.ops.hasRoom(queueId)) this.#note(queueId, queueOffset, newest);
  }

  #note(queueId: number, queueOffset: number, newest: number): void {
    this.ops.add(queueId, queueOffset);
    if (newest !== queueOffset) this.ops.add(queueId, newest);
    this.wake();
  }

  /** The transaction was not ended after all. */
  reopen(queueId: number, newest: number): void {
    this.queue(queueId).reopen(newest);
    this.wake();
  }

  /** Half messages, and records of ended ones, that a removal would take and a later round needs. */
  needed(removal: Removal): number {
    let count = 0;
    for (const { topic, queueId, from, to } of removal.moves) {
      const queue = this.#queues.get(queueId);
      if (queue === undefined) continue;
      if (topic === TRANS_HALF_TOPIC) count += queue.openIn(from, to);
      else if (topic === TRANS_OP_HALF_TOPIC) count += Math.max(0, to - Math.max(from, queue.opPosition));
    }
    return count;
  }

  /** Position and end of the half queues, and open messages in between as far as is known; for the runtime information. */
  *progress(): Generator<{ queueId: number; half: number; op: number; open: number }> {
    const { store } = this.#parts;
    for (const queue of this.#queues.values()) {
      const end = store.maxOffsetInQueue(TRANS_HALF_TOPIC, queue.queueId);
      const { queueId, position, opPosition } = queue;
      yield { queueId, half: position, op: opPosition, open: queue.openIn(position, end) };
    }
  }

  #positions(): Positions[] {
    return [...this.#queues.values()].map((queue) => {
      return { queueId: queue.queueId, half: queue.position, op: queue.opPosition };
    });
  }

  /** Hands the positions over when all that they pass over is on disk. */
  #save(): void {
    const { watermarks } = this.#parts.store;
    this.#pending = { positions: this.#positions(), end: watermarks.wrote };
    this.#saveIfFlushed();
  }

  #saveIfFlushed(): void {
    const pending = this.#pending;
    if (pending === undefined) return;
    if (this.#parts.store.watermarks.flushed >= pending.end) {
      this.#pending = undefined;
      this.#commit(pending.positions);
      return;
    }
    if (this.#saveTimer !== undefined || !this.#running) return;
    this.#saveTimer = this.#environment.clock.after(SAVE_LOOK_MS, () => {
      this.#saveTimer = undefined;
      this.#saveIfFlushed();
    });
  }

  #commit(positions: readonly Positions[]): void {
    const { offsets, store, brokerAddress } = this.#parts;
    const commit = (topic: string, queueId: number, offset: number): void => {
      const unused = offsets.query(TRANS_GROUP, topic, queueId) < 0 && offset <= store.minOffsetInQueue(topic, queueId);
      if (!unused) offsets.commit(brokerAddress, TRANS_GROUP, topic, queueId, offset);
    };
    for (const { queueId, half, op } of positions) {
      commit(TRANS_HALF_TOPIC, queueId, half);
      commit(TRANS_OP_HALF_TOPIC, queueId, op);
    }
  }

  /**
   * Puts a half message, or one that was parked, into the half queue once more, with its count at 0. Calls back with the end of the put; false
   * if it is none, or has ended.
   */
  resume(half: StoredMessage, done: (status: PutMessageStatus, reason: string) => void): boolean {
    const origin = originOf(half);
    const isHalf = half.topic === TRANS_HALF_TOPIC;
    const queue = this.queue(isHalf ? half.queueId : 0);
    if (origin === undefined || (isHalf && queue.hasEnded(half.queueOffset))) return false;
    const copy = renewed(half, { [PropertyName.TRANSACTION_CHECK_TIMES]: '0' });
    copy.topic = TRANS_HALF_TOPIC;
    copy.queueId = queue.queueId;
    putInternal(this.#parts.store, copy, this.#parts.storeHost, (status, result, reason) => {
      if (status === PutMessageStatus.PUT_OK) {
        const newest = queue.newest(half.queueOffset);
        if (isHalf && queue.isOpen(newest)) {
          queue.renew(newest, result.queueOffset);
          this.ops.add(queue.queueId, newest);
          queue.replace(newest);
        } else this.metrics.add(origin.topic, 1);
        this.wake();
      }
      done(status, reason);
    });
    return true;
  }
}
