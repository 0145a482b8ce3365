import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SeededRandom, viewOf } from '../../common/index.ts';
import { readWhole, writeWhole } from '../../io/index.ts';
import { MemoryFileSystem } from '../../io/memory-file-system.ts';
import { CHECKPOINT_BYTES, StoreCheckpoint } from './index.ts';

const PATH = '/store/checkpoint';

function disk(): MemoryFileSystem {
  return new MemoryFileSystem({ directories: ['/store'] });
}

function flushed(checkpoint: StoreCheckpoint): Promise<void> {
  return new Promise((resolve, reject) => checkpoint.flushAsync((error) => (error ? reject(error) : resolve())));
}

function hex(fs: MemoryFileSystem): string {
  return Buffer.from(readWhole(fs, PATH)!).toString('hex');
}

test('the worked example of the format page, field by field', () => {
  const fs = disk();
  const checkpoint = StoreCheckpoint.load(fs, PATH);
  checkpoint.physicMsgTimestamp = 0x1a2296d4506;
  checkpoint.logicsMsgTimestamp = 0x1a2296d4506;
  checkpoint.logicsPhysicalOffset = 477;
  checkpoint.flush(true);
  const page =
    '000001a2296d4506' + // physicMsgTimestamp
    '000001a2296d4506' + // logicsMsgTimestamp
    '0000000000000000' + // indexMsgTimestamp
    '0000000000000000' + // masterFlushedOffset
    '0000000000000000' + // confirmPhyOffset
    '00000000000001dd'; // logicsPhysicalOffset
  assert.equal(hex(fs), page.padEnd(CHECKPOINT_BYTES * 2, '0'));
});

test('all six values come back', async () => {
  const fs = disk();
  const written = StoreCheckpoint.load(fs, PATH);
  const names = [
    'physicMsgTimestamp',
    'logicsMsgTimestamp',
    'indexMsgTimestamp',
    'masterFlushedOffset',
    'confirmPhyOffset',
    'logicsPhysicalOffset',
  ] as const;
  names.forEach((name, i) => {
    written[name] = Number.MAX_SAFE_INTEGER - i;
  });
  written.masterFlushedOffset = -1;
  await flushed(written);
  written.close();
  const read = StoreCheckpoint.load(fs, PATH);
  for (const name of names) assert.equal(read[name], written[name], name);
});

test('an absent file is zeros, and loading makes none', () => {
  const fs = disk();
  const checkpoint = StoreCheckpoint.load(fs, PATH);
  assert.equal(checkpoint.physicMsgTimestamp, 0);
  assert.equal(checkpoint.logicsPhysicalOffset, 0);
  assert.equal(fs.stat(PATH), undefined);
});

test('files of 4.9 and 5.3 are shorter in fields: what they lack reads 0', () => {
  for (const fields of [3, 5]) {
    const fs = disk();
    const bytes = new Uint8Array(fields * 8);
    for (let i = 0; i < fields; i++) viewOf(bytes).setInt32(i * 8 + 4, 100 + i);
    writeWhole(fs, PATH, bytes);
    const checkpoint = StoreCheckpoint.load(fs, PATH);
    assert.equal(checkpoint.indexMsgTimestamp, 102);
    assert.equal(checkpoint.confirmPhyOffset, fields === 5 ? 104 : 0);
    assert.equal(checkpoint.logicsPhysicalOffset, 0);
    checkpoint.flush(false);
    assert.equal(fs.stat(PATH)?.size, CHECKPOINT_BYTES);
  }
});

test('bytes behind the known fields survive a rewrite', () => {
  const fs = disk();
  const bytes = new Uint8Array(CHECKPOINT_BYTES);
  bytes[100] = 7;
  writeWhole(fs, PATH, bytes);
  const checkpoint = StoreCheckpoint.load(fs, PATH);
  checkpoint.physicMsgTimestamp = 5;
  checkpoint.flush(true);
  assert.equal(readWhole(fs, PATH)![100], 7);
});

test('a value beyond 2^53 is damage and reads 0', () => {
  const fs = disk();
  const bytes = new Uint8Array(CHECKPOINT_BYTES);
  bytes.fill(0x7f, 8, 16);
  writeWhole(fs, PATH, bytes);
  assert.equal(StoreCheckpoint.load(fs, PATH).logicsMsgTimestamp, 0);
});

// The disk in memory may cut a write at any byte, a real one only between sectors; so the values here differ in one byte.
test('after a power cut each value is the one flushed or the one written since', async () => {
  for (let seed = 0; seed < 50; seed++) {
    const fs = disk();
    const checkpoint = StoreCheckpoint.load(fs, PATH);
    checkpoint.physicMsgTimestamp = checkpoint.logicsPhysicalOffset = 100;
    await flushed(checkpoint);
    checkpoint.physicMsgTimestamp = checkpoint.logicsPhysicalOffset = 200;
    checkpoint.flush(false);
    fs.powerCut(new SeededRandom(seed));
    const read = StoreCheckpoint.load(fs, PATH);
    assert.ok([100, 200].includes(read.physicMsgTimestamp), `seed ${seed}`);
    assert.ok([100, 200].includes(read.logicsPhysicalOffset), `seed ${seed}`);
  }
});

test('flushes that overlap share a write, and the last values win', async () => {
  const fs = disk();
  let writes = 0;
  fs.onOperation = (operation) => {
    if (operation === 'write') writes++;
  };
  const checkpoint = StoreCheckpoint.load(fs, PATH);
  const all: Array<Promise<void>> = [];
  for (let i = 1; i <= 10; i++) {
    checkpoint.physicMsgTimestamp = i;
    all.push(flushed(checkpoint));
  }
  await Promise.all(all);
  assert.equal(writes, 2);
  assert.equal(StoreCheckpoint.load(fs, PATH).physicMsgTimestamp, 10);
});

test('a failed write reaches the caller and the next flush works', async () => {
  const fs = disk();
  const checkpoint = StoreCheckpoint.load(fs, PATH);
  checkpoint.physicMsgTimestamp = 1;
  await flushed(checkpoint);
  fs.fail({ operation: 'sync', times: 1 });
  checkpoint.physicMsgTimestamp = 2;
  await assert.rejects(flushed(checkpoint));
  await flushed(checkpoint);
  assert.equal(StoreCheckpoint.load(fs, PATH).physicMsgTimestamp, 2);
});
