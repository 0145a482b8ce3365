// The checkpoints of Java 4.9.7 to 5.5.0, field by field as StoreCheckpoint of that release read them.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { StoreCheckpoint } from '../../src/store/checkpoint/index.ts';
import { FILE_STORES, goldenManifest } from './golden.ts';
import { goldenDisk, ROOT } from './open-store.ts';

const FIELDS = [
  'physicMsgTimestamp',
  'logicsMsgTimestamp',
  'indexMsgTimestamp',
  'masterFlushedOffset',
  'confirmPhyOffset',
  'logicsPhysicalOffset',
] as const;

for (const name of FILE_STORES) {
  test(`${name}: the checkpoint says what Java read`, () => {
    const java = goldenManifest(name).checkpoint;
    const ours = StoreCheckpoint.load(goldenDisk(name), `${ROOT}/checkpoint`);
    let known = 0;
    for (const field of FIELDS) {
      // A field that the release did not have is zeros in its file.
      assert.equal(ours[field], java[field] ?? 0, field);
      if (java[field] !== undefined) known++;
    }
    assert.ok(known >= 3);
  });
}
