import assert from 'node:assert/strict';
import { test } from 'node:test';
import { BloomFilter, hasBits, setBits } from './bloom-filter.ts';

test('size and positions are those of RocketMQ', () => {
  const filter = new BloomFilter(20, 32);
  assert.deepEqual([filter.bits, filter.hashes], [112, 3]);
  assert.deepEqual(filter.of('G1', 'T1').bitPos, [36, 12, 100]);
  // From a store of a Java broker.
  assert.deepEqual(filter.of('GID_sql1', 'GoldenExt'), { bitNum: 112, bitPos: [58, 12, 83] });
  assert.deepEqual(filter.of('GID_sql0', 'GoldenExt').bitPos, [16, 6, 2]);
  assert.deepEqual(new BloomFilter(20, 64).bits, 216);
});

test('the bits of a group are found again, and those of another mostly not', () => {
  const filter = new BloomFilter(20, 32);
  const bits = new Uint8Array(3 + filter.bits / 8);
  setBits(bits.subarray(3), filter.of('G1', 'T1').bitPos);
  assert.equal(Buffer.from(bits.subarray(3)).toString('hex'), '0010000010000000000000001000');
  assert.ok(hasBits(bits, 3, filter.of('G1', 'T1').bitPos));
  assert.ok(!hasBits(bits, 3, filter.of('G2', 'T1').bitPos));
});

test('values that make no filter are refused', () => {
  for (const [rate, consumers] of [
    [0, 32],
    [100, 32],
    [20, 0],
  ] as const) {
    assert.throws(() => new BloomFilter(rate, consumers), { code: 'CONFIG_VALUE' });
  }
});
