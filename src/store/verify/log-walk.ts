// Walks the CommitLog of a store that nobody has open, over whatever is damaged, and changes nothing: files are opened for reading only.

import type { FileSystem } from '../../io/index.ts';
import { type RecordView, Verify } from '../../message/index.ts';
import { damagedRun, isFiller, recordLike } from '../recovery/resync.ts';
import { scanLog } from '../recovery/scan-log.ts';
import { SegmentFile, segmentAt } from '../segment/index.ts';
import type { Fault } from './fault.ts';

export interface WalkedLog {
  readonly files: number;
  /** Physical offsets. */
  readonly start: number;
  end: number;
  records: number;
}

/**
 * Shows `visit` every sound record, in order; bytes and view are used again. `fault` is told of what is none, where it begins and where the log goes on behind it;
 * `progress` now and then of bytes.
 * @throws GantryError IO.
 */
export async function walkLog(
  fs: FileSystem,
  folder: string,
  visit: (bytes: Uint8Array, record: RecordView) => void,
  fault: (fault: Fault, start: number, end: number) => void,
  progress: (scanned: number, total: number) => void,
): Promise<WalkedLog> {
  const files = filesOf(fs, folder, fault);
  const log: WalkedLog = { files: files.length, start: files[0]?.base ?? 0, end: files[0]?.base ?? 0, records: 0 };
  try {
    for (let from = log.start, first = 0; first >= 0 && first < files.length; ) {
      const before = from - log.start;
      const tell = (scanned: number): undefined => void progress(before + scanned, files.at(-1)!.end - log.start);
      const scan = await scanLog({ files, first, from, verify: Verify.BODY_CRC, visit, progress: tell });
      log.records += scan.records;
      log.end = scan.end;
      const file = segmentAt(files, scan.end);
      if (file === undefined) break;
      const later = files.slice(files.indexOf(file) + 1).some(beginsSound);
      const reason = scan.damage ?? (later ? 'zeros, and the log goes on in a later file' : undefined);
      if (reason === undefined) break;
      const run = damagedRun(file, scan.end, file.end, Verify.BODY_CRC, reason);
      const isEnd = run.end === file.end && !later;
      fault(faultAt(file, scan.end, isEnd ? `${reason}; nothing sound lies behind it` : reason), scan.end, run.end);
      if (isEnd) break;
      from = run.end;
      first = files.indexOf(segmentAt(files, from)!);
    }
  } finally {
    for (const file of files) file.close();
  }
  return log;
}

/** Whether a record or a filler stands at the beginning of a file: it was not merely made ahead. */
function beginsSound(file: SegmentFile): boolean {
  return isFiller(file, file.base) || recordLike(file, file.base, Verify.BODY_CRC) !== undefined;
}

function faultAt(file: SegmentFile, offset: number, reason: string): Fault {
  return { of: 'log', file: file.path, byte: offset - file.base, reason };
}

/** Up to the first file that is missing or has another length than the first one. */
function filesOf(
  fs: FileSystem,
  folder: string,
  fault: (fault: Fault, start: number, end: number) => void,
): SegmentFile[] {
  const reading = new Proxy(fs, {
    get: (target, name) => (name === 'open' ? (path: string) => target.open(path, 'read') : Reflect.get(target, name)),
  });
  const names = fs
    .list(folder)
    .filter((name) => /^\d{20}$/.test(name))
    .sort();
  const size = names.length === 0 ? 0 : fs.stat(`${folder}/${names[0]}`)!.size;
  const files: SegmentFile[] = [];
  for (const name of names) {
    const path = `${folder}/${name}`;
    const length = fs.stat(path)!.size;
    // A file that was just being made.
    if (length === 0 && name === names.at(-1)) break;
    const expected = files.at(-1)?.end ?? Number(name);
    let reason: string | undefined;
    if (Number(name) !== expected) reason = `the file of the bytes from ${expected} on is missing before it`;
    else if (length !== size) reason = `it has ${length} bytes, the first one ${size}`;
    if (reason !== undefined) {
      fault({ of: 'log', file: path, byte: 0, reason }, expected, Number.POSITIVE_INFINITY);
      break;
    }
    files.push(new SegmentFile(reading, folder, Number(name), size, true));
  }
  return files;
}
