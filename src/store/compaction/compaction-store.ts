// The compaction logs of a store: which queues have one, when they take in, are made durable and are compacted. RocketMQ: CompactionStore,
// CompactionService.
//
//   each second     what is dispatched is taken in, in the background
//   each 30 s       topics are looked through for queues that have no log yet
//   compactionScheduleInternal, and as much again at random    each log is compacted; compactionThreadNum of them at once

import { errorText, GantryError, type Logger, type Random, SeldomWarning } from '../../common/index.ts';
import { type FileSystem, makeDirectoryDurably } from '../../io/index.ts';
import type { GetRequest, GetResult } from '../read/get.ts';
import { GetMessageStatus } from '../read/get.ts';
import { emptyResult } from '../read/result-records.ts';
import { answer } from '../read/select-rules.ts';
import type { Removal, RetentionFloor } from '../retention/removal.ts';
import type { Ready } from '../segment/index.ts';
import {
  COMPACTION_FOLDER,
  type CompactionSizes,
  CompactionUnit,
  compactionSizes,
  UNSYNCED_BYTES,
} from './compaction-format.ts';
import { type CompactionHost, CompactionLog } from './compaction-log.ts';
import { type CompactionOutcome, CompactionRun } from './compaction-run.ts';
import { readUnit } from './cutting.ts';
import { compactionFolders, loadPairs, logFolderOf, queueFolderOf, settleFolders } from './load-pairs.ts';
import { mendRecord, mendUnits } from './mending.ts';
import { mapEntries } from './offset-map.ts';
import { PairList } from './pair-list.ts';
import { dropPlan, isBeingReplaced, loadPlan, moveUp, removeOld } from './replacement.ts';
import { clearLog, cut, verifyLog } from './verify-log.ts';
import { nextTurn, syncFolder } from './waits.ts';

const TICK_MS = 1000;
/** So long a stop waits for what is to be taken in. */
const CLOSE_MS = 2000;
/** RocketMQ: scanInterval. */
const SCAN_MS = 30_000;
/** RocketMQ: a log's period is so much longer than the setting at least. */
const LEAST_DELAY_MS = 1000;
/** No timer runs longer. */
const MAX_PERIOD_MS = 2 ** 31 - 1;
/** Queues looked at before the loop gets a turn. */
const QUEUES_PER_TURN = 512;

export interface CompactionStoreOptions extends CompactionHost {
  readonly fs: FileSystem;
  readonly random: Random;
  /** Whether a topic is compacted (attribute cleanup.policy). */
  readonly isCompacted: (topic: string) => boolean;
  /** Every queue that exists. */
  readonly queues: () => Iterable<{ topic: string; queueId: number }>;
  /** Processors that compactions may keep busy. */
  readonly processors: number;
}

interface Entry {
  readonly log: CompactionLog;
  readonly run: CompactionRun;
  timer: { cancel(): void } | undefined;
}

export class CompactionStore implements RetentionFloor {
  readonly name = 'compaction topics';
  /** Compactions that have ended since the start. */
  compactions = 0;
  readonly #options: CompactionStoreOptions;
  readonly #sizes: CompactionSizes;
  readonly #seldom: SeldomWarning;
  readonly #topics = new Map<string, Map<number, Entry>>();
  readonly #lanes: number;
  #busy = 0;
  readonly #waiting: Array<() => void> = [];
  #replacing: Promise<void> = Promise.resolve();
  #scanning: Promise<void> | undefined;
  #timers: Array<{ cancel(): void }> = [];
  #isLoaded = false;
  #closed = false;
  /** Logs of deleted topics whose files are not gone yet, and logs that are being opened; resolves to what goes wrong. */
  readonly #busyWith = new Map<string, Promise<GantryError | undefined>>();
  /** Logs of deleted topics whose files could not be removed. */
  readonly #left = new Set<string>();

