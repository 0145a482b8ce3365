// Compacts one log: the newest record of each key stays, in new files, which take the place of the old ones.
//
//   all files but the last ─► the keys of what has come since the last compaction ─► records that stay ─► compacting/ ─► replacement.ts
//
//   stays: what is behind the last key that was looked at; else what is not older than its key's newest, if it has a body
//
// A record without a body says that its key is gone: it goes with the older ones. RocketMQ: CompactionLog#compactAndReplace, #shouldRetainMsg.

import { COMPACTING_FOLDER } from './compaction-format.ts';
import type { CompactionLog } from './compaction-log.ts';
import { mendRecord, mendUnits } from './mending.ts';
import { OffsetMap } from './offset-map.ts';
import { FilePair, PairList } from './pair-list.ts';
import { KeyLook } from './record-copy.ts';
import { walkRecords } from './record-walk.ts';
import { dropPlan, moveUp, type ReplacementPlan, removeOld, savePlan } from './replacement.ts';
import { nextTurn } from './waits.ts';

/** Time between two lines about a long compaction. */
const TELL_MS = 10_000;

/** What one compaction did; for the log and tests. */
export interface CompactionOutcome {
  readonly records: number;
  readonly kept: number;
  readonly files: number;
  readonly filesBefore: number;
}

/** Thrown when something was cut meanwhile: what was made is dropped. */
class Overtaken extends Error {}

export class CompactionRun {
  readonly #log: CompactionLog;
  readonly #mostKeys: number;
  /** Runs a replacement when no other one is under way: there is one plan. */
  readonly #alone: (work: () => Promise<void>) => Promise<void>;
  /** A replacement that was begun and must be finished. */
  #begun: { plan: ReplacementPlan; old: FilePair[]; made: PairList } | undefined;
  #running: Promise<CompactionOutcome | undefined> | undefined;

  constructor(log: CompactionLog, mostKeys: number, alone: (work: () => Promise<void>) => Promise<void>) {
    this.#log = log;
    this.#mostKeys = mostKeys;
    this.#alone = alone;
  }

  get isRunning(): boolean {
    return this.#running !== undefined;
  }

  /** Resolves when no compaction is under way. */
  async idle(): Promise<void> {
    await this.#running?.catch(() => {});
  }

  /** Whether files are on their way: they must be where they belong before anything of them is cut. */
  get isBegun(): boolean {
    return this.#begun !== undefined;
  }

  /** Queue offset behind the last record of those files; 0 without any. */
  get begunBelow(): number {
    return this.#begun === undefined ? 0 : this.#begun.old.at(-1)!.lastOffset + 1;
  }

