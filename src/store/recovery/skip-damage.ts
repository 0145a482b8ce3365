// Puts records where damaged ones were, so that a kill at any moment is made good by the next start:
//
//   1 the damaged bytes are kept aside        2 what will be written is saved (`gantry/skip.json`)
//   3 `abort`, the checkpoint and what follows say that everything from the damage on is to be derived again
//   4 the records are written and synced      5 the index is cut, too, and `skip.json` goes (`endSkip`)
//
// Killed before 4 has ended, the next start finds bytes that are no record again, and takes from `skip.json` what they stand for: the
// fields that told it may be overwritten by then. All that it names is written again, since no CRC tells a record whose mark was torn. Killed later, it finds `skip.json` and cuts the index. RocketMQ has nothing of the kind.

import { type Clock, type Logger, sameBytes } from '../../common/index.ts';
import { type FileSystem, makeDirectoryDurably, readWhole, saveDurably, writeWhole } from '../../io/index.ts';
import type { StoreCheckpoint } from '../checkpoint/index.ts';
import { type SegmentFile, segmentAt } from '../segment/index.ts';
import { type Placeholder, placeholderBytes } from './placeholders.ts';
import { bytesAt, type DamagedRun } from './resync.ts';

/** Place of indexMsgTimestamp among the checkpoint's values. */
const INDEX_TIME = 2;

interface Saved {
  version: 1;
  /** What the checkpoint says before and after: with any other, another broker has been here, and nothing is written. */
  checkpoints: [number[], number[]];
  records: Placeholder[];
}

export interface SkipInput {
  fs: FileSystem;
  clock: Clock;
  logger: Logger;
  root: string;
  files: readonly SegmentFile[];
  checkpoint: StoreCheckpoint;
}

/**
 * Writes `placeholders` over `runs`, durably. `before`: start and store time of the last sound record before the first run.
 * @throws GantryError IO, DISK_FULL; the next start goes on.
 */
export function skipRuns(
  input: SkipInput,
  runs: readonly DamagedRun[],
  placeholders: readonly Placeholder[],
  propertyCrc: boolean,
  before: { lastBefore: number; lastTime: number },
): void {
  const { fs, root, checkpoint } = input;
  const folder = `${root}/gantry`;
  makeDirectoryDurably(fs, `${folder}/cut`);
  const path = planPath(root);
  const earlier = plannedSkip(fs, root, checkpoint);
  const records = [...earlier];
  for (const run of runs) {
    const isIn = ({ start }: Placeholder): boolean => start >= run.start && start < run.end;
    const then = earlier.filter(isIn);
    if (then[0]?.start === run.start && tiles(then, run.end)) continue;
    keepRunAside(input, run);
    records.push(...placeholders.filter(isIn));
  }
  fs.syncDirectory(`${folder}/cut`);
  records.sort((a, b) => a.start - b.start);
  const now = checkpoint.values;
  if (checkpoint.logicsPhysicalOffset >= runs[0]!.start) {
    checkpoint.logicsPhysicalOffset = Math.max(0, before.lastBefore);
    checkpoint.logicsMsgTimestamp = before.lastTime;
  } else if (checkpoint.logicsPhysicalOffset === 0) {
    checkpoint.logicsMsgTimestamp = Math.min(checkpoint.logicsMsgTimestamp, Math.max(0, before.lastTime - 1));
  }
  saveDurably(fs, path, JSON.stringify({ version: 1, checkpoints: [now, checkpoint.values], records } satisfies Saved));

  if (fs.stat(`${root}/abort`) === undefined) writeWhole(fs, `${root}/abort`, '0', true);
  fs.syncDirectory(root);
  checkpoint.flush(true);
  writePlanned(input.files, records, propertyCrc);
}

/** Writes the records where they differ from what is there, durably. @throws GantryError IO, DISK_FULL. */
export function writePlanned(
  files: readonly SegmentFile[],
  records: readonly Placeholder[],
  propertyCrc: boolean,
): void {
  const written = new Set<SegmentFile>();
  for (const one of records) {
    const file = segmentAt(files, one.start);
    if (file === undefined) continue;
    const bytes = placeholderBytes(one, propertyCrc);
    const there = bytesAt(file, one.start, one.size);
    if (there === undefined) continue;
    if (!sameBytes(there, 0, bytes, 0, bytes.length))
      file.handle().writeSync(bytes, 0, bytes.length, one.start - file.base);
    written.add(file);
  }
  for (const file of written) file.handle().syncSync();
}

/** Everything that a skip changes is changed. @throws GantryError IO. */
export function endSkip(fs: FileSystem, root: string): void {
  const path = planPath(root);
  if (fs.stat(path) === undefined && fs.stat(`${path}.bak`) === undefined) return;
  fs.remove(`${path}.bak`);
  fs.remove(path);
  fs.syncDirectory(`${root}/gantry`);
}

/** Whether records lie one behind the other up to `end`. */
function tiles(records: readonly Placeholder[], end: number): boolean {
  return records.every((one, i) => one.start + one.size === (records[i + 1]?.start ?? end));
}

function planPath(root: string): string {
  return `${root}/gantry/skip.json`;
}

/** What a skip that was not ended was going to write, in log order. */
export function plannedSkip(fs: FileSystem, root: string, checkpoint: StoreCheckpoint): Placeholder[] {
  const path = planPath(root);
  for (const candidate of [path, `${path}.bak`]) {
    try {
      const bytes = readWhole(fs, candidate);
      if (bytes === undefined) continue;
      const saved = JSON.parse(Buffer.from(bytes).toString('utf8')) as Saved;
      const now = checkpoint.values;
      // The index's time follows what this start does with the index.
      const fits = saved.checkpoints.some((then) => then.every((value, i) => i === INDEX_TIME || value === now[i]));
      if (saved.version === 1 && fits) return saved.records;
    } catch {
      // Written in part: then nothing was written over yet.
    }
  }
  return [];
}

/** Copies the damaged bytes to `<root>/gantry/cut/skipped-<offset>-<time>`, durably but for its name. */
function keepRunAside({ fs, clock, root, logger }: SkipInput, run: DamagedRun): void {
  const path = `${root}/gantry/cut/skipped-${String(run.start).padStart(20, '0')}-${clock.now()}`;
  const out = fs.open(path, 'create');
  try {
    const step = 1024 * 1024;
    for (let at = run.start; at < run.end; at += step) {
      const bytes = bytesAt(run.file, at, Math.min(step, run.end - at))!;
      out.writeSync(bytes, 0, bytes.length, at - run.start);
    }
    out.syncSync();
  } finally {
    out.close();
  }
  logger.warn(`${run.end - run.start} damaged bytes of the log from offset ${run.start} on are kept aside in ${path}`);
}
