// Java's FileChannel.lock is an fcntl record lock, which Node does not offer. Through FFI (koffi, optional) we take the same one;
// without it we can only see on Linux who holds one.
//
// A record lock belongs to the process and the file: it falls as soon as the process closes any descriptor of that file, and a
// second lock of the same process succeeds. So nothing else in this process may open the file while the lock is held.
//
//   struct flock, Linux 64 bit         struct flock, macOS
//   0  l_type    i16                   0  l_start   i64
//   2  l_whence  i16                   8  l_len     i64
//   8  l_start   i64                   16 l_pid     i32
//   16 l_len     i64                   20 l_type    i16
//   24 l_pid     i32                   22 l_whence  i16

import { readdirSync, readFileSync, readlinkSync, realpathSync, statSync } from 'node:fs';
import { createRequire } from 'node:module';

/** Locks byte 0 of open files for this process. */
export interface RecordLocks {
  /** Takes a write lock on byte 0; false if another process holds one. @throws Error if the system refuses for another reason. */
  take(fd: number): boolean;
  /** The process that holds a lock on byte 0; undefined if none does or the system does not say. */
  holder(fd: number): number | undefined;
}

interface Layout {
  getLock: number;
  setLock: number;
  writeLock: number;
  unlocked: number;
  size: number;
  type: number;
  length: number;
  pid: number;
}

const LAYOUTS: Readonly<Record<string, Layout>> = {
  linux: { getLock: 5, setLock: 6, writeLock: 1, unlocked: 2, size: 32, type: 0, length: 16, pid: 24 },
  darwin: { getLock: 7, setLock: 8, writeLock: 3, unlocked: 2, size: 24, type: 20, length: 8, pid: 16 },
};

const SIXTY_FOUR_BIT = ['x64', 'arm64', 'riscv64', 'loong64', 'ppc64'];

interface Koffi {
  load(path: null): { func(prototype: string): (...args: unknown[]) => number };
  errno(): number;
  os: { errno: Readonly<Record<string, number>> };
}

/** The record locks of this system; undefined where koffi is not installed or the system is not known. */
export function loadRecordLocks(): RecordLocks | undefined {
  const layout = LAYOUTS[process.platform];
  if (layout === undefined || !SIXTY_FOUR_BIT.includes(process.arch)) return undefined;
  let koffi: Koffi;
  let fcntl: (...args: unknown[]) => number;
  try {
    koffi = createRequire(import.meta.url)('koffi') as Koffi;
    fcntl = koffi.load(null).func('int fcntl(int fd, int cmd, ...)');
  } catch {
    return undefined;
  }
  const request = (): Buffer => {
    const flock = Buffer.alloc(layout.size);
    flock.writeInt16LE(layout.writeLock, layout.type);
    flock.writeBigInt64LE(1n, layout.length);
    return flock;
  };
  return {
    take(fd) {
      if (fcntl(fd, layout.setLock, 'void *', request()) === 0) return true;
      const errno = koffi.errno();
      if (errno === koffi.os.errno['EACCES'] || errno === koffi.os.errno['EAGAIN']) return false;
      throw new Error(`fcntl failed with error ${errno}`);
    },
    holder(fd) {
      const flock = request();
      if (fcntl(fd, layout.getLock, 'void *', flock) !== 0) return undefined;
      if (flock.readInt16LE(layout.type) === layout.unlocked) return undefined;
      return flock.readInt32LE(layout.pid);
    },
  };
}

/**
 * The process that holds a lock on byte 0 of a file, as /proc/locks tells (Linux; processes in other containers are not shown).
 * Opens nothing.
 */
export function lockHolderInProc(path: string, locks: string = readProcLocks()): number | undefined {
  const stat = statSync(path, { throwIfNoEntry: false });
  if (stat === undefined) return undefined;
  // 1: POSIX  ADVISORY  WRITE 1234 fe:00:9986204 0 0
  for (const line of locks.split('\n')) {
    const match = /^\d+: (?:POSIX|OFDLCK)\s+\S+\s+WRITE\s+(-?\d+)\s+([0-9a-f]+):([0-9a-f]+):(\d+)\s+0\s/.exec(line);
    if (match === null || Number(match[4]) !== stat.ino) continue;
    const pid = Number(match[1]);
    const device =
      Number.parseInt(match[2]!, 16) === major(stat.dev) && Number.parseInt(match[3]!, 16) === minor(stat.dev);
    // Layered file systems show another device there than stat does.
    if (device || hasOpen(pid, path)) return pid;
  }
  return undefined;
}

function readProcLocks(): string {
  try {
    return readFileSync('/proc/locks', 'utf8');
  } catch {
    return '';
  }
}

function major(device: number): number {
  return (device >>> 8) & 0xfff;
}

function minor(device: number): number {
  return (device & 0xff) | ((device >>> 12) & 0xfff00);
}

function hasOpen(pid: number, path: string): boolean {
  try {
    const real = realpathSync(path);
    return readdirSync(`/proc/${pid}/fd`).some((fd) => readlinkSync(`/proc/${pid}/fd/${fd}`) === real);
  } catch {
    return false;
  }
}
