// Byte spaces over segment files that are only appended to and cut: what the further kinds of queue files are made of (batch queues,
// ConsumeQueueExt). Plain ConsumeQueues have a store of their own, made for many queues and for the hot path.
//
//   <root>/<topic>/<queueId>/<20 digits>
//
//   start                   written                     end
//   |-------- files --------|==== tail in memory =======|
//                   tailStart ^ (bytes that are in the files may still be there for readers)
//
// An idle stream costs this object and nothing else. Tails are written when 4 KiB wait, when all tails together exceed a budget, and by
// `flush`, which makes durable what was appended before it.
//
// Invariants: written <= end; tailStart <= written; files are contiguous and hold [start, written).

import { type Clock, GantryError, type Logger } from '../../common/index.ts';
import type { FileSystem } from '../../io/index.ts';
import { cutSegments, type ReadCache, type Ready, type SegmentFile, segmentAt } from '../segment/index.ts';
import { QueueFolders } from './queue-folders.ts';
import { UnsyncedFiles } from './unsynced-files.ts';

const EMPTY = new Uint8Array(0);
const EMPTY_VIEW = new DataView(EMPTY.buffer);
const FIRST_TAIL_BYTES = 512;
const WRITE_BYTES = 4096;
/** Bytes of a tail that are kept for readers although they are in the files. */
const KEEP_BYTES = 64 * 1024;
const WRITES_PER_SWEEP = 32;
const WAITING_BUDGET_BYTES = 4 * 1024 * 1024;
const MAX_OPEN = 64;

export interface StreamStoreOptions {
  fs: FileSystem;
  clock: Clock;
  logger: Logger;
  root: string;
  /** Bytes of one file, and the setting that says so. */
  fileSize: number;
  setting: string;
  /** Bytes of one unit, if all are of one length. */
  unitBytes?: number;
  cache: ReadCache;
}

export class Stream {
  readonly topic: string;
  readonly queueId: number;
  readonly folder: string;
  files: SegmentFile[] = [];
  /** Position behind the last byte. */
  end = 0;
  /** Bytes below are in the files. */
  written = 0;
  tailStart = 0;
  tail: Uint8Array = EMPTY;
  tailView: DataView = EMPTY_VIEW;
  /** Whether it stands in the store's list of streams with something to write. */
  listed = false;

  constructor(topic: string, queueId: number, folder: string) {
    this.topic = topic;
    this.queueId = queueId;
    this.folder = folder;
  }

  /** Position of the first byte. */
  get start(): number {
    return this.files[0]?.base ?? this.tailStart;
  }

  /** Lets it end at `position`, with nothing in memory; what the files hold below counts as written. */
  resetTo(position: number): void {
    this.end = position;
    this.written = position;
    this.tailStart = position;
  }

  /** Makes room for bytes at the end; answers where in `tail` the caller puts them now. */
  extend(length: number): number {
    let at = this.end - this.tailStart;
    if (at + length > this.tail.length) at = this.#makeRoom(length);
    this.end += length;
    return at;
  }

  #makeRoom(length: number): number {
    const used = this.end - this.tailStart;
    const drop = this.written - this.tailStart;
    if (drop > 0 && drop >= used >> 1 && used - drop + length <= this.tail.length && used > KEEP_BYTES) {
      this.tail.copyWithin(0, drop, used);
      this.tailStart += drop;
    } else {
      const grown = new Uint8Array(Math.max(FIRST_TAIL_BYTES, 2 * (used + length)));
      grown.set(this.tail.subarray(0, used));
      this.tail = grown;
      this.tailView = new DataView(grown.buffer);
    }
    return this.end - this.tailStart;
  }
}

export class StreamStore {
  readonly #options: StreamStoreOptions;
  readonly #fs: FileSystem;
  readonly fileSize: number;
  readonly #topics = new Map<string, Stream[]>();
  /** Streams with anything to write, oldest first. */
  #waiting: Stream[] = [];
  #waitingBytes = 0;
  readonly #folders: QueueFolders;
  readonly #unsynced: UnsyncedFiles<Stream>;

