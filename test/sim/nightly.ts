// Runs many simulated histories: `npm run sim -- --seeds 10000 --from 0`, or replays one: `npm run sim -- --seed 17`, which tells
// each event. `--flush SYNC_FLUSH` or `ASYNC_FLUSH` instead of what the seed draws; `--segments mapped` (or another name in SEGMENTS).
// `--damage refuse`, `cut` or `skip`: bits of durable records flip, too (implies --plain). `--kinds`: histories of all kinds of queues
// instead, `--pop`: of pops, `--compaction`: of a compaction topic. Ends with exit code 1 if any seed fails, after naming each.

import { parseArgs } from 'node:util';
import { runCompactionHistory } from './compaction-history.ts';
import { type HistoryOptions, SEGMENTS, type SegmentsUnderTest } from './history-options.ts';
import { runKindsHistory } from './kinds-history.ts';
import { runPopHistory } from './pop-history.ts';
import { runHistory } from './power-cut.ts';

const { values } = parseArgs({
  options: {
    seeds: { type: 'string', default: '1000' },
    from: { type: 'string', default: '0' },
    seed: { type: 'string' },
    flush: { type: 'string' },
    compaction: { type: 'boolean', default: false },
    kinds: { type: 'boolean', default: false },
    plain: { type: 'boolean', default: false },
    pop: { type: 'boolean', default: false },
    'first-failure': { type: 'boolean', default: false },
    damage: { type: 'string' },
    segments: { type: 'string', default: 'buffered' },
    retention: { type: 'boolean', default: false },
    'sync-lies': { type: 'boolean', default: false },
  },
});
const { flush } = values;
if (!(values.segments in SEGMENTS)) throw new Error(`--segments ${values.segments}`);
const segments = values.segments as SegmentsUnderTest;
if (flush !== undefined && flush !== 'SYNC_FLUSH' && flush !== 'ASYNC_FLUSH') throw new Error(`--flush ${flush}`);
const { damage } = values;
if (damage !== undefined && damage !== 'refuse' && damage !== 'cut' && damage !== 'skip')
  throw new Error(`--damage ${damage}`);
const options: HistoryOptions = {
  syncLies: values['sync-lies'],
  plain: values.plain,
  segments,
  retention: values.retention,
  ...(flush === undefined ? {} : { flushDiskType: flush }),
  ...(damage === undefined ? {} : { damage }),
};
const flags =
  (flush === undefined ? '' : ` --flush ${flush}`) +
  (damage === undefined ? '' : ` --damage ${damage}`) +
  (segments === 'buffered' ? '' : ` --segments ${segments}`) +
  `${options.syncLies ? ' --sync-lies' : ''}${options.plain ? ' --plain' : ''}${options.retention ? ' --retention' : ''}` +
  `${values.kinds ? ' --kinds' : ''}${values.pop ? ' --pop' : ''}${values.compaction ? ' --compaction' : ''}`;
const run = async (seed: number, more: HistoryOptions): Promise<object> => {
  if (values.kinds) return await runKindsHistory(seed);
  if (values.compaction) return await runCompactionHistory(seed, more);
  return values.pop ? await runPopHistory(seed, more) : await runHistory(seed, more);
};

if (values.seed !== undefined) {
  const report = await run(Number(values.seed), { ...options, trace: (line) => console.log(line) });
  console.log(report);
} else {
  const from = Number(values.from);
  const to = from + Number(values.seeds);
  const started = performance.now();
  const totals: Record<string, number> = {};
  let failed = 0;
  for (let seed = from; seed < to; seed++) {
    try {
      for (const [name, n] of Object.entries(await run(seed, options))) totals[name] = (totals[name] ?? 0) + n;
    } catch (error) {
      failed++;
      console.log(`seed ${seed} fails: ${error instanceof Error ? error.message : String(error)}`);
      console.log(`  replay: npm run sim -- --seed ${seed}${flags}`);
      if (values['first-failure']) break;
    }
  }
  console.log(totals);
  console.log(`${to - from - failed} passed, ${failed} failed, ${Math.round((performance.now() - started) / 1000)} s`);
  process.exitCode = failed === 0 ? 0 : 1;
}
