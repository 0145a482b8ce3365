// Reads whose bytes lie in more places than the read cache can hold at once.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { pull, query } from './engine.ts';
import { SmallStore } from './small-store.ts';

describe('a pull whose records lie in more blocks than the read cache holds', () => {
  /** One message of the queue T/0 in each of 24 log files, between others, read from the disk after a restart. */
  async function scattered(): Promise<SmallStore> {
    const small = await SmallStore.create({ gantryReadCacheBytes: 64 * 1024 });
    for (let n = 0; n < 24; n++) {
      await small.send({ body: `message ${n}`, keys: `k${n}` });
      await small.sendMany(3, () => ({ topic: 'Other', body: Buffer.alloc(4900, 'x') }));
    }
    await small.stop();
    await small.start();
    return small;
  }

  it('comes to an end with every record', async () => {
    const small = await scattered();
    const got = await pull(small.world, small.store, 'T', 0, 0);
    assert.deepEqual(
      got.records.map((record) => record.body.toString()),
      Array.from({ length: got.records.length }, (_, n) => `message ${n}`),
    );
    assert.ok(got.records.length > 0);
    await small.expectQueue(0, 24);
  });

  it('two readers at once both come to an end', async () => {
    const small = await scattered();
    const [first, second] = await Promise.all([
      pull(small.world, small.store, 'T', 0, 0),
      pull(small.world, small.store, 'T', 0, 12),
    ]);
    assert.equal(first.records[0]!.body.toString(), 'message 0');
    assert.equal(second.records[0]!.body.toString(), 'message 12');
  });

  it('look-ups by key find their messages', async () => {
    const small = await scattered();
    for (let n = 0; n < 24; n++) {
      const found = await query(small.world, small.store, 'T', `k${n}`);
      assert.deepEqual(
        found.map((record) => record.body.toString()),
        [`message ${n}`],
      );
    }
  });
});
