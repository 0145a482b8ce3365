// Opening each store, stopped or killed, arrives where Java arrived: ends of log and queues, units, reads, searches by time and by key.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { viewOf } from '../../src/common/index.ts';
import { FILE_STORES, goldenFiles, goldenManifest, packed } from './golden.ts';
import { candidates, filesBelow, goldenDisk, messagesWithKey, openIndex, openStore, ROOT } from './open-store.ts';
import { assertArrivedAt, assertUnits } from './outcome.ts';

function isKilled(name: string): boolean {
  return name.endsWith('-crash');
}

for (const name of FILE_STORES) {
  test(`${name}: opens where Java arrived`, async () => {
    const manifest = goldenManifest(name);
    assert.equal(manifest.abortFilePresent, isKilled(name));
    const opened = await openStore(goldenDisk(name), manifest.brokerConf);
    const java = manifest.javaAfterStart!;
    const comparison = { rules49: manifest.rocketmqVersion.startsWith('4.9') };
    await assertArrivedAt(opened, java, comparison);
    assert.equal(opened.store.recovery.clean, !isKilled(name));
    assert.deepEqual(opened.logger.texts('warn'), []);

    for (const query of java.indexQueries) {
      if (!query.queryMessage) continue;
      const result = await opened.store.queryMessage(query.topic, query.key, query.maxNum, query.begin, query.end, 'K');
      const offsets = result.records.map((record) => viewOf(record).getUint32(32));
      assert.deepEqual(offsets, query.phyOffsets, `${query.topic} ${query.key}`);
      assert.equal(result.indexLastUpdateTimestamp, query.indexLastUpdateTimestamp);
      assert.equal(result.indexLastUpdatePhyoffset, query.indexLastUpdatePhyoffset);
    }

    await opened.store.close();
    assertUnits(opened, java.queues, comparison);
  });
}

for (const name of FILE_STORES.filter((store) => !isKilled(store))) {
  test(`${name}: the index answers every query as Java's did`, async () => {
    const manifest = goldenManifest(name);
    const index = openIndex(goldenDisk(name), manifest.brokerConf);
    let asked = 0;
    for (const { queryMessage, topic, key, indexType, begin, end, phyOffsets } of manifest.javaAfterStart!
      .indexQueries) {
      if (queryMessage) continue;
      // Java answers at most 64 units, and a message twice that has a key twice.
      const expected = [...new Set(phyOffsets)];
      const found = await candidates(index, topic, key, begin, end, indexType ?? 'K');
      assert.deepEqual(phyOffsets.length === 64 ? found.slice(0, expected.length) : found, expected, `${topic} ${key}`);
      asked++;
    }
    assert.ok(asked > 50);
  });
}

for (const name of FILE_STORES.filter(isKilled)) {
  test(`${name}: after the kill every message is found by each of its keys, also those that Java lost`, async () => {
    const manifest = goldenManifest(name);
    const { fs, store } = await openStore(goldenDisk(name), manifest.brokerConf);
    await store.close();
    const index = openIndex(fs, manifest.brokerConf);
    for (const { queryMessage, topic, key, indexType, begin, end, phyOffsets } of manifest.javaAfterStart!
      .indexQueries) {
      // Narrow windows depend on where a file begins: units keep whole seconds from there. Java's newest file began anew.
      if (queryMessage || begin !== 0) continue;
      const found = await candidates(index, topic, key, begin, end, indexType ?? 'K');
      assert.deepEqual(
        [...new Set(phyOffsets)].filter((offset) => !found.includes(offset)),
        [],
        `${topic} ${key}`,
      );
      const type = indexType ?? 'K';
      const missing = messagesWithKey(manifest, topic, key, type).filter((offset) => !found.includes(offset));
      assert.deepEqual(missing, [], `${topic} ${key}`);
    }
  });

  test(`${name}: the recovered log and queues are Java's, byte for byte`, async () => {
    const manifest = goldenManifest(name);
    const { fs, store } = await openStore(goldenDisk(name), manifest.brokerConf);
    await store.close();
    const ours = filesBelow(packed(fs, ROOT), 'commitlog', 'consumequeue');
    const java = filesBelow(goldenFiles(`${name}-recovered`), 'commitlog', 'consumequeue');
    assert.deepEqual([...ours.keys()].sort(), [...java.keys()].sort());
    for (const [path, bytes] of java) assert.ok(Buffer.from(bytes).equals(Buffer.from(ours.get(path)!)), path);
    assert.equal(fs.stat(`${ROOT}/abort`), undefined, 'a clean stop');
  });
}
