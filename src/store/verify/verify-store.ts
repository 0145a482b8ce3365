// Looks through a store that nobody has open: each record of the CommitLog, and whether ConsumeQueues and index are what it says. A start looks at
// what is new in them, not at all of it; what has rotted in older units and index files is found here. Nothing is changed; `repairStore` takes
// what is damaged of that which is derived out of the way, and the next start builds it again.

import { javaHashUtf8, silentLogger } from '../../common/index.ts';
import { type FileSystem, makeDirectoryDurably } from '../../io/index.ts';
import { isCounted, PropertyName, parsePropertyBytes, type RecordView, SysFlag } from '../../message/index.ts';
import { canBeFolder } from '../consume-queue/index.ts';
import { SCHEDULE_TOPIC } from '../dispatch/delay-levels.ts';
import { furtherPlaces, innerRange, mayGoFurther } from '../dispatch/multi-dispatch.ts';
import { RecordProperties } from '../dispatch/record-properties.ts';
import { keyHash, type TopicSeeds, topicSeeds } from '../index-file/index.ts';
import { DeletedTopics } from '../recovery/deleted-topics.ts';
import { BatchCheck } from './batch-check.ts';
import { IndexCheck } from './index-check.ts';
import { type Fault, walkLog } from './log-walk.ts';
import { QueueCheck } from './queue-check.ts';

export interface VerifyOptions {
  /** Where the log lies; default `commitlog` in the store. */
  commitLog?: string;
  /** The settings that index files were made with. */
  maxHashSlotNum: number;
  maxIndexNum: number;
  /** Told now and then how many bytes of the log were looked at, of how many at most. */
  progress?: (scanned: number, total: number) => void;
}

export interface StoreReport {
  /** Of the log: files, sound records, first byte and end. */
  readonly files: number;
  readonly records: number;
  readonly start: number;
  readonly end: number;
  readonly queues: number;
  readonly units: number;
  /** Messages that have no unit yet behind the ends of their queues. A start adds them. */
  readonly lag: number;
  readonly indexFiles: number;
  readonly indexUnits: number;
  readonly faults: readonly Fault[];
}

/** What is known of a topic. */
interface Topic {
  readonly name: string;
  readonly seeds: TopicSeeds;
  /** undefined: no queue of it can be compared. */
  readonly queues: Map<number, QueueCheck> | undefined;
  /** Of a topic with batch queues. */
  readonly batch: Map<number, BatchCheck> | undefined;
  /** Records before are of an earlier life. */
  readonly livesFrom: number;
}

/** @throws GantryError IO. */
export async function verifyStore(fs: FileSystem, root: string, options: VerifyOptions): Promise<StoreReport> {
  const isClean = fs.stat(`${root}/abort`) === undefined;
  const check = new Check(fs, root, options);
  check.index.checkFiles(isClean);
  const faults: Fault[] = [];
  const folder = options.commitLog ?? `${root}/commitlog`;
  const start = Math.min(
    ...fs
      .list(folder)
      .filter((name) => /^\d{20}$/.test(name))
      .map(Number),
  );
  const log = await walkLog(
    fs,
    folder,
    (bytes, record) => check.record(bytes, record, start),
    (fault, end) => {
      faults.push(fault);
      check.index.damagedTo = end;
    },
    options.progress ?? (() => {}),
  );
  check.index.close();
  let [queues, units, lag] = [0, 0, 0];
  for (const queue of check.queues()) {
    queue.end(log.end);
    queues++;
    units += queue.units;
    lag += queue.lacks;
    faults.push(...queue.faults);
  }
  faults.push(...check.index.faults);
  const { files, records, end } = log;
  const indexFiles = check.index.files.length;
  return {
    files,
    records,
    start: log.start,
    end,
    queues,
    units,
    lag,
    indexFiles,
    indexUnits: check.index.units,
    faults,
  };
}

class Check {
  readonly index: IndexCheck;
  readonly #fs: FileSystem;
  readonly #root: string;
  readonly #deleted: DeletedTopics;
  readonly #topics = new Map<string, Topic>();
  readonly #properties = new RecordProperties();
  #lastBytes: Uint8Array = new Uint8Array(0);
  #last: Topic | undefined;

  constructor(fs: FileSystem, root: string, { maxHashSlotNum, maxIndexNum }: VerifyOptions) {
    this.#fs = fs;
    this.#root = root;
    this.index = new IndexCheck(fs, `${root}/index`, maxHashSlotNum, maxIndexNum);
    this.#deleted = DeletedTopics.load(fs, root, silentLogger);
  }

  *queues(): Generator<QueueCheck | BatchCheck> {
    for (const { queues, batch } of this.#topics.values()) {
      if (queues !== undefined) yield* queues.values();
      if (batch !== undefined) yield* batch.values();
    }
  }

