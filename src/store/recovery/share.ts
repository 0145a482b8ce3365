// A share of the log that a thread parses: some 4 MiB of whole records, in memory that loop and threads share, and what the thread found in
// them, as flat numbers. Nothing is copied and no object crosses over.
//
//   bytes   |-- record --|-- record --|-- record --|          `length` bytes, bytes[0] lies at `base` of the log
//   ints    12 a record: where its parts lie in `bytes`, and its small fields
//   floats   4 a record: its 64-bit fields

import { viewOf } from '../../common/index.ts';
import { MIN_RECORD_BYTES, RecordOutcome, RecordView, readRecord, type Verify } from '../../message/index.ts';

export const SHARE_BYTES: number = 4 * 1024 * 1024;
const INTS = 12;
const FLOATS = 4;

/** The memory of a share. */
export interface ShareMemory {
  bytes: SharedArrayBuffer;
  ints: SharedArrayBuffer;
  floats: SharedArrayBuffer;
}

export class Share {
  readonly memory: ShareMemory;
  readonly bytes: Uint8Array;
  readonly view: DataView;
  /** Physical offset of its first byte, and how many bytes count. */
  base = 0;
  length = 0;
  verify: Verify = 0;
  /** Records that were found sound, from its beginning on. */
  count = 0;
  readonly #ints: Int32Array;
  readonly #floats: Float64Array;

  /** `source`: so many bytes, or another thread's share. */
  constructor(source: number | ShareMemory) {
    this.memory = typeof source === 'number' ? memoryFor(source) : source;
    this.bytes = new Uint8Array(this.memory.bytes);
    this.view = viewOf(this.bytes);
    this.#ints = new Int32Array(this.memory.ints);
    this.#floats = new Float64Array(this.memory.floats);
  }

  /** Reads its records; the first that is not sound ends that. */
  parse(): void {
    const record = new RecordView();
    const { bytes, view, length, verify, base } = this;
    this.count = 0;
    for (let at = 0; at < length; at += record.totalSize) {
      const outcome = readRecord(bytes, view, at, length, verify, record);
      if (outcome !== RecordOutcome.RECORD || record.physicalOffset !== base + at) return;
      this.#note(record);
    }
  }

  /** Whether all of it is sound. */
  get isSound(): boolean {
    return this.count > 0 && this.startOf(this.count - 1) + this.#ints[(this.count - 1) * INTS]! === this.length;
  }

  /** Where a record begins in `bytes`. */
  startOf(index: number): number {
    return this.#floats[index * FLOATS + 1]! - this.base;
  }

  /** A record's fields as `readRecord` gives them, but for those that nothing derived has: hosts, body CRC, prepared offset. */
  take(index: number, out: RecordView): void {
    const ints = this.#ints;
    const i = index * INTS;
    out.totalSize = ints[i]!;
    out.version = ints[i + 1]!;
    out.queueId = ints[i + 2]!;
    out.flag = ints[i + 3]!;
    out.sysFlag = ints[i + 4]!;
    out.reconsumeTimes = ints[i + 5]!;
    out.bodyStart = ints[i + 6]!;
    out.bodyEnd = ints[i + 7]!;
    out.topicStart = ints[i + 8]!;
    out.topicEnd = ints[i + 9]!;
    out.propertiesStart = ints[i + 10]!;
    out.propertiesEnd = ints[i + 11]!;
    const f = index * FLOATS;
    out.queueOffset = this.#floats[f]!;
    out.physicalOffset = this.#floats[f + 1]!;
    out.storeTimestamp = this.#floats[f + 2]!;
    out.bornTimestamp = this.#floats[f + 3]!;
  }

  #note(record: RecordView): void {
    const ints = this.#ints;
    const i = this.count * INTS;
    ints[i] = record.totalSize;
    ints[i + 1] = record.version;
    ints[i + 2] = record.queueId;
    ints[i + 3] = record.flag;
    ints[i + 4] = record.sysFlag;
    ints[i + 5] = record.reconsumeTimes;
    ints[i + 6] = record.bodyStart;
    ints[i + 7] = record.bodyEnd;
    ints[i + 8] = record.topicStart;
    ints[i + 9] = record.topicEnd;
    ints[i + 10] = record.propertiesStart;
    ints[i + 11] = record.propertiesEnd;
    const f = this.count * FLOATS;
    this.#floats[f] = record.queueOffset;
    this.#floats[f + 1] = record.physicalOffset;
    this.#floats[f + 2] = record.storeTimestamp;
    this.#floats[f + 3] = record.bornTimestamp;
    this.count++;
  }
}

function memoryFor(bytes: number): ShareMemory {
  const records = Math.ceil(bytes / MIN_RECORD_BYTES) + 1;
  return {
    bytes: new SharedArrayBuffer(bytes),
    ints: new SharedArrayBuffer(records * INTS * 4),
    floats: new SharedArrayBuffer(records * FLOATS * 8),
  };
}
