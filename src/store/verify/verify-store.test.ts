import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { CollectingLogger, FakeClock, SeededRandom } from '../../common/index.ts';
import { MemoryFileSystem, readWhole } from '../../io/index.ts';
import { MessageStore } from '../message-store.ts';
import { PutMessageStatus, PutResult } from '../put/index.ts';
import { putRequest } from '../put/put-request.test.support.ts';
import { defaultStoreConfig } from '../store-config.ts';
import { type Fault, repairStore, type StoreReport, verifyStore } from './index.ts';

const ROOT = '/store';
const SIZES = { maxHashSlotNum: 16, maxIndexNum: 64 };
const OPTIONS = { ...SIZES, messageDelayLevel: defaultStoreConfig(ROOT).messageDelayLevel, timerPrecisionMs: 1000 };
const COUNT = 300;

async function open(fs: MemoryFileSystem, logger = new CollectingLogger()): Promise<MessageStore> {
  const settings = {
    storePathRootDir: ROOT,
    mappedFileSizeCommitLog: 16 * 1024,
    mappedFileSizeConsumeQueue: 200,
    enableLmq: true,
    enableMultiDispatch: true,
    ...SIZES,
  };
  return await MessageStore.open(settings, { fs, logger, clock: new FakeClock() });
}

function put(store: MessageStore, i: number): void {
  const request = putRequest(i % 5 === 0 ? 'Other' : 'T', `body ${i}`);
  request.queueId = i % 2;
  const light = i % 7 === 0 ? 'INNER_MULTI_DISPATCH\u0001%LMQ%a,%LMQ%b\u0002' : '';
  const tag = i % 3 === 0 ? `TAGS\u0001t${i}\u0002` : '';
  request.properties = Buffer.from(`UNIQ_KEY\u0001u${i}\u0002KEYS\u0001k${i} all\u0002${tag}${light}`);
  request.propertiesEnd = request.properties.length;
  const result = new PutResult();
  store.put(request, result);
  assert.equal(result.status, PutMessageStatus.PUT_OK, result.reason);
}

/** A store of several files of every kind, stopped. */
async function filled(): Promise<MemoryFileSystem> {
  const fs = new MemoryFileSystem({ directories: [ROOT] });
  const store = await open(fs);
  for (let i = 0; i < COUNT; i++) {
    put(store, i);
    if (i % 10 === 0) await turn();
  }
  while (store.watermarks.dispatched < store.watermarks.wrote) await turn();
  await store.close();
  return fs;
}

function contents(fs: MemoryFileSystem, folder = ROOT): Array<[string, string]> {
  return fs
    .list(folder)
    .sort()
    .flatMap((name): Array<[string, string]> => {
      const path = `${folder}/${name}`;
      if (fs.stat(path)!.isDirectory) return contents(fs, path);
      return [[path, Buffer.from(readWhole(fs, path)!).toString('base64')]];
    });
}

function look(fs: MemoryFileSystem): Promise<StoreReport> {
  return verifyStore(fs, ROOT, OPTIONS);
}

function flip(fs: MemoryFileSystem, path: string, at: number, mask: number): void {
  const file = fs.open(path, 'write');
  const byte = new Uint8Array(1);
  file.readSync(byte, 0, 1, at);
  byte[0]! ^= mask;
  file.writeSync(byte, 0, 1, at);
  file.close();
}

const covers = ({ file, byte }: Fault, path: string, at: number, bytes: number): boolean =>
  file === path && byte <= at && at < byte + bytes;

test('a whole store has no fault, every unit of queues and index is looked at, and nothing is changed', async () => {
  const fs = await filled();
  const before = contents(fs);
  const report = await look(fs);
  assert.deepEqual(report.faults, []);
  assert.equal(report.records, COUNT);
  assert.ok(report.files > 1 && report.indexFiles > 3);
  assert.equal(report.queues, 6);
  assert.equal(report.units, COUNT + 2 * Math.ceil(COUNT / 7));
  assert.equal(report.indexUnits, 3 * COUNT + COUNT / 3);
  assert.equal(report.lag, 0);
  assert.deepEqual(contents(fs), before);
  assert.equal(fs.openHandles, 0);
});

