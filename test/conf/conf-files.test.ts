// conf/*.conf are made from the tables; this says when they were forgotten.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { renderConfFiles } from '../../scripts/make-conf.ts';
import { readBrokerSettings, readNamesrvSettings } from '../../src/common/config/index.ts';

const root = import.meta.dirname.replace(/\/(dist|\.build\/[^/]+)\/test\/conf$/, '');

for (const [path, text] of Object.entries(renderConfFiles())) {
  test(`${path} is what the tables say (node dist/scripts/make-conf.js makes it anew)`, () => {
    assert.equal(readFileSync(`${root}/${path}`, 'utf8'), text);
  });

  test(`${path} is read without a warning, as it is and with every default uncommented`, () => {
    const read = path.includes('namesrv') ? readNamesrvSettings : readBrokerSettings;
    const uncommented = text.replace(/^#(?=\w+=.)/gm, '');
    for (const variant of [text, uncommented]) {
      assert.deepEqual(read({ file: { path, text: variant }, strict: true }).warnings, []);
    }
  });
}
