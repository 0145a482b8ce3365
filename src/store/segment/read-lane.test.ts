import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { FakeClock, GantryError } from '../../common/index.ts';
import { MemoryFileSystem } from '../../io/index.ts';
import { ReadCache } from './read-cache.ts';
import { ReadLane } from './read-lane.ts';
import { SegmentFile } from './segment-directory.ts';

const SIZE = 1000;

/** A file whose reads are held back until they are released, oldest first. */
function rig(bytesPerSecond = 0): {
  file: SegmentFile;
  fs: MemoryFileSystem;
  clock: FakeClock;
  lane: ReadLane;
  done: string[];
  read: (name: string, length: number) => void;
  release: () => void;
} {
  const clock = new FakeClock();
  const fs = new MemoryFileSystem({ directories: ['/d'], schedule: (task) => task() });
  fs.open('/d/00000000000000000000', 'create').truncateSync(SIZE);
  const file = new SegmentFile(fs, '/d', 0, SIZE, true);
  const hold = fs.hold('read');
  const lane = new ReadLane({ clock, maxBytes: 200, bytesPerSecond });
  const done: string[] = [];
  const read = (name: string, length: number): void => {
    lane.read(file, new Uint8Array(length), length, 0, (error, got) => done.push(`${name} ${error?.code ?? got}`));
  };
  return { file, fs, clock, lane, done, read, release: () => hold.release(1) };
}

test('so many bytes are in flight and no more; the rest waits in order', () => {
  const { lane, done, read, release } = rig();
  for (const name of ['a', 'b', 'c', 'd']) read(name, 100);
  assert.deepEqual([lane.inFlight, lane.waiting], [200, 2]);
  assert.equal(lane.isIdle, false);
  release();
  assert.deepEqual([lane.inFlight, lane.waiting, done], [200, 1, ['a 100']]);
  for (let i = 0; i < 3; i++) release();
  assert.deepEqual(done, ['a 100', 'b 100', 'c 100', 'd 100']);
  assert.equal(lane.isIdle, true);
});

test('a read that is longer than the budget goes alone', () => {
  const { lane, done, read, release } = rig();
  for (const [name, length] of [
    ['a', 50],
    ['long', 900],
    ['b', 50],
  ] as const)
    read(name, length);
  assert.equal(lane.inFlight, 50);
  release();
  assert.equal(lane.inFlight, 900);
  release();
  release();
  assert.deepEqual(done, ['a 50', 'long 900', 'b 50']);
});

test('while somebody waits for a sync, reads go one by one', () => {
  const { lane, read, release } = rig();
  lane.yieldTo(true);
  for (const name of ['a', 'b', 'c', 'd']) read(name, 50);
  assert.deepEqual([lane.inFlight, lane.waiting], [50, 3]);
  release();
  assert.equal(lane.inFlight, 50);
  lane.yieldTo(false);
  assert.equal(lane.inFlight, 150);
});

test('while messages are written, reads keep to their rate; otherwise they do not', () => {
  const { clock, lane, done, read, release } = rig(10_000);
  for (let i = 0; i < 5; i++) {
    read('idle', 100);
    release();
  }
  assert.equal(done.length, 5);
  lane.wroteAt = clock.monotonic();
  // 20 ms of rate are 200 bytes: two reads, one of them in advance, and then 10 ms for each 100 bytes.
  for (let i = 0; i < 5; i++) {
    read('busy', 100);
    release();
  }
  const first = done.length;
  assert.ok(first <= 8, `${first} reads at once`);
  for (let i = 0; i < 10; i++) {
    clock.advance(10);
    lane.wroteAt = clock.monotonic();
    release();
  }
  assert.equal(done.length, 10);
});

test('a file that cannot be opened fails its own read and no other', async () => {
  const { fs, lane, done, read, release } = rig();
  const gone = new SegmentFile(fs, '/d', 5000, SIZE, true);
  lane.read(gone, new Uint8Array(10), 10, 0, (error) => done.push(`gone ${error instanceof GantryError}`));
  read('a', 10);
  release();
  await turn();
  assert.deepEqual(done.sort(), ['a 10', 'gone true']);
  assert.equal(lane.inFlight, 0);
});

test('who wants a block of a file that cannot be opened is told so', async () => {
  const { fs, lane } = rig();
  const cache = new ReadCache(lane, 100, 0);
  const gone = new SegmentFile(fs, '/d', 5000, SIZE, true);
  const told: string[] = [];
  assert.equal(
    cache.copy(gone, 0, 10, SIZE, new Uint8Array(10), 0, (error) => told.push(String(error?.code))),
    0,
  );
  assert.deepEqual(told, [], 'not before the call has returned');
  await turn();
  assert.deepEqual(told, ['IO']);
});

test('the next block is fetched early from a slow disk only: its wait keeps those who march together together', () => {
  const { clock, file, lane, release } = rig();
  const cache = new ReadCache(lane, 100, 0);
  const target = new Uint8Array(10);
  const look = (position: number): number => cache.copy(file, position, 10, SIZE, target, 0, () => {});
  assert.equal(look(0), 0);
  release();
  assert.equal(look(0), 10);
  assert.equal(lane.inFlight, 0, 'a quick read, and nothing more');
  assert.equal(look(100), 0);
  clock.advance(20);
  release();
  assert.equal(look(100), 10);
  assert.equal(lane.inFlight, 100);
  assert.equal(lane.count, 3);
});

test('a read from the disk is one of a file whose system does not read ahead by itself', () => {
  const { file, read, release } = rig();
  const handle = file.handle();
  const asked: string[] = [];
  handle.readNoMore = () => void asked.push('no more');
  const { read: readOf } = handle;
  handle.read = (...args) => {
    asked.push('read');
    readOf.apply(handle, args);
  };
  read('a', 100);
  release();
  assert.deepEqual(asked, ['no more', 'read']);
});
