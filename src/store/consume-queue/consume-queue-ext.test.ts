// Ext units through the door of the store: what is written, what filters read through them, and what a start makes of lost or damaged ones.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CollectingLogger, FakeClock, javaStringHash, SeededRandom } from '../../common/index.ts';
import { MemoryFileSystem } from '../../io/index.ts';
import { MessageStore } from '../message-store.ts';
import { PutMessageStatus, PutResult } from '../put/index.ts';
import { putRequest } from '../put/put-request.test.support.ts';
import { GetMessageStatus, GetResult } from '../read/get.ts';

const ROOT = '/s';
const EXT = `${ROOT}/consumequeue_ext/T`;
const COUNT = 240;

interface Bench {
  fs: MemoryFileSystem;
  clock: FakeClock;
  logger: CollectingLogger;
}

function bench(): Bench {
  return {
    fs: new MemoryFileSystem({ directories: [ROOT] }),
    clock: new FakeClock(1_700_000_000_000),
    logger: new CollectingLogger(),
  };
}

function open({ fs, clock, logger }: Bench, enableConsumeQueueExt = true): Promise<MessageStore> {
  return MessageStore.open(
    {
      storePathRootDir: ROOT,
      mappedFileSizeCommitLog: 16 * 1024,
      mappedFileSizeConsumeQueue: 1000,
      enableConsumeQueueExt,
      mappedFileSizeConsumeQueueExt: 1024,
      maxHashSlotNum: 16,
      maxIndexNum: 4000,
    },
    { fs, clock, logger, memoryBytes: 1 << 30 },
  );
}

function put(store: MessageStore, i: number): PutResult {
  const request = putRequest('T', new Uint8Array(200));
  request.queueId = i % 2;
  request.properties = Buffer.from(`TAGS\u0001${tagOf(i)}\u0002`);
  request.propertiesEnd = request.properties.length;
  const result = new PutResult();
  store.put(request, result);
  assert.equal(result.status, PutMessageStatus.PUT_OK, result.reason);
  return result;
}

function tagOf(i: number): string {
  return ['refund', 'a', 'b'][Math.floor(i / 2) % 3]!;
}

async function fill(b: Bench, store: MessageStore, from = 0, to = COUNT): Promise<void> {
  for (let i = from; i < to; i++) {
    const { wroteOffset, wroteBytes } = put(store, i);
    await new Promise<void>((resolve) => store.whenDurable(wroteOffset + wroteBytes, true, () => resolve()));
    b.clock.advance(10);
  }
}

/** Ordinals of queue 0 that a pull for one tag gives, from 0 to its end; how often it had to wait is `waits`. */
async function tagged(store: MessageStore, tag: string): Promise<{ found: number; waits: number }> {
  const result = new GetResult();
  const filter = { all: false, codes: new Set([javaStringHash(tag)]) };
  let found = 0;
  let waits = 0;
  for (let offset = 0; offset < store.maxOffsetInQueue('T', 0); offset = result.nextBeginOffset) {
    for (;;) {
      const done = await new Promise<boolean>((resolve, reject) => {
        const ready = (error?: Error): void => (error === undefined ? resolve(false) : reject(error));
        if (store.select({ topic: 'T', queueId: 0, offset, maxMessages: 32, maxBytes: 1 << 20, filter }, result, ready))
          resolve(true);
      });
      if (done) break;
      waits++;
    }
    if (result.status === GetMessageStatus.FOUND) found += result.count;
  }
  return { found, waits };
}

function snapshot(fs: MemoryFileSystem): Map<string, string> {
  const files = new Map<string, string>();
  for (const kind of ['consumequeue', 'consumequeue_ext']) {
    for (const queue of ['0', '1']) {
      const folder = `${ROOT}/${kind}/T/${queue}`;
      for (const name of fs.list(folder).sort()) {
        const file = fs.open(`${folder}/${name}`, 'read');
        const bytes = Buffer.alloc(file.size());
        file.readSync(bytes, 0, bytes.length, 0);
        file.close();
        files.set(`${kind}/${queue}/${name}`, bytes.toString('hex'));
      }
    }
  }
  return files;
}

function overwrite(fs: MemoryFileSystem, path: string, position: number, bytes: Uint8Array): void {
  const file = fs.open(path, 'write');
  file.writeSync(bytes, 0, bytes.length, position);
  file.syncSync();
  file.close();
}

const name = (file: number): string => String(file * 1024).padStart(20, '0');

function bytesOf(files: Map<string, string>, folder: string): Buffer {
  const found = [...files].filter(([path]) => path.startsWith(folder));
  return Buffer.from(found.map(([, hex]) => hex).join(''), 'hex');
}

/** Unit by unit: the addresses follow each other as Java gives them, and what lies there is the message's; behind the last one there is nothing. */
function assertUnits(files: Map<string, string>, queueId: number, count: number): void {
  const ext = bytesOf(files, `consumequeue_ext/${queueId}/`);
  const units = bytesOf(files, `consumequeue/${queueId}/`);
  let position = 0;
  for (let i = 0; i < count; i++) {
    // 51 units of 20 bytes leave 4 bytes, which the end mark needs.
    if ((position % 1024) + 20 > 1020) {
      assert.equal(ext.readInt16BE(position), -1);
      position += 1024 - (position % 1024);
    }
    assert.equal(units.readBigInt64BE(i * 20 + 12), -(2n ** 63n) + BigInt(position), `unit ${i}`);
    assert.equal(ext.readInt16BE(position), 20);
    assert.equal(ext.readBigInt64BE(position + 2), BigInt(javaStringHash(tagOf(2 * i + queueId))));
    assert.equal(ext.readInt16BE(position + 18), 0);
    position += 20;
  }
  assert.ok(ext.subarray(position).every((byte) => byte === 0));
}

