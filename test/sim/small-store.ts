// A store with small files on a simulated disk, for tests that arrange one state and look at what becomes of it: send, stop, kill,
// cut the power, damage a file, start again.

import assert from 'node:assert/strict';
import { CollectingLogger, SeededRandom } from '../../src/common/index.ts';
import type { MemoryFileSystem } from '../../src/io/index.ts';
import { readWhole } from '../../src/io/index.ts';
import { encodeBatch, hostField } from '../../src/message/index.ts';
import {
  type MessageStore,
  type MessageStoreConfig,
  PutMessageStatus,
  PutRequest,
  PutResult,
} from '../../src/store/index.ts';
import { dispatched, drain, openStore, ROOT, smallConfig } from './engine.ts';
import { type LogContent, type LogRecord, readLog } from './store-files.ts';
import { World } from './world.ts';

export const LOG: string = `${ROOT}/commitlog`;
const HOST = hostField('127.0.0.1', 10911);

export interface Sending {
  topic?: string;
  queueId?: number;
  body?: string | Uint8Array;
  keys?: string;
  tags?: string;
  uniqueKey?: string;
  wait?: boolean;
}

export class SmallStore {
  readonly world: World;
  readonly fs: MemoryFileSystem;
  /** What the life that began last has said. */
  log: CollectingLogger = new CollectingLogger();
  settings: Partial<MessageStoreConfig>;
  #store: MessageStore | undefined;

  private constructor(settings: Partial<MessageStoreConfig>, seed: number) {
    this.world = new World(seed);
    this.fs = this.world.fs;
    this.settings = settings;
  }

  /** A new, empty, running store. Default SYNC_FLUSH. */
  static async create(settings: Partial<MessageStoreConfig> = {}, seed = 1): Promise<SmallStore> {
    const small = new SmallStore({ flushDiskType: 'SYNC_FLUSH', ...settings }, seed);
    await small.start();
    return small;
  }

