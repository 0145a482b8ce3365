// What a start looks at and what it leaves alone: with very many queues, after a kill, with and without what the last life has saved.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { dispatched, ROOT } from './engine.ts';
import { LOG, SmallStore } from './small-store.ts';

const QUEUES = 30;

/** The paths below a folder that a start opens or reads. */
async function startTouching(small: SmallStore, folder: string): Promise<Set<string>> {
  const touched = new Set<string>();
  small.world.watch = (operation, path) => {
    if ((operation === 'open' || operation === 'read') && path.startsWith(folder)) touched.add(path);
  };
  await small.start();
  small.world.watch = undefined;
  return touched;
}

/** A store with `QUEUES` queues of 6 messages, all of them durable and vouched for. */
async function manyQueues(lookedAt: number): Promise<SmallStore> {
  const small = await SmallStore.create({ gantryQueuesLookedAt: lookedAt });
  await small.sendMany(6 * QUEUES, (n) => ({ topic: `T${n % QUEUES}`, queueId: n % 2, body: 'x'.repeat(200) }));
  await flushed(small);
  return small;
}

async function flushed(small: SmallStore): Promise<void> {
  let ended = false;
  await small.world.until(() => small.world.waiting === 0, 'no other flush is under way');
  small.store.flushDerived((error) => {
    assert.equal(error, undefined);
    ended = true;
  });
  await small.world.until(() => ended && small.world.waiting === 0, 'the derived files are flushed');
  await small.world.advance(1000);
  await small.world.until(() => small.world.waiting === 0, 'the checkpoint is written');
}

async function expectAll(small: SmallStore): Promise<void> {
  for (let n = 0; n < QUEUES; n++) await small.expectQueue(0, 6, `T${n}`, n % 2);
}

describe('B19: start time grows with the number of queues', () => {
  for (const how of ['stop', 'kill'] as const) {
    it(`a start after a ${how} opens no queue whose messages are all vouched for`, async () => {
      const small = await manyQueues(QUEUES / 4);
      if (how === 'stop') await small.stop();
      else small.kill();
      const touched = await startTouching(small, `${ROOT}/consumequeue`);
      assert.ok(touched.size <= 1, `${touched.size} queues were opened: ${[...touched].join(' ')}`);
      await expectAll(small);
    });
  }

  it('after a kill only the queues with messages since the checkpoint are opened, and all are complete', async () => {
    const small = await manyQueues(QUEUES / 4);
    for (const topic of ['T0', 'T2']) await small.send({ topic, queueId: 0 });
    small.kill();
    const touched = await startTouching(small, `${ROOT}/consumequeue`);
    assert.ok(touched.size <= 3, [...touched].join(' '));
    await small.expectQueue(0, 7, 'T0', 0);
    await small.expectQueue(0, 7, 'T2', 0);
    await small.expectQueue(0, 6, 'T4', 0);
  });

  it('a queue that was deleted meanwhile is noticed and built again', async () => {
    const small = await manyQueues(0);
    await small.stop();
    small.fs.removeTree(`${ROOT}/consumequeue/T3`);
    small.fs.remove(`${ROOT}/consumequeue/T5/1/${'0'.repeat(20)}`);
    small.fs.settle();
    await small.start();
    await expectAll(small);
    assert.match(small.store.recovery.reason, /has lost units/);
  });

  it('after a power cut every queue is looked at: what a lost record left in one is dead on the disk', async () => {
    const small = await SmallStore.create({ gantryQueuesLookedAt: 0, flushDiskType: 'ASYNC_FLUSH' });
    await small.sendMany(3);
    await flushed(small);
    small.put({ body: 'lost' });
    await dispatched(small.world, small.store);
    small.kill();
    // The log's page did not reach the disk, the queue's did.
    const end = small.logContent().records[2]!;
    small.zeroLogFrom(end.position + end.size);
    const file = `${ROOT}/consumequeue/T/0/${'0'.repeat(20)}`;
    const stale = Buffer.alloc(20);
    stale.writeBigInt64BE(BigInt(end.position + end.size));
    stale.writeInt32BE(100, 8);
    small.overwrite(file, 60, stale);
    small.powerCut();
    await small.start();
    await small.expectQueue(0, 3);
    assert.deepEqual(small.bytesOf(file).subarray(60, 80), Buffer.alloc(20));
  });

  it('a copy of the folder is not taken for the original', async () => {
    const small = await manyQueues(0);
    small.kill();
    const boot = small.bytesOf(`${ROOT}/gantry/boot`);
    small.fs.remove(`${ROOT}/gantry/boot`);
    small.overwrite(`${ROOT}/gantry/boot`, 0, boot);
    const touched = await startTouching(small, `${ROOT}/consumequeue`);
    assert.ok(touched.size >= QUEUES, `${touched.size} queues were looked at`);
    await expectAll(small);
  });

  it('nothing is written while nothing comes', async () => {
    const small = await manyQueues(1000);
    const changes: string[] = [];
    small.world.watch = (operation, path) => {
      if (operation !== 'read' && operation !== 'open') changes.push(`${operation} ${path}`);
    };
    for (let i = 0; i < 10; i++) {
      await small.world.advance(61_000);
      while ((await small.world.complete()) || (await small.world.soon()));
    }
    small.world.watch = undefined;
    assert.deepEqual(changes, []);
  });
});

