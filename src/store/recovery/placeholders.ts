// What is put where records are lost, so that nothing behind them moves: for each message one valid record in its place, with its topic,
// queueId and queueOffset, marked by a property. A rebuild of the queues, RocketMQ's too, then finds every ordinal.
//
//   |== sound ==|????????????????????????????????|== sound ==|          which messages the bytes held:
//               |-- unit ---|-- head --|- jumps -|                      1 units of the queues that point there
//                                                                       2 heads whose fields add up and fit their queue
//                                                                       3 ordinals that are missing between sound records
//
// Bytes that no message is known of become a rolled-back record, which no queue counts, or at a file's end its filler.

import { peekI64, viewOf } from '../../common/index.ts';
import {
  BLANK_BYTES,
  isCounted,
  MAGIC_BLANK,
  propertiesBytes,
  QUEUE_ID_AT,
  QUEUE_OFFSET_AT,
  RecordOutcome,
  RecordSource,
  RecordView,
  readRecord,
  recordBytes,
  recordVersion,
  SysFlag,
  Verify,
  writeRecord,
} from '../../message/index.ts';
import { canBeFolder } from '../consume-queue/index.ts';
import { keyOf, type QueueTrails, topicOf } from './queue-trails.ts';
import { bytesAt, type DamagedRun, nextSound, recordLike } from './resync.ts';

/** The property that marks a record which stands for one that is lost. */
export const LOST_PROPERTY = 'gantryLost';
/** The topic of bytes that no message is known of. */
export const LOST_TOPIC = 'gantry-lost';

/** Name, value and nothing more: it must fit where a short message was. */
const MARK: Buffer = Buffer.from(`${LOST_PROPERTY}\u00011`, 'latin1');
/** Longest record of bytes that no message is known of. */
const MAX_HOLE_BYTES = 4 * 1024 * 1024;
const NO_HOST = new Uint8Array(8);

/** One record to be written. */
export interface Placeholder {
  start: number;
  size: number;
  /** undefined: a filler, which must reach the end of its file. */
  topic: string | undefined;
  queueId: number;
  queueOffset: number;
  /** 0, or the bits of a transaction that no queue counts. */
  sysFlag: number;
  storeTimestamp: number;
}

/** A message that was lost, with its place in its queue. */
interface Lost {
  topic: string;
  queueId: number;
  queueOffset: number;
  sysFlag: number;
}
type Placed = Lost & { start: number; size: number };

/** Fills the runs with records; answers them in log order. `propertyCrc`: they end in one. */
export function placeholdersFor(
  runs: readonly DamagedRun[],
  trails: QueueTrails,
  storeTimestamp: (run: DamagedRun) => number,
  propertyCrc: boolean,
): Placeholder[] {
  const placed = runs.map((run) => messagesIn(run, trails));
  trails.follow(placed.flat());
  const floating = assignGaps(runs, placed, trails, propertyCrc);
  return runs.flatMap((run, i) => layOut(run, placed[i]!, floating[i]!, storeTimestamp(run), propertyCrc));
}

/** The messages of a run whose place is known. */
function messagesIn(run: DamagedRun, trails: QueueTrails): Placed[] {
  const placed: Placed[] = [];
  let at = run.start;
  for (const unit of trails.unitsIn(run.start, run.end)) {
    if (unit.start < at || !trails.allows(unit.topic, unit.queueId, unit.queueOffset, unit.start)) continue;
    placed.push({ ...unit, sysFlag: 0 });
    at = unit.start + unit.size;
  }
  // Heads in what the units leave.
  const heads: Placed[] = [];
  let from = run.start;
  for (const known of [...placed, { start: run.end, size: 0 }]) {
    while (from < known.start) {
      const head = recordLike(run.file, from) ?? (from === run.start ? misplaced(run) : undefined);
      if (head === undefined) {
        from = nextSound(run.file, from + 1, known.start, Verify.STRUCTURE);
        continue;
      }
      const { record, bytes } = head;
      const topic = topicOf(bytes, record);
      const { queueId, queueOffset } = record;
      const size = record.totalSize;
      const counted = isCounted(record.sysFlag);
      if (from + size > known.start || !plausible(topic, queueId, queueOffset)) break;
      if (counted && !trails.allows(topic, queueId, queueOffset, from)) break;
      heads.push({ start: from, size, topic, queueId, queueOffset, sysFlag: counted ? 0 : record.sysFlag & 0xc });
      from += size;
    }
    from = Math.max(from, known.start + known.size);
  }
  return [...placed, ...heads].sort((a, b) => a.start - b.start);
}

