// Our own record of how far each ConsumeQueue was known to be durable: `<root>/gantry/queue-bounds.json`. A queue that is found
// shorter at a start has lost files or pages, and dispatch begins again where it really ends; RocketMQ trusts the other queues and
// never rebuilds it. The record names the checkpoint that it belongs to; if another broker has moved the checkpoint on since, it is
// ignored. A bound that is too high costs a scan and nothing else.

import { errorText, type Logger } from '../../common/index.ts';
import { type FileSystem, readWhole, saveDurably } from '../../io/index.ts';
import type { StoreCheckpoint } from '../checkpoint/index.ts';
import type { AnyQueue } from '../consume-queue/index.ts';
import type { DeletedTopics } from './deleted-topics.ts';

interface Saved {
  version: 1;
  /** The checkpoint's logicsPhysicalOffset that was published right after. */
  logicsPhysicalOffset: number;
  /** topic -> queueId -> queue offset below which every unit is durable. */
  queues: Record<string, Record<string, number>>;
}

/** Saves the durable end of every queue, durably; to be called before the checkpoint with these values is written. @throws GantryError IO, DISK_FULL. */
export function saveQueueBounds(
  fs: FileSystem,
  root: string,
  checkpoint: StoreCheckpoint,
  queues: Iterable<AnyQueue>,
): void {
  // Maps, and fromEntries: a topic may be called `__proto__`.
  const topics = new Map<string, Array<[queueId: string, bound: number]>>();
  for (const queue of queues) {
    if (queue.synced === 0) continue;
    const bounds = topics.get(queue.topic);
    if (bounds === undefined) topics.set(queue.topic, [[String(queue.queueId), queue.synced]]);
    else bounds.push([String(queue.queueId), queue.synced]);
  }
  const saved: Saved = {
    version: 1,
    logicsPhysicalOffset: checkpoint.logicsPhysicalOffset,
    queues: Object.fromEntries([...topics].map(([topic, bounds]) => [topic, Object.fromEntries(bounds)])),
  };
  saveDurably(fs, `${root}/gantry/queue-bounds.json`, JSON.stringify(saved));
}

/** The saved bounds, if they belong to this checkpoint, without those of topics that were deleted since; an unreadable file counts as none. */
export function loadQueueBounds(input: {
  fs: FileSystem;
  root: string;
  checkpoint: StoreCheckpoint;
  deleted: DeletedTopics;
  logger: Logger;
}): Array<{ topic: string; queueId: number; bound: number }> {
  const { fs, root, checkpoint, deleted, logger } = input;
  const path = `${root}/gantry/queue-bounds.json`;
  const bounds: Array<{ topic: string; queueId: number; bound: number }> = [];
  try {
    const bytes = readWhole(fs, path);
    if (bytes === undefined) return [];
    const saved = JSON.parse(Buffer.from(bytes).toString('utf8')) as Saved;
    // A checkpoint that has moved on was written by another broker.
    if (saved.version !== 1 || saved.logicsPhysicalOffset < checkpoint.logicsPhysicalOffset) return [];
    for (const [topic, queues] of Object.entries(saved.queues)) {
      if (deleted.endOf(topic) > saved.logicsPhysicalOffset) continue;
      for (const [queueId, bound] of Object.entries(queues)) bounds.push({ topic, queueId: Number(queueId), bound });
    }
  } catch (error) {
    logger.warn(`${path} cannot be used (${errorText(error)}); the queues are checked against the log alone`);
  }
  return bounds;
}
