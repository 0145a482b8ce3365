import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { javaHashUtf8, javaStringHash } from './java-hash.ts';

test('the hash of UTF-8 bytes is that of their text, and goes on from a seed', () => {
  fc.assert(
    fc.property(fc.string({ maxLength: 40 }), fc.string({ unit: 'grapheme', maxLength: 20 }), (first, second) => {
      const bytes = Buffer.from(`--${second}--`);
      const hash = javaHashUtf8(bytes, 2, bytes.length - 2, javaStringHash(first));
      assert.equal(hash, javaStringHash(first + second));
    }),
  );
});
