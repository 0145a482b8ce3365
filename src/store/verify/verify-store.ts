// Looks through a store that nobody has open: each record of the CommitLog, and whether all that is derived from it is what it says. A start looks
// at what is new in that, not at all of it; what has rotted in older units and files is found here. Nothing is changed; `repairStore` takes what is
// damaged of that which is derived out of the way, and the next start builds it again.

import { javaHashUtf8, silentLogger } from '../../common/index.ts';
import type { FileSystem } from '../../io/index.ts';
import { isCounted, PropertyName, parsePropertyBytes, type RecordView, SysFlag } from '../../message/index.ts';
import { verifyCompaction } from '../compaction/index.ts';
import { canBeFolder } from '../consume-queue/index.ts';
import { delayLevel, deliveryTime, parseDelayLevels, SCHEDULE_TOPIC } from '../dispatch/delay-levels.ts';
import { furtherPlaces, innerRange, mayGoFurther } from '../dispatch/multi-dispatch.ts';
import { RecordProperties } from '../dispatch/record-properties.ts';
import { keyHash, type TopicSeeds, topicSeeds } from '../index-file/index.ts';
import { DeletedTopics } from '../recovery/deleted-topics.ts';
import { BatchCheck } from './batch-check.ts';
import { CompactionCheck } from './compaction-check.ts';
import { DamagedRuns, type Fault } from './fault.ts';
import { IndexCheck } from './index-check.ts';
import { walkLog } from './log-walk.ts';
import { QueueCheck } from './queue-check.ts';
import { TIMER_TOPIC, TimerCheck } from './timer-check.ts';
import { UnitOf } from './unit-of.ts';

export interface VerifyOptions {
  /** Where the log lies; default `commitlog` in the store. */
  commitLog?: string;
  /** The settings that index files were made with. */
  maxHashSlotNum: number;
  maxIndexNum: number;
  /** The settings that delayed messages and timers were taken with. */
  messageDelayLevel: string;
  timerPrecisionMs: number;
  /** Told now and then how many bytes of the log were looked at, of how many at most. */
  progress?: (scanned: number, total: number) => void;
}

export interface StoreReport {
  /** Of the log: files, sound records, first byte and end. */
  readonly files: number;
  readonly records: number;
  readonly start: number;
  readonly end: number;
  /** Plain, light and batch queues; units of these, and ext units. */
  readonly queues: number;
  readonly units: number;
  readonly extUnits: number;
  /** Messages that have no unit yet behind the ends of their queues. A start adds them. */
  readonly lag: number;
  readonly indexFiles: number;
  readonly indexUnits: number;
  /** Units of the timer log, and slots of the wheel that are not done. */
  readonly timerUnits: number;
  readonly timerSlots: number;
  /** Records of compaction logs. */
  readonly compactionRecords: number;
  readonly faults: readonly Fault[];
  /** What was not compared, and why. */
  readonly notes: readonly string[];
}

/** What is known of a topic. */
interface Topic {
  readonly name: string;
  readonly seeds: TopicSeeds;
  /** undefined: no queue of it can be compared. */
  readonly queues: Map<number, QueueCheck> | undefined;
  /** undefined: it has no batch queues. */
  readonly batches: Map<number, BatchCheck> | undefined;
  /** undefined: it has no compaction logs that could be compared. */
  readonly copies: Map<number, CompactionCheck> | undefined;
  /** Records before are of an earlier life. */
  readonly livesFrom: number;
}