test('bits that have flipped anywhere in records, units and index files are named by file and byte', async () => {
  const whole = await filled();
  const random = new SeededRandom(7);
  const found = { log: 0, queue: 0, index: 0 };
  for (let n = 0; n < 300; n++) {
    const fs = whole.clone();
    const kind = (['log', 'queue', 'index'] as const)[n % 3]!;
    const mask = 1 << random.int(8);
    if (kind === 'log') {
      // A body: it is what each format's CRC covers.
      const names = fs.list(`${ROOT}/commitlog`).sort();
      const path = `${ROOT}/commitlog/${names[random.int(names.length - 1)]}`;
      const bodies = [
        ...Buffer.from(readWhole(fs, path)!)
          .toString('latin1')
          .matchAll(/body \d/g),
      ];
      const at = bodies[random.int(bodies.length)]!.index + random.int(6);
      flip(fs, path, at, mask);
      const { faults } = await look(fs);
      assert.ok(
        faults.some((fault) => fault.of === 'log' && covers(fault, path, at, 400)),
        `${path} ${at}`,
      );
    } else if (kind === 'queue') {
      const folder = `${ROOT}/consumequeue/${['T', 'Other', '%LMQ%a'][random.int(3)]}/0`;
      const names = fs.list(folder).sort();
      const path = `${folder}/${names[random.int(names.length - 1)]}`;
      const at = random.int(200);
      flip(fs, path, at, mask);
      const { faults } = await look(fs);
      assert.ok(
        faults.some((fault) => covers(fault, path, at, 20)),
        `${path} ${at} ${mask}: ${JSON.stringify(faults)}`,
      );
    } else {
      const names = fs.list(`${ROOT}/index`).sort();
      const path = `${ROOT}/index/${names[random.int(names.length - 1)]}`;
      // Units and slots that are in use; a unit's seconds are nowhere else.
      const unit = 1 + random.int(62);
      const slot = random.int(16);
      const field = [0, 4, 16][random.int(3)]! + random.int(4);
      const isUnit = random.int(4) > 0;
      const at = isUnit ? 40 + 64 + 20 * unit + field : 40 + 4 * slot;
      flip(fs, path, at, mask);
      const { faults } = await look(fs);
      assert.ok(
        faults.some((fault) => fault.of === 'index' && fault.file === path),
        `${path} ${at} ${mask}`,
      );
      if (isUnit)
        assert.ok(
          faults.some((fault) => covers(fault, path, at, 20)),
          `${path} ${at}: ${JSON.stringify(faults)}`,
        );
    }
    found[kind]++;
  }
  assert.deepEqual(found, { log: 100, queue: 100, index: 100 });
});

test('rot in the oldest files, which no start looks at, is moved away, and the next start builds again what was there', async () => {
  const fs = await filled();
  const derived = (): Array<[string, string]> => [
    ...contents(fs, `${ROOT}/consumequeue`),
    ...contents(fs, `${ROOT}/index`),
  ];
  const before = derived();
  const [oldest] = fs.list(`${ROOT}/index`).sort();
  flip(fs, `${ROOT}/consumequeue/T/0/${'0'.repeat(20)}`, 45, 1);
  flip(fs, `${ROOT}/index/${oldest}`, 40 + 64 + 20 * 5 + 7, 2);
  await (await open(fs)).close();
  const report = await look(fs);
  assert.deepEqual([...new Set(report.faults.map(({ of }) => of))], ['queue', 'index']);
  const { moved } = repairStore(fs, ROOT, report);
  assert.equal(moved.length, 1 + report.indexFiles);
  await (await open(fs)).close();
  assert.deepEqual((await look(fs)).faults, []);
  const names = (files: Array<[string, string]>): string[] =>
    files.map(([path, bytes]) => `${path.replace(/\d{17}$/, '')} ${bytes}`);
  assert.deepEqual(names(derived()), names(before));
});

test('a store that was killed has no fault where its queues merely lag', async () => {
  const fs = await filled();
  const store = await open(fs);
  const hold = fs.hold('write', '/consumequeue/');
  for (let i = 0; i < 20; i++) put(store, COUNT + i);
  while (store.watermarks.dispatched < store.watermarks.wrote) await turn();
  hold.end();
  fs.kill(new SeededRandom(1));
  const report = await look(fs);
  assert.deepEqual(report.faults, []);
  assert.ok(report.lag > 0);
});

test('a log that lacks a file, or whose record is damaged, is looked through as far as it goes on', async () => {
  const fs = await filled();
  const names = fs.list(`${ROOT}/commitlog`).sort();
  const first = `${ROOT}/commitlog/${names[0]}`;
  const body = Buffer.from(readWhole(fs, first)!).indexOf('body 3');
  flip(fs, first, body, 4);
  const report = await look(fs);
  assert.equal(report.faults.length, 1);
  assert.equal(report.records, COUNT - 1);
  fs.remove(`${ROOT}/commitlog/${names[1]}`);
  const { faults } = await look(fs);
  assert.ok(faults.some(({ reason }) => /is missing before it/.test(reason)));
});
