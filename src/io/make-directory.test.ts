import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SeededRandom } from '../common/index.ts';
import { MemoryFileSystem } from './memory-file-system.ts';
import { makeDirectoryDurably } from './whole-file.ts';

test('a folder whose name could not be made durable is made again by who tries again, and outlives a power cut then', () => {
  for (let seed = 0; seed < 20; seed++) {
    const fs = new MemoryFileSystem({ directories: ['/store'] });
    const fault = fs.fail({ operation: 'syncDirectory', path: '/store', times: 1, code: 'DISK_FULL' });
    assert.throws(() => makeDirectoryDurably(fs, '/store/b/c'), { code: 'DISK_FULL' });
    assert.equal(fault.hits, 1);
    makeDirectoryDurably(fs, '/store/b/c');
    fs.powerCut(new SeededRandom(seed));
    assert.notEqual(fs.stat('/store/b/c'), undefined, `seed ${seed}`);
  }
});
