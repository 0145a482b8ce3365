// A scan of the log whose records are parsed by threads, a share at once, and visited here, in the log's order. It goes as far as all is sound
// and plain, and stops before the first thing that needs a judgement: bytes that are no record, the log's end. The last record is left to
// who goes on from there, since what stands behind it decides whether it may be torn.
//
//   |== share ==|== share ==|== share ==|= sound =|X bad ...
//    visited     visited     parsed       parsed    ^ `at`: the record before

import { MAGIC_BLANK, MAGIC_V1, MAGIC_V2, MIN_RECORD_BYTES, RecordView, Verify } from '../../message/index.ts';
import type { SegmentFile } from '../segment/index.ts';
import type { ScanOptions } from './scan-log.ts';
import { Share } from './share.ts';
import type { ShareParser } from './share-parser.ts';

/** Shares that are parsed or wait for it while one is visited. */
const AHEAD = 3;

/** How far a scan by shares has come. */
export interface SharesResult {
  /** Index of the file, and physical offset, of the first record that was not visited. */
  first: number;
  at: number;
  records: number;
  scannedBytes: number;
  lastRecord: number;
  /** A visit has ended the scan, before the record at `at`. */
  ended: boolean;
}

interface Ahead {
  share: Share;
  file: number;
  parsed: Promise<void>;
}

export class SharesScan {
  readonly #options: ScanOptions;
  readonly #parser: ShareParser;
  readonly #result: SharesResult;
  readonly #record = new RecordView();
  readonly #free: Share[] = [];
  /** Where the next share begins: file, and position in it; undefined: no more is planned. */
  #file: number | undefined;
  #position: number;

  constructor(options: ScanOptions, parser: ShareParser) {
    this.#options = options;
    this.#parser = parser;
    const file = options.files[options.first]!;
    const at = options.from ?? file.base;
    this.#file = options.first;
    this.#position = at - file.base;
    this.#result = { first: options.first, at, records: 0, scannedBytes: 0, lastRecord: -1, ended: false };
  }

  async run(): Promise<SharesResult> {
    const result = this.#result;
    const ahead: Ahead[] = [];
    /** Its last record has not been visited. */
    let before: Ahead | undefined;
    for (;;) {
      while (ahead.length < AHEAD) {
        const next = this.#plan();
        if (next === undefined) break;
        ahead.push({ ...next, parsed: this.#parser.parse(next.share) });
      }
      const now = ahead.shift();
      if (now === undefined) break;
      await now.parsed;
      const { share } = now;
      if (share.count === 0) break;
      if (before !== undefined && !this.#visit(before.share, before.share.count - 1)) break;
      if (before !== undefined) this.#free.push(before.share);
      before = now;
      result.scannedBytes += share.length;
      result.first = now.file;
      if (!this.#visitAll(share)) break;
      result.at = share.base + share.startOf(share.count - 1);
      if (!share.isSound) break;
      const waits = this.#options.progress?.(result.scannedBytes);
      if (waits !== undefined) await waits;
    }
    await Promise.all(ahead.map(({ parsed }) => parsed));
    return result;
  }

  #visitAll(share: Share): boolean {
    for (let i = 0; i < share.count - 1; i++) if (!this.#visit(share, i)) return false;
    return true;
  }

  #visit(share: Share, index: number): boolean {
    const result = this.#result;
    const record = this.#record;
    share.take(index, record);
    if (this.#options.visit(share.bytes, record) === false) {
      result.at = record.physicalOffset;
      result.ended = true;
      return false;
    }
    result.records++;
    result.lastRecord = record.physicalOffset;
    return true;
  }

  /** Reads the next share: whole records as far as their sizes say. */
  #plan(): { share: Share; file: number } | undefined {
    const { files, verify, checkedTo = 0, to = Number.POSITIVE_INFINITY } = this.#options;
    while (this.#file !== undefined) {
      const index = this.#file;
      const file = files[index]!;
      const from = this.#position;
      let share = this.#free.pop() ?? new Share(this.#parser.shareBytes);
      let got = read(file, share, from);
      let { length, isFiller, wanted } = hop(file, share, from, got, to);
      if (length === 0 && wanted > share.bytes.length && wanted <= file.size - from) {
        share = new Share(wanted);
        got = read(file, share, from);
        ({ length, isFiller, wanted } = hop(file, share, from, got, to));
      }
      if (isFiller && index + 1 < files.length) {
        this.#file = index + 1;
        this.#position = 0;
      } else if (length === 0 || wanted === 0) this.#file = undefined;
      else this.#position = from + length;
      if (length === 0) {
        this.#free.push(share);
        continue;
      }
      share.base = file.base + from;
      share.length = length;
      share.verify = share.base + length <= checkedTo ? Verify.STRUCTURE : verify;
      return { share, file: index };
    }
    return undefined;
  }
}

function read(file: SegmentFile, share: Share, position: number): number {
  const length = Math.min(share.bytes.length, file.size - position);
  return length <= 0 ? 0 : file.handle().readSync(share.bytes, 0, length, position);
}

/**
 * How many of the bytes are whole records by their sizes; whether a filler to the file's end follows; and the size of the record that does not fit
 * any more, 0 if what follows is no record, or is not to be looked at.
 */
function hop(
  file: SegmentFile,
  { view }: Share,
  position: number,
  got: number,
  to: number,
): { length: number; isFiller: boolean; wanted: number } {
  let at = 0;
  while (at + 8 <= got) {
    if (file.base + position + at >= to) return { length: at, isFiller: false, wanted: 0 };
    const size = view.getInt32(at);
    const magic = view.getInt32(at + 4);
    if (magic === MAGIC_BLANK) return { length: at, isFiller: size === file.size - position - at, wanted: 0 };
    if ((magic !== MAGIC_V1 && magic !== MAGIC_V2) || size < MIN_RECORD_BYTES)
      return { length: at, isFiller: false, wanted: 0 };
    if (at + size > got) return { length: at, isFiller: false, wanted: size };
    at += size;
  }
  return { length: at, isFiller: false, wanted: position + at < file.size ? 8 : 0 };
}
