import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import fc from 'fast-check';
import { javaStringHash } from '../../common/index.ts';
import { nodeFileSystem } from '../../io/index.ts';
import { MemoryFileSystem } from '../../io/memory-file-system.ts';
import { IndexHeader, IndexLayout, indexFileName, keyHash, queryHash, storedHash, topicSeeds } from './index.ts';
import { type Bench, bench, bytesOf, find, flushed, names, open, put, ROOT, T0 } from './index-fixture.test.support.ts';

function memory(slots = 100, units = 400): Bench {
  return bench(new MemoryFileSystem({ directories: [ROOT] }), new IndexLayout(slots, units));
}

/** Runs a test on the real disk, in a folder of its own. */
async function onDisk(slots: number, units: number, run: (b: Bench) => Promise<void>): Promise<void> {
  const root = mkdtempSync(join(tmpdir(), 'gantry-index-'));
  try {
    await run(bench(nodeFileSystem, new IndexLayout(slots, units), root));
  } finally {
    rmSync(root, { recursive: true, force: true });
  }
}

const T = 'TopicTest';

test('the worked example of the format page, byte for byte', async () => {
  await onDisk(100, 400, async (b) => {
    const index = open(b);
    put(index, T, ['k1', 'k2'], 4096, T0 + 123);
    put(index, T, ['k1'], 8192, T0 + 5999);
    assert.deepEqual(await find(index, T, 'k1', T0 + 123, T0 + 5999), [8192, 4096]);
    await index.close();
    const bytes = bytesOf(b);
    assert.equal(bytes.length, 40 + 4 * 100 + 20 * 400);
    const hex = (at: number, length: number): string => bytes.subarray(at, at + length).toString('hex');
    assert.equal(hex(0, 40), '0000018bcfe5687b0000018bcfe57f6f000000000000100000000000000020000000000200000004');
    assert.equal(hex(136, 8), '0000000300000002');
    assert.equal(hex(460, 20), '0029e6a800000000000010000000000000000000');
    assert.equal(hex(480, 20), '0029e6a900000000000010000000000000000000');
    assert.equal(hex(500, 20), '0029e6a800000000000020000000000500000001');
    const written = [...bytes.subarray(0, 40), ...bytes.subarray(136, 144), ...bytes.subarray(460, 520)];
    assert.equal(
      bytes.reduce((sum, byte) => sum + byte, 0),
      written.reduce((sum, byte) => sum + byte, 0),
      'all else is zero',
    );
  });
});

test("a rolled file's first unit counts from the previous file's end, and a window that ends at it misses it", async () => {
  const b = memory(100, 4);
  const index = open(b);
  put(index, T, ['k1', 'k2'], 4096, T0 + 123);
  put(index, T, ['k1'], 8192, T0 + 5999);
  put(index, T, ['k1'], 9000, T0 + 10_000);
  put(index, T, ['k1'], 9100, T0 + 13_500);
  assert.deepEqual(await find(index, T, 'k1', T0 + 10_000, T0 + 13_500), [9100]);
  assert.deepEqual(await find(index, T, 'k1'), [9100, 9000, 8192, 4096]);
  await index.close();
  const bytes = bytesOf(b, 1);
  assert.equal(
    bytes.subarray(0, 40).toString('hex'),
    '0000018bcfe58f100000018bcfe59cbc0000000000002328000000000000238c0000000100000003',
  );
  const units = 40 + 400;
  assert.equal(bytes.readInt32BE(units + 20 + 12), 4);
  assert.equal(bytes.readInt32BE(units + 40 + 12), 3);
  assert.equal(bytes.readInt32BE(units + 40 + 16), 1);
  assert.deepEqual(b.sealed, [T0 + 5999]);
});

