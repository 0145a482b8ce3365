// Files that are cut or damaged while the store is open: what cannot be read is told to who asked for it, and to nobody else.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { CollectingLogger, type GantryError } from '../../common/index.ts';
import { MemoryFileSystem } from '../../io/index.ts';
import { decodeMessages, hostField } from '../../message/index.ts';
import { GetMessageStatus, GetResult, MessageStore, PutRequest, PutResult } from '../index.ts';

const HOST = hostField('127.0.0.1', 10_911);
const FILE = '/store/commitlog/00000000000000000000';
const COUNT = 20;

interface Rig {
  fs: MemoryFileSystem;
  store: MessageStore;
  logger: CollectingLogger;
  /** Physical offset of each message. */
  at: number[];
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
  for (let i = 0; i < COUNT; i++) {
    const put = new PutRequest();
    put.topic = 'T';
    put.topicBytes = Buffer.from('T');
    put.bornHost = HOST;
    put.storeHost = HOST;
    put.body = Buffer.from(`m${i}`);
    put.bodyEnd = put.body.length;
    const result = new PutResult();
    before.put(put, result);
    at.push(result.wroteOffset);
  }
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