  get store(): MessageStore {
    assert.ok(this.#store !== undefined, 'the store runs');
    return this.#store;
  }

  /** Opens the store and waits for dispatch. */
  async start(settings: Partial<MessageStoreConfig> = {}): Promise<void> {
    this.world.newLife();
    this.log = new CollectingLogger();
    this.#store = await openStore(this.world, smallConfig({ ...this.settings, ...settings }), { logger: this.log });
    await dispatched(this.world, this.#store);
  }

  async stop(): Promise<void> {
    await this.world.settle(this.store.close(), 'the store closes');
    this.#store = undefined;
  }

  /** Ends the process; the disk keeps what was written. */
  kill(): void {
    this.fs.kill(new SeededRandom(1));
    this.#store = undefined;
  }

  /** Ends the machine; `seed` decides what of the unsynced is kept, without it nothing is. */
  powerCut(seed?: number): void {
    this.fs.powerCut(seed === undefined ? { int: () => 0, fraction: () => 0 } : new SeededRandom(seed));
    this.#store = undefined;
  }

  /** Hands one message to the store and answers what it said at once. */
  put(sending: Sending = {}): PutResult {
    const { topic = 'T', queueId = 0, body = 'body', keys = '', tags = '', uniqueKey = '', wait = true } = sending;
    let properties = uniqueKey === '' ? '' : `UNIQ_KEY\u0001${uniqueKey}\u0002`;
    if (keys !== '') properties += `KEYS\u0001${keys}\u0002`;
    if (tags !== '') properties += `TAGS\u0001${tags}\u0002`;
    const request = this.request(topic, queueId, typeof body === 'string' ? Buffer.from(body) : body);
    request.properties = Buffer.from(properties);
    request.propertiesEnd = request.properties.length;
    request.waitStoreMsgOK = wait;
    const result = new PutResult();
    this.store.put(request, result);
    return result;
  }

  /** Hands a batch to the store. */
  putBatch(members: ReadonlyArray<{ body: string; properties: string }>, topic = 'T', queueId = 0): PutResult {
    const request = this.request(
      topic,
      queueId,
      encodeBatch(members.map((m) => ({ flag: 0, body: Buffer.from(m.body), properties: Buffer.from(m.properties) }))),
    );
    request.batch = true;
    const result = new PutResult();
    this.store.put(request, result);
    return result;
  }

  request(topic: string, queueId: number, body: Uint8Array): PutRequest {
    const request = new PutRequest();
    request.topic = topic;
    request.topicBytes = Buffer.from(topic);
    request.queueId = queueId;
    request.bornTimestamp = this.world.clock.now();
    request.bornHost = HOST;
    request.storeHost = HOST;
    request.body = body;
    request.bodyEnd = body.length;
    return request;
  }

  /** Sends one message, waits for its acknowledgement and its dispatch. */
  async send(sending: Sending = {}): Promise<PutResult> {
    const result = this.put(sending);
    assert.equal(result.status, PutMessageStatus.PUT_OK, result.reason);
    await this.acknowledged(result);
    await dispatched(this.world, this.store);
    return result;
  }

  async acknowledged(result: PutResult): Promise<void> {
    let status = -1;
    this.store.whenDurable(result.wroteOffset + result.wroteBytes, true, (answer) => {
      status = answer;
    });
    await this.world.until(() => status >= 0, 'a put is answered');
    assert.equal(status, PutMessageStatus.PUT_OK, 'a put is acknowledged');
  }

  async sendMany(count: number, sending: (n: number) => Sending = () => ({})): Promise<PutResult[]> {
    const results: PutResult[] = [];
    for (let n = 0; n < count; n++) {
      const result = this.put({ body: `message ${n}`, ...sending(n) });
      assert.equal(result.status, PutMessageStatus.PUT_OK, result.reason);
      results.push(result);
    }
    if (results.length > 0) await this.acknowledged(results.at(-1)!);
    await dispatched(this.world, this.store);
    return results;
  }

  async drain(topic = 'T', queueId = 0): Promise<LogRecord[]> {
    return await drain(this.world, this.store, topic, queueId);
  }

  /** Asserts that the queue holds offsets `from` to `to - 1`, each once, in order; answers its records. */
  async expectQueue(from: number, to: number, topic = 'T', queueId = 0): Promise<LogRecord[]> {
    assert.equal(this.store.minOffsetInQueue(topic, queueId), from, `minimum of ${topic}/${queueId}`);
    assert.equal(this.store.maxOffsetInQueue(topic, queueId), to, `maximum of ${topic}/${queueId}`);
    const records = await this.drain(topic, queueId);
    assert.deepEqual(
      records.map((record) => record.queueOffset),
      Array.from({ length: to - from }, (_, i) => from + i),
      `queue offsets in ${topic}/${queueId}`,
    );
    return records;
  }

  // --- The disk, while no process runs

  logContent(): LogContent {
    return readLog(this.fs, LOG);
  }

  bytesOf(path: string): Buffer {
    const bytes = readWhole(this.fs, path);
    assert.ok(bytes !== undefined, `${path} exists`);
    return Buffer.from(bytes);
  }

  /** Overwrites bytes of a file (made if absent, with zeros up to there), durably. */
  overwrite(path: string, position: number, bytes: Uint8Array): void {
    const file = this.fs.open(path, 'create');
    file.writeSync(bytes, 0, bytes.length, position);
    file.syncSync();
    file.close();
    this.fs.settle();
  }

  /** Sets a file's length, durably; the file is made if absent. */
  resize(path: string, length: number): void {
    const file = this.fs.open(path, 'create');
    file.truncateSync(length);
    file.close();
    this.fs.settle();
  }

  /** Overwrites the log from a physical offset to the file's end with zeros and removes later files. */
  zeroLogFrom(offset: number, fileBytes = 16_384): void {
    for (const name of this.fs.list(LOG)) {
      const base = Number(name);
      if (base >= offset && base > 0) this.fs.remove(`${LOG}/${name}`);
      else if (base + fileBytes > offset) {
        const from = Math.max(0, offset - base);
        this.overwrite(`${LOG}/${name}`, from, new Uint8Array(fileBytes - from));
      }
    }
    this.fs.settle();
  }

  /** The marker of a process that did not stop in order. */
  leaveAbort(): void {
    this.overwrite(`${ROOT}/abort`, 0, Buffer.from('1'));
  }

  /** The derived files and the checkpoint as they are now, to be put back later by `restoreDerived`. */
  saveDerived(): MemoryFileSystem {
    return this.fs.clone();
  }

  /** Puts back derived files saved earlier: a process whose dispatcher had come no further. */
  restoreDerived(saved: MemoryFileSystem): void {
    for (const folder of ['consumequeue', 'index']) {
      this.fs.removeTree(`${ROOT}/${folder}`);
      copyTree(saved, this.fs, `${ROOT}/${folder}`);
    }
    this.fs.remove(`${ROOT}/checkpoint`);
    if (saved.stat(`${ROOT}/checkpoint`) !== undefined) copyFile(saved, this.fs, `${ROOT}/checkpoint`);
    this.fs.settle();
  }

  /** Path and content of every file, for tests in which nothing may change. */
  fingerprint(folder: string = ROOT): Map<string, string> {
    const files = new Map<string, string>();
    const walk = (path: string): void => {
      for (const name of this.fs.list(path)) {
        const inner = `${path}/${name}`;
        if (this.fs.stat(inner)!.isDirectory) walk(inner);
        else files.set(inner, this.bytesOf(inner).toString('latin1'));
      }
    };
    walk(folder);
    return files;
  }
}

function copyFile(source: MemoryFileSystem, target: MemoryFileSystem, path: string): void {
  const bytes = readWhole(source, path)!;
  const file = target.open(path, 'create');
  file.truncateSync(0);
  if (bytes.length > 0) file.writeSync(bytes, 0, bytes.length, 0);
  file.close();
}

function copyTree(source: MemoryFileSystem, target: MemoryFileSystem, path: string): void {
  if (source.stat(path) === undefined) return;
  target.makeDirectory(path);
  for (const name of source.list(path)) {
    const inner = `${path}/${name}`;
    if (source.stat(inner)!.isDirectory) copyTree(source, target, inner);
    else copyFile(source, target, inner);
  }
}
