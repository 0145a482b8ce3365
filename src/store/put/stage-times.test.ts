import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { FakeClock } from '../../common/index.ts';
import { MemoryFileSystem } from '../../io/index.ts';
import { MessageStore, PutResult } from '../index.ts';
import { putRequest } from './put-request.test.support.ts';
import { StageTimes } from './stage-times.ts';

test('a dispatch in shares is one value, from when there was something to do until it was done', () => {
  const clock = new FakeClock();
  const times = new StageTimes(clock);
  times.endDispatch(false);
  assert.equal(times.dispatch.count, 0, 'nothing was to be done');
  for (const more of [true, true, false]) {
    times.beginDispatch();
    clock.advance(10);
    times.endDispatch(more);
  }
  assert.equal(times.dispatch.count, 1);
  assert.equal(times.dispatch.maxMs, 30);
});

test('B74: a turn of sends is one append, one sync and one dispatch, and behind until all of it is in the queues', async () => {
  const fs = new MemoryFileSystem();
  const store = await MessageStore.open(
    { storePathRootDir: '/store', mappedFileSizeCommitLog: 64 * 1024, flushDiskType: 'SYNC_FLUSH' },
    { fs },
  );
  const hold = fs.hold('sync', '/commitlog/');
  const put = putRequest('T', 'm');
  const result = new PutResult();
  let answered = 0;
  for (let i = 0; i < 10; i++) {
    store.put(put, result);
    store.whenDurable(result.wroteOffset + result.wroteBytes, true, () => answered++);
  }
  while (hold.waiting === 0) await turn();
  assert.equal(store.dispatchBehind.bytes, store.watermarks.wrote);
  assert.deepEqual([store.times.append.count, store.times.flush.count, store.times.dispatch.count], [1, 0, 0]);
  hold.end();
  while (answered < 10) await turn();
  assert.deepEqual([store.times.append.count, store.times.flush.count, store.times.dispatch.count], [1, 1, 1]);
  assert.deepEqual(store.dispatchBehind, { bytes: 0, ms: 0 });
  await store.close();
});
