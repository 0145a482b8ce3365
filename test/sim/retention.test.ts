// Old files go: which, when, in what order, and what everyone else sees of it.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { GantryError } from '../../src/common/index.ts';
import { GetMessageStatus, GetResult, type MessageStoreConfig, PutMessageStatus } from '../../src/store/index.ts';
import { pull, query, ROOT } from './engine.ts';
import { LOG, SmallStore } from './small-store.ts';
import { segmentNames } from './store-files.ts';

const HOUR = 3_600_000;
const FILE = 16_384;
/** Three of these fill a file of the log. */
const THIRD_OF_A_FILE = Buffer.alloc(5000, 'x');
const ALL = { all: true, codes: new Set<number>() };

/** A store whose log has `files` files, the last of them nearly empty: message n is in file n / 3. */
async function filled(files: number, settings: Partial<MessageStoreConfig> = {}): Promise<SmallStore> {
  const small = await SmallStore.create({ deleteWhen: '', deleteCommitLogFilesInterval: 0, ...settings });
  await small.sendMany((files - 1) * 3 + 1, (n) => ({ body: THIRD_OF_A_FILE, keys: `k${n}` }));
  return small;
}

/** Lets everything happen that does not wait for time. */
async function idle(small: SmallStore): Promise<void> {
  for (let quiet = 0; quiet < 3; quiet++) {
    while ((await small.world.complete()) || (await small.world.soon())) quiet = 0;
  }
}

/** Lets time pass, in steps in which everything else happens. */
async function pass(small: SmallStore, ms: number, step = 10_000): Promise<void> {
  for (let left = ms; left > 0; left -= step) {
    await small.world.advance(Math.min(step, left));
    await idle(small);
  }
}

function pathOf(index: number): string {
  return `${LOG}/${String(index * FILE).padStart(20, '0')}`;
}

/** Files of the log on the disk, by number, without the one that is made ahead. */
function onDisk(small: SmallStore): number[] {
  const { wrote } = small.store.watermarks;
  return segmentNames(small.fs, LOG)
    .map((name) => Number(name) / FILE)
    .filter((index) => index * FILE < wrote);
}

async function request(small: SmallStore): Promise<void> {
  small.store.retention.request();
  await idle(small);
}

/** How often a line with all of `parts` was said. */
function said(small: SmallStore, ...parts: string[]): number {
  return small.log.texts().filter((text) => parts.every((part) => text.includes(part))).length;
}

