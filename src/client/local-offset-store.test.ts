import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CollectingLogger } from '../common/index.ts';
import { MemoryFileSystem, readWhole, writeWhole } from '../io/index.ts';
import { LocalOffsetStore } from './local-offset-store.ts';

const q0 = { topic: 'T', brokerName: 'b', queueId: 0 };
const q1 = { topic: 'T', brokerName: 'b', queueId: 1 };
const FOLDER = '/home/.rocketmq_offsets/1.2.3.4@DEFAULT/G';

function open(fs = new MemoryFileSystem()): {
  fs: MemoryFileSystem;
  logger: CollectingLogger;
  store: LocalOffsetStore;
} {
  const logger = new CollectingLogger();
  return { fs, logger, store: new LocalOffsetStore(fs, logger, FOLDER) };
}

test('what was persisted is found again, in the form of the Java client', async () => {
  const { fs, store } = open();
  assert.equal(await store.fetch(q0), undefined);
  store.update(q0, 7, true);
  store.update(q1, 9, true);
  await store.persist([q0, q1], false);
  assert.equal(
    Buffer.from(readWhole(fs, store.path)!).toString('utf8'),
    '{"offsetTable":{{"brokerName":"b","queueId":0,"topic":"T"}:7,{"brokerName":"b","queueId":1,"topic":"T"}:9}}',
  );
  const again = open(fs).store;
  assert.equal(await again.fetch(q0), 7);
  assert.equal(await again.fetch(q1), 9);
});

test('a power cut in the middle of a save leaves the old or the new offsets', async () => {
  const { fs, store } = open();
  store.update(q0, 7, true);
  await store.persist([q0], false);
  store.update(q0, 8, true);
  await store.persist([q0], false);
  writeWhole(fs, store.path, '{"offsetTable":{{"broker');
  const { store: again, logger } = open(fs);
  assert.equal(await again.fetch(q0), 7);
  assert.match(logger.texts('warn')[0]!, /cannot be read.*\.bak are used/);
});

test('with both copies damaged nothing begins anew in silence', async () => {
  const { fs, store } = open();
  store.update(q0, 7, true);
  await store.persist([q0], false);
  writeWhole(fs, store.path, '');
  writeWhole(fs, `${store.path}.bak`, 'x');
  await assert.rejects(open(fs).store.fetch(q0), { code: 'CONFIG_FILE' });
});

test('an update never goes back unless it may, and a frozen offset stays', async () => {
  const { store } = open();
  store.update(q0, 7, true);
  store.update(q0, 5, true);
  assert.equal(store.peek(q0), 7);
  store.update(q0, 5, false);
  assert.equal(store.peek(q0), 5);
  store.updateAndFreeze(q0, 2);
  store.update(q0, 9, false);
  assert.equal(store.peek(q0), 2);
  store.remove(q0);
  assert.equal(store.peek(q0), undefined);
});

test('only the queues that are asked for are saved', async () => {
  const { fs, store } = open();
  store.update(q0, 1, true);
  store.update(q1, 2, true);
  await store.persist([q1], false);
  const again = open(fs).store;
  assert.equal(await again.fetch(q0), undefined);
  assert.equal(await again.fetch(q1), 2);
});
