// ConsumeQueueExt: a unit of 20 bytes and more beside each unit of a ConsumeQueue (`enableConsumeQueueExt`), which then holds the ext
// unit's address where its tagsCode was. docs/formats/consume-queue.md is its page. RocketMQ: ConsumeQueueExt.
//
//   ext unit:  size i16 | tagsCode i64 | store time i64 | m i16 | m bytes of filter bits     size = 20 + m
//   address  = Long.MIN_VALUE + position in the queue's ext space, at most -2147483649: no hash of a tag is that low
//   a unit never crosses files: where it and four bytes more do not fit, i16 -1 ends the file
//
// The ext data ends behind the unit that the queue's last address names, whatever lies behind. Units whose ext unit is lost are cut and
// come again from the log; until then a filter lets them pass, as RocketMQ's does.
//
// Filter bits (src/filter/bloom-filter.ts) are written where dispatch is given some; who has none asks the record itself.

import { type Clock, type Logger, peekI64, SeldomWarning, viewOf, writeI64 } from '../../common/index.ts';
import type { Ready } from '../segment/index.ts';
import type { ConsumeQueue } from './consume-queue.ts';
import type { ConsumeQueueStore } from './consume-queue-store.ts';
import { type Stream, StreamStore, type StreamStoreOptions } from './stream-store.ts';
import { CQ_UNIT_BYTES, unitOffset } from './unit.ts';

/** Bytes of an ext unit without filter bits. */
export const EXT_UNIT_BYTES = 20;
/** RocketMQ: END_BLANK_DATA_LENGTH: bytes that stay free at a file's end. */
const END_BYTES = 4;
/** Bytes of the smallest file that holds a unit. */
export const EXT_FILE_MIN_BYTES: number = EXT_UNIT_BYTES + END_BYTES;
const END_MARK = -1;
const TWO_31 = 0x8000_0000;
const TWO_32 = 0x1_0000_0000;
const STEP_UNITS = 3200;
/** Units that may be torn by a power cut at a queue's end, and that are looked at first. */
const NEWEST_UNITS = 64;
const WALK_BYTES = 256 * 1024;
const HEAD_BYTES = 10;
/** What an i16 can say. */
const MAX_UNIT_BYTES = 32_767;
const NO_BITS = new Uint8Array(0);

/** What a look at an ext unit found. */
export const ExtRead = {
  FOUND: 0,
  /** There is none, or it is damaged. */
  MISSING: 1,
  /** Its bytes must be fetched first. */
  WAIT: 2,
} as const;
export type ExtRead = (typeof ExtRead)[keyof typeof ExtRead];

/** Whether the tagsCode of the unit at `at` is an ext address. */
export function isExtAddress(view: DataView, at: number): boolean {
  const high = view.getInt32(at + 12);
  return high < -1 || (high === -1 && view.getInt32(at + 16) >= 0);
}

/** Position of the ext unit that the unit at `at` names. */
export function extPosition(view: DataView, at: number): number {
  return (view.getUint32(at + 12) - TWO_31) * TWO_32 + view.getUint32(at + 16);
}

export class ConsumeQueueExt {
  /** After FOUND: the low 32 bits of the tagsCode, all that a tag filter looks at. */
  tag = 0;
  /** After FOUND of `readBits`: store time, and the filter bits at `bits[0, bitBytes)`. */
  storeTimestamp = 0;
  bits: Uint8Array = new Uint8Array(64);
  bitBytes = 0;
  readonly #streams: StreamStore;
  readonly #seldom: SeldomWarning;
  readonly #logger: Logger;
  readonly #head = new Uint8Array(EXT_UNIT_BYTES);
  readonly #headView = viewOf(this.#head);
  readonly #orphans: Stream[] = [];

  constructor(options: StreamStoreOptions & { clock: Clock }) {
    this.#streams = new StreamStore(options);
    this.#logger = options.logger;
    this.#seldom = new SeldomWarning(options.clock, options.logger);
  }

  /** Finds the files of `queues`. @throws GantryError STORE_FILE_SIZE. */
  load(queues: ConsumeQueueStore): void {
    for (const stream of this.#streams.load()) {
      const queue = queues.find(stream.topic, stream.queueId);
      if (queue === undefined) this.#orphans.push(stream);
      else queue.ext = stream;
    }
  }

