// The store under test, opened as the broker opens it, and small helpers to read through its door.

import { type Logger, silentLogger } from '../../src/common/index.ts';
import type { MemoryFileSystem } from '../../src/io/index.ts';
import {
  defaultStoreConfig,
  GetMessageStatus,
  GetResult,
  MessageStore,
  type MessageStoreConfig,
  type TagFilter,
} from '../../src/store/index.ts';
import { type LogRecord, parseRecord } from './store-files.ts';
import type { World } from './world.ts';

export const ROOT: string = '/store';
export const LOG_FILE_BYTES: number = 16 * 1024;
export const QUEUE_FILE_BYTES: number = 1000;
export const INDEX_SLOTS: number = 16;
export const INDEX_ENTRIES: number = 64;

const ALL: TagFilter = { all: true, codes: new Set() };

/** Files so small that a few hundred messages roll all of them. */
export function smallConfig(settings: Partial<MessageStoreConfig> = {}): MessageStoreConfig {
  return {
    ...defaultStoreConfig(ROOT),
    mappedFileSizeCommitLog: LOG_FILE_BYTES,
    mappedFileSizeConsumeQueue: QUEUE_FILE_BYTES,
    maxHashSlotNum: INDEX_SLOTS,
    maxIndexNum: INDEX_ENTRIES,
    gantryReadCacheBytes: 16 * 1024 * 1024,
    ...settings,
  };
}

/** Opens a store in `world`; completions and time move on until it is open or the power goes. */
export async function openStore(
  world: World,
  config: MessageStoreConfig,
  options: { fs?: MemoryFileSystem; logger?: Logger } = {},
): Promise<MessageStore> {
  const opening = MessageStore.open(config, {
    fs: options.fs ?? world.diskOfThisLife(),
    clock: world.clock,
    logger: options.logger ?? silentLogger,
    memoryBytes: 64 * 1024 * 1024,
    processId: 1,
  });
  return await world.settle(opening, 'the store opens');
}

/** Waits until all that may be dispatched is. */
export async function dispatched(world: World, store: MessageStore): Promise<void> {
  await world.until(
    () => store.watermarks.dispatched >= store.watermarks.confirmed,
    'dispatch reaches the confirm offset',
  );
}

export interface Pull {
  status: GetMessageStatus;
  nextBeginOffset: number;
  records: LogRecord[];
  /** The records as they lie in the log. */
  bytes: Buffer;
}

/** Repeats a read until it needs no bytes from the disk any more. */
async function whenReady(world: World, read: (ready: (error?: Error) => void) => boolean): Promise<void> {
  for (let tries = 0; tries < 1000; tries++) {
    let called = false;
    let failure: Error | undefined;
    const done = read((error) => {
      called = true;
      failure = error;
    });
    if (done) return;
    await world.until(() => called, 'a read becomes ready');
    if (failure !== undefined) throw failure;
  }
  throw new Error('a read was told a thousand times that it can be repeated, and never had its bytes');
}

/** One pull through select and copyRecords. */
export async function pull(
  world: World,
  store: MessageStore,
  topic: string,
  queueId: number,
  offset: number,
  options: { maxMessages?: number; maxBytes?: number; filter?: TagFilter } = {},
): Promise<Pull> {
  const result = new GetResult();
  const { maxMessages = 32, maxBytes = 1 << 20, filter = ALL } = options;
  await whenReady(world, (ready) =>
    store.select({ topic, queueId, offset, maxMessages, maxBytes, filter }, result, ready),
  );
  const bytes = Buffer.alloc(result.totalBytes);
  if (result.status === GetMessageStatus.FOUND) {
    await whenReady(world, (ready) => store.copyRecords(result, bytes, 0, ready));
  }
  const records: LogRecord[] = [];
  let at = 0;
  if (result.status === GetMessageStatus.FOUND) {
    for (let i = 0; i < result.count; i++) {
      const record = parseRecord(bytes, at, result.positions[i]!);
      if (typeof record === 'string') throw new Error(`record ${i} of a pull at ${offset} cannot be read: ${record}`);
      records.push(record);
      at += record.size;
    }
  }
  return { status: result.status, nextBeginOffset: result.nextBeginOffset, records, bytes };
}

/** The whole queue from `offset` (default its minimum) to its maximum. */
export async function drain(
  world: World,
  store: MessageStore,
  topic: string,
  queueId: number,
  from?: number,
): Promise<LogRecord[]> {
  const records: LogRecord[] = [];
  let offset = from ?? store.minOffsetInQueue(topic, queueId);
  while (offset < store.maxOffsetInQueue(topic, queueId)) {
    const got = await pull(world, store, topic, queueId, offset);
    records.push(...got.records);
    if (got.nextBeginOffset <= offset) {
      throw new Error(`a pull at ${offset} of ${topic}/${queueId} answers status ${got.status} and does not lead on`);
    }
    offset = got.nextBeginOffset;
  }
  return records;
}

/** The records that a key leads to. `type` K for keys, T for tags. */
export async function query(
  world: World,
  store: MessageStore,
  topic: string,
  key: string,
  type = 'K',
): Promise<LogRecord[]> {
  const found = await world.settle(
    store.queryMessage(topic, key, 64, 0, Number.MAX_SAFE_INTEGER, type),
    'a key query ends',
  );
  return found.records.map((bytes) => {
    const buffer = Buffer.from(bytes);
    const record = parseRecord(buffer, 0, Number(buffer.readBigInt64BE(28)));
    if (typeof record === 'string') throw new Error(`a record found by key ${key} cannot be read: ${record}`);
    return record;
  });
}
