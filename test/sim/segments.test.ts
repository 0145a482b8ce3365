// The store on each kind of segments: seeded histories, and the faults that belong to one kind.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { GantryError } from '../../src/common/index.ts';
import { type MessageStoreConfig, PutMessageStatus } from '../../src/store/index.ts';
import { dispatched, pull, ROOT } from './engine.ts';
import type { SegmentsUnderTest } from './history-options.ts';
import { runHistory } from './power-cut.ts';
import { LOG, SmallStore } from './small-store.ts';

const SEEDS = 40;
const POOL = { transientStorePoolEnable: true } as const;
const MAPPED = { gantrySegments: 'mapped' } as const;
const FIRST_FILE = `${LOG}/00000000000000000000`;

for (const segments of ['mapped', 'pool', 'warm-mapped'] satisfies SegmentsUnderTest[]) {
  it(`${SEEDS} seeded histories with segments ${segments}`, async () => {
    for (let seed = 0; seed < SEEDS; seed++) {
      try {
        await runHistory(seed, { segments });
      } catch (error) {
        throw new Error(`replay it with: npm run sim -- --seed ${seed} --segments ${segments}`, { cause: error });
      }
    }
  });
}

it('settings of segments that exclude each other refuse the start by name, and nothing was made', async () => {
  const small = await SmallStore.create();
  await small.stop();
  const before = small.fingerprint();
  for (const [key, settings] of [
    ['writeWithoutMmap', { ...MAPPED, writeWithoutMmap: true }],
    ['transientStorePoolEnable', { ...MAPPED, ...POOL }],
  ] as const) {
    await assert.rejects(small.start(settings), (error: unknown) => {
      return error instanceof GantryError && error.code === 'CONFIG_VALUE' && error.message.includes(key);
    });
  }
  Object.defineProperty(small.fs, 'mapper', { value: undefined, configurable: true });
  await assert.rejects(small.start(MAPPED), (error: unknown) => {
    return error instanceof GantryError && error.code === 'CONFIG_UNSUPPORTED' && error.message.includes('koffi');
  });
  assert.deepEqual(small.fingerprint(), before);
});

it('writeWithoutMmap switches the pool off, and the start says so', async () => {
  const small = await SmallStore.create({ ...POOL, writeWithoutMmap: true, flushDiskType: 'ASYNC_FLUSH' });
  assert.ok(small.log.texts('warn').some((text) => text.includes('transientStorePoolEnable=true has no effect')));
  await small.send();
  assert.equal(small.store.watermarks.committed, small.store.watermarks.wrote);
});

describe('B28: write buffer pool together with sync flush', () => {
  it('with sync flush, ten sends are answered and durable', async () => {
    const small = await SmallStore.create({ ...POOL, flushDiskType: 'SYNC_FLUSH' });
    await small.sendMany(10);
    small.powerCut();
    await small.start();
    await small.expectQueue(0, 10);
  });

  it('with asynchronous flush and no replica, ten sends are on the disk two seconds later', async () => {
    const small = await SmallStore.create({ ...POOL, flushDiskType: 'ASYNC_FLUSH' });
    for (let n = 0; n < 10; n++) small.put();
    for (let ms = 0; ms < 2000; ms += 100) {
      await small.world.advance(100);
      while (await small.world.complete());
    }
    small.powerCut();
    await small.start();
    await small.expectQueue(0, 10);
  });
});

/** All that was put is in the files, and dispatched. */
async function written(small: SmallStore): Promise<void> {
  const { store, world } = small;
  await world.until(() => store.watermarks.committed === store.watermarks.wrote, 'all is written');
  await dispatched(world, store);
}