describe('which files go, and when', () => {
  it('expired ones at the hour of deleteWhen, the one that is written to never', async () => {
    const small = await filled(4, { fileReservedTime: 5 });
    const hour = new Date(small.world.clock.now() + 6 * HOUR).getHours();
    small.store.config.deleteWhen = `${(hour + 12) % 24};${hour}`;
    await pass(small, 5 * HOUR - 60_000, 60_000);
    assert.deepEqual(onDisk(small), [0, 1, 2, 3], 'not expired');
    await pass(small, 2 * HOUR, 60_000);
    assert.deepEqual(onDisk(small), [3]);
    await small.expectQueue(9, 10);
    await small.stop();
  });

  it('expired ones at no other hour', async () => {
    const small = await filled(3, { fileReservedTime: 1 });
    const hour = new Date(small.world.clock.now()).getHours();
    small.store.config.deleteWhen = String((hour + 12) % 24);
    await pass(small, 5 * HOUR, 60_000);
    assert.deepEqual(onDisk(small), [0, 1, 2]);
    await small.stop();
  });

  it('expired ones at any hour from diskMaxUsedSpaceRatio on; below diskSpaceCleanForciblyRatio nothing else, and nothing is said', async () => {
    const small = await filled(4);
    small.fs.reportedUsedFraction = 0.84;
    await pass(small, 10 * 60_000);
    assert.deepEqual(onDisk(small), [0, 1, 2, 3], 'nothing is expired');
    assert.deepEqual(small.log.texts('warn'), []);
    for (const file of [0, 1]) small.fs.setModified(pathOf(file), small.world.clock.now() - 73 * HOUR);
    small.fs.reportedUsedFraction = 0.75;
    await pass(small, 60_000);
    assert.deepEqual(onDisk(small), [0, 1, 2, 3], '75 % is not beyond 75 %');
    small.fs.reportedUsedFraction = 0.76;
    await pass(small, 10_000);
    assert.deepEqual(onDisk(small), [2, 3]);
    await small.stop();
  });

  it('the oldest from diskSpaceCleanForciblyRatio on, no more than needed', async () => {
    const small = await filled(6);
    await pass(small, 60_000);
    small.fs.onOperation = (operation) => {
      if (operation === 'remove') small.fs.reportedUsedFraction -= 0.02;
    };
    small.fs.reportedUsedFraction = 0.88;
    await pass(small, 60_000);
    assert.deepEqual(onDisk(small), [2, 3, 4, 5], '0.86 and 0.84 are left');
    assert.equal(small.store.retention.counts.forcedFiles, 2);
    await small.stop();
  });

  it('with cleanFileForciblyEnable=false none before its time', async () => {
    const small = await filled(3, { cleanFileForciblyEnable: false });
    small.fs.reportedUsedFraction = 0.99;
    await pass(small, 5 * 60_000);
    assert.deepEqual(onDisk(small), [0, 1, 2]);
    await small.stop();
  });

  it('expired ones when they are asked to, at once', async () => {
    const small = await filled(4, { fileReservedTime: 1 });
    await request(small);
    assert.deepEqual(onDisk(small), [0, 1, 2, 3]);
    await pass(small, 30_000);
    await small.world.advance(2 * HOUR);
    await idle(small);
    await request(small);
    assert.deepEqual(onDisk(small), [3]);
    await small.stop();
  });

  it('a disk that does not tell how full it is keeps expired files no longer', async () => {
    const small = await filled(3, { fileReservedTime: 0 });
    small.fs.reportedUsedFraction = -1;
    await pass(small, 70_000);
    assert.deepEqual(onDisk(small), [2]);
    assert.equal(small.store.unwritableReason, undefined);
    await small.stop();
  });

  it('at most deleteFileBatchMax in one look, deleteCommitLogFilesInterval apart', async () => {
    const small = await filled(9, { fileReservedTime: 0, deleteFileBatchMax: 3, deleteCommitLogFilesInterval: 400 });
    await request(small);
    assert.deepEqual(onDisk(small)[0], 1);
    await pass(small, 390, 390);
    assert.deepEqual(onDisk(small)[0], 1);
    await pass(small, 20, 20);
    assert.deepEqual(onDisk(small)[0], 2);
    await pass(small, 5000, 100);
    assert.deepEqual(onDisk(small)[0], 3);
    await request(small);
    await pass(small, 5000, 100);
    assert.deepEqual(onDisk(small)[0], 6);
    await small.stop();
  });

  it('hours that are none refuse the start', async () => {
    for (const deleteWhen of ['24', '4 am', '04;x', '-1']) {
      await assert.rejects(SmallStore.create({ deleteWhen }), (error) => {
        return error instanceof GantryError && error.code === 'CONFIG_VALUE' && error.message.includes(deleteWhen);
      });
    }
    for (const deleteWhen of ['04', '4', '00;12;23', '04;', '']) await (await SmallStore.create({ deleteWhen })).stop();
  });
});

