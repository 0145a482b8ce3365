export { ReadCache, type Ready } from './read-cache.ts';
export {
  cutSegments,
  loadSegments,
  SegmentFile,
  type SegmentFolder,
  segmentAt,
  segmentName,
} from './segment-directory.ts';
