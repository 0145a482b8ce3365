// The files of one compaction log, in pairs: a log file and the queue file that names its records. Appending, and the durability of what was
// appended. RocketMQ: CompactionLog.TopicPartitionLog.
//
//   append ─► in memory ─► writeOut (one write for each file of the last pair) ─► sync (log, queue, names)
//
// Invariant: pairs are in the order of their bases and of their queue offsets; all but the last are full or closed.

import { viewOf } from '../../common/index.ts';
import { type FileSystem, makeDirectoryDurably } from '../../io/index.ts';
import { BLANK_BYTES, MAGIC_BLANK } from '../../message/index.ts';
import { SegmentFile, segmentName } from '../segment/index.ts';
import { type CompactionSizes, END_UNIT, UNIT_BYTES, writeUnit } from './compaction-format.ts';
import { copyWithPosition } from './record-copy.ts';
import { syncFolder, syncSegment } from './waits.ts';

const FIRST_BUFFER_BYTES = 16 * 1024;

/** A log file and its queue file. */
export class FilePair {
  readonly base: number;
  readonly log: SegmentFile;
  readonly queue: SegmentFile;
  /** Bytes of records in the log file, and units in the queue file: appended, and of those what is in the files. */
  logEnd = 0;
  units = 0;
  logWritten = 0;
  unitsWritten = 0;
  /** Queue offsets of the first and the last record; -1: there is none. */
  firstOffset = -1;
  lastOffset = -1;
  /** Nothing can be appended. */
  isClosed = false;
  /** Something is written that was not synced. */
  dirty = false;

  constructor(fs: FileSystem, logFolder: string, queueFolder: string, base: number, sizes: CompactionSizes) {
    this.base = base;
    this.log = new SegmentFile(fs, logFolder, base, sizes.log, true);
    this.queue = new SegmentFile(fs, queueFolder, base, sizes.queue, true);
  }

  close(): void {
    this.log.close();
    this.queue.close();
  }
}

export class PairList {
  readonly fs: FileSystem;
  readonly logFolder: string;
  readonly queueFolder: string;
  readonly sizes: CompactionSizes;
  pairs: FilePair[] = [];
  #log: Uint8Array = new Uint8Array(FIRST_BUFFER_BYTES);
  #queue: Uint8Array = new Uint8Array(FIRST_BUFFER_BYTES);
  #logLength = 0;
  #queueLength = 0;
  /** Bytes that were written since the last sync began. */
  unsynced = 0;
  /** File names that are not durable. */
  #freshNames = false;

  constructor(fs: FileSystem, logFolder: string, queueFolder: string, sizes: CompactionSizes) {
    this.fs = fs;
    this.logFolder = logFolder;
    this.queueFolder = queueFolder;
    this.sizes = sizes;
  }

  get last(): FilePair | undefined {
    return this.pairs.at(-1);
  }

  /** Queue offset behind the last record; 0 without one. */
  get maxOffset(): number {
    for (let i = this.pairs.length - 1; i >= 0; i--) {
      const { lastOffset } = this.pairs[i]!;
      if (lastOffset >= 0) return lastOffset + 1;
    }
    return 0;
  }

  /** Queue offset of the first record. RocketMQ: -1 without a file. */
  get minOffset(): number {
    return this.pairs[0]?.firstOffset ?? -1;
  }

  /** End of the records in the last file, as a place in the log. */
  get endPosition(): number {
    const { last } = this;
    return last === undefined ? 0 : last.base + last.logEnd;
  }

  /** Bytes that wait for `writeOut`. */
  get waiting(): number {
    return this.#logLength + this.#queueLength;
  }