test('ext units are where and what Java writes, and a filter reads tags through them, from memory and from disk', async () => {
  const b = bench();
  let store = await open(b);
  await fill(b, store);
  assert.equal((await tagged(store, 'refund')).found, COUNT / 6);
  await store.close();
  const files = snapshot(b.fs);
  assertUnits(files, 0, COUNT / 2);
  assertUnits(files, 1, COUNT / 2);
  assert.equal(bytesOf(files, 'consumequeue_ext/0/').length, 3 * 1024);
  assert.equal(bytesOf(files, 'consumequeue_ext/0/').readBigInt64BE(10), 1_700_000_000_000n, 'store time');

  store = await open(b);
  const cold = await tagged(store, 'a');
  assert.equal(cold.found, COUNT / 6);
  assert.ok(cold.waits > 0, 'what is not in memory is waited for');
  assert.deepEqual(b.logger.texts('warn'), []);
  await store.close();
  assert.deepEqual(snapshot(b.fs), files, 'a start and a stop change nothing');

  // Without the setting nothing can be told of a tag: every message passes, as in RocketMQ when an ext unit cannot be read.
  store = await open(b, false);
  assert.equal((await tagged(store, 'a')).found, COUNT / 2);
  await store.close();
});

const DAMAGE: Array<[what: string, does: (fs: MemoryFileSystem) => void]> = [
  ['all files are gone', (fs) => fs.removeTree(`${ROOT}/consumequeue_ext`)],
  ['the first file is gone', (fs) => fs.remove(`${EXT}/0/${name(0)}`)],
  ['a file in the middle is gone', (fs) => fs.remove(`${EXT}/0/${name(1)}`)],
  ['the last file is gone', (fs) => fs.remove(`${EXT}/0/${name(2)}`)],
  ['a page of zeros', (fs) => overwrite(fs, `${EXT}/0/${name(0)}`, 400, new Uint8Array(200))],
  ['a size that is none', (fs) => overwrite(fs, `${EXT}/0/${name(1)}`, 40, Buffer.from([0, 7]))],
  ['a size that leads elsewhere', (fs) => overwrite(fs, `${EXT}/0/${name(1)}`, 40, Buffer.from([0, 33]))],
  ['the end is zeros', (fs) => overwrite(fs, `${EXT}/0/${name(2)}`, 100, new Uint8Array(924))],
];

for (const [what, does] of DAMAGE) {
  test(`lost ext units are built again from the log: ${what}`, async () => {
    const b = bench();
    let store = await open(b);
    await fill(b, store);
    await store.close();
    const whole = snapshot(b.fs);
    does(b.fs);
    store = await open(b);
    assert.equal(b.logger.texts('warn').filter((text) => text.includes('built again from the log')).length > 0, true);
    assert.equal(store.maxOffsetInQueue('T', 0), COUNT / 2);
    assert.equal((await tagged(store, 'b')).found, COUNT / 6);
    await store.close();
    assert.deepEqual(snapshot(b.fs), whole);
  });
}

for (let seed = 1; seed <= 8; seed++) {
  test(`after a ${seed % 2 === 0 ? 'kill' : 'power cut'} units and ext units belong together, and go on where they ended (seed ${seed})`, async () => {
    const b = bench();
    const random = new SeededRandom(seed);
    let store = await open(b);
    const first = 20 + random.int(COUNT - 60);
    await fill(b, store, 0, first);
    await new Promise<void>((resolve) => store.flushDerived(() => resolve()));
    await fill(b, store, first, first + 40);
    if (seed % 2 === 0) b.fs.kill(random);
    else b.fs.powerCut(random);
    store = await open(b);
    const kept = [store.maxOffsetInQueue('T', 0), store.maxOffsetInQueue('T', 1)];
    assert.ok(kept[0]! + kept[1]! >= first);
    for (const queueId of [0, 1]) {
      for (let i = kept[queueId]! * 2 + queueId; i < COUNT; i += 2) await fill(b, store, i, i + 1);
    }
    assert.equal((await tagged(store, 'a')).found, COUNT / 6);
    await store.close();
    const files = snapshot(b.fs);
    for (const queueId of [0, 1]) assertUnits(files, queueId, COUNT / 2);
  });
}

test('ext files that hold nothing for the messages that are left are removed', async () => {
  const b = bench();
  let store = await open(b);
  await fill(b, store);
  await store.close();
  for (const file of b.fs.list(`${ROOT}/commitlog`).sort().slice(0, 3)) b.fs.remove(`${ROOT}/commitlog/${file}`);
  store = await open(b);
  const min = store.minOffsetInQueue('T', 0);
  assert.ok(min > 60);
  assert.equal(
    (await tagged(store, 'a')).found,
    Array.from({ length: COUNT / 2 }, (_, i) => i).filter((i) => i >= min && i % 3 === 1).length,
  );
  assert.deepEqual(b.fs.list(`${EXT}/0`).sort()[0], name(Math.floor(min / 51)));
  await store.close();
  store = await open(b);
  assert.equal(store.minOffsetInQueue('T', 0), min);
  assert.deepEqual(
    b.logger.texts('warn').filter((text) => text.includes('ext')),
    [],
  );
  await store.close();
});
