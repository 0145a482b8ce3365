// What the system is told about reads of a file, by FFI (koffi, optional), Linux. By itself it reads far ahead of whoever reads a file from
// front to back, as much as the device is set to (often 128 KiB, here and there 8 MiB): a sync that comes meanwhile waits for all of it.
//
//   POSIX_FADV_RANDOM 1

import { createRequire } from 'node:module';

const RANDOM = 1;

type Advise = (fd: number, offset: number, length: number, advice: number) => number;
let advise: Advise | undefined;
let isLoaded = false;

function load(): Advise | undefined {
  if (process.platform !== 'linux') return undefined;
  try {
    const koffi = createRequire(import.meta.url)('koffi') as { load(path: null): { func(prototype: string): unknown } };
    const prototype = 'int posix_fadvise(int fd, int64_t offset, int64_t length, int advice)';
    return koffi.load(null).func(prototype) as Advise;
  } catch {
    return undefined;
  }
}

/** Turns the system's reading ahead off for an open file; nothing happens where that cannot be said. */
export function adviseRandom(fd: number): void {
  if (!isLoaded) {
    isLoaded = true;
    advise = load();
  }
  advise?.(fd, 0, 0, RANDOM);
}
