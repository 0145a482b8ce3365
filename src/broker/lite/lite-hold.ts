// Pops of lite topics that found nothing and wait, by client: an event wakes the one whose time is over first, and a timer of its own
// each. RocketMQ: PopLiteLongPollingService.

import type { Clock, Timer } from '../../common/index.ts';
import type { Channel } from '../../remoting/index.ts';

/** A pop that waits. */
export interface HeldPop {
  readonly clientId: string;
  readonly channel: Channel;
  /** Until when; wall-clock ms. */
  readonly deadline: number;
  /** False once nobody waits for the answer. */
  readonly isWanted: boolean;
  /** Runs the pop again. Either this or `forget` is called, once. */
  resume(): void;
  /** There will be no answer. */
  forget(): void;
}

/** RocketMQ: PollingResult. */
export const Polling = { HELD: 0, FULL: 1, TIMEOUT: 2 } as const;
export type Polling = (typeof Polling)[keyof typeof Polling];

export interface HoldLimits {
  /** Pops that wait altogether. */
  readonly maxPopPollingSize: number;
  /** Pops of one client. */
  readonly popPollingSize: number;
}

/** RocketMQ: a pop is answered so many ms before its time. */
const EARLY_MS = 50;
/** No timer takes more. */
const LONGEST_MS = 3600 * 1000;

interface Waiting {
  readonly pop: HeldPop;
  timer: Timer;
}

export class LiteHold {
  readonly #clock: Clock;
  readonly #limits: HoldLimits;
  /** Of each client, the one with the nearest deadline first. */
  readonly #clients = new Map<string, Waiting[]>();
  /** Of each connection that pops have waited on, those that wait now. */
  readonly #channels = new WeakMap<Channel, Set<Waiting>>();
  #count = 0;
  #stopped = false;

  constructor(clock: Clock, limits: HoldLimits) {
    this.#clock = clock;
    this.#limits = limits;
  }

  get size(): number {
    return this.#count;
  }

  hold(pop: HeldPop): Polling {
    if (this.#stopped) {
      pop.forget();
      return Polling.HELD;
    }
    if (this.#count >= this.#limits.maxPopPollingSize) return Polling.FULL;
    const rest = pop.deadline - EARLY_MS - this.#clock.now();
    if (rest < 0) return Polling.TIMEOUT;
    const queue = this.#clients.get(pop.clientId) ?? [];
    if (queue.length > this.#limits.popPollingSize) return Polling.FULL;
    const waiting: Waiting = {
      pop,
      timer: this.#clock.after(Math.min(rest + 1, LONGEST_MS), () => this.#over(waiting)),
    };
    let at = queue.length;
    while (at > 0 && queue[at - 1]!.pop.deadline > pop.deadline) at--;
    queue.splice(at, 0, waiting);
    this.#clients.set(pop.clientId, queue);
    this.#count++;
    this.#ofChannel(pop.channel).add(waiting);
    return Polling.HELD;
  }

  /** Wakes a pop of a client, if one waits. */
  wake(clientId: string): void {
    const queue = this.#clients.get(clientId);
    while (queue !== undefined && queue.length > 0) {
      const waiting = queue[0]!;
      this.#release(waiting);
      if (waiting.pop.isWanted) {
        this.#clock.soon(() => waiting.pop.resume());
        return;
      }
      waiting.pop.forget();
    }
  }

  /** Lets go of everyone that waits, now and from now on, without an answer. */
  stop(): void {
    this.#stopped = true;
    for (const queue of [...this.#clients.values()]) {
      for (const waiting of [...queue]) {
        this.#release(waiting);
        waiting.pop.forget();
      }
    }
  }

  /** RocketMQ: keeps the place of a pop whose connection is closed until its time is over. */
  #ofChannel(channel: Channel): Set<Waiting> {
    let waits = this.#channels.get(channel);
    if (waits === undefined) {
      const own = new Set<Waiting>();
      waits = own;
      this.#channels.set(channel, own);
      channel.onClose(() => {
        for (const waiting of [...own]) {
          this.#release(waiting);
          waiting.pop.forget();
        }
      });
    }
    return waits;
  }

  #over(waiting: Waiting): void {
    this.#release(waiting);
    if (waiting.pop.isWanted) waiting.pop.resume();
    else waiting.pop.forget();
  }

  #release(waiting: Waiting): void {
    waiting.timer.cancel();
    const { channel, clientId } = waiting.pop;
    this.#channels.get(channel)?.delete(waiting);
    const queue = this.#clients.get(clientId);
    const at = queue?.indexOf(waiting) ?? -1;
    if (queue === undefined || at < 0) return;
    queue.splice(at, 1);
    this.#count--;
    if (queue.length === 0) this.#clients.delete(clientId);
  }
}
