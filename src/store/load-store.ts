// Loads and recovers everything that a store is made of. What can refuse the start comes before the first change.

import { totalmem } from 'node:os';
import { type Clock, type Logger, silentLogger, systemClock } from '../common/index.ts';
import { type FileSystem, makeDirectoryDurably, nodeFileSystem } from '../io/index.ts';
import { StoreCheckpoint } from './checkpoint/index.ts';
import { ConsumeQueueStore, CQ_UNIT_BYTES } from './consume-queue/index.ts';
import { parseDelayLevels } from './dispatch/delay-levels.ts';
import { type ArrivalListener, Dispatcher } from './dispatch/dispatcher.ts';
import { IndexLayout, IndexService } from './index-file/index.ts';
import { isSameBoot } from './recovery/boot.ts';
import { DeletedTopics } from './recovery/deleted-topics.ts';
import { loadQueueBounds } from './recovery/queue-bounds.ts';
import { recover } from './recovery/recover.ts';
import { QueueEnds } from './recovery/recover-queues.ts';
import type { RecoveryReport } from './recovery/report.ts';
import { loadSegments, ReadCache, type SegmentFile } from './segment/index.ts';
import type { MessageStoreConfig } from './store-config.ts';

/** What the store is handed (contract 1). Everything has a real default. */
export interface StoreDependencies {
  fs?: FileSystem;
  clock?: Clock;
  logger?: Logger;
  /** Bytes of memory that decide what counts as "in memory" for a pull's limits. */
  memoryBytes?: number;
  /** Written into `abort`. */
  processId?: number;
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
  logFolder: string;
  files: SegmentFile[];
  queues: ConsumeQueueStore;
  logCache: ReadCache;
  index: IndexService | undefined;
  checkpoint: StoreCheckpoint;
  deleted: DeletedTopics;
  dispatcher: Dispatcher;
  report: RecoveryReport;
  /** Physical offset up to which the checkpoint on disk vouches for the queues. */
  vouched: number;
  /** Sets who is told of arrivals in watched queues. */
  connect: (listener: ArrivalListener) => void;
}

/** Loads and recovers everything that a store is made of. */
export async function loadStore(config: MessageStoreConfig, dependencies: StoreDependencies): Promise<StoreParts> {
  const fs = dependencies.fs ?? nodeFileSystem;
  const clock = dependencies.clock ?? systemClock;
  const logger = dependencies.logger ?? silentLogger;
  const root = config.storePathRootDir;
  const logFolder = config.storePathCommitLog ?? `${root}/commitlog`;
  const delayLevels = parseDelayLevels(config.messageDelayLevel);
  // Everything that can refuse the start comes before the first change.
  const started = clock.monotonic();
  const clean = fs.stat(`${root}/abort`) === undefined;
  const files = loadSegments({
    fs,
    path: logFolder,
    size: config.mappedFileSizeCommitLog,
    setting: 'mappedFileSizeCommitLog',
    derived: false,
    logger,
  });
  const logCache = new ReadCache(LOG_BLOCK_BYTES, config.gantryReadCacheBytes * 0.75);
  const queues = new ConsumeQueueStore({
    fs,
    clock,
    logger,
    root: `${root}/consumequeue`,
    fileSize: config.mappedFileSizeConsumeQueue,
    cache: new ReadCache(QUEUE_BLOCK_BYTES, config.gantryReadCacheBytes * 0.25),
  });
  const loadStarted = clock.monotonic();
  queues.load();
  const loadedMs = clock.monotonic() - loadStarted;
  const checkpoint = StoreCheckpoint.load(fs, `${root}/checkpoint`);
  const deleted = DeletedTopics.load(fs, root, logger);
  const bounds = loadQueueBounds({ fs, root, checkpoint, deleted, logger });
  const indexStarted = clock.monotonic();
  let arrival: ArrivalListener = () => {};
  const index =
    config.messageIndexEnable && config.indexFileWriteEnable
      ? IndexService.open({
          fs,
          clock,
          logger,
          path: `${root}/index`,
          layout: new IndexLayout(config.maxHashSlotNum, config.maxIndexNum),
          lastExitClean: clean,
          indexMsgTimestamp: checkpoint.indexMsgTimestamp,
          progress: bounds.index,
          maxPhysicalOffset: files.at(-1)?.end ?? 0,
          onSealed: (endTimestamp) => {
            checkpoint.indexMsgTimestamp = endTimestamp;
          },
          onUnsealed: (endTimestamp, done) => {
            checkpoint.indexMsgTimestamp = endTimestamp;
            checkpoint.takeBack(done);
          },
        })
      : undefined;
  const indexMs = clock.monotonic() - indexStarted;
  for (const folder of [logFolder, `${root}/consumequeue`, `${root}/index`, `${root}/gantry`]) {
    makeDirectoryDurably(fs, folder);
  }
  const queuesStarted = clock.monotonic();
  const known = [...queues.all()];
  const ends = new QueueEnds(queues, {
    clean,
    bounds,
    count: known.length,
    mostLookedAt: config.gantryQueuesLookedAt,
    nothingLost: clean || isSameBoot(fs, root),
  });
  for (const queue of known) {
    ends.find(queue);
    // Files whose removal had not become durable.
    const deletedTo = deleted.endOf(queue.topic);
    if (deletedTo > 0 && queue.maxPhysicalEnd <= deletedTo) queues.removeQueue(queue);
  }
  const dispatcher = new Dispatcher({
    clock,
    logger,
    queues,
    index,
    livesFrom: (topic) => deleted.endOf(topic),
    delayLevels,
    onArrival: (topic, queueId, maxOffset, tagsCode) => arrival(topic, queueId, maxOffset, tagsCode),
  });
  const report = await recover({
    fs,
    clock,
    logger,
    config,
    root,
    logFolder,
    files,
    queues,
    checkpoint,
    deleted,
    bounds,
    index,
    dispatcher,
    clean,
    started,
    queuesMs: loadedMs + clock.monotonic() - queuesStarted,
    indexMs,
  });
  if (report.lastRecord >= 0) checkpoint.confirmPhyOffset = report.lastRecord;
  else dispatcher.lastStoreTimestamp = checkpoint.physicMsgTimestamp;
  return {
    config,
    fs,
    clock,
    logger,
    memoryBytes: dependencies.memoryBytes ?? totalmem(),
    logFolder,
    files,
    queues,
    logCache,
    index,
    checkpoint,
    deleted,
    dispatcher,
    report,
    vouched: checkpoint.logicsPhysicalOffset,
    connect: (listener) => {
      arrival = listener;
    },
  };
}
