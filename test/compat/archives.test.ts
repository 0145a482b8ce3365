import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FILE_STORES, goldenFiles, goldenManifest, sha256 } from './golden.ts';

for (const name of FILE_STORES) {
  test(`${name}: the archive holds what its manifest lists`, () => {
    const files = goldenFiles(name);
    for (const { path, size, sha256: hash } of goldenManifest(name).files) {
      if (hash === undefined) continue;
      const bytes = files.get(path);
      assert.ok(bytes !== undefined, path);
      assert.equal(bytes.length, size, path);
      assert.equal(sha256(bytes), hash, path);
    }
  });
}
