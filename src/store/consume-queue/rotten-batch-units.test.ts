// Any single bit of a batch queue's unit that flips on the medium: its record is left out at most, all others are read, in order and once, no
// reader is led to another place, and none stands still.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { GetResult, getStatusName } from '../read/get.ts';
import { repairStore, verifyStore } from '../verify/index.ts';
import { Bench, ROOT } from './queue-kinds.test.support.ts';

const FOLDER = `${ROOT}/batchconsumequeue/B/0`;
const UNIT_BYTES = 46;
const RECORDS = 30;
const START = 1_700_000_000_000;
/** Records hold 1, 2, 3, 1, 2, ... messages. */
const BASES = Array.from({ length: RECORDS }, (_, i) => 6 * Math.floor(i / 3) + [0, 1, 3][i % 3]!);

async function settle(step: (ready: (error?: Error) => void) => boolean): Promise<void> {
  for (let done = false; !done; ) {
    done = await new Promise<boolean>((resolve, reject) => {
      if (step((error) => (error === undefined ? resolve(false) : reject(error)))) resolve(true);
    });
  }
}

/** A closed store, ten units a file. */
async function closed(): Promise<Bench> {
  const b = new Bench(START, {}, ['B']);
  await b.open();
  for (let i = 0; i < RECORDS; i++) {
    await b.putInner('B', 1 + (i % 3), 100 * (1 + (i % 3)));
    b.clock.advance(1000);
  }
  await b.store.close();
  return b;
}

function flip(b: Bench, unit: number, bit: number): void {
  const name = String(Math.floor(unit / 10) * 10 * UNIT_BYTES).padStart(20, '0');
  const file = b.fs.open(`${FOLDER}/${name}`, 'write');
  const byte = new Uint8Array(1);
  const at = (unit % 10) * UNIT_BYTES + (bit >> 3);
  file.readSync(byte, 0, 1, at);
  byte[0]! ^= 1 << (bit & 7);
  file.writeSync(byte, 0, 1, at);
  file.close();
}

/** What the records say that pulls from `offset` on hand out: their queue offsets. */
async function drain(b: Bench, offset: number): Promise<number[]> {
  const got: number[] = [];
  const result = new GetResult();
  const filter = { all: true, codes: new Set<number>() };
  for (let pulls = 0; offset < b.store.maxOffsetInQueue('B', 0); pulls++) {
    assert.ok(pulls < 20, `stands still at ${offset}: ${getStatusName(result.status)}`);
    const request = { topic: 'B', queueId: 0, offset, maxMessages: 32, maxBytes: 1 << 20, filter };
    await settle((ready) => b.store.select(request, result, ready));
    if (getStatusName(result.status) === 'FOUND') {
      assert.ok(result.totalBytes > 0 && result.totalBytes < 100_000, `${result.totalBytes} bytes`);
      const bytes = new Uint8Array(result.totalBytes);
      await settle((ready) => b.store.copyRecords(result, bytes, 0, ready));
      const view = new DataView(bytes.buffer);
      for (let i = 0, at = 0; i < result.count; i++, at += view.getInt32(at)) got.push(view.getInt32(at + 24));
    }
    offset = result.nextBeginOffset;
  }
  return got;
}

for (const [unit, step] of [
  [0, 5],
  [3, 1],
  [9, 1],
  [15, 5],
  [29, 1],
] as const) {
  test(`bits of unit ${unit}: no other record is lost, and none comes twice`, async () => {
    for (let bit = 0; bit < 8 * UNIT_BYTES; bit += step) {
      const b = await closed();
      flip(b, unit, bit);
      await b.open();
      const what = `byte ${bit >> 3} bit ${bit & 7}`;
      const got = await drain(b, b.store.minOffsetInQueue('B', 0));
      const without = BASES.filter((base) => base !== BASES[unit]);
      const isWhole = got.length === RECORDS;
      assert.deepEqual(got, isWhole ? BASES : without, what);
      // Its place, its size and its count of bytes that nobody reads.
      if (bit >= 12 * 8 && bit < 28 * 8) assert.ok(isWhole, `${what}: nothing is lost`);
      // From the middle of the queue on, too.
      assert.deepEqual(
        (await drain(b, 14)).filter((base) => base !== BASES[unit]),
        BASES.filter((base) => base >= 13 && base !== BASES[unit]),
        what,
      );
      const put = await b.putInner('B', 2);
      assert.equal(put.queueOffset, 60, `${what}: offsets go on`);
      await b.store.close();
    }
  });
}

test('verify finds every bit of every unit that somebody reads, and nothing in a store that is whole', async () => {
  const look = (b: Bench) =>
    verifyStore(b.fs, ROOT, {
      maxHashSlotNum: 16,
      maxIndexNum: 4000,
      messageDelayLevel: '1s',
      timerPrecisionMs: 1000,
    });
  const whole = await look(await closed());
  assert.deepEqual(whole.faults, []);
  assert.deepEqual([whole.units, whole.lag], [RECORDS, 0]);
  for (const unit of [0, 9, 13, 29]) {
    for (let bit = 0; bit < 38 * 8; bit++) {
      // What lies in the upper half of the tagsCode nobody reads.
      if (bit >= 12 * 8 && bit < 16 * 8) continue;
      const b = await closed();
      flip(b, unit, bit);
      const { faults } = await look(b);
      const base = Math.floor(unit / 10) * 10 * UNIT_BYTES;
      const found = faults.some(({ file, byte }) => file.endsWith(String(base)) && byte === (unit % 10) * UNIT_BYTES);
      assert.ok(found, `unit ${unit} byte ${bit >> 3} bit ${bit & 7}: ${JSON.stringify(faults)}`);
      assert.ok(faults.length <= 2, JSON.stringify(faults));
      if (bit % 16 !== 0) continue;
      repairStore(b.fs, ROOT, await look(b));
      await b.open();
      assert.deepEqual(await drain(b, 0), BASES);
      await b.store.close();
      assert.deepEqual((await look(b)).faults, []);
    }
  }
});
