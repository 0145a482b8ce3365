import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { CollectingLogger, FakeClock, SeededRandom, viewOf, writeI64 } from '../../common/index.ts';
import { MemoryFileSystem, readWhole } from '../../io/index.ts';
import { encodeBatch, SysFlag } from '../../message/index.ts';
import { MessageStore } from '../message-store.ts';
import { PutMessageStatus, PutResult } from '../put/index.ts';
import { putRequest } from '../put/put-request.test.support.ts';
import { defaultStoreConfig, type MessageStoreConfig } from '../store-config.ts';
import { type Fault, repairStore, type StoreReport, verifyStore } from './index.ts';

const ROOT = '/store';
const { messageDelayLevel } = defaultStoreConfig(ROOT);
const OPTIONS = { maxHashSlotNum: 16, maxIndexNum: 4000, messageDelayLevel, timerPrecisionMs: 1000 };
const COUNT = 240;

async function open(fs: MemoryFileSystem, config: Partial<MessageStoreConfig> = {}): Promise<MessageStore> {
  const settings = {
    storePathRootDir: ROOT,
    mappedFileSizeCommitLog: 32 * 1024,
    mappedFileSizeConsumeQueue: 400,
    enableConsumeQueueExt: true,
    mappedFileSizeConsumeQueueExt: 450,
    mapperFileSizeBatchConsumeQueue: 460,
    enableLmq: true,
    enableMultiDispatch: true,
    compactionCqMappedFileSize: 460,
    compactionMappedFileSize: 4600,
    maxHashSlotNum: 16,
    maxIndexNum: 4000,
    ...config,
  };
  return await MessageStore.open(settings, {
    fs,
    logger: new CollectingLogger(),
    clock: new FakeClock(),
    isBatchTopic: (topic) => topic === 'B',
    isCompactionTopic: (topic) => topic === 'K',
  });
}

function put(store: MessageStore, topic: string, body: Uint8Array | string, properties: string, sysFlag = 0): void {
  const request = putRequest(topic, body);
  request.properties = Buffer.from(properties);
  request.propertiesEnd = request.properties.length;
  request.sysFlag = sysFlag;
  const result = new PutResult();
  store.put(request, result);
  assert.equal(result.status, PutMessageStatus.PUT_OK, result.reason);
}

/** A message of each kind in turn: plain with a light queue, delayed, a batch in one record, one of a topic that is compacted. */
function putOne(store: MessageStore, i: number): void {
  const tag = `TAGS\u0001t${i}\u0002`;
  if (i % 4 === 0) put(store, 'T', `body ${i}`, `${tag}INNER_MULTI_DISPATCH\u0001%LMQ%a\u0002`);
  else if (i % 4 === 1) put(store, 'SCHEDULE_TOPIC_XXXX', `body ${i}`, `DELAY\u0001${1 + (i % 18)}\u0002${tag}`);
  else if (i % 4 === 2) {
    const member = { flag: 0, body: Buffer.from(`body ${i}`), properties: new Uint8Array(0) };
    const count = 1 + (i % 3);
    const batch = encodeBatch(Array.from({ length: count }, () => member));
    put(store, 'B', batch, `${tag}INNER_NUM\u0001${count}\u0002`, SysFlag.INNER_BATCH | SysFlag.NEED_UNWRAP);
  } else put(store, 'K', `body ${i}`, `KEYS\u0001k${i % 5}\u0002${tag}`);
}

async function settle(store: MessageStore): Promise<void> {
  while (store.watermarks.dispatched < store.watermarks.wrote) await turn();
  for (let n = 0; n < 20; n++) await turn();
}

async function filled(config: Partial<MessageStoreConfig> = {}): Promise<MemoryFileSystem> {
  const fs = new MemoryFileSystem({ directories: [ROOT] });
  const store = await open(fs, config);
  for (let i = 0; i < COUNT; i++) {
    putOne(store, i);
    if (i % 10 === 0) await turn();
  }
  await settle(store);
  await store.close();
  return fs;
}

function filesIn(fs: MemoryFileSystem, folder: string): string[] {
  return fs
    .list(folder)
    .sort()
    .flatMap((name) =>
      fs.stat(`${folder}/${name}`)!.isDirectory ? filesIn(fs, `${folder}/${name}`) : [`${folder}/${name}`],
    );
}