  /** Goes on with a replacement that an error has held up. @throws GantryError IO, DISK_FULL: it has to be gone on with. */
  async goOn(): Promise<void> {
    if (this.#begun === undefined || this.#running !== undefined) return;
    this.#running = this.#finish()
      .then(() => undefined)
      .finally(() => {
        this.#running = undefined;
      });
    await this.#running;
  }

  /** Compacts what there is to compact; undefined if there is nothing. @throws GantryError IO, DISK_FULL; it may be tried again. */
  run(): Promise<CompactionOutcome | undefined> {
    this.#running ??= this.#run().finally(() => {
      this.#running = undefined;
    });
    return this.#running;
  }

  async #run(): Promise<CompactionOutcome | undefined> {
    if (this.#begun !== undefined) await this.#finish();
    const log = this.#log;
    const { list, host, name } = log;
    if (!log.takeFromMemory()) await log.takeLater();
    const old = list.pairs.slice(0, -1);
    const position = host.positions.get(name);
    const fresh = old.filter((pair) => pair.lastOffset > position);
    if (fresh.length === 0) return undefined;
    const started = host.clock.monotonic();
    const progress = new Progress(log, 2 * sum(old, (pair) => pair.units));
    // What is newest by records that may be lost would be missing then.
    const { cuts } = log;
    await log.flush();
    if (cuts !== log.cuts || log.durable <= old.at(-1)!.lastOffset || list.pairs[old.length - 1] !== old.at(-1))
      return undefined;
    for (const pair of old) {
      mendUnits(log, pair);
      await nextTurn(host.clock);
    }
    const check = (): void => {
      if (cuts !== log.cuts) throw new Overtaken();
    };
    let made: PairList | undefined;
    try {
      const map = await this.#newest(fresh, position, check, progress);
      made = this.#freshList();
      const kept = await this.#keep(old, map, made, check, progress);
      await made.sync();
      check();
      const plan: ReplacementPlan = {
        topic: log.topic,
        queueId: log.queueId,
        remove: old.map(({ base }) => base),
        put: made.pairs.map(({ base }) => base),
        position: map.lastOffset,
      };
      const files = made.pairs.length;
      // If what lies behind them is cut, what is taken in again must not go into files that are being replaced.
      for (const pair of old) pair.isClosed = true;
      this.#begun = { plan, old, made };
      await this.#finish();
      const ms = Math.round(host.clock.monotonic() - started);
      const records = sum(old, (pair) => pair.units);
      host.logger.info(
        `${log.topic} queue ${log.queueId} is compacted up to ${map.lastOffset}: ${kept} of ${records} records in ${files} of ${old.length} files, ${ms} ms`,
      );
      return { records, kept, files, filesBefore: old.length };
    } catch (error) {
      if (this.#begun === undefined) {
        made?.close();
        for (const folder of [list.logFolder, list.queueFolder]) list.fs.removeTree(`${folder}/${COMPACTING_FOLDER}`);
      }
      if (error instanceof Overtaken) return undefined;
      throw error;
    }
  }

  /** The newest message of each key among those behind `position`; as many keys as there is room for. */
  async #newest(fresh: FilePair[], position: number, check: () => void, progress: Progress): Promise<OffsetMap> {
    const { clock, reads, logger } = this.#log.host;
    const map = new OffsetMap(
      this.#mostKeys,
      sum(fresh, (pair) => pair.units),
    );
    const key = new KeyLook();
    let isFull = false;
    for (const pair of fresh) {
      await walkRecords(clock, reads, pair, 0, {
        record: (bytes, _start, record, unit) => {
          progress.done++;
          if (isFull || unit.queueOffset <= position || !key.look(bytes, record)) return;
          isFull = !map.put(bytes, key.keyStart, key.keyEnd, unit.queueOffset);
        },
        damaged: async (unit, reason) => void (await mendRecord(this.#log, pair, unit, reason)),
        goesOn: () => {
          check();
          progress.tell();
          return !isFull;
        },
      });
      if (isFull) break;
    }
    if (isFull) {
      logger.warn(
        `${this.#log.topic} queue ${this.#log.queueId}: maxOffsetMapSize has room for ${map.count} keys; what is behind ${map.lastOffset} is compacted next time`,
      );
    }
    return map;
  }

  /** A list in the folders for new files, which are emptied. */
  #freshList(): PairList {
    const { fs, logFolder, queueFolder, sizes } = this.#log.list;
    const folders = [logFolder, queueFolder].map((folder) => `${folder}/${COMPACTING_FOLDER}`);
    for (const folder of folders) fs.removeTree(folder);
    return new PairList(fs, folders[0]!, folders[1]!, sizes);
  }

  /** Copies what stays; how many records. A damaged record that nothing can mend is left out: it stays aside, in the store's own folder. */
  async #keep(old: FilePair[], map: OffsetMap, made: PairList, check: () => void, progress: Progress): Promise<number> {
    const { clock, reads } = this.#log.host;
    const key = new KeyLook();
    let kept = 0;
    const take = (
      bytes: Uint8Array,
      start: number,
      record: Parameters<KeyLook['look']>[1],
      queueOffset: number,
    ): void => {
      if (!key.look(bytes, record)) return;
      const stays =
        queueOffset > map.lastOffset ||
        (record.bodyEnd > record.bodyStart && queueOffset >= map.get(bytes, key.keyStart, key.keyEnd));
      if (!stays) return;
      made.append(bytes, start, record.totalSize, key.tagsCode, record.storeTimestamp, queueOffset);
      kept++;
    };
    for (const pair of old) {
      await walkRecords(clock, reads, pair, 0, {
        record: (bytes, start, record, unit) => {
          progress.done++;
          take(bytes, start, record, unit.queueOffset);
        },
        damaged: async (unit, reason) => {
          const mended = await mendRecord(this.#log, pair, unit, reason, true);
          if (mended !== undefined) take(mended.bytes, 0, mended.record, unit.queueOffset);
        },
        goesOn: () => {
          check();
          made.writeOut();
          progress.tell();
          return true;
        },
      });
    }
    made.writeOut();
    return kept;
  }

  /** Carries the replacement out, or goes on with it. @throws GantryError IO, DISK_FULL: it has to be gone on with. */
  async #finish(): Promise<void> {
    await this.#alone(async () => {
      const log = this.#log;
      const { list, host, reads } = log;
      const { fs, logFolder, queueFolder, sizes } = list;
      const { plan, old, made } = this.#begun!;
      // Names change: who reads goes on with the open files.
      for (const { log: file, queue } of old) {
        file.handle();
        queue.handle();
      }
      await savePlan(fs, host.root, plan);
      await moveUp(fs, logFolder, plan);
      await moveUp(fs, queueFolder, plan);
      const fresh = made.pairs.map((from) => {
        const pair = new FilePair(fs, logFolder, queueFolder, from.base, sizes);
        pair.logEnd = pair.logWritten = from.logEnd;
        pair.units = pair.unitsWritten = from.units;
        pair.firstOffset = from.firstOffset;
        pair.lastOffset = from.lastOffset;
        pair.isClosed = true;
        return pair;
      });
      if (list.pairs[0] === old[0]) {
        list.pairs = [...fresh, ...list.pairs.slice(old.length)];
        reads.generation++;
        // What is to be cut afterwards is not seen again.
        reads.maxOffset = Math.min(list.maxOffset, log.pendingCut ?? Number.POSITIVE_INFINITY);
      }
      made.close();
      for (const pair of old) {
        host.cache.forget(pair.log);
        host.cache.forget(pair.queue);
        pair.close();
      }
      // As long as old names are there a start knows by them that the plan is of these files.
      host.positions.set(log.name, plan.position);
      await host.positions.save();
      await removeOld(fs, logFolder);
      await removeOld(fs, queueFolder);
      await dropPlan(fs, host.root);
      this.#begun = undefined;
    });
  }
}

/** Tells of a long compaction now and then. */
class Progress {
  done = 0;
  readonly #log: CompactionLog;
  readonly #all: number;
  #told: number;

  constructor(log: CompactionLog, all: number) {
    this.#log = log;
    this.#all = all;
    this.#told = log.host.clock.monotonic();
  }

  tell(): void {
    const { topic, queueId, host } = this.#log;
    const now = host.clock.monotonic();
    if (now - this.#told < TELL_MS) return;
    this.#told = now;
    host.logger.info(`${topic} queue ${queueId} is being compacted: ${Math.round((100 * this.done) / this.#all)} %`);
  }
}

function sum(pairs: readonly FilePair[], of: (pair: FilePair) => number): number {
  return pairs.reduce((total, pair) => total + of(pair), 0);
}
