// How far groups are behind in their lite topics: in messages, from the offsets; in time, from what pops that did not empty a queue noted.
// RocketMQ: LiteConsumerLagCalculator.

import type { ConsumerOffsetManager } from '../offset/consumer-offset-manager.ts';
import { isLiteQueue, liteParts } from './lite-names.ts';
import type { LiteSettings } from './lite-settings.ts';

/** RocketMQ: LiteLagInfo. */
export interface LiteLag {
  readonly liteTopic: string;
  /** Messages. */
  readonly lagCount: number;
  /** Store time of the first message that is not consumed; -1 if that is not known. */
  readonly earliestUnconsumedTimestamp: number;
}

export interface LiteLagOptions {
  readonly config: LiteSettings;
  readonly offsets: ConsumerOffsetManager;
  readonly endOf: (queue: string) => number;
  readonly storeTimeOf: (queue: string, offset: number) => Promise<number>;
}

export class LiteLags {
  readonly #options: LiteLagOptions;
  /** By `<parent>@<group>`: queue, store time of its first message that is not consumed; the newest ones are left out. */
  readonly #times = new Map<string, Map<string, number>>();

  constructor(options: LiteLagOptions) {
    this.#options = options;
  }

  /** Notes the store time of the next message of a queue that a pop did not empty; undefined: it has none. */
  note(group: string, parent: string, queue: string, time: number | undefined): void {
    const key = `${parent}@${group}`;
    let times = this.#times.get(key);
    if (time === undefined) {
      if (times?.delete(queue) === true && times.size === 0) this.#times.delete(key);
      return;
    }
    if (times === undefined) {
      times = new Map();
      this.#times.set(key, times);
    }
    times.set(queue, time);
    if (times.size <= this.#options.config.liteLagLatencyTopK) return;
    let newest = queue;
    for (const [name, at] of times) if (at > times.get(newest)!) newest = name;
    times.delete(newest);
  }

  /** The lite topics of a group with the most messages that are not consumed, and how many those are in all of them. */
  async byCount(group: string, most: number): Promise<{ lags: LiteLag[]; total: number }> {
    const { endOf, offsets, storeTimeOf } = this.#options;
    const behind: Array<{ queue: string; offset: number; lagCount: number }> = [];
    let total = 0;
    for (const queue of offsets.topicsOf(group)) {
      const offset = isLiteQueue(queue) ? offsets.find(group, queue)?.committed.get(0) : undefined;
      const lagCount = offset === undefined ? 0 : endOf(queue) - offset;
      if (lagCount <= 0) continue;
      total += lagCount;
      behind.push({ queue, offset: offset!, lagCount });
    }
    behind.sort((a, b) => b.lagCount - a.lagCount);
    const lags: LiteLag[] = [];
    for (const { queue, offset, lagCount } of behind.slice(0, Math.max(0, most))) {
      const earliestUnconsumedTimestamp = await storeTimeOf(queue, offset);
      lags.push({ liteTopic: liteParts(queue)?.lite ?? queue, lagCount, earliestUnconsumedTimestamp });
    }
    return { lags, total };
  }

  /** Those whose first message that is not consumed is oldest, and its store time; -1 if nothing is known. */
  byTime(group: string, parent: string, most: number): { lags: LiteLag[]; oldest: number } {
    const { endOf, offsets } = this.#options;
    const times = [...(this.#times.get(`${parent}@${group}`) ?? [])].sort((a, b) => a[1] - b[1]);
    const lags = times.slice(0, Math.max(0, most)).map(([queue, earliestUnconsumedTimestamp]) => {
      const offset = offsets.query(group, queue, 0);
      const lagCount = offset < 0 ? 0 : Math.max(0, endOf(queue) - offset);
      return { liteTopic: liteParts(queue)?.lite ?? queue, lagCount, earliestUnconsumedTimestamp };
    });
    return { lags, oldest: lags[0]?.earliestUnconsumedTimestamp ?? -1 };
  }
}