/** @throws GantryError IO; CONFIG_VALUE for messageDelayLevel. */
export async function verifyStore(fs: FileSystem, root: string, options: VerifyOptions): Promise<StoreReport> {
  const isClean = fs.stat(`${root}/abort`) === undefined;
  const folder = options.commitLog ?? `${root}/commitlog`;
  const start = Math.min(
    ...fs
      .list(folder)
      .filter((name) => /^\d{20}$/.test(name))
      .map(Number),
  );
  const check = new Check(fs, root, options, start);
  check.index.checkFiles(isClean);
  check.lookAtCopies(isClean);
  const faults: Fault[] = [];
  const log = await walkLog(
    fs,
    folder,
    (bytes, record) => check.record(bytes, record),
    (fault, from, end) => {
      faults.push(fault);
      check.damaged.add(from, end);
      check.index.damagedTo = end;
    },
    options.progress ?? (() => {}),
  );
  check.index.close();
  const { damaged, newestMs, timer, index } = check;
  timer.end({ folder, start: log.start, end: log.end, newestMs, damaged, isClean });
  let [queues, units, extUnits, lag] = [0, 0, 0, 0];
  for (const queue of check.queues()) {
    if (queue instanceof QueueCheck) queue.end(log.end, damaged, isClean);
    else queue.end(log.end, isClean);
    queues++;
    units += queue.units;
    lag += queue.lacks;
    if (queue instanceof QueueCheck) extUnits += queue.extUnits;
    faults.push(...queue.faults);
  }
  faults.push(...index.faults, ...timer.faults, ...check.copyFaults());
  const notes = [...timer.notes, ...check.notes()];
  const { files, records, end } = log;
  return {
    files,
    records,
    start: log.start,
    end,
    queues,
    units,
    extUnits,
    lag,
    indexFiles: index.files.length,
    indexUnits: index.units,
    timerUnits: timer.units,
    timerSlots: timer.slots,
    compactionRecords: check.compactionRecords,
    faults,
    notes,
  };
}

class Check {
  readonly index: IndexCheck;
  readonly timer: TimerCheck;
  readonly damaged: DamagedRuns = new DamagedRuns();
  /** Store time of the newest record. */
  newestMs = 0;
  compactionRecords = 0;
  readonly #fs: FileSystem;
  readonly #root: string;
  readonly #logStart: number;
  readonly #deleted: DeletedTopics;
  readonly #delayLevels: readonly number[];
  readonly #topics = new Map<string, Topic>();
  readonly #properties = new RecordProperties();
  readonly #unit = new UnitOf();
  /** Of whole compaction logs, `topic/queueId`: queue offset up to which they are compacted. */
  readonly #compactedTo = new Map<string, number>();
  readonly #copyFaults: Fault[] = [];
  readonly #notes: string[] = [];
  #lastBytes: Uint8Array = new Uint8Array(0);
  #last: Topic | undefined;

  constructor(fs: FileSystem, root: string, options: VerifyOptions, logStart: number) {
    this.#fs = fs;
    this.#root = root;
    this.#logStart = logStart;
    this.#delayLevels = parseDelayLevels(options.messageDelayLevel);
    this.index = new IndexCheck(fs, `${root}/index`, options.maxHashSlotNum, options.maxIndexNum);
    this.timer = new TimerCheck(fs, root, options.timerPrecisionMs);
    this.#deleted = DeletedTopics.load(fs, root, silentLogger);
  }

  *queues(): Generator<QueueCheck | BatchCheck> {
    for (const { queues, batches } of this.#topics.values()) {
      if (queues !== undefined) yield* queues.values();
      if (batches !== undefined) yield* batches.values();
    }
  }

  /** Looks whether the files of the compaction logs are whole in themselves. `isClean`: a start has nothing to bring to its end in them. */
  lookAtCopies(isClean: boolean): void {
    for (const { topic, queueId, files, compactedTo, faults } of verifyCompaction(this.#fs, this.#root)) {
      for (const file of files) this.compactionRecords += file.records;
      const name = `the compaction log of ${topic} queue ${queueId}`;
      const isUnderWay = faults.some(({ isUnfinished }) => isUnfinished) || this.#deleted.endOf(topic) > 0;
      if (!isClean && isUnderWay) {
        this.#notes.push(
          `${name} was not looked at: its files were being replaced or deleted, which a start brings to an end`,
        );
        continue;
      }
      const real = faults.filter(({ isLag }) => isClean || isLag !== true);
      for (const { file, byte, reason } of real) this.#copyFaults.push({ of: 'compaction', file, byte, reason });
      if (real.every(({ isDetail }) => isDetail)) this.#compactedTo.set(`${topic}/${queueId}`, compactedTo);
      else this.#notes.push(`${name} was not compared with the log: it is not whole in itself`);
    }
  }

