// What a kill, a power cut, a full disk or damaged bytes do to the index: nothing is lost that the log still has, no lookup hangs, no
// start fails. "Dispatching again" stands for what recovery does: every message from `durableOffset` on.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { GantryError, SeededRandom } from '../../common/index.ts';
import { MemoryFileSystem } from '../../io/memory-file-system.ts';
import { IndexLayout, type IndexService } from './index.ts';
import {
  type Bench,
  bench,
  bytesOf,
  damage,
  find,
  flushed,
  i32,
  i64,
  names,
  open,
  put,
  ROOT,
  T0,
} from './index-fixture.test.support.ts';

const T = 'T';
const SIZE = 100;

interface Disk extends Bench {
  fs: MemoryFileSystem;
}

function memory(slots: number, units: number): Disk {
  const fs = new MemoryFileSystem({ directories: [ROOT] });
  return { ...bench(fs, new IndexLayout(slots, units)), fs };
}

/** Messages 0, 1, 2 ... lie at 0, 100, 200 ...; each has a key of its own and two that it shares. */
function keysOf(message: number): string[] {
  return [`key-${message}`, `mod-${message % 5}`, 'all'];
}

function putMessages(index: IndexService, from: number, to: number): void {
  for (let i = from; i < to; i++) put(index, T, keysOf(i), i * SIZE, T0 + i * 250);
}

function dispatchAgain(index: IndexService, to: number): void {
  putMessages(index, Math.ceil(index.durableOffset / SIZE), to);
}

/** Each key finds its message, once. */
async function assertComplete(index: IndexService, messages: number, note = ''): Promise<void> {
  assert.deepEqual(await find(index, T, 'all'), Array.from({ length: messages }, (_, i) => i * SIZE).reverse(), note);
  for (const i of [0, 1, Math.floor(messages / 2), messages - 1]) {
    if (i >= 0 && i < messages) assert.deepEqual(await find(index, T, `key-${i}`), [i * SIZE], note);
  }
}

const storeTimeOf = (offset: number): number => T0 + (offset / SIZE) * 250;

/** Where `unit` of a file begins. */
function unitAt(b: Bench, unit: number): number {
  return b.layout.unitPosition(unit);
}

/** Lets what is on its way to the disk arrive. */
async function turns(count: number): Promise<void> {
  for (let i = 0; i < count; i++) await new Promise((resolve) => setImmediate(resolve));
}

// --- B22

test('B22: the newest index file is kept after a kill, and each key finds exactly one message', async () => {
  const b = memory(16, 500);
  const before = open(b);
  putMessages(before, 0, 60);
  await flushed(before);
  b.fs.kill(new SeededRandom(1));
  // RocketMQ deletes the file: it ends after the checkpoint's index time, here that of message 55.
  const index = open(b, { lastExitClean: false, indexMsgTimestamp: T0 + 55 * 250 });
  assert.equal(names(b).length, 1);
  assert.equal(index.durableOffset, 59 * SIZE);
  dispatchAgain(index, 60);
  await assertComplete(index, 60);
  assert.deepEqual(b.logger.texts(), []);
});

test('B22: entries that point past the end of the log return nothing', async () => {
  const b = memory(16, 500);
  const before = open(b);
  putMessages(before, 0, 60);
  await flushed(before);
  b.fs.kill(new SeededRandom(1));
  const index = open(b, { lastExitClean: false });
  await index.truncateTo(50 * SIZE);
  await assertComplete(index, 50);
  assert.deepEqual(await find(index, T, 'key-54'), []);
  await index.close();
  const again = open(b);
  await assertComplete(again, 50);
});

test('what a killed process had written but not flushed is used, and the file ends as if nothing had happened', async () => {
  const killed = memory(64, 9000);
  const whole = memory(64, 9000);
  const before = open(killed);
  const reference = open(whole);
  putMessages(before, 0, 2600);
  await turns(30);
  killed.fs.kill(new SeededRandom(3));
  const index = open(killed, { lastExitClean: false });
  assert.ok(index.durableOffset > 0, 'the buffers that reached the disk count');
  dispatchAgain(index, 2800);
  putMessages(reference, 0, 2800);
  await index.close();
  await reference.close();
  assert.deepEqual(bytesOf(killed), bytesOf(whole));
});

