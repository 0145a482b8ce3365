// Files that are cut or damaged while the store is open: what cannot be read is told to who asked for it, and to nobody else.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { CollectingLogger, type GantryError } from '../../common/index.ts';
import { MemoryFileSystem } from '../../io/index.ts';
import { decodeMessages } from '../../message/index.ts';
import { GetMessageStatus, GetResult, MessageStore, PutMessageStatus, PutResult } from '../index.ts';
import { putRequest } from '../put/put-request.test.support.ts';

const FILE = '/store/commitlog/00000000000000000000';
const COUNT = 20;

interface Rig {
  fs: MemoryFileSystem;
  store: MessageStore;
  logger: CollectingLogger;
  /** Physical offset of each message. */
  at: number[];
}

/** Puts a message of T; answers its physical offset. */
function put(store: MessageStore, body: Uint8Array): number {
  const result = new PutResult();
  store.put(putRequest('T', body), result);
  return result.wroteOffset;
}

/** A store whose messages m0 to m19 of T have left the memory. */
async function open(): Promise<Rig> {
  const fs = new MemoryFileSystem();
  const logger = new CollectingLogger();
  const config = {
    storePathRootDir: '/store',
    mappedFileSizeCommitLog: 64 * 1024,
    maxHashSlotNum: 16,
    maxIndexNum: 64,
  };
  const before = await MessageStore.open(config, { fs });
  const at: number[] = [];
  for (let i = 0; i < COUNT; i++) at.push(put(before, Buffer.from(`m${i}`)));
  while (before.maxOffsetInQueue('T', 0) < COUNT) await turn();
  await before.close();
  return { fs, store: await MessageStore.open(config, { fs, logger }), logger, at };
}

/** Bodies of one pull, or the code of the error that it ended with. */
async function pull(store: MessageStore, offset: number): Promise<string[] | string> {
  const result = new GetResult();
  const repeat = async (step: (ready: (error?: GantryError) => void) => boolean): Promise<GantryError | undefined> => {
    let outcome: GantryError | 'again' | undefined = 'again';
    while (outcome === 'again') {
      outcome = await new Promise<GantryError | 'again' | undefined>((resolve) => {
        if (step((error) => resolve(error ?? 'again'))) resolve(undefined);
      });
    }
    return outcome;
  };
  const all = { all: true, codes: new Set<number>() };
  const failed = await repeat((ready) =>
    store.select({ topic: 'T', queueId: 0, offset, maxMessages: 32, maxBytes: 1 << 20, filter: all }, result, ready),
  );
  if (failed !== undefined) return failed.code;
  assert.equal(result.status, GetMessageStatus.FOUND);
  const bytes = new Uint8Array(result.totalBytes);
  const error = await repeat((ready) => store.copyRecords(result, bytes, 0, ready));
  if (error !== undefined) return `${error.code} after ${result.copied}`;
  const messages = decodeMessages(bytes.subarray(0, result.totalBytes));
  assert.equal(messages.length, result.count);
  return messages.map((message) => Buffer.from(message.body).toString());
}

test('of a file that was cut, what lies before the cut is read as ever', async () => {
  const { fs, store, at } = await open();
  fs.open(FILE, 'write').truncateSync(at[10]! + 50);
  assert.equal(await pull(store, 0), 'IO after 10');
  assert.ok(await store.recordAt(at[5]!));
  await assert.rejects(store.recordAt(at[10]!), /it was cut/);
  await assert.rejects(store.recordAt(at[15]!), /it was cut/);
  assert.ok(await store.recordAt(at[9]!), 'a failed read leaves the others alone');
});

test('a record whose head is damaged is left out of answers, and said once', async () => {
  for (const [byte, value] of [
    [2, 0x7f],
    [4, 0],
    [35, 0xff],
  ] as const) {
    const { fs, store, logger, at } = await open();
    const log = fs.open(FILE, 'write');
    for (const index of [0, 5]) log.writeSync(Uint8Array.of(value), 0, 1, at[index]! + byte);
    const expected = Array.from({ length: COUNT }, (_, i) => `m${i}`).filter((_, i) => i !== 0 && i !== 5);
    assert.deepEqual(await pull(store, 0), expected);
    assert.deepEqual(await pull(store, 5), expected.slice(4));
    assert.equal(await store.recordAt(at[5]!), undefined);
    assert.equal(
      logger.texts('warn').filter((text) => /damaged .* cannot be read/.test(text)).length,
      2,
      'once for each',
    );
  }
});

// The bodies' sums are not taken again of what this life appended and RocketMQ takes for being in memory; of all else they are.
const BODY_BYTES = 64 * 1024;
const LONG_COUNT = 180;

/** The messages from 2 and from 5 on that a store of one life hands out, 2 with a damaged body and 5 with a damaged head. */
async function damagedInOneLife(memoryBytes: number, then?: 'reopen' | 'fail a sync'): Promise<string[][]> {
  const fs = new MemoryFileSystem();
  const config = {
    storePathRootDir: '/store',
    mappedFileSizeCommitLog: 32 * 1024 * 1024,
    flushDiskType: 'SYNC_FLUSH' as const,
    maxHashSlotNum: 16,
    maxIndexNum: 64,
  };
  let store = await MessageStore.open(config, { fs, memoryBytes });
  const at: number[] = [];
  for (let i = 0; i < LONG_COUNT; i++) {
    // Longer than the log's tail in memory, together.
    at.push(put(store, Buffer.alloc(BODY_BYTES).fill(`m${i};`, 0, 16)));
    while (store.maxOffsetInQueue('T', 0) <= i) await turn();
  }
  if (then === 'reopen') {
    await store.close();
    store = await MessageStore.open(config, { fs, memoryBytes });
  } else if (then === 'fail a sync') {
    fs.fail({ operation: 'sync', path: /commitlog/ });
    const last = put(store, Buffer.from('the last'));
    const status = await new Promise<number>((resolve) => store.whenDurable(last + 1, true, resolve));
    assert.notEqual(status, PutMessageStatus.PUT_OK);
  }
  const log = fs.open(FILE, 'write');
  log.writeSync(Uint8Array.of(0x7f), 0, 1, at[2]! + 88 + BODY_BYTES / 2);
  log.writeSync(Uint8Array.of(0xff), 0, 1, at[5]! + 35);
  const names: string[][] = [];
  for (const offset of [2, 5]) {
    const bodies = await pull(store, offset);
    assert.ok(Array.isArray(bodies));
    names.push(bodies.map((body) => body.slice(0, body.indexOf(';'))));
  }
  await store.close();
  return names;
}

test('a record of this life that counts as in memory is looked at, but not summed up again', async () => {
  const [body, head] = await damagedInOneLife(1 << 30);
  assert.equal(body![0], 'm2');
  assert.equal(head![0], 'm6', 'its head tells');
});

test('a record that counts as on disk is summed up at each read, though this life wrote it', async () => {
  const [body, head] = await damagedInOneLife(1 << 20);
  assert.ok(!body!.includes('m2'));
  assert.ok(!head!.includes('m5'));
});

test('a record of an earlier life is summed up at each read, however new it is', async () => {
  const [body, head] = await damagedInOneLife(1 << 30, 'reopen');
  assert.equal(body![0], 'm3');
  assert.equal(head![0], 'm6');
});

test('once a sync has failed every record is summed up: the system may have dropped its pages', async () => {
  const [body, head] = await damagedInOneLife(1 << 30, 'fail a sync');
  assert.equal(body![0], 'm3');
  assert.equal(head![0], 'm6');
});
