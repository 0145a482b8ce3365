// Removes what is old: CommitLog files from the head, one by one, and behind them what is derived from them. RocketMQ:
// CleanCommitLogService, CleanConsumeQueueService.
//
//   a look ─► is there a reason? (hour, disk, request) ─► the oldest file ─┬─► is it expired, or is the disk so full?
//             queues and index follow in a lane of their own               ├─► is all of it durable in the queues?
//                                                                          ├─► where does each queue begin then?
//                                                                          ├─► does a floor need it?   who has not read it?
//                                                                          └─► out of the log ─► readers end ─► off the disk, durably
//
// Only the first file is ever looked at, and the next one not before the first is durably gone: there is no moment at which a stop leaves a
// hole. The file that is written to stays, and so does what is not durable in the ConsumeQueues: their ordinals would begin anew.
// A file leaves the log and the queues' minimums move in one step, so that no reader sees one without the other.

import { type Clock, errorText, GantryError, type Logger, SeldomWarning } from '../../common/index.ts';
import type { FileSystem } from '../../io/index.ts';
import type { CommitLog } from '../commit-log/commit-log.ts';
import type { ConsumeQueue, QueueKinds } from '../consume-queue/index.ts';
import type { DerivedFlush } from '../flush/derived-flush.ts';
import { type DiskGuard, DiskLevel } from '../flush/disk-guard.ts';
import type { IndexService } from '../index-file/index.ts';
import type { SegmentFile } from '../segment/index.ts';
import type { MessageStoreConfig } from '../store-config.ts';
import { isTimeToDelete } from './hours.ts';
import { beginsBelow, findQueueStart, type QueueStart } from './queue-minimum.ts';
import type { QueueMove, Removal, RemovalListener, RetentionCounts, RetentionFloor } from './removal.ts';

/** RocketMQ: the first look comes a minute after the start, and a request counts for so many looks. */
const FIRST_LOOK_MS = 60_000;
const LOOKS_OF_A_REQUEST = 20;
const HOUR_MS = 3_600_000;
/** A file is told of when so small a part of its time is left. */
const FORECAST_PART = 12;
/** Queues handled before the loop gets a turn. */
const QUEUES_PER_TURN = 256;

export interface RetentionOptions {
  fs: FileSystem;
  clock: Clock;
  logger: Logger;
  /** Read when it is needed: most of it may change while the store runs. */
  config: MessageStoreConfig;
  log: CommitLog;
  /** All kinds of queues: batch queues and ext units follow the log, too. */
  kinds: QueueKinds;
  index: IndexService | undefined;
  disk: DiskGuard;
  derived: DerivedFlush;
  /** Queues have been removed: nobody may go on with them. */
  onQueuesRemoved: () => void;
}

type Lane = 'log' | 'derived';

/** A queue that begins later, and what is told of it. */
interface Move {
  readonly queue: ConsumeQueue;
  readonly start: QueueStart;
  readonly move: QueueMove;
}

export class Retention {
  readonly counts: RetentionCounts = { files: 0, forcedFiles: 0, queueFiles: 0, indexFiles: 0, lost: new Map() };
  readonly #options: RetentionOptions;
  readonly #seldom: SeldomWarning;
  readonly #floors: RetentionFloor[] = [];
  #listener: RemovalListener = () => {};
  #timer: { cancel(): void } | undefined;
  #stopped = false;
  readonly #lanes = new Map<Lane, Promise<void>>();
  /** End the waits that are under way. */
  readonly #waits = new Set<() => void>();
  /** Looks that an administrator's request still makes. */
  #requested = 0;
  /** A file that has left the log and is still on the disk. */
  #dying: { file: SegmentFile; since: number; retryAt: number } | undefined;
  #forecastAt: number | undefined;
  /** The log's minimum that the queues' and the index's files have followed. */
  #cleanedTo = -1;

  constructor(options: RetentionOptions) {
    this.#options = options;
    this.#seldom = new SeldomWarning(options.clock, options.logger);
  }

