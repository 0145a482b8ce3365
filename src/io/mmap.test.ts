import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import type { Mapping } from './file-mapper.ts';
import { loadFileMapper } from './mmap.ts';
import { nodeFileSystem } from './node-file-system.ts';

const folder = mkdtempSync(join(tmpdir(), 'gantry-mmap-'));
after(() => rmSync(folder, { recursive: true, force: true }));
const mapper = loadFileMapper();

test('mapped bytes are the bytes of the file', {
  skip: mapper === undefined && 'files cannot be mapped here',
}, async () => {
  const path = join(folder, 'file');
  const page = mapper!.pageBytes;
  writeFileSync(path, Buffer.alloc(page * 3 + 100));
  const file = nodeFileSystem.open(path, 'write');
  const map = (position: number, length: number): Promise<Mapping> =>
    new Promise((resolve, reject) =>
      mapper!.map(file, position, length, { writable: true, lock: false }, (error, mapping) =>
        error === undefined ? resolve(mapping!) : reject(error),
      ),
    );
  const first = await map(0, page * 2);
  // The last page is not whole, and two mappings share the one before it.
  const second = await map(page, page * 2 + 100);
  first.bytes.set([1, 2, 3], page + 5);
  assert.deepEqual([...second.bytes.subarray(5, 8)], [1, 2, 3]);
  second.bytes.set([4], page * 2 + 99);
  const read = Buffer.alloc(3);
  file.readSync(read, 0, 3, page + 5);
  assert.deepEqual([...read], [1, 2, 3]);
  file.writeSync(Buffer.from([9]), 0, 1, page + 6);
  assert.equal(first.bytes[page + 6], 9);
  await new Promise((resolve) => file.sync(resolve));
  assert.equal(file.size(), page * 3 + 100);
  first.end();
  second.end();
  // Whatever still refers to it reads zeros, or the next mapping of that place, and never faults.
  await map(0, page);
  assert.equal(typeof first.bytes[page + 5], 'number');
  file.close();
});

test('a range that cannot be reserved is an error', {
  skip: mapper === undefined && 'files cannot be mapped here',
}, async () => {
  const path = join(folder, 'other');
  writeFileSync(path, '');
  const file = nodeFileSystem.open(path, 'read');
  await assert.rejects(
    new Promise((resolve, reject) =>
      mapper!.map(file, 0, 4096, { writable: false, lock: false }, (error) =>
        error === undefined ? resolve(0) : reject(error),
      ),
    ),
    /cannot reserve space in .*other/,
  );
  file.close();
});
