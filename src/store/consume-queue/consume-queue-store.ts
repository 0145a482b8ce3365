// All ConsumeQueues of a store: found by topic and queueId, written back a few at a time, loaded and cut at the start.
//
// Writing back: a queue joins `#full` when its tail is worth a write, and `#waitingUnits`, those of all tails, have a budget; each `sweep`
// (once per loop turn that dispatched something) writes a bounded number of them. Files are made when first written, never by a put.
// Making durable: `flush` writes every tail, syncs every file that changed and then the folders, in slices, off the loop;
// only then may the caller publish a position (I5).

import { assert, ByteTable, type Clock, copyBytes, Fifo, type GantryError, type Logger } from '../../common/index.ts';
import type { FileSystem } from '../../io/index.ts';
import { cutSegments, type ReadCache, type Ready, SegmentFile, segmentAt } from '../segment/index.ts';
import { ConsumeQueue, type SharedByQueues, type UnitPut } from './consume-queue.ts';
import type { ConsumeQueueExt } from './consume-queue-ext.ts';
import { QueueFolders } from './queue-folders.ts';
import { TailBlocks } from './tail-blocks.ts';
import { CQ_UNIT_BYTES, FILLER_SIZE } from './unit.ts';
import { UnsyncedFiles } from './unsynced-files.ts';

/** A tail of so many waiting units is worth a write, */
const WRITE_UNITS = Math.floor(4096 / CQ_UNIT_BYTES);
/** or of so many if the file must be opened for it. */
const FAR_UNITS = 4 * WRITE_UNITS;
/** Queues written in one sweep; a write to an open file costs some 2 to 7 microseconds. */
const WRITES_PER_SWEEP = 32;
/** Files made in one sweep. */
const CREATES_PER_SWEEP = 8;
/**
 * Units of all queues that may wait before the oldest are written although they fill less than 4 KiB: 64 MiB, and where these are fewer than so
 * many a queue, up to 96 MiB. A write to a queue whose file is not open takes some 40 microseconds, and the first one, which makes file and
 * folders, 200.
 */
const LEAST_BUDGET_UNITS = (64 * 1024 * 1024) / CQ_UNIT_BYTES;
const MOST_BUDGET_UNITS = (96 * 1024 * 1024) / CQ_UNIT_BYTES;
const BUDGET_UNITS_PER_QUEUE = 48;
/** Open files kept. */
const MAX_OPEN = 256;
/** Units of a tail that are kept for readers although they are in the files, as long as all tails together are no larger than this. */
const KEEP_UNITS = 128;
const KEEP_BYTES = 8 * 1024 * 1024;
/** Units written at once. */
const WRITE_STEP_UNITS = 3200;
/** Queues handled before the loop gets a turn, and for how long at most: files that are made take 0.2 ms and more each. */
const FLUSH_SLICE = 64;
const FLUSH_SLICE_MS = 1;
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

/** The queues of one topic. */
export interface TopicQueues {
  readonly topic: string;
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
  /** First queues of topics that were looked for by bytes. */
  #names = new ByteTable<ConsumeQueue>();
  readonly #shared: SharedByQueues;
  readonly #blocks = new TailBlocks();
  /** Queues with so much to write that it is worth it, oldest first. */
  readonly #full = new Fifo<ConsumeQueue>();
  /** Queues with anything to write, oldest first. Those that were removed meanwhile have nothing. */
  readonly #waiting = new Fifo<ConsumeQueue>();
  #waitingUnits = 0;
  readonly #step = new Uint8Array(WRITE_STEP_UNITS * CQ_UNIT_BYTES);
  readonly #folders: QueueFolders;
  readonly #unsynced: UnsyncedFiles<ConsumeQueue>;
  #created = 0;
  /** Writes so far, and tails that the flush under way has still to write. */
  #writes = 0;
  #toWrite = 0;

