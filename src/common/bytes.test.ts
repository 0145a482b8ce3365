import assert from 'node:assert/strict';
import { test } from 'node:test';
import { indexOfByte } from './bytes.ts';

test('a byte is found where it is first, and nowhere beyond the end', () => {
  for (let length = 0; length <= 13; length++) {
    for (let at = 0; at <= length + 2; at++) {
      const bytes = new Uint8Array(20).fill(7);
      bytes[3 + at] = 9;
      bytes[2] = 9;
      assert.equal(indexOfByte(bytes, 9, 3, 3 + length), 3 + Math.min(at, length), `${length} ${at}`);
    }
  }
});
