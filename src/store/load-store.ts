// Loads and recovers everything that a store is made of. What can refuse the start comes before the first change.

import { totalmem } from 'node:os';
import {
  type Clock,
  GantryError,
  type Logger,
  type Random,
  silentLogger,
  systemClock,
  systemRandom,
} from '../common/index.ts';
import { type FileSystem, makeDirectoryDurably, nodeFileSystem, writeWhole } from '../io/index.ts';
import { DurableMark, StoreCheckpoint } from './checkpoint/index.ts';
import { checkCompactionFiles } from './compaction/index.ts';
import { ConsumeQueue, ConsumeQueueStore, CQ_UNIT_BYTES, type QueueKinds } from './consume-queue/index.ts';
import { parseDelayLevels } from './dispatch/delay-levels.ts';
import { type ArrivalListener, Dispatcher, type FilterBits } from './dispatch/dispatcher.ts';
import { IndexLayout, type IndexOptions, IndexService, scanAhead } from './index-file/index.ts';
import { isSameBoot } from './recovery/boot.ts';
import { DamageCheck } from './recovery/damage.ts';
import { DeletedTopics } from './recovery/deleted-topics.ts';
import { loadQueueBounds } from './recovery/queue-bounds.ts';
import { chooseStart, recover, verifyLevel } from './recovery/recover.ts';
import { openQueueKinds, recoverQueueKinds } from './recovery/recover-kinds.ts';
import { headlessQueues, isOfEarlierLife, QueueEnds } from './recovery/recover-queues.ts';
import type { RecoveryReport } from './recovery/report.ts';
import { ShareParser } from './recovery/share-parser.ts';
import { parseHours } from './retention/index.ts';
import {
  loadSegments,
  planSegments,
  ReadCache,
  ReadLane,
  type SegmentFile,
  type SegmentPlan,
} from './segment/index.ts';
import type { MessageStoreConfig } from './store-config.ts';

/** What the store is handed. Everything has a real default. */
export interface StoreDependencies {
  fs?: FileSystem;
  clock?: Clock;
  logger?: Logger;
  /** Bytes of memory that decide what counts as "in memory" for a pull's limits. */
  memoryBytes?: number;
  /** Threads for a start that has much to look at; for tests. */
  parser?: ShareParser;
  /** Written into `abort`. */
  processId?: number;
  /** Whether a topic's queues are batch queues (attribute queue.type = BatchCQ); undefined for a topic without a config. */
  isBatchTopic?: (topic: string) => boolean | undefined;
  /** Whether a topic is compacted by key (attribute cleanup.policy = COMPACTION). Default: none is. */
  isCompactionTopic?: (topic: string) => boolean;
  random?: Random;
  /** With `enableConsumeQueueExt`: filter bits of what is dispatched. Default: none. */
  filterBits?: FilterBits;
}

const LOG_BLOCK_BYTES = 256 * 1024;
/** A multiple of the unit, so that no unit lies in two blocks. */
const QUEUE_BLOCK_BYTES = 1638 * CQ_UNIT_BYTES;

/** All that an open store is made of. */
export interface StoreParts {
  config: MessageStoreConfig;
  fs: FileSystem;
  clock: Clock;
  logger: Logger;
  memoryBytes: number;
  random: Random;
  isCompactionTopic: (topic: string) => boolean;
  logFolder: string;
  files: SegmentFile[];
  kinds: QueueKinds;
  segments: SegmentPlan;
  logCache: ReadCache;
  /** Where all reads from disk go through. */
  reads: ReadLane;
  index: IndexService | undefined;
  checkpoint: StoreCheckpoint;
  deleted: DeletedTopics;
  dispatcher: Dispatcher;
  report: RecoveryReport;
  /** Physical offset up to which the checkpoint on disk vouches for the queues. */
  vouched: number;
  /**
   * An index that is not kept now shares the log's fate all the same: what a crash left is verified at the start, and what the log is cut of
   * leaves it. The next life that keeps it would trust it otherwise. @throws GantryError IO, DISK_FULL.
   */
  cutIdleIndex: (offset: number) => Promise<void>;
  /** Sets who is told of arrivals in watched queues. */
  connect: (listener: ArrivalListener) => void;
}

/** Memory that this process may use: the machine's, or its control group's where that is less. */
function memoryLimit(): number {
  const machine = totalmem();
  const limit = process.constrainedMemory();
  return limit > 0 && limit < machine ? limit : machine;
}

