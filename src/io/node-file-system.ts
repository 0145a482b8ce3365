// The real disk: node:fs behind the FileSystem interface. Synchronous calls are for small work on warm pages and for the
// start; everything that can wait for a disk has a callback form that runs in libuv's pool.

import * as fs from 'node:fs';
import type { FileMapper } from './file-mapper.ts';
import type { Done, DoneBytes, FileHandle, FileStat, FileSystem, OpenMode } from './file-system.ts';
import { ioError } from './io-error.ts';
import { loadFileMapper } from './mmap.ts';
import { NodeSyncLane } from './node-sync-lane.ts';
import { adviseRandom } from './read-advice.ts';

class NodeFileHandle implements FileHandle {
  readonly path: string;
  readonly fd: number;
  #readsNoMore = false;

  constructor(path: string, fd: number) {
    this.path = path;
    this.fd = fd;
  }

  readSync(target: Uint8Array, targetStart: number, length: number, position: number): number {
    try {
      let total = 0;
      while (total < length) {
        const n = fs.readSync(this.fd, target, targetStart + total, length - total, position + total);
        if (n === 0) break;
        total += n;
      }
      return total;
    } catch (error) {
      throw ioError(error, 'read', this.path);
    }
  }

  read(target: Uint8Array, targetStart: number, length: number, position: number, done: DoneBytes): void {
    let total = 0;
    const step = (error: NodeJS.ErrnoException | null, n: number): void => {
      if (error) return done(ioError(error, 'read', this.path), total);
      total += n;
      if (n === 0 || total === length) return done(undefined, total);
      fs.read(this.fd, target, targetStart + total, length - total, position + total, step);
    };
    fs.read(this.fd, target, targetStart, length, position, step);
  }

  writeSync(source: Uint8Array, sourceStart: number, length: number, position: number): void {
    try {
      let total = 0;
      while (total < length) {
        total += fs.writeSync(this.fd, source, sourceStart + total, length - total, position + total);
      }
    } catch (error) {
      throw ioError(error, 'write', this.path);
    }
  }

  write(source: Uint8Array, sourceStart: number, length: number, position: number, done: Done): void {
    let total = 0;
    const step = (error: NodeJS.ErrnoException | null, n: number): void => {
      if (error) return done(ioError(error, 'write', this.path));
      total += n;
      if (total === length) return done(undefined);
      fs.write(this.fd, source, sourceStart + total, length - total, position + total, step);
    };
    fs.write(this.fd, source, sourceStart, length, position, step);
  }

  sync(done: Done): void {
    fs.fdatasync(this.fd, (error) => done(error ? ioError(error, 'sync', this.path) : undefined));
  }

  syncSync(): void {
    try {
      fs.fdatasyncSync(this.fd);
    } catch (error) {
      throw ioError(error, 'sync', this.path);
    }
  }

  truncateSync(length: number): void {
    try {
      fs.ftruncateSync(this.fd, length);
    } catch (error) {
      throw ioError(error, 'change the length of', this.path);
    }
  }

  readNoMore(): void {
    if (this.#readsNoMore) return;
    this.#readsNoMore = true;
    adviseRandom(this.fd);
  }

  size(): number {
    try {
      return fs.fstatSync(this.fd).size;
    } catch (error) {
      throw ioError(error, 'look at', this.path);
    }
  }

  close(): void {
    fs.closeSync(this.fd);
  }
}

const FLAGS: Record<OpenMode, number> = {
  read: fs.constants.O_RDONLY,
  write: fs.constants.O_RDWR,
  create: fs.constants.O_RDWR | fs.constants.O_CREAT,
};

function attempt<T>(action: string, path: string, fn: () => T): T {
  try {
    return fn();
  } catch (error) {
    throw ioError(error, action, path);
  }
}

async function syncFolderOf(path: string): Promise<void> {
  if (process.platform === 'win32') return;
  const folder = await fs.promises.open(path.slice(0, path.lastIndexOf('/')), fs.constants.O_RDONLY);
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}

export const nodeFileSystem: FileSystem = {
  open(path, mode) {
    return attempt('open', path, () => new NodeFileHandle(path, fs.openSync(path, FLAGS[mode], 0o644)));
  },

  stat(path): FileStat | undefined {
    const stat = attempt('look at', path, () => fs.statSync(path, { throwIfNoEntry: false }));
    if (stat === undefined) return undefined;
    return { size: stat.size, isDirectory: stat.isDirectory(), modifiedMs: stat.mtimeMs, id: stat.ino };
  },

  list(path) {
    try {
      return fs.readdirSync(path);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
      throw ioError(error, 'list', path);
    }
  },

  makeDirectory(path) {
    attempt('create the directory', path, () => fs.mkdirSync(path, { recursive: true }));
  },

  remove(path) {
    attempt('remove', path, () => fs.rmSync(path, { force: true }));
  },

  removeLater(path, done) {
    const remove = async (): Promise<void> => {
      await fs.promises.rm(path, { force: true });
      await syncFolderOf(path);
    };
    remove().then(
      () => done(undefined),
      (error) => done(ioError(error, 'remove', path)),
    );
  },

  removeTree(path) {
    attempt('remove', path, () => fs.rmSync(path, { force: true, recursive: true }));
  },

  rename(from, to) {
    attempt('rename', from, () => fs.renameSync(from, to));
  },

  syncDirectory(path) {
    // Windows cannot open a directory; there a rename is durable with the file's own metadata.
    if (process.platform === 'win32') return;
    attempt('sync the directory', path, () => {
      const fd = fs.openSync(path, fs.constants.O_RDONLY);
      try {
        fs.fsyncSync(fd);
      } finally {
        fs.closeSync(fd);
      }
    });
  },

  syncDirectoryLater(path, done) {
    if (process.platform === 'win32') return fs.access(path, () => done(undefined));
    const end = (error: NodeJS.ErrnoException | null): void =>
      done(error !== null && error.code !== 'ENOENT' ? ioError(error, 'sync the directory', path) : undefined);
    fs.open(path, fs.constants.O_RDONLY, (openError, fd) => {
      if (openError !== null) return end(openError);
      fs.fsync(fd, (error) => fs.close(fd, () => end(error)));
    });
  },

  createSized(path, length, done) {
    const create = async (): Promise<void> => {
      const file = await fs.promises.open(path, FLAGS.create, 0o644);
      try {
        await file.truncate(length);
        await file.datasync();
      } finally {
        await file.close();
      }
      await syncFolderOf(path);
    };
    create().then(
      () => done(undefined),
      (error) => done(ioError(error, 'create', path)),
    );
  },

  bootId() {
    try {
      return fs.readFileSync('/proc/sys/kernel/random/boot_id', 'latin1').trim();
    } catch {
      return undefined;
    }
  },

  openSyncLane(logger) {
    return new NodeSyncLane(logger);
  },

  usedFraction(path) {
    try {
      const s = fs.statfsSync(path);
      const usable = s.blocks - s.bfree + s.bavail;
      return usable === 0 ? -1 : (s.blocks - s.bfree) / usable;
    } catch {
      return -1;
    }
  },

  partitionBytes(path) {
    try {
      const { blocks, bsize } = fs.statfsSync(path);
      return blocks * bsize;
    } catch {
      return -1;
    }
  },

  get mapper(): FileMapper | undefined {
    return loadFileMapper();
  },
};
