// Public faults of recovery and truncation of the CommitLog, each named by its number in the list of known faults.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { GantryError } from '../../src/common/index.ts';
import { GetMessageStatus } from '../../src/store/index.ts';
import { pull, query, ROOT } from './engine.ts';
import { LOG, SmallStore } from './small-store.ts';

/** Body bytes that make a record of the small store fill a third of a log file. */
const THIRD_OF_A_FILE = Buffer.alloc(5000, 'x');

/** True if one line of the log holds all of `parts`. */
function said(small: SmallStore, ...parts: Array<string | number>): boolean {
  return small.log.lines.some((line) => {
    const text = `${line.text} ${JSON.stringify(line.fields ?? {})}`;
    return parts.every((part) => text.includes(String(part)));
  });
}

describe('B01: records durable in the CommitLog but never dispatched', () => {
  /** A store of 100 messages whose derived files know of the first 60. */
  async function behind(): Promise<SmallStore> {
    const small = await SmallStore.create();
    await small.sendMany(60, (n) => ({ keys: `k${n}` }));
    await small.stop();
    const saved = small.saveDerived();
    await small.start();
    await small.sendMany(40, (n) => ({ body: `message ${60 + n}`, keys: `k${60 + n}` }));
    small.kill();
    small.restoreDerived(saved);
    return small;
  }

  it('all are readable after the start, and sends go on', async () => {
    const small = await behind();
    await small.start();
    await small.sendMany(5, (n) => ({ body: `message ${100 + n}` }));
    const records = await small.expectQueue(0, 105);
    assert.deepEqual(
      records.map((record) => record.body.toString()),
      Array.from({ length: 105 }, (_, i) => `message ${i}`),
    );
  });

  it('a damaged record behind the undispatched ones: the log is cut there, once and said', async () => {
    const small = await behind();
    const damaged = small.logContent().records[95]!;
    const file = `${LOG}/${String(damaged.position - (damaged.position % 16_384)).padStart(20, '0')}`;
    small.overwrite(file, (damaged.position % 16_384) + 90, Buffer.from([0xff]));
    await small.start({ gantryDamagedRecord: 'cut' });
    assert.equal(small.store.watermarks.wrote, damaged.position);
    assert.equal(
      small.log.lines.filter(
        (line) => line.level !== 'debug' && JSON.stringify(line).includes(String(damaged.position)),
      ).length > 0,
      true,
      'the cut is reported with its physical offset',
    );
    await small.expectQueue(0, 95);
    await small.sendMany(5, (n) => ({ body: `new ${n}` }));
    const records = await small.expectQueue(0, 100);
    assert.equal(records[95]!.body.toString(), 'new 0');
    await small.stop();
    await small.start();
    await small.expectQueue(0, 100);
  });
});

describe('B02: undispatched records in the file before the last', () => {
  for (const misleading of [false, true]) {
    it(misleading ? 'with checkpoint times that point to the last file' : 'with the checkpoint as it was', async () => {
      const small = await SmallStore.create();
      const filler = await small.send({ topic: 'Fill', body: Buffer.alloc(15_000, 'x') });
      await small.stop();
      const saved = small.saveDerived();
      await small.start();
      await small.sendMany(5);
      const last = await small.send({ body: Buffer.alloc(2000, 'y') });
      assert.ok(filler.wroteOffset < 16_384 && last.wroteOffset >= 16_384, 'the log has just rolled');
      small.kill();
      small.restoreDerived(saved);
      if (misleading) {
        const times = Buffer.alloc(24);
        for (const at of [0, 8, 16]) times.writeBigInt64BE(BigInt(last.storeTimestamp), at);
        small.overwrite(`${ROOT}/checkpoint`, 0, times);
      }
      await small.start();
      await small.expectQueue(0, 6);
      await small.expectQueue(0, 1, 'Fill');
    });
  }
});

describe('B04: truncation that is only in memory', () => {
  for (const abort of [true, false]) {
    it(`what was cut never comes back (${abort ? 'with' : 'without'} abort)`, async () => {
      const small = await SmallStore.create();
      const sent = await small.sendMany(20, (n) => ({ keys: `k${n}` }));
      const cut = sent[12]!.wroteOffset;
      assert.equal(await small.world.settle(small.store.truncateTo(cut), 'the log is cut'), true);
      small.powerCut();
      if (!abort) {
        small.fs.remove(`${ROOT}/abort`);
        small.fs.settle();
      }
      await small.start();
      assert.equal(small.store.watermarks.wrote, cut);
      await small.expectQueue(0, 12);
      for (const key of ['k12', 'k19']) {
        assert.deepEqual(await query(small.world, small.store, 'T', key), [], `messages with key ${key}`);
      }
      assert.equal((await small.send()).queueOffset, 12);
      await small.stop();
      assert.equal(small.logContent().records.length, 13);
    });
  }

  it('an offset that is no record boundary is refused, and no file changes', async () => {
    const small = await SmallStore.create();
    const sent = await small.sendMany(20);
    const before = small.fingerprint();
    const truncating = small.store.truncateTo(sent[12]!.wroteOffset + 1);
    assert.equal(await small.world.settle(truncating, 'the call ends'), false);
    assert.deepEqual(small.fingerprint(), before);
    await small.expectQueue(0, 20);
  });
});

