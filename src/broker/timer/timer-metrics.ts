// config/timermetrics: how many timer messages wait for each topic, in Java's JSON. Only figures: the timer itself relies on none of it.
// RocketMQ: TimerMetrics.

import { javaStringHash } from '../../common/index.ts';
import { type JsonObject, toJson } from '../../remoting/index.ts';
import { type ConfigEnvironment, ConfigManager } from '../config-manager.ts';
import { DataVersion } from '../data-version.ts';
import { readDataVersion } from '../json-fields.ts';

interface Metric {
  count: number;
  timeStamp: number;
}

/** Buckets of the Java map that decides the order. */
const JAVA_TABLE = 2048;

export class TimerMetrics extends ConfigManager {
  readonly dataVersion: DataVersion;
  readonly #counts = new Map<string, Metric>();

  constructor(environment: ConfigEnvironment) {
    super(environment, 'timermetrics');
    this.dataVersion = new DataVersion(environment.clock.now());
  }

  add(topic: string, value: number): void {
    const now = this.environment.clock.now();
    const metric = this.#counts.get(topic);
    if (metric === undefined) this.#counts.set(topic, { count: value, timeStamp: now });
    else {
      metric.count += value;
      metric.timeStamp = now;
    }
    this.dataVersion.next(now);
    this.markChanged();
  }

  /** How many wait for a topic. */
  count(topic: string): number {
    return this.#counts.get(topic)?.count ?? 0;
  }

  get topics(): Iterable<string> {
    return this.#counts.keys();
  }

  /** Sets what was counted anew. */
  set(topic: string, count: number): void {
    if (this.count(topic) === count) return;
    this.#counts.set(topic, { count, timeStamp: this.environment.clock.now() });
    this.markChanged();
  }

  remove(topic: string): void {
    if (this.#counts.delete(topic)) this.markChanged();
  }

  protected override *encode(): Iterable<string> {
    const slot = (topic: string): number => {
      const hash = javaStringHash(topic);
      return (hash ^ (hash >>> 16)) & (JAVA_TABLE - 1);
    };
    const sorted = [...this.#counts].sort((a, b) => slot(a[0]) - slot(b[0]));
    yield toJson({ dataVersion: this.dataVersion.fields(), timingCount: Object.fromEntries(sorted) });
  }

  protected override decode(json: JsonObject): void {
    const counts = json['timingCount'];
    const version = readDataVersion(json);
    if (counts !== null && typeof counts === 'object' && !Array.isArray(counts)) {
      for (const [topic, value] of Object.entries(counts)) {
        const metric = value as Partial<Metric> | null;
        if (typeof metric?.count !== 'number' || typeof metric.timeStamp !== 'number') continue;
        this.#counts.set(topic, { count: metric.count, timeStamp: metric.timeStamp });
      }
    }
    if (version !== undefined) this.dataVersion.assign(version);
  }
}
