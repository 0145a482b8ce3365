// Takes what is damaged of that which is derived from the log out of the way, where the next start builds it again.

import { type FileSystem, makeDirectoryDurably } from '../../io/index.ts';
import type { Fault } from './fault.ts';

export interface Repair {
  moved: Array<{ from: string; to: string }>;
  /** What stays damaged: of the log, or what is not built again from it alone. */
  left: Fault[];
}

/**
 * Moves what is damaged into `gantry/derived-damaged`. Nobody may have the store open. @throws GantryError IO.
 *
 *   a queue             its folder, with its ext units; a batch queue leaves an empty one, which says what kind it is
 *   the index           the files from the first damaged one on
 *   the timer's files   the wheel; the timer log only with the wheel. The checkpoint says what was delivered, and stays
 *   compaction logs     queue files whose log file is whole. A damaged record is mended when it is met, if the CommitLog still has it
 */
export function repairStore(fs: FileSystem, root: string, { faults }: { faults: readonly Fault[] }): Repair {
  const repair: Repair = { moved: [], left: faults.filter((fault) => !isRebuilt(root, fault, faults)) };
  const aside = `${root}/gantry/derived-damaged`;
  const move = (from: string, name: string): void => {
    if (fs.stat(from) === undefined) return;
    makeDirectoryDurably(fs, aside);
    let to = `${aside}/${name}`;
    for (let n = 2; fs.stat(to) !== undefined; n++) to = `${aside}/${name}.${n}`;
    fs.rename(from, to);
    fs.syncDirectory(aside);
    fs.syncDirectory(from.slice(0, from.lastIndexOf('/')));
    repair.moved.push({ from, to });
  };
  const filesOf = (of: Fault['of']): string[] => faults.filter((fault) => fault.of === of).map(({ file }) => file);
  moveQueues(fs, root, filesOf('queue'), move);
  moveIndex(fs, root, filesOf('index').sort()[0], move);
  moveTimer(fs, root, filesOf('timer'), move);
  const queueFiles = new Set(
    faults.filter((fault) => fault.of === 'compaction' && isRebuilt(root, fault, faults)).map(({ file }) => file),
  );
  for (const file of queueFiles) move(file, file.slice(root.length + 1).replaceAll('/', '-'));
  return repair;
}

/** Whether the next start builds again what a fault is about. */
function isRebuilt(root: string, { of, file }: Fault, faults: readonly Fault[]): boolean {
  if (of === 'queue' || of === 'index') return true;
  if (of === 'timer') return !file.startsWith(`${root}/config/`);
  const queueFiles = `${root}/compaction/compactionCq/`;
  if (of === 'log' || !file.startsWith(queueFiles)) return false;
  const folder = (path: string): string => path.slice(0, path.lastIndexOf('/'));
  const logFolder = `${root}/compaction/compactionLog/${folder(file).slice(queueFiles.length)}`;
  return faults.every((other) => folder(other.file) !== logFolder);
}

type Move = (from: string, name: string) => void;

function moveQueues(fs: FileSystem, root: string, files: readonly string[], move: Move): void {
  const folders = new Set(
    files.map((file) =>
      file
        .slice(root.length + 1)
        .split('/')
        .slice(0, 3)
        .join('/'),
    ),
  );
  for (const folder of [...folders]) {
    const [kind, topic, queueId] = folder.split('/') as [string, string, string];
    if (kind === 'batchconsumequeue') {
      move(`${root}/${folder}`, `${topic}-${queueId}`);
      makeDirectoryDurably(fs, `${root}/${folder}`);
      continue;
    }
    move(`${root}/consumequeue/${topic}/${queueId}`, `${topic}-${queueId}`);
    move(`${root}/consumequeue_ext/${topic}/${queueId}`, `${topic}-${queueId}-ext`);
  }
}

function moveIndex(fs: FileSystem, root: string, first: string | undefined, move: Move): void {
  if (first === undefined) return;
  // The newest first: a file behind a gap would be taken for the next one.
  const files = fs
    .list(`${root}/index`)
    .filter((name) => /^\d{17}$/.test(name))
    .sort()
    .reverse();
  for (const name of files) if (`${root}/index/${name}` >= first) move(`${root}/index/${name}`, `index-${name}`);
}

function moveTimer(fs: FileSystem, root: string, files: readonly string[], move: Move): void {
  const isLog = files.some((file) => file.startsWith(`${root}/timerlog/`));
  if (!isLog && !files.some((file) => file.startsWith(`${root}/timerwheel`))) return;
  for (const name of fs.list(root)) if (/^timerwheel(\.\d+)?$/.test(name)) move(`${root}/${name}`, name);
  if (isLog) move(`${root}/timerlog`, 'timerlog');
}
