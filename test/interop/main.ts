// The command `npm run test:interop [-- FILTER…]`: runs Gantry against the Java, Go and Python clients, the Java broker and
// the Java store, and ends with one line `N passed, N failed`. --system java puts a Java broker in Gantry's place, which tells whether
// a scenario itself is right; --lanes is how many suites run side by side (they mostly wait); --keep leaves the directories; --list names
// the scenarios.

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { Ports } from './ports.ts';
import { runSuite, type SuiteResult, selected } from './runner.ts';
import { suites } from './scenarios/index.ts';
import type { SystemKind } from './system.ts';
import { type Need, prepareTools } from './toolchain.ts';

const print = (line: string): void => void process.stdout.write(`${line}\n`);

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    system: { type: 'string', default: 'gantry' },
    lanes: { type: 'string', default: '2' },
    keep: { type: 'boolean', default: false },
    list: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  },
});

if (values.help || (values.system !== 'gantry' && values.system !== 'java')) {
  print(
    'usage: npm run test:interop -- [--system gantry|java] [--lanes N] [--keep] [--list] [PART OF A SCENARIO NAME…]',
  );
  process.exit(values.help ? 0 : 2);
}

const chosen = suites.filter((suite) => selected(suite, positionals).length > 0);
if (values.list) {
  for (const suite of chosen)
    for (const scenario of selected(suite, positionals)) print(`${suite.name}/${scenario.name}`);
  process.exit(0);
}
process.exit(await main());

async function main(): Promise<number> {
  const dir = mkdtempSync(join(tmpdir(), 'gantry-interop-'));
  const began = performance.now();
  const results: SuiteResult[] = [];
  let failed = 0;
  try {
    const needs = new Set<Need>(chosen.flatMap((suite) => suite.needs));
    if (values.system === 'java') needs.add('java');
    const tools = prepareTools(needs, print);
    const ports = new Ports();
    const options = { dir, sutKind: values.system as SystemKind, tools, ports, filters: positionals, print };
    const waiting = [...chosen];
    const lane = async (): Promise<void> => {
      for (let suite = waiting.shift(); suite !== undefined; suite = waiting.shift())
        results.push(await runSuite(suite, options));
    };
    await Promise.all(Array.from({ length: Math.max(1, Number(values.lanes) || 1) }, lane));
  } catch (error) {
    print(error instanceof Error ? error.message : String(error));
    failed++;
  }
  print('');
  for (const result of results) {
    const skipped = result.skipped > 0 ? `, ${result.skipped} skipped` : '';
    print(
      `${result.name}: ${result.passed} passed, ${result.failed} failed${skipped}, ${result.minutes.toFixed(1)} min`,
    );
  }
  print(`all: ${((performance.now() - began) / 60_000).toFixed(1)} min`);
  failed += sum(results, 'failed');
  if (failed > 0 || values.keep) print(`directories: ${dir}`);
  else rmSync(dir, { recursive: true, force: true });
  print(`${sum(results, 'passed')} passed, ${failed} failed`);
  return failed > 0 || chosen.length === 0 ? 1 : 0;
}

function sum(results: readonly SuiteResult[], field: 'passed' | 'failed'): number {
  return results.reduce((total, result) => total + result[field], 0);
}
