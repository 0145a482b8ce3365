// Counts what waits for each topic anew, from the timer log. RocketMQ: TimerMessageStore#checkAndReviseMetrics.

import { javaStringHash } from '../../common/index.ts';
import { TimerMagic, TimerUnit } from '../../store/index.ts';
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
    this.revise();
  }

  /** For topics with less than `timerMetricSmallThreshold`. */
  revise(): void {
    const { log, readMs, metrics, config } = this.#state;
    const counts = new Map<number, number>();
    log.scan(
      log.first,
      (_position, unit) => {
        if (unit.slotTime >= readMs) {
          const count = counts.get(unit.topicHash) ?? 0;
          counts.set(unit.topicHash, count + ((unit.magic & TimerMagic.DELETE) !== 0 ? -1 : 1));
        }
        return true;
      },
      new TimerUnit(),
    );
    for (const topic of [...metrics.topics]) {
      if (metrics.count(topic) < config.timerMetricSmallThreshold) {
        metrics.set(topic, counts.get(javaStringHash(topic)) ?? 0);
      }
    }
  }
}
