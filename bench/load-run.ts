// What the loads have in common: counts of all their connections, the part of a run that is measured, and its figures.

import { Histogram } from '../src/common/index.ts';
import { cpuMicros } from './process-figures.ts';

/** Steps of a latency's histogram: buckets of 1.1 %. */
const LATENCY_STEPS = 64;

/** What a run measured. */
export interface LoadFigures {
  messages: number;
  /** All that the broker accepted, warm-up and the last window included; 0 if that is not known. */
  accepted: number;
  seconds: number;
  perSecond: number;
  p50Ms: number;
  p99Ms: number;
  maxMs: number;
  /** Responses with an error code, warm-up included, by code. */
  errors: Record<string, number>;
  serverCpuMicros: number;
  clientCpuMicros: number;
}

export class LoadRun {
  accepted = 0;
  readonly #latency = new Histogram(LATENCY_STEPS);
  readonly #errors: Record<string, number> = {};
  #measuring = false;
  #messages = 0;
  #seconds = 0;
  #serverCpuMicros = 0;
  #clientCpuMicros = 0;

  /** Counts the messages of a request, and the time that it took, if this is the part that is measured. */
  took(messages: number, ms: number): void {
    if (!this.#measuring) return;
    this.#messages += messages;
    this.#latency.add(ms);
  }

  failed(code: number): void {
    this.#errors[code] = (this.#errors[code] ?? 0) + 1;
  }

  /** Measures until `work` is done; `pid`: the broker's process, 0 if it is not here. */
  async measure(pid: number, work: () => Promise<unknown>): Promise<void> {
    const serverMicros = (): number => (pid > 0 ? cpuMicros(pid) : 0);
    const start = performance.now();
    const serverBefore = serverMicros();
    const clientBefore = cpuMicros(process.pid);
    this.#measuring = true;
    await work();
    this.#measuring = false;
    this.#seconds = (performance.now() - start) / 1000;
    this.#serverCpuMicros = serverMicros() - serverBefore;
    this.#clientCpuMicros = cpuMicros(process.pid) - clientBefore;
  }

  figures(): LoadFigures {
    return {
      messages: this.#messages,
      accepted: this.accepted,
      seconds: this.#seconds,
      perSecond: this.#messages / this.#seconds,
      p50Ms: this.#latency.quantile(0.5),
      p99Ms: this.#latency.quantile(0.99),
      maxMs: this.#latency.maxMs,
      errors: this.#errors,
      serverCpuMicros: this.#serverCpuMicros,
      clientCpuMicros: this.#clientCpuMicros,
    };
  }
}
