// Records that were durable and are damaged: what a start does under each policy, and what a running store answers.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { GantryError } from '../../src/common/index.ts';
import type { PutResult } from '../../src/store/index.ts';
import { GetMessageStatus } from '../../src/store/index.ts';
import { pull, query, ROOT } from './engine.ts';
import { LOG, SmallStore } from './small-store.ts';
import { readConsumeQueue } from './store-files.ts';

const FILE = 16_384;
const MARK = 'gantryLost\u00011';

function fileOf(offset: number): string {
  return `${LOG}/${String(offset - (offset % FILE)).padStart(20, '0')}`;
}

/** Inverts bits of the log at a physical offset. */
function flip(small: SmallStore, offset: number, mask = 0x10): void {
  const byte = small.bytesOf(fileOf(offset))[offset % FILE]!;
  small.overwrite(fileOf(offset), offset % FILE, Buffer.from([byte ^ mask]));
}

/** A stopped store of 30 messages in two queues, one after the other, and one of another topic. */
async function stopped(): Promise<{ small: SmallStore; sent: PutResult[] }> {
  const small = await SmallStore.create();
  const sent = await small.sendMany(30, (n) => ({ queueId: n % 2, keys: `k${n}`, tags: 'TagA' }));
  sent.push(await small.send({ topic: 'Late', body: 'a late message' }));
  await small.stop();
  return { small, sent };
}

async function refusal(small: SmallStore): Promise<string> {
  let message = '';
  await assert.rejects(small.start(), (error) => {
    assert.ok(error instanceof GantryError && error.code === 'STORE_DAMAGED', String(error));
    message = error.message;
    return true;
  });
  return message;
}

describe('a damaged record that was durable refuses the start', () => {
  it('in one line with file, offset, reason, what lies behind it and the choices; nothing is changed', async () => {
    const { small, sent } = await stopped();
    flip(small, sent[10]!.wroteOffset + 90);
    const before = small.fingerprint();
    const line = await refusal(small);
    const { wroteOffset } = sent[10]!;
    const behind = sent.slice(11).reduce((sum, one) => sum + one.wroteBytes, 0);
    for (const part of [
      fileOf(wroteOffset),
      `offset ${wroteOffset}`,
      'the body CRC is wrong',
      `20 sound records (${behind} bytes, stored 20`,
      'gantryDamagedRecord=skip',
      '=cut',
    ]) {
      assert.ok(line.includes(part), `${part} in: ${line}`);
    }
    assert.ok(!line.includes('\n'));
    assert.deepEqual(small.fingerprint(), before);
    await refusal(small);
    flip(small, wroteOffset + 90);
    await small.start();
    await small.expectQueue(0, 15, 'T', 0);
  });

  it('after a kill, too, and with the derived files and queues deleted', async () => {
    const { small, sent } = await stopped();
    flip(small, sent[3]!.wroteOffset + 90);
    small.leaveAbort();
    small.fs.removeTree(`${ROOT}/consumequeue`);
    small.fs.removeTree(`${ROOT}/index`);
    small.fs.settle();
    const before = small.fingerprint();
    await refusal(small);
    assert.deepEqual(small.fingerprint(), before);
  });

  it('the last record of all', async () => {
    const { small, sent } = await stopped();
    flip(small, sent[30]!.wroteOffset + 90);
    assert.match(await refusal(small), /no sound record lies behind it/);
  });

  it('not what was written after the last time that it was known to be durable', async () => {
    const small = await SmallStore.create({ flushDiskType: 'ASYNC_FLUSH' });
    const sent = await small.sendMany(10);
    small.kill();
    flip(small, sent[5]!.wroteOffset + 90);
    await small.start();
    await small.expectQueue(0, 5);
    assert.ok(small.store.recovery.aside !== undefined, 'what was cut is kept aside');
  });

  it('the mark follows the running store, within seconds', async () => {
    const small = await SmallStore.create();
    const sent = await small.sendMany(10);
    await small.world.advance(1100);
    await small.world.until(() => small.world.waiting === 0, 'the checkpoint is written');
    small.powerCut();
    flip(small, sent[5]!.wroteOffset + 90);
    await refusal(small);
  });

  it('a store that a Java broker left goes by the time of its checkpoint', async () => {
    for (const durable of [true, false]) {
      const { small, sent } = await stopped();
      small.fs.removeTree(`${ROOT}/gantry`);
      const times = Buffer.alloc(8);
      times.writeBigInt64BE(BigInt(durable ? sent[10]!.storeTimestamp : sent[0]!.storeTimestamp - 1));
      small.overwrite(`${ROOT}/checkpoint`, 0, times);
      small.leaveAbort();
      flip(small, sent[10]!.wroteOffset + 90);
      if (durable) assert.match(await refusal(small), /stored before what was durable/);
      else {
        await small.start();
        await small.expectQueue(0, 5, 'T', 0);
      }
    }
  });

  it('a mark that belongs to an older checkpoint does not count: another broker has written since', async () => {
    const { small, sent } = await stopped();
    const times = Buffer.alloc(8);
    times.writeBigInt64BE(1n);
    small.overwrite(`${ROOT}/checkpoint`, 0, times);
    small.leaveAbort();
    flip(small, sent[10]!.wroteOffset + 90);
    await small.start();
    await small.expectQueue(0, 5, 'T', 0);
  });
});

