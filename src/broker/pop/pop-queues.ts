// Every (topic, group, queue) that is popped from. RocketMQ: the tables of PopBufferMergeService, PopInflightMessageCounter and
// QueueLockManager.

import type { Clock, Timer } from '../../common/index.ts';
import type { MessageStore } from '../../store/index.ts';
import { InTurns } from '../in-turns.ts';
import type { ConsumerOffsetManager } from '../offset/consumer-offset-manager.ts';
import { type PopOffsets, type PoppedRange, PopQueue } from './pop-queue.ts';

/** RocketMQ: how long a queue is kept that nobody pops from, and ms between two looks for those. */
const UNUSED_MS = 300_000;
const SWEEP_MS = 30_000;
/** Pops of a queue that are kept until somebody asks whether they are synced. */
const MANY_PENDING = 256;

export interface PopQueuesOptions {
  readonly clock: Clock;
  readonly store: MessageStore;
  readonly offsets: ConsumerOffsetManager;
  readonly hasTopic: (topic: string) => boolean;
  readonly hasGroup: (group: string) => boolean;
  /** Messages in flight of a queue above which nothing is popped from it. */
  readonly threshold: () => number;
  /** Told of a queue that has come down to it. */
  readonly onRelief: (queue: PopQueue) => void;
}

export class PopQueues {
  readonly #clock: Clock;
  readonly #store: MessageStore;
  readonly #options: PopQueuesOptions;
  readonly #positions: PopOffsets;
  readonly #topics = new Map<string, Map<string, PopQueue[]>>();
  /** Those with pops whose offset may not be saved yet. */
  readonly #pending = new Set<PopQueue>();
  /** What was popped before does not count in what is in flight. RocketMQ: shouldStartTime. */
  readonly #startMs: number;
  readonly #upkeep: InTurns;
  #timer: Timer | undefined;

  constructor(options: PopQueuesOptions) {
    const { clock, store, offsets } = options;
    this.#clock = clock;
    this.#upkeep = new InTurns(clock);
    this.#store = store;
    this.#options = options;
    this.#startMs = clock.now();
    this.#positions = {
      of: (group, topic) => offsets.of(group, topic),
      commit: (entry, queueId, offset) => offsets.commitTo(entry, 'pop', queueId, offset),
    };
    offsets.beforeSave = () => this.#synced();
    store.watchLog({
      cut: (end) => this.#cut(end),
      topicDeleted: (topic) => this.#forgetTopic(topic),
    });
  }

  start(): void {
    this.#timer = this.#clock.every(SWEEP_MS, () => {
      if (!this.#upkeep.isBusy) this.#upkeep.run(this.#sweep());
    });
  }

  stop(): void {
    this.#timer?.cancel();
    this.#upkeep.stop();
  }

  of(topic: string, group: string, queueId: number): PopQueue {
    let groups = this.#topics.get(topic);
    if (groups === undefined) {
      groups = new Map();
      this.#topics.set(topic, groups);
    }
    let queues = groups.get(group);
    if (queues === undefined) {
      queues = [];
      groups.set(group, queues);
    }
    let queue = queues[queueId];
    if (queue === undefined) {
      queue = new PopQueue(topic, group, queueId, this.#positions);
      queues[queueId] = queue;
    }
    return queue;
  }

  find(topic: string, group: string, queueId: number): PopQueue | undefined {
    return this.#topics.get(topic)?.get(group)?.[queueId];
  }

  /** Calls `run` when no pop has the queue: at once, or later. */
  whenFree(topic: string, group: string, queueId: number, run: () => void): void {
    const queue = this.find(topic, group, queueId);
    if (queue === undefined) run();
    else queue.whenFree(run);
  }

  /** The offset at which the next pop begins if pops wait for their check points; -1 if none do. RocketMQ: getLatestOffset. */
  latestOffset(topic: string, group: string, queueId: number): number {
    return this.find(topic, group, queueId)?.latest ?? -1;
  }

  /** Notes what was popped; `logEnd` as in PoppedRange. */
  add(queue: PopQueue, start: number, next: number, logEnd: number): PoppedRange {
    const range = queue.add(start, next, logEnd);
    this.#pending.add(queue);
    if (queue.pending % MANY_PENDING === 0) queue.synced(this.#store.watermarks.flushed);
    return range;
  }

  // --- What is in flight

  inFlight(topic: string, group: string, queueId: number): number {
    return this.find(topic, group, queueId)?.inFlight ?? 0;
  }

  /** `count` messages of a pop at `popTime` are acknowledged or have come back. */
  landed(topic: string, group: string, queueId: number, popTime: number, count: number): void {
    if (popTime < this.#startMs) return;
    const queue = this.find(topic, group, queueId);
    if (queue === undefined) return;
    const before = queue.inFlight;
    queue.inFlight = Math.max(0, before - count);
    const threshold = this.#options.threshold();
    if (before > threshold && queue.inFlight <= threshold) this.#options.onRelief(queue);
  }

  // --- Upkeep

  /** Lets what is synced be saved; true if something else is left. */
  #synced(): boolean {
    const { flushed } = this.#store.watermarks;
    for (const queue of this.#pending) {
      queue.synced(flushed);
      if (queue.pending === 0) this.#pending.delete(queue);
    }
    return this.#pending.size > 0;
  }

  #cut(end: number): void {
    for (const queue of this.#pending) queue.cut(end);
  }

  #forgetTopic(topic: string): void {
    for (const queues of this.#topics.get(topic)?.values() ?? []) this.#forget(queues);
    this.#topics.delete(topic);
  }

  #forget(queues: readonly PopQueue[]): void {
    for (const queue of queues) {
      // A topic may have few queues with high numbers.
      if (queue === undefined) continue;
      queue.clear();
      this.#pending.delete(queue);
    }
  }

  /** Forgets queues that nobody pops from any more. */
  *#sweep(): Generator<undefined, void> {
    this.#synced();
    const before = this.#clock.now() - UNUSED_MS;
    for (const [topic, groups] of this.#topics) {
      for (const [group, queues] of groups) {
        yield;
        // Removed meanwhile, and perhaps made anew.
        if (groups.get(group) !== queues) continue;
        if (this.#options.hasTopic(topic) && this.#options.hasGroup(group)) {
          const isUsed = (queue: PopQueue): boolean =>
            queue !== undefined && (queue.isLocked || queue.usedMs > before || queue.inFlight > 0 || queue.pending > 0);
          if (queues.some(isUsed)) continue;
        }
        this.#forget(queues);
        groups.delete(group);
      }
      if (groups.size === 0 && this.#topics.get(topic) === groups) this.#topics.delete(topic);
    }
  }
}
