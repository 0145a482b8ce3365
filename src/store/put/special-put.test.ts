// Puts that name light queues, through the door of the store: the ordinals that they get, what dispatch makes of them, and what is set aside.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { viewOf } from '../../common/index.ts';
import { parsePropertyBytes, RecordView, readRecord, Verify } from '../../message/index.ts';
import { Bench, ROOT } from '../consume-queue/queue-kinds.test.support.ts';
import { PutMessageStatus, type PutResult } from './put.ts';

const NOW = 1_700_000_000_000;

async function propertiesAt(b: Bench, { wroteOffset }: PutResult): Promise<Map<string, string>> {
  const bytes = (await b.store.recordAt(wroteOffset))!;
  const record = new RecordView();
  readRecord(bytes, viewOf(bytes), 0, bytes.length, Verify.BODY_CRC, record);
  return parsePropertyBytes(bytes, record.propertiesStart, record.propertiesEnd);
}

async function offsetsOf(b: Bench, names: string): Promise<string | undefined> {
  const result = await b.put('T', { INNER_MULTI_DISPATCH: names });
  return (await propertiesAt(b, result)).get('INNER_MULTI_QUEUE_OFFSET');
}

test('each light queue counts for itself, over starts and a rebuild', async () => {
  const b = new Bench(NOW);
  await b.open();
  assert.equal(await offsetsOf(b, '%LMQ%a'), '0');
  assert.equal(await offsetsOf(b, '%LMQ%b,%LMQ%a'), '0,1');
  await b.store.close();
  await b.open();
  assert.equal(await offsetsOf(b, '%LMQ%a,%LMQ%b,%LMQ%c'), '2,1,0');
  await b.store.close();
  b.fs.removeTree(`${ROOT}/consumequeue`);
  await b.open();
  assert.equal(await offsetsOf(b, '%LMQ%c,%LMQ%a'), '1,3');
  assert.deepEqual((await b.read('%LMQ%a', 0, 0)).sizes.length, 4);
  assert.equal(b.store.maxOffsetInQueue('%LMQ%a', 0), 4);
  assert.deepEqual(
    b.logger.texts('warn').filter((text) => !text.includes('built again from the log')),
    [],
  );
  await b.store.close();
});

test('a name that is listed twice, is no light queue, or cannot be a folder harms nothing', async () => {
  const b = new Bench(NOW);
  await b.open();
  assert.equal(await offsetsOf(b, '%LMQ%a,%LMQ%a'), '0,0');
  assert.equal(await offsetsOf(b, '%LMQ%a,other,'), '1,');
  assert.equal(await offsetsOf(b, '%LMQ%x/y,%LMQ%a'), '0,2');
  assert.equal(await offsetsOf(b, ',,'), undefined);
  assert.equal(b.store.maxOffsetInQueue('%LMQ%a', 0), 3);
  assert.equal(b.store.maxOffsetInQueue('T', 0), 4);
  assert.equal(b.store.maxOffsetInQueue('other', 0), 0);
  const [warning, ...more] = b.logger.texts('warn');
  assert.match(warning!, /cannot go to "other"/);
  assert.deepEqual(more, []);
  await b.store.close();
});

test('B75: offsets that a client made up are set aside, and what stands behind is dispatched', async () => {
  // Without enableLmq the properties are stored as they came.
  const b = new Bench(NOW, { enableLmq: false });
  await b.open();
  const odd = [
    ['%LMQ%a', '0'],
    ['%LMQ%a', '9000000000'],
    ['%LMQ%a', '-1'],
    ['%LMQ%a,%LMQ%b', '1'],
    ['%LMQ%a', 'x'],
    ['%LMQ%a,%LMQ%b', '1,0'],
    ['%LMQ%a', '2'],
  ];
  for (const [names, offsets] of odd) {
    await b.put('T', { INNER_MULTI_DISPATCH: names!, INNER_MULTI_QUEUE_OFFSET: offsets! });
  }
  for (let start = 0; start < 3; start++) {
    assert.equal(b.store.maxOffsetInQueue('T', 0), 7);
    assert.equal(b.store.maxOffsetInQueue('%LMQ%a', 0), 3);
    assert.equal(b.store.maxOffsetInQueue('%LMQ%b', 0), 1);
    assert.equal(b.store.watermarks.dispatched, b.store.watermarks.wrote);
    await b.store.close();
    if (start === 1) b.fs.removeTree(`${ROOT}/consumequeue`);
    await b.open();
  }
  await b.store.close();
});

test('a write that fails gives the light queues their ordinals back, and batch queues their offsets', async () => {
  const b = new Bench(NOW);
  await b.open();
  assert.equal(await offsetsOf(b, '%LMQ%a'), '0');
  await b.putInner('B', 3);
  b.fs.fail({ operation: 'write', path: 'commitlog', code: 'DISK_FULL', times: 1 });
  const lost = b.tryPut('T', { INNER_MULTI_DISPATCH: '%LMQ%a,%LMQ%b' });
  assert.equal(lost.status, PutMessageStatus.PUT_OK);
  await assert.rejects(b.written(lost));
  b.clock.advance(60_000);
  assert.equal(await offsetsOf(b, '%LMQ%a,%LMQ%b'), '1,0');
  await b.putInner('B', 2);
  assert.equal(b.store.maxOffsetInQueue('%LMQ%a', 0), 2);
  assert.equal(b.store.maxOffsetInQueue('B', 0), 5);
  await b.store.close();
});

