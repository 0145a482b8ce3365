// Files whose sync has failed. The system then takes their pages for clean, and a later sync that succeeds says nothing of them: they are made
// dirty again by writing every byte once more, at once, while the cache still has them; and as long as that fails no sync of them counts.

import type { FileHandle } from '../../io/index.ts';
import type { SegmentFile } from '../segment/index.ts';

const STEP_BYTES = 256 * 1024;

export class SuspectFiles {
  readonly #files = new Set<SegmentFile>();

  /** A sync of it has failed. */
  failed(file: SegmentFile, handle: FileHandle): void {
    this.#files.add(file);
    try {
      this.mend(file, handle);
    } catch {
      // It is tried again before the next sync, which reports it.
    }
  }

  /** To be called before each sync. @throws GantryError: it could not be written again, and a sync would say nothing. */
  mend(file: SegmentFile, handle: FileHandle): void {
    if (!this.#files.has(file)) return;
    writeAgain(handle, file.size);
    this.#files.delete(file);
  }

  forget(file: SegmentFile): void {
    this.#files.delete(file);
  }
}

function writeAgain(handle: FileHandle, length: number): void {
  const step = new Uint8Array(Math.min(length, STEP_BYTES));
  for (let at = 0; at < length; at += step.length) {
    const want = Math.min(step.length, length - at);
    const got = handle.readSync(step, 0, want, at);
    step.fill(0, got);
    handle.writeSync(step, 0, want, at);
  }
}
