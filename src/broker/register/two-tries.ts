// Topics that wait for work which may fail. One round at a time takes all that wait; what it has failed for is in one more, some
// seconds later, and then forgotten. Whatever comes in, no more than a thousand wait.

import type { Clock, Timer } from '../../common/index.ts';
import type { TopicConfig } from '../topic/topic-config.ts';

/** Most topics that wait; of more, those that come last are not taken. */
export const MOST_WAITING = 1_000;
/** What failed is tried once more after so long. */
export const SECOND_TRY_MS = 5_000;

export class TwoTries {
  readonly #clock: Clock;
  readonly #work: (topics: readonly TopicConfig[]) => Promise<readonly TopicConfig[]>;
  /** Each with whether this is its second try. */
  #waiting = new Map<TopicConfig, boolean>();
  /** Failed once, and not waiting again yet. */
  #failed: TopicConfig[] = [];
  #running = false;
  #timer: Timer | undefined;
  #stopped = false;

  /** `work` answers what it has failed for, and never rejects. */
  constructor(clock: Clock, work: (topics: readonly TopicConfig[]) => Promise<readonly TopicConfig[]>) {
    this.#clock = clock;
    this.#work = work;
  }

  get isIdle(): boolean {
    return !this.#running && this.#waiting.size === 0 && this.#failed.length === 0;
  }

  /** Takes a topic; false if too many wait. The next round begins when this loop turn has ended. */
  add(topic: TopicConfig): boolean {
    if (this.#stopped) return true;
    if (this.#waiting.size + this.#failed.length >= MOST_WAITING) return false;
    this.#waiting.set(topic, false);
    this.#start();
    return true;
  }

  /** Forgets what waits. */
  stop(): void {
    this.#stopped = true;
    this.#timer?.cancel();
    this.#waiting.clear();
    this.#failed = [];
  }

  #start(): void {
    if (this.#running) return;
    this.#running = true;
    this.#clock.soon(() => void this.#run());
  }

  async #run(): Promise<void> {
    while (this.#waiting.size > 0) {
      const round = this.#waiting;
      this.#waiting = new Map();
      const failed = await this.#work([...round.keys()]);
      if (!this.#stopped) this.#failed.push(...failed.filter((topic) => round.get(topic) === false));
    }
    this.#running = false;
    if (this.#failed.length > 0) this.#timer ??= this.#clock.after(SECOND_TRY_MS, () => this.#tryAgain());
  }

  #tryAgain(): void {
    this.#timer = undefined;
    for (const topic of this.#failed) this.#waiting.set(topic, true);
    this.#failed = [];
    this.#start();
  }
}
