import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { decodeLz4Frame } from './lz4-frame.ts';

/** "line 0 the quick brown fox;" to line 324, as a Java 5.5.0 producer compressed it (9000 bytes). */
const JAVA_FRAME = Buffer.from(
  '04224d18607073b5000000f10d6c696e6520302074686520717569636b2062726f776e20666f783b201c001f311c00081f32' +
    '1c00081f331c00081f341c00081f351c00081f361c00081f371c00081f381c00081f391c00081f3119010a0f1a01091f311b' +
    '01091f311c01091f311d01091f311e01091f311f01090fca000a0f0301080fc800090fc700090fc600090fc500090fc40009' +
    '0fe301ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff8450776e20666f00000000',
  'hex',
);

/** A frame by hand: blocks as given, without checksums. */
function frame(...blocks: Array<{ stored: boolean; bytes: number[] }>): Buffer {
  const parts: number[] = [0x04, 0x22, 0x4d, 0x18, 0x60, 0x40, 0];
  for (const { stored, bytes } of blocks) {
    const word = Buffer.alloc(4);
    word.writeUInt32LE((bytes.length | (stored ? 0x80000000 : 0)) >>> 0);
    parts.push(...word, ...bytes);
  }
  return Buffer.from([...parts, 0, 0, 0, 0]);
}

const text = (bytes: Uint8Array): string => Buffer.from(bytes).toString('latin1');
const codes = (string: string): number[] => [...Buffer.from(string, 'latin1')];

test('a body that the Java client compressed', () => {
  const body = text(decodeLz4Frame(JAVA_FRAME, 10_000));
  assert.equal(body.length, 9000);
  assert.equal(body.slice(0, 56), 'line 0 the quick brown fox; line 1 the quick brown fox; ');
});

test('stored blocks, literals, and matches that overlap themselves or reach into an earlier block', () => {
  assert.equal(text(decodeLz4Frame(frame({ stored: true, bytes: codes('abc') }), 100)), 'abc');
  // Token: 3 literals, match of 4 + 4 at distance 1; then a last sequence of one literal.
  assert.equal(
    text(decodeLz4Frame(frame({ stored: false, bytes: [0x34, ...codes('abc'), 1, 0, 0x10, 0x21] }), 100)),
    'abccccccccc!',
  );
  const blocks = frame({ stored: true, bytes: codes('hello ') }, { stored: false, bytes: [0x02, 6, 0, 0x10, 0x21] });
  assert.equal(text(decodeLz4Frame(blocks, 100)), 'hello hello !');
});

test('lengths of 15 and more go on in further bytes', () => {
  const literals = codes('x'.repeat(15 + 255 + 3));
  assert.equal(decodeLz4Frame(frame({ stored: false, bytes: [0xf0, 255, 3, ...literals] }), 1000).length, 273);
  assert.equal(
    decodeLz4Frame(frame({ stored: false, bytes: [0x1f, 0x61, 1, 0, 10, 0x10, 0x62] }), 1000).length,
    1 + 29 + 1,
  );
});

test('what grows beyond the limit is refused', () => {
  assert.throws(() => decodeLz4Frame(JAVA_FRAME, 8999), /more than 8999 bytes/);
});

test('every truncation is refused with our own error', () => {
  for (let length = 0; length < JAVA_FRAME.length; length++) {
    assert.throws(() => decodeLz4Frame(JAVA_FRAME.subarray(0, length), 10_000), { code: 'MESSAGE' }, `${length} bytes`);
  }
});

test('random changes end in bytes or in our own error', () => {
  fc.assert(
    fc.property(fc.nat(JAVA_FRAME.length - 1), fc.nat(255), (at, value) => {
      const bytes = Buffer.from(JAVA_FRAME);
      bytes[at] = value;
      try {
        decodeLz4Frame(bytes, 100_000);
      } catch (error) {
        assert.equal((error as { code?: string }).code, 'MESSAGE');
      }
    }),
  );
});