/** Loads and recovers everything that a store is made of. */
export async function loadStore(config: MessageStoreConfig, dependencies: StoreDependencies): Promise<StoreParts> {
  const logger = dependencies.logger ?? silentLogger;
  // Its threads are made when there is much to look at, and not kept.
  const parser = config.enableBuildConsumeQueueConcurrently
    ? (dependencies.parser ?? new ShareParser(logger))
    : undefined;
  const opened: Array<() => unknown> = [];
  try {
    return await load(config, dependencies, parser, opened);
  } catch (error) {
    for (const close of opened) await close();
    throw error;
  } finally {
    await parser?.close();
  }
}

/** Puts into `opened` what lets go of files if this throws. */
async function load(
  config: MessageStoreConfig,
  dependencies: StoreDependencies,
  parser: ShareParser | undefined,
  opened: Array<() => unknown>,
): Promise<StoreParts> {
  const fs = dependencies.fs ?? nodeFileSystem;
  const clock = dependencies.clock ?? systemClock;
  const logger = dependencies.logger ?? silentLogger;
  const root = config.storePathRootDir;
  const logFolder = config.storePathCommitLog ?? `${root}/commitlog`;
  const delayLevels = parseDelayLevels(config.messageDelayLevel);
  parseHours(config.deleteWhen);
  // Everything that can refuse the start comes before the first change.
  const started = clock.monotonic();
  if (config.enableCompaction) checkCompactionFiles(fs, config);
  const segments = planSegments(config, fs, logger);
  const clean = fs.stat(`${root}/abort`) === undefined;
  const files = loadSegments({
    fs,
    path: logFolder,
    size: config.mappedFileSizeCommitLog,
    setting: 'mappedFileSizeCommitLog',
    derived: false,
    logger,
  });
  opened.push(() => {
    for (const file of files) file.close();
  });
  const reads = new ReadLane({
    clock,
    maxBytes: config.gantryColdReadBytesInFlight,
    bytesPerSecond: config.gantryColdReadBytesPerSecond,
  });
  const logCache = new ReadCache(
    reads,
    LOG_BLOCK_BYTES,
    config.gantryReadCacheBytes * 0.75,
    () => config.dataReadAheadEnable,
  );
  const queueCache = new ReadCache(reads, QUEUE_BLOCK_BYTES, config.gantryReadCacheBytes * 0.25);
  const queues = new ConsumeQueueStore({
    fs,
    clock,
    logger,
    root: `${root}/consumequeue`,
    fileSize: config.mappedFileSizeConsumeQueue,
    cache: queueCache,
  });
  opened.push(() => queues.close());
  const loadStarted = clock.monotonic();
  queues.load();
  const kinds = openQueueKinds(queues, config, { fs, clock, logger, cache: queueCache }, dependencies.isBatchTopic);
  opened.push(() => kinds.close());
  const loadedMs = clock.monotonic() - loadStarted;
  const checkpoint = StoreCheckpoint.load(fs, `${root}/checkpoint`);
  opened.push(() => checkpoint.close());
  const deleted = DeletedTopics.load(fs, root, logger);
  kinds.checkKinds((topic) => deleted.endOf(topic) > 0);
  const queuesStarted = clock.monotonic();
  const { mark, found } = DurableMark.load(fs, clock, root, checkpoint.isAbsent ? undefined : checkpoint.values);
  checkpoint.mark = mark;
  const bounds = loadQueueBounds({ fs, root, checkpoint, isOurs: found !== undefined, deleted, logger });
  const nothingLost = clean || isSameBoot(fs, root);
  const isIndexed = config.messageIndexEnable && config.indexFileWriteEnable;
  const indexOptions = (lastExitClean: boolean): IndexOptions => ({
    fs,
    clock,
    logger,
    path: `${root}/index`,
    layout: new IndexLayout(config.maxHashSlotNum, config.maxIndexNum),
    lastExitClean,
    indexMsgTimestamp: checkpoint.indexMsgTimestamp,
    maxPhysicalOffset: files.at(-1)?.end ?? 0,
    onSealed: (endTimestamp) => {
      checkpoint.indexMsgTimestamp = endTimestamp;
    },
    onUnsealed: (endTimestamp, done) => {
      checkpoint.indexMsgTimestamp = endTimestamp;
      checkpoint.takeBack(done);
    },
  });
  const ahead = isIndexed ? scanAhead(indexOptions(clean)) : undefined;
  if (ahead !== undefined) opened.push(() => ahead.close());
  const known = [...queues.all()];
  const ends = new QueueEnds(queues, {
    clean,
    bounds,
    count: known.length,
    mostLookedAt: config.gantryQueuesLookedAt,
    nothingLost,
    logger,
  });
  for (const queue of known) ends.find(queue);
  const queuesMs = loadedMs + clock.monotonic() - queuesStarted;
  const damage = new DamageCheck({
    parser,
    fs,
    clock,
    logger,
    config,
    root,
    files,
    queues,
    checkpoint,
    durable: found,
    verify: verifyLevel(config),
  });
  const lookStarted = clock.monotonic();
  if (files.length > 0) {
    await damage.look(chooseStart({ files, kinds, checkpoint, bounds, clean, config }, silentLogger).scanFrom);
  }
  const indexStarted = clock.monotonic();
  const lookMs = indexStarted - lookStarted;
  let arrival: ArrivalListener = () => {};
  const index = isIndexed
    ? IndexService.open({ ...indexOptions(clean), progress: bounds.index, scanned: await ahead?.end() })
    : undefined;
  if (index !== undefined) opened.push(() => index.release());
  const indexMs = clock.monotonic() - indexStarted;
  for (const folder of [logFolder, `${root}/consumequeue`, `${root}/index`, `${root}/gantry`]) {
    makeDirectoryDurably(fs, folder);
  }
  // From here on files change, and the log makes new ones: a start that is cut short was no orderly stop.
  writeWhole(fs, `${root}/abort`, String(dependencies.processId ?? process.pid), true);
  fs.syncDirectory(root);
  // What a killed process had renamed last may be in the cache alone.
  if (!clean) fs.syncDirectory(`${root}/gantry`);
  ends.cut();
  const headless = headlessQueues(queues, bounds, files[0]?.base ?? 0);
  for (const queue of headless) {
    logger.warn(`${queue.folder} has lost its first file: the queue is built again from the log`);
    queues.clear(queue);
  }
  const lost = recoverQueueKinds(kinds, files[0]?.base ?? 0, clean, bounds, logger);
  for (const queue of headless) lost.push({ queue, position: files[0]?.base ?? 0 });
  for (const queue of [...kinds.all()]) {
    // Files whose removal had not become durable.
    const deletedTo = deleted.endOf(queue.topic);
    const isOld =
      queue instanceof ConsumeQueue
        ? isOfEarlierLife(queues, queue, deletedTo)
        : queue.maxPhysicalEnd >= 0 && queue.maxPhysicalEnd <= deletedTo;
    if (isOld) kinds.removeQueue(queue);
  }
  const dispatcher = new Dispatcher({
    clock,
    logger,
    kinds,
    multiDispatch: config.enableMultiDispatch,
    index,
    livesFrom: (topic) => deleted.endOf(topic),
    delayLevels,
    onArrival: (topic, queueId, maxOffset, tagsCode, bytes, propertiesStart, propertiesEnd) =>
      arrival(topic, queueId, maxOffset, tagsCode, bytes, propertiesStart, propertiesEnd),
    filterBits: dependencies.filterBits,
  });
  const report = await recover({
    fs,
    clock,
    logger,
    config,
    root,
    logFolder,
    files,
    kinds,
    lost,
    checkpoint,
    deleted,
    bounds,
    index,
    dispatcher,
    damage,
    parser,
    clean,
    started,
    phases: { queues: queuesMs, look: lookMs, index: indexMs },
  });
  const cutIdleIndex = async (offset: number, lastExitClean: boolean): Promise<void> => {
    if (index !== undefined || fs.list(`${root}/index`).length === 0) return;
    try {
      const idle = IndexService.open(indexOptions(lastExitClean));
      await idle.truncateTo(offset);
      await idle.close();
    } catch (error) {
      // With these settings it could not be turned on either.
      if (!(error instanceof GantryError && error.code === 'STORE_FILE_SIZE')) throw error;
      logger.warn(`${error.message}; the index is turned off and stays as it is`);
    }
  };
  await cutIdleIndex(report.end, clean);
  if (report.lastRecord >= 0) checkpoint.confirmPhyOffset = report.lastRecord;
  else dispatcher.lastStoreTimestamp = checkpoint.physicMsgTimestamp;
  return {
    config,
    fs,
    clock,
    logger,
    memoryBytes: dependencies.memoryBytes ?? memoryLimit(),
    random: dependencies.random ?? systemRandom,
    isCompactionTopic: dependencies.isCompactionTopic ?? (() => false),
    logFolder,
    files,
    kinds,
    segments,
    logCache,
    reads,
    index,
    checkpoint,
    deleted,
    dispatcher,
    report,
    vouched: checkpoint.logicsPhysicalOffset,
    cutIdleIndex: (offset) => cutIdleIndex(offset, true),
    connect: (listener) => {
      arrival = listener;
    },
  };
}
