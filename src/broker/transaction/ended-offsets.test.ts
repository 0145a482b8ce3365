import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SeededRandom } from '../../common/index.ts';
import { EndedOffsets } from './ended-offsets.ts';
import { HalfQueue } from './half-queue.ts';
import { offsetsIn } from './op-batches.ts';

test('the offsets in a record of ends; what is no number is left out', () => {
  const of = (text: string): number[] | undefined => offsetsIn(Buffer.from(text));
  assert.deepEqual(of('12,0,999999999999999,'), [12, 0, 999_999_999_999_999]);
  assert.deepEqual(of('7'), [7]);
  assert.deepEqual(of(',x1,1x,-3,5,1234567890123456,ü,0008'), [5, 8]);
  for (const text of ['', ',', 'x', ' 1,', '1.5']) assert.equal(of(text), undefined);
});

test('ended offsets are what a Map of them would be', () => {
  const random = new SeededRandom(7);
  const map = new Map<number, boolean>();
  const ended = new EndedOffsets();
  // Far beyond 32 bits, over some blocks.
  const base = 2 ** 40 - 20_000;
  for (let i = 0; i < 60_000; i++) {
    const offset = base + random.int(40_000);
    const here = random.int(2) === 1;
    if (random.int(3) === 0) assert.equal(ended.delete(offset), map.delete(offset));
    else {
      ended.set(offset, here);
      map.set(offset, here);
    }
    assert.equal(ended.size, map.size);
    const other = base + random.int(40_000);
    assert.equal(ended.has(other), map.has(other));
    assert.equal(ended.endedHere(other), map.get(other) === true);
  }
  assert.deepEqual(
    [...ended.keys()].sort((a, b) => a - b),
    [...map.keys()].sort((a, b) => a - b),
  );
  for (const offset of ended.keys()) ended.delete(offset);
  assert.deepEqual([ended.size, [...ended.keys()]], [0, []]);
});

test('an end that is taken back behind the scan is looked at again, and the position goes back to it', () => {
  const queue = new HalfQueue(0, 0, 0);
  for (const offset of [0, 1, 2, 3]) queue.end(offset);
  for (const offset of [0, 1, 2, 3]) assert.ok(queue.take(offset));
  queue.scanned = 4;
  queue.kept.set(4, { offset: 4, dueMs: 1, endMs: 2, group: 'G' });
  queue.scanned = 5;
  assert.equal(queue.position, 4);
  queue.reopen(2);
  queue.reopen(1);
  assert.deepEqual([queue.position, [...queue.kept.keys()]], [1, [1, 2, 4]]);
  assert.ok(queue.isOpen(2) && !queue.isOpen(3) && !queue.hasEnded(2));
  queue.end(6);
  queue.reopen(6);
  assert.ok(queue.isOpen(6) && !queue.kept.has(6));
});
