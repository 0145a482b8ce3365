// Pulls of a compaction topic: by queue offset, from the compaction log. An offset whose message is compacted away goes on with the next one that
// is there, tags are not looked at, and no offset is too small. RocketMQ: CompactionLog#getMessage, SparseConsumeQueue#iterateFromOrNext.

import { type GantryError, type QueueOffset, viewOf } from '../../common/index.ts';
import { RecordOutcome, RecordView, readRecord, Verify } from '../../message/index.ts';
import { GetMessageStatus, type GetRequest, type GetResult, type RecordsElsewhere } from '../read/get.ts';
import { removed, removeRecord } from '../read/result-records.ts';
import { answer, isFull, NOBODY_WAITS } from '../read/select-rules.ts';
import type { ReadCache, Ready } from '../segment/index.ts';
import type { MessageStoreConfig } from '../store-config.ts';
import { CompactionUnit, UNIT_BYTES } from './compaction-format.ts';
import type { FilePair, PairList } from './pair-list.ts';

const STEP_UNITS = 64;

export interface CompactionReadsOptions {
  readonly list: PairList;
  readonly cache: ReadCache;
  readonly config: MessageStoreConfig;
  readonly inMemoryBytes: number;
  /** Told of a record that is not whole. */
  readonly onDamage: (pair: FilePair, position: number, reason: string) => void;
}

export class CompactionReads implements RecordsElsewhere {
  /** Grows when other files take the place of those that a result names. */
  generation = 0;
  /** Queue offset behind the last record that is in the files. */
  maxOffset = 0;
  readonly #options: CompactionReadsOptions;
  readonly #unit = new CompactionUnit();
  readonly #bytes = new Uint8Array(STEP_UNITS * UNIT_BYTES);
  readonly #view = viewOf(this.#bytes);
  readonly #record = new RecordView();

  constructor(options: CompactionReadsOptions) {
    this.#options = options;
  }

  /** As `MessageStore.select`; `result` is empty. */
  select(request: GetRequest, result: GetResult, ready: Ready): boolean {
    const { list } = this.#options;
    const { offset } = request;
    const max = this.maxOffset;
    const min = list.minOffset;
    this.#describe(result);
    if (max === 0) return answer(result, GetMessageStatus.NO_MESSAGE_IN_QUEUE, 0);
    if (offset === max) return answer(result, GetMessageStatus.OFFSET_OVERFLOW_ONE, offset);
    if (offset > max) return answer(result, GetMessageStatus.OFFSET_OVERFLOW_BADLY, min === 0 ? 0 : max);
    const pair = list.pairs.find(({ unitsWritten, lastOffset }) => unitsWritten > 0 && lastOffset >= offset);
    if (pair === undefined) return answer(result, GetMessageStatus.OFFSET_FOUND_NULL, max);
    const first = this.#find(pair, offset, ready);
    return first >= 0 && this.#scan(pair, first, request, result, ready);
  }

  /** What is asked for will be taken in: whoever asks waits where he is, and does not begin anew. */
  nothingYet({ offset }: GetRequest, result: GetResult): boolean {
    this.#describe(result);
    result.maxOffset = Math.max(offset, this.maxOffset) as QueueOffset;
    return answer(result, GetMessageStatus.OFFSET_OVERFLOW_ONE, offset);
  }

