// Shows that the simulation can fail: `npm run mutations` puts each fault of mutation-list.ts into a copy of the compiled engine, runs up to
// `--seeds` histories (default 300) on it and tells which seed noticed first, and what it said. Exit code 1 if a fault is not noticed, or if
// its place in the code is not there any more. `--only WORD` for the mutations whose name holds a word; `--markdown` prints the table of
// docs/reliability.md.

import { spawn } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { type Change, MUTATIONS, type Mutation } from './mutation-list.ts';

const { values } = parseArgs({
  options: {
    seeds: { type: 'string', default: '300' },
    from: { type: 'string' },
    only: { type: 'string', default: '' },
    markdown: { type: 'boolean', default: false },
  },
});
/** Longer than any run of the sound engine by far: an engine that does not come to an end is noticed, too. */
const LIMIT_MS = 120_000;

const compiled = dirname(dirname(dirname(fileURLToPath(import.meta.url))));

/** What became of a mutated engine. */
interface Outcome {
  /** The first seed that noticed; undefined if none did, -1 if the process ended without a verdict. */
  seed: number | undefined;
  said: string;
}

/** Replaces the one place that a change names. @throws Error if it is not there exactly once */
function apply(root: string, { file, find, replace }: Change): void {
  const path = join(root, 'src', file);
  const text = readFileSync(path, 'utf8');
  const places = text.split(find).length - 1;
  if (places !== 1) {
    throw new Error(
      `src/${file} holds ${places} times instead of once:\n${find}\nmend the mutation in test/sim/mutation-list.ts`,
    );
  }
  writeFileSync(
    path,
    text.replace(find, () => replace),
  );
}

async function run(mutation: Mutation, seeds: string = values.seeds): Promise<Outcome> {
  const root = mkdtempSync(join(tmpdir(), 'gantry-mutation-'));
  try {
    for (const part of ['src', 'test']) cpSync(join(compiled, part), join(root, part), { recursive: true });
    writeFileSync(join(root, 'package.json'), '{"type":"module"}');
    const modules = compiled.replace(/\/(dist|\.build\/[^/]+)$/, '/node_modules');
    symlinkSync(modules, join(root, 'node_modules'));
    for (const change of mutation.changes) apply(root, change);
    return await simulate(root, seeds, mutation);
  } finally {
    rmSync(root, { recursive: true, force: true });
  }
}

function simulate(root: string, seeds: string, { histories, from = 0 }: Mutation): Promise<Outcome> {
  const first = values.from ?? String(from);
  const args = [join(root, 'test/sim/nightly.js'), '--seeds', seeds, '--from', first, '--first-failure'];
  if (histories !== undefined) args.push(histories);
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'pipe'], timeout: LIMIT_MS });
    let output = '';
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (text: Buffer) => (output += text.toString()));
    child.on('error', reject);
    child.on('exit', (code, signal) => {
      const failed = /^seed (\d+) fails: (.*)$/m.exec(output);
      if (failed !== null) resolve({ seed: Number(failed[1]), said: failed[2]! });
      else if (code === 0) resolve({ seed: undefined, said: 'NOT NOTICED' });
      else resolve({ seed: -1, said: firstError(output, signal) });
    });
  });
}

/** What a run died of that did not end with a verdict. */
function firstError(output: string, signal: string | null): string {
  return signal === null
    ? (/^\w*Error.*$/m.exec(output)?.[0] ?? output.slice(-200))
    : `no end within ${LIMIT_MS / 1000} s`;
}

// The engine as it is must pass, or what follows says nothing.
const sound = await run({ name: 'none', changes: [] }, '10');
if (sound.seed !== undefined)
  throw new Error(`the engine without a mutation fails at seed ${sound.seed}: ${sound.said}`);

const chosen = MUTATIONS.filter(({ name }) => name.includes(values.only));
const survivors: string[] = [];
const separator = values.markdown ? ' | ' : '  ';
if (values.markdown) console.log('| mutation | seed | what was said |\n|---|---:|---|');
for (const mutation of chosen) {
  const { seed, said } = await run(mutation);
  if (seed === undefined) survivors.push(mutation.name);
  const words = said.length > 150 ? `${said.slice(0, 147)}...` : said;
  const line = [mutation.name.padEnd(72), String(seed ?? '-').padStart(4), words].join(separator);
  console.log(values.markdown ? `| ${line} |` : line);
}
console.log(
  `${chosen.length - survivors.length} noticed, ${survivors.length} not noticed within ${values.seeds} seeds`,
);
process.exitCode = survivors.length === 0 && chosen.length > 0 ? 0 : 1;