describe('the transient store pool', () => {
  const ASYNC = { ...POOL, flushDiskType: 'ASYNC_FLUSH', transientStorePoolSize: 2 } as const;

  it('answers from memory, and shows consumers only what is written', async () => {
    const small = await SmallStore.create(ASYNC);
    const result = small.put();
    let status = -1;
    small.store.whenDurable(result.wroteOffset + result.wroteBytes, true, (answer) => {
      status = answer;
    });
    await small.world.soon();
    assert.equal(status, PutMessageStatus.PUT_OK);
    assert.equal(small.store.watermarks.committed, 0);
    assert.equal(small.store.maxOffsetInQueue('T', 0), 0);
    assert.equal((await pull(small.world, small.store, 'T', 0, 0)).records.length, 0);
    await small.world.advance(200);
    while (await small.world.complete());
    await small.expectQueue(0, 1);
  });

  for (const [fastFailIfNoBufferInStorePool, expected] of [
    [false, PutMessageStatus.OS_PAGE_CACHE_BUSY],
    [true, PutMessageStatus.CREATE_MAPPED_FILE_FAILED],
  ] as const) {
    it(`exhausted by a disk that stalls it refuses with status ${expected}, and takes sends again when the disk goes on`, async () => {
      const small = await SmallStore.create({ ...ASYNC, fastFailIfNoBufferInStorePool });
      const hold = small.fs.hold('write', 'commitlog');
      let kept = 0;
      let refused: string | undefined;
      while (refused === undefined) {
        const result = small.put({ body: Buffer.alloc(5000, 'x') });
        await small.world.soon();
        if (result.status === PutMessageStatus.PUT_OK) {
          kept++;
          continue;
        }
        assert.equal(result.status, expected);
        refused = result.reason;
      }
      assert.match(refused, /pool has no buffer left: \d+ bytes wait .* transientStorePoolSize is 2/);
      assert.equal(small.store.remainTransientStoreBufferNumbs, 0);
      assert.ok(kept >= 4, `${kept} were kept`);
      hold.end();
      await small.world.until(
        () => small.store.watermarks.committed === small.store.watermarks.wrote,
        'all is written',
      );
      assert.equal(small.store.remainTransientStoreBufferNumbs, 2);
      small.put();
      await written(small);
      await small.expectQueue(0, kept + 1);
    });
  }

  it('what was answered survives a disk that was full for a while', async () => {
    const small = await SmallStore.create(ASYNC);
    small.fs.fillAfter(0);
    for (let n = 0; n < 5; n++) assert.equal(small.put({ body: `message ${n}` }).status, PutMessageStatus.PUT_OK);
    await small.world.until(() => small.store.unwritableReason !== undefined, 'the full disk is noticed');
    assert.match(small.put().reason, /cannot be written: no space left/);
    small.fs.freeSpace();
    await small.world.until(() => small.store.unwritableReason === undefined, 'sends are taken again');
    small.put();
    await written(small);
    await small.expectQueue(0, 6);
  });

  it('a cut of the log with a disk that stays full is refused, and changes nothing', async () => {
    const small = await SmallStore.create(ASYNC);
    const first = small.put();
    await written(small);
    await small.expectQueue(0, 1);
    small.fs.fillAfter(0);
    small.put({ body: 'x'.repeat(9000) });
    await assert.rejects(
      small.world.settle(small.store.truncateTo(first.wroteOffset), 'the cut ends'),
      /no space left/,
    );
    small.fs.freeSpace();
    await small.world.until(() => small.store.unwritableReason === undefined, 'sends are taken again');
    await written(small);
    await small.expectQueue(0, 2);
  });

  it('a stop with a disk that stays full ends, and leaves the start to recover', async () => {
    const small = await SmallStore.create(ASYNC);
    small.fs.fillAfter(0);
    small.put();
    await small.stop();
    assert.ok(small.fs.stat(`${ROOT}/abort`) !== undefined);
    small.fs.freeSpace();
    await small.start();
    await small.expectQueue(0, 0);
  });
});

describe('B73: phantom messages from stale page tails', () => {
  /** A log that ends with a record, and behind it, to the end of the page, whole records of before: what Java's shared buffer held. */
  async function staleTail(clean: boolean): Promise<{ small: SmallStore; end: number }> {
    const small = await SmallStore.create();
    await small.sendMany(6);
    const end = small.store.watermarks.wrote;
    if (clean) await small.stop();
    else small.kill();
    const stale = small.bytesOf(FIRST_FILE).subarray(end / 2, end);
    assert.equal(stale.readInt32BE(4), small.bytesOf(FIRST_FILE).readInt32BE(4), 'it begins with a record');
    small.overwrite(FIRST_FILE, end, stale);
    return { small, end };
  }

  for (const clean of [false, true]) {
    it(`${clean ? 'a clean stop' : 'a kill'}: a record that says it lies elsewhere is no record`, async () => {
      const { small, end } = await staleTail(clean);
      await small.start({ writeWithoutMmap: true });
      assert.equal(small.store.watermarks.wrote, end);
      await small.expectQueue(0, 6);
      await small.sendMany(1);
      await small.stop();
      await small.start();
      await small.expectQueue(0, 7);
    });
  }

  it('behind our own records lie zeros', async () => {
    const small = await SmallStore.create({ writeWithoutMmap: true });
    await small.sendMany(3, () => ({ body: Buffer.alloc(1000, 'x') }));
    await small.sendMany(3);
    const end = small.store.watermarks.wrote;
    small.kill();
    assert.ok(
      small
        .bytesOf(FIRST_FILE)
        .subarray(end)
        .every((byte) => byte === 0),
    );
  });

  it('a file size that is no multiple of a page: files keep their length, and one that grew refuses the start unchanged', async () => {
    const settings: Partial<MessageStoreConfig> = { writeWithoutMmap: true, mappedFileSizeCommitLog: 10_000 };
    for (const kind of [settings, { ...MAPPED, mappedFileSizeCommitLog: 10_000 }]) {
      const small = await SmallStore.create(kind);
      await small.sendMany(40, () => ({ body: Buffer.alloc(700, 'x') }));
      small.kill();
      for (const name of small.fs.list(LOG)) assert.equal(small.fs.stat(`${LOG}/${name}`)!.size, 10_000);
      await small.start();
      await small.expectQueue(0, 40);
      await small.stop();
      small.resize(FIRST_FILE, 12_288);
      const before = small.fingerprint();
      await assert.rejects(small.start(), /has 12288 bytes, but mappedFileSizeCommitLog = 10000/);
      assert.deepEqual(small.fingerprint(), before);
    }
  });
});