test('keys hash as Java strings: topic#key, topic#T#tags, surrogate pairs, the hash that has no absolute value', () => {
  const seeds = topicSeeds(T);
  const of = (seed: number, text: string): number => {
    const bytes = Buffer.from(`..${text}.`, 'utf8');
    return keyHash(seed, bytes, 2, bytes.length - 1);
  };
  assert.equal(of(seeds.key, 'UK1'), 0x05129f19);
  assert.equal(of(seeds.key, 'k1'), 0x0029e6a8);
  assert.equal(of(seeds.tag, 'TagA'), 0x4e293b58);
  assert.equal(queryHash(T, 'TagA', 'T'), 0x4e293b58);
  assert.equal(queryHash(T, 'k1', 'U'), queryHash(T, 'k1', 'K'));
  assert.equal(javaStringHash('polygenelubricants'), -2147483648);
  assert.equal(storedHash(javaStringHash('polygenelubricants')), 0);
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme' }), fc.string({ unit: 'grapheme' }), (topic, key) => {
      assert.equal(of(topicSeeds(topic).key, key), storedHash(javaStringHash(`${topic}#${key}`)));
    }),
  );
});

test('an index of tags is asked with its own type', async () => {
  const index = open(memory());
  const seeds = topicSeeds(T);
  const tag = Buffer.from('TagA');
  index.beginMessage(100);
  index.putKey(keyHash(seeds.tag, tag, 0, tag.length), 100, T0);
  assert.deepEqual(await find(index, T, 'TagA', 0, T0, 'T'), [100]);
  assert.deepEqual(await find(index, T, 'TagA', 0, T0, 'K'), []);
});

test('a message that is in the index already is not taken again, not even the last one', () => {
  const index = open(memory());
  assert.equal(put(index, T, ['a'], 0, T0), true);
  assert.equal(put(index, T, ['a'], 0, T0), false);
  assert.equal(put(index, T, ['a'], 200, T0), true);
  assert.equal(put(index, T, ['a'], 100, T0), false);
});

test('a repeated key of one message is one candidate, in its place', async () => {
  const index = open(memory());
  put(index, T, ['a', 'a', 'b'], 100, T0);
  put(index, T, ['a'], 200, T0);
  assert.deepEqual(await find(index, T, 'a'), [200, 100]);
});

test('B23: different keys with one hash are all candidates, without a limit that strangers could use up', async () => {
  const index = open(memory(16, 300));
  assert.equal(queryHash('T', 'Aa', 'K'), queryHash('T', 'BB', 'K'));
  for (let i = 0; i < 40; i++) put(index, 'T', ['BB'], i * 100, T0 + i);
  put(index, 'T', ['Aa'], 4000, T0 + 40);
  for (let i = 41; i < 81; i++) put(index, 'T', ['BB'], i * 100, T0 + i);
  const found = await find(index, 'T', 'Aa');
  assert.equal(found.length, 81);
  assert.ok(found.includes(4000));
  assert.deepEqual(
    found,
    [...found].sort((x, y) => y - x),
  );
});

test('the header counts used slots, and timeDiff is clamped', async () => {
  const b = memory(10, 400);
  const index = open(b);
  put(index, T, ['x'], 10, T0);
  put(index, T, ['x'], 20, T0 - 50_000);
  put(index, T, ['x'], 30, T0 + 3_000_000_000_000);
  await index.close();
  const bytes = bytesOf(b);
  assert.equal(bytes.readInt32BE(32), 1);
  assert.equal(bytes.readInt32BE(36), 4);
  const diff = (unit: number): number => bytes.readInt32BE(40 + 40 + 20 * unit + 12);
  assert.deepEqual([diff(1), diff(2), diff(3)], [0, 0, 2_147_483_647]);
});

test('what is put is found at once, while buffers fill, flush, roll and after the next start', async () => {
  await onDisk(1000, 9000, async (b) => {
    let index = open(b);
    const count = 10_000;
    for (let i = 0; i < count; i++) {
      put(index, T, [`k${i % 500}`, 'all'], i * 100, T0 + i);
      if (i === 4000) await flushed(index);
    }
    const check = async (): Promise<void> => {
      for (const key of ['k0', 'k7', 'k499']) {
        const offsets = await find(index, T, key);
        const start = Number(key.slice(1));
        const expected = Array.from({ length: count / 500 }, (_, n) => (start + 500 * n) * 100).reverse();
        assert.deepEqual(offsets, expected, key);
      }
      assert.equal((await find(index, T, 'all')).length, count);
    };
    await check();
    await index.close();
    assert.equal(names(b).length, 3);
    index = open(b);
    await check();
    assert.equal(index.durableOffset, (count - 1) * 100 + 1);
    assert.equal(b.logger.lines.length, 0);
  });
});

