import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SeededRandom } from '../common/index.ts';
import { MemoryFileSystem } from './memory-file-system.ts';
import { makeDirectoryDurably } from './whole-file.ts';

test('a folder whose name could not be made durable is made again by who tries again, and outlives a power cut then', () => {
  for (const failing of ['/a', '/a/b', '/']) {
    const fs = new MemoryFileSystem({});
    const fault = fs.fail({ operation: 'syncDirectory', path: failing, times: 1, code: 'DISK_FULL' });
    assert.throws(() => makeDirectoryDurably(fs, '/a/b/c'), { code: 'DISK_FULL' });
    assert.equal(fault.hits, 1);
    makeDirectoryDurably(fs, '/a/b/c');
    for (let seed = 0; seed < 4; seed++) fs.powerCut(new SeededRandom(seed));
    assert.notEqual(fs.stat('/a/b/c'), undefined, failing);
  }
});
