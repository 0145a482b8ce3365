// The start of the further kinds of queue files: batch queues, and the ext units of plain ones.

import { type Clock, GantryError, type Logger } from '../../common/index.ts';
import type { FileSystem } from '../../io/index.ts';
import {
  type AnyQueue,
  BATCH_UNIT_BYTES,
  BatchQueueStore,
  ConsumeQueueExt,
  type ConsumeQueueStore,
  EXT_FILE_MIN_BYTES,
  QueueKinds,
} from '../consume-queue/index.ts';
import type { ReadCache } from '../segment/index.ts';
import type { MessageStoreConfig } from '../store-config.ts';
import type { QueueBounds } from './queue-bounds.ts';
import { batchSum, lastFileOf } from './queue-sums.ts';

/**
 * Finds the files of batch queues and ext units. Changes nothing.
 * @throws GantryError CONFIG_VALUE for a length that holds no whole units, STORE_FILE_SIZE.
 */
export function openQueueKinds(
  queues: ConsumeQueueStore,
  config: MessageStoreConfig,
  common: { fs: FileSystem; clock: Clock; logger: Logger; cache: ReadCache },
  isBatchTopic: (topic: string) => boolean | undefined = () => undefined,
): QueueKinds {
  const batchBytes = config.mapperFileSizeBatchConsumeQueue;
  if (batchBytes <= 0 || batchBytes % BATCH_UNIT_BYTES !== 0) {
    throw new GantryError(
      'CONFIG_VALUE',
      `mapperFileSizeBatchConsumeQueue=${batchBytes} is no multiple of ${BATCH_UNIT_BYTES}, the bytes of a unit`,
    );
  }
  const batch = new BatchQueueStore({
    ...common,
    root: `${config.storePathRootDir}/batchconsumequeue`,
    fileSize: batchBytes,
    setting: 'mapperFileSizeBatchConsumeQueue',
  });
  batch.load();
  const kinds = new QueueKinds(queues, batch, openExt(config, common), isBatchTopic);
  kinds.ext?.load(queues);
  queues.ext = kinds.ext;
  return kinds;
}

function openExt(
  config: MessageStoreConfig,
  common: { fs: FileSystem; clock: Clock; logger: Logger; cache: ReadCache },
): ConsumeQueueExt | undefined {
  if (!config.enableConsumeQueueExt) return undefined;
  const fileSize = config.mappedFileSizeConsumeQueueExt;
  if (fileSize < EXT_FILE_MIN_BYTES) {
    throw new GantryError('CONFIG_VALUE', `mappedFileSizeConsumeQueueExt=${fileSize} holds no unit`);
  }
  return new ConsumeQueueExt({
    ...common,
    root: `${config.storePathRootDir}/consumequeue_ext`,
    fileSize,
    setting: 'mappedFileSizeConsumeQueueExt',
  });
}

/**
 * Finds where the queues really end. Answers those that were cut since their ext units are gone, or since their newest units are not what
 * they were at the stop, with the position in the log from which they are built again.
 */
export function recoverQueueKinds(
  kinds: QueueKinds,
  logMinimum: number,
  clean: boolean,
  bounds: QueueBounds,
  logger: Logger,
): Array<{ queue: AnyQueue; position: number }> {
  const lost: Array<{ queue: AnyQueue; position: number }> = [];
  for (const queue of kinds.batch.all()) {
    kinds.batch.recoverEnd(queue, clean);
    const { sum } = bounds.queues.get(queue.topic)?.get(queue.queueId) ?? {};
    // One that is short is found short of its bound.
    const isThere = sum !== undefined && sum.end <= queue.endUnit && sum.from >= lastFileOf(queue);
    if (!clean || !isThere || batchSum(kinds.batch, queue, sum.from, sum.end) === sum.crc) continue;
    logger.warn(
      `${queue.topic} queue ${queue.queueId}: its units from ${sum.from} on are not what they were when the store was closed; they are ` +
        'built again from the log',
    );
    kinds.batch.endAt(queue, sum.from);
    lost.push({ queue, position: queue.maxPhysicalEnd });
  }
  const { ext, plain } = kinds;
  if (ext === undefined) return lost;
  ext.removeOrphans();
  for (const queue of plain.all()) {
    if (ext.recover(plain, queue, logMinimum)) lost.push({ queue, position: queue.maxPhysicalEnd });
  }
  return lost;
}
