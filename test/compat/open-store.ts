// Opens a golden store in memory with the settings that its broker had.

import assert from 'node:assert/strict';
import { CollectingLogger, FakeClock } from '../../src/common/index.ts';
import { MemoryFileSystem } from '../../src/io/memory-file-system.ts';
import { hostField } from '../../src/message/index.ts';
import {
  type FilterBits,
  GetResult,
  getStatusName,
  MessageStore,
  type MessageStoreConfig,
  PutMessageStatus,
  PutRequest,
  PutResult,
} from '../../src/store/index.ts';
import { IndexLayout, IndexService, type IndexType } from '../../src/store/index-file/index.ts';
import { type GoldenManifest, type GoldenQueue, type GoldenRead, goldenFiles, packed, unpack } from './golden.ts';

export const ROOT = '/golden/store';
/** Later than every record. */
const NOW = 1_796_500_000_000;

export interface Opened {
  fs: MemoryFileSystem;
  store: MessageStore;
  logger: CollectingLogger;
}

/** The settings that a manifest's broker ran with, as far as the store reads them. */
export function storeConfig(conf: Readonly<Record<string, string>>): Partial<MessageStoreConfig> {
  return {
    mappedFileSizeCommitLog: Number(conf['mappedFileSizeCommitLog']),
    mappedFileSizeConsumeQueue: Number(conf['mappedFileSizeConsumeQueue']),
    mappedFileSizeConsumeQueueExt: Number(conf['mappedFileSizeConsumeQueueExt']),
    mapperFileSizeBatchConsumeQueue: Number(conf['mapperFileSizeBatchConsumeQueue']),
    enableConsumeQueueExt: conf['enableConsumeQueueExt'] === 'true',
    enableLmq: conf['enableLmq'] === 'true',
    enableMultiDispatch: conf['enableMultiDispatch'] === 'true',
    maxHashSlotNum: Number(conf['maxHashSlotNum']),
    maxIndexNum: Number(conf['maxIndexNum']),
    enabledAppendPropCRC: conf['enabledAppendPropCRC'] === 'true',
    forceVerifyPropCRC: conf['forceVerifyPropCRC'] === 'true',
    writeWithoutMmap: conf['writeWithoutMmap'] === 'true',
    transientStorePoolEnable: conf['transientStorePoolEnable'] === 'true',
    warmMapedFileEnable: conf['warmMapedFileEnable'] === 'true',
    compactionMappedFileSize: Number(conf['compactionMappedFileSize'] ?? 104_857_600),
    compactionCqMappedFileSize: Number(conf['compactionCqMappedFileSize'] ?? 10_485_760),
    gantrySegments: conf['gantrySegments'] === 'mapped' ? 'mapped' : 'auto',
  };
}

/** A disk with a golden store on it, all of it durable. */
export function goldenDisk(archive: string): MemoryFileSystem {
  const fs = new MemoryFileSystem();
  unpack(fs, ROOT, goldenFiles(archive));
  fs.settle();
  return fs;
}

export async function openStore(
  fs: MemoryFileSystem,
  conf: Readonly<Record<string, string>>,
  settings: Partial<MessageStoreConfig> = {},
  filterBits: FilterBits = () => undefined,
): Promise<Opened> {
  const logger = new CollectingLogger();
  const store = await MessageStore.open(
    { storePathRootDir: ROOT, ...storeConfig(conf), ...settings },
    {
      fs,
      clock: new FakeClock(NOW),
      logger,
      memoryBytes: 16 * 1024 ** 3,
      processId: 4711,
      filterBits,
      isCompactionTopic: (topic) => topic === 'GoldenCompact',
    },
  );
  return { fs, store, logger };
}

/** The index of a store that is closed. */
export function openIndex(fs: MemoryFileSystem, conf: Readonly<Record<string, string>>): IndexService {
  return IndexService.open({
    fs,
    clock: new FakeClock(NOW),
    logger: new CollectingLogger(),
    path: `${ROOT}/index`,
    layout: new IndexLayout(Number(conf['maxHashSlotNum']), Number(conf['maxIndexNum'])),
    lastExitClean: true,
    indexMsgTimestamp: 0,
  });
}

