// The timer log: a unit for each message that waits, in the order in which they came, chained backwards slot by slot
// (docs/formats/timer.md). Files of one length; where no unit fits any more a filler says so.
//
// What is appended stays in memory until `flush` writes and syncs it, once a second; a kill loses those units and their messages are
// taken from the queue again. RocketMQ: TimerLog.

import { GantryError, viewOf, writeI64 } from '../../common/index.ts';
import { type FileHandle, type FileSystem, makeDirectoryDurably } from '../../io/index.ts';
import { FILLER_BYTES, FILLER_MAGIC, isFiller, readUnit, TimerUnit, UNIT_BYTES, writeUnit } from './timer-format.ts';
import { syncFile, writeAt } from './timer-io.ts';

const NAME_DIGITS = 20;
const ZERO_CHUNK = 64 * 1024;
/** Bytes of the file that one read of a unit fetches: those before it too, since chains run backwards. */
const BLOCK_BYTES = 4096;
/** Units of a scan that are read at once, and looked at before the loop gets a turn: some 0.3 ms. */
const UNITS_PER_TURN = 4096;
const FIRST_TAIL_BYTES = 64 * 1024;

export class TimerLog {
  readonly folder: string;
  readonly fileSize: number;
  /** Position of the next unit, fillers aside. */
  end = 0;
  readonly #fs: FileSystem;
  /** Start of the oldest file. */
  #first = 0;
  /** End of the newest file. */
  #last = 0;
  /** Units that are not written: the bytes [#tailStart, end). */
  #tail: Uint8Array = new Uint8Array(FIRST_TAIL_BYTES);
  #tailView = viewOf(this.#tail);
  #tailStart = 0;
  readonly #block = new Uint8Array(BLOCK_BYTES);
  readonly #blockView = viewOf(this.#block);
  #blockStart = 0;
  #blockEnd = 0;
  #reader: { handle: FileHandle; start: number } | undefined;

  constructor(fs: FileSystem, root: string, fileSize: number) {
    this.#fs = fs;
    this.folder = `${root}/timerlog`;
    this.fileSize = fileSize;
  }

  get first(): number {
    return this.#first;
  }

  /** End of the last file. */
  get last(): number {
    return this.#last;
  }

  /**
   * Finds the files. `synced`: how far the log is known to be durable. @throws GantryError STORE_FILE_SIZE if one has another length than is
   * configured, STORE_DAMAGED if one is missing in between; nothing is changed.
   */
  load(synced: number): void {
    const starts = this.#fs
      .list(this.folder)
      .filter((name) => /^\d{20}$/.test(name))
      .map(Number)
      .sort((a, b) => a - b);
    for (const [i, start] of starts.entries()) {
      const path = this.#path(start);
      const size = this.#fs.stat(path)?.size ?? 0;
      // A new file whose length was never set holds nothing; where the power went in between, nothing that counts.
      if (i === starts.length - 1 && (size === 0 || (size < this.fileSize && synced <= start))) {
        starts.pop();
        break;
      }
      if (size !== this.fileSize) {
        throw new GantryError(
          'STORE_FILE_SIZE',
          `${path} has ${size} bytes, but mappedFileSizeTimerLog is ${this.fileSize}; set it to ${size}`,
        );
      }
      if (start !== starts[0]! + i * this.fileSize) {
        throw new GantryError(
          'STORE_DAMAGED',
          `${this.folder}: a file is missing before ${path}; remove the folder and it is built anew`,
        );
      }
    }
    this.#first = starts[0] ?? 0;
    this.#last = starts.length === 0 ? 0 : starts.at(-1)! + this.fileSize;
    this.end = this.#last;
    this.#tailStart = this.#last;
  }

  /** Position of the last unit of the full file that begins at `start`. */
  lastUnitOf(start: number): number {
    return start + this.fileSize - ((this.fileSize - FILLER_BYTES) % UNIT_BYTES) - FILLER_BYTES - UNIT_BYTES;
  }

