// Our own record of how far each ConsumeQueue was known to be durable: `<root>/gantry/queue-bounds.json`. A queue that is found
// shorter at a start has lost files or pages, and dispatch begins again where it really ends; RocketMQ trusts the other queues and
// never rebuilds it. The record names the checkpoint that it was written with; if another broker has written the checkpoint since,
// it is ignored (what that broker did to the queues is its own business).

import { errorText, type Logger } from '../../common/index.ts';
import { type FileSystem, readWhole, saveDurably } from '../../io/index.ts';
import type { StoreCheckpoint } from '../checkpoint/index.ts';
import type { ConsumeQueue } from '../consume-queue/index.ts';

interface Saved {
  version: 1;
  fingerprint: number[];
  /** topic -> queueId -> ordinal below which every unit is durable. */
  queues: Record<string, Record<string, number>>;
}

function fingerprint(checkpoint: StoreCheckpoint): number[] {
  return [checkpoint.logicsMsgTimestamp, checkpoint.logicsPhysicalOffset, checkpoint.indexMsgTimestamp];
}

/** Saves the durable end of every queue, durably. @throws GantryError IO, DISK_FULL. */
export function saveQueueBounds(
  fs: FileSystem,
  root: string,
  checkpoint: StoreCheckpoint,
  queues: Iterable<ConsumeQueue>,
): void {
  const saved: Saved = { version: 1, fingerprint: fingerprint(checkpoint), queues: {} };
  for (const queue of queues) {
    if (queue.synced === 0) continue;
    saved.queues[queue.topic] ??= {};
    saved.queues[queue.topic]![queue.queueId] = queue.synced;
  }
  fs.makeDirectory(`${root}/gantry`);
  saveDurably(fs, `${root}/gantry/queue-bounds.json`, JSON.stringify(saved));
}

/** The saved bounds, if they belong to this checkpoint; an unreadable file counts as none. */
export function loadQueueBounds(
  fs: FileSystem,
  root: string,
  checkpoint: StoreCheckpoint,
  logger: Logger,
): Array<{ topic: string; queueId: number; bound: number }> {
  const path = `${root}/gantry/queue-bounds.json`;
  const bounds: Array<{ topic: string; queueId: number; bound: number }> = [];
  try {
    const bytes = readWhole(fs, path);
    if (bytes === undefined) return [];
    const saved = JSON.parse(Buffer.from(bytes).toString('utf8')) as Saved;
    if (saved.version !== 1 || String(saved.fingerprint) !== String(fingerprint(checkpoint))) return [];
    for (const [topic, queues] of Object.entries(saved.queues)) {
      for (const [queueId, bound] of Object.entries(queues)) bounds.push({ topic, queueId: Number(queueId), bound });
    }
  } catch (error) {
    logger.warn(`${path} cannot be used (${errorText(error)}); the queues are checked against the log alone`);
  }
  return bounds;
}
