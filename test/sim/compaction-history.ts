// Seeded histories of a compaction topic: sends, compactions, retention, deletion, and lives that end by a stop, a kill or a power cut, also in the
// middle of a start or of a replacement of files. After each start pulls bring the newest message of each key, nothing that was never sent, and
// nothing twice below where the queue is compacted to.

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { setImmediate as turn } from 'node:timers/promises';
import { GantryError, SeededRandom } from '../../src/common/index.ts';
import { type InjectedFault, readWhole } from '../../src/io/index.ts';
import { CompactionBench, type Pulled, TOPIC } from '../../src/store/compaction/compaction-bench.test.support.ts';
import { PutMessageStatus } from '../../src/store/index.ts';
import type { HistoryOptions } from './history-options.ts';

const HOUR_MS = 3_600_000;

class History {
  readonly #bench: CompactionBench;
  readonly #random: SeededRandom;
  readonly #faults: InjectedFault[] = [];
  readonly #sync: boolean;
  /** What was put, by queue offset. */
  #model: Array<{ key: string; body: string }> = [];
  /** So many of them are acknowledged as durable. */
  #acked = 0;
  #serial = 0;
  compactions = 0;
  files = 0;
  readonly #events = createHash('md5');
  #told = 0;

  constructor(seed: number) {
    this.#random = new SeededRandom(seed);
    this.#sync = this.#random.int(2) === 0;
    this.#bench = new CompactionBench(
      {
        flushDiskType: this.#sync ? 'SYNC_FLUSH' : 'ASYNC_FLUSH',
        // Else a record whose properties are torn would be one without a key.
        enabledAppendPropCRC: true,
        forceVerifyPropCRC: true,
        fileReservedTime: 1,
        // Else the hour that the machine's time zone makes of it.
        deleteWhen: '',
        deleteCommitLogFilesInterval: 0,
        maxOffsetMapSize: this.#random.int(3) === 0 ? 0 : 1 << 20,
      },
      seed,
    );
    this.#bench.fs.onOperation = (operation, path) => this.#note(`${operation} ${path}`);
  }

  /** Sum of what happened, with its time. */
  get digest(): string {
    return this.#events.copy().digest('hex');
  }

  #note(event: string): void {
    const { clock, logger } = this.#bench;
    const { lines } = logger;
    for (; this.#told < lines.length; this.#told++) this.#events.update(withoutTime(lines[this.#told]!.text));
    this.#events.update(withoutTime(`${clock.now()} ${event}\n`));
  }

  async run(): Promise<void> {
    const lives = 2 + this.#random.int(5);
    for (let life = 0; life < lives; life++) {
      await this.#start();
      const steps = 10 + this.#random.int(60);
      for (let i = 0; i < steps; i++) await this.#step();
      await this.#end();
    }
    await this.#start();
    await this.#check();
    await this.#bench.settle(this.#bench.store.close());
    this.#noteFiles('/s');
  }

  /** What is on the disk. */
  #noteFiles(path: string): void {
    const { fs } = this.#bench;
    for (const name of fs.list(path)) {
      const inner = `${path}/${name}`;
      this.#note(inner);
      if (fs.stat(inner)!.isDirectory) this.#noteFiles(inner);
      else if (name.startsWith('queue-bounds.json')) this.#events.update(boundsWithoutTime(readWhole(fs, inner)!));
      else this.#events.update(readWhole(fs, inner)!);
    }
  }

  async #start(): Promise<void> {
    const b = this.#bench;
    const random = this.#random;
    if (random.int(4) === 0) {
      b.fs.powerOffAfter(random.int(60));
      let over = false;
      b.anew();
      const opening = b.open().catch((error) => assert.ok(error instanceof GantryError, String(error)));
      void opening.finally(() => {
        over = true;
      });
      while (!over && !b.fs.isDown) await turn();
      b.fs.powerCut(random);
    }
    b.anew();
    await b.settle(b.open());
    const max = b.store.maxOffsetInQueue(TOPIC, 0);
    assert.ok(max >= this.#acked, `the queue ends at ${max}, ${this.#acked} were acknowledged`);
    this.#model.length = Math.min(this.#model.length, max);
    this.#acked = this.#model.length;
    await this.#check();
  }

  async #check(): Promise<void> {
    // What is dispatched now is there; more may be.
    const seen = this.#bench.store.maxOffsetInQueue(TOPIC, 0);
    let compactedTo: number;
    let found: Pulled[];
    let files: number | undefined;
    // A reader that goes on behind a compaction has seen what is gone now.
    do {
      files = this.#bench.store.compaction!.find(TOPIC, 0)?.reads.generation;
      compactedTo = this.#bench.store.compaction!.compactedTo(TOPIC, 0);
      found = await this.#bench.settle(this.#bench.drain());
    } while (this.#bench.store.compaction!.find(TOPIC, 0)?.reads.generation !== files);
    const byKey = new Map<string, Pulled[]>();
    let last = -1;
    for (const record of found) {
      assert.ok(record.offset > last, `message ${record.offset} behind ${last}`);
      last = record.offset;
      const sent = this.#model[record.offset];
      assert.deepEqual({ key: record.key, body: record.body }, sent, `message ${record.offset}`);
      byKey.set(record.key, [...(byKey.get(record.key) ?? []), record]);
    }
    const upTo = Math.max(seen, last + 1);
    const newest = new Map(this.#model.slice(0, upTo).map(({ key, body }, offset) => [key, { offset, body }]));
    for (const [key, { offset, body }] of newest) {
      if (key === '') continue;
      const records = byKey.get(key) ?? [];
      if (body === '' && records.length === 0) continue;
      assert.equal(records.at(-1)?.offset, offset, `the newest message of ${key}`);
      const old = records.filter((record) => record.offset <= compactedTo);
      assert.ok(old.length <= 1, `${key} has ${old.map((record) => record.offset)} below ${compactedTo}`);
    }
  }

  async #step(): Promise<void> {
    const b = this.#bench;
    const random = this.#random;
    b.clock.advance(random.int(200));
    this.#note('step');
    switch (random.int(20)) {
      case 0:
        return await b.settle(new Promise<void>((resolve) => b.store.flushDerived(() => resolve())));
      case 1:
      case 2: {
        const compacting = b.store.compaction!.compact(TOPIC, 0);
        if (random.int(3) === 0) return;
        if ((await b.settle(compacting)) !== undefined) this.compactions++;
        return;
      }
      case 3: {
        if (random.int(3) > 0) return;
        const operation = (['sync', 'write', 'rename', 'create', 'syncDirectory'] as const)[random.int(5)]!;
        const code = random.int(2) === 0 ? 'IO' : 'DISK_FULL';
        this.#faults.push(b.fs.fail({ operation, path: '/compaction', times: 1 + random.int(3), code }));
        return;
      }
      case 4:
        if (random.int(2) === 0) await this.#retain();
        return;
      case 5:
        for (const fault of this.#faults.splice(0)) fault.clear();
        // What a fault has held up is tried again; a sync that was under way may still fail.
        for (let tries = 0; tries < 5 && !(await b.settle(b.store.compaction!.flush())); tries++);
        return await this.#check();
      case 6:
        if (random.int(6) === 0) await this.#delete();
        return;
      default:
        return await this.#put();
    }
  }

  async #put(): Promise<void> {
    const b = this.#bench;
    const random = this.#random;
    if (random.int(5) === 0) {
      const other = b.tryPut('x', 'y'.repeat(random.int(900)), 'Other');
      assert.equal(other.status, PutMessageStatus.PUT_OK, other.reason);
      return;
    }
    const key = random.int(12) === 0 ? '' : `k${random.int(9)}`;
    const body = random.int(8) === 0 ? '' : `${this.#serial++} ${'z'.repeat(random.int(300))}`;
    const result = b.tryPut(key, body);
    assert.equal(result.status, PutMessageStatus.PUT_OK, result.reason);
    assert.equal(result.queueOffset, this.#model.length, 'the ordinal goes on');
    this.#model.push({ key, body });
    if (random.int(3) > 0) return;
    const count = this.#model.length;
    await b.settle(b.written(result));
    if (this.#sync) this.#acked = Math.max(this.#acked, count);
  }

  /** All files of the CommitLog but the last one go, as far as nothing needs them. */
  async #retain(): Promise<void> {
    const b = this.#bench;
    const before = b.store.watermarks.minimum;
    b.clock.advance(2 * HOUR_MS);
    b.store.retention.request();
    for (let i = 0; i < 10; i++) {
      await turn();
      b.clock.advance(500);
    }
    this.files += (b.store.watermarks.minimum - before) / (16 * 1024);
  }

  /** What the store said last, and where it is. */
  tell(trace: (line: string) => void): void {
    for (const { level, text } of this.#bench.logger.lines.slice(-40)) trace(`${level} ${text}`);
    const { store } = this.#bench;
    trace(
      `${JSON.stringify(store.watermarks)}, queue ends at ${store.maxOffsetInQueue(TOPIC, 0)} of ${this.#model.length}`,
    );
  }

  async #delete(): Promise<void> {
    const b = this.#bench;
    await b.settle(b.store.deleteTopics([TOPIC]));
    this.#model = [];
    this.#acked = 0;
  }

  async #end(): Promise<void> {
    const { fs, store } = this.#bench;
    const random = this.#random;
    const kind = random.int(4);
    if (kind === 3) {
      // In the middle of a compaction.
      fs.powerOffAfter(random.int(60));
      const compacting = store.compaction!.compact(TOPIC, 0);
      let over = false;
      void compacting
        .catch(() => {})
        .finally(() => {
          over = true;
        });
      while (!over && !fs.isDown) await turn();
    }
    for (const fault of this.#faults.splice(0)) fault.clear();
    if (kind === 0) await this.#bench.settle(store.close());
    else if (kind === 1) fs.kill(random);
    else fs.powerCut(random);
  }
}

/** An index file is named after the local time, which is the machine's. */
function withoutTime(text: string): string {
  return text.replace(/\b\d{17}\b/g, '');
}

/** The bounds name the newest index file, and the sum at their end is of that name, too. */
function boundsWithoutTime(bytes: Uint8Array): string {
  return withoutTime(
    Buffer.from(bytes)
      .toString()
      .replace(/,"crc32":\d+\}$/, '}'),
  );
}

/** Runs one history. @throws whatever was found wrong */
export async function runCompactionHistory(
  seed: number,
  options: Pick<HistoryOptions, 'trace'> = {},
): Promise<{ compactions: number; files: number; digest: string }> {
  const history = new History(seed);
  try {
    await history.run();
  } catch (error) {
    if (options.trace !== undefined) history.tell(options.trace);
    throw error;
  }
  const { compactions, files, digest } = history;
  return { compactions, files, digest };
}
