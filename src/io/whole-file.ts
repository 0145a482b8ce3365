// Small files, read and written whole. `saveDurably` is how everything primary is saved (topics, groups, consumer offsets):
// the new content is never at risk of being half there, and the last good one stays beside it.

import { GantryError } from '../common/index.ts';
import type { FileSystem } from './file-system.ts';

/** The whole content; undefined if there is no such file. */
export function readWhole(fs: FileSystem, path: string): Uint8Array | undefined {
  const stat = fs.stat(path);
  if (stat === undefined) return undefined;
  if (stat.isDirectory) throw new GantryError('IO', `${path} is a directory, a file is expected`);
  const file = fs.open(path, 'read');
  try {
    const bytes = new Uint8Array(file.size());
    const got = bytes.length === 0 ? 0 : file.readSync(bytes, 0, bytes.length, 0);
    return got === bytes.length ? bytes : bytes.subarray(0, got);
  } finally {
    file.close();
  }
}

/** Writes a file in place, without any promise about a power cut. */
export function writeWhole(fs: FileSystem, path: string, content: Uint8Array | string, sync = false): void {
  const bytes = typeof content === 'string' ? Buffer.from(content, 'utf8') : content;
  const file = fs.open(path, 'create');
  try {
    file.truncateSync(0);
    if (bytes.length > 0) file.writeSync(bytes, 0, bytes.length, 0);
    if (sync) file.syncSync();
  } finally {
    file.close();
  }
}

/** Creates a folder with all that lead to it, and makes the names of those that were not there durable; if that fails, none is there. */
export function makeDirectoryDurably(fs: FileSystem, path: string): void {
  const fresh: string[] = [];
  for (let folder = path; folder !== '' && folder !== '.' && fs.stat(folder) === undefined; folder = parentOf(folder)) {
    fresh.push(folder);
  }
  if (fresh.length === 0) return;
  fs.makeDirectory(path);
  fresh.reverse();
  try {
    for (const folder of fresh) fs.syncDirectory(parentOf(folder));
  } catch (error) {
    // Who tries again must not find them and take their names for durable.
    fs.removeTree(fresh[0]!);
    throw error;
  }
}

function parentOf(path: string): string {
  const at = path.lastIndexOf('/');
  if (at < 0) return '.';
  return at === 0 ? '/' : path.slice(0, at);
}

/**
 * Saves `content` so that after a power cut at any point either the old or the new content is found by `loadSaved`:
 * new file, fsync, old file renamed to `.bak`, new file renamed into place, fsync of the folder.
 * RocketMQ: renames the old file first and writes in place afterwards, so that between the two only `.bak` exists.
 */
export function saveDurably(fs: FileSystem, path: string, content: Uint8Array | string): void {
  const folder = parentOf(path);
  const fresh = `${path}.tmp`;
  writeWhole(fs, fresh, content, true);
  if (fs.stat(path) !== undefined) fs.rename(path, `${path}.bak`);
  fs.rename(fresh, path);
  fs.syncDirectory(folder);
}
