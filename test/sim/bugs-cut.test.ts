// Faults that the simulation has found where a log is cut, a start is cut short or a derived file fails; each arranged here by itself.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { readWhole } from '../../src/io/index.ts';
import { PutMessageStatus, type PutResult } from '../../src/store/index.ts';
import { removeTree } from './damage.ts';
import { dispatched, openStore, query, ROOT, smallConfig } from './engine.ts';
import { SmallStore } from './small-store.ts';
import { readConsumeQueue } from './store-files.ts';
import { PowerLost } from './world.ts';

/** Cuts the log at a message, as a replica does. */
async function cutAt(small: SmallStore, { wroteOffset }: PutResult): Promise<void> {
  assert.equal(await small.world.settle(small.store.truncateTo(wroteOffset), 'the log is cut'), true);
}

async function flushDerived(small: SmallStore): Promise<void> {
  let failed: Error | undefined | null = null;
  small.store.flushDerived((error) => {
    failed = error;
  });
  await small.world.until(() => failed !== null, 'the derived files are flushed');
}

const bodies = async (small: SmallStore, topic = 'T'): Promise<string[]> =>
  (await small.drain(topic)).map((record) => record.body.toString());

describe('a log that was cut', () => {
  it('an answer waits for a sync of its own bytes, not for one of those that were cut', async () => {
    const small = await SmallStore.create();
    const results = await small.sendMany(10);
    await cutAt(small, results[5]!);
    const hold = small.fs.hold('sync', 'commitlog');
    const result = small.put({ body: 'after the cut' });
    let answer = -1;
    small.store.whenDurable(result.wroteOffset + result.wroteBytes, true, (status) => {
      answer = status;
    });
    assert.equal(answer, -1, 'it is not durable yet');
    hold.end();
    await small.world.until(() => answer >= 0, 'a put is answered');
    assert.equal(answer, PutMessageStatus.PUT_OK);
    small.powerCut();
    await small.start();
    await small.expectQueue(0, 6);
  });

  it('a queue that is lost after it, before anything was flushed again, is noticed and built again', async () => {
    const small = await SmallStore.create();
    await small.sendMany(4, () => ({ topic: 'Lost' }));
    // In files of the log behind it, where a start would begin to look.
    const results = await small.sendMany(60, (n) => ({ body: Buffer.alloc(1000, 'x'), keys: `k${n}` }));
    // Behind the one that the log's growth has begun.
    while (await small.world.complete());
    await flushDerived(small);
    await cutAt(small, results[50]!);
    small.kill();
    removeTree(small.fs, `${ROOT}/consumequeue/Lost`);
    await small.start();
    await small.expectQueue(0, 4, 'Lost');
    await small.expectQueue(0, 50);
  });

  it('after a sync that failed it is refused, and nothing is changed', async () => {
    const small = await SmallStore.create();
    const results = await small.sendMany(10);
    small.fs.fail({ operation: 'sync', path: 'commitlog' });
    small.put();
    await small.world.until(() => small.store.unwritableReason !== undefined, 'the sync fails');
    const before = small.fingerprint();
    const cut = small.store.truncateTo(results[5]!.wroteOffset);
    await assert.rejects(small.world.settle(cut, 'the cut ends'), { code: 'IO' });
    assert.deepEqual(small.fingerprint(), before);
  });

  it('the checkpoint vouches no longer for what has the same offsets as what was cut', async () => {
    const small = await SmallStore.create();
    const results = await small.sendMany(20);
    await flushDerived(small);
    await cutAt(small, results[5]!);
    const vouched = (): bigint => small.bytesOf(`${ROOT}/checkpoint`).readBigInt64BE(40);
    assert.ok(vouched() <= BigInt(results[5]!.wroteOffset));
    // Nor does the next flush say so, with nothing put since.
    await flushDerived(small);
    await small.world.advance(1500);
    while (await small.world.complete());
    assert.ok(vouched() <= BigInt(results[5]!.wroteOffset));
    await small.sendMany(15, (n) => ({ queueId: 1, body: `new ${n}` }));
    small.fs.remove(`${ROOT}/gantry/queue-bounds.json`);
    small.powerCut();
    await small.start();
    await small.expectQueue(0, 5);
    await small.expectQueue(0, 15, 'T', 1);
  });

  it('the checkpoint gives units up before they are cut, wherever the power goes', async () => {
    for (let operations = 0; operations < 12; operations++) {
      const small = await SmallStore.create();
      const results = await small.sendMany(20);
      await flushDerived(small);
      await small.world.until(() => small.fs.stat(`${ROOT}/checkpoint`) !== undefined, 'the checkpoint is written');
      while (await small.world.complete());
      small.fs.powerOffAfter(operations);
      await cutAt(small, results[5]!).catch((error) => assert.ok(error instanceof PowerLost));
      small.powerCut();
      const vouched = small.bytesOf(`${ROOT}/checkpoint`).readBigInt64BE(40);
      const units = readConsumeQueue(small.fs, `${ROOT}/consumequeue/T/0`).length;
      const claimed = results.filter(({ wroteOffset }) => wroteOffset < vouched).length;
      assert.ok(units >= claimed, `${units} units, ${claimed} are vouched for, ${operations} operations`);
    }
  });

  it('queues that a start has built again are not vouched for until they are durable', async () => {
    const small = await SmallStore.create({ messageIndexEnable: false });
    await small.sendMany(250);
    await small.stop();
    removeTree(small.fs, `${ROOT}/consumequeue`);
    await small.start();
    assert.equal(small.bytesOf(`${ROOT}/checkpoint`).readBigInt64BE(40), 0n);
    // Writes the units, without a sync.
    await small.send();
    // As a cut of the log does.
    small.fs.remove(`${ROOT}/gantry/queue-bounds.json`);
    small.kill();
    await small.start();
    await small.stop();
    small.powerCut();
    assert.equal(readConsumeQueue(small.fs, `${ROOT}/consumequeue/T/0`).length, 251);
  });

  it('units that a start has put again are cut on the disk, too', async () => {
    const small = await SmallStore.create();
    const results = await small.sendMany(10);
    await flushDerived(small);
    small.kill();
    await small.start();
    await cutAt(small, results[5]!);
    const units = readConsumeQueue(small.fs, `${ROOT}/consumequeue/T/0`);
    assert.equal(units.length, 5);
  });

  it('an index that is turned off is cut with it', async () => {
    const small = await SmallStore.create();
    const results = await small.sendMany(10, (n) => ({ keys: `old${n}` }));
    await small.stop();
    await small.start({ messageIndexEnable: false });
    await cutAt(small, results[5]!);
    await small.sendMany(5, (n) => ({ keys: `new${n}` }));
    await small.stop();
    await small.start();
    for (let n = 0; n < 5; n++) {
      assert.equal((await query(small.world, small.store, 'T', `old${n}`)).length, 1, `old${n}`);
      assert.equal((await query(small.world, small.store, 'T', `old${n + 5}`)).length, 0, `old${n + 5}`);
      assert.equal((await query(small.world, small.store, 'T', `new${n}`)).length, 1, `new${n}`);
    }
  });

  it('a topic that is deleted where its last life ended begins at 0 again', async () => {
    const small = await SmallStore.create();
    const results = await small.sendMany(3);
    await cutAt(small, results[0]!);
    for (let life = 0; life < 2; life++) {
      const [first] = await small.sendMany(2, (n) => ({ body: `life ${life} ${n}` }));
      assert.equal(first!.queueOffset, 0);
      if (life === 0) {
        await cutAt(small, first!);
        await small.world.settle(small.store.deleteTopics(['T']), 'the topic is deleted');
      }
    }
    assert.deepEqual(await bodies(small), ['life 1 0', 'life 1 1']);
  });

  it('lays bare no messages of a deleted topic: the removal of its files is durable before the cut', async () => {
    const small = await SmallStore.create();
    const results = await small.sendMany(17);
    await flushDerived(small);
    await small.world.settle(small.store.deleteTopics(['T']), 'the topic is deleted');
    await cutAt(small, results[15]!);
    // Other records, at the offsets that the old units name.
    await small.sendMany(2, (n) => ({ topic: 'U', body: `message ${n + 15}` }));
    small.powerCut();
    assert.equal(small.fs.stat(`${ROOT}/consumequeue/T`), undefined);
    await small.start();
    assert.equal(small.store.maxOffsetInQueue('T', 0), 0);
    const { queueOffset } = await small.send({ body: 'a new life' });
    assert.equal(queueOffset, 0);
  });

  it('does not cross a flush that is under way', async () => {
    const small = await SmallStore.create();
    const results = await small.sendMany(20, (n) => ({ keys: `k${n}` }));
    const hold = small.fs.hold('sync', 'consumequeue');
    let flushed = false;
    let cut = false;
    small.store.flushDerived(() => {
      flushed = true;
    });
    small.store.truncateTo(results[5]!.wroteOffset).then(() => {
      cut = true;
    });
    for (let i = 0; i < 50; i++) if (!(await small.world.complete())) await small.world.soon();
    assert.equal(cut, false, 'the cut waits');
    hold.end();
    await small.world.until(() => flushed && cut, 'flush and cut come to an end');
    await small.stop();
    await small.start();
    await small.expectQueue(0, 5);
  });

  it('goes on where no queue has a message any more, far behind its first file', async () => {
    const small = await SmallStore.create();
    const results: PutResult[] = [];
    for (let n = 0; n < 30; n++) results.push(await small.send({ body: Buffer.alloc(6000, n) }));
    await flushDerived(small);
    await small.world.settle(small.store.deleteTopics(['T']), 'the topic is deleted');
    await cutAt(small, results[25]!);
    await small.send({ body: 'still taken' });
    assert.deepEqual(await bodies(small), ['still taken']);
  });

  it('the file that was being made ahead does not come back without the one before it', async () => {
    const small = await SmallStore.create();
    const put = (): PutResult => small.put({ body: Buffer.alloc(6000, 1) });
    const third = small.fs.hold('createSized', '32768');
    const results = [put(), put(), put(), put()];
    await small.acknowledged(results.at(-1)!);
    assert.equal(third.waiting, 1, 'the third file is being made, the log is in the second');
    const second = small.fs.hold('createSized', '16384');
    await cutAt(small, results[1]!);
    third.end();
    await small.world.until(() => second.waiting === 1, 'the third file is gone, and the second is made again');
    small.powerCut();
    await small.start();
    await small.expectQueue(0, 1);
  });
});