test('a rebuild that never gives the loop a turn keeps little in memory, and the file is right', async () => {
  await onDisk(1000, 4_000_000, async (b) => {
    const index = open(b);
    const count = 1_900_000;
    const before = process.memoryUsage().arrayBuffers;
    for (let i = 0; i < count; i++) {
      index.beginMessage(i * 100);
      index.putKey(i % 65_536, i * 100, T0 + i);
    }
    const grown = process.memoryUsage().arrayBuffers - before;
    assert.ok(grown < 40 * 1024 * 1024, `${grown} bytes are held`);
    await index.close();
    const bytes = bytesOf(b);
    assert.equal(bytes.readInt32BE(36), count + 1);
    for (const unit of [1, 3276, 3277, 1_000_000, count]) {
      const at = 40 + 4000 + 20 * unit;
      assert.equal(bytes.readInt32BE(at), (unit - 1) % 65_536, `unit ${unit}`);
      assert.equal(Number(bytes.readBigInt64BE(at + 4)), (unit - 1) * 100, `unit ${unit}`);
    }
  });
});

test('a file that is continued after a stop is the file that one run would have made', async () => {
  const whole = memory(64, 200);
  const parts = memory(64, 200);
  const one = open(whole);
  let many = open(parts);
  for (let i = 0; i < 150; i++) {
    put(one, T, [`key-${i}`, `g${i % 7}`], i * 64, T0 + i * 700);
    put(many, T, [`key-${i}`, `g${i % 7}`], i * 64, T0 + i * 700);
    if (i % 20 === 19) {
      await many.close();
      many = open(parts);
    }
  }
  await one.close();
  await many.close();
  assert.equal(names(parts).length, 2);
  for (let n = 0; n < 2; n++) assert.deepEqual(bytesOf(parts, n), bytesOf(whole, n));
});

test('a clean start and stop changes no byte, and writes nothing', async () => {
  const fs = new MemoryFileSystem({ directories: [ROOT] });
  const b = bench(fs, new IndexLayout(10, 20));
  let index = open(b);
  for (let i = 0; i < 30; i++) put(index, T, [`k${i}`], i, T0);
  await index.close();
  const before = names(b).map((_, n) => bytesOf(b, n));
  fs.onOperation = (operation) => assert.ok(['open', 'read'].includes(operation), operation);
  index = open(b);
  await index.truncateTo(1000);
  await flushed(index);
  await index.close();
  fs.onOperation = undefined;
  assert.deepEqual(
    names(b).map((_, n) => bytesOf(b, n)),
    before,
  );
});

test('a record without keys makes the file, as Java does', async () => {
  const b = memory();
  const index = open(b);
  assert.equal(index.beginMessage(0), true);
  await index.close();
  assert.equal(IndexHeader.decode(bytesOf(b).subarray(0, 40)).indexCount, 1);
  assert.equal(bytesOf(b).readInt32BE(36), 1);
});

test('durableOffset follows flush and roll, and never runs ahead', async () => {
  const b = memory(10, 6);
  const index = open(b);
  assert.equal(index.durableOffset, 0);
  put(index, T, ['a', 'b'], 0, T0);
  put(index, T, ['a', 'b'], 100, T0);
  assert.equal(index.durableOffset, 0);
  await flushed(index);
  assert.equal(index.durableOffset, 101);
  put(index, T, ['a', 'b'], 200, T0);
  put(index, T, ['a', 'b'], 300, T0);
  assert.equal(index.durableOffset, 101);
  await flushed(index);
  assert.equal(index.durableOffset, 301);
});

