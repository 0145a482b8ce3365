// A small store with a compaction topic, on a disk in memory.

import assert from 'node:assert/strict';
import { CollectingLogger, FakeClock, GantryError, SeededRandom, viewOf } from '../../common/index.ts';
import { type FileSystem, MemoryFileSystem } from '../../io/index.ts';
import { parsePropertyBytes, RecordView, readRecord, Verify } from '../../message/index.ts';
import { MessageStore } from '../message-store.ts';
import { PutMessageStatus, PutResult } from '../put/index.ts';
import { putRequest } from '../put/put-request.test.support.ts';
import { GetResult, getStatusName } from '../read/get.ts';
import type { MessageStoreConfig } from '../store-config.ts';

export const ROOT = '/s';
export const TOPIC = 'K';
/** Records of one file pair: the queue file has room for one more unit. */
export const FILE_RECORDS = 9;

/** A record that a pull brought. */
export interface Pulled {
  readonly offset: number;
  readonly key: string;
  readonly body: string;
}

export class CompactionBench {
  readonly fs: MemoryFileSystem;
  clock: FakeClock;
  readonly logger: CollectingLogger = new CollectingLogger();
  store!: MessageStore;
  readonly config: Partial<MessageStoreConfig>;
  /** Whether the topic is one of compaction now. */
  isCompacted = true;
  readonly #random: SeededRandom;
  #life = 0;

  constructor(config: Partial<MessageStoreConfig> = {}, seed = 1) {
    this.clock = new FakeClock();
    const now = (): number => this.clock.now();
    const clock = { ...this.clock, now, soon: (fn: () => void) => void setImmediate(fn) } as unknown as FakeClock;
    this.fs = new MemoryFileSystem({ directories: [ROOT], clock });
    this.config = config;
    this.#random = new SeededRandom(seed);
  }

  /** Another process on the same disk: what is left of the one before has no time and no disk any more. */
  anew(): void {
    this.clock = new FakeClock(this.clock.now());
    this.#life++;
  }

  /** The disk, as long as this life goes on. */
  #disk(): FileSystem {
    const life = this.#life;
    return new Proxy(this.fs as FileSystem, {
      get: (fs, name) => {
        const value = Reflect.get(fs, name, fs) as unknown;
        if (typeof value !== 'function') return value;
        return (...args: unknown[]) => {
          if (life !== this.#life) throw new GantryError('IO', 'the process is gone');
          return Reflect.apply(value, fs, args) as unknown;
        };
      },
    });
  }

  async open(config: Partial<MessageStoreConfig> = {}): Promise<MessageStore> {
    const { clock, logger } = this;
    const fs = this.#disk();
    this.store = await MessageStore.open(
      {
        storePathRootDir: ROOT,
        mappedFileSizeCommitLog: 16 * 1024,
        mappedFileSizeConsumeQueue: 2000,
        maxHashSlotNum: 16,
        maxIndexNum: 4000,
        compactionCqMappedFileSize: 460,
        compactionMappedFileSize: 4600,
        ...this.config,
        ...config,
      },
      {
        fs,
        clock,
        logger,
        memoryBytes: 1 << 30,
        random: this.#random,
        isCompactionTopic: (topic) => this.isCompacted && topic === TOPIC,
      },
    );
    return this.store;
  }

  tryPut(key: string, body: string, topic: string = TOPIC): PutResult {
    const request = putRequest(topic, body);
    const properties = key === '' ? 'TAGS\u0001t\u0002' : `KEYS\u0001${key}\u0002TAGS\u0001t\u0002`;
    request.properties = Buffer.from(properties);
    request.propertiesEnd = request.properties.length;
    const result = new PutResult();
    this.store.put(request, result);
    return result;
  }

  /** As `tryPut`, and waits until it is written and dispatched. */
  async put(key: string, body: string, topic: string = TOPIC): Promise<PutResult> {
    const result = this.tryPut(key, body, topic);
    assert.equal(result.status, PutMessageStatus.PUT_OK, result.reason);
    await this.written(result);
    return result;
  }

  written({ wroteOffset, wroteBytes }: PutResult): Promise<void> {
    return new Promise((resolve, reject) =>
      this.store.whenDurable(wroteOffset + wroteBytes, true, (status, reason) =>
        status === PutMessageStatus.PUT_OK ? resolve() : reject(new Error(reason)),
      ),
    );
  }

  /** One pull: its status, where the next one begins, and what it brought. */
  async pull(offset: number, maxMessages = 32): Promise<{ status: string; next: number; records: Pulled[] }> {
    const result = new GetResult();
    const request = { topic: TOPIC, queueId: 0, offset, maxMessages, maxBytes: 1 << 20, filter: MATCH_ALL };
    for (;;) {
      try {
        await repeated((ready) => this.store.select(request, result, ready));
        const bytes = new Uint8Array(result.totalBytes);
        if (result.count > 0) await repeated((ready) => this.store.copyRecords(result, bytes, 0, ready));
        const { status, nextBeginOffset, totalBytes } = result;
        return {
          status: getStatusName(status),
          next: nextBeginOffset,
          records: recordsIn(bytes.subarray(0, totalBytes)),
        };
      } catch (error) {
        if (!(error instanceof Error && 'code' in error && error.code === 'REMOVED')) throw error;
      }
    }
  }

  /** Everything that pulls bring from `offset` on. */
  async drain(offset = 0): Promise<Pulled[]> {
    const all: Pulled[] = [];
    for (let next = offset; ; ) {
      const pulled = await this.pull(next);
      if (pulled.status !== 'FOUND' && pulled.status !== 'MESSAGE_WAS_REMOVING') return all;
      assert.ok(pulled.next > next);
      all.push(...pulled.records);
      next = pulled.next;
    }
  }

  /** Waits while time goes on: what a fault holds up is tried again. */
  async settle<T>(promise: Promise<T>): Promise<T> {
    let settled = false;
    const end = promise.finally(() => {
      settled = true;
    });
    end.catch(() => {});
    while (!settled) {
      await new Promise((resolve) => setImmediate(resolve));
      if (!settled) this.clock.advance(100);
    }
    return await end;
  }
}

const MATCH_ALL = { all: true, codes: new Set<number>() };

async function repeated(attempt: (ready: (error?: Error) => void) => boolean): Promise<void> {
  for (;;) {
    const done = await new Promise<boolean>((resolve, reject) => {
      if (attempt((error) => (error === undefined ? resolve(false) : reject(error)))) resolve(true);
    });
    if (done) return;
  }
}

function recordsIn(bytes: Uint8Array): Pulled[] {
  const records: Pulled[] = [];
  const record = new RecordView();
  for (let at = 0; at < bytes.length; at += record.totalSize) {
    readRecord(bytes, viewOf(bytes), at, bytes.length, Verify.BODY_CRC, record);
    const properties = parsePropertyBytes(bytes, record.propertiesStart, record.propertiesEnd);
    const body = Buffer.from(bytes.subarray(record.bodyStart, record.bodyEnd)).toString();
    records.push({ offset: record.queueOffset, key: properties.get('KEYS') ?? '', body });
  }
  return records;
}
