// Counts what waits for each topic anew, from the timer log. RocketMQ: TimerMessageStore#checkAndReviseMetrics.

import { errorText, javaStringHash } from '../../common/index.ts';
import { TimerMagic, type TimerUnit } from '../../store/index.ts';
import type { TimerState } from './timer-state.ts';

export class MetricsRevision {
  readonly #state: TimerState;
  #day = '';

  constructor(state: TimerState) {
    this.#state = state;
  }

  /** Once in the hour `timerCheckMetricsWhen`. */
  reviseIfDue(): void {
    const { config, clock } = this.#state;
    const date = new Date(clock.now());
    const day = date.toISOString().slice(0, 10);
    const hours = config.timerCheckMetricsWhen.split(';').map(Number);
    if (!config.timerEnableCheckMetrics || this.#day === day || !hours.includes(date.getHours())) return;
    this.#day = day;
    this.revise().catch((error: unknown) => {
      this.#state.seldom.warn('revise', `timer: what waits for each topic is not counted anew (${errorText(error)})`);
    });
  }

  /** For topics with less than `timerMetricSmallThreshold`; between other work. @throws GantryError IO. */
  async revise(): Promise<void> {
    const { log, readMs, metrics, config } = this.#state;
    const { end } = log;
    const before = new Map([...metrics.topics].map((topic) => [topic, metrics.count(topic)]));
    const counts = new Map<number, number>();
    const visit = (position: number, unit: TimerUnit): boolean => {
      if (position >= end) return false;
      if (unit.slotTime >= readMs) {
        const count = counts.get(unit.topicHash) ?? 0;
        counts.set(unit.topicHash, count + ((unit.magic & TimerMagic.DELETE) !== 0 ? -1 : 1));
      }
      return true;
    };
    await log.scanInTurns(log.first, visit, async () => {
      await this.#state.turn();
      return this.#state.running;
    });
    if (!this.#state.running) return;
    for (const topic of [...metrics.topics]) {
      if (metrics.count(topic) >= config.timerMetricSmallThreshold) continue;
      // And what has come and gone meanwhile.
      const since = metrics.count(topic) - (before.get(topic) ?? 0);
      metrics.set(topic, (counts.get(javaStringHash(topic)) ?? 0) + since);
    }
  }
}
