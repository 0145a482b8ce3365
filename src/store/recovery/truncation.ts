// Cuts the log, and everything derived from it, while the store is open. What is done to the disk comes in such an order that a start in
// between finds nothing vouched for that is gone.

import type { Logger } from '../../common/index.ts';
import type { StoreCheckpoint } from '../checkpoint/index.ts';
import type { CommitLog } from '../commit-log/commit-log.ts';
import type { QueueKinds } from '../consume-queue/index.ts';
import type { Dispatcher } from '../dispatch/dispatcher.ts';
import type { AckQueue } from '../flush/ack-queue.ts';
import type { DerivedFlush } from '../flush/derived-flush.ts';
import type { IndexService } from '../index-file/index.ts';
import type { DeletedTopics } from './deleted-topics.ts';
import { cutQueueToLog } from './recover-queues.ts';

export interface TruncationOptions {
  logger: Logger;
  log: CommitLog;
  kinds: QueueKinds;
  index: IndexService | undefined;
  /** Cuts an index that is not kept now. */
  cutIdleIndex: (offset: number) => Promise<void>;
  checkpoint: StoreCheckpoint;
  derived: DerivedFlush;
  deleted: DeletedTopics;
  dispatcher: Dispatcher;
  acks: AckQueue;
  /** Told of the cut when the log is cut and nothing is dispatched from there yet. */
  onCut: (offset: number) => void;
}

/** Cuts at a record boundary, durably. Everything put is committed, synced and dispatched. @throws GantryError IO, DISK_FULL: some of the end may be gone. */
export async function truncate(options: TruncationOptions, offset: number): Promise<void> {
  const { logger, log, kinds, index, cutIdleIndex, checkpoint, derived, deleted, dispatcher, acks, onCut } = options;
  const goOn = await derived.pause();
  try {
    // First: units that are gone must not be vouched for, nor bytes be durable that are not there.
    checkpoint.mark?.lower(offset);
    await derived.logCutTo(offset);
    await derived.writeCheckpoint();
    for (const queue of kinds.plain.all()) cutQueueToLog(kinds.plain, queue, offset, logger);
    for (const queue of kinds.batch.all()) kinds.batch.cutToLog(queue, offset);
    await index?.truncateTo(offset);
    await cutIdleIndex(offset);
    log.truncateTo(offset);
    onCut(offset);
    dispatcher.startAt(offset);
    // What is put now waits for its own bytes.
    acks.progress(log.committed, log.flushed);
    deleted.lowerTo(offset);
    dispatcher.livesChanged();
    derived.saveBounds();
  } finally {
    checkpoint.mark?.release();
    goOn();
  }
}