describe('mapped segments', () => {
  it('appends go into the pages of the file: a commit writes nothing', async () => {
    const small = await SmallStore.create(MAPPED);
    await small.send();
    while (await small.world.complete());
    await small.send();
    const written: string[] = [];
    small.fs.onOperation = (operation, path) => {
      if (operation === 'write' && path.startsWith(LOG)) written.push(path);
    };
    await small.sendMany(3);
    small.fs.onOperation = undefined;
    assert.deepEqual(written, []);
    small.powerCut();
    await small.start();
    await small.expectQueue(0, 5);
  });

  it('a disk without room for the blocks ahead refuses sends before they are appended, and takes them again', async () => {
    const small = await SmallStore.create(MAPPED);
    small.fs.fillAfter(0);
    let refused = '';
    await small.world.until(() => {
      const result = small.put({ body: Buffer.alloc(2000, 'x') });
      if (result.status === PutMessageStatus.SERVICE_NOT_AVAILABLE) refused = result.reason;
      return refused !== '';
    }, 'the full disk is noticed');
    assert.match(refused, /no space/);
    const { wrote } = small.store.watermarks;
    small.fs.freeSpace();
    await small.world.until(() => small.store.unwritableReason === undefined, 'sends are taken again');
    assert.ok((await small.send()).wroteOffset >= small.store.watermarks.minimum && wrote >= 0);
    const { wrote: end } = small.store.watermarks;
    small.powerCut();
    await small.start();
    assert.equal(small.store.watermarks.wrote, end);
  });

  it('a file that was cut stops the log with the file and its length, and sends get a status', async () => {
    const small = await SmallStore.create(MAPPED);
    await small.sendMany(3);
    const file = small.fs.open(FIRST_FILE, 'write');
    file.truncateSync(100);
    file.close();
    await small.world.advance(1000);
    const result = small.put();
    assert.equal(result.status, PutMessageStatus.SERVICE_NOT_AVAILABLE);
    assert.match(result.reason, /00000000000000000000 has 100 bytes, 16384 are expected: it was cut/);
    await assert.rejects(pull(small.world, small.store, 'T', 0, 0), /it was cut/);
  });

  it('a file that was cut while dispatch is behind ends nothing but the sends', async () => {
    const fileSize = 16 * 1024 * 1024;
    const small = await SmallStore.create({
      ...MAPPED,
      flushDiskType: 'ASYNC_FLUSH',
      mappedFileSizeCommitLog: fileSize,
    });
    while (await small.world.complete());
    await small.send();
    // More than one turn dispatches.
    for (let n = 0; n < 40; n++) small.put({ body: Buffer.alloc(100_000, 'x') });
    await small.world.soon();
    const { dispatched: reached, committed } = small.store.watermarks;
    assert.ok(reached < committed, 'dispatch is behind');
    const file = small.fs.open(FIRST_FILE, 'write');
    file.truncateSync(100);
    file.close();
    await small.world.advance(1000);
    assert.equal(small.put().status, PutMessageStatus.SERVICE_NOT_AVAILABLE);
    while (await small.world.soon());
    assert.equal(small.store.watermarks.dispatched, reached, 'what is left lay in the pages that are gone');
    await small.stop();
  });

  it('a system that cannot map this file writes it through memory, and says so once', async () => {
    const small = await SmallStore.create();
    await small.stop();
    small.fs.fail({ operation: 'map', times: Number.POSITIVE_INFINITY });
    await small.start(MAPPED);
    await small.sendMany(60, () => ({ body: Buffer.alloc(1000, 'x') }));
    await small.expectQueue(0, 60);
    assert.equal(small.log.texts('warn').filter((text) => text.includes('through memory of the process')).length, 1);
  });
});

for (const [kind, settings] of [
  ['mapped', MAPPED],
  ['buffered', {}],
] as const) {
  it(`${kind}: the log is cut at a record, and what is sent then is acknowledged once it is durable`, async () => {
    const small = await SmallStore.create(settings);
    const results = await small.sendMany(60, () => ({ body: Buffer.alloc(1000, 'x') }));
    const cut = results[20]!.wroteOffset;
    assert.equal(await small.world.settle(small.store.truncateTo(cut), 'the log is cut'), true);
    await small.sendMany(40, () => ({ body: Buffer.alloc(1000, 'y') }));
    small.powerCut();
    await small.start();
    const records = await small.expectQueue(0, 60);
    const bodies = records.map(({ body }) => String.fromCharCode(body[0]!)).join('');
    assert.equal(bodies, 'x'.repeat(20) + 'y'.repeat(40));
    await small.stop();
    await small.start();
    await small.expectQueue(0, 60);
  });
}