test('power cuts at any point: nothing is lost that was flushed, and dispatching again gives the same files', async () => {
  for (let seed = 0; seed < 120; seed++) {
    const random = new SeededRandom(seed);
    const b = memory(32, 100);
    const whole = memory(32, 100);
    const reference = open(whole);
    let index = open(b);
    let messages = 0;
    let promised = 0;
    for (let round = 0; round < 6; round++) {
      if (random.int(3) === 0) b.fs.powerOffAfter(random.int(12));
      dispatchAgain(index, messages);
      const to = messages + random.int(60);
      putMessages(index, messages, to);
      messages = to;
      let closed = false;
      try {
        if (random.int(2) === 0) {
          await Promise.race([flushed(index), downOf(b.fs)]);
          if (!b.fs.isDown) promised = messages;
        } else if (random.int(3) === 0) {
          await Promise.race([index.close(), downOf(b.fs)]);
          closed = !b.fs.isDown;
          if (closed) promised = messages;
        }
      } catch (error) {
        assert.ok(error instanceof GantryError);
      }
      // What the dying process still tries fails, as long as the power is off.
      if (b.fs.isDown) await turns(20);
      if (!closed || random.int(2) === 0) b.fs.powerCut(random);
      else b.fs.powerOffAfter(Number.POSITIVE_INFINITY);
      index = open(b, { lastExitClean: false, storeTimeOf });
      assert.ok(
        index.durableOffset >= Math.max(0, promised - 1) * SIZE || messages === 0,
        `seed ${seed}: ${index.durableOffset} is below what was flushed (${promised})`,
      );
      // The last message was dropped, since its keys may not all be there, and is put in again: until the next flush it is at risk.
      promised = Math.min(promised, index.durableOffset / SIZE);
      assert.ok(index.durableOffset <= messages * SIZE);
    }
    dispatchAgain(index, messages);
    await assertComplete(index, messages, `seed ${seed}`);
    putMessages(reference, 0, messages);
    await index.close();
    await reference.close();
    const files = (disk: Disk): Buffer[] => names(disk).map((_, n) => bytesOf(disk, n));
    assert.deepEqual(files(b), files(whole), `seed ${seed}`);
  }
});

/** Resolves when the power is off: completions never come then. */
async function downOf(fs: MemoryFileSystem): Promise<void> {
  for (let i = 0; i < 200 && !fs.isDown; i++) await new Promise((resolve) => setImmediate(resolve));
}

test('a file that was being sealed when the process was killed gets its slots at the next start', async () => {
  const b = memory(8, 40);
  const before = open(b);
  putMessages(before, 0, 20);
  await flushed(before);
  assert.equal(names(b).length, 2);
  damage(b, 0, 40, new Uint8Array(32));
  damage(b, 0, 0, new Uint8Array(8).fill(0));
  damage(b, 0, 36, i32(3));
  b.fs.kill(new SeededRandom(0));
  const index = open(b, { lastExitClean: false, indexMsgTimestamp: 0, storeTimeOf });
  dispatchAgain(index, 20);
  await assertComplete(index, 20);
  await index.close();
  await assertComplete(open(b), 20);
});

test('a hole in a full file after a power cut: it and what follows is built again', async () => {
  const b = memory(8, 40);
  const before = open(b);
  putMessages(before, 0, 60);
  await before.close();
  const count = names(b).length;
  assert.equal(count, 5);
  damage(b, 1, unitAt(b, 20), new Uint8Array(20));
  const index = open(b, { lastExitClean: false, indexMsgTimestamp: 0 });
  assert.equal(names(b).length, 2);
  assert.equal(b.logger.texts('warn').length, 1);
  assert.match(b.logger.texts('warn')[0]!, /keeps 19 of 39 units.*are put in again/);
  dispatchAgain(index, 60);
  await assertComplete(index, 60);
});

test('a hole in a file that ends in the same millisecond as the last durable one: it was taken for durable', async () => {
  const b = memory(8, 40);
  const before = open(b);
  for (let i = 0; i < 60; i++) put(before, T, keysOf(i), i * SIZE, T0);
  await before.close();
  assert.equal(names(b).length, 5);
  damage(b, 2, unitAt(b, 10), new Uint8Array(20 * 20));
  const index = open(b, { lastExitClean: false, indexMsgTimestamp: T0 });
  dispatchAgain(index, 60);
  await assertComplete(index, 60);
});

