import assert from 'node:assert/strict';
import { test } from 'node:test';
import { runCompactionHistory } from './compaction-history.ts';

const SEEDS = Number(process.env['COMPACTION_SEEDS'] ?? 20);
const FROM = Number(process.env['COMPACTION_FROM'] ?? 1);

test(`${SEEDS} histories of a compaction topic: the newest message of each key stays, and nothing else that it should not`, async () => {
  let compactions = 0;
  let files = 0;
  for (let seed = FROM; seed < FROM + SEEDS; seed++) {
    try {
      const history = await runCompactionHistory(seed);
      compactions += history.compactions;
      files += history.files;
    } catch (error) {
      throw new Error(`seed ${seed}`, { cause: error });
    }
  }
  assert.ok(compactions > SEEDS / 4, `${compactions} compactions`);
  assert.ok(files > SEEDS / 10, `${files} files of the CommitLog removed`);
});
