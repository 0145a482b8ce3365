// mmap by FFI (koffi, optional), Linux with 64 bits. Everything that can wait for a disk runs in libuv's pool:
//
//   posix_fallocate ─► mmap over a range of addresses that is ours (MAP_FIXED) ─► madvise populates it ─► mlock
//   end: anonymous memory is mapped over it, so that a stale reference reads zeros and never faults
//
// Ranges of addresses are used again with the ArrayBuffer that was made for them, since a buffer over foreign memory is never taken
// back by the engine while something refers to it. What remains: a file that is cut by someone else while it is mapped makes the
// kernel end the process (SIGBUS) when a page behind the cut is touched. Whoever maps looks at the length now and then.
//
//   PROT_NONE 0  PROT_READ 1  PROT_WRITE 2     MAP_SHARED 1  MAP_PRIVATE 2  MAP_FIXED 0x10  MAP_ANONYMOUS 0x20  MAP_NORESERVE 0x4000
//   MADV_POPULATE_READ 22  MADV_POPULATE_WRITE 23 (Linux 5.14; before that, pages are fetched when they are touched)

import { createRequire } from 'node:module';
import { GantryError } from '../common/index.ts';
import type { DoneMapping, FileMapper, MapOptions, Mapping } from './file-mapper.ts';
import type { FileHandle } from './file-system.ts';

const READ_WRITE = 3;
const SHARED_FIXED = 0x11;
const ANONYMOUS = 0x4022;
const ANONYMOUS_FIXED = 0x4032;
const POPULATE_READ = 22;
const POPULATE_WRITE = 23;
const FAILED = 0xffff_ffff_ffff_ffffn;
const NO_SPACE = [28, 122];
const SIXTY_FOUR_BIT = ['x64', 'arm64', 'riscv64', 'loong64', 'ppc64'];

type Address = bigint;
interface Native<A extends unknown[], R> {
  (...args: A): R;
  async(...args: [...A, (error: unknown, result: R) => void]): void;
}
interface Koffi {
  load(path: null): { func(prototype: string): unknown };
  view(address: Address, length: number): ArrayBuffer;
}
interface System {
  view: (address: Address, length: number) => ArrayBuffer;
  mmap: Native<[Address | null, number, number, number, number, number], Address>;
  madvise: Native<[Address, number, number], number>;
  mlock: Native<[Address, number], number>;
  fallocate: Native<[number, number, number], number>;
}

/** A range of addresses that is ours as long as the process lives. */
interface Slot {
  address: Address;
  buffer: ArrayBuffer;
}

/** mmap of this system; undefined where koffi is not installed or the system is not known to behave. */
export function loadFileMapper(): FileMapper | undefined {
  if (process.platform !== 'linux' || !SIXTY_FOUR_BIT.includes(process.arch)) return undefined;
  try {
    const koffi = createRequire(import.meta.url)('koffi') as Koffi;
    const library = koffi.load(null);
    const native = <A extends unknown[], R>(prototype: string): Native<A, R> => library.func(prototype) as Native<A, R>;
    const pageSize = native<[], number>('int getpagesize()');
    return new MmapMapper(pageSize(), {
      view: (address, length) => koffi.view(address, length),
      mmap: native('void *mmap(void *addr, size_t length, int prot, int flags, int fd, int64_t offset)'),
      madvise: native('int madvise(void *addr, size_t length, int advice)'),
      mlock: native('int mlock(void *addr, size_t length)'),
      fallocate: native('int posix_fallocate(int fd, int64_t offset, int64_t length)'),
    });
  } catch {
    return undefined;
  }
}

class MmapMapper implements FileMapper {
  readonly pageBytes: number;
  onLockFailed: ((reason: string) => void) | undefined;
  readonly #system: System;
  readonly #free: Slot[] = [];

  constructor(pageBytes: number, system: System) {
    this.pageBytes = pageBytes;
    this.#system = system;
  }

  map(handle: FileHandle, position: number, length: number, options: MapOptions, done: DoneMapping): void {
    const { mmap, madvise, mlock, fallocate } = this.#system;
    const { fd, path } = handle;
    const failed = (what: string, detail: string): void =>
      done(new GantryError('IO', `cannot ${what} ${path}: ${detail}`), undefined);
    fallocate.async(fd, position, length, (error, code) => {
      if (error != null) return failed('reserve space in', String(error));
      if (NO_SPACE.includes(code)) {
        return done(new GantryError('DISK_FULL', `no space left while trying to reserve ${path}`), undefined);
      }
      if (code !== 0) return failed('reserve space in', `error ${code}`);
      const slot = this.#slot(length);
      if (slot === undefined) return failed('map', 'no addresses are left');
      mmap.async(slot.address, length, READ_WRITE, SHARED_FIXED, fd, position, (failure, address) => {
        if (failure != null || address === FAILED)
          return failed('map', failure != null ? String(failure) : 'mmap failed');
        const mapping = this.#mapping(slot, length);
        madvise.async(slot.address, length, options.writable ? POPULATE_WRITE : POPULATE_READ, () => {
          if (!options.lock) return done(undefined, mapping);
          mlock.async(slot.address, length, (_, locked) => {
            if (locked !== 0) {
              this.onLockFailed?.(`mlock of ${length} bytes is refused: see ulimit -l`);
              this.onLockFailed = undefined;
            }
            done(undefined, mapping);
          });
        });
      });
    });
  }

  #mapping(slot: Slot, length: number): Mapping {
    return {
      bytes: new Uint8Array(slot.buffer, 0, length),
      end: () => {
        const { address, buffer } = slot;
        this.#system.mmap.async(address, buffer.byteLength, READ_WRITE, ANONYMOUS_FIXED, -1, 0, (error, result) => {
          // Where that failed the file's pages are still there: then the range is not used again.
          if (error == null && result !== FAILED) this.#free.push(slot);
        });
      },
    };
  }

  #slot(length: number): Slot | undefined {
    const at = this.#free.findIndex(({ buffer }) => buffer.byteLength === roundUp(length, this.pageBytes));
    if (at >= 0) return this.#free.splice(at, 1)[0];
    const bytes = roundUp(length, this.pageBytes);
    const address = this.#system.mmap(null, bytes, 0, ANONYMOUS, -1, 0);
    if (address === FAILED) return undefined;
    return { address, buffer: this.#system.view(address, bytes) };
  }
}

function roundUp(value: number, unit: number): number {
  return Math.ceil(value / unit) * unit;
}
