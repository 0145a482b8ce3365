// Damage to what is derived from the log, done between two lives: files deleted, cut or with a bit flipped. It costs the next start time and
// nothing else.

import { type Random, silentLogger } from '../../src/common/index.ts';
import { type MemoryFileSystem, readWhole } from '../../src/io/index.ts';
import { StoreCheckpoint } from '../../src/store/checkpoint/index.ts';
import { DeletedTopics } from '../../src/store/recovery/deleted-topics.ts';
import { loadQueueBounds, type QueueBounds } from '../../src/store/recovery/queue-bounds.ts';
import { ROOT } from './engine.ts';
import { readConsumeQueue, segmentNames } from './store-files.ts';

const QUEUES = `${ROOT}/consumequeue`;
const INDEX = `${ROOT}/index`;
const CHECKPOINT = `${ROOT}/checkpoint`;
const BOUNDS = `${ROOT}/gantry/queue-bounds.json`;

type Doing = (fs: MemoryFileSystem, random: Random) => string | undefined;

const DAMAGES: readonly Doing[] = [
  (fs) => removeQueues(fs, QUEUES),
  (fs) => removeTree(fs, INDEX),
  (fs) => remove(fs, CHECKPOINT),
  (fs) => [removeQueues(fs, QUEUES), removeTree(fs, INDEX), remove(fs, CHECKPOINT)].join(', '),
  (fs, random) => removeQueues(fs, pick(random, folders(fs, QUEUES))),
  (fs, random) => removeQueueFile(fs, pick(random, filesBelow(fs, QUEUES))),
  (fs, random) =>
    cut(
      fs,
      random,
      pick(
        random,
        filesBelow(fs, QUEUES).filter((path) => !isFirst(fs, path)),
      ),
    ),
  (fs, random) => remove(fs, pick(random, filesBelow(fs, INDEX))),
  (fs, random) => cut(fs, random, pick(random, filesBelow(fs, INDEX))),
  (fs, random) => flip(fs, random, pick(random, filesBelow(fs, INDEX))),
  (fs, random) => cut(fs, random, CHECKPOINT),
  (fs, random) => flip(fs, random, CHECKPOINT, 48),
  (fs) => remove(fs, BOUNDS),
  (fs, random) => cut(fs, random, BOUNDS),
  (fs, random) => flip(fs, random, BOUNDS),
];

/**
 * Does one damage, durably; answers what it was, undefined if there was nothing to damage. `blindsIndex`: a key look-up may then miss messages
 * until the index folder is removed, since nothing in an index file says what should be in it.
 */
export function damageDerived(
  fs: MemoryFileSystem,
  random: Random,
): { what: string; blindsIndex: boolean } | undefined {
  const what = DAMAGES[random.int(DAMAGES.length)]!(fs, random);
  return what === undefined ? undefined : { what, blindsIndex: what.startsWith(`${INDEX}/`) };
}

/** Removes a folder and all in it. */
export function removeTree(fs: MemoryFileSystem, path: string | undefined): string | undefined {
  if (path === undefined || fs.stat(path) === undefined) return undefined;
  fs.removeTree(path);
  fs.syncDirectory(path.slice(0, path.lastIndexOf('/')));
  return `${path} removed`;
}

/** Where a queue ended whose messages are all gone as old, its files and the bounds say, and nothing else: they are not lost together. */
function removeQueues(fs: MemoryFileSystem, path: string | undefined): string | undefined {
  const isWhole = Number(segmentNames(fs, `${ROOT}/commitlog`)[0] ?? 0) === 0;
  const { known } = bounds(fs);
  return isWhole || known ? removeTree(fs, path) : undefined;
}

/**
 * Removes one file of a queue. Where old files of the log have gone since the bounds were saved, a queue without its first file looks like one that
 * retention has come to: then all of its files go.
 */
