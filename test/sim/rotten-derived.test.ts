// What is derived from the log and rots, or loses a part, while no process runs: the start notices and builds it again; what a start does
// not look at is left out alone, and named, when it is read.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { query, ROOT } from './engine.ts';
import { SmallStore } from './small-store.ts';

const QUEUE = `${ROOT}/consumequeue/T/0`;
const FIRST = `${QUEUE}/00000000000000000000`;
/** Ten units a file. */
const SMALL_FILES = { mappedFileSizeConsumeQueue: 200, messageIndexEnable: true };

function flip(small: SmallStore, path: string, at: number, bit: number): void {
  small.overwrite(path, at, Uint8Array.of(small.bytesOf(path)[at]! ^ (1 << bit)));
}

async function closed(count: number, settings = SMALL_FILES): Promise<SmallStore> {
  const small = await SmallStore.create(settings);
  await small.sendMany(count, (n) => ({ keys: `k${n}`, queueId: 0 }));
  await small.stop();
  return small;
}

describe('a ConsumeQueue whose first file alone is gone', () => {
  it('is built again after a clean stop', async () => {
    const small = await closed(35);
    small.fs.remove(FIRST);
    small.fs.settle();
    await small.start();
    await small.expectQueue(0, 35);
    assert.match(small.log.texts('warn').join('\n'), /consumequeue\/T\/0 has lost its first file/);
    await small.stop();
    await small.start();
    assert.deepEqual(small.log.texts('warn'), []);
  });

  it('is built again after a kill', async () => {
    const small = await closed(35);
    await small.start();
    await small.sendMany(3);
    small.kill();
    small.fs.remove(FIRST);
    small.fs.settle();
    await small.start();
    await small.expectQueue(0, 38);
  });

  it('is built again in a store that another broker left, whose log is whole', async () => {
    const small = await closed(35);
    small.fs.removeTree(`${ROOT}/gantry`);
    small.fs.remove(FIRST);
    small.fs.settle();
    await small.start();
    await small.expectQueue(0, 35);
  });

  it('is what retention leaves where the log begins later, and nothing is built again', async () => {
    const small = await SmallStore.create({ ...SMALL_FILES, fileReservedTime: 0, deleteWhen: '' });
    await small.sendMany(60, () => ({ body: 'x'.repeat(1000) }));
    await small.world.advance(120_000);
    small.store.retention.request();
    for (let i = 0; i < 100; i++) {
      await small.world.advance(1000);
      while ((await small.world.complete()) || (await small.world.soon()));
    }
    assert.ok(small.store.watermarks.minimum > 0, 'files of the log are gone');
    const minimum = small.store.minOffsetInQueue('T', 0);
    await small.stop();
    assert.ok(small.fs.stat(FIRST) === undefined, 'and the first of the queue');
    await small.start();
    assert.deepEqual(small.log.texts('warn'), []);
    await small.expectQueue(minimum, 60);
  });
});

it('a newest index file that another broker went on with is no rotten one', async () => {
  const small = await closed(5);
  const ours = ['checkpoint', 'gantry/queue-bounds.json'].map((name) => `${ROOT}/${name}`);
  const before = ours.map((path) => small.bytesOf(path));
  await small.start();
  await small.sendMany(4, (n) => ({ keys: `later${n}`, queueId: 0 }));
  await small.stop();
  // Another broker would have left these as they were.
  ours.forEach((path, i) => {
    small.fs.remove(path);
    small.overwrite(path, 0, before[i]!);
  });
  await small.start();
  assert.deepEqual(small.log.texts('warn'), []);
  await small.stop();
});

