// Pops and notifications that found nothing and wait: by topic, group and queue (-1: any of the topic), woken by an arrival in the topic
// or in one of the group's retry topics, by somebody who says that a look is worth it, or by their time running out.
//
//   arrival of a turn ─► one waiting pop of (topic, group, queue), if it is for it ─► runs again at the end of the turn
//                        and, when it leaves messages behind, wakes the next one
//
// One wake a turn and key is enough for pops: whoever takes messages and leaves some behind wakes the next. A notification takes nothing,
// so each message wakes one of those. RocketMQ: PopLongPollingService. It wakes one pop for each message, which then find nothing, and
// asks the filter of one waiting pop alone.

import type { Clock, QueueOffset, Timer } from '../../common/index.ts';
import { popRetryTopicV1, popRetryTopicV2 } from '../../message/index.ts';
import { Polling, type PopWaiting, type WaitingPop } from '../pop/pop-parts.ts';
import type { Arrivals, ArrivalWaiter } from './arrivals.ts';

/** The settings that are asked here, see the table of BrokerConfig. */
export interface PopPollingSettings {
  readonly popPollingSize: number;
  readonly popPollingMapSize: number;
  readonly maxPopPollingSize: number;
  readonly popLongPollingForceNotifyInterval: number;
}

export interface PopLongPollingOptions {
  readonly clock: Clock;
  readonly config: PopPollingSettings;
  readonly arrivals: Arrivals;
  /** Readable queues of a topic; 0 if there is none of that name. */
  readonly queuesOf: (topic: string) => number;
  /** For those who take nothing: each message wakes one, the one whose time runs out last. */
  readonly notifications?: boolean;
}

/** RocketMQ: a pop is answered so much before its time, lest the client gives up first. */
const EARLY_MS = 50;
/** Least and most time between two looks for those whose time is up or whose client has gone. */
const LEAST_SWEEP_MS = 20;
const MOST_SWEEP_MS = 1000;
const ANY_QUEUE = -1;

interface Held {
  readonly pop: WaitingPop;
  /** Wall-clock time at which it is answered even with nothing. */
  readonly answerAt: number;
}

/** Those that wait for one queue, the first to run out of time first. */
interface WaitingQueue {
  readonly pops: Held[];
  /** One of them has been woken this turn. */
  woken: boolean;
}

interface WaitingGroup {
  readonly topic: string;
  readonly group: string;
  readonly queues: Map<number, WaitingQueue>;
  /** Queues of the topic that are watched. */
  readonly watched: Set<number>;
  /** Both kinds are read, whichever is written. */
  readonly retryTopics: readonly RetryTopic[];
}

interface RetryTopic {
  readonly name: string;
  /** How many of its queues are watched; it comes into being with the first message that comes back. */
  watched: number;
}

/** Who waits for the arrivals of a topic: groups that pop it, and groups whose retry topic it is. */
interface WaitingTopic {
  readonly groups: Map<string, WaitingGroup>;
  readonly retriesOf: Set<WaitingGroup>;
}

export class PopLongPolling implements PopWaiting, ArrivalWaiter {
  readonly #clock: Clock;
  readonly #config: PopPollingSettings;
  readonly #arrivals: Arrivals;
  readonly #queuesOf: PopLongPollingOptions['queuesOf'];
  readonly #notifications: boolean;
  readonly #topics = new Map<string, WaitingTopic>();
  /** Taken out of their queues, to run at the end of the turn. */
  #woken: Array<{ pop: WaitingPop; queue: WaitingQueue }> = [];
  #count = 0;
  #keys = 0;
  #timer: Timer | undefined;
  /** When it fires, and when it next looks after all that waits, by the wall clock. */
  #timerAt = 0;
  #cleanAt = 0;
  #stopped = false;

  constructor(options: PopLongPollingOptions) {
    this.#clock = options.clock;
    this.#config = options.config;
    this.#arrivals = options.arrivals;
    this.#queuesOf = options.queuesOf;
    this.#notifications = options.notifications ?? false;
  }

