// One simulated history of a store: lives of the process one after the other, each with a random load, each ended by a cut, a
// kill or a clean stop at a random moment, also in the middle of a start. A model beside it knows what must be there.
//
// A history is a function of its seed and of nothing else; `node dist/test/sim/nightly.js --seed N` replays one. What came to the
// simulation later (deletions, settings that change, damage, cuts of the log, readers, faults of derived files) is drawn from a random
// source of its own, so that `plain` histories stay what they were when their seeds were named.

import assert from 'node:assert/strict';
import { setImmediate as turn } from 'node:timers/promises';
import { GantryError, type Logger, type Random, SeededRandom } from '../../src/common/index.ts';
import { readWhole } from '../../src/io/index.ts';
import {
  type MessageStore,
  type MessageStoreConfig,
  PutMessageStatus,
  PutResult,
  putStatusName,
} from '../../src/store/index.ts';
import { BetweenLives } from './between-lives.ts';
import {
  checkClosedFiles,
  checkCutIsDead,
  checkKeys,
  checkMarks,
  checkMinimums,
  checkRebuild,
  checkStarted,
} from './checks.ts';
import { removeTree } from './damage.ts';
import { LOG_FILE_BYTES, openStore, ROOT, smallConfig } from './engine.ts';
import {
  emptyReport,
  type HistoryOptions,
  type HistoryReport,
  retentionOf,
  SEGMENTS,
  type SegmentsUnderTest,
} from './history-options.ts';
import { type Draft, draft, longDraft, QUEUES, requestOf, uniformDraft } from './messages.ts';
import { type Entry, Model, TornTopic } from './model.ts';
import { PlainOffsets } from './plain-offsets.ts';
import { checkProgress } from './progress.ts';
import { Readers } from './readers.ts';
import { type Ending, type FlushDiskType, SettingsDraw } from './settings.ts';
import { readLog } from './store-files.ts';
import { Tables } from './tables.ts';
import { Troubles } from './troubles.ts';
import { PowerLost, World } from './world.ts';

const PAGE = 4096;
const SECTOR = 512;

/** Refusals that a put may get while the disk is slow, full or failed; then nothing was appended. */
const REFUSALS: ReadonlySet<PutMessageStatus> = new Set<PutMessageStatus>([
  PutMessageStatus.OS_PAGE_CACHE_BUSY,
  PutMessageStatus.SERVICE_NOT_AVAILABLE,
  PutMessageStatus.CREATE_MAPPED_FILE_FAILED,
]);

class History {
  readonly report: HistoryReport = emptyReport();
  readonly #world: World;
  readonly #model = new Model(LOG_FILE_BYTES);
  readonly #segments: SegmentsUnderTest;
  /** What the history began with, and what the present life has. */
  readonly #usualFlush: FlushDiskType;
  #config: MessageStoreConfig = smallConfig();
  /** Decides on all that plain histories do not have; undefined in these. */
  readonly #extra: Random | undefined;
  /** Decides how much a start looks at. */
  readonly #starts: Random;
  readonly #between: BetweenLives;
  readonly #settings: SettingsDraw | undefined;
  readonly #tables: Tables | undefined;
  readonly #readers: Readers;
  readonly #plainOffsets: PlainOffsets;
  /** All messages of the history have one size. */
  readonly #uniform: boolean;
  /** Asks for the removal of old files alone, so that all else stays as the seed has it. */
  readonly #retention: Random | undefined;
  readonly #trace: (line: string) => void;
  readonly #result = new PutResult();
  readonly #logger: Logger;
  #store: MessageStore | undefined;
  #nextId = 1;
  /** How the last life ended. After a kill the next start finds all that was written. */
  #ending: Ending = 'clean';
  /** Nothing has been read in this life before its load begins. */
  #cold = false;
  #troubles: Troubles;