/** The first record of a run if it is whole but for what it says of its place; an empty body proves nothing. */
function misplaced({ file, start, end, isOne }: DamagedRun): ReturnType<typeof recordLike> {
  const bytes = isOne ? bytesAt(file, start, end - start) : undefined;
  if (bytes === undefined) return undefined;
  const record = new RecordView();
  const outcome = readRecord(bytes, viewOf(bytes), 0, bytes.length, Verify.BODY_CRC, record);
  return outcome === RecordOutcome.RECORD && record.bodyEnd > record.bodyStart ? { bytes, record } : undefined;
}

function plausible(topic: string, queueId: number, queueOffset: number): boolean {
  return canBeFolder(topic) && !topic.includes('\ufffd') && queueId >= 0 && queueId < 1_000_000 && queueOffset >= 0;
}

/**
 * Messages that are known to be missing and whose place is not known, shared out to the runs between their neighbours: first one for each run
 * that is one record, then to those with room. Of several that may lie in a run, the one goes first that must lie before the others.
 */
function assignGaps(
  runs: readonly DamagedRun[],
  placed: ReadonlyArray<readonly Placed[]>,
  trails: QueueTrails,
  propertyCrc: boolean,
): Lost[][] {
  const known = new Set(placed.flat().map((one) => `${keyOf(one.topic, one.queueId)} ${one.queueOffset}`));
  const missing: Array<Lost & { after: number; before: number }> = [];
  for (const { topic, queueId, from, to, after, before } of trails.gaps) {
    if (!runs.some(({ start }) => start > after && start < before)) continue;
    for (let queueOffset = from; queueOffset <= to; queueOffset++) {
      if (known.has(`${keyOf(topic, queueId)} ${queueOffset}`)) continue;
      missing.push({ topic, queueId, queueOffset, sysFlag: 0, after, before });
    }
  }
  missing.sort((a, b) => a.before - b.before);
  const floating: Lost[][] = runs.map(() => []);
  const give = (i: number, most: number): void => {
    const run = runs[i]!;
    let room = run.end - run.start - placed[i]!.reduce((sum, one) => sum + one.size, 0);
    // What is legible of a record's head tells it from others that are missing, too.
    const head = bytesAt(run.file, run.start, QUEUE_OFFSET_AT + 8);
    const view = head && viewOf(head);
    const legible = missing.findIndex(
      (one) =>
        one.queueId === view?.getInt32(QUEUE_ID_AT) &&
        one.queueOffset === peekI64(view, QUEUE_OFFSET_AT) &&
        run.start > one.after &&
        run.start < one.before,
    );
    if (legible > 0) missing.unshift(...missing.splice(legible, 1));
    for (let n = 0; n < missing.length && floating[i]!.length < most; n++) {
      const one = missing[n]!;
      const size = leastBytes(one, propertyCrc, false);
      if (run.start <= one.after || run.start >= one.before || size > room) continue;
      const { topic, queueId, queueOffset, sysFlag } = one;
      floating[i]!.push({ topic, queueId, queueOffset, sysFlag });
      room -= size;
      missing.splice(n--, 1);
    }
  };
  runs.forEach((run, i) => {
    if (run.isOne) give(i, placed[i]!.length > 0 ? 0 : 1);
  });
  runs.forEach((run, i) => {
    if (!run.isOne) give(i, Number.POSITIVE_INFINITY);
  });
  return floating;
}

