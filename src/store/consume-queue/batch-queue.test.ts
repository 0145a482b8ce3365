// Batch queues through the door of the store: ends and minimum, what a start makes of damage, and what is refused.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { GantryError, SeededRandom } from '../../common/index.ts';
import { SysFlag } from '../../message/index.ts';
import { PutMessageStatus } from '../put/index.ts';
import { Bench, ROOT } from './queue-kinds.test.support.ts';

const FOLDER = `${ROOT}/batchconsumequeue/B/0`;

/** Puts records of 1, 2, 3, 1, ... messages with bodies that fill the log; answers the bases. */
async function fill(b: Bench, records: number, from = 0): Promise<void> {
  for (let i = from; i < from + records; i++) {
    await b.putInner('B', 1 + (i % 3), 100);
    b.clock.advance(1000);
  }
}

function files(b: Bench): string[] {
  return b.fs
    .list(FOLDER)
    .sort()
    .map((name) => {
      const file = b.fs.open(`${FOLDER}/${name}`, 'read');
      const bytes = Buffer.alloc(file.size());
      file.readSync(bytes, 0, bytes.length, 0);
      file.close();
      return `${name} ${bytes.toString('hex')}`;
    });
}

test('records are found by any offset inside them, each with its messages, also after a start', async () => {
  const b = new Bench(1_700_000_000_000);
  for (let start = 0; start < 2; start++) {
    await b.open();
    if (start === 0) await fill(b, 30);
    assert.equal(b.store.maxOffsetInQueue('B', 0), 60);
    assert.equal(b.store.maxOffsetInQueue('B', 0, false), 60);
    // Ten units are a file, and a pull stays within one.
    assert.deepEqual(
      await b.read('B', 0, 4).then(({ sizes, messages, next }) => [sizes.length, messages, next]),
      [8, 16, 19],
    );
    assert.deepEqual(await b.read('B', 0, 59).then(({ status, messages, next }) => [status, messages, next]), [
      'FOUND',
      3,
      60,
    ]);
    assert.deepEqual(await b.read('B', 0, 5, 3).then(({ messages, next }) => [messages, next]), [3, 6]);
    assert.equal((await b.read('B', 0, 60)).status, 'OFFSET_OVERFLOW_ONE');
    assert.equal((await b.read('B', 0, 61)).status, 'OFFSET_OVERFLOW_BADLY');
    assert.equal(await b.store.messageStoreTimestamp('B', 0, 4), 1_700_000_000_000 + 2000);
    await b.store.close();
  }
  assert.deepEqual(b.logger.texts('warn'), []);
});

test('a message that is none of many takes one offset and has its unit', async () => {
  const b = new Bench(1_700_000_000_000, {}, ['B']);
  await b.open();
  await b.putInner('B', 2);
  assert.equal((await b.put('B', { TAGS: 'x' })).queueOffset, 2);
  const odd = b.tryPut('B', { INNER_NUM: '0' }, 10, SysFlag.INNER_BATCH);
  assert.equal(odd.status, PutMessageStatus.MESSAGE_ILLEGAL);
  assert.match(odd.reason, /INNER_NUM is 0: a record holds 1 to 32767 messages/);
  assert.equal((await b.putInner('B', 2)).queueOffset, 3);
  assert.deepEqual(await b.read('B', 0, 2).then(({ sizes, messages }) => [sizes.length, messages]), [2, 3]);
  await b.store.close();
});

test('inner batches go to topics of batch queues alone, and INNER_NUM needs its flag', async () => {
  const b = new Bench(1_700_000_000_000, {}, ['B']);
  await b.open();
  const flagged = b.tryPut('T', { INNER_NUM: '2' }, 10, SysFlag.INNER_BATCH);
  assert.equal(flagged.status, PutMessageStatus.MESSAGE_ILLEGAL);
  assert.match(flagged.reason, /the topic T is not of the type BatchCQ/);
  const bare = b.tryPut('B', { INNER_NUM: '2' });
  assert.equal(bare.status, PutMessageStatus.MESSAGE_ILLEGAL);
  assert.match(bare.reason, /INNER_NUM needs the inner-batch flag/);
  assert.equal(b.store.watermarks.wrote, 0);
  await b.store.close();
});