  constructor(options: StreamStoreOptions) {
    this.#options = options;
    this.#fs = options.fs;
    this.fileSize = options.fileSize;
    this.#folders = new QueueFolders({ ...options, mostOpen: MAX_OPEN });
    this.#unsynced = new UnsyncedFiles({ ...options, folders: this.#folders });
  }

  find(topic: string, queueId: number): Stream | undefined {
    return this.#topics.get(topic)?.[queueId];
  }

  findOrCreate(topic: string, queueId: number): Stream {
    let streams = this.#topics.get(topic);
    if (streams === undefined) {
      streams = [];
      this.#topics.set(topic, streams);
    }
    streams[queueId] ??= new Stream(topic, queueId, `${this.#options.root}/${topic}/${queueId}`);
    return streams[queueId];
  }

  /** Finds the files on disk without opening one; a stream's `end` is for the caller to find. @throws GantryError STORE_FILE_SIZE. */
  load(): Stream[] {
    const found: Stream[] = [];
    for (const { topic, queueId, files } of this.#folders.load()) {
      const stream = this.findOrCreate(topic, queueId);
      stream.files = files;
      stream.resetTo(files.at(-1)?.end ?? 0);
      found.push(stream);
    }
    return found;
  }

  /** To be called after bytes were put into `stream`. */
  appended(stream: Stream, bytes: number): void {
    this.#waitingBytes += bytes;
    if (stream.listed) return;
    stream.listed = true;
    this.#waiting.push(stream);
  }