describe('B05: zero-length or foreign file in a store directory', () => {
  /** A healthy stopped store with three CommitLog files. */
  async function threeFiles(): Promise<SmallStore> {
    const small = await SmallStore.create();
    await small.sendMany(8, () => ({ body: THIRD_OF_A_FILE }));
    await small.stop();
    return small;
  }

  for (const abort of [false, true]) {
    it(`an empty last file is dropped (${abort ? 'after a kill' : 'after a stop'})`, async () => {
      const small = await threeFiles();
      small.resize(`${LOG}/${String(3 * 16_384).padStart(20, '0')}`, 0);
      small.resize(`${ROOT}/consumequeue/T/0/${String(1000).padStart(20, '0')}`, 0);
      if (abort) small.leaveAbort();
      await small.start();
      await small.expectQueue(0, 8);
      await small.sendMany(60);
      await small.expectQueue(0, 68);
    });
  }

  it('foreign files are named and left alone', async () => {
    const small = await threeFiles();
    for (const name of ['notes.txt', '.DS_Store']) small.overwrite(`${LOG}/${name}`, 0, Buffer.from('mine'));
    await small.start();
    for (const name of ['notes.txt', '.DS_Store']) {
      assert.equal(
        small.log.lines.filter((line) => line.level === 'warn' && JSON.stringify(line).includes(name)).length,
        1,
        `one warning names ${name}`,
      );
    }
    await small.expectQueue(0, 8);
    await small.send();
    await small.stop();
    for (const name of ['notes.txt', '.DS_Store']) assert.equal(small.bytesOf(`${LOG}/${name}`).toString(), 'mine');
  });

  it('an empty middle file refuses the start and changes nothing', async () => {
    const small = await threeFiles();
    const middle = `${LOG}/${String(16_384).padStart(20, '0')}`;
    small.resize(middle, 0);
    const before = small.fingerprint();
    await assert.rejects(small.start(), (error) => {
      assert.ok(error instanceof GantryError, String(error));
      for (const part of [middle, '0', '16384']) assert.ok(error.message.includes(part), error.message);
      return true;
    });
    assert.deepEqual(small.fingerprint(), before);
  });
});

describe('B07: ConsumeQueue ahead of the CommitLog after a clean-looking start', () => {
  for (const abort of [false, true]) {
    it(abort ? 'with abort' : 'without abort', async () => {
      const small = await SmallStore.create();
      const sent = await small.sendMany(10, (n) => ({ body: `a message of some length, number ${n}` }));
      await small.stop();
      small.zeroLogFrom(sent[8]!.wroteOffset + Math.floor(sent[8]!.wroteBytes / 2));
      if (abort) small.leaveAbort();
      await small.start();
      await small.expectQueue(0, 8);
      const next = await small.send({ body: 'next' });
      assert.equal(next.queueOffset, 8);
      const records = await small.expectQueue(0, 9);
      assert.equal(records[8]!.body.toString(), 'next');
    });
  }
});

describe('B72: more than ten CommitLog files, derived files deleted', () => {
  const parts = [
    ['consumequeue'],
    ['index'],
    ['checkpoint'],
    ['consumequeue', 'index'],
    ['consumequeue', 'checkpoint'],
    ['consumequeue', 'index', 'checkpoint'],
    ['consumequeue', 'index', 'checkpoint', 'gantry'],
  ];
  for (const how of ['stop', 'kill'] as const) {
    for (const deleted of parts) {
      it(`after a ${how} and without ${deleted.join(', ')} everything is there`, async () => {
        const small = await SmallStore.create();
        const sent = await small.sendMany(1000, (n) => ({ body: `message ${n}`.padEnd(200, '.'), keys: `k${n}` }));
        assert.ok(sent.at(-1)!.wroteOffset > 18 * 16_384, 'more than ten files');
        await small.world.advance(61_000);
        await small.world.until(() => small.world.waiting === 0, 'all is flushed');
        if (how === 'stop') await small.stop();
        else small.kill();
        for (const name of deleted) small.fs.removeTree(`${ROOT}/${name}`);
        small.fs.settle();
        await small.start();
        const records = await small.expectQueue(0, 1000);
        assert.ok(records[463]!.body.toString().startsWith('message 463.'));
        for (const key of ['k0', 'k463', 'k999']) {
          const found = await small.world.settle(
            small.store.queryMessage('T', key, 32, 0, Number.MAX_SAFE_INTEGER, 'K'),
            'a query ends',
          );
          assert.equal(found.records.length, 1, `${key} is found`);
        }
        assert.equal((await small.send()).queueOffset, 1000);
        if (deleted.includes('consumequeue')) {
          assert.equal(small.store.recovery.dispatched, 1000);
          assert.ok(said(small, '1000 records went to 1 queues'), 'the report names what was built again');
        }
      });
    }
  }
});

