import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeClock } from '../../common/index.ts';
import { MemoryFileSystem, readWhole } from '../../io/index.ts';
import { encodeBatch, hostField } from '../../message/index.ts';
import type { LongBatch } from '../index.ts';
import { MessageStore, type MessageStoreConfig, PutMessageStatus, PutRequest, PutResult } from '../index.ts';

const FILE = '/store/commitlog/00000000000000000000';

function open(fs: MemoryFileSystem, config: Partial<MessageStoreConfig>): Promise<MessageStore> {
  const clock = new FakeClock();
  return MessageStore.open(
    {
      storePathRootDir: '/store',
      mappedFileSizeCommitLog: 256 * 1024,
      mappedFileSizeConsumeQueue: 200_000,
      maxHashSlotNum: 16,
      maxIndexNum: 64,
      ...config,
    },
    { fs, clock },
  );
}

function request(topic: string, body: Uint8Array, isBatch: boolean, bornIp = '127.0.0.1'): PutRequest {
  const put = new PutRequest();
  put.topic = topic;
  put.topicBytes = Buffer.from(topic);
  put.bornHost = hostField(bornIp, 5000);
  put.storeHost = hostField('127.0.0.1', 10_911);
  put.bornTimestamp = 1_600_000_000_000;
  // Not at the beginning of its array, as a body is not at the beginning of its frame.
  put.body = Buffer.concat([Buffer.alloc(7, 1), body, Buffer.alloc(9, 2)]);
  put.bodyStart = 7;
  put.bodyEnd = 7 + body.length;
  put.batch = isBatch;
  return put;
}

/** Members of all sizes around what decides how bytes are copied and summed. */
function batch(members: number): Uint8Array {
  const inputs = Array.from({ length: members }, (_, i) => {
    const properties = Buffer.from(
      i % 3 === 0 ? '' : `KEYS\u0001k${i}\u0002TAGS\u0001t${i % 5}${i % 2 ? '\u0002' : ''}`,
    );
    return { flag: i, body: Buffer.alloc((i * 37) % 1500, i), properties };
  });
  return encodeBatch(inputs);
}

function put(store: MessageStore, wanted: PutRequest): PutResult {
  const result = new PutResult();
  store.put(wanted, result);
  return result;
}

function finish(store: MessageStore, long: LongBatch): PutResult {
  const result = new PutResult();
  store.putBatch(long, result);
  return result;
}

const VARIANTS: Array<{ name: string; config?: Partial<MessageStoreConfig>; topic?: string; ip?: string }> = [
  { name: 'plain' },
  { name: 'with property CRC', config: { enabledAppendPropCRC: true } },
  { name: 'of a topic that needs a V2 record', topic: `%RETRY%${'t'.repeat(140)}` },
  { name: 'from an IPv6 client', ip: '2001:db8::1' },
];
for (const { name, config = {}, topic = 'T', ip } of VARIANTS) {
  test(`a batch in shares becomes the bytes that it becomes in one piece: ${name}`, async () => {
    const body = batch(150);
    const logs: Uint8Array[] = [];
    const results: PutResult[] = [];
    for (const share of [0, 1, 1000, 10_000_000]) {
      const fs = new MemoryFileSystem();
      const store = await open(fs, config);
      assert.equal(put(store, request(topic, Buffer.from('first'), false)).status, PutMessageStatus.PUT_OK);
      let result: PutResult;
      if (share === 0) {
        result = put(store, request(topic, body, true, ip));
      } else {
        const long = store.beginBatch(request(topic, body, true, ip));
        let steps = 1;
        while (!long.step(share)) steps++;
        assert.ok(share > 1000 || steps > 100, `${steps} steps`);
        result = finish(store, long);
      }
      // Twice, so that the second does not fit into the file any more.
      put(store, request(topic, Buffer.from('last'), false));
      const second = store.beginBatch(request(topic, body, true, ip));
      while (!second.step(50_000));
      assert.equal(finish(store, second).status, PutMessageStatus.PUT_OK);
      put(store, request(topic, Buffer.from('behind'), false));
      results.push(result);
      await store.close();
      const files = fs.list('/store/commitlog').sort();
      logs.push(Buffer.concat(files.map((file) => readWhole(fs, `/store/commitlog/${file}`)!)));
    }
    for (const result of results) {
      assert.equal(result.status, PutMessageStatus.PUT_OK);
      assert.deepEqual(result, results[0]);
    }
    assert.equal(results[0]!.batchOffsets.length, 150);
    for (const log of logs) assert.ok(Buffer.compare(log, logs[0]!) === 0);
  });
}