  /** Removes the files of queues that are not there: nothing names what they hold. */
  removeOrphans(): void {
    for (const stream of this.#orphans.splice(0)) this.#streams.removeStream(stream);
  }

  /** Gives the queue's newest unit an ext unit, with these filter bits if they fit into one, and puts its address into it. */
  put(queue: ConsumeQueue, tagsCode: number, storeTimestamp: number, bits: Uint8Array = NO_BITS): void {
    queue.ext ??= this.#streams.findOrCreate(queue.topic, queue.queueId);
    const stream = queue.ext;
    const left = this.#streams.fileSize - (stream.end % this.#streams.fileSize);
    const most = Math.min(MAX_UNIT_BYTES, this.#streams.fileSize - END_BYTES);
    const bitBytes = EXT_UNIT_BYTES + bits.length <= most ? bits.length : 0;
    const size = EXT_UNIT_BYTES + bitBytes;
    if (size > left - END_BYTES) {
      const at = stream.extend(left);
      stream.tail.fill(0, at, at + left);
      stream.tailView.setInt16(at, END_MARK);
      this.#streams.appended(stream, left);
    }
    const position = stream.end;
    const at = stream.extend(size);
    const view = stream.tailView;
    view.setInt16(at, size);
    writeI64(view, at + 2, tagsCode);
    writeI64(view, at + 10, storeTimestamp);
    view.setInt16(at + 18, bitBytes);
    if (bitBytes > 0) stream.tail.set(bits, at + EXT_UNIT_BYTES);
    this.#streams.appended(stream, size);
    const high = Math.floor(position / TWO_32);
    queue.retag((high + TWO_31) | 0, (position - high * TWO_32) | 0);
  }

  /** Looks up the tag that the ext unit at `position` says; `ready` as in ReadCache.copy. */
  read(queue: ConsumeQueue, position: number, ready: Ready): ExtRead {
    const found = this.#readHead(queue, position, HEAD_BYTES, ready);
    if (found === ExtRead.FOUND) this.tag = this.#headView.getInt32(6);
    return found;
  }

  /** Looks up the store time and the filter bits of the ext unit at `position`; `ready` as in ReadCache.copy. */
  readBits(queue: ConsumeQueue, position: number, ready: Ready): ExtRead {
    const found = this.#readHead(queue, position, EXT_UNIT_BYTES, ready);
    if (found !== ExtRead.FOUND) return found;
    const head = this.#headView;
    const bitBytes = head.getInt16(0) - EXT_UNIT_BYTES;
    const from = position + EXT_UNIT_BYTES;
    this.storeTimestamp = peekI64(head, 10);
    this.bitBytes = 0;
    if (bitBytes === 0 || head.getInt16(18) !== bitBytes) return ExtRead.FOUND;
    if (from + bitBytes > queue.ext!.end) return this.#missing(queue, position);
    if (bitBytes > this.bits.length) this.bits = new Uint8Array(2 * bitBytes);
    if (!this.#streams.read(queue.ext!, from, bitBytes, this.bits, ready)) return ExtRead.WAIT;
    this.bitBytes = bitBytes;
    return ExtRead.FOUND;
  }

  /** Reads the first bytes of an ext unit, to the head. */
  #readHead(queue: ConsumeQueue, position: number, bytes: number, ready: Ready): ExtRead {
    const stream = queue.ext;
    const inFile = position % this.#streams.fileSize;
    if (
      stream === undefined ||
      position < stream.start ||
      position + EXT_UNIT_BYTES > stream.end ||
      inFile + EXT_UNIT_BYTES > this.#streams.fileSize
    ) {
      return this.#missing(queue, position);
    }
    if (!this.#streams.read(stream, position, bytes, this.#head, ready)) return ExtRead.WAIT;
    return this.#headView.getInt16(0) < EXT_UNIT_BYTES ? this.#missing(queue, position) : ExtRead.FOUND;
  }

  #missing(queue: ConsumeQueue, position: number): ExtRead {
    this.#seldom.warn(
      `${queue.topic} ${queue.queueId}`,
      `${queue.topic} queue ${queue.queueId}: there is no ext unit at ${position}; tag filters let its message pass`,
    );
    return ExtRead.MISSING;
  }

  sweep(): boolean {
    return this.#streams.sweep();
  }

  flush(done: Parameters<StreamStore['flush']>[0]): void {
    this.#streams.flush(done);
  }

  /** Nothing waits to be written or synced. */
  get isDurable(): boolean {
    return this.#streams.isDurable;
  }

  close(): void {
    this.#streams.close();
  }

  // --- Told by the queue store

  /** Units from `ordinal` on are about to go: so do their ext units; `durably`: on disk, too, with all behind the end. */
  beforeCut(queues: ConsumeQueueStore, queue: ConsumeQueue, ordinal: number, durably: boolean): void {
    const stream = queue.ext;
    if (stream === undefined) return;
    const position = ordinal >= queue.maxOffset ? stream.end : this.#endBefore(queues, queue, stream, ordinal);
    if (position < 0 || position > stream.end) return;
    if (durably) this.#streams.cut(stream, position);
    else if (position < stream.end) this.#streams.dropTail(stream, position);
  }

  /** Where the ext data of the units before `ordinal` ends; -1 if neither this unit nor the one before has any. */
  #endBefore(queues: ConsumeQueueStore, queue: ConsumeQueue, stream: Stream, ordinal: number): number {
    const unit = new Uint8Array(CQ_UNIT_BYTES);
    const view = viewOf(unit);
    const hasFirst = ordinal > (queue.files[0]?.base ?? queue.tailStart * CQ_UNIT_BYTES) / CQ_UNIT_BYTES;
    if (hasFirst && queues.readUnitsSync(queue, ordinal - 1, 1, unit) === 1 && isExtAddress(view, 0)) {
      return this.#unitEnd(stream, extPosition(view, 0));
    }
    return queues.readUnitsSync(queue, ordinal, 1, unit) === 1 && isExtAddress(view, 0) ? extPosition(view, 0) : -1;
  }

