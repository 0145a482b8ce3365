import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { parserSource } from '../../scripts/make-parser.ts';

test('the committed parser is what the grammar generates', () => {
  assert.equal(readFileSync('src/filter/sql92-parser.ts', 'utf8'), parserSource('.'));
});