test('files that are known to be durable are not scanned', async () => {
  const b = memory(8, 40);
  const before = open(b);
  putMessages(before, 0, 60);
  await flushed(before);
  b.fs.kill(new SeededRandom(0));
  const read = new Map<string, number>();
  b.fs.onOperation = (operation, path) => {
    if (operation === 'read') read.set(path, (read.get(path) ?? 0) + 1);
  };
  open(b, { lastExitClean: false, indexMsgTimestamp: b.sealed.at(-1)! });
  b.fs.onOperation = undefined;
  const reads = [...read.values()];
  assert.ok(reads.at(-1)! > reads[0]!);
  assert.deepEqual(new Set(reads.slice(0, -1)).size, 1);
});

/** Three keys a message and 39 units a file: 13 messages fill one. All of the first two files have one store time. */
async function sameEnds(): Promise<Disk> {
  const b = memory(8, 40);
  const before = open(b);
  for (let i = 0; i < 30; i++) put(before, T, keysOf(i), i * SIZE, T0);
  await flushed(before);
  b.fs.kill(new SeededRandom(0));
  return b;
}

test('a file that ends in the same millisecond as the one the checkpoint names is not taken for durable', async () => {
  const b = await sameEnds();
  // The power went before the second file was synced: a page of its units and its slots are missing, both ends are there.
  damage(b, 1, b.layout.slotPosition(0), new Uint8Array(8 * 4));
  damage(b, 1, unitAt(b, 10), new Uint8Array(20 * 10));
  const index = open(b, { lastExitClean: false, indexMsgTimestamp: T0, storeTimeOf: () => T0 });
  for (let i = Math.ceil(index.durableOffset / SIZE); i < 30; i++) put(index, T, keysOf(i), i * SIZE, T0);
  await assertComplete(index, 30);
});

test('a checkpoint time at which no file ends vouches for none', async () => {
  const b = memory(8, 40);
  const before = open(b);
  putMessages(before, 0, 30);
  await flushed(before);
  b.fs.kill(new SeededRandom(0));
  damage(b, 1, unitAt(b, 10), new Uint8Array(20 * 10));
  const index = open(b, { lastExitClean: false, indexMsgTimestamp: T0 + 3_600_000, storeTimeOf });
  dispatchAgain(index, 30);
  await assertComplete(index, 30);
});

test('a durable file that loses its last message at a start is not taken for durable when it has filled up again', async () => {
  const b = memory(8, 40);
  const before = open(b);
  putMessages(before, 0, 14);
  await flushed(before);
  b.fs.kill(new SeededRandom(0));
  b.fs.remove(`${ROOT}/index/${names(b)[1]}`);
  const end = T0 + 12 * 250;
  assert.equal(b.sealed.at(-1), end);
  const whole = bytesOf(b);
  const index = open(b, {
    lastExitClean: false,
    storeTimeOf,
    onUnsealed: (time, done) => {
      assert.deepEqual(bytesOf(b), whole, 'told before the file changes');
      b.sealed.push(time);
      done(undefined);
    },
  });
  assert.equal(index.durableOffset, 12 * SIZE);
  dispatchAgain(index, 13);
  assert.equal(index.describe().at(-1)!.header.endTimestamp, end, 'the same end as before');
  await flushed(index);
  b.fs.kill(new SeededRandom(0));
  // A power cut has kept both ends and lost a unit that was put again.
  damage(b, 0, unitAt(b, 38), new Uint8Array(20));
  const again = open(b, { lastExitClean: false, storeTimeOf });
  dispatchAgain(again, 13);
  await assertComplete(again, 13);
  assert.deepEqual(
    await find(again, T, 'mod-2'),
    [12, 7, 2].map((i) => i * SIZE),
  );
});

test('an empty file behind full ones says nothing of them: the checkpoint names none yet', async () => {
  const b = memory(8, 40);
  const before = open(b);
  putMessages(before, 0, 26);
  await flushed(before);
  b.fs.kill(new SeededRandom(0));
  damage(b, 0, unitAt(b, 10), new Uint8Array(20 * 10));
  const empty = b.fs.open(`${ROOT}/index/${BigInt(names(b).at(-1)!) + 1n}`, 'create');
  empty.truncateSync(b.layout.fileBytes);
  empty.close();
  const index = open(b, { lastExitClean: false, indexMsgTimestamp: 0, storeTimeOf });
  dispatchAgain(index, 26);
  await assertComplete(index, 26);
});