describe('gantryDamagedRecord=cut', () => {
  it('cuts as Java does, keeps the bytes aside, and goes on', async () => {
    const { small, sent } = await stopped();
    flip(small, sent[10]!.wroteOffset + 90);
    const tail = small
      .bytesOf(fileOf(0))
      .subarray(sent[10]!.wroteOffset, sent[30]!.wroteOffset + sent[30]!.wroteBytes - 2);
    await small.start({ gantryDamagedRecord: 'cut' });
    await small.expectQueue(0, 5, 'T', 0);
    await small.expectQueue(0, 5, 'T', 1);
    const { aside } = small.store.recovery;
    assert.deepEqual(small.bytesOf(aside!.path), tail);
    await small.sendMany(3);
    small.kill();
    // The default again: what was cut is durable no more, and no damage.
    await small.start();
    await small.expectQueue(0, 8, 'T', 0);
  });
});

describe('gantryDamagedRecord=skip', () => {
  /** Starts, checks that only the messages `lost` of `sent` are replaced, stops, and compares the derived files with a rebuild. */
  async function expectSkipped(small: SmallStore, sent: readonly PutResult[], lost: readonly number[]): Promise<void> {
    await small.start({ gantryDamagedRecord: 'skip' });
    for (const [topic, queueId, count] of [
      ['T', 0, 15],
      ['T', 1, 15],
      ['Late', 0, 1],
    ] as const) {
      const records = await small.expectQueue(0, count, topic, queueId);
      for (const record of records) {
        const n = sent.findIndex(({ wroteOffset }) => wroteOffset === record.position);
        if (n < 0 || lost.includes(n)) assert.equal(record.properties, MARK, `message ${n} is marked`);
        else assert.equal(record.body.toString(), n === 30 ? 'a late message' : `message ${n}`);
      }
      const marked = records.filter((record) => record.properties === MARK);
      const expected = lost.filter((n) => (topic === 'Late' ? n === 30 : n < 30 && n % 2 === queueId));
      assert.equal(marked.length, expected.length, `marked records in ${topic}/${queueId}`);
    }
    await small.stop();
    const before = derived(small);
    small.fs.removeTree(`${ROOT}/consumequeue`);
    small.fs.removeTree(`${ROOT}/index`);
    small.fs.settle();
    // Java's rebuild takes each record at its own queue offset, too.
    await small.start();
    assert.equal(small.store.recovery.damage, undefined);
    await small.expectQueue(0, 15, 'T', 0);
    for (const n of [0, 29]) {
      const found = await query(small.world, small.store, 'T', `k${n}`);
      assert.equal(found.length, lost.includes(n) ? 0 : 1, `messages with key k${n}`);
    }
    await small.stop();
    assert.deepEqual(derived(small), before);
  }

  function derived(small: SmallStore): unknown {
    return [
      ['T/0', 'T/1', 'Late/0'].map((queue) => readConsumeQueue(small.fs, `${ROOT}/consumequeue/${queue}`)),
      [...small.fingerprint(`${ROOT}/index`)].map(([, content]) => content),
    ];
  }

  for (const [what, at] of [
    ['the size', 1],
    ['the size, a little', 3],
    ['the magic', 5],
    ['the CRC', 9],
    ['the physical offset', 35],
    ['the length of the body', 87],
    ['the body', 92],
    ['the queue offset and the body', 27],
  ] as const) {
    for (const n of [0, 10, 11, 29, 30]) {
      it(`${what} of message ${n}`, async () => {
        const { small, sent } = await stopped();
        flip(small, sent[n]!.wroteOffset + at);
        if (at === 27) flip(small, sent[n]!.wroteOffset + 92);
        await expectSkipped(small, sent, [n]);
      });
    }
  }

  it('without the ConsumeQueues, by what stands around them', async () => {
    for (const at of [1, 5, 9, 87]) {
      const { small, sent } = await stopped();
      flip(small, sent[9]!.wroteOffset + at);
      flip(small, sent[10]!.wroteOffset + 92);
      small.fs.removeTree(`${ROOT}/consumequeue`);
      small.fs.settle();
      small.leaveAbort();
      await expectSkipped(small, sent, [9, 10]);
    }
  });

  it('a run in which no length can be believed', async () => {
    for (const queues of [true, false]) {
      const { small, sent } = await stopped();
      const from = sent[7]!.wroteOffset + 3;
      small.overwrite(fileOf(0), from, Buffer.alloc(sent[12]!.wroteOffset + 40 - from, 0xa5));
      if (!queues) {
        small.fs.removeTree(`${ROOT}/consumequeue`);
        small.leaveAbort();
      }
      await expectSkipped(small, sent, [7, 8, 9, 10, 11, 12]);
    }
  });

  it('the bytes are kept aside, and the report says what was skipped', async () => {
    const { small, sent } = await stopped();
    flip(small, sent[10]!.wroteOffset + 90);
    const { wroteOffset, wroteBytes } = sent[10]!;
    const damaged = small.bytesOf(fileOf(0)).subarray(wroteOffset, wroteOffset + wroteBytes);
    await small.start({ gantryDamagedRecord: 'skip' });
    assert.deepEqual(small.store.recovery.skipped, [{ offset: wroteOffset, bytes: wroteBytes, records: 1 }]);
    const [kept] = small.fs.list(`${ROOT}/gantry/cut`);
    assert.deepEqual(small.bytesOf(`${ROOT}/gantry/cut/${kept}`), damaged);
    assert.ok(small.log.lines.some(({ level, text }) => level === 'warn' && text.includes('T queue 0 offset 5')));
  });

  it('a damaged filler, and the last record before it', async () => {
    for (const fillerToo of [true, false]) {
      const small = await SmallStore.create();
      const sent = await small.sendMany(8, (n) => ({ body: Buffer.alloc(5000, 97 + n) }));
      await small.stop();
      const filler = sent[2]!.wroteOffset + sent[2]!.wroteBytes;
      assert.equal(sent[3]!.wroteOffset, FILE, 'a filler follows the third message');
      flip(small, sent[2]!.wroteOffset + 500);
      if (fillerToo) flip(small, filler + 6);
      await small.start({ gantryDamagedRecord: 'skip' });
      const records = await small.expectQueue(0, 8);
      assert.deepEqual(
        records.map(({ properties }) => properties === MARK),
        [false, false, true, false, false, false, false, false],
      );
      await small.stop();
      assert.equal(small.logContent().records.length, 8);
    }
  });

  it('a kill at any moment is made good by the next start', async () => {
    let cuts = 0;
    for (let operations = 1; operations < 400; operations++) {
      const { small, sent } = await stopped();
      const from = sent[7]!.wroteOffset + 3;
      small.overwrite(fileOf(0), from, Buffer.alloc(sent[9]!.wroteOffset + 40 - from, 0xa5));
      flip(small, sent[20]!.wroteOffset + 5);
      small.fs.powerOffAfter(operations);
      let isUp = true;
      try {
        await small.start({ gantryDamagedRecord: 'skip' });
      } catch (error) {
        if (!small.fs.isDown) throw error;
        isUp = false;
      }
      cuts++;
      small.powerCut(operations);
      await expectSkipped(small, sent, [7, 8, 9, 20]);
      if (isUp) break;
    }
    assert.ok(cuts > 20, `${cuts} moments`);
  });

  it('is refused where others have the same log', async () => {
    const { small, sent } = await stopped();
    flip(small, sent[10]!.wroteOffset + 90);
    const before = small.fingerprint();
    await assert.rejects(
      small.start({ gantryDamagedRecord: 'skip', brokerRole: 'SYNC_MASTER' }),
      /skip is refused.*brokerRole is SYNC_MASTER/,
    );
    assert.deepEqual(small.fingerprint(), before);
  });
});

