// A topic that was deleted stays so, and what is sent to a topic of that name afterwards is kept, whatever happens in between.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { PutMessageStatus } from '../../src/store/index.ts';
import { ROOT } from './engine.ts';
import { SmallStore } from './small-store.ts';

const RECORD = `${ROOT}/gantry/deleted-topics.json`;
const ENDS: ReadonlyArray<readonly [string, (small: SmallStore) => Promise<void>]> = [
  ['a clean stop', (small) => small.stop()],
  ['a kill', async (small) => small.kill()],
  ['a power cut', async (small) => small.powerCut()],
];

async function deleteTopic(small: SmallStore, topic = 'T'): Promise<void> {
  await small.world.settle(small.store.deleteTopics([topic]), 'the topic is deleted');
}

async function flushDerived(small: SmallStore): Promise<void> {
  const flushed = new Promise((resolve) => small.store.flushDerived(resolve));
  assert.equal(await small.world.settle(flushed, 'the derived files are flushed'), undefined);
}

/** Five messages of topic T, its deletion, and three more. */
async function twoLives(small: SmallStore): Promise<void> {
  await small.sendMany(5, () => ({ body: 'old' }));
  await deleteTopic(small);
  await small.sendMany(3, () => ({ body: 'new' }));
}

async function expectNew(small: SmallStore, count: number): Promise<void> {
  const found = await small.drain();
  assert.deepEqual(
    found.map((record) => `${record.queueOffset} ${record.body}`),
    Array.from({ length: count }, (_, i) => `${i} new`),
  );
}

describe('a deleted topic: its messages came back and made those unreadable that were sent after it', () => {
  for (const flushDiskType of ['SYNC_FLUSH', 'ASYNC_FLUSH'] as const) {
    for (const [name, end] of ENDS) {
      const isPromised = flushDiskType === 'SYNC_FLUSH' || name !== 'a power cut';
      it(`delete, send, ${name}, start (${flushDiskType})`, { skip: !isPromised }, async () => {
        const small = await SmallStore.create({ flushDiskType });
        await twoLives(small);
        await end(small);
        await small.start();
        await expectNew(small, 3);
        assert.equal((await small.send({ body: 'new' })).queueOffset, 3);
        await small.stop();
        await small.start();
        await expectNew(small, 4);
      });

      it(`delete, ${name}, start (${flushDiskType})`, async () => {
        const small = await SmallStore.create({ flushDiskType });
        await small.sendMany(5, () => ({ body: 'old' }));
        await deleteTopic(small);
        await end(small);
        await small.start();
        assert.equal(small.store.maxOffsetInQueue('T', 0), 0);
        assert.equal((await small.send({ body: 'new' })).queueOffset, 0);
        await expectNew(small, 1);
      });
    }
  }

  it('delete, send, clean stop, start, send, kill, start', async () => {
    const small = await SmallStore.create();
    await twoLives(small);
    await small.stop();
    await small.start();
    await small.send({ body: 'new' });
    small.kill();
    await small.start();
    await expectNew(small, 4);
  });

  it('without its derived files', async () => {
    const small = await SmallStore.create();
    await twoLives(small);
    await small.stop();
    small.fs.removeTree(`${ROOT}/consumequeue`);
    small.fs.removeTree(`${ROOT}/index`);
    small.fs.settle();
    await small.start();
    await expectNew(small, 3);
  });

  it('a power cut that brings the removed files back, in part or whole', async () => {
    for (let seed = 0; seed < 40; seed++) {
      const small = await SmallStore.create();
      await small.sendMany(120, () => ({ body: 'old' }));
      await flushDerived(small);
      await deleteTopic(small);
      await small.sendMany(seed % 4, () => ({ body: 'new' }));
      small.powerCut(seed);
      await small.start();
      await expectNew(small, seed % 4);
    }
  });

  it('deleted three times', async () => {
    const small = await SmallStore.create();
    for (let life = 0; life < 3; life++) {
      await small.sendMany(2 + life, () => ({ body: 'old' }));
      await deleteTopic(small);
    }
    await small.send({ body: 'new' });
    small.kill();
    await small.start();
    await expectNew(small, 1);
  });

  it('a start after it has nothing to mend: the bounds of the queues that were removed do not count', async () => {
    const small = await SmallStore.create();
    await small.sendMany(60, () => ({ body: 'old' }));
    await flushDerived(small);
    await deleteTopic(small);
    await small.send({ body: 'new' });
    small.kill();
    await small.start();
    assert.deepEqual(small.log.texts('warn'), []);
  });
});