test('numbers that fill no queue begin again with each start, as in RocketMQ; the queue then begins with those that fill it', async () => {
  const b = new Bench(NOW, { enableMultiDispatch: false });
  await b.open();
  assert.equal(await offsetsOf(b, '%LMQ%a'), '0');
  assert.equal(await offsetsOf(b, '%LMQ%a'), '1');
  assert.equal(b.store.maxOffsetInQueue('%LMQ%a', 0), 0);
  await b.store.close();
  const later = new Bench(NOW);
  Object.assign(later, { fs: b.fs });
  await later.open();
  assert.equal(await offsetsOf(later, '%LMQ%a'), '0');
  for (let start = 0; start < 2; start++) {
    assert.equal(later.store.maxOffsetInQueue('%LMQ%a', 0), 1);
    assert.equal((await later.read('%LMQ%a', 0, 0)).messages, 1);
    await later.store.close();
    later.fs.removeTree(`${ROOT}/consumequeue`);
    await later.open();
  }
  await later.store.close();
});

test('retry, dead-letter, system and schedule topics name no light queues', async () => {
  const b = new Bench(NOW);
  await b.open();
  for (const topic of ['%RETRY%g', '%DLQ%g', 'rmq_sys_x', 'SCHEDULE_TOPIC_XXXX']) {
    const result = await b.put(topic, { INNER_MULTI_DISPATCH: '%LMQ%a' });
    assert.equal((await propertiesAt(b, result)).has('INNER_MULTI_QUEUE_OFFSET'), false, topic);
  }
  assert.equal(b.store.maxOffsetInQueue('%LMQ%a', 0), 0);
  await b.store.close();
});

test('limits of a message that names light queues: no slack beyond maxMessageSize, and one answer for too long properties', async () => {
  const b = new Bench(NOW, { maxMessageSize: 4000 });
  await b.open();
  const light = { INNER_MULTI_DISPATCH: '%LMQ%a' };
  assert.equal(b.tryPut('T', light, 3990).status, PutMessageStatus.MESSAGE_ILLEGAL);
  assert.equal(b.tryPut('T', {}, 3990).status, PutMessageStatus.PUT_OK);
  assert.equal(b.tryPut('T', { ...light, k: 'v'.repeat(32_740) }).status, PutMessageStatus.MESSAGE_ILLEGAL);
  assert.equal(b.tryPut('T', { k: 'v'.repeat(32_767) }).status, PutMessageStatus.PROPERTIES_SIZE_EXCEEDED);
  assert.equal(await offsetsOf(b, '%LMQ%a'), '0', 'what was refused took no ordinal');
  await b.store.close();
});

test('a deleted light queue begins again at 0, and no start brings the old messages back', async () => {
  const b = new Bench(NOW);
  await b.open();
  await offsetsOf(b, '%LMQ%a');
  await offsetsOf(b, '%LMQ%a');
  await b.store.deleteTopics(['%LMQ%a']);
  assert.equal(await offsetsOf(b, '%LMQ%a'), '0');
  await b.store.close();
  b.fs.removeTree(`${ROOT}/consumequeue`);
  await b.open();
  assert.equal(b.store.maxOffsetInQueue('%LMQ%a', 0), 1);
  assert.equal(b.store.maxOffsetInQueue('T', 0), 3);
  await b.store.close();
});

test('who waits at a light queue is told', async () => {
  const b = new Bench(NOW);
  await b.open();
  const told: string[] = [];
  b.store.onArrival((topic, queueId, maxOffset) => told.push(`${topic}/${queueId} ${maxOffset}`));
  b.store.watch('%LMQ%a', 0, true);
  b.store.watch('B', 0, true);
  await offsetsOf(b, '%LMQ%b,%LMQ%a');
  assert.deepEqual(told, ['%LMQ%a/0 1']);
  await b.store.close();
});

test('messages of a deleted topic stay in the light queues that they are in, also when these are built again', async () => {
  const b = new Bench(NOW);
  await b.open();
  assert.equal(await offsetsOf(b, '%LMQ%a'), '0');
  await b.store.deleteTopics(['T']);
  assert.equal(await offsetsOf(b, '%LMQ%a'), '1');
  for (let start = 0; start < 2; start++) {
    assert.equal(b.store.maxOffsetInQueue('T', 0), 1);
    assert.equal((await b.read('%LMQ%a', 0, 0)).messages, 2);
    await b.store.close();
    b.fs.removeTree(`${ROOT}/consumequeue`);
    await b.open();
  }
  await b.store.close();
});
