import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { MUTATIONS } from './mutation-list.ts';

const src = fileURLToPath(new URL('../../src/', import.meta.url));

test('every mutation finds its one place in the compiled engine', () => {
  assert.ok(MUTATIONS.length > 10);
  for (const { name, changes } of MUTATIONS) {
    for (const { file, find, replace } of changes) {
      const places = readFileSync(`${src}${file}`, 'utf8').split(find).length - 1;
      assert.equal(places, 1, `${name}: ${JSON.stringify(find)} in src/${file}; mend it in test/sim/mutation-list.ts`);
      assert.notEqual(find, replace);
    }
  }
});
