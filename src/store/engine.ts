// What an open store is made of, and how its parts hang together: who tells whom, what a start begins and a stop ends. The door is
// message-store.ts, what happens once per loop turn turns.ts.

import { errorText, GantryError } from '../common/index.ts';
import type { SyncLane } from '../io/index.ts';
import { CommitLog } from './commit-log/commit-log.ts';
import { type CompactionStore, dropCompactionLogs, openCompaction } from './compaction/index.ts';
import { AckQueue } from './flush/ack-queue.ts';
import { DerivedFlush } from './flush/derived-flush.ts';
import { DiskGuard } from './flush/disk-guard.ts';
import { GroupCommit } from './flush/group-commit.ts';
import { PoolCommit } from './flush/pool-commit.ts';
import { storedBytes } from './flush/stored-bytes.ts';
import type { StoreParts } from './load-store.ts';
import { MessageAppender, PutGuard, StageTimes } from './put/index.ts';
import { MessageReader } from './read/message-reader.ts';
import { markBoot } from './recovery/boot.ts';
import type { TruncationOptions } from './recovery/truncation.ts';
import { Retention, TopicDeletion } from './retention/index.ts';
import { segmentMemory, warmFiles } from './segment/index.ts';
import { Turns } from './turns.ts';

/** Told, before anybody is answered, of what counted and does not any more. */
export interface LogWatcher {
  /** Nothing of the log counts from `offset` on: it could not be written, or was cut. */
  cut?(offset: number, reason: string): void;
  topicDeleted?(topic: string): void;
}

/** The parts of one open store. */
export class Engine {
  readonly times: StageTimes;
  readonly log: CommitLog;
  readonly acks: AckQueue;
  /** Present: what is appended waits in the transient store pool. */
  readonly pool: PoolCommit | undefined;
  /** Where and when syncs run that senders wait for; undefined with asynchronous flush. */
  readonly lane: SyncLane | undefined;
  readonly appender: MessageAppender;
  readonly reader: MessageReader;
  readonly compaction: CompactionStore | undefined;
  readonly disk: DiskGuard;
  readonly guard: PutGuard;
  readonly derived: DerivedFlush;
  readonly turns: Turns;
  readonly retention: Retention;
  readonly deletion: TopicDeletion;
  readonly truncation: TruncationOptions;
  readonly watchers: LogWatcher[] = [];
  readonly #parts: StoreParts;

  constructor(parts: StoreParts) {
    const { config, fs, clock, logger, kinds, checkpoint, deleted, dispatcher, index } = parts;
    const root = config.storePathRootDir;
    const syncFlush = config.flushDiskType === 'SYNC_FLUSH';
    this.#parts = parts;
    this.times = new StageTimes(clock);
    this.acks = new AckQueue(clock, config.syncFlushTimeout);
    this.lane = syncFlush ? fs.openSyncLane(logger) : undefined;
    this.log = new CommitLog({
      fs,
      clock,
      logger,
      folder: parts.logFolder,
      fileSize: config.mappedFileSizeCommitLog,
      files: parts.files,
      end: parts.report.end,
      cache: parts.logCache,
      memory: segmentMemory(parts.segments, config, clock, logger, (error) =>
        this.disk.writeFailed(`the CommitLog has no space ahead: ${error.message}`),
      ),
      warm: warmFiles(config, fs, logger),
      onWriteDelayed: parts.segments.pool ? (error) => this.#writeDelayed(error) : undefined,
      reads: parts.reads,
      lane: this.lane,
      mayCommitInto: (base) => this.derived.mayCommitInto(base),
      onCommitted: () => this.turns.committedLater(),
      onFlushed: () => this.turns.flushEnded(),
      onWriteFailed: (error) => this.#writeFailed(error),
      onSyncFailed: (error) => this.#syncFailed(error),
    });
    this.pool = parts.segments.pool ? new PoolCommit(this.log, clock, config) : undefined;
    this.appender = new MessageAppender(this.log, kinds, config, clock, dispatcher.lastStoreTimestamp);
    dispatcher.startAt(parts.report.end);
    checkpoint.mark?.follow(() => ({
      flushed: this.log.flushed,
      newest: this.appender.lastStoreTimestamp,
    }));
    this.disk = new DiskGuard({
      fs,
      clock,
      logger,
      root,
      folders: [parts.logFolder, root],
      config,
      storedBytes: () => storedBytes(this.log, kinds, index),
    });
    this.guard = new PutGuard({
      clock,
      config,
      log: this.log,
      disk: this.disk,
      dispatcher,
      pool: this.pool,
    });
    this.appender.refuseLight(this.guard.deleting);
    this.derived = new DerivedFlush({
      fs,
      clock,
      logger,
      root,
      lookMs: config.flushIntervalConsumeQueue,
      leastPages: config.flushConsumeQueueLeastPages,
      thoroughMs: config.flushConsumeQueueThoroughInterval,
      log: this.log,
      queues: kinds,
      index,
      checkpoint,
      deleted,
      dispatcher,
      mostLookedAt: config.gantryQueuesLookedAt,
      vouched: parts.vouched,
      onVouched: () => this.turns.committedLater(),
      further: () => this.compaction,
    });
    this.turns = new Turns({
      clock,
      logger,
      config,
      times: this.times,
      log: this.log,
      appender: this.appender,
      acks: this.acks,
      pool: this.pool,
      group: syncFlush ? new GroupCommit(clock, this.log, this.acks) : undefined,
      dispatcher,
      kinds,
      derived: this.derived,
      checkpoint,
    });
    this.retention = new Retention({
      fs,
      clock,
      logger,
      config,
      log: this.log,
      kinds,
      index,
      disk: this.disk,
      derived: this.derived,
      onQueuesRemoved: () => dispatcher.forgetQueues(),
    });
    this.deletion = new TopicDeletion({
      log: this.log,
      kinds,
      deleted,
      dispatcher,
      appender: this.appender,
      guard: this.guard,
      acks: this.acks,
      askTurn: () => this.turns.ask(),
      onDeleted: (topic) => {
        for (const watcher of this.watchers) watcher.topicDeleted?.(topic);
      },
    });
    this.truncation = {
      logger,
      log: this.log,
      kinds,
      index,
      cutIdleIndex: parts.cutIdleIndex,
      checkpoint,
      derived: this.derived,
      deleted,
      dispatcher,
      acks: this.acks,
      onCut: (offset) => this.#tellCut(offset, 'the log was cut'),
    };
    this.reader = new MessageReader({
      logger,
      log: this.log,
      kinds,
      index,
      config,
      memoryBytes: parts.memoryBytes,
    });
    this.compaction = openCompaction(parts, this.log, this.reader);
    if (this.compaction === undefined) {
      this.watchers.push({ topicDeleted: (topic) => dropCompactionLogs(parts, topic) });
    }
  }

