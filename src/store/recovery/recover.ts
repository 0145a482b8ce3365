// The start of a store: what the files hold, where the log really ends, and what is missing in the derived stores.
//
//   1 load   CommitLog files, ConsumeQueues (each one's real end), checkpoint, index
//   2 choose the smallest position that any derived store is not known to have: dispatch begins again there
//   3 scan   the log from the file that holds it: size, magic, fields, CRC, place; every sound record is dispatched (repeats cost nothing)
//   4 cut    what lies behind the last sound record: kept aside, dead on disk, and cut in the queues and the index, too
//
// RocketMQ: DefaultMessageStore#recover. It looks back at most commitLogRecoverMaxNum files and leaves older messages without a
// queue; we go back as far as something is missing.

import type { Clock, Logger } from '../../common/index.ts';
import type { FileSystem } from '../../io/index.ts';
import { Verify } from '../../message/index.ts';
import type { StoreCheckpoint } from '../checkpoint/index.ts';
import { type AnyQueue, ConsumeQueue, type QueueKinds } from '../consume-queue/index.ts';
import type { Dispatcher } from '../dispatch/dispatcher.ts';
import type { IndexService } from '../index-file/index.ts';
import { cutSegments, type SegmentFile, segmentAt } from '../segment/index.ts';
import type { MessageStoreConfig } from '../store-config.ts';
import type { DeletedTopics } from './deleted-topics.ts';
import { type Aside, keepAside } from './keep-aside.ts';
import { loadQueueBounds } from './queue-bounds.ts';
import { cutQueueToLog, dropUnitOf, rebuildFrom, recoverQueueStart } from './recover-queues.ts';
import { type ScanResult, scanLog } from './scan-log.ts';

const PROGRESS_EVERY_MS = 1000;

export interface RecoverInput {
  fs: FileSystem;
  clock: Clock;
  logger: Logger;
  config: MessageStoreConfig;
  root: string;
  logFolder: string;
  /** CommitLog files, loaded. */
  files: SegmentFile[];
  /** Loaded, each queue's end found. */
  kinds: QueueKinds;
  /** Queues whose units are not all there, with the position in the log from which they are. */
  lost: ReadonlyArray<{ queue: AnyQueue; position: number }>;
  checkpoint: StoreCheckpoint;
  deleted: DeletedTopics;
  index: IndexService | undefined;
  dispatcher: Dispatcher;
  /** Whether the last run ended with a clean stop (no `abort`). */
  clean: boolean;
}

/** What a start found and did; the report of recovery. */
export interface RecoveryReport {
  clean: boolean;
  /** Where the scan began and where the log ends. */
  scannedFrom: number;
  end: number;
  scannedBytes: number;
  records: number;
  /** Why the scan began where it did. */
  reason: string;
  /** What was wrong at the end of the log, and where its bytes are now. */
  damage: string | undefined;
  aside: Aside | undefined;
  /** Start of the last sound record, -1 if there is none. */
  lastRecord: number;
  tookMs: number;
}

export async function recover(input: RecoverInput): Promise<RecoveryReport> {
  const { fs, clock, logger, config, files, kinds, index, dispatcher, clean } = input;
  const queues = kinds.plain;
  const started = clock.monotonic();
  if (files.length === 0) return recoverEmpty(input, started);

  const start = chooseStart(input);
  let first = files.indexOf(segmentAt(files, start.offset) ?? files.at(-1)!);
  const verify = !config.checkCRCOnRecover
    ? Verify.STRUCTURE
    : config.forceVerifyPropCRC
      ? Verify.PROPERTY_CRC
      : Verify.BODY_CRC;
  const indexFrom = index?.durableOffset ?? 0;
  let told = started;
  let gap: AnyQueue | undefined;
  const scanFrom = (from: number): ScanResult => {
    gap = undefined;
    dispatcher.onRecovered = (queue, ordinal, physicalOffset) => {
      if (clean) queue.rebuilt = true;
      else if (queue instanceof ConsumeQueue) rebuildFrom(queues, queue, ordinal, physicalOffset);
      else kinds.batch.rebuildFrom(queue, physicalOffset);
      if (ordinal > queue.maxOffset) gap ??= queue;
    };
    dispatcher.onSetAside = (record) => {
      if (clean) return;
      dropUnitOf(queues, record);
      for (const queue of kinds.batch.all()) {
        if (queue.queueId === record.queueId) kinds.batch.rebuildFrom(queue, record.physicalOffset);
      }
    };
    const total = files.at(-1)!.end - files[from]!.base;
    return scanLog(
      files,
      from,
      verify,
      !clean,
      (bytes, record) => dispatcher.dispatchRecord(bytes, record, record.physicalOffset >= indexFrom),
      (scanned) => {
        while (kinds.sweep());
        if (clock.monotonic() - told < PROGRESS_EVERY_MS) return;
        told = clock.monotonic();
        logger.info(`recovering: ${mib(scanned)} of at most ${mib(total)} scanned (${start.reason})`);
      },
    );
  };
  let scan = scanFrom(first);
  if (gap !== undefined && first > 0) {
    // A queue lacks units of records before the scan: no checkpoint and no bound said so, the log does.
    logger.warn(`${gap.topic} queue ${gap.queueId} lacks units: all queues are checked against the whole log`);
    start.reason = `${gap.topic} queue ${gap.queueId} lacks units`;
    for (const queue of kinds.all()) queue.rebuilt = false;
    first = 0;
    scan = scanFrom(0);
  }
  dispatcher.onRecovered = undefined;
  dispatcher.onSetAside = undefined;

  const report: RecoveryReport = {
    clean,
    scannedFrom: files[first]!.base,
    end: scan.end,
    scannedBytes: scan.scannedBytes,
    records: scan.records,
    reason: start.reason,
    damage: scan.damage,
    aside: undefined,
    lastRecord: scan.lastRecord,
    tookMs: 0,
  };
  if (!clean || scan.damage !== undefined) {
    const place = segmentAt(files, scan.end) ?? files.at(-1)!;
    if (scan.damage !== undefined) {
      logger.warn(
        `${place.path}: byte ${scan.end - place.base} (offset ${scan.end}): ${scan.damage}; the log is cut there`,
      );
    }
    report.aside = keepAside(fs, clock, logger, files, scan.end, `${input.root}/gantry/cut`);
    cutSegments(fs, input.logFolder, files, scan.end);
  } else if (files.at(-1)!.base > scan.end) {
    cutSegments(fs, input.logFolder, files, scan.end);
  }
  if (!clean) {
    // What was found is in the page cache for all that we know; from here on it counts as durable.
    for (const file of files.slice(first)) file.handle().syncSync();
    fs.syncDirectory(input.logFolder);
  }
  const minimum = files[0]?.base ?? scan.end;
  for (const queue of queues.all()) {
    cutQueueToLog(queues, queue, scan.end, logger);
    recoverQueueStart(queues, queue, minimum);
    kinds.ext?.dropBelowMinimum(queues, queue);
  }
  for (const queue of kinds.batch.all()) {
    kinds.batch.cutToLog(queue, scan.end);
    kinds.batch.correctMinimum(queue, minimum);
  }
  await index?.truncateTo(scan.end);
  input.deleted.lowerTo(scan.end);
  dispatcher.livesChanged();
  report.tookMs = clock.monotonic() - started;
  return report;
}

