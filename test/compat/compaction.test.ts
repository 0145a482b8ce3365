// The compaction topic of Java's store 550-features: opened, it answers as Java does and its files stay as they are; built again from the CommitLog
// and compacted, its log, its queue and its checkpoint are Java's byte for byte.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { verifyCompaction } from '../../src/store/index.ts';
import { goldenFiles, goldenManifest, packed, sha256 } from './golden.ts';
import { goldenDisk, openStore, ROOT, read } from './open-store.ts';

const NAME = '550-features';
const TOPIC = 'GoldenCompact';
const CHECKPOINT = 'compaction/position-checkpoint';

/** The files below `compaction/`, without what a save leaves beside it. */
function compactionFiles(files: ReadonlyMap<string, Uint8Array>): Map<string, string> {
  const found = new Map<string, string>();
  for (const [path, bytes] of [...files].sort(([a], [b]) => (a < b ? -1 : 1))) {
    if (path.startsWith('compaction/') && !/(\.bak|\/)$/.test(path)) found.set(path, sha256(bytes));
  }
  return found;
}

test('a compaction topic of a Java store: pulls are answered as by Java, and a start and stop leaves its files as they are', async () => {
  const manifest = goldenManifest(NAME);
  const fs = goldenDisk(NAME);
  const { store, logger } = await openStore(fs, manifest.brokerConf);
  const reads = manifest.javaAfterStart!.reads.filter(({ topic }) => topic === TOPIC);
  assert.equal(reads.length, 7);
  for (const golden of reads) assert.deepEqual(await read(store, golden), golden);
  await store.close();
  assert.deepEqual(compactionFiles(packed(fs, ROOT)), compactionFiles(goldenFiles(NAME)));
  assert.deepEqual(logger.texts('warn'), []);
});

test('what the tool lists of a Java store is what Java says', () => {
  const { compactionLogFiles } = goldenManifest(NAME);
  const [report, ...others] = verifyCompaction(goldenDisk(NAME), ROOT);
  assert.deepEqual(others, []);
  const { topic, queueId, compactedTo, faults, files } = report!;
  assert.deepEqual({ topic, queueId, compactedTo, faults }, { topic: TOPIC, queueId: 0, compactedTo: 98, faults: [] });
  const rows = compactionLogFiles!.map(({ file, records, endPosition }) => ({
    name: file,
    records: records.length,
    bytes: endPosition,
    firstOffset: records[0]![0],
    lastOffset: records.at(-1)![0],
  }));
  assert.deepEqual(files, rows);
});

test('a compaction log that is lost is built again from the CommitLog, and compacted to the bytes that Java came to', async () => {
  const manifest = goldenManifest(NAME);
  const fs = goldenDisk(NAME);
  fs.removeTree(`${ROOT}/compaction`);
  const { store } = await openStore(fs, manifest.brokerConf);
  await store.compaction!.flush();
  const outcome = await store.compaction!.compact(TOPIC, 0);
  assert.deepEqual(outcome, { records: 99, kept: 13, files: 2, filesBefore: 11 });
  await store.close();
  const java = compactionFiles(goldenFiles(NAME));
  const ours = compactionFiles(packed(fs, ROOT));
  assert.deepEqual([...ours.keys()], [...java.keys()]);
  for (const [path, bytes] of java) assert.equal(ours.get(path), bytes, path);
  assert.ok(java.has(CHECKPOINT));
});
