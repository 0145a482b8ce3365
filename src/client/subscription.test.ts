import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseSubscription, wantsTag } from './subscription.ts';

test('tags are split at double bars and trimmed; codes are Java hashes', () => {
  const data = parseSubscription('T', ' TagA ||TagB || || TagA', 7);
  assert.deepEqual(data.tagsSet, ['TagA', 'TagB']);
  assert.deepEqual(data.codeSet, [2598919, 2598920]);
  assert.equal(data.subString, ' TagA ||TagB || || TagA');
  assert.equal(data.subVersion, 7);
});

test('a star and the empty text take everything', () => {
  for (const expression of ['*', '', '  ']) {
    const data = parseSubscription('T', expression, 1);
    assert.equal(data.subString, '*');
    assert.deepEqual(data.tagsSet, []);
    assert.ok(wantsTag(data, undefined));
    assert.ok(wantsTag(data, 'x'));
  }
});

test('bars without a tag are refused', () => {
  assert.throws(() => parseSubscription('T', '||', 1), { code: 'CONFIG_VALUE' });
});

test('tags of one hash are told apart by their text', () => {
  const data = parseSubscription('T', 'Aa', 1);
  assert.deepEqual(data.codeSet, parseSubscription('T', 'BB', 1).codeSet);
  assert.ok(wantsTag(data, 'Aa'));
  assert.ok(!wantsTag(data, 'BB'));
  assert.ok(!wantsTag(data, undefined));
});
