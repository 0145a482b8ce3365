// A checksum of the newest index file, saved at an orderly stop: by it the next start notices what has rotted since. Nothing in the file
// says what should be in it, and a unit that a chain has lost hides its message from look-ups.

import { crc32 } from 'node:zlib';
import type { FileSystem } from '../../io/index.ts';
import type { IndexLayout } from './index-format.ts';

const STEP_BYTES = 1024 * 1024;
/** Units that are covered, the newest ones: 32 MB. Header and slots are covered whole. */
const COVERED_UNITS = 1_600_000;

/** Checksum of a whole file with so many units in use. @throws GantryError IO. */
export function indexSum(fs: FileSystem, path: string, layout: IndexLayout, units: number): number {
  const file = fs.open(path, 'read');
  try {
    const step = new Uint8Array(Math.min(STEP_BYTES, layout.fileBytes));
    let sum = 0;
    const add = (from: number, to: number): void => {
      for (let at = from; at < to; ) {
        const got = file.readSync(step, 0, Math.min(step.length, to - at), at);
        if (got === 0) return;
        sum = crc32(step.subarray(0, got), sum);
        at += got;
      }
    };
    add(0, layout.unitPosition(0));
    add(layout.unitPosition(Math.max(1, units + 1 - COVERED_UNITS)), layout.unitPosition(units + 1));
    return sum;
  } finally {
    file.close();
  }
}
