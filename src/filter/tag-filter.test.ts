import assert from 'node:assert/strict';
import { test } from 'node:test';
import { javaStringHash } from '../common/index.ts';
import { buildSubscription, isTagType } from './subscription-data.ts';
import { MATCH_ALL, tagFilterOf } from './tag-filter.ts';

test('no expression and * take everything', () => {
  for (const expression of [undefined, '', '*']) {
    const subscription = buildSubscription('T', expression);
    assert.equal(subscription.subString, '*');
    assert.equal(tagFilterOf(subscription), MATCH_ALL);
  }
});

test('tags are split at ||, trimmed, counted once and hashed as Java does', () => {
  const subscription = buildSubscription('T', ' TagA || TagB||TagA|| ', 'TAG', 7);
  assert.deepEqual(subscription.tagsSet, ['TagA', 'TagB']);
  assert.deepEqual(subscription.codeSet, [2598919, 2598920]);
  assert.equal(subscription.subString, ' TagA || TagB||TagA|| ');
  const filter = tagFilterOf(subscription);
  assert.equal(filter.all, false);
  assert.ok(filter.codes.has(javaStringHash('TagB')));
  assert.ok(!filter.codes.has(javaStringHash('TagC')));
});

test('separators alone are refused as a subscription', () => {
  assert.throws(() => buildSubscription('T', '||'), { code: 'SUBSCRIPTION', responseCode: 23 });
});

test('other types are kept unparsed', () => {
  const subscription = buildSubscription('T', 'a > 5', 'SQL92');
  assert.deepEqual([subscription.subString, subscription.expressionType, subscription.tagsSet], ['a > 5', 'SQL92', []]);
  assert.ok(isTagType(undefined) && isTagType('') && isTagType('TAG') && !isTagType('SQL92'));
});

test('class filters leave the decision to the client', () => {
  assert.equal(tagFilterOf({ ...buildSubscription('T', 'A'), classFilterMode: true }), MATCH_ALL);
});
