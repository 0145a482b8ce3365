// Holds the units of one ConsumeQueue against the records of the CommitLog, in the order of the log (docs/formats/consume-queue.md).

import { peekI64 } from '../../common/index.ts';
import type { FileSystem } from '../../io/index.ts';
import {
  CQ_UNIT_BYTES,
  extPosition,
  FILLER_SIZE,
  isExtAddress,
  isUnit,
  unitOffset,
  unitSize,
} from '../consume-queue/index.ts';
import { ExtCheck } from './ext-check.ts';
import type { DamagedRuns, Fault } from './fault.ts';
import { FileBytes } from './file-bytes.ts';
import { tagsCodeFault, type UnitOf } from './unit-of.ts';

const BLOCK_UNITS = 128;
/** Faults of one queue that are named. */
const MOST_FAULTS = 100;

export class QueueCheck {
  /** Units that were compared. */
  units = 0;
  /** Messages behind the last unit: the queue lags. */
  lacks = 0;
  #faults: Fault[] = [];
  readonly #bytes: FileBytes;
  /** Of units that have an ext address in the place of their tagsCode. */
  #ext!: ExtCheck;
  readonly #makeExt: () => ExtCheck;
  /** Newest units whose ext units are not there. */
  #extLacks: { position: number; count: number; reason: string } | undefined;
  /** Ordinal behind the last one that was compared. */
  #next = 0;

  constructor(fs: FileSystem, root: string, topic: string, queueId: number) {
    this.#bytes = new FileBytes(
      fs,
      `${root}/consumequeue/${topic}/${queueId}`,
      CQ_UNIT_BYTES,
      BLOCK_UNITS * CQ_UNIT_BYTES,
    );
    const extFolder = `${root}/consumequeue_ext/${topic}/${queueId}`;
    this.#makeExt = () => new ExtCheck(fs, extFolder);
    this.#begin();
  }

  #begin(): void {
    this.#faults = this.#bytes.odd.map(({ file, reason }) => ({ of: 'queue', file, byte: 0, reason }));
    this.#ext = this.#makeExt();
    this.#extLacks = undefined;
    this.units = 0;
    this.lacks = 0;
  }

  get faults(): Fault[] {
    return [...this.#faults, ...this.#ext.faults];
  }

  get extUnits(): number {
    return this.#ext.units;
  }

  /** The log has this record for the queue. */
  record(ordinal: number, record: UnitOf): void {
    if (ordinal < this.#next) {
      // A repeat; or the topic was made anew, and the queue is that of its later life.
      if (ordinal > 0) return;
      this.#begin();
    }
    this.#next = ordinal + 1;
    const position = ordinal * CQ_UNIT_BYTES;
    const { first, view } = this.#bytes;
    // Its file was removed as old.
    if (position < first) return;
    const at = this.#bytes.at(position, CQ_UNIT_BYTES);
    if (at < 0 || this.#bytes.isZero(at, CQ_UNIT_BYTES)) {
      this.lacks++;
      this.#ext.skip();
      return;
    }
    // The queue does not lag: it goes on behind them.
    if (this.lacks > 0) {
      this.#fault(position - this.lacks * CQ_UNIT_BYTES, `${this.lacks} units are missing`);
      this.lacks = 0;
    }
    this.units++;
    const [offset, size] = [unitOffset(view, at), unitSize(view, at)];
    const isExt = isExtAddress(view, at);
    const tags = isExt
      ? this.#checkExt(ordinal, extPosition(view, at), record)
      : tagsCodeFault(peekI64(view, at + 12), record);
    if (tags !== undefined && !isExt) this.#ext.skip();
    if (offset !== record.offset || size !== record.size) {
      const what = isUnit(view, at) ? 'it names' : 'it is no unit: it names';
      const wanted = `the record has ${record.size} bytes at ${record.offset}`;
      this.#fault(position, `${what} ${size} bytes at ${offset}; ${wanted}`);
    } else if (isExt && this.#ext.lacks) {
      this.#extLacks ??= { position, count: 0, reason: tags! };
      this.#extLacks.count++;
    } else {
      this.#settleExt();
      if (tags !== undefined) this.#fault(position, tags);
    }
  }

  #checkExt(ordinal: number, position: number, record: UnitOf): string | undefined {
    if (ordinal === 0) this.#ext.begin();
    return this.#ext.check(position, record);
  }

  /** Ext units that are not there are no mere lag: others are, behind them. */
  #settleExt(): void {
    if (this.#extLacks === undefined) return;
    const { position, count, reason } = this.#extLacks;
    this.#extLacks = undefined;
    this.#fault(position, count === 1 ? reason : `${reason}, nor have ${count - 1} units behind it theirs`);
  }

  /** Whether an ordinal lies so far behind the end that dispatch does not follow it: a client has made it up. */
  isFar(ordinal: number): boolean {
    return this.#next > 0 && ordinal - this.#next > this.#bytes.fileBytes / CQ_UNIT_BYTES;
  }

  /** The log ends there, and has no further record for the queue. `isClean`: the last stop was orderly. */
  end(logEnd: number, damaged: DamagedRuns, isClean: boolean): void {
    if (this.#next === 0) return;
    if (isClean) this.#settleExt();
    const position = this.#next * CQ_UNIT_BYTES;
    const at = this.#bytes.at(position, CQ_UNIT_BYTES);
    const { view } = this.#bytes;
    if (at < 0 || !isUnit(view, at) || unitSize(view, at) === FILLER_SIZE) return;
    const offset = unitOffset(view, at);
    // A start that comes behind a power cut ends the queue where the log ends.
    if (offset >= logEnd && !isClean) return;
    if (offset >= logEnd) this.#fault(position, `it names ${offset}, where the log has ended`);
    else if (!damaged.has(offset)) this.#fault(position, `it names ${offset}, where no record of this queue lies`);
  }

  #fault(position: number, reason: string): void {
    if (this.#faults.length < MOST_FAULTS) this.#faults.push({ of: 'queue', ...this.#bytes.place(position), reason });
  }
}