  /** The queue begins afresh. */
  cleared(queue: ConsumeQueue): void {
    if (queue.ext !== undefined) this.#streams.clear(queue.ext);
  }

  removedQueue(queue: ConsumeQueue): void {
    if (queue.ext !== undefined) this.#streams.removeStream(queue.ext);
    queue.ext = undefined;
  }

  removedTopic(topic: string): void {
    this.#streams.remove(topic);
  }

  // --- Start and retention

  /**
   * Finds where the ext data of a queue ends, and whether it holds what the queue's units name, for records at or above `logMinimum`. If not,
   * the queue is cut at the first unit without, to come again from the log. Answers whether it was.
   */
  recover(queues: ConsumeQueueStore, queue: ConsumeQueue, logMinimum: number): boolean {
    const last = this.#lastAddress(queues, queue);
    const stream = queue.ext;
    if (last < 0) {
      if (stream !== undefined) this.#streams.clear(stream);
      return false;
    }
    const sound = stream === undefined || last < stream.start ? -1 : this.#walk(stream, last);
    const whole = stream !== undefined && sound > last;
    if (whole) this.#endAt(stream, sound);
    if (whole && stream.start === 0) return false;
    const first = this.#firstLost(queues, queue, stream, sound, last, logMinimum);
    if (first < 0) {
      if (whole) return false;
      // What is lost belonged to records that are gone.
      const end = stream === undefined ? -1 : this.#unitEnd(stream, last);
      if (end > 0) this.#endAt(stream!, end);
      return false;
    }
    const physicalEnd = this.#physicalEndBefore(queues, queue, first);
    this.#logger.warn(
      `${queue.topic} queue ${queue.queueId}: its ext files lack units from ordinal ${first} on, of ${queue.maxOffset}; these are built again from the log`,
    );
    if (stream !== undefined) {
      const position = this.#addressAt(queues, queue, first);
      if (position < stream.start) this.#streams.clear(stream);
      else this.#streams.cut(stream, Math.min(position, Math.max(sound, stream.start)));
    }
    const ext = queue.ext;
    queue.ext = undefined;
    queues.cut(queue, first, physicalEnd);
    queue.ext = ext;
    queue.resetTo(first, physicalEnd);
    return true;
  }

  /** Removes the files that hold nothing for units at or above `queue.minOffset`. RocketMQ: truncateByMinAddress. */
  dropBelowMinimum(queues: ConsumeQueueStore, queue: ConsumeQueue): void {
    const stream = queue.ext;
    if (stream === undefined || stream.files.length < 2 || queue.minOffset >= queue.maxOffset) return;
    const unit = new Uint8Array(CQ_UNIT_BYTES);
    if (queues.readUnitsSync(queue, queue.minOffset, 1, unit) === 0 || !isExtAddress(viewOf(unit), 0)) return;
    this.#streams.removeFilesBelow(stream, extPosition(viewOf(unit), 0));
  }

  /**
   * The furthest position that the newest units with an address name; -1 if no unit has one. Addresses grow with the ordinals, but the newest
   * of all may be torn: its first bytes alone name a place before the others'.
   */
  #lastAddress(queues: ConsumeQueueStore, queue: ConsumeQueue): number {
    const first = (queue.files[0]?.base ?? queue.tailStart * CQ_UNIT_BYTES) / CQ_UNIT_BYTES;
    // Nearly always the newest units have one.
    let step = new Uint8Array(NEWEST_UNITS * CQ_UNIT_BYTES);
    let view = viewOf(step);
    // Without ext files nothing but the newest units say whether there have to be any.
    const least = queue.ext === undefined ? Math.max(first, queue.maxOffset - STEP_UNITS) : first;
    let furthest = -1;
    for (let end = queue.maxOffset; end > least && (furthest < 0 || queue.maxOffset - end < NEWEST_UNITS); ) {
      const units = step.length / CQ_UNIT_BYTES;
      const from = Math.max(least, end - units, Math.floor((end - 1) / queue.unitsPerFile) * queue.unitsPerFile);
      const got = queues.readUnitsSync(queue, from, end - from, step);
      for (let at = 0; at < got * CQ_UNIT_BYTES; at += CQ_UNIT_BYTES) {
        if (isExtAddress(view, at)) furthest = Math.max(furthest, extPosition(view, at));
      }
      end = from;
      if (units === NEWEST_UNITS) {
        step = new Uint8Array(STEP_UNITS * CQ_UNIT_BYTES);
        view = viewOf(step);
      }
    }
    return furthest;
  }

  /** Follows the units' sizes up to and with the one at `last`: answers its end; or the position, at or below `last`, where they break off. */
  #walk(stream: Stream, last: number): number {
    const fileSize = this.#streams.fileSize;
    const window = new Uint8Array(Math.min(WALK_BYTES, stream.end - stream.start));
    const view = viewOf(window);
    let windowStart = 0;
    let have = 0;
    let position = stream.start;
    while (position <= last) {
      if (position < windowStart || position + EXT_UNIT_BYTES > windowStart + have) {
        windowStart = position;
        have = this.#streams.readSync(stream, position, window.length, window);
        if (have < 2) return position;
      }
      const inFile = position % fileSize;
      const at = position - windowStart;
      const size = view.getInt16(at);
      if (size === END_MARK && position < last) position += fileSize - inFile;
      else if (size < EXT_UNIT_BYTES || size > fileSize - inFile || at + EXT_UNIT_BYTES > have) return position;
      else if (view.getInt16(at + 18) !== size - EXT_UNIT_BYTES) return position;
      else position += size;
    }
    return position;
  }

  #unitEnd(stream: Stream, position: number): number {
    const head = new Uint8Array(2);
    const size = this.#streams.readSync(stream, position, 2, head) === 2 ? viewOf(head).getInt16(0) : 0;
    return size < EXT_UNIT_BYTES ? -1 : position + size;
  }

  /** Lets the data end at `end`; what lies behind it is of an earlier life and dead. */
  #endAt(stream: Stream, end: number): void {
    const behind = new Uint8Array(2);
    const got = this.#streams.readSync(stream, end, 2, behind);
    const stale = (got > 0 && (behind[0] !== 0 || behind[1] !== 0)) || stream.files.at(-1)!.base > end;
    if (stale) this.#streams.cut(stream, end);
    stream.resetTo(end);
  }

  /** The first ordinal whose ext unit is not below `sound`, or before the first file, although its record is in the log; -1 if there is none. */
  #firstLost(
    queues: ConsumeQueueStore,
    queue: ConsumeQueue,
    stream: Stream | undefined,
    sound: number,
    last: number,
    logMinimum: number,
  ): number {
    const step = new Uint8Array(STEP_UNITS * CQ_UNIT_BYTES);
    const view = viewOf(step);
    const start = stream?.start ?? 0;
    for (let at = (queue.files[0]?.base ?? 0) / CQ_UNIT_BYTES; at < queue.maxOffset; ) {
      const got = queues.readUnitsSync(queue, at, STEP_UNITS, step);
      if (got === 0) break;
      for (let i = 0; i < got; i++) {
        const unit = i * CQ_UNIT_BYTES;
        if (!isExtAddress(view, unit) || unitOffset(view, unit) < logMinimum) continue;
        const position = extPosition(view, unit);
        if (position < start || position >= sound) return at + i;
        if (sound > last) return -1;
      }
      at += got;
    }
    return -1;
  }

  #addressAt(queues: ConsumeQueueStore, queue: ConsumeQueue, ordinal: number): number {
    const unit = new Uint8Array(CQ_UNIT_BYTES);
    return queues.readUnitsSync(queue, ordinal, 1, unit) === 1 ? extPosition(viewOf(unit), 0) : 0;
  }

  #physicalEndBefore(queues: ConsumeQueueStore, queue: ConsumeQueue, ordinal: number): number {
    const unit = new Uint8Array(CQ_UNIT_BYTES);
    const view = viewOf(unit);
    if (ordinal <= (queue.files[0]?.base ?? 0) / CQ_UNIT_BYTES) return -1;
    if (queues.readUnitsSync(queue, ordinal - 1, 1, unit) === 0) return -1;
    const size = view.getInt32(8);
    return size === 0x7fffffff ? -1 : unitOffset(view, 0) + size;
  }
}
