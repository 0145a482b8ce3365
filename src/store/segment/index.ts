export { MappedMemory, type MappedMemoryOptions } from './mapped-memory.ts';
export { ReadCache, type Ready } from './read-cache.ts';
export { ReadLane, type ReadLaneOptions } from './read-lane.ts';
export {
  cutSegments,
  loadSegments,
  SegmentFile,
  type SegmentFolder,
  segmentAt,
  segmentName,
  shortRead,
  zeroBytes,
} from './segment-directory.ts';
export { BufferedMemory, type Chunk, type SegmentMemory } from './segment-memory.ts';
export { planSegments, type SegmentPlan, segmentMemory, warmFiles } from './segment-settings.ts';
export { WarmFiles } from './warm-files.ts';
