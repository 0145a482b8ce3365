// Holds the units of one ConsumeQueue against the records of the CommitLog, in the order of the log (docs/formats/consume-queue.md).

import { peekI64, viewOf } from '../../common/index.ts';
import type { FileHandle, FileSystem } from '../../io/index.ts';
import { CQ_UNIT_BYTES, isExtAddress, isUnit, unitOffset, unitSize } from '../consume-queue/index.ts';
import type { Fault } from './log-walk.ts';

const BLOCK_UNITS = 128;
/** Faults of one queue that are named. */
const MOST_FAULTS = 100;

export class QueueCheck {
  readonly folder: string;
  faults: Fault[] = [];
  /** Units that were compared. */
  units = 0;
  /** Messages behind the last unit: the queue lags. */
  lacks = 0;
  readonly #fs: FileSystem;
  readonly #fileBytes: number;
  readonly #first: number;
  /** Units may have an ext address in the place of their tagsCode. */
  readonly #hasExt: boolean;
  readonly #names: ReadonlySet<string>;
  readonly #block: Uint8Array = new Uint8Array(BLOCK_UNITS * CQ_UNIT_BYTES);
  readonly #view: DataView = viewOf(this.#block);
  #blockAt = 0;
  #blockBytes = 0;
  /** Ordinal behind the last one that was compared. */
  #next = 0;

  constructor(fs: FileSystem, root: string, topic: string, queueId: number) {
    this.#fs = fs;
    this.folder = `${root}/consumequeue/${topic}/${queueId}`;
    this.#hasExt = fs.stat(`${root}/consumequeue_ext/${topic}/${queueId}`) !== undefined;
    const { folder } = this;
    const names = fs
      .list(folder)
      .filter((name) => /^\d{20}$/.test(name))
      .sort();
    this.#names = new Set(names);
    this.#first = names.length === 0 ? Number.POSITIVE_INFINITY : Number(names[0]);
    this.#fileBytes =
      names.length === 0 ? CQ_UNIT_BYTES : Math.max(CQ_UNIT_BYTES, fs.stat(`${folder}/${names[0]}`)!.size);
  }

  /** The log has this record for the queue. `tagsCode` NaN: it is not compared. */
  record(ordinal: number, offset: number, size: number, tagsCode: number): void {
    if (ordinal < this.#next) {
      // A repeat; or the topic was made anew, and the queue is that of its later life.
      if (ordinal > 0) return;
      this.faults = [];
      this.lacks = 0;
    }
    this.#next = ordinal + 1;
    const position = ordinal * CQ_UNIT_BYTES;
    // Its file was removed as old.
    if (position < this.#first) return;
    const at = this.#read(position);
    if (at >= 0 && !isUnit(this.#view, at) && !this.#isZero(at)) return this.#fault(position, 'it is no unit');
    if (at < 0 || !isUnit(this.#view, at)) {
      this.lacks++;
      return;
    }
    // The queue does not lag: it goes on behind them.
    if (this.lacks > 0) {
      this.#fault(position - this.lacks * CQ_UNIT_BYTES, `${this.lacks} units are missing`);
      this.lacks = 0;
    }
    this.units++;
    const [foundOffset, foundSize] = [unitOffset(this.#view, at), unitSize(this.#view, at)];
    if (foundOffset !== offset || foundSize !== size) {
      this.#fault(position, `it names ${foundSize} bytes at ${foundOffset}; the record has ${size} bytes at ${offset}`);
      return;
    }
    if (Number.isNaN(tagsCode) || (this.#hasExt && isExtAddress(this.#view, at))) return;
    const found = peekI64(this.#view, at + 12);
    if (found !== tagsCode) this.#fault(position, `its tagsCode is ${found}, that of the record ${tagsCode}`);
  }

  /** The log ends there: no unit may name what lies behind. */
  end(logEnd: number): void {
    if (this.#next === 0) return;
    const position = this.#next * CQ_UNIT_BYTES;
    const at = this.#read(position);
    if (at >= 0 && isUnit(this.#view, at) && unitOffset(this.#view, at) >= logEnd)
      this.#fault(position, `it names ${unitOffset(this.#view, at)}, where the log has ended`);
  }

  #fault(position: number, reason: string): void {
    if (this.faults.length >= MOST_FAULTS) return;
    const byte = position % this.#fileBytes;
    const file = `${this.folder}/${String(position - byte).padStart(20, '0')}`;
    this.faults.push({ of: 'queue', file, byte, reason });
  }

  #isZero(at: number): boolean {
    return this.#block.subarray(at, at + CQ_UNIT_BYTES).every((byte) => byte === 0);
  }

  /** Index in the block of the unit at a position; -1: there is none. */
  #read(position: number): number {
    if (position < this.#blockAt || position + CQ_UNIT_BYTES > this.#blockAt + this.#blockBytes) {
      const inFile = position % this.#fileBytes;
      const name = String(position - inFile).padStart(20, '0');
      if (!this.#names.has(name)) return -1;
      let handle: FileHandle | undefined;
      try {
        handle = this.#fs.open(`${this.folder}/${name}`, 'read');
        const length = Math.min(this.#block.length, this.#fileBytes - inFile);
        this.#blockBytes = handle.readSync(this.#block, 0, length, inFile);
        this.#blockAt = position;
      } finally {
        handle?.close();
      }
      if (this.#blockBytes < CQ_UNIT_BYTES) return -1;
    }
    return position - this.#blockAt;
  }
}