test('a cut of the log that reaches into full files takes back what the checkpoint says of them', async () => {
  const b = memory(8, 40);
  const index = open(b);
  putMessages(index, 0, 45);
  await flushed(index);
  assert.deepEqual(
    b.sealed.map((time) => (time - T0) / 250),
    [12, 25, 38],
  );
  await index.truncateTo(20 * SIZE);
  assert.equal(b.sealed.at(-1), T0 + 12 * 250);
  await index.truncateTo(5 * SIZE);
  assert.equal(b.sealed.at(-1), 0);
});

test('a power cut while a file was being cut, its header kept and its units lost, does not refuse the start', async () => {
  const b = memory(8, 40);
  const before = open(b);
  putMessages(before, 0, 20);
  await flushed(before);
  b.fs.kill(new SeededRandom(0));
  const file = b.fs.open(`${ROOT}/index/${names(b)[1]}`, 'write');
  file.truncateSync(unitAt(b, 1));
  file.truncateSync(unitAt(b, 39));
  file.close();
  const index = open(b, { lastExitClean: false, storeTimeOf });
  dispatchAgain(index, 20);
  await assertComplete(index, 20);
});

test('units of a cut log are zeros on disk: they are never taken for units of the new log', async () => {
  const b = memory(4, 100);
  const index = open(b);
  putMessages(index, 0, 20);
  await index.truncateTo(5 * SIZE);
  const bytes = bytesOf(b);
  assert.ok(bytes.subarray(unitAt(b, 16)).every((byte) => byte === 0));
});

// --- B25

/** A store whose ten messages lie in one slot, stopped cleanly. */
async function tenInOneSlot(units = 64): Promise<Disk> {
  const b = memory(1, units);
  const index = open(b);
  for (let i = 1; i <= 10; i++) put(index, T, ['k'], i * SIZE, T0 + i);
  await index.close();
  return b;
}

function reports(b: Bench): string[] {
  return b.logger.texts('warn').filter((text) => text.includes('damaged'));
}

async function newKeysGoToAFreshFile(b: Bench, index: IndexService): Promise<void> {
  put(index, T, ['fresh'], 2000, T0 + 50);
  assert.deepEqual(await find(index, T, 'fresh'), [2000]);
  await index.close();
  assert.equal(names(b).length, 2);
  assert.equal(reports(b).length, 1, 'reported once');
}

for (const [name, unit, previous, reachable] of [
  ['B25 (a): an entry that names itself as the one before it', 7, 7, [1000, 900, 800, 700]],
  ['B25 (b): an entry that names a later one', 5, 9, [1000, 900, 800, 700, 600, 500]],
  ['B25 (c): an entry that names one beyond the count', 5, 2_000_000_000, [1000, 900, 800, 700, 600, 500]],
] as const) {
  test(name, async () => {
    const b = await tenInOneSlot();
    damage(b, 0, unitAt(b, unit) + 16, i32(previous));
    const index = open(b);
    assert.deepEqual(await find(index, T, 'k'), reachable);
    assert.deepEqual(await find(index, T, 'k'), reachable);
    await newKeysGoToAFreshFile(b, index);
  });

  test(`${name}, found at a start after a kill: what does not prove itself is put in again`, async () => {
    const b = await tenInOneSlot();
    damage(b, 0, unitAt(b, unit) + 16, i32(previous));
    const index = open(b, { lastExitClean: false });
    assert.equal(index.durableOffset, (unit - 1) * SIZE);
    for (let i = unit - 1; i <= 10; i++) put(index, T, ['k'], i * SIZE, T0 + i);
    assert.deepEqual(await find(index, T, 'k'), [1000, 900, 800, 700, 600, 500, 400, 300, 200, 100]);
    assert.equal(b.logger.texts('warn').length, 1);
  });
}

for (const count of [0, 64, 5, 2_000_000_000, -1]) {
  test(`B25 (d): a count of ${count} where 11 is right`, async () => {
    const b = await tenInOneSlot();
    damage(b, 0, 36, i32(count));
    const index = open(b);
    assert.deepEqual(await find(index, T, 'k'), [1000, 900, 800, 700, 600, 500, 400, 300, 200, 100]);
    await newKeysGoToAFreshFile(b, index);
  });
}

