// Holds the timer's files against the messages of its topic in the CommitLog (docs/formats/timer.md): each unit of the timer log names one of them and
// stands in the chain of its slot, the wheel is what follows from the timer log, and the checkpoint speaks of neither more nor less. Units come in
// the order of the queue, but for those that were put in again; so their records are looked up, mostly one behind the other.

import { javaHashUtf8, peekI64, viewOf } from '../../common/index.ts';
import { type FileSystem, readWhole } from '../../io/index.ts';
import {
  nameBytes,
  PropertyName,
  PropertyTable,
  RecordOutcome,
  RecordView,
  readRecord,
  Verify,
} from '../../message/index.ts';
import { CQ_UNIT_BYTES, isUnit, unitOffset, unitSize } from '../consume-queue/index.ts';
import { FILLER_BYTES, isFiller, TimerMagic, TimerUnit, UNIT_BYTES } from '../timer/timer-format.ts';
import { TimerLog } from '../timer/timer-log.ts';
import { TimerSlot, TimerWheel } from '../timer/timer-wheel.ts';
import type { DamagedRuns, Fault } from './fault.ts';
import { FileBytes } from './file-bytes.ts';
import { compareWheel } from './wheel-check.ts';

export const TIMER_TOPIC = 'rmq_sys_wheel_timer';
/** Faults that are named. */
const MOST_FAULTS = 100;
const RECORDS_BYTES = 256 * 1024;
const SCAN_BYTES = 4096;
/** A message that comes for a slot which is over is delivered without a unit; the timer may have been so far ahead of the newest record. */
const LATE_MS = 60_000;
const FIRST_ORDINALS = 1 << 16;
const REAL_TOPIC = nameBytes(PropertyName.REAL_TOPIC);
const TIMER_OUT_MS = nameBytes(PropertyName.TIMER_OUT_MS);
const TIMER_DEL_UNIQKEY = nameBytes(PropertyName.TIMER_DEL_UNIQKEY);

/** What the walk through the CommitLog has shown. */
export interface WalkedRecords {
  readonly folder: string;
  readonly start: number;
  readonly end: number;
  /** Store time of the newest record, ms. */
  readonly newestMs: number;
  readonly damaged: DamagedRuns;
  /** Whether the last stop was orderly. */
  readonly isClean: boolean;
}

export class TimerCheck {
  readonly faults: Fault[] = [];
  readonly notes: string[] = [];
  /** Units that were compared, and slots of the wheel that are not done. */
  units = 0;
  slots = 0;
  readonly #fs: FileSystem;
  readonly #root: string;
  readonly #precisionMs: number;
  /** undefined: there are no files, or ones that do not fit together. */
  readonly #log: TimerLog | undefined;
  readonly #wheel: TimerWheel;
  /** Of the checkpoint: slots before are done, so much of the timer log counts, next message of the queue. Without one 0 and Infinity. */
  #readMs = 0;
  #flushPos = Number.POSITIVE_INFINITY;
  #queueOffset = Number.POSITIVE_INFINITY;
  #masterOffset = Number.POSITIVE_INFINITY;
  /** Messages that wait, as far as no unit is known that names them: a bit for each ordinal from `#ordinals` on. */
  #waiting = new Uint8Array(FIRST_ORDINALS / 8);
  #ordinals = -1;
  /** Ordinal behind the last message. */
  #max = 0;
  /** End of the newest unit whose record was read. */
  #newest = -1;
  /** Units that are none, or whose slot cannot be told. */
  readonly #strays = new Set<number>();
  readonly #properties = new PropertyTable();
  readonly #record = new RecordView();
  readonly #slot = new TimerSlot();

  constructor(fs: FileSystem, root: string, precisionMs: number) {
    this.#fs = fs;
    this.#root = root;
    this.#precisionMs = precisionMs;
    this.#wheel = new TimerWheel(fs, root, precisionMs);
    this.#readCheckpoint();
    this.#log = this.#open();
  }

