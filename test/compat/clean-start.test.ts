// Starting and stopping a store that was stopped cleanly changes nothing but markers, the checkpoint and our own folder.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { StoreCheckpoint } from '../../src/store/checkpoint/index.ts';
import { FILE_STORES, goldenFiles, goldenManifest, packed } from './golden.ts';
import { goldenDisk, openStore, ROOT } from './open-store.ts';

for (const name of FILE_STORES.filter((store) => !store.endsWith('-crash'))) {
  test(`${name}: a start and a stop change no file of RocketMQ's but the checkpoint`, async () => {
    const manifest = goldenManifest(name);
    const fs = goldenDisk(name);
    const { store, logger } = await openStore(fs, manifest.brokerConf);
    assert.equal(fs.stat(`${ROOT}/abort`)?.isDirectory, false, 'a running store is marked');
    await store.close();

    const after = packed(fs, ROOT);
    for (const [path, before] of goldenFiles(name)) {
      if (path.endsWith('/')) continue;
      const bytes = after.get(path);
      assert.ok(bytes !== undefined, `${path} is gone`);
      if (path !== 'checkpoint') assert.ok(Buffer.from(bytes).equals(Buffer.from(before)), `${path} was changed`);
      after.delete(path);
    }
    assert.deepEqual(
      [...after.keys()].filter((path) => !path.startsWith('gantry/')),
      [],
      'new files',
    );
    assert.deepEqual(logger.texts('warn'), []);
    assert.deepEqual(logger.texts('error'), []);

    const checkpoint = StoreCheckpoint.load(fs, `${ROOT}/checkpoint`);
    const last = manifest.messages.at(-1)!;
    assert.equal(checkpoint.physicMsgTimestamp, last.storeTimestamp);
    assert.equal(checkpoint.logicsPhysicalOffset, last.physicalOffset);
    assert.equal(checkpoint.logicsMsgTimestamp, last.storeTimestamp);
    assert.equal(checkpoint.indexMsgTimestamp, manifest.checkpoint['indexMsgTimestamp']);
  });
}
