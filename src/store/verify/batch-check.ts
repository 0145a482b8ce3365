// Holds the units of one batch queue against the records of the CommitLog, in the order of the log (docs/formats/consume-queue.md). They lie one
// behind the other: which record is whose is told by base and physical offset, both of which rise.

import { peekI64 } from '../../common/index.ts';
import type { FileSystem } from '../../io/index.ts';
import { BATCH_UNIT_BYTES } from '../consume-queue/index.ts';
import type { DamagedRuns, Fault } from './fault.ts';
import { FileBytes } from './file-bytes.ts';
import { tagsCodeFault, type UnitOf } from './unit-of.ts';

const BLOCK_UNITS = 64;
/** Faults of one queue that are named. */
const MOST_FAULTS = 100;

export class BatchCheck {
  faults: Fault[] = [];
  /** Units that were compared. */
  units = 0;
  /** Records behind the last unit: the queue lags. */
  lacks = 0;
  readonly #bytes: FileBytes;
  readonly #damaged: DamagedRuns;
  readonly #logStart: number;
  /** Position of the next unit. */
  #at = 0;
  /** Queue offset behind the last record. */
  #next = 0;
  /** Whether a record came. */
  #begun = false;

  constructor(fs: FileSystem, root: string, topic: string, queueId: number, logStart: number, damaged: DamagedRuns) {
    const folder = `${root}/batchconsumequeue/${topic}/${queueId}`;
    this.#bytes = new FileBytes(fs, folder, BATCH_UNIT_BYTES, BLOCK_UNITS * BATCH_UNIT_BYTES);
    this.#damaged = damaged;
    this.#logStart = logStart;
    this.#begin();
  }

  #begin(): void {
    this.faults = this.#bytes.odd.map(({ file, reason }) => ({ of: 'queue', file, byte: 0, reason }));
    this.#at = this.#bytes.first;
    this.units = 0;
    this.lacks = 0;
    this.#next = 0;
  }

  /** The log has this record for the queue, with the messages [base, base + count). RocketMQ: no unit for one that is not `isInner`. */
  record(record: UnitOf, base: number, count: number, isInner: boolean): void {
    if (this.#begun && base < this.#next) {
      // Its place is taken; or the topic was made anew, and the queue is that of its later life.
      if (base > 0) return;
      this.#begin();
    }
    this.#begun = true;
    this.#next = base + count;
    for (;;) {
      const at = this.#bytes.at(this.#at, BATCH_UNIT_BYTES);
      if (at < 0 || this.#bytes.isZero(at, BATCH_UNIT_BYTES)) {
        this.lacks++;
        this.#at += BATCH_UNIT_BYTES;
        return;
      }
      if (this.lacks > 0) {
        this.#fault(this.#at - this.lacks * BATCH_UNIT_BYTES, `${this.lacks} units are missing`);
        this.lacks = 0;
      }
      const { view } = this.#bytes;
      const [offset, size, foundBase] = [peekI64(view, at), view.getInt32(at + 8), peekI64(view, at + 28)];
      if (offset === record.offset || foundBase === base || offset < record.offset !== foundBase < base) {
        this.units++;
        this.#compare(at, record, base, count);
        this.#at += BATCH_UNIT_BYTES;
        return;
      }
      if (offset > record.offset) {
        if (!isInner) return;
        this.#fault(
          this.#at,
          `it names ${size} bytes at ${offset}; that of the record of ${record.size} bytes at ${record.offset} is missing before it`,
        );
        return;
      }
      // The log begins later, or has lost the record.
      if (offset >= this.#logStart && !this.#damaged.has(offset))
        this.#fault(this.#at, `it names ${size} bytes at ${offset}, where no record of this queue lies`);
      this.#at += BATCH_UNIT_BYTES;
    }
  }

  #compare(at: number, record: UnitOf, base: number, count: number): void {
    const { view } = this.#bytes;
    let wrong = '';
    const differs = (name: string, found: number, wanted: number): void => {
      if (found !== wanted) wrong += `${wrong === '' ? '' : '; '}its ${name} is ${found}, that of the record ${wanted}`;
    };
    differs('physical offset', peekI64(view, at), record.offset);
    differs('size', view.getInt32(at + 8), record.size);
    const tags = tagsCodeFault(peekI64(view, at + 12), record);
    if (tags !== undefined) wrong += `${wrong === '' ? '' : '; '}${tags}`;
    differs('store time', peekI64(view, at + 20), record.storeTimestamp);
    differs('base', peekI64(view, at + 28), base);
    differs('count', view.getInt16(at + 36), count);
    const [compacted, last] = [view.getInt32(at + 38), view.getInt32(at + 42)];
    if (compacted !== -1 || last !== 0)
      wrong += `${wrong === '' ? '' : '; '}it ends with ${compacted} and ${last}, not with -1 and 0`;
    if (wrong !== '') this.#fault(this.#at, wrong);
  }

  /** The log ends there, and has no further record for the queue. `isClean`: the last stop was orderly. */
  end(logEnd: number, isClean: boolean): void {
    if (!this.#begun || this.lacks > 0) return;
    const at = this.#bytes.at(this.#at, BATCH_UNIT_BYTES);
    if (at < 0 || this.#bytes.isZero(at, BATCH_UNIT_BYTES)) return;
    const offset = peekI64(this.#bytes.view, at);
    // A start that comes behind a power cut ends the queue where the log ends.
    if (offset >= logEnd && !isClean) return;
    if (offset >= logEnd) this.#fault(this.#at, `it names ${offset}, where the log has ended`);
    else if (!this.#damaged.has(offset))
      this.#fault(this.#at, `it names ${offset}, where no record of this queue lies`);
  }

  #fault(position: number, reason: string): void {
    if (this.faults.length < MOST_FAULTS) this.faults.push({ of: 'queue', ...this.#bytes.place(position), reason });
  }
}
