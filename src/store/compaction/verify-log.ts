// Holds a loaded compaction log against the CommitLog before it is used: what the CommitLog has lost is dead here too, and what a power cut has left
// half written is taken in again.

import { viewOf } from '../../common/index.ts';
import { BLANK_BYTES, PHYSICAL_OFFSET_AT, RecordView, readRecord, Verify } from '../../message/index.ts';
import { CompactionUnit, UNSYNCED_BYTES } from './compaction-format.ts';
import type { CompactionLog } from './compaction-log.ts';
import { cutPairs, readUnit, removePair } from './cutting.ts';
import { mendRecord, originalOf } from './mending.ts';
import type { FilePair } from './pair-list.ts';
import { KeyLook } from './record-copy.ts';
import { faultOf } from './record-walk.ts';

/** So far before the end records may not have been synced when the machine went down: twice what is left unsynced for longer than a second. */
const DOUBT_BYTES = 2 * UNSYNCED_BYTES;

/** Everything in a log's files goes: it is taken in from the CommitLog again. @throws GantryError IO. */
export function clearLog(log: CompactionLog): void {
  const { list, host } = log;
  for (let pair = list.last; pair !== undefined; pair = list.last) removePair(list, pair, host.cache);
  host.positions.set(log.name, -1);
}

/** Brings a log that was loaded to where the CommitLog is. @throws GantryError IO, DISK_FULL. */
export async function verifyLog(log: CompactionLog, hollow: readonly FilePair[], clean: boolean): Promise<void> {
  const { list, host } = log;
  for (const pair of hollow) await mendPair(log, pair);
  const bounds = host.source.bounds(log.topic, log.queueId);
  const queueMax = bounds?.maxOffset ?? 0;
  if (list.maxOffset > queueMax) {
    if (queueMax === 0 && host.source.logMinimum > 0 && !host.source.mayBeOfDeleted(log.topic)) {
      // Its messages are all gone from the CommitLog, and its queue with them: what is here is the only copy.
      host.source.continueAt(log.topic, log.queueId, list.maxOffset);
    } else cut(log, queueMax, `the ConsumeQueue ends at ${queueMax}`);
  }
  await cutStrangers(log);
  await cutHoles(log);
  if (!clean) await checkTail(log);
  if (!clean) list.doubt();
  const max = list.maxOffset;
  // A position behind the log is of the topic's earlier life.
  if (host.positions.get(log.name) >= max) host.positions.set(log.name, -1);
  const min = bounds?.minOffset ?? 0;
  if (max > 0 && max < min) {
    host.logger.error(
      `${log.topic} queue ${log.queueId}: the messages from ${max} to ${min - 1} are neither in the compaction log nor in the CommitLog`,
    );
  }
  log.taken = max;
  log.durable = clean ? max : 0;
  log.reads.maxOffset = max;
}

/** Cuts a log, and lowers where it is compacted to. @throws GantryError IO, DISK_FULL. */
export function cut(log: CompactionLog, keepBelow: number, reason: string): void {
  const { list, host } = log;
  if (host.positions.get(log.name) >= keepBelow) host.positions.set(log.name, keepBelow - 1);
  const count = cutPairs(list, host.cache, keepBelow);
  if (count === 0) return;
  host.logger.warn(
    `${log.topic} queue ${log.queueId}: ${count} records from message ${keepBelow} on leave the compaction log: ${reason}`,
  );
}

/** Cuts records that the CommitLog has otherwise: the newest that both have must be the same. */
async function cutStrangers(log: CompactionLog): Promise<void> {
  const { list, host } = log;
  const unit = new CompactionUnit();
  let strange = -1;
  scan: for (let i = list.pairs.length - 1; i >= 0; i--) {
    const pair = list.pairs[i]!;
    for (let index = pair.units - 1; index >= 0; index--) {
      if (!readUnit(pair, index, unit)) continue;
      const original = await originalOf(log, unit.queueOffset);
      if (original === undefined || isSame(pair, unit, original)) break scan;
      strange = unit.queueOffset;
    }
  }
  if (strange >= 0) cut(log, strange, `the CommitLog has other messages there`);
  if (strange >= 0) host.positions.set(log.name, Math.min(host.positions.get(log.name), strange - 1));
}

/**
 * Files that were not durable may be gone while later ones are there: between two files, behind what is compacted, no message with a key may be
 * missing that the CommitLog has.
 */
