import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SeededRandom, viewOf } from '../../common/index.ts';
import { ConsumeQueue } from './consume-queue.ts';
import { NO_BLOCK, TailBlocks } from './tail-blocks.ts';
import { CQ_UNIT_BYTES, unitOffset } from './unit.ts';

test('blocks are chained, and those that were given back are taken again', () => {
  const blocks = new TailBlocks();
  const first = blocks.take(NO_BLOCK);
  const second = blocks.take(first);
  const other = blocks.take(NO_BLOCK);
  assert.equal(blocks.after(first), second);
  assert.equal(blocks.after(second), NO_BLOCK);
  assert.equal(blocks.usedBytes, 3 * 160);
  assert.equal(blocks.giveBack(first), second);
  assert.equal(blocks.take(other), first);
  assert.equal(blocks.after(other), first);
  assert.equal(blocks.after(first), NO_BLOCK);
});

test('blocks of many slabs never overlap, and slabs that are empty go', () => {
  const blocks = new TailBlocks();
  const taken = new Set<number>();
  const random = new SeededRandom(5);
  for (let round = 0; round < 4; round++) {
    while (taken.size < 10_000) {
      const block = blocks.take(NO_BLOCK);
      assert.ok(!taken.has(block));
      taken.add(block);
      blocks.viewOf(block).setInt32(blocks.startOf(block), block);
    }
    for (const block of taken) assert.equal(blocks.viewOf(block).getInt32(blocks.startOf(block)), block);
    for (const block of taken) {
      if (round < 3 && random.int(3) === 0) continue;
      blocks.giveBack(block);
      taken.delete(block);
    }
    assert.equal(blocks.usedBytes, taken.size * 160);
  }
  assert.equal(blocks.usedBytes, 0);
  // One slab is kept; the others were made anew.
  const block = blocks.take(NO_BLOCK);
  assert.ok(blocks.viewOf(block).byteLength >= 160);
});

test('a tail is what was put, whatever is cut, trimmed and freed', () => {
  const shared = { root: '/q', unitsPerFile: 300_000, blocks: new TailBlocks() };
  for (let seed = 1; seed <= 30; seed++) {
    const random = new SeededRandom(seed);
    const queue = new ConsumeQueue('T', 0, shared);
    const places: number[] = [];
    let end = 0;
    for (let step = 0; step < 300; step++) {
      const what = random.int(10);
      if (what < 7) {
        for (let n = random.int(20); n > 0; n--) {
          queue.put(end, 100, 7, places.length);
          places.push(end);
          end += 100 + random.int(50);
        }
      } else if (what === 7) {
        queue.written = queue.maxOffset;
        if (random.int(2) === 0) queue.trimTail(random.int(40));
        else queue.freeTail();
      } else if (places.length > 0) {
        const at = Math.max(queue.written, places.length - random.int(30));
        places.length = at;
        queue.cutTo(at, at === 0 ? -1 : places[at - 1]! + 100);
      }
      assert.equal(queue.maxOffset, places.length);
      const from = queue.tailStart + random.int(Math.max(1, places.length - queue.tailStart));
      const units = new Uint8Array((places.length - from) * CQ_UNIT_BYTES);
      if (from >= places.length) continue;
      assert.equal(queue.copyTail(from, places.length, units), units.length);
      const view = viewOf(units);
      for (let i = 0; i < places.length - from; i++)
        assert.equal(unitOffset(view, i * CQ_UNIT_BYTES), places[from + i]);
      assert.equal(queue.physicalOffsetAt(from), places[from]);
      assert.equal(queue.physicalEndAt(from), places[from]! + 100);
    }
    queue.resetTo(0, -1);
  }
  assert.equal(shared.blocks.usedBytes, 0, 'every block came back');
});