describe('a damaged record in a running store', () => {
  it('is left out of the answer, with one warning; the others are served and the pull leads on', async () => {
    const { small, sent } = await stopped();
    await small.start();
    for (const n of [0, 10, 12, 28]) flip(small, sent[n]!.wroteOffset + 92);
    for (let round = 0; round < 2; round++) {
      const records = await small.drain('T', 0);
      assert.deepEqual(
        records.map(({ queueOffset }) => queueOffset),
        [1, 2, 3, 4, 7, 8, 9, 10, 11, 12, 13],
      );
      await small.expectQueue(0, 15, 'T', 1);
    }
    for (const n of [0, 10, 12, 28]) {
      const place = `offset ${sent[n]!.wroteOffset} `;
      assert.equal(small.log.texts('warn').filter((text) => text.includes(place)).length, 1, place);
    }
  });

  it('alone in a pull is answered as one that is gone, and its offset passes', async () => {
    const { small, sent } = await stopped();
    await small.start();
    flip(small, sent[10]!.wroteOffset + 5);
    const got = await pull(small.world, small.store, 'T', 0, 5, { maxMessages: 1 });
    assert.equal(got.status, GetMessageStatus.MESSAGE_WAS_REMOVING);
    assert.equal(got.nextBeginOffset, 6);
    assert.equal(got.records.length, 0);
  });

  it('is not found by its offset or its key', async () => {
    const { small, sent } = await stopped();
    await small.start();
    flip(small, sent[10]!.wroteOffset + 92);
    assert.equal(await small.world.settle(small.store.recordAt(sent[10]!.wroteOffset), 'a read ends'), undefined);
    assert.deepEqual(await query(small.world, small.store, 'T', 'k10'), []);
    assert.equal((await query(small.world, small.store, 'T', 'k11')).length, 1);
  });
});
