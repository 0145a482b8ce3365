// kill -9 on the real broker: `npm run crash -- --runs 200`. Each run is a seed (crash-run.ts). A run that fails keeps its directory and
// names the command that replays its seed; the last line is `N passed, N failed`, and the exit code is 1 if any failed.

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { systemClock } from '../../src/common/index.ts';
import { Ports } from '../interop/ports.ts';
import { crashRun, type RunFigures, type StartFindings } from './crash-run.ts';

const HELP = `npm run crash -- [options]
  --runs N        runs (default 20)
  --from N        seed of the first one (default 0); odd seeds flush synchronously
  --seed N        one run of this seed, whose directory is kept
  --loadgen PATH  another load generator that sends along and verifies what it sent (default: GANTRY_LOADGEN)
  --dir PATH      directory for the runs (default: a new one among the temporary files)
  --ports A-B     ports on 127.0.0.1 (default 23000-23999)
`;

const { values } = parseArgs({
  options: {
    runs: { type: 'string', default: '20' },
    from: { type: 'string', default: '0' },
    seed: { type: 'string' },
    loadgen: { type: 'string', default: process.env['GANTRY_LOADGEN'] ?? '' },
    dir: { type: 'string', default: '' },
    ports: { type: 'string', default: '23000-23999' },
    help: { type: 'boolean', default: false },
  },
});

async function main(): Promise<number> {
  if (values.help) {
    process.stdout.write(HELP);
    return 0;
  }
  const base = values.dir === '' ? mkdtempSync(join(tmpdir(), 'gantry-crash-')) : values.dir;
  const ports = new Ports(values.ports);
  const loadgen = values.loadgen === '' ? undefined : values.loadgen;
  const first = Number(values.seed ?? values.from);
  const runs = values.seed === undefined ? Number(values.runs) : 1;
  const started = systemClock.monotonic();
  const totals = new Totals();
  let failed = 0;
  for (let seed = first; seed < first + runs; seed++) {
    const dir = join(base, `seed-${seed}`);
    const runStarted = systemClock.monotonic();
    const seconds = (): string => `${((systemClock.monotonic() - runStarted) / 1000).toFixed(1)} s`;
    try {
      const figures = await crashRun({ seed, dir, ports, loadgen });
      totals.add(figures);
      console.log(`ok   seed ${seed}  ${describe(figures)}, ${seconds()}`);
      if (values.seed === undefined) rmSync(dir, { recursive: true, force: true });
      else console.log(`     kept in ${dir}`);
    } catch (error) {
      failed++;
      const text = error instanceof Error ? (error.name === 'CrashError' ? error.message : error.stack) : String(error);
      console.log(`FAIL seed ${seed}, ${seconds()}\n${text?.replaceAll(/^/gm, '     ')}`);
      console.log(
        `     kept in ${dir}; again: npm run crash -- --seed ${seed}${loadgen ? ` --loadgen ${loadgen}` : ''}`,
      );
    }
  }
  if (failed === 0 && values.seed === undefined && values.dir === '') rmSync(base, { recursive: true, force: true });
  console.log(totals.text());
  console.log(`${((systemClock.monotonic() - started) / 60_000).toFixed(1)} minutes`);
  console.log(`${runs - failed} passed, ${failed} failed`);
  return failed === 0 ? 0 : 1;
}

function describe(figures: RunFigures): string {
  const { kills, startKills, acknowledged, unpromised, refused, loadgen } = figures;
  return [
    figures.syncFlush ? 'SYNC_FLUSH ' : 'ASYNC_FLUSH',
    `${kills + startKills} kills`,
    `${acknowledged + loadgen.acked} acknowledged`,
    `${unpromised} more found`,
    ...(refused > 0 ? [`${refused} refused`] : []),
    `restart ${Math.round(figures.restartMs)} ms`,
  ].join(', ');
}

/** Sums over all runs that passed; what is missing in a run makes it fail. */
class Totals {
  #kills = 0;
  #startKills = 0;
  #acknowledged = 0;
  #deletions = 0;
  #generated = 0;
  #unpromised = 0;
  #refused = 0;
  readonly #starts: StartFindings = { tornTails: 0, backupsUsed: 0, indexesCut: 0, unfinishedFiles: 0 };
  #restartMs = 0;

  add(figures: RunFigures): void {
    this.#kills += figures.kills;
    this.#startKills += figures.startKills;
    this.#acknowledged += figures.acknowledged;
    this.#deletions += figures.deletions;
    this.#generated += figures.loadgen.acked;
    this.#unpromised += figures.unpromised;
    this.#refused += figures.refused;
    this.#starts.tornTails += figures.starts.tornTails;
    this.#starts.backupsUsed += figures.starts.backupsUsed;
    this.#starts.indexesCut += figures.starts.indexesCut;
    this.#starts.unfinishedFiles += figures.starts.unfinishedFiles;
    this.#restartMs = Math.max(this.#restartMs, figures.restartMs);
  }

  text(): string {
    return (
      `runs that passed: ${this.#kills} kills under load, ${this.#startKills} during a start; ` +
      `${this.#acknowledged} messages acknowledged${this.#generated > 0 ? ` and ${this.#generated} to the other generator` : ''}, ` +
      `all there, once, unchanged, in place; ${this.#deletions} deletions of a topic; ${this.#unpromised} more found whole; ${this.#refused} refused; ` +
      `restarts: ${this.#starts.tornTails} cut a torn log, ${this.#starts.backupsUsed} read a backup of a table, ` +
      `${this.#starts.indexesCut} put keys in again, ${this.#starts.unfinishedFiles} files were unfinished, slowest ${Math.round(this.#restartMs)} ms`
    );
  }
}

// A broken pipe or an interrupt must not leave brokers behind: children are killed when this process exits.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(signal, () => process.exit(130));
process.exitCode = await main();
