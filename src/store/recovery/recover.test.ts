import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeClock, SeededRandom } from '../../common/index.ts';
import { type FileHandle, type FileSystem, MemoryFileSystem } from '../../io/index.ts';
import { MessageStore, PutMessageStatus, PutResult } from '../index.ts';
import { putRequest } from '../put/put-request.test.support.ts';

const FILE_BYTES = 1 << 20;
const FIRST_FILE = '/commitlog/00000000000000000000';

/** A disk that counts the bytes that are read of the log's first file, up to where its records end. */
function counting(disk: MemoryFileSystem, read: { bytes: number; end: number }): FileSystem {
  const bound = (target: object, name: string | symbol): unknown => {
    const value = Reflect.get(target, name) as unknown;
    return typeof value === 'function' ? value.bind(target) : value;
  };
  const counted = (handle: FileHandle): FileHandle =>
    new Proxy(handle, {
      get(target, name) {
        const value = bound(target, name);
        if (!target.path.endsWith(FIRST_FILE) || (name !== 'readSync' && name !== 'read')) return value;
        return (bytes: Uint8Array, start: number, length: number, position: number, ...rest: unknown[]) => {
          read.bytes += Math.max(0, Math.min(length, read.end - position));
          return (value as (...args: unknown[]) => unknown)(bytes, start, length, position, ...rest);
        };
      },
    });
  return new Proxy<FileSystem>(disk, {
    get(target, name) {
      if (name !== 'open') return bound(target, name);
      return (...args: Parameters<FileSystem['open']>) => counted(target.open(...args));
    },
  });
}

for (const end of ['stop', 'kill'] as const) {
  test(`a start after a ${end} reads the durable part of the log once`, async () => {
    const disk = new MemoryFileSystem();
    const read = { bytes: 0, end: 0 };
    const open = (): Promise<MessageStore> =>
      MessageStore.open(
        { storePathRootDir: '/store', mappedFileSizeCommitLog: FILE_BYTES, maxHashSlotNum: 16, maxIndexNum: 6400 },
        { fs: counting(disk, read), clock: new FakeClock() },
      );
    const put = (store: MessageStore): Promise<void> => {
      const result = new PutResult();
      store.put(putRequest('T', 'x'.repeat(2000)), result);
      assert.equal(result.status, PutMessageStatus.PUT_OK);
      return new Promise((resolve) => store.whenDurable(result.wroteOffset + result.wroteBytes, true, () => resolve()));
    };
    let store = await open();
    for (let i = 0; i < 450; i++) await put(store);
    await store.close();
    if (end === 'kill') {
      // The checkpoint vouches for nearly all of the log, as after a long life.
      store = await open();
      await put(store);
      disk.kill(new SeededRandom(1));
    }
    const before = store.watermarks.wrote;
    read.bytes = 0;
    read.end = before;
    store = await open();
    assert.equal(store.watermarks.wrote, before);
    assert.equal(store.recovery.clean, end === 'stop');
    assert.equal(store.recovery.records, end === 'stop' ? 450 : 451);
    assert.equal(store.recovery.dispatched, end === 'stop' ? 0 : 2);
    assert.ok(read.bytes < 1.1 * before, `${read.bytes} of ${before} bytes were read`);
    assert.equal(store.maxOffsetInQueue('T', 0), store.recovery.records);
    await store.close();
  });
}