test('what is put between the shares lies before the batch, and its place is the one at the end', async () => {
  const fs = new MemoryFileSystem();
  const store = await open(fs, {});
  const long = store.beginBatch(request('T', batch(100), true));
  let others = 0;
  while (!long.step(2000)) {
    const { status, queueOffset } = put(store, request('T', Buffer.from('x'), false));
    assert.deepEqual([status, queueOffset], [PutMessageStatus.PUT_OK, others++]);
  }
  const { wrote } = store.watermarks;
  const result = finish(store, long);
  assert.deepEqual([result.wroteOffset, result.queueOffset, result.messageCount], [wrote, others, 100]);
  assert.equal(put(store, request('T', Buffer.from('x'), false)).queueOffset, others + 100);
  await store.close();
  const again = await open(fs, {});
  assert.equal(again.maxOffsetInQueue('T', 0), others + 101);
  for (const offset of result.batchOffsets) assert.ok((await again.recordAt(offset)) !== undefined);
  await again.close();
});

test('a batch that cannot be stored is refused with the words that it gets in one piece', async () => {
  const fs = new MemoryFileSystem();
  const store = await open(fs, { maxMessageSize: 500_000 });
  const good = batch(100);
  const bodies = [
    good.subarray(0, good.length - 1),
    Buffer.concat([good, Buffer.alloc(30)]),
    new Uint8Array(0),
    batch(700),
    batch(500),
  ];
  for (const body of bodies) {
    const wanted = put(store, request('T', body, true));
    const long = store.beginBatch(request('T', body, true));
    while (!long.step(5000));
    const result = finish(store, long);
    assert.deepEqual([result.status, result.reason], [wanted.status, wanted.reason]);
    assert.notEqual(result.status, PutMessageStatus.PUT_OK);
  }
  assert.equal(store.watermarks.wrote, 0);
  await store.close();
});

test('a batch that is given up leaves nothing, and one that the disk has no room for neither', async () => {
  const fs = new MemoryFileSystem();
  const store = await open(fs, {});
  const given = store.beginBatch(request('T', batch(100), true));
  for (let i = 0; i < 3; i++) given.step(10_000);
  given.release();
  assert.equal(put(store, request('T', Buffer.from('kept'), false)).queueOffset, 0);
  await new Promise<void>((resolve) => store.whenDurable(store.watermarks.wrote, true, () => resolve()));
  const before = readWhole(fs, FILE)!.slice();

  const long = store.beginBatch(request('T', batch(100), true));
  while (!long.step(10_000));
  const fault = fs.fail({ operation: 'write', path: 'commitlog', code: 'DISK_FULL', keepBytes: 50_000 });
  const result = finish(store, long);
  assert.equal(result.status, PutMessageStatus.PUT_OK);
  const answer = await new Promise<PutMessageStatus>((resolve) =>
    store.whenDurable(result.wroteOffset + result.wroteBytes, true, resolve),
  );
  assert.equal(fault.hits, 1);
  assert.equal(answer, PutMessageStatus.SERVICE_NOT_AVAILABLE);
  assert.ok(Buffer.compare(readWhole(fs, FILE)!, before) === 0);
  assert.equal(store.maxOffsetInQueue('T', 0, false), 1);
  await store.close();
  const again = await open(fs, {});
  assert.equal(again.maxOffsetInQueue('T', 0), 1);
  await again.close();
});

test('a batch that begins while the store takes it and ends when it does not is refused', async () => {
  const store = await open(new MemoryFileSystem(), {});
  const long = store.beginBatch(request('T', batch(100), true));
  long.step(10_000);
  const closed = store.close();
  while (!long.step(10_000));
  assert.equal(finish(store, long).status, PutMessageStatus.SERVICE_NOT_AVAILABLE);
  await closed;
  const late = store.beginBatch(request('T', batch(100), true));
  assert.equal(late.step(1), true);
});