describe('what follows the log', () => {
  it('a queue begins with its first message that is left; a pull before it is led there, and a consumer goes on', async () => {
    const small = await filled(4, { fileReservedTime: 0 });
    await small.sendMany(3, () => ({ topic: 'Late' }));
    await request(small);
    await small.expectQueue(9, 10);
    await small.expectQueue(0, 3, 'Late');
    for (const offset of [0, 4, 8]) {
      const got = await pull(small.world, small.store, 'T', 0, offset);
      assert.equal(got.status, GetMessageStatus.OFFSET_TOO_SMALL);
      assert.equal(got.nextBeginOffset, 9);
      const next = await pull(small.world, small.store, 'T', 0, got.nextBeginOffset);
      assert.deepEqual(
        next.records.map((record) => record.queueOffset),
        [9],
      );
    }
    await small.send();
    await small.expectQueue(9, 11);
    await small.stop();
    await small.start();
    await small.expectQueue(9, 11);
    await small.stop();
  });

  it('a queue all of whose messages are gone keeps its end, also when its folder is lost', async () => {
    const small = await filled(1, { fileReservedTime: 0 });
    await small.sendMany(7, () => ({ topic: 'Early' }));
    await small.sendMany(60, () => ({ topic: 'Long', body: 'x' }));
    await small.sendMany(6, () => ({ body: THIRD_OF_A_FILE }));
    await request(small);
    await small.expectQueue(7, 7, 'Early');
    await small.expectQueue(60, 60, 'Long');
    for (const way of ['stop', 'kill', 'lost'] as const) {
      if (way === 'kill') small.kill();
      else await small.stop();
      if (way === 'lost') small.fs.removeTree(`${ROOT}/consumequeue`);
      await small.start();
      await small.expectQueue(7, 7, 'Early');
      await small.expectQueue(60, 60, 'Long');
    }
    assert.equal((await small.send({ topic: 'Early' })).queueOffset, 7);
    assert.equal((await small.send({ topic: 'Long' })).queueOffset, 60);
    await small.expectQueue(7, 8, 'Early');
    await small.stop();
    await small.start();
    await small.expectQueue(7, 8, 'Early');
    await small.expectQueue(60, 61, 'Long');
    await small.stop();
  });

  it('files of queues and index that hold nothing more go, the last of each stays', async () => {
    const small = await SmallStore.create({ fileReservedTime: 0, deleteWhen: '', deleteCommitLogFilesInterval: 0 });
    await small.sendMany(220, (n) => ({ body: Buffer.alloc(300, 'x'), keys: `k${n}` }));
    await small.stop();
    await small.start();
    const queueFolder = `${ROOT}/consumequeue/T/0`;
    const before = { queue: segmentNames(small.fs, queueFolder), index: small.fs.list(`${ROOT}/index`).sort() };
    assert.ok(before.queue.length === 5 && before.index.length === 4, JSON.stringify(before));
    await request(small);
    await pass(small, 1000, 100);
    const min = small.store.minOffsetInQueue('T', 0);
    assert.ok(min > 100, `${min}`);
    assert.equal(segmentNames(small.fs, queueFolder).length, 5 - Math.floor(min / 50));
    assert.deepEqual(small.fs.list(`${ROOT}/index`).sort(), before.index.slice(-1 - Number(min < 189)));
    await small.expectQueue(min, 220);
    assert.deepEqual(await query(small.world, small.store, 'T', 'k3'), []);
    assert.equal((await query(small.world, small.store, 'T', 'k219')).length, 1);
    await small.stop();
    await small.start();
    await small.expectQueue(min, 220);
    await small.stop();
  });

  it('queue files that another broker left behind go, too', async () => {
    const small = await SmallStore.create({ fileReservedTime: 0, deleteWhen: '', deleteCommitLogFilesInterval: 0 });
    await small.sendMany(220, () => ({ body: Buffer.alloc(300, 'x') }));
    await small.stop();
    for (const file of [0, 1, 2, 3]) small.fs.remove(pathOf(file));
    small.fs.settle();
    await small.start();
    const min = small.store.minOffsetInQueue('T', 0);
    assert.ok(min > 150);
    await pass(small, 70_000);
    assert.equal(segmentNames(small.fs, `${ROOT}/consumequeue/T/0`).length, 5 - Math.floor(min / 50));
    await small.expectQueue(min, 220);
    await small.stop();
  });

  it('a topic that was deleted stays deleted, and its later life keeps its ordinals', async () => {
    const small = await filled(3, { fileReservedTime: 0 });
    await small.world.settle(small.store.deleteTopics(['T']), 'the topic is deleted');
    await small.sendMany(4, (n) => ({ body: THIRD_OF_A_FILE, keys: `again${n}` }));
    await request(small);
    assert.ok(small.store.watermarks.minimum > 0);
    const min = small.store.minOffsetInQueue('T', 0);
    await small.expectQueue(min, 4);
    for (const way of ['stop', 'kill', 'rebuilt'] as const) {
      if (way === 'kill') small.kill();
      else await small.stop();
      if (way === 'rebuilt') for (const folder of ['consumequeue', 'index']) small.fs.removeTree(`${ROOT}/${folder}`);
      await small.start();
      await small.expectQueue(min, 4);
    }
    await small.world.settle(small.store.deleteTopics(['T']), 'the topic is deleted again');
    await small.sendMany(2, () => ({ topic: 'Other', body: THIRD_OF_A_FILE }));
    await small.send();
    await small.expectQueue(0, 1);
    await small.stop();
  });
});

