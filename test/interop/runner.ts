// Suites and scenarios, and the environment that a scenario gets: the systems, the clients, directories, and a place where
// everything that was started is remembered, so that a failed scenario leaves nothing running.

import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { errorText } from '../../src/common/index.ts';
import { GoClient, JavaClient, PythonClient } from './clients.ts';
import { GantrySystem } from './gantry-system.ts';
import { JavaSystem } from './java-system.ts';
import type { Ports } from './ports.ts';
import type { BrokerOptions, RunningBroker, RunningNamesrv, System, SystemKind } from './system.ts';
import type { Need, Tools } from './toolchain.ts';

/** One thing that must be so. */
export interface Scenario {
  name: string;
  run(env: Env): Promise<void>;
}

/** Scenarios that belong together. Unless `shared` is none, one broker of the system under test serves all of them. */
export interface Suite {
  name: string;
  needs: readonly Need[];
  shared: 'none' | 'small files' | 'default files';
  /** Whose broker that is, where it is not the system under test; and more lines of its broker.conf. */
  broker?: { kind?: SystemKind; conf?: Record<string, string | number | boolean> };
  scenarios: readonly Scenario[];
}

/** The outcome of one suite. */
export interface SuiteResult {
  name: string;
  passed: number;
  failed: number;
  skipped: number;
  minutes: number;
}

/** What a scenario works with. */
export class Env {
  readonly dir: string;
  readonly sutKind: SystemKind;
  readonly #tools: Tools;
  readonly #ports: Ports;
  readonly #shared: RunningBroker | undefined;
  readonly #brokers: RunningBroker[] = [];
  readonly #namesrvs: RunningNamesrv[] = [];

  constructor(options: {
    dir: string;
    sutKind: SystemKind;
    tools: Tools;
    ports: Ports;
    shared?: RunningBroker | undefined;
  }) {
    this.dir = options.dir;
    this.sutKind = options.sutKind;
    this.#tools = options.tools;
    this.#ports = options.ports;
    this.#shared = options.shared;
    mkdirSync(this.dir, { recursive: true });
  }

  /** The suite's broker. */
  get broker(): RunningBroker {
    if (this.#shared === undefined) throw new Error('the suite has no shared broker');
    return this.#shared;
  }

  get java(): JavaClient {
    return new JavaClient(this.#tools.java!, this.dir);
  }

  get go(): GoClient {
    return new GoClient(this.#tools.go!, this.dir);
  }

  get python(): PythonClient {
    return new PythonClient(this.#tools.python!, this.dir);
  }

  /** Starts a broker that ends with the scenario at the latest. */
  async startBroker(
    kind: SystemKind,
    options: Omit<BrokerOptions, 'storeDir'> & { storeDir?: string },
  ): Promise<RunningBroker> {
    const storeDir = options.storeDir ?? join(this.dir, `store-${this.#brokers.length + 1}`);
    const broker = await this.#system(kind).startBroker({ ...options, storeDir });
    this.#brokers.push(broker);
    return broker;
  }

  /** Starts a name server that ends with the scenario at the latest. */
  async startNamesrv(kind: SystemKind): Promise<RunningNamesrv> {
    const namesrv = await this.#system(kind).startNamesrv();
    this.#namesrvs.push(namesrv);
    return namesrv;
  }

  /** The logs of what was started, for the report of a failure. */
  tails(): string {
    return [...(this.#shared ? [this.#shared] : []), ...this.#brokers]
      .map((broker) => `--- ${broker.kind} broker on ${broker.storeDir}\n${broker.tail()}`)
      .join('\n');
  }

  /** Ends everything that still runs. */
  async close(): Promise<void> {
    for (const broker of this.#brokers) await broker.kill().catch(() => {});
    for (const namesrv of this.#namesrvs) await namesrv.stop().catch(() => {});
  }

  #system(kind: SystemKind): System {
    return kind === 'java'
      ? new JavaSystem(
          this.#tools.java!,
          this.#ports,
          join(this.dir, `s${this.#brokers.length}-${this.#namesrvs.length}`),
        )
      : new GantrySystem(this.#ports, join(this.dir, `s${this.#brokers.length}-${this.#namesrvs.length}`));
  }
}

/** What a run is told. */
export interface RunOptions {
  dir: string;
  sutKind: SystemKind;
  tools: Tools;
  ports: Ports;
  /** Only scenarios whose `suite/name` contains one of these; all if there are none. */
  filters: readonly string[];
  print(line: string): void;
}

/** True if the filters leave anything of a suite. */
export function selected(suite: Suite, filters: readonly string[]): Scenario[] {
  return suite.scenarios.filter(
    (scenario) => filters.length === 0 || filters.some((filter) => `${suite.name}/${scenario.name}`.includes(filter)),
  );
}

/** Runs one suite and prints a line for each scenario. */
export async function runSuite(suite: Suite, options: RunOptions): Promise<SuiteResult> {
  const start = performance.now();
  const result: SuiteResult = { name: suite.name, passed: 0, failed: 0, skipped: 0, minutes: 0 };
  const scenarios = selected(suite, options.filters);
  const lacking = suite.needs.find((need) => options.tools.missing[need] !== undefined);
  if (lacking !== undefined) {
    result.skipped = scenarios.length;
    options.print(`skip ${suite.name} (${scenarios.length} scenarios): ${options.tools.missing[lacking]}`);
    return result;
  }
  const record = (name: string, began: number, failure: string | undefined) => {
    const seconds = ((performance.now() - began) / 1000).toFixed(1);
    if (failure === undefined) result.passed++;
    else result.failed++;
    options.print(`${failure === undefined ? 'ok  ' : 'FAIL'} ${suite.name}/${name} (${seconds} s)`);
    if (failure !== undefined) options.print(failure.replaceAll(/^/gm, '     '));
  };
  const base = join(options.dir, suite.name);
  const suiteEnv = new Env({ ...options, dir: base });
  let shared: RunningBroker | undefined;
  try {
    if (suite.shared !== 'none') {
      const began = performance.now();
      try {
        const { kind = options.sutKind, conf = {} } = suite.broker ?? {};
        const files = suite.shared === 'small files' ? { smallFiles: true } : { plain: true };
        shared = await suiteEnv.startBroker(kind, { ...files, conf });
      } catch (error) {
        record('start', began, errorText(error));
        return result;
      }
    }
    for (const scenario of scenarios) {
      const began = performance.now();
      const env = new Env({ ...options, dir: join(base, scenario.name.replaceAll(/[^\w-]+/g, '-')), shared });
      let failure: string | undefined;
      try {
        await scenario.run(env);
      } catch (error) {
        failure = `${error instanceof Error ? (error.stack ?? error.message) : String(error)}\n${env.tails()}`;
      }
      await env.close();
      record(scenario.name, began, failure);
    }
    if (shared !== undefined) {
      const began = performance.now();
      record('stops cleanly', began, await shared.stop().then(() => undefined, errorText));
    }
  } finally {
    await suiteEnv.close();
    result.minutes = (performance.now() - start) / 60_000;
  }
  return result;
}
