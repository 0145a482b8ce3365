// A look at a record's properties on the way of a pull, for filters that ask for more than the tag. In memory they are read where they lie; behind
// it the record's head and its end are fetched, never the body.

import { peekI64, viewOf } from '../../common/index.ts';
import { bornHostBytes, MAGIC_V1, MAGIC_V2, SYS_FLAG_AT, storeHostBytes } from '../../message/index.ts';
import type { CommitLog } from '../commit-log/commit-log.ts';
import type { Ready } from '../segment/index.ts';
import type { RecordFilter } from './get.ts';

/** What a look at a record says. */
export const Look = {
  PASSES: 0,
  FAILS: 1,
  /** Its bytes must be fetched first. */
  WAIT: 2,
} as const;
export type Look = (typeof Look)[keyof typeof Look];

const QUEUE_OFFSET_AT = 20;
const HEAD_BYTES_OF_ORDINAL = QUEUE_OFFSET_AT + 8;
const BORN_HOST_AT = 48;
/** Bytes that hold the length of the body whatever the hosts are. */
const HEAD_BYTES = BORN_HOST_AT + 20 + 8 + 20 + 16;
/** A record of fewer has no body length. */
const LEAST_BYTES = BORN_HOST_AT + 8 + 8 + 8 + 16;
/** Bytes behind the body: topic and properties with their lengths, at most. */
const END_BYTES = 2 + 32_767 + 2 + 32_767;

export class RecordLook {
  readonly #log: CommitLog;
  readonly #head = new Uint8Array(HEAD_BYTES);
  readonly #headView = viewOf(this.#head);
  readonly #end = new Uint8Array(END_BYTES);
  readonly #endView = viewOf(this.#end);

  constructor(log: CommitLog) {
    this.#log = log;
  }

  /**
   * Whether the record that a unit names passes; `ready` as in ReadCache.copy. One that is gone or damaged passes: who gathers the bytes
   * leaves it out.
   */
  at(filter: RecordFilter, position: number, size: number, ready: Ready): Look {
    const { committed, minimum } = this.#log;
    if (size < LEAST_BYTES || position < minimum || position + size > committed) return Look.PASSES;
    const chunk = this.#log.chunkAt(position);
    if (chunk !== undefined) {
      const at = position - chunk.start;
      if (at + size > chunk.used) return Look.PASSES;
      const bodyEnd = bodyEndOf(chunk.view, at, size);
      return bodyEnd < 0
        ? Look.PASSES
        : judge(filter, chunk.bytes, chunk.view, at + bodyEnd, at + size, chunk.view.getInt32(at + 4));
    }
    if (!this.#log.isInOneFile(position, size)) return Look.PASSES;
    const headBytes = Math.min(HEAD_BYTES, size);
    if (this.#log.copy(position, headBytes, this.#head, 0, ready) < headBytes) return Look.WAIT;
    const bodyEnd = bodyEndOf(this.#headView, 0, size);
    const rest = size - bodyEnd;
    if (bodyEnd < 0 || rest > END_BYTES) return Look.PASSES;
    if (this.#log.copy(position + bodyEnd, rest, this.#end, 0, ready) < rest) return Look.WAIT;
    return judge(filter, this.#end, this.#endView, 0, rest, this.#headView.getInt32(4));
  }

  /** Whether the record of `size` bytes at `position` says that its queue offset is `ordinal`; as `sizeAt`. */
  ordinalAt(position: number, size: number, ordinal: number, ready: Ready): Look {
    const { committed, minimum } = this.#log;
    if (size < LEAST_BYTES || position < minimum || position + size > committed) return Look.FAILS;
    const look = this.sizeAt(position, size, ready);
    if (look !== Look.PASSES) return look;
    const chunk = this.#log.chunkAt(position);
    if (chunk !== undefined)
      return peekI64(chunk.view, position - chunk.start + QUEUE_OFFSET_AT) === ordinal ? look : Look.FAILS;
    if (this.#log.copyStored(position, HEAD_BYTES_OF_ORDINAL, this.#head, 0, ready) < HEAD_BYTES_OF_ORDINAL)
      return Look.WAIT;
    return peekI64(this.#headView, QUEUE_OFFSET_AT) === ordinal ? look : Look.FAILS;
  }

  /** Whether the log has a record of `size` bytes at `position`, where it has as many; `ready` as in ReadCache.copy. */
  sizeAt(position: number, size: number, ready: Ready): Look {
    if (!this.#log.isInOneFile(position, size)) return Look.FAILS;
    const chunk = this.#log.chunkAt(position);
    const at = chunk === undefined ? 0 : position - chunk.start;
    if (chunk !== undefined && at + size > chunk.used) return Look.FAILS;
    if (chunk === undefined && this.#log.copyStored(position, 4, this.#head, 0, ready) < 4) return Look.WAIT;
    return (chunk?.view ?? this.#headView).getInt32(at) === size ? Look.PASSES : Look.FAILS;
  }
}

/** Where the body of the record at `at` ends, from its beginning; -1 if that is no record. */
function bodyEndOf(view: DataView, at: number, size: number): number {
  const magic = view.getInt32(at + 4);
  if ((magic !== MAGIC_V1 && magic !== MAGIC_V2) || view.getInt32(at) !== size) return -1;
  const sysFlag = view.getInt32(at + SYS_FLAG_AT);
  const bodyStart = BORN_HOST_AT + bornHostBytes(sysFlag) + 8 + storeHostBytes(sysFlag) + 16;
  if (bodyStart + 3 > size) return -1;
  const length = view.getInt32(at + bodyStart - 4);
  return length < 0 || bodyStart + length + 3 > size ? -1 : bodyStart + length;
}

/** Judges topic and properties at `bytes[at, end)`. */
function judge(filter: RecordFilter, bytes: Uint8Array, view: DataView, at: number, end: number, magic: number): Look {
  const topicStart = magic === MAGIC_V1 ? at + 1 : at + 2;
  const topicEnd = topicStart + (magic === MAGIC_V1 ? view.getInt8(at) : view.getInt16(at));
  if (topicEnd < topicStart || topicEnd + 2 > end) return Look.PASSES;
  const start = topicEnd + 2;
  if (start + Math.max(0, view.getInt16(topicEnd)) !== end) return Look.PASSES;
  return filter.matches(bytes, start, end) ? Look.PASSES : Look.FAILS;
}