  constructor(seed: number, options: HistoryOptions) {
    this.#world = new World(seed);
    this.#extra = options.plain || options.damage !== undefined ? undefined : new SeededRandom(~seed);
    this.#starts = new SeededRandom(seed ^ 0x2545f491);
    this.#retention = options.retention ? new SeededRandom(seed ^ 0x2e7e) : undefined;
    this.#world.fs.syncLies = options.syncLies ?? false;
    this.#world.fs.makeDirectory(`${ROOT}/config`);
    this.#world.fs.settle();
    const trace = options.trace ?? (() => {});
    this.#trace = trace;
    this.#between = new BetweenLives(this.#world, seed, options, this.#extra, this.report, trace);
    this.#troubles = new Troubles(this.#world, trace);
    const tell = (text: string): void => trace(`  store: ${text}`);
    this.#logger = { debug: tell, info: tell, warn: tell, error: tell };
    const drawn = this.#world.random.int(4) > 0 ? 'SYNC_FLUSH' : 'ASYNC_FLUSH';
    this.#segments = options.segments ?? 'buffered';
    this.#usualFlush = options.flushDiskType ?? drawn;
    this.#readers = new Readers(this.#world);
    this.#plainOffsets = new PlainOffsets(this.#world);
    const extra = this.#extra;
    this.#uniform = extra?.int(4) === 0;
    if (extra === undefined) return;
    this.#settings = new SettingsDraw(extra, options.flushDiskType);
    this.#tables = new Tables(this.#world, extra);
    this.#world.fs.tearsInterrupted = true;
  }

