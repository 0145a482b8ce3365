// The start of a store: what the files hold, where the log really ends, and what is missing in the derived stores.
//
//   1 load   CommitLog files, ConsumeQueues (each one's real end), checkpoint, index
//   2 choose the smallest position that any derived store is not known to have: dispatch begins again there
//   3 scan   the log from the file that holds it: size, magic, fields, CRC, place; every sound record is dispatched (repeats cost nothing)
//   4 cut    what lies behind the last sound record: kept aside, dead on disk, and cut in the queues and the index, too
//
// RocketMQ: DefaultMessageStore#recover. It looks back at most commitLogRecoverMaxNum files and leaves older messages without a
// queue; we go back as far as something is missing.

import { type Clock, type Logger, peekI64, viewOf } from '../../common/index.ts';
import type { FileSystem } from '../../io/index.ts';
import { MAGIC_V1, MAGIC_V2, PHYSICAL_OFFSET_AT, Verify } from '../../message/index.ts';
import type { StoreCheckpoint } from '../checkpoint/index.ts';
import { type AnyQueue, ConsumeQueue, isLightQueue, type QueueKinds } from '../consume-queue/index.ts';
import type { Dispatcher } from '../dispatch/dispatcher.ts';
import type { IndexService } from '../index-file/index.ts';
import { cutSegments, type SegmentFile, segmentAt } from '../segment/index.ts';
import type { MessageStoreConfig } from '../store-config.ts';
import type { DamageCheck } from './damage.ts';
import type { DeletedTopics } from './deleted-topics.ts';
import { keepAside } from './keep-aside.ts';
import { dropIndexBound, dropQueueBounds, type QueueBounds } from './queue-bounds.ts';
import { continueExpiredQueues, cutQueueToLog, dropUnitOf, rebuildFrom, recoverQueueStart } from './recover-queues.ts';
import { describeRecovery, emptyReport, type RecoveryReport } from './report.ts';
import { type ScanResult, scanLog, scanProgress } from './scan-log.ts';
import type { ShareParser } from './share-parser.ts';

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
  bounds: QueueBounds;
  index: IndexService | undefined;
  dispatcher: Dispatcher;
  damage: DamageCheck;
  /** Threads that parse the log, if the settings want them. */
  parser: ShareParser | undefined;
  /** Whether the last run ended with a clean stop (no `abort`). */
  clean: boolean;
  /** Monotonic time at which loading began, and how long its parts took. */
  started: number;
  phases: Pick<RecoveryReport['phases'], 'queues' | 'look' | 'index'>;
}

/** Where a start begins to look, and why. */
interface Start {
  /** Records from here on are dispatched. */
  dispatchFrom: number;
  /** Bytes from here on are looked at: the start of the file that holds `dispatchFrom`, or that place itself. */
  scanFrom: number;
  /** Index of the file with `scanFrom`. */
  first: number;
  reason: string;
}

/** @throws GantryError STORE_DAMAGED, IO, DISK_FULL; no read or sync of the log is under way then. */
export async function recover(given: RecoverInput): Promise<RecoveryReport> {
  const syncs = new LogSyncs(given.files);
  try {
    return await recoverWith(given, syncs);
  } catch (error) {
    await syncs.stop();
    throw error;
  }
}