describe('bits that flip in derived files after a clean stop', () => {
  for (const byte of [0, 3, 6, 7, 9, 11, 12, 19]) {
    it(`byte ${byte} of a unit in the last file: the queue is what the log says`, async () => {
      for (const bit of [0, 6]) {
        const small = await closed(35);
        flip(small, `${QUEUE}/00000000000000000600`, 2 * 20 + byte, bit);
        await small.start();
        await small.expectQueue(0, 35);
        assert.match(small.log.texts('warn').join('\n'), /not what they were when the store was closed/);
        await small.stop();
        await small.start();
        await small.expectQueue(0, 35);
        assert.deepEqual(small.log.texts('warn'), []);
      }
    });
  }

  it('in any place of the newest index file: every key finds its message', async () => {
    const layout = await closed(25);
    const [name] = layout.fs.list(`${ROOT}/index`);
    const bytes = layout.bytesOf(`${ROOT}/index/${name}`);
    let flips = 0;
    for (let at = 0; at < bytes.length; at += 7) {
      if (at >= 40 && bytes[at] === 0) continue;
      const small = await closed(25);
      flip(small, `${ROOT}/index/${small.fs.list(`${ROOT}/index`)[0]}`, at, at % 8);
      await small.start();
      for (let n = 0; n < 25; n++) {
        assert.equal((await query(small.world, small.store, 'T', `k${n}`)).length, 1, `key ${n}, byte ${at}`);
      }
      if (++flips > 40) break;
    }
    assert.ok(flips > 5);
  });

  it('in a unit that no start looks at: it alone is left out, and named', async () => {
    for (const [byte, bit] of [
      [1, 3],
      [4, 1],
      [7, 0],
      [8, 7],
      [11, 1],
    ] as const) {
      const small = await closed(35);
      flip(small, FIRST, 3 * 20 + byte, bit);
      await small.start();
      const got = (await small.drain()).map((record) => record.queueOffset);
      assert.deepEqual(
        got,
        Array.from({ length: 35 }, (_, n) => n).filter((n) => n !== 3),
        `byte ${byte}`,
      );
      assert.equal(small.log.texts('warn').length, 1, small.log.texts('warn').join('\n'));
    }
  });

  it('in a unit that leads to the whole record of another queue then: it is not handed out', async () => {
    const small = await SmallStore.create(SMALL_FILES);
    const sent = await small.sendMany(40, (n) => ({ queueId: n % 2 }));
    await small.stop();
    const unit = Buffer.from(small.bytesOf(FIRST).subarray(60, 80));
    unit.writeBigInt64BE(BigInt(sent[7]!.wroteOffset), 0);
    unit.writeInt32BE(sent[7]!.wroteBytes, 8);
    small.overwrite(FIRST, 60, unit);
    await small.start();
    const got = (await small.drain()).map((record) => [record.queueId, record.queueOffset]);
    assert.deepEqual(
      got,
      Array.from({ length: 20 }, (_, n) => [0, n]).filter(([, n]) => n !== 3),
    );
    assert.match(small.log.texts('warn').join('\n'), /T queue 0 names it, whose message it is not/);
  });
});

it('the newest units rot when their messages are gone by retention: their ordinals are not given again', async () => {
  const small = await SmallStore.create({ ...SMALL_FILES, fileReservedTime: 0, deleteWhen: '' });
  await small.sendMany(15, () => ({ queueId: 0 }));
  await small.sendMany(60, () => ({ queueId: 1, body: 'x'.repeat(1000) }));
  await small.world.advance(120_000);
  small.store.retention.request();
  for (let i = 0; i < 100; i++) {
    await small.world.advance(1000);
    while ((await small.world.complete()) || (await small.world.soon()));
  }
  assert.equal(small.store.minOffsetInQueue('T', 0), 15, 'all of its messages are gone');
  await small.stop();
  flip(small, `${QUEUE}/00000000000000000200`, 2 * 20 + 6, 3);
  await small.start();
  assert.equal(small.store.maxOffsetInQueue('T', 0), 15);
  const [next] = await small.sendMany(1, () => ({ queueId: 0 }));
  assert.equal(next?.queueOffset, 15);
  await small.expectQueue(15, 16);
});
