import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CollectingLogger, FakeClock } from '../../common/index.ts';
import { MemoryFileSystem } from '../../io/index.ts';
import { defaultStoreConfig, type MessageStoreConfig } from '../store-config.ts';
import { DiskGuard, DiskLevel } from './disk-guard.ts';

const GIB = 1024 ** 3;

/** What the disk allows with so much of it used, and so much by this store, of 100 GiB. */
function levelAt(config: Partial<MessageStoreConfig>, used: number, ownGib: number, partition = 100 * GIB): DiskLevel {
  const clock = new FakeClock();
  const fs = new MemoryFileSystem({ clock, directories: ['/store'] });
  fs.reportedUsedFraction = used;
  fs.reportedBytes = partition;
  const guard = new DiskGuard({
    fs,
    clock,
    logger: new CollectingLogger(),
    root: '/store',
    folders: ['/store'],
    config: { ...defaultStoreConfig('/store'), ...config },
    storedBytes: () => ownGib * GIB,
  });
  return guard.probe();
}

test('replicasPerDiskPartition: a broker of four goes by what it holds of its quarter', () => {
  const four = { replicasPerDiskPartition: 4 };
  assert.equal(levelAt(four, 0.8, 5), DiskLevel.ROOM, 'the neighbours have filled the disk');
  assert.equal(levelAt({}, 0.8, 5), DiskLevel.EXPIRED, 'alone it goes by the disk');
  assert.equal(levelAt(four, 0.3, 19.5), DiskLevel.EXPIRED, 'more than 75 % of 25 GiB');
  assert.equal(levelAt(four, 0.3, 20.5), DiskLevel.FORCED, 'more than 80 % of 25 GiB');
  assert.equal(levelAt({ ...four, logicalDiskSpaceCleanForciblyThreshold: 0.9 }, 0.3, 20.5), DiskLevel.EXPIRED);
  assert.equal(levelAt({ ...four, diskMaxUsedSpaceRatio: 50 }, 0.3, 13), DiskLevel.EXPIRED);
});

test('replicasPerDiskPartition: a disk that is really full is that for each of its brokers', () => {
  const four = { replicasPerDiskPartition: 4 };
  assert.equal(levelAt(four, 0.87, 1), DiskLevel.FORCED);
  assert.equal(levelAt(four, 0.95, 1), DiskLevel.FULL);
  assert.equal(levelAt(four, 0.5, 24, -1), DiskLevel.ROOM, 'a partition of unknown length');
});