function hashOf(fs: MemoryFileSystem, folder = ROOT): string {
  const hash = createHash('sha256');
  for (const path of filesIn(fs, folder)) hash.update(path).update(readWhole(fs, path)!);
  return hash.digest('hex');
}

function look(fs: MemoryFileSystem, options: Partial<typeof OPTIONS> = {}): Promise<StoreReport> {
  return verifyStore(fs, ROOT, { ...OPTIONS, ...options });
}

function flip(fs: MemoryFileSystem, path: string, at: number, mask: number): void {
  const file = fs.open(path, 'write');
  const byte = new Uint8Array(1);
  file.readSync(byte, 0, 1, at);
  byte[0]! ^= mask;
  file.writeSync(byte, 0, 1, at);
  file.close();
}

/** Kinds of files, and bytes of their units. */
const KINDS = {
  batchconsumequeue: 46,
  consumequeue_ext: 20,
  'consumequeue/T': 20,
  'consumequeue/SCHEDULE_TOPIC_XXXX': 20,
  'consumequeue/%LMQ%a': 20,
  'compaction/compactionCq': 46,
  'compaction/compactionLog': 1,
} as const;

/** Places of the units that are in use. */
function unitsIn(fs: MemoryFileSystem, kind: keyof typeof KINDS): Array<{ path: string; at: number }> {
  const bytes = KINDS[kind];
  return filesIn(fs, `${ROOT}/${kind}`).flatMap((path) => {
    const content = Buffer.from(readWhole(fs, path)!);
    // Records of the compaction log end where the filler begins, or zeros.
    const filler = content.indexOf(Buffer.from([0xcb, 0xd4, 0x31, 0x94]));
    const end = bytes > 1 || filler < 0 ? content.length : filler - 4;
    const units: Array<{ path: string; at: number }> = [];
    for (let at = 0; at + bytes <= end; at += bytes) {
      const unit = content.subarray(at, at + bytes);
      const isEnd = kind === 'compaction/compactionCq' && unit.readBigInt64BE(0) < 0n;
      if (!isEnd && unit.some((byte) => byte !== 0)) units.push({ path, at });
    }
    return units;
  });
}

const covers = ({ file, byte }: Fault, path: string, at: number, bytes: number): boolean =>
  file === path && byte <= at && at < byte + bytes;

test('a whole store with all kinds of queues has no fault, and no byte of it is changed', async () => {
  const fs = await filled();
  const before = hashOf(fs);
  const report = await look(fs);
  assert.deepEqual([report.faults, report.notes], [[], []]);
  assert.deepEqual(
    [report.records, report.units, report.lag, report.compactionRecords],
    [COUNT, COUNT + COUNT / 4, 0, COUNT / 4],
  );
  assert.equal(report.extUnits, (3 * COUNT) / 4);
  assert.equal(hashOf(fs), before);
  assert.equal(fs.openHandles, 0);
});

for (const kind of Object.keys(KINDS) as Array<keyof typeof KINDS>) {
  test(`${kind}: bits that have flipped are named by file and byte`, async () => {
    const whole = await filled();
    const random = new SeededRandom(5);
    const units = unitsIn(whole, kind);
    assert.ok(units.length >= 60, `${units.length} units`);
    for (let n = 0; n < 60; n++) {
      const fs = whole.clone();
      const { path, at } = units[random.int(units.length)]!;
      const [byte, mask] = [at + random.int(KINDS[kind]), 1 << random.int(8)];
      flip(fs, path, byte, mask);
      const before = hashOf(fs);
      const { faults } = await look(fs);
      // A record of a compaction log has its body under a CRC: that names the record's first byte.
      const width = KINDS[kind] === 1 ? 200 : KINDS[kind];
      assert.ok(
        faults.some((fault) => covers(fault, path, byte, width)),
        `${path} ${at} + ${byte - at}, ${mask}: ${JSON.stringify(faults)}`,
      );
      if (KINDS[kind] > 1) assert.ok(faults.length <= 3, `${path} ${byte}: ${JSON.stringify(faults)}`);
      assert.equal(hashOf(fs), before);
    }
  });
}

