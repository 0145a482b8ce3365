import assert from 'node:assert/strict';
import { test } from 'node:test';
import { crc32 as nativeCrc32 } from 'node:zlib';
import fc from 'fast-check';
import { copyWithCrc32, crc32, viewOf } from './index.ts';

test('a sum is zlib’s, and a copy on the way is the bytes and nothing beside them', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 700 }), fc.nat(20), fc.nat(20), (bytes, before, at) => {
      const source = new Uint8Array(before + bytes.length + 3).fill(1);
      source.set(bytes, before);
      const end = before + bytes.length;
      const expected = nativeCrc32(bytes) & 0x7fffffff;
      assert.equal(crc32(source, before, end), expected);
      const target = new Uint8Array(at + bytes.length + 5).fill(7);
      assert.equal(copyWithCrc32(viewOf(source), before, end, viewOf(target), at), expected);
      const untouched = new Uint8Array(target.length).fill(7);
      untouched.set(bytes, at);
      assert.deepEqual(target, untouched);
    }),
  );
});