for (let seed = 1; seed <= 8; seed++) {
  test(`after a ${seed % 2 === 0 ? 'kill' : 'power cut'} the queue is what the log says, and goes on (seed ${seed})`, async () => {
    const b = new Bench(1_700_000_000_000);
    const random = new SeededRandom(seed);
    await b.open();
    await fill(b, 15);
    await new Promise<void>((resolve) => b.store.flushDerived(() => resolve()));
    await fill(b, 30, 15);
    if (seed % 2 === 0) b.fs.kill(random);
    else b.fs.powerCut(random);
    await b.open();
    let records = 0;
    for (let at = 0; at < b.store.maxOffsetInQueue('B', 0); ) {
      const found = await b.read('B', 0, at);
      assert.equal(found.status, 'FOUND');
      records += found.sizes.length;
      at = found.next;
    }
    assert.ok(records >= 15);
    assert.equal(b.store.maxOffsetInQueue('B', 0), [0, 1, 3][records % 3]! + 6 * Math.floor(records / 3));
    await fill(b, 60 - records, records);
    await b.store.close();

    b.fs.removeTree(`${ROOT}/batchconsumequeue`);
    await b.open();
    assert.equal(b.store.maxOffsetInQueue('B', 0), 120);
    await b.store.close();
  });
}

for (let seed = 1; seed <= 6; seed++) {
  test(`a unit that a power cut tears is not taken for one (seed ${seed})`, async () => {
    // Unit 89 crosses the files' first page boundary.
    const b = new Bench(1_700_000_000_000, { mapperFileSizeBatchConsumeQueue: 46 * 200 });
    await b.open();
    await fill(b, 80);
    await new Promise<void>((resolve) => b.store.flushDerived(() => resolve()));
    await fill(b, 100, 80);
    b.fs.powerCut(new SeededRandom(seed));
    await b.open();
    const offsets: number[] = [];
    for (let at = 0; at < b.store.maxOffsetInQueue('B', 0); ) {
      const found = await b.read('B', 0, at, 1);
      assert.equal(found.status, 'FOUND', `at ${at}`);
      assert.equal(found.next - at, 1 + (offsets.length % 3));
      offsets.push(at);
      at = found.next;
    }
    await b.store.close();
  });
}

const DAMAGE: Array<[what: string, does: (b: Bench) => void]> = [
  ['all files are gone', (b) => b.fs.removeTree(`${ROOT}/batchconsumequeue`)],
  ['the last file is gone', (b) => b.fs.remove(`${FOLDER}/${'920'.padStart(20, '0')}`)],
  [
    'a unit in the last file is zeros',
    (b) => {
      const file = b.fs.open(`${FOLDER}/${'920'.padStart(20, '0')}`, 'write');
      file.writeSync(new Uint8Array(46), 0, 46, 92);
      file.syncSync();
      file.close();
    },
  ],
];

for (const [what, does] of DAMAGE) {
  test(`a lost batch queue is built again from the log: ${what}`, async () => {
    const b = new Bench(1_700_000_000_000);
    await b.open();
    await fill(b, 30);
    // What is scanned at a clean start lies behind all records of the queue.
    for (let i = 0; i < 80; i++) await b.put('Other', {}, 300);
    await b.store.close();
    const whole = files(b);
    does(b);
    await b.open();
    assert.equal(b.store.minOffsetInQueue('B', 0), 0);
    assert.equal(b.store.maxOffsetInQueue('B', 0), 60);
    assert.equal((await b.read('B', 0, 0)).messages, 19);
    await b.store.close();
    assert.deepEqual(files(b), whole);
  });
}

