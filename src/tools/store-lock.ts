// One process at a time may have a store open. Java says so by an fcntl lock on byte 0 of `lock`; we take the same lock where FFI is
// there, and keep `gantry/pid` in any case, which tells another Gantry without FFI, and tells our own process, for which a record
// lock does not count. Without FFI a Java broker that is started later is not kept out; one that runs already is seen on Linux.

import * as fs from 'node:fs';
import { errorText, GantryError } from '../common/index.ts';
import { loadRecordLocks, lockHolderInProc, type RecordLocks } from './record-lock.ts';

/** Held for the life of the process, or until `release`. */
export interface StoreLock {
  /** `fcntl` keeps Java out too, `pid` keeps only Gantry out. */
  readonly kind: 'fcntl' | 'pid';
  /** Gives the store back; more than once does nothing. With `undo` what taking it created is removed, as after a failed start. */
  release(undo?: boolean): void;
}

export interface StoreLockOptions {
  /** How record locks are taken; null means not at all. The default is what this system has. */
  readonly recordLocks?: RecordLocks | null;
  /** What /proc/locks says. */
  readonly procLocks?: string;
}

/**
 * Takes the store at `root`, which must exist.
 * @throws GantryError STORE_LOCKED if another process, or this one, has it; then nothing in the directory has changed.
 */
export function lockStore(root: string, options: StoreLockOptions = {}): StoreLock {
  const lockPath = `${root}/lock`;
  const pidPath = `${root}/gantry/pid`;
  // First of all, since closing a second descriptor of `lock` would drop the lock that this process holds.
  refuseIfHeld(root, pidPath);
  const recordLocks = options.recordLocks === undefined ? loadRecordLocks() : (options.recordLocks ?? undefined);
  const before = { folder: fs.existsSync(`${root}/gantry`), lock: fs.existsSync(lockPath) };
  let fd: number | undefined;
  try {
    if (recordLocks === undefined) refuseIfLocked(root, lockPath, options.procLocks);
    else fd = takeLock(root, lockPath, recordLocks);
    writePidFile(root, pidPath);
    if (fd !== undefined) fs.writeSync(fd, 'lock', 0);
  } catch (error) {
    if (fd !== undefined) fs.closeSync(fd);
    if (error instanceof GantryError) throw error;
    throw new GantryError('STORE_UNWRITABLE', `cannot take the store ${root}: ${errorText(error)}`, { cause: error });
  }
  let held = true;
  return {
    kind: fd === undefined ? 'pid' : 'fcntl',
    release: (undo = false) => {
      if (!held) return;
      held = false;
      fs.rmSync(pidPath, { force: true });
      if (undo && !before.lock) fs.rmSync(lockPath, { force: true });
      if (undo && !before.folder && fs.readdirSync(`${root}/gantry`).length === 0) fs.rmdirSync(`${root}/gantry`);
      if (fd !== undefined) fs.closeSync(fd);
    },
  };
}

function takeLock(root: string, lockPath: string, recordLocks: RecordLocks): number {
  const fd = fs.openSync(lockPath, fs.constants.O_RDWR | fs.constants.O_CREAT, 0o644);
  let taken = false;
  try {
    taken = recordLocks.take(fd);
    if (!taken) throw locked(root, recordLocks.holder(fd));
    return fd;
  } finally {
    if (!taken) fs.closeSync(fd);
  }
}

function refuseIfLocked(root: string, lockPath: string, procLocks: string | undefined): void {
  const holder = lockHolderInProc(lockPath, procLocks);
  if (holder !== undefined) throw locked(root, holder);
}

function locked(root: string, pid: number | undefined): GantryError {
  const who =
    pid === undefined || pid <= 0 ? 'another process' : pid === process.pid ? 'this process' : `process ${pid}`;
  return new GantryError(
    'STORE_LOCKED',
    `the store ${root} is in use by ${who}: stop that broker or choose another directory`,
  );
}

/** Process id, and a mark of its start, since ids are used again. */
interface Owner {
  pid: number;
  started: string;
}

function readPidFile(path: string): Owner | undefined {
  let text: string;
  try {
    text = fs.readFileSync(path, 'utf8');
  } catch {
    return undefined;
  }
  const [pid, started] = text.trim().split('\n');
  return pid !== undefined && /^\d+$/.test(pid) ? { pid: Number(pid), started: started ?? '' } : undefined;
}

function refuseIfHeld(root: string, pidPath: string): void {
  const owner = readPidFile(pidPath);
  if (owner !== undefined && isRunning(owner)) throw locked(root, owner.pid);
}

function isRunning(owner: Owner): boolean {
  if (owner.pid !== process.pid) {
    try {
      process.kill(owner.pid, 0);
    } catch (error) {
      // EPERM: it is there, and belongs to someone else.
      if ((error as NodeJS.ErrnoException).code !== 'EPERM') return false;
    }
  }
  const mark = startMark(owner.pid);
  return mark === undefined || mark === owner.started;
}

/**
 * What tells a process from a later one with the same id: on Linux its start in ticks since boot. Elsewhere only that of this
 * process is known, to ten seconds.
 */
function startMark(pid: number): string | undefined {
  try {
    const stat = fs.readFileSync(`/proc/${pid}/stat`, 'utf8');
    // The second field is a name in parentheses that may hold blanks; the start is the 22nd.
    return stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19];
  } catch {
    return pid === process.pid ? String(Math.round((Date.now() - performance.now()) / 10_000)) : undefined;
  }
}

function writePidFile(root: string, path: string): void {
  fs.mkdirSync(`${root}/gantry`, { recursive: true });
  // Once more, since two may have found the same stale file; then one of the two creates it.
  refuseIfHeld(root, path);
  fs.rmSync(path, { force: true });
  try {
    fs.writeFileSync(path, `${process.pid}\n${startMark(process.pid)}\n`, { flag: 'wx' });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') throw locked(root, readPidFile(path)?.pid);
    throw error;
  }
}
