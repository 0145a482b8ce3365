// Holds the ext units of one ConsumeQueue against the records whose units name them (docs/formats/consume-queue.md). They lie one behind the
// other in the order of the queue, so that each address follows from the one before. Filter bits are not compared: they are the groups' affair.

import { peekI64 } from '../../common/index.ts';
import type { FileSystem } from '../../io/index.ts';
import { EXT_UNIT_BYTES } from '../consume-queue/index.ts';
import type { Fault } from './fault.ts';
import { FileBytes } from './file-bytes.ts';
import { tagsCodeFault, type UnitOf } from './unit-of.ts';

const BLOCK_BYTES = 2560;
const END_MARK = -1;

export class ExtCheck {
  readonly faults: Fault[] = [];
  /** Units that were compared. */
  units = 0;
  lacks = false;
  readonly #bytes: FileBytes;
  /** Where the next unit lies; -1: nothing says so. */
  #next = -1;

  constructor(fs: FileSystem, folder: string) {
    this.#bytes = new FileBytes(fs, folder, 1, BLOCK_BYTES);
    for (const { file, reason } of this.#bytes.odd) this.faults.push({ of: 'queue', file, byte: 0, reason });
  }

  /** The queue's first unit comes next. */
  begin(): void {
    if (this.#bytes.first === 0) this.#next = 0;
  }

  /** A unit of the queue is not there, or has no ext address that can be told. */
  skip(): void {
    this.#next = -1;
  }

  /**
   * Compares the ext unit that a record's unit names; answers what is wrong with its address. `lacks` is then whether there is nothing at all where it
   * must lie: after a kill units may have reached the disk before their ext units.
   */
  check(position: number, record: UnitOf): string | undefined {
    const due = this.#next;
    this.lacks = (due < 0 || position === due || position === this.#nextFile(due)) && this.#isBlank(position);
    if (this.lacks) {
      this.#next = -1;
      const { file, byte } = this.#bytes.place(position);
      return `its ext unit is not there: ${file} has none at byte ${byte}`;
    }
    if (due >= 0 && position !== due && !this.#goesOn(due, position, record)) {
      this.#next = this.#endOf(due);
      return `its ext address is ${position}; the ext unit of its record must lie at ${due}`;
    }
    const at = this.#bytes.at(position, EXT_UNIT_BYTES);
    this.units++;
    const wrong = this.#wrong(at, record);
    this.#next = this.#endOf(position);
    if (wrong.length > 1 && due < 0)
      return `its ext address is ${position}, where ${wrong.join('; ')}: that is no ext unit of its record`;
    if (wrong.length > 0) this.#fault(position, wrong.join('; '));
    return undefined;
  }

  #nextFile(position: number): number {
    return position - (position % this.#bytes.fileBytes) + this.#bytes.fileBytes;
  }

  #isBlank(position: number): boolean {
    const at = this.#bytes.at(position, EXT_UNIT_BYTES);
    return at < 0 || this.#bytes.isZero(at, EXT_UNIT_BYTES);
  }

  #wrong(at: number, record: UnitOf): string[] {
    const { view } = this.#bytes;
    const wrong: string[] = [];
    const [size, bits] = [view.getInt16(at), view.getInt16(at + 18)];
    if (bits < 0 || size !== EXT_UNIT_BYTES + bits)
      wrong.push(`its size is ${size} with ${bits} bytes of filter bits, it must be ${EXT_UNIT_BYTES} more`);
    const tags = tagsCodeFault(peekI64(view, at + 2), record);
    if (tags !== undefined) wrong.push(tags);
    const time = peekI64(view, at + 10);
    if (time !== record.storeTimestamp)
      wrong.push(`its store time is ${time}, that of the record ${record.storeTimestamp}`);
    return wrong;
  }

  /** Whether the units go on at `position` although one may lie at `due`: in the next file, or behind units that a repeat has left (RocketMQ). */
  #goesOn(due: number, position: number, record: UnitOf): boolean {
    if (position === this.#nextFile(due)) {
      const mark = this.#sizeAt(due);
      if (mark === END_MARK) return true;
      if (!this.#isOf(position, record) || this.#isOf(due, record)) return false;
      this.#fault(due, `it is ${mark}; the units go on in the next file, and ${END_MARK} must end this one`);
      return true;
    }
    if (position < due || this.#isOf(due, record)) return false;
    let at = due;
    while (at >= 0 && at < position) at = this.#sizeAt(at) === END_MARK ? this.#nextFile(at) : this.#endOf(at);
    return at === position;
  }

  #isOf(position: number, record: UnitOf): boolean {
    const at = this.#bytes.at(position, EXT_UNIT_BYTES);
    return at >= 0 && this.#wrong(at, record).length === 0;
  }

  /** The end of the unit at a position; -1 if none lies there. */
  #endOf(position: number): number {
    const size = this.#sizeAt(position);
    return size < EXT_UNIT_BYTES ||
      this.#bytes.view.getInt16(this.#bytes.at(position, EXT_UNIT_BYTES) + 18) !== size - EXT_UNIT_BYTES
      ? -1
      : position + size;
  }

  /** 0: no file has a unit there. */
  #sizeAt(position: number): number {
    let at = this.#bytes.at(position, EXT_UNIT_BYTES);
    if (at < 0) at = this.#bytes.at(position, 2);
    if (at < 0) return 0;
    const size = this.#bytes.view.getInt16(at);
    return size >= EXT_UNIT_BYTES && this.#bytes.at(position, EXT_UNIT_BYTES) < 0 ? 0 : size;
  }

  #fault(position: number, reason: string): void {
    this.faults.push({ of: 'queue', ...this.#bytes.place(position), reason });
  }
}
