// Cuts a compaction log where the CommitLog was cut: what is behind is dead on disk.

import { GantryError, viewOf } from '../../common/index.ts';
import { type ReadCache, type SegmentFile, zeroBytes } from '../segment/index.ts';
import { CompactionUnit, UNIT_BYTES } from './compaction-format.ts';
import type { FilePair, PairList } from './pair-list.ts';

const STEP_UNITS = 1424;

/** Removes all records with a queue offset of `keepBelow` or more, durably; how many. @throws GantryError IO, DISK_FULL. */
export function cutPairs(list: PairList, cache: ReadCache, keepBelow: number): number {
  if (list.maxOffset <= keepBelow) return 0;
  list.dropUnwritten((pair) => {
    const unit = new CompactionUnit();
    return pair.units > 0 && readUnit(pair, pair.units - 1, unit) ? unit.queueOffset : -1;
  });
  let cut = 0;
  for (let pair = list.last; pair !== undefined; pair = list.last) {
    if (pair.units > 0 && pair.lastOffset < keepBelow) break;
    if (pair.units > 0 && pair.firstOffset < keepBelow) {
      const keep = unitsBelow(pair, keepBelow);
      cut += pair.units - keep;
      endAt(pair, keep, cache);
      break;
    }
    cut += pair.units;
    removePair(list, pair, cache);
  }
  return cut;
}

/** Takes the last pair away: its queue file first, so that no unit is left without a record. @throws GantryError IO. */
export function removePair(list: PairList, pair: FilePair, cache: ReadCache): void {
  for (const file of [pair.queue, pair.log]) {
    cache.forget(file);
    file.close();
    list.fs.remove(file.path);
  }
  list.pairs = list.pairs.filter((other) => other !== pair);
  list.namesChanged();
  try {
    for (const folder of [list.queueFolder, list.logFolder]) list.fs.syncDirectory(folder);
  } catch (error) {
    // The next sync of the list does it.
    if (!(error instanceof GantryError)) throw error;
  }
}

/** Lets a pair end behind `units` units, and makes what lies behind them dead. @throws GantryError IO, DISK_FULL: it has to be repeated. */
export function endAt(pair: FilePair, units: number, cache: ReadCache): void {
  const unit = new CompactionUnit();
  const found = units > 0 && readUnit(pair, units - 1, unit);
  const logEnd = found ? unit.position + unit.size - pair.base : 0;
  zeroBehind(pair.queue, units * UNIT_BYTES);
  zeroBehind(pair.log, logEnd);
  pair.units = pair.unitsWritten = units;
  pair.logEnd = pair.logWritten = logEnd;
  pair.lastOffset = found ? unit.queueOffset : -1;
  if (!found) pair.firstOffset = -1;
  pair.isClosed = false;
  cache.forget(pair.queue);
  cache.forget(pair.log);
}

function zeroBehind(file: SegmentFile, from: number): void {
  const handle = file.handle();
  const step = new Uint8Array(Math.min(1024 * 1024, file.size - from));
  let end = from;
  for (let at = from; at < file.size; at += step.length) {
    let last = handle.readSync(step, 0, Math.min(step.length, file.size - at), at);
    while (last > 0 && step[last - 1] === 0) last--;
    if (last > 0) end = at + last;
  }
  if (end > from) zeroBytes(handle, from, end - from);
  handle.syncSync();
}

/** Reads a unit at once; false if there is none. */
export function readUnit(pair: FilePair, index: number, unit: CompactionUnit): boolean {
  const bytes = new Uint8Array(UNIT_BYTES);
  const got = pair.queue.handle().readSync(bytes, 0, UNIT_BYTES, index * UNIT_BYTES);
  return got === UNIT_BYTES && unit.read(viewOf(bytes), 0);
}

/** Number of a pair's units below a queue offset. */
export function unitsBelow(pair: FilePair, queueOffset: number): number {
  const unit = new CompactionUnit();
  let low = 0;
  let high = pair.units;
  while (low < high) {
    const middle = Math.floor((low + high) / 2);
    if (readUnit(pair, middle, unit) && unit.queueOffset < queueOffset) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Shows `visit` the units of a queue file from the one with the index `first` on, until one is none or it answers false. */
export function scanUnits(
  file: SegmentFile,
  first: number,
  visit: (unit: CompactionUnit, index: number) => boolean,
): void {
  const unit = new CompactionUnit();
  const bytes = new Uint8Array(STEP_UNITS * UNIT_BYTES);
  const view = viewOf(bytes);
  for (let index = first; index * UNIT_BYTES < file.size; ) {
    const wanted = Math.min(bytes.length, file.size - index * UNIT_BYTES);
    const got = Math.floor(file.handle().readSync(bytes, 0, wanted, index * UNIT_BYTES) / UNIT_BYTES);
    if (got === 0) return;
    for (let i = 0; i < got; i++, index++) {
      if (!unit.read(view, i * UNIT_BYTES) || !visit(unit, index)) return;
    }
  }
}