function removeQueueFile(fs: MemoryFileSystem, path: string | undefined): string | undefined {
  if (path === undefined) return undefined;
  const folder = path.slice(0, path.lastIndexOf('/'));
  const alone = filesBelow(fs, folder).length === 1;
  const start = Number(segmentNames(fs, `${ROOT}/commitlog`)[0] ?? 0);
  if (isFirst(fs, path) && (alone || (start > 0 && bounds(fs).logMinimum !== start))) return removeQueues(fs, folder);
  return remove(fs, path);
}

function bounds(fs: MemoryFileSystem): QueueBounds {
  const checkpoint = StoreCheckpoint.load(fs, CHECKPOINT);
  const deleted = DeletedTopics.load(fs, ROOT, silentLogger);
  return loadQueueBounds({ fs, root: ROOT, checkpoint, isOurs: false, deleted, logger: silentLogger });
}

function isFirst(fs: MemoryFileSystem, path: string): boolean {
  return path === filesBelow(fs, path.slice(0, path.lastIndexOf('/')))[0];
}

/** After a clean stop: flips a bit of a unit in some queue's last file; undefined if there is none. */
export function rotQueue(fs: MemoryFileSystem, random: Random): string | undefined {
  const folder = pick(
    random,
    folders(fs, QUEUES).filter((path) => path.split('/').length === 5 && fs.list(path).length > 0),
  );
  if (folder === undefined) return undefined;
  const path = filesBelow(fs, folder).at(-1)!;
  const units = readConsumeQueue(fs, folder).filter(({ queueOffset }) => queueOffset * 20 >= Number(path.slice(-20)));
  return units.length === 0 ? undefined : flip(fs, random, path, units.length * 20);
}

function remove(fs: MemoryFileSystem, path: string | undefined): string | undefined {
  if (path === undefined || fs.stat(path) === undefined) return undefined;
  fs.remove(path);
  fs.syncDirectory(path.slice(0, path.lastIndexOf('/')));
  return `${path} removed`;
}

function cut(fs: MemoryFileSystem, random: Random, path: string | undefined): string | undefined {
  const bytes = path === undefined ? undefined : readWhole(fs, path);
  if (path === undefined || bytes === undefined || bytes.length === 0) return undefined;
  const length = random.int(bytes.length);
  const file = fs.open(path, 'write');
  file.truncateSync(length);
  file.syncSync();
  file.close();
  return `${path} cut to ${length} of ${bytes.length} bytes`;
}

/** Flips a bit in the first `within` bytes. */
function flip(
  fs: MemoryFileSystem,
  random: Random,
  path: string | undefined,
  within: number = Number.POSITIVE_INFINITY,
): string | undefined {
  const bytes = path === undefined ? undefined : readWhole(fs, path);
  if (path === undefined || bytes === undefined || bytes.length === 0) return undefined;
  const at = random.int(Math.min(within, bytes.length));
  const bit = random.int(8);
  const file = fs.open(path, 'write');
  file.writeSync(new Uint8Array([bytes[at]! ^ (1 << bit)]), 0, 1, at);
  file.syncSync();
  file.close();
  return `${path}: bit ${bit} of byte ${at} flipped`;
}

function pick(random: Random, paths: readonly string[]): string | undefined {
  return paths.length === 0 ? undefined : paths[random.int(paths.length)];
}

function filesBelow(fs: MemoryFileSystem, folder: string): string[] {
  return fs
    .list(folder)
    .sort()
    .flatMap((name) => {
      const path = `${folder}/${name}`;
      return fs.stat(path)!.isDirectory ? filesBelow(fs, path) : [path];
    });
}

/** Folders below `folder`, at any depth. */
function folders(fs: MemoryFileSystem, folder: string): string[] {
  return fs
    .list(folder)
    .sort()
    .map((name) => `${folder}/${name}`)
    .filter((path) => fs.stat(path)!.isDirectory)
    .flatMap((path) => [path, ...folders(fs, path)]);
}
