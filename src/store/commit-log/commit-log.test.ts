import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { FakeClock, silentLogger } from '../../common/index.ts';
import { MemoryFileSystem, type SyncLane } from '../../io/index.ts';
import { ReadCache, ReadLane } from '../segment/index.ts';
import { CommitLog } from './commit-log.ts';

const MIB = 1024 * 1024;

async function openLog(
  fs: MemoryFileSystem = new MemoryFileSystem({ directories: ['/store', '/store/commitlog'] }),
  lane?: SyncLane,
  clock = new FakeClock(),
): Promise<CommitLog> {
  const reads = new ReadLane({ clock: new FakeClock(), maxBytes: MIB, bytesPerSecond: 0 });
  const log = new CommitLog({
    fs,
    clock,
    logger: silentLogger,
    folder: '/store/commitlog',
    fileSize: 512 * MIB,
    files: [],
    end: 0,
    cache: new ReadCache(reads, 256 * 1024, 0),
    reads,
    lane,
    mayCommitInto: () => true,
    onCommitted: () => {},
    onFlushed: () => {},
    onWriteFailed: () => {},
    onSyncFailed: () => {},
  });
  // Its file is made.
  await turn();
  return log;
}

/** Appends `size` bytes, writes them, and lets go of what the tail needs no more; the memory that they lay in. */
function append(log: CommitLog, size: number): ArrayBufferLike {
  const chunk = log.reserve(size);
  chunk.bytes[chunk.used] = 1;
  log.appended(chunk, size);
  log.commit();
  log.dispatched = log.committed;
  log.trim();
  return chunk.bytes.buffer;
}

test('a flood of 1 MiB batches goes through memory that is used again', async () => {
  const log = await openLog();
  const used = new Set<ArrayBufferLike>();
  for (let i = 0; i < 100; i++) used.add(append(log, 1.2 * MIB));
  assert.ok(used.size <= 6, `${used.size} buffers`);
  assert.equal(log.committed, log.wrote);
});

test('a disk that stalls, so that one write follows the other off the loop, does not hold the memory of what is written', async () => {
  const clock = new FakeClock();
  const log = await openLog(undefined, undefined, clock);
  log.noteSlow(clock.monotonic() - 100);
  assert.equal(log.mayWrite, false);
  const used = new Set<ArrayBufferLike>();
  for (let i = 0; i < 100; i++) {
    used.add(append(log, 1.2 * MIB));
    assert.ok(log.committed < log.wrote, 'a write is under way');
    await turn();
  }
  assert.ok(log.committed > 90 * MIB);
  assert.ok(used.size <= 12, `${used.size} buffers`);
});

test('memory kept for reuse is bounded: a burst of the largest messages leaves 24 MiB and no more', async () => {
  const log = await openLog();
  // Nothing is dispatched: 40 chunks of 5 MiB wait, and are let go of at once.
  const first = new Set<ArrayBufferLike>();
  for (let i = 0; i < 40; i++) {
    const chunk = log.reserve(4.5 * MIB);
    log.appended(chunk, 4.5 * MIB);
    first.add(chunk.bytes.buffer);
  }
  log.commit();
  log.dispatched = log.committed;
  log.trim();
  let again = 0;
  for (let i = 0; i < 40; i++) {
    const chunk = log.reserve(4.5 * MIB);
    log.appended(chunk, 4.5 * MIB);
    if (first.has(chunk.bytes.buffer)) again++;
  }
  assert.equal(again, 4);
});

test('small syncs take blocks ahead of the log, rarely, and a disk that has none left is no fault of theirs', async () => {
  for (const full of [false, true]) {
    const fs = new MemoryFileSystem({ directories: ['/store', '/store/commitlog'], schedule: (task) => task() });
    const log = await openLog(fs, fs.openSyncLane());
    let writes = 0;
    fs.onOperation = (operation) => {
      if (operation === 'write') writes++;
    };
    // Every second write is one of zeros until the blocks are there.
    if (full) fs.fail({ operation: 'write', skip: 1, code: 'DISK_FULL' });
    for (let i = 0; i < 1000; i++) {
      append(log, 250);
      log.flush();
      assert.equal(log.flushed, log.wrote);
    }
    assert.ok(writes > 1000 && writes <= 1005, `${writes} writes`);
    const file = fs.open('/store/commitlog/00000000000000000000', 'read');
    const bytes = new Uint8Array(1000 * 250 + MIB);
    file.readSync(bytes, 0, bytes.length, 0);
    const marks: number[] = [];
    for (const [at, byte] of bytes.entries()) if (byte !== 0) marks.push(at);
    assert.deepEqual(
      marks,
      Array.from({ length: 1000 }, (_, i) => i * 250),
    );
  }
});

test('a log that is closed although the file made ahead cannot be removed is closed, and its end is known', async () => {
  const fs = new MemoryFileSystem({ directories: ['/store', '/store/commitlog'] });
  const log = await openLog(fs);
  for (let n = 0; n < 5; n++) await turn();
  append(log, 100);
  const fault = fs.fail({ operation: 'remove', path: '/commitlog/' });
  const failure = await new Promise((resolve) => log.close(resolve));
  assert.equal(failure, undefined);
  assert.equal(fault.hits, 1);
  assert.equal(fs.openHandles, 0);
});

test('a log that was closed while its next file could not be made makes none later', async () => {
  const fs = new MemoryFileSystem({ directories: ['/store', '/store/commitlog'] });
  const clock = new FakeClock();
  const fault = fs.fail({ operation: 'createSized', skip: 1, times: Number.POSITIVE_INFINITY });
  const log = await openLog(fs, undefined, clock);
  append(log, 100);
  for (let n = 0; n < 5; n++) await turn();
  assert.ok(fault.hits > 0);
  fs.fail({ operation: 'sync', path: '/commitlog/' });
  log.flush();
  const failure = await new Promise((resolve) => log.close(resolve));
  assert.notEqual(failure, undefined);
  fault.clear();
  const files = fs.list('/store/commitlog').length;
  for (let n = 0; n < 5; n++) {
    clock.advance(1000);
    await turn();
  }
  assert.equal(fs.list('/store/commitlog').length, files);
});
