import assert from 'node:assert/strict';
import { test } from 'node:test';
import { GantryError } from '../../common/index.ts';
import { readWhole, writeWhole } from '../../io/index.ts';
import { GetResult } from '../read/get.ts';
import { CompactionBench, FILE_RECORDS, ROOT, TOPIC } from './compaction-bench.test.support.ts';
import { compactionSizes } from './compaction-format.ts';
import { verifyCompaction } from './verify-folder.ts';

const LOG = `${ROOT}/compaction/compactionLog/${TOPIC}/0`;
const QUEUE = `${ROOT}/compaction/compactionCq/${TOPIC}/0`;

/** A store whose topic has `count` messages, with keys k0 to k3 in turn. */
async function filled(
  count: number,
  config: ConstructorParameters<typeof CompactionBench>[0] = {},
): Promise<CompactionBench> {
  const b = new CompactionBench(config);
  await b.open();
  for (let i = 0; i < count; i++) await b.put(`k${i % 4}`, `body ${i}`);
  return b;
}

async function again(b: CompactionBench): Promise<void> {
  await b.store.close();
  b.anew();
  await b.open();
}

async function offsets(b: CompactionBench): Promise<number[]> {
  return (await b.drain()).map(({ offset }) => offset);
}

test('files are as long as RocketMQ makes them', () => {
  assert.deepEqual(compactionSizes(104_857_600, 10_485_760), { log: 104_857_460, queue: 10_485_746 });
  assert.deepEqual(compactionSizes(20_240, 460), { log: 20_700, queue: 460 });
  assert.deepEqual(compactionSizes(20_300, 460), { log: 20_240, queue: 460 });
  assert.deepEqual(compactionSizes(1, 500), { log: 2300, queue: 460 });
});

test('a compaction keeps the newest message of each key, and what is in the last file as it is', async () => {
  const b = await filled(2 * FILE_RECORDS + 3);
  assert.deepEqual(await offsets(b), [...Array(21).keys()]);
  assert.deepEqual(await b.store.compaction!.compact(TOPIC, 0), { records: 18, kept: 4, files: 1, filesBefore: 2 });
  assert.deepEqual(await offsets(b), [14, 15, 16, 17, 18, 19, 20]);
  assert.equal(b.store.compaction!.compactedTo(TOPIC, 0), 17);
  assert.equal(await b.store.compaction!.compact(TOPIC, 0), undefined, 'nothing has come since');
  await again(b);
  assert.deepEqual(await offsets(b), [14, 15, 16, 17, 18, 19, 20]);
  await b.store.close();
});

test('an offset that is compacted away brings the next message, which says by its own offset that it is another one', async () => {
  const b = await filled(2 * FILE_RECORDS + 1);
  await b.store.compaction!.compact(TOPIC, 0);
  const { status, next, records } = await b.pull(6, 1);
  assert.deepEqual([status, next, records.map(({ offset }) => offset)], ['FOUND', 15, [14]]);
  assert.deepEqual(await b.pull(19, 1), { status: 'OFFSET_OVERFLOW_ONE', next: 19, records: [] });
  assert.deepEqual(await b.pull(25, 1), { status: 'OFFSET_OVERFLOW_BADLY', next: 19, records: [] });
  await b.store.close();
});

test('a message without a body takes its key away; it stays readable until then', async () => {
  const b = await filled(4);
  await b.put('k1', '');
  assert.deepEqual(await offsets(b), [0, 1, 2, 3, 4]);
  for (let i = 0; i < 5; i++) await b.put('other', `${i}`);
  await b.store.compaction!.compact(TOPIC, 0);
  assert.deepEqual(await offsets(b), [0, 2, 3, 8, 9]);
  await b.store.close();
});

test('a message without a key is left out, as by RocketMQ, which accepts it in a batch', async () => {
  const b = await filled(2);
  await b.put('', 'no key');
  await b.put('  \t', 'blank');
  await b.put('k', 'v');
  assert.deepEqual(await offsets(b), [0, 1, 4]);
  assert.equal(b.store.compaction!.find(TOPIC, 0)!.left.noKey, 2);
  await b.store.close();
});