export async function candidates(
  index: IndexService,
  topic: string,
  key: string,
  begin: number,
  end: number,
  type: IndexType,
): Promise<number[]> {
  const offsets: number[] = [];
  for await (const unit of index.candidates(topic, key, begin, end, type)) offsets.push(unit.physicalOffset);
  return offsets;
}

/** One pull as a manifest's row; bytes that are not in memory are waited for. */
export async function read(
  store: MessageStore,
  golden: Pick<GoldenRead, 'topic' | 'queueId' | 'offset' | 'maxMsgs'>,
): Promise<GoldenRead> {
  const { topic, queueId, offset, maxMsgs } = golden;
  const result = new GetResult();
  const all = { all: true, codes: new Set<number>() };
  for (;;) {
    const done = await new Promise<boolean>((resolve, reject) => {
      const ready = (error?: Error): void => (error === undefined ? resolve(false) : reject(error));
      if (
        store.select(
          { topic, queueId, offset, maxMessages: maxMsgs, maxBytes: 128 * 1024 * 1024, filter: all },
          result,
          ready,
        )
      )
        resolve(true);
    });
    if (done) break;
  }
  return {
    topic,
    queueId,
    offset,
    maxMsgs,
    status: getStatusName(result.status),
    nextBeginOffset: result.nextBeginOffset,
    minOffset: result.minOffset,
    maxOffset: result.maxOffset,
    messages: result.count + result.batched,
    bytes: result.totalBytes,
  };
}

/** An i64 as a number, as text beyond 2^53. */
function i64(buffer: Buffer, at: number): number | string {
  const value = buffer.readBigInt64BE(at);
  const safe = value >= BigInt(Number.MIN_SAFE_INTEGER) && value <= BigInt(Number.MAX_SAFE_INTEGER);
  return safe ? Number(value) : String(value);
}

/** One file behind the other, from address 0 on. */
function space(fs: MemoryFileSystem, folder: string): Buffer {
  const files = packed(fs, ROOT, folder);
  const parts: Buffer[] = [];
  let end = 0;
  for (const [path, bytes] of files) {
    const base = Number(path.slice(path.lastIndexOf('/') + 1));
    parts.push(Buffer.alloc(base - end), Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length));
    end = base + bytes.length;
  }
  return Buffer.concat(parts);
}

/**
 * The units of a queue out of its files, as a manifest has them: [queueOffset, physicalOffset, size, tagsCode], tagsCode as text beyond 2^53.
 * One with an ext unit has the ext unit's tagsCode, and the ext unit as Java's text behind it.
 */
export function unitsInFiles(
  fs: MemoryFileSystem,
  queue: Pick<GoldenQueue, 'topic' | 'queueId'>,
  from: number,
  to: number,
): Array<Array<number | string>> {
  const buffer = space(fs, `consumequeue/${queue.topic}/${queue.queueId}`);
  const ext = space(fs, `consumequeue_ext/${queue.topic}/${queue.queueId}`);
  const units: Array<Array<number | string>> = [];
  for (let ordinal = from; ordinal < to && (ordinal + 1) * 20 <= buffer.length; ordinal++) {
    const at = ordinal * 20;
    const unit = [ordinal, Number(buffer.readBigInt64BE(at)), buffer.readInt32BE(at + 8)];
    const tagsCode = buffer.readBigInt64BE(at + 12);
    if (tagsCode >= -2147483648n) {
      units.push([...unit, i64(buffer, at + 12)]);
      continue;
    }
    const place = Number(BigInt.asUintN(63, tagsCode));
    const size = ext.readInt16BE(place);
    const bits = ext.readInt16BE(place + 18);
    const map =
      bits === 0
        ? 'null'
        : `[${[...ext.subarray(place + 20, place + 20 + bits)].map((b) => (b << 24) >> 24).join(', ')}]`;
    const tag = i64(ext, place + 2);
    units.push([
      ...unit,
      tag,
      `CqExtUnit{size=${size}, tagsCode=${tag}, msgStoreTime=${i64(ext, place + 10)}, bitMapSize=${bits}, filterBitMap=${map}}`,
    ]);
  }
  return units;
}

