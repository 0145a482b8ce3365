// ConsumeQueues and index built again from the CommitLog alone must be Java's files, byte for byte, names of index files apart.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FILE_STORES, goldenFiles, goldenManifest, packed } from './golden.ts';
import { filesBelow, goldenDisk, openStore, ROOT, withoutIndexNames } from './open-store.ts';

function assertSameFiles(actual: Map<string, Uint8Array>, expected: Map<string, Uint8Array>): void {
  assert.deepEqual([...actual.keys()].sort(), [...expected.keys()].sort());
  for (const [path, bytes] of expected) assert.ok(Buffer.from(bytes).equals(Buffer.from(actual.get(path)!)), path);
}

for (const name of FILE_STORES) {
  test(`${name}: ConsumeQueues and index are built again as Java built them`, async () => {
    const manifest = goldenManifest(name);
    const fs = goldenDisk(name);
    fs.removeTree(`${ROOT}/consumequeue`);
    fs.removeTree(`${ROOT}/index`);
    const { store } = await openStore(fs, manifest.brokerConf);
    assert.equal(store.watermarks.dispatched, manifest.endOfData);
    await store.close();
    // What a killed broker had not dispatched yet is in the queues that Java recovered.
    const killed = name.endsWith('-crash');
    const java = goldenFiles(killed ? `${name}-recovered` : name);
    assertSameFiles(filesBelow(packed(fs, ROOT), 'consumequeue'), filesBelow(java, 'consumequeue'));
    // Java's recovered index has one message twice, and before 5.5 tags were no keys: index-rebuild.test.ts compares what can be compared.
    if (killed || manifest.rocketmqVersion !== '5.5.0') return;
    assertSameFiles(
      filesBelow(withoutIndexNames(packed(fs, ROOT)), 'index'),
      filesBelow(withoutIndexNames(java), 'index'),
    );
  });
}
