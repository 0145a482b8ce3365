import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SeededRandom } from '../../common/index.ts';
import { readWhole, writeWhole } from '../../io/index.ts';
import { Bench, ROOT } from '../consume-queue/queue-kinds.test.support.ts';
import type { PutResult } from '../put/index.ts';

const LOG = `${ROOT}/commitlog/00000000000000000000`;
const SAVED = [`${ROOT}/checkpoint`, `${ROOT}/gantry/durable`, `${ROOT}/gantry/queue-bounds.json`];

/** Zeros over the last bytes of a record: the sector that holds the end of its properties has not reached the disk. */
function tear({ fs }: Bench, { wroteOffset, wroteBytes }: PutResult, bytes: number): void {
  const file = fs.open(LOG, 'write');
  file.writeSync(new Uint8Array(bytes), 0, bytes, wroteOffset + wroteBytes - bytes);
  file.close();
}

for (const another of [true, false]) {
  test(`a torn record${another ? ' before a whole one' : ''}: its light queue is what a rebuild makes of the log`, async () => {
    const bench = new Bench(1_700_000_000_000);
    await bench.open();
    await bench.put('T', { INNER_MULTI_DISPATCH: '%LMQ%a' });
    await bench.put('T');
    await bench.store.close();
    const stopped = bench.fs.clone();
    await bench.open();
    const torn = await bench.put('T', { INNER_MULTI_DISPATCH: '%LMQ%a' });
    if (another) await bench.put('T', { INNER_MULTI_DISPATCH: '%LMQ%a' });
    await bench.put('T', { INNER_MULTI_DISPATCH: '%LMQ%b' });
    await new Promise<void>((resolve) => bench.store.flushDerived(() => resolve()));
    assert.equal(bench.store.maxOffsetInQueue('%LMQ%a', 0), another ? 3 : 2);
    bench.fs.kill(new SeededRandom(1));
    tear(bench, torn, 30);
    // What is known to be durable is what was at the stop.
    for (const path of SAVED) writeWhole(bench.fs, path, readWhole(stopped, path)!, true);

    const rebuilt = new Bench(bench.clock.now());
    Object.assign(rebuilt, { fs: bench.fs.clone() });
    rebuilt.fs.removeTree(`${ROOT}/consumequeue`);
    await rebuilt.open();
    await bench.open();
    for (const queue of ['T', '%LMQ%a', '%LMQ%b']) {
      assert.deepEqual(await bench.read(queue, 0, 0), await rebuilt.read(queue, 0, 0), queue);
      assert.equal(bench.store.maxOffsetInQueue(queue, 0), rebuilt.store.maxOffsetInQueue(queue, 0), queue);
    }
    assert.equal(bench.store.maxOffsetInQueue('%LMQ%a', 0), another ? 3 : 1);
    await bench.store.close();
    await rebuilt.store.close();
  });
}
