// Public faults of checkpoint, restart and index recovery, each named by its number in the list of known faults.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { GantryError } from '../../src/common/index.ts';
import type { MessageStoreConfig } from '../../src/store/index.ts';
import { ROOT } from './engine.ts';
import { LOG, SmallStore } from './small-store.ts';

const CHECKPOINT = `${ROOT}/checkpoint`;

function checkpointField(small: SmallStore, at: number): number {
  return Number(small.bytesOf(CHECKPOINT).readBigInt64BE(at));
}

describe('B16: checkpoint claims ConsumeQueue progress that is not on disk', () => {
  for (let seed = 0; seed < 20; seed++) {
    it(`power cut after the ConsumeQueue sync has stalled, seed ${seed}`, async () => {
      const small = await SmallStore.create({}, seed);
      const times: number[] = [];
      const send = async (): Promise<void> => {
        const sent = await small.send({ body: Buffer.alloc(5000, 'x'), keys: `k${times.length}` });
        times.push(sent.storeTimestamp);
        await small.world.advance(10_000);
      };
      for (let n = 0; n < 4; n++) await send();
      await small.world.advance(120_000);
      await small.world.until(() => small.world.waiting === 0, 'the ConsumeQueue is flushed');
      const fourth = times[3]!;
      small.fs.hold('sync', 'consumequeue');
      for (let n = 4; n < 12; n++) await send();
      await small.world.advance(120_000);
      while ((await small.world.complete()) || (await small.world.soon()));
      small.powerCut(seed);
      assert.ok(checkpointField(small, 8) <= fourth, 'the logic time is not later than the newest synced entry');
      await small.start();
      await small.expectQueue(0, 12);
    });
  }
});

describe('B17: physic time stays zero, so that a restart scans everything', () => {
  for (const flushDiskType of ['SYNC_FLUSH', 'ASYNC_FLUSH'] as const) {
    it(`30 files of sends that did not wait, ${flushDiskType}`, async () => {
      const small = await SmallStore.create({ flushDiskType });
      let last = 0;
      for (let n = 0; n < 90; n++) {
        last = small.put({ body: Buffer.alloc(5000, 'x'), wait: false }).storeTimestamp;
        await small.world.advance(100);
        while ((await small.world.complete()) || (await small.world.soon()));
      }
      assert.ok(small.store.watermarks.wrote > 29 * 16_384);
      for (let i = 0; i < 30; i++) {
        await small.world.advance(100);
        while ((await small.world.complete()) || (await small.world.soon()));
      }
      const physic = checkpointField(small, 0);
      assert.ok(physic > 0, 'the physic time is set');
      // Async flush writes back at least every flushCommitLogThoroughInterval when pages are few, which they are not here.
      assert.ok(last - physic <= 2000, `the physic time lags by ${last - physic} ms`);
      small.kill();
      const scanned = new Set<string>();
      small.world.watch = (operation, path) => {
        if (operation === 'read' && path.startsWith(`${LOG}/`)) scanned.add(path);
      };
      await small.start();
      small.world.watch = undefined;
      await small.expectQueue(0, 90);
      // A look at the file that was made ahead tells that it is empty.
      const ahead = `${LOG}/${String(Math.ceil(small.store.watermarks.wrote / 16_384) * 16_384).padStart(20, '0')}`;
      scanned.delete(ahead);
      assert.ok(scanned.size <= 3, `${scanned.size} files were scanned`);
    });
  }
});

describe('B20: file size setting differs from the files on disk', () => {
  const cases: Array<{ setting: keyof MessageStoreConfig; value: number; file: string; length: number }> = [
    {
      setting: 'mappedFileSizeConsumeQueue',
      value: 1200,
      file: `${ROOT}/consumequeue/T/0/${'0'.repeat(20)}`,
      length: 1000,
    },
    { setting: 'mappedFileSizeCommitLog', value: 32_768, file: `${LOG}/${'0'.repeat(20)}`, length: 16_384 },
    { setting: 'mappedFileSizeCommitLog', value: 8192, file: `${LOG}/${'0'.repeat(20)}`, length: 16_384 },
  ];
  for (const { setting, value, file, length } of cases) {
    for (const abort of [false, true]) {
      it(`${setting}=${value} refuses the start ${abort ? 'after a kill' : 'after a stop'}`, async () => {
        const small = await SmallStore.create();
        await small.sendMany(60, () => ({ body: Buffer.alloc(600, 'x') }));
        await small.stop();
        if (abort) small.leaveAbort();
        const before = small.fingerprint();
        await assert.rejects(small.start({ [setting]: value }), (error) => {
          assert.ok(error instanceof GantryError && error.code === 'STORE_FILE_SIZE', String(error));
          for (const part of [setting, value, file, length]) {
            assert.ok(error.message.includes(String(part)), `${part} is in: ${error.message}`);
          }
          return true;
        });
        assert.deepEqual(small.fingerprint(), before, 'no file has changed');
        await small.start();
        await small.expectQueue(0, 60);
      });
    }
  }
});

describe('B22: the newest index file is thrown away after a kill', () => {
  it('old keys are found, each once, and keys beyond the end of the log are not', async () => {
    const small = await SmallStore.create({ maxIndexNum: 200 });
    const sent = await small.sendMany(60, (n) => ({ body: Buffer.alloc(1500, 'x'), keys: `k${n}` }));
    assert.ok(sent.at(-1)!.wroteOffset > 5 * 16_384, 'six files');
    await small.stop();
    const time = Buffer.alloc(8);
    time.writeBigInt64BE(BigInt(sent[55]!.storeTimestamp));
    small.overwrite(CHECKPOINT, 16, time);
    small.leaveAbort();
    small.zeroLogFrom(sent[58]!.wroteOffset);
    await small.start();
    const count = async (key: string): Promise<number> => {
      const query = small.store.queryMessage('T', key, 32, 0, Number.MAX_SAFE_INTEGER, 'K');
      return (await small.world.settle(query, 'a query ends')).records.length;
    };
    for (const key of ['k0', 'k30', 'k54', 'k57']) assert.equal(await count(key), 1, key);
    for (const key of ['k58', 'k59']) assert.equal(await count(key), 0, key);
    await small.send({ keys: 'k58' });
    assert.equal(await count('k58'), 1, 'a new message with an old key');
  });
});
