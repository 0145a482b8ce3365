// Every store that a Java broker left, looked through offline: whole ones have no fault, damaged ones are named.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SeededRandom } from '../../src/common/index.ts';
import { readWhole } from '../../src/io/index.ts';
import { defaultStoreConfig, verifyStore } from '../../src/store/index.ts';
import { applyEdits, goldenDamage, goldenFiles } from './golden.ts';
import { goldenDisk, ROOT } from './open-store.ts';

const OPTIONS = {
  maxHashSlotNum: 100,
  maxIndexNum: 400,
  messageDelayLevel: defaultStoreConfig(ROOT).messageDelayLevel,
  timerPrecisionMs: 1000,
};

/** Those with queues that are files. Of each: units of ConsumeQueues beyond one a record, ext units, units of the timer log, of compaction logs. */
const WHOLE: ReadonlyArray<[name: string, further: number, ext: number, timer: number, compaction: number]> = [
  ['497-plain-clean', 0, 0, 0, 0],
  ['497-plain-crash', 0, 0, 0, 0],
  ['497-plain-crash-recovered', 0, 0, 0, 0],
  ['514-plain-clean', 0, 0, 53, 0],
  ['514-plain-crash', 0, 0, 53, 0],
  ['533-plain-clean', 0, 0, 52, 0],
  ['533-plain-crash', 0, 0, 52, 0],
  ['533-plain-crash-recovered', 0, 0, 52, 0],
  ['550-controller', 0, 0, 0, 0],
  ['550-controller-crash-recovered', 0, 0, 0, 0],
  ['550-ext', 0, 289, 0, 0],
  ['550-features', 66, 0, 0, 15],
  ['550-ipv6', 0, 0, 0, 0],
  ['550-midwrite-crash', 0, 0, 0, 0],
  ['550-midwrite-crash-recovered', 0, 0, 0, 0],
  ['550-plain-clean', 0, 0, 53, 0],
  ['550-plain-crash', 0, 0, 53, 0],
  ['550-plain-crash-recovered', 0, 0, 53, 0],
  ['550-pool-propcrc', 0, 0, 0, 0],
  ['550-pool-propcrc-crash', 0, 0, 0, 0],
  ['550-v2topic', 0, 0, 1, 0],
  ['550-writewithoutmmap', 0, 0, 0, 0],
];

for (const [name, further, ext, timer, compaction] of WHOLE) {
  test(`${name}: the log and all that is derived from it agree`, async () => {
    const fs = goldenDisk(name);
    const report = await verifyStore(fs, ROOT, OPTIONS);
    assert.deepEqual([report.faults, report.notes], [[], []]);
    assert.ok(report.records > 10 && report.indexUnits > report.records);
    assert.deepEqual(
      [report.units - report.records, report.extUnits, report.timerUnits, report.compactionRecords],
      [further, ext, timer, compaction],
    );
    assert.ok(!/plain|514|533/.test(name) || /^497/.test(name) || report.timerSlots >= 4);
    assert.equal(fs.openHandles, 0);
  });
}

test('550-lmq-poison: what Java stopped to dispatch lags, and nothing is damaged', async () => {
  const { faults, lag, units } = await verifyStore(goldenDisk('550-lmq-poison'), ROOT, OPTIONS);
  assert.deepEqual(faults, []);
  assert.ok(lag > 0 && units > 0);
});

test('514-plain-crash-recovered: the keys that RocketMQ 5.1.4 has left out of the index after a kill are named where they are missing', async () => {
  const { faults } = await verifyStore(goldenDisk('514-plain-crash-recovered'), ROOT, OPTIONS);
  assert.deepEqual(
    faults.map(({ of, byte, reason }) => [of, byte, reason]),
    [['index', 460, 'a key of the message at 245961 is missing before it']],
  );
});

/** Files of Java's, the bytes of a unit, which of them matter, and which units: all that are not zeros, or those for which it says so. */
interface JavaKind {
  readonly archive: string;
  readonly folder: string;
  readonly bytes: number;
  readonly matters: (inUnit: number) => boolean;
  readonly counts?: (unit: Buffer) => boolean;
}