async function recoverWith(given: RecoverInput, syncs: LogSyncs): Promise<RecoveryReport> {
  const { fs, clock, logger, config, files, kinds, index, dispatcher, damage } = given;
  const queues = kinds.plain;
  if (files.length === 0) return recoverEmpty(given);

  let start = await lookForDamage(given, chooseStart(given, logger));
  // Where records were replaced, what was derived from the old ones goes.
  const clean = given.clean && damage.mendedFrom === Number.POSITIVE_INFINITY;
  const input = { ...given, clean };
  const report = emptyReport(clean);
  const durable = clean ? undefined : syncs;
  durable?.also(start.first);
  const scanStarted = clock.monotonic();
  let { scan, gap } = await scanFrom(input, start, report);
  if (gap !== undefined && start.dispatchFrom > files[0]!.base) {
    // A queue lacks units of records before the scan: no checkpoint and no bound said so, the log does.
    logger.warn(`${gap.topic} queue ${gap.queueId} lacks units: all queues are checked against the whole log`);
    const reason = `${gap.topic} queue ${gap.queueId} lacks units`;
    for (const queue of kinds.all()) queue.rebuilt = false;
    start = { dispatchFrom: files[0]!.base, scanFrom: files[0]!.base, first: 0, reason };
    start = await lookForDamage(input, start);
    durable?.also(0);
    ({ scan } = await scanFrom(input, start, report));
  }
  dispatcher.onRecovered = undefined;
  dispatcher.onSetAside = undefined;

  report.scannedFrom = start.scanFrom;
  report.dispatchedFrom = start.dispatchFrom;
  report.end = scan.end;
  report.scannedBytes = scan.scannedBytes;
  report.records = scan.records;
  report.reason = start.reason;
  report.damage = scan.damage;
  report.skipped = damage.skipped;
  report.lastRecord = scan.lastRecord;
  report.phases = {
    ...input.phases,
    scan: clock.monotonic() - scanStarted,
    sync: 0,
    cut: 0,
  };
  const cutStarted = clock.monotonic();
  if (!clean || scan.damage !== undefined) {
    const place = segmentAt(files, scan.end) ?? files.at(-1)!;
    if (scan.damage !== undefined) {
      logger.warn(
        `${place.path}: byte ${scan.end - place.base} (offset ${scan.end}): ${scan.damage}; the log is cut there`,
      );
    }
    if (scan.end < damage.tornFrom) {
      logger.error(
        `the log was durable up to ${damage.tornFrom} and ends at ${scan.end} now: what was between is lost`,
      );
      input.checkpoint.mark?.lower(scan.end);
      input.checkpoint.flush(true);
    }
    report.aside = keepAside(fs, clock, logger, files, scan.end, `${input.root}/gantry/cut`);
    await durable?.ended();
    cutSegments(fs, input.logFolder, files, scan.end);
  } else if (files.at(-1)!.base > scan.end) {
    cutSegments(fs, input.logFolder, files, scan.end);
  }
  takeBackClaims(input, scan.end);
  report.phases.cut = clock.monotonic() - cutStarted;
  const syncStarted = clock.monotonic();
  if (durable !== undefined) {
    // What was found is in the page cache for all that we know; from here on it counts as durable.
    await durable.ended();
    fs.syncDirectory(input.logFolder);
  }
  report.phases.sync = clock.monotonic() - syncStarted;
  const minimum = files[0]?.base ?? scan.end;
  for (const queue of queues.all()) {
    if (queue.rebuilt) report.queuesRebuilt++;
    // Records that were dispatched are not there any more: their units may be.
    if (queue.unseen && scan.damage !== undefined) queues.cut(queue, queue.maxOffset, queue.maxPhysicalEnd, true);
    // What light queues have stays while none is written to.
    const isScanned = !clean && !queue.rebuilt && (config.enableMultiDispatch || !isLightQueue(queue.topic));
    const unproven = isScanned ? start.dispatchFrom : Number.POSITIVE_INFINITY;
    cutQueueToLog(queues, queue, scan.end, logger, unproven);
    recoverQueueStart(queues, queue, minimum);
    kinds.ext?.dropBelowMinimum(queues, queue);
  }
  for (const queue of [...kinds.batch.all()]) {
    if (queue.rebuilt) report.queuesRebuilt++;
    kinds.batch.cutToLog(queue, scan.end);
    if (queue.maxPhysicalEnd >= 0 && queue.maxPhysicalEnd <= input.deleted.endOf(queue.topic)) {
      kinds.removeQueue(queue);
      continue;
    }
    kinds.batch.correctMinimum(queue, minimum);
  }
  if ((files[0]?.base ?? 0) > 0) continueExpiredQueues(kinds, input.bounds, minimum, logger);
  await index?.truncateTo(scan.end);
  input.deleted.lowerTo(scan.end);
  dispatcher.livesChanged();
  report.tookMs = clock.monotonic() - input.started;
  logger.info(describeRecovery(report));
  return report;
}

/** Looks at what is going to be scanned and was not looked at before; records that were replaced are derived again. */
async function lookForDamage({ files, index, damage }: RecoverInput, start: Start): Promise<Start> {
  await damage.look(start.scanFrom);
  await index?.truncateTo(damage.mendedFrom);
  damage.end();
  const from = damage.mendedFrom;
  if (from >= start.dispatchFrom) return start;
  const file = segmentAt(files, from) ?? files[0]!;
  return {
    dispatchFrom: from,
    scanFrom: file.base,
    first: files.indexOf(file),
    reason: 'damaged records were replaced',
  };
}