test('times of delivery by other levels are no damage, and it is said that they cannot be told; a time that no level makes is', async () => {
  const fs = await filled({ messageDelayLevel: '2s 3s 4s', enableConsumeQueueExt: false });
  const { faults, notes } = await look(fs);
  assert.deepEqual(faults, []);
  assert.match(notes.join(), /^60 delayed messages have another time of delivery than messageDelayLevel gives them/);
  assert.deepEqual((await look(fs, { messageDelayLevel: '2s 3s 4s' })).notes, []);
  const path = filesIn(fs, `${ROOT}/consumequeue/SCHEDULE_TOPIC_XXXX`)[0]!;
  flip(fs, path, 18, 4);
  const damaged = (await look(fs)).faults;
  assert.deepEqual([damaged.length, damaged[0]!.file, damaged[0]!.byte], [1, path, 0]);
  assert.match(damaged[0]!.reason, /^its time of delivery is \d+, -?\d+ ms behind the record's store time/);
});

for (const folder of ['batchconsumequeue/B', 'consumequeue_ext/T', 'consumequeue/T', 'compaction/compactionCq/K']) {
  test(`${folder}: what is damaged is moved away, and the next start builds again what was there`, async () => {
    const fs = await filled();
    // A compaction log's queue file comes without the unit that ends it.
    const derived = ['batchconsumequeue', 'consumequeue', 'consumequeue_ext'];
    const before = derived.map((kind) => hashOf(fs, `${ROOT}/${kind}`));
    const [path] = filesIn(fs, `${ROOT}/${folder}`);
    flip(fs, path!, 17, 8);
    const { moved, left } = repairStore(fs, ROOT, await look(fs));
    assert.ok(moved.length > 0 && left.length === 0, JSON.stringify(left));
    const store = await open(fs);
    await settle(store);
    await store.close();
    assert.deepEqual((await look(fs)).faults, []);
    assert.deepEqual(
      derived.map((kind) => hashOf(fs, `${ROOT}/${kind}`)),
      before,
    );
  });
}

test('a damaged record of a compaction log stays, and so does the queue file beside it: only a pull can tell what of it is lost', async () => {
  const fs = await filled();
  const [path] = filesIn(fs, `${ROOT}/compaction/compactionLog`);
  const [queue] = filesIn(fs, `${ROOT}/compaction/compactionCq`);
  flip(fs, path!, Buffer.from(readWhole(fs, path!)!).indexOf('body'), 1);
  flip(fs, queue!, 46 + 17, 1);
  const { moved, left } = repairStore(fs, ROOT, await look(fs));
  assert.deepEqual([moved.length, left.length], [0, 2]);
});

test('a record that a compaction log lacks is named where its unit must stand', async () => {
  const fs = await filled();
  const [path] = filesIn(fs, `${ROOT}/compaction/compactionCq`);
  const [log] = filesIn(fs, `${ROOT}/compaction/compactionLog`);
  // The second record and its unit, as if they had never been: what follows moves up.
  const [units, records] = [Buffer.from(readWhole(fs, path!)!), Buffer.from(readWhole(fs, log!)!)];
  const sizes = [0, 1, 2].map((i) => units.readInt32BE(46 * i + 8));
  const end = Number(units.readBigInt64BE(46 * 2)) + sizes[2]!;
  records.copyWithin(sizes[0]!, sizes[0]! + sizes[1]!, end);
  writeI64(viewOf(records), sizes[0]! + 28, sizes[0]!);
  units.copyWithin(46, 92, 138);
  writeI64(viewOf(units), 46, sizes[0]!);
  units.fill(0, 92);
  records.fill(0, sizes[0]! + sizes[2]!);
  for (const [name, bytes] of [
    [path!, units],
    [log!, records],
  ] as const) {
    const file = fs.open(name, 'write');
    file.writeSync(bytes, 0, bytes.length, 0);
    file.close();
  }
  const { faults } = await look(fs);
  assert.ok(
    faults.some(
      ({ file, byte, reason }) =>
        file === path && byte === 46 && /that of message 1, at \d+ of the log, is missing/.test(reason),
    ),
    JSON.stringify(faults),
  );
});

test('a store that was killed has no fault where what is derived merely lags', async () => {
  const fs = await filled();
  const store = await open(fs);
  for (let i = 0; i < 21; i++) putOne(store, i);
  await settle(store);
  fs.kill(new SeededRandom(2));
  const { faults, lag } = await look(fs);
  assert.deepEqual(faults, []);
  assert.ok(lag > 0);
});
