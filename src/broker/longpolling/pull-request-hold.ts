// Pulls that found nothing and wait for a message: held by queue, woken once per loop turn by the arrivals of that turn, or by their
// time running out. RocketMQ: PullRequestHoldService.

import type { Clock, QueueOffset, Timer } from '../../common/index.ts';
import type { MessageStore, TagFilter } from '../../store/index.ts';
import { InTurns } from '../in-turns.ts';
import { Arrivals, type ArrivalWaiter } from './arrivals.ts';

/** A pull that waits. */
export interface HeldPull {
  readonly topic: string;
  readonly queueId: number;
  /** It waits for a message at or behind this queue offset. */
  readonly offset: number;
  readonly filter: TagFilter;
  /** Whether something has come for it. */
  isDue: boolean;
  /** Wall-clock time at which it is answered even with nothing. */
  readonly deadline: number;
  /** False once nobody waits for the answer. */
  readonly isWanted: boolean;
  /** Runs the pull again, this time without waiting. Either this or `forget` is called, once. */
  resume(): void;
  /** There will be no answer. */
  forget(): void;
}

interface HeldQueue {
  readonly topic: string;
  readonly queueId: number;
  pulls: HeldPull[];
  /** How many of them are due. */
  due: number;
  woken: boolean;
}

/** How often held pulls are looked at for their time. */
const SWEEP_MS = 250;
/** Every so many sweeps, which is 5 s, pulls with messages behind them go on, whether these are for them or not. */
const LOOK_SWEEPS = 20;

export class PullRequestHold implements ArrivalWaiter {
  readonly #clock: Clock;
  readonly #store: MessageStore;
  readonly #arrivals: Arrivals;
  readonly #queues = new Map<string, Map<number, HeldQueue>>();
  #woken: HeldQueue[] = [];
  /** When the first of them was. */
  #wokenAt = 0;
  #count = 0;
  readonly #upkeep: InTurns;
  #timer: Timer | undefined;
  #sweeps = 0;
  #stopped = false;

  constructor(clock: Clock, store: MessageStore, arrivals: Arrivals = new Arrivals(store)) {
    this.#clock = clock;
    this.#upkeep = new InTurns(clock);
    this.#store = store;
    this.#arrivals = arrivals;
  }

  start(): void {
    this.#arrivals.add(this);
    this.#timer = this.#clock.every(SWEEP_MS, () => {
      if (!this.#upkeep.isBusy) this.#upkeep.run(this.#sweep());
    });
  }

  /**
   * Lets go of everyone that waits, now and from now on, without an answer: a client that is answered asks again at once, one whose
   * connection ends looks for the broker anew.
   */
  stop(): void {
    this.#timer?.cancel();
    this.#upkeep.stop();
    this.#stopped = true;
    for (const queues of this.#queues.values()) {
      for (const queue of queues.values()) {
        for (const pull of queue.pulls.splice(0)) pull.forget();
      }
    }
    this.#queues.clear();
    this.#count = 0;
  }

  /** Pulls that wait. */
  get size(): number {
    return this.#count;
  }

  hold(pull: HeldPull): void {
    if (this.#stopped) {
      pull.forget();
      return;
    }
    let queues = this.#queues.get(pull.topic);
    if (queues === undefined) {
      queues = new Map();
      this.#queues.set(pull.topic, queues);
    }
    let queue = queues.get(pull.queueId);
    if (queue === undefined) {
      queue = { topic: pull.topic, queueId: pull.queueId, pulls: [], due: 0, woken: false };
      queues.set(pull.queueId, queue);
    }
    queue.pulls.push(pull);
    this.#count++;
    this.#arrivals.watch(pull.topic, pull.queueId);
  }

  waitsFor(topic: string, queueId: number): boolean {
    return this.#queues.get(topic)?.has(queueId) ?? false;
  }

  arrived(
    topic: string,
    queueId: number,
    maxOffset: QueueOffset,
    tagsCode: number,
    bytes: Uint8Array,
    start: number,
    end: number,
  ): void {
    const queue = this.#queues.get(topic)?.get(queueId);
    if (queue === undefined || queue.due === queue.pulls.length) return;
    for (const pull of queue.pulls) {
      if (pull.isDue || maxOffset <= pull.offset) continue;
      const { all, codes, record } = pull.filter;
      if (!all && !codes.has(tagsCode | 0)) continue;
      if (record !== undefined && !record.matches(bytes, start, end)) continue;
      pull.isDue = true;
      queue.due++;
      if (queue.woken) continue;
      queue.woken = true;
      if (this.#woken.push(queue) === 1) {
        this.#wokenAt = this.#clock.monotonic();
        this.#clock.soon(() => this.#resumeWoken());
      }
    }
  }

  #resumeWoken(): void {
    const woken = this.#woken;
    this.#woken = [];
    for (const queue of woken) {
      queue.woken = false;
      this.#release(queue, (pull) => pull.isDue);
    }
    this.#store.times.wake.add(this.#clock.monotonic() - this.#wokenAt);
  }

  /**
   * Pulls whose time is up or whose client has gone; now and then also those that messages have passed which they did not want, or were not
   * told of: their clients go on behind them.
   */
  *#sweep(): Generator<undefined, void> {
    const now = this.#clock.now();
    const looks = ++this.#sweeps % LOOK_SWEEPS === 0;
    for (const [topic, queues] of this.#queues) {
      for (const [queueId, queue] of queues) {
        yield;
        // Removed meanwhile, and perhaps made anew.
        if (queues.get(queueId) !== queue) continue;
        const end = looks ? this.#store.maxOffsetInQueue(topic, queueId) : 0;
        this.#release(queue, (pull) => pull.deadline <= now || !pull.isWanted || pull.offset < end);
        if (queue.pulls.length === 0 && !queue.woken) {
          queues.delete(queueId);
          this.#arrivals.release(topic, queueId);
        }
      }
      if (queues.size === 0 && this.#queues.get(topic) === queues) this.#queues.delete(topic);
    }
  }

  #release(queue: HeldQueue, due: (pull: HeldPull) => boolean): void {
    if (!queue.pulls.some(due)) return;
    const released: HeldPull[] = [];
    const kept: HeldPull[] = [];
    for (const pull of queue.pulls) (due(pull) ? released : kept).push(pull);
    queue.pulls = kept;
    queue.due = 0;
    for (const pull of kept) if (pull.isDue) queue.due++;
    this.#count -= released.length;
    for (const pull of released) pull.resume();
  }
}