  constructor(options: ConsumeQueueStoreOptions) {
    this.#options = options;
    this.#fs = options.fs;
    this.fileSize = Math.ceil(options.fileSize / CQ_UNIT_BYTES) * CQ_UNIT_BYTES;
    this.unitsPerFile = this.fileSize / CQ_UNIT_BYTES;
    this.#shared = { root: options.root, unitsPerFile: this.unitsPerFile, blocks: this.#blocks };
    const setting = 'mappedFileSizeConsumeQueue';
    const { fileSize } = this;
    this.#folders = new QueueFolders({ ...options, fileSize, setting, unitBytes: CQ_UNIT_BYTES, mostOpen: MAX_OPEN });
    this.#unsynced = new UnsyncedFiles({
      ...options,
      folders: this.#folders,
      onSynced: (queue, file, written) => {
        queue.synced = Math.max(queue.synced, Math.min(written, file.end / CQ_UNIT_BYTES));
        // Of a queue that stands still only what is in the files is needed.
        if (queue.synced === queue.maxOffset && this.#blocks.usedBytes > KEEP_BYTES) queue.freeTail();
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
    let queue = this.find(topic, queueId);
    if (queue === undefined) {
      assert(canBeFolder(topic), 'a queue of a topic that cannot be a folder');
      queue = new ConsumeQueue(topic, queueId, this.#shared);
      // Most topics of a store with very many have one queue, and an array that is made with it takes no room for more.
      if (queueId === 0 && !this.#topics.has(topic)) this.#addTopic(topic, [queue]);
      else this.topic(topic).queues[queueId] = queue;
      this.onCreated?.(topic, queueId);
    }
    return queue;
  }

  /** All queues of a topic, made (empty) if there are none. */
  topic(topic: string): TopicQueues {
    return this.#topics.get(topic) ?? this.#addTopic(topic, []);
  }

  #addTopic(topic: string, queues: ConsumeQueue[]): TopicQueues {
    const entry = { topic, queues };
    this.#topics.set(topic, entry);
    return entry;
  }

  /** The light queue that is called `bytes[start, end)`, if it exists. Makes no string, but at the first look. */
  light(bytes: Uint8Array, start: number, end: number): ConsumeQueue | undefined {
    const known = this.#names.find(bytes, start, end);
    if (known !== undefined) return known;
    const own = copyBytes(bytes, start, end);
    const queue = this.find(Buffer.from(own).toString('utf8'), 0);
    // Bytes that are no UTF-8 are not what any topic is called.
    if (queue === undefined || !Buffer.from(queue.topic, 'utf8').equals(own)) return undefined;
    this.#names.add(queue, own);
    return queue;
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
    if ((before < WRITE_UNITS && after >= WRITE_UNITS) || (before < FAR_UNITS && after >= FAR_UNITS))
      this.#full.push(queue);
    return outcome;
  }

  /** Writes a bounded number of tails; call it once per loop turn that dispatched. Answers true if more wait than the budget allows. */
  sweep(): boolean {
    let writes = WRITES_PER_SWEEP;
    const full = this.#full;
    for (let queue = full.peek(); queue !== undefined && writes > 0; queue = full.peek()) {
      if (this.#created >= CREATES_PER_SWEEP) break;
      const file = queue.files.at(-1);
      const isFar = file !== undefined && !this.#folders.isOpen(file);
      if (queue.waiting >= (isFar ? FAR_UNITS : WRITE_UNITS)) {
        this.#write(queue);
        writes--;
      }
      full.shift();
    }
    const waiting = this.#waiting;
    const budget = Math.max(LEAST_BUDGET_UNITS, Math.min(MOST_BUDGET_UNITS, waiting.length * BUDGET_UNITS_PER_QUEUE));
    while (this.#waitingUnits > budget && waiting.length > 0 && writes > 0 && this.#created < CREATES_PER_SWEEP) {
      const queue = waiting.peek()!;
      if (queue.waiting > 0) {
        this.#write(queue);
        writes--;
      }
      waiting.shift();
      queue.listed = false;
    }
    this.#created = 0;
    return this.#waitingUnits > budget || full.length > 0;
  }

  /**
   * Writes every tail, syncs what changed, then the folders of new files. What was put before the call is durable when `done` runs
   * without an error. A file whose sync failed is written again and synced by the next flush.
   */
  flush(done: (error: GantryError | undefined) => void): void {
    const queues = this.#waiting.drain();
    this.#full.drain();
    const { clock } = this.#options;
    let at = 0;
    const writeSlice = (): void => {
      const end = Math.min(at + FLUSH_SLICE, queues.length);
      const until = clock.monotonic() + FLUSH_SLICE_MS;
      try {
        for (; at < end && clock.monotonic() <= until; at++) {
          const queue = queues[at]!;
          if (queue.waiting > 0) this.#write(queue);
          queue.listed = false;
        }
        this.#toWrite = queues.length - at;
      } catch (error) {
        this.#toWrite = 0;
        // One that was cut meanwhile has nothing to write, and is listed again with its next unit.
        for (const queue of queues.slice(at)) {
          queue.listed = queue.waiting > 0;
          if (queue.listed) this.#waiting.push(queue);
        }
        return done(error as GantryError);
      }
      if (at < queues.length) clock.soon(writeSlice);
      else this.#unsynced.sync([...this.#unsynced.all()], this.syncLanes, done);
    };
    writeSlice();
  }

  /**
   * Syncs the files that hold at least so many pages of 4 KiB that are written and not synced, or are full. RocketMQ:
   * MappedFile#isAbleToFlush. What waits in the tails is not touched. Files that are not open, since more queues are in use than files are
   * kept open, wait for `flush`: to open them for it would cost more than all else that their messages cost here.
   */
  syncPages(leastPages: number, done: (error: GantryError | undefined) => void): void {
    const files: Array<[SegmentFile, ConsumeQueue]> = [];
    for (const entry of this.#unsynced.all()) {
      const [file, queue] = entry;
      if (!this.#folders.isOpen(file)) continue;
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
      queue.copyTail(ordinal, end, target);
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
      queue.copyTail(ordinal, end, target);
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
    for (const { topic, queueId, files } of this.#folders.load()) {
      const queue = this.findOrCreate(topic, queueId);
      queue.files = files.map(({ base, size }) => new SegmentFile(this.#fs, queue, base, size, true));
    }
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
    const fillers = fillerUnits(Math.min(this.unitsPerFile, WRITE_STEP_UNITS));
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
    this.#names = new ByteTable();
    if (queues.every((other) => other === undefined)) this.remove(queue.topic);
  }

  /** Removes a topic's queues and files. */
  remove(topic: string): void {
    const entry = this.#topics.get(topic);
    if (entry === undefined) return;
    this.ext?.removedTopic(topic);
    this.#topics.delete(topic);
    // Light queues come and go in any number: none is kept that has gone.
    this.#names = new ByteTable();
    for (const queue of entry.queues) {
      if (queue === undefined) continue;
      this.#waitingUnits -= queue.waiting;
      for (const file of queue.files) this.#forget(file);
      queue.files = [];
      queue.written = queue.maxOffset;
      queue.freeTail();
    }
    entry.queues.length = 0;
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

  /** How far a flush is: `moved` grows with all that is written or synced, `left` are files and folders. */
  get flushState(): { moved: number; left: number } {
    return { moved: this.#writes + this.#unsynced.synced, left: this.#toWrite + this.#unsynced.left };
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
    // Where its records begin is asked for when its units may be gone from the tail.
    const { minOffset } = queue;
    if (queue.minPhysicalOffset < 0 && queue.written <= minOffset && minOffset < queue.maxOffset)
      queue.minPhysicalOffset = queue.physicalOffsetAt(minOffset);
    while (queue.written < queue.maxOffset) {
      const byte = queue.written * CQ_UNIT_BYTES;
      const file = segmentAt(queue.files, byte) ?? this.#create(queue, byte);
      const end = Math.min(queue.maxOffset, file.end / CQ_UNIT_BYTES, queue.written + WRITE_STEP_UNITS);
      const length = queue.copyTail(queue.written, end, this.#step);
      this.#folders.handle(file).writeSync(this.#step, 0, length, byte - file.base);
      this.#waitingUnits -= end - queue.written;
      queue.written = end;
      this.#writes++;
      this.#unsynced.add(file, queue);
    }
    queue.trimTail(this.#blocks.usedBytes > KEEP_BYTES ? 0 : KEEP_UNITS);
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
