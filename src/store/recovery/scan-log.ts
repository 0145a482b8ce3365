// Walks the CommitLog's files from a given file on and judges every record: the one place that decides where the log ends, and where
// the first bytes are that are no record.
// RocketMQ: CommitLog#recoverNormally and #recoverAbnormally.

import { type Clock, type Logger, viewOf } from '../../common/index.ts';
import { MAGIC_BLANK, RecordOutcome, RecordView, readRecord, Verify } from '../../message/index.ts';
import type { SegmentFile } from '../segment/index.ts';
import { SharesScan } from './scan-shares.ts';
import type { ShareParser } from './share-parser.ts';

/** Bytes read at once. */
const WINDOW_BYTES = 4 * 1024 * 1024;
/** Room in front of a window for the record that began in the one before. */
const CARRY_BYTES = 512 * 1024;
const PROGRESS_EVERY_MS = 1000;
/** What a disk writes whole. */
const SECTOR_BYTES = 512;
/** Bytes scanned before the loop gets a turn: what the index has collected goes to the disk meanwhile. */
const SLICE_BYTES = 16 * 1024 * 1024;

/** Where a scan ended and why. */
export interface ScanResult {
  /** End of the sound data. */
  end: number;
  /** Start of the last sound record; -1 if there is none. */
  lastRecord: number;
  /** Records seen. */
  records: number;
  /** Bytes read. */
  scannedBytes: number;
  /** `end`, or the end of the filler that stands there with no file behind it. */
  fillerEnd: number;
  /** undefined: the log simply ends here (zeros, or no file behind a filler). Otherwise what is wrong with the bytes at `end`. */
  damage: string | undefined;
}

export interface ScanOptions {
  files: readonly SegmentFile[];
  /** Index of the file to begin with. */
  first: number;
  /** Physical offset in that file to begin at, where a record starts; by default its first byte. */
  from?: number;
  /** The scan ends at the first record that starts here or behind. */
  to?: number;
  verify: Verify;
  /**
   * After an unclean stop: a last record with zeros in its topic or properties is no record, since no CRC covers those bytes.
   * RocketMQ: keeps it, without its keys and tag.
   */
  tornTail?: boolean;
  /** Below this no record can be torn: it was synced. */
  tornFrom?: number;
  /** Bodies below this have been checked. */
  checkedTo?: number;
  /** Gets each sound record, in order; false ends the scan before it. View and bytes are used again: it keeps nothing. */
  visit: (bytes: Uint8Array, record: RecordView) => unknown;
  /** Told after each window how many bytes were read so far; the scan goes on when the promise is fulfilled. */
  progress?: (scannedBytes: number) => Promise<void> | undefined;
  /** Threads that parse, if there is much to look at. */
  parser?: ShareParser | undefined;
}

/** For `ScanOptions.progress`: says each second how far the scan of at most `total` bytes is, and gives the loop a turn now and then. */
export function scanProgress(
  clock: Clock,
  logger: Logger,
  total: number,
  why: string,
): (scannedBytes: number) => Promise<void> | undefined {
  const started = clock.monotonic();
  let told = started;
  let turnAt = SLICE_BYTES;
  return (scanned) => {
    if (clock.monotonic() - told >= PROGRESS_EVERY_MS) {
      told = clock.monotonic();
      const rate = scanned / (told - started) / 1000;
      logger.info(`recovering: ${mib(scanned)} of at most ${mib(total)} scanned, ${rate.toFixed(0)} MB/s (${why})`);
    }
    if (scanned < turnAt) return undefined;
    turnAt = scanned + SLICE_BYTES;
    return new Promise((resolve) => clock.soon(resolve));
  };
}

function mib(bytes: number): string {
  return `${(bytes / 1024 / 1024).toFixed(0)} MiB`;
}

/**
 * Reads records up to the end of the log. The next window is read while this one is looked at. A record that says it lies elsewhere
 * ends the log, too: stale bytes of an earlier writer can be sound in all else.
 */
