// Known faults of key lookup (bugs B22, B23, B25), at the door of the store, on a small one.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CollectingLogger, FakeClock, SeededRandom, viewOf } from '../../src/common/index.ts';
import { MemoryFileSystem } from '../../src/io/memory-file-system.ts';
import { StoreCheckpoint } from '../../src/store/checkpoint/index.ts';
import { MessageStore } from '../../src/store/index.ts';
import { overwrite, packed } from './golden.ts';
import { append, durable, ROOT } from './open-store.ts';

const INDEX_SLOTS = 16;

interface Small {
  fs: MemoryFileSystem;
  clock: FakeClock;
  logger: CollectingLogger;
}

function small(): Small {
  return {
    fs: new MemoryFileSystem({ directories: [ROOT] }),
    clock: new FakeClock(1_700_000_000_000),
    logger: new CollectingLogger(),
  };
}

function open({ fs, clock, logger }: Small, indexUnits = 64): Promise<MessageStore> {
  return MessageStore.open(
    {
      storePathRootDir: ROOT,
      mappedFileSizeCommitLog: 16 * 1024,
      mappedFileSizeConsumeQueue: 1000,
      maxHashSlotNum: INDEX_SLOTS,
      maxIndexNum: indexUnits,
    },
    { fs, clock, logger },
  );
}

async function offsetsOf(store: MessageStore, topic: string, key: string, limit = 32): Promise<number[]> {
  const result = await store.queryMessage(topic, key, limit, 0, Number.MAX_SAFE_INTEGER, 'K');
  return result.records.map((record) => viewOf(record).getUint32(32));
}

/** 60 messages, one a second, over 6 CommitLog files, all in one index file. Answers where each lies, and when it came. */
async function sixtyMessages(s: Small): Promise<{ offsets: number[]; times: number[] }> {
  const store = await open(s);
  const offsets: number[] = [];
  const times: number[] = [];
  for (let i = 0; i < 60; i++) {
    const result = append(store, 'T', 0, `key-${i}`, '', 1450);
    offsets.push(result.wroteOffset);
    times.push(result.storeTimestamp);
    await durable(store, result.wroteOffset + result.wroteBytes);
    s.clock.advance(1000);
  }
  await new Promise<void>((resolve, reject) => store.flushDerived((e) => (e === undefined ? resolve() : reject(e))));
  assert.equal(Math.floor(offsets.at(-1)! / (16 * 1024)), 5);
  return { offsets, times };
}

test('B22: the newest index file is thrown away after a kill', async () => {
  const s = small();
  const { offsets, times } = await sixtyMessages(s);
  s.fs.kill(new SeededRandom(1));
  const checkpoint = StoreCheckpoint.load(s.fs, `${ROOT}/checkpoint`);
  checkpoint.indexMsgTimestamp = times[55]!;
  checkpoint.flush(true);
  const store = await open(s);
  for (const i of [0, 30, 54, 59]) assert.deepEqual(await offsetsOf(store, 'T', `key-${i}`), [offsets[i]], `key ${i}`);
  await store.close();
});

test('B22: entries that point past the end of the log return nothing', async () => {
  const s = small();
  const { offsets } = await sixtyMessages(s);
  s.fs.kill(new SeededRandom(1));
  const last = Math.floor(offsets.at(-1)! / (16 * 1024)) * 16 * 1024;
  overwrite(s.fs, `${ROOT}/commitlog/${String(last).padStart(20, '0')}`, 0, new Uint8Array(16 * 1024));
  const store = await open(s);
  for (const [i, offset] of offsets.entries()) {
    assert.deepEqual(await offsetsOf(store, 'T', `key-${i}`), offset < last ? [offset] : [], `key ${i}`);
  }
  await store.close();
});

test('B23: different keys with one hash', async () => {
  const s = small();
  const store = await open(s, 500);
  const offsets: number[] = [];
  for (let i = 0; i < 81; i++) offsets.push(append(store, 'T', 0, i === 40 ? 'Aa' : 'BB').wroteOffset);
  const inAa = append(store, 'Aa', 0, 'key').wroteOffset;
  const end = append(store, 'BB', 0, 'key');
  await durable(store, end.wroteOffset + end.wroteBytes);
  assert.deepEqual(await offsetsOf(store, 'T', 'Aa'), [offsets[40]]);
  assert.equal((await offsetsOf(store, 'T', 'BB')).length, 32, 'up to the limit');
  assert.deepEqual(await offsetsOf(store, 'Aa', 'key'), [inAa]);
  assert.deepEqual(await offsetsOf(store, 'BB', 'key'), [end.wroteOffset]);
  await store.close();
});

for (const [name, position, value] of [
  ['(a) names itself', 40 + 4 * INDEX_SLOTS + 20 * 7 + 16, 7],
  ['(b) names a later one', 40 + 4 * INDEX_SLOTS + 20 * 5 + 16, 9],
  ['(c) names one beyond the count', 40 + 4 * INDEX_SLOTS + 20 * 5 + 16, 2_000_000_000],
  ['(d) a count of 0', 36, 0],
  ['(d) a count of 64 of 64', 36, 64],
] as const) {
  test(`B25: damaged chain in an index file: ${name}`, async () => {
    const s = small();
    let store = await open(s);
    let last = 0;
    for (let i = 1; i <= 10; i++) {
      const { wroteOffset, wroteBytes } = append(store, 'T', 0, 'k');
      last = wroteOffset + wroteBytes;
    }
    await durable(store, last);
    await store.close();
    const [path] = packed(s.fs, ROOT, 'index').keys();
    const bytes = new Uint8Array(4);
    viewOf(bytes).setInt32(0, value);
    overwrite(s.fs, `${ROOT}/${path}`, position, bytes);
    // Another broker has left it so: nothing says what the file held.
    s.fs.removeTree(`${ROOT}/gantry`);

    store = await open(s);
    const found = await offsetsOf(store, 'T', 'k');
    assert.ok(found.length >= (name.startsWith('(d)') ? 10 : 4));
    assert.deepEqual(await offsetsOf(store, 'T', 'k'), found);
    const { wroteOffset, wroteBytes } = append(store, 'T', 0, 'fresh');
    await durable(store, wroteOffset + wroteBytes);
    assert.deepEqual(await offsetsOf(store, 'T', 'fresh'), [wroteOffset]);
    await store.close();
    assert.equal(packed(s.fs, ROOT, 'index').size, 2, 'new keys go to a fresh file');
    assert.equal(s.logger.texts('warn').filter((text) => text.includes('damaged')).length, 1, 'reported once');
  });
}

test('B25: (e) after a stop and a power cut all are found', async () => {
  const s = small();
  let store = await open(s);
  const offsets: number[] = [];
  for (let i = 0; i < 10; i++) offsets.push(append(store, 'T', 0, 'k').wroteOffset);
  await durable(store, offsets.at(-1)! + 1);
  await store.close();
  s.fs.powerCut(new SeededRandom(7));
  store = await open(s);
  assert.deepEqual(await offsetsOf(store, 'T', 'k'), offsets);
  await store.close();
});