  constructor(options: CompactionStoreOptions) {
    this.#options = options;
    const { config, clock, logger, processors } = options;
    this.#sizes = compactionSizes(config.compactionMappedFileSize, config.compactionCqMappedFileSize);
    this.#seldom = new SeldomWarning(clock, logger);
    this.#lanes = Math.min(processors, Math.max(1, config.compactionThreadNum));
  }

  /** Whether pulls of a topic are answered from here: it is compacted, and has a queue. */
  has(topic: string): boolean {
    return this.#topics.has(topic);
  }

  /** The log of a queue, if there is one. */
  find(topic: string, queueId: number): CompactionLog | undefined {
    return this.#topics.get(topic)?.get(queueId)?.log;
  }

  /** Queue offset up to which a queue is compacted; -1: not at all. */
  compactedTo(topic: string, queueId: number): number {
    return this.#options.positions.get(`${topic}_${queueId}`);
  }

  *logs(): IterableIterator<CompactionLog> {
    for (const { log } of this.#entries()) yield log;
  }

  *#entries(): IterableIterator<Entry> {
    for (const queues of this.#topics.values()) yield* queues.values();
  }

  /** Finds and mends the files of a start. @throws GantryError IO, DISK_FULL. */
  async load(clean: boolean): Promise<void> {
    const { fs, root, logger, positions, source } = this.#options;
    positions.load(logger);
    await this.#carryOutPlan();
    for (const { topic, queueId } of [...compactionFolders(fs, root)]) {
      if (this.#options.isCompacted(topic)) this.#add(await this.#open(topic, queueId, clean));
      else if (source.mayBeOfDeleted(topic) && source.bounds(topic, queueId) === undefined) {
        logger.info(`${topic} queue ${queueId} was deleted, and its compaction log is left: it is removed`);
        await this.#removeFolders(topic, queueId);
      } else
        logger.info(`${topic} queue ${queueId} has a compaction log, but is no compaction topic: it is left alone`);
    }
    await this.#scan();
    this.#isLoaded = true;
    // Before anything is taken in again; a disk that is full keeps nobody from starting.
    try {
      if (positions.changed) positions.saveNow();
    } catch (error) {
      unlessFull(error, logger);
    }
  }

  /** Finds and mends the files of one log. @throws GantryError IO, DISK_FULL. */
  async #open(topic: string, queueId: number, clean: boolean): Promise<CompactionLog> {
    const { fs, root, logger, source } = this.#options;
    settleFolders(fs, logger, logFolderOf(root, topic, queueId), queueFolderOf(root, topic, queueId));
    const { list, hollow, asides } = loadPairs(fs, logger, root, topic, queueId, this.#sizes, clean);
    try {
      const log = new CompactionLog(topic, queueId, list, this.#options);
      if (this.#left.delete(log.name)) clearLog(log);
      else if (asides > 0 && source.bounds(topic, queueId)?.minOffset === 0) {
        logger.warn(`${topic} queue ${queueId}: the CommitLog has all messages; the compaction log is built from it`);
        clearLog(log);
      }
      await verifyLog(log, hollow, clean);
      return log;
    } catch (error) {
      list.close();
      throw error;
    }
  }

  /** Ends a replacement that a kill has cut short. */
  async #carryOutPlan(): Promise<void> {
    const { fs, root, logger, positions } = this.#options;
    const plan = loadPlan(fs, root);
    if (plan !== undefined) {
      const { topic, queueId } = plan;
      const folders = [logFolderOf(root, topic, queueId), queueFolderOf(root, topic, queueId)];
      if (folders.some((folder) => isBeingReplaced(fs, folder))) {
        for (const folder of folders) makeDirectoryDurably(fs, folder);
        logger.info(`${topic} queue ${queueId}: the replacement of compacted files is carried out to its end`);
        for (const folder of folders) await moveUp(fs, folder, plan);
        for (const folder of folders) await removeOld(fs, folder);
        positions.set(`${topic}_${queueId}`, plan.position);
        // One that is lost makes the next compaction look at more.
        await positions.save().catch((error: unknown) => unlessFull(error, logger));
      }
    }
    await dropPlan(fs, root);
  }

  start(): void {
    const { clock } = this.#options;
    this.#timers = [clock.every(TICK_MS, () => this.#tick()), clock.every(SCAN_MS, () => void this.#scan())];
  }

  #tick(): void {
    for (const { log, run } of this.#entries()) {
      if (run.isBegun && !run.isRunning) {
        void run.goOn().catch((error: unknown) => {
          if (!(error instanceof GantryError)) throw error;
        });
      }
      if (log.pendingCut !== undefined) log.onPendingCut();
      if (log.behind > 0) void log.takeLater();
      if (log.list.unsynced > UNSYNCED_BYTES) void log.flush();
    }
    if (this.#options.positions.changed) void this.#options.positions.save().catch(() => {});
  }

  /** Every queue of a compaction topic has a log; false if the files of one are not to be had. */
  async #allOpen(): Promise<boolean> {
    await Promise.all(this.#busyWith.values());
    await this.#scan();
    const errors = await Promise.all(this.#busyWith.values());
    return errors.every((error) => error === undefined);
  }

  /** Makes a log for each queue of a compaction topic that has none. */
  #scan(): Promise<void> {
    this.#scanning ??= this.#scanQueues().finally(() => {
      this.#scanning = undefined;
    });
    return this.#scanning;
  }

  async #scanQueues(): Promise<void> {
    const { queues, clock } = this.#options;
    let seen = 0;
    for (const { topic, queueId } of queues()) {
      if (++seen % QUEUES_PER_TURN === 0) await nextTurn(clock);
      if (this.#closed) return;
      if (this.find(topic, queueId) === undefined && this.#options.isCompacted(topic))
        this.#findOrCreate(topic, queueId);
    }
  }

  /** A queue has come into being. */
  queueCreated(topic: string, queueId: number): void {
    if (this.#isLoaded && !this.#closed && this.#options.isCompacted(topic)) this.#findOrCreate(topic, queueId);
  }

  /** The log of a queue that exists; undefined if there is no such queue. */
  #findOrCreate(topic: string, queueId: number): CompactionLog | undefined {
    const { fs, root, source, positions } = this.#options;
    const found = this.find(topic, queueId);
    if (found !== undefined || source.bounds(topic, queueId) === undefined) return found;
    if (this.#busyWith.has(`${topic}_${queueId}`)) return undefined;
    const [logFolder, queueFolder] = [logFolderOf(root, topic, queueId), queueFolderOf(root, topic, queueId)];
    if (this.#mayHaveFiles(logFolder) || this.#mayHaveFiles(queueFolder)) {
      this.#adopt(topic, queueId);
      return undefined;
    }
    const log = new CompactionLog(topic, queueId, new PairList(fs, logFolder, queueFolder, this.#sizes), this.#options);
    // Nothing of a log that is empty is compacted.
    positions.set(log.name, -1);
    this.#add(log);
    return log;
  }

  /** Also where it cannot be told: who opens the log finds out. */
  #mayHaveFiles(folder: string): boolean {
    try {
      return this.#options.fs.list(folder).length > 0;
    } catch (error) {
      if (!(error instanceof GantryError)) throw error;
      return true;
    }
  }

  /** Opens the log of a queue that has files already: its topic was not compacted at the start, or they are of an earlier life of it. */
  #adopt(topic: string, queueId: number): void {
    const name = `${topic}_${queueId}`;
    const queues = this.#queuesOf(topic);
    const work = async (): Promise<void> => {
      const log = await this.#open(topic, queueId, false);
      if (this.#topics.get(topic) === queues && !this.#closed) return this.#add(log);
      log.list.close();
      // Deleted meanwhile.
      if (!this.#closed) await this.#removeFolders(topic, queueId);
    };
    this.#busyWith.set(name, this.#settled(name, work, 'opened'));
  }

  /** Does something with the files of a log; answers what went wrong. */
  async #settled(name: string, work: () => Promise<void>, what: string): Promise<GantryError | undefined> {
    try {
      // Whoever calls takes note of it first.
      await nextTurn(this.#options.clock);
      await work();
      return undefined;
    } catch (error) {
      if (!(error instanceof GantryError)) throw error;
      this.#seldom.warn(what, `the compaction log ${name} cannot be ${what} (${errorText(error)})`);
      return error;
    } finally {
      this.#busyWith.delete(name);
    }
  }

  #queuesOf(topic: string): Map<number, Entry> {
    let queues = this.#topics.get(topic);
    if (queues === undefined) {
      queues = new Map();
      this.#topics.set(topic, queues);
    }
    return queues;
  }

  #add(log: CompactionLog): void {
    const { clock, config, random } = this.#options;
    const run = new CompactionRun(log, mapEntries(config.maxOffsetMapSize / this.#lanes), (work) => this.#alone(work));
    const entry: Entry = { log, run, timer: undefined };
    this.#queuesOf(log.topic).set(log.queueId, entry);
    log.onSyncFailed = () => {
      // What the CommitLog has no more was durable before it left it.
      const min = this.#options.source.bounds(log.topic, log.queueId)?.minOffset ?? 0;
      log.cuts++;
      this.#cutLog(log, run, Math.max(log.durable, min), 'a sync failed: they are taken in again from the CommitLog');
    };
    log.onPendingCut = () => {
      this.#cutLog(log, run, log.pendingCut!, 'it is tried again');
    };
    log.onDamage = (pair, position) => void this.#mend(log, pair, position);
    // RocketMQ: a delay of its own for each log, the same each time.
    const interval = config.compactionScheduleInternal;
    const period = Math.min(MAX_PERIOD_MS, interval + LEAST_DELAY_MS + random.int(Math.max(1, interval)));
    entry.timer = clock.every(period, () => void this.#compact(entry));
  }

  /** As `MessageStore.select`, for a topic that it `has`. */
  select(request: GetRequest, result: GetResult, ready: Ready): boolean {
    emptyResult(result);
    const { topic, queueId } = request;
    const log = this.find(topic, queueId) ?? this.#findOrCreate(topic, queueId);
    if (log !== undefined) return log.select(request, result, ready);
    const busy = this.#busyWith.get(`${topic}_${queueId}`);
    if (busy !== undefined) {
      void busy.then(ready);
      return false;
    }
    result.minOffset = -1 as GetResult['minOffset'];
    result.maxOffset = 0 as GetResult['maxOffset'];
    return answer(result, GetMessageStatus.NO_MESSAGE_IN_QUEUE, 0);
  }

  // --- Compaction

  /** Compacts a log now, or when its turn comes; for tests and tools. */
  async compact(topic: string, queueId: number): Promise<CompactionOutcome | undefined> {
    this.#findOrCreate(topic, queueId);
    const entry = this.#topics.get(topic)?.get(queueId);
    return entry === undefined ? undefined : await this.#compact(entry);
  }

  async #compact(entry: Entry): Promise<CompactionOutcome | undefined> {
    const { log, run } = entry;
    if (this.#closed || run.isRunning) return undefined;
    if (this.#busy >= this.#lanes) await new Promise<void>((resolve) => this.#waiting.push(resolve));
    this.#busy++;
    try {
      if (this.#closed) return undefined;
      const outcome = await run.run();
      if (outcome !== undefined) this.compactions++;
      return outcome;
    } catch (error) {
      if (!(error instanceof GantryError)) throw error;
      this.#seldom.warn(
        `compact ${log.name}`,
        `${log.topic} queue ${log.queueId} cannot be compacted (${errorText(error)}); it is tried again`,
      );
      return undefined;
    } finally {
      this.#busy--;
      this.#waiting.shift()?.();
    }
  }

  #alone(work: () => Promise<void>): Promise<void> {
    const mine = this.#replacing.then(work);
    this.#replacing = mine.catch(() => {});
    return mine;
  }

  /** Mends a record that a pull has found damaged. */
  async #mend(log: CompactionLog, pair: PairList['pairs'][number], position: number): Promise<void> {
    // The pull that has found it goes on first.
    await nextTurn(log.host.clock);
    const unit = new CompactionUnit();
    try {
      if (log.list.pairs.includes(pair) && mendUnits(log, pair) > 0) log.mended(position);
      for (let low = 0, high = pair.unitsWritten - 1; low <= high; ) {
        const middle = Math.floor((low + high) / 2);
        if (!readUnit(pair, middle, unit)) return;
        if (unit.position === position) {
          if (log.list.pairs.includes(pair)) await mendRecord(log, pair, unit, 'found by a pull');
          return;
        }
        if (unit.position < position) low = middle + 1;
        else high = middle - 1;
      }
    } catch (error) {
      if (!(error instanceof GantryError)) throw error;
      this.#seldom.warn('mend', `${pair.log.path} cannot be mended (${errorText(error)})`);
    }
  }

  // --- Durability, retention, cuts

  /** Whether there is nothing to make durable. */
  get isEmpty(): boolean {
    return this.#topics.size === 0;
  }

  /** Makes what is dispatched now durable here, too; false if something could not be taken in or written. */
  async flush(): Promise<boolean> {
    let whole = await this.#allOpen();
    for (const { log } of [...this.#entries()]) whole = (await log.flush()) && whole;
    return whole;
  }

  /** RetentionFloor: messages that are not durable here. */
  needed(removal: Removal): number {
    if (removal.soon !== undefined) return 0;
    let count = 0;
    for (const { topic, queueId, from, to } of removal.moves) {
      if (!this.#options.isCompacted(topic)) continue;
      const durable = this.find(topic, queueId)?.durable ?? 0;
      count += Math.max(0, to - Math.max(from, durable));
    }
    if (count > 0) void this.flush();
    return count;
  }

  /** LogWatcher: the CommitLog was cut, and its queues with it. */
  cut(offset: number): void {
    for (const { log, run } of this.#entries()) {
      log.cuts++;
      log.takenEnd = Math.min(log.takenEnd, offset);
      const max = this.#options.source.bounds(log.topic, log.queueId)?.maxOffset ?? 0;
      if (this.#options.positions.get(log.name) >= max) {
        this.#options.logger.warn(
          `${log.topic} queue ${log.queueId}: the CommitLog was cut below what is compacted; messages that newer ones had replaced stay away`,
        );
      }
      this.#cutLog(log, run, max, 'the CommitLog was cut');
    }
  }

  #cutLog(log: CompactionLog, run: CompactionRun, max: number, reason: string): void {
    const keepBelow = Math.min(max, log.pendingCut ?? max);
    log.reads.maxOffset = Math.min(log.reads.maxOffset, keepBelow);
    log.taken = Math.min(log.taken, keepBelow);
    log.durable = Math.min(log.durable, keepBelow);
    if (run.begunBelow > keepBelow) {
      log.pendingCut = keepBelow;
      return;
    }
    try {
      cut(log, keepBelow, reason);
      log.pendingCut = undefined;
      log.taken = Math.min(log.taken, log.list.maxOffset);
    } catch (error) {
      if (!(error instanceof GantryError)) throw error;
      log.pendingCut = keepBelow;
      this.#seldom.warn('cut', `${log.list.logFolder} cannot be cut (${errorText(error)}); it is tried again`);
    }
    this.#savePositions();
  }

  /** LogWatcher: a topic's queues are removed, and its compaction logs with them. */
  topicDeleted(topic: string): void {
    const queues = this.#topics.get(topic);
    if (queues === undefined) return;
    this.#topics.delete(topic);
    for (const { log } of queues.values()) this.#options.positions.set(log.name, -1);
    this.#savePositions();
    for (const entry of queues.values()) {
      entry.timer?.cancel();
      entry.log.cuts++;
      entry.log.interrupt();
      const { name, queueId } = entry.log;
      const gone = this.#settled(name, () => this.#remove(entry), 'removed').then((error) => {
        if (error !== undefined) this.#left.add(name);
        // The topic may have begun anew.
        this.queueCreated(topic, queueId);
        return error;
      });
      this.#busyWith.set(name, gone);
    }
  }

  async #remove({ log, run }: Entry): Promise<void> {
    const { fs, root } = this.#options;
    await log.stop();
    await run.idle();
    log.list.close();
    // Who has chosen records of it must not open its files again.
    log.list.pairs = [];
    if (run.isBegun) await this.#alone(() => dropPlan(fs, root));
    await this.#removeFolders(log.topic, log.queueId);
  }

  /** @throws GantryError IO. */
  async #removeFolders(topic: string, queueId: number): Promise<void> {
    const { fs, root, positions } = this.#options;
    for (const folder of [queueFolderOf(root, topic, queueId), logFolderOf(root, topic, queueId)]) {
      fs.removeTree(folder);
      const above = folder.slice(0, folder.lastIndexOf('/'));
      if (fs.stat(above) !== undefined) await syncFolder(fs, above);
    }
    positions.set(`${topic}_${queueId}`, -1);
    if (positions.changed) await positions.save();
  }

  #savePositions(): void {
    const { positions } = this.#options;
    if (!positions.changed) return;
    try {
      positions.saveNow();
    } catch (error) {
      if (!(error instanceof GantryError)) throw error;
      this.#seldom.warn('positions', `${positions.path} cannot be saved (${errorText(error)}); it is tried again`);
    }
  }

  /** After a start that failed: lets timers and files go as they are. */
  release(): void {
    this.#closed = true;
    for (const timer of this.#timers) timer.cancel();
    for (const { log, timer } of this.#entries()) {
      timer?.cancel();
      log.interrupt();
      log.list.close();
    }
  }

  /** Ends compactions, takes in the rest, makes all durable; false if something is missing: a Java broker must dispatch it again. */
  async close(): Promise<boolean> {
    const { positions, fs, root, clock } = this.#options;
    let whole = await this.#allOpen();
    this.#closed = true;
    for (const timer of this.#timers) timer.cancel();
    for (const { log, run, timer } of this.#entries()) {
      timer?.cancel();
      if (run.isRunning && !run.isBegun) log.cuts++;
    }
    for (const wake of this.#waiting.splice(0)) wake();
    for (const { run } of this.#entries()) await run.idle();
    await this.#scanning;
    // A log that is built anew is not waited for.
    const patience = clock.after(CLOSE_MS, () => {
      for (const { log } of this.#entries()) log.interrupt();
    });
    for (const { log } of this.#entries()) whole = (await log.flush()) && whole;
    patience.cancel();
    for (const { log } of this.#entries()) {
      await log.stop();
      log.list.close();
    }
    if (this.#topics.size === 0) return whole;
    try {
      makeDirectoryDurably(fs, `${root}/${COMPACTION_FOLDER}`);
      await positions.save();
      await syncFolder(fs, root);
    } catch (error) {
      if (!(error instanceof GantryError)) throw error;
      whole = false;
    }
    return whole;
  }
}

/** A full disk is told. @throws every other error. */
function unlessFull(error: unknown, logger: Logger): void {
  if (!(error instanceof GantryError) || error.code !== 'DISK_FULL') throw error;
  logger.warn(`how far topics are compacted cannot be saved (${error.message}); it is tried again`);
}
