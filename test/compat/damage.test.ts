// Thirteen ways to damage 550-plain-crash, with what Java 5.5.0 made of each. We arrive at the same ends of log and queues, or keep what
// Java loses by a limit of its own; where that is so, the case says why.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { GantryError } from '../../src/common/index.ts';
import type { MemoryFileSystem } from '../../src/io/memory-file-system.ts';
import { applyEdits, goldenDamage, goldenManifest, packed, sha256 } from './golden.ts';
import { candidates, goldenDisk, type Opened, openIndex, openStore, ROOT, read } from './open-store.ts';
import { assertArrivedAt, assertUnits, type Comparison } from './outcome.ts';

const manifest = goldenManifest('550-plain-crash');
const undamaged = manifest.javaAfterStart!;

interface Case {
  name: string;
  /** Ends that differ from Java's on purpose. */
  comparison?: Comparison;
  /** Java's outcome to compare with: of the damaged store, or of the whole one, when nothing needs to be lost. */
  compareWith?: 'damaged' | 'undamaged';
  /** What the one warning about the log says; undefined: the log is sound. */
  cut?: RegExp;
  /** More to check while the store is open. */
  check?: (opened: Opened) => Promise<void>;
}

const CASES: Case[] = [
  { name: 'bad-crc-middle', cut: /byte 33674 \(offset 361354\): the body CRC is wrong/ },
  { name: 'bad-crc-tail', cut: /byte 40117 \(offset 367797\): the body CRC is wrong/ },
  { name: 'bad-magic-middle', cut: /byte 33674 \(offset 361354\): unknown magic 0xdeadbeef/ },
  { name: 'cq-ahead' },
  { name: 'empty-extra-commitlog' },
  {
    name: 'first-commitlog-gone',
    // B76: Java keeps minimum 0 for a queue whose first file lies wholly below the log, and reads foreign bytes at 0.
    comparison: { except: ({ topic, queueId }) => topic === 'GoldenOne' && queueId === 0 },
    check: async ({ store }) => {
      const first = manifest.messages.find((m) => m.topic === 'GoldenOne' && m.physicalOffset >= 65_536)!;
      assert.equal(store.minOffsetInQueue('GoldenOne', 0), first.queueOffset);
      for (const offset of [0, 167, first.queueOffset - 1]) {
        const found = await read(store, { topic: 'GoldenOne', queueId: 0, offset, maxMsgs: 32 });
        assert.equal(found.status, 'OFFSET_TOO_SMALL');
        assert.equal(found.nextBeginOffset, first.queueOffset);
        assert.equal(found.bytes, 0);
      }
      const found = await read(store, { topic: 'GoldenOne', queueId: 0, offset: first.queueOffset, maxMsgs: 1 });
      assert.equal(found.bytes, first.storeSize);
    },
  },
  { name: 'last-commitlog-gone' },
  {
    name: 'no-abort',
    check: async ({ store }) => assert.equal(store.recovery.clean, true),
  },
  { name: 'no-checkpoint' },
  // B72: Java builds the queues again from the file that the checkpoint names; what lies before it has no unit any more.
  { name: 'no-consumequeue', compareWith: 'undamaged' },
  { name: 'no-index', compareWith: 'undamaged' },
];

function damagedDisk(name: string): MemoryFileSystem {
  const damage = goldenDamage(name);
  const fs = goldenDisk(damage.archive);
  applyEdits(fs, ROOT, damage.edits);
  fs.settle();
  return fs;
}

for (const { name, comparison, compareWith, cut, check } of CASES) {
  test(`damage ${name}: arrives where Java arrived, or loses less`, async () => {
    const damage = goldenDamage(name);
    assert.equal(damage.javaAfterLoad.ok, true);
    const java = compareWith === 'undamaged' ? undamaged : damage.javaAfterStart!;
    assert.equal(java.maxPhyOffset, damage.javaAfterStart!.maxPhyOffset);

    const fs = damagedDisk(name);
    const damagedLog = packed(fs, ROOT, 'commitlog');
    const opened = await openStore(fs, manifest.brokerConf, { gantryDamagedRecord: 'cut' });
    await assertArrivedAt(opened, java, comparison);
    await check?.(opened);
    const reports = opened.logger.texts('warn').filter((text) => text.includes('the log is cut there'));
    if (cut === undefined) assert.deepEqual(reports, []);
    else {
      assert.equal(reports.length, 1);
      assert.match(reports[0]!, cut);
      assert.match(reports[0]!, /commitlog\/00000000000000327680/);
      assertKeptAside(fs, damagedLog, java.maxPhyOffset);
    }
    await opened.store.close();
    assertUnits(opened, java.queues, comparison);
    await assertKeys(fs, java.minPhyOffset, java.maxPhyOffset);

    // It stays as it is: nothing that was cut comes back.
    const again = await openStore(fs, manifest.brokerConf);
    await assertArrivedAt(again, java, comparison);
    assert.deepEqual(again.logger.texts('warn'), []);
    await again.store.close();
  });
}