export async function scanLog(options: ScanOptions): Promise<ScanResult> {
  const { parser, files, first, from, to } = options;
  const end = Math.min(to ?? Number.POSITIVE_INFINITY, files.at(-1)?.end ?? 0);
  if (parser === undefined || end - (from ?? files[first]?.base ?? end) < parser.leastBytes) {
    return await new LogScan(options).run();
  }
  const shares = await new SharesScan(options, parser).run();
  const before = { records: shares.records, scannedBytes: shares.scannedBytes };
  if (shares.ended) {
    return { ...before, end: shares.at, lastRecord: shares.lastRecord, fillerEnd: shares.at, damage: undefined };
  }
  // What needs a judgement is left to the one place that has it.
  const progress = options.progress === undefined ? {} : { progress: addTo(options.progress, before.scannedBytes) };
  const rest = await new LogScan({ ...options, first: shares.first, from: shares.at, ...progress }).run();
  rest.records += before.records;
  rest.scannedBytes += before.scannedBytes;
  if (rest.lastRecord < 0) rest.lastRecord = shares.lastRecord;
  return rest;
}

function addTo(progress: NonNullable<ScanOptions['progress']>, bytes: number): NonNullable<ScanOptions['progress']> {
  return (scanned) => progress(bytes + scanned);
}

/** What makes the loop over a window stop. */
const Pause = { SHORT: 0, FILE_ENDS: 1, LOG_ENDS: 2 } as const;
type Pause = (typeof Pause)[keyof typeof Pause];

class LogScan {
  readonly #options: ScanOptions;
  readonly #result: ScanResult;
  #fileIndex: number;
  #file: SegmentFile;

  /** `#window[i]` is file byte `#origin + i`; bytes in [#at, #have) are still to be looked at. */
  #window: Uint8Array = new Uint8Array(0);
  #view: DataView = new DataView(this.#window.buffer);
  #origin = 0;
  #at = 0;
  #have = 0;
  /** The read that is on its way, for the file position behind the window. */
  #ahead: Promise<number> | undefined;
  #aheadBytes: Uint8Array = new Uint8Array(0);

  #record: RecordView = new RecordView();
  /** A record that was read and not yet visited: what stands behind it decides whether it may be torn. */
  #pending: RecordView = new RecordView();
  #isPending = false;