test('a map that is full ends where it is full, and the next compaction goes on there; RocketMQ compacts such a queue never again', async () => {
  const b = new CompactionBench({ maxOffsetMapSize: 0 });
  await b.open();
  // 100 keys have room.
  for (let i = 0; i < 150; i++) await b.put(`k${i}`, 'old');
  for (let i = 0; i < 150; i++) await b.put(`k${i}`, 'new');
  for (let i = 0; i < 9; i++) await b.put('last', `${i}`);
  const { compaction } = b.store;
  for (let n = 0; n < 10 && (await compaction!.compact(TOPIC, 0)) !== undefined; n++);
  const found = await b.drain();
  assert.equal(found.filter(({ body }) => body === 'new').length, 150);
  assert.equal(found.filter(({ body }) => body === 'old').length, 0);
  assert.match(b.logger.texts('warn').join('\n'), /maxOffsetMapSize has room for 100 keys/);
  await b.store.close();
});

test('a power cut at any point of a compaction leaves the old files or the new ones', async () => {
  const before = [...Array(2 * FILE_RECORDS + 3).keys()];
  const after = [14, 15, 16, 17, 18, 19, 20];
  let ended = false;
  let [olds, news] = [0, 0];
  for (let operations = 0; !ended; operations++) {
    const b = await filled(before.length);
    await b.store.compaction!.flush();
    b.fs.powerOffAfter(operations);
    let over = false;
    const compacting = b.store.compaction!.compact(TOPIC, 0).finally(() => {
      over = true;
    });
    compacting.catch(() => {});
    while (!over && !b.fs.isDown) await new Promise((resolve) => setImmediate(resolve));
    ended = !b.fs.isDown;
    b.fs.powerCut({ int: (bound) => (operations * 7) % bound, fraction: () => (operations % 10) / 10 });
    b.anew();
    await b.settle(b.open());
    const found = await offsets(b);
    const isNew = found.length === after.length;
    assert.deepEqual(found, isNew ? after : before, `${operations} operations`);
    assert.equal(b.store.compaction!.compactedTo(TOPIC, 0), isNew ? 17 : -1, `${operations} operations`);
    assert.deepEqual(
      [...verifyCompaction(b.fs, ROOT)].flatMap(({ faults }) => faults),
      [],
      `${operations} operations`,
    );
    if (isNew) news++;
    else olds++;
    await b.settle(b.store.close());
  }
  assert.ok(olds > 10 && news > 5, `${olds} old, ${news} new`);
});

/** The file operations of RocketMQ's replaceFiles, in its order. */
function javaReplacement(b: CompactionBench, old: readonly string[], made: readonly string[]): Array<() => void> {
  const steps: Array<() => void> = [];
  for (const folder of [LOG, QUEUE]) {
    for (const name of old) steps.push(() => b.fs.rename(`${folder}/${name}`, `${folder}/${name}.delete`));
    for (const name of made) steps.push(() => b.fs.rename(`${folder}/compacting/${name}`, `${folder}/${name}`));
    for (const name of old) steps.push(() => b.fs.remove(`${folder}/${name}.delete`));
  }
  return steps;
}

test('a Java broker killed at any point of its replacement of files, which keeps Java from starting: all old messages or all new ones', async () => {
  const names = [0, 5060].map((base) => String(base).padStart(20, '0'));
  for (let done = 0; ; done++) {
    const b = await filled(2 * FILE_RECORDS + 3);
    const before = await offsets(b);
    await b.store.close();
    // What Java would make in compacting/ is what is there after our compaction.
    const copy = new CompactionBench();
    Object.assign(copy, { fs: b.fs.clone() });
    await copy.open();
    await copy.store.compaction!.compact(TOPIC, 0);
    const after = await offsets(copy);
    await copy.store.close();
    for (const folder of [LOG, QUEUE]) {
      b.fs.makeDirectory(`${folder}/compacting`);
      writeWhole(b.fs, `${folder}/compacting/${names[0]}`, readWhole(copy.fs, `${folder}/${names[0]}`)!);
    }
    const steps = javaReplacement(b, names, [names[0]!]);
    if (done > steps.length) return;
    for (const step of steps.slice(0, done)) step();
    b.anew();
    await b.open();
    // Without Java's checkpoint what is compacted cannot be told from what is lost: it may be taken in again.
    const found = await offsets(b);
    assert.deepEqual(found, found.length === after.length ? after : before, `${done} steps`);
    for (const folder of [LOG, QUEUE]) assert.ok(!b.fs.list(folder).some((name) => !/^\d{20}$/.test(name)));
    await b.store.close();
  }
});

