import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeClock, silentLogger } from '../../common/index.ts';
import { readWhole } from '../../io/index.ts';
import { MemoryFileSystem } from '../../io/memory-file-system.ts';
import { type ConsumeQueue, ConsumeQueueStore } from '../consume-queue/index.ts';
import { ReadCache, ReadLane } from '../segment/index.ts';
import { cutQueueToLog, isOfEarlierLife, QueueEnds, rebuildFrom } from './recover-queues.ts';

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

function flush(clock: FakeClock, store: ConsumeQueueStore): void {
  let flushed = false;
  store.flush(() => {
    flushed = true;
  });
  for (let turn = 0; turn < 100 && !flushed; turn++) clock.advance(1);
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
  flush(clock, store);
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

/** A queue of five files that are on disk, the first so many of them zeros. */
function withZeros(files: number): { store: ConsumeQueueStore; queue: ConsumeQueue } {
  const { clock, fs, store } = queues();
  const queue = store.findOrCreate('T', 0);
  for (let n = 0; n < 50; n++) store.put(queue, n * 1000, 100, 0, n);
  flush(clock, store);
  for (const file of queue.files.slice(0, files)) fs.open(file.path, 'write').writeSync(new Uint8Array(200), 0, 200, 0);
  queue.resetTo(50, 49_100);
  return { store, queue };
}

test('a queue whose older pages a power cut has taken, as all of the log, begins at 0: zeros are no units whose records are there', () => {
  const { store, queue } = withZeros(4);
  cutQueueToLog(store, queue, 0, silentLogger);
  assert.equal(queue.nextOffset, 0);
  assert.equal(queue.maxPhysicalEnd, -1);
});

test('a queue of which a power cut has left zeros ends at 0, not where the look at its newest files began', () => {
  const { store, queue } = withZeros(5);
  const bounds = { known: false, lost: false, queues: new Map(), index: undefined, logMinimum: -1 };
  const options = { clean: false, bounds, count: 1, mostLookedAt: 10, nothingLost: false, logger: silentLogger };
  new QueueEnds(store, options).find(queue);
  assert.equal(queue.maxOffset, 0);
  assert.equal(queue.maxPhysicalEnd, -1);
});