  /**
   * Appends the record at `bytes[start, start + size)` in memory. False: no file is long enough for it, and nothing was appended.
   * @throws GantryError IO, DISK_FULL if a new file cannot be made, or what is left in memory cannot be written before it; then it may be repeated.
   */
  append(
    bytes: Uint8Array,
    start: number,
    size: number,
    tagsCode: number,
    storeTimestamp: number,
    queueOffset: number,
  ): boolean {
    if (size + BLANK_BYTES > this.sizes.log) return false;
    let pair = this.last;
    if (pair !== undefined && !pair.isClosed) {
      const queueIsFull = (pair.units + 1) * UNIT_BYTES >= this.sizes.queue;
      if (queueIsFull || size + BLANK_BYTES > this.sizes.log - pair.logEnd) this.#end(pair);
    }
    if (pair === undefined || pair.isClosed) pair = this.#roll();
    const position = pair.base + pair.logEnd;
    this.#log = grown(this.#log, this.#logLength, size);
    copyWithPosition(bytes, start, size, this.#log, this.#logLength, position);
    this.#queue = grown(this.#queue, this.#queueLength, UNIT_BYTES);
    writeUnit(viewOf(this.#queue), this.#queueLength, position, size, tagsCode, storeTimestamp, queueOffset);
    this.#logLength += size;
    this.#queueLength += UNIT_BYTES;
    pair.logEnd += size;
    pair.units++;
    if (pair.firstOffset < 0) pair.firstOffset = queueOffset;
    pair.lastOffset = queueOffset;
    return true;
  }

  /** Ends a file before it is full: what is left of it is said to be blank. */
  #end(pair: FilePair): void {
    this.writeOut();
    const blank = new Uint8Array(BLANK_BYTES);
    viewOf(blank).setInt32(0, this.sizes.log - pair.logEnd);
    viewOf(blank).setInt32(4, MAGIC_BLANK);
    pair.queue.handle().writeSync(END_UNIT, 0, UNIT_BYTES, pair.units * UNIT_BYTES);
    pair.log.handle().writeSync(blank, 0, BLANK_BYTES, pair.logEnd);
    pair.dirty = true;
    pair.isClosed = true;
  }

  #roll(): FilePair {
    const { fs, logFolder, queueFolder, sizes, last } = this;
    const base = last === undefined ? 0 : last.base + sizes.log;
    makeDirectoryDurably(fs, logFolder);
    makeDirectoryDurably(fs, queueFolder);
    for (const [folder, size] of [
      [logFolder, sizes.log],
      [queueFolder, sizes.queue],
    ] as const) {
      const file = fs.open(`${folder}/${segmentName(base)}`, 'create');
      try {
        file.truncateSync(0);
        file.truncateSync(size);
      } finally {
        file.close();
      }
    }
    const pair = new FilePair(fs, logFolder, queueFolder, base, sizes);
    this.pairs.push(pair);
    this.#freshNames = true;
    return pair;
  }

  /** Writes what was appended. @throws GantryError IO, DISK_FULL; then it is still there, and may be written again. */
  writeOut(): void {
    const { last } = this;
    if (last === undefined || this.#queueLength === 0) return;
    last.log.handle().writeSync(this.#log, 0, this.#logLength, last.logWritten);
    last.queue.handle().writeSync(this.#queue, 0, this.#queueLength, last.unitsWritten * UNIT_BYTES);
    last.dirty = true;
    this.unsynced += this.#logLength;
    last.logWritten = last.logEnd;
    last.unitsWritten = last.units;
    this.#logLength = 0;
    this.#queueLength = 0;
  }

  /** Forgets what was appended and not written; `lastWritten`: queue offset of the last record that is, -1 if there is none. */
  dropUnwritten(lastWritten: (pair: FilePair) => number): void {
    const { last } = this;
    this.#logLength = 0;
    this.#queueLength = 0;
    if (last === undefined || last.units === last.unitsWritten) return;
    last.units = last.unitsWritten;
    last.logEnd = last.logWritten;
    last.lastOffset = lastWritten(last);
    if (last.units === 0) last.firstOffset = -1;
  }

  /** Makes what was written before the call durable. @throws GantryError IO, DISK_FULL. */
  async sync(): Promise<void> {
    const dirty = this.pairs.filter((pair) => pair.dirty);
    const fresh = this.#freshNames;
    this.unsynced = 0;
    for (const pair of dirty) {
      pair.dirty = false;
      try {
        await syncSegment(pair.log);
        await syncSegment(pair.queue);
      } catch (error) {
        pair.dirty = true;
        throw error;
      }
    }
    if (!fresh) return;
    this.#freshNames = false;
    try {
      await syncFolder(this.fs, this.logFolder);
      await syncFolder(this.fs, this.queueFolder);
    } catch (error) {
      this.#freshNames = true;
      throw error;
    }
  }

  /** Names in the folders have come or gone. */
  namesChanged(): void {
    this.#freshNames = true;
  }

  get isDurable(): boolean {
    return this.waiting === 0 && !this.#freshNames && this.pairs.every((pair) => !pair.dirty);
  }

  /** After an unclean start what is in the files may be in the cache alone. */
  doubt(): void {
    for (const pair of this.pairs) pair.dirty = true;
    this.#freshNames = this.pairs.length > 0;
  }

  close(): void {
    for (const pair of this.pairs) pair.close();
  }
}

function grown(buffer: Uint8Array, used: number, more: number): Uint8Array {
  if (used + more <= buffer.length) return buffer;
  const larger = new Uint8Array(Math.max(used + more, buffer.length * 2));
  larger.set(buffer.subarray(0, used));
  return larger;
}
