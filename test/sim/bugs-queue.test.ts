// Public faults of the ConsumeQueue, each named by its number in the list of known faults.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { ROOT } from './engine.ts';
import { LOG, SmallStore } from './small-store.ts';

const QUEUE = `${ROOT}/consumequeue/T/0`;
const FIRST = `${QUEUE}/${'0'.repeat(20)}`;
const SECOND = `${QUEUE}/${String(1000).padStart(20, '0')}`;

describe('B08: empty last ConsumeQueue file stops the broker', () => {
  /** A stopped store of 50 messages, which fill file 0 exactly, and an all-zero file behind it. */
  async function filled(): Promise<{ small: SmallStore; starts: number[] }> {
    const small = await SmallStore.create();
    const sent = await small.sendMany(50);
    await small.stop();
    small.overwrite(SECOND, 0, new Uint8Array(1000));
    return { small, starts: sent.map((one) => one.wroteOffset) };
  }

  for (const abort of [false, true]) {
    const after = abort ? 'after a kill' : 'after a stop';

    it(`the queue is complete (${after})`, async () => {
      const { small } = await filled();
      if (abort) small.leaveAbort();
      await small.start();
      await small.expectQueue(0, 50);
      assert.equal((await small.send()).queueOffset, 50);
      await small.expectQueue(0, 51);
    });

    it(`the log is cut to 30 records (${after})`, async () => {
      const { small, starts } = await filled();
      small.zeroLogFrom(starts[30]!);
      if (abort) small.leaveAbort();
      await small.start();
      await small.expectQueue(0, 30);
      assert.equal((await small.send()).queueOffset, 30);
      await small.expectQueue(0, 31);
    });

    it(`the log is empty and file 0 all zero (${after})`, async () => {
      const { small } = await filled();
      small.zeroLogFrom(0);
      small.overwrite(FIRST, 0, new Uint8Array(1000));
      if (abort) small.leaveAbort();
      await small.start();
      const max = small.store.maxOffsetInQueue('T', 0);
      assert.equal(small.store.minOffsetInQueue('T', 0), max);
      assert.equal((await small.send()).queueOffset, max);
      await small.expectQueue(max, max + 1);
    });
  }
});

describe('B10: last ConsumeQueue file of one queue missing', () => {
  async function twoQueues(): Promise<SmallStore> {
    const small = await SmallStore.create();
    await small.sendMany(240, (n) => ({ queueId: n % 2 }));
    await small.stop();
    return small;
  }

  for (const abort of [false, true]) {
    it(`is rebuilt without a gap (${abort ? 'after a kill' : 'after a stop'})`, async () => {
      const small = await twoQueues();
      small.fs.remove(`${ROOT}/consumequeue/T/1/${String(2000).padStart(20, '0')}`);
      small.fs.settle();
      if (abort) small.leaveAbort();
      await small.start();
      await small.expectQueue(0, 120, 'T', 1);
      await small.sendMany(4, (n) => ({ queueId: n % 2 }));
      await small.expectQueue(0, 122, 'T', 0);
      await small.expectQueue(0, 122, 'T', 1);
    });
  }

  it('what lies before the minimum of the log is gone: the queue starts at the first record still there, and says so', async () => {
    const small = await SmallStore.create();
    await small.sendMany(240, (n) => ({ queueId: n % 2, body: `message ${n}`.padEnd(300, '.') }));
    await small.stop();
    small.fs.remove(`${LOG}/${'0'.repeat(20)}`);
    small.fs.removeTree(`${ROOT}/consumequeue/T/1`);
    small.fs.settle();
    await small.start();
    const first = small.logContent().records.find((record) => record.queueId === 1)!;
    assert.ok(first.queueOffset > 0);
    await small.expectQueue(first.queueOffset, 120, 'T', 1);
    assert.ok(
      small.log.lines.some(
        (line) => line.level !== 'debug' && JSON.stringify(line).includes(String(first.queueOffset)),
      ),
      'the new minimum is told',
    );
    assert.equal((await small.send({ queueId: 1 })).queueOffset, 120);
  });
});
