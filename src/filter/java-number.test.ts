import assert from 'node:assert/strict';
import { test } from 'node:test';
import { compareDoubles, javaDouble, javaDoubleText, javaInt, javaLong, plainInteger } from './java-number.ts';

test('whole numbers: a sign and digits of any script, within the type', () => {
  for (const [text, value] of [
    ['5', 5],
    ['+5', 5],
    ['-0', 0],
    ['٥', 5],
    ['0012', 12],
    ['2147483647', 2147483647],
  ] as const) {
    assert.equal(javaInt(text), value, text);
  }
  for (const text of ['', '+', ' 5', '5 ', '5.0', '0x5', '5L', '2147483648', '1e3', '--5'])
    assert.equal(javaInt(text), undefined, text);
  assert.equal(javaLong('9223372036854775807'), 9223372036854775807n);
  assert.equal(javaLong('-9223372036854775808'), -9223372036854775808n);
  assert.equal(javaLong('9223372036854775808'), undefined);
});

test('doubles: decimals with a suffix, hex floats, NaN and Infinity, blanks around', () => {
  for (const [text, value] of [
    ['5', 5],
    [' 5.5 ', 5.5],
    ['.5f', 0.5],
    ['5.D', 5],
    ['1e3', 1000],
    ['-1E-2d', -0.01],
    ['0x1.8p1', 3],
    ['0X.8P0', 0.5],
    ['-0x10p-4F', -1],
    ['0x1.00000000000008p0', 1],
    ['0x1.000000000000081p0', 1 + 2 ** -52],
    ['0x1p-1074', 2 ** -1074],
    ['0x1p-1076', 0],
    ['0x1p1024', Infinity],
    ['Infinity', Infinity],
    ['-Infinity', -Infinity],
  ] as const) {
    assert.equal(javaDouble(text), value, text);
  }
  assert.ok(Number.isNaN(javaDouble('+NaN')));
  for (const text of ['', '.', 'e5', '0x1', '0x1.8', '1_000', 'infinity', '5\u00a0', '1e', '0xp1']) {
    assert.equal(javaDouble(text), undefined, JSON.stringify(text));
  }
});

test('a long text of digits that is no number is seen in one pass', () => {
  assert.equal(javaDouble(`${'1'.repeat(200_000)}x`), undefined);
  assert.equal(javaDouble('1.'), 1);
});

test('the order of doubles is that of Double.compareTo', () => {
  assert.ok(compareDoubles(-0, 0) < 0 && compareDoubles(0, -0) > 0 && compareDoubles(0, 0) === 0);
  assert.ok(compareDoubles(Number.NaN, Infinity) > 0 && compareDoubles(1, Number.NaN) < 0);
  assert.equal(compareDoubles(Number.NaN, Number.NaN), 0);
});

test('plain whole numbers are read from bytes, others are left to the thorough reader', () => {
  const read = (text: string): number => plainInteger(Buffer.from(text), 0, Buffer.byteLength(text));
  assert.equal(read('123456789012345'), 123456789012345);
  assert.equal(read('-12'), -12);
  assert.ok(Object.is(read('-0'), 0));
  for (const text of ['', '-', '1234567890123456', '1.5', ' 1', '٥']) assert.ok(Number.isNaN(read(text)), text);
});

test('doubles are written as Java writes them', () => {
  const values = [1, 1.5, 0.001, 9999999, 1e7, 1.25e10, 0.00012, -0, 1e308, 4.9e-324];
  const texts = ['1.0', '1.5', '0.001', '9999999.0', '1.0E7', '1.25E10', '1.2E-4', '-0.0', '1.0E308', '4.9E-324'];
  assert.deepEqual(values.map(javaDoubleText), texts.with(9, '5.0E-324'));
});