  /** Lets go of everyone that waits, now and from now on, without an answer; see `PullRequestHold.stop`. */
  stop(): void {
    this.#stopped = true;
    this.#timer?.cancel();
    this.#timer = undefined;
    for (const { pop } of this.#woken.splice(0)) pop.forget();
    for (const { groups } of this.#topics.values()) {
      for (const { queues } of groups.values()) {
        for (const { pops } of queues.values()) for (const { pop } of pops.splice(0)) pop.forget();
      }
    }
    this.#topics.clear();
    this.#arrivals.remove(this);
    this.#count = 0;
    this.#keys = 0;
  }

  /** Pops that wait. */
  get size(): number {
    return this.#count;
  }

  /** Pops that wait for one queue. */
  sizeOf(topic: string, group: string, queueId: number): number {
    return this.#topics.get(topic)?.groups.get(group)?.queues.get(queueId)?.pops.length ?? 0;
  }

  /** RocketMQ's order of the reasons not to hold a pop. */
  polling(pop: WaitingPop, pollTime: number): Polling {
    if (pollTime <= 0) return Polling.NOT_POLLING;
    if (this.#stopped) {
      pop.forget();
      return Polling.HELD;
    }
    if (this.#count >= this.#config.maxPopPollingSize) return Polling.FULL;
    const now = this.#clock.now();
    // RocketMQ: holds it for longer if the client's clock is ahead.
    const answerAt = Math.min(pop.deadline, now + pollTime) - EARLY_MS;
    if (now > answerAt) return Polling.TIMEOUT;
    const queue = this.#queueOf(pop);
    if (queue === undefined || queue.pops.length > this.#config.popPollingSize) return Polling.FULL;
    insert(queue.pops, { pop, answerAt });
    this.#count++;
    this.#arm(answerAt, now);
    return Polling.HELD;
  }

  /** Wakes one that waits for this queue (-1: for any), whatever its filter. True if there is one, or one has been woken this turn. */
  notify(topic: string, group: string, queueId: number): boolean {
    return this.#wakeNext(this.#topics.get(topic)?.groups.get(group)?.queues.get(queueId));
  }

  /** As `notify`, one that waits for any queue, or else one that waits for this one. */
  notifyAnyOr(topic: string, group: string, queueId: number): boolean {
    return this.notify(topic, group, ANY_QUEUE) || this.notify(topic, group, queueId);
  }

  /** As `notify`, of every group that waits, one that waits for any queue and one that waits for this one. */
  notifyGroups(topic: string, queueId: number): void {
    for (const group of this.#topics.get(topic)?.groups.keys() ?? []) {
      this.notify(topic, group, ANY_QUEUE);
      this.notify(topic, group, queueId);
    }
  }

  waitsFor(topic: string, _queueId: number): boolean {
    return this.#topics.has(topic);
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
    const waiting = this.#topics.get(topic);
    if (waiting === undefined) return;
    const interval = this.#config.popLongPollingForceNotifyInterval;
    const force = interval > 0 && (maxOffset - 1) % interval === 0;
    for (const { queues } of waiting.groups.values()) {
      this.#wakeFor(queues.get(ANY_QUEUE), force, tagsCode, bytes, start, end);
      this.#wakeFor(queues.get(queueId), force, tagsCode, bytes, start, end);
    }
    for (const group of waiting.retriesOf) this.#wakeForRetry(group);
  }

  #wakeFor(
    queue: WaitingQueue | undefined,
    force: boolean,
    tagsCode: number,
    bytes: Uint8Array,
    start: number,
    end: number,
  ): void {
    if (queue === undefined || queue.pops.length === 0 || (queue.woken && !this.#notifications)) return;
    const { pops } = queue;
    if (force) {
      this.#wakeNext(queue);
      return;
    }
    const step = this.#notifications ? -1 : 1;
    for (let i = step > 0 ? 0 : pops.length - 1; i >= 0 && i < pops.length; i += step) {
      const { all, codes, record } = pops[i]!.pop.filter;
      if (!all && !codes.has(tagsCode | 0)) continue;
      if (record !== undefined && !record.matches(bytes, start, end)) continue;
      this.#wake(queue, i);
      return;
    }
  }

  /** RocketMQ: of a retry message in queue 0 it tells nobody who waits for another queue of the topic alone; any of them reads it. */
  #wakeForRetry(group: WaitingGroup): void {
    if (this.#wakeNext(group.queues.get(ANY_QUEUE))) return;
    for (const queue of group.queues.values()) if (this.#wakeNext(queue)) return;
  }

  /** Wakes the next that waits for a queue; true if there is one, or one has been woken this turn. */
  #wakeNext(queue: WaitingQueue | undefined): boolean {
    if (queue === undefined) return false;
    if (queue.woken && !this.#notifications) return true;
    if (queue.pops.length === 0) return false;
    this.#wake(queue, this.#notifications ? queue.pops.length - 1 : 0);
    return true;
  }

  #wake(queue: WaitingQueue, index: number): void {
    const { pop } = queue.pops[index]!;
    queue.pops.splice(index, 1);
    queue.woken = true;
    if (this.#woken.push({ pop, queue }) === 1) this.#clock.soon(() => this.#resumeWoken());
  }

  #resumeWoken(): void {
    const woken = this.#woken;
    this.#woken = [];
    for (const { queue } of woken) queue.woken = false;
    for (const { pop, queue } of woken) {
      this.#count--;
      if (pop.isWanted && !this.#stopped) {
        pop.resume();
        continue;
      }
      // What it was woken for is for the next one.
      pop.forget();
      this.#wakeNext(queue);
    }
  }

  /**
   * Looks after those whose time is up; once a second after those whose client has gone, retry topics that have come into being, and queues
   * that nobody waits for.
   */
  #sweep(): void {
    this.#timer = undefined;
    const now = this.#clock.now();
    const cleans = now >= this.#cleanAt || now < this.#cleanAt - MOST_SWEEP_MS;
    if (cleans) this.#cleanAt = now + MOST_SWEEP_MS;
    const released: WaitingPop[] = [];
    let next = this.#cleanAt;
    for (const { groups } of this.#topics.values()) {
      for (const group of groups.values()) {
        for (const [queueId, queue] of group.queues) {
          if (cleans) takeIf(queue.pops, ({ pop, answerAt }) => !pop.isWanted || now > answerAt, released);
          else while (queue.pops.length > 0 && now > queue.pops[0]!.answerAt) released.push(queue.pops.shift()!.pop);
          const first = queue.pops[0];
          if (first !== undefined) next = Math.min(next, first.answerAt + 1);
          else if (cleans && !queue.woken) {
            group.queues.delete(queueId);
            this.#keys--;
          }
        }
        if (group.queues.size === 0) this.#drop(group);
        // What made it may have told nobody.
        else if (cleans && this.#watchRetries(group)) this.#wakeForRetry(group);
      }
    }
    this.#count -= released.length;
    if (this.#topics.size > 0) this.#arm(next, now);
    for (const pop of released) {
      if (pop.isWanted) pop.resume();
      else pop.forget();
    }
  }

  /** Sees to it that the next sweep is at `at` or before. */
  #arm(at: number, now: number): void {
    const wanted = Math.min(Math.max(at, now + LEAST_SWEEP_MS), now + MOST_SWEEP_MS);
    if (this.#timer !== undefined && this.#timerAt <= wanted) return;
    this.#timer?.cancel();
    this.#timerAt = wanted;
    this.#timer = this.#clock.after(wanted - now, () => this.#sweep());
  }

  /** The queue that a pop waits for; undefined if there may be no more. */
  #queueOf(pop: WaitingPop): WaitingQueue | undefined {
    let group = this.#topics.get(pop.topic)?.groups.get(pop.group);
    let queue = group?.queues.get(pop.queueId);
    if (queue === undefined) {
      if (this.#keys >= this.#config.popPollingMapSize) return undefined;
      group ??= this.#newGroup(pop.topic, pop.group);
      queue = { pops: [], woken: false };
      group.queues.set(pop.queueId, queue);
      this.#keys++;
    }
    this.#watch(group!, pop.queueId);
    return queue;
  }

  #newGroup(topic: string, group: string): WaitingGroup {
    if (this.#topics.size === 0) this.#arrivals.add(this);
    const names = [popRetryTopicV1(topic, group), popRetryTopicV2(topic, group)];
    const retryTopics = names.map((name) => ({ name, watched: 0 }));
    const waiting: WaitingGroup = { topic, group, queues: new Map(), watched: new Set(), retryTopics };
    this.#topicOf(topic).groups.set(group, waiting);
    for (const name of names) this.#topicOf(name).retriesOf.add(waiting);
    return waiting;
  }

  #topicOf(topic: string): WaitingTopic {
    let waiting = this.#topics.get(topic);
    if (waiting === undefined) {
      waiting = { groups: new Map(), retriesOf: new Set() };
      this.#topics.set(topic, waiting);
    }
    return waiting;
  }

  /** Watches what a pop of `queueId` looks at; a topic may have got more queues since. */
  #watch(group: WaitingGroup, queueId: number): void {
    if (queueId >= 0) this.#watchOne(group, queueId);
    else {
      const count = this.#queuesOf(group.topic);
      for (let id = 0; id < count; id++) this.#watchOne(group, id);
    }
    this.#watchRetries(group);
  }

  /** True if there are more queues than before. */
  #watchRetries({ retryTopics }: WaitingGroup): boolean {
    let isMore = false;
    for (const topic of retryTopics) {
      const count = this.#queuesOf(topic.name);
      for (; topic.watched < count; topic.watched++) {
        this.#arrivals.watch(topic.name, topic.watched);
        isMore = true;
      }
    }
    return isMore;
  }

  #watchOne(group: WaitingGroup, queueId: number): void {
    if (group.watched.has(queueId)) return;
    group.watched.add(queueId);
    this.#arrivals.watch(group.topic, queueId);
  }

  #drop(group: WaitingGroup): void {
    const { topic } = group;
    const waiting = this.#topics.get(topic)!;
    waiting.groups.delete(group.group);
    if (isUnused(waiting)) this.#topics.delete(topic);
    for (const queueId of group.watched) this.#arrivals.release(topic, queueId);
    for (const { name, watched } of group.retryTopics) {
      const ofRetry = this.#topics.get(name);
      if (ofRetry === undefined) continue;
      ofRetry.retriesOf.delete(group);
      if (isUnused(ofRetry)) this.#topics.delete(name);
      for (let queueId = 0; queueId < watched; queueId++) this.#arrivals.release(name, queueId);
    }
    if (this.#topics.size === 0) this.#arrivals.remove(this);
  }
}

function isUnused({ groups, retriesOf }: WaitingTopic): boolean {
  return groups.size === 0 && retriesOf.size === 0;
}

/** Puts a pop behind those whose time runs out no later; most often at the end. */
function insert(pops: Held[], held: Held): void {
  let at = pops.length;
  while (at > 0 && pops[at - 1]!.answerAt > held.answerAt) at--;
  pops.splice(at, 0, held);
}

/** Moves the pops that `due` names to the end of `taken`; the others keep their order. */
function takeIf(pops: Held[], due: (held: Held) => boolean, taken: WaitingPop[]): void {
  let kept = 0;
  for (const held of pops) {
    if (due(held)) taken.push(held.pop);
    else pops[kept++] = held;
  }
  pops.length = kept;
}
