// A thread scans the newest index file at a start after a kill; what it finds is what the opening would have found.

import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { CollectingLogger } from '../../common/index.ts';
import { nodeFileSystem } from '../../io/index.ts';
import { IndexLayout, type IndexOptions } from './index.ts';
import {
  assertComplete,
  type Bench,
  bench,
  dispatchAgain,
  flushed,
  memory,
  names,
  open,
  putMessages,
} from './index-fixture.test.support.ts';
import { scanUnits } from './index-scan.ts';
import { ScanAhead, scanAhead } from './scan-ahead.ts';

const folder = mkdtempSync(join(tmpdir(), 'gantry-ahead-'));
process.once('exit', () => rmSync(folder, { recursive: true, force: true }));

/** After 60 messages and a kill. */
async function killed(b: Bench): Promise<IndexOptions> {
  const index = open(b);
  putMessages(index, 0, 60);
  await flushed(index);
  index.release();
  const { fs, clock, logger, layout } = b;
  return { fs, clock, logger, path: `${b.root}/index`, layout, lastExitClean: false, indexMsgTimestamp: 0 };
}

test('an index file that a thread has scanned is opened as one that the loop scans', async () => {
  const b = bench(nodeFileSystem, new IndexLayout(16, 500), join(folder, 'scanned'));
  const options = await killed(b);
  const scanned = await scanAhead(options, 1)!.end();
  const file = nodeFileSystem.open(`${options.path}/${names(b)[0]}`, 'read');
  assert.deepEqual(scanned!.scan, scanUnits(file, b.layout, 0, Number.MAX_SAFE_INTEGER));
  file.close();
  // It is what counts: the file is not scanned again.
  const { scan } = scanned!;
  const found = scan.units;
  Object.defineProperty(scan, 'units', { get: () => found, set: () => assert.fail('the scan was given up') });
  const index = open(b, { lastExitClean: false, scanned });
  dispatchAgain(index, 60);
  await assertComplete(index, 60);
  await index.close();
});

test('a thread scans where much is to be looked at, after an unclean stop, on a real disk', async () => {
  const options = await killed(bench(nodeFileSystem, new IndexLayout(16, 500), join(folder, 'when')));
  assert.equal(scanAhead(options), undefined);
  assert.equal(scanAhead({ ...options, lastExitClean: true }, 1), undefined);
  assert.equal(scanAhead(await killed(memory(16, 500)), 1), undefined);
});

test('a thread that dies is named, and costs its help only', async () => {
  const logger = new CollectingLogger();
  const path = join(folder, 'none');
  const ahead = new ScanAhead({ path, slots: 16, units: 500, minOffset: 0, maxOffset: 1 }, logger);
  assert.equal(await ahead.end(), undefined);
  assert.match(logger.texts('warn').join('\n'), /none is not there \(.*ENOENT.*\): it is scanned later/);
});
