import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { SlabPool } from './slab-pool.ts';

describe('SlabPool', () => {
  it('gives buffers in powers of two from 4 KiB to 1 MiB, and larger ones as asked', () => {
    const pool = new SlabPool(0);
    const sizes = [1, 4_096, 4_097, 8_192, 8_193, 1_048_575, 1_048_576, 1_048_577].map(
      (size) => pool.take(size).length,
    );
    assert.deepEqual(sizes, [4_096, 4_096, 8_192, 8_192, 16_384, 1_048_576, 1_048_576, 1_048_577]);
  });

  it('gives the same buffer again, and keeps no more than its limit', () => {
    const pool = new SlabPool(8_192);
    const slabs = [pool.take(1), pool.take(1), pool.take(1)];
    for (const slab of slabs) pool.give(slab);
    assert.equal(pool.take(1), slabs[1]);
    assert.equal(pool.take(1), slabs[0]);
    assert.ok(!slabs.includes(pool.take(1)));
    pool.give(Buffer.allocUnsafeSlow(2_000_000));
    pool.give(Buffer.alloc(0));
    assert.equal(pool.take(1_500_000).length, 1_500_000);
  });
});
