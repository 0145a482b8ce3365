// Every store that a Java broker left, looked through offline: whole ones have no fault, damaged ones are named.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { defaultStoreConfig, verifyStore } from '../../src/store/index.ts';
import { applyEdits, goldenDamage } from './golden.ts';
import { goldenDisk, ROOT } from './open-store.ts';

const OPTIONS = {
  maxHashSlotNum: 100,
  maxIndexNum: 400,
  messageDelayLevel: defaultStoreConfig(ROOT).messageDelayLevel,
  timerPrecisionMs: 1000,
};

for (const name of [
  '497-plain-clean',
  '514-plain-crash',
  '533-plain-clean',
  '550-plain-clean',
  '550-plain-crash',
  '550-ext',
  '550-features',
  '550-writewithoutmmap',
]) {
  test(`${name}: records, units and keys of the index agree`, async () => {
    const report = await verifyStore(goldenDisk(name), ROOT, OPTIONS);
    assert.deepEqual(report.faults, []);
    assert.ok(report.records > 100 && report.units >= report.records && report.indexUnits > report.records);
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