test('B25 (e): after a stop the keys are on the disk: a power cut takes none', async () => {
  for (let seed = 0; seed < 20; seed++) {
    const b = await tenInOneSlot();
    b.fs.powerCut(new SeededRandom(seed));
    const index = open(b);
    assert.deepEqual(await find(index, T, 'k'), [1000, 900, 800, 700, 600, 500, 400, 300, 200, 100]);
    assert.deepEqual(reports(b), []);
  }
});

test('a header full of nonsense neither stops the start nor the new keys', async () => {
  for (const position of [0, 8, 16, 24]) {
    const b = await tenInOneSlot();
    damage(b, 0, position, i64(Number.MAX_SAFE_INTEGER));
    damage(b, 0, position, new Uint8Array([0x7f]));
    const index = open(b, { storeTimeOf: () => T0 });
    assert.equal((await find(index, T, 'k')).length, 10, `position ${position}`);
    assert.ok(index.durableOffset <= 1001);
    assert.equal(put(index, T, ['k'], 1100, T0 + 11), true);
    assert.equal((await find(index, T, 'k'))[0], 1100);
  }
});

test('a slot that leads nowhere, or into another chain, ends the lookup', async () => {
  const b = memory(4, 64);
  const before = open(b);
  putMessages(before, 0, 10);
  await before.close();
  for (let slot = 0; slot < 4; slot++) damage(b, 0, 40 + 4 * slot, i32(slot % 2 === 0 ? 1_000_000 : 1));
  const index = open(b);
  for (let i = 0; i < 10; i++) assert.ok((await find(index, T, `key-${i}`)).length <= 1);
  assert.equal(reports(b).length, 1);
});

test('random bytes in a file: lookups end, the start works, and no key of the log is lost after a kill', async () => {
  for (let seed = 0; seed < 150; seed++) {
    const random = new SeededRandom(seed);
    const b = memory(8, 100);
    const before = open(b);
    putMessages(before, 0, 60);
    await before.close();
    for (let i = 0; i <= random.int(4); i++) {
      const n = random.int(2);
      damage(
        b,
        n,
        random.int(b.layout.fileBytes - 8),
        Uint8Array.from({ length: 1 + random.int(8) }, () => random.int(256)),
      );
    }
    const trusted = open(b);
    for (let i = 0; i < 60; i++) await find(trusted, T, `key-${i}`);

    const index = open(b, { lastExitClean: false, indexMsgTimestamp: 0, storeTimeOf, maxPhysicalOffset: 60 * SIZE });
    dispatchAgain(index, 60);
    // Damage can hit what a scan cannot judge: the hash of a unit that ends its chain, an offset that stays in order, a time.
    const found = await find(index, T, 'all');
    assert.ok(found.length >= 57, `seed ${seed}: ${found.length} of 60`);
  }
});

// --- Sizes

test('a longer file, or one made for other settings, is refused with both lengths and untouched', async () => {
  const b = await tenInOneSlot();
  const before = bytesOf(b);
  for (const [slots, units] of [
    [1, 63],
    [2, 64],
    [5, 200],
  ] as const) {
    assert.throws(
      () => open({ ...b, layout: new IndexLayout(slots, units) }),
      (error) =>
        error instanceof GantryError && error.code === 'STORE_FILE_SIZE' && /1324.*maxHashSlotNum/.test(error.message),
    );
  }
  assert.deepEqual(bytesOf(b), before);
});

test('a file that a kill left empty or a larger maxIndexNum found short grows', async () => {
  const b = await tenInOneSlot(64);
  const larger = { ...b, layout: new IndexLayout(1, 128) };
  const index = open(larger);
  put(index, T, ['k'], 1100, T0 + 11);
  assert.equal((await find(index, T, 'k')).length, 11);
  await index.close();
  assert.equal(bytesOf(b).length, larger.layout.fileBytes);

  const empty = memory(1, 64);
  empty.fs.makeDirectory(`${ROOT}/index`);
  empty.fs.open(`${ROOT}/index/20240101000000000`, 'create').close();
  const fresh = open(empty, { lastExitClean: false });
  put(fresh, T, ['k'], 0, T0);
  await fresh.close();
  assert.equal(names(empty).length, 1);
});

