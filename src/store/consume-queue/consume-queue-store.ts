// All ConsumeQueues of a store: found by topic and queueId, written back a few at a time, loaded and cut at the start.
//
// Writing back: a queue joins `#toWrite` when 4 KiB of its tail wait, and `#all waiting` are bounded by a budget; each `sweep`
// (once per loop turn that dispatched something) writes a bounded number of them. Files are made when first written, never by a put.
// Making durable: `flush` writes every tail, syncs every file that changed and then the folders, in slices, off the loop;
// only then may the caller publish a position (I5).

import { assert, type Clock, type GantryError, type Logger } from '../../common/index.ts';
import type { FileSystem } from '../../io/index.ts';
import { cutSegments, type ReadCache, type Ready, type SegmentFile, segmentAt } from '../segment/index.ts';
import { ConsumeQueue, CQ_UNIT_BYTES, FILLER_SIZE, type UnitPut, WRITE_UNITS } from './consume-queue.ts';
import type { ConsumeQueueExt } from './consume-queue-ext.ts';
import { QueueFolders } from './queue-folders.ts';
import { UnsyncedFiles } from './unsynced-files.ts';

/** Queues written in one sweep; a write to an open file costs some 2 to 7 microseconds. */
const WRITES_PER_SWEEP = 32;
/** Files made in one sweep. */
const CREATES_PER_SWEEP = 8;
/**
 * Tail bytes of all queues that may wait before the oldest are written although they hold less than 4 KiB: with 100,000 queues 32 units each.
 * A write to a queue whose file is not open takes some 40 microseconds, and the first one, which makes file and folders, 200.
 */
const WAITING_BUDGET_BYTES = 64 * 1024 * 1024;
/** Open files kept. */
const MAX_OPEN = 256;
/** Filler units written at once. */
const FILLER_STEP_UNITS = 3200;
/** Queues handled before the loop gets a turn. */
const FLUSH_SLICE = 64;
const PAGE_BYTES = 4096;

export interface ConsumeQueueStoreOptions {
  fs: FileSystem;
  clock: Clock;
  logger: Logger;
  /** `<root>/consumequeue`. */
  root: string;
  /** Bytes of one file; rounded up to a multiple of 20. */
  fileSize: number;
  cache: ReadCache;
}

/** The queues of one topic, with what dispatch needs to find them from a record's bytes. */
export interface TopicQueues {
  readonly topic: string;
  readonly bytes: Uint8Array;
  /** By queueId; sparse. Emptied when the topic is removed. */
  readonly queues: ConsumeQueue[];
}

/** Bytes of a name that every file system takes, and characters that are surely no more. */
const MOST_NAME_BYTES = 255;
const SHORT_NAME = 85;

/** Whether queues of a topic of this name can have a folder: torn bytes of a record, a path, or what no file system takes, cannot. */
export function canBeFolder(topic: string): boolean {
  if (topic.length > SHORT_NAME && Buffer.byteLength(topic) > MOST_NAME_BYTES) return false;
  return topic !== '' && topic !== '.' && topic !== '..' && !topic.includes('/') && !topic.includes('\0');
}

export class ConsumeQueueStore {
  /** Told of what goes, so that the ext units go with it. */
  ext: ConsumeQueueExt | undefined;
  readonly #options: ConsumeQueueStoreOptions;
  readonly #fs: FileSystem;
  readonly unitsPerFile: number;
  readonly fileSize: number;
  /** Syncs under way at once: few while the store runs, since others need the pool, too. */
  syncLanes = 2;
  readonly #topics = new Map<string, TopicQueues>();
  /** Queues with 4 KiB or more to write, oldest first. */
  #full: ConsumeQueue[] = [];
  /** Queues with anything to write, oldest first. */
  #waiting: ConsumeQueue[] = [];
  #waitingUnits = 0;
  readonly #folders: QueueFolders;
  readonly #unsynced: UnsyncedFiles<ConsumeQueue>;
  #created = 0;