describe('a start that was cut short', () => {
  it('leaves abort from its first change on', async () => {
    const small = await SmallStore.create();
    await small.sendMany(3);
    await small.stop();
    assert.equal(small.fs.stat(`${ROOT}/abort`), undefined);
    // The first thing that a log makes is the file ahead of the last one.
    const made: boolean[] = [];
    small.world.newLife();
    small.fs.onOperation = (operation) => {
      if (operation === 'createSized') made.push(small.fs.stat(`${ROOT}/abort`) !== undefined);
    };
    const store = await openStore(small.world, smallConfig(small.settings));
    await dispatched(small.world, store);
    assert.deepEqual(made, [true]);
  });

  it('folders that a killed process had made are durable once the checkpoint vouches for what is in them', async () => {
    const small = await SmallStore.create();
    await small.sendMany(5);
    // The units are written, and the flush fails before the folders' names are durable.
    small.fs.fail({ operation: 'syncDirectory', path: 'consumequeue' });
    await flushDerived(small);
    small.kill();
    await small.start();
    await small.sendMany(1);
    await small.stop();
    small.powerCut();
    assert.equal(readConsumeQueue(small.fs, `${ROOT}/consumequeue/T/0`).length, 6);
  });
});

describe('a file that fails', () => {
  it('a deletion that was refused is not found done by the next start', async () => {
    const small = await SmallStore.create();
    await small.sendMany(5);
    small.fs.fail({ operation: 'syncDirectory', path: 'gantry' });
    await assert.rejects(small.world.settle(small.store.deleteTopics(['T']), 'the deletion ends'), { code: 'IO' });
    await small.sendMany(5);
    small.kill();
    await small.start();
    await small.expectQueue(0, 10);
  });

  it('a queue file whose sync failed is written again before the checkpoint vouches for it', async () => {
    const small = await SmallStore.create();
    await small.sendMany(10);
    small.fs.fail({ operation: 'sync', path: 'consumequeue' });
    await flushDerived(small);
    await flushDerived(small);
    const vouched = (): bigint => {
      const bytes = Buffer.from(readWhole(small.fs, `${ROOT}/checkpoint`) ?? []);
      return bytes.length < 48 ? 0n : bytes.readBigInt64BE(40);
    };
    await small.world.until(() => vouched() > 0n, 'the checkpoint speaks of the second flush');
    await small.world.advance(1);
    small.powerCut();
    assert.equal(readConsumeQueue(small.fs, `${ROOT}/consumequeue/T/0`).length, 10);
  });

  it('a queue file that could not be written again after a failed sync is not reported as synced', async () => {
    const small = await SmallStore.create();
    await small.sendMany(10);
    const flush = async (): Promise<unknown> => {
      const flushed = new Promise((resolve) => small.store.flushDerived(resolve));
      return await small.world.settle(flushed, 'the flush ends');
    };
    small.fs.fail({ operation: 'sync', path: 'consumequeue' });
    // The tails go to the files first.
    small.fs.fail({ operation: 'write', path: 'consumequeue', skip: 1 });
    assert.ok((await flush()) !== undefined);
    small.fs.fail({ operation: 'write', path: 'consumequeue' });
    assert.ok((await flush()) !== undefined, 'nothing is known of the file yet');
    assert.equal(await flush(), undefined);
    small.powerCut();
    assert.equal(readConsumeQueue(small.fs, `${ROOT}/consumequeue/T/0`).length, 10);
  });

  it('a flush that failed forgets no queue', async () => {
    const small = await SmallStore.create();
    await small.send({ topic: 'T' });
    const late = await small.send({ topic: 'U' });
    // Nothing of U waits to be written any more, but it stands in the list of queues that have something.
    await cutAt(small, late);
    small.fs.fail({ operation: 'write', path: 'consumequeue/T' });
    await flushDerived(small);
    await small.send({ topic: 'U' });
    await small.stop();
    assert.equal(readConsumeQueue(small.fs, `${ROOT}/consumequeue/U/0`).length, 1);
  });

  it('an index that was turned off at a crash is not trusted by the life after the next', async () => {
    for (let seed = 1; seed <= 20; seed++) {
      const small = await SmallStore.create({}, seed);
      await small.sendMany(30, (n) => ({ keys: `k${n}` }));
      await flushDerived(small);
      await small.sendMany(30, (n) => ({ keys: `k${n + 30}` }));
      // In the middle of the next flush.
      small.store.flushDerived();
      for (let i = 0; i < seed % 7; i++) await small.world.complete();
      small.powerCut(seed);
      await small.start({ messageIndexEnable: false });
      await small.stop();
      await small.start();
      for (let n = 0; n < 60; n++) {
        assert.equal((await query(small.world, small.store, 'T', `k${n}`)).length, 1, `seed ${seed}: k${n}`);
      }
    }
  });

  it('an index that was removed is not vouched for by what the checkpoint said of the old one', async () => {
    for (let seed = 1; seed <= 60; seed++) {
      const small = await SmallStore.create({}, seed);
      await small.sendMany(100, (n) => ({ keys: `k${n}` }));
      await small.stop();
      removeTree(small.fs, `${ROOT}/index`);
      small.fs.powerOffAfter(seed % 30);
      await small.start().catch((error) => assert.ok(error instanceof PowerLost));
      small.powerCut(seed);
      await small.start();
      for (let n = 0; n < 100; n += 9)
        assert.equal((await query(small.world, small.store, 'T', `k${n}`)).length, 1, `seed ${seed}: k${n}`);
    }
  });

  it('a queue file that was cut is built again and refuses no start', async () => {
    for (const ending of ['stop', 'kill'] as const) {
      const small = await SmallStore.create();
      await small.sendMany(60);
      await small.sendMany(5, () => ({ queueId: 1 }));
      await flushDerived(small);
      if (ending === 'stop') await small.stop();
      else small.kill();
      small.resize(`${ROOT}/consumequeue/T/1/${'0'.repeat(20)}`, 77);
      await small.start();
      await small.expectQueue(0, 60);
      await small.expectQueue(0, 5, 'T', 1);
    }
  });

  it('a disk that was full takes sends within ten seconds of there being space', async () => {
    const small = await SmallStore.create();
    await small.sendMany(5);
    small.fs.fillAfter(0);
    let refused = 0;
    for (let n = 0; n < 40 && refused === 0; n++) {
      const result = small.put({ body: Buffer.alloc(2000, n) });
      if (result.status !== PutMessageStatus.PUT_OK) refused++;
      await small.world.advance(50);
      await small.world.soon();
      // Syncs end and the next file is made: the blocks that were taken ahead are used up.
      while (await small.world.complete());
    }
    assert.equal(refused, 1, 'a status, and nothing worse');
    small.fs.freeSpace();
    const since = small.world.clock.now();
    await small.world.until(() => small.store.unwritableReason === undefined, 'sends are taken');
    await small.send({ body: 'again' });
    assert.ok(small.world.clock.now() - since <= 10_000);
  });

  it('a flipped bit in the queues\u2019 bounds makes no topic of another name', async () => {
    const small = await SmallStore.create();
    await small.sendMany(5);
    await small.stop();
    const path = `${ROOT}/gantry/queue-bounds.json`;
    small.overwrite(path, small.bytesOf(path).indexOf('"T"') + 1, Buffer.from('U'));
    small.leaveAbort();
    small.powerCut();
    await small.start();
    assert.equal(
      small.log.lines.some(({ text }) => text.includes('U queue 0')),
      false,
    );
    await small.expectQueue(0, 5);
  });

  it('a file that was made ahead and is all that is left behind a cut refuses no start', async () => {
    const small = await SmallStore.create();
    await small.sendMany(3);
    await small.stop();
    small.fs.createSized(`${ROOT}/commitlog/${'32768'.padStart(20, '0')}`, 16_384, () => {});
    while (await small.world.complete());
    small.leaveAbort();
    await small.start();
    await small.expectQueue(0, 3);
  });
});
