import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { FakeClock, silentLogger } from '../../common/index.ts';
import { MemoryFileSystem } from '../../io/index.ts';
import { ReadCache, ReadLane } from '../segment/index.ts';
import { CommitLog } from './commit-log.ts';

const MIB = 1024 * 1024;

async function openLog(): Promise<CommitLog> {
  const fs = new MemoryFileSystem({ directories: ['/store', '/store/commitlog'] });
  const reads = new ReadLane({ clock: new FakeClock(), maxBytes: MIB, bytesPerSecond: 0 });
  const log = new CommitLog({
    fs,
    clock: new FakeClock(),
    logger: silentLogger,
    folder: '/store/commitlog',
    fileSize: 512 * MIB,
    files: [],
    end: 0,
    cache: new ReadCache(reads, 256 * 1024, 0),
    reads,
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
