// One simulated history of a store: lives of the process one after the other, each with a random load, each ended by a cut, a
// kill or a clean stop at a random moment, also in the middle of a start. A model beside it knows what must be there.
//
// A history is a function of its seed and of nothing else; `node dist/test/sim/nightly.js --seed N` replays one.

import assert from 'node:assert/strict';
import { setImmediate as turn } from 'node:timers/promises';
import { GantryError, type Logger, type Random, SeededRandom } from '../../src/common/index.ts';
import { type Hold, readWhole, saveDurably } from '../../src/io/index.ts';
import {
  type MessageStore,
  type MessageStoreConfig,
  PutMessageStatus,
  PutResult,
  putStatusName,
} from '../../src/store/index.ts';
import { checkClosedFiles, checkKeys, checkMarks, checkRebuild, checkStarted } from './checks.ts';
import { LOG_FILE_BYTES, openStore, pull, ROOT, smallConfig } from './engine.ts';
import { type Draft, draft, QUEUES, requestOf } from './messages.ts';
import { type Entry, Model, sameMessage, TornTopic } from './model.ts';
import { PowerLost, World } from './world.ts';

export interface HistoryOptions {
  /** The disk reports syncs that it does not do: then acknowledged messages must be seen to go missing. */
  syncLies?: boolean;
  /** Default: the seed decides, three of four times for SYNC_FLUSH. */
  flushDiskType?: 'SYNC_FLUSH' | 'ASYNC_FLUSH';
  /** Topics are deleted now and then (the default). Seeds that were named before that keep their history without. */
  deletions?: boolean;
  /** Tells each event, to follow a failing seed. */
  trace?: (line: string) => void;
}

/** What a history went through. */
export interface HistoryReport {
  puts: number;
  acknowledged: number;
  cut: number;
  powerCuts: number;
  kills: number;
  cleanStops: number;
  /** Power cuts during a start. */
  cutStarts: number;
  /** Deletions that were answered with success. */
  deletions: number;
  /** 1 if it ended at a message that nobody was promised and that came back with a torn topic. */
  tornTopics: number;
}

const OFFSETS = `${ROOT}/config/consumerOffset.json`;

/** Refusals that a put may get while the disk is slow, full or failed; then nothing was appended. */
const REFUSALS: ReadonlySet<PutMessageStatus> = new Set<PutMessageStatus>([
  PutMessageStatus.OS_PAGE_CACHE_BUSY,
  PutMessageStatus.SERVICE_NOT_AVAILABLE,
  PutMessageStatus.CREATE_MAPPED_FILE_FAILED,
]);

class History {
  readonly report: HistoryReport = {
    puts: 0,
    acknowledged: 0,
    cut: 0,
    powerCuts: 0,
    kills: 0,
    cleanStops: 0,
    cutStarts: 0,
    deletions: 0,
    tornTopics: 0,
  };
  readonly #world: World;
  readonly #model = new Model(LOG_FILE_BYTES);
  readonly #syncFlush: boolean;
  /** Decides on deletions alone, so that all else stays as the seed has it. */
  readonly #deletions: Random | undefined;
  /** Decides on the settings of each start. */
  readonly #starts: Random;
  readonly #trace: (line: string) => void;
  readonly #result = new PutResult();
  readonly #logger: Logger;
  #store: MessageStore | undefined;
  #nextId = 1;
  /** The last life ended by a kill: the next start finds all that was written. A power cut ends that. */
  #killed = false;
  /** A sync has failed in this life: what the page cache holds is not what the disk holds, so only a power cut may follow. */
  #syncFailed = false;
  /** Consumer offsets: the state saved last, and the one whose save was under way. */
  #saved = '';
  #saving = '';
  #saves = 0;
  #hold: Hold | undefined;

  constructor(seed: number, options: HistoryOptions) {
    this.#world = new World(seed);
    this.#deletions = options.deletions === false ? undefined : new SeededRandom(~seed);
    this.#starts = new SeededRandom(seed ^ 0x2545f491);
    this.#world.fs.syncLies = options.syncLies ?? false;
    this.#world.fs.makeDirectory(`${ROOT}/config`);
    this.#world.fs.settle();
    const trace = options.trace ?? (() => {});
    this.#trace = trace;
    const tell = (text: string): void => trace(`  store: ${text}`);
    this.#logger = { debug: tell, info: tell, warn: tell, error: tell };
    const drawn = this.#world.random.int(4) > 0 ? 'SYNC_FLUSH' : 'ASYNC_FLUSH';
    this.#syncFlush = (options.flushDiskType ?? drawn) === 'SYNC_FLUSH';
  }