  /** The log has this record in the timer's topic. */
  record(bytes: Uint8Array, record: RecordView): void {
    if (record.queueId !== 0) return;
    const { queueOffset, propertiesStart, propertiesEnd } = record;
    this.#max = queueOffset + 1;
    if (this.#log === undefined || queueOffset >= this.#queueOffset) return;
    this.#properties.read(bytes, propertiesStart, propertiesEnd);
    if (!(this.#tick(Number(this.#properties.get(TIMER_OUT_MS))) >= this.#readMs)) return;
    if (this.#ordinals < 0) this.#ordinals = queueOffset;
    const bit = queueOffset - this.#ordinals;
    if (bit < 0) return;
    if (bit >= this.#waiting.length * 8) {
      const larger = new Uint8Array(Math.max(this.#waiting.length * 2, (bit >> 3) + 1));
      larger.set(this.#waiting);
      this.#waiting = larger;
    }
    this.#waiting[bit >> 3]! |= 1 << (bit & 7);
  }

  /** Compares the files. @throws GantryError IO. */
  end(walked: WalkedRecords): void {
    const log = this.#log;
    if (log === undefined) return;
    try {
      const records = new FileBytes(this.#fs, walked.folder, 1, RECORDS_BYTES);
      this.#checkCheckpoint(log, walked);
      const end = Math.min(this.#flushPos, log.last);
      log.end = end;
      const last = this.#scan(log, records, walked);
      log.end = log.last;
      this.#checkQueueOffset(last, walked);
      if (this.#strays.size > 0 || this.faults.some(({ file }) => file === this.#checkpointPath))
        this.notes.push(
          'the timer wheel was not compared: the timer log or the checkpoint that it follows from is damaged',
        );
      else {
        const compared = compareWheel(this.#fs, this.#wheel, this.#readMs, log, end, walked.isClean);
        for (const { file, byte, reason } of compared.faults) this.#fault(file, byte, reason);
        this.slots = compared.slots;
      }
      if (this.faults.length === 0) this.#checkWaiting(last, records, walked);
    } finally {
      log.close();
    }
  }

  get #checkpointPath(): string {
    return `${this.#root}/config/timercheck`;
  }

  #readCheckpoint(): void {
    const bytes = readWhole(this.#fs, this.#checkpointPath);
    if (bytes === undefined) return;
    if (bytes.length < 32) return this.#fault(this.#checkpointPath, 0, `it has ${bytes.length} bytes, not 4096`);
    const view = viewOf(bytes);
    const values = [0, 8, 16, 24].map((at) => peekI64(view, at));
    for (const [i, value] of values.entries())
      if (!Number.isSafeInteger(value) || value < 0)
        this.#fault(this.#checkpointPath, 8 * i, `it is ${value}, which no broker writes`);
    const [readMs, flushPos, queueOffset, masterOffset] = values as [number, number, number, number];
    if (readMs % this.#precisionMs !== 0)
      this.#fault(this.#checkpointPath, 0, `lastReadTimeMs is ${readMs}, no multiple of ${this.#precisionMs} ms`);
    if (this.faults.length > 0) return;
    [this.#readMs, this.#flushPos, this.#queueOffset, this.#masterOffset] = [
      readMs,
      flushPos,
      queueOffset,
      masterOffset,
    ];
  }

  /** The timer log, unless its files do not fit together; a start refuses those. */
  #open(): TimerLog | undefined {
    const folder = `${this.#root}/timerlog`;
    const { first, odd, fileBytes } = new FileBytes(this.#fs, folder, 1, 0);
    for (const { file, reason } of odd) this.#fault(file, 0, reason);
    const names = this.#fs.list(folder).filter((name) => /^\d{20}$/.test(name));
    for (const name of names.sort().slice(1)) {
      const before = `${folder}/${String(Number(name) - fileBytes).padStart(20, '0')}`;
      if (this.#fs.stat(before) === undefined) this.#fault(before, 0, 'the file is missing');
    }
    if (first === Number.POSITIVE_INFINITY || this.faults.some(({ file }) => file.startsWith(`${folder}/`)))
      return undefined;
    const log = new TimerLog(this.#fs, this.#root, fileBytes);
    log.load(0);
    return log;
  }

  /** Compares the units up to `log.end`, and makes the wheel of them; answers where they end. */
  #scan(log: TimerLog, records: FileBytes, walked: WalkedRecords): number {
    const unit = new TimerUnit();
    const raw = new FileBytes(this.#fs, log.folder, 1, SCAN_BYTES);
    let end = log.first;
    let bad = -1;
    const settle = (): void => {
      if (bad >= 0) this.#stray(bad, raw);
      bad = -1;
    };
    for (let from = log.first; from < log.end; ) {
      const stop = log.scan(
        from,
        (position) => {
          settle();
          this.#unit(position, unit, log, records, walked);
          end = position + UNIT_BYTES;
          return true;
        },
        unit,
        (position) => {
          this.#strays.add(position);
          if (bad < 0) bad = position;
        },
      );
      if (stop >= log.end) break;
      // The rest of a file, where no filler is.
      if (bad < 0) bad = stop;
      from = stop - (stop % log.fileSize) + log.fileSize;
    }
    // Behind the last unit are zeros, if nothing says how far the units go.
    if (this.#flushPos <= log.end || (bad >= 0 && !this.#isBlank(bad, raw))) settle();
    else for (const position of this.#strays) if (position >= end) this.#strays.delete(position);
    this.#checkFillers(log, end, raw);
    return end;
  }

  #isBlank(position: number, raw: FileBytes): boolean {
    const length = Math.min(UNIT_BYTES, raw.fileBytes - (position % raw.fileBytes));
    const at = raw.at(position, length);
    return at < 0 || raw.isZero(at, length);
  }

  #stray(position: number, raw: FileBytes): void {
    this.#strays.add(position);
    const left = raw.fileBytes - (position % raw.fileBytes);
    const { file, byte } = raw.place(position);
    if (left < UNIT_BYTES + FILLER_BYTES)
      return this.#fault(file, byte, `it is no filler; ${left} bytes are left in the file, and no unit has room`);
    const at = raw.at(position, 16);
    const what = at < 0 ? 'nothing' : `a size of ${raw.view.getInt32(at)} and the magic ${raw.view.getInt32(at + 12)}`;
    this.#fault(file, byte, `it is no unit: it has ${what}, and must have ${UNIT_BYTES} and 1, with 2 or 4`);
  }

  /** Full files end with a filler that says how long it is. */
  #checkFillers(log: TimerLog, end: number, raw: FileBytes): void {
    for (let base = log.first; base + log.fileSize <= end; base += log.fileSize) {
      const position = log.lastUnitOf(base) + UNIT_BYTES;
      const at = raw.at(position, FILLER_BYTES);
      const left = base + log.fileSize - position;
      if (at < 0 || !isFiller(raw.view, at) || raw.view.getInt32(at) === left) continue;
      const { file, byte } = raw.place(position);
      this.#fault(
        file,
        byte,
        `the filler says that ${raw.view.getInt32(at)} bytes are left in the file; there are ${left}`,
      );
    }
  }

  /** Compares a unit with its record and its chain, and puts it into its slot. */
  #unit(position: number, unit: TimerUnit, log: TimerLog, records: FileBytes, walked: WalkedRecords): void {
    this.units++;
    const { offset, size, slotTime, prevPos } = unit;
    const slot = this.#slot;
    let wrong = '';
    // What the log has lost in a power cut is cut off the timer log by the next start.
    const isLost = !walked.isClean && offset >= walked.end;
    if (offset >= walked.start && !isLost && !walked.damaged.has(offset)) {
      wrong = this.#readMessage(records, offset, size)
        ? this.#againstMessage(unit)
        : `it names ${size} bytes at ${offset}, where no message of ${TIMER_TOPIC} of that length lies`;
      if (wrong !== '') this.#strays.add(position);
      else this.#newest = position + UNIT_BYTES;
    }
    if (!this.#strays.has(position)) {
      this.#wheel.read(slotTime, slot);
      const isLoose =
        prevPos === -1 || (slot.lastPos < 0 && prevPos >= 0 && prevPos < log.first) || this.#strays.has(prevPos);
      if (prevPos !== slot.lastPos && !isLoose)
        wrong = `the unit before it in the slot of ${slotTime} lies at ${slot.lastPos}; it says ${prevPos}`;
      // A stop within a slot has ended its chain there; its file may also have gone.
      if (prevPos === -1 || slot.firstPos < 0) {
        slot.firstPos = position;
        slot.num = 0;
      }
      slot.lastPos = position;
      slot.num += (unit.magic & TimerMagic.DELETE) !== 0 ? -1 : 1;
      this.#wheel.write(slotTime, slot);
    }
    if (wrong === '') return;
    const byte = position % log.fileSize;
    this.#fault(`${log.folder}/${String(position - byte).padStart(20, '0')}`, byte, wrong);
  }

  /** Reads the record of a unit; false if there lies none of the timer's topic. */
  #readMessage(records: FileBytes, offset: number, size: number): boolean {
    const at = records.at(offset, size);
    if (at < 0) return false;
    const { block, view } = records;
    const record = this.#record;
    if (readRecord(block, view, at, at + size, Verify.STRUCTURE, record) !== RecordOutcome.RECORD) return false;
    if (record.totalSize !== size || record.physicalOffset !== offset) return false;
    const { topicStart, topicEnd } = record;
    if (
      Buffer.from(block.buffer, block.byteOffset + topicStart, topicEnd - topicStart).toString('latin1') !== TIMER_TOPIC
    )
      return false;
    this.#properties.read(block, record.propertiesStart, record.propertiesEnd);
    const bit = record.queueOffset - this.#ordinals;
    if (this.#ordinals >= 0 && bit >= 0 && bit < this.#waiting.length * 8)
      this.#waiting[bit >> 3]! &= ~(1 << (bit & 7));
    return true;
  }

  /** What of a unit does not fit to its message, which was just read; '' if all does. */
  #againstMessage({ magic, writeTime, delay, slotTime, topicHash }: TimerUnit): string {
    const p = this.#properties;
    const precision = this.#precisionMs;
    const dueMs = Number(p.get(TIMER_OUT_MS));
    if (writeTime % precision !== 0) return `its write time is ${writeTime}, no multiple of ${precision} ms`;
    if (delay % precision !== 0 && dueMs % precision === 0)
      return `its delay is ${delay}, no multiple of ${precision} ms`;
    const isOrder = p.find(TIMER_DEL_UNIQKEY) >= 0;
    const rolls = (magic & TimerMagic.ROLL) !== 0;
    const wanted = TimerMagic.DEFAULT | (rolls ? TimerMagic.ROLL : 0) | (isOrder ? TimerMagic.DELETE : 0);
    if (magic !== wanted) return `its magic is ${magic}; that of its message is ${wanted}`;
    const topic = p.find(REAL_TOPIC);
    const hash = topic < 0 ? 0 : javaHashUtf8(p.sourceOf(topic), p.valueStart(topic), p.valueEnd(topic));
    // One whose record the disk did not give waits some slots more, under no topic.
    if (topicHash === 0 && hash !== 0) return '';
    if (topicHash !== hash) return `its topic's hash is ${topicHash}, that of its message's ${hash}`;
    const dueTick = this.#tick(dueMs);
    const isEarly = this.#tick(slotTime) < dueTick;
    if (isEarly !== rolls)
      return `its slot is that of ${slotTime}, ${rolls ? 'on the way' : 'its own'} by its magic ${magic}; its message is due at ${dueMs}`;
    return '';
  }

  /** Looks whether what the checkpoint says of timer log and queue can be; `lastTimerLogFlushPos` counts only if it can. */
  #checkCheckpoint(log: TimerLog, { isClean }: WalkedRecords): void {
    const path = this.#checkpointPath;
    const [flushPos, queueOffset] = [this.#flushPos, this.#queueOffset];
    if (flushPos === Number.POSITIVE_INFINITY) return;
    const isBetween = (flushPos % log.fileSize) % UNIT_BYTES !== 0;
    if (flushPos > log.last || isBetween) {
      const why = isBetween ? 'which is within a unit of the timer log' : `the timer log ends at ${log.last}`;
      this.#fault(path, 8, `lastTimerLogFlushPos is ${flushPos}; ${why}`);
      this.#flushPos = Number.POSITIVE_INFINITY;
    }
    if (isClean && queueOffset > this.#max && this.#max > 0)
      this.#fault(path, 16, `lastTimerQueueOffset is ${queueOffset}; the log has messages up to ${this.#max}`);
    // RocketMQ: a start goes back to it.
    else if (this.#masterOffset < queueOffset)
      this.#fault(
        path,
        24,
        `masterTimerQueueOffset is ${this.#masterOffset}, below lastTimerQueueOffset ${queueOffset}`,
      );
  }

  /** The newest unit, which was read last and ends at `end`, names a message that the timer has taken. */
  #checkQueueOffset(end: number, { isClean }: WalkedRecords): void {
    const { queueOffset } = this.#record;
    if (!isClean || this.#newest !== end || queueOffset < this.#queueOffset) return;
    const reason = `lastTimerQueueOffset is ${this.#queueOffset}; the timer log has message ${queueOffset} already`;
    this.#fault(this.#checkpointPath, 16, reason);
  }

  /** Messages that wait, and that no unit names. */
  #checkWaiting(end: number, records: FileBytes, { newestMs }: WalkedRecords): void {
    const queue = new FileBytes(this.#fs, `${this.#root}/consumequeue/${TIMER_TOPIC}/0`, CQ_UNIT_BYTES, SCAN_BYTES);
    for (let i = 0; i < this.#waiting.length; i++) {
      for (let bits = this.#waiting[i]!, k = 0; bits !== 0; bits >>= 1, k++) {
        if ((bits & 1) === 0) continue;
        const ordinal = this.#ordinals + 8 * i + k;
        const at = queue.at(ordinal * CQ_UNIT_BYTES, CQ_UNIT_BYTES);
        if (at < 0 || !isUnit(queue.view, at)) continue;
        const offset = unitOffset(queue.view, at);
        if (!this.#readMessage(records, offset, unitSize(queue.view, at))) continue;
        const dueMs = Number(this.#properties.get(TIMER_OUT_MS));
        if (dueMs < newestMs + LATE_MS || this.#properties.find(REAL_TOPIC) < 0) continue;
        const byte = end % this.#log!.fileSize;
        const file = `${this.#log!.folder}/${String(end - byte).padStart(20, '0')}`;
        this.#fault(
          file,
          byte,
          `no unit names message ${ordinal} of ${TIMER_TOPIC}, at ${offset}, which is due at ${dueMs}`,
        );
      }
    }
  }

  #tick(timeMs: number): number {
    return Math.floor(timeMs / this.#precisionMs) * this.#precisionMs;
  }

  #fault(file: string, byte: number, reason: string): void {
    if (this.faults.length < MOST_FAULTS) this.faults.push({ of: 'timer', file, byte, reason });
  }
}
