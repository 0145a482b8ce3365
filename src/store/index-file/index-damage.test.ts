// What damaged bytes, foreign files, a full disk or a failed sync do to the index: nothing is lost that the log still has, no lookup hangs, no
// start fails.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { GantryError, SeededRandom } from '../../common/index.ts';
import { IndexLayout, type IndexService } from './index.ts';
import {
  assertComplete,
  type Bench,
  bytesOf,
  type Disk,
  damage,
  dispatchAgain,
  find,
  flushed,
  i32,
  i64,
  memory,
  names,
  open,
  put,
  putMessages,
  ROOT,
  SIZE,
  storeTimeOf,
  T,
  T0,
  turns,
  unitAt,
} from './index-fixture.test.support.ts';

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