describe('what keeps a file', () => {
  it('units that are not durable yet: their ordinals would be given twice', async () => {
    const small = await SmallStore.create({ fileReservedTime: 0, deleteWhen: '', deleteCommitLogFilesInterval: 0 });
    const hold = small.fs.hold('sync', 'consumequeue');
    await small.sendMany(7, () => ({ body: THIRD_OF_A_FILE }));
    await request(small);
    assert.deepEqual(onDisk(small), [0, 1, 2]);
    hold.end();
    await idle(small);
    await pass(small, 70_000);
    assert.deepEqual(onDisk(small), [2]);
    small.powerCut();
    await small.start();
    await small.expectQueue(6, 7);
    await small.stop();
  });

  it('a floor, until the disk forces it out, which is counted; both are told once a minute', async () => {
    const small = await filled(4, { fileReservedTime: 0 });
    let needed = 5;
    const asked: string[] = [];
    small.store.retention.addFloor({
      name: 'the replica',
      needed: ({ start, end, forced, moves }) => {
        asked.push(`${start}-${end} ${forced} ${moves.map((m) => `${m.topic}/${m.queueId} ${m.from}-${m.to}`).join()}`);
        return needed;
      },
    });
    small.fs.reportedUsedFraction = 0.8;
    await pass(small, 10 * 60_000);
    assert.deepEqual(onDisk(small), [0, 1, 2, 3]);
    assert.equal(asked[0], `0-${FILE} false T/0 0-3`);
    const told = said(small, 'is expired and stays: 5 are still needed by the replica');
    assert.ok(told >= 8 && told <= 10, `${told} lines in ten minutes`);
    small.fs.reportedUsedFraction = 0.86;
    await pass(small, 10_000);
    assert.deepEqual(onDisk(small), [3]);
    assert.deepEqual([...small.store.retention.counts.lost], [['the replica', 15]]);
    assert.equal(said(small, 'goes since the disk is full', 'the replica'), 1);
    needed = 0;
    await small.stop();
  });

  it('a file that cannot be removed: tried again after redeleteHangedFileInterval, and no other goes before', async () => {
    const small = await filled(4, { fileReservedTime: 0, redeleteHangedFileInterval: 30_000 });
    await pass(small, 60_000);
    const fault = small.fs.fail({ operation: 'remove', path: 'commitlog', times: 2 });
    await request(small);
    assert.equal(fault.hits, 1);
    assert.deepEqual(onDisk(small), [0, 1, 2, 3]);
    assert.equal(small.store.watermarks.minimum, FILE, 'nothing of it can be read any more');
    await pass(small, 20_000);
    assert.equal(fault.hits, 1);
    await pass(small, 20_000);
    assert.equal(fault.hits, 2);
    await pass(small, 40_000);
    assert.deepEqual(onDisk(small), [3]);
    assert.ok(said(small, 'cannot be removed') <= 2);
    await small.stop();
  });

  it('a stop in the middle: what is not off the disk is there after the next start', async () => {
    const small = await filled(4, { fileReservedTime: 0, deleteCommitLogFilesInterval: 60_000 });
    await request(small);
    assert.deepEqual(onDisk(small), [1, 2, 3]);
    await small.stop();
    await small.start();
    await small.expectQueue(3, 10);
    await small.stop();
  });
});

describe('a power cut at any step of a look', () => {
  it('leaves a store that starts, with all that was to stay', async () => {
    for (let steps = 0; ; steps++) {
      const small = await filled(5, { fileReservedTime: 0 });
      small.fs.powerOffAfter(steps);
      small.store.retention.request();
      await idle(small).catch(() => {});
      const done = !small.fs.isDown;
      small.powerCut(steps);
      await small.start();
      const { minimum } = small.store.watermarks;
      assert.ok(minimum <= 4 * FILE);
      await small.expectQueue((minimum / FILE) * 3, 13);
      await request(small);
      await small.expectQueue(12, 13);
      await small.stop();
      if (done) return assert.ok(steps > 10, `${steps} steps`);
    }
  });
});