/** What was cut lies in a file of its own, to the last byte. */
function assertKeptAside(fs: MemoryFileSystem, damagedLog: Map<string, Uint8Array>, end: number): void {
  const [entry, ...more] = packed(fs, ROOT, 'gantry/cut');
  assert.ok(entry !== undefined && more.length === 0);
  const log = Buffer.concat([...damagedLog].map(([, bytes]) => bytes));
  const kept = Buffer.from(entry[1]);
  assert.ok(kept.equals(log.subarray(end, end + kept.length)));
  assert.ok(log.subarray(end + kept.length).every((byte) => byte === 0));
  assert.match(entry[0], new RegExp(String(end)));
}

/** Every message that is left is found by each of its keys, and none that is gone. */
async function assertKeys(fs: MemoryFileSystem, minimum: number, end: number): Promise<void> {
  const index = openIndex(fs, manifest.brokerConf);
  for (const message of manifest.messages) {
    const there = message.physicalOffset >= minimum && message.physicalOffset < end;
    for (const key of [message.uniqKey, ...(message.keys ?? '').split(' ')]) {
      if (key === null || key === '') continue;
      const found = await candidates(index, message.topic, key, 0, Number.MAX_SAFE_INTEGER, 'K');
      const note = `${message.topic} ${key} at ${message.physicalOffset}`;
      if (there) assert.ok(found.includes(message.physicalOffset), `${note} is not found`);
      else if (message.physicalOffset >= end)
        assert.ok(!found.includes(message.physicalOffset), `${note} is still there`);
    }
  }
}

test('damage wrong-size-commitlog: the start is refused, as Java refuses, and no file is changed', async () => {
  assert.equal(goldenDamage('wrong-size-commitlog').javaAfterLoad.ok, false);
  const fs = damagedDisk('wrong-size-commitlog');
  const hashes = (): string[] => [...packed(fs, ROOT)].map(([path, bytes]) => `${path} ${sha256(bytes)}`);
  const before = hashes();
  await assert.rejects(
    openStore(fs, manifest.brokerConf),
    (error) =>
      error instanceof GantryError &&
      error.code === 'STORE_FILE_SIZE' &&
      /00000000000000458752 has 1000 bytes.*mappedFileSizeCommitLog = 65536/.test(error.message),
  );
  assert.deepEqual(hashes(), before);
});

test('damage torn-tail, B77: a last record with zeros in its properties is cut, where Java keeps it without its keys', async () => {
  const fs = damagedDisk('torn-tail');
  const opened = await openStore(fs, manifest.brokerConf);
  const torn = manifest.messages.at(-1)!;
  assert.equal(opened.store.watermarks.wrote, torn.physicalOffset);
  assert.equal(opened.store.maxOffsetInQueue(torn.topic, torn.queueId), torn.queueOffset);
  assert.equal(opened.logger.texts('warn').filter((text) => text.includes('the log is cut there')).length, 1);
  await opened.store.close();
});

for (const name of ['bad-crc-middle', 'bad-magic-middle']) {
  test(`damage ${name}: refused by default, since Java's checkpoint says that it was durable; skip keeps every other message`, async () => {
    const fs = damagedDisk(name);
    const hashes = (): string[] => [...packed(fs, ROOT)].map(([path, bytes]) => `${path} ${sha256(bytes)}`);
    const before = hashes();
    await assert.rejects(
      openStore(fs, manifest.brokerConf),
      (error) =>
        error instanceof GantryError &&
        error.code === 'STORE_DAMAGED' &&
        /byte 33674 \(offset 361354\).*17 sound records \(6577 bytes/.test(error.message),
    );
    assert.deepEqual(hashes(), before);
    const { store } = await openStore(fs, manifest.brokerConf, { gantryDamagedRecord: 'skip' });
    assert.equal(store.watermarks.wrote, manifest.endOfData);
    for (const queue of undamaged.queues) {
      assert.equal(
        store.maxOffsetInQueue(queue.topic, queue.queueId),
        queue.maxOffset,
        `${queue.topic} ${queue.queueId}`,
      );
    }
    for (const message of manifest.messages) {
      const found = await store.recordAt(message.physicalOffset);
      assert.ok(found !== undefined, `a record at ${message.physicalOffset}`);
      const isSame = sha256(found) === message.recordSha256;
      assert.equal(isSame, message.physicalOffset !== 361_354, `the record at ${message.physicalOffset}`);
    }
    await store.close();
  });
}