  /** Appends a unit in memory; its position. */
  append(unit: TimerUnit): number {
    const left = this.fileSize - (this.end % this.fileSize);
    if (UNIT_BYTES + FILLER_BYTES > left) {
      this.#room(left);
      const at = this.end - this.#tailStart;
      this.#tail.fill(0, at, at + left);
      this.#tailView.setInt32(at, left);
      this.#tailView.setInt32(at + 12, FILLER_MAGIC);
      this.end += left;
    }
    this.#room(UNIT_BYTES);
    const position = this.end;
    writeUnit(this.#tailView, position - this.#tailStart, unit);
    this.end += UNIT_BYTES;
    return position;
  }

  /** The unit at a position; false if there is none. @throws GantryError IO. */
  read(position: number, unit: TimerUnit): boolean {
    if (position < this.#first || position + UNIT_BYTES > this.end || !Number.isSafeInteger(position)) return false;
    if (position >= this.#tailStart) return readUnit(this.#tailView, position - this.#tailStart, unit);
    if (position < this.#blockStart || position + UNIT_BYTES > this.#blockEnd) {
      if (!this.#fetch(position)) return false;
    }
    return readUnit(this.#blockView, position - this.#blockStart, unit);
  }

  /** Reads the block that ends with the unit at `position`. */
  #fetch(position: number): boolean {
    const base = position - (position % this.fileSize);
    const start = Math.max(base, position + UNIT_BYTES - BLOCK_BYTES);
    const length = Math.min(BLOCK_BYTES, base + this.fileSize - start);
    this.#blockStart = 0;
    this.#blockEnd = 0;
    const got = this.#open(base).readSync(this.#block, 0, length, start - base);
    if (start + got < position + UNIT_BYTES) return false;
    this.#blockStart = start;
    // What is appended behind it later must be read then.
    this.#blockEnd = Math.min(start + got, this.#tailStart);
    return position + UNIT_BYTES <= this.#blockEnd;
  }

  /**
   * Calls `visit` for the units from the file that holds `from` on, in order, until it answers false, what lies there is no unit, or the log
   * ends; with `damaged` it goes on behind what is no unit. `from` itself may lie between units. Answers the position at which it stopped. @throws GantryError IO.
   */
  scan(
    from: number,
    visit: (position: number, unit: TimerUnit) => boolean,
    unit: TimerUnit,
    damaged?: (position: number) => void,
  ): number {
    return this.#scanFrom(this.#fileOf(from), visit, unit, damaged);
  }

  /**
   * As `scan`, with a pause each so many units, in which the log may grow and lose files at its front; one that answers
   * false ends it. What it answers is where `scanOn` goes on.
   * @throws GantryError IO.
   */
  async scanInTurns(
    from: number,
    visit: (position: number, unit: TimerUnit) => boolean,
    pause: () => Promise<boolean>,
  ): Promise<number> {
    const unit = new TimerUnit();
    for (let at = this.#fileOf(from); ; at = Math.max(at, this.#first)) {
      let left = UNITS_PER_TURN;
      let isOver = true;
      at = this.#scanFrom(
        at,
        (position) => {
          isOver = left-- > 0;
          return isOver && visit(position, unit);
        },
        unit,
      );
      if (isOver || !(await pause())) return at;
    }
  }

  /** As `scan`, from exactly where an earlier one has stopped. @throws GantryError IO. */
  scanOn(from: number, visit: (position: number, unit: TimerUnit) => boolean, unit: TimerUnit): number {
    return this.#scanFrom(Math.max(from, this.#first), visit, unit);
  }

  /** Start of the file, of those that are there, that holds a position. */
  #fileOf(position: number): number {
    return Math.max(this.#first, position - (position % this.fileSize));
  }

  #scanFrom(
    from: number,
    visit: (position: number, unit: TimerUnit) => boolean,
    unit: TimerUnit,
    damaged?: (position: number) => void,
  ): number {
    const { fileSize } = this;
    let base = from - (from % fileSize);
    let begin = from - base;
    const chunk = new Uint8Array(UNIT_BYTES * UNITS_PER_TURN);
    const view = viewOf(chunk);
    while (base < this.end) {
      let at = begin;
      begin = 0;
      let done = false;
      while (!done) {
        const wanted = Math.min(chunk.length, fileSize - at, this.end - base - at);
        const got = wanted < FILLER_BYTES ? 0 : this.#copy(base + at, wanted, chunk);
        if (got < FILLER_BYTES) return base + at;
        let i = 0;
        for (; i + FILLER_BYTES <= got; i += UNIT_BYTES) {
          if (isFiller(view, i)) {
            done = true;
            break;
          }
          if (i + UNIT_BYTES > got) break;
          if (readUnit(view, i, unit)) {
            if (!visit(base + at + i, unit)) return base + at + i;
          } else if (damaged === undefined) return base + at + i;
          else damaged(base + at + i);
        }
        at += i;
        if (!done && i === 0) return base + at;
      }
      base += fileSize;
    }
    return Math.min(base, this.end);
  }

  #copy(position: number, length: number, target: Uint8Array): number {
    if (position >= this.#tailStart) {
      const at = position - this.#tailStart;
      target.set(this.#tail.subarray(at, at + length));
      return length;
    }
    const base = position - (position % this.fileSize);
    const inFile = Math.min(length, this.#tailStart - position);
    return this.#open(base).readSync(target, 0, inFile, position - base);
  }

  /**
   * Ends the log at `position`, durably: zeros follow to the end of its file, and later files are gone.
   * @throws GantryError IO, DISK_FULL.
   */
  cut(position: number): void {
    this.#closeReader();
    this.#blockEnd = 0;
    const base = position - (position % this.fileSize);
    const keep = position === base ? base : base + this.fileSize;
    const clean = position < this.#last && this.#isZero(position, base);
    const from = clean ? base + this.fileSize : keep;
    for (let start = this.#last - this.fileSize; start >= from; start -= this.fileSize)
      this.#fs.remove(this.#path(start));
    if (from < this.#last) this.#fs.syncDirectory(this.folder);
    this.#closeReader();
    this.#last = Math.min(this.#last, from);
    if (!clean && position > base && position < this.#last) {
      const file = this.#fs.open(this.#path(base), 'write');
      try {
        // What was cut must not come back. The file keeps its length: of one that is short after a power cut nobody knows what it was.
        zeroFrom(file, position - base, this.fileSize);
        file.syncSync();
      } finally {
        file.close();
      }
    }
    this.end = position;
    this.#tailStart = position;
  }

  /** Writes and syncs what was appended before the call. @throws GantryError IO, DISK_FULL; then it is tried again with the next call. */
  async flush(): Promise<void> {
    const to = this.end;
    let from = this.#tailStart;
    if (from === to) return;
    const bytes = this.#tail.slice(0, to - from);
    const origin = from;
    while (from < to) {
      const base = from - (from % this.fileSize);
      const until = Math.min(to, base + this.fileSize);
      const fresh = base >= this.#last;
      if (fresh) makeDirectoryDurably(this.#fs, this.folder);
      const file = this.#fs.open(this.#path(base), 'create');
      try {
        if (fresh) {
          // What a power cut has left of an earlier one must not be taken for units.
          file.truncateSync(0);
          file.truncateSync(this.fileSize);
        }
        await writeAt(file, bytes.subarray(from - origin, until - origin), from - base);
        await syncFile(file);
      } finally {
        file.close();
      }
      if (fresh) {
        this.#fs.syncDirectory(this.folder);
        if (this.#last === 0) this.#first = base;
        this.#last = base + this.fileSize;
      }
      from = until;
    }
    // More may have been appended meanwhile.
    this.#tail.copyWithin(0, to - origin, this.end - origin);
    this.#tailStart = to;
    this.#blockEnd = Math.min(this.#blockEnd, origin);
  }

  /**
   * Removes files, oldest first, whose last unit's record lies below `minimum`; never the last one. How many. One that cannot be read is judged by
   * the unit behind it: they come in the order of the CommitLog. RocketMQ: deleteExpiredFileByOffsetForTimerLog.
   */
  removeBelow(minimum: number, unit: TimerUnit): number {
    let count = 0;
    const { fileSize } = this;
    while (this.#first + fileSize < Math.min(this.#last, this.#tailStart)) {
      const last = this.lastUnitOf(this.#first);
      const isKnown = this.read(last, unit) || this.read(this.#first + fileSize, unit);
      if (!isKnown || unit.offset >= minimum) break;
      this.#closeReader();
      this.#fs.remove(this.#path(this.#first));
      this.#first += fileSize;
      count++;
    }
    if (count > 0) this.#fs.syncDirectory(this.folder);
    return count;
  }

  /**
   * Ends the chain of a unit: those before it are done. On the spot, and durable with the next flush at the latest.
   * @throws GantryError IO, DISK_FULL.
   */
  endChain(position: number): void {
    if (position >= this.#tailStart) {
      writeI64(this.#tailView, position - this.#tailStart + 4, -1);
      return;
    }
    this.#blockEnd = 0;
    const base = position - (position % this.fileSize);
    const bytes = new Uint8Array(8).fill(0xff);
    const file = this.#fs.open(this.#path(base), 'write');
    try {
      file.writeSync(bytes, 0, 8, position - base + 4);
      file.syncSync();
    } finally {
      file.close();
    }
  }

  close(): void {
    this.#closeReader();
  }

  /** Whether nothing was ever written where the next unit goes. */
  #isZero(position: number, base: number): boolean {
    const bytes = new Uint8Array(Math.min(UNIT_BYTES, base + this.fileSize - position));
    this.#open(base).readSync(bytes, 0, bytes.length, position - base);
    return bytes.every((byte) => byte === 0);
  }

  #room(bytes: number): void {
    const used = this.end - this.#tailStart;
    if (used + bytes <= this.#tail.length) return;
    const larger = new Uint8Array(Math.max(used + bytes, this.#tail.length * 2));
    larger.set(this.#tail.subarray(0, used));
    this.#tail = larger;
    this.#tailView = viewOf(larger);
  }

  #open(base: number): FileHandle {
    if (this.#reader?.start === base) return this.#reader.handle;
    this.#closeReader();
    this.#reader = { handle: this.#fs.open(this.#path(base), 'read'), start: base };
    return this.#reader.handle;
  }

  #closeReader(): void {
    this.#reader?.handle.close();
    this.#reader = undefined;
  }

  #path(start: number): string {
    return `${this.folder}/${String(start).padStart(NAME_DIGITS, '0')}`;
  }
}

/** Makes what is not zero in a file from `at` on zero. */
function zeroFrom(file: FileHandle, at: number, end: number): void {
  const chunk = new Uint8Array(ZERO_CHUNK);
  const zeros = new Uint8Array(ZERO_CHUNK);
  for (let position = at; position < end; position += ZERO_CHUNK) {
    const length = Math.min(ZERO_CHUNK, end - position);
    const got = file.readSync(chunk, 0, length, position);
    if (Buffer.compare(chunk.subarray(0, got), zeros.subarray(0, got)) !== 0) file.writeSync(zeros, 0, got, position);
  }
}
