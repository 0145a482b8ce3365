// Which kind of segments a store has, from its settings. What contradicts itself refuses the start by name.

import { type Clock, GantryError, type Logger } from '../../common/index.ts';
import type { FileMapper, FileSystem } from '../../io/index.ts';
import type { MessageStoreConfig } from '../store-config.ts';
import { MappedMemory } from './mapped-memory.ts';
import { BufferedMemory, type SegmentMemory } from './segment-memory.ts';
import { WarmFiles } from './warm-files.ts';

export interface SegmentPlan {
  /** Absent: buffered. */
  mapper: FileMapper | undefined;
  /** Sends go through the transient store pool. */
  pool: boolean;
}

/**
 * Decides on the kind of segments; changes nothing. `auto` is buffered with either flush mode, see
 * docs/decisions/2026-11-30-mapped-segments.md.
 * @throws GantryError CONFIG_VALUE for settings that exclude each other, CONFIG_UNSUPPORTED where this system cannot map files.
 */
export function planSegments(config: MessageStoreConfig, fs: FileSystem, logger: Logger): SegmentPlan {
  const { gantrySegments: kind, writeWithoutMmap, transientStorePoolEnable } = config;
  for (const [key, value] of Object.entries({ writeWithoutMmap, transientStorePoolEnable })) {
    if (value && kind === 'mapped') {
      throw new GantryError(
        'CONFIG_VALUE',
        `gantrySegments=mapped and ${key}=true exclude each other: leave one of them out`,
      );
    }
  }
  // RocketMQ: says nothing.
  if (writeWithoutMmap && transientStorePoolEnable) {
    logger.warn('transientStorePoolEnable=true has no effect: writeWithoutMmap=true switches the pool off');
  }
  const mapper = kind === 'mapped' ? fs.mapper : undefined;
  if (kind === 'mapped' && mapper === undefined) {
    throw new GantryError(
      'CONFIG_UNSUPPORTED',
      'gantrySegments=mapped is not supported here: it needs Linux with 64 bits and the optional package koffi; use buffered',
    );
  }
  return { mapper, pool: transientStorePoolEnable && !writeWithoutMmap };
}

/** Where the log grows. */
export function segmentMemory(
  plan: SegmentPlan,
  config: MessageStoreConfig,
  clock: Clock,
  logger: Logger,
  onDiskFull: (error: GantryError) => void,
): SegmentMemory {
  if (plan.mapper === undefined) return new BufferedMemory();
  return new MappedMemory({
    mapper: plan.mapper,
    clock,
    logger,
    fileSize: config.mappedFileSizeCommitLog,
    writable: config.flushDiskType === 'ASYNC_FLUSH',
    lock: config.warmMapedFileEnable,
    onDiskFull,
  });
}

/** Fills files ahead, if that is asked for. RocketMQ: not with writeWithoutMmap. */
export function warmFiles(config: MessageStoreConfig, fs: FileSystem, logger: Logger): WarmFiles | undefined {
  if (!config.warmMapedFileEnable || config.writeWithoutMmap) return undefined;
  const syncPages = config.flushDiskType === 'SYNC_FLUSH' ? config.flushLeastPagesWhenWarmMapedFile : 0;
  return new WarmFiles(fs, logger, config.mappedFileSizeCommitLog, syncPages);
}
