// Public faults of reading, by their numbers, on stores that Java wrote.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { applyEdits, goldenDamage, goldenManifest } from './golden.ts';
import { goldenDisk, openStore, ROOT, read } from './open-store.ts';

test('B76: an old physical offset never yields bytes of another record, and an old queue offset leads to the first that is there', async () => {
  const manifest = goldenManifest('550-plain-crash');
  const damage = goldenDamage('first-commitlog-gone');
  const fs = goldenDisk(damage.archive);
  applyEdits(fs, ROOT, damage.edits);
  fs.settle();
  const { store } = await openStore(fs, manifest.brokerConf);
  const { minimum } = store.watermarks;
  assert.ok(minimum > 0);
  for (const offset of [0, 1, minimum - 1]) assert.equal(await store.recordAt(offset), undefined, `offset ${offset}`);
  for (const message of manifest.messages.filter((m) => m.physicalOffset < minimum)) {
    assert.equal(await store.recordAt(message.physicalOffset), undefined);
  }
  const first = manifest.messages.find((m) => m.topic === 'GoldenOne' && m.physicalOffset >= minimum)!;
  assert.ok(first.queueOffset > 0);
  const found = await read(store, { topic: 'GoldenOne', queueId: 0, offset: 0, maxMsgs: 32 });
  assert.deepEqual([found.bytes, found.nextBeginOffset], [0, first.queueOffset]);
  assert.equal(store.minOffsetInQueue('GoldenOne', 0), first.queueOffset);
});
