// Index files built anew from nothing but the messages of a store must be Java's files, byte for byte; only their names (creation
// times) differ. Before 5.5 tags were no keys.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeClock, silentLogger } from '../../src/common/index.ts';
import { MemoryFileSystem } from '../../src/io/memory-file-system.ts';
import { IndexLayout, IndexService, keyHash, topicSeeds } from '../../src/store/index-file/index.ts';
import { FILE_STORES, type GoldenManifest, goldenFiles, goldenManifest, packed } from './golden.ts';

const SYS_TRANSACTION = 0xc;
const SYS_ROLLBACK = 0xc;

async function rebuilt(manifest: GoldenManifest): Promise<Uint8Array[]> {
  const fs = new MemoryFileSystem({ directories: ['/store'] });
  const { maxHashSlotNum, maxIndexNum } = manifest.brokerConf;
  const index = IndexService.open({
    fs,
    clock: new FakeClock(),
    logger: silentLogger,
    path: '/store/index',
    layout: new IndexLayout(Number(maxHashSlotNum), Number(maxIndexNum)),
    lastExitClean: true,
    indexMsgTimestamp: 0,
  });
  for (const message of manifest.messages) {
    if (!index.beginMessage(message.physicalOffset))
      assert.fail(`offset ${message.physicalOffset} was taken for known`);
    if ((message.sysFlag & SYS_TRANSACTION) === SYS_ROLLBACK) continue;
    const seeds = topicSeeds(message.topic);
    const put = (seed: number, key: string): void => {
      const bytes = Buffer.from(key, 'utf8');
      index.putKey(keyHash(seed, bytes, 0, bytes.length), message.physicalOffset, message.storeTimestamp);
    };
    if (message.uniqKey !== null) put(seeds.key, message.uniqKey);
    for (const key of (message.keys ?? '').split(' ')) if (key !== '') put(seeds.key, key);
    if (message.tags && manifest.rocketmqVersion === '5.5.0') put(seeds.tag, message.tags);
  }
  await index.close();
  return [...packed(fs, '/store', 'index').values()];
}

for (const name of FILE_STORES.filter((store) => !store.endsWith('-crash'))) {
  test(`${name}: the index built from the messages is Java's`, async () => {
    const java = [...goldenFiles(name)].filter(([path]) => /^index\/\d+$/.test(path)).sort();
    const ours = await rebuilt(goldenManifest(name));
    assert.equal(ours.length, java.length);
    ours.forEach((bytes, i) => {
      assert.deepEqual(Buffer.from(bytes), Buffer.from(java[i]![1]), java[i]![0]);
    });
  });
}

// In controller mode Java's restart dispatched the last message again, and its index has that one's keys twice; ours never does.
const INDEXED_TWICE = '550-controller-crash';

for (const name of FILE_STORES.filter((store) => store.endsWith('-crash') && store !== INDEXED_TWICE)) {
  test(`${name}: Java's files are those built from the messages, as far as the killed broker had come`, async () => {
    const manifest = goldenManifest(name);
    const java = [...goldenFiles(name)].filter(([path]) => /^index\/\d+$/.test(path)).sort();
    const ours = await rebuilt(manifest);
    assert.ok(java.length === ours.length || java.length === ours.length - 1);
    java.forEach(([path, bytes], i) => {
      const last = i === java.length - 1;
      const unitsAt = 40 + 4 * Number(manifest.brokerConf['maxHashSlotNum']);
      const units = Buffer.from(bytes).readInt32BE(36);
      const from = last ? unitsAt : 0;
      const to = last ? unitsAt + 20 * units : bytes.length;
      assert.deepEqual(Buffer.from(ours[i]!.subarray(from, to)), Buffer.from(bytes.subarray(from, to)), path);
    });
  });
}

test(`${INDEXED_TWICE}: Java's units are those built from the messages, those of one message twice`, async () => {
  const manifest = goldenManifest(INDEXED_TWICE);
  const [java] = [...goldenFiles(INDEXED_TWICE)]
    .filter(([path]) => /^index\/\d+$/.test(path))
    .map(([, bytes]) => bytes);
  const [ours] = await rebuilt(manifest);
  const entries = (bytes: Uint8Array): string[] => {
    const buffer = Buffer.from(bytes);
    const list: string[] = [];
    for (let unit = 1; unit < buffer.readInt32BE(36); unit++) {
      const at = 440 + 20 * unit;
      list.push(`${buffer.readInt32BE(at)} ${buffer.readBigInt64BE(at + 4)}`);
    }
    return list;
  };
  const mine = entries(ours!);
  // The killed broker had not come to the last record.
  const last = String(manifest.messages.at(-1)!.physicalOffset);
  assert.deepEqual(
    [...new Set(entries(java!))],
    mine.filter((entry) => entry.split(' ')[1] !== last),
  );
  assert.equal(new Set(mine).size, mine.length);
  assert.equal(entries(java!).length, mine.length);
});
