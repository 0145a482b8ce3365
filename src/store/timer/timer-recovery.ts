// The start of the timer: wheel and log are derived, so both are held against the CommitLog, the queue of the timer's topic and the
// checkpoint before anything is built on them. What is missing is taken from the queue again.
//
//   log      ends at what the checkpoint relies on; earlier where a unit is damaged or names a record that the CommitLog has not
//   wheel    slots that name units beyond that end go back along their chains; a snapshot gets what came after it, and without a usable
//            wheel it is built, from the log
//   queue    goes on behind the message of the last unit, or where the checkpoint says, whichever comes first
//
// RocketMQ: TimerMessageStore#recover. It trusts the saved offset when the log is empty, and goes back seven days at most.

import { GantryError, type Logger } from '../../common/index.ts';
import type { FileSystem } from '../../io/index.ts';
import { TimerCheckpoint } from './timer-checkpoint.ts';
import { TimerMagic, TimerUnit } from './timer-format.ts';
import { TimerLog } from './timer-log.ts';
import { BLANK_SLOTS, TimerSlot, TimerWheel, WHEEL_SLOTS_TOTAL } from './timer-wheel.ts';

/** Bytes of the log that are read in the time of one read of a unit. */
const BYTES_A_READ = 8192;

export interface TimerOptions {
  readonly fs: FileSystem;
  readonly logger: Logger;
  readonly root: string;
  readonly precisionMs: number;
  readonly logFileBytes: number;
}

/** What recovery asks the store. */
export interface TimerTruth {
  /** End of the CommitLog. */
  readonly logEnd: number;
  /** Bounds of the queue of the timer's topic. */
  readonly queueMin: number;
  readonly queueMax: number;
  readonly nowMs: number;
  /** Ordinal of the timer message whose record lies there; undefined if there is none. */
  ordinalOf(offset: number, size: number): Promise<number | undefined>;
}

export interface RecoveredTimer {
  readonly wheel: TimerWheel;
  readonly log: TimerLog;
  readonly checkpoint: TimerCheckpoint;
  /** Next message of the queue to look at. */
  readonly queueOffset: number;
  /** Messages before this one were handled in an earlier life, if their time lies before `readMs`. */
  readonly knownOffset: number;
  /** Ms: first slot that is not done. */
  readonly readMs: number;
  /** The disk was full: the checkpoint has to be written before anything is appended to the log on the disk. */
  readonly checkpointWaits: boolean;
}

/**
 * Refuses files that do not fit the settings; nothing is changed.
 * @throws GantryError STORE_FILE_SIZE, STORE_DAMAGED.
 */
export function checkTimerFiles(fs: FileSystem, root: string, logFileBytes: number): void {
  const checkpoint = new TimerCheckpoint(fs, root);
  checkpoint.load();
  new TimerLog(fs, root, logFileBytes).load(checkpoint.lastTimerLogFlushPos);
}

/** What waits in the files of a timer that is switched off. Nothing is changed. */
export interface IdleTimer {
  readonly log: TimerLog;
  /** Messages of the queue before this one are in the log. */
  readonly queueOffset: number;
  /** Ms: first slot that is not done. */
  readonly readMs: number;
}

/** Looks at the files of a timer that is switched off. @throws GantryError STORE_FILE_SIZE, STORE_DAMAGED. */
export function readIdleTimer(fs: FileSystem, root: string, logFileBytes: number): IdleTimer {
  const log = new TimerLog(fs, root, logFileBytes);
  const checkpoint = new TimerCheckpoint(fs, root);
  checkpoint.load();
  log.load(checkpoint.lastTimerLogFlushPos);
  return { log, queueOffset: checkpoint.lastTimerQueueOffset, readMs: checkpoint.lastReadTimeMs };
}

/** Opens and mends the timer's files. @throws GantryError STORE_FILE_SIZE, STORE_DAMAGED, IO, DISK_FULL. */
export async function recoverTimer(options: TimerOptions, truth: TimerTruth): Promise<RecoveredTimer> {
  const log = new TimerLog(options.fs, options.root, options.logFileBytes);
  try {
    return await recover(options, truth, log);
  } catch (error) {
    log.close();
    throw error;
  }
}