describe('B31: no recovery after the disk has space again', () => {
  it('20 messages that waited for dispatch are readable, and sends work within one probe', async () => {
    const small = await SmallStore.create();
    await small.sendMany(5);
    const waiting = Array.from({ length: 20 }, () => small.put());
    small.fs.reportedUsedFraction = 0.95;
    const fault = small.fs.fail({ operation: 'write', path: 'consumequeue', code: 'DISK_FULL', times: 3 });
    await pass(small, 60_000);
    assert.equal(fault.hits > 0, true, 'the queue could not be written');
    const refused = small.put();
    assert.equal(refused.status, PutMessageStatus.SERVICE_NOT_AVAILABLE);
    assert.match(refused.reason, /95\.0 % .* diskSpaceWarningLevelRatio is 90\.0 %/);
    assert.equal((await pull(small.world, small.store, 'T', 0, 0)).status, GetMessageStatus.FOUND);
    small.fs.reportedUsedFraction = 0.5;
    await pass(small, 10_000);
    const sent = small.put();
    assert.equal(sent.status, PutMessageStatus.PUT_OK, sent.reason);
    await small.acknowledged(sent);
    await small.acknowledged(waiting.at(-1)!);
    await idle(small);
    await small.expectQueue(0, 26);
    assert.ok(said(small, 'the disk is full') <= 2, 'once a minute');
    await small.stop();
    await small.start();
    await small.expectQueue(0, 26);
    await small.stop();
  });
});

describe('B32: probing stops while old files are deleted', () => {
  it('sends are refused within one probe while each removal takes 2 s, which goes on, and taken again by themselves', async () => {
    const small = await filled(11, { fileReservedTime: 0 });
    await pass(small, 60_000);
    small.fs.reportedUsedFraction = 0.8;
    const hold = small.fs.hold('remove', 'commitlog');
    small.store.retention.request();
    let removed = 0;
    let refusedAfter = -1;
    for (let seconds = 0; removed < 10; seconds += 2) {
      await pass(small, 2000, 1000);
      assert.equal(hold.waiting, 1, 'one at a time');
      if (refusedAfter < 0 && small.store.unwritableReason !== undefined) refusedAfter = seconds;
      hold.release(1);
      await idle(small);
      removed++;
      if (removed === 1) small.fs.reportedUsedFraction = 0.95;
      if (removed === 9) small.fs.reportedUsedFraction = 0.5;
    }
    assert.ok(refusedAfter >= 0 && refusedAfter <= 12, `refused after ${refusedAfter} s`);
    hold.end();
    await pass(small, 10_000);
    assert.deepEqual(onDisk(small), [10]);
    assert.equal(small.store.unwritableReason, undefined);
    await small.send();
    await small.stop();
  });
});

