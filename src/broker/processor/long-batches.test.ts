import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CollectingLogger, FakeClock } from '../../common/index.ts';
import { MemoryFileSystem } from '../../io/index.ts';
import { encodeBatch, hostField } from '../../message/index.ts';
import { MessageStore, PutMessageStatus, PutRequest, PutResult } from '../../store/index.ts';
import { LongBatches } from './long-batches.ts';

const MIB = 1024 * 1024;

function request(topic: string, body: Uint8Array, isBatch: boolean): PutRequest {
  const put = new PutRequest();
  put.topic = topic;
  put.topicBytes = Buffer.from(topic);
  put.bornHost = hostField('127.0.0.1', 5000);
  put.storeHost = hostField('127.0.0.1', 10_911);
  put.body = body;
  put.bodyEnd = body.length;
  put.batch = isBatch;
  return put;
}

async function world(): Promise<{
  clock: FakeClock;
  logger: CollectingLogger;
  store: MessageStore;
  long: LongBatches;
}> {
  const clock = new FakeClock(undefined, { manual: true });
  const logger = new CollectingLogger();
  const fs = new MemoryFileSystem({ schedule: (task) => queueMicrotask(task) });
  const store = await MessageStore.open(
    { storePathRootDir: '/store', mappedFileSizeCommitLog: 16 * MIB },
    { fs, clock },
  );
  return { clock, logger, store, long: new LongBatches(clock, logger) };
}

const member = { flag: 0, body: Buffer.alloc(1002), properties: Buffer.alloc(0) };

test('a batch of 1 MiB gives the loop back between its shares, and a small send is stored in each turn', async () => {
  const { clock, store, long } = await world();
  const body = encodeBatch(Array.from({ length: 1024 }, () => member));
  const [batch, small] = [new PutResult(), new PutResult()];
  let ready = 0;
  const done = (): void => {
    ready++;
  };
  const first = store.beginBatch(request('Flood', body, true));
  const second = store.beginBatch(request('Flood', body, true));
  long.add(first, (ended, fault) => {
    assert.deepEqual([ended === first, fault, long.size], [true, undefined, 1]);
    store.putBatch(ended, batch);
    done();
  });
  long.add(second, done);
  const turns: number[] = [];
  for (let turn = 1; ready < 2; turn++) {
    store.put(request('Other', Buffer.from('x'), false), small);
    assert.deepEqual([small.status, small.queueOffset], [PutMessageStatus.PUT_OK, turn - 1]);
    const before = ready;
    clock.runSoon();
    // What was put is committed by the end of the turn, whatever is left of the batch.
    assert.ok(store.watermarks.committed >= small.wroteOffset + small.wroteBytes);
    if (ready > before) turns.push(turn);
  }
  // 128 KiB of members, each with what it costs beside its bytes, are encoded in a turn.
  assert.ok(turns[0]! >= 10 && turns[0]! <= 20, `${turns}`);
  assert.equal(turns[1], 2 * turns[0]!);
  assert.deepEqual([batch.status, batch.queueOffset, batch.messageCount], [PutMessageStatus.PUT_OK, 0, 1024]);
  assert.equal(long.size, 0);
});

test('a batch whose encoding fails does not hold up the next one', async () => {
  const { clock, logger, store, long } = await world();
  const body = encodeBatch([member]);
  const bad = store.beginBatch(request('Flood', body, true));
  bad.step = () => {
    throw new Error('a mistake');
  };
  const told: Array<string | undefined> = [];
  long.add(bad, (_batch, fault) => told.push(fault));
  long.add(store.beginBatch(request('Flood', body, true)), (_batch, fault) => told.push(fault));
  while (clock.runSoon());
  assert.deepEqual(told, ['a mistake', undefined]);
  assert.deepEqual(logger.texts('error'), ['a batch cannot be encoded: a mistake']);
});