async function recover(options: TimerOptions, truth: TimerTruth, log: TimerLog): Promise<RecoveredTimer> {
  const { fs, logger, root, precisionMs } = options;
  const wheel = new TimerWheel(fs, root, precisionMs);
  const checkpoint = new TimerCheckpoint(fs, root);
  const known = checkpoint.load();
  log.load(known ? checkpoint.lastTimerLogFlushPos : 0);
  const hasWheel = wheel.load();
  const now = floor(truth.nowMs, precisionMs);
  const readMs = readTime(checkpoint.lastReadTimeMs, now, precisionMs, logger);

  let { end, lastPos } = findEnd(log, known ? checkpoint.lastTimerLogFlushPos : log.last, truth.logEnd);
  if (known && end < checkpoint.lastTimerLogFlushPos) {
    logger.warn(
      `the timer log ends at ${end}, before ${checkpoint.lastTimerLogFlushPos} which was saved: what is missing is taken from the queue again`,
    );
  }
  let whole = hasWheel || end === log.first;
  if (hasWheel) whole = shortenSlots(wheel, log, end, readMs);
  else if (end > log.first)
    logger.warn(`${wheel.path} is missing or of a wrong length and is built from the timer log`);
  const since = whole ? wheel.loadedTo : undefined;
  if (!whole || (since !== undefined && since < end)) {
    const built = buildWheel(wheel, log, readMs, end, since);
    if (built.end < end) {
      logger.warn(`the timer log is damaged at ${built.end}: what it held from there on is taken from the queue again`);
      ({ end, lastPos } = built);
    }
  }
  log.cut(end);

  const saved = checkpoint.lastTimerQueueOffset;
  if (saved > truth.queueMax) {
    logger.warn(
      `the timer's saved position ${saved} is beyond its queue, which ends at ${truth.queueMax}; it is lowered`,
    );
    checkpoint.lastTimerQueueOffset = truth.queueMax;
  }
  const knownOffset = Math.min(saved, truth.queueMax);
  let queueOffset = knownOffset;
  if (lastPos >= 0) {
    const unit = new TimerUnit();
    log.read(lastPos, unit);
    const ordinal = await truth.ordinalOf(unit.offset, unit.size);
    if (ordinal !== undefined) queueOffset = known ? Math.min(ordinal + 1, knownOffset) : ordinal + 1;
  } else if (end < checkpoint.lastTimerLogFlushPos || !known) {
    queueOffset = truth.queueMin;
  }
  queueOffset = Math.min(Math.max(queueOffset, truth.queueMin), Math.max(truth.queueMin, truth.queueMax));
  let checkpointWaits = false;
  if (known && (checkpoint.lastTimerLogFlushPos !== end || saved > truth.queueMax)) {
    // Units that are appended now must not be taken for those that the checkpoint speaks of.
    checkpoint.lastTimerLogFlushPos = end;
    checkpointWaits = !(await saveMended(wheel, checkpoint, logger));
  }
  return { wheel, log, checkpoint, queueOffset, knownOffset, readMs, checkpointWaits };
}

/** Saves what a start has mended. False: the disk is full, which is no reason not to start. @throws GantryError IO. */
async function saveMended(wheel: TimerWheel, checkpoint: TimerCheckpoint, logger: Logger): Promise<boolean> {
  const pages = wheel.takeDirty();
  try {
    await wheel.flush(pages);
    await checkpoint.flush();
    return true;
  } catch (error) {
    if (!(error instanceof GantryError) || error.code !== 'DISK_FULL') throw error;
    wheel.giveBack(pages);
    logger.warn(`the timer goes on in memory and is saved when there is space: ${error.message}`);
    return false;
  }
}

function floor(timeMs: number, precisionMs: number): number {
  return Math.floor(timeMs / precisionMs) * precisionMs;
}

function readTime(saved: number, now: number, precisionMs: number, logger: Logger): number {
  if (saved > now) {
    logger.warn(`the timer had come to ${new Date(saved).toISOString()}, which is in the future; it goes on from now`);
    return now;
  }
  const oldest = now - (WHEEL_SLOTS_TOTAL - BLANK_SLOTS) * precisionMs;
  return saved > 0 ? floor(saved, precisionMs) : Math.max(0, oldest);
}