describe('B73: phantom messages from stale page tails', () => {
  for (const abort of [false, true]) {
    it(`a whole old record behind the end is no record (${abort ? 'after a kill' : 'after a stop'})`, async () => {
      const small = await SmallStore.create();
      const sent = await small.sendMany(4);
      await small.stop();
      const first = `${LOG}/${'0'.repeat(20)}`;
      const end = sent[3]!.wroteOffset + sent[3]!.wroteBytes;
      small.overwrite(first, end, small.bytesOf(first).subarray(sent[1]!.wroteOffset, end));
      if (abort) small.leaveAbort();
      await small.start();
      assert.equal(small.store.watermarks.wrote, end);
      await small.expectQueue(0, 4);
      await small.send();
      await small.stop();
      assert.equal(small.logContent().records.length, 5, 'the phantoms are gone from the disk as well');
    });
  }
});

describe('B76: foreign bytes for an old offset', () => {
  for (const abort of [false, true]) {
    it(`the first file is gone (${abort ? 'after a kill' : 'after a stop'})`, async () => {
      const small = await SmallStore.create();
      await small.sendMany(9, () => ({ body: THIRD_OF_A_FILE }));
      await small.send({ topic: 'Late' });
      await small.stop();
      small.fs.remove(`${LOG}/${'0'.repeat(20)}`);
      small.fs.settle();
      if (abort) small.leaveAbort();
      await small.start();
      assert.equal(small.store.watermarks.minimum, 16_384);
      await small.expectQueue(3, 9);
      await small.expectQueue(0, 1, 'Late');
      assert.equal(await small.world.settle(small.store.recordAt(0), 'a read ends'), undefined);
      const early = await pull(small.world, small.store, 'T', 0, 0);
      assert.notEqual(early.status, GetMessageStatus.FOUND);
      assert.equal(early.nextBeginOffset, 3);
    });
  }
});

