import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeClock, silentLogger } from '../../common/index.ts';
import { readWhole } from '../../io/index.ts';
import { MemoryFileSystem } from '../../io/memory-file-system.ts';
import { ConsumeQueueStore } from '../consume-queue/index.ts';
import { ReadCache, ReadLane } from '../segment/index.ts';
import { cutQueueToLog, isOfEarlierLife, rebuildFrom } from './recover-queues.ts';

function queues(): { clock: FakeClock; fs: MemoryFileSystem; store: ConsumeQueueStore } {
  const clock = new FakeClock(0);
  const fs = new MemoryFileSystem({ clock, directories: ['/q'] });
  const lane = new ReadLane({ clock, maxBytes: 65_536, bytesPerSecond: 65_536 });
  const cache = new ReadCache(lane, 4096, 65_536);
  return {
    clock,
    fs,
    store: new ConsumeQueueStore({ fs, clock, logger: silentLogger, root: '/q', fileSize: 200, cache }),
  };
}

test('a queue that begins with fillers gives their ordinals to nobody when the log is cut below its first message', () => {
  const { store } = queues();
  const queue = store.findOrCreate('T', 0);
  for (let n = 12; n < 22; n++) store.put(queue, n * 1000, 100, 0, n);
  cutQueueToLog(store, queue, 12_000, silentLogger);
  assert.equal(queue.nextOffset, 12);
});

test('a queue that a second pass begins earlier has fillers before its first unit, not a hole', () => {
  const { clock, fs, store } = queues();
  const queue = store.findOrCreate('T', 0);
  store.put(queue, 18_000, 100, 0, 18);
  rebuildFrom(store, queue, 8, 8000);
  for (let n = 8; n < 20; n++) store.put(queue, n * 1000, 100, 0, n);
  let flushed = false;
  store.flush(() => {
    flushed = true;
  });
  for (let turn = 0; turn < 100 && !flushed; turn++) clock.advance(1);
  const file = Buffer.from(readWhole(fs, '/q/T/0/00000000000000000000')!);
  for (let n = 0; n < 8; n++) assert.equal(file.readInt32BE(n * 20 + 8), 0x7fffffff, `unit ${n}`);
  assert.equal(file.readBigInt64BE(160), 8000n);
});

test('a queue that a cut has emptied, its older messages gone, goes on where it ended, also if its topic was deleted once', () => {
  const { store } = queues();
  const queue = store.findOrCreate('T', 0);
  for (let n = 0; n < 13; n++) store.put(queue, 5000 + n * 1000, 100, 0, n);
  assert.equal(isOfEarlierLife(store, queue, 4000), false);
  assert.equal(isOfEarlierLife(store, queue, 20_000), true);
  // Of a second file with nothing in it; the first is gone.
  queue.resetTo(10, -1);
  assert.equal(isOfEarlierLife(store, queue, 4000), false);
});