  constructor(options: ScanOptions) {
    this.#options = options;
    this.#fileIndex = options.first;
    this.#file = options.files[options.first]!;
    this.#result = {
      end: options.from ?? this.#file?.base ?? 0,
      lastRecord: -1,
      records: 0,
      scannedBytes: 0,
      fillerEnd: 0,
      damage: undefined,
    };
  }

  async run(): Promise<ScanResult> {
    const { files, progress } = this.#options;
    let position = this.#result.end - (this.#file?.base ?? 0);
    for (; this.#fileIndex < files.length; this.#fileIndex++, position = 0) {
      this.#file = files[this.#fileIndex]!;
      this.#fill(position, 0);
      for (;;) {
        this.#readAhead();
        const waits = progress?.(this.#result.scannedBytes);
        if (waits !== undefined) await waits;
        const pause = this.#lookAtWindow();
        if (pause === Pause.FILE_ENDS) break;
        if (pause === Pause.LOG_ENDS || !(await this.#nextWindow())) {
          await this.#ahead;
          this.#result.fillerEnd = this.#result.end;
          return this.#result;
        }
      }
      await this.#ahead;
      this.#ahead = undefined;
      this.#result.fillerEnd = this.#file.end;
    }
    return this.#result;
  }

  /** Visits the records of the window, as far as they are whole. */
  #lookAtWindow(): Pause {
    const { verify, checkedTo = 0, to = Number.POSITIVE_INFINITY } = this.#options;
    const { base } = this.#file;
    const window = this.#window;
    const view = this.#view;
    const have = this.#have;
    const origin = this.#origin;
    const result = this.#result;
    let at = this.#at;
    for (;;) {
      const record = this.#record;
      const position = origin + at;
      if (base + position >= to) {
        this.#at = at;
        result.end = base + position;
        if (this.#isPending) this.#settlePending();
        return Pause.LOG_ENDS;
      }
      const closely = base + position < checkedTo ? Verify.STRUCTURE : verify;
      const outcome = readRecord(window, view, at, have, closely, record);
      if (outcome === RecordOutcome.RECORD && record.physicalOffset === base + position) {
        const before = this.#pending;
        if (this.#isPending && !this.#visit(before)) return Pause.LOG_ENDS;
        this.#record = before;
        this.#pending = record;
        this.#isPending = true;
        at += record.totalSize;
        result.end = base + origin + at;
        continue;
      }
      this.#at = at;
      if (this.#isPending && !this.#settlePending()) return Pause.LOG_ENDS;
      if (outcome === RecordOutcome.SHORT) return Pause.SHORT;
      return this.#notARecord(outcome, position);
    }
  }

  /** Visits the record that waits, or gives it up if it was written in part. */
  #settlePending(): boolean {
    const { tornTail, tornFrom = 0, files, verify } = this.#options;
    const record = this.#pending;
    const result = this.#result;
    this.#isPending = false;
    const start = this.#at - record.totalSize;
    if (tornTail && record.physicalOffset >= tornFrom && looksTorn(this.#window, record, start, this.#origin + start)) {
      const sound =
        propertyCrcHolds(this.#window, this.#view, start, this.#have) ||
        soundFollows(files, this.#fileIndex, this.#origin + this.#at, verify);
      if (!sound) {
        result.end = record.physicalOffset;
        result.damage = 'the last record has zeros in its topic or properties: it was written in part';
        return false;
      }
    }
    return this.#visit(record);
  }

  #visit(record: RecordView): boolean {
    const result = this.#result;
    if (this.#options.visit(this.#window, record) === false) {
      result.end = record.physicalOffset;
      return false;
    }
    result.records++;
    result.lastRecord = record.physicalOffset;
    return true;
  }

  #notARecord(outcome: RecordOutcome, position: number): Pause {
    const { files } = this.#options;
    const file = this.#file;
    const record = this.#record;
    const result = this.#result;
    result.end = file.base + position;
    if (outcome === RecordOutcome.BAD) {
      result.damage = record.reason === 'zeros' ? undefined : record.reason;
      return Pause.LOG_ENDS;
    }
    if (outcome === RecordOutcome.RECORD) {
      result.damage = `the record says that it lies at ${record.physicalOffset}`;
      return Pause.LOG_ENDS;
    }
    if (record.totalSize !== file.size - position) {
      result.damage = `a filler of ${record.totalSize} bytes where ${file.size - position} are left`;
      return Pause.LOG_ENDS;
    }
    // RocketMQ: a filler with no file behind it is not kept; the next append begins in its place.
    if (this.#fileIndex + 1 < files.length) result.end = file.end;
    return Pause.FILE_ENDS;
  }

  /** Moves on to a window that begins with the record at `#at`; false if the log ends there. */
  async #nextWindow(): Promise<boolean> {
    const file = this.#file;
    const position = this.#origin + this.#at;
    const rest = file.size - position;
    const left = this.#have - this.#at;
    const wanted = left >= 8 ? this.#view.getInt32(this.#at) : 8;
    if (wanted > rest) return this.#endsAt(position, wanted, rest);
    const ahead = this.#ahead;
    if (ahead !== undefined && left <= CARRY_BYTES && wanted <= left + WINDOW_BYTES) {
      const got = await ahead;
      const bytes = this.#aheadBytes;
      bytes.set(this.#window.subarray(this.#at, this.#have), CARRY_BYTES - left);
      this.#aheadBytes = this.#window;
      this.#take(bytes, position - (CARRY_BYTES - left), CARRY_BYTES - left, CARRY_BYTES + got);
      this.#result.scannedBytes += got;
      this.#ahead = undefined;
    } else {
      await ahead;
      this.#ahead = undefined;
      this.#fill(position, wanted);
    }
    return this.#have - this.#at >= wanted || this.#endsAt(position, wanted, rest);
  }

  #endsAt(position: number, wanted: number, rest: number): false {
    this.#result.end = this.#file.base + position;
    if (rest >= 8) this.#result.damage = `a record of ${wanted} bytes runs past the end of ${this.#file.path}`;
    return false;
  }

  /** Reads a window from a position of the file, of at least so many bytes if there are. */
  #fill(position: number, atLeast: number): void {
    const file = this.#file;
    const length = Math.min(file.size - position, Math.max(WINDOW_BYTES, atLeast));
    let bytes = this.#window;
    if (bytes.length < length) bytes = new Uint8Array(file.size - position > length ? CARRY_BYTES + length : length);
    const got = file.handle().readSync(bytes, 0, length, position);
    this.#take(bytes, position, 0, got);
    this.#result.scannedBytes += got;
  }

  #take(bytes: Uint8Array, origin: number, at: number, have: number): void {
    if (this.#window !== bytes) this.#view = viewOf(bytes);
    this.#window = bytes;
    this.#origin = origin;
    this.#at = at;
    this.#have = have;
  }

  /** Asks for what lies behind the window, if anything does. */
  #readAhead(): void {
    const file = this.#file;
    const position = this.#origin + this.#have;
    const length = Math.min(file.size - position, WINDOW_BYTES);
    if (length <= 0) return;
    if (this.#aheadBytes.length < CARRY_BYTES + WINDOW_BYTES) {
      this.#aheadBytes = new Uint8Array(CARRY_BYTES + WINDOW_BYTES);
    }
    const bytes = this.#aheadBytes;
    const handle = file.handle();
    // A start that fails closes the file.
    file.pin();
    const ahead = new Promise<number>((resolve, reject) => {
      handle.read(bytes, CARRY_BYTES, length, position, (error, got) => {
        file.unpin();
        if (error === undefined) resolve(got);
        else reject(error);
      });
    });
    // It is waited for later; until then its failure is nobody's.
    ahead.catch(() => {});
    this.#ahead = ahead;
  }
}

/**
 * Whether the record that begins at `bytes[start]`, byte `position` of its file, has lost bytes of its topic or properties: what did not reach the
 * disk are zeros, whole sectors of it or all up to its end. A byte 0 among others is one that a client has sent.
 */
function looksTorn(bytes: Uint8Array, record: RecordView, start: number, position: number): boolean {
  const { topicStart, topicEnd, propertiesStart, propertiesEnd } = record;
  for (let i = topicStart; i < topicEnd; i++) if (bytes[i] === 0) return true;
  if (propertiesEnd === propertiesStart) return false;
  if (bytes[propertiesEnd - 1] === 0) return true;
  // What of the record lies in each sector that has properties.
  const toSector = start - position;
  let from = Math.max(start, propertiesStart - ((propertiesStart - toSector) % SECTOR_BYTES));
  while (from < propertiesEnd) {
    const end = Math.min(propertiesEnd, from - ((from - toSector) % SECTOR_BYTES) + SECTOR_BYTES);
    let i = from;
    while (i < end && bytes[i] === 0) i++;
    if (i === end) return true;
    from = end;
  }
  return false;
}

/** Whether the record at `at` ends with a property CRC, and that is right. */
function propertyCrcHolds(bytes: Uint8Array, view: DataView, at: number, end: number): boolean {
  return readRecord(bytes, view, at, end, Verify.PROPERTY_CRC, new RecordView()) === RecordOutcome.RECORD;
}

/** Whether a sound record stands at a place of a file, or behind the filler there, at the start of the next one. */
function soundFollows(files: readonly SegmentFile[], index: number, position: number, verify: Verify): boolean {
  const file = files[index];
  if (file === undefined) return false;
  const head = new Uint8Array(8);
  if (file.handle().readSync(head, 0, 8, position) < 8) return false;
  const view = viewOf(head);
  const size = view.getInt32(0);
  if (view.getInt32(4) === MAGIC_BLANK)
    return size === file.size - position && soundFollows(files, index + 1, 0, verify);
  if (size < 8 || size > file.size - position) return false;
  const bytes = new Uint8Array(size);
  file.handle().readSync(bytes, 0, size, position);
  const record = new RecordView();
  const outcome = readRecord(bytes, viewOf(bytes), 0, size, verify, record);
  return outcome === RecordOutcome.RECORD && record.physicalOffset === file.base + position;
}
