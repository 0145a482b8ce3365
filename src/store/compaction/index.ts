export type { CompactionStore } from './compaction-store.ts';
export { checkCompactionFiles } from './load-pairs.ts';
export { dropCompactionLogs, openCompaction } from './open-compaction.ts';
export { isBlankKey } from './record-copy.ts';
export { type CompactionFault, type CompactionReport, verifyCompaction } from './verify-folder.ts';
