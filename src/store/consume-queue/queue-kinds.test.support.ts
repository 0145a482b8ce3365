// A small store for the tests of queue kinds: plain, batch and light queues, on a disk in memory.

import assert from 'node:assert/strict';
import { CollectingLogger, FakeClock } from '../../common/index.ts';
import { MemoryFileSystem } from '../../io/index.ts';
import { encodeBatch, SysFlag } from '../../message/index.ts';
import { MessageStore } from '../message-store.ts';
import { PutMessageStatus, PutResult } from '../put/index.ts';
import { putRequest } from '../put/put-request.test.support.ts';
import { GetResult, getStatusName } from '../read/get.ts';
import type { MessageStoreConfig } from '../store-config.ts';

export const ROOT = '/s';

/** A disk, a clock and a log of warnings that outlive the store. */
export class Bench {
  readonly fs: MemoryFileSystem = new MemoryFileSystem({ directories: [ROOT] });
  readonly clock: FakeClock;
  readonly logger: CollectingLogger = new CollectingLogger();
  store!: MessageStore;
  readonly config: Partial<MessageStoreConfig>;
  readonly #batchTopics: readonly string[] | undefined;

  /** `batchTopics`: topics whose config says BatchCQ, all others having one that does not; undefined: no topic has a config. */
  constructor(now: number, config: Partial<MessageStoreConfig> = {}, batchTopics?: readonly string[]) {
    this.clock = new FakeClock(now);
    this.config = config;
    this.#batchTopics = batchTopics;
  }

  async open(): Promise<MessageStore> {
    this.store = await MessageStore.open(
      {
        storePathRootDir: ROOT,
        mappedFileSizeCommitLog: 16 * 1024,
        mappedFileSizeConsumeQueue: 1000,
        mappedFileSizeConsumeQueueExt: 1024,
        mapperFileSizeBatchConsumeQueue: 460,
        enableLmq: true,
        enableMultiDispatch: true,
        maxHashSlotNum: 16,
        maxIndexNum: 4000,
        ...this.config,
      },
      {
        fs: this.fs,
        clock: this.clock,
        logger: this.logger,
        memoryBytes: 1 << 30,
        isBatchTopic: (topic) => this.#batchTopics?.includes(topic),
      },
    );
    return this.store;
  }

  /** Puts a message with properties; answers what the store did. */
  tryPut(topic: string, properties: Record<string, string>, bodyBytes = 10, sysFlag = 0, body?: Uint8Array): PutResult {
    const request = putRequest(topic, body ?? new Uint8Array(bodyBytes));
    request.sysFlag = sysFlag;
    const pairs = Object.entries(properties).map(([name, value]) => `${name}\u0001${value}\u0002`);
    request.properties = Buffer.from(pairs.join(''));
    request.propertiesEnd = request.properties.length;
    const result = new PutResult();
    this.store.put(request, result);
    return result;
  }

  /** As `tryPut`, and waits until it is written and dispatched. */
  async put(topic: string, properties: Record<string, string> = {}, bodyBytes = 10, sysFlag = 0): Promise<PutResult> {
    const result = this.tryPut(topic, properties, bodyBytes, sysFlag);
    assert.equal(result.status, PutMessageStatus.PUT_OK, result.reason);
    await this.written(result);
    return result;
  }

  /** Puts one record that holds `count` messages. */
  tryPutInner(topic: string, count: number, bodyBytes = 10): PutResult {
    const member = { flag: 0, body: new Uint8Array(bodyBytes), properties: new Uint8Array(0) };
    const body = encodeBatch(Array.from({ length: count }, () => member));
    const flags = SysFlag.INNER_BATCH | SysFlag.NEED_UNWRAP;
    return this.tryPut(topic, { INNER_NUM: String(count) }, 0, flags, body);
  }

  /** As `tryPutInner`, and waits until it is written and dispatched. */
  async putInner(topic: string, count: number, bodyBytes = 10): Promise<PutResult> {
    const result = this.tryPutInner(topic, count, bodyBytes);
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

  /** One pull of everything: status, next offset, records and messages. */
  async read(
    topic: string,
    queueId: number,
    offset: number,
    maxMessages = 32,
  ): Promise<{ status: string; next: number; sizes: number[]; messages: number }> {
    const result = new GetResult();
    const all = { all: true, codes: new Set<number>() };
    for (;;) {
      const done = await new Promise<boolean>((resolve, reject) => {
        const ready = (error?: Error): void => (error === undefined ? resolve(false) : reject(error));
        if (this.store.select({ topic, queueId, offset, maxMessages, maxBytes: 1 << 20, filter: all }, result, ready))
          resolve(true);
      });
      if (done) break;
    }
    return {
      status: getStatusName(result.status),
      next: result.nextBeginOffset,
      sizes: [...result.sizes.subarray(0, result.count)],
      messages: result.count + result.batched,
    };
  }

  /** Removes the oldest files of the log while nothing runs. */
  dropLogFiles(count: number): void {
    for (const name of this.fs.list(`${ROOT}/commitlog`).sort().slice(0, count)) {
      this.fs.remove(`${ROOT}/commitlog/${name}`);
    }
  }
}
