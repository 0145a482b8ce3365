// What an index says of messages that left no key in it, across starts; and very many steps that wait for the disk at once.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { MemoryFileSystem } from '../../io/index.ts';
import { IndexLayout } from './index.ts';
import { type Bench, bench, flushed, open, put, ROOT, T0 } from './index-fixture.test.support.ts';

const T = 'TopicTest';

function memory(): { b: Bench; fs: MemoryFileSystem } {
  const fs = new MemoryFileSystem({ directories: [ROOT] });
  return { b: bench(fs, new IndexLayout(16, 64)), fs };
}

describe('messages without keys', () => {
  for (const lastExitClean of [true, false]) {
    const after = lastExitClean ? 'after a stop' : 'after a kill';

    it(`are not looked for again in an index without any key (${after})`, async () => {
      const { b } = memory();
      const index = open(b);
      put(index, T, [], 500, T0);
      await flushed(index);
      if (lastExitClean) await index.close();
      assert.equal(open(b, { lastExitClean }).durableOffset, 0, 'the files alone say nothing');
      assert.equal(open(b, { lastExitClean, progress: index.progress }).durableOffset, 501);
    });

    it(`are not looked for again behind the last key (${after})`, async () => {
      const { b } = memory();
      const index = open(b);
      put(index, T, ['k'], 100, T0);
      put(index, T, [], 500, T0);
      await flushed(index);
      const { progress } = index;
      if (lastExitClean) await index.close();
      const again = open(b, { lastExitClean, progress });
      assert.equal(again.durableOffset, 501);
      // The next life may add nothing: it says the same.
      assert.deepEqual(again.progress, progress);
      assert.equal(put(again, T, ['k'], 600, T0), true);
    });

    it(`the progress does not count once the files hold more, or less (${after})`, async () => {
      const { b } = memory();
      const index = open(b);
      put(index, T, ['k'], 100, T0);
      put(index, T, [], 500, T0);
      await flushed(index);
      const { progress } = index;
      put(index, T, ['k'], 600, T0);
      put(index, T, [], 700, T0);
      await flushed(index);
      if (lastExitClean) await index.close();
      assert.equal(open(b, { lastExitClean, progress }).durableOffset, lastExitClean ? 601 : 600);
      const units = progress!.units + 5;
      const missing = open(b, { lastExitClean, progress: { durableOffset: 9000, file: progress!.file, units } });
      assert.ok(missing.durableOffset <= 601);
    });
  }

  it('a cut of the log takes the progress back', async () => {
    const { b } = memory();
    const index = open(b);
    put(index, T, ['k'], 100, T0);
    put(index, T, [], 500, T0);
    await flushed(index);
    await index.truncateTo(300);
    assert.equal(index.progress, undefined);
    assert.equal(index.durableOffset, 300);
  });
});

describe('a rebuild of a large index at the start', () => {
  it('thousands of steps that end on the spot, one behind the other', async () => {
    const { b, fs } = memory();
    b.layout = new IndexLayout(16, 30_000);
    const index = open(b);
    fs.fail({ operation: 'createSized', times: Number.POSITIVE_INFINITY });
    const made = fs.hold('createSized');
    let ended = 0;
    for (let n = 0; n < 8000; n++) {
      put(index, T, ['k'], 100 * (n + 1), T0);
      index.flush(() => ended++);
    }
    made.end();
    await index.close();
    assert.equal(ended, 8000);
  });
});
