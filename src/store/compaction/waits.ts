// Disk work off the loop as promises, for what happens once in minutes: syncs, names, small files.

import type { Clock } from '../../common/index.ts';
import type { Done, FileSystem } from '../../io/index.ts';
import type { SegmentFile } from '../segment/index.ts';

/** Runs an operation that calls back. */
export function done(start: (done: Done) => void): Promise<void> {
  return new Promise((resolve, reject) => start((error) => (error === undefined ? resolve() : reject(error))));
}

/** Makes what is written in a file durable. @throws GantryError IO, DISK_FULL. */
export async function syncSegment(file: SegmentFile): Promise<void> {
  const handle = file.handle();
  file.pin();
  try {
    await done((end) => handle.sync(end));
  } finally {
    file.unpin();
  }
}

/** Makes the names in a folder durable. @throws GantryError IO. */
export function syncFolder(fs: FileSystem, folder: string): Promise<void> {
  return done((end) => fs.syncDirectoryLater(folder, end));
}

/** The next turn of the loop. */
export function nextTurn(clock: Clock): Promise<void> {
  return new Promise((resolve) => clock.soon(resolve));
}

/** As `saveDurably`, off the loop: a new file, synced, in the place of the old one, which becomes `.bak` if it is kept. */
export async function saveLater(fs: FileSystem, path: string, text: string, keepsOld: boolean): Promise<void> {
  const bytes = Buffer.from(text, 'utf8');
  const fresh = `${path}.new`;
  const file = fs.open(fresh, 'create');
  try {
    file.truncateSync(0);
    await done((end) => file.write(bytes, 0, bytes.length, 0, end));
    await done((end) => file.sync(end));
  } finally {
    file.close();
  }
  if (keepsOld && fs.stat(path) !== undefined) fs.rename(path, `${path}.bak`);
  fs.rename(fresh, path);
  await syncFolder(fs, path.slice(0, path.lastIndexOf('/')));
}