  /** What consumers see is durable. */
  get #seenIsDurable(): boolean {
    return this.#syncFlush && !this.#config.readUnCommitted;
  }

  get #syncFlush(): boolean {
    return this.#config.flushDiskType === 'SYNC_FLUSH';
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
    await this.#between.decay(this.#ending, this.#usualFlush, this.#logger);
    try {
      this.#between.damage(this.#ending, this.#config, this.#tables);
      const doom = random.int(10);
      if (doom < 3) fs.powerOffAfter(random.int(random.int(2) === 0 ? 12 : 80));
      await this.#start();
      started = true;
      if (doom >= 3 && doom < 6) fs.powerOffAfter(random.int(300));
      // Nothing is in memory yet: all that is read now comes from files, which a deletion takes away under the reads.
      if (this.#extra !== undefined && this.#cold) await this.#delete(this.#extra, 16);
      const steps = 10 + random.int(300);
      for (let i = 0; i < steps; i++) await this.#step();
      this.#troubles.end();
      if (!this.#troubles.syncFailed && random.int(4) === 0) {
        if (random.int(2) === 0) fs.powerOffAfter(random.int(30));
        await this.#stop();
        fs.powerOffAfter(Number.POSITIVE_INFINITY);
        if (random.int(2) === 0) return;
      }
      this.#die();
    } catch (error) {
      if (!(error instanceof PowerLost) && !fs.isDown) throw error;
      if (!started) this.report.cutStarts++;
      if (!this.#troubles.syncFailed && this.#extra?.int(3) === 0) this.#kill();
      else this.#cutPower();
    }
  }

  /** The last life has no faults: all is looked at, goes on, and is closed and compared with a rebuild. */
  async #lastLife(): Promise<void> {
    this.#between.damage(this.#ending, this.#config, this.#tables);
    await this.#between.decay(this.#ending, this.#usualFlush, this.#logger);
    if (this.#between.indexIsBlind) removeTree(this.#world.fs, `${ROOT}/index`);
    this.#between.indexIsBlind = false;
    await this.#start({ messageIndexEnable: true });
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
    await checkRebuild(this.#world, this.#model, this.#config);
    // Nothing of a cleanly stopped store may depend on luck.
    this.#cutPower();
    await this.#start({ messageIndexEnable: true });
    assert.equal(readWhole(this.#world.fs, `${ROOT}/abort`) !== undefined, true, 'abort is there while the store runs');
    await checkKeys(this.#world, this.#store!, this.#model);
    await this.#stop();
  }

  async #start(settings: Partial<MessageStoreConfig> = {}): Promise<void> {
    const world = this.#world;
    world.newLife();
    this.#readers.forget();
    this.#troubles = new Troubles(this.#world, this.#trace);
    this.#config = smallConfig({
      flushDiskType: this.#usualFlush,
      messageIndexEnable: true,
      ...this.#waysOfStarting(),
      ...(this.#between.isRotten ? { gantryQueuesLookedAt: 1000 } : {}),
      ...this.#settings?.next(this.#usualFlush, this.#ending),
      gantryDamagedRecord: this.#between.policy,
      // Damage before the place where it begins to look would not be seen.
      ...(this.#between.damagesLog ? { enableAcceleratedRecovery: false } : {}),
      ...(this.#retention === undefined ? {} : { mappedFileSizeConsumeQueue: 200 }),
      ...retentionOf(this.#retention),
      ...settings,
      ...SEGMENTS[this.#segments],
    });
    this.#trace(`start, promised to ${this.#model.durableTo} of ${this.#model.end}`);
    this.#cold = this.#extra?.int(3) === 0;
    const store = await this.#open();
    this.#store = store;
    this.#between.isRotten = false;
    const cutBefore = this.#model.cut;
    let promisedTo = this.#ending === 'kill' ? this.#model.writtenTo : this.#model.durableTo;
    const damage = this.#between.rot;
    this.#between.rot = undefined;
    if (damage?.policy === 'skip') this.#model.skipped(readLog(world.fs, `${ROOT}/commitlog`), damage.records);
    else if (damage !== undefined) promisedTo = Math.min(promisedTo, damage.records[0]!);
    await checkStarted(world, store, this.#model, promisedTo, !this.#cold);
    if (damage?.policy === 'cut') {
      assert.equal(store.recovery.end, damage.records[0], 'the log is cut at the damage');
      assert.ok(world.fs.list(`${ROOT}/gantry/cut`).length > 0, 'what was cut is kept aside');
    }
    this.#note();
    this.#trace(
      `started: ${this.#model.log.length} messages to ${this.#model.end}, ${this.#model.cut - cutBefore} cut`,
    );
    if (this.#tables === undefined) this.#plainOffsets.check();
    else this.#tables.load(this.#logger, this.#ending);
  }

  /** Opens the store. One whose queues have files of another size refuses; then the operator removes what can be built again. */
  async #open(): Promise<MessageStore> {
    try {
      return await openStore(this.#world, this.#config, { logger: this.#logger });
    } catch (error) {
      if (!(error instanceof GantryError) || error.code !== 'STORE_FILE_SIZE' || this.#settings === undefined)
        throw error;
      assert.match(error.message, /mappedFileSizeConsumeQueue/, error.message);
      this.#trace(`refused: ${error.message}`);
      this.#between.claimsHold = false;
      removeTree(this.#world.fs, `${ROOT}/consumequeue`);
      return await openStore(this.#world, this.#config, { logger: this.#logger });
    }
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
    this.#count(store);
    this.#store = undefined;
    this.#model.promise(this.#model.end, this.#model.end);
    const indexIsWhole =
      this.#config.messageIndexEnable && !this.#troubles.derivedFailed && !this.#between.indexIsBlind;
    checkClosedFiles(this.#world.fs, this.#model, indexIsWhole);
    this.#ending = 'clean';
    this.#between.claimsHold = true;
    this.report.cleanStops++;
  }

  #count(store: MessageStore): void {
    const { files, forcedFiles, queueFiles, indexFiles } = store.retention.counts;
    this.report.removedFiles += files;
    this.report.forcedFiles += forcedFiles;
    this.report.derivedFiles += queueFiles + indexFiles;
  }

  #die(): void {
    if (!this.#troubles.syncFailed && this.#world.random.int(4) === 0) this.#kill();
    else this.#cutPower();
  }

  #kill(): void {
    this.#trace(`kill, ${this.#model.writtenTo} written, ${this.#model.durableTo} durable of ${this.#model.end}`);
    this.#note();
    this.#store = undefined;
    // What a pull of the dead process still hears reaches nobody.
    this.#readers.forget();
    this.#world.fs.kill(this.#world.random);
    this.#ending = 'kill';
    this.report.kills++;
  }

  #cutPower(): void {
    this.#note();
    this.#trace(`power cut, ${this.#model.durableTo} durable of ${this.#model.end}`);
    this.#store = undefined;
    this.#readers.forget();
    const unit = this.#extra === undefined ? undefined : this.#extra.int(2) === 0 ? PAGE : SECTOR;
    this.#world.fs.powerCut(this.#world.random, unit);
    this.#ending = 'power';
    // From here on a kill promises no more than the power cut left.
    this.#model.writtenTo = this.#model.durableTo;
    this.report.powerCuts++;
    if (this.#extra !== undefined && this.#between.claimsHold && !this.#model.isBeingCut)
      checkProgress(this.#world.fs, this.#model);
  }

  /** The log may begin later than before. */
  #noteRemoved(): void {
    const { minimum, wrote, dispatched: reached, flushed } = this.#store!.watermarks;
    // In the middle of a cut there may be no file at all.
    if (this.#model.isBeingCut && minimum === wrote) return;
    if (minimum <= this.#model.start) return;
    assert.ok(minimum <= reached && minimum <= flushed, `what is neither dispatched nor durable stays`);
    this.#trace(`the log begins at ${minimum}`);
    this.#model.removedTo(minimum);
    if (this.#model.deleting === undefined && !this.#model.isBeingCut) checkMinimums(this.#store!, this.#model);
  }

  /** Takes over what the store says of itself. */
  #note(): void {
    if (this.#store !== undefined) this.#noteRemoved();
    // A process that died while it cut its log has no marks any more; nothing was put meanwhile.
    if (this.#store === undefined || (this.#model.isBeingCut && this.#world.fs.isDown)) return;
    const marks = this.#store.watermarks;
    if (!this.#world.fs.isDown) checkMarks(this.#store);
    this.#count(this.#store);
    this.#noteGivenUp();
    this.#model.promise(Math.min(marks.committed, this.#model.end), Math.min(marks.flushed, this.#model.end));
  }

  async #step(): Promise<void> {
    const world = this.#world;
    const choice = world.random.int(20);
    if (world.random.int(100) === 0) this.#troubles.strike();
    if (this.#extra !== undefined) await this.#extraStep(this.#extra);
    if (this.#retention?.int(50) === 0) {
      this.#trace('old files are asked to go');
      this.#store!.retention.request();
    }
    if (choice < 7) await this.#put();
    else if (choice < 12) await world.complete();
    else if (choice < 16) await world.soon();
    else if (choice === 16) await world.advance(world.random.int(20) === 0 ? 61_000 : world.random.int(600));
    else if (choice === 17) await this.#readers.readNow(this.#store!, this.#model, (end) => this.#seen(end));
    else if (choice === 18 && this.#tables === undefined) this.#plainOffsets.save();
    else if (choice === 18) this.#tables!.save();
    else await world.advance(1 + world.random.int(5));
    world.checkPower();
    this.#readers.check();
    this.#noteGivenUp();
  }

  /** What plain histories do not have. Retention has its place here, too: it moves the log's minimum, and the model's with it. */
  async #extraStep(random: Random): Promise<void> {
    const choice = random.int(400);
    if (choice < 5) await this.#delete(random);
    else if (choice < 8) await this.#cutLog(random);
    else if (choice < 10) this.#troubles.failDerived(random);
    else if (choice < 12) await this.#refill();
    else if (choice < 60) this.#beginRead(random);
  }

  /** A disk that refused bytes makes the store go back: what it had only in memory was never stored. */
  #noteGivenUp(): void {
    this.#noteRemoved();
    const { wrote } = this.#store!.watermarks;
    // What a process does after the power went does not count: nobody was told.
    if (wrote >= this.#model.end || this.#world.fs.isDown) return;
    // What could not be erased either has been answered as unknown: it may be there.
    if (this.#store!.unwritableReason?.startsWith('a sync of the CommitLog failed')) return;
    this.#trace(`given up: ${wrote} to ${this.#model.end}`);
    this.#model.givenUp(wrote);
  }

  /** `told` hears how it ended, also of a refusal. */
  async #put(told?: (status: PutMessageStatus) => void): Promise<void> {
    const world = this.#world;
    const store = this.#store!;
    const [topic, queueId] = QUEUES[world.random.int(QUEUES.length)]!;
    const batch = !topic.startsWith('%') && world.random.int(6) === 0;
    const count = batch ? 2 + world.random.int(4) : 1;
    const drafts: Draft[] = [];
    for (let i = 0; i < count; i++) {
      const now = world.clock.now();
      if (this.#uniform) drafts.push(uniformDraft(world.random, this.#nextId++, queueId, now));
      else if (!batch && this.#extra?.int(6) === 0)
        drafts.push(longDraft(world.random, this.#nextId++, topic, queueId, now));
      else drafts.push(draft(world.random, this.#nextId++, topic, queueId, now));
    }
    const wait = world.random.int(10) > 0 || told !== undefined;
    const result = this.#result;
    this.#noteGivenUp();
    store.put(requestOf(drafts, wait), result);
    world.checkPower();
    this.report.puts++;
    if (result.status !== PutMessageStatus.PUT_OK) {
      assert.ok(REFUSALS.has(result.status), `a put is answered ${putStatusName(result.status)}: ${result.reason}`);
      assert.notEqual(result.reason, '', 'a refusal says why');
      this.#trace(`refused: ${putStatusName(result.status)} ${result.reason}`);
      told?.(result.status);
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
      propertyCrc: this.#config.enabledAppendPropCRC,
    }));
    this.#model.appended(entries);
    this.#trace(
      `put ${drafts.map((d) => d.id).join()} to ${drafts[0]!.topic}/${queueId} at ${result.wroteOffset}..${end}`,
    );
    if (!wait) return;
    store.whenDurable(end, true, (status, reason) => {
      this.#trace(`answered ${end}: ${status} ${reason}`);
      told?.(status);
      // Not stored, timed out, or unknown: no promise.
      if (status !== PutMessageStatus.PUT_OK) return;
      // An answer after the power went never reached anybody.
      if (this.#store !== store || world.fs.isDown) return;
      this.report.acknowledged++;
      // The pool answers what is in memory only.
      this.#model.promise(this.#segments === 'pool' ? 0 : end, this.#syncFlush ? end : 0);
    });
  }

  /** Deletes some topics; what is sent to them afterwards begins at 0. */
  async #delete(random: Random, reads: number = random.int(4)): Promise<void> {
    const store = this.#store!;
    if (this.#model.deleting !== undefined) return;
    const topics = [...new Set(QUEUES.map(([topic]) => topic))].filter(() => reads > 8 || random.int(2) === 0);
    if (topics.length === 0) return;
    this.#noteGivenUp();
    // Behind it may lie what was answered as unknown.
    const end = store.watermarks.wrote;
    this.#model.deleting = { topics, end };
    this.#trace(`delete ${topics.join()} at ${end}`);
    // Files that go away while their bytes are under way.
    for (let i = 0; i < reads; i++) this.#beginRead(random);
    store.deleteTopics(topics).then(
      () => {
        // An answer after the power went never reached anybody.
        if (this.#store !== store || this.#world.fs.isDown) return;
        this.#trace(`deleted ${topics.join()}`);
        this.report.deletions++;
        this.#model.deleted();
      },
      (error: unknown) => {
        // As the call says: the next start may find the topics deleted.
        this.#trace(`not deleted: ${String(error)}`);
      },
    );
    // If everything was durable already, the model must hear of it before the next put.
    await turn();
  }

  /** A consumer has got a message that ends there. */
  #seen(end: number): void {
    this.#model.promise(end, this.#seenIsDurable ? end : 0);
  }

  /** A pull that others do not wait for. */
  #beginRead(random: Random): void {
    const store = this.#store!;
    const [topic, queueId] = QUEUES[random.int(QUEUES.length)]!;
    const max = store.maxOffsetInQueue(topic, queueId);
    if (max === 0 || this.#readers.count > 16) return;
    const place = { topic, queueId, offset: random.int(max) };
    this.#readers.begin(store, this.#model, place, 1 + random.int(10), (end) => this.#seen(end));
  }

  /** The log is cut at a record, as a replica cuts it to where its master's is. */
  async #cutLog(random: Random): Promise<void> {
    const log = this.#model.live();
    const store = this.#store!;
    if (this.#troubles.syncFailed || this.#model.deleting !== undefined || log.length === 0) return;
    this.#troubles.end();
    this.#noteGivenUp();
    const { position } = log[log.length - 1 - random.int(Math.min(log.length, 20))]!;
    this.#trace(`cut the log at ${position} of ${this.#model.end}`);
    this.#readers.forget();
    this.#model.cutting(position);
    const done = await this.#world.settle(store.truncateTo(position), 'the log is cut');
    // Retention was quicker: nothing has changed.
    if (!done && store.watermarks.minimum > position) {
      this.#model.cutRefused();
      return this.#noteGivenUp();
    }
    assert.ok(done, `the log can be cut at ${position}, where a record starts`);
    this.#model.cutDone();
    this.report.logCuts++;
    assert.equal(store.watermarks.wrote, position, 'the log ends where it was cut');
    checkCutIsDead(this.#world.fs, position);
  }

  /** A full disk is given space: within 10 s of it, sends are taken and answered. */
  async #refill(): Promise<void> {
    const { clock, fs } = this.#world;
    const store = this.#store!;
    if (fs.usedFraction(ROOT) < 0.9 || this.#troubles.syncFailed) return;
    this.#trace('the disk is given space, and must take sends soon');
    this.#troubles.end();
    const since = clock.now();
    await this.#world.until(() => store.unwritableReason === undefined, 'a disk that has space takes sends again');
    this.#noteGivenUp();
    for (let answer = -1; answer !== PutMessageStatus.PUT_OK; ) {
      let told: number | undefined;
      await this.#put((status) => {
        told = status;
      });
      await this.#world.until(() => told !== undefined, 'a send is answered');
      answer = told!;
      assert.ok(clock.now() - since <= 10_000, `no send is taken ${clock.now() - since} ms after there was space`);
      const later = clock.now() + 20;
      if (answer !== PutMessageStatus.PUT_OK) await this.#world.until(() => clock.now() >= later, 'time passes');
    }
    this.report.refills++;
  }
}

/** Runs one history. @throws whatever was found wrong */
export async function runHistory(seed: number, options: HistoryOptions = {}): Promise<HistoryReport> {
  return await new History(seed, options).run();
}