test('foreign files are named once and left alone', async () => {
  const b = await tenInOneSlot();
  b.fs.open(`${ROOT}/index/notes.txt`, 'create').close();
  b.fs.open(`${ROOT}/index/.DS_Store`, 'create').close();
  b.fs.makeDirectory(`${ROOT}/index/20240101000000000`);
  const index = open(b);
  assert.equal((await find(index, T, 'k')).length, 10);
  assert.equal(b.logger.texts('warn').length, 1);
  assert.match(b.logger.texts('warn')[0]!, /\.DS_Store, 20240101000000000, notes\.txt/);
  assert.ok(b.fs.list(`${ROOT}/index`).includes('notes.txt'));
});

// --- The disk refuses

test('a full disk delays the file and nothing else', async () => {
  const b = memory(8, 40);
  const index = open(b);
  const fault = b.fs.fail({ operation: 'write', code: 'DISK_FULL', times: Number.POSITIVE_INFINITY });
  putMessages(index, 0, 40);
  await turns(30);
  await assertComplete(index, 40);
  assert.equal(index.durableOffset, 0);
  fault.clear();
  b.clock.advance(1000);
  await flushed(index);
  assert.equal(index.durableOffset, 39 * SIZE + 1);
  await index.close();
  await assertComplete(open(b), 40);
  assert.ok(b.logger.texts('error').length <= 4, 'once per file, not once per try');
});

test('a sync that fails is final for the file: the index stands still, and the next start builds it again', async () => {
  const b = memory(8, 400);
  const index = open(b);
  putMessages(index, 0, 10);
  await flushed(index);
  b.fs.fail({ operation: 'sync' });
  putMessages(index, 10, 20);
  await assert.rejects(flushed(index));
  assert.equal(index.durableOffset, 9 * SIZE + 1);
  assert.equal(put(index, T, ['late'], 5000, T0), false);
  assert.ok(index.standstill !== undefined);
  assert.equal(b.logger.texts('error').length, 1);
  await assertComplete(index, 20);
  await index.close();
  const again = open(b);
  assert.equal(again.durableOffset, 0, 'the file is gone');
  dispatchAgain(again, 20);
  await assertComplete(again, 20);
});

test('a stop on a full disk ends, and what could not be written is built again', async () => {
  const b = memory(8, 40);
  const index = open(b);
  putMessages(index, 0, 13);
  await flushed(index);
  b.fs.fail({ operation: 'write', code: 'DISK_FULL', times: Number.POSITIVE_INFINITY });
  putMessages(index, 13, 30);
  await index.close();
  b.fs.kill(new SeededRandom(0));
  const again = open(b);
  dispatchAgain(again, 30);
  await assertComplete(again, 30);
});

test('a power cut while files are removed leaves no gap: one behind it was taken for the next', async () => {
  for (let seed = 0; seed < 60; seed++) {
    const b = memory(8, 40);
    const index = open(b);
    putMessages(index, 0, 13);
    await flushed(index);
    // The first of the files that follow cannot be written, the others can.
    b.fs.fail({ operation: 'write', code: 'DISK_FULL', path: names(b)[0]!, times: Number.POSITIVE_INFINITY });
    putMessages(index, 13, 60);
    await turns(30);
    b.fs.onOperation = (operation) => {
      if (operation === 'remove') b.fs.powerOffAfter(seed % 4);
    };
    await index.close();
    b.fs.onOperation = undefined;
    b.fs.powerCut(new SeededRandom(seed));
    const again = open(b, { lastExitClean: false });
    dispatchAgain(again, 60);
    await assertComplete(again, 60, `seed ${seed}`);
  }
});

test('a file that cannot be read ends its own lookup only', async () => {
  const b = memory(8, 40);
  const before = open(b);
  putMessages(before, 0, 20);
  await before.close();
  const index = open(b);
  const newest = names(b)[1]!;
  b.fs.fail({ operation: 'read', path: newest, times: Number.POSITIVE_INFINITY });
  const found = await find(index, T, 'all');
  assert.deepEqual(
    found,
    Array.from({ length: 13 }, (_, i) => (12 - i) * SIZE),
  );
  assert.ok(b.logger.texts('error').length >= 1);
});