  copyFaults(): Fault[] {
    const copies = [...this.#topics.values()].flatMap((topic) => [...(topic.copies?.values() ?? [])]);
    return [...this.#copyFaults, ...copies.flatMap(({ faults }) => faults)];
  }

  notes(): string[] {
    const { otherDelays } = this.#unit;
    if (otherDelays === 0) return this.#notes;
    const other = `${otherDelays} delayed messages have another time of delivery than messageDelayLevel gives them; it may have been changed since`;
    return [...this.#notes, `${other}, and whether these times are right cannot be told`];
  }

  record(bytes: Uint8Array, record: RecordView): void {
    this.newestMs = record.storeTimestamp;
    const topic = this.#topicOf(bytes, record);
    // A torn topic: the record is in no queue.
    if (!canBeFolder(topic.name)) return;
    const p = this.#properties;
    p.scan(bytes, record.propertiesStart, record.propertiesEnd);
    const { physicalOffset } = record;
    if (isCounted(record.sysFlag)) {
      this.#fillUnit(bytes, record, topic);
      if (physicalOffset >= topic.livesFrom) this.#own(bytes, record, topic);
      const goesFurther = p.hasInner && mayGoFurther(topic.name) && (record.sysFlag & SysFlag.INNER_BATCH) === 0;
      if (goesFurther && (topic.batches === undefined || physicalOffset < topic.livesFrom)) this.#light(bytes, record);
    }
    if ((record.sysFlag & SysFlag.TRANSACTION_MASK) === SysFlag.TRANSACTION_ROLLBACK) return;
    const hasTag = p.tagsEnd > p.tagsStart;
    this.index.record(physicalOffset, record.storeTimestamp, this.#hashes(bytes, topic), hasTag, this.#logStart);
  }

  /** As Dispatcher: what the record's units have in common. */
  #fillUnit(bytes: Uint8Array, record: RecordView, { name }: Topic): void {
    const p = this.#properties;
    const unit = this.#unit;
    unit.offset = record.physicalOffset;
    unit.size = record.totalSize;
    unit.storeTimestamp = record.storeTimestamp;
    const isDelayed = name === SCHEDULE_TOPIC && p.delayEnd > p.delayStart;
    const level = isDelayed ? delayLevel(bytes, p.delayStart, p.delayEnd) : 0;
    const time = isDelayed ? deliveryTime(this.#delayLevels, level, record.storeTimestamp) : undefined;
    unit.isDelayed = time !== undefined;
    unit.tagsCode = time ?? (p.tagsEnd > p.tagsStart ? javaHashUtf8(bytes, p.tagsStart, p.tagsEnd) : 0);
  }

  /** Compares what the record's own topic has of it. */
  #own(bytes: Uint8Array, record: RecordView, topic: Topic): void {
    const { queueId, queueOffset } = record;
    if (topic.batches !== undefined) {
      const { propertiesStart, propertiesEnd } = record;
      const { base, count } = innerRange(parsePropertyBytes(bytes, propertiesStart, propertiesEnd), queueOffset);
      const isInner = (record.sysFlag & SysFlag.INNER_BATCH) !== 0;
      this.#batchOf(topic, topic.batches, queueId).record(this.#unit, base, count, isInner);
    } else if ((record.sysFlag & SysFlag.INNER_BATCH) === 0) {
      this.#queueOf(topic, queueId)?.record(queueOffset, this.#unit);
      if (topic.copies !== undefined) this.#copyOf(topic, topic.copies, queueId)?.record(bytes, record);
      if (topic.name === TIMER_TOPIC) this.timer.record(bytes, record);
    }
  }

  /** Light queues that there are: with enableMultiDispatch off they have no units. */
  #light(bytes: Uint8Array, record: RecordView): void {
    const properties = parsePropertyBytes(bytes, record.propertiesStart, record.propertiesEnd);
    if (!properties.has(PropertyName.INNER_MULTI_DISPATCH)) return;
    for (const { name, queueId, ordinal } of furtherPlaces(properties, record.queueId)?.places ?? []) {
      const topic = this.#topic(name);
      if (ordinal < 0 || record.physicalOffset < topic.livesFrom) continue;
      const queue = this.#queueOf(topic, queueId);
      if (queue !== undefined && !queue.isFar(ordinal)) queue.record(ordinal, this.#unit);
    }
  }

  #hashes(bytes: Uint8Array, { seeds }: Topic): number[] {
    const p = this.#properties;
    const hashes: number[] = [];
    if (p.uniqKeyEnd > p.uniqKeyStart) hashes.push(keyHash(seeds.key, bytes, p.uniqKeyStart, p.uniqKeyEnd));
    for (let start = p.keysStart; start < p.keysEnd; ) {
      let end = start;
      while (end < p.keysEnd && bytes[end] !== 0x20) end++;
      if (end > start) hashes.push(keyHash(seeds.key, bytes, start, end));
      start = end + 1;
    }
    if (p.tagsEnd > p.tagsStart) hashes.push(keyHash(seeds.tag, bytes, p.tagsStart, p.tagsEnd));
    return hashes;
  }

  #topicOf(bytes: Uint8Array, { topicStart, topicEnd }: RecordView): Topic {
    const name = bytes.subarray(topicStart, topicEnd);
    if (this.#last !== undefined && Buffer.compare(name, this.#lastBytes) === 0) return this.#last;
    this.#lastBytes = name.slice();
    this.#last = this.#topic(Buffer.from(name).toString('utf8'));
    return this.#last;
  }

  #topic(name: string): Topic {
    let topic = this.#topics.get(name);
    if (topic === undefined) {
      const has = (kind: string): boolean =>
        canBeFolder(name) && this.#fs.stat(`${this.#root}/${kind}/${name}`)?.isDirectory === true;
      const isBatch = has('batchconsumequeue');
      topic = {
        name,
        seeds: topicSeeds(name),
        queues: !isBatch && has('consumequeue') ? new Map() : undefined,
        batches: isBatch ? new Map() : undefined,
        copies: has('compaction/compactionCq') ? new Map() : undefined,
        livesFrom: this.#deleted.endOf(name),
      };
      this.#topics.set(name, topic);
    }
    return topic;
  }

  #queueOf({ name, queues }: Topic, queueId: number): QueueCheck | undefined {
    if (queues === undefined) return undefined;
    let queue = queues.get(queueId);
    if (queue === undefined) {
      queue = new QueueCheck(this.#fs, this.#root, name, queueId);
      queues.set(queueId, queue);
    }
    return queue;
  }

  #batchOf({ name }: Topic, batches: Map<number, BatchCheck>, queueId: number): BatchCheck {
    let queue = batches.get(queueId);
    if (queue === undefined) {
      queue = new BatchCheck(this.#fs, this.#root, name, queueId, this.#logStart, this.damaged);
      batches.set(queueId, queue);
    }
    return queue;
  }

  #copyOf({ name }: Topic, copies: Map<number, CompactionCheck>, queueId: number): CompactionCheck | undefined {
    const compactedTo = this.#compactedTo.get(`${name}/${queueId}`);
    if (compactedTo === undefined) return undefined;
    let copy = copies.get(queueId);
    if (copy === undefined) {
      copy = new CompactionCheck(this.#fs, this.#root, name, queueId, compactedTo);
      copies.set(queueId, copy);
    }
    return copy;
  }
}
