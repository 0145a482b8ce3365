import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Clock, FakeClock, systemClock } from '../common/index.ts';
import { type FileHandle, type FileSystem, MemoryFileSystem } from '../io/index.ts';
import { decodeMessages } from '../message/index.ts';
import { StoreCheckpoint } from './checkpoint/index.ts';
import {
  GetMessageStatus,
  GetResult,
  MessageStore,
  type MessageStoreConfig,
  PutMessageStatus,
  PutResult,
  type StoreDependencies,
} from './index.ts';
import { putRequest } from './put/put-request.test.support.ts';

const ALL = { all: true, codes: new Set<number>() };

function open(
  fs: FileSystem,
  config: Partial<MessageStoreConfig> = {},
  deps: StoreDependencies = {},
): Promise<MessageStore> {
  return MessageStore.open(
    {
      storePathRootDir: '/store',
      mappedFileSizeCommitLog: 64 * 1024,
      mappedFileSizeConsumeQueue: 2000,
      maxHashSlotNum: 16,
      maxIndexNum: 64,
      ...config,
    },
    { fs, ...deps },
  );
}

function send(store: MessageStore, topic: string, body: string): Promise<PutMessageStatus> {
  const result = new PutResult();
  store.put(putRequest(topic, body), result);
  if (result.status !== PutMessageStatus.PUT_OK) return Promise.resolve(result.status);
  return new Promise((resolve) => store.whenDurable(result.wroteOffset + result.wroteBytes, true, resolve));
}

/** All bodies of queue 0, pulled to its end. */
async function drain(store: MessageStore, topic: string): Promise<string[]> {
  const bodies: string[] = [];
  const result = new GetResult();
  let offset: number = store.minOffsetInQueue(topic, 0);
  for (;;) {
    const records = await new Promise<Buffer>((resolve, reject) => {
      const step = (error?: Error): void => {
        if (error !== undefined) return reject(error);
        if (!store.select({ topic, queueId: 0, offset, maxMessages: 32, maxBytes: 1 << 20, filter: ALL }, result, step))
          return;
        const bytes = Buffer.alloc(result.totalBytes);
        if (store.copyRecords(result, bytes, 0, step)) resolve(bytes);
      };
      step();
    });
    if (result.status !== GetMessageStatus.FOUND) return bodies;
    offset = result.nextBeginOffset;
    for (const message of decodeMessages(records)) bodies.push(Buffer.from(message.body).toString());
  }
}

/** Lets the loop turn until a condition holds. */
async function until(condition: () => boolean): Promise<void> {
  for (let turn = 0; !condition(); turn++) {
    assert.ok(turn < 10_000, 'it never happens');
    await new Promise((resolve) => setImmediate(resolve));
  }
}