test('truncateTo drops the units of what was cut, across files, and the rest is as if it had never been put', async () => {
  for (const cut of [0, 1, 640, 641, 3200, 6400, 9599, 9600, 20_000]) {
    const b = memory(16, 50);
    const index = open(b);
    for (let i = 0; i < 150; i++) put(index, T, [`k${i % 9}`], i * 64, T0 + i * 1500);
    await index.truncateTo(cut);
    assert.ok(index.durableOffset <= cut);
    const kept = Array.from({ length: 150 }, (_, i) => i).filter((i) => i * 64 < cut);
    for (let k = 0; k < 9; k++) {
      const expected = kept.filter((i) => i % 9 === k).map((i) => i * 64);
      assert.deepEqual(await find(index, T, `k${k}`), expected.reverse(), `cut at ${cut}`);
    }
    await index.close();

    const reference = memory(16, 50);
    const never = open(reference);
    for (const i of kept) put(never, T, [`k${i % 9}`], i * 64, T0 + i * 1500);
    await never.close();
    const units = (bytes: Buffer): Buffer => bytes.subarray(40);
    assert.equal(names(b).length, names(reference).length, `cut at ${cut}`);
    names(b).forEach((_, n) => {
      assert.deepEqual(units(bytesOf(b, n)), units(bytesOf(reference, n)), `cut at ${cut}, file ${n}`);
      assert.equal(bytesOf(b, n).readInt32BE(36), bytesOf(reference, n).readInt32BE(36));
      assert.equal(bytesOf(b, n).readInt32BE(32), bytesOf(reference, n).readInt32BE(32));
      assert.equal(bytesOf(b, n).readBigInt64BE(24), bytesOf(reference, n).readBigInt64BE(24));
    });
  }
});

test('after a truncation the same offsets can be put again', async () => {
  const b = memory(16, 50);
  const index = open(b);
  for (let i = 0; i < 70; i++) put(index, T, [`old${i}`], i * 64, T0);
  await index.truncateTo(64 * 30);
  assert.equal(put(index, T, ['new'], 64 * 29, T0), false);
  assert.equal(put(index, T, ['new'], 64 * 30, T0), true);
  assert.deepEqual(await find(index, T, 'new'), [64 * 30]);
  assert.deepEqual(await find(index, T, 'old30'), []);
  assert.deepEqual(await find(index, T, 'old29'), [64 * 29]);
});

test('deleteExpired removes leading files below the log, never the last', async () => {
  const b = memory(10, 6);
  const index = open(b);
  for (let i = 0; i < 23; i++) put(index, T, ['k'], i * 10, T0 + i);
  await flushed(index);
  assert.equal(names(b).length, 5);
  assert.equal(await index.deleteExpired(40), 0, 'the first file ends at 40');
  assert.equal(await index.deleteExpired(41), 1);
  assert.equal(await index.deleteExpired(1_000_000), 3);
  assert.equal(names(b).length, 1);
  assert.deepEqual(await find(index, T, 'k'), [220, 210, 200]);
});

test('destroy removes everything and leaves a usable index', async () => {
  const b = memory(10, 6);
  const index = open(b);
  for (let i = 0; i < 20; i++) put(index, T, ['k'], i, T0);
  await index.destroy();
  assert.deepEqual(names(b), []);
  assert.deepEqual(await find(index, T, 'k'), []);
  assert.equal(put(index, T, ['k'], 0, T0), true);
  await index.close();
  assert.equal(names(b).length, 1);
});

test('file names are creation times in local time, and order the files even when the clock does not', () => {
  const name = indexFileName(new Date(2024, 1, 3, 4, 5, 6, 78).getTime(), undefined);
  assert.equal(name, '20240203040506078');
  assert.equal(indexFileName(new Date(2024, 1, 3, 4, 5, 6, 78).getTime(), name), '20240203040506079');
  assert.equal(indexFileName(new Date(2023, 1, 1).getTime(), name), '20240203040506079');
  assert.equal(indexFileName(new Date(2024, 1, 3, 4, 5, 7, 0).getTime(), name), '20240203040507000');
});

test('a window outside of a file does not look into it', async () => {
  const b = memory(10, 400);
  let index = open(b);
  put(index, T, ['k'], 0, T0);
  put(index, T, ['k'], 10, T0 + 10_000);
  await index.close();
  index = open(b);
  assert.deepEqual(await find(index, T, 'k', T0 + 20_000, T0 + 30_000), []);
  assert.deepEqual(await find(index, T, 'k', 0, T0 - 1), []);
  assert.deepEqual(await find(index, T, 'k', T0, T0 + 5000), [0]);
  assert.deepEqual(await find(index, T, 'k', T0 + 1, T0 + 10_000), [10]);
});