  async run(): Promise<HistoryReport> {
    const lives = 1 + this.#world.random.int(4);
    try {
      for (let life = 0; life < lives; life++) await this.#life();
      await this.#lastLife();
    } catch (error) {
      if (!(error instanceof TornTopic)) throw error;
      this.report.tornTopics++;
    }
    this.report.cut = this.#model.cut;
    return this.report;
  }

  /** One life of the process, to a violent or peaceful end. */
  async #life(): Promise<void> {
    const random = this.#world.random;
    const fs = this.#world.fs;
    let started = false;
    try {
      const doom = random.int(10);
      if (doom < 3) fs.powerOffAfter(random.int(random.int(2) === 0 ? 12 : 80));
      await this.#start();
      started = true;
      if (doom >= 3 && doom < 6) fs.powerOffAfter(random.int(300));
      const steps = 10 + random.int(300);
      for (let i = 0; i < steps; i++) await this.#step();
      fs.freeSpace();
      this.#hold?.end();
      if (!this.#syncFailed && random.int(4) === 0) {
        if (random.int(2) === 0) fs.powerOffAfter(random.int(30));
        await this.#stop();
        fs.powerOffAfter(Number.POSITIVE_INFINITY);
        if (random.int(2) === 0) return;
      }
      this.#die();
    } catch (error) {
      if (!(error instanceof PowerLost) && !fs.isDown) throw error;
      if (!started) this.report.cutStarts++;
      this.#cutPower();
    }
  }

  /** The last life has no faults: all is looked at, goes on, and is closed and compared with a rebuild. */
  async #lastLife(): Promise<void> {
    await this.#start();
    const store = this.#store!;
    await checkKeys(this.#world, store, this.#model);
    for (let i = 0; i < 5; i++) await this.#put();
    let answer = -1;
    store.whenDurable(this.#model.end, true, (status) => {
      answer = status;
    });
    await this.#world.until(() => answer >= 0, 'the last puts are answered');
    assert.equal(answer, PutMessageStatus.PUT_OK, 'the last puts are acknowledged');
    await this.#stop();
    await checkRebuild(this.#world, this.#model);
    // Nothing of a cleanly stopped store may depend on luck.
    this.#cutPower();
    await this.#start();
    assert.equal(readWhole(this.#world.fs, `${ROOT}/abort`) !== undefined, true, 'abort is there while the store runs');
    await checkKeys(this.#world, this.#store!, this.#model);
    await this.#stop();
  }

  async #start(): Promise<void> {
    this.#world.newLife();
    this.#hold = undefined;
    this.#syncFailed = false;
    const config = smallConfig({
      flushDiskType: this.#syncFlush ? 'SYNC_FLUSH' : 'ASYNC_FLUSH',
      messageIndexEnable: true,
      ...this.#waysOfStarting(),
    });
    this.#trace(`start, promised to ${this.#model.durableTo} of ${this.#model.end}`);
    const store = await openStore(this.#world, config, { logger: this.#logger });
    this.#store = store;
    const cutBefore = this.#model.cut;
    await checkStarted(this.#world, store, this.#model, this.#killed ? this.#model.writtenTo : this.#model.durableTo);
    this.#note();
    this.#trace(
      `started: ${this.#model.log.length} messages to ${this.#model.end}, ${this.#model.cut - cutBefore} cut`,
    );
    this.#checkSavedOffsets();
  }

  /** Settings that decide how much a start looks at, which must make no difference. */
  #waysOfStarting(): Partial<MessageStoreConfig> {
    const random = this.#starts;
    return {
      gantryQueuesLookedAt: random.int(2) === 0 ? 0 : 1000,
      enableAcceleratedRecovery: random.int(2) === 0,
      flushConsumeQueueLeastPages: random.int(3),
    };
  }

  async #stop(): Promise<void> {
    this.#trace('stop');
    const store = this.#store!;
    await this.#world.settle(store.close(), 'the store closes');
    this.#noteGivenUp();
    this.#store = undefined;
    this.#model.writtenTo = this.#model.end;
    this.#model.durableTo = this.#model.end;
    checkClosedFiles(this.#world.fs, this.#model);
    this.report.cleanStops++;
  }

  #die(): void {
    if (!this.#syncFailed && this.#world.random.int(4) === 0) {
      this.#trace(`kill, ${this.#model.writtenTo} written, ${this.#model.durableTo} durable of ${this.#model.end}`);
      this.#note();
      this.#store = undefined;
      this.#world.fs.kill(this.#world.random);
      this.#killed = true;
      this.report.kills++;
    } else {
      this.#cutPower();
    }
  }

  #cutPower(): void {
    this.#note();
    this.#trace(`power cut, ${this.#model.durableTo} durable of ${this.#model.end}`);
    this.#store = undefined;
    this.#world.fs.powerCut(this.#world.random);
    this.#killed = false;
    this.report.powerCuts++;
  }

  /** Takes over what the store says of itself. */
  #note(): void {
    if (this.#store === undefined) return;
    const marks = this.#store.watermarks;
    checkMarks(this.#store);
    this.#noteGivenUp();
    this.#model.durableTo = Math.max(this.#model.durableTo, Math.min(marks.flushed, this.#model.end));
    this.#model.writtenTo = Math.max(this.#model.writtenTo, Math.min(marks.committed, this.#model.end));
  }

  async #step(): Promise<void> {
    const world = this.#world;
    const choice = world.random.int(20);
    if (world.random.int(100) === 0) this.#trouble();
    if (this.#deletions?.int(80) === 0) await this.#delete(this.#deletions);
    if (choice < 7) await this.#put();
    else if (choice < 12) await world.complete();
    else if (choice < 16) await world.soon();
    else if (choice === 16) await world.advance(world.random.int(20) === 0 ? 61_000 : world.random.int(600));
    else if (choice === 17) await this.#read();
    else if (choice === 18) this.#saveOffsets();
    else await world.advance(1 + world.random.int(5));
    world.checkPower();
    this.#noteGivenUp();
  }

  /** A disk that refused bytes makes the store go back: what it had only in memory was never stored. */
  #noteGivenUp(): void {
    const { wrote } = this.#store!.watermarks;
    // What a process does after the power went does not count: nobody was told.
    if (wrote >= this.#model.end || this.#world.fs.isDown) return;
    // What could not be erased either has been answered as unknown: it may be there.
    if (this.#store!.unwritableReason?.startsWith('a sync of the CommitLog failed')) return;
    this.#trace(`given up: ${wrote} to ${this.#model.end}`);
    this.#model.givenUp(wrote);
  }

  /** The disk becomes slow, full or faulty, or well again. */
  #trouble(): void {
    const { fs, random } = this.#world;
    const kind = random.int(8);
    if (kind < 3) {
      if (this.#hold === undefined) {
        // Slow writes first: the store then writes off the loop, where they can be held.
        this.#world.stall('write', 'commitlog', 30);
        this.#hold = fs.hold(random.int(2) === 0 ? 'sync' : 'write', 'commitlog');
        this.#trace('the disk is slow');
      } else {
        this.#hold.end();
        this.#hold = undefined;
        this.#trace('the disk is quick again');
      }
    } else if (kind < 6) {
      if (random.int(2) === 0) {
        fs.fillAfter(random.int(6) * 4096);
        this.#trace('the disk is about to be full');
      } else {
        fs.freeSpace();
        this.#trace('the disk has space');
      }
    } else if (random.int(6) === 0) {
      fs.fail({ operation: 'sync', path: 'commitlog' });
      this.#syncFailed = true;
      this.#trace('the next sync of the log fails');
    }
  }

  async #put(): Promise<void> {
    const world = this.#world;
    const store = this.#store!;
    const [topic, queueId] = QUEUES[world.random.int(QUEUES.length)]!;
    const batch = !topic.startsWith('%') && world.random.int(6) === 0;
    const count = batch ? 2 + world.random.int(4) : 1;
    const drafts: Draft[] = [];
    for (let i = 0; i < count; i++) drafts.push(draft(world.random, this.#nextId++, topic, queueId, world.clock.now()));
    const wait = world.random.int(10) > 0;
    const result = this.#result;
    this.#noteGivenUp();
    store.put(requestOf(drafts, wait), result);
    world.checkPower();
    this.report.puts++;
    if (result.status !== PutMessageStatus.PUT_OK) {
      assert.ok(REFUSALS.has(result.status), `a put is answered ${putStatusName(result.status)}: ${result.reason}`);
      assert.notEqual(result.reason, '', 'a refusal says why');
      this.#trace(`refused: ${putStatusName(result.status)} ${result.reason}`);
      return;
    }
    const end = result.wroteOffset + result.wroteBytes;
    const starts = count > 1 ? [...result.batchOffsets] : [result.wroteOffset];
    assert.equal(starts.length, count, 'a start for each member');
    const entries: Entry[] = drafts.map((one, i) => ({
      ...one,
      queueOffset: result.queueOffset + i,
      position: starts[i]!,
      size: (starts[i + 1] ?? end) - starts[i]!,
      storeTimestamp: result.storeTimestamp,
    }));
    this.#model.appended(entries);
    this.#trace(`put ${drafts.map((d) => d.id).join()} to ${topic}/${queueId} at ${result.wroteOffset}..${end}`);
    if (!wait) return;
    store.whenDurable(end, true, (status, reason) => {
      this.#trace(`answered ${end}: ${status} ${reason}`);
      // Not stored, timed out, or unknown: no promise.
      if (status !== PutMessageStatus.PUT_OK) return;
      // An answer after the power went never reached anybody.
      if (this.#store !== store || world.fs.isDown) return;
      this.report.acknowledged++;
      this.#model.writtenTo = Math.max(this.#model.writtenTo, end);
      if (this.#syncFlush) this.#model.durableTo = Math.max(this.#model.durableTo, end);
    });
  }

  /** Deletes some topics; what is sent to them afterwards begins at 0. */
  async #delete(random: Random): Promise<void> {
    const store = this.#store!;
    if (this.#model.deleting !== undefined) return;
    const topics = [...new Set(QUEUES.map(([topic]) => topic))].filter(() => random.int(2) === 0);
    if (topics.length === 0) return;
    this.#noteGivenUp();
    // Behind it may lie what was answered as unknown.
    const end = store.watermarks.wrote;
    this.#model.deleting = { topics, end };
    this.#trace(`delete ${topics.join()} at ${end}`);
    store.deleteTopics(topics).then(
      () => {
        // An answer after the power went never reached anybody.
        if (this.#store !== store || this.#world.fs.isDown) return;
        this.#trace(`deleted ${topics.join()}`);
        this.report.deletions++;
        this.#model.deleted();
      },
      (error: unknown) => {
        this.#trace(`not deleted: ${String(error)}`);
        if (this.#store === store && !this.#world.fs.isDown) this.#model.deleting = undefined;
      },
    );
    // If everything was durable already, the model must hear of it before the next put.
    await turn();
  }

  /** A consumer reads somewhere; under sync flush, what it sees is durable. */
  async #read(): Promise<void> {
    const world = this.#world;
    const store = this.#store!;
    const [topic, queueId] = QUEUES[world.random.int(QUEUES.length)]!;
    const max = store.maxOffsetInQueue(topic, queueId);
    if (max === 0) return;
    const offset = world.random.int(max);
    const got = await pull(world, store, topic, queueId, offset, { maxMessages: 1 + world.random.int(10) });
    const queue = this.#model.queue(topic, queueId);
    if (queue.length <= offset) return; // Its topic was deleted meanwhile.
    assert.ok(got.records.length > 0, `a pull at ${offset} of ${topic}/${queueId} (maximum ${max}) finds nothing`);
    for (let i = 0; i < got.records.length; i++) {
      const entry = queue[offset + i]!;
      sameMessage(entry, got.records[i]!);
      const end = entry.position + entry.size;
      this.#model.writtenTo = Math.max(this.#model.writtenTo, end);
      if (this.#syncFlush) this.#model.durableTo = Math.max(this.#model.durableTo, end);
    }
  }

  #saveOffsets(): void {
    this.#saves++;
    this.#saving = JSON.stringify({ save: this.#saves, pad: 'x'.repeat(this.#world.random.int(1000)) });
    try {
      saveDurably(this.#world.fs, OFFSETS, this.#saving);
      this.#saved = this.#saving;
    } catch (error) {
      // A full disk: the save has failed and the state before it is still there.
      if (!this.#world.fs.isDown && !(error instanceof GantryError && error.code === 'DISK_FULL')) throw error;
    }
  }

  #checkSavedOffsets(): void {
    const bytes = readWhole(this.#world.fs, OFFSETS) ?? readWhole(this.#world.fs, `${OFFSETS}.bak`);
    const found = bytes === undefined ? '' : Buffer.from(bytes).toString();
    assert.ok(found === this.#saved || found === this.#saving, 'the offsets saved last, or those being saved');
    this.#saved = found;
    this.#saving = found;
  }
}

/** Runs one history. @throws whatever was found wrong */
export async function runHistory(seed: number, options: HistoryOptions = {}): Promise<HistoryReport> {
  return await new History(seed, options).run();
}