/** The units of a batch queue out of its files: [base, physicalOffset, size, tagsCode, count, compacted]. */
export function batchUnitsInFiles(
  fs: MemoryFileSystem,
  queue: Pick<GoldenQueue, 'topic' | 'queueId'>,
): Array<Array<number | string>> {
  const buffer = space(fs, `batchconsumequeue/${queue.topic}/${queue.queueId}`);
  const units: Array<Array<number | string>> = [];
  for (let at = 0; at + 46 <= buffer.length && buffer.readInt32BE(at + 8) > 0; at += 46) {
    units.push([
      Number(buffer.readBigInt64BE(at + 28)),
      Number(buffer.readBigInt64BE(at)),
      buffer.readInt32BE(at + 8),
      i64(buffer, at + 12),
      buffer.readInt16BE(at + 36),
      buffer.readInt32BE(at + 38),
    ]);
  }
  return units;
}

/** Index files by number instead of name. */
export function withoutIndexNames(files: ReadonlyMap<string, Uint8Array>): Map<string, Uint8Array> {
  const renamed = new Map<string, Uint8Array>();
  let n = 0;
  for (const [path, bytes] of [...files].sort(([a], [b]) => (a < b ? -1 : 1))) {
    renamed.set(/^index\/\d{17}$/.test(path) ? `index/#${n++}` : path, bytes);
  }
  return renamed;
}

/** The files of a store below some of its folders. */
export function filesBelow(files: ReadonlyMap<string, Uint8Array>, ...folders: string[]): Map<string, Uint8Array> {
  return new Map(
    [...files].filter(([path]) => !path.endsWith('/') && folders.some((folder) => path.startsWith(`${folder}/`))),
  );
}

/** Messages of a manifest that have a key, newest first. */
export function messagesWithKey(manifest: GoldenManifest, topic: string, key: string, type: IndexType): number[] {
  return manifest.messages
    .filter((message) => {
      if (message.topic !== topic) return false;
      if (type === 'T') return message.tags === key;
      return message.uniqKey === key || (message.keys ?? '').split(' ').includes(key);
    })
    .map((message) => message.physicalOffset)
    .reverse();
}

/** Puts a message with one key, and a tag if there is one; its body names the key. */
export function append(
  store: MessageStore,
  topic: string,
  queueId: number,
  key: string,
  tag = '',
  bodyBytes = 0,
): PutResult {
  const request = new PutRequest();
  request.topic = topic;
  request.topicBytes = Buffer.from(topic);
  request.queueId = queueId;
  request.bornTimestamp = 1_796_400_000_000;
  request.bornHost = hostField('127.0.0.1', 1234);
  request.storeHost = hostField('127.0.0.1', 10_911);
  request.body = Buffer.from(`body of ${key}`.padEnd(bodyBytes));
  request.bodyEnd = request.body.length;
  request.properties = Buffer.from(`KEYS\u0001${key}\u0002${tag === '' ? '' : `TAGS\u0001${tag}\u0002`}`);
  request.propertiesEnd = request.properties.length;
  const result = new PutResult();
  store.put(request, result);
  assert.equal(result.status, PutMessageStatus.PUT_OK, result.reason);
  return result;
}

/** Resolves when everything below `offset` is written. */
export function durable(store: MessageStore, offset: number): Promise<void> {
  return new Promise((resolve, reject) =>
    store.whenDurable(offset, true, (status, reason) =>
      status === PutMessageStatus.PUT_OK ? resolve() : reject(new Error(reason)),
    ),
  );
}
