// Puts a new generation of files in the place of the old one, so that a stop at any point leaves the one or the other.
//
//   made and synced in compacting/ ─► the plan is durable ─► old names end in .delete ─► new ones move up ─► .delete goes     log, then queue
//                                          └ from here on a start finishes what it finds begun
//
// As long as there are `.delete` files a Java broker refuses to start instead of reading a mixture: its own replacement, cut short, leaves the
// same. RocketMQ: CompactionLog#replaceFiles, which has no plan, and after a kill in the middle does not start any more.

import { type FileSystem, readWhole } from '../../io/index.ts';
import { segmentName } from '../segment/index.ts';
import { COMPACTING_FOLDER, DELETE_SUFFIX } from './compaction-format.ts';
import { done, saveLater, syncFolder } from './waits.ts';

/** What a replacement does to one compaction log: bases of the files that go and that come. */
export interface ReplacementPlan {
  readonly topic: string;
  readonly queueId: number;
  readonly remove: readonly number[];
  readonly put: readonly number[];
  /** Where the queue is compacted to when it is done; -1: not known. */
  readonly position: number;
}

const NAME = 'compaction-replacement.json';

function planPath(root: string): string {
  return `${root}/gantry/${NAME}`;
}

/** Makes a plan durable: from here on it will be carried out. @throws GantryError IO, DISK_FULL. */
export function savePlan(fs: FileSystem, root: string, plan: ReplacementPlan): Promise<void> {
  return saveLater(fs, planPath(root), JSON.stringify(plan), false);
}

/** The plan that a start finds; undefined if there is none, or what is there was never whole. */
export function loadPlan(fs: FileSystem, root: string): ReplacementPlan | undefined {
  const bytes = readWhole(fs, planPath(root));
  if (bytes === undefined) return undefined;
  try {
    return JSON.parse(Buffer.from(bytes).toString('utf8')) as ReplacementPlan;
  } catch {
    return undefined;
  }
}

/** The plan is done. @throws GantryError IO. */
export async function dropPlan(fs: FileSystem, root: string): Promise<void> {
  if (fs.stat(planPath(root)) === undefined) return;
  fs.remove(planPath(root));
  await syncFolder(fs, `${root}/gantry`);
}

/** Old names end in `.delete`, and new files are in their places, durably. May be repeated. @throws GantryError IO. */
export async function moveUp(fs: FileSystem, folder: string, plan: ReplacementPlan): Promise<void> {
  const from = `${folder}/${COMPACTING_FOLDER}`;
  const waiting = plan.put.filter((base) => fs.stat(`${from}/${segmentName(base)}`) !== undefined);
  if (waiting.length === plan.put.length) {
    // None has moved, so what has an old name is old.
    for (const base of plan.remove) {
      const path = `${folder}/${segmentName(base)}`;
      if (fs.stat(path) !== undefined) fs.rename(path, `${path}${DELETE_SUFFIX}`);
    }
    await syncFolder(fs, folder);
  }
  for (const base of waiting) fs.rename(`${from}/${segmentName(base)}`, `${folder}/${segmentName(base)}`);
  if (fs.stat(from) !== undefined) await syncFolder(fs, from);
  await syncFolder(fs, folder);
}

/** Whether a folder shows that its files are being replaced. */
export function isBeingReplaced(fs: FileSystem, folder: string): boolean {
  return fs.list(folder).some((name) => name === COMPACTING_FOLDER || name.endsWith(DELETE_SUFFIX));
}

/** What is on its way out goes, with the folder that the new files were made in. @throws GantryError IO. */
export async function removeOld(fs: FileSystem, folder: string): Promise<void> {
  for (const name of fs.list(folder)) {
    if (name.endsWith(DELETE_SUFFIX)) await done((end) => fs.removeLater(`${folder}/${name}`, end));
  }
  fs.removeTree(`${folder}/${COMPACTING_FOLDER}`);
  await syncFolder(fs, folder);
}