test('a disk that stalls writers moves commits off the loop, and sync sends are answered all the same', async () => {
  let skew = 0;
  const clock: Clock = { ...systemClock, monotonic: () => systemClock.monotonic() + skew };
  const disk = new MemoryFileSystem();
  const slow = (handle: FileHandle): FileHandle =>
    new Proxy(handle, {
      get(target, name) {
        if (name === 'writeSync' && target.path.includes('/commitlog/')) {
          return (...args: Parameters<FileHandle['writeSync']>) => {
            skew += 100;
            target.writeSync(...args);
          };
        }
        const value = Reflect.get(target, name) as unknown;
        return typeof value === 'function' ? value.bind(target) : value;
      },
    });
  const fs = new Proxy(disk, {
    get(target, name) {
      if (name === 'open') return (...args: Parameters<FileSystem['open']>) => slow(target.open(...args));
      const value = Reflect.get(target, name) as unknown;
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
  const store = await open(fs, { flushDiskType: 'SYNC_FLUSH' }, { clock });
  for (let i = 0; i < 20; i++) assert.equal(await send(store, 'T', `m${i}`), PutMessageStatus.PUT_OK);
  assert.equal(skew, 100, 'only the first commit was a synchronous write');
  assert.equal((await drain(store, 'T')).length, 20);
  await store.close();
});

test('a message that could not be written is refused, its offset is given to the next one, and it never comes back', async () => {
  const disk = new MemoryFileSystem();
  const clock = new FakeClock();
  const store = await open(disk, {}, { clock });
  assert.equal(await send(store, 'T', 'first'), PutMessageStatus.PUT_OK);
  const fault = disk.fail({ operation: 'write', path: '/commitlog/', code: 'DISK_FULL', keepBytes: 40, times: 1 });
  assert.equal(await send(store, 'T', 'refused'), PutMessageStatus.SERVICE_NOT_AVAILABLE);
  assert.equal(fault.hits, 1);
  assert.match(store.unwritableReason ?? '', /cannot be written/);
  assert.equal(await send(store, 'T', 'refused too'), PutMessageStatus.SERVICE_NOT_AVAILABLE);
  assert.deepEqual(await drain(store, 'T'), ['first'], 'reads go on');
  clock.advance(1000);
  assert.equal(store.unwritableReason, undefined, 'tried again after a second');
  assert.equal(await send(store, 'T', 'second'), PutMessageStatus.PUT_OK);
  await until(() => store.maxOffsetInQueue('T', 0) === 2);
  assert.deepEqual(await drain(store, 'T'), ['first', 'second']);
  await store.close();
  const again = await open(disk);
  assert.deepEqual(await drain(again, 'T'), ['first', 'second']);
  await again.close();
});

test('a failed sync is final for writes and never answered with success', async () => {
  const disk = new MemoryFileSystem();
  const store = await open(disk, { flushDiskType: 'SYNC_FLUSH' });
  assert.equal(await send(store, 'T', 'durable'), PutMessageStatus.PUT_OK);
  disk.fail({ operation: 'sync', path: '/commitlog/', times: 1 });
  assert.equal(await send(store, 'T', 'unknown'), PutMessageStatus.FLUSH_DISK_TIMEOUT);
  assert.equal(await send(store, 'T', 'late'), PutMessageStatus.SERVICE_NOT_AVAILABLE);
  assert.match(store.unwritableReason ?? '', /sync of the CommitLog failed/);
  assert.deepEqual(await drain(store, 'T'), ['durable'], 'what is not durable is not shown');
  await store.close();
});

test('a truncate that is no record boundary changes nothing; one that is cuts log and queue', async () => {
  const disk = new MemoryFileSystem();
  const store = await open(disk);
  for (let i = 0; i < 300; i++) await send(store, 'T', `m${i}`);
  await until(() => store.maxOffsetInQueue('T', 0) === 300);
  const result = new GetResult();
  await new Promise<void>((resolve) => {
    const step = (): void => {
      if (
        store.select(
          { topic: 'T', queueId: 0, offset: 120, maxMessages: 1, maxBytes: 1 << 20, filter: ALL },
          result,
          step,
        )
      )
        resolve();
    };
    step();
  });
  const boundary = result.positions[0]!;
  assert.equal(await store.truncateTo(boundary + 1), false);
  assert.equal(store.maxOffsetInQueue('T', 0), 300);
  assert.equal(await store.truncateTo(boundary), true);
  assert.equal(store.maxOffsetInQueue('T', 0), 120);
  assert.equal(await send(store, 'T', 'next'), PutMessageStatus.PUT_OK);
  await until(() => store.maxOffsetInQueue('T', 0) === 121);
  assert.deepEqual((await drain(store, 'T')).slice(-2), ['m119', 'next']);
  await store.close();
});

test('a Java broker finds every message after a kill: the checkpoint never falls ten files behind the log', async () => {
  const disk = new MemoryFileSystem();
  const clock = new FakeClock();
  const store = await open(disk, { mappedFileSizeCommitLog: 4096, mappedFileSizeConsumeQueue: 20_000 }, { clock });
  for (let i = 0; i < 400; i++) {
    assert.equal(await send(store, 'T', `message ${i} ${'x'.repeat(300)}`), PutMessageStatus.PUT_OK);
    const { wrote, committed } = store.watermarks;
    const vouched = StoreCheckpoint.load(disk, '/store/checkpoint').logicsPhysicalOffset;
    assert.ok(
      Math.floor(committed / 4096) - Math.floor(vouched / 4096) <= 7,
      `${committed} is too far from ${vouched}`,
    );
    assert.ok(wrote - committed < 4096 * 4);
  }
  assert.ok(store.watermarks.wrote > 4096 * 30);
  assert.equal((await drain(store, 'T')).length, 400);
  await store.close();
});

test('the store is pressed while much waits to be written, tells of progress, and is not pressed when it refuses', async () => {
  const disk = new MemoryFileSystem();
  const clock = new FakeClock();
  const created = disk.hold('createSized');
  const store = await open(disk, { mappedFileSizeCommitLog: 8 << 20 }, { clock });
  const put = (): PutMessageStatus => {
    const result = new PutResult();
    store.put(putRequest('T', 'x'.repeat(1 << 20)), result);
    return result.status;
  };
  for (let i = 0; i < 3; i++) {
    assert.equal(store.pressed, i > 1);
    assert.equal(put(), PutMessageStatus.PUT_OK);
  }
  assert.equal(store.pressed, true);
  let told = 0;
  store.onProgress(() => {
    if (!store.pressed) told++;
  });
  created.end();
  await until(() => told > 0);
  await store.close();
  assert.equal(store.pressed, false);
});