  start(): void {
    const { clock, config } = this.#options;
    this.#timer = clock.after(FIRST_LOOK_MS, () => {
      this.#look();
      this.#timer = clock.every(config.cleanResourceInterval, () => this.#look());
    });
  }

  /** Resolves when nothing is being removed any more. A file that a reader holds stays on the disk, and goes after the next start. */
  async stop(): Promise<void> {
    this.#stopped = true;
    this.#timer?.cancel();
    for (const end of this.#waits) end();
    await Promise.all(this.#lanes.values());
  }

  /** Expired files go now, whatever the hour. RocketMQ: executeDeleteFilesManually, with the next look. */
  request(): void {
    this.#requested = LOOKS_OF_A_REQUEST;
    this.#look();
  }

  /** Adds someone whose needs hold files back until the disk forces them out. */
  addFloor(floor: RetentionFloor): void {
    this.#floors.push(floor);
  }

  /** Sets who is told of each removal just before it happens; one listener a store. */
  onRemoval(listener: RemovalListener): void {
    this.#listener = listener;
  }

  /**
   * Removes queues whose messages are all gone from the log, if `mayGo` allows it; answers how many. Their ordinals begin at 0 if such a queue
   * comes again. RocketMQ: cleanExpiredConsumerQueue, which also removes those that are sent to, below the offsets of their groups.
   */
  async removeExpiredQueues(mayGo: (topic: string, queueId: number) => boolean): Promise<number> {
    const { log, logger, kinds, derived, onQueuesRemoved } = this.#options;
    let removed = 0;
    let seen = 0;
    for (const queue of kinds.all()) {
      if (++seen % QUEUES_PER_TURN === 0) await this.#turn();
      const { topic, queueId, maxPhysicalEnd } = queue;
      const isEmpty = queue.minOffset === queue.maxOffset && queue.nextOffset === queue.maxOffset;
      if (!isEmpty || queue.maxOffset === 0 || maxPhysicalEnd > log.minimum || queue.watched) continue;
      if (!mayGo(topic, queueId)) continue;
      kinds.removeQueue(queue);
      onQueuesRemoved();
      removed++;
      logger.info(`${topic} queue ${queueId} is removed: its messages are gone from the log`);
    }
    // What is said of their ends must not outlive them.
    if (removed > 0) await new Promise<void>((resolve) => derived.flush(() => resolve()));
    return removed;
  }

  #look(): void {
    this.#run('log', () => this.#cleanLog());
    this.#run('derived', () => this.#cleanDerived());
  }

  /** Starts the work of a lane unless it is at work already. */
  #run(lane: Lane, work: () => Promise<void>): void {
    if (this.#stopped || this.#lanes.has(lane)) return;
    const running = work()
      .catch((error: unknown) => {
        if (!(error instanceof GantryError)) throw error;
        this.#seldom.warn(lane, `old files cannot be removed (${errorText(error)}); tried again`);
      })
      .finally(() => this.#lanes.delete(lane));
    this.#lanes.set(lane, running);
  }

  // --- The log

  async #cleanLog(): Promise<void> {
    const { clock, config, disk } = this.#options;
    const requested = this.#requested > 0;
    if (requested) this.#requested--;
    if (this.#dying !== undefined && (clock.monotonic() < this.#dying.retryAt || !(await this.#endDying()))) return;
    const reason = requested || disk.probe() >= DiskLevel.EXPIRED || isTimeToDelete(config.deleteWhen, clock.now());
    if (!reason) return await this.#forecast();
    for (let n = 0; n < config.deleteFileBatchMax; n++) {
      if (n > 0) await this.#pause(config.deleteCommitLogFilesInterval);
      if (this.#stopped || !(await this.#removeFirst())) return;
      // Queues and index follow while the next file is looked at.
      this.#run('derived', () => this.#cleanDerived());
    }
  }

  /** Removes the oldest file if it may go; false if it stays, or is not off the disk yet. */
  async #removeFirst(): Promise<boolean> {
    const { log, derived, config, disk } = this.#options;
    const file = log.files[0]!;
    // RocketMQ: removes up to deleteFileBatchMax files by force before it looks at the disk again.
    const forced = config.cleanFileForciblyEnable && disk.probe() >= DiskLevel.FORCED;
    const expired = this.#isExpired(file);
    if (log.files.length < 2 || !(expired || forced)) return false;
    if (!(await derived.makeDurable(file.end))) return false;
    for (const floor of this.#floors) await floor.prepare?.({ start: file.base, end: file.end, forced });
    const starts = await this.#queueStarts(file.end);
    // From here on to the end of the step nothing is awaited.
    if (this.#stopped || log.files.length < 2 || log.files[0] !== file || derived.durableTo < file.end) return false;
    const removal = removalOf(file, forced, starts, this.#batchMoves(file.end));
    if (!this.#mayGo(removal)) return false;
    this.#listener(removal);
    log.dropFirst();
    for (const { queue, start } of starts) moveMinimum(queue, start);
    this.#moveOtherKinds(log.minimum, starts);
    if (!expired) this.counts.forcedFiles++;
    this.#dying = { file, since: this.#options.clock.monotonic(), retryAt: 0 };
    return await this.#endDying();
  }

  /** Tells of the oldest file while it is not expired yet but soon will be, once an hour. */
  async #forecast(): Promise<void> {
    const { log, clock, config } = this.#options;
    const file = log.files[0]!;
    const left = this.#timeLeft(file);
    const reserved = config.fileReservedTime * HOUR_MS;
    const told = this.#forecastAt !== undefined && clock.monotonic() - this.#forecastAt < HOUR_MS;
    if (told || log.files.length < 2 || left > reserved / FORECAST_PART) return;
    this.#forecastAt = clock.monotonic();
    const soon =
      left > 0 ? `in ${(left / HOUR_MS).toFixed(1)} h or later` : `when deleteWhen=${config.deleteWhen} comes`;
    const starts = await this.#queueStarts(file.end);
    if (!this.#stopped) this.#listener({ ...removalOf(file, false, starts, this.#batchMoves(file.end)), soon });
  }

  #isExpired(file: SegmentFile): boolean {
    return this.#timeLeft(file) <= 0;
  }

  /** What of the batch queues goes when the log begins at `logMinimum`. They are few, and read on the loop. */
  #batchMoves(logMinimum: number): QueueMove[] {
    const { batch } = this.#options.kinds;
    const moves: QueueMove[] = [];
    try {
      for (const queue of batch.all()) {
        const { topic, queueId, minOffset: from } = queue;
        const to = batch.minimumAt(queue, logMinimum).ordinal;
        if (to > from) moves.push({ topic, queueId, from, to });
      }
    } catch (error) {
      this.#warnOfKinds(error);
    }
    return moves;
  }

  /** As it is with the plain queues. Files of batch queues and ext units that hold nothing else go with it. */
  #moveOtherKinds(minimum: number, starts: ReadonlyArray<{ queue: ConsumeQueue }>): void {
    const { kinds } = this.#options;
    try {
      for (const queue of kinds.batch.all()) kinds.batch.correctMinimum(queue, minimum);
      for (const { queue } of starts) kinds.ext?.dropBelowMinimum(kinds.plain, queue);
    } catch (error) {
      this.#warnOfKinds(error);
    }
  }

  #warnOfKinds(error: unknown): void {
    if (!(error instanceof GantryError)) throw error;
    this.#seldom.warn('kinds', `the minimum of a batch queue or of ext units stays (${error.message})`);
  }

  /** Ms until a file is expired. RocketMQ: by the time of the file's last write, not by that of its messages. */
  #timeLeft(file: SegmentFile): number {
    const { fs, clock, config } = this.#options;
    const modified = fs.stat(file.path)?.modifiedMs ?? 0;
    return modified + config.fileReservedTime * HOUR_MS - clock.now();
  }

  /** The queues that will begin later when the log begins at `logMinimum`, and where. */
  async #queueStarts(logMinimum: number): Promise<Move[]> {
    const queues = this.#options.kinds.plain;
    const starts: Move[] = [];
    let seen = 0;
    for (const queue of queues.all()) {
      if (++seen % QUEUES_PER_TURN === 0) await this.#turn();
      if (this.#stopped) break;
      if (!beginsBelow(queue, logMinimum)) continue;
      try {
        const start = await findQueueStart(queues, queue, logMinimum);
        if (start !== undefined) starts.push({ queue, start, move: moveOf(queue, start) });
      } catch (error) {
        // A queue that cannot be read must not keep the disk full: a pull there skips what is gone.
        if (!(error instanceof GantryError)) throw error;
        this.#seldom.warn(queue.folder, `${queue.folder}: its minimum stays at ${queue.minOffset} (${error.message})`);
      }
    }
    return starts;
  }

  /** Whether no floor needs a file; by force it goes all the same, and what was needed is counted. */
  #mayGo(removal: Removal): boolean {
    const where = `the CommitLog from ${removal.start} to ${removal.end}`;
    for (const floor of this.#floors) {
      const needed = floor.needed(removal);
      if (needed <= 0) continue;
      if (!removal.forced) {
        this.#seldom.warn(
          `floor ${floor.name}`,
          `${where} is expired and stays: ${needed} are still needed by ${floor.name}`,
        );
        return false;
      }
      this.counts.lost.set(floor.name, (this.counts.lost.get(floor.name) ?? 0) + needed);
      this.#seldom.warn(
        `lost ${floor.name}`,
        `${where} goes since the disk is full, ${needed} in it are still needed by ${floor.name}`,
      );
    }
    return true;
  }

  /** Takes the dying file off the disk, when its readers have ended or had their time; false if it is still there. */
  async #endDying(): Promise<boolean> {
    const { fs, clock, logger, config } = this.#options;
    const dying = this.#dying!;
    const { file } = dying;
    if (file.isPinned) {
      await this.#untilFree(file, dying.since + config.destroyMapedFileIntervalForcibly - clock.monotonic());
      if (this.#stopped) return false;
      if (file.isPinned) {
        const seconds = Math.round((clock.monotonic() - dying.since) / 1000);
        logger.warn(`${file.path} is removed although something has been reading it for ${seconds} s`);
      }
    }
    const error = await new Promise<GantryError | undefined>((resolve) => fs.removeLater(file.path, resolve));
    if (error !== undefined) {
      dying.retryAt = clock.monotonic() + config.redeleteHangedFileInterval;
      this.#seldom.warn(
        'dying',
        `an old file cannot be removed (${error.message}); tried again, and no other is removed before`,
      );
      return false;
    }
    this.#dying = undefined;
    this.counts.files++;
    logger.info(`${file.path} is removed; the log begins at ${this.#options.log.minimum}`);
    return true;
  }

  // --- What is derived

  /** Removes files of queues and index that hold nothing of the log any more. */
  async #cleanDerived(): Promise<void> {
    const { log } = this.#options;
    while (this.#mayFollow && log.minimum !== this.#cleanedTo) {
      if (!(await this.#cleanDerivedTo(log.minimum))) return;
    }
  }

  /** As long as a file of the log is still on the disk, the next start may find it there, and wants its units. */
  get #mayFollow(): boolean {
    return !this.#stopped && this.#dying === undefined;
  }

  /** As `cleanDerived`, for a log that begins at `minimum`; false if something is left to do. */
  async #cleanDerivedTo(minimum: number): Promise<boolean> {
    const { index, config } = this.#options;
    const queues = this.#options.kinds.plain;
    let whole = true;
    let seen = 0;
    for (const queue of queues.all()) {
      if (++seen % QUEUES_PER_TURN === 0) await this.#turn();
      const removed = await this.#cleanQueue(queue);
      if (removed < 0) whole = false;
      if (removed > 0) await this.#pause(config.deleteConsumeQueueFilesInterval);
      if (!this.#mayFollow) return false;
    }
    if (index !== undefined) this.counts.indexFiles += await index.deleteExpired(minimum);
    if (whole) this.#cleanedTo = minimum;
    return whole;
  }

  /** Removes the expired files of a queue; answers how many, -1 if one could not be removed. */
  async #cleanQueue(queue: ConsumeQueue): Promise<number> {
    const queues = this.#options.kinds.plain;
    let removed = 0;
    try {
      for (; this.#mayFollow && queues.firstFileExpired(queue); removed++) await queues.removeFirstFile(queue);
    } catch (error) {
      if (!(error instanceof GantryError)) throw error;
      // Its topic was deleted meanwhile.
      if (queues.find(queue.topic, queue.queueId) !== queue) return 0;
      this.#seldom.warn('queue files', `an old ConsumeQueue file cannot be removed (${error.message}); tried again`);
      return -1;
    } finally {
      this.counts.queueFiles += removed;
    }
    return removed;
  }

  // --- Waiting

  #pause(ms: number): Promise<void> {
    if (ms <= 0) return this.#turn();
    return this.#wait(ms, () => {});
  }

  #untilFree(file: SegmentFile, ms: number): Promise<void> {
    return this.#wait(Math.max(0, ms), (end) => {
      file.onFree = end;
    });
  }

  /** Resolves after `ms`, when the function given to `listen` is called, or at the stop. */
  #wait(ms: number, listen: (end: () => void) => void): Promise<void> {
    if (this.#stopped) return Promise.resolve();
    return new Promise((resolve) => {
      const end = (): void => {
        timer.cancel();
        this.#waits.delete(end);
        resolve();
      };
      const timer = this.#options.clock.after(ms, end);
      this.#waits.add(end);
      listen(end);
    });
  }

  #turn(): Promise<void> {
    return new Promise((resolve) => this.#options.clock.soon(resolve));
  }
}

function removalOf(
  file: SegmentFile,
  forced: boolean,
  starts: readonly Move[],
  batchMoves: readonly QueueMove[],
): Removal {
  const moves = [...starts.map(({ move }) => move), ...batchMoves];
  return { start: file.base, end: file.end, forced, moves };
}

function moveOf({ topic, queueId, minOffset }: ConsumeQueue, { ordinal }: QueueStart): QueueMove {
  return { topic, queueId, from: minOffset, to: ordinal };
}

/** Lets a queue begin later. What has been dispatched or cut since the place was found counts. */
function moveMinimum(queue: ConsumeQueue, start: QueueStart): void {
  const ordinal = Math.min(start.ordinal, queue.maxOffset);
  if (ordinal <= queue.minOffset) return;
  queue.minOffset = ordinal;
  queue.minPhysicalOffset = ordinal === start.ordinal ? start.physicalOffset : -1;
}
