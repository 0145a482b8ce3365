// What Surefire's reports say of a run of the public tests, and the comparison of two runs.

import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/** How a case ended: at its last try. */
export type Outcome = 'pass' | 'flaky' | 'fail' | 'skipped';

/** The cases of a folder of reports, by class and method. A case that passed at its second try is flaky. */
export function readReports(folder: string): Map<string, Outcome> {
  const cases = new Map<string, Outcome>();
  for (const name of readdirSync(folder).sort()) {
    if (name.startsWith('TEST-') && name.endsWith('.xml')) parseReport(readFileSync(join(folder, name), 'utf8'), cases);
  }
  return cases;
}

/**
 * Adds the cases of one report. With classes side by side, Surefire writes a case into the report of any of them, and its second
 * try into another one: a failure here and a pass there is a pass at the second try.
 */
export function parseReport(xml: string, cases: Map<string, Outcome>): void {
  for (const [, head, rest] of xml.matchAll(/<testcase\b([^>]*?)(?:\/>|>([\s\S]*?)<\/testcase>)/g)) {
    const method = /\bname="([^"(]*)/.exec(head!)?.[1];
    const owner = /\bclassname="([^"]*)"/.exec(head!)?.[1];
    if (method === undefined || owner === undefined) continue;
    const name = `${owner.slice(owner.lastIndexOf('.') + 1)}.${method}`;
    const outcome = outcomeOf(rest ?? '');
    cases.set(name, together(cases.get(name), outcome));
  }
}

function together(one: Outcome | undefined, other: Outcome): Outcome {
  if (one === undefined || one === other) return other;
  return passes(one) || passes(other) ? 'flaky' : 'fail';
}

function outcomeOf(body: string): Outcome {
  if (/<(failure|error)\b/.test(body)) return 'fail';
  if (/<(flakyFailure|flakyError)\b/.test(body)) return 'flaky';
  return /<skipped\b/.test(body) ? 'skipped' : 'pass';
}

/** Lines of a table: a case and what it did in each run. */
export function table(runs: readonly (readonly [string, Map<string, Outcome>])[]): string[] {
  const names = [...new Set(runs.flatMap(([, cases]) => [...cases.keys()]))].sort();
  const width = Math.max(4, ...names.map((name) => name.length));
  const lines = [`${'case'.padEnd(width)}  ${runs.map(([kind]) => kind.padEnd(8)).join('')}`.trimEnd()];
  for (const name of names) {
    lines.push(
      `${name.padEnd(width)}  ${runs.map(([, cases]) => (cases.get(name) ?? 'absent').padEnd(8)).join('')}`.trimEnd(),
    );
  }
  return lines;
}

/** How many cases pass in both runs, how many pass in one of them only, and how many of these fail on Gantry. */
export function summary(
  java: Map<string, Outcome>,
  gantry: Map<string, Outcome>,
): { both: number; differ: number; worse: number } {
  const counts = { both: 0, differ: 0, worse: 0 };
  for (const name of new Set([...java.keys(), ...gantry.keys()])) {
    const onJava = passes(java.get(name));
    const onGantry = passes(gantry.get(name));
    if (onJava && onGantry) counts.both++;
    else if (onJava || onGantry) counts.differ++;
    if (onJava && !onGantry) counts.worse++;
  }
  return counts;
}

function passes(outcome: Outcome | undefined): boolean {
  return outcome === 'pass' || outcome === 'flaky';
}