function layOut(
  run: DamagedRun,
  placed: readonly Placed[],
  floating: readonly Lost[],
  storeTimestamp: number,
  propertyCrc: boolean,
): Placeholder[] {
  const out: Placeholder[] = [];
  const waiting = [...floating];
  const add = ({ topic, queueId, queueOffset, sysFlag }: Lost, start: number, size: number): void => {
    out.push({ start, size, topic, queueId, queueOffset, sysFlag, storeTimestamp });
  };
  const fill = (start: number, end: number, isTail: boolean): void => {
    let at = start;
    while (waiting.length > 0) {
      const size = leastBytes(waiting[0]!, propertyCrc, true);
      const least = size <= end - at ? size : leastBytes(waiting[0]!, propertyCrc, false);
      if (least > end - at - (isTail ? BLANK_BYTES : 0)) break;
      add(waiting.shift()!, at, least);
      at += least;
    }
    const rest = end - at;
    if (rest === 0) return;
    if (isTail) {
      out.push({ start: at, size: rest, topic: undefined, queueId: 0, queueOffset: 0, sysFlag: 0, storeTimestamp });
      return;
    }
    const hole: Lost = { topic: LOST_TOPIC, queueId: 0, queueOffset: 0, sysFlag: SysFlag.TRANSACTION_ROLLBACK };
    const smallest = leastBytes(hole, propertyCrc, true);
    const last = out.at(-1);
    const mayGrow = last !== undefined && last.start + last.size === at && at > start;
    if (mayGrow && last.size + rest <= MAX_HOLE_BYTES) last.size += rest;
    else if (rest >= smallest) {
      for (let left = rest; left > 0; ) {
        const size = left <= MAX_HOLE_BYTES ? left : Math.min(MAX_HOLE_BYTES, left - smallest);
        add(hole, end - left, size);
        left -= size;
      }
    } else if (last !== undefined) last.size += rest;
    else unplaced = rest;
  };
  /** Bytes before the first record that are too few for one: the record behind them begins there. */
  let unplaced = 0;
  let at = run.start;
  for (const one of placed) {
    if (one.start < at) continue;
    fill(at, one.start, false);
    add(one, one.start - unplaced, one.size + unplaced);
    at = one.start + one.size;
    unplaced = 0;
  }
  fill(at, run.end, run.end === run.file.end);
  return out;
}

/** Bytes of the smallest record that can stand for a message, with or without the mark. */
function leastBytes(lost: Lost, propertyCrc: boolean, mark: boolean): number {
  const source = sourceOf(lost, mark);
  return recordBytes(source, recordVersion(lost.topic, true), propertiesBytes(source, propertyCrc, true));
}

function sourceOf(lost: Lost, mark: boolean): RecordSource {
  const source = new RecordSource();
  source.topic = lost.topic;
  source.topicBytes = Buffer.from(lost.topic, 'utf8');
  source.queueId = lost.queueId;
  source.sysFlag = lost.sysFlag;
  source.bornHost = NO_HOST;
  source.storeHost = NO_HOST;
  source.properties = MARK;
  source.propertiesEnd = mark ? MARK.length : 0;
  return source;
}

/** The bytes of a placeholder. What is left of its size is a body of zeros. Without room for the mark it has none. */
export function placeholderBytes(one: Placeholder, propertyCrc: boolean): Uint8Array {
  if (one.topic === undefined) {
    const blank = Buffer.alloc(one.size);
    blank.writeInt32BE(one.size, 0);
    blank.writeInt32BE(MAGIC_BLANK, 4);
    return blank;
  }
  const lost: Lost = { ...one, topic: one.topic };
  const source = sourceOf(lost, one.size >= leastBytes(lost, propertyCrc, true));
  const version = recordVersion(source.topic, true);
  const propertyBytes = propertiesBytes(source, propertyCrc, true);
  source.bornTimestamp = one.storeTimestamp;
  source.body = new Uint8Array(one.size - recordBytes(source, version, propertyBytes));
  source.bodyEnd = source.body.length;
  const bytes = new Uint8Array(one.size);
  writeRecord(
    bytes,
    new DataView(bytes.buffer),
    0,
    source,
    one.sysFlag,
    version,
    one.size,
    propertyBytes,
    propertyCrc,
    one.queueOffset,
    one.start,
    one.storeTimestamp,
  );
  return bytes;
}