const JAVA_KINDS: readonly JavaKind[] = [
  { archive: '550-ext', folder: 'consumequeue_ext/GoldenOne', bytes: 20, matters: () => true },
  { archive: '550-ext', folder: 'consumequeue/GoldenExt', bytes: 20, matters: () => true },
  { archive: '550-features', folder: 'batchconsumequeue', bytes: 46, matters: () => true },
  { archive: '550-features', folder: 'consumequeue/%LMQ%a', bytes: 20, matters: () => true },
  {
    archive: '550-features',
    folder: 'compaction/compactionCq',
    bytes: 46,
    matters: () => true,
    counts: (unit) => unit.readInt32BE(0) >= 0,
  },
  {
    archive: '550-plain-clean',
    folder: 'consumequeue/SCHEDULE_TOPIC_XXXX',
    bytes: 20,
    matters: () => true,
  },
  // What lies behind the hash is reserved.
  {
    archive: '550-plain-clean',
    folder: 'timerlog',
    bytes: 52,
    matters: (at) => at < 44,
    counts: (unit) => unit.readInt32BE(0) === 52,
  },
  // A slot that is done counts no more, nor does what lies behind its count, which is a figure.
  {
    archive: '550-plain-clean',
    folder: 'timerwheel',
    bytes: 32,
    matters: (at) => at < 24,
    counts: (unit) => Number(unit.readBigInt64BE(0)) * 1000 >= 1_795_992_370_000,
  },
  { archive: '550-plain-clean', folder: 'config/timercheck', bytes: 24, matters: () => true },
];

for (const { archive, folder, bytes, matters, counts } of JAVA_KINDS) {
  test(`${archive}, ${folder}: bits that have flipped are named by file and byte`, async () => {
    const whole = goldenDisk(archive);
    const random = new SeededRandom(3);
    const units: Array<[path: string, at: number]> = [];
    for (const path of goldenFiles(archive).keys()) {
      if (!path.startsWith(folder) || path.endsWith('/')) continue;
      const content = Buffer.from(readWhole(whole, `${ROOT}/${path}`)!);
      for (let at = 0; at + bytes <= content.length && !(bytes === 24 && at > 0); at += bytes) {
        const unit = content.subarray(at, at + bytes);
        if (unit.some((byte) => byte !== 0) && (counts?.(unit) ?? true)) units.push([`${ROOT}/${path}`, at]);
      }
    }
    assert.ok(units.length > 0);
    for (let n = 0; n < 30; n++) {
      const fs = whole.clone();
      const [path, at] = units[random.int(units.length)]!;
      let inUnit = random.int(bytes);
      while (!matters(inUnit)) inUnit = random.int(bytes);
      const file = fs.open(path, 'write');
      const byte = new Uint8Array(1);
      file.readSync(byte, 0, 1, at + inUnit);
      const mask = 1 << random.int(8);
      byte[0]! ^= mask;
      file.writeSync(byte, 0, 1, at + inUnit);
      file.close();
      const { faults } = await verifyStore(fs, ROOT, OPTIONS);
      assert.ok(
        faults.some((fault) => fault.file === path && fault.byte >= at && fault.byte <= at + inUnit),
        `${path} ${at} + ${inUnit}, ${mask}: ${JSON.stringify(faults)}`,
      );
    }
  });
}

for (const [name, fault] of [
  ['bad-crc-middle', /byte 33674: the body CRC is wrong$/],
  ['bad-magic-middle', /byte 33674: unknown magic 0xdeadbeef$/],
] as const) {
  test(`damage ${name} is named, and what lies behind it is looked at`, async () => {
    const fs = goldenDisk('550-plain-crash');
    applyEdits(fs, ROOT, goldenDamage(name).edits);
    const { faults, records } = await verifyStore(fs, ROOT, OPTIONS);
    assert.deepEqual(
      faults.map(({ of }) => of),
      ['log'],
    );
    assert.match(`byte ${faults[0]!.byte}: ${faults[0]!.reason}`, fault);
    assert.equal(records, 795);
  });
}