/** One pass over the log; `gap` is a queue that turned out to lack units of records before it. */
async function scanFrom(
  input: RecoverInput,
  start: Start,
  report: RecoveryReport,
): Promise<{ scan: ScanResult; gap: AnyQueue | undefined }> {
  const { clock, logger, config, files, kinds, index, dispatcher, damage, clean } = input;
  const queues = kinds.plain;
  const verify = verifyLevel(config);
  const indexFrom = index?.durableOffset ?? 0;
  const { dispatchFrom } = start;
  const { at, records, last } = behindChecked(input, start);
  const total = files.at(-1)!.end - at;
  // Until the next flush the checkpoint does not vouch for units that are put again.
  if (dispatchFrom < claimOf(files, input.checkpoint)) lowerClaim(input.checkpoint, dispatchFrom);
  let gap: AnyQueue | undefined;
  const told = scanProgress(clock, logger, total, start.reason);
  report.dispatched = 0;
  dispatcher.onRecovered = (queue, ordinal, physicalOffset) => {
    if (clean) queue.rebuilt = true;
    else if (queue instanceof ConsumeQueue) rebuildFrom(queues, queue, ordinal, physicalOffset, dispatchFrom);
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
  if (records > 0) {
    dispatcher.lastStoreTimestamp = last.storeTimestamp;
    dispatcher.lastPhysicalOffset = last.physicalOffset;
  }
  let again = 0;
  const scan = await scanLog({
    files,
    first: start.first,
    from: at,
    verify,
    parser: input.parser,
    tornTail: !clean,
    tornFrom: damage.tornFrom,
    checkedTo: damage.checked.from <= start.scanFrom ? damage.checked.to : 0,
    visit: (bytes, record) => {
      if (record.physicalOffset < damage.checked.to) again++;
      if (record.physicalOffset < dispatchFrom) return dispatcher.skipRecord(record);
      dispatcher.dispatchRecord(bytes, record, record.physicalOffset >= indexFrom);
      report.dispatched++;
    },
    progress: (scanned) => {
      while (kinds.sweep());
      return told(scanned);
    },
  });
  if (at > start.scanFrom) {
    scan.records += records - again;
    scan.scannedBytes += at - start.scanFrom;
    scan.lastRecord = Math.max(scan.lastRecord, last.physicalOffset);
  }
  return { scan, gap };
}

/** Where to read on: what has been looked at and is not dispatched again is not read twice. With what was found before. */
function behindChecked(
  { files, damage, clean }: RecoverInput,
  { scanFrom, dispatchFrom }: Start,
): { at: number; records: number; last: DamageCheck['last'] } {
  const { checked, last } = damage;
  const file = segmentAt(files, dispatchFrom);
  const isKnown =
    file !== undefined &&
    file === segmentAt(files, scanFrom) &&
    damage.mendedFrom === Number.POSITIVE_INFINITY &&
    checked.from === scanFrom &&
    (clean || dispatchFrom <= damage.tornFrom);
  if (isKnown) {
    // What is known of the index ends a byte behind the start of its last record.
    for (const at of [dispatchFrom, dispatchFrom - 1]) {
      if (at < scanFrom || at > checked.to) continue;
      if (at === checked.to || recordBeginsAt(file, at)) return { at, records: damage.records, last };
    }
  }
  return { at: scanFrom, records: 0, last };
}

/** Syncs of CommitLog files, one after the other, while the log is scanned. */
class LogSyncs {
  readonly #files: readonly SegmentFile[];
  #from: number;
  #last: Promise<void> = Promise.resolve();
  #stopped = false;

  constructor(files: readonly SegmentFile[]) {
    this.#files = files.slice();
    this.#from = this.#files.length;
  }

  /** Syncs the files from index `from` on, too. */
  also(from: number): void {
    this.#last = this.#chain(this.#last, this.#files.slice(from, this.#from));
    this.#from = from;
  }

  /** @throws GantryError IO, DISK_FULL: nobody knows what the disk holds. */
  ended(): Promise<void> {
    return this.#last;
  }

  /** Begins no further one; resolves when the one under way has ended. */
  async stop(): Promise<void> {
    this.#stopped = true;
    await this.#last.catch(() => {});
  }

  #chain(before: Promise<void>, files: readonly SegmentFile[]): Promise<void> {
    let last = before;
    for (const file of files) last = last.then(() => (this.#stopped ? undefined : sync(file)));
    // It is waited for later; until then its failure is nobody's.
    last.catch(() => {});
    return last;
  }
}

function sync(file: SegmentFile): Promise<void> {
  return new Promise((resolve, reject) => {
    file.handle().sync((error) => (error === undefined ? resolve() : reject(error)));
  });
}

/** The log ends before what the checkpoint speaks of: what is appended there from now on is not durable because the old bytes were. */
function takeBackClaims({ fs, root, checkpoint, bounds }: RecoverInput, end: number): void {
  if (checkpoint.logicsPhysicalOffset <= end) {
    // The index may have had a record that the queues were not vouched for with.
    if ((bounds.index?.durableOffset ?? 0) > end) dropIndexBound(fs, root);
    return;
  }
  dropQueueBounds(fs, root);
  lowerClaim(checkpoint, end);
}

function lowerClaim(checkpoint: StoreCheckpoint, offset: number): void {
  checkpoint.logicsPhysicalOffset = offset;
  // It counts where no offset is known, and for a Java broker.
  checkpoint.logicsMsgTimestamp = 0;
  checkpoint.flush(true);
}

/** Position up to which the checkpoint vouches for the queues. */
function claimOf(files: readonly SegmentFile[], { logicsPhysicalOffset, logicsMsgTimestamp }: StoreCheckpoint): number {
  return logicsPhysicalOffset > 0 ? logicsPhysicalOffset : startByTime(files, logicsMsgTimestamp);
}

/** No CommitLog file at all: what is derived from it describes nothing. RocketMQ: destroys the queues, too. */
async function recoverEmpty(input: RecoverInput): Promise<RecoveryReport> {
  const { kinds, index, logger, clock } = input;
  if (!kinds.all().next().done) {
    logger.warn(`${input.logFolder} has no file: the ConsumeQueues and the index describe nothing and are removed`);
    kinds.removeAll();
  }
  await index?.destroy();
  input.deleted.lowerTo(0);
  takeBackClaims(input, 0);
  if (input.damage.tornFrom > 0) {
    input.checkpoint.mark?.lower(0);
    input.checkpoint.flush(true);
  }
  const report = emptyReport(input.clean);
  report.reason = 'the log is empty';
  report.tookMs = clock.monotonic() - input.started;
  return report;
}

/** How closely recovery looks at records. */
export function verifyLevel(config: MessageStoreConfig): Verify {
  if (!config.checkCRCOnRecover) return Verify.STRUCTURE;
  return config.forceVerifyPropCRC ? Verify.PROPERTY_CRC : Verify.BODY_CRC;
}

/** The position from which everything derived is fed again, and where to begin to look; without an index, as far as the queues need it. */
export function chooseStart(
  input: Pick<RecoverInput, 'files' | 'kinds' | 'checkpoint' | 'bounds' | 'clean' | 'config'> & {
    index?: IndexService | undefined;
    /** undefined: the ends of the other kinds of queues are not known yet, and they don't count. */
    lost?: RecoverInput['lost'];
  },
  logger: Logger,
): Start {
  const { files, kinds, checkpoint, index, bounds, clean, config } = input;
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
    const { logicsPhysicalOffset, logicsMsgTimestamp } = checkpoint;
    const what = logicsPhysicalOffset > 0 ? 'the checkpoint' : "the checkpoint's time";
    const vouches = logicsPhysicalOffset > 0 || logicsMsgTimestamp > 0;
    lower(
      claimOf(files, checkpoint),
      vouches ? `${what} vouches for the queues up to here` : 'the checkpoint vouches for nothing',
    );
  }
  for (const [topic, ofTopic] of bounds.queues) {
    for (const [queueId, { bound }] of ofTopic) {
      const queue = kinds.find(topic, queueId);
      if (input.lost === undefined && queue !== undefined && !(queue instanceof ConsumeQueue)) continue;
      const found = queue?.maxOffset ?? 0;
      if (found >= bound) continue;
      logger.warn(
        `${topic} queue ${queueId} ends at ${found}, but had ${bound} durable units: it is built again from the log`,
      );
      const lostFrom = Math.max(minimum, queue?.maxPhysicalEnd ?? minimum);
      if (lostFrom <= offset) reason = `${topic} queue ${queueId} has lost units`;
      offset = Math.min(offset, lostFrom);
    }
  }
  if (bounds.lost) lower(minimum, 'what was saved of the queues is lost');
  for (const { queue, position } of input.lost ?? []) {
    lower(Math.max(minimum, position), `${queue.topic} queue ${queue.queueId} has lost units`);
  }
  if (index !== undefined) lower(Math.max(minimum, index.durableOffset), 'the index ends here');
  offset = Math.max(minimum, offset);
  const file = segmentAt(files, offset) ?? files.at(-1)!;
  const start: Start = { dispatchFrom: offset, scanFrom: file.base, first: files.indexOf(file), reason };
  // What another broker wrote proves less: its queues are compared with the log from the start of the file on.
  if (!bounds.known) start.dispatchFrom = file.base;
  if (config.enableAcceleratedRecovery && !clean && bounds.known && recordBeginsAt(file, offset)) {
    start.scanFrom = offset;
    start.reason += ', and the log before is not looked at';
  }
  return start;
}

/** Whether a record stands at an offset of a file, as far as its head says so. */
function recordBeginsAt(file: SegmentFile, offset: number): boolean {
  const head = new Uint8Array(PHYSICAL_OFFSET_AT + 8);
  if (file.handle().readSync(head, 0, head.length, offset - file.base) < head.length) return false;
  const view = viewOf(head);
  const magic = view.getInt32(4);
  return (magic === MAGIC_V1 || magic === MAGIC_V2) && peekI64(view, PHYSICAL_OFFSET_AT) === offset;
}

/** RocketMQ: without logicsPhysicalOffset, the newest file whose first record is not younger than logicsMsgTimestamp. */
export function startByTime(files: readonly SegmentFile[], time: number): number {
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