/** The end of what can be relied on, and the last unit before it (-1: none). */
function findEnd(log: TimerLog, relied: number, logEnd: number): { end: number; lastPos: number } {
  const { fileSize, first, last } = log;
  const unit = new TimerUnit();
  if (last === first) return { end: first, lastPos: -1 };
  const limit = Math.min(relied, last);
  let base = Math.max(first, limit - fileSize);
  base -= (base - first) % fileSize;
  // Units come in the order of the CommitLog: those that it has not any more are at the end.
  while (base > first && !(log.read(base, unit) && unit.offset + unit.size <= logEnd)) base -= fileSize;
  let lastPos = -1;
  const stop = log.scan(
    base,
    (position, { offset, size, prevPos }) => {
      if (position >= limit || offset + size > logEnd || prevPos >= position) return false;
      lastPos = position;
      return true;
    },
    unit,
  );
  if (lastPos < 0 && base > first) lastPos = log.lastUnitOf(base - fileSize);
  return { end: stop, lastPos };
}

/** Takes units at and behind `end` out of their slots. False if that cannot be told from the wheel and the log. */
function shortenSlots(wheel: TimerWheel, log: TimerLog, end: number, readMs: number): boolean {
  const slot = new TimerSlot();
  const unit = new TimerUnit();
  let count = 0;
  let oldest = Number.POSITIVE_INFINITY;
  for (const timeMs of wheel.from(readMs)) {
    wheel.read(timeMs, slot);
    const before = slot.lastPos;
    let position = before;
    while (position >= end) {
      if (!log.read(position, unit) || unit.slotTime !== timeMs || unit.prevPos >= position) return false;
      slot.num -= (unit.magic & TimerMagic.DELETE) !== 0 ? -1 : 1;
      position = unit.prevPos;
    }
    if (position < 0) {
      wheel.erase(timeMs);
      continue;
    }
    if (position !== before) {
      slot.lastPos = position;
      wheel.write(timeMs, slot);
    }
    if (position < log.first) continue;
    count++;
    oldest = Math.min(oldest, position);
  }
  return count === 0 || slotsFit(wheel, log, readMs, count, oldest);
}

/** Whether the newest unit of each slot is one of that slot; those whose file has gone are due no more. */
function slotsFit(wheel: TimerWheel, log: TimerLog, readMs: number, count: number, oldest: number): boolean {
  const slot = new TimerSlot();
  const unit = new TimerUnit();
  if (log.end - oldest > count * BYTES_A_READ) {
    for (const timeMs of wheel.from(readMs)) {
      wheel.read(timeMs, slot);
      if (slot.lastPos >= log.first && !(log.read(slot.lastPos, unit) && unit.slotTime === timeMs)) return false;
    }
    return true;
  }
  // One pass through the log costs less than a read for each.
  let found = 0;
  log.scan(
    oldest,
    (position, { slotTime }) => {
      if (slotTime >= readMs && wheel.read(slotTime, slot) && slot.lastPos === position) found++;
      return true;
    },
    unit,
  );
  return found === count;
}

/** Builds the wheel from the log below `limit`, or adds what a snapshot lacks, from `since` on; up to the first unit that is damaged. */
function buildWheel(
  wheel: TimerWheel,
  log: TimerLog,
  readMs: number,
  limit: number,
  since?: number,
): { end: number; lastPos: number } {
  if (since === undefined) wheel.clear();
  const slot = new TimerSlot();
  let lastPos = -1;
  const stop = log.scan(
    since ?? log.first,
    (position, unit) => {
      if (position >= limit) return false;
      lastPos = position;
      const { slotTime } = unit;
      if (slotTime < readMs || position < (since ?? 0)) return true;
      wheel.read(slotTime, slot);
      slot.lastPos = position;
      if (slot.firstPos < 0) slot.firstPos = position;
      slot.num += (unit.magic & TimerMagic.DELETE) !== 0 ? -1 : 1;
      wheel.write(slotTime, slot);
      return true;
    },
    new TimerUnit(),
  );
  return { end: Math.min(stop, limit), lastPos };
}