  #describe(result: GetResult): void {
    result.elsewhere = this;
    result.generation = this.generation;
    result.topic = undefined;
    result.minOffset = this.#options.list.minOffset as QueueOffset;
    result.maxOffset = this.maxOffset as QueueOffset;
  }

  /** Index of the first unit that is not below `offset`; -1 if it must be read first. */
  #find(pair: FilePair, offset: number, ready: Ready): number {
    let low = 0;
    let high = pair.unitsWritten;
    while (low < high) {
      const middle = Math.floor((low + high) / 2);
      if (this.#readUnits(pair, middle, 1, ready) < 1) return -1;
      if (this.#unit.read(this.#view, 0) && this.#unit.queueOffset < offset) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  #readUnits(pair: FilePair, index: number, count: number, ready: Ready): number {
    const { cache } = this.#options;
    const limit = pair.unitsWritten * UNIT_BYTES;
    const got = cache.copy(pair.queue, index * UNIT_BYTES, count * UNIT_BYTES, limit, this.#bytes, 0, ready);
    return Math.floor(got / UNIT_BYTES);
  }

  /** RocketMQ reads within one queue file a pull. */
  #scan(pair: FilePair, first: number, request: GetRequest, result: GetResult, ready: Ready): boolean {
    const { config, inMemoryBytes, list, onDamage } = this.#options;
    const { maxMessages, maxBytes } = request;
    const most = Math.min(maxMessages, result.positions.length);
    const end = list.endPosition;
    // Then what is behind `maxOffset` is dead, and may be zeros.
    const isCut = this.maxOffset < list.maxOffset;
    const unit = this.#unit;
    let status: GetMessageStatus = GetMessageStatus.NO_MATCHED_MESSAGE;
    let next = request.offset;
    let newest = 0;
    let index = first;
    scan: while (index < pair.unitsWritten) {
      const begun = index > first;
      const wanted = Math.min(STEP_UNITS, pair.unitsWritten - index);
      const got = this.#readUnits(pair, index, wanted, begun ? NOBODY_WAITS : ready);
      if (got < wanted && !begun) return false;
      if (got === 0) break;
      for (let i = 0; i < got; i++) {
        if (!unit.read(this.#view, i * UNIT_BYTES)) {
          if (isCut) break scan;
          onDamage(pair, pair.base, `the unit ${index + i} of ${pair.queue.path} is none`);
          continue;
        }
        const { position, size, queueOffset } = unit;
        // A unit that is none may have led the search astray.
        if (queueOffset < request.offset) continue;
        if (queueOffset >= this.maxOffset) break scan;
        const inMemory = end - position <= inMemoryBytes;
        if (isFull(config, result, size, 1, most, maxBytes, inMemory)) break scan;
        next = queueOffset + 1;
        newest = position;
        if (position < pair.base || position + size > pair.base + pair.logWritten) {
          if (result.count === 0) status = GetMessageStatus.MESSAGE_WAS_REMOVING;
          onDamage(pair, position, `its unit ${index + i} names ${size} bytes that the log file has not`);
          continue;
        }
        result.positions[result.count] = position;
        result.ordinals[result.count] = queueOffset;
        result.sizes[result.count] = size;
        result.count++;
        result.totalBytes += size;
        status = GetMessageStatus.FOUND;
      }
      index += got;
    }
    if (isCut && next === request.offset) return this.nothingYet(request, result);
    // Nothing of the rest of the file can be read: who asks goes on behind it.
    if (status === GetMessageStatus.NO_MATCHED_MESSAGE && next === request.offset && index === pair.unitsWritten) {
      next = Math.min(pair.lastOffset + 1, this.maxOffset);
      status = GetMessageStatus.MESSAGE_WAS_REMOVING;
    }
    result.suggestPullingFromSlave = end - newest > inMemoryBytes;
    return answer(result, status, next);
  }

  /** As `MessageStore.copyRecords`. The compaction log may be the only copy: each body's CRC is taken. */
  copyRecords(result: GetResult, target: Uint8Array, at: number, ready: Ready): boolean {
    const { cache, list, onDamage } = this.#options;
    const { positions, sizes } = result;
    const view = viewOf(target);
    let to = at;
    for (let i = 0; i < result.copied; i++) to += sizes[i]!;
    while (result.copied < result.count) {
      const i = result.copied;
      const position = positions[i]!;
      if (result.generation !== this.generation) return removed(position, ready);
      const pair = pairAt(list.pairs, position);
      if (pair === undefined || position + sizes[i]! > pair.base + pair.logWritten) return removed(position, ready);
      const part = result.copiedPart;
      const length = sizes[i]! - part;
      const from = position - pair.base + part;
      const got = cache.copy(pair.log, from, length, pair.logWritten, target, to + part, ready);
      if (got < length) {
        result.copiedPart = part + got;
        return false;
      }
      result.copiedPart = 0;
      const reason = this.#fault(target, view, to, sizes[i]!, position);
      if (reason === undefined) {
        to += sizes[i]!;
        result.copied++;
      } else {
        onDamage(pair, position, reason);
        removeRecord(result, i);
      }
    }
    if (result.count === 0) result.status = GetMessageStatus.MESSAGE_WAS_REMOVING;
    return true;
  }

  #fault(bytes: Uint8Array, view: DataView, at: number, size: number, position: number): string | undefined {
    const record = this.#record;
    const outcome = readRecord(bytes, view, at, at + size, Verify.BODY_CRC, record);
    if (outcome === RecordOutcome.RECORD && record.totalSize === size && record.physicalOffset === position) return;
    return outcome === RecordOutcome.BAD ? record.reason : 'what lies there is not the record that its unit names';
  }
}

/** The pair that holds a place in the log. */
export function pairAt(pairs: readonly FilePair[], position: number): FilePair | undefined {
  return pairs.find(({ base, log }) => position >= base && position < base + log.size);
}

/** As `Ready` is called: once, later. */
export type Waiter = (error?: GantryError) => void;