describe('after a kill', () => {
  it('the scan begins at the file that holds what the checkpoint vouches for, and only what came since is dispatched', async () => {
    const small = await SmallStore.create();
    await small.sendMany(200, () => ({ body: 'x'.repeat(500) }));
    await flushed(small);
    const vouched = small.store.watermarks.wrote;
    await small.sendMany(20, () => ({ body: 'x'.repeat(500) }));
    const { wrote } = small.store.watermarks;
    small.kill();
    const scanned = await startTouching(small, LOG);
    const { recovery } = small.store;
    assert.ok(wrote > vouched + 8000);
    // The record that the checkpoint names is dispatched once more.
    assert.equal(recovery.dispatched, 21);
    assert.equal(recovery.queuesRebuilt, 1);
    assert.equal(recovery.scannedFrom, vouched - (vouched % 16_384));
    assert.ok(scanned.size <= 3, [...scanned].join(' '));
    await small.expectQueue(0, 220);
  });

  it('enableAcceleratedRecovery: the scan begins at what the checkpoint vouches for', async () => {
    const small = await SmallStore.create({ enableAcceleratedRecovery: true });
    const sent = await small.sendMany(30, () => ({ body: 'x'.repeat(200) }));
    await flushed(small);
    await small.send();
    small.kill();
    await small.start();
    assert.equal(small.store.recovery.scannedFrom, sent[29]!.wroteOffset);
    assert.equal(small.store.recovery.records, 2);
    await small.expectQueue(0, 31);
  });

  it('enableAcceleratedRecovery needs a store that this broker left: otherwise the file is scanned from its start', async () => {
    const small = await SmallStore.create({ enableAcceleratedRecovery: true });
    await small.sendMany(30, (n) => ({ body: 'x'.repeat(200), keys: `k${n}` }));
    await flushed(small);
    small.kill();
    small.fs.remove(`${ROOT}/gantry/queue-bounds.json`);
    small.fs.settle();
    await small.start();
    assert.equal(small.store.recovery.scannedFrom % 16_384, 0);
    assert.equal(small.store.recovery.dispatched, small.store.recovery.records);
    await small.expectQueue(0, 30);
  });

  it('names that the killed process made become durable with the next stop', async () => {
    const small = await SmallStore.create();
    await small.sendMany(4);
    // Written and synced, but the names were not.
    const names = small.fs.hold('syncDirectory', 'consumequeue');
    small.store.flushDerived();
    await small.world.until(() => names.waiting > 0, 'the names are to be synced');
    small.kill();
    await small.start();
    await small.stop();
    small.powerCut();
    await small.start();
    await small.expectQueue(0, 4);
    assert.equal(small.store.recovery.dispatched, 0, 'the queue was there');
  });

  it('the report says what was scanned, kept, cut and built again, and why', async () => {
    const small = await SmallStore.create();
    const sent = await small.sendMany(10);
    await small.stop();
    small.zeroLogFrom(sent[9]!.wroteOffset + 30);
    small.fs.removeTree(`${ROOT}/consumequeue`);
    small.fs.settle();
    await small.start();
    const line = small.log.lines.find(({ text }) => text.startsWith('the store was opened'))?.text ?? '';
    for (const part of [
      /after a clean stop/,
      /scanned 0\.02 MB/,
      /has lost units/,
      /9 sound records/,
      /\d+ bytes were cut/,
      /9 records went to 1 queues/,
    ]) {
      assert.match(line, part);
    }
  });
});

