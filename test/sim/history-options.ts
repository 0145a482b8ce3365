// What a history is asked for, and what it went through.

import type { Random } from '../../src/common/index.ts';
import type { DamagedRecordPolicy, MessageStoreConfig } from '../../src/store/index.ts';

/** The kinds of segments by the settings that choose them. */
export const SEGMENTS: Record<SegmentsUnderTest, Partial<MessageStoreConfig>> = {
  buffered: {},
  mapped: { gantrySegments: 'mapped' },
  'without-mmap': { writeWithoutMmap: true },
  pool: { transientStorePoolEnable: true, transientStorePoolSize: 2 },
  warm: { warmMapedFileEnable: true, flushLeastPagesWhenWarmMapedFile: 1 },
  'warm-mapped': { warmMapedFileEnable: true, flushLeastPagesWhenWarmMapedFile: 1, gantrySegments: 'mapped' },
};
export type SegmentsUnderTest = 'buffered' | 'mapped' | 'without-mmap' | 'pool' | 'warm' | 'warm-mapped';

export interface HistoryOptions {
  /** The disk reports syncs that it does not do: then acknowledged messages must be seen to go missing. */
  syncLies?: boolean;
  /** Default: the seed decides, three of four times for SYNC_FLUSH. */
  flushDiskType?: 'SYNC_FLUSH' | 'ASYNC_FLUSH';
  /** Sends, stops, cuts and kills alone, as seeds have it that were named before there was more. */
  plain?: boolean;
  /** Bits of durable records flip between the lives, and the start has this gantryDamagedRecord. Implies `plain`. */
  damage?: DamagedRecordPolicy;
  /** Kind of segments; default buffered. */
  segments?: SegmentsUnderTest;
  /** Old files are removed now and then; without it, also on a full disk none is. */
  retention?: boolean;
  /** Tells each event, to follow a failing seed. */
  trace?: (line: string) => void;
}

/** What a history went through. */
export interface HistoryReport {
  puts: number;
  acknowledged: number;
  cut: number;
  powerCuts: number;
  kills: number;
  cleanStops: number;
  /** Power cuts and kills during a start. */
  cutStarts: number;
  /** Deletions that were answered with success. */
  deletions: number;
  /** Derived files deleted, cut or flipped between two lives. */
  damages: number;
  /** Cuts of the log that were answered with success. */
  logCuts: number;
  /** Times that a full disk was given space, and took sends again in time. */
  refills: number;
  /** Starts that met damaged records. */
  rotten: number;
  /** Files of the log that were removed as old, those of a forced look among them. */
  removedFiles: number;
  forcedFiles: number;
  /** Files of queues and index that followed. */
  derivedFiles: number;
  /** 1 if it ended at a message that nobody was promised and that came back with a torn topic. */
  tornTopics: number;
}

export function emptyReport(): HistoryReport {
  return {
    puts: 0,
    acknowledged: 0,
    cut: 0,
    powerCuts: 0,
    kills: 0,
    cleanStops: 0,
    cutStarts: 0,
    deletions: 0,
    damages: 0,
    logCuts: 0,
    refills: 0,
    rotten: 0,
    removedFiles: 0,
    forcedFiles: 0,
    derivedFiles: 0,
    tornTopics: 0,
  };
}

/** Everything is old at once, and goes when asked for or when the disk is full; or, without retention, nothing ever is. */
export function retentionOf(random: Random | undefined): Partial<MessageStoreConfig> {
  if (random === undefined) return { deleteWhen: '', fileReservedTime: 1_000_000, cleanFileForciblyEnable: false };
  return {
    deleteWhen: '',
    fileReservedTime: random.int(8) === 0 ? 1_000_000 : 0,
    deleteFileBatchMax: 1 + random.int(3),
    deleteCommitLogFilesInterval: random.int(5),
    deleteConsumeQueueFilesInterval: random.int(5),
  };
}
