// The command `npm run test:e2e-public -- CHECKOUT [CLASS…]`: the public end-to-end tests for the Java remoting client
// (apache/rocketmq-e2e, java/e2e-v4), from a checkout that the user brings, first against RocketMQ's broker, then against
// Gantry, with the same settings. Prints what each case did on both, and `N pass on both, M differ`; exits with 1 if a case
// that passes on Java fails on Gantry. --system runs one of them alone; --threads cases run at once; --disabled runs the
// cases that the tests switch off as well; --keep leaves the directory with logs and reports.

import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { Child } from './child.ts';
import { GantrySystem } from './gantry-system.ts';
import { JavaSystem } from './java-system.ts';
import { Ports } from './ports.ts';
import { type Outcome, readReports, summary, table } from './public-e2e-report.ts';
import type { System, SystemKind } from './system.ts';
import { prepareTools } from './toolchain.ts';
import { InteropError } from './wait.ts';

/** What both brokers are started with: the defaults, with what the tests take for granted and files that fit a test machine. */
const SETTINGS = {
  brokerClusterName: 'DefaultCluster',
  enablePropertyFilter: true,
  mappedFileSizeCommitLog: 64 * 1024 * 1024,
  diskMaxUsedSpaceRatio: 95,
  fileReservedTime: 87_600,
};

const LIMIT_MS = 45 * 60_000;

const print = (line: string): void => void process.stdout.write(`${line}\n`);

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    system: { type: 'string', default: 'both' },
    threads: { type: 'string', default: '8' },
    disabled: { type: 'boolean', default: false },
    keep: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  },
});
const [checkout, ...classes] = positionals;

if (values.help || checkout === undefined || !['both', 'java', 'gantry'].includes(values.system)) {
  print(
    'usage: npm run test:e2e-public -- [--system both|java|gantry] [--threads N] [--disabled] [--keep] CHECKOUT [CLASS…]',
  );
  process.exit(values.help ? 0 : 2);
}
process.exit(await main(checkout));

async function main(source: string): Promise<number> {
  const dir = mkdtempSync(join(tmpdir(), 'gantry-e2e-public-'));
  const kinds: SystemKind[] = values.system === 'both' ? ['java', 'gantry'] : [values.system as SystemKind];
  let status = 1;
  try {
    const tests = copyTests(source, join(dir, 'tests'));
    const tools = prepareTools(new Set(['java']), print);
    if (tools.java === undefined) throw new InteropError(tools.missing.java ?? 'no Java');
    print('compiling the tests');
    await maven(tests, join(dir, 'compile.log'), ['test-compile']);
    const ports = new Ports();
    const outcomes = new Map<SystemKind, Map<string, Outcome>>();
    for (const kind of kinds) {
      const home = join(dir, kind);
      const system = kind === 'java' ? new JavaSystem(tools.java, ports, home) : new GantrySystem(ports, home);
      outcomes.set(kind, await runTests(system, tests, home));
    }
    print('');
    for (const line of table(kinds.map((kind) => [kind, outcomes.get(kind)!]))) print(line);
    const java = outcomes.get('java');
    const gantry = outcomes.get('gantry');
    if (java !== undefined && gantry !== undefined) {
      const result = summary(java, gantry);
      print(`${result.both} pass on both, ${result.differ} differ`);
      status = result.both === 0 || result.worse > 0 ? 1 : 0;
    } else {
      status = [...outcomes.values()].every((cases) => ![...cases.values()].includes('fail')) ? 0 : 1;
    }
  } catch (error) {
    print(error instanceof Error ? error.message : String(error));
  }
  if (values.keep) print(`directory: ${dir}`);
  else rmSync(dir, { recursive: true, force: true });
  return status;
}

/** A copy to build in. Its Lombok is one that runs on the JDKs of today; nothing else is changed. */
function copyTests(source: string, target: string): string {
  const java = join(source, 'java');
  if (!existsSync(join(java, 'e2e-v4', 'pom.xml'))) throw new InteropError(`${source} is no checkout of rocketmq-e2e`);
  mkdirSync(target, { recursive: true });
  for (const name of ['pom.xml', 'style', 'e2e-v4/pom.xml', 'e2e-v4/src']) {
    cpSync(join(java, name), join(target, name), { recursive: true });
  }
  const pom = join(target, 'pom.xml');
  const text = readFileSync(pom, 'utf8')
    .replace('<version>1.18.8</version>', '<version>1.18.38</version>')
    .replace(/<module>(e2e|e2e-spring)<\/module>/g, '');
  writeFileSync(pom, text);
  return target;
}

/** One run of all cases on one broker. */
async function runTests(system: System, tests: string, home: string): Promise<Map<string, Outcome>> {
  const started = performance.now();
  mkdirSync(home, { recursive: true });
  const reports = join(tests, 'e2e-v4', 'target', 'surefire-reports');
  rmSync(reports, { recursive: true, force: true });
  const broker = await system.startBroker({
    storeDir: join(home, 'store'),
    brokerName: 'broker-a',
    plain: true,
    conf: SETTINGS,
  });
  print(`running the tests on ${system.kind}`);
  try {
    await maven(tests, join(home, 'maven.log'), [
      'surefire:test',
      `-DnamesrvAddr=${broker.namesrvAddr}`,
      ...(classes.length > 0 ? [`-Dtest=${classes.join(',')}`, '-DfailIfNoTests=false'] : []),
      ...(values.disabled ? ['-Djunit.jupiter.conditions.deactivate=org.junit.*DisabledCondition'] : []),
      '-Djunit.jupiter.execution.parallel.config.strategy=fixed',
      `-Djunit.jupiter.execution.parallel.config.fixed.parallelism=${values.threads}`,
      '-Dmaven.test.failure.ignore=true',
      '-Dmaven.test.redirectTestOutputToFile=true',
    ]);
  } finally {
    await broker.stop().catch((error: unknown) => print(String(error)));
  }
  cpSync(reports, join(home, 'reports'), { recursive: true });
  print(`${system.kind}: ${((performance.now() - started) / 60_000).toFixed(1)} min`);
  return readReports(join(home, 'reports'));
}

async function maven(tests: string, logFile: string, words: readonly string[]): Promise<void> {
  const child = Child.server('mvn', 'mvn', ['-B', '-pl', 'e2e-v4', ...words], {
    cwd: tests,
    env: { ...process.env, cluster: SETTINGS.brokerClusterName },
    logFile,
  });
  await child.finish(LIMIT_MS);
}