describe('a long scan', () => {
  it('says each second how far it is', async () => {
    const small = await SmallStore.create();
    await small.sendMany(200, () => ({ body: 'x'.repeat(500) }));
    small.kill();
    small.world.watch = (operation, path) => {
      if (operation === 'read' && path.startsWith(LOG)) small.world.stall('read', LOG, 400);
    };
    await small.start();
    small.world.watch = undefined;
    const lines = small.log.lines.filter(({ text }) => text.startsWith('recovering: '));
    assert.ok(lines.length >= 2, JSON.stringify(small.log.lines));
    assert.match(lines[0]!.text, /of at most .* scanned, .* MB\/s \(.*\)/);
    assert.ok(lines.some(({ text }) => text.includes('what was durable is looked at')));
  });
});

describe('flushConsumeQueueLeastPages', () => {
  /** Syncs of the queue's file within 3 s after so many messages. */
  async function syncsAfter(messages: number, leastPages: number): Promise<number> {
    const small = await SmallStore.create({
      flushConsumeQueueLeastPages: leastPages,
      mappedFileSizeConsumeQueue: 100_000,
      mappedFileSizeCommitLog: 1_000_000,
    });
    await small.sendMany(messages);
    let syncs = 0;
    small.world.watch = (operation, path) => {
      if (operation === 'sync' && path.includes('/consumequeue/')) syncs++;
    };
    for (let i = 0; i < 3; i++) {
      await small.world.advance(1000);
      await small.world.until(() => small.world.waiting === 0, 'what was asked for is done');
    }
    small.world.watch = undefined;
    return syncs;
  }

  it('files with so many pages are synced at the next interval, others wait for the thorough one', async () => {
    assert.equal(await syncsAfter(1000, 2), 1);
    assert.equal(await syncsAfter(300, 2), 0);
    assert.equal(await syncsAfter(1000, 16), 0);
  });

  it('0: whatever there is', async () => {
    assert.equal(await syncsAfter(3, 0), 1);
  });
});

describe('a cut below what the checkpoint vouches for', () => {
  it('takes the claim back before anything is appended there', async () => {
    const small = await SmallStore.create();
    const sent = await small.sendMany(10);
    await flushed(small);
    assert.equal(await small.world.settle(small.store.truncateTo(sent[5]!.wroteOffset), 'the log is cut'), true);
    const vouched = Number(small.bytesOf(`${ROOT}/checkpoint`).readBigInt64BE(40));
    assert.ok(vouched <= sent[5]!.wroteOffset, `the checkpoint vouches for ${vouched}`);
    await small.sendMany(5);
    small.powerCut();
    await small.start();
    await small.expectQueue(0, 10);
  });

  it('a queue that was cut while a flush failed is flushed with its next message', async () => {
    const small = await SmallStore.create();
    await small.send({ queueId: 1 });
    const cut = await small.send({ queueId: 0 });
    assert.equal(await small.world.settle(small.store.truncateTo(cut.wroteOffset), 'the log is cut'), true);
    small.fs.fail({ operation: 'write', path: '/consumequeue/T/1', code: 'DISK_FULL' });
    let failed = false;
    small.store.flushDerived((error) => {
      failed = error !== undefined;
    });
    await small.world.until(() => failed, 'a flush fails');
    await small.send({ queueId: 0 });
    await small.send({ queueId: 1 });
    await flushed(small);
    small.powerCut();
    await small.start();
    await small.expectQueue(0, 1, 'T', 0);
    assert.equal(small.store.recovery.dispatched, 1, 'all but what the checkpoint names was durable');
  });

  it('does so at a start, too', async () => {
    const small = await SmallStore.create();
    const sent = await small.sendMany(10);
    await flushed(small);
    small.kill();
    small.zeroLogFrom(sent[5]!.wroteOffset);
    await small.start();
    assert.ok(Number(small.bytesOf(`${ROOT}/checkpoint`).readBigInt64BE(40)) <= sent[5]!.wroteOffset);
    await small.sendMany(5);
    small.powerCut();
    await small.start();
    await small.expectQueue(0, 10);
  });
});