describe('B77: torn property block passes for a message', () => {
  it('a tail whose zeros fall into the properties is cut and reported', async () => {
    const small = await SmallStore.create();
    await small.send({ keys: 'first' });
    const torn = await small.send({ keys: 'second', tags: 'TagA' });
    small.kill();
    const end = torn.wroteOffset + torn.wroteBytes;
    small.overwrite(`${LOG}/${'0'.repeat(20)}`, end - 12, Buffer.alloc(12));
    await small.start();
    assert.equal(small.store.watermarks.wrote, torn.wroteOffset);
    assert.ok(said(small, torn.wroteOffset), 'the cut is reported');
    await small.expectQueue(0, 1);
    assert.equal((await small.send()).queueOffset, 1);
  });

  it('a tail whose zeros fall into the topic of a message without properties is cut too', async () => {
    const small = await SmallStore.create();
    await small.send();
    const torn = await small.send({ topic: 'Orders' });
    small.kill();
    const end = torn.wroteOffset + torn.wroteBytes;
    small.overwrite(`${LOG}/${'0'.repeat(20)}`, end - 2 - 3, Buffer.alloc(5));
    await small.start();
    assert.equal(small.store.watermarks.wrote, torn.wroteOffset);
    assert.deepEqual(
      [...small.store.queues()].map(({ topic }) => topic),
      ['T'],
    );
  });

  it('a byte 0 that a client sent is no tear where the property CRC says so', async () => {
    const small = await SmallStore.create({ enabledAppendPropCRC: true });
    await small.send({ keys: 'a\u0000b' });
    small.kill();
    await small.start();
    await small.expectQueue(0, 1);
  });

  it('a byte 0 that a client sent in the last record is no tear: what was acknowledged stays', async () => {
    const keys = ['a\u0000b', '\u0000b', 'a\u0000', '\u0000'.repeat(300)];
    for (const [n, key] of keys.entries()) {
      const small = await SmallStore.create();
      await small.sendMany(n, () => ({ body: 'x'.repeat(40) }));
      await small.send({ keys: key });
      small.kill();
      await small.start();
      await small.expectQueue(0, n + 1);
    }
  });

  it('a sector of the properties that did not reach the disk is a tear, although there are bytes behind it', async () => {
    for (const hole of [512, 4096]) {
      const small = await SmallStore.create();
      await small.send();
      const torn = await small.send({ keys: 'k'.repeat(10_000) });
      small.kill();
      const from = Math.ceil((torn.wroteOffset + 400) / hole) * hole;
      small.overwrite(`${LOG}/${'0'.repeat(20)}`, from, Buffer.alloc(hole));
      await small.start();
      assert.equal(small.store.watermarks.wrote, torn.wroteOffset);
      await small.expectQueue(0, 1);
    }
  });

  it('a torn topic in the middle of a log is in no queue, is named, and does not stop what stands behind it', async () => {
    const small = await SmallStore.create();
    await small.send();
    const torn = await small.send({ topic: 'Orders' });
    await small.send();
    small.kill();
    // Topic, and the length 0 of the properties.
    const topicEnd = torn.wroteOffset + torn.wroteBytes - 2;
    small.overwrite(`${LOG}/${'0'.repeat(20)}`, topicEnd - 3, Buffer.alloc(3));
    small.fs.removeTree(`${ROOT}/consumequeue`);
    small.fs.settle();
    await small.start();
    await small.expectQueue(0, 2);
    assert.deepEqual(
      [...small.store.queues()].map(({ topic }) => topic),
      ['T'],
    );
    assert.ok(said(small, torn.wroteOffset), 'the record is named');
    await small.stop();
    await small.start();
    await small.expectQueue(0, 2);
  });

  it('the same bytes in the middle of a log are kept, as Java keeps them', async () => {
    const small = await SmallStore.create();
    const odd = await small.send({ keys: 'a\u0000b' });
    await small.send();
    small.kill();
    await small.start();
    assert.equal(odd.queueOffset, 0);
    await small.expectQueue(0, 2);
  });

  it('a place without a message does not make a search by time pass over those before it', async () => {
    const small = await SmallStore.create();
    const sent = await small.sendMany(4);
    await small.stop();
    const torn = sent[2]!;
    tear(small, torn.wroteOffset + torn.wroteBytes - 2, 1);
    small.fs.remove(`${ROOT}/checkpoint`);
    small.fs.settle();
    small.leaveAbort();
    await small.start();
    const first = sent[0]!.storeTimestamp;
    const search = small.store.offsetInQueueByTime('T', 0, first, 'LOWER');
    assert.equal(await small.world.settle(search, 'a search ends'), 0);
  });

  it('a place without a message in the middle of a queue does not hide those before it', async () => {
    const small = await SmallStore.create();
    const sent = await small.sendMany(9, () => ({ body: THIRD_OF_A_FILE }));
    await small.stop();
    const end = sent[4]!.wroteOffset + sent[4]!.wroteBytes - 2;
    small.overwrite(`${LOG}/${'0'.repeat(15)}16384`, end - 16_384 - 1, Buffer.alloc(1));
    small.fs.remove(`${LOG}/${'0'.repeat(20)}`);
    small.fs.remove(`${ROOT}/checkpoint`);
    small.fs.settle();
    small.leaveAbort();
    await small.start();
    assert.equal(small.store.minOffsetInQueue('T', 0), 3);
    assert.deepEqual(
      (await small.drain()).map((record) => record.queueOffset),
      [3, 5, 6, 7, 8],
    );
  });

  it('a torn topic whose unit was on disk already leaves its queue', async () => {
    const small = await SmallStore.create();
    await small.send();
    const torn = await small.send({ topic: 'Orders' });
    await small.send();
    await small.stop();
    tear(small, torn.wroteOffset + torn.wroteBytes - 2, 1);
    small.fs.remove(`${ROOT}/checkpoint`);
    small.fs.settle();
    small.leaveAbort();
    for (let start = 0; start < 2; start++) {
      await small.start();
      assert.equal(small.store.maxOffsetInQueue('Orders', 0), 0);
      await small.expectQueue(0, 2);
      await small.stop();
    }
    await small.start();
    assert.equal((await small.send({ topic: 'Orders' })).queueOffset, 0);
  });
});

/** Overwrites the bytes before an offset in the first file with zeros. */
function tear(small: SmallStore, end: number, bytes: number): void {
  small.overwrite(`${LOG}/${'0'.repeat(20)}`, end - bytes, Buffer.alloc(bytes));
}
