// Holds the units of one batch queue against the records of the CommitLog, in the order of the log (docs/formats/consume-queue.md). Units lie
// one behind the other, so a place in the queue says nothing of its offsets: what is compared is the next unit with the next record.

import type { FileSystem } from '../../io/index.ts';
import { BATCH_UNIT_BYTES, BatchUnit } from '../consume-queue/index.ts';
import type { Fault } from './log-walk.ts';

const BLOCK_UNITS = 128;
/** Faults of one queue that are named. */
const MOST_FAULTS = 100;

/** What the unit of a record must say. */
export interface BatchRecord {
  readonly physicalOffset: number;
  readonly size: number;
  /** The low 32 bits of its tagsCode. */
  readonly tag: number;
  readonly storeTimestamp: number;
  readonly base: number;
  readonly count: number;
  /** It holds many messages. RocketMQ has no unit for one that does not. */
  readonly isInner: boolean;
}

export class BatchCheck {
  readonly folder: string;
  faults: Fault[] = [];
  /** Units that were compared. */
  units = 0;
  /** Records behind the last unit: the queue lags. */
  lacks = 0;
  readonly #fs: FileSystem;
  readonly #fileBytes: number;
  readonly #names: ReadonlySet<string>;
  readonly #first: number;
  readonly #logStart: number;
  readonly #unit = new BatchUnit();
  readonly #block = new Uint8Array(BLOCK_UNITS * BATCH_UNIT_BYTES);
  #blockAt = 0;
  #blockBytes = 0;
  /** Position of the next unit; -1 before the first record. */
  #at = -1;
  #nextBase = 0;

  constructor(fs: FileSystem, root: string, topic: string, queueId: number, logStart: number) {
    this.#fs = fs;
    this.#logStart = logStart;
    this.folder = `${root}/batchconsumequeue/${topic}/${queueId}`;
    const names = fs
      .list(this.folder)
      .filter((name) => /^\d{20}$/.test(name))
      .sort();
    this.#names = new Set(names);
    this.#first = Number(names[0] ?? 0);
    this.#fileBytes = names.length === 0 ? BATCH_UNIT_BYTES : fs.stat(`${this.folder}/${names[0]}`)!.size;
  }

  /** The log has this record for the queue. */
  record(record: BatchRecord): void {
    const unit = this.#unit;
    if (record.base === 0 && this.#nextBase > 0) {
      // The topic was made anew, and the queue is that of its later life.
      this.faults = [];
      this.lacks = 0;
      this.#at = -1;
    }
    this.#nextBase = record.base + record.count;
    if (this.#at < 0) {
      this.#at = this.#first;
      // Those of records that are gone.
      while (this.#read(this.#at) && unit.isSound && unit.physicalOffset < this.#logStart) this.#at += BATCH_UNIT_BYTES;
    }
    if (!this.#read(this.#at) || this.#isZero()) {
      const goesOn = this.#read(this.#at + BATCH_UNIT_BYTES) && unit.isSound;
      if (!goesOn) {
        this.lacks++;
        return;
      }
    }
    this.#read(this.#at);
    if (unit.physicalOffset !== record.physicalOffset) {
      if (!record.isInner && unit.isSound && unit.physicalOffset > record.physicalOffset) return;
      const isExtra = this.#read(this.#at + BATCH_UNIT_BYTES) && unit.physicalOffset === record.physicalOffset;
      this.#read(this.#at);
      this.#fault(this.#at, `it names ${unit.physicalOffset}; the record is at ${record.physicalOffset}`);
      this.#at += BATCH_UNIT_BYTES;
      if (!isExtra) {
        this.units++;
        return;
      }
      this.#read(this.#at);
    }
    this.units++;
    for (const field of ['size', 'tag', 'storeTimestamp', 'base', 'count'] as const) {
      if (unit[field] === record[field]) continue;
      this.#fault(this.#at, `its ${field} is ${unit[field]}, that of the record ${record[field]}`);
      break;
    }
    this.#at += BATCH_UNIT_BYTES;
  }

  /** The log ends there: no unit may name what lies behind. */
  end(logEnd: number): void {
    if (this.#at < 0 || !this.#read(this.#at) || !this.#unit.isSound) return;
    const { physicalOffset } = this.#unit;
    if (physicalOffset >= logEnd) this.#fault(this.#at, `it names ${physicalOffset}, where the log has ended`);
  }

  #fault(position: number, reason: string): void {
    if (this.faults.length >= MOST_FAULTS) return;
    const byte = position % this.#fileBytes;
    const file = `${this.folder}/${String(position - byte).padStart(20, '0')}`;
    this.faults.push({ of: 'queue', file, byte, reason });
  }

  #isZero(): boolean {
    return this.#unit.bytes.every((byte) => byte === 0);
  }

  /** Reads the unit at a position; false: there is none. */
  #read(position: number): boolean {
    if (position < this.#blockAt || position + BATCH_UNIT_BYTES > this.#blockAt + this.#blockBytes) {
      const inFile = position % this.#fileBytes;
      const name = String(position - inFile).padStart(20, '0');
      if (!this.#names.has(name)) return false;
      const handle = this.#fs.open(`${this.folder}/${name}`, 'read');
      try {
        const length = Math.min(this.#block.length, this.#fileBytes - inFile);
        this.#blockBytes = handle.readSync(this.#block, 0, length, inFile);
        this.#blockAt = position;
      } finally {
        handle.close();
      }
      if (this.#blockBytes < BATCH_UNIT_BYTES) return false;
    }
    const at = position - this.#blockAt;
    this.#unit.bytes.set(this.#block.subarray(at, at + BATCH_UNIT_BYTES));
    this.#unit.isSound = this.#unit.parse();
    return true;
  }
}