/** Lets what is under way come to its end. */
async function turns(): Promise<void> {
  for (let i = 0; i < 50; i++) await new Promise((resolve) => setImmediate(resolve));
}

function flip(b: CompactionBench, path: string, at: number): void {
  const file = b.fs.open(path, 'write');
  const byte = new Uint8Array(1);
  file.readSync(byte, 0, 1, at);
  byte[0]! ^= 0x40;
  file.writeSync(byte, 0, 1, at);
  file.close();
}

test('a damaged record is named, left out, and written again from the CommitLog', async () => {
  const b = await filled(12);
  await again(b);
  const { log } = b.store.compaction!.find(TOPIC, 0)!.list.pairs[0]!;
  flip(b, log.path, 90);
  assert.deepEqual(await offsets(b), [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
  assert.match(b.logger.texts('warn').join('\n'), /compactionLog\/K\/0\/0{20}: byte 0 .*the body CRC is wrong/);
  await turns();
  assert.deepEqual(await offsets(b), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
  assert.match(b.logger.texts('warn').join('\n'), /it is written again from the CommitLog/);
  await b.store.close();
  assert.deepEqual(
    [...verifyCompaction(b.fs, ROOT)].flatMap(({ faults }) => faults),
    [],
  );
});

test('files that are lost come again: a queue file from its log file, a log file from the CommitLog, both from the CommitLog', async () => {
  for (const lost of [[QUEUE], [LOG], [LOG, QUEUE]]) {
    for (const base of [0, 5060, 10_120]) {
      const b = await filled(3 * FILE_RECORDS - 2);
      const before = await b.drain();
      await b.store.close();
      for (const folder of lost) b.fs.remove(`${folder}/${String(base).padStart(20, '0')}`);
      b.anew();
      await b.open();
      assert.deepEqual(await b.drain(), before, `${lost} ${base}`);
      await b.store.close();
      assert.deepEqual(
        [...verifyCompaction(b.fs, ROOT)].flatMap(({ faults }) => faults),
        [],
        `${lost} ${base}`,
      );
    }
  }
});

test('a unit that is damaged is made again from the records', async () => {
  const b = await filled(2 * FILE_RECORDS);
  const before = await b.drain();
  await b.store.close();
  flip(b, `${QUEUE}/${'0'.repeat(20)}`, 46 * 4 + 5);
  const [report] = verifyCompaction(b.fs, ROOT);
  assert.ok(report!.faults.length > 0);
  b.anew();
  await b.open();
  await b.drain();
  await turns();
  assert.deepEqual(await b.drain(), before);
  await b.store.close();
});

test('a unit that is damaged while the store is open keeps nobody from what is behind it, and is written again', async () => {
  const b = await filled(2 * FILE_RECORDS);
  const before = await offsets(b);
  await again(b);
  b.fs.open(`${QUEUE}/${'0'.repeat(20)}`, 'write').writeSync(new Uint8Array(46), 0, 46, 46 * 4);
  assert.deepEqual(
    await offsets(b),
    before.filter((offset) => offset !== 4),
  );
  assert.deepEqual(
    (await b.pull(6, 1)).records.map(({ offset }) => offset),
    [6],
  );
  await turns();
  assert.deepEqual(await offsets(b), before);
  assert.match(b.logger.texts('warn').join('\n'), /byte 184: the unit was none; it is written again/);
  await b.store.close();
});

test('a length that the settings do not make refuses the start, and nothing is changed', async () => {
  const b = await filled(3);
  await b.store.close();
  b.anew();
  await assert.rejects(
    b.open({ compactionCqMappedFileSize: 920 }),
    (error) => error instanceof GantryError && error.code === 'STORE_FILE_SIZE' && /compactionLog/.test(error.message),
  );
  await b.open();
  assert.equal((await offsets(b)).length, 3);
  await b.store.close();
});

const HOUR_MS = 3_600_000;

test('the CommitLog keeps what the compaction log has not taken in, and afterwards the compaction log is the only copy', async () => {
  const b = await filled(20, { fileReservedTime: 1, compactionScheduleInternal: 2 ** 31 - 1 });
  const expire = async (): Promise<void> => {
    b.clock.advance(2 * HOUR_MS);
    b.store.retention.request();
    for (let i = 0; i < 200; i++) {
      await new Promise((resolve) => setImmediate(resolve));
      b.clock.advance(100);
    }
  };
  const fault = b.fs.fail({ operation: 'sync', path: '/compaction', times: Number.POSITIVE_INFINITY });
  for (let i = 0; i < 30; i++) await b.put('filler', 'x'.repeat(1000), 'Other');
  await expire();
  assert.equal(b.store.watermarks.minimum, 0);
  assert.match(b.logger.texts('warn').join('\n'), /still needed by compaction topics/);
  fault.clear();
  await b.store.compaction!.flush();
  await expire();
  assert.ok(b.store.watermarks.minimum > 0);
  assert.deepEqual(await offsets(b), [...Array(20).keys()]);
  await again(b);
  assert.deepEqual(await offsets(b), [...Array(20).keys()]);
  // The ordinals go on.
  assert.equal((await b.put('k', 'v')).queueOffset, 20);
  const { log } = b.store.compaction!.find(TOPIC, 0)!.list.pairs[0]!;
  flip(b, log.path, 90);
  await again(b);
  assert.deepEqual(await offsets(b), [...Array(21).keys()].slice(1));
  await b.store.compaction!.compact(TOPIC, 0);
  assert.deepEqual(b.fs.list(`${ROOT}/gantry/compaction-damaged`), ['K-0-0'], 'what is left of it is set aside');
  await b.store.close();
});

test('a stop that cannot make the compaction log durable is no orderly one, and the checkpoint claims nothing for it', async () => {
  const b = await filled(3);
  await b.store.compaction!.flush();
  await new Promise<void>((resolve) => b.store.flushDerived(() => resolve()));
  await turns();
  const claimed = readWhole(b.fs, `${ROOT}/checkpoint`)!.slice(8, 16);
  b.clock.advance(5000);
  b.fs.fail({ operation: 'write', path: '/compaction', times: Number.POSITIVE_INFINITY });
  await b.put('k', 'v');
  await new Promise<void>((resolve) => b.store.flushDerived(() => resolve()));
  await turns();
  await b.settle(b.store.close());
  assert.deepEqual(readWhole(b.fs, `${ROOT}/checkpoint`)!.slice(8, 16), claimed, 'logicsMsgTimestamp');
  assert.notEqual(b.fs.stat(`${ROOT}/abort`), undefined);
});

test('after a sync that failed, pulls at what is to be taken in again wait where they are, and those below see nothing wrong', async () => {
  const b = await filled(4);
  await b.store.compaction!.flush();
  for (let i = 4; i < 8; i++) await b.put(`k${i % 4}`, `body ${i}`);
  assert.deepEqual(await offsets(b), [...Array(8).keys()]);
  const fault = b.fs.fail({ operation: 'sync', path: '/compaction', times: Number.POSITIVE_INFINITY });
  assert.equal(await b.store.compaction!.flush(), false);
  assert.equal(b.store.compaction!.find(TOPIC, 0)!.pendingCut, 4);
  for (const offset of [4, 5, 8]) {
    assert.deepEqual(await b.pull(offset), { status: 'OFFSET_OVERFLOW_ONE', next: offset, records: [] });
  }
  const { status, next, records } = await b.pull(1);
  assert.deepEqual([status, next, records.map(({ offset }) => offset)], ['FOUND', 4, [1, 2, 3]]);
  assert.doesNotMatch(b.logger.texts('warn').join('\n'), /is none|is left out/);
  fault.clear();
  b.clock.advance(1000);
  assert.deepEqual(await offsets(b), [...Array(8).keys()]);
  await b.store.close();
});

test('a topic that is deleted begins anew, and so does its compaction log', async () => {
  const b = await filled(20);
  await b.store.compaction!.compact(TOPIC, 0);
  await b.settle(b.store.deleteTopics([TOPIC]));
  assert.equal((await b.put('a', 'b')).queueOffset, 0);
  assert.deepEqual(await b.settle(b.drain()), [{ offset: 0, key: 'a', body: 'b' }]);
  await again(b);
  assert.deepEqual(await offsets(b), [0]);
  await b.store.close();
});

test('with enableCompaction off a compaction topic is one like others, and its files stay', async () => {
  const b = await filled(20);
  await b.store.compaction!.compact(TOPIC, 0);
  await b.store.close();
  const files = b.fs.list(LOG);
  b.anew();
  await b.open({ enableCompaction: false });
  assert.equal((await offsets(b)).length, 20);
  await b.put('k0', 'later');
  await again(b);
  assert.deepEqual(b.fs.list(LOG), files);
  assert.deepEqual(await offsets(b), [14, 15, 16, 17, 18, 19, 20]);
  await b.store.close();
});

test('a record and its unit that are damaged at the end of a file, and are gone from the CommitLog, stop nobody in front of what follows', async () => {
  const b = await filled(2 * FILE_RECORDS);
  await again(b);
  const zeros = new Uint8Array(46);
  b.fs.open(`${QUEUE}/${'0'.repeat(20)}`, 'write').writeSync(zeros, 0, 46, 46 * (FILE_RECORDS - 1));
  const { log } = b.store.compaction!.find(TOPIC, 0)!.list.pairs[0]!;
  flip(b, log.path, Buffer.from(readWhole(b.fs, log.path)!).indexOf('body 8'));
  for (let offset = FILE_RECORDS - 1, turn = 0; turn < 3; turn++) {
    const { status, next, records } = await b.pull(offset);
    assert.deepEqual([status, next, records], ['MESSAGE_WAS_REMOVING', FILE_RECORDS, []], `${turn}`);
    await turns();
  }
  assert.deepEqual(
    await offsets(b),
    [...Array(2 * FILE_RECORDS).keys()].filter((offset) => offset !== FILE_RECORDS - 1),
  );
  await b.store.close();
});

test('a unit of the ConsumeQueue that leads to a later message of the same queue costs that one message', async () => {
  const b = await filled(2);
  await b.store.close();
  // As if the compaction log had not been made yet.
  b.fs.removeTree(`${ROOT}/compaction`);
  const queue = `${ROOT}/consumequeue/${TOPIC}/0/${'0'.repeat(20)}`;
  b.anew();
  await b.open({ enableCompaction: false });
  for (let i = 2; i < 8; i++) await b.put(`k${i}`, `body ${i}`);
  await b.store.close();
  const units = readWhole(b.fs, queue)!;
  const file = b.fs.open(queue, 'write');
  file.writeSync(units.subarray(20 * 6, 20 * 7), 0, 20, 20 * 3);
  file.close();
  // What the last stop summed up, it did not sum up now.
  b.fs.remove(`${ROOT}/gantry/queue-bounds.json`);
  b.anew();
  await b.open();
  await b.settle(b.store.compaction!.flush());
  assert.deepEqual(await offsets(b), [0, 1, 2, 4, 5, 6, 7]);
  await b.store.close();
});

test('a topic that becomes one of compaction again while the store runs has what its compaction log holds', async () => {
  const b = await filled(2 * FILE_RECORDS + 3);
  await b.store.compaction!.compact(TOPIC, 0);
  const before = await offsets(b);
  await b.store.close();
  b.isCompacted = false;
  b.anew();
  await b.open();
  b.isCompacted = true;
  await b.put('late', 'body');
  assert.deepEqual(await b.settle(offsets(b)), await b.settle(offsets(b)));
  await b.settle(b.store.compaction!.flush());
  assert.deepEqual(await offsets(b), [...before, 2 * FILE_RECORDS + 3]);
  await again(b);
  assert.deepEqual(await offsets(b), [...before, 2 * FILE_RECORDS + 3]);
  await b.store.close();
});

test('a topic that is deleted while compaction is off, or whose files cannot be removed, brings nothing back when it is made anew', async () => {
  for (const way of ['off', 'fault', 'off and not compacted']) {
    const b = await filled(2 * FILE_RECORDS);
    await b.store.compaction!.flush();
    if (way === 'fault') b.fs.fail({ operation: 'remove', path: '/compaction/', times: 1 });
    else {
      await b.store.close();
      b.anew();
      await b.open({ enableCompaction: false });
    }
    await b.settle(b.store.deleteTopics([TOPIC]));
    if (way !== 'fault') {
      await b.store.close();
      b.isCompacted = way === 'off';
      b.anew();
      await b.open();
      b.isCompacted = true;
    }
    for (let i = 0; i < 3; i++) await b.put(`n${i}`, `new ${i}`);
    await b.settle(b.store.compaction!.flush());
    assert.deepEqual(
      (await b.settle(b.drain())).map(({ body }) => body),
      ['new 0', 'new 1', 'new 2'],
      way,
    );
    await b.store.close();
    assert.ok(b.fs.list(LOG).length <= 1, `${way}: ${b.fs.list(LOG)}`);
  }
});

test('a disk that is full keeps a store with compaction topics from nothing but saving how far they are compacted', async () => {
  const b = await filled(2 * FILE_RECORDS + 3);
  await b.store.compaction!.compact(TOPIC, 0);
  await b.store.close();
  // The log lacks the end of what is compacted: the position is lowered.
  const path = `${ROOT}/compaction/position-checkpoint`;
  const text = Buffer.from(readWhole(b.fs, path)!).toString().replace('17', '170');
  writeWhole(b.fs, path, text);
  const fault = b.fs.fail({ operation: 'write', path: 'position-checkpoint', times: Infinity, code: 'DISK_FULL' });
  b.anew();
  await b.open();
  assert.ok(fault.hits > 0);
  assert.match(b.logger.texts('warn').join('\n'), /how far topics are compacted cannot be saved/);
  assert.equal((await offsets(b)).length, 7);
  fault.clear();
  b.clock.advance(1000);
  await turns();
  assert.doesNotMatch(Buffer.from(readWhole(b.fs, path)!).toString(), /170/);
  await b.store.close();
});

test('units that name places outside of their files are named, and cost no start, nor what is around them', async () => {
  for (const lost of [false, true]) {
    const b = await filled(3 * FILE_RECORDS);
    const before = await b.drain();
    await b.store.close();
    const name = '5060'.padStart(20, '0');
    const file = b.fs.open(`${QUEUE}/${name}`, 'write');
    // A place before the file, and a length of 1 GiB.
    file.writeSync(new Uint8Array(8), 0, 8, 46 * 2);
    file.writeSync(Uint8Array.of(0x40), 0, 1, 46 * 4 + 8);
    file.close();
    if (lost) b.fs.remove(`${LOG}/${name}`);
    const faults = [...verifyCompaction(b.fs, ROOT)].flatMap((report) => report.faults);
    assert.ok(
      lost ||
        faults.some(
          ({ file, byte, reason }) =>
            file === `${QUEUE}/${name}` && byte === 92 && reason.startsWith('names byte -5060'),
        ),
      JSON.stringify(faults),
    );
    b.anew();
    await b.open();
    await b.drain();
    await turns();
    // Without their units nobody knows where the two records lay.
    const left = lost ? before.filter(({ offset }) => offset !== 11 && offset !== 13) : before;
    assert.deepEqual(await b.drain(), left);
    await b.store.close();
  }
});

test('a pull whose records were chosen before their topic was deleted hears that they are gone, and opens none of its files again', async () => {
  const b = await filled(2 * FILE_RECORDS);
  await again(b);
  const open = b.fs.openHandles;
  const result = new GetResult();
  const filter = { all: true, codes: new Set<number>() };
  const request = { topic: TOPIC, queueId: 0, offset: 0, maxMessages: 32, maxBytes: 1 << 20, filter };
  for (let chosen = false; !chosen; ) {
    chosen = await new Promise<boolean>((resolve, reject) => {
      const ready = (error?: Error): void => (error === undefined ? resolve(false) : reject(error));
      if (b.store.select(request, result, ready)) resolve(true);
    });
  }
  assert.equal(result.count, FILE_RECORDS);
  await b.settle(b.store.deleteTopics([TOPIC]));
  await b.settle(b.store.compaction!.flush());
  const error = await new Promise<Error | undefined>((resolve) =>
    b.store.copyRecords(result, new Uint8Array(result.totalBytes), 0, resolve),
  );
  assert.ok(error instanceof GantryError && error.code === 'REMOVED', String(error));
  assert.ok(b.fs.openHandles <= open, `${b.fs.openHandles} of ${open}`);
  await b.store.close();
  assert.equal(b.fs.openHandles, 0);
});