async function cutHoles(log: CompactionLog): Promise<void> {
  const { list, host, topic, queueId } = log;
  const queueMin = host.source.bounds(topic, queueId)?.minOffset ?? Number.POSITIVE_INFINITY;
  const record = new RecordView();
  const key = new KeyLook();
  let next = Math.max(queueMin, host.positions.get(log.name) + 1);
  for (const { firstOffset, lastOffset } of list.pairs) {
    for (; next < firstOffset; next++) {
      const original = await originalOf(log, next);
      if (original === undefined || original.length + BLANK_BYTES > list.sizes.log) continue;
      readRecord(original, viewOf(original), 0, original.length, Verify.STRUCTURE, record);
      if (key.look(original, record)) return cut(log, next, 'one is missing there that the CommitLog has');
    }
    next = Math.max(next, lastOffset + 1);
  }
}

/** Whether a unit's record is the CommitLog's; damage is another matter. */
function isSame(pair: FilePair, unit: CompactionUnit, original: Uint8Array): boolean {
  if (unit.size !== original.length) return false;
  const bytes = new Uint8Array(unit.size);
  const got = pair.log.handle().readSync(bytes, 0, unit.size, unit.position - pair.base);
  const record = new RecordView();
  if (got < unit.size || faultOf(bytes, viewOf(bytes), 0, unit, record) !== undefined) return true;
  return isCopy(bytes, 0, original);
}

/** Whether `bytes[start...]` is a record but for its place. */
function isCopy(bytes: Uint8Array, start: number, original: Uint8Array): boolean {
  const placed = original.slice();
  placed.set(bytes.subarray(start + PHYSICAL_OFFSET_AT, start + PHYSICAL_OFFSET_AT + 8), PHYSICAL_OFFSET_AT);
  return Buffer.compare(placed, bytes.subarray(start, start + placed.length)) === 0;
}

/** Looks at the records that may not have been synced; from the first that is not whole on they are taken in again, if the CommitLog has them. */
async function checkTail(log: CompactionLog): Promise<void> {
  const { list, host, topic, queueId } = log;
  const end = list.endPosition;
  const unit = new CompactionUnit();
  const record = new RecordView();
  const queueMin = host.source.bounds(topic, queueId)?.minOffset ?? Number.POSITIVE_INFINITY;
  for (const pair of [...list.pairs]) {
    const first = unitsBefore(pair, end - DOUBT_BYTES);
    if (first === pair.units || !readUnit(pair, first, unit)) continue;
    const from = unit.position - pair.base;
    const bytes = new Uint8Array(pair.logEnd - from);
    const have = pair.log.handle().readSync(bytes, 0, bytes.length, from);
    const view = viewOf(bytes);
    for (let index = first; index < pair.units; index++) {
      if (!readUnit(pair, index, unit)) break;
      const start = unit.position - pair.base - from;
      let reason = start + unit.size > have ? 'the file ends before it' : faultOf(bytes, view, start, unit, record);
      if (reason === undefined) {
        // Nothing sums up what lies behind the body.
        const original = await originalOf(log, unit.queueOffset);
        if (original === undefined || (original.length === unit.size && isCopy(bytes, start, original))) continue;
        reason = 'it is not the record of the CommitLog';
      }
      if (unit.queueOffset >= queueMin) {
        host.logger.warn(`${pair.log.path}: byte ${from + start}: ${reason}`);
        return cut(log, unit.queueOffset, 'they are taken in again from the CommitLog');
      }
      await mendRecord(log, pair, unit, reason);
    }
  }
}

/** Number of a pair's units whose records lie before a place in the log. */
function unitsBefore(pair: FilePair, position: number): number {
  const unit = new CompactionUnit();
  let low = 0;
  let high = pair.units;
  while (low < high) {
    const middle = Math.floor((low + high) / 2);
    if (readUnit(pair, middle, unit) && unit.position < position) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Writes the records of a pair again that are not whole, where the CommitLog has them. */
async function mendPair(log: CompactionLog, pair: FilePair): Promise<void> {
  const unit = new CompactionUnit();
  const record = new RecordView();
  for (let index = 0; index < pair.units; index++) {
    if (!readUnit(pair, index, unit)) break;
    const at = unit.position - pair.base;
    const bytes = new Uint8Array(at >= 0 && at + unit.size <= pair.log.size ? unit.size : 0);
    const got = bytes.length === 0 ? 0 : pair.log.handle().readSync(bytes, 0, unit.size, at);
    const reason = got < unit.size ? 'the file ends before it' : faultOf(bytes, viewOf(bytes), 0, unit, record);
    if (reason !== undefined) await mendRecord(log, pair, unit, reason);
  }
}