test('the minimum is the first record that is in the log; files before it are removed', async () => {
  const b = new Bench(1_700_000_000_000);
  await b.open();
  await fill(b, 200);
  await b.store.close();
  b.dropLogFiles(1);
  await b.open();
  const min = b.store.minOffsetInQueue('B', 0);
  assert.ok(min > 60 && min < 300, String(min));
  assert.equal((await b.read('B', 0, min - 1)).status, 'OFFSET_TOO_SMALL');
  assert.equal((await b.read('B', 0, min)).status, 'FOUND');
  const first = b.fs.list(FOLDER).sort()[0]!;
  assert.ok(Number(first) > 0, 'files with nothing in the log are gone');
  await b.store.close();
  await b.open();
  assert.equal(b.store.minOffsetInQueue('B', 0), min);
  assert.equal(b.store.maxOffsetInQueue('B', 0), 399);
  await b.store.close();
});

test('retention tells which messages of a batch queue go, and takes files and queues whose messages are gone', async () => {
  const b = new Bench(1_700_000_000_000, { fileReservedTime: 0, deleteWhen: '' }, ['B']);
  await b.open();
  await fill(b, 200);
  await b.put('T', {}, 15_000);
  const moves: Array<{ topic: string; from: number; to: number }> = [];
  b.store.retention.onRemoval((removal) => {
    for (const { topic, from, to } of removal.moves) moves.push({ topic, from, to });
  });
  for (const name of b.fs.list(`${ROOT}/commitlog`)) b.fs.setModified(`${ROOT}/commitlog/${name}`, 0);
  const filesBefore = b.fs.list(FOLDER).length;
  b.store.retention.request();
  for (let i = 0; i < 200; i++) {
    b.clock.advance(1000);
    await turn();
  }
  const min = b.store.minOffsetInQueue('B', 0);
  assert.ok(min > 60, String(min));
  const ofB = moves.filter(({ topic }) => topic === 'B');
  assert.equal(ofB[0]!.from, 0);
  assert.equal(ofB.at(-1)!.to, min);
  for (const [i, move] of ofB.entries()) assert.equal(move.from, i === 0 ? 0 : ofB[i - 1]!.to);
  assert.ok(b.fs.list(FOLDER).length < filesBefore);
  assert.equal(min, 399, 'all of its messages are gone');
  assert.equal(await b.store.retention.removeExpiredQueues((topic) => topic === 'B'), 1);
  assert.equal(b.fs.stat(FOLDER), undefined);
  assert.equal((await b.putInner('B', 2)).queueOffset, 0);
  await b.store.close();
});

test('a cut of the log cuts the queue, on disk, too', async () => {
  const b = new Bench(1_700_000_000_000);
  await b.open();
  await fill(b, 12);
  const cut = await b.putInner('B', 3);
  await fill(b, 5);
  assert.equal(await b.store.truncateTo(cut.wroteOffset), true);
  assert.equal(b.store.maxOffsetInQueue('B', 0), 24);
  assert.equal((await b.putInner('B', 1)).queueOffset, 24);
  await b.store.close();
  await b.open();
  assert.equal(b.store.maxOffsetInQueue('B', 0), 25);
  await b.store.close();
});

test('a deleted topic begins again at 0, as another kind, too', async () => {
  const topics = ['B'];
  const b = new Bench(1_700_000_000_000, {}, topics);
  await b.open();
  await fill(b, 5);
  await b.store.deleteTopics(['B']);
  assert.equal(b.fs.stat(`${ROOT}/batchconsumequeue/B`), undefined);
  topics.length = 0;
  assert.equal((await b.put('B')).queueOffset, 0);
  await b.store.close();
  await b.open();
  assert.equal(b.store.maxOffsetInQueue('B', 0), 1);
  assert.equal((await b.read('B', 0, 0)).messages, 1);
  await b.store.close();
});

test('files of another kind than the topic, and a length that holds no whole units, refuse the start', async () => {
  const topics = ['B'];
  const b = new Bench(1_700_000_000_000, {}, topics);
  await b.open();
  await fill(b, 5);
  await b.store.close();
  topics.length = 0;
  await assert.rejects(
    b.open(),
    (e) =>
      e instanceof GantryError &&
      e.code === 'STORE_DAMAGED' &&
      /batchconsumequeue\/B has queue files, but/.test(e.message),
  );
  const odd = new Bench(1, { mapperFileSizeBatchConsumeQueue: 500 });
  await assert.rejects(odd.open(), (e) => e instanceof GantryError && e.code === 'CONFIG_VALUE');
});