  /** Brings the compaction logs to where the CommitLog is, and begins what goes on by itself. @throws GantryError IO, DISK_FULL. */
  async start(): Promise<void> {
    const { compaction } = this;
    if (compaction !== undefined) {
      await compaction.load(this.#parts.report.clean);
      this.retention.addFloor(compaction);
      this.watchers.push(compaction);
    }
    markBoot(this.#parts.fs, this.#parts.config.storePathRootDir);
    compaction?.start();
    this.turns.start();
    this.pool?.start();
    this.derived.start();
    this.disk.start();
    this.retention.start();
  }

  /** After a start that failed: lets go of files and threads. What is on the disk stays as it is. */
  async release(): Promise<void> {
    this.compaction?.release();
    await this.#closeLog();
    this.#parts.index?.release();
    await this.#closeFiles();
  }

  /** Stops: refuses puts, commits, syncs, dispatches all, makes the derived stores and the checkpoint durable, removes `abort`. */
  async close(): Promise<void> {
    const { fs, config, logger } = this.#parts;
    if (this.guard.closing) return;
    this.guard.closing = true;
    this.turns.stop();
    this.pool?.stop();
    this.disk.stop();
    await this.retention.stop();
    await this.turns.quiet(true);
    const compacted = (await this.compaction?.close()) ?? true;
    const failure = await this.#closeLog();
    this.turns.progress();
    this.acks.abandon(-1, 'the store was closed');
    try {
      await this.derived.close(this.turns.committedTimestamp, !compacted);
      if (failure !== undefined) throw failure;
      if (!compacted) throw new GantryError('IO', 'a compaction log lacks messages');
      fs.remove(`${config.storePathRootDir}/abort`);
      fs.syncDirectory(config.storePathRootDir);
    } catch (error) {
      logger.error(`the store is closed, but not everything is on disk (${errorText(error)}); the next start recovers`);
    }
    await this.#closeFiles();
  }

  #closeLog(): Promise<GantryError | undefined> {
    return new Promise((resolve) => this.log.close(resolve));
  }

  async #closeFiles(): Promise<void> {
    this.#parts.kinds.close();
    this.#parts.checkpoint.close();
    await this.lane?.close();
  }

  // --- Failures

  #tellCut(offset: number, reason: string): void {
    for (const watcher of this.watchers) watcher.cut?.(offset, reason);
  }

  /** Nothing above `committed` is in the files: it was never acknowledged, and the queues take their offsets back. */
  #writeFailed(error: GantryError): void {
    const reason = `the CommitLog cannot be written: ${error.message}`;
    this.appender.takeBackOffsets();
    this.#tellCut(this.log.committed, reason);
    this.disk.writeFailed(reason);
    this.acks.abandon(this.log.committed, reason);
  }

  /** The pool keeps what cannot be written: its senders have their answers. */
  #writeDelayed(error: GantryError): void {
    this.disk.writeFailed(`the CommitLog cannot be written: ${error.message}`);
  }

  #syncFailed(error: GantryError): void {
    const reason = `a sync of the CommitLog failed: ${error.message}`;
    this.#parts.logger.error(
      `${reason}; no more sends are taken, reads go on. Restart the broker when the disk is sound`,
    );
    this.#tellCut(this.log.wrote, reason);
    this.acks.syncFailed(this.log.wrote, reason);
  }
}