  record(bytes: Uint8Array, record: RecordView, logStart: number): void {
    const topic = this.#topicOf(bytes, record);
    // A torn topic: the record is in no queue.
    if (!canBeFolder(topic.name)) return;
    const p = this.#properties;
    p.scan(bytes, record.propertiesStart, record.propertiesEnd);
    const { physicalOffset, totalSize } = record;
    if (isCounted(record.sysFlag) && topic.batch !== undefined && physicalOffset >= topic.livesFrom)
      this.#batch(topic.name, topic.batch, bytes, record, logStart);
    if (isCounted(record.sysFlag) && (record.sysFlag & SysFlag.INNER_BATCH) === 0) {
      const isDelayed = topic.name === SCHEDULE_TOPIC && p.delayEnd > p.delayStart;
      let tagsCode = p.tagsEnd > p.tagsStart ? javaHashUtf8(bytes, p.tagsStart, p.tagsEnd) : 0;
      // Of a delayed message it is the time of its delivery, which the settings decide.
      if (isDelayed) tagsCode = Number.NaN;
      if (physicalOffset >= topic.livesFrom)
        this.#queueOf(topic, record.queueId)?.record(record.queueOffset, physicalOffset, totalSize, tagsCode);
      if (p.hasInner && mayGoFurther(topic.name)) this.#light(bytes, record, tagsCode);
    }
    if ((record.sysFlag & SysFlag.TRANSACTION_MASK) !== SysFlag.TRANSACTION_ROLLBACK)
      this.index.record(physicalOffset, this.#hashes(bytes, topic), p.tagsEnd > p.tagsStart, logStart);
  }

  #batch(
    topic: string,
    queues: Map<number, BatchCheck>,
    bytes: Uint8Array,
    record: RecordView,
    logStart: number,
  ): void {
    const { queueId, queueOffset, physicalOffset, totalSize, storeTimestamp } = record;
    let queue = queues.get(queueId);
    if (queue === undefined) {
      queue = new BatchCheck(this.#fs, this.#root, topic, queueId, logStart);
      queues.set(queueId, queue);
    }
    const { tagsStart, tagsEnd } = this.#properties;
    const tag = tagsEnd > tagsStart ? javaHashUtf8(bytes, tagsStart, tagsEnd) : 0;
    const properties = parsePropertyBytes(bytes, record.propertiesStart, record.propertiesEnd);
    const { base, count } = innerRange(properties, queueOffset);
    const isInner = (record.sysFlag & SysFlag.INNER_BATCH) !== 0;
    queue.record({ physicalOffset, size: totalSize, tag, storeTimestamp, base, count, isInner });
  }

  /** Light queues that there are: with enableMultiDispatch off they have no units. */
  #light(bytes: Uint8Array, record: RecordView, tagsCode: number): void {
    const properties = parsePropertyBytes(bytes, record.propertiesStart, record.propertiesEnd);
    if (!properties.has(PropertyName.INNER_MULTI_DISPATCH)) return;
    for (const { name, queueId, ordinal } of furtherPlaces(properties, record.queueId)?.places ?? []) {
      const topic = this.#topic(name);
      if (ordinal < 0 || record.physicalOffset < topic.livesFrom) continue;
      this.#queueOf(topic, queueId)?.record(ordinal, record.physicalOffset, record.totalSize, tagsCode);
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
      const hasQueues = canBeFolder(name) && this.#fs.stat(`${this.#root}/consumequeue/${name}`)?.isDirectory === true;
      const queues = hasQueues ? new Map<number, QueueCheck>() : undefined;
      const hasBatch =
        canBeFolder(name) && this.#fs.stat(`${this.#root}/batchconsumequeue/${name}`)?.isDirectory === true;
      const batch = hasBatch ? new Map<number, BatchCheck>() : undefined;
      topic = { name, seeds: topicSeeds(name), queues, batch, livesFrom: this.#deleted.endOf(name) };
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
}

/**
 * Takes damaged queues, and the index from its first damaged file on, out of the way, into `gantry/derived-damaged`; the next start builds them
 * again. Nobody may have the store open. Answers what was moved where. @throws GantryError IO.
 */
export function repairStore(
  fs: FileSystem,
  root: string,
  { faults }: StoreReport,
): Array<{ from: string; to: string }> {
  const aside = `${root}/gantry/derived-damaged`;
  const moved: Array<{ from: string; to: string }> = [];
  const move = (from: string, name: string): void => {
    makeDirectoryDurably(fs, aside);
    let to = `${aside}/${name}`;
    for (let n = 2; fs.stat(to) !== undefined; n++) to = `${aside}/${name}.${n}`;
    fs.rename(from, to);
    fs.syncDirectory(aside);
    fs.syncDirectory(from.slice(0, from.lastIndexOf('/')));
    moved.push({ from, to });
  };
  const folders = new Set(
    faults.filter(({ of }) => of === 'queue').map(({ file }) => file.slice(0, file.lastIndexOf('/'))),
  );
  for (const folder of folders) if (fs.stat(folder) !== undefined) move(folder, folder.split('/').slice(-2).join('-'));
  const damaged = faults
    .filter(({ of }) => of === 'index')
    .map(({ file }) => file)
    .sort();
  const [first] = damaged;
  if (first === undefined) return moved;
  // The newest first: a file behind a gap would be taken for the next one.
  const files = fs
    .list(`${root}/index`)
    .filter((name) => /^\d{17}$/.test(name))
    .sort()
    .reverse();
  for (const name of files) if (`${root}/index/${name}` >= first) move(`${root}/index/${name}`, `index-${name}`);
  return moved;
}
