// Starts of a store that fail at any operation on the disk: nothing stays open, and the next start finds everything.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { GantryError } from '../../src/common/index.ts';
import type { FaultRule, MemoryFileSystem } from '../../src/io/index.ts';
import { CompactionBench, FILE_RECORDS, TOPIC } from '../../src/store/compaction/compaction-bench.test.support.ts';

const OPERATIONS: ReadonlyArray<FaultRule['operation']> = [
  'open',
  'read',
  'write',
  'sync',
  'truncate',
  'syncDirectory',
  'rename',
];

async function quiet(b: CompactionBench, fs: MemoryFileSystem): Promise<void> {
  for (let n = 0; n < 400 && fs.openHandles > 0; n++) {
    await turn();
    b.clock.advance(100);
  }
}

test('a start that fails at any operation lets go of every file', async () => {
  for (const end of ['stop', 'kill'] as const) {
    const made = new CompactionBench({ flushDiskType: 'SYNC_FLUSH' });
    await made.open();
    for (let i = 0; i < 2 * FILE_RECORDS; i++) await made.put(`k${i % 3}`, `body ${i}`);
    await made.put('k', 'x'.repeat(9000), 'Other');
    if (end === 'stop') await made.settle(made.store.close());
    else made.fs.kill({ int: () => 0, fraction: () => 0 });
    let failures = 0;
    for (const operation of OPERATIONS) {
      for (let skip = 0; ; skip += operation === 'read' ? 3 : 1) {
        const fs = made.fs.clone();
        const b = new CompactionBench({ flushDiskType: 'SYNC_FLUSH' });
        Object.assign(b, { fs });
        const fault = fs.fail({ operation, skip, times: Number.POSITIVE_INFINITY });
        b.anew();
        let failure: unknown;
        await b.settle(b.open()).catch((error: unknown) => {
          failure = error;
        });
        if (failure === undefined) {
          const isOver = fault.hits === 0;
          fault.clear();
          await b.settle(b.store.close());
          await quiet(b, fs);
          assert.equal(fs.openHandles, 0, `${end}, ${operation} ${skip}: a stop`);
          if (isOver || skip > 200) break;
          continue;
        }
        assert.ok(failure instanceof GantryError, `${end}, ${operation} ${skip}: ${String(failure)}`);
        failures++;
        await quiet(b, fs);
        assert.equal(fs.openHandles, 0, `${end}, ${operation} ${skip}`);
        fault.clear();
        b.anew();
        await b.settle(b.open());
        assert.equal(
          (await b.settle(b.drain())).length,
          2 * FILE_RECORDS,
          `${end}, ${operation} ${skip}: all is there`,
        );
        await b.settle(b.store.close());
      }
    }
    assert.ok(failures > 20, `${failures} starts failed`);
    assert.equal(made.store.config.enableCompaction, true, TOPIC);
  }
});