  constructor(options: ConsumeQueueStoreOptions) {
    this.#options = options;
    this.#fs = options.fs;
    this.fileSize = Math.ceil(options.fileSize / CQ_UNIT_BYTES) * CQ_UNIT_BYTES;
    this.unitsPerFile = this.fileSize / CQ_UNIT_BYTES;
    const setting = 'mappedFileSizeConsumeQueue';
    const { fileSize } = this;
    this.#folders = new QueueFolders({ ...options, fileSize, setting, unitBytes: CQ_UNIT_BYTES, mostOpen: MAX_OPEN });
    this.#unsynced = new UnsyncedFiles({
      ...options,
      folders: this.#folders,
      onSynced: (queue, file, written) => {
        queue.synced = Math.max(queue.synced, Math.min(written, file.end / CQ_UNIT_BYTES));
      },
    });
  }

  /** The queue, if it exists. */
  find(topic: string, queueId: number): ConsumeQueue | undefined {
    return this.#topics.get(topic)?.queues[queueId];
  }

  /** Told of each queue that is made or found. */
  onCreated: ((topic: string, queueId: number) => void) | undefined;

  /** The queue, made (without any file) if it does not exist. Requires that the topic `canBeFolder`. */
  findOrCreate(topic: string, queueId: number): ConsumeQueue {
    const queues = this.topic(topic).queues;
    let queue = queues[queueId];
    if (queue === undefined) {
      assert(canBeFolder(topic), 'a queue of a topic that cannot be a folder');
      queue = new ConsumeQueue(topic, queueId, `${this.#options.root}/${topic}/${queueId}`, this.unitsPerFile);
      queues[queueId] = queue;
      this.onCreated?.(topic, queueId);
    }
    return queue;
  }

  /** All queues of a topic, made (empty) if there are none. */
  topic(topic: string): TopicQueues {
    let entry = this.#topics.get(topic);
    if (entry === undefined) {
      entry = { topic, bytes: Buffer.from(topic, 'utf8'), queues: [] };
      this.#topics.set(topic, entry);
    }
    return entry;
  }

  /** Whether a topic has a queue. */
  has(topic: string): boolean {
    return this.#topics.has(topic);
  }

  *all(): IterableIterator<ConsumeQueue> {
    for (const entry of this.#topics.values()) for (const queue of entry.queues) if (queue !== undefined) yield queue;
  }

  /** Puts a unit (ConsumeQueue.put); the queue will be written when it is worth it. */
  put(queue: ConsumeQueue, physicalOffset: number, size: number, tagsCode: number, ordinal: number): UnitPut {
    const before = queue.waiting;
    const outcome = queue.put(physicalOffset, size, tagsCode, ordinal);
    const after = queue.waiting;
    this.#waitingUnits += after - before;
    if (!queue.listed && after > 0) {
      queue.listed = true;
      this.#waiting.push(queue);
    }
    if (before < WRITE_UNITS && after >= WRITE_UNITS) this.#full.push(queue);
    return outcome;
  }

  /** Writes a bounded number of tails; call it once per loop turn that dispatched. Answers true if more wait than the budget allows. */
  sweep(): boolean {
    let writes = WRITES_PER_SWEEP;
    let at = 0;
    while (at < this.#full.length && writes > 0 && this.#created < CREATES_PER_SWEEP) {
      const queue = this.#full[at++]!;
      if (queue.waiting < WRITE_UNITS) continue;
      this.#write(queue);
      writes--;
    }
    this.#full.splice(0, at);
    at = 0;
    while (this.#waitingUnits * CQ_UNIT_BYTES > WAITING_BUDGET_BYTES && at < this.#waiting.length && writes > 0) {
      const queue = this.#waiting[at++]!;
      queue.listed = false;
      if (queue.waiting > 0) {
        this.#write(queue);
        writes--;
      }
    }
    this.#waiting.splice(0, at);
    this.#created = 0;
    return this.#waitingUnits * CQ_UNIT_BYTES > WAITING_BUDGET_BYTES || this.#full.length > 0;
  }

  /**
   * Writes every tail, syncs what changed, then the folders of new files. What was put before the call is durable when `done` runs
   * without an error. A file whose sync failed is written again and synced by the next flush.
   */
  flush(done: (error: GantryError | undefined) => void): void {
    const queues = this.#waiting;
    this.#waiting = [];
    this.#full = [];
    let at = 0;
    const writeSlice = (): void => {
      const end = Math.min(at + FLUSH_SLICE, queues.length);
      try {
        for (; at < end; at++) {
          const queue = queues[at]!;
          queue.listed = false;
          if (queue.waiting > 0) this.#write(queue);
        }
      } catch (error) {
        for (const queue of queues.slice(at)) {
          // One that was cut meanwhile has nothing to write, and is listed again with its next unit.
          queue.listed = queue.waiting > 0;
          if (queue.listed && !this.#waiting.includes(queue)) this.#waiting.push(queue);
        }
        return done(error as GantryError);
      }
      if (at < queues.length) this.#options.clock.soon(writeSlice);
      else this.#unsynced.sync([...this.#unsynced.all()], this.syncLanes, done);
    };
    writeSlice();
  }

  /**
   * Syncs the files that hold at least so many pages of 4 KiB that are written and not synced, or are full. RocketMQ:
   * MappedFile#isAbleToFlush. What waits in the tails is not touched.
   */
  syncPages(leastPages: number, done: (error: GantryError | undefined) => void): void {
    const files: Array<[SegmentFile, ConsumeQueue]> = [];
    for (const entry of this.#unsynced.all()) {
      const [file, queue] = entry;
      const written = Math.min(queue.written * CQ_UNIT_BYTES, file.end) - file.base;
      const synced = Math.max(0, queue.synced * CQ_UNIT_BYTES - file.base);
      const pages = Math.floor(written / PAGE_BYTES) - Math.floor(synced / PAGE_BYTES);
      if (pages >= leastPages || written === file.size) files.push(entry);
    }
    if (files.length === 0) done(undefined);
    else this.#unsynced.sync(files, this.syncLanes, done);
  }

  /**
   * Copies up to `count` units from `ordinal` on to `target`; answers how many, or -1 if a block had to be asked for (`ready` as in
   * ReadCache.copy). Stays within one block of one file, so that a repeated call always gets on.
   */
  readUnits(queue: ConsumeQueue, ordinal: number, count: number, target: Uint8Array, ready: Ready): number {
    const end = Math.min(queue.maxOffset, ordinal + count);
    if (queue.inTail(ordinal)) {
      target.set(queue.tail.subarray(queue.tailAt(ordinal), queue.tailAt(end)));
      return end - ordinal;
    }
    const byte = ordinal * CQ_UNIT_BYTES;
    const file = segmentAt(queue.files, byte);
    if (file === undefined) return 0;
    const position = byte - file.base;
    const blockEnd = (Math.floor(position / this.#options.cache.blockBytes) + 1) * this.#options.cache.blockBytes;
    const stop = Math.min(end, queue.tailStart, (file.base + Math.min(blockEnd, file.size)) / CQ_UNIT_BYTES);
    const length = (stop - ordinal) * CQ_UNIT_BYTES;
    this.#folders.handle(file);
    const limit = Math.min(queue.written * CQ_UNIT_BYTES, file.end) - file.base;
    const copied = this.#options.cache.copy(file, position, length, limit, target, 0, ready);
    return copied === length ? stop - ordinal : -1;
  }

  /** As `readUnits`, at once; for the start. */
  readUnitsSync(queue: ConsumeQueue, ordinal: number, count: number, target: Uint8Array): number {
    const end = Math.min(queue.maxOffset, ordinal + count);
    if (ordinal >= end) return 0;
    if (queue.inTail(ordinal)) {
      target.set(queue.tail.subarray(queue.tailAt(ordinal), queue.tailAt(end)));
      return end - ordinal;
    }
    const byte = ordinal * CQ_UNIT_BYTES;
    const file = segmentAt(queue.files, byte);
    if (file === undefined) return 0;
    const stop = Math.min(end, queue.tailStart, file.end / CQ_UNIT_BYTES);
    const length = (stop - ordinal) * CQ_UNIT_BYTES;
    return this.#folders.handle(file).readSync(target, 0, length, byte - file.base) / CQ_UNIT_BYTES;
  }

  /** As `readUnits`, past the cache: for single look-ups that nobody repeats. Answers the number of units. @throws GantryError IO. */
  readUnitsOnce(queue: ConsumeQueue, ordinal: number, count: number, target: Uint8Array): Promise<number> {
    const end = Math.min(queue.maxOffset, ordinal + count);
    const file = segmentAt(queue.files, ordinal * CQ_UNIT_BYTES);
    if (ordinal >= end || queue.inTail(ordinal) || file === undefined) {
      return Promise.resolve(this.readUnitsSync(queue, ordinal, count, target));
    }
    const stop = Math.min(end, queue.tailStart, file.end / CQ_UNIT_BYTES);
    const position = ordinal * CQ_UNIT_BYTES - file.base;
    const handle = this.#folders.handle(file);
    file.pin();
    return new Promise((resolve, reject) => {
      handle.read(target, 0, (stop - ordinal) * CQ_UNIT_BYTES, position, (error, got) => {
        file.unpin();
        if (error === undefined) resolve(got / CQ_UNIT_BYTES);
        else reject(error);
      });
    });
  }

  /** Whether a queue's oldest file holds nothing that can be read. The last file stays: it says where the queue ends. */
  firstFileExpired(queue: ConsumeQueue): boolean {
    return queue.files.length > 1 && queue.files[0]!.end <= queue.minOffset * CQ_UNIT_BYTES;
  }

  /** Removes a queue's oldest file, off the loop and durably. @throws GantryError IO: the file is still the queue's. */
  removeFirstFile(queue: ConsumeQueue): Promise<void> {
    const file = queue.files.shift()!;
    this.#forget(file);
    return new Promise((resolve, reject) => {
      this.#fs.removeLater(file.path, (error) => {
        if (error === undefined) return resolve();
        if (queue.files[0]?.base === file.end) queue.files.unshift(file);
        reject(error);
      });
    });
  }

  /** Finds every queue on disk, without opening a file. @throws GantryError STORE_FILE_SIZE, STORE_DAMAGED. */
  load(): void {
    for (const { topic, queueId, files } of this.#folders.load()) this.findOrCreate(topic, queueId).files = files;
  }

  /** Files and folders that a killed process made may be in the cache alone: the next flush makes their names durable. */
  doubtNames(queue: ConsumeQueue): void {
    queue.namesInDoubt = false;
    this.#folders.doubtNames(queue);
  }

  /** Makes units from `ordinal` on dead, in memory and, durably, on disk. `force`: even if nothing says that the files hold any. */
  cut(queue: ConsumeQueue, ordinal: number, maxPhysicalEnd: number, force = false): void {
    this.ext?.beforeCut(this, queue, ordinal, true);
    const byte = ordinal * CQ_UNIT_BYTES;
    for (const file of queue.files) {
      if (file.end <= byte) continue;
      this.#options.cache.forget(file);
      if (file.base >= byte) this.#forget(file);
    }
    const onDisk = Math.max(queue.written, queue.foundEnd);
    queue.foundEnd = Math.min(queue.foundEnd, ordinal);
    if (force || onDisk > ordinal || (queue.files.at(-1)?.base ?? 0) > byte) {
      cutSegments(this.#fs, queue.folder, queue.files, byte);
      const last = queue.files.at(-1);
      if (last !== undefined) this.#folders.opened(last);
    }
    this.dropTail(queue, ordinal, maxPhysicalEnd);
  }

  /** Forgets units from `ordinal` on, in memory; their bytes in the files stay until they are overwritten or cut. */
  dropTail(queue: ConsumeQueue, ordinal: number, maxPhysicalEnd: number): void {
    this.ext?.beforeCut(this, queue, ordinal, false);
    this.#waitingUnits -= queue.waiting;
    queue.cutTo(ordinal, maxPhysicalEnd);
    this.#waitingUnits += queue.waiting;
    for (const file of queue.files) if (file.end > ordinal * CQ_UNIT_BYTES) this.#options.cache.forget(file);
  }

  /**
   * Lets a queue that has nothing go on at `ordinal`: the messages before are gone from the log. Its file is filled up to there, so that
   * every broker takes it from it; `flush` makes that durable.
   */
  beginAt(queue: ConsumeQueue, ordinal: number): void {
    assert(queue.isFresh, 'a queue that holds something begins anew');
    const end = ordinal * CQ_UNIT_BYTES;
    const file = this.#create(queue, end);
    const fillers = fillerUnits(Math.min(this.unitsPerFile, FILLER_STEP_UNITS));
    for (let at = file.base; at < end; at += fillers.length) {
      this.#folders.handle(file).writeSync(fillers, 0, Math.min(fillers.length, end - at), at - file.base);
    }
    queue.resetTo(ordinal, -1);
    queue.minOffset = ordinal;
    this.#unsynced.add(file, queue);
  }

  /** Removes a queue's files and starts it afresh: they hold nothing that belongs to it. */
  clear(queue: ConsumeQueue): void {
    this.ext?.cleared(queue);
    for (const file of queue.files) {
      this.#forget(file);
      this.#fs.remove(file.path);
    }
    if (queue.files.length > 0) this.#folders.dirty.add(queue.folder);
    queue.files = [];
    this.#waitingUnits -= queue.waiting;
    queue.foundEnd = 0;
    queue.minOffset = 0;
    queue.minPhysicalOffset = -1;
    queue.resetTo(0, -1);
  }

  /** Removes one queue and its folder. */
  removeQueue(queue: ConsumeQueue): void {
    this.clear(queue);
    this.ext?.removedQueue(queue);
    this.#folders.remove(queue);
    const queues = this.#topics.get(queue.topic)?.queues;
    if (queues === undefined) return;
    delete queues[queue.queueId];
    if (queues.every((other) => other === undefined)) this.remove(queue.topic);
  }

  /** Removes a topic's queues and files. */
  remove(topic: string): void {
    const entry = this.#topics.get(topic);
    if (entry === undefined) return;
    this.ext?.removedTopic(topic);
    this.#topics.delete(topic);
    for (const queue of entry.queues) {
      if (queue === undefined) continue;
      this.#waitingUnits -= queue.waiting;
      for (const file of queue.files) this.#forget(file);
      queue.files = [];
      queue.written = queue.maxOffset;
    }
    entry.queues.length = 0;
    this.#waiting = this.#waiting.filter((queue) => queue.topic !== topic);
    this.#full = this.#full.filter((queue) => queue.topic !== topic);
    this.#folders.removeTopic(topic);
  }

  /** Removes everything: the log is gone (RocketMQ: no CommitLog file at all). */
  removeAll(): void {
    for (const topic of [...this.#topics.keys()]) this.remove(topic);
  }

  close(): void {
    this.#folders.close();
  }

  /** Queues with something to write, and files to sync. */
  get toFlush(): number {
    return Math.max(this.#waiting.length, this.#unsynced.all().size);
  }

  /** Nothing waits to be written or synced. */
  get isDurable(): boolean {
    return this.#waitingUnits === 0 && this.#unsynced.all().size === 0 && this.#folders.dirty.size === 0;
  }

  /** Number of open files, for tests and metrics. */
  get openFiles(): number {
    return this.#folders.openFiles;
  }

  #write(queue: ConsumeQueue): void {
    if (queue.namesInDoubt) this.doubtNames(queue);
    while (queue.written < queue.maxOffset) {
      const byte = queue.written * CQ_UNIT_BYTES;
      const file = segmentAt(queue.files, byte) ?? this.#create(queue, byte);
      const end = Math.min(queue.maxOffset, file.end / CQ_UNIT_BYTES);
      const length = (end - queue.written) * CQ_UNIT_BYTES;
      this.#folders.handle(file).writeSync(queue.tail, queue.tailAt(queue.written), length, byte - file.base);
      this.#waitingUnits -= end - queue.written;
      queue.written = end;
      this.#unsynced.add(file, queue);
    }
  }

  #create(queue: ConsumeQueue, byte: number): SegmentFile {
    const file = this.#folders.create(queue, byte);
    this.#created++;
    return file;
  }

  #forget(file: SegmentFile): void {
    this.#unsynced.forget(file);
    this.#folders.forget(file);
  }
}

function fillerUnits(count: number): Uint8Array {
  const units = new Uint8Array(count * CQ_UNIT_BYTES);
  const view = new DataView(units.buffer);
  for (let at = 8; at < units.length; at += CQ_UNIT_BYTES) view.setInt32(at, FILLER_SIZE);
  return units;
}