/** No CommitLog file at all: what is derived from it describes nothing. RocketMQ: destroys the queues, too. */
async function recoverEmpty(input: RecoverInput, started: number): Promise<RecoveryReport> {
  const { kinds, index, logger, clock } = input;
  if (!kinds.all().next().done) {
    logger.warn(`${input.logFolder} has no file: the ConsumeQueues and the index describe nothing and are removed`);
    kinds.removeAll();
  }
  await index?.destroy();
  input.deleted.lowerTo(0);
  return {
    clean: input.clean,
    scannedFrom: 0,
    end: 0,
    scannedBytes: 0,
    records: 0,
    reason: 'the log is empty',
    damage: undefined,
    aside: undefined,
    lastRecord: -1,
    tookMs: clock.monotonic() - started,
  };
}

/** The position from which everything derived is fed again. */
function chooseStart(input: RecoverInput): { offset: number; reason: string } {
  const { files, kinds, checkpoint, index, clean } = input;
  const minimum = files[0]!.base;
  // Dispatch goes in log order: no queue has a unit beyond the highest end, whatever a checkpoint claims.
  let highest = minimum;
  for (const queue of kinds.all()) highest = Math.max(highest, queue.maxPhysicalEnd);
  let offset = highest;
  let reason = 'the queues end here';
  const lower = (position: number, why: string): void => {
    if (position >= offset) return;
    offset = position;
    reason = why;
  };
  if (!clean) {
    if (checkpoint.logicsPhysicalOffset > 0) {
      lower(checkpoint.logicsPhysicalOffset, 'the checkpoint vouches for the queues up to here');
    } else {
      lower(
        startByTime(files, checkpoint.logicsMsgTimestamp),
        checkpoint.logicsMsgTimestamp > 0
          ? "the checkpoint's time vouches for the queues up to here"
          : 'the checkpoint vouches for nothing',
      );
    }
  }
  for (const { topic, queueId, bound } of loadQueueBounds(input)) {
    const queue = kinds.find(topic, queueId);
    const found = queue?.maxOffset ?? 0;
    if (found >= bound) continue;
    input.logger.warn(
      `${topic} queue ${queueId} ends at ${found}, but had ${bound} durable units: it is built again from the log`,
    );
    lower(Math.max(minimum, queue?.maxPhysicalEnd ?? minimum), `${topic} queue ${queueId} has lost units`);
  }
  for (const { queue, position } of input.lost) {
    lower(Math.max(minimum, position), `${queue.topic} queue ${queue.queueId} has lost units`);
  }
  if (index !== undefined) lower(Math.max(minimum, index.durableOffset), 'the index ends here');
  return { offset: Math.max(minimum, offset), reason };
}

/** RocketMQ: without logicsPhysicalOffset, the newest file whose first record is not younger than logicsMsgTimestamp. */
function startByTime(files: readonly SegmentFile[], time: number): number {
  const head = new Uint8Array(80);
  const view = new DataView(head.buffer);
  for (let i = files.length - 1; i > 0; i--) {
    const file = files[i]!;
    if (file.handle().readSync(head, 0, head.length, 0) < head.length) continue;
    const born = view.getInt32(36) & 0x10 ? 20 : 8;
    const storeTimestamp = view.getInt32(48 + born) * 0x1_0000_0000 + view.getUint32(52 + born);
    if (view.getInt32(0) > 0 && storeTimestamp > 0 && storeTimestamp <= time) return file.base;
  }
  return files[0]!.base;
}

function mib(bytes: number): string {
  return `${(bytes / 1024 / 1024).toFixed(0)} MiB`;
}
