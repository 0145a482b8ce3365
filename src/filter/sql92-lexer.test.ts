import assert from 'node:assert/strict';
import { test } from 'node:test';
import { tokensOf } from './sql92-lexer.ts';

test('a letter stands for each token, words whatever their case, blanks and comments for none', () => {
  const text = "not a1 >= -1.5e3 -- to the end of the line\r\nAnd b_$ <>/* here */'it''s' OR 01 BETWEEN 2L";
  assert.deepEqual(tokensOf(text), {
    letters: 'Nig-fAi!sOddBd',
    images: ['not', 'a1', '>=', '-', '1.5e3', 'And', 'b_$', '<>', "'it''s'", 'OR', '0', '1', 'BETWEEN', '2L'],
  });
  assert.deepEqual(tokensOf(' /**/ '), { letters: '', images: [] });
  assert.equal(
    tokensOf('= <= < ( , ) + IN TRUE false NULL IS CONTAINS StartsWith ENDSWITH .5 5.').letters,
    '=l<(,)+ITFUSCWEff',
  );
});

test('behind a place where no token begins nothing is looked at', () => {
  assert.deepEqual(tokensOf('a # b'), { letters: 'i?', images: ['a'] });
  for (const text of ["'x", '/* no end', '.', '\u00a0', '!', '"x"']) assert.match(tokensOf(text).letters, /^\?$/, text);
  assert.equal(tokensOf('-- no end').letters, '--ii');
});

test('a text with two quotes and no end is the longest one that has an end, as it is for RocketMQ', () => {
  assert.deepEqual(tokensOf("'x'' b"), { letters: 's?', images: ["'x'"] });
  assert.deepEqual(tokensOf("'x''y''z"), { letters: 's?', images: ["'x''y'"] });
});
