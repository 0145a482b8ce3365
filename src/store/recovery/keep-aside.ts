// Cut bytes are dead in the log, but not thrown away: they are copied to a file of their own first, named after the place.

import type { Clock, Logger } from '../../common/index.ts';
import { type FileSystem, makeDirectoryDurably } from '../../io/index.ts';
import type { SegmentFile } from '../segment/index.ts';

const STEP_BYTES = 1024 * 1024;
/** Behind so many zeros nothing more is looked for. */
const ZERO_RUN_BYTES = 4 * 1024 * 1024;

/** What was copied away. */
export interface Aside {
  path: string;
  bytes: number;
}

/**
 * Copies the bytes of the log from `offset` to the last one that is not zero to `<folder>/commitlog-<offset>-<time>`, durably.
 * Answers undefined if there is nothing but zeros.
 */
export function keepAside(
  fs: FileSystem,
  clock: Clock,
  logger: Logger,
  files: readonly SegmentFile[],
  offset: number,
  folder: string,
): Aside | undefined {
  const path = `${folder}/commitlog-${String(offset).padStart(20, '0')}-${clock.now()}`;
  const step = new Uint8Array(STEP_BYTES);
  let out: ReturnType<FileSystem['open']> | undefined;
  let kept = 0;
  let zeros = 0;
  try {
    for (const file of files) {
      for (let from = Math.max(offset, file.base); from < file.end && zeros < ZERO_RUN_BYTES; from += STEP_BYTES) {
        const length = Math.min(STEP_BYTES, file.end - from);
        const got = file.handle().readSync(step, 0, length, from - file.base);
        let last = got;
        while (last > 0 && step[last - 1] === 0) last--;
        zeros = last === 0 ? zeros + got : got - last;
        if (last === 0) continue;
        if (out === undefined) {
          makeDirectoryDurably(fs, folder);
          out = fs.open(path, 'create');
        }
        out.writeSync(step, 0, last, from - offset);
        kept = from - offset + last;
      }
    }
    if (out === undefined) return undefined;
    out.syncSync();
  } finally {
    out?.close();
  }
  fs.syncDirectory(folder);
  logger.warn(`${kept} bytes of the log from offset ${offset} on are kept aside in ${path}`);
  return { path, bytes: kept };
}