it('a topic whose queues are gone already is deleted all the same: its messages do not come back', async () => {
  const small = await SmallStore.create({ messageIndexEnable: false });
  await small.sendMany(5, () => ({ body: 'old' }));
  // The start looks at the last file alone.
  await small.sendMany(10, () => ({ topic: 'U', body: 'x'.repeat(5000) }));
  await small.stop();
  small.fs.removeTree(`${ROOT}/consumequeue/T`);
  small.fs.remove(`${ROOT}/gantry/queue-bounds.json`);
  small.fs.remove(`${ROOT}/gantry/durable`);
  small.fs.settle();
  // Another broker has left it so.
  await small.start();
  assert.equal(small.store.maxOffsetInQueue('T', 0), 0);
  await deleteTopic(small);
  await small.stop();
  small.fs.removeTree(`${ROOT}/consumequeue`);
  small.fs.settle();
  await small.start();
  assert.equal(small.store.maxOffsetInQueue('T', 0), 0);
  assert.equal(small.store.maxOffsetInQueue('U', 0), 10);
});

describe('while a topic is deleted', () => {
  it('sends to it are refused, others go on, and what was not dispatched yet stays out of the new queue', async () => {
    const small = await SmallStore.create();
    await small.sendMany(5, () => ({ body: 'old' }));
    const last = small.put({ body: 'old' });
    assert.equal(last.queueOffset, 5);
    const done: string[] = [];
    const deletion = Promise.all([
      small.store.deleteTopics(['T']).then(() => done.push('first')),
      small.store.deleteTopics(['T']).then(() => done.push('second')),
    ]);
    await turn();
    const refused = small.put({ body: 'between' });
    assert.equal(refused.status, PutMessageStatus.SERVICE_NOT_AVAILABLE);
    assert.equal(refused.reason, 'the topic T is being deleted');
    assert.equal(small.put({ topic: 'U' }).status, PutMessageStatus.PUT_OK);
    assert.deepEqual(done, []);
    await small.world.settle(deletion, 'the topic is deleted');
    assert.deepEqual(done, ['first', 'second']);
    await small.send({ body: 'new' });
    await expectNew(small, 1);
    await small.expectQueue(0, 1, 'U');
  });

  it('a disk that is full refuses the deletion, and the topic is as before', async () => {
    const small = await SmallStore.create();
    await small.sendMany(5, () => ({ body: 'new' }));
    small.fs.fillAfter(0);
    await assert.rejects(deleteTopic(small), { code: 'DISK_FULL' });
    small.fs.freeSpace();
    await small.expectQueue(0, 5);
    assert.equal((await small.send({ body: 'new' })).queueOffset, 5);
    small.kill();
    await small.start();
    await expectNew(small, 6);
  });

  it('who waits for its messages is told of those that come after', async () => {
    const small = await SmallStore.create();
    await small.send();
    small.store.watch('T', 0, true);
    const arrivals: number[] = [];
    small.store.onArrival((_topic, _queueId, maxOffset) => arrivals.push(maxOffset));
    await deleteTopic(small);
    await small.send();
    assert.deepEqual(arrivals, [1]);
  });
});

