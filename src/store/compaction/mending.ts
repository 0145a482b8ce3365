// A damaged record of a compaction log: it is written again from the CommitLog, where that still has it; otherwise it is set aside under its name.

import { GantryError, viewOf } from '../../common/index.ts';
import { makeDirectoryDurably, writeWhole } from '../../io/index.ts';
import { MIN_RECORD_BYTES, RecordOutcome, RecordView, readRecord, Verify } from '../../message/index.ts';
import { QueueUnits } from '../read/queue-units.ts';
import { settled } from '../read/select-rules.ts';
import { type CompactionUnit, UNIT_BYTES, writeUnit } from './compaction-format.ts';
import type { CompactionLog } from './compaction-log.ts';
import { scanUnits } from './cutting.ts';
import type { FilePair } from './pair-list.ts';
import { copyWithPosition, KeyLook } from './record-copy.ts';

/** A record as it was written again. */
export interface Mended {
  readonly bytes: Uint8Array;
  readonly record: RecordView;
}

/** The record of a queue offset, as the CommitLog has it; undefined if it has it not. @throws GantryError IO. */
export async function originalOf(log: CompactionLog, queueOffset: number): Promise<Uint8Array | undefined> {
  const { source } = log.host;
  const bounds = source.bounds(log.topic, log.queueId);
  if (bounds === undefined || queueOffset < bounds.minOffset || queueOffset >= bounds.maxOffset) return undefined;
  const units = new QueueUnits();
  while (!(await settled((ready) => source.units(log.topic, log.queueId, queueOffset, 1, units, ready))));
  if (units.count === 0) return undefined;
  const bytes = await source.recordAt(units.positions[0]!);
  if (bytes === undefined) return undefined;
  const record = new RecordView();
  readRecord(bytes, viewOf(bytes), 0, bytes.length, Verify.STRUCTURE, record);
  const topic = Buffer.from(bytes.subarray(record.topicStart, record.topicEnd)).toString('utf8');
  const isIt = record.queueOffset === queueOffset && record.queueId === log.queueId && topic === log.topic;
  return isIt ? bytes : undefined;
}

/**
 * Writes the record of a unit again, where it belongs; undefined if the CommitLog has it no more. `aside`: what lies there then goes to
 * `gantry/compaction-damaged`, since its file is about to go. @throws GantryError IO, DISK_FULL.
 */
export async function mendRecord(
  log: CompactionLog,
  pair: FilePair,
  unit: CompactionUnit,
  reason: string,
  aside = false,
): Promise<Mended | undefined> {
  const { position, size, queueOffset } = unit;
  const { logger, cache } = log.host;
  const original = size > 0 && queueOffset >= 0 ? await originalOf(log, queueOffset) : undefined;
  const at = position - pair.base;
  if (original === undefined || original.length !== size || at < 0 || at + size > pair.log.size) {
    log.tellDamage(
      pair,
      position,
      `the record of message ${queueOffset} is damaged (${reason}), and the CommitLog has it no more`,
    );
    if (aside) setAside(log, pair, unit);
    return undefined;
  }
  const bytes = new Uint8Array(size);
  copyWithPosition(original, 0, size, bytes, 0, position);
  pair.log.handle().writeSync(bytes, 0, size, at);
  pair.dirty = true;
  cache.forget(pair.log);
  log.mended(position);
  logger.warn(
    `${pair.log.path}: byte ${at}: the record of message ${queueOffset} was damaged (${reason}); it is written again from the CommitLog`,
  );
  const record = new RecordView();
  const outcome = readRecord(bytes, viewOf(bytes), 0, size, Verify.BODY_CRC, record);
  return outcome === RecordOutcome.RECORD ? { bytes, record } : undefined;
}

/** Writes units again that are none, or lead elsewhere, by the records that they belong to; how many. @throws GantryError IO, DISK_FULL. */
export function mendUnits(log: CompactionLog, pair: FilePair): number {
  const { cache, logger } = log.host;
  const record = new RecordView();
  const key = new KeyLook();
  let mended = 0;
  // Records lie one behind the other; `before`: where that of the last unit begins.
  for (let next = 0, at = 0, before = -1; ; ) {
    scanUnits(pair.queue, next, (unit, index) => {
      if (unit.position !== pair.base + at || index >= pair.unitsWritten) return false;
      before = at;
      at += unit.size;
      next = index + 1;
      return true;
    });
    if (next >= pair.unitsWritten && (before < 0 || at === pair.logWritten)) break;
    // It may be the unit before that is wrong, in what it says of its length.
    const prior = before < 0 ? undefined : recordBytesAt(pair, before);
    const isPrior = prior !== undefined && prior.length !== at - before;
    if (isPrior) at = before;
    const index = isPrior ? next - 1 : next;
    const bytes = isPrior ? prior : recordBytesAt(pair, at);
    if (bytes === undefined || index >= pair.unitsWritten) break;
    readRecord(bytes, viewOf(bytes), 0, bytes.length, Verify.STRUCTURE, record);
    key.look(bytes, record);
    const unit = new Uint8Array(UNIT_BYTES);
    writeUnit(viewOf(unit), 0, pair.base + at, bytes.length, key.tagsCode, record.storeTimestamp, record.queueOffset);
    pair.queue.handle().writeSync(unit, 0, UNIT_BYTES, index * UNIT_BYTES);
    pair.dirty = true;
    mended++;
    at += bytes.length;
    next = index + 1;
    before = -1;
    logger.warn(
      `${pair.queue.path}: byte ${index * UNIT_BYTES}: the unit was none; it is written again from its record`,
    );
  }
  if (mended > 0) cache.forget(pair.queue);
  return mended;
}

/** The whole record of a log file at a place; undefined if there is none. */
function recordBytesAt(pair: FilePair, at: number): Uint8Array | undefined {
  const head = new Uint8Array(MIN_RECORD_BYTES);
  if (at + head.length > pair.logWritten) return undefined;
  pair.log.handle().readSync(head, 0, head.length, at);
  const size = viewOf(head).getInt32(0);
  if (size < head.length || at + size > pair.logWritten) return undefined;
  const bytes = new Uint8Array(size);
  pair.log.handle().readSync(bytes, 0, size, at);
  const record = new RecordView();
  const outcome = readRecord(bytes, viewOf(bytes), 0, size, Verify.BODY_CRC, record);
  return outcome === RecordOutcome.RECORD && record.physicalOffset === pair.base + at ? bytes : undefined;
}

/** Keeps the bytes that cannot be read as a record. */
function setAside(log: CompactionLog, pair: FilePair, { position, size, queueOffset }: CompactionUnit): void {
  const { host, list, topic, queueId } = log;
  const at = position - pair.base;
  const length = Math.min(size, pair.log.size - at);
  if (at < 0 || length <= 0) return;
  const folder = `${host.root}/gantry/compaction-damaged`;
  const path = `${folder}/${topic}-${queueId}-${queueOffset}`;
  try {
    const bytes = new Uint8Array(length);
    pair.log.handle().readSync(bytes, 0, length, at);
    makeDirectoryDurably(list.fs, folder);
    writeWhole(list.fs, path, bytes, true);
    host.logger.warn(`what is left of message ${queueOffset} of ${topic} queue ${queueId} is kept in ${path}`);
  } catch (error) {
    if (!(error instanceof GantryError)) throw error;
    host.logger.error(`${path} cannot be written (${error.message})`);
  }
}
