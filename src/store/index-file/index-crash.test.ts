// What a kill, a power cut or a cut of the log does to the index: nothing is lost that the log still has, and nothing of what is gone comes back.
// "Dispatching again" stands for what recovery does: every message from `durableOffset` on.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { GantryError, SeededRandom } from '../../common/index.ts';
import type { MemoryFileSystem } from '../../io/index.ts';
import {
  assertComplete,
  bytesOf,
  type Disk,
  damage,
  dispatchAgain,
  find,
  flushed,
  i32,
  keysOf,
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