  /** Writes a bounded number of tails, as ConsumeQueueStore.sweep. Answers true if more wait than the budget allows. */
  sweep(): boolean {
    if (this.#waiting.length === 0) return false;
    let writes = WRITES_PER_SWEEP;
    const left: Stream[] = [];
    for (const stream of this.#waiting) {
      const due = stream.end - stream.written >= WRITE_BYTES || this.#waitingBytes > WAITING_BUDGET_BYTES;
      if (!due || writes === 0) left.push(stream);
      else {
        this.#write(stream);
        stream.listed = false;
        writes--;
      }
    }
    this.#waiting = left;
    return this.#waitingBytes > WAITING_BUDGET_BYTES;
  }

  /** Makes durable what was appended before the call, files first and then the folders of new ones (UnsyncedFiles). */
  flush(done: (error: GantryError | undefined) => void): void {
    try {
      while (this.#waiting.length > 0) {
        const stream = this.#waiting[0]!;
        if (stream.end > stream.written) this.#write(stream);
        stream.listed = false;
        this.#waiting.shift();
      }
    } catch (error) {
      return done(error as GantryError);
    }
    this.#unsynced.sync([...this.#unsynced.all()], 1, done);
  }

  /** Copies bytes that lie in one file, or in memory, to `target`. False, and `ready` as in ReadCache.copy, if they must be fetched first. */
  read(stream: Stream, position: number, length: number, target: Uint8Array, ready: Ready): boolean {
    if (this.#copyTail(stream, position, length, target)) return true;
    const file = segmentAt(stream.files, position);
    if (file === undefined || position + length > file.end) {
      const error = new GantryError('REMOVED', `${stream.folder} has no bytes at ${position} any more; ask again`);
      this.#options.clock.soon(() => ready(error));
      return false;
    }
    this.#folders.handle(file);
    const limit = Math.min(stream.written, file.end) - file.base;
    return this.#options.cache.copy(file, position - file.base, length, limit, target, 0, ready) === length;
  }

  /** As `read`, at once; for the start. Answers how many bytes there are. */
  readSync(stream: Stream, position: number, length: number, target: Uint8Array): number {
    if (this.#copyTail(stream, position, length, target)) return length;
    const file = segmentAt(stream.files, position);
    if (file === undefined) return 0;
    const stop = Math.min(position + length, file.end, stream.written);
    return stop <= position ? 0 : this.#folders.handle(file).readSync(target, 0, stop - position, position - file.base);
  }

  #copyTail(stream: Stream, position: number, length: number, target: Uint8Array): boolean {
    if (position < stream.tailStart || position + length > stream.end) return false;
    const at = position - stream.tailStart;
    target.set(stream.tail.subarray(at, at + length));
    return true;
  }

  /** Makes everything from `position` on dead, in memory and, durably, on disk. */
  cut(stream: Stream, position: number): void {
    for (const file of stream.files) {
      if (file.end <= position) continue;
      this.#options.cache.forget(file);
      if (file.base >= position) this.#forget(file);
    }
    if (stream.files.length > 0 && stream.files.at(-1)!.end > position) {
      cutSegments(this.#fs, stream.folder, stream.files, position);
      const last = stream.files.at(-1);
      if (last !== undefined) this.#folders.opened(last);
    }
    this.dropTail(stream, position);
  }

  /** Forgets bytes from `position` on, in memory; what the files hold there stays until it is overwritten or cut. */
  dropTail(stream: Stream, position: number): void {
    this.#waitingBytes -= stream.end - stream.written;
    stream.end = position;
    stream.written = Math.min(stream.written, position);
    stream.tailStart = Math.min(stream.tailStart, position);
    this.#waitingBytes += stream.end - stream.written;
    for (const file of stream.files) if (file.end > position) this.#options.cache.forget(file);
  }

  /** Removes the files that end at or below `position`, but for the newest, oldest first. */
  removeFilesBelow(stream: Stream, position: number): void {
    let removed = false;
    while (stream.files.length > 1 && stream.files[0]!.end <= position) {
      const file = stream.files.shift()!;
      this.#forget(file);
      this.#fs.remove(file.path);
      removed = true;
    }
    if (removed) this.#folders.dirty.add(stream.folder);
  }

  /** Removes a stream's files; it begins at 0 again. */
  clear(stream: Stream): void {
    for (const file of stream.files) {
      this.#forget(file);
      this.#fs.remove(file.path);
    }
    if (stream.files.length > 0) this.#folders.dirty.add(stream.folder);
    stream.files = [];
    this.#waitingBytes -= stream.end - stream.written;
    stream.resetTo(0);
  }

  /** Removes one stream and its folder. */
  removeStream(stream: Stream): void {
    this.clear(stream);
    this.#folders.remove(stream);
    delete this.#topics.get(stream.topic)?.[stream.queueId];
    this.#waiting = this.#waiting.filter((other) => other !== stream);
  }

  /** Removes a topic's streams and files. */
  remove(topic: string): void {
    const streams = this.#topics.get(topic);
    if (streams === undefined) return;
    this.#topics.delete(topic);
    for (const stream of streams) {
      if (stream === undefined) continue;
      for (const file of stream.files) this.#forget(file);
      stream.files = [];
      this.#waitingBytes -= stream.end - stream.written;
      stream.written = stream.end;
    }
    this.#waiting = this.#waiting.filter((stream) => stream.topic !== topic);
    this.#folders.removeTopic(topic);
  }

  removeAll(): void {
    for (const topic of [...this.#topics.keys()]) this.remove(topic);
  }

  /** Nothing waits to be written or synced. */
  get isDurable(): boolean {
    return this.#waitingBytes === 0 && this.#unsynced.all().size === 0 && this.#folders.dirty.size === 0;
  }

  close(): void {
    this.#folders.close();
  }

  /** Writes a stream's tail now. */
  writeNow(stream: Stream): void {
    if (stream.end > stream.written) this.#write(stream);
  }

  #write(stream: Stream): void {
    while (stream.written < stream.end) {
      const from = stream.written;
      const file = segmentAt(stream.files, from) ?? this.#folders.create(stream, from);
      const length = Math.min(stream.end, file.end) - from;
      this.#folders.handle(file).writeSync(stream.tail, from - stream.tailStart, length, from - file.base);
      this.#waitingBytes -= length;
      stream.written += length;
      this.#unsynced.add(file, stream);
    }
  }

  #forget(file: SegmentFile): void {
    this.#unsynced.forget(file);
    this.#folders.forget(file);
  }
}
