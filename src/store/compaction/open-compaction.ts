// Puts the compaction logs of a store together: what they see of the queues, the CommitLog and its reader.

import { availableParallelism } from 'node:os';
import { GantryError } from '../../common/index.ts';
import type { CommitLog } from '../commit-log/commit-log.ts';
import { ConsumeQueue, canBeFolder, type QueueKinds } from '../consume-queue/index.ts';
import type { StoreParts } from '../load-store.ts';
import type { MessageReader } from '../read/message-reader.ts';
import type { DeletedTopics } from '../recovery/deleted-topics.ts';
import { COMPACTION_FOLDER } from './compaction-format.ts';
import type { CompactionSource } from './compaction-log.ts';
import { CompactionPositions } from './compaction-positions.ts';
import { CompactionStore } from './compaction-store.ts';
import { done } from './waits.ts';

/** Without `load`, which looks at the files; undefined if the settings turn compaction off. */
export function openCompaction(parts: StoreParts, log: CommitLog, reader: MessageReader): CompactionStore | undefined {
  const { config, fs, clock, logger, kinds, logCache, reads, memoryBytes, random, deleted, isCompactionTopic } = parts;
  if (!config.enableCompaction) return undefined;
  const root = config.storePathRootDir;
  const store = new CompactionStore({
    fs,
    clock,
    logger,
    random,
    root,
    config,
    cache: logCache,
    reads,
    source: sourceOf(log, kinds, reader, deleted),
    positions: new CompactionPositions(fs, `${root}/${COMPACTION_FOLDER}`),
    inMemoryBytes: (memoryBytes * config.accessMessageInMemoryMaxRatio) / 100,
    isCompacted: isCompactionTopic,
    queues: () => kinds.plain.all(),
    processors: availableParallelism(),
  });
  kinds.plain.onCreated = (topic, queueId) => store.queueCreated(topic, queueId);
  return store;
}

/**
 * With compaction turned off: the log of a topic that is deleted goes all the same, or its messages would be those of the topic that is made anew.
 */
export function dropCompactionLogs({ fs, logger, config }: StoreParts, topic: string): void {
  for (const kind of ['compactionCq', 'compactionLog']) {
    const folder = `${config.storePathRootDir}/${COMPACTION_FOLDER}/${kind}`;
    if (fs.stat(`${folder}/${topic}`) === undefined) continue;
    try {
      fs.removeTree(`${folder}/${topic}`);
      fs.syncDirectory(folder);
    } catch (error) {
      if (!(error instanceof GantryError)) throw error;
      logger.warn(
        `${folder}/${topic} cannot be removed (${error.message}): the start that turns compaction on removes it`,
      );
    }
  }
}

function sourceOf(log: CommitLog, kinds: QueueKinds, reader: MessageReader, deleted: DeletedTopics): CompactionSource {
  return {
    bounds: (topic, queueId) => kinds.plain.find(topic, queueId),
    units: (topic, queueId, offset, count, units, ready) => reader.units(topic, queueId, offset, count, units, ready),
    recordInMemory: (offset, out) => reader.recordInMemory(offset, out),
    recordAt: (offset) => reader.recordAt(offset),
    get logMinimum() {
      return log.minimum;
    },
    mayBeOfDeleted: (topic) => deleted.endOf(topic) > 0 && deleted.endOf(topic) >= log.minimum,
    syncLog: (offset) => done((end) => log.syncTo(Math.min(offset, log.committed), end)),
    continueAt(topic, queueId, offset) {
      if (!canBeFolder(topic)) return;
      const queue = kinds.plain.findOrCreate(topic, queueId);
      if (queue instanceof ConsumeQueue && queue.isFresh) kinds.plain.beginAt(queue, offset);
    },
  };
}
