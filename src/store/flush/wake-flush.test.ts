import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { FakeClock } from '../../common/index.ts';
import { MemoryFileSystem } from '../../io/index.ts';
import { MessageStore, PutResult } from '../index.ts';
import { putRequest } from '../put/put-request.test.support.ts';

/** Bytes that are synced after puts of 40 KiB, while the clock stands still. */
async function flushedWithoutTime(config: object): Promise<number> {
  const clock = new FakeClock();
  const fs = new MemoryFileSystem({ clock });
  const store = await MessageStore.open(
    { storePathRootDir: '/store', maxHashSlotNum: 16, maxIndexNum: 64, ...config },
    { fs, clock },
  );
  const put = new PutResult();
  for (let i = 0; i < 10; i++) {
    store.put(putRequest('T', Buffer.alloc(4096)), put);
    for (let n = 0; n < 4; n++) await turn();
  }
  return store.watermarks.flushed;
}

test('wakeFlushWhenPutMessage starts an asynchronous flush once the least pages are there, if flushCommitLogTimed is off', async () => {
  const wake = { wakeFlushWhenPutMessage: true, flushCommitLogTimed: false };
  assert.equal(await flushedWithoutTime({}), 0);
  assert.equal(await flushedWithoutTime({ wakeFlushWhenPutMessage: true }), 0, 'flushCommitLogTimed is on');
  assert.ok((await flushedWithoutTime(wake)) >= 4 * 4096);
  assert.equal(await flushedWithoutTime({ ...wake, flushCommitLogLeastPages: 100 }), 0);
});
