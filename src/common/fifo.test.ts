import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Fifo } from './fifo.ts';

test('what goes in comes out in order, over any number of turns', () => {
  const fifo = new Fifo<number>();
  let next = 0;
  let expected = 0;
  for (let turn = 0; turn < 50; turn++) {
    for (let i = 0; i < 1000; i++) fifo.push(next++);
    for (let i = 0; i < 900 + turn * 4; i++) {
      if (fifo.length === 0) break;
      assert.equal(fifo.peek(), expected);
      assert.equal(fifo.shift(), expected++);
    }
    assert.equal(fifo.length, next - expected);
  }
  assert.deepEqual(
    fifo.drain(),
    Array.from({ length: next - expected }, (_, i) => expected + i),
  );
  assert.equal(fifo.shift(), undefined);
  assert.equal(fifo.length, 0);
  fifo.push(1);
  assert.equal(fifo.shift(), 1);
});