describe('B34: a reader keeps an expired file alive for ever', () => {
  /** A store whose first file is being read by a pull, cold, and does not get its bytes. */
  async function read(small: SmallStore): Promise<{ end: () => void; answer: () => string }> {
    await small.stop();
    await small.start();
    const hold = small.fs.hold('read', 'commitlog');
    const result = new GetResult();
    const first = small.store.minOffsetInQueue('T', 0);
    let answer = '';
    const bytes = Buffer.alloc(1 << 20);
    const copy = (error?: Error): void => {
      if (error !== undefined) answer = error.message;
      else if (small.store.copyRecords(result, bytes, 0, copy)) answer = `${result.count} records`;
    };
    const step = (error?: Error): void => {
      if (error !== undefined) answer = error.message;
      else if (
        small.store.select(
          { topic: 'T', queueId: 0, offset: first, maxMessages: 2, maxBytes: 1 << 20, filter: ALL },
          result,
          step,
        )
      )
        copy();
    };
    step();
    await idle(small);
    assert.ok(hold.waiting > 0, 'the pull waits for the disk');
    return { end: () => hold.end(), answer: () => answer };
  }

  it('it goes when the reader ends, and the reader gets a clean answer: 50 rounds, no descriptor is left', async () => {
    const small = await filled(3, { fileReservedTime: 0 });
    let handles = 0;
    for (let round = 0; round < 50; round++) {
      const reader = await read(small);
      const first = onDisk(small)[0]!;
      for (let i = 0; i < 3; i++) {
        small.store.retention.request();
        await pass(small, 1000, 1000);
      }
      assert.equal(onDisk(small)[0], first, 'a reader is in it');
      assert.equal(small.store.watermarks.minimum, (first + 1) * FILE, 'nobody else can get in');
      reader.end();
      await idle(small);
      await pass(small, 100, 100);
      assert.notEqual(onDisk(small)[0], first, `round ${round}: it is gone`);
      assert.match(reader.answer(), /was removed while it was read/);
      await small.sendMany(6, () => ({ body: THIRD_OF_A_FILE }));
      await pass(small, 2000, 1000);
      await small.drain();
      if (round === 0) handles = small.fs.openHandles;
      else
        assert.ok(
          small.fs.openHandles <= handles + 1,
          `round ${round}: ${small.fs.openHandles} open, ${handles} at first`,
        );
    }
    await small.stop();
    assert.equal(small.fs.openHandles, 0);
  });

  it('it goes after destroyMapedFileIntervalForcibly although the reader has not ended', async () => {
    const small = await filled(3, { fileReservedTime: 0 });
    const reader = await read(small);
    small.store.retention.request();
    await pass(small, 119_000, 1000);
    assert.equal(onDisk(small)[0], 0);
    await pass(small, 2000, 1000);
    assert.deepEqual(onDisk(small), [2]);
    assert.equal(said(small, 'although something has been reading it'), 1);
    reader.end();
    await idle(small);
    assert.match(reader.answer(), /was removed while it was read/);
    await small.expectQueue(6, 7);
    await small.stop();
  });

  it('a stop does not wait for the reader, and the file goes after the next start', async () => {
    const small = await filled(3, { fileReservedTime: 0 });
    await read(small);
    small.store.retention.request();
    await idle(small);
    small.kill();
    await small.start();
    await small.expectQueue(0, 7);
    await request(small);
    await small.expectQueue(6, 7);
    await small.stop();
  });
});

it('a mapped file that has left the log is let go of: nothing opens it again while its removal takes time', async () => {
  const handles: number[] = [];
  for (const isSlow of [false, true]) {
    const small = await filled(1, { fileReservedTime: 0, gantrySegments: 'mapped' });
    for (let n = 0; n < 3; n++) {
      await idle(small);
      await small.send({ body: THIRD_OF_A_FILE });
    }
    const hold = small.fs.hold('remove', 'commitlog');
    await request(small);
    assert.equal(small.store.watermarks.minimum, FILE);
    // Mapped files are looked at each second.
    if (isSlow) await pass(small, 3000, 1000);
    hold.end();
    await idle(small);
    assert.deepEqual(onDisk(small), [1]);
    handles.push(small.fs.openHandles);
    await small.stop();
  }
  assert.equal(handles[1], handles[0]);
});

describe('B35: a hole in the middle of the log', () => {
  it('a file whose time is over stays behind one whose time is not', async () => {
    const small = await filled(5);
    small.fs.setModified(pathOf(1), small.world.clock.now() - 240 * HOUR);
    await request(small);
    await pass(small, 120_000);
    assert.deepEqual(onDisk(small), [0, 1, 2, 3, 4]);
    await small.expectQueue(0, 13);
    await small.stop();
  });

  it('a file that was removed by hand refuses the start with the range that is missing', async () => {
    const small = await filled(5);
    await small.stop();
    small.fs.remove(pathOf(2));
    small.fs.settle();
    const before = small.fingerprint();
    await assert.rejects(small.start(), (error) => {
      assert.ok(error instanceof GantryError && error.code === 'STORE_DAMAGED');
      assert.match(error.message, new RegExp(`${2 * FILE} to ${3 * FILE}`));
      return true;
    });
    assert.deepEqual(small.fingerprint(), before);
  });
});