describe('the record of deleted topics', () => {
  it('falls back to its .bak, and says so', async () => {
    const small = await SmallStore.create();
    await twoLives(small);
    await small.send({ topic: 'U' });
    await deleteTopic(small, 'U');
    await small.stop();
    small.overwrite(RECORD, 0, Buffer.from('torn'));
    await small.start();
    await expectNew(small, 3);
    assert.match(small.log.texts('warn').join(), /deleted-topics\.json cannot be read/);
  });

  it('does not reach beyond a log that was cut by damage', async () => {
    const small = await SmallStore.create();
    const sent = await small.sendMany(5, () => ({ body: 'old' }));
    await deleteTopic(small);
    await small.stop();
    small.zeroLogFrom(sent[2]!.wroteOffset);
    await small.start();
    await small.send({ body: 'new' });
    await expectNew(small, 1);
    small.kill();
    await small.start();
    await expectNew(small, 1);
  });

  it('does not reach beyond a filler at the log’s end, which a start takes away', async () => {
    const small = await SmallStore.create();
    await small.sendMany(4, () => ({ body: 'old'.padEnd(3900) }));
    // The next one does not fit: a filler goes before it, and then the disk is full.
    small.fs.fillAfter(0);
    small.put({ body: 'lost'.padEnd(3900) });
    await small.world.until(() => small.store.unwritableReason !== undefined, 'the disk is full');
    small.fs.freeSpace();
    await deleteTopic(small);
    small.kill();
    await small.start();
    await small.send({ body: 'new' });
    await expectNew(small, 1);
  });
});

describe('a store of RocketMQ, which keeps no record of a deletion: the newest life of a topic is the one that is read', () => {
  const states: ReadonlyArray<readonly [string, (small: SmallStore) => void]> = [
    ['as it was left', () => {}],
    ['without its ConsumeQueues', (small) => small.fs.removeTree(`${ROOT}/consumequeue`)],
    ['without its index', (small) => small.fs.removeTree(`${ROOT}/index`)],
    ['without its checkpoint', (small) => small.fs.remove(`${ROOT}/checkpoint`)],
  ];
  it('the start begins in the middle of the earlier life, and a unit of the newest is torn', async () => {
    const small = await SmallStore.create({ messageIndexEnable: false });
    await small.sendMany(60, () => ({ body: 'old'.padEnd(300) }));
    await small.stop();
    const checkpoint = small.bytesOf(`${ROOT}/checkpoint`);
    await small.start();
    await small.sendMany(60, () => ({ body: 'old'.padEnd(300) }));
    await deleteTopic(small);
    await small.sendMany(60, () => ({ body: 'new' }));
    await small.stop();
    small.fs.removeTree(`${ROOT}/gantry`);
    small.overwrite(`${ROOT}/checkpoint`, 0, checkpoint);
    small.overwrite(`${ROOT}/consumequeue/T/0/${'0'.repeat(20)}`, 5 * 20 + 7, Buffer.from([1]));
    small.leaveAbort();
    await small.start();
    await expectNew(small, 60);
  });

  for (const [name, change] of states) {
    for (const abort of [false, true]) {
      it(`${name}, ${abort ? 'after a kill' : 'after a clean stop'}`, async () => {
        const small = await SmallStore.create();
        await twoLives(small);
        await small.stop();
        small.fs.removeTree(`${ROOT}/gantry`);
        change(small);
        small.fs.settle();
        if (abort) small.leaveAbort();
        await small.start();
        await expectNew(small, 3);
        assert.equal((await small.send({ body: 'new' })).queueOffset, 3);
        small.kill();
        await small.start();
        await expectNew(small, 4);
      });
    }
  }
});

for (const clean of [true, false]) {
  it(`a queue whose files could not be removed with its topic brings none of its messages back (${clean ? 'a stop' : 'a kill'})`, async () => {
    const small = await SmallStore.create({ mappedFileSizeConsumeQueue: 1000 });
    await small.sendMany(130, (n) => ({ topic: n % 2 === 0 ? 'A' : 'B' }));
    await flushDerived(small);
    const fault = small.fs.fail({ operation: 'remove', path: '/consumequeue/A' });
    await small.world.settle(small.store.deleteTopics(['A', 'B']), 'the deletion ends');
    assert.equal(fault.hits, 1);
    assert.match(small.log.texts('warn').join('\n'), /consumequeue\/A cannot be removed/);
    for (const topic of ['A', 'B']) {
      assert.equal(small.store.maxOffsetInQueue(topic, 0), 0, topic);
      await small.sendMany(3, (n) => ({ topic, body: `new ${n}` }));
      await small.expectQueue(0, 3, topic);
    }
    await flushDerived(small);
    if (clean) await small.stop();
    else small.kill();
    await small.start();
    for (const topic of ['A', 'B']) await small.expectQueue(0, 3, topic);
    await small.stop();
    await small.start();
    for (const topic of ['A', 'B']) await small.expectQueue(0, 3, topic);
  });
}
